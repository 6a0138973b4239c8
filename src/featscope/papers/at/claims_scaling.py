"""Claims about growth with d: AT-LD.3, LB.2, LD.9 to LD.11, LD.23 to LD.26."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import IntEnum
from typing import Any

import numpy as np
import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Reading, Runs, Verdict, plain
from featscope.claims.judging import at_least, at_most, exactly, explained, exponent_at_most, fitted, numbers
from featscope.core.rules import BEND, CONSTANT, POLYLOG, SAME, SMALL, USUAL
from featscope.core.stats import Interval, wilson
from featscope.experiments.run import Run
from featscope.papers.at.inside import inside
from featscope.papers.at.patch_scaling import PatchScaling
from featscope.papers.at.runs import ATTACKED_GROWTH, GROWTH, SCALING
from featscope.papers.at.scaling_columns import (
    CURVES,
    ENDS,
    EVENTS,
    INITIAL,
    POWER,
    AttackedEvent,
    Curves,
    Ends,
    Events,
    Initial,
    Power,
    StandardEvent,
)

FLOW = ("noiseless population data", "η = 1/poly(d), entered as the small-step limit", "σ0 = 1/√d, η̃ = d^c0")
CLIP_TEXTS = {
    "features-only": "the clip acts on feature coefficients only, as Lemma 5.2 has it",
    "two-sided": "Lemma D.17's clip, kept inside the ball from both sides",
    "as-printed": "Lemma D.17's clip as printed, one-sided",
}


def _events(run: Run, arm: str, event: IntEnum) -> tuple[pl.DataFrame, float]:
    """The rows of an event that happened, and the share of runs and classes in which it did."""
    rows = run.part(EVENTS, arm=arm, event=int(event))
    happened = rows.filter(pl.col(Events.happened))
    return happened, happened.height / max(rows.height, 1)


def _medians(rows: pl.DataFrame, column: str) -> tuple[list[float], list[float]]:
    """The dimensions and the median at each; NaN where one of the values is NaN."""
    groups = rows.sort(Events.d).group_by(Events.d, maintain_order=True)
    medians = {float(str(d)): float(np.median(numbers(group[column]))) for (d,), group in groups}
    return list(medians), list(medians.values())


def _last(run: Run, arm: str) -> tuple[pl.DataFrame, float]:
    """The last row of each run, and the share of runs that reached their horizon d^horizon_power in time."""
    rows = run.part(CURVES, arm=arm).sort(Curves.step)
    last = rows.group_by(Curves.d, Curves.seed, maintain_order=True).last()
    horizon = pl.col(Curves.d).cast(pl.Float64) ** PatchScaling.of(run).horizon_power
    # For polars NaN is the largest number of all, and would have arrived.
    time = pl.col(Curves.time)
    arrived = last.filter(time.is_not_nan() & (time >= horizon * (1 - SAME)))
    return last, arrived.height / last.height


def _missing(run: Run, arm: str, share: float) -> Finding:
    last, arrived = _last(run, arm)
    reached = {f"{d:.0e}": median for d, median in zip(*_medians(last, Curves.u), strict=True)}
    evidence = {"share": share, "largest_A_at_the_end": reached, "share_that_reached_the_horizon": arrived}
    if arrived < 1 - SMALL:
        note = "the event does not happen, but the steps ran out before the horizon"
        return Finding(Verdict.INCONCLUSIVE, share, USUAL, {**evidence, "note": note}, "at least")
    note = "the event does not happen in polynomial time: the dynamics comes to rest before it"
    return Finding(Verdict.FAILS, share, USUAL, {**evidence, "note": note}, "at least")


def _loser(arm: str, event: IntEnum, column: str, predicted: float | None = None) -> Judge:
    """The median of the loser's correlation at the event as a power of d."""

    def judge(runs: Runs) -> Finding:
        run, spec = runs["run"], PatchScaling.of(runs["run"])
        rows, share = _events(run, arm, event)
        d, values = _medians(rows, column)
        if share < USUAL or len(d) < 3:
            return _missing(run, arm, share)
        shown: dict[str, Any] = {"d": d, "median": plain(values), "share": share}
        if predicted is None:
            return exponent_at_most(d, values, -spec.c0, **shown, own_prediction=-spec.c0 / spec.net.q)
        return exponent_at_most(d, values, predicted, **shown)

    return judge


