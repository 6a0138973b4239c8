"""Colours keep apart for all eyes and stand out from both pages; looks that share a colour differ otherwise."""

import itertools

import pytest
from colours import VISIONS, contrast, distance, nearest

from featscope.plots.palette import CATEGORIES, DARK, DASHES, LIGHT, MEANINGS, PAGES, REFERENCE, SHAPES

#: ΔE: neighbours in a legend can be told apart well above a just noticeable difference, which is about 2.3
APART = 18.0
#: WCAG 2.1, 1.4.11: graphics against what is behind them
STANDS_OUT = 3.0
TOGETHER = [
    *itertools.combinations([look.colour for look in MEANINGS.values()], 2),
    *itertools.combinations([look.colour for look in (*CATEGORIES, REFERENCE)], 2),
]


def test_the_model_of_vision_is_right_where_the_answer_is_known() -> None:
    assert distance("#000000", "#ffffff", "normal") == pytest.approx(100, abs=0.01)
    # Published CIELAB of sRGB's red: (53.24, 80.09, 67.20), of its green: (87.73, −86.18, 83.18).
    assert distance("#ff0000", "#00ff00", "normal") == pytest.approx(170.6, abs=0.2)
    for vision, matrix in VISIONS.items():
        assert matrix.sum(1) == pytest.approx([1, 1, 1], abs=1e-5), f"{vision} does not see greys as they are"
    # Red and green of one lightness are lost to the two common deficiencies, and not to the third.
    red, green = "#cc1f29", "#5c6b1f"
    assert distance(red, green, "deuteranopia") < 0.4 * distance(red, green, "tritanopia")
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize(("one", "other"), TOGETHER)
def test_colours_used_together_keep_apart_for_all_eyes(one: str, other: str) -> None:
    assert nearest(one, other) >= APART


@pytest.mark.parametrize("page", PAGES)
def test_colours_and_ink_stand_out_from_both_pages(page: str) -> None:
    for look in (*MEANINGS.values(), *CATEGORIES):
        assert contrast(look.colour, PAGES[page]) >= STANDS_OUT
    theme = {"light": LIGHT, "dark": DARK}[page]
    assert theme["background"] == PAGES[page]
    # Text must be read: WCAG 2.1, 1.4.3.
    for ink in (theme["axis"]["labelColor"], theme["title"]["color"], theme["text"]["color"]):
        assert contrast(ink, PAGES[page]) >= 7


def test_one_colour_has_one_meaning() -> None:
    colours = [look.colour for look in (*MEANINGS.values(), *CATEGORIES)]
    assert len(set(colours)) == len(colours)


@pytest.mark.parametrize("group", [tuple(MEANINGS.values()), CATEGORIES])
def test_no_colour_is_needed(group: tuple) -> None:
    ways = [(look.dash, look.shape) for look in group]
    assert len(set(ways)) == len(ways)


@pytest.mark.parametrize("name", MEANINGS)
def test_variants_keep_the_colour_and_differ_in_dash_and_shape(name: str) -> None:
    variants = [MEANINGS[name].variant(i) for i in range(len(DASHES) // 2)]
    assert variants[0] == MEANINGS[name]
    assert {look.colour for look in variants} == {MEANINGS[name].colour}
    assert len({look.dash for look in variants}) == len({look.shape for look in variants}) == len(SHAPES) // 2


def test_robust_and_non_robust_classes_differ_without_colour() -> None:
    looks = [MEANINGS[name].variant(i) for name in ("robust", "non-robust") for i in range(4)]
    assert len({look.dash for look in looks}) == len({look.shape for look in looks}) == 8
