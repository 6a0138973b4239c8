"""Rows for CGRO's judges of appendices A, C, D, E: `appendix-lemmas`, `lower-bound`, `known-density`."""

from __future__ import annotations

import math
from typing import Any

from judge_rows_cgro_training import LN, NAN, SEEDS, SETTINGS, _training, by_seed, stages
from judging import Case, Table, judged, made

from featscope.experiments.run import Run

Rows = list[dict[str, Any]]


def lemmas(**parts: Rows) -> dict[str, Run]:
    return {"run": made("appendix-lemmas", parts, seeds=[0, 1, 2])}


def noise(*small: float, printed: float = 0.25, used: float = 0.01, d: float = 256.0) -> dict[str, Run]:
    """A share of small draws for each seed, beside a smaller one that must not decide."""
    rows = [
        {"vectors": kind, "d": d, "seed": seed, "small": value, "printed": printed, "used": used}
        for seed, worst in enumerate(small)
        for kind, value in (("many", 0.0), ("one", worst))
    ]
    return lemmas(noise=rows)


@judged("CG-LA.4", "as printed")
def _cubic_printed() -> Table:
    return Table(
        holds=Case(noise(0.1, 0.1, 0.1), "HOLDS", -0.15, 0.0),
        fails=Case(noise(0.5, 0.5, 0.5), "FAILS", 0.25, 0.0),
        at_bound=Case(noise(0.25, 0.25, 0.25), "HOLDS", 0.0, 0.0),
        bad_seed=Case(noise(0.1, 0.1, 0.5), "INCONCLUSIVE"),
        nan=Case(noise(0.1, NAN, 0.1), "INCONCLUSIVE"),
        more=(
            Case(noise(0.1, 0.1, 0.1, printed=1.0), "VACUOUS", None, 0.0, "HOLDS"),
            Case(noise(1.5, 1.5, 1.5, printed=1.25), "VACUOUS", None, 0.0, "FAILS"),
            Case(noise(0.1, 0.1, 0.1, printed=0.99), "HOLDS", -0.89, 0.0),
        ),
    )


@judged("CG-LA.4", "2^d")
def _cubic_used() -> Table:
    return Table(
        holds=Case(noise(0.02, 0.02, 0.02), "HOLDS", -0.01, 0.0),
        fails=Case(noise(0.04, 0.04, 0.04), "FAILS", 0.01, 0.0),
        at_bound=Case(noise(0.75, 0.75, 0.75, used=0.25), "HOLDS", 0.0, 0.0),
        bad_seed=Case(noise(0.02, 0.02, 0.05), "INCONCLUSIVE"),
        nan=Case(noise(0.02, NAN, 0.02), "INCONCLUSIVE"),
    )


@judged("CG-LA.4", "by degree")
def _cubic_degree() -> Table:
    """At ln d = 500 the share allowed is 3/500^⅓ = .378; below ln d = 27 it is no share."""
    d = math.exp(500.0)
    allowed = 3 * 500 ** (-1 / 3)
    return Table(
        holds=Case(noise(0.3, 0.3, 0.3, d=d), "HOLDS", 0.3 - allowed, 0.0),
        fails=Case(noise(0.4, 0.4, 0.4, d=d), "FAILS", 0.4 - allowed, 0.0),
        at_bound=Case(noise(*[allowed - 1e-12] * 3, d=d), "HOLDS", 0.0, 0.0),
        bad_seed=Case(noise(0.3, 0.3, 0.5, d=d), "INCONCLUSIVE"),
        nan=Case(noise(0.3, NAN, 0.3, d=d), "INCONCLUSIVE"),
        more=(Case(noise(0.3, 0.3, 0.3, d=1000.0), "VACUOUS"),),
    )


def squares(**changes: Any) -> dict[str, Run]:
    """Errors half of ε; parameters and depth twice the logarithm."""
    rows = [
        {
            "error": 2.0**-k,
            "measured": 2.0 ** -(k + 1),
            "logarithm": float(k),
            "parameters": 2 * k,
            "depth": 2 * k,
        }
        for k in (2, 4, 8, 16)
    ]
    for key, values in changes.items():
        for row, value in zip(rows, values, strict=True):
            row[key] = value
    return lemmas(square=rows)


