"""Claims about growth with d: AT-LD.3, LB.2, LD.9 to LD.11, LD.23 to LD.26."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Reading, Runs, Verdict, plain
from featscope.claims.judging import at_least, at_most, exactly, exponent_at_most, fitted, numbers
from featscope.core.rules import BEND, CONSTANT, SMALL
from featscope.core.stats import Interval, wilson
from featscope.experiments.run import Run
from featscope.papers.at.runs import SCALING

FLOW = ("noiseless population data", "η = 1/poly(d), entered as the small-step limit", "σ0 = 1/√d, η̃ = d^c0")
CLIPS = {
    "features-only": "the clip acts on feature coefficients only, as Lemma 5.2 has it",
    "two-sided": "Lemma D.17's clip, kept inside the ball from both sides",
    "as-printed": "Lemma D.17's clip as printed, one-sided",
}


def _events(run: Run, arm: str, event: int) -> tuple[pl.DataFrame, float]:
    """The rows of an event that happened, and the share of runs and classes in which it did."""
    rows = run.part(f"{arm}-events").filter(pl.col("event") == event)
    happened = rows.filter(pl.col("happened"))
    return happened, happened.height / max(rows.height, 1)


def _medians(rows: pl.DataFrame, column: str) -> tuple[list[float], list[float]]:
    """The dimensions and the median at each; NaN where one of the values is NaN."""
    medians = {float(d): float(np.median(numbers(group[column]))) for (d,), group in rows.sort("d").group_by("d", maintain_order=True)}
    return list(medians), list(medians.values())


def _last(run: Run, arm: str) -> tuple[pl.DataFrame, float]:
    """The last row of each run, and the share of runs that reached their horizon d^horizon_power in time."""
    last = run.part(arm).sort("step").group_by("run", maintain_order=True).last()
    horizon = pl.col("d") ** float(run.spec["spec"]["horizon_power"])
    # For polars NaN is the largest number of all, and would have arrived.
    arrived = last.filter(pl.col("time").is_not_nan() & (pl.col("time") >= horizon * (1 - 1e-9)))
    return last, arrived.height / last.height


def _missing(run: Run, arm: str, share: float) -> Finding:
    last, arrived = _last(run, arm)
    reached = {f"{d:.0e}": float(np.median(np.asarray(g["u"].to_list()))) for (d,), g in last.group_by("d", maintain_order=True)}
    evidence: dict[str, Any] = {"share": share, "largest_A_at_the_end": plain(reached), "share_that_reached_the_horizon": arrived}
    if arrived < 1 - SMALL:
        return Finding(
            Verdict.INCONCLUSIVE, share, 0.5, {**evidence, "note": "the event does not happen, but the steps ran out before the horizon"}
        )
    return Finding(
        Verdict.FAILS,
        share,
        0.5,
        {**evidence, "note": "the event does not happen in polynomial time: the dynamics comes to rest before it"},
    )


def _loser(arm: str, event: int, column: str, predicted: float | None = None) -> Judge:
    """The median of the loser's correlation at the event as a power of d."""

    def judge(runs: Runs) -> Finding:
        rows, share = _events(runs["run"], arm, event)
        if share < 0.5 or rows["d"].n_unique() < 3:
            return _missing(runs["run"], arm, share)
        d, values = _medians(rows, column)
        c0 = float(runs["run"].spec["spec"]["c0"])
        bound = -c0 if predicted is None else predicted
        extra: dict[str, Any] = {"share": share}
        if predicted is None:
            extra["own_prediction"] = -c0 / float(runs["run"].spec["spec"]["net"]["q"])
        return exponent_at_most(d, values, bound, d=d, median=plain(values), **extra)

    return judge


def _with_high_probability(arm: str, event: int) -> Judge:
    """Share of runs and classes in which the event happens and A is then at most (log d)²/√d."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part(f"{arm}-events").filter(pl.col("event") == event)
        bound = (pl.col("d").log() ** 2) / pl.col("d").sqrt()
        good = rows.filter(pl.col("happened") & (pl.col("A") <= bound)).height
        return at_least(wilson(good, rows.height), 1 - SMALL, rule="happened, and A ≤ (log d)²/√d")

    return judge


def _late(arm: str, event: int, column: str, power: float | None) -> Judge:
    """At the end of polynomial time: F_y ÷ log d (column `F`) or max B (column `v`) as a power of d; ``power`` None means −c0."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        _, share = _events(run, arm, event)
        if share < 0.5:
            return Finding(Verdict.VACUOUS, share, 0.5, {"note": "F_y reaches log d in too few runs to speak of what follows"})
        last, arrived = _last(run, arm)
        top = numbers(last[column]).max(-1)
        late = pl.Series("late", top / np.log(numbers(last["d"])) if column == "F" else top)
        d, values = _medians(last.with_columns(late), "late")
        bound = -float(run.spec["spec"]["c0"]) if power is None else power
        found = exponent_at_most(d, values, bound, d=d, median=plain(values), share_that_reached_the_horizon=arrived)
        if arrived < 1 - SMALL:
            note = "the steps ran out before the horizon in too many runs"
            return Finding(
                Verdict.INCONCLUSIVE, found.value, found.bound, {**found.evidence, "note": note, "would_be": found.verdict.value}
            )
        return found

    return judge


