"""Pictures as files, grids of cells, categories, images and text; and the check of pictures itself can fail."""

import base64
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from pictures import check_picture
from PIL import Image

from featscope.core.errors import BadInput
from featscope.plots.axes import ACCURACY, Axis
from featscope.plots.grids import Categories, Group, HeatMap, HeatScale, ImageRows, TextTable, coarsened
from featscope.plots.palette import DARK, LIGHT, NON_ROBUST, ROBUST, Look
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import Curve, OverSeeds, Rule
from featscope.plots.sheet import side_by_side

SCALE = HeatScale("cosine", 0, 1)
IMAGES = np.linspace(0, 1, 3 * 2 * 2).reshape(3, 1, 2, 2)
HEAT = HeatMap("cosines", [[0.1, np.nan], [0.9, 1.0]], SCALE, "weight", "feature")
BARS = Categories(
    "rates",
    ["cat", "dog"],
    ACCURACY,
    [Group("a", ROBUST, [[0.1, 0.2, 0.9], []], [0.3, None]), Group("b", NON_ROBUST, [[1], [0]])],
)


def picture(*panels, **changes) -> Picture:
    words = {
        "title": "What is drawn here",
        "caption": "How it is to be read.",
        "alt": "A chart of one thing over another.",
    }
    return Picture(spec=side_by_side(panels), **(words | changes))


LINES = Panel(
    "lines",
    Axis("step"),
    Axis("loss", "log"),
    [OverSeeds('it\'s "a" loss', ROBUST, [0, 1, 2], [[1, 0, 3], [2, 3, 4]])],
    [Rule(1, "half")],
)


def test_all_kinds_of_panels_pass_the_check(capfd: pytest.CaptureFixture[str]) -> None:
    text = TextTable("table", ["d", "count"], [["1", "2 … 3"], ["10", "1e9"]])
    check_picture(
        picture(LINES, HEAT, BARS, ImageRows("images", [("X", IMAGES), ("two\nlines", IMAGES)]), text), capfd
    )