@judged("CG-LD.2", "built")
def _square() -> Table:
    return Table(
        holds=Case(squares(), "HOLDS", 0.5, 1.0),
        fails=Case(squares(measured=[0.01, 0.125, 1e-9, 1e-9]), "FAILS", 2.0, 1.0),
        at_bound=Case(squares(measured=[0.25, 0.0625, 2.0**-8, 2.0**-16]), "HOLDS", 1.0, 1.0),
        bad_seed="a construction without seeds",
        nan=Case(squares(measured=[0.1, NAN, 1e-9, 1e-9]), "FAILS", None, 1.0),
        more=(
            # Parameters like the square of the logarithm: 2, 4, 8, 16 each, eight times the first.
            Case(squares(parameters=[4, 16, 64, 256]), "FAILS", 8.0, 3.0),
            Case(squares(depth=[4, 16, 64, 256]), "FAILS", 8.0, 3.0),
            Case(squares(depth=[4, 8, 16, 96]), "HOLDS"),
        ),
    )


def products(**changes: Any) -> dict[str, Run]:
    rows = [
        {
            "bound": bound,
            "error": bound * 2.0**-k,
            "measured": bound * 2.0 ** -(k + 1),
            "on_axes": 0.0,
            "outside": 0.0,
            "parameters": k * k,
            "logarithm": float(k),
        }
        for bound in (1.0, 2.0)
        for k in (2, 4, 8)
    ]
    for key, value in changes.items():
        rows[-1][key] = value
    return lemmas(product=rows)


@judged("CG-LD.3", "built")
def _product() -> Table:
    return Table(
        holds=Case(products(), "HOLDS", 0.5, 1.0),
        fails=Case(products(measured=2.0**-6), "FAILS", 2.0, 1.0),
        at_bound=Case(products(measured=2.0**-7), "HOLDS", 1.0, 1.0),
        bad_seed="a construction without seeds",
        nan=Case(products(measured=NAN), "FAILS", None, 1.0),
        more=(
            Case(products(on_axes=1e-12), "FAILS", 1e-12, 0.0),
            Case(products(outside=1e-3), "FAILS", 1e-3, 1e-9),
            # 16 → 128 while the logarithm doubles is the third power.
            Case(products(parameters=128), "FAILS", 3.0, 2.1),
        ),
    )


def pieces(*counts: tuple[int, float]) -> dict[str, Run]:
    rows = [
        {"shape": str(n), "units": n, "seed": at, "pieces": found} for at, (n, found) in enumerate(counts)
    ]
    return lemmas(pieces=rows)


@judged("CG-PD.5", "on a line")
def _pieces() -> Table:
    return Table(
        holds=Case(pieces((3, 4), (4, 8)), "HOLDS", 0.5, 1.0),
        fails=Case(pieces((3, 4), (3, 10)), "FAILS", 1.25, 1.0),
        at_bound=Case(pieces((1, 2), (3, 4)), "HOLDS", 1.0, 1.0),
        bad_seed=Case(pieces((3, 4), (3, 4), (3, 9)), "FAILS", 1.125, 1.0),
        nan=Case(pieces((3, 4.0), (3, NAN)), "FAILS", None, 1.0),
    )


def crosstalk(low: Any, high: Any, slack: Any = 0.0, **more: Any) -> dict[str, Run]:
    """Pσ²√d/α = 8 and ληα³(1−γ)³ = 1/32."""
    return stages({"crosstalk_low": low, "crosstalk_high": high, "slack": slack, **more})


