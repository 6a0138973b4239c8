"""The talk's table beside a run's own separations."""

from __future__ import annotations

from collections.abc import Callable

from featscope.claims.comparison import Comparison
from featscope.experiments.keys import value_at
from featscope.experiments.run import Run
from featscope.papers.ep.printed import RAGHUNATHAN, SEPARATIONS


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


def overfitting(run: Run) -> list[Comparison]:
    """The four numbers of adversarial training beside those of our last epoch."""
    line = RAGHUNATHAN["adversarial training"]
    where = f"ours is {value_at(run.settings, 'dataset')}, theirs CIFAR-10"
    return [
        Comparison("talk, table after Raghunathan et al.", name, printed, ours, where)
        for name, printed, ours in (
            ("robust test accuracy", line.robust_test, _mean(run, "robust_test_last")),
            ("robust training accuracy", line.robust_train, _mean(run, "robust_train_last")),
            ("clean test accuracy", line.clean_test, _mean(run, "clean_test_last")),
            ("clean training accuracy", line.clean_train, _mean(run, "clean_train_last")),
        )
        if printed is not None
    ]


def _mean(run: Run, column: str) -> float | None:
    found: float | None = run.part("compared")[column].mean()  # type: ignore[assignment]
    return found


COMPARISONS: dict[str, Callable[[Run], list[Comparison]]] = {
    "image-separation": separations,
    "image-overfitting": overfitting,
}