def _with_high_probability(arm: str, event: IntEnum) -> Judge:
    """Share of runs in which the event happens in every class and A is then at most (log d)²/√d.

    Classes of one run share its start: the runs, a dimension and a seed each, are what was drawn.
    """

    def judge(runs: Runs) -> Finding:
        rows, d = runs["run"].part(EVENTS, arm=arm, event=int(event)), pl.col(Events.d)
        bound = (d.log() ** POLYLOG) / d.sqrt()
        good = (pl.col(Events.happened) & (pl.col(Events.A) <= bound)).fill_null(False)
        runs_ = rows.group_by(Events.d, Events.seed).agg(good.all().alias("good"))
        rule = "happened in every class, and A ≤ (log d)²/√d"
        return at_least(wilson(int(runs_["good"].sum()), runs_.height), 1 - SMALL, rule=rule)

    return judge


def _in_order(arm: str, first: IntEnum, then: IntEnum) -> Judge:
    """Share of runs in which, in every class, both events happen and the second not before the first; what
    has not happened by the horizon never does, and of a run that ends before its horizon it is not known."""

    def judge(runs: Runs) -> Finding:
        run, place = runs["run"], [Events.d, Events.seed, Events.label]
        early, late = (
            run.part(EVENTS, arm=arm, event=int(event)).select(*place, Events.happened, Events.time)
            for event in (first, then)
        )
        rows = early.join(late, on=place, suffix="_then")
        before, after = pl.col(Events.happened), pl.col(f"{Events.happened}_then")
        times = pl.col(Events.time), pl.col(f"{Events.time}_then")
        # For polars NaN is larger than all.
        good = before & after & (times[1] >= times[0]) & times[1].is_not_nan()
        by_run = rows.group_by(Events.d, Events.seed).agg(
            good.fill_null(False).all().alias("good"), (good | ~after).fill_null(False).all().alias("open")
        )
        return _share_of_runs(run, arm, by_run)

    return judge


def _share_of_runs(run: Run, arm: str, by_run: pl.DataFrame) -> Finding:
    """The share of good runs; one that is open and ended before its horizon may be either."""
    arrived = run.part(ENDS, arm=arm).select(Ends.d, Ends.seed, pl.col(Ends.arrived) == 1.0)
    rows = by_run.join(arrived, on=[Events.d, Events.seed], how="left")
    unknown = rows.filter(pl.col("open") & ~pl.col("good") & ~pl.col(Ends.arrived).fill_null(False)).height
    good, total = int(rows["good"].sum()), rows.height
    low, high = wilson(good, total), wilson(good + unknown, total)
    by_d = rows.group_by(Events.d).agg(pl.col("good").mean()).sort(Events.d)
    shown = dict(zip(map(str, by_d[Events.d].to_list()), by_d["good"].to_list(), strict=True))
    return at_least(Interval(low.value, low.low, high.high), 1 - SMALL, by_dimension=shown, unknown=unknown)


def _late(arm: str, event: IntEnum, column: str, power: float | None) -> Judge:
    """At the end of polynomial time: F_y ÷ log d (column F) or max B (column v) as a power of d.

    ``power`` None means −c0.
    """

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        _, share = _events(run, arm, event)
        if share < USUAL:
            note = "F_y reaches log d in too few runs to speak of what follows"
            return Finding(Verdict.VACUOUS, share, USUAL, {"note": note}, "at least")
        last, arrived = _last(run, arm)
        top = numbers(last[column]).max(-1)
        late = pl.Series("late", top / np.log(numbers(last[Curves.d])) if column == Curves.F else top)
        d, values = _medians(last.with_columns(late), late.name)
        bound = -PatchScaling.of(run).c0 if power is None else power
        found = exponent_at_most(
            d, values, bound, d=d, median=plain(values), share_that_reached_the_horizon=arrived
        )
        return found if arrived >= 1 - SMALL else _too_early(found)

    return judge


def _too_early(found: Finding) -> Finding:
    note = "the steps ran out before the horizon in too many runs"
    return replace(explained(found, note=note, would_be=found.verdict.value), verdict=Verdict.INCONCLUSIVE)


def _initial_in_d(runs: Runs) -> Finding:
    """Lemma D.3: the exponent of max_r⟨w(0), f⟩ in d against −1/2."""
    rows = runs["run"].part(INITIAL)
    mean = rows.group_by(Initial.d).agg(pl.col(Initial.largest).mean()).sort(Initial.d)
    return _near(fitted(numbers(mean[Initial.d]).tolist(), mean[Initial.largest].to_list()), -0.5, rows)


def _initial_in_m(runs: Runs) -> Finding:
    """Lemma D.3: the exponent of √d max_r⟨w(0), f⟩ in log m against 1."""
    rows = runs["run"].part(INITIAL)
    scaled = pl.col(Initial.largest) * pl.col(Initial.d).sqrt()
    mean = rows.group_by(Initial.m).agg(scaled.mean()).sort(Initial.m)
    return _near(
        fitted(np.log(numbers(mean[Initial.m])).tolist(), mean[Initial.largest].to_list()), 1.0, rows
    )


