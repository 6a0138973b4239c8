"""Claims of AT's appendix E, where data are noisy and finite: AT-LE.2 to AT-LE.10."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Reading, Runs, Verdict, plain
from featscope.claims.judging import (
    at_least,
    at_most,
    exactly,
    explained,
    exponent_at_most,
    largest,
    numbers,
    smallest,
    soft,
    vacuous,
)
from featscope.core.columns import Column
from featscope.core.rules import CONSTANT, SAME
from featscope.core.stats import Interval
from featscope.experiments.run import Run
from featscope.papers.at.fig3_columns import DYNAMICS, Dynamics
from featscope.papers.at.final_values import final_values
from featscope.papers.at.patch_fig3 import PatchFig3
from featscope.papers.at.patch_noise import GROWING, SPANS, GrowingSample, Spans
from featscope.papers.at.runs import (
    ATTACKED_GROWTH,
    COORDINATE,
    FULL_BATCH,
    LONG_STEPS,
    NOISE,
    NOISE_SIZE,
    NOISY_GROWTH,
    RADIUS_SIZE,
    ROOM,
)

#: what `soft` does, in words
TILDE = "Õ(f) is read as at most f · log d"
#: what standard training does not learn: A, C and D
LOSERS = (Dynamics.u, Dynamics.C, Dynamics.D)


def _small_noise(run: Run) -> float:
    """Õ(1/√d) at Figure 3's d."""
    d = PatchFig3.of(run).law.d
    return soft(d) / math.sqrt(d)


def _log_d(run: Run) -> float:
    return math.log(PatchFig3.of(run).law.d)


def _spread(values: Sequence[float]) -> Interval:
    """The largest over seeds, with the range over seeds as its interval; NaN if a seed has none."""
    return Interval(largest(values), smallest(values), largest(values))


def _seeds(run: Run, arm: str, column: str) -> list[pl.DataFrame]:
    """The rows of each seed at which a column is recorded, by step."""
    rows = run.part(DYNAMICS, arm=arm).filter(pl.col(column).is_not_null()).sort(Dynamics.step)
    return [group for _, group in rows.group_by(Dynamics.seed, maintain_order=True)]


def _in_span(training: str, column: Column) -> Judge:
    """The largest share of w(T) − w(0) outside the span of a lemma; empty where the span is everything."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part(SPANS, training=training)
        found = exactly(largest(rows[column].to_list()), SAME, by_seed=plain(numbers(rows[column])))
        vectors, room = largest(rows[Spans.vectors].to_list()), smallest(rows[Spans.room].to_list())
        why = f"{vectors:g} features and noise vectors span R^{room:g}; opens at d > {vectors:g}"
        return vacuous(why, found) if vectors >= room else explained(found, vectors=vectors, d=room)

    return judge


def _noise_small(arm: str) -> Judge:
    """The largest noise correlation over training, by seed, against log d/√d."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        by_seed = [numbers(rows[Dynamics.noise_max]) for rows in _seeds(run, arm, Dynamics.noise_max)]
        worst, start = [float(seed.max()) for seed in by_seed], [float(seed[0]) for seed in by_seed]
        shown = {"at_initialisation": largest(start), "growth": largest(worst) / largest(start)}
        return at_most(_spread(worst), _small_noise(run), rule=TILDE, **shown)

    return judge


def _noise_in_d(runs: Runs) -> Finding:
    """The largest noise correlation over training as a power of d, where the sample grows with d."""
    by_d: dict[float, list[float]] = {}
    rows = runs["run"].part(GROWING).sort(GrowingSample.d)
    for (d, _), group in rows.group_by(GrowingSample.d, GrowingSample.seed, maintain_order=True):
        by_d.setdefault(float(str(d)), []).append(largest(numbers(group[GrowingSample.noise_max])))
    medians = [float(np.median(values)) for values in by_d.values()]
    return exponent_at_most(list(by_d), medians, -0.5, median=plain(medians))


