"""FA's theorems on training, 4.5, 4.6 and 4.7, reading by reading."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Reading, Runs, Verdict
from featscope.claims.judging import (
    at_most,
    error_over_seeds,
    every,
    exactly,
    explained,
    largest,
    numbers,
    one_run,
    over,
    over_seeds,
    share_over_seeds,
    smallest,
    trivially_met,
)
from featscope.core.columns import Column
from featscope.core.rules import CONSTANT, SMALL
from featscope.core.stats import Interval
from featscope.experiments.run import Run
from featscope.papers.fa.claims_constants import averaging_readings, decoupling_readings
from featscope.papers.fa.clusters import Course, averaging_radius, decoupling_radius
from featscope.papers.fa.clusters_figures import Fig2Spec, Fig3Spec, HeatMaps, PointRadii
from featscope.papers.fa.clusters_regimes import AtTheEnd, RegimeSpec
from featscope.papers.fa.clusters_scaling import ScalingSpec, Swept
from featscope.papers.fa.openings import radius_opens, trivial_radius
from featscope.papers.fa.runs import (
    ASSUMPTIONS,
    FIG2,
    FIG3,
    LARGER,
    LAW,
    SCALING,
    SMALLER,
    along,
    bounded,
    falls,
    in_window,
    last,
    persists,
    recertified,
    stated,
)

TO_T0 = (*ASSUMPTIONS, "Ω(1/η) ≤ T ≤ exp(Õ(√k))")
#: the talk's statement has hypotheses of its own: σ_w² = 1/d, η = d^−½ in place of Assumption 4.3
TALK: dict[str, Any] = {"at": {"sweep": "talk"}, "assumes": LAW}
SAME_LARGER = "the same at k = 4 (quick: 3), float32"


def _mean(series: pl.Series) -> float:
    return float(numbers(series).mean())


Shares = Callable[[Sequence[float | None], int], Finding]


def _regime(key: Column, judge: Shares, fine: bool) -> Judge:
    """An error over seeds is at most SMALL; VACUOUS where the window for T is empty."""

    def judged(runs: Runs) -> Finding:
        run = runs["run"]
        return in_window(run, judge(run.part("by_seed")[key].to_list(), RegimeSpec.of(run).test_points), fine)

    return judged


def _wrong(accuracies: Sequence[float | None], points: int) -> Finding:
    return at_most(error_over_seeds(accuracies, points), SMALL)


def _right(accuracies: Sequence[float | None], points: int) -> Finding:
    return at_most(share_over_seeds(accuracies, points), SMALL)


def _clean_paper(key: Column) -> Judge:
    """The clean error over seeds is at most SMALL."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        rows, points = run.part("table"), Fig2Spec.of(run).test_points
        error = error_over_seeds(rows[key].to_list(), points)
        return at_most(error, SMALL, clean=_mean(rows[key]), points=points * rows.height)

    return judge


def _deviation(run: Run, net: str) -> Finding:
    """√d ‖w − λΣμ/‖μ‖²‖ relative to λ at the end of training."""
    rows = last(run, net)
    far, scale = rows[Course.deviation].to_list(), rows[Course.lambda_mean].to_list()
    shares = [over(*pair) for pair in zip(far, scale, strict=True)]
    return at_most(over_seeds(shares), SMALL, deviation=far, lambdas=scale)


def _deviation_paper(net: str) -> Judge:
    """√d × the distance from the named solution ÷ λ, by seed, is at most SMALL."""
    return lambda runs: _deviation(runs["run"], net)


def _deviation_regime(net: str) -> Judge:
    """√d × the distance from the named solution ÷ λ, by seed, is at most SMALL; VACUOUS where the
    window is empty."""
    return lambda runs: in_window(runs["run"], _deviation(runs["run"], net), net == "fine")


def _robust_paper(runs: Runs) -> Finding:
    """Exact robust accuracy at the proof's radius; certificates re-verified."""
    run = runs["run"]
    law = Fig3Spec.of(run).law
    radius, trivial = averaging_radius(law), trivial_radius(law.d)
    radii = run.part("radii")
    exact = radii[PointRadii.binary_exact]
    proofs = [recertified(run, "radii", seed=seed) for seed in radii[PointRadii.seed].unique().sort()]
    left = _share_beyond(radii, PointRadii.binary_exact, radius, math.inf)
    found = at_most(left, SMALL, radius=radius, median_exact=exact.median(), proofs=proofs)
    opens = radius_opens(2 * (1 + law.balance))
    why = (
        f"the radius {radius:.1f} exceeds half the distance of two centres, {trivial:.1f}, where no "
        f"classifier is robust; it does not from k = {opens} on"
    )
    return trivially_met(found, radius >= trivial, why, k=opens)


