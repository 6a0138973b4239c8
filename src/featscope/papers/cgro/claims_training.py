"""CGRO's statements about training (§4, appendices A and C), judged from rows."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from featscope.certificates.cgro import BallFailures, ball_failures
from featscope.claims.claim import Claim, Finding, Judge, Kind, Need, Reading, Runs, plain
from featscope.claims.judging import (
    at_least,
    at_most,
    error_over_seeds,
    every,
    exactly,
    exponent_at_most,
    fitted,
    largest,
    over_seeds,
    reaches,
    scoped,
    smallest,
    soft,
)
from featscope.core.rules import BEND, CONSTANT, MUCH, SAME, SMALL
from featscope.core.stats import NOTHING, Interval
from featscope.experiments.run import Run
from featscope.papers.cgro.signal_lemmas import LemmaCase
from featscope.papers.cgro.signal_robustness import BALL, NOISE_BALL, Robustness
from featscope.papers.cgro.signal_scaling import DimensionSweep, SampleSweep, SignalScaling, StartSweep, close
from featscope.papers.cgro.signal_stages import SignalStages, Training, Verification

STAGES = {"run": Need("signal-stages")}
SCALING = {"run": Need("signal-scaling")}
LEMMAS = {"run": Need("signal-lemmas")}
HYPOTHESES = (
    "Parameterization 3.1",
    "attack (A) with the linear target",
    "N ≪ N* (not in the statement; see docs/cgro.md)",
)
#: the conditions of `SignalLaw.check` that the proof uses. The radius against the class distance is told, not
#: assumed: no statement asks for it.
STATED = ("start", "step", "tradeoff", "noise")
PROOF = (*STATED, "samples")


def _each(run: Run) -> list[pl.DataFrame]:
    """The training rows of every seed."""
    rows = run.part("training")
    return [rows.filter(pl.col(Training.seed) == seed) for seed in SignalStages.of(run).seeds]


def _last(frame: pl.DataFrame, key: str) -> float:
    """The last value; NaN where a seed has none, so that a check on it does not hold."""
    last = frame[key][-1] if frame.height else None
    return math.nan if last is None else float(last)


def _errors(run: Run, key: str, points: int) -> Interval:
    """The error 1 − accuracy at the end, over all seeds."""
    return error_over_seeds([_last(frame, key) for frame in _each(run)], points)


def _attacked(run: Run, sample: str, reading: str, bound: str, points: int) -> Interval:
    c, spec = Robustness, SignalStages.of(run)
    rows = run.part("robustness").filter((pl.col(c.sample) == sample) & (pl.col(c.reading) == reading))
    if reading == BALL:
        rows = rows.filter(pl.col(c.share) == max(spec.radii))
    return error_over_seeds(rows[bound].to_list(), points)


def _clean(run: Run) -> Finding:
    return at_most(_errors(run, Training.clean_test, SignalStages.of(run).test), SMALL)


def _train_at_points(run: Run) -> Finding:
    """The robust training error at the points of (A)."""
    return at_most(_errors(run, Training.gta_train, SignalStages.of(run).n), SMALL)


def _test_attacked(run: Run, reading: str) -> Finding:
    """The robust test error that an attack proves."""
    found = _attacked(run, "test", reading, Robustness.attacked, SignalStages.of(run).test)
    return at_least(found, 0.5 - SMALL)


def _three_errors(run: Run, train: Finding, test: Finding) -> dict[str, Finding]:
    return {"clean test error": _clean(run), "robust train error": train, "robust test error": test}


def gta(runs: Runs) -> Finding:
    """Robust errors at the points of (A)."""
    run = runs["run"]
    test = at_least(_errors(run, Training.gta_test, SignalStages.of(run).test), 0.5 - SMALL)
    return every(_three_errors(run, _train_at_points(run), test))


def as_defined(runs: Runs) -> Finding:
    """§1's definitions: the training set is the set of attacked points, the test error is over the ball."""
    run = runs["run"]
    return every(_three_errors(run, _train_at_points(run), _test_attacked(run, BALL)))


def over_ball(runs: Runs) -> Finding:
    """Both robust errors over the whole ball; failures on the training set are re-verified in NumPy."""
    run = runs["run"]
    verified, proven = _proven_failures(run)
    parts = _three_errors(run, at_most(proven, SMALL), _test_attacked(run, BALL))
    return every(parts, certificate=verified)


def _proven_failures(run: Run) -> tuple[BallFailures, Interval]:
    """The stored perturbations, verified, and the training error that they prove."""
    spec = SignalStages.of(run)
    stored = (run.tensor("robustness", key, seed=spec.seeds[0]).numpy() for key in ("w", "x", "y", "delta"))
    w, x, y, delta = stored
    # A network or a perturbation that is not a number has fooled nobody, and proves nothing.
    if not all(np.isfinite(part).all() for part in (w, x, y, delta)):
        nobody: BallFailures = {
            "points": len(y),
            "failures": 0,
            "wrong_clean": 0,
            "largest_norm": None,
            "radius": spec.law.radius,
        }
        return nobody, NOTHING
    verified = ball_failures(w, x, y, delta, spec.law.radius)
    wrong = verified["failures"] + verified["wrong_clean"]
    return verified, error_over_seeds([1 - wrong / verified["points"]], verified["points"])


