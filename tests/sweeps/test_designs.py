"""Axes as they are typed, designs, and the refinement of boundaries."""

import itertools
import math
from fractions import Fraction

import pytest

from featscope.core.errors import BadInput
from featscope.experiments.registry import experiment
from featscope.sweeps.axes import SweepAxis, axis_of, parse_axis
from featscope.sweeps.designs import design
from featscope.sweeps.refine import Place, cells_of, refine

RACE = experiment("patch-race")


def test_a_range_has_both_ends_and_equal_steps() -> None:
    assert parse_axis(RACE, "law.alpha=1:4:4").grid() == [1.0, 2.0, 3.0, 4.0]
    assert parse_axis(RACE, "eps=.01:1:3:log").grid() == [0.01, 0.1, 1.0]
    assert parse_axis(RACE, "eps=8/255:16/255:2").grid() == pytest.approx([8 / 255, 16 / 255])


def test_whole_settings_get_whole_values_each_once() -> None:
    assert parse_axis(RACE, "law.d=100:1000000:5:log").grid() == [100, 1000, 10_000, 100_000, 1_000_000]
    assert parse_axis(RACE, "law.patches=2:4:9").grid() == [2, 3, 4]
    assert all(isinstance(value, int) for value in parse_axis(RACE, "law.patches=2:9:5").grid())


def test_lists_tables_and_letters() -> None:
    assert parse_axis(RACE, "training=standard,two-sided").grid() == ["standard", "two-sided"]
    assert parse_axis(RACE, "P=3,5,3").grid() == [3, 5]
    assert axis_of(RACE, "alpha", {"low": 1, "high": 100, "count": 3, "log": True}).grid() == [
        1.0,
        10.0,
        100.0,
    ]
    assert axis_of(RACE, "law.alpha", [1.5, 2]).key == "law.alpha"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("law.alpha", "--vary needs"),
        ("law.alpha=4:1:3", "upwards"),
        ("law.alpha=0:1:3:log", "above 0"),
        ("law.alpha=1:2:3:4", "low:high:number"),
        ("law.alpha=1:2:1.5", "whole number"),
        ("law.alpa=1:2:3", "unknown key"),
        ("seeds=1,2", "--seeds"),
        ("training=standard,,two-sided", "empty"),
    ],
)
def test_what_is_no_axis_is_refused(text: str, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        parse_axis(RACE, text)


def test_a_grid_is_every_pair_in_order() -> None:
    axes = [SweepAxis("a", 0, 1, 2), SweepAxis("b", values=("x", "y"))]
    assert [tuple(p.values()) for p in design("grid", axes)] == [(0, "x"), (0, "y"), (1, "x"), (1, "y")]
    with pytest.raises(BadInput, match="number of values"):
        design("grid", [SweepAxis("a", 0, 1)])


def test_scattered_designs_are_drawn_by_their_seed() -> None:
    axes = [SweepAxis("a", 0, 1), SweepAxis("b", 1, 100, log=True)]
    for name in ("random", "lhs"):
        assert design(name, axes, 20, 3) == design(name, axes, 20, 3) != design(name, axes, 20, 4)
        assert len(design(name, axes, 20, 3)) == 20
        assert sum(point["b"] < 10 for point in design(name, axes, 200, 0)) == pytest.approx(100, abs=30)
    with pytest.raises(BadInput, match="number of points"):
        design("lhs", axes)


def test_a_latin_hypercube_has_one_point_in_each_piece_of_each_axis() -> None:
    points = design("lhs", [SweepAxis("a", 0, 1), SweepAxis("b", 0, 1)], 16)
    for key in "ab":
        assert sorted(int(16 * point[key]) for point in points) == list(range(16))


def inside(place: Place) -> bool:
    return math.hypot(*(float(share) for share in place)) < 0.7


def test_refinement_finds_the_cells_that_a_full_grid_finds_with_a_quarter_of_its_points() -> None:
    asked: list[Place] = []

    def look(places: list[Place]) -> list[bool]:
        asked.extend(places)
        return [inside(place) for place in places]

    found = refine((5, 5), look, 1 / 32)
    assert len(asked) == len(set(asked)) <= 33**2 / 4
    whole = {
        cell.corner for cell in cells_of((33, 33)) if len({inside(corner) for corner in cell.corners()}) == 2
    }
    assert {cell.corner for cell in found.cells} == whole
    assert all(cell.sides == (Fraction(1, 32),) * 2 for cell in found.cells)


def test_no_boundary_costs_the_grid_alone_and_failed_points_are_no_boundary() -> None:
    counts = itertools.count()
    found = refine((3, 4), lambda places: [next(counts) < 0 for _ in places], 0.01)
    assert (len(found.seen), found.cells) == (12, [])
    gaps = refine((2, 2), lambda places: [None if p[0] else True for p in places], 0.01)
    assert (len(gaps.seen), gaps.cells) == (4, [])
