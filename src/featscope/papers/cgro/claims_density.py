"""CGRO Theorem E.1 and Proposition E.2 where the density is known, judged from rows of `known-density`."""

from __future__ import annotations

import math

import polars as pl

from featscope.claims import judging
from featscope.claims.claim import Finding, Judge, Need, Reading, Runs
from featscope.core.rules import BEND, CONSTANT
from featscope.core.stats import Interval
from featscope.papers.cgro.known_density import Gap, KnownDensity, LowerConstant, MemoryGap, ProofTerm
from featscope.papers.cgro.runs import stated

DENSITY = {"run": Need("known-density")}


def _over(value: float | None, size: float) -> float:
    """value ÷ size; beyond every bound where a positive value meets a size of 0."""
    found = judging.number(value)
    if math.isnan(found) or math.isnan(size):
        return math.nan
    return math.inf if size <= 0 < found else 0.0 if size <= 0 else found / size


def _worst_of_each_seed(rows: pl.DataFrame, seeds: tuple[int, ...], share: pl.Expr) -> list[float]:
    """The largest share of each seed; NaN for a seed without rows."""
    return [
        judging.largest(rows.filter(pl.col(Gap.seed) == seed).select(share).to_series()) for seed in seeds
    ]


def fixed_network(runs: Runs) -> Finding:
    """The linear network: gap ÷ (rate·flatness) at every D, N and seed."""
    run, c = runs["run"], Gap
    rows = run.part("gaps").filter(pl.col(c.network) == "linear")
    share = pl.col(c.gap) / (pl.col(c.rate) * pl.col(c.flatness))
    return judging.at_most(
        judging.over_seeds(_worst_of_each_seed(rows, KnownDensity.of(run).seeds, share)), CONSTANT
    )


def constant_network(runs: Runs) -> Finding:
    """The constant network: its flatness is 0, so the gap's quantile may not be above 0."""
    run, c = runs["run"], Gap
    rows = run.part("gaps").filter(pl.col(c.network) == "constant")
    bound = CONSTANT * judging.largest(rows[c.rate] * rows[c.flatness])
    return judging.at_most(
        judging.over_seeds(_worst_of_each_seed(rows, KnownDensity.of(run).seeds, pl.col(c.gap))),
        bound,
        flatness=judging.largest(rows[c.flatness]),
    )


def as_proven(runs: Runs) -> Finding:
    """What the proof gives: the terms (I) and (II) carry no flatness, so 1 + flatness stands for it."""
    run, c = runs["run"], Gap
    share = pl.col(c.gap) / (pl.col(c.rate) * (1 + pl.col(c.flatness)))
    return judging.at_most(
        judging.over_seeds(_worst_of_each_seed(run.part("gaps"), KnownDensity.of(run).seeds, share)), CONSTANT
    )


def rate_in_samples(runs: Runs) -> Finding:
    """The exponent of the gap in N, both networks, is at most −1/(D+2) at every D."""
    run, c = runs["run"], Gap
    spec, rows = KnownDensity.of(run), run.part("gaps")
    parts = {}
    for name in ("linear", "constant"):
        one = rows.filter((pl.col(c.network) == name) & (pl.col(c.D) == min(spec.dimensions)))
        fit = judging.fitted(one[c.n].to_list(), one[c.gap].to_list())
        # The gap does not know D; the largest D promises least, so the smallest decides.
        parts[name] = judging.at_most(fit, -1 / (min(spec.dimensions) + 2) + BEND, exponent=fit.value)
    return judging.every(parts)


def remembered(rule: str) -> Judge:
    """The loss that remembers the sample, at radii chosen by ``rule``: gap ÷ (rate·flatness).

    The gap is at least L_clean and, by the mean value theorem, at most L_clean + δ·flatness. So the share is
    above the bound for sure if L_clean alone is at the largest flatness, below for sure if both are at the
    least.
    """

    def judge(runs: Runs) -> Finding:
        run, c = runs["run"], MemoryGap
        rows = run.part("memory").filter(pl.col(c.radius_rule) == rule)
        low, high = [], []
        for seed in KnownDensity.of(run).seeds:
            mine = rows.filter(pl.col(c.seed) == seed).to_dicts()
            low.append(
                judging.largest(
                    [_over(r[c.clean], r[c.rate] * judging.number(r[c.flatness_high])) for r in mine]
                )
            )
            high.append(
                judging.largest(
                    [
                        r[c.radius] / r[c.rate]
                        + _over(r[c.clean], r[c.rate] * judging.number(r[c.flatness_low]))
                        for r in mine
                    ]
                )
            )
        least, most = judging.over_seeds(low), judging.over_seeds(high)
        shown = most if most.high <= CONSTANT else least
        return judging.at_most(Interval(shown.value, least.low, most.high), CONSTANT, at_least=least.value)

    return judge


