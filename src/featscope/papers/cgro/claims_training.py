"""CGRO's statements about training (§4, appendices A and C), judged from rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from featscope.claims.claim import Claim, Finding, Need, Reading, Runs, plain
from featscope.claims.judging import (
    at_least,
    at_most,
    every,
    exactly,
    exponent_at_most,
    fitted,
    largest,
    out_of_scope,
    over_seeds,
    pooled_error,
    reaches,
    smallest,
    soft,
)
from featscope.core.rules import BEND, CONSTANT, MUCH, SAME, SMALL
from featscope.core.stats import NOTHING, Interval
from featscope.experiments.run import Run
from featscope.papers.cgro.certificates import ball_failures

STAGES = {"run": Need("signal-stages")}
SCALING = {"run": Need("signal-scaling")}
LEMMAS = {"run": Need("signal-lemmas")}
HYPOTHESES = ("Parameterization 3.1", "attack (A) with the linear target", "N ≪ N* (not in the statement; see docs/cgro.md)")


def _spec(run: Run) -> dict[str, Any]:
    return dict(run.spec["spec"])


def _numbers(run: Run) -> dict[str, float]:
    """α, σ, 1−γ and σ0 of a run from its spec, with the paper's powers of d where the spec leaves them out."""
    spec = _spec(run)
    law, d = spec["law"], float(spec["law"]["d"])
    log = pl.Series([d]).log()[0]
    return {
        "d": d,
        "alpha": law["alpha"] or d**0.249 * log ** law["alpha_logs"],
        "sigma": law["sigma"] or d**-0.509,
        "gap": law["gap"] or 1 / (d**0.5 * log ** law["gap_logs"]),
        "start": spec["init_scale"] or d**-0.5,
        "eta": spec["learning_rate"],
        "lam": spec["tradeoff"],
        "patches": law["patches"],
    }


def _each(run: Run) -> list[pl.DataFrame]:
    """The training rows of every seed."""
    rows = run.part("training")
    return [rows.filter(pl.col("run") == seed) for seed in _spec(run)["seeds"]]


def _last(frame: pl.DataFrame, key: str) -> float:
    """The last value; NaN where a seed has none, so that a check on it does not hold."""
    last = frame[key][-1] if frame.height else None
    return math.nan if last is None else float(last)


def _errors(run: Run, key: str, points: int) -> Interval:
    """The error 1 − accuracy at the end, pooled over all seeds."""
    return pooled_error([_last(frame, key) for frame in _each(run)], points)


def _attacked(run: Run, name: str, reading: str, bound: str, points: int) -> Interval:
    rows = run.part("robustness").filter((pl.col("set") == name) & (pl.col("reading") == reading))
    if reading == "ball":
        rows = rows.filter(pl.col("share") == max(_spec(run)["radii"]))
    return pooled_error(rows[bound].to_list(), points)


def _clean(run: Run) -> Finding:
    return at_most(_errors(run, "clean_test", _spec(run)["test"]), SMALL)


def gta(runs: Runs) -> Finding:
    """Robust errors at the points of (A)."""
    run = runs["run"]
    spec = _spec(run)
    return every(
        {
            "clean test error": _clean(run),
            "robust train error": at_most(_errors(run, "gta_train", spec["n"]), SMALL),
            "robust test error": at_least(_errors(run, "gta_test", spec["test"]), 0.5 - SMALL),
        }
    )


def as_defined(runs: Runs) -> Finding:
    """§1's definitions: the training set is the set of attacked points, the test error is over the ball."""
    run = runs["run"]
    spec = _spec(run)
    return every(
        {
            "clean test error": _clean(run),
            "robust train error": at_most(_errors(run, "gta_train", spec["n"]), SMALL),
            "robust test error": at_least(_attacked(run, "test", "ball", "attacked", spec["test"]), 0.5 - SMALL),
        }
    )


def over_ball(runs: Runs) -> Finding:
    """Both robust errors over the whole ball; a failure on the training set carries perturbations that NumPy re-verifies."""
    run = runs["run"]
    spec, tensors = _spec(run), run.tensors
    w, x, y, delta = (tensors[f"robustness/{key}"].numpy() for key in ("w", "x", "y", "delta"))
    numbers = _numbers(run)
    radius = (1 - numbers["gap"]) * numbers["alpha"]
    # A network or a perturbation that is not a number has fooled nobody, and proves nothing.
    sound = all(np.isfinite(part).all() for part in (w, x, y, delta))
    verified = ball_failures(w, x, y, delta, radius) if sound else {"points": len(y), "failures": 0, "wrong_clean": 0}
    wrong = verified["failures"] + verified["wrong_clean"]
    proven = pooled_error([1 - wrong / verified["points"]], verified["points"]) if sound else NOTHING
    return every(
        {
            "clean test error": _clean(run),
            "robust train error": at_most(proven, SMALL),
            "robust test error": at_least(_attacked(run, "test", "ball", "attacked", spec["test"]), 0.5 - SMALL),
        },
        certificate=verified,
    )


