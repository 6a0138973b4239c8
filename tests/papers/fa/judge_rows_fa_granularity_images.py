"""What FA's judges of labels in groups on real images must say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judging import Case, Table, judged, made

from featscope.experiments.run import Run

NAN = float("nan")
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "MNIST networks": ("image-granularity", {}),
    "CIFAR-10 embeddings": ("embedding-granularity", {"side": 224}),
    "CIFAR-10 embeddings, raw": ("embedding-granularity", {"side": 224, "kind": "raw", "each": 6}),
    "CIFAR-100 embeddings": (
        "embedding-granularity",
        {
            "side": None,
            "dataset": "cifar100",
            "groupings": ["superclass-halves", "superclasses", "each"],
        },
    ),
}
#: laws of 2, 8 and 32 groups of one size
LAWS = {2: 1.0, 8: 2.0, 32: 4.0}
LEARNED = 2 / 3


def grouped(name: str, slopes: Sequence[float], clean: float = 0.9, **settings: Any) -> Run:
    """Seeds whose radius is .1 · law^slope; rows in no order, and certified radii of another slope."""
    experiment, given = SETTINGS[name]
    rows = [
        {
            "count": count,
            "seed": seed,
            "clean": clean if count == 8 else 0.9,
            "clean_own": 0.1,
            "law": law,
            "radius": 0.1 * law**slope,
            "certified": 0.1 * law ** (3 - slope),
        }
        for seed, slope in enumerate(slopes)
        for count, law in reversed(LAWS.items())
    ]
    return made(experiment, {"net": rows}, seeds=list(range(len(slopes))), **(given | settings))


def _case(run: Run, verdict: str, value: float | None, bound: float, would_be: str | None = None) -> Case:
    return Case({"run": run}, verdict, value, bound, would_be)


def _outside(
    name: str, slopes: Sequence[float], value: float, bound: float, would_be: str
) -> tuple[Case, ...]:
    """One network that has hardly learned, one without an accuracy, and an encoder at a foreign side."""
    runs = [grouped(name, slopes, LEARNED - 0.001), grouped(name, slopes, NAN)]
    runs += [] if name == "MNIST networks" else [grouped(name, slopes, side=64)]
    return tuple(_case(run, "OUT_OF_SCOPE", value, bound, would_be) for run in runs)


@judged("FA-granularity-images", *(f"grows ({name})" for name in SETTINGS))
def grows(reading: str) -> Table:
    """The slope of log radius over log law, Student's interval over seeds, above 0."""
    name = reading[7:-1]
    return Table(
        holds=_case(grouped(name, [0.1, 0.2, 0.15]), "HOLDS", 0.15, 0.0),
        fails=_case(grouped(name, [-0.1, -0.2, -0.15]), "FAILS", -0.15, 0.0),
        at_bound=_case(grouped(name, [0.0, 0.0]), "FAILS", 0.0, 0.0),
        bad_seed=_case(grouped(name, [0.2, 0.2, -0.2]), "INCONCLUSIVE", 0.2 / 3, 0.0),
        nan=_case(grouped(name, [0.2, NAN]), "INCONCLUSIVE", None, 0.0),
        more=(
            _case(grouped(name, [0.5]), "INCONCLUSIVE", 0.5, 0.0),
            _case(grouped(name, [0.1, 0.2, 0.15], LEARNED), "HOLDS", 0.15, 0.0),
            *_outside(name, [0.1, 0.2, 0.15], 0.15, 0.0, "HOLDS"),
        ),
    )


@judged("FA-granularity-images", *(f"law ({name})" for name in SETTINGS))
def law(reading: str) -> Table:
    """|slope − 1| ≤ .1 in every seed."""
    name = reading[5:-1]
    return Table(
        holds=_case(grouped(name, [0.95, 1.05, 1.0]), "HOLDS", 0.1 / 3, 0.1),
        fails=_case(grouped(name, [0.5, 1.5]), "FAILS", 0.5, 0.1),
        at_bound=_case(grouped(name, [0.9 + 1e-9, 1.1 - 1e-9]), "HOLDS", 0.1 - 1e-9, 0.1),
        bad_seed=_case(grouped(name, [1.0, 1.0, 0.7]), "INCONCLUSIVE", 0.1, 0.1),
        nan=_case(grouped(name, [1.0, NAN]), "INCONCLUSIVE", None, 0.1),
        more=_outside(name, [0.5, 0.5], 0.5, 0.1, "FAILS"),
    )


def attacked(name: str, by_seed: Sequence[float], key: str, clean: float = 0.9) -> Run:
    """Seeds with these medians of a column; the other column would be judged the other way."""
    experiment, given = SETTINGS[name]
    other = {"ratio": {"cosine": 0.1}, "cosine": {"ratio": 9.0}}[key]
    rows = [
        {"seed": seed, "point": i, **other, key: value}
        for seed, median in enumerate(by_seed)
        for i, value in enumerate((median + 5, median, median - 5))
    ]
    net = [
        {"count": count, "seed": seed, "clean": clean, "law": 1.0, "radius": 1.0}
        for count in LAWS
        for seed in range(len(by_seed))
    ]
    return made(experiment, {"average": rows, "net": net}, seeds=list(range(len(by_seed))), **given)


EMBEDDED = tuple(name for name in SETTINGS if name != "MNIST networks")


@judged("FA-average-images", *(f"radius ({name})" for name in EMBEDDED))
def radius(reading: str) -> Table:
    """Each seed's median ratio is at most 1.05."""
    name = reading[8:-1]
    return Table(
        holds=_case(attacked(name, [1.0, 1.04, 1.02], "ratio"), "HOLDS", 1.02, 1.05),
        fails=_case(attacked(name, [1.2, 1.3], "ratio"), "FAILS", 1.25, 1.05),
        at_bound=_case(attacked(name, [1.05, 1.05], "ratio"), "HOLDS", 1.05, 1.05),
        bad_seed=_case(attacked(name, [1.0, 1.0, 1.12], "ratio"), "INCONCLUSIVE", 1.04, 1.05),
        nan=_case(attacked(name, [1.0, NAN], "ratio"), "INCONCLUSIVE", None, 1.05),
        more=(_case(attacked(name, [1.2, 1.2], "ratio", 0.6), "OUT_OF_SCOPE", 1.2, 1.05, "FAILS"),),
    )


@judged("FA-average-images", *(f"cosine ({name})" for name in EMBEDDED))
def cosine(reading: str) -> Table:
    """Each seed's median cosine is at least .98."""
    name = reading[8:-1]
    return Table(
        holds=_case(attacked(name, [0.99, 1.0], "cosine"), "HOLDS", 0.995, 0.98),
        fails=_case(attacked(name, [0.7, 0.8], "cosine"), "FAILS", 0.75, 0.98),
        at_bound=_case(attacked(name, [0.98, 0.98], "cosine"), "HOLDS", 0.98, 0.98),
        bad_seed=_case(attacked(name, [1.0, 1.0, 0.97], "cosine"), "INCONCLUSIVE", 0.99, 0.98),
        nan=_case(attacked(name, [NAN, 1.0], "cosine"), "INCONCLUSIVE", None, 0.98),
        more=(_case(attacked(name, [1.0, 1.0], "cosine", 0.6), "OUT_OF_SCOPE", 1.0, 0.98, "HOLDS"),),
    )