def _noise_update(runs: Runs) -> Finding:
    """The largest remainder of a step per unit of η, by seed, against log d/√d."""
    run, name = runs["run"], Dynamics.noise_update_rest
    worst = [float(numbers(rows[name]).max()) for rows in _seeds(run, "standard", name)]
    bound = PatchFig3.of(run).law.d ** -0.5
    return at_most(_spread(worst), bound, times_the_bound=largest(worst) / bound)


def _since(rows: pl.DataFrame, log_d: float) -> pl.DataFrame:
    """The rows at which max F_y has reached log d.

    For polars NaN is larger than all: such rows stay, and make what is read from them NaN.
    """
    return rows.filter(pl.col(Dynamics.F_max) >= log_d)


def _never() -> Finding:
    return Finding(Verdict.VACUOUS, None, None, {"note": "max F_y never reaches log d in this run"})


def _premised(rows: pl.DataFrame, bound: float) -> pl.DataFrame:
    """The rows at which A, C and D are at most a bound. One that is not a number is no excuse: its row
    stays."""
    if rows.height == 0:  # a seed that has not reached log d
        return rows
    larger = [np.max(numbers(rows[name]).reshape(rows.height, -1), axis=1) > bound for name in LOSERS]
    return rows.filter(~np.any(larger, axis=0))


def _balanced(runs: Runs) -> Finding:
    """min F_y ÷ max F_y within a class at the times that the lemma speaks of: max F_y ≥ log d, and A, C and D
    at most log d/√d."""
    run = runs["run"]
    late = [_since(rows, _log_d(run)) for rows in _seeds(run, "standard", Dynamics.F_max)]
    if not any(rows.height for rows in late):
        return _never()
    meant = [_premised(rows, _small_noise(run)) for rows in late]
    worst = [float(numbers(rows[Dynamics.F_ratio]).min()) for rows in meant if rows.height]
    if not worst:
        return Finding(
            Verdict.VACUOUS, None, None, {"note": "A, C or D is above log d/√d at all these times"}
        )
    return at_least(Interval(smallest(worst), smallest(worst), largest(worst)), 1 / CONSTANT)


def _total_residual(runs: Runs) -> Finding:
    """η Σ_{t ≥ T0} mean (1 − logit_y), T0 the first recorded step with max F_y ≥ log d (trapezoid over
    recorded steps)."""
    run = runs["run"]
    spec = PatchFig3.of(run)
    # Rows count epochs, the lemma counts steps.
    eta = spec.standard.learning_rate * spec.standard.steps_an_epoch(spec.train_size)
    totals = []
    for rows in _seeds(run, "standard", Dynamics.residual):
        reached = _since(rows, _log_d(run))
        if reached.height == 0:
            continue
        late = rows.filter(pl.col(Dynamics.step) >= reached[Dynamics.step][0])
        step, residual = numbers(late[Dynamics.step]), numbers(late[Dynamics.residual])
        totals.append(float(eta * ((residual[1:] + residual[:-1]) / 2 * (step[1:] - step[:-1])).sum()))
    return at_most(_spread(totals), soft(PatchFig3.of(run).law.d), rule=TILDE) if totals else _never()


def _losers(runs: Runs) -> Finding:
    """The largest of A, C and D at the end, by seed, against log d/√d."""
    run = runs["run"]
    worst = np.max([final_values(run, "standard", name).max(-1) for name in LOSERS], axis=0)
    return at_most(
        _spread(worst.tolist()), _small_noise(run), rule=TILDE, measured="largest of A, C and D at the end"
    )


def _winner(runs: Runs) -> Finding:
    """The smallest max_r B over classes ÷ log d at the end, by seed, against 1/CONSTANT."""
    run = runs["run"]
    ratios = final_values(run, "standard", Dynamics.v).min(-1) / _log_d(run)
    measured = "smallest max_r B over classes ÷ log d, Θ read as ≥ 1/3"
    return at_least(
        Interval(smallest(ratios), smallest(ratios), largest(ratios)), 1 / CONSTANT, measured=measured
    )