def test_a_picture_is_saved_in_each_format(tmp_path: Path) -> None:
    shown = picture(LINES)
    starts = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<svg", "json": b"{"}
    for ending, start in starts.items():
        shown.save(tmp_path / f"a.{ending}")
        assert (tmp_path / f"a.{ending}").read_bytes().startswith(start)
    read = json.loads((tmp_path / "a.json").read_text())
    assert read["$schema"].endswith("vega-lite/v6.json")
    assert read["description"] == shown.alt
    small, large = (Image.open(io.BytesIO(shown.png(scale))).size for scale in (1, 2))
    assert large[0] == pytest.approx(2 * small[0], abs=2)
    with pytest.raises(BadInput, match=r"no format of pictures: 'a\.bmp'; let the name end in one of \.svg"):
        shown.save(tmp_path / "a.bmp")


def test_a_picture_shows_itself_in_a_notebook_and_takes_the_page_s_colours() -> None:
    shown = picture(LINES)
    bundle = shown._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert shown.alt in bundle["text/plain"]
    assert shown.themed()["config"] == LIGHT
    assert shown.themed(dark=True)["config"] == DARK
    assert "config" not in shown.spec


def spoiled(**changes) -> Picture:
    """A good picture in which one layer has other keys."""
    spec = json.loads(json.dumps(picture(LINES).spec))
    spec["concat"][0]["layer"][0].update(changes)
    return replace(picture(LINES), spec=spec)


@pytest.mark.parametrize(
    "bad",
    [
        picture(LINES, alt="lines"),
        picture(LINES, caption="The claim HOLDS, as one sees."),
        spoiled(data={"url": "https://example.org/rows.csv"}),
        spoiled(encoding={"x": {"field": "x", "type": "quantitative"}}),
        spoiled(data={"values": [{"x": 1, "y": 2}] * 4001}),
        spoiled(mark="lines"),
        spoiled(
            encoding={"x": {"field": "x", "type": "quantitative", "title": "x", "scale": {"type": "lgo"}}}
        ),
        picture(replace(LINES, series=[Curve("a", ROBUST, [1], [1]), Curve("b", Look("#3d66a0"), [1], [1])])),
    ],
    ids=["alt", "verdict", "url", "title", "rows", "mark", "scale", "colours"],
)
def test_the_check_can_fail(bad: Picture, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises((AssertionError, ValueError)):
        check_picture(bad, capfd)


def test_heat_maps_share_one_scale_shown_once() -> None:
    maps = side_by_side([HEAT, replace(HEAT, title="others")])["concat"]
    colours = [panel["layer"][0]["encoding"]["color"] for panel in maps]
    assert [colour["legend"] is None for colour in colours] == [True, False]
    assert [colour["scale"]["domain"] for colour in colours] == [[0, 1], [0, 1]]
    with pytest.raises(ValueError, match="one colour scale"):
        side_by_side([HEAT, replace(HEAT, scale=HeatScale("cosine", 0, 2))])


def test_cells_have_their_places_and_large_tables_no_numbers() -> None:
    (panel,) = side_by_side([HEAT])["concat"]
    assert panel["data"]["values"][1] == {"row": 0, "column": 1, "value": None}
    assert panel["data"]["values"][2] == {"row": 1, "column": 0, "value": 0.9}
    assert len(panel["layer"]) == 2
    (large,) = side_by_side([replace(HEAT, table=np.zeros((13, 2)))])["concat"]
    assert len(large["layer"]) == 1


def test_blocks_are_means() -> None:
    matrix = np.arange(16.0).reshape(4, 4)
    assert coarsened(matrix, 2).tolist() == [[2.5, 4.5], [10.5, 12.5]]
    assert coarsened(matrix, 4).tolist() == matrix.tolist()
    assert coarsened(np.ones((101, 101)), 40).shape == (40, 40)


def test_categories_show_medians_seeds_and_what_is_printed() -> None:
    (panel,) = side_by_side([BARS])["concat"]
    bars, _, seeds, printed = (layer["data"]["values"] for layer in panel["layer"])
    assert [row["y"] for row in bars] == [0.2, None, 1, 0]
    assert [row["y"] for row in seeds if row["series_0"] == "a"] == [0.1, 0.2, 0.9]
    assert [(row["place"], row["y"]) for row in printed] == [(0, 0.3)]


def test_images_are_inline_and_exact() -> None:
    (panel,) = side_by_side([ImageRows("", [("X", IMAGES)], size=4)])["concat"]
    head, data = panel["data"]["values"][0]["image"].split(",")
    assert head == "data:image/png;base64"
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
    # three images of 2 × 2, four times as large, with a white edge of two pixels
    assert pixels.shape == (12, 36)
    assert (pixels[0] == 255).all()
    corners = [pixels[2, 2 + 12 * i] for i in range(3)]
    assert corners == [round(255 * float(value)) for value in IMAGES[:, 0, 0, 0]]


def test_a_row_of_missing_cells_keeps_its_place_and_numbers_fit_their_cells() -> None:
    table = [[np.nan, np.nan], [-0.034, 0.001], [0.5, 1.25]]
    drawn = picture(HeatMap("cosines", table, SCALE, "weight", "feature")).svg()
    texts = re.findall(r">([^<>]+)</text>", drawn)
    assert {"1", "2", "3"} <= set(texts)
    assert [text for text in texts if "." in text][:4] == ["−.03", ".00", ".50", "1.25"]


@pytest.mark.parametrize("kind", ["linear", "log"])
def test_labels_of_vertical_rules_have_room_above_the_curves(kind: Literal["linear", "log"]) -> None:
    def top(rules: list[Rule]) -> float:
        panel = Panel(
            "lines", Axis("step"), Axis("loss", kind), [Curve("a", ROBUST, [0, 1], [1, 100])], rules
        )
        first = side_by_side([panel])["concat"][0]["layer"][0]
        unit = first.get("layer", [first])[0]
        return float(unit["encoding"]["y"]["scale"].get("domain", [1, 100])[1])

    one, two = top([Rule(0.5, "half")]), top([Rule(0.5, "half"), Rule(0.7, "more")])
    assert 100 == top([]) == top([Rule(50, "level", "y")]) < one < two
    free = math.log(two / 100) / math.log(two) if kind == "log" else (two - 100) / (two - (1 - 0.04 * 99))
    assert free * 200 == pytest.approx(2 * 13 + 6)