def noise_ball(runs: Runs) -> Finding:
    """(A)'s point with a small ball on the noise patches: train by certificate, test by attack."""
    run = runs["run"]
    spec = _spec(run)
    return every(
        {
            "clean test error": _clean(run),
            "robust train error": at_most(_attacked(run, "train", "gta+noise-ball", "certified", spec["n"]), SMALL),
            "robust test error": at_least(_attacked(run, "test", "gta+noise-ball", "attacked", spec["test"]), 0.5 - SMALL),
        }
    )


def _features(run: Run, bound: float) -> Finding:
    worst = []
    for frame in _each(run):
        sizes = [_last(frame, key) for key in ("signal", "V_min", "V_max")]
        # NumPy's maximum keeps NaN, Python's loses it.
        worst.append(float(np.max([max(size, 1 / size) if size > 0 else math.nan if math.isnan(size) else math.inf for size in sizes])))
    return at_most(over_seeds(worst), bound, what="largest of α³U, V_i and their inverses over i")


def features(runs: Runs) -> Finding:
    """U = Θ(α⁻³) and V_i = Θ(1) with the ledger's constant."""
    return _features(runs["run"], CONSTANT)


def features_soft(runs: Runs) -> Finding:
    """The same up to a logarithm."""
    return _features(runs["run"], soft(_numbers(runs["run"])["d"]))


def _beyond(runs: Runs) -> tuple[Finding, float, float]:
    run = runs["run"]
    spec = _spec(run)
    n = max(spec["samples"])
    rows = run.part("samples").filter(pl.col("n") == n)
    critical = float(rows["critical_samples"][0])
    found = at_least(
        pooled_error(rows["gta_test"].to_list(), spec["test"]), 0.5 - SMALL, N=n, critical_samples=plain(critical), d=spec["samples_d"]
    )
    return found, n, critical


def any_samples(runs: Runs) -> Finding:
    """N = poly(d) as stated, at an N beyond N*: robust test error at the points of (A)."""
    return _beyond(runs)[0]


def few_samples(runs: Runs) -> Finding:
    """The same run under the hypothesis N ≪ N*."""
    found, n, critical = _beyond(runs)
    return found if n <= critical / MUCH else out_of_scope([f"N ≪ N*: N={n} against N*={critical:.3g}"], found)


def growing_d(runs: Runs) -> Finding:
    """α³U = Θ(1) as d grows."""
    rows = runs["run"].part("dimensions")
    return exponent_at_most(rows["d"].to_list(), rows["signal"].to_list(), 0.0, what="α³U against d")


def _until(frame: pl.DataFrame) -> pl.DataFrame:
    first = int(frame["first_memorised"][-1])
    return frame.filter(pl.col("step") <= first) if first >= 0 else frame


def _after(frame: pl.DataFrame) -> pl.DataFrame:
    last = int(frame["last_memorised"][-1])
    return frame.filter(pl.col("step") >= last) if last >= 0 else frame.clear()


def signal_growth(runs: Runs) -> Finding:
    """Lemma 4.2's constant, relative to 3(1−λ), until the first point is memorised."""
    run = runs["run"]
    unit = 3 * (1 - _numbers(run)["lam"])
    return at_least(over_seeds([smallest(_until(f)["growth_constant"]) / unit for f in _each(run)]), 1 / CONSTANT)


def signal_growth_always(runs: Runs) -> Finding:
    """The same for any t, as the lemma says."""
    run = runs["run"]
    unit = 3 * (1 - _numbers(run)["lam"])
    return at_least(over_seeds([smallest(f["growth_constant"]) / unit for f in _each(run)]), 1 / CONSTANT)


def signal_time(runs: Runs) -> Finding:
    """T0 against 1/(1.5 η(1−λ) α³ max u_r(0)): the share of starts within the ledger's constant of it."""
    run = runs["run"]
    rows = run.part("starts").to_dicts()
    foreseen = [(r["T0"], r.get("T0_predicted")) for r in rows]
    ratios = [reached / predicted for reached, predicted in foreseen if reached > 0 and predicted is not None and 0 < predicted < math.inf]
    near = sum(1 / CONSTANT <= ratio <= CONSTANT for ratio in ratios)
    worst = max((max(ratio, 1 / ratio) for ratio in ratios), default=None)
    close = run.summary["starts_within_a_step_or_a_tenth"]
    return reaches(near / len(rows) if rows else math.nan, 1 - SMALL, within_a_step_or_a_tenth=close, starts=len(rows), worst_ratio=worst)


