"""Labels in groups: the law's numbers, the slope, and what is refused."""

import math

import pytest
import torch

from featscope.core.errors import BadInput
from featscope.papers.fa.embedding_granularity import HUNDRED, TEN
from featscope.papers.fa.image_granularity import TENS, medians
from featscope.papers.fa.label_groups import label_groups, slope


def test_the_law_in_units_of_two_labels() -> None:
    laws = {groups.count: groups.law(torch.arange(10)) for groups in label_groups(TEN, 10)}
    # 10/(s_own + s_rival): one size, then 3+2 against 2+2+1, 2+2+1 against itself, and single classes
    inside = {
        2: [1.0] * 10,
        5: [2, 2, 2, 2.5, 2.5, 2, 2, 2, 2, 2.5],
        6: [2.5, 2.5, 2.5, 2.5, 10 / 3, 2.5, 2.5, 2.5, 2.5, 10 / 3],
        10: [5.0] * 10,
    }
    for count, squares in inside.items():
        assert laws[count].square().tolist() == pytest.approx(squares)
    hundred = [float(groups.law(torch.tensor([7]))[0]) for groups in label_groups(HUNDRED, 100)]
    assert hundred == pytest.approx([1.0, math.sqrt(10), math.sqrt(50)])


def test_groups_know_their_half() -> None:
    five = label_groups(TENS, 10)[1]
    assert five.of_half.parts == ((0, 1), (2, 3, 4))
    assert five.signs(torch.float64).tolist() == [1, 1, -1, -1, -1]
    coarse = label_groups(HUNDRED, 100)[1]
    # beavers (4) are aquatic mammals, the first superclass; tractors (89) are vehicles 2, the last
    assert coarse.groups(torch.tensor([4, 89])).tolist() == [0, 19]
    assert coarse.signs(torch.float64)[[0, 9, 10, 19]].tolist() == [1, 1, -1, -1]


def test_the_slope_is_the_power_of_the_law() -> None:
    law = [1.0, 1.5, 2.2]
    assert slope(law, [0.3 * value**0.7 for value in law]) == pytest.approx(0.7)
    assert slope(law, [2.0, 2.0, 2.0]) == pytest.approx(0.0)
    assert math.isnan(slope(law, [0.0, 1.0, 1.0]))
    assert math.isnan(slope([1.0], [1.0]))


@pytest.mark.parametrize(
    ("texts", "rule"),
    [
        (("each",), "must have two groups"),
        (("halves", "0,5|1,2,3,4|6,7,8,9"), "inside a half"),
        (("halves", "0,1|2,3,4|5,6"), "must cover"),
        (("halves", "0,1|2,3,4|5,6|7,8,9", "0,1,2|3,4|5,6|7,8,9"), "must differ"),
    ],
)
def test_groupings_that_cannot_be_compared_are_refused(texts: tuple[str, ...], rule: str) -> None:
    with pytest.raises(BadInput, match=rule):
        label_groups(texts, 10)


def test_medians_are_of_images_that_all_networks_read_right() -> None:
    def rows(*radii: float) -> list[dict[str, float]]:
        return [{"radius": r, "law": 2.0, "own": float(i == 0)} for i, r in enumerate(radii)]

    found = medians({2: rows(0.5, 0.0, 0.7, 9.0, 0.1), 5: rows(1.0, 4.0, 0.0, 3.0, 2.0)})
    # images 0, 3 and 4 are read right by both
    assert [(row["count"], row["shared"], row["radius"]) for row in found] == [(2, 3, 0.5), (5, 3, 2.0)]
    assert [row["clean"] for row in found] == [0.8, 0.8]
    assert [row["clean_own"] for row in found] == [0.2, 0.2]