def noise_ball(runs: Runs) -> Finding:
    """(A)'s point with a small ball on the noise patches: train by certificate, test by attack."""
    run = runs["run"]
    train = _attacked(run, "train", NOISE_BALL, Robustness.certified, SignalStages.of(run).n)
    return every(_three_errors(run, at_most(train, SMALL), _test_attacked(run, NOISE_BALL)))


def _off_one(size: float) -> float:
    """A size or its inverse, whichever is larger; beyond every bound if it is not positive."""
    if math.isnan(size):
        return math.nan
    return max(size, 1 / size) if size > 0 else math.inf


def _features(run: Run, bound: float) -> Finding:
    sizes = (Training.signal, Training.V_min, Training.V_max)
    worst = [largest(_off_one(_last(frame, key)) for key in sizes) for frame in _each(run)]
    return at_most(over_seeds(worst), bound, what="largest of α³U, V_i and their inverses over i")


def features(runs: Runs) -> Finding:
    """U = Θ(α⁻³) and V_i = Θ(1) with the ledger's constant."""
    return _features(runs["run"], CONSTANT)


def _logarithm(run: Run) -> float:
    """Õ(1) at the run's d."""
    return soft(SignalStages.of(run).law.d)


def features_soft(runs: Runs) -> Finding:
    """The same up to a logarithm."""
    return _features(runs["run"], _logarithm(runs["run"]))


def _beyond(runs: Runs) -> tuple[Finding, int, float]:
    run = runs["run"]
    c, spec = SampleSweep, SignalScaling.of(run)
    n = max(spec.samples)
    rows = run.part("samples").filter(pl.col(c.n) == n)
    critical = float(rows[c.critical_samples][0])
    error = error_over_seeds(rows[c.gta_test].to_list(), spec.test)
    return at_least(error, 0.5 - SMALL, N=n, critical_samples=plain(critical), d=spec.samples_d), n, critical


def any_samples(runs: Runs) -> Finding:
    """N = poly(d) as stated, at an N beyond N*: robust test error at the points of (A)."""
    return _beyond(runs)[0]


def few_samples(runs: Runs) -> Finding:
    """The same run under the hypothesis N ≪ N*."""
    found, n, critical = _beyond(runs)
    unmet = [] if n <= critical / MUCH else [f"N ≪ N*: N={n} against N*={critical:.3g}"]
    return scoped(unmet, found)


def growing_d(runs: Runs) -> Finding:
    """α³U = Θ(1) as d grows."""
    c, rows = DimensionSweep, runs["run"].part("dimensions")
    return exponent_at_most(rows[c.d].to_list(), rows[c.signal].to_list(), 0.0, what="α³U against d")


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
    return _least_growth(runs["run"], [_until(frame) for frame in _each(runs["run"])])


def signal_growth_always(runs: Runs) -> Finding:
    """The same for any t, as the lemma says."""
    return _least_growth(runs["run"], _each(runs["run"]))


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
    for frame in _each(run):
        late = frame.filter(pl.col(c.step) >= pl.col(c.signal_at).last())
        room = 1 / alpha + eta * (alpha * gap) ** 3 * late[c.slack]
        ratios.append(largest(late[c.u_max] / room))
    return at_most(over_seeds(ratios), _logarithm(run))


def _crosstalk(run: Run, frames: list[pl.DataFrame]) -> Finding:
    """What other patches take from v_ijr, in units of Pσ²√d/α."""
    law = SignalStages.of(run).law
    unit = law.patches * law.noise_scale**2 * law.d**0.5 / law.strength
    most = [largest(frame[Training.crosstalk_low]) / unit for frame in frames]
    return at_most(over_seeds(most), _logarithm(run), unit=unit)


def noise_growth(runs: Runs) -> Finding:
    """Lemma 4.4: what other patches take from v_ijr, against P σ² √d/α up to a logarithm."""
    return _crosstalk(runs["run"], _each(runs["run"]))


def noise_growth_early(runs: Runs) -> Finding:
    """The same up to the step at which the first point is memorised."""
    return _crosstalk(runs["run"], [_until(frame) for frame in _each(runs["run"])])


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
        return at_most(over_seeds([largest(frame[key]) for frame in _each(run)]), _logarithm(run))

    return every({"signal": within(Training.alpha_u), "noise": within(Training.v_max)})


def gradient_floor(runs: Runs) -> Finding:
    """Lemma C.8: ‖∇L‖/L after T1."""
    run = runs["run"]
    late = [_after(frame) for frame in _each(run)]
    found = [smallest(frame[Training.gradient] / frame[Training.loss]) for frame in late]
    return at_least(over_seeds(found), 1 / _logarithm(run))