def recursion(runs: Runs) -> Finding:
    """The exact recursions against full descent."""
    error = runs["run"].summary["recursion_error"]
    return exactly(math.nan if error is None else float(error), SAME, steps=_spec(runs["run"])["verify_steps"])


def signal_ceiling(runs: Runs) -> Finding:
    """Lemma 4.3: max u_r against α⁻¹ + ηα³(1−γ)³ Σ_s mean ψ, from T0 on."""
    run = runs["run"]
    k = _numbers(run)
    ratios = []
    for frame in _each(run):
        late = frame.filter(pl.col("step") >= pl.col("signal_at").last())
        room = 1 / k["alpha"] + k["eta"] * (k["alpha"] * k["gap"]) ** 3 * late["slack"]
        ratios.append(largest(late["u_max"] / room))
    return at_most(over_seeds(ratios), soft(k["d"]))


def noise_growth(runs: Runs) -> Finding:
    """Lemma 4.4: what other patches take from v_ijr, against P σ² √d/α up to a logarithm."""
    run = runs["run"]
    k = _numbers(run)
    unit = k["patches"] * k["sigma"] ** 2 * k["d"] ** 0.5 / k["alpha"]
    return at_most(over_seeds([largest(f["crosstalk_low"]) / unit for f in _each(run)]), soft(k["d"]), unit=unit)


def noise_growth_early(runs: Runs) -> Finding:
    """The same up to the step at which the first point is memorised."""
    run = runs["run"]
    k = _numbers(run)
    unit = k["patches"] * k["sigma"] ** 2 * k["d"] ** 0.5 / k["alpha"]
    return at_most(over_seeds([largest(_until(f)["crosstalk_low"]) / unit for f in _each(run)]), soft(k["d"]), unit=unit)


def noise_time(runs: Runs) -> Finding:
    """T1 grows like N/(η σ0 σ³ d^{3/2}) (Lemma C.7): exponent of the measured median against that order."""
    rows = runs["run"].part("dimensions")
    # A seed that never memorised has −1, which is no time: the exponent cannot be fitted, not fitted to the others.
    fit = fitted(rows["T1_order"].to_list(), rows["median_memorised"].cast(pl.Float64).to_list())
    return every({"not slower": at_most(fit, 1 + BEND), "not faster": at_least(fit, 1 - BEND)})


def induction(runs: Runs) -> Finding:
    """Hypothesis C.1: α·max u_r and max |v_ijr| stay below a logarithm."""
    run = runs["run"]
    k = _numbers(run)
    bound = soft(k["d"])
    return every(
        {
            "signal": at_most(over_seeds([largest(f["alpha_u"]) for f in _each(run)]), bound),
            "noise": at_most(over_seeds([largest(f["v_max"]) for f in _each(run)]), bound),
        }
    )


def gradient_floor(runs: Runs) -> Finding:
    """Lemma C.8: ‖∇L‖/L after T1."""
    run = runs["run"]
    found = [smallest(_after(f)["gradient"] / _after(f)["loss"]) for f in _each(run)]
    return at_least(over_seeds(found), 1 / soft(_numbers(run)["d"]))


def loss_rate(runs: Runs) -> Finding:
    """Lemma C.9: L·η(t − T1 + 1) after T1, T1 the last point's."""
    run = runs["run"]
    k = _numbers(run)
    found = []
    for frame in _each(run):
        late = _after(frame)
        found.append(largest(late["loss"] * k["eta"] * (late["step"] - late["last_memorised"] + 1)))
    return at_most(over_seeds(found), soft(k["d"]))


def slack_sum(runs: Runs) -> Finding:
    """Lemma C.10: (λ/N) Σ_s Σ_i ψ(y f(X^adv)) against 1/(ησ0)."""
    run = runs["run"]
    k = _numbers(run)
    found = [k["lam"] * largest(f["slack"]) * k["eta"] * k["start"] for f in _each(run)]
    return at_most(over_seeds(found), soft(k["d"]))


def slack_growth(runs: Runs) -> Finding:
    """Lemma C.10's bound has no N: exponent of the sum in N, up to the N that memorises at all (N ≤ N*)."""
    rows = runs["run"].part("samples").filter(pl.col("n") <= pl.col("critical_samples"))
    return exponent_at_most(rows["n"].to_list(), rows["slack"].to_list(), 0.0, what="summed ψ against N, d fixed")


