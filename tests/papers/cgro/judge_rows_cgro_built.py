"""Rows for CGRO's judges of built networks and of the packing, which EP shares: `built-cgro`, `packing`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from judging import Case, Table, judged, made

from featscope.experiments.run import Run

NAN = math.nan

# --- equation (C)

#: R = ½, δ = ⅛, both exact in binary: opposite points must be at least R − (R − 2δ)/8 = 15/32 apart
SEPARATION, RADIUS, NEEDED = 0.5, 0.125, 15 / 32


class Stored(NamedTuple):
    """A row of the part `memory` with its tensors."""

    row: dict[str, Any]
    tensors: dict[str, torch.Tensor]


def stored(
    dim: int, apart: float = 0.5, separation: float = SEPARATION, radius: float = RADIUS, blur: bool = False
) -> Stored:
    """A training set of four points whose closest opposite pair is ``apart`` in ℓ∞ (two of one label are
    closer)."""
    x = torch.tensor([[0.0, 0.0], [-0.01, 0.0], [apart, apart / 2], [3.0, 2.0]], dtype=torch.float64)
    if blur:
        x[2, 0] = NAN
    y = torch.tensor([-1.0, -1.0, 1.0, 1.0], dtype=torch.float64)
    row = {"D": dim, "seed": 0, "delta": radius, "separation": separation}
    return Stored(row, {f"memory[D={dim}]/x": x, f"memory[D={dim}]/y": y})


def networks(*sets: Stored, none: bool = False, **bad: float) -> dict[str, Run]:
    """Three networks, the second with other numbers, and the training sets that are kept: two good ones if
    none is given."""
    good = {"clean_test": 1.0, "slack": 0.9, "fooled_unseen": 0.8, "fooled": 0.1, "seen": 0.5}
    rows = [
        {"seed": 0, "kind": kind, "D": 4, "n": 5, **good, **(bad if at == 1 else {})}
        for at, kind in enumerate(("Linf", "L2-shared", "L2-each"))
    ]
    kept = () if none else sets or (stored(4), stored(8))
    parts = {"cgro": rows, "accuracy": [{"kind": "Linf", "slack": -1.0}], "memory": [one.row for one in kept]}
    return {
        "run": made(
            "built-cgro", parts, {}, {key: value for one in kept for key, value in one.tensors.items()}
        )
    }


@judged("CG-C", "built")
def _classifier() -> Table:
    fails = [
        # closer than the indicators allow, in the second of two sets; balls that touch; numbers that are none
        (networks(stored(4), stored(8, apart=NEEDED - 2**-30)), 1.0),
        (networks(stored(4, apart=0.0), stored(8, apart=0.1)), 2.0),
        (networks(stored(4), stored(8, radius=0.25)), 1.0),
        (networks(stored(4), stored(8, blur=True)), 1.0),
        (networks(stored(4), stored(8, radius=NAN)), 1.0),
        (networks(stored(4), stored(8, separation=NAN)), 1.0),
        (networks(none=True), None),
    ]
    return Table(
        holds=Case(networks(), "HOLDS", 0.0, 0.0),
        fails=Case(networks(clean_test=0.75), "FAILS", 0.25, 0.0),
        at_bound=Case(networks(stored(4, apart=NEEDED), slack=1e-6, fooled_unseen=0.5), "HOLDS", 0.0, 0.0),
        bad_seed=Case(networks(slack=-0.5), "FAILS", -0.5, 1e-6),
        nan=Case(networks(slack=NAN), "FAILS", None, 1e-6),
        more=(
            Case(networks(slack=0.9e-6), "FAILS", 0.9e-6),
            Case(networks(fooled_unseen=0.49), "FAILS", 0.49, 0.5),
            Case(networks(fooled_unseen=NAN), "FAILS", None, 0.5),
            Case(networks(clean_test=NAN), "FAILS", None, 0.0),
            *(Case(runs, "FAILS", value, 0.0) for runs, value in fails),
        ),
    )


# --- Theorem 5.2

SIZES, SAMPLES = (4, 8, 16), (5, 10, 20)
LEVELS = {4: 0, 8: 4, 16: 8}


def counted(
    kind: str = "",
    change: Any = None,
    wrong: int = 0,
    levels: dict[int, int] | None = None,
    sizes: tuple[int, ...] = SIZES,
) -> dict[str, Run]:
    """Parameters 6·N·D, for L2-each also times the levels (at least one); ``change(n, D)`` multiplies them
    for one kind."""
    rows = []
    height = LEVELS if levels is None else levels
    for name in ("Linf", "L2-shared", "L2-each"):
        for size in sizes:
            for n in SAMPLES:
                count = 6 * n * size * (max(1, height[size]) if name == "L2-each" else 1)
                count = int(count * change(n, size)) if name == kind else count
                # Counts that no growth is read from: neither at the largest D nor at the largest N.
                count = count * 1000 if n == 5 and size == 4 else count
                rows.append(
                    {
                        "seed": 0,
                        "kind": name,
                        "D": size,
                        "n": n,
                        "levels": height[size],
                        "parameters": count,
                        "formula": count,
                    }
                )
    for row in rows[1 : 1 + wrong]:
        row["formula"] += 1
    return {"run": made("built-cgro", {"cgro": rows})}


@judged("CG-T5.2", "counts")
def _counts() -> Table:
    unknown = counted()["run"].rows.to_dicts()
    unknown[3]["formula"] = None
    growth = []
    for kind in ("Linf", "L2-shared", "L2-each"):
        growth += [
            # 20 samples cost twice too much: the slope from 10 to 20 is log 4 / log 2
            Case(counted(kind, lambda n, size: 2 if (n, size) == (20, 16) else 1), "FAILS", 2.0, 1.1),
            # D = 8 costs four times too much: from 4 to 8 the count grows eightfold
            Case(counted(kind, lambda n, size: 4 if (n, size) == (20, 8) else 1), "FAILS", 3.0, 1.1),
        ]
    return Table(
        holds=Case(counted(), "HOLDS", 0.0, 0.0),
        fails=Case(counted(wrong=3), "FAILS", 3.0, 0.0),
        # From D = 1 to 2^10 the count grows by 2^11, at one level.
        at_bound=Case(
            counted("Linf", lambda n, size: 1 if size == 1 else 2, sizes=(1, 1024), levels={1: 1, 1024: 1}),
            "HOLDS",
            0.0,
            0.0,
        ),
        bad_seed=Case(counted(wrong=1), "FAILS", 1.0, 0.0),
        nan=Case({"run": made("built-cgro", {"cgro": unknown})}, "FAILS", 1.0, 0.0),
        more=(
            *growth,
            Case(
                counted(
                    "Linf", lambda n, size: 1 if size == 1 else 2.01, sizes=(1, 1024), levels={1: 1, 1024: 1}
                ),
                "FAILS",
                None,
                1.1,
            ),
            # Levels are an allowance of L2-each alone.
            Case(counted("L2-shared", lambda n, size: max(1, LEVELS[size])), "FAILS", 3.0, 1.1),
            # A count of 0 has no logarithm.
            Case(counted("Linf", lambda n, size: 0 if n == 10 else 1), "FAILS", None, 1.1),
        ),
    )


# --- Theorem 5.3


def lawful(**changes: float) -> dict[str, float]:
    """A packing of radius .2 in which opposite points are .5 apart, with a clean linear classifier that
    breaks at every point."""
    usual = {
        "D": 2,
        "radius": 0.2,
        "separation_Linf": 0.5,
        "separation_L2": 0.6,
        "clean_error": 0.0,
        "linear_robust_error": 1.0,
    }
    return {**usual, **changes}


def _law() -> Table:
    def laws(**bad: float) -> dict[str, Run]:
        return {"run": made("packing", {"law": [lawful(), lawful(**bad), lawful()]})}

    return Table(
        holds=Case(laws(), "HOLDS", 1.25, 1.0),
        fails=Case(laws(separation_Linf=0.3), "FAILS", 0.75, 1.0),
        at_bound=Case(laws(separation_Linf=0.4, linear_robust_error=0.5), "HOLDS", 1.0, 1.0),
        bad_seed=Case(laws(separation_L2=0.2), "FAILS", 0.5, 1.0),
        nan=Case(laws(separation_L2=NAN), "FAILS", None, 1.0),
        more=(
            Case(laws(separation_Linf=NAN), "FAILS", None, 1.0),
            Case(laws(radius=0.26), "FAILS", 0.5 / 0.52, 1.0),
            Case(laws(clean_error=0.01), "FAILS", 0.01, 0.0),
            Case(laws(linear_robust_error=0.49), "FAILS", 0.49, 0.5),
            Case(laws(linear_robust_error=NAN), "FAILS", None, 0.5),
        ),
    )


judged("CG-T5.3", "law")(_law)
judged("EP-lower", "law")(_law)
