"""Rows for EP's judges of lower bounds and of Table 1: `bounds`."""

from __future__ import annotations

import math
from typing import Any

from judging import Case, Entry, Table, judged, made

from featscope.experiments.run import Run

NAN = math.nan
#: three sites an axis at ε = .2: a quarter of their rate, less BEND
LEAST = 0.9 * math.log(3) / 4
DIMENSIONS = (10, 20, 30, 40)
NO_SEEDS = "counts have no seeds, and every packing must be right"


def bounds(
    kind: str, rate: float = 0.3, scale: float = 7.0, spoil: dict[str, Any] | None = None, noise: float = 0.0
) -> dict[str, Run]:
    """scale·e^{rate·D} parameters."""
    needed = [scale * math.exp(rate * d + noise * (-1) ** i) for i, d in enumerate(DIMENSIONS)]
    return counts(kind, needed, spoil)


def counts(kind: str, needed: list[float], spoil: dict[str, Any] | None = None) -> dict[str, Run]:
    """So many parameters, 100 for the linear classifier; one packing of this kind is spoiled, those of the
    other kind all are."""
    good = {
        "seed": 0,
        "bend": 0.4,
        "sites": 9,
        "separation": 0.5,
        "inside": True,
        "clean_error": 0.0,
        "robust_error": 1.0,
        "curvature": 0.3,
    }
    bad = good | {"separation": 0.0, "clean_error": 1.0, "curvature": 0.0}
    general = kind == "general"
    packed = [
        {"k": 3, "d": 3 if general else 7, **good},
        {"k": 3, "d": 3 if general else 7, **good, **(spoil or {})},
    ]
    packed.append({"k": 3, "d": 7 if general else 3, **bad})
    growth = [
        {"kind": kind, "dimension": d, "needed": count, "linear": 100.0}
        for d, count in zip(DIMENSIONS, needed, strict=True)
    ]
    growth += [{"kind": "other", "dimension": d, "needed": 1.0, "linear": 1.0} for d in DIMENSIONS]
    return {"run": made("bounds", {"packed": packed, "growth": growth})}


def counted(kind: str) -> Table:
    def case(verdict: str, value: float | None = None, bound: float | None = None, **more: Any) -> Case:
        return Case(bounds(kind, **more), verdict, value, bound, "HOLDS" if verdict == "VACUOUS" else None)

    return Table(
        holds=case("HOLDS"),
        fails=case("FAILS", 0.1, LEAST, rate=0.1, scale=99.0),
        at_bound=case("HOLDS", rate=LEAST + 1e-6),
        bad_seed=case("FAILS", 0.75, 1.0, spoil={"separation": 0.3}),
        nan=case("FAILS", None, 1.0, spoil={"separation": NAN}),
        more=(
            case("FAILS", 0.24, LEAST, rate=0.24, scale=99.0),
            case("FAILS", 0.5, 0.0, spoil={"clean_error": 0.5}),
            case("FAILS", 0.4, 0.5, spoil={"robust_error": 0.4}),
            case("FAILS", 0.0, 1.0, spoil={"inside": False}),
            case("FAILS", 0.0, 0.1, spoil={"curvature": 0.0}),
            case("HOLDS", spoil={"curvature": 0.0, "bend": 0.0}),
            case("FAILS", 8 / 9, 1.0, spoil={"sites": 8}),
            case("INCONCLUSIVE", None, LEAST, noise=4.0),
            # e^{12}·7e-4 = 114 > 100 ≥ e^{12}·6e-4
            case("HOLDS", scale=7e-4),
            case("VACUOUS", scale=6e-4),
        ),
    )


judged("EP-lower", "count")(lambda: counted("general"))
judged("EP-manifold", "lower")(lambda: counted("manifold"))


@judged("EP-train-lower", "argument")
def _training() -> Entry:
    def runs(power: float = 0.5, **spoil: float) -> dict[str, Run]:
        held = [
            {"points": p, "labellings": 2**p, "delta_over_eps": 0.9, "furthest": 1.0, "separation": 1.0}
            for p in (2, 3)
        ]
        held[1] |= spoil
        grown = [{"n": n, "d": d, "needed": (n * d) ** power} for n in (10, 100, 1000) for d in (4, 16)]
        return {"run": made("bounds", {"held": held, "training": grown})}

    return Table(
        holds=Case(runs(), "HOLDS"),
        fails=Case(runs(0.3), "FAILS", 0.3, 0.4),
        at_bound=Case(runs(0.4 + 1e-6), "HOLDS"),
        bad_seed=Case(runs(furthest=1.1), "FAILS", 1.1, 1 + 1e-9),
        nan=Case(runs(furthest=NAN), "FAILS", None),
        more=(
            Case(runs(separation=0.99), "FAILS", 0.99, 1 - 1e-9),
            Case(runs(labellings=7), "FAILS", 1.0, 0.0),
            Case(runs(delta_over_eps=1.1), "FAILS", 1.1, 1.0),
        ),
    )


@judged("EP-table", "cells")
def _cells() -> Entry:
    line = {
        "train_upper": 100.0,
        "train_lower": 20.0,
        "general_upper_log10": 3.0,
        "general_lower": 100.0,
        "manifold_upper_log10": 2.0,
        "manifold_lower": 25.0,
    }

    def runs(**spoil: float) -> dict[str, Run]:
        rows = [{"dimension": d, **line, **(spoil if d == 16 else {})} for d in (4, 16, 64)]
        return {"run": made("bounds", {"table": rows})}

    return Table(
        # 20/100, 100/1000, 25/100
        holds=Case(runs(), "HOLDS", 0.25, 1.0),
        fails=Case(runs(train_lower=300.0), "FAILS", 3.0, 1.0),
        at_bound=Case(runs(train_lower=100.0), "HOLDS", 1.0, 1.0),
        bad_seed=NO_SEEDS,
        nan=Case(runs(train_lower=NAN), "FAILS", None, 1.0),
        more=(
            Case(runs(general_lower=1e5), "FAILS", 100.0, 1.0),
            Case(runs(general_lower=NAN), "FAILS", None, 1.0),
            Case(runs(general_lower=1e300, general_upper_log10=-300.0), "FAILS", None, 1.0),
            Case(runs(general_upper_log10=600.0), "HOLDS", 0.25, 1.0),
            Case(runs(manifold_lower=200.0), "FAILS", 2.0, 1.0),
            Case(runs(manifold_lower=NAN), "FAILS", None, 1.0),
        ),
    )