SETTING = ("Figure 3's law, gradient descent on all points (§2.4)",)


def _claim(
    name: str, reference: str, statement: str, *readings: Reading, assumes: tuple[str, ...] = NOISY_GROWTH
) -> Claim:
    return Claim(f"AT-{name}", "at", f"AT {reference}", statement, SETTING, readings, assumes)


CLAIMS = (
    _claim(
        "LE.2",
        "Lemma E.2",
        "Under standard training weights are w(0) plus features plus training noise.",
        Reading(
            "more-dimensions",
            "what lies outside the span; d > NP + km + 2k",
            {"run": NOISE},
            _in_span("standard", Spans.outside_span),
        ),
        assumes=(),
    ),
    _claim(
        "LE.3",
        "Lemma E.3",
        "Under standard training ⟨w, ξ_p⟩ stays Õ(1/√d) on all training patches.",
        Reading(
            "figure-3",
            "largest over neurons, patches and recorded steps",
            {"run": FULL_BATCH},
            _noise_small("standard"),
        ),
        Reading(
            "N-grows-with-d",
            "exponent in d of the largest over training, with N = d points",
            {"run": NOISE},
            _noise_in_d,
        ),
    ),
    _claim(
        "LE.4",
        "Lemma E.4",
        "A step changes ⟨w, ξ_p⟩ by the patch's own term up to η/√d.",
        Reading(
            "figure-3",
            "largest remainder per unit of η over the recorded steps, against 1/√d; η = 0.1, full batch",
            {"run": FULL_BATCH},
            _noise_update,
        ),
        assumes=(ROOM, NOISE_SIZE),
    ),
    _claim(
        "LE.5",
        "Lemma E.5",
        "Once F_y has reached log d while A, C and D are small, it is of one order on all points of a class.",
        Reading(
            "figure-3",
            "smallest ratio min ÷ max within a class, while A, C and D are at most log d/√d",
            {"run": FULL_BATCH},
            _balanced,
        ),
        assumes=(ROOM, NOISE_SIZE),
    ),
    _claim(
        "LE.6",
        "Lemma E.6",
        "The summed mean of 1 − logit_y from T0 on is Õ(1/η).",
        Reading("figure-3", "η times the sum", {"run": FULL_BATCH}, _total_residual),
    ),
    _claim(
        "LE.7",
        "Lemma E.7",
        "At the end of standard training B = Θ(log d), and A, C and D are O(polylog(d)/√d).",
        Reading("losers", "A, C and D against log d/√d", {"run": FULL_BATCH}, _losers),
        Reading("winner", "B against log d", {"run": FULL_BATCH}, _winner),
    ),
    _claim(
        "LE.9",
        "Lemma E.9",
        "Under adversarial training weights are w(0) plus features plus training noise.",
        *(
            Reading(
                f"{clip}-clip{label}",
                f"{text}; d > NP + km + 2k, full batch, {clip} clip",
                {"run": NOISE},
                _in_span(clip, column),
            )
            for clip in ("patch", "coordinate")
            for label, text, column in (
                ("", "what lies outside the span as printed", Spans.outside_span),
                (
                    " (initial weights)",
                    "what lies outside the span with the initial weights that Lemma D.16 has",
                    Spans.outside_initial,
                ),
            )
        ),
        assumes=(),
    ),
    _claim(
        "LE.10",
        "Lemma E.10",
        "Under adversarial training ⟨w, ξ_p⟩ stays Õ(1/√d) on all training patches.",
        Reading(
            "patch-clip",
            "largest over neurons, patches and recorded steps; η = 1, full batch, patch clip",
            {"run": LONG_STEPS},
            _noise_small("adversarial"),
        ),
        Reading(
            "coordinate-clip",
            "the same; η = 0.1, batches of 5, coordinate clip",
            {"run": COORDINATE},
            _noise_small("adversarial"),
        ),
        assumes=(*ATTACKED_GROWTH, NOISE_SIZE, RADIUS_SIZE),
    ),
)
