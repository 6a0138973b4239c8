"""What FA's judges of biases, of the size of λ and of the radii's constants must say."""

from __future__ import annotations

import math
from typing import Any

from judge_rows_fa_theorems import lasting, window
from judge_rows_fa_training import falling
from judge_runs_fa import NAN, UNMET, Row, assumption, ended, fig2
from judging import Case, Entry, Table, judged, made

from featscope.experiments.run import Run


@judged("FA-T4.5", "paper/bias", "assumption/bias")
def _bias(name: str) -> Entry:
    """The largest |b| at the end is at most 5 % in every seed."""
    paper = name.startswith("paper")

    def case(verdict: str, value: float | None, *biases: float, **more: Any) -> Case:
        would_be = more.pop("would_be", None)
        rows = ended(*({"bias": bias} for bias in biases))
        run = fig2("binary", rows, **more) if paper else assumption("binary", rows, **more)
        return Case({"run": run}, verdict, value, 0.05, would_be)

    closed = () if paper else (case("VACUOUS", 0.01, 0.01, would_be="HOLDS", **window("binary", 4.1, 1.0)),)
    return Table(
        holds=case("HOLDS", 0.02, 0.01, 0.02, 0.03),
        fails=case("FAILS", 0.2, 0.1, 0.2, 0.3),
        at_bound=case("HOLDS", 0.05, 0.05, 0.05),
        bad_seed=case("INCONCLUSIVE", 0.1, 0.01, 0.01, 0.28),
        nan=case("INCONCLUSIVE", None, 0.01, NAN),
        more=(case("OUT_OF_SCOPE", 0.01, 0.01, unmet=UNMET, would_be="HOLDS"), *closed),
    )


judged("FA-T4.5", "scaling d/bias")(lambda: falling("d", "bias"))
judged("FA-T4.5", "scaling/λ")(lambda: lasting("k", "lambda_min"))


def size(net: str, unit: float) -> Table:
    """The least own λ is at least ⅓ (k-class: ⅓ ln 3) at k = 3 in every seed."""

    def case(verdict: str, value: float | None, *shares: float, **more: Any) -> Case:
        would_be = more.pop("would_be", None)
        rows = ended(*({"lambda_min": share * unit} for share in shares))
        return Case({"run": assumption(net, rows, **more)}, verdict, value, 1 / 3, would_be)

    return Table(
        holds=case("HOLDS", 2.0, 1.0, 2.0, 3.0),
        fails=case("FAILS", 0.2, 0.1, 0.2, 0.3),
        at_bound=case("HOLDS", 1 / 3 + 1e-9, 1 / 3 + 1e-9),
        bad_seed=case("INCONCLUSIVE", 0.7, 1.0, 1.0, 0.1),
        nan=case("INCONCLUSIVE", None, 1.0, NAN),
        more=(
            case("FAILS", -1.0, -1.0),
            case("VACUOUS", 2.0, 2.0, would_be="HOLDS", **window(net, 4.1, 1.0)),
            case("OUT_OF_SCOPE", 0.2, 0.2, unmet=UNMET, would_be="FAILS"),
        ),
    )


LARGE = ("assumption/λ", "assumption-large/λ")
judged("FA-T4.5", *LARGE)(lambda: size("binary", 1.0))
judged("FA-T4.7", *LARGE)(lambda: size("fine", math.log(3)))


def _swept(rows: list[Row]) -> dict[str, Run]:
    return {"run": made("clusters-scaling", {"setting": rows})}


@judged("FA-T4.7", "scaling/λ")
def _log() -> Entry:
    """λ ÷ ln k does not fall along k."""

    def case(verdict: str, value: float | None, power: float, bad: float | None = None) -> Case:
        sizes = [math.log(k) * k**power for k in (4, 8, 16)]
        sizes[1] = sizes[1] if bad is None else bad
        rows = [
            {"sweep": "k", "at": float(k), "seed": 0, "fine_lambda_min": size}
            for k, size in zip((4, 8, 16), sizes, strict=True)
        ]
        spoiled = [{"sweep": "d", "at": float(d), "seed": 0, "fine_lambda_min": 1 / d} for d in (4, 8, 16)]
        return Case(_swept(rows + spoiled), verdict, value, -0.1)

    return Table(
        holds=case("HOLDS", 0.2, 0.2),
        fails=case("FAILS", -0.5, -0.5),
        at_bound=case("HOLDS", -0.1 + 1e-6, -0.1 + 1e-6),
        bad_seed=case("INCONCLUSIVE", None, 0.0, bad=30.0),
        nan=case("INCONCLUSIVE", None, 0.0, bad=NAN),
        more=(case("INCONCLUSIVE", None, 0.0, bad=-1.0), case("FAILS", -0.1001, -0.1001)),
    )


def constant(key: str, bound: float, sign: float) -> Table:
    """Of every seed the worst constant along k and d counts, not that along n."""

    def case(verdict: str, value: float | None, *by_seed: tuple[float, float]) -> Case:
        rows = [
            {"sweep": sweep, "at": 4.0, "seed": seed, key: bound + sign * off}
            for seed, pair in enumerate(by_seed)
            for sweep, off in zip(("k", "d"), pair, strict=True)
        ]
        spoiled = [{"sweep": "n", "at": 4.0, "seed": 0, key: bound - sign * 99}]
        shown = None if value is None else bound + sign * value
        return Case(_swept(rows + spoiled), verdict, shown, bound)

    # off > 0 is on the good side
    return Table(
        holds=case("HOLDS", 0.02, (0.05, 0.02), (0.02, 0.03)),
        fails=case("FAILS", -0.05, (0.01, -0.05), (-0.05, 0.01)),
        at_bound=case("HOLDS", 0.0, (0.0, 0.05)),
        bad_seed=case("INCONCLUSIVE", -0.01, (0.02, 0.02), (0.02, -0.04)),
        nan=case("INCONCLUSIVE", None, (0.02, NAN)),
        more=(case("FAILS", -0.001, (0.05, -0.001)),),
    )


judged("FA-T4.5", "constant/robust")(lambda: constant("exact_max_over_root_dk", 4.0, -1.0))
judged("FA-T4.7", "constant/robust")(lambda: constant("certified_min_over_root_d", 0.1, 1.0))