def lemma(name: str) -> Any:
    """The worst share of a tensor-power lemma's bound over the grid."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part("lemmas").filter(pl.col("lemma") == name)
        return exactly(largest(rows["share"]), 1 + SAME, cases=rows.height)

    return judge


def _one(claim: str, where: str, text: str, readings: tuple[Reading, ...], hypotheses: tuple[str, ...] = HYPOTHESES) -> Claim:
    return Claim(claim, "cgro", where, text, hypotheses, readings)


_DEFAULT = "as stated"
CLAIMS = (
    _one("CG-LA.1", "CGRO Lemma A.1", "A sequence that grows by m z² to M z² passes v within 3/(m z0) + (8M/m)⌈log2(v/z0)⌉ steps.",
         (Reading(_DEFAULT, "slowest allowed sequence over a grid", LEMMAS, lemma("A.1")),), ()),
    _one("CG-LA.2", "CGRO Lemma A.2", "A sequence within C ≤ z0/2 of z0 + AΣz² passes v within 8⌈log2(v/z0)⌉ + 21/(A z0) steps.",
         (Reading(_DEFAULT, "slowest allowed sequence over a grid", LEMMAS, lemma("A.2")),), ()),
    _one("CG-LA.3", "CGRO Lemma A.3", "A non-negative sequence that falls by at least A z² is at most 1/(A t) after t steps.",
         (Reading(_DEFAULT, "slowest allowed sequence over a grid", LEMMAS, lemma("A.3")),), ()),
    _one("CG-L4.2", "CGRO Lemma 4.2, Lemma C.3", "Each signal component grows by at least a constant times ηα³u²ψ(α³U); α³U is of order one after T0.",
         (Reading("until memorisation", "constant against 3(1−λ), up to the first V_i ≥ 1", STAGES, signal_growth),
          Reading("any t", "the same over the whole run", STAGES, signal_growth_always),
          Reading("T0", "first step with α³U ≥ 1 against the prediction from u_r(0), over many starts", SCALING, signal_time),
          Reading("recursion", "exact recursions of u and v against full descent", STAGES, recursion))),
    _one("CG-L4.3", "CGRO Lemma 4.3", "After T0 the signal stays below Õ(1/α) plus what the residual signal of attacked points adds.",
         (Reading("up to a logarithm", "Õ as ln d", STAGES, signal_ceiling),)),
    _one("CG-L4.4", "CGRO Lemma 4.4, Lemma C.7", "Each noise component grows like (ησ²d/N)Σψ(V)v² up to Õ(Pσ²√d/α), so V_i is of order one after T1.",
         (Reading("up to a logarithm", "cross-talk of other patches against the error term, Õ as ln d", STAGES, noise_growth),
          Reading("until memorisation", "the same up to the first V_i ≥ 1", STAGES, noise_growth_early),
          Reading("T1", "median T1 against N/(ησ0σ³d^1.5) as d grows", SCALING, noise_time))),
    _one("CG-HC.1", "CGRO Hypothesis C.1", "Signal components stay Õ(1/α), noise components Õ(1).",
         (Reading("up to a logarithm", "Õ as ln d", STAGES, induction),)),
    _one("CG-LC.8", "CGRO Lemma C.8", "After T1 the gradient norm is at least Ω̃(1) times the loss.",
         (Reading("up to a logarithm", "Ω̃ as 1/ln d", STAGES, gradient_floor),)),
    _one("CG-LC.9", "CGRO Lemma C.9", "After T1 the loss falls at least like 1/(η(t − T1 + 1)).",
         (Reading("up to a logarithm", "Õ as ln d", STAGES, loss_rate),)),
    _one("CG-LC.10", "CGRO Lemma C.10", "The summed derivative on attacked points is at most Õ(1/(ησ0)).",
         (Reading("up to a logarithm", "Õ as ln d", STAGES, slack_sum),
          Reading("growth in N", "the bound has no N: exponent of the sum in N", SCALING, slack_growth))),
    _one("CG-T4.1", "CGRO Theorem 4.1", "The network learns part of the true feature and memorises the noise: clean test and robust training errors o(1), robust test error at least ½ − o(1).",
         (Reading("as-defined", "§1: training points at (A), test points over the ball", STAGES, as_defined),
          Reading("gta", "both at the points of (A)", STAGES, gta),
          Reading("ball", "both over the ℓ2 ball of radius δ", STAGES, over_ball),
          Reading("gta+noise-ball", "(A)'s point and a ball of radius .1 on the noise patches", STAGES, noise_ball),
          Reading("features", "U = Θ(α⁻³), V_i = Θ(1) with constant 3", STAGES, features),
          Reading("features up to a logarithm", "the same with ln d", STAGES, features_soft),
          Reading("N=poly", "any N, here beyond N*, robust test error at (A)", SCALING, any_samples),
          Reading("N≪N*", "the same run under N ≪ N*", SCALING, few_samples),
          Reading("scaling in d", "exponent of α³U in d", SCALING, growing_d))),
)  # fmt: skip