def loss_rate(runs: Runs) -> Finding:
    """Lemma C.9: L·η(t − T1 + 1) after T1, T1 the last point's."""
    run = runs["run"]
    c, eta = Training, SignalStages.of(run).learning_rate
    late = [_after(frame) for frame in _each(run)]
    found = [largest(f[c.loss] * eta * (f[c.step] - f[c.last_memorised] + 1)) for f in late]
    return at_most(over_seeds(found), _logarithm(run))


def slack_sum(runs: Runs) -> Finding:
    """Lemma C.10: (λ/N) Σ_s Σ_i ψ(y f(X^adv)) against 1/(ησ0)."""
    run = runs["run"]
    spec = SignalStages.of(run)
    unit = spec.tradeoff * spec.learning_rate * spec.start_scale
    return at_most(over_seeds([unit * largest(f[Training.slack]) for f in _each(run)]), _logarithm(run))


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


def _one(
    claim: str, where: str, text: str, readings: tuple[Reading, ...], hypotheses: tuple[str, ...] = HYPOTHESES
) -> Claim:
    kind = Kind.LEMMA if "Hypothesis" in where else None
    return Claim(claim, "cgro", where, text, hypotheses, readings, PROOF if hypotheses else (), kind)


_DEFAULT = "as stated"
CLAIMS = (
    _one(
        "CG-LA.1",
        "CGRO Lemma A.1",
        "A sequence that grows by m z² to M z² passes v within 3/(m z0) + (8M/m)⌈log2(v/z0)⌉ steps.",
        (Reading(_DEFAULT, "slowest allowed sequence over a grid", LEMMAS, lemma("A.1")),),
        (),
    ),
    _one(
        "CG-LA.2",
        "CGRO Lemma A.2",
        "A sequence within C ≤ z0/2 of z0 + AΣz² passes v within 8⌈log2(v/z0)⌉ + 21/(A z0) steps.",
        (Reading(_DEFAULT, "slowest allowed sequence over a grid", LEMMAS, lemma("A.2")),),
        (),
    ),
    _one(
        "CG-LA.3",
        "CGRO Lemma A.3",
        "A non-negative sequence that falls by at least A z² is at most 1/(A t) after t steps.",
        (Reading(_DEFAULT, "slowest allowed sequence over a grid", LEMMAS, lemma("A.3")),),
        (),
    ),
    _one(
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
    _one(
        "CG-L4.3",
        "CGRO Lemma 4.3",
        "After T0 the signal stays below Õ(1/α) plus what the residual signal of attacked points adds.",
        (Reading("up to a logarithm", "Õ as ln d", STAGES, signal_ceiling),),
    ),
    _one(
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
    _one(
        "CG-HC.1",
        "CGRO Hypothesis C.1",
        "Signal components stay Õ(1/α), noise components Õ(1).",
        (Reading("up to a logarithm", "Õ as ln d", STAGES, induction),),
    ),
    _one(
        "CG-LC.8",
        "CGRO Lemma C.8",
        "After T1 the gradient norm is at least Ω̃(1) times the loss.",
        (Reading("up to a logarithm", "Ω̃ as 1/ln d", STAGES, gradient_floor),),
    ),
    _one(
        "CG-LC.9",
        "CGRO Lemma C.9",
        "After T1 the loss falls at least like 1/(η(t − T1 + 1)).",
        (Reading("up to a logarithm", "Õ as ln d", STAGES, loss_rate),),
    ),
    _one(
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
    _one(
        "CG-T4.1",
        "CGRO Theorem 4.1",
        "The network learns part of the true feature and memorises the noise: "
        "clean test and robust training errors o(1), robust test error at least ½ − o(1).",
        (
            Reading(
                "as-defined", "§1: training points at (A), test points over the ball", STAGES, as_defined
            ),
            Reading("gta", "both at the points of (A)", STAGES, gta),
            Reading("ball", "both over the ℓ2 ball of radius δ", STAGES, over_ball),
            Reading(
                "gta+noise-ball",
                "(A)'s point and a ball of radius .1 on the noise patches",
                STAGES,
                noise_ball,
            ),
            Reading("features", "U = Θ(α⁻³), V_i = Θ(1) with constant 3", STAGES, features),
            Reading("features up to a logarithm", "the same with ln d", STAGES, features_soft),
            Reading(
                "N=poly",
                "any N, here beyond N*, robust test error at (A)",
                SCALING,
                any_samples,
                assumes=STATED,
                at={"sweep": "samples"},
            ),
            Reading(
                "N≪N*",
                "the same run under N ≪ N*",
                SCALING,
                few_samples,
                assumes=STATED,
                at={"sweep": "samples"},
            ),
            Reading(
                "scaling in d",
                "exponent of α³U in d",
                SCALING,
                growing_d,
                at={"sweep": "dimensions"},
            ),
        ),
    ),
)
