"""Radii of networks and heads on real images against what averaging inside label groups predicts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from featscope.core.columns import Column
from featscope.experiments.run import Run
from featscope.papers.fa.embedding_granularity import HeadGroupNet
from featscope.papers.fa.image_granularity import ImageGroupNet
from featscope.plots.axes import Axis
from featscope.plots.palette import ATTACKED, CERTIFIED, THEORY, Look
from featscope.plots.panels import Panel, Series
from featscope.plots.picture import Picture
from featscope.plots.series import Curve, OverSeeds, by_seed
from featscope.plots.sheet import side_by_side

LAW = Axis("law: predicted radius ÷ that for two labels", "log")
RADIUS = Axis("median radius ÷ that for two labels", "log")


def _relative(rows: pl.DataFrame, key: Column, to: Column) -> pl.DataFrame:
    """A column in units of another one's value for two labels, seed by seed."""
    seed, count = ImageGroupNet.seed, ImageGroupNet.count
    base = rows.filter(pl.col(count) == 2).select(pl.col(seed), pl.col(to).alias("base"))
    return rows.join(base, on=seed).with_columns((pl.col(key) / pl.col("base")).alias(key))


def _panel(run: Run, lines: tuple[tuple[Column, Look, str], ...]) -> Panel:
    rows, c = run.part("net").sort(ImageGroupNet.count), ImageGroupNet
    drawn: list[Series] = [
        OverSeeds(label, look, *by_seed(_relative(rows, key, c.radius), key, c.law))
        for key, look, label in lines
    ]
    law = np.unique(rows[c.law].to_numpy())
    drawn.append(Curve("the law", THEORY, law, law))
    return Panel("", LAW, RADIUS, drawn, width=360, height=260)


def _picture(run: Run, what: str, lines: tuple[tuple[Column, Look, str], ...]) -> Picture:
    return Picture(
        title=f"{what}: radius against the number of groups that the labels tell apart",
        caption=(
            "Labels in G groups of classes, read as two classes. Median radius over the images that all "
            "networks of a seed read right, in units of that for two labels, against the prediction of "
            "averaging inside groups. On the dashed line radii follow the law; a level line is a radius that "
            "labels do not change. Thin lines are seeds, the thick one their median."
        ),
        alt="A line chart of the relative median radius against the relative predicted radius, both on "
        "logarithmic axes, with the line of equality.",
        spec=side_by_side([_panel(run, lines)]),
        claims=("FA-granularity-images",),
        reproduces="",
    )


def networks(run: Run) -> Picture:
    """Attacked radii of image networks."""
    return _picture(run, "Image networks", ((ImageGroupNet.radius, ATTACKED, "attacked"),))


def heads(run: Run) -> Picture:
    """Radii found and certified of heads on embeddings."""
    lines = (
        (HeadGroupNet.radius, ATTACKED, "found"),
        (HeadGroupNet.certified, CERTIFIED, "certified"),
    )
    return _picture(run, "Heads on embeddings", lines)


FIGURES: dict[str, dict[str, Callable[[Run], Picture]]] = {
    "image-granularity": {"granularity": networks},
    "embedding-granularity": {"granularity": heads},
}
