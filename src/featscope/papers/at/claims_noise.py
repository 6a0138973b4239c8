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
    exponent_at_most,
    largest,
    numbers,
    scoped,
    smallest,
    soft,
)
from featscope.core.rules import CONSTANT, SAME
from featscope.core.stats import Interval
from featscope.experiments.run import Run
from featscope.papers.at.fig3_columns import DYNAMICS, Dynamics
from featscope.papers.at.final_values import final_values
from featscope.papers.at.patch_fig3 import PatchFig3
from featscope.papers.at.patch_noise import NOISY_DESCENT, SPANS, NoisyDescent, PatchNoise, Spans
from featscope.papers.at.runs import (
    ATTACKED_GROWTH,
    COORDINATE,
    FIG3,
    NOISE,
    NOISE_SIZE,
    NOISY_GROWTH,
    RADIUS_SIZE,
    ROOM,
)

#: what `soft` does, in words
TILDE = "Õ(f) is read as at most f · log d"


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


def _decomposition(runs: Runs) -> Finding:
    spec = PatchFig3.of(runs["run"])
    vectors, room = float(spec.train_size * spec.law.patches), float(spec.law.d - 2 * spec.law.k)
    if vectors >= room:
        note = (
            "the N·P noise vectors span everything orthogonal to the features, "
            "so every weight vector has this form"
        )
        return Finding(Verdict.VACUOUS, vectors, room, {"note": note})
    note = "fewer noise vectors than dimensions: the reading large-d measures it"
    return Finding(Verdict.INCONCLUSIVE, None, None, {"note": note})


def _in_span(runs: Runs) -> Finding:
    """The largest share of w(T) − w(0) outside the span of features and noise, over dimensions far larger
    than that span."""
    rows = runs["run"].part(SPANS)
    groups = rows.group_by(Spans.d, maintain_order=True)
    shares = {f"d={d}": largest(group[Spans.outside_span].to_list()) for (d,), group in groups}
    return exactly(largest(shares.values()), SAME, by_dimension=shares)


def _noise_small(arm: str) -> Judge:
    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        by_seed = [numbers(rows[Dynamics.noise_max]) for rows in _seeds(run, arm, Dynamics.noise_max)]
        worst, start = [float(seed.max()) for seed in by_seed], [float(seed[0]) for seed in by_seed]
        shown = {"at_initialisation": largest(start), "growth": largest(worst) / largest(start)}
        return at_most(_spread(worst), _small_noise(run), rule=TILDE, **shown)

    return judge


def _noise_in_d(runs: Runs) -> Finding:
    """The largest noise correlation over training as a power of d, at a fixed number of points."""
    run = runs["run"]
    by_d: dict[float, list[float]] = {}
    rows = run.part(NOISY_DESCENT).sort(NoisyDescent.d)
    for (d, _), group in rows.group_by(NoisyDescent.d, NoisyDescent.seed, maintain_order=True):
        by_d.setdefault(float(str(d)), []).append(largest(numbers(group[NoisyDescent.noise_max])))
    medians = [float(np.median(values)) for values in by_d.values()]
    finding = exponent_at_most(list(by_d), medians, -0.5, median=plain(medians))
    n = PatchNoise.of(run).train_size
    why = f"N = poly(d): N is {n} at every d, and a point's own noise is learned in proportion to 1/N"
    return scoped([why], finding)


def _noise_update(runs: Runs) -> Finding:
    run, name = runs["run"], Dynamics.noise_update_rest
    worst = [float(numbers(rows[name]).max()) for rows in _seeds(run, "standard", name)]
    measured = "largest remainder per unit of η over the recorded steps"
    return at_most(_spread(worst), _small_noise(run), rule=TILDE, measured=measured)


def _since(rows: pl.DataFrame, log_d: float) -> pl.DataFrame:
    """The rows at which max F_y has reached log d.

    For polars NaN is larger than all: such rows stay, and make what is read from them NaN.
    """
    return rows.filter(pl.col(Dynamics.F_max) >= log_d)


def _never() -> Finding:
    return Finding(Verdict.VACUOUS, None, None, {"note": "max F_y never reaches log d in this run"})