def _initial(column: str) -> Judge:
    """Lemma D.3: the exponent of max_r⟨w(0), f⟩ in d, or in log m after scaling d out, against −1/2 or 1."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part("initial")
        key, power = ("d", -0.5) if column == "d" else ("m", 1.0)
        scaled = rows.with_columns(
            (pl.col("largest") * pl.col("d").sqrt()).alias("scaled"), (pl.col("exact") * pl.col("d").sqrt()).alias("law")
        )
        value = "largest" if column == "d" else "scaled"
        grouped = scaled.group_by(key).agg(pl.col(value).mean(), pl.col("law").first()).sort(key)
        x = [float(v) if column == "d" else math.log(float(v)) for v in grouped[key].to_list()]
        fit = fitted(x, grouped[value].to_list())
        ends = sorted(abs(end - power) for end in (fit.low, fit.high))
        off = Interval(abs(fit.value - power), 0.0 if fit.low <= power <= fit.high else ends[0], ends[1])
        drawn_against_exact = plain(float((scaled["scaled"] / scaled["law"]).to_numpy().mean()))
        return at_most(
            off,
            BEND,
            exponent=plain(fit.value),
            exponent_interval=plain([fit.low, fit.high]),
            predicted=power,
            drawn_against_exact=drawn_against_exact,
        )

    return judge


def _tensor_power(runs: Runs) -> Finding:
    """y_T ÷ y0 against log(1/y0): the lemma's polylog is read as one logarithm with a constant of at most CONSTANT."""
    rows = runs["run"].part("power")
    ratio = numbers(rows["growth"]) / np.log(1 / numbers(rows["y0"]))
    shown = plain({"worst_cell": rows.to_dicts()[int(ratio.argmax())], "largest_growth": float(numbers(rows["growth"]).max())})
    return exactly(float(ratio.max()), CONSTANT, cells=rows.height, **shown)


def _by_clip(make: Any, label: str = "") -> tuple[Reading, ...]:
    return tuple(Reading(clip + label, text, {"run": SCALING}, make(clip)) for clip, text in CLIPS.items())


CLAIMS = (
    Claim(
        id="AT-LD.3",
        paper="at",
        reference="AT Lemma D.3",
        statement="At initialisation max_r⟨w_ir, f⟩ = Θ(log m / √d).",
        hypotheses=("w(0) ~ N(0, I/d)",),
        readings=(
            Reading("in-d", "exponent in d against −1/2", {"run": SCALING}, _initial("d")),
            Reading("in-m", "exponent in log m against 1; Lemma B.1 itself gives √(2 log m)", {"run": SCALING}, _initial("m")),
        ),
    ),
    Claim(
        id="AT-LB.2",
        paper="at",
        reference="AT Lemma B.2",
        statement="In the tensor power method the sequence that starts behind is still within polylog of its start when the other reaches a constant.",
        hypotheses=("q ≥ 3", "x0 ≥ y0 S^{1/(q−2)} (1 + 1/polylog)"),
        readings=(Reading("grid", "growth of y ÷ log(1/y0), largest over y0, S and q, gap 1/log(1/y0)", {"run": SCALING}, _tensor_power),),
    ),
    Claim(
        id="AT-LD.9",
        paper="at",
        reference="AT Lemma D.9",
        statement="When max B reaches ϱ/β under standard training, max A is still O(polylog(d)/√d).",
        hypotheses=FLOW,
        readings=(
            Reading(
                "median",
                "exponent of the median over the seeds and classes in which it happens",
                {"run": SCALING},
                _loser("standard", 0, "A", -0.5),
            ),
            Reading("high-probability", "share of runs with A ≤ (log d)²/√d", {"run": SCALING}, _with_high_probability("standard", 0)),
        ),
    ),
    Claim(
        id="AT-LD.10",
        paper="at",
        reference="AT Lemma D.10",
        statement="When F_y reaches log d under standard training, max A is still O(polylog(d)/√d).",
        hypotheses=FLOW,
        readings=(
            Reading(
                "median",
                "exponent of the median over the seeds and classes in which it happens",
                {"run": SCALING},
                _loser("standard", 1, "A", -0.5),
            ),
        ),
    ),
    Claim(
        id="AT-LD.11",
        paper="at",
        reference="AT Lemma D.11",
        statement="For polynomial time after that F_y stays O(log d).",
        hypotheses=FLOW,
        readings=(Reading("until-d²", "F_y ÷ log d at time d² as a power of d", {"run": SCALING}, _late("standard", 1, "F", 0.0)),),
    ),
    Claim(
        id="AT-LD.23",
        paper="at",
        reference="AT Lemma D.23 (with η̃⁻¹ for the printed η⁻¹)",
        statement="When Σ B^q reaches Θ(1/η̃) under adversarial training, max A is still O(polylog(d)/√d).",
        hypotheses=FLOW,
        readings=_by_clip(lambda clip: _loser(clip, 0, "A", -0.5)),
    ),
    Claim(
        id="AT-LD.24",
        paper="at",
        reference="AT Lemma D.24",
        statement="max A reaches ϱ/α in polynomial time under adversarial training, and max B is then O(d^−c0).",
        hypotheses=FLOW,
        readings=_by_clip(lambda clip: _loser(clip, 1, "B")),
    ),
    Claim(
        id="AT-LD.25",
        paper="at",
        reference="AT Lemma D.25",
        statement="F_y(X̃) reaches log d in polynomial time under adversarial training, and max B is then O(polylog(d) d^−c0).",
        hypotheses=FLOW,
        readings=_by_clip(lambda clip: _loser(clip, 2, "B")),
    ),
    Claim(
        id="AT-LD.26",
        paper="at",
        reference="AT Lemma D.26",
        statement="For polynomial time after that F_y(X̃) stays O(log d) and max B stays O(polylog(d) d^−c0).",
        hypotheses=FLOW,
        readings=(*_by_clip(lambda clip: _late(clip, 2, "F", 0.0)), *_by_clip(lambda clip: _late(clip, 2, "v", None), " (max B)")),
    ),
)