def _share_beyond(radii: pl.DataFrame, key: Column, radius: float, unknown: float) -> Interval:
    """The share of points whose radius is beyond ``radius``, over seeds; an unknown one is ``unknown``."""
    # Polars takes NaN for larger than every number.
    beyond = pl.col(key).fill_nan(unknown) > radius
    seeds = radii.group_by(PointRadii.seed).agg(beyond.mean().alias("share"), pl.len().alias("points"))
    return share_over_seeds(seeds["share"].to_list(), seeds["points"].to_list())


def _fine_paper(runs: Runs) -> Finding:
    """Certified robust accuracy of the read-out at √d/10."""
    run = runs["run"]
    radius, radii = decoupling_radius(Fig3Spec.of(run).law), run.part("radii")
    kept = _share_beyond(radii, PointRadii.fine_certified, radius, 0.0)
    lost = Interval(1 - kept.value, 1 - kept.high, 1 - kept.low)
    shown = (PointRadii.fine_certified, PointRadii.fine_readout, PointRadii.fine_own_loss)
    medians = {key.removeprefix("fine_"): radii[key].median() for key in shown}
    return at_most(lost, SMALL, radius=radius, medians=medians)


def _talk_binary(runs: Runs) -> Finding:
    """λ_{s,r,j} ≥ Ω(1), λ_{−s} ≤ o(1), ratios O(1) along d, in the talk's own setting."""
    run = runs["run"]
    rows = along(run, "talk")
    shown = (Swept.at, Swept.lambda_min, Swept.lambda_other_top, Swept.own_active, Swept.clean_binary)
    table, least = rows.select(shown).to_dicts(), smallest(rows[Swept.lambda_min])
    if not least > 0:
        never = "some neuron is never activated by any point of some cluster of its class"
        reason = f"{never}: its λ is 0 and no ratio is bounded"
        return Finding(Verdict.FAILS, least, 1 / CONSTANT, {"reason": reason, "rows": table}, "at least")
    parts = {
        "class": persists(run, "talk", Swept.lambda_min),
        "across": exactly(largest(rows[Swept.lambda_other_top]), SMALL),
        "ratios": bounded(run, "talk", Swept.lambda_ratio),
    }
    return every(parts, rows=table)


def _talk_fine(runs: Runs) -> Finding:
    """λ_ii = Ω(1) and λ_ij = o(1) along d: the largest other coefficient against the least own one."""
    run = runs["run"]
    shown = (Swept.at, Swept.fine_lambda_min, Swept.fine_lambda_other, Swept.clean_fine)
    return explained(
        falls(run, "talk", Swept.fine_other_share), rows=along(run, "talk").select(shown).to_dicts()
    )


def _talk_clean(key: Column) -> Judge:
    """The clean error at each d of the talk's setting is at most SMALL, over seeds."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        rows, points = run.part("setting", sweep="talk").sort(Swept.at), ScalingSpec.of(run).test_points
        sizes = rows.group_by(Swept.at, maintain_order=True)
        return every({f"d = {d:.4g}": _wrong(seeds[key].to_list(), points) for (d,), seeds in sizes})

    return judge


def _bracket(found: Sequence[float], proved: Sequence[float]) -> Finding:
    """What every seed has found at least, and what is proved of every seed."""
    low = over_seeds(found).low
    high = over_seeds([*proved, low]).high
    return at_most(Interval(low, low, high), SMALL, found=low, proved=high)


def _sphere(runs: Runs) -> Finding:
    """inf_C sup |C f_FA − f| between what a search finds and what the weights prove."""
    rows = runs["run"].part("by_seed")
    found = _bracket(rows[AtTheEnd.sphere_found].to_list(), rows[AtTheEnd.sphere_bound].to_list())
    return in_window(runs["run"], found, False)


def _sphere_paper(runs: Runs) -> Finding:
    """The same at §6.1's values."""
    rows = runs["run"].part("table")
    return _bracket(rows[HeatMaps.sphere_found].to_list(), rows[HeatMaps.sphere_bound].to_list())


def _sweep(judge: Callable[[Run, str, str], Finding], sweep: str, key: Column) -> Judge:
    return lambda runs: judge(runs["run"], sweep, key)


def _assumption(key: Column, judge: Shares, fine: bool) -> tuple[Reading, ...]:
    text = "d = k^10, n = k^7 at k = 3 (quick: 2), flow to T = k^8/η"
    found = _regime(key, judge, fine)
    return one_run("assumption", text, SMALLER, found), one_run(
        "assumption-large", SAME_LARGER, LARGER, found
    )


def _assumption_weights(net: str) -> tuple[Reading, ...]:
    text, found = "√d‖w − λΣμ/‖μ‖²‖ ÷ λ at the end of the flow", _deviation_regime(net)
    return one_run("assumption", text, SMALLER, found), one_run(
        "assumption-large", SAME_LARGER, LARGER, found
    )


def _item(label: str, *readings: Reading) -> tuple[Reading, ...]:
    """The readings of one item of a theorem, named `reading/item`."""
    return tuple(replace(r, name=f"{r.name}/{label}") for r in readings)


