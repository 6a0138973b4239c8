"""CGRO's lemmas on the stages of training (§4, appendices A and C), judged from rows."""

from __future__ import annotations

import math

import polars as pl

from featscope.claims.claim import Finding, Judge, Reading, Runs
from featscope.claims.judging import (
    at_least,
    at_most,
    every,
    exactly,
    exponent_at_most,
    fitted,
    largest,
    over_seeds,
    reaches,
    smallest,
)
from featscope.core.rules import BEND, CONSTANT, SAME, SMALL
from featscope.experiments.run import Run
from featscope.papers.cgro.runs import LEMMAS_RUN, SCALING, STAGES, STATED, each_seed, logarithm, stated
from featscope.papers.cgro.signal_lemmas import LemmaCase
from featscope.papers.cgro.signal_scaling import DimensionSweep, SampleSweep, StartSweep, close
from featscope.papers.cgro.signal_stages import SignalStages
from featscope.papers.cgro.stages_columns import Training, Verification


def _until(frame: pl.DataFrame) -> pl.DataFrame:
    first = int(frame[Training.first_memorised][-1])
    return frame.filter(pl.col(Training.step) <= first) if first >= 0 else frame


def _after(frame: pl.DataFrame) -> pl.DataFrame:
    last = int(frame[Training.last_memorised][-1])
    return frame.filter(pl.col(Training.step) >= last) if last >= 0 else frame.clear()


def _least_growth(run: Run, frames: list[pl.DataFrame]) -> Finding:
    """The least growth constant of each seed in units of 3(1−λ)."""
    unit = 3 * (1 - SignalStages.of(run).tradeoff)
    return at_least(over_seeds([smallest(f[Training.growth_constant]) / unit for f in frames]), 1 / CONSTANT)


def signal_growth(runs: Runs) -> Finding:
    """Lemma 4.2's constant, relative to 3(1−λ), until the first point is memorised."""
    return _least_growth(runs["run"], [_until(frame) for frame in each_seed(runs["run"])])


def signal_growth_always(runs: Runs) -> Finding:
    """The same for any t, as the lemma says."""
    return _least_growth(runs["run"], each_seed(runs["run"]))


def signal_time(runs: Runs) -> Finding:
    """T0 against 1/(1.5 η(1−λ) α³ max u_r(0)): the share of starts within the ledger's constant of it."""
    rows = runs["run"].part("starts").to_dicts()
    # A column that is empty in all rows is not there.
    times = [(row[StartSweep.T0], row.get(StartSweep.T0_predicted)) for row in rows]
    usable = [(t, p) for t, p in times if t > 0 and p is not None and 0 < p < math.inf]
    ratios = [reached / predicted for reached, predicted in usable]
    near = sum(1 / CONSTANT <= ratio <= CONSTANT for ratio in ratios)
    return reaches(
        near / len(rows) if rows else math.nan,
        1 - SMALL,
        within_a_step_or_a_tenth=sum(close(*pair) for pair in times),
        starts=len(rows),
        worst_ratio=max((max(ratio, 1 / ratio) for ratio in ratios), default=None),
    )


def recursion(runs: Runs) -> Finding:
    """The exact recursions against full descent."""
    run = runs["run"]
    rows = run.part("verify")
    gaps = [largest(rows[key]) for key in (Verification.gap_u, Verification.gap_v)] if rows.height else []
    return exactly(largest(gaps), SAME, steps=SignalStages.of(run).verify_steps)


def signal_ceiling(runs: Runs) -> Finding:
    """Lemma 4.3: max u_r against α⁻¹ + ηα³(1−γ)³ Σ_s mean ψ, from T0 on."""
    run = runs["run"]
    spec, c = SignalStages.of(run), Training
    alpha, gap, eta = spec.law.strength, spec.law.residual, spec.learning_rate
    ratios = []
    for frame in each_seed(run):
        late = frame.filter(pl.col(c.step) >= pl.col(c.signal_at).last())
        room = 1 / alpha + eta * (alpha * gap) ** 3 * late[c.slack]
        ratios.append(largest(late[c.u_max] / room))
    return at_most(over_seeds(ratios), logarithm(run))


