"""What FA's judges of networks with fine and with coarse labels must say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judging import Case, Entry, Table, judged, made

from featscope.experiments.run import Run

COLUMNS = (
    "binary",
    "fine_own_loss",
    "fine_readout",
    "fine_worst",
    "fine_largest",
    "binary_last",
    "fine_last",
    "fine_last_within",
)
PAIRS = {
    "own-loss": ("fine_own_loss", "binary"),
    "readout": ("fine_readout", "binary"),
    "worst": ("fine_worst", "binary"),
    "last": ("fine_last", "binary_last"),
}
OTHER = {"mnist": "cifar10", "cifar10": "mnist"}
RUNS = {"mnist": "image-fine-labels", "cifar10": "image-fine-labels-cifar10"}
Gaps = Sequence[float]
NAN = float("nan")


def duel(
    dataset: str,
    fine: str,
    binary: str,
    by_seed: Sequence[Gaps],
    clean: Sequence[tuple[float, float]] | None = None,
    checks: Any = (),
) -> Run:
    """10-class minus 2-class accuracy at radii 0, 1, 3 and 4, seed by seed; all other differences have the
    other sign."""
    other = OTHER[dataset]
    parts: dict[str, list[dict[str, Any]]] = {"curve": [], "check": []}
    for seed, gaps in enumerate(by_seed):
        rows = []
        for i, (radius, gap) in enumerate(zip((0.0, 1.0, 3.0, 4.0), gaps, strict=True)):
            row = dict.fromkeys(COLUMNS, 0.5 - 2 * gap) | {binary: 0.5, fine: 0.5 + gap}
            if i == 0:
                # at radius 0 all decisions are read at the clean images
                first = (clean or [(0.9, 0.9)] * len(by_seed))[seed]
                row |= {"binary": first[0], "fine_readout": first[1]}
                row |= {binary: first[0]} if binary == "binary" else {}
                row |= {fine: row[binary] + gap} if fine != "fine_readout" else {}
            rows.append({"dataset": dataset, "seed": seed, "radius": radius, **row})
        # Rows need not come in order of the radius.
        parts["curve"] += rows[::-1]
        low = dict.fromkeys(COLUMNS, 0.1)
        parts["curve"] += [{"dataset": other, "seed": seed, "radius": r, **low} for r in (0.0, 1.0)]

    def looked(name: str, seed: int, *found: tuple[str, float, int, int]) -> None:
        for net, radius, images, fooled in found:
            where = {"dataset": name, "seed": seed, "net": net, "radius": radius}
            parts["check"].append({**where, "images": images, "left": images, "fooled": fooled})

    looked(dataset, 0, *checks)
    looked(dataset, 1, ("fine", 1.0, 100, 100))
    looked(other, 0, ("fine", 1.0, 100, 50))
    return made(RUNS[dataset], parts, {}, datasets=[dataset], seeds=list(range(len(by_seed))))


def _case(
    run: Run, verdict: str, value: float | None = None, bound: float | None = 0.0, would_be: str | None = None
) -> Case:
    return Case({"run": run}, verdict, value, bound, would_be)


LEARNED = 2 / 3


def areas(dataset: str, pair: str) -> Table:
    """∫ of the difference over the radius, Student's interval over seeds above 0: gaps (0, a, b, 0) give a/2
    + (a + b) + b/2."""
    fine, binary = PAIRS[pair]

    def run(*by_seed: Gaps, **more: Any) -> Run:
        return duel(dataset, fine, binary, by_seed, **more)

    small = [(0.9, 0.9), (0.9, LEARNED - 0.001)]
    return Table(
        holds=_case(
            run((0.0, 0.1, 0.2, 0.0), (0.0, 0.2, 0.2, 0.0), (0.0, 0.2, 0.1, 0.0)),
            "HOLDS",
            (0.45 + 0.6 + 0.45) / 3,
        ),
        fails=_case(
            run((0.0, -0.1, -0.2, 0.0), (0.0, -0.2, -0.2, 0.0), (0.0, -0.2, -0.1, 0.0)), "FAILS", -0.5
        ),
        at_bound=_case(run((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)), "FAILS", 0.0),
        bad_seed=_case(
            run((0.0, 0.2, 0.2, 0.0), (0.0, 0.2, 0.2, 0.0), (0.0, -0.2, -0.2, 0.0)), "INCONCLUSIVE", 0.2
        ),
        nan=_case(
            run((0.0, 0.2, 0.2, 0.0), (0.0, NAN, 0.2, 0.0), (0.0, 0.2, 0.2, 0.0)), "INCONCLUSIVE", None
        ),
        more=(
            _case(run((0.0, 0.2, 0.2, 0.0)), "INCONCLUSIVE", 0.6),
            _case(run((0.0, 0.1, 0.1, 0.4), (0.0, 0.1, 0.1, 0.4)), "HOLDS", 0.05 + 0.2 + 0.25),
            _case(run(*[(0.0, 0.2, 0.2, 0.0)] * 2, clean=small), "OUT_OF_SCOPE"),
            _case(
                run(*[(0.0, 0.2, 0.2, 0.0)] * 2, clean=[(LEARNED - 0.001,) * 2, (0.9, 0.9)]),
                "OUT_OF_SCOPE",
                would_be="HOLDS",
            ),
            _case(run(*[(0.0, 0.2, 0.2, 0.0)] * 2, clean=[(0.9, 0.9), (NAN, 0.9)]), "OUT_OF_SCOPE"),
            _case(run(*[(0.0, 0.2, 0.2, 0.0)] * 2, clean=[(0.9, 0.9), (0.9, NAN)]), "OUT_OF_SCOPE"),
            _case(run(*[(0.0, 0.2, 0.2, 0.0)] * 2, clean=[(LEARNED, LEARNED)] * 2), "HOLDS", 0.6),
        ),
    )


def everywhere(dataset: str, pair: str) -> Table:
    """At each positive radius the interval over seeds is at least 0; the clean difference does not count."""
    fine, binary = PAIRS[pair]

    def run(*by_seed: Gaps, **more: Any) -> Run:
        return duel(dataset, fine, binary, by_seed, **more)

    clean = [(0.9, 0.8)] * 3
    return Table(
        holds=_case(
            run((-0.1, 0.1, 0.2, 0.3), (-0.1, 0.1, 0.2, 0.3), (-0.1, 0.1, 0.2, 0.3), clean=clean),
            "HOLDS",
            0.1,
        ),
        fails=_case(run((0.0, 0.1, -0.2, 0.1), (0.0, 0.1, -0.2, 0.1)), "FAILS", -0.2),
        at_bound=_case(run((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)), "HOLDS", 0.0),
        bad_seed=_case(
            run((0.0, 0.1, 0.1, 0.3), (0.0, 0.1, 0.1, 0.3), (0.0, 0.1, 0.1, -0.3)), "INCONCLUSIVE", 0.1
        ),
        nan=_case(run((0.0, 0.1, 0.1, 0.3), (0.0, 0.1, NAN, 0.3)), "INCONCLUSIVE", None),
        more=(
            _case(run((0.0, -0.1, 0.1, 0.1), (0.0, -0.1, 0.1, 0.1)), "FAILS", -0.1),
            _case(run((0.0, 0.1, 0.1, -0.1), (0.0, 0.1, 0.1, -0.1)), "FAILS", -0.1),
            _case(run((0.0, 0.1, 0.1, 0.1)), "INCONCLUSIVE", 0.1),
            _case(
                run(*[(0.0, 0.1, 0.1, 0.1)] * 2, clean=[(0.9, 0.6), (0.9, 0.9)]),
                "OUT_OF_SCOPE",
                0.1,
                would_be="HOLDS",
            ),
            _case(
                run(*[(0.0, -0.1, 0.1, 0.1)] * 2, clean=[(0.6, 0.9), (0.9, 0.9)]),
                "OUT_OF_SCOPE",
                -0.1,
                would_be="FAILS",
            ),
        ),
    )


def searched(dataset: str) -> Table:
    """Stronger attacks fool at most 5 % more of the images of the first seed, on each network at each
    radius."""

    def case(verdict: str, value: float | None, *checks: tuple[str, float, int, int], **more: Any) -> Case:
        would_be = more.pop("would_be", None)
        run = duel(dataset, "fine_readout", "binary", [(0.0, 0.1, 0.1, 0.1)] * 2, checks=checks, **more)
        return _case(run, verdict, value, 0.05, would_be)

    none = [("binary", 1.0, 100, 0), ("fine", 1.0, 100, 0), ("binary", 3.0, 100, 0)]
    return Table(
        holds=case("HOLDS", 0.0, *none, ("fine", 3.0, 100, 0)),
        fails=case("FAILS", 0.2, *none, ("fine", 3.0, 100, 20)),
        at_bound=case("INCONCLUSIVE", 0.05, *none, ("fine", 3.0, 100, 5)),
        bad_seed="only the networks of the first seed are searched again, as the reading says",
        nan="the rows are counts of images, whole numbers that an attack cannot make NaN",
        more=(
            case("FAILS", 0.2, ("binary", 1.0, 100, 20), ("fine", 1.0, 100, 0)),
            case("INCONCLUSIVE", 0.01, *none, ("fine", 3.0, 100, 1)),
            case("HOLDS", 0.005, ("fine", 3.0, 200, 1)),
            case("OUT_OF_SCOPE", 0.0, *none, clean=[(0.9, 0.6), (0.9, 0.9)], would_be="HOLDS"),
        ),
    )


@judged("FA-F3mc", *(f"{data}-{pair}" for data in OTHER for pair in PAIRS))
def _areas(name: str) -> Entry:
    return areas(*name.split("-", 1))


@judged(
    "FA-F3mc", *(f"{data}-{pair}-everywhere" for data in OTHER for pair in ("own-loss", "readout", "worst"))
)
def _everywhere(name: str) -> Entry:
    return everywhere(*name.removesuffix("-everywhere").split("-", 1))


@judged("FA-F3mc", *(f"{data}-searched" for data in OTHER))
def _searched(name: str) -> Entry:
    return searched(name.removesuffix("-searched"))