def _near(fit: Interval, power: float, rows: pl.DataFrame) -> Finding:
    """How far the exponent is from the predicted one, against BEND."""
    ends = sorted(abs(end - power) for end in (fit.low, fit.high))
    off = Interval(abs(fit.value - power), 0.0 if fit.low <= power <= fit.high else ends[0], ends[1])
    drawn = float((numbers(rows[Initial.largest]) / numbers(rows[Initial.exact])).mean())
    shown = {"exponent": fit.value, "exponent_interval": [fit.low, fit.high], "drawn_against_exact": drawn}
    return at_most(off, BEND, predicted=power, **shown)


def _tensor_power(runs: Runs) -> Finding:
    """y_T ÷ y0 against log(1/y0): the lemma's polylog is read as one logarithm with a constant of at most
    CONSTANT."""
    rows = runs["run"].part(POWER)
    growth = numbers(rows[Power.growth])
    ratio = growth / np.log(1 / numbers(rows[Power.y0]))
    worst = rows.to_dicts()[int(ratio.argmax())]
    return exactly(
        float(ratio.max()), CONSTANT, cells=rows.height, worst_cell=worst, largest_growth=float(growth.max())
    )


def _by_clip(make: Callable[[str], Judge], label: str = "") -> tuple[Reading, ...]:
    return tuple(
        Reading(clip + label, text, {"run": SCALING}, make(clip)) for clip, text in CLIP_TEXTS.items()
    )


ARRIVES, GROWS = StandardEvent.NON_ROBUST_ARRIVES, StandardEvent.OUTPUT_GROWS
MEDIAN = "exponent of the median over the seeds and classes in which it happens"
FIRST_LOSER, SECOND_LOSER = (_loser("standard", event, Events.A, -0.5) for event in (ARRIVES, GROWS))
OFTEN = "share of runs with A ≤ (log d)²/√d"
OUTPUT_AFTER = "share of runs in which F_y ≥ log d comes after max B ≥ ϱ/β, in every class"
ATTACKED_AFTER = "share of runs in which F_y(X̃) ≥ log d comes after Σ B^q = Θ(1/η̃), in every class"
OUTPUT_LATE, LOSER_LATE = "F_y ÷ log d at time d² as a power of d", "max A at time d² as a power of d"
LATE_OUTPUT, LATE_LOSER = (_late("standard", GROWS, c, p) for c, p in ((Curves.F, 0.0), (Curves.u, -0.5)))
ATTACKED = "features-only"
ATTACKED_ORDER = _in_order(ATTACKED, AttackedEvent.ATTACK_CANCELS, AttackedEvent.OUTPUT_GROWS)


def _attacked_inside(event: AttackedEvent, column: str, power: float | None) -> tuple[Reading, ...]:
    judge = _loser(ATTACKED, event, column, power)
    return inside(judge, f"{MEDIAN}; {CLIP_TEXTS[ATTACKED]}", attacked=True)