def _balanced(runs: Runs) -> Finding:
    """min F_y ÷ max F_y within a class once max F_y ≥ log d."""
    run = runs["run"]
    late = [_since(rows, _log_d(run)) for rows in _seeds(run, "standard", Dynamics.F_max)]
    worst = [float(numbers(rows[Dynamics.F_ratio]).min()) for rows in late if rows.height]
    if not worst:
        return _never()
    return at_least(Interval(smallest(worst), smallest(worst), largest(worst)), 1 / CONSTANT)


def _total_residual(runs: Runs) -> Finding:
    """η Σ_{t ≥ T0} mean (1 − logit_y), T0 the first recorded step with max F_y ≥ log d (trapezoid over
    recorded steps)."""
    run = runs["run"]
    eta = PatchFig3.of(run).standard.learning_rate
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
    run, losers = runs["run"], (Dynamics.u, Dynamics.C, Dynamics.D)
    worst = np.max([final_values(run, "standard", name).max(-1) for name in losers], axis=0)
    return at_most(
        _spread(worst.tolist()), _small_noise(run), rule=TILDE, measured="largest of A, C and D at the end"
    )


def _winner(runs: Runs) -> Finding:
    run = runs["run"]
    ratios = final_values(run, "standard", Dynamics.v).min(-1) / _log_d(run)
    measured = "smallest max_r B over classes ÷ log d, Θ read as ≥ 1/3"
    return at_least(
        Interval(smallest(ratios), smallest(ratios), largest(ratios)), 1 / CONSTANT, measured=measured
    )


SETTING = ("Figure 3's law and training",)


def _claim(
    name: str, reference: str, statement: str, *readings: Reading, assumes: tuple[str, ...] = NOISY_GROWTH
) -> Claim:
    return Claim(f"AT-{name}", "at", f"AT {reference}", statement, SETTING, readings, assumes)


CLAIMS = (
    _claim(
        "LE.2",
        "Lemma E.2",
        "Under standard training weights are w(0) plus features plus training noise.",
        Reading("figure-3", "whether the statement excludes anything", {"run": FIG3}, _decomposition),
        Reading(
            "large-d", "what lies outside the span, d up to 10⁹ by compact copies", {"run": NOISE}, _in_span
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
            {"run": FIG3},
            _noise_small("standard"),
        ),
        Reading(
            "fixed-N-in-d",
            "exponent in d up to 10⁹ with N fixed, by compact copies in law",
            {"run": NOISE},
            _noise_in_d,
        ),
    ),
    _claim(
        "LE.4",
        "Lemma E.4",
        "A step changes ⟨w, ξ_p⟩ by the patch's own term up to η·Õ(1/√d).",
        Reading("figure-3", "largest remainder per unit of η", {"run": FIG3}, _noise_update),
        assumes=(ROOM, NOISE_SIZE),
    ),
    _claim(
        "LE.5",
        "Lemma E.5",
        "Once F_y has reached log d, it is of the same order on all points of a class.",
        Reading("figure-3", "smallest ratio min ÷ max within a class", {"run": FIG3}, _balanced),
    ),
    _claim(
        "LE.6",
        "Lemma E.6",
        "The summed mean of 1 − logit_y from T0 on is Õ(1/η).",
        Reading("figure-3", "η times the sum", {"run": FIG3}, _total_residual),
    ),
    _claim(
        "LE.7",
        "Lemma E.7",
        "At the end of standard training B = Θ(log d), and A, C and D are O(polylog(d)/√d).",
        Reading("losers", "A, C and D against log d/√d", {"run": FIG3}, _losers),
        Reading("winner", "B against log d", {"run": FIG3}, _winner),
    ),
    _claim(
        "LE.9",
        "Lemma E.9",
        "Under adversarial training weights are w(0) plus features plus training noise.",
        Reading("figure-3", "whether the statement excludes anything", {"run": FIG3}, _decomposition),
        assumes=(),
    ),
    _claim(
        "LE.10",
        "Lemma E.10",
        "Under adversarial training ⟨w, ξ_p⟩ stays Õ(1/√d) on all training patches.",
        Reading(
            "patch-clip",
            "largest over neurons, patches and recorded steps",
            {"run": FIG3},
            _noise_small("adversarial"),
        ),
        Reading(
            "coordinate-clip",
            "the same with the coordinate clip",
            {"run": COORDINATE},
            _noise_small("adversarial"),
        ),
        assumes=(*ATTACKED_GROWTH, NOISE_SIZE, RADIUS_SIZE),
    ),
)
