"""Groups of clusters: names, labels, predictions."""

import math

import pytest
import torch

from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.laws.cluster_groups import (
    composition,
    flip_labels,
    kmeans_labels,
    parse_groups,
    predicted_radii,
)


@pytest.mark.parametrize("text", ["6 v 6", "4 v 4+4", "2+2+1 v 2+2+1"])
def test_a_name_is_read_back(text: str) -> None:
    assert parse_groups(text).name == text


@pytest.mark.parametrize("text", ["", "4", "4 v", "4 + 4 v 4", "a v b", "4v4", "4 v 4 v 4"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="write for example 4 v 4"):
        parse_groups(text)


def test_groups_lie_inside_their_class() -> None:
    groups = parse_groups("2+1 v 3")
    law = groups.law(50)
    assert (law.k, law.plus, groups.count) == (6, 3, 3)
    assert groups.of_cluster().tolist() == [0, 0, 1, 2, 2, 2]
    assert torch.equal(groups.signs()[groups.of_cluster()], law.signs())


@pytest.mark.parametrize(("text", "count"), [("6 v 6", 2), ("3+3 v 3+3", 4), ("1+1+1 v 1+1+1", 6)])
def test_groups_of_one_size_have_the_radius_of_their_number(text: str, count: int) -> None:
    groups = parse_groups(text)
    found = predicted_radii(groups.sizes, groups.signs(), torch.arange(groups.count), 900)
    k = int(groups.sizes.sum())
    assert found.tolist() == pytest.approx([math.sqrt(900 * count / (2 * k))] * count)


def test_the_rival_is_the_largest_group_of_the_other_class() -> None:
    groups = parse_groups("2+1 v 3+1")
    found = predicted_radii(groups.sizes, groups.signs(), torch.tensor([0, 1, 2, 3]), 60)
    assert found.tolist() == pytest.approx([math.sqrt(60 / s) for s in (2 + 3, 1 + 3, 3 + 2, 1 + 2)])


def test_wrong_labels_are_other_groups_and_as_many_as_asked() -> None:
    group = torch.arange(4).repeat(5000)
    found = flip_labels(group, 4, 0.3, stream(0, "labels"))
    changed = found != group
    assert float(changed.double().mean()) == pytest.approx(0.3, abs=0.015)
    table = torch.bincount(found[changed & (group == 1)], minlength=4)
    assert table[1] == 0
    assert table[[0, 2, 3]].double().div(table.sum()).tolist() == pytest.approx([1 / 3] * 3, abs=0.05)
    assert torch.equal(flip_labels(group, 4, 0.0, stream(0, "labels")), group)
    assert bool((flip_labels(group, 4, 1.0, stream(0, "labels")) != group).all())


def test_kmeans_finds_clusters_that_are_far_apart_and_stays_in_the_class() -> None:
    groups = parse_groups("1+1 v 1+1")
    law = groups.law(400)
    batch = law.sample(120, seed=1)
    found = kmeans_labels(batch.x, batch.y, groups, stream(1, "labels"))
    assert torch.equal(groups.signs()[found], batch.y)
    of_cluster, share = composition(found, batch.cluster, 4, 4)
    assert sorted(of_cluster.tolist()) == [0, 1, 2, 3]
    assert share.tolist() == [1.0] * 4


def test_composition_counts_by_hand() -> None:
    label, cluster = torch.tensor([0, 0, 1, 1, 1, 1]), torch.tensor([0, 0, 0, 1, 1, 1])
    of_cluster, share = composition(label, cluster, 2, 2)
    assert of_cluster.tolist() == [0, 1]
    assert share.tolist() == pytest.approx([2 / 3, 1.0])