@judged("CG-LC.5", "up to a logarithm", "until memorisation")
def _both_sides(reading: str) -> Table:
    early = reading == "until memorisation"
    late = [8.0, 8.0, 8.0, 8.0, 800.0]
    return Table(
        holds=Case(crosstalk(16.0, late if early else 8.0), "HOLDS", 2.0, LN),
        fails=Case(crosstalk(64.0, 8.0), "FAILS", 8.0, LN),
        at_bound=Case(crosstalk(8 * LN, 8.0), "HOLDS", LN, LN),
        bad_seed=Case(crosstalk(by_seed(8.0, 8.0, 80.0), 8.0), "INCONCLUSIVE", 4.0),
        nan=Case(crosstalk(by_seed(8.0, NAN, 8.0), 8.0), "INCONCLUSIVE"),
        more=(
            Case(crosstalk(8.0, 64.0), "FAILS", 8.0, LN),
            Case(crosstalk(8.0, late), "HOLDS" if early else "FAILS", None, LN),
            # The first error term doubles the room: 256/32 = 8.
            Case(crosstalk(64.0, 8.0, 256.0), "HOLDS", 4.0, LN),
        ),
    )


@judged("CG-LC.5", "first term dropped")
def _first_term() -> Table:
    return Table(
        holds=Case(crosstalk(0.0, 0.0, 256.0), "HOLDS", 1.0, LN),
        fails=Case(crosstalk(0.0, 0.0, [0.0, 0.0, 0.0, 0.0, 2560.0]), "FAILS", 10.0, LN),
        at_bound=Case(crosstalk(0.0, 0.0, 256 * LN), "HOLDS", LN, LN),
        bad_seed=Case(crosstalk(0.0, 0.0, by_seed(256.0, 256.0, 2560.0)), "INCONCLUSIVE", 4.0),
        nan=Case(crosstalk(0.0, 0.0, by_seed(256.0, NAN, 256.0)), "INCONCLUSIVE"),
    )


def kept_noise(order: float = 150.0, **columns: Any) -> dict[str, Run]:
    """The last point is memorised at step 300; V_min before that would decide otherwise."""
    usual = {"V_min": [-9.0, -9.0, -9.0, 1.0, 1.0], **columns}
    rows = {
        "training": [row for seed in SEEDS for row in _training(usual, seed)],
        "stages": [{"seed": seed, "T1_order": order} for seed in SEEDS],
    }
    return {"run": made("signal-stages", rows, seeds=list(SEEDS), **SETTINGS)}


@judged("CG-LC.7", "all later steps")
def _kept() -> Table:
    dips = [1.0, 1.0, 1.0, 1.0, 0.1]
    return Table(
        holds=Case(kept_noise(), "HOLDS", 2.0, 3.0),
        fails=Case(kept_noise(V_min=dips), "FAILS", 0.1, 1 / LN),
        at_bound=Case(kept_noise(order=100.0, V_min=1 / LN), "HOLDS", 3.0, 3.0),
        bad_seed=Case(kept_noise(V_min=by_seed(1.0, dips, 1.0)), "INCONCLUSIVE", 0.7),
        nan=Case(kept_noise(V_min=by_seed(1.0, NAN, 1.0)), "INCONCLUSIVE"),
        more=(
            Case(kept_noise(order=75.0), "FAILS", 4.0, 3.0),
            Case(kept_noise(last_memorised=-1), "INCONCLUSIVE"),
        ),
    )


