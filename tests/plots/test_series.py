"""What a series keeps of its data: extremes and gaps of long lines, the median of seeds that stop, zeros on log axes."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from featscope.plots.axes import Axis
from featscope.plots.palette import ATTACKED, CLEAN, NON_ROBUST, REFERENCE, ROBUST
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import (
    EVERY_SEED,
    SPARSE,
    Band,
    Bracket,
    Curve,
    OverSeeds,
    Rule,
    by_seed,
    median_over_seeds,
    points,
    thinned,
)
from featscope.plots.sheet import MOST_ROWS, side_by_side

LINEAR = Axis("value")


def layers(*series, x=LINEAR, y=LINEAR, rules=()):
    (panel,) = side_by_side([Panel("a panel", x, y, series, rules)])["concat"]
    return panel["layer"]


def units(layer):
    return layer.get("layer", [layer])


@given(st.integers(30, 400), st.integers(12, 40), st.booleans(), st.integers(0, 10**6))
def test_thinning_keeps_ends_and_extremes_and_the_order(n: int, most: int, log: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = np.sort(rng.random(n)) * 1000, rng.standard_normal(n)
    kept = thinned(x, [y], most, log)
    assert {0, n - 1, int(y.argmin()), int(y.argmax())} <= set(kept.tolist())
    assert len(kept) <= most + 2
    assert (np.diff(kept) > 0).all()


def test_thinning_keeps_a_spike_of_every_line_and_a_gap() -> None:
    x, flat = np.arange(10_000.0), np.zeros(10_000)
    up, down, torn = flat.copy(), flat.copy(), flat.copy()
    up[1234], down[5678], torn[7000:7003] = 1, -1, np.nan
    kept = thinned(x, [up, down, torn], 60)
    assert {1234, 5678} <= set(kept.tolist())
    assert np.isnan(torn[kept]).any()
    assert len(kept) < 200


def test_thinning_on_a_log_axis_keeps_the_beginning() -> None:
    x = np.arange(1, 100_001, dtype=float)
    y = np.sin(np.log(x))
    assert (thinned(x, [y], 40, log=True) < 100).sum() > 5 > (thinned(x, [y], 40) < 100).sum()


def test_short_lines_are_kept_whole() -> None:
    assert thinned(np.arange(5.0), [np.ones(5)], 5).tolist() == [0, 1, 2, 3, 4]


def test_the_median_ends_when_most_seeds_have() -> None:
    nan = np.nan
    runs = np.array([[1.0, 1, 1, 1], [2, 2, nan, nan], [9, nan, nan, nan], [5, 5, 5, nan]])
    found = median_over_seeds(runs)
    assert found[:2].tolist() == [3.5, 2.0]
    assert found[2] == 3.0, "half of the seeds are enough"
    assert np.isnan(found[3])


def test_by_seed_leaves_out_what_was_not_measured_and_marks_seeds_that_stopped() -> None:
    rows = pl.DataFrame(
        {
            "t": [0, 1, 2, 0, 1, 2],
            "seed": [0, 0, 0, 1, 1, 1],
            "y": [1.0, None, 3.0, 4.0, None, None],
            "l": [[1, 2]] * 6,
        }
    )
    x, runs = by_seed(rows, "y", "t")
    assert x.tolist() == [0, 2]
    assert runs[0].tolist() == [1, 3]
    assert runs[1][0] == 4
    assert np.isnan(runs[1][1])
    assert by_seed(rows, pl.col("l").list.max(), "t")[1].tolist() == [[2, 2, 2]] * 2
    assert by_seed(rows.head(0), "y", "t")[0].size == 0


def test_every_seed_is_a_thin_line_behind_the_median() -> None:
    x, runs = list(range(100)), np.arange(300.0).reshape(3, 100)
    thin, thick = layers(OverSeeds("loss", ROBUST, x, runs))
    assert {row["seed"] for row in thin["data"]["values"]} == {0, 1, 2}
    line, unseen = units(thick)
    assert thin["mark"]["strokeWidth"] < line["mark"]["strokeWidth"]
    values = {row["x"]: row["y"] for row in thick["data"]["values"]}
    assert values[0] == 100
    assert values[99] == 199
    assert unseen["mark"]["opacity"] == 0
    assert [tip["title"] for tip in unseen["encoding"]["tooltip"]] == ["series", "value", "value"]


def test_many_seeds_are_a_range_around_the_median() -> None:
    runs = np.arange((EVERY_SEED + 1) * 4.0).reshape(-1, 4)
    area, *rest = layers(OverSeeds("loss", ROBUST, [0, 1, 2, 3], runs))
    assert area["mark"]["type"] == "area"
    assert (area["data"]["values"][0]["y"], area["data"]["values"][0]["high"]) == (0, 4.0 * EVERY_SEED)
    assert rest[0]["data"]["values"][0]["y"] == 2.0 * EVERY_SEED


def test_one_seed_is_one_line_with_points_where_they_are_few() -> None:
    marks = [layer["mark"]["type"] for layer in layers(OverSeeds("loss", ROBUST, [1, 2], [[3, 4]]))]
    assert marks == ["line", "point"]
    many = list(range(SPARSE + 1))
    (only,) = layers(Curve("loss", ROBUST, many, many))
    assert [unit["mark"].get("opacity") for unit in units(only)] == [None, 0]


def test_points_have_no_line_and_gaps_stay_gaps() -> None:
    (only,) = layers(points("draws", ROBUST, [1, 2], [3, 4]))
    assert only["mark"]["type"] == "point"
    line, _ = layers(Curve("torn", ROBUST, [1, 2, 3], [1, None, float("inf")]))
    assert [row["y"] for row in line["data"]["values"]] == [1, None, None]


def test_zeros_on_a_log_axis_are_drawn_at_its_floor_and_told() -> None:
    x, y = [1, 10, 100], [0.0, 0.003, 0.5]
    line, _ = layers(Curve("gap", ROBUST, x, y), x=Axis("d", "log"), y=Axis("gap", "log"))
    assert [row["y"] for row in line["data"]["values"]] == y, "tooltips have the true value"
    place = line["encoding"]["y"]
    assert place["title"] == "gap (0 drawn at 0.001)"
    assert place["scale"]["domain"] == [0.001, 0.5]
    assert {"calculate": "isValid(datum.y) ? max(datum.y, 0.001) : null", "as": "y_drawn"} in line[
        "transform"
    ]
    assert place["field"] == "y_drawn"
    assert line["encoding"]["x"]["title"] == "d", "nothing is told where nothing is moved"
    line, _ = layers(Curve("gap", ROBUST, x, [0, 0, 0]), y=Axis("gap", "log"))
    assert line["encoding"]["y"]["scale"]["domain"] == [0.1, 0.1]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.001, 0.1, [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1]),
        (100, 1e9, [100, 1e4, 1e6, 1e8]),
        (3, 4, [3, 4]),
    ],
)
def test_labels_of_log_axes(low: float, high: float, ticks: list[float]) -> None:
    fitted = Axis("d", "log").fitted(np.array([low, high]))
    assert list(fitted.ticks or ()) == pytest.approx(ticks)


def test_labels_of_symlog_axes_have_zero_and_both_sides() -> None:
    assert list(Axis("r", "symlog").fitted(np.array([-500.0, 30])).ticks) == [-100, -10, -1, 0, 1, 10]
    assert list(Axis("r", "symlog").fitted(np.array([0.0, 0.5])).ticks) == [0]


def test_a_long_picture_is_thinned_to_its_share_of_rows() -> None:
    x, rng = np.arange(5000.0), np.random.default_rng(0)
    panels = [
        Panel(f"{i}", LINEAR, LINEAR, [OverSeeds("a", ROBUST, x, rng.random((5, 5000)))], legend=i == 0)
        for i in range(4)
    ]
    spec = side_by_side(panels)
    rows = sum(len(layer["data"]["values"]) for panel in spec["concat"] for layer in panel["layer"])
    assert 0.5 * MOST_ROWS < rows <= 1.1 * MOST_ROWS


def test_legends_switch_panels_of_their_names_and_those_that_leave_it_to_them() -> None:
    def make(name: str, legend: bool) -> Panel:
        return Panel("p", LINEAR, LINEAR, [Curve(name, ROBUST, [1, 2], [1, 2])], legend=legend)

    shown = [make("a", True), make("b", False), make("b", True), make("a", True)]
    first = [panel["layer"][0] for panel in side_by_side(shown)["concat"]]
    switched = [layer["encoding"]["opacity"]["condition"]["test"]["param"] for layer in first]
    assert switched == ["shown_0", "shown_0", "shown_2", "shown_3"]
    bound = [[p["name"] for p in layer["params"] if p["bind"] == "legend"] for layer in first]
    assert bound == [["shown_0"], [], ["shown_2"], ["shown_3"]]
    assert first[1]["encoding"]["color"]["legend"] is None
    # Vega-Lite takes a click in any legend of a field for a click in all of them.
    assert [layer["encoding"]["color"]["field"] for layer in first] == [
        "series_0",
        "series_0",
        "series_2",
        "series_0",
    ]


def test_the_legend_shows_shapes_of_points_dashes_of_lines_and_squares_of_areas() -> None:
    many = list(range(100))
    found = layers(
        Curve("few", ATTACKED, [1, 2], [1, 2]),
        Curve("long", CLEAN, many, many),
        Curve("dashed", NON_ROBUST, many, many),
        Bracket("area", REFERENCE, [1, 2], [0, 0], [1, 1]),
    )
    shape = next(
        unit["encoding"]["shape"] for layer in found for unit in units(layer) if "shape" in unit["encoding"]
    )
    few, solid, dashed, area = shape["scale"]["range"]
    assert shape["scale"]["domain"] == ["few", "long", "dashed", "area"]
    assert (few, area) == (ATTACKED.shape, "square")
    assert (solid.count("M"), dashed.count("M")) == (1, 2)


def test_one_name_has_one_look() -> None:
    with pytest.raises(ValueError, match="two looks"):
        layers(Curve("a", ROBUST, [1], [1]), Curve("a", CLEAN, [1], [1]))


def test_labels_of_reference_lines_stand_where_there_is_room() -> None:
    line = Curve("a", ROBUST, [0, 100], [0, 1])
    found = layers(
        line, rules=[Rule(10, "early"), Rule(90, "late"), Rule(1, "top", "y"), Rule(0, "bottom", "y")]
    )
    texts = {
        unit["mark"]["text"]: unit["mark"]
        for layer in found
        for unit in units(layer)
        if unit["mark"]["type"] == "text"
    }
    assert (texts["early"]["align"], texts["late"]["align"]) == ("left", "right")
    assert (texts["top"]["baseline"], texts["bottom"]["baseline"]) == ("top", "bottom")
    assert texts["early"]["y"] != texts["late"]["y"]


def test_a_band_counts_its_ends_into_the_axes() -> None:
    band = Band("b", ROBUST, [1, 10], [0.01, 0.1], [0.1, 0.2], [1, 2])
    area = layers(band, x=Axis("d", "log"), y=Axis("c", "log"))[0]
    assert area["encoding"]["y"]["scale"]["domain"] == [0.01, 2]


@pytest.mark.parametrize("count", [2, SPARSE + 1])
def test_what_the_first_layer_says_of_the_axes_is_drawn(count: int) -> None:
    """Axes are written once for all layers, also where the first is a line with points that are not seen."""
    x = np.linspace(0, 1, count)
    ticks = Axis("share", limits=(0, 1), ticks=(0, 0.37, 1))
    lines = [Curve("a", ROBUST, x, x), Curve("b", CLEAN, x, 1 - x)]
    spec = side_by_side([Panel("p", LINEAR, ticks, lines, [Rule(0.5, "half", "y")])])
    assert ">0.37<" in Picture("title", "caption", "alt", spec).svg()