def _crosstalk(run: Run, frames: list[pl.DataFrame]) -> Finding:
    """What other patches take from v_ijr, in units of Pσ²√d/α."""
    law = SignalStages.of(run).law
    unit = law.patches * law.noise_scale**2 * law.d**0.5 / law.strength
    most = [largest(frame[Training.crosstalk_low]) / unit for frame in frames]
    return at_most(over_seeds(most), logarithm(run), unit=unit)


def noise_growth(runs: Runs) -> Finding:
    """Lemma 4.4: what other patches take from v_ijr, against P σ² √d/α up to a logarithm."""
    return _crosstalk(runs["run"], each_seed(runs["run"]))


def noise_growth_early(runs: Runs) -> Finding:
    """The same up to the step at which the first point is memorised."""
    return _crosstalk(runs["run"], [_until(frame) for frame in each_seed(runs["run"])])


def noise_time(runs: Runs) -> Finding:
    """T1 grows like N/(η σ0 σ³ d^{3/2}) (Lemma C.7): exponent of the measured median against that order."""
    c, rows = DimensionSweep, runs["run"].part("dimensions")
    # A seed that never memorised has −1, which is no time: then nothing is fitted, not even to the others.
    fit = fitted(rows[c.T1_order].to_list(), rows[c.median_memorised].cast(pl.Float64).to_list())
    return every({"not slower": at_most(fit, 1 + BEND), "not faster": at_least(fit, 1 - BEND)})


def induction(runs: Runs) -> Finding:
    """Hypothesis C.1: α·max u_r and max |v_ijr| stay below a logarithm."""
    run = runs["run"]

    def within(key: str) -> Finding:
        return at_most(over_seeds([largest(frame[key]) for frame in each_seed(run)]), logarithm(run))

    return every({"signal": within(Training.alpha_u), "noise": within(Training.v_max)})


def gradient_floor(runs: Runs) -> Finding:
    """Lemma C.8: ‖∇L‖/L after T1."""
    run = runs["run"]
    late = [_after(frame) for frame in each_seed(run)]
    found = [smallest(frame[Training.gradient] / frame[Training.loss]) for frame in late]
    return at_least(over_seeds(found), 1 / logarithm(run))


def loss_rate(runs: Runs) -> Finding:
    """Lemma C.9: L·η(t − T1 + 1) after T1, T1 the last point's."""
    run = runs["run"]
    c, eta = Training, SignalStages.of(run).learning_rate
    late = [_after(frame) for frame in each_seed(run)]
    found = [largest(f[c.loss] * eta * (f[c.step] - f[c.last_memorised] + 1)) for f in late]
    return at_most(over_seeds(found), logarithm(run))


def slack_sum(runs: Runs) -> Finding:
    """Lemma C.10: (λ/N) Σ_s Σ_i ψ(y f(X^adv)) against 1/(ησ0)."""
    run = runs["run"]
    spec = SignalStages.of(run)
    unit = spec.tradeoff * spec.learning_rate * spec.start_scale
    return at_most(over_seeds([unit * largest(f[Training.slack]) for f in each_seed(run)]), logarithm(run))


def slack_growth(runs: Runs) -> Finding:
    """Lemma C.10's bound has no N: exponent of the sum in N, up to the N that memorises at all (N ≤ N*)."""
    c = SampleSweep
    rows = runs["run"].part("samples").filter(pl.col(c.n) <= pl.col(c.critical_samples))
    sizes, sums = rows[c.n].to_list(), rows[c.slack].to_list()
    return exponent_at_most(sizes, sums, 0.0, what="summed ψ against N, d fixed")


