"""The talk's table beside a run's own separations."""

from __future__ import annotations

from collections.abc import Callable

from featscope.claims.comparison import Comparison
from featscope.experiments.run import Run
from featscope.papers.ep.printed import SEPARATIONS


def separations(run: Run) -> list[Comparison]:
    """Both columns of the table for every data set; those that were not measured have no number of ours."""
    ours = {line["dataset"]: line for line in run.summary["table"]}
    return [
        Comparison(
            "talk, Table 1",
            f"{dataset}: {name} separation",
            getattr(line, key),
            ours.get(dataset, {}).get(f"{key}_train"),
            "" if ours.get(dataset, {"whole": True})["whole"] else "ours is over a part of the data",
        )
        for dataset, line in SEPARATIONS.items()
        for key, name in (("train", "train–train"), ("test", "test–train"))
    ]


COMPARISONS: dict[str, Callable[[Run], list[Comparison]]] = {"image-separation": separations}
