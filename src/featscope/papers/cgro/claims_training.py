"""CGRO's Theorem 4.1 on training in every reading, judged from rows."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from featscope.certificates.cgro import BallFailures, ball_failures
from featscope.claims.claim import Finding, Reading, Runs, plain
from featscope.claims.judging import (
    at_least,
    at_most,
    error_over_seeds,
    every,
    exponent_at_most,
    largest,
    over_seeds,
    scoped,
)
from featscope.core.rules import CONSTANT, MUCH, SMALL
from featscope.core.stats import NOTHING, Interval
from featscope.experiments.run import Run
from featscope.papers.cgro.runs import SCALING, STAGES, STATED, each_seed, last_value, logarithm, stated
from featscope.papers.cgro.signal_robustness import BALL, NOISE_BALL, RobustBracket
from featscope.papers.cgro.signal_scaling import DimensionSweep, SampleSweep, SignalScaling
from featscope.papers.cgro.signal_stages import SignalStages
from featscope.papers.cgro.stages_columns import Training


def _errors(run: Run, key: str, points: int) -> Interval:
    """The error 1 − accuracy at the end, over all seeds."""
    return error_over_seeds([last_value(frame, key) for frame in each_seed(run)], points)


def _attacked(run: Run, sample: str, reading: str, bound: str, points: int) -> Interval:
    c, spec = RobustBracket, SignalStages.of(run)
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
    found = _attacked(run, "test", reading, RobustBracket.attacked, SignalStages.of(run).test)
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
    train = _attacked(run, "train", NOISE_BALL, RobustBracket.certified, SignalStages.of(run).n)
    return every(_three_errors(run, at_most(train, SMALL), _test_attacked(run, NOISE_BALL)))


def _off_one(size: float) -> float:
    """A size or its inverse, whichever is larger; beyond every bound if it is not positive."""
    if math.isnan(size):
        return math.nan
    return max(size, 1 / size) if size > 0 else math.inf


def _features(run: Run, bound: float) -> Finding:
    sizes = (Training.signal, Training.V_min, Training.V_max)
    worst = [largest(_off_one(last_value(frame, key)) for key in sizes) for frame in each_seed(run)]
    return at_most(over_seeds(worst), bound, what="largest of α³U, V_i and their inverses over i")


def features(runs: Runs) -> Finding:
    """U = Θ(α⁻³) and V_i = Θ(1) with the ledger's constant."""
    return _features(runs["run"], CONSTANT)


def features_soft(runs: Runs) -> Finding:
    """The same up to a logarithm."""
    return _features(runs["run"], logarithm(runs["run"]))


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


CLAIMS = (
    stated(
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