CLAIMS = (
    Claim(
        id="AT-LD.3",
        paper="at",
        reference="AT Lemma D.3",
        statement="At initialisation max_r⟨w_ir, f⟩ = Θ(log m / √d).",
        hypotheses=("w(0) ~ N(0, I/d)",),
        assumes=(),
        readings=(
            Reading("in-d", "exponent in d against −1/2", {"run": SCALING}, _initial_in_d),
            Reading(
                "in-m",
                "exponent in log m against 1; Lemma B.1 itself gives √(2 log m)",
                {"run": SCALING},
                _initial_in_m,
            ),
        ),
    ),
    Claim(
        id="AT-LB.2",
        paper="at",
        reference="AT Lemma B.2",
        statement="In the tensor power method the sequence that starts behind is still within polylog of its "
        "start when the other reaches a constant.",
        hypotheses=("q ≥ 3", "x0 ≥ y0 S^{1/(q−2)} (1 + 1/polylog)"),
        assumes=(),
        readings=(
            Reading(
                "grid",
                "growth of y ÷ log(1/y0), largest over y0, S and q, gap 1/log(1/y0)",
                {"run": SCALING},
                _tensor_power,
            ),
        ),
    ),
    Claim(
        id="AT-LD.9",
        paper="at",
        reference="AT Lemma D.9",
        statement="When max B reaches ϱ/β under standard training, max A is still O(polylog(d)/√d).",
        hypotheses=FLOW,
        assumes=GROWTH,
        readings=(
            Reading("median", MEDIAN, {"run": SCALING}, FIRST_LOSER),
            Reading("high-probability", OFTEN, {"run": SCALING}, _with_high_probability("standard", ARRIVES)),
            *inside(FIRST_LOSER, MEDIAN),
            *inside(_with_high_probability("standard", ARRIVES), OFTEN, "high-probability"),
        ),
    ),
    Claim(
        id="AT-LD.10",
        paper="at",
        reference="AT Lemma D.10",
        statement="F_y reaches log d under standard training not before max B reaches ϱ/β, and max A is then "
        "still O(polylog(d)/√d).",
        hypotheses=FLOW,
        assumes=GROWTH,
        readings=(
            Reading("median", MEDIAN, {"run": SCALING}, SECOND_LOSER),
            Reading("order", OUTPUT_AFTER, {"run": SCALING}, _in_order("standard", ARRIVES, GROWS)),
            *inside(SECOND_LOSER, MEDIAN),
            *inside(_in_order("standard", ARRIVES, GROWS), OUTPUT_AFTER, "order"),
        ),
    ),
    Claim(
        id="AT-LD.11",
        paper="at",
        reference="AT Lemma D.11",
        statement="For polynomial time after that F_y stays O(log d), and max A stays O(polylog(d)/√d).",
        hypotheses=FLOW,
        assumes=GROWTH,
        readings=(
            Reading("until-d²", OUTPUT_LATE, {"run": SCALING}, LATE_OUTPUT),
            Reading("until-d² (max A)", LOSER_LATE, {"run": SCALING}, LATE_LOSER),
            *inside(LATE_OUTPUT, OUTPUT_LATE),
            *inside(LATE_LOSER, LOSER_LATE, "max A"),
        ),
    ),
    Claim(
        id="AT-LD.23",
        paper="at",
        reference="AT Lemma D.23 (with η̃⁻¹ for the printed η⁻¹)",
        statement="When Σ B^q reaches Θ(1/η̃) under adversarial training, max A is still O(polylog(d)/√d).",
        hypotheses=FLOW,
        assumes=GROWTH,
        readings=(
            *_by_clip(lambda clip: _loser(clip, AttackedEvent.ATTACK_CANCELS, Events.A, -0.5)),
            *_attacked_inside(AttackedEvent.ATTACK_CANCELS, Events.A, -0.5),
        ),
    ),
    Claim(
        id="AT-LD.24",
        paper="at",
        reference="AT Lemma D.24",
        statement="max A reaches ϱ/α in polynomial time under adversarial training, and max B is then "
        "O(d^−c0).",
        hypotheses=FLOW,
        assumes=ATTACKED_GROWTH,
        readings=(
            *_by_clip(lambda clip: _loser(clip, AttackedEvent.ROBUST_ARRIVES, Events.B)),
            *_attacked_inside(AttackedEvent.ROBUST_ARRIVES, Events.B, None),
        ),
    ),
    Claim(
        id="AT-LD.25",
        paper="at",
        reference="AT Lemma D.25",
        statement="F_y(X̃) reaches log d in polynomial time under adversarial training, not before the attack "
        "cancels β, and max B is then O(polylog(d) d^−c0).",
        hypotheses=FLOW,
        assumes=ATTACKED_GROWTH,
        readings=(
            *_by_clip(lambda clip: _loser(clip, AttackedEvent.OUTPUT_GROWS, Events.B)),
            *_attacked_inside(AttackedEvent.OUTPUT_GROWS, Events.B, None),
            Reading("order", f"{ATTACKED_AFTER}; {CLIP_TEXTS[ATTACKED]}", {"run": SCALING}, ATTACKED_ORDER),
            *inside(ATTACKED_ORDER, f"{ATTACKED_AFTER}; {CLIP_TEXTS[ATTACKED]}", "order", attacked=True),
        ),
    ),
    Claim(
        id="AT-LD.26",
        paper="at",
        reference="AT Lemma D.26",
        statement="For polynomial time after that F_y(X̃) stays O(log d) and max B stays O(polylog(d) d^−c0).",
        hypotheses=FLOW,
        assumes=ATTACKED_GROWTH,
        readings=(
            *_by_clip(lambda clip: _late(clip, AttackedEvent.OUTPUT_GROWS, Curves.F, 0.0)),
            *_by_clip(lambda clip: _late(clip, AttackedEvent.OUTPUT_GROWS, Curves.v, None), " (max B)"),
            *inside(_late(ATTACKED, AttackedEvent.OUTPUT_GROWS, Curves.F, 0.0), OUTPUT_LATE, attacked=True),
            *inside(
                _late(ATTACKED, AttackedEvent.OUTPUT_GROWS, Curves.v, None),
                "max B at time d² as a power of d",
                "max B",
                attacked=True,
            ),
        ),
    ),
)
