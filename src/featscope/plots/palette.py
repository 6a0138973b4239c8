"""One colour for one meaning in all figures, and a dash and a shape with it, so that no colour is needed to
read them.

The colours keep apart under protanopia, deuteranopia and tritanopia, and stand out from a white and from a
dark
page alike; `tests/plots/test_palette.py` computes both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

#: solid first; looks of one colour differ in them, see ``Look.variant``
DASHES: tuple[tuple[int, ...], ...] = (
    (1, 0),
    (6, 3),
    (2, 2),
    (9, 3, 2, 3),
    (12, 4),
    (4, 2, 1, 2),
    (1, 3),
    (8, 2, 2, 2, 2, 2),
)
SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)


@dataclass(frozen=True)
class Look:
    """How one meaning is drawn: the colour, the dash of its lines and the shape of its points."""

    colour: str
    dash: tuple[int, ...] = DASHES[0]
    shape: str = SHAPES[0]

    def variant(self, index: int) -> Look:
        """The same colour with another dash and shape, for the ``index``-th of several series of one meaning.

        Meanings that are drawn together (robust and non-robust, clean and attacked) start at neighbouring
        dashes and
        move by two, so that their first variants do not coincide.
        """
        dash = DASHES[(DASHES.index(self.dash) + 2 * index) % len(DASHES)]
        shape = SHAPES[(SHAPES.index(self.shape) + 2 * index) % len(SHAPES)]
        return replace(self, dash=dash, shape=shape)

    def dashed(self, index: int) -> Look:
        """The same colour with the ``index``-th of the dashes and shapes, 0 is solid."""
        return replace(self, dash=DASHES[index % len(DASHES)], shape=SHAPES[index % len(SHAPES)])


#: robust features, networks that are robust, adversarial training where both trainings are compared
ROBUST = Look("#3d66ad", DASHES[0], SHAPES[0])
#: non-robust features, networks that are not robust, standard training where both trainings are compared
NON_ROBUST = Look("#cc1f29", DASHES[1], SHAPES[1])
#: accuracy without an attack
CLEAN = Look("#669952", DASHES[0], SHAPES[3])
#: what an attack leaves, an upper bound on robust accuracy
ATTACKED = Look("#c22bea", DASHES[2], SHAPES[5])
#: what is proved, a lower bound on robust accuracy
CERTIFIED = Look("#c28514", DASHES[3], SHAPES[2])
#: what a theorem or a formula predicts
THEORY = Look("#0099b8", DASHES[4], SHAPES[4])
#: everything one compares with: thresholds, guides, noise, numbers that a paper prints
REFERENCE = Look("#707070", DASHES[6], SHAPES[4])
MEANINGS = {
    "robust": ROBUST,
    "non-robust": NON_ROBUST,
    "clean": CLEAN,
    "attacked": ATTACKED,
    "certified": CERTIFIED,
    "theory": THEORY,
    "reference": REFERENCE,
}
#: for what has a name and no meaning of its own (data sets, dimensions), in a fixed order; beside a meaning
#: only where
#: the check of pictures finds their colours apart (grey always is)
CATEGORIES = tuple(
    Look(colour, DASHES[place], SHAPES[place])
    for place, colour in enumerate(("#703dff", "#ff5200", "#338fff", "#9952a3", "#ad5233"))
)
#: the scheme of every heat map; its lightness rises with the value, under every colour deficiency
HEAT = "viridis"


def _theme(page: str, ink: str, soft: str) -> dict[str, Any]:
    text = {"labelColor": ink, "titleColor": ink, "labelFontSize": 11, "titleFontSize": 12}
    return {
        "background": page,
        "font": "DejaVu Sans, Verdana, sans-serif",
        "view": {"stroke": soft},
        "title": {"color": ink, "subtitleColor": ink, "fontSize": 13, "fontWeight": 600, "anchor": "start"},
        "axis": {
            **text,
            "gridColor": soft,
            "domainColor": ink,
            "tickColor": ink,
            "titleFontWeight": "normal",
        },
        "legend": {**text, "symbolOpacity": 1, "labelLimit": 0},
        "text": {"color": ink, "fontSize": 10},
    }


PAGES = {"light": "#ffffff", "dark": "#16181d"}
LIGHT = _theme(PAGES["light"], "#1f2328", "#e3e6ea")
DARK = _theme(PAGES["dark"], "#e6e8eb", "#33383f")