def bound(**parts: Any) -> dict[str, Run]:
    """Every step of the argument as it should be; a part given as a mapping changes its last row."""
    usual: dict[str, Rows] = {
        "listed": [{"D": 2, "radius": 0.2, "sites": 3, "promised": 3, "separation": 0.5} for _ in range(2)],
        "shattered": [
            {
                "D": 2,
                "sites": 3,
                "labellings": 8,
                "patterns": 8,
                "wrong": 0,
                "slack": 1.0,
                "parameters": 40,
                "needed": 2,
            }
            for _ in range(2)
        ],
        "exact": [
            {"sites": n, "mu": mu, "dimension": n // 2, "by_entropy": n / 4}
            for n in (64, 256, 1024)
            for mu in (0.0, 0.1)
        ],
        "growth": [
            {"D": d, "radius": delta, "needed": math.exp(b * d)}
            for delta, b in ((0.2, 0.3), (0.005, 1.2))
            for d in (8, 4, 16)
        ],
        "neural": [
            {
                "D": 3,
                "seed": seed,
                "sites": 9,
                "radius": 0.2,
                "separation": 0.5,
                "clean_error": 0.0,
                "robust_error": 1.0,
                "room": 1.0,
            }
            for seed in (0, 1)
        ],
    }
    for part, change in parts.items():
        usual[part] = (
            change if isinstance(change, list) else [*usual[part][:-1], {**usual[part][-1], **change}]
        )
    return {"run": made("lower-bound", usual)}


@judged("CG-T5.3", "exp(Ω(D))")
def _argument() -> Table:
    return Table(
        holds=Case(bound(), "HOLDS"),
        fails=Case(bound(shattered={"patterns": 7}), "FAILS", 1.0, 0.0),
        at_bound=Case(bound(exact={"by_entropy": 512.0}), "HOLDS"),
        bad_seed="a construction and a count: they have no seeds",
        nan=Case(bound(shattered={"slack": NAN}), "FAILS", None, 1e-6),
        more=(
            Case(bound(shattered={"wrong": 1}), "FAILS", 1.0, 0.0),
            Case(bound(shattered={"slack": 0.0}), "FAILS", 0.0, 1e-6),
            Case(bound(shattered={"parameters": 1}), "FAILS", 0.5, 1.0),
            Case(bound(listed={"sites": 2}), "FAILS", 1.0, 0.0),
            Case(bound(listed={"sites": 4}), "FAILS", 1.0, 0.0),
            Case(bound(listed={"separation": 0.4}), "FAILS", 1.0, 1.0),
            Case(bound(exact={"by_entropy": 1024.0}), "FAILS", 0.5, 1.0),
            # 128 of 256 but 256 of 1024: the square root of n.
            Case(bound(exact={"dimension": 256}), "FAILS", 0.5, 0.9),
        ),
    )


@judged("CG-T5.3", "neural-separable")
def _neural() -> Table:
    return Table(
        holds=Case(bound(), "HOLDS"),
        fails=Case(bound(neural={"clean_error": 0.1}), "FAILS", 0.1, 0.0),
        at_bound=Case(bound(neural={"robust_error": 0.5}), "HOLDS"),
        bad_seed=Case(bound(neural={"separation": 0.3}), "FAILS", 0.75, 1.0),
        nan=Case(bound(neural={"robust_error": NAN}), "FAILS", None, 0.5),
        more=(
            Case(bound(neural={"robust_error": 0.49}), "FAILS", 0.49, 0.5),
            Case(bound(neural={"separation": 0.4}), "FAILS", 1.0, 1.0),
            Case(bound(neural={"sites": 8}), "FAILS", 8 / 9, 1.0),
        ),
    )


@judged("CG-T5.3", "Ω(exp(D)), some δ")
def _some_radius() -> Table:
    def growth(b: float, last: float = 1.0) -> dict[str, Run]:
        slow = [{"D": d, "radius": 0.2, "needed": math.exp(0.3 * d)} for d in (4, 8, 16)]
        fast = [{"D": d, "radius": 0.005, "needed": math.exp(b * d)} for d in (4, 8, 16)]
        fast[-1]["needed"] *= last
        return bound(growth=slow + fast)

    return Table(
        holds=Case(growth(1.2), "HOLDS", 1.2, 1.0),
        fails=Case(growth(0.5), "FAILS", 0.5, 1.0),
        at_bound=Case(growth(1.0001), "HOLDS", 1.0001, 1.0),
        bad_seed="a count, not an experiment: it has no seeds",
        nan=Case(growth(1.2, NAN), "FAILS", 0.3, 1.0),
        # The slowest pair of neighbouring D counts: e^(−4) over eight dimensions takes ½ off.
        more=(Case(growth(1.2, math.exp(-4.0)), "FAILS", 0.7, 1.0),),
    )