def lemma(name: str) -> Judge:
    """The worst share of a tensor-power lemma's bound over the grid."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part("lemmas").filter(pl.col(LemmaCase.lemma) == name)
        return exactly(largest(rows[LemmaCase.share]), 1 + SAME, cases=rows.height)

    return judge


_DEFAULT = "as stated"
CLAIMS = (
    stated(
        "CG-LA.1",
        "CGRO Lemma A.1",
        "A sequence that grows by m z² to M z² passes v within 3/(m z0) + (8M/m)⌈log2(v/z0)⌉ steps.",
        (Reading(_DEFAULT, "slowest allowed sequence over a grid", LEMMAS_RUN, lemma("A.1")),),
        (),
    ),
    stated(
        "CG-LA.2",
        "CGRO Lemma A.2",
        "A sequence within C ≤ z0/2 of z0 + AΣz² passes v within 8⌈log2(v/z0)⌉ + 21/(A z0) steps.",
        (Reading(_DEFAULT, "slowest allowed sequence over a grid", LEMMAS_RUN, lemma("A.2")),),
        (),
    ),
    stated(
        "CG-LA.3",
        "CGRO Lemma A.3",
        "A non-negative sequence that falls by at least A z² is at most 1/(A t) after t steps.",
        (Reading(_DEFAULT, "slowest allowed sequence over a grid", LEMMAS_RUN, lemma("A.3")),),
        (),
    ),
    stated(
        "CG-L4.2",
        "CGRO Lemma 4.2, Lemma C.3",
        "Each signal component grows by at least a constant times ηα³u²ψ(α³U); α³U is of order one after T0.",
        (
            Reading(
                "until memorisation",
                "constant against 3(1−λ), up to the first V_i ≥ 1",
                STAGES,
                signal_growth,
            ),
            Reading("any t", "the same over the whole run", STAGES, signal_growth_always),
            Reading(
                "T0",
                "first step with α³U ≥ 1 against the prediction from u_r(0), over many starts",
                SCALING,
                signal_time,
                at={"sweep": "starts"},
            ),
            Reading(
                "recursion",
                "exact recursions of u and v against full descent",
                STAGES,
                recursion,
                assumes=(),
            ),
        ),
    ),
    stated(
        "CG-L4.3",
        "CGRO Lemma 4.3",
        "After T0 the signal stays below Õ(1/α) plus what the residual signal of attacked points adds.",
        (Reading("up to a logarithm", "Õ as ln d", STAGES, signal_ceiling),),
    ),
    stated(
        "CG-L4.4",
        "CGRO Lemma 4.4, Lemma C.7",
        "Each noise component grows like (ησ²d/N)Σψ(V)v² up to Õ(Pσ²√d/α), so V_i is of order one after T1.",
        (
            Reading(
                "up to a logarithm",
                "cross-talk of other patches against the error term, Õ as ln d",
                STAGES,
                noise_growth,
            ),
            Reading("until memorisation", "the same up to the first V_i ≥ 1", STAGES, noise_growth_early),
            Reading(
                "T1",
                "median T1 against N/(ησ0σ³d^1.5) as d grows",
                SCALING,
                noise_time,
                at={"sweep": "dimensions"},
            ),
        ),
    ),
    stated(
        "CG-HC.1",
        "CGRO Hypothesis C.1",
        "Signal components stay Õ(1/α), noise components Õ(1).",
        (Reading("up to a logarithm", "Õ as ln d", STAGES, induction),),
    ),
    stated(
        "CG-LC.8",
        "CGRO Lemma C.8",
        "After T1 the gradient norm is at least Ω̃(1) times the loss.",
        (Reading("up to a logarithm", "Ω̃ as 1/ln d", STAGES, gradient_floor),),
    ),
    stated(
        "CG-LC.9",
        "CGRO Lemma C.9",
        "After T1 the loss falls at least like 1/(η(t − T1 + 1)).",
        (Reading("up to a logarithm", "Õ as ln d", STAGES, loss_rate),),
    ),
    stated(
        "CG-LC.10",
        "CGRO Lemma C.10",
        "The summed derivative on attacked points is at most Õ(1/(ησ0)).",
        (
            Reading("up to a logarithm", "Õ as ln d", STAGES, slack_sum),
            Reading(
                "growth in N",
                "the bound has no N: exponent of the sum in N",
                SCALING,
                slack_growth,
                assumes=STATED,
                at={"sweep": "samples"},
            ),
        ),
    ),
)
