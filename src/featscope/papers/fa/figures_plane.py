"""FA's Figures 1 and 4 as pictures of boundaries in the plane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from featscope.experiments.run import Run
from featscope.papers.fa.clusters_plane import REACH, PlaneCentre, PlaneSite
from featscope.plots.axes import Axis
from featscope.plots.palette import CATEGORIES, REFERENCE, ROBUST
from featscope.plots.panels import Panel, Series
from featscope.plots.picture import Picture
from featscope.plots.series import Values, points
from featscope.plots.sheet import side_by_side


def boundary(values: Values, line: Values) -> tuple[Values, Values]:
    """Where the sign of a table of values changes along its rows and columns, interpolated; sgn(0) = −1."""
    x, y = list[float](), list[float]()
    positive = values > 0
    for i, j in zip(*np.nonzero(positive[:, 1:] != positive[:, :-1]), strict=True):
        a, b = values[i, j], values[i, j + 1]
        x.append(line[j] + (line[j + 1] - line[j]) * a / (a - b))
        y.append(line[i])
    for i, j in zip(*np.nonzero(positive[1:] != positive[:-1]), strict=True):
        a, b = values[i, j], values[i + 1, j]
        x.append(line[j])
        y.append(line[i] + (line[i + 1] - line[i]) * a / (a - b))
    return np.asarray(x), np.asarray(y)


def _classes(rows: pl.DataFrame, label: str, x: str, y: str, names: tuple[str, str]) -> list[Series]:
    looks = (CATEGORIES[0], CATEGORIES[1])
    return [
        points(name, look, one[x].to_numpy(), one[y].to_numpy())
        for sign, name, look in zip((1.0, -1.0), names, looks, strict=True)
        if (one := rows.filter(pl.col(label) == sign)).height
    ]


def figure_1(run: Run) -> Picture:
    """Both boundaries among five clusters."""
    c, rows = PlaneCentre, run.part("centres")
    line = np.linspace(-REACH, REACH, run.tensor("centres", "averaging").shape[0])
    drawn: list[Series] = []
    for name, key, look in (("f_FA", "averaging", REFERENCE), ("f_FD", "decoupled", ROBUST)):
        drawn.append(points(name, look, *boundary(run.tensor("centres", key).numpy(), line)))
    drawn += _classes(rows, c.label, c.x, c.y, ("positive centres", "negative centres"))
    axis = Axis("first coordinate", limits=(-REACH, REACH))
    panel = Panel(
        "boundaries in the plane",
        axis,
        Axis("second coordinate", limits=(-REACH, REACH)),
        drawn,
        width=340,
        height=340,
    )
    return Picture(
        title="Averaging draws a line, decoupling keeps its distance",
        caption=(
            "Five clusters whose centres add up to 0, three of them positive. Grey: the boundary of the "
            "averaging network, a line; blue: that of the decoupling network. Both are computed."
        ),
        alt="A scatter chart of five centres with a straight boundary and a bent one between the classes.",
        spec=side_by_side([panel]),
        claims=("FA-F1", "FA-Q-simplex"),
        reproduces="FA Figure 1",
    )


def figure_4(run: Run) -> Picture:
    """Points beside a hyperplane, and the boundary of f*."""
    c, rows = PlaneSite, run.part("sites")
    values = run.tensor("sites", "robust").numpy()
    line = np.linspace(0, 1, values.shape[0])
    drawn: list[Series] = [
        points("f*", ROBUST, *boundary(values, line)),
        points("hyperplane", REFERENCE, line, np.full_like(line, 0.5)),
        *_classes(rows, c.label, c.x, c.y, ("positive points", "negative points")),
    ]
    axis = Axis("along the hyperplane", limits=(0, 1))
    panel = Panel("points near a hyperplane", axis, Axis("across it", limits=(0, 1)), drawn)
    return Picture(
        title="A hyperplane that is right and fragile",
        caption=(
            "Points lie slightly above or below a line, which classifies them all and is close to them all. "
            "The robust classifier parts the balls around them."
        ),
        alt="A scatter chart of points on both sides of a horizontal line, with a boundary that winds.",
        spec=side_by_side([panel]),
        claims=("FA-F4",),
        reproduces="FA Figure 4",
    )


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "clusters-plane": {"figure-1": figure_1, "figure-4": figure_4}
}