CLAIMS: tuple[Claim, ...] = (
    stated(
        "FA-T4.5",
        "Theorem 4.5",
        "2-class training: clean accuracy near 1; weights λΣ_{J_s} μ_j/‖μ_j‖² up to o(d^−½); no robust "
        "accuracy at Ω(√(d/k)).",
        TO_T0,
        *_item(
            "clean",
            one_run("paper", "§6.1's values", FIG2, _clean_paper(HeatMaps.clean_binary)),
            *_assumption(AtTheEnd.clean_binary, _wrong, False),
            one_run(
                "talk", "σ_w² = 1/d, η = d^−½, d to 10⁹", SCALING, _talk_clean(Swept.clean_binary), **TALK
            ),
        ),
        *_item(
            "weights",
            one_run("paper", "§6.1's values, distance relative to λ", FIG2, _deviation_paper("binary")),
            *_assumption_weights("binary"),
            one_run(
                "n",
                "along n at d = 10⁶: exponent of √d × distance",
                SCALING,
                _sweep(falls, "n", Swept.deviation),
                at={"sweep": "n"},
            ),
            one_run(
                "d alone",
                "along d at n = 1000",
                SCALING,
                _sweep(falls, "d", Swept.deviation),
                at={"sweep": "d"},
            ),
            one_run(
                "talk", "λ ≥ Ω(1) in the class, ≤ o(1) across, ratios O(1)", SCALING, _talk_binary, **TALK
            ),
        ),
        *_item(
            "robust",
            one_run("paper", "§6.1's values, exact, at the proof's 2(1+c)√(d/k)", FIG3, _robust_paper),
            *_assumption(AtTheEnd.robust_binary, _right, False),
            one_run(
                "scaling",
                "exact radius ÷ √(d/k) along k: exponent",
                SCALING,
                _sweep(bounded, "k", Swept.exact_over_root_dk),
                at={"sweep": "k"},
            ),
            one_run(
                "scaling d",
                "exact radius ÷ √(d/k) along d to 10⁹: exponent",
                SCALING,
                _sweep(bounded, "d", Swept.exact_over_root_dk),
                at={"sweep": "d"},
            ),
            one_run(
                "talk",
                "exact radius ÷ √(d/k) along d in the talk's setting",
                SCALING,
                _sweep(bounded, "talk", Swept.exact_over_root_dk),
                **TALK,
            ),
        ),
        *averaging_readings(),
    ),
    stated(
        "FA-T4.6",
        "Theorem 4.6",
        "On the sphere ‖x‖ = √d the network is a multiple of f_FA up to o(1).",
        TO_T0,
        one_run("paper", "§6.1's values: found by search, bounded by the weights", FIG2, _sphere_paper),
        one_run("assumption", "found by search, bounded by the weights", SMALLER, _sphere),
        one_run("assumption-large", "the same at k = 4 (quick: 3)", LARGER, _sphere),
        one_run(
            "n",
            "the proof's bound along n at d = 10⁶: exponent",
            SCALING,
            _sweep(falls, "n", Swept.sphere_bound),
            at={"sweep": "n"},
        ),
    ),
    stated(
        "FA-T4.7",
        "Theorem 4.7",
        "k-class training: clean accuracy near 1; weights λ μ_j/‖μ_j‖² up to o(d^−½); the read-out is robust "
        "at O(√d).",
        TO_T0,
        *_item(
            "clean",
            one_run("paper", "§6.1's values", FIG2, _clean_paper(HeatMaps.clean_fine)),
            *_assumption(AtTheEnd.clean_fine, _wrong, True),
            one_run("talk", "σ_w² = 1/d, η = d^−½, d to 10⁹", SCALING, _talk_clean(Swept.clean_fine), **TALK),
        ),
        *_item(
            "weights",
            one_run("paper", "§6.1's values, distance relative to λ", FIG2, _deviation_paper("fine")),
            *_assumption_weights("fine"),
            one_run(
                "n",
                "along n at d = 10⁶: exponent of √d × distance",
                SCALING,
                _sweep(falls, "n", Swept.fine_deviation),
                at={"sweep": "n"},
            ),
            one_run("talk", "λ_ij/λ_ii → 0 along d", SCALING, _talk_fine, **TALK),
        ),
        *_item(
            "robust",
            one_run("paper", "§6.1's values, certified at √d/10", FIG3, _fine_paper),
            *_assumption(AtTheEnd.robust_fine_certified, _wrong, True),
            one_run(
                "scaling",
                "certified radius ÷ √d along k",
                SCALING,
                _sweep(persists, "k", Swept.certified_over_root_d),
                at={"sweep": "k"},
            ),
            one_run(
                "scaling d",
                "certified radius ÷ √d along d to 10⁹",
                SCALING,
                _sweep(persists, "d", Swept.certified_over_root_d),
                at={"sweep": "d"},
            ),
        ),
        *decoupling_readings(),
    ),
)
