"""Narrow robust networks have the radii that their construction promises."""

import math

import pytest
import torch

from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.errors import BadInput
from featscope.laws.clusters import ClusterLaw
from featscope.nets.narrow import even_groups, one_sided, two_sided
from featscope.nets.two_layer import TwoLayer


def least(net: TwoLayer, law: ClusterLaw) -> float:
    return float(exact_radii(net, law.features(), law.signs()).upper.min()) / math.sqrt(law.d)


@pytest.mark.parametrize(("groups", "size"), [(4, 1), (2, 2), (1, 4)])
def test_two_sided_networks_reach_one_over_the_root_of_two_group_sizes(groups: int, size: int) -> None:
    law = ClusterLaw(k=8, d=20)
    net = two_sided(law.features(), law.signs(), groups, groups, 1 - 2**-0.5)
    assert least(net, law) == pytest.approx(1 / math.sqrt(2 * size), rel=1e-6)


@pytest.mark.parametrize("side", ["plus", "minus"])
@pytest.mark.parametrize(("groups", "size"), [(4, 1), (2, 2)])
def test_one_side_is_enough_for_half_a_root(side: str, groups: int, size: int) -> None:
    law = ClusterLaw(k=8, d=20)
    net = one_sided(law.features(), law.signs(), side, groups, 0.5)  # type: ignore[arg-type]
    assert len(net.a) == groups + 1
    assert least(net, law) == pytest.approx(0.5 / math.sqrt(size), rel=1e-3)


def test_the_dual_basis_keeps_the_optimum_for_correlated_features() -> None:
    law = ClusterLaw(k=6, d=20, cosine=0.3)
    net = two_sided(law.features(), law.signs(), 3, 3, 1 - 2**-0.5)
    assert least(net, law) == pytest.approx(math.sqrt((1 - 0.3) / 2), rel=1e-6)


def test_groups_are_even_and_refuse_more_than_members() -> None:
    assert even_groups(range(7), 3) == [[0, 1, 2], [3, 4], [5, 6]]
    with pytest.raises(BadInput, match="as many groups as members"):
        even_groups([1, 2], 3)


def test_no_network_beats_half_the_distance_of_two_centres() -> None:
    law = ClusterLaw(k=4, d=10)
    for threshold in (0.0, 0.2, 0.6):
        net = two_sided(law.features(), law.signs(), 2, 2, threshold)
        assert least(net, law) <= math.sqrt(0.5) * (1 + 1e-9)
    assert torch.equal(law.signs(), torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64))


def test_no_groups_at_all_are_refused_and_one_group_holds_everybody() -> None:
    assert even_groups([4, 5], 1) == [[4, 5]]
    with pytest.raises(BadInput, match="0 groups of 2"):
        even_groups([4, 5], 0)


def test_a_one_sided_network_leaves_out_clusters_of_no_side_and_is_steep() -> None:
    """A cluster with sign 0 belongs to neither side; the neurons weigh 10⁴ against the constant's 1."""
    features = torch.eye(3, dtype=torch.float64)
    net = one_sided(features, torch.tensor([1.0, 0.0, -1.0]), "plus", 1, 0.5)
    torch.testing.assert_close(net.w, torch.tensor([[1.0, 0, 0], [0, 0, 0]], dtype=torch.float64))
    torch.testing.assert_close(net.a, torch.tensor([1e4, -1.0], dtype=torch.float64))
    torch.testing.assert_close(net.b, torch.tensor([-0.5, 1.0], dtype=torch.float64))


@pytest.mark.parametrize("count", [0, -1, 4])
def test_no_groups_and_more_groups_than_members_are_refused(count: int) -> None:
    with pytest.raises(BadInput):
        even_groups([0, 1, 2], count)