def proof_terms(runs: Runs) -> Finding:
    """(I) = O(h²) by the fitted exponent, (II) = O(N^(−1/2) h^(−D/2)) for the worst loss by its constant."""
    run, c = runs["run"], ProofTerm
    rows, parts = run.part("terms"), {}
    for dim in KnownDensity.of(run).dimensions:
        one = rows.filter((pl.col(c.term) == "I") & (pl.col(c.D) == dim))
        fit = judging.fitted(one[c.bandwidth].to_list(), one[c.value].to_list())
        parts[f"I, D={dim}"] = judging.at_least(fit, 2 - BEND)
    second = rows.filter(pl.col(c.term) == "II")
    parts["II"] = judging.exactly(judging.largest(second[c.value] / second[c.order]), CONSTANT)
    return judging.every(parts)


def lower(network: str, most: float = math.inf) -> Judge:
    """E.2's constant for a network, at phases up to ``most``: at least Ω's 1/3."""

    def judge(runs: Runs) -> Finding:
        c = LowerConstant
        rows = runs["run"].part("constants")
        chosen = rows.filter((pl.col(c.network) == network) & (pl.col(c.phase) <= most))
        over = {f"{phase:g}": value for phase, value in zip(chosen[c.phase], chosen[c.constant], strict=True)}
        return judging.reaches(judging.smallest(chosen[c.constant]), 1 / CONSTANT, constant_over_phases=over)

    return judge


_BOUND = (
    Reading(
        "known density, fixed network",
        "linear network, Gaussian X, D = 1 … 6: the 95 % quantile of the gap ÷ (rate·flatness) is at most "
        f"{CONSTANT:g}",
        DENSITY,
        fixed_network,
    ),
    Reading(
        "known density, constant network",
        "the same for a network that says the same everywhere: its flatness is 0, its gap is not",
        DENSITY,
        constant_network,
    ),
    Reading(
        "as proven",
        "with 1 + flatness for flatness, because the proof's terms (I) and (II) do not carry it",
        DENSITY,
        as_proven,
    ),
    Reading(
        "rate in N",
        "the gap's fitted exponent in N is at most −1/(D+2)",
        DENSITY,
        rate_in_samples,
    ),
    Reading(
        "terms",
        "the proof's (I) = O(h²) and (II) = O(N^(−1/2) h^(−D/2)), the bandwidth h apart from δ",
        DENSITY,
        proof_terms,
    ),
    Reading(
        "remembering network, δ as in the proof",
        "a loss that is 0 on all training balls, δ = N^(−1/(D+2)), which is the proof's bandwidth",
        DENSITY,
        remembered("proof"),
    ),
    Reading(
        "remembering network, δ apart",
        "the same with δ a small share of the sample's spacing: the statement leaves δ free",
        DENSITY,
        remembered("apart"),
    ),
)
_LOWER = (
    Reading(
        "known density, convex loss",
        "linear network, Gaussian X, any δ: the constant is at least 1/3",
        DENSITY,
        lower("linear"),
    ),
    Reading(
        "known density, small δ",
        "a wave of frequency ω with ω·δ ≤ 1, as Taylor's expansion asks: at least 1/3",
        DENSITY,
        lower("wave", 1.0),
    ),
    Reading(
        "known density, any network",
        "the wave at every ω·δ: the loss is bounded, its gradient is not",
        DENSITY,
        lower("wave"),
    ),
)
#: claims of their own, because the readings of CG-E.1 and CG-E.2 need images
CLAIMS = (
    stated(
        "CG-E.1-density",
        "CGRO Theorem E.1, Theorem F.1",
        "Where the density is known, the robust generalisation gap is bounded by N^{−1/(D+2)} times global "
        "flatness.",
        _BOUND,
        (),
    ),
    stated(
        "CG-E.2-density",
        "CGRO Proposition E.2",
        "Where the density is known, L_adv − L_clean is at least a constant times δ·E‖∇L(X)‖_q.",
        _LOWER,
        (),
    ),
)
