"""What Theorems 4.5 and 4.7 say besides their exponents: small biases, the size of λ, and the constants c of
the radii c·√(d/k) and c·√d, found with their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable

import polars as pl

from featscope.claims.claim import Finding, Judge, Reading, Runs
from featscope.claims.judging import at_least, at_most, explained, fitted, numbers, one_run, over_seeds
from featscope.core.rules import BEND, CONSTANT, SMALL
from featscope.core.stats import NOTHING
from featscope.experiments.run import Run
from featscope.papers.fa.clusters import BinaryCourse, Course
from featscope.papers.fa.clusters_regimes import ProofNumbers
from featscope.papers.fa.clusters_scaling import Swept
from featscope.papers.fa.runs import (
    FIG2,
    LARGER,
    SCALING,
    SMALLER,
    falls,
    in_window,
    last,
    persists,
    proof_numbers,
)

#: 2(1+c) of Theorem 4.5's proof where both classes have as many clusters
PROOF_AVERAGING = 4.0
#: √d/10 of Theorem 4.7's proof
PROOF_DECOUPLING = 0.1


def _bias_paper(runs: Runs) -> Finding:
    """The largest |b| at the end, by seed, is at most SMALL."""
    return at_most(over_seeds(last(runs["run"], "binary")[BinaryCourse.bias].to_list()), SMALL)


def _bias_regime(runs: Runs) -> Finding:
    """The same at Assumption 4.3; VACUOUS where the window is empty."""
    return in_window(runs["run"], _bias_paper(runs), False)


def _size(net: str, unit: Callable[[float], float]) -> Judge:
    """The least own λ at the end, in units of what it should be, is at least 1/CONSTANT; VACUOUS where the
    window is empty."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        scale = unit(proof_numbers(run)[ProofNumbers.k])
        sizes = [value / scale for value in last(run, net)[Course.lambda_min].to_list()]
        return in_window(run, at_least(over_seeds(sizes), 1 / CONSTANT), net == "fine")

    return judge


def _one(k: float) -> float:
    return 1.0


def _log_along_k(runs: Runs) -> Finding:
    """Ω(log k) along k: the exponent of the least own λ ÷ ln k is at least −BEND."""
    rows = runs["run"].part("setting", sweep="k").sort(Swept.at, Swept.seed)
    sizes = numbers(rows[Swept.fine_lambda_min]) / [math.log(k) for k in rows[Swept.at]]
    shown = {"at": rows[Swept.at].to_list(), "values": sizes.tolist()}
    fit = fitted(rows[Swept.at].to_list(), sizes.tolist())
    return at_least(fit, -BEND, **shown)


def _constant(key: str, judge: Callable[..., Finding], bound: float, worst: Callable[..., float]) -> Judge:
    """The constant of a radius over all settings along k and d: of each seed the worst, with their range."""

    def judged(runs: Runs) -> Finding:
        run = runs["run"]
        rows = pl.concat([run.part("setting", sweep=sweep) for sweep in ("k", "d")])
        values = numbers(rows[key])
        if math.isnan(values.sum()):
            return judge(NOTHING, bound)
        seeds = [worst(numbers(one[key])) for _, one in rows.group_by(Swept.seed, maintain_order=True)]
        shown = {"settings": rows.height, "least": float(values.min()), "largest": float(values.max())}
        return explained(judge(over_seeds([float(value) for value in seeds]), bound), **shown)

    return judged


def _sweep(judge: Callable[[Run, str, str], Finding], sweep: str, key: str) -> Judge:
    return lambda runs: judge(runs["run"], sweep, key)


AT_K = "Assumption 4.3 at k = 3 (quick: 2)"
AT_LARGER_K = "the same at k = 4 (quick: 3), float32"
ALONG_K, ALONG_D = {"sweep": "k"}, {"sweep": "d"}


def averaging_readings() -> tuple[Reading, ...]:
    """Theorem 4.5: |b| = o(1), λ = Ω(1), no robust accuracy at c·√(d/k)."""
    found = _constant(Swept.exact_max_over_root_dk, at_most, PROOF_AVERAGING, max)
    text = "the least c with no point robust at c·√(d/k), along k and d: at most the proof's 2(1+c) = 4"
    return (
        one_run("paper/bias", "|b| = o(1): §6.1's values, at most 5 %", FIG2, _bias_paper),
        one_run("assumption/bias", f"|b| = o(1): {AT_K}", SMALLER, _bias_regime),
        one_run(
            "scaling d/bias",
            "|b| = o(1) along d to 10⁹: exponent",
            SCALING,
            _sweep(falls, "d", Swept.bias),
            at=ALONG_D,
        ),
        one_run("assumption/λ", f"λ = Ω(1): at least ⅓ at {AT_K}", SMALLER, _size("binary", _one)),
        one_run("assumption-large/λ", f"λ = Ω(1): {AT_LARGER_K}", LARGER, _size("binary", _one)),
        one_run(
            "scaling/λ",
            "λ = Ω(1) along k: exponent",
            SCALING,
            _sweep(persists, "k", Swept.lambda_min),
            at=ALONG_K,
        ),
        one_run("constant/robust", text, SCALING, found),
    )


def decoupling_readings() -> tuple[Reading, ...]:
    """Theorem 4.7: λ = Ω(log k), robust accuracy 1 at c·√d."""
    found = _constant(Swept.certified_min_over_root_d, at_least, PROOF_DECOUPLING, min)
    text = "the largest c with every point certified at c·√d, along k and d: at least the proof's 1/10"
    return (
        one_run("assumption/λ", f"λ = Ω(log k): at least ⅓ ln k at {AT_K}", SMALLER, _size("fine", math.log)),
        one_run("assumption-large/λ", f"λ = Ω(log k): {AT_LARGER_K}", LARGER, _size("fine", math.log)),
        one_run("scaling/λ", "λ ÷ ln k along k: exponent", SCALING, _log_along_k, at=ALONG_K),
        one_run("constant/robust", text, SCALING, found),
    )
