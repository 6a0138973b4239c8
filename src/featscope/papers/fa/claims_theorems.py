"""FA's theorems: 4.5, 4.6, 4.7, Proposition 4.8 and appendix D, reading by reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from featscope.claims.claim import Claim, Finding, Judge, Reading, Runs, Verdict
from featscope.claims.judging import (
    at_most,
    counted,
    every,
    exactly,
    explained,
    largest,
    number,
    one_run,
    out_of_scope,
    over,
    over_seeds,
    vacuous,
)
from featscope.core.rules import CONSTANT, SMALL
from featscope.core.stats import Interval, wilson
from featscope.experiments.run import Run
from featscope.papers.fa.runs import (
    BUILT,
    FIG2,
    FIG3,
    LARGER,
    SCALING,
    SMALLER,
    bounded,
    certified,
    claim,
    falls,
    last,
    persists,
    seeds,
    within_assumptions,
)

A4 = ("Assumption 3.2", "Assumption 3.3", "Assumption 4.3", "Ω(1/η) ≤ T ≤ exp(Õ(√k))")
TALK = ("σ_w² = 1/d", "σ_b² = 1/d²", "η = Θ(d^−½)", "T = poly(d)")


def _window(run: Run, finding: Finding, fine: bool) -> Finding:
    """VACUOUS where the theorem's window for T is empty, with the numbers that the run would give."""
    window, radii = run.summary["window"], run.summary["radii"]
    least = window["least_fine" if fine else "least"]
    why = f"T must be at least {least:.3g} and at most exp(√k) = {window['most']:.3g}: no T is both"
    evidence = {
        "unmet": run.summary["unmet"],
        "k": run.summary["k"],
        "averaging_radius": radii["averaging"],
        "decoupling_radius": radii["decoupling"],
        "epsilon": run.summary["epsilon"],
    }
    return vacuous(why, explained(finding, **evidence)) if least > window["most"] else within_assumptions(run, finding)


def _by_seed(run: Run, key: str) -> list[float]:
    return [number(row[key]) for row in run.summary["by_seed"]]


def _mean(run: Run, key: str) -> float:
    return sum(_by_seed(run, key)) / len(_by_seed(run, key))


def _regime(key: str, judge: Callable[[float, int], Finding], fine: bool) -> Judge:
    def judged(runs: Runs) -> Finding:
        run = runs["run"]
        return _window(run, judge(_mean(run, key), run.spec["spec"]["test_points"] * len(seeds(run))), fine)

    return judged


def _wrong(value: float, points: int) -> Finding:
    return at_most(counted(1 - value, points), SMALL)


def _right(value: float, points: int) -> Finding:
    return at_most(counted(value, points), SMALL)


def _clean_paper(net: str) -> Judge:
    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        points = run.spec["spec"]["test_points"] * len(seeds(run))
        share = number(run.summary[net]["clean_test"])
        return within_assumptions(run, at_most(counted(1 - share, points), SMALL, clean=share, points=points))

    return judge


def _deviation_paper(net: str) -> Judge:
    """√d ‖w − λΣμ/‖μ‖²‖ relative to λ at one setting."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        rows = last(run, net)
        found = at_most(
            over_seeds([over(row["deviation"], row["lambda_mean"]) for row in rows]), SMALL, deviation=[row["deviation"] for row in rows]
        )
        return within_assumptions(run, explained(found, lambdas=[row["lambda_mean"] for row in rows]))

    return judge


def _deviation_regime(net: str) -> Judge:
    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        rows = last(run, net)
        shares = [over(row["deviation"], row["lambda_mean"]) for row in rows]
        found = at_most(
            over_seeds(shares), SMALL, deviation=[row["deviation"] for row in rows], lambdas=[row["lambda_mean"] for row in rows]
        )
        return _window(run, found, net == "fine")

    return judge


def _radius(run: Run, law: dict[str, Any]) -> float:
    plus = law["positive"] or (law["k"] + 1) // 2
    c = max(plus / (law["k"] - plus), (law["k"] - plus) / plus)
    return float(2 * (1 + c) * (law["d"] / law["k"]) ** 0.5)


def _robust_paper(runs: Runs) -> Finding:
    """Exact robust accuracy at the proof's radius; certificates re-verified."""
    run = runs["run"]
    law = run.spec["spec"]["law"]
    radius, trivial = _radius(run, law), (law["d"] / 2) ** 0.5
    points = run.rows.filter(run.rows["part"].str.starts_with("radii-"))
    left = int((points["binary_exact"] > radius).sum())
    proofs = [certified(run, f"radii-{seed}") for seed in seeds(run)]
    found = at_most(wilson(left, points.height), SMALL, radius=radius, median_exact=float(points["binary_exact"].median()), proofs=proofs)  # type: ignore[arg-type]
    note = f"at radius {radius:.1f} half the distance of two centres, {trivial:.1f}, is exceeded: no classifier is robust there"
    return within_assumptions(run, explained(found, note=note) if radius > trivial else found)


def _fine_paper(runs: Runs) -> Finding:
    """Certified robust accuracy of the read-out at √d/10."""
    run = runs["run"]
    radius = run.spec["spec"]["law"]["d"] ** 0.5 / 10
    points = run.rows.filter(run.rows["part"].str.starts_with("radii-"))
    # Polars takes NaN for larger than every number.
    lost = points.height - int((points["fine_certified"].fill_nan(0.0) > radius).sum())
    medians = {key: float(points[f"fine_{key}"].median()) for key in ("certified", "readout", "own_loss")}  # type: ignore[arg-type]
    return within_assumptions(run, at_most(wilson(lost, points.height), SMALL, radius=radius, medians=medians))


def _talk_binary(runs: Runs) -> Finding:
    """λ_{s,r,j} ≥ Ω(1), λ_{−s} ≤ o(1), ratios O(1) along d, in the talk's own setting."""
    run = runs["run"]
    rows = run.summary["talk"]["rows"]
    least = -largest(-number(row["lambda_min"]) for row in rows)
    table = [{key: row[key] for key in ("value", "lambda_min", "lambda_other_top", "own_active", "clean_binary")} for row in rows]
    if not least > 0:
        reason = "some neuron is never activated by any point of some cluster of its class: its λ is 0 and no ratio is bounded"
        return Finding(Verdict.FAILS, least, 1 / CONSTANT, {"reason": reason, "rows": table})
    across = exactly(largest(row["lambda_other_top"] for row in rows), SMALL)
    parts = {"class": persists(run, "talk", "lambda_min"), "across": across, "ratios": bounded(run, "talk", "lambda_ratio")}
    return every(parts, rows=table)


def _talk_fine(runs: Runs) -> Finding:
    """λ_ii = Ω(1) and λ_ij = o(1) along d: the largest other coefficient against the least own one."""
    run = runs["run"]
    rows = run.summary["talk"]["rows"]
    table = [{key: row[key] for key in ("value", "fine_lambda_min", "fine_lambda_other", "clean_fine")} for row in rows]
    return explained(falls(run, "talk", "fine_other_share"), rows=table)


def _talk_clean(key: str) -> Judge:
    def judge(runs: Runs) -> Finding:
        # Rounded, because 1 − .95 in binary is a little above .05.
        return exactly(largest(round(1 - number(row[key]), 12) for row in runs["run"].summary["talk"]["rows"]), SMALL)

    return judge


def _d_alone(runs: Runs) -> Finding:
    missing = [f"n ≥ k^7: {runs['run'].summary['d']['rows'][0]['n']:.0f} against 1e+07 (n is held fixed while d grows)"]
    return out_of_scope(missing, falls(runs["run"], "d", "deviation"))


def _bracket(found: Sequence[float], proved: Sequence[float]) -> Finding:
    """What every seed has found at least, and what is proved of every seed."""
    low = over_seeds(found).low
    high = over_seeds([*proved, low]).high
    return at_most(Interval(low, low, high), SMALL, found=low, proved=high)


def _sphere(runs: Runs) -> Finding:
    """inf_C sup |C f_FA − f| between what a search finds and what the weights prove."""
    run = runs["run"]
    return _window(run, _bracket(_by_seed(run, "sphere_found"), _by_seed(run, "sphere_bound")), False)


def _sphere_paper(runs: Runs) -> Finding:
    """The same at §6.1's values."""
    run = runs["run"]
    rows = [run.part(f"table-{seed}").to_dicts()[0] for seed in seeds(run)]
    return within_assumptions(run, _bracket([row["sphere_found"] for row in rows], [row["sphere_bound"] for row in rows]))


def _averaging_clean(runs: Runs) -> Finding:
    s, n = runs["run"].summary, runs["run"].spec["spec"]["test_points"]
    return at_most(counted(1 - number(s["averaging"]["clean"]), n), SMALL, clean=s["averaging"]["clean"])


def _biased_fragile(runs: Runs) -> Finding:
    """Among biases with clean accuracy ≥ 1 − SMALL: the largest robust accuracy at 2(1+c)√(d/k), and the radii in units of √(d/k)."""
    run = runs["run"]
    # A network whose accuracy is unknown may classify well.
    good = [row for row in run.summary["biased"] if not number(row["clean"]) < 1 - SMALL]
    if not good:
        return Finding(Verdict.INCONCLUSIVE, None, SMALL, {"reason": "no biases of the grid classify well", "nets": 0})
    n = run.spec["spec"]["test_points"]
    proof = certified(run, "certificates-averaging")
    shown = {"nets": len(good), "largest_radius": largest(r["max"] for r in good) / run.summary["root_dk"], "proof": proof}
    return at_most(counted(largest(row["robust_far"] for row in good), n), SMALL, **shown, explicit=run.summary["explicit"])


def _decoupled(runs: Runs) -> Finding:
    """Robust accuracy of θ_dec at √d/3, exact; both classes' radii beside √d/2 and √(d/2)."""
    run = runs["run"]
    row, n, root = run.summary["decoupled"], run.spec["spec"]["test_points"], run.summary["root_d"]
    shown = {key: row[key] / root for key in ("min", "median_plus", "median_minus")}
    proof = certified(run, "certificates-decoupled")
    return at_most(counted(1 - number(row["robust_third"]), n), SMALL, in_units_of_root_d=shown, proof=proof)


def _fragile(runs: Runs) -> Finding:
    """Right answers after the proof's perturbation of the network of Proposition 4.8, with its clean accuracy and loss."""
    run = runs["run"]
    row, n = run.summary["fragile"], run.spec["spec"]["test_points"]
    clean = -largest([-number(row["clean"]), -number(row["fine_clean"])])
    if not clean >= 1 - SMALL:
        return Finding(Verdict.FAILS, 1 - clean, SMALL, row)
    return at_most(counted(row["right_after_explicit"], n), SMALL, **row)


def _sweep(judge: Callable[..., Finding], sweep: str, key: str) -> Judge:
    return lambda runs: judge(runs["run"], sweep, key)


def _assumption(key: str, judge: Callable[[float, int], Finding], fine: bool) -> tuple[Reading, ...]:
    small = one_run(
        "assumption", "d = k^10, n = k^7 at k = 3 (quick: 2), flow to T = 1/η (k-class: k^8/η)", SMALLER, _regime(key, judge, fine)
    )
    return small, one_run("assumption-large", "the same at k = 4 (quick: 3), float32", LARGER, _regime(key, judge, fine))


def _assumption_weights(net: str) -> tuple[Reading, ...]:
    small = one_run("assumption", "√d‖w − λΣμ/‖μ‖²‖ ÷ λ at the end of the flow", SMALLER, _deviation_regime(net))
    return small, one_run("assumption-large", "the same at k = 4 (quick: 3), float32", LARGER, _deviation_regime(net))


def _item(label: str, *readings: Reading) -> tuple[Reading, ...]:
    """The readings of one item of a theorem, named `reading/item`."""
    return tuple(replace(r, name=f"{r.name}/{label}") for r in readings)


CLAIMS: tuple[Claim, ...] = (
    claim(
        "FA-T4.5",
        "Theorem 4.5",
        "2-class training: clean accuracy near 1; weights λΣ_{J_s} μ_j/‖μ_j‖² up to o(d^−½); no robust accuracy at Ω(√(d/k)).",
        A4,
        *_item(
            "clean",
            one_run("paper", "§6.1's values", FIG2, _clean_paper("binary")),
            *_assumption("clean_binary", _wrong, False),
            one_run("talk", "σ_w² = 1/d, η = d^−½, d to 10⁹", SCALING, _talk_clean("clean_binary")),
        ),
        *_item(
            "weights",
            one_run("paper", "§6.1's values, distance relative to λ", FIG2, _deviation_paper("binary")),
            *_assumption_weights("binary"),
            one_run("n", "along n at d = 10⁶: exponent of √d × distance", SCALING, _sweep(falls, "n", "deviation")),
            one_run("d alone", "along d at n = 1000", SCALING, _d_alone),
            one_run("talk", "λ ≥ Ω(1) in the class, ≤ o(1) across, ratios O(1)", SCALING, _talk_binary),
        ),
        *_item(
            "robust",
            one_run("paper", "§6.1's values, exact, at the proof's 2(1+c)√(d/k)", FIG3, _robust_paper),
            *_assumption("robust_binary", _right, False),
            one_run("scaling", "exact radius ÷ √(d/k) along k: exponent", SCALING, _sweep(bounded, "k", "exact_over_root_dk")),
            one_run("scaling d", "exact radius ÷ √(d/k) along d to 10⁹: exponent", SCALING, _sweep(bounded, "d", "exact_over_root_dk")),
            one_run("talk", "exact radius ÷ √(d/k) along d in the talk's setting", SCALING, _sweep(bounded, "talk", "exact_over_root_dk")),
        ),
    ),
    claim(
        "FA-T4.6",
        "Theorem 4.6",
        "On the sphere ‖x‖ = √d the network is a multiple of f_FA up to o(1).",
        A4,
        one_run("paper", "§6.1's values: found by search, bounded by the weights", FIG2, _sphere_paper),
        one_run("assumption", "found by search, bounded by the weights", SMALLER, _sphere),
        one_run("assumption-large", "the same at k = 4 (quick: 3)", LARGER, _sphere),
        one_run("n", "the proof's bound along n at d = 10⁶: exponent", SCALING, _sweep(falls, "n", "sphere_bound")),
    ),
    claim(
        "FA-T4.7",
        "Theorem 4.7",
        "k-class training: clean accuracy near 1; weights λ μ_j/‖μ_j‖² up to o(d^−½); the read-out is robust at O(√d).",
        A4,
        *_item(
            "clean",
            one_run("paper", "§6.1's values", FIG2, _clean_paper("fine")),
            *_assumption("clean_fine", _wrong, True),
            one_run("talk", "σ_w² = 1/d, η = d^−½, d to 10⁹", SCALING, _talk_clean("clean_fine")),
        ),
        *_item(
            "weights",
            one_run("paper", "§6.1's values, distance relative to λ", FIG2, _deviation_paper("fine")),
            *_assumption_weights("fine"),
            one_run("n", "along n at d = 10⁶: exponent of √d × distance", SCALING, _sweep(falls, "n", "fine_deviation")),
            one_run("talk", "λ_ij/λ_ii → 0 along d", SCALING, _talk_fine),
        ),
        *_item(
            "robust",
            one_run("paper", "§6.1's values, certified at √d/10", FIG3, _fine_paper),
            *_assumption("robust_fine_certified", _wrong, True),
            one_run("scaling", "certified radius ÷ √d along k", SCALING, _sweep(persists, "k", "certified_over_root_d")),
            one_run("scaling d", "certified radius ÷ √d along d to 10⁹", SCALING, _sweep(persists, "d", "certified_over_root_d")),
        ),
    ),
    claim(
        "FA-P4.8",
        "Proposition 4.8",
        "A multi-class network with perfect clean accuracy need not be robust at Ω(√(d/k)).",
        ("Assumption 3.2",),
        one_run("built", "the network and perturbation of the proof", BUILT, _fragile),
    ),
    claim(
        "FA-TD.4",
        "Theorem D.4",
        "The restatement of Proposition 4.8 with its loss exp(−Ω(d)).",
        ("Assumption 3.2",),
        one_run(
            "loss", "cross-entropy of the built network", BUILT, lambda runs: exactly(number(runs["run"].summary["fragile"]["loss"]), SMALL)
        ),
    ),
    claim(
        "FA-TD.1",
        "Theorem D.1",
        "θ_avg has biases (0, 0) with clean accuracy 1 − o(1).",
        ("Assumption 3.2",),
        one_run("built", "fresh points of §6.1's law", BUILT, _averaging_clean),
    ),
    claim(
        "FA-TD.2",
        "Theorem D.2",
        "θ_avg with any biases that classify well has no robust accuracy at Ω(√(d/k)).",
        ("Assumption 3.2",),
        one_run("built", "a grid of biases, exact radii at 2(1+c)√(d/k)", BUILT, _biased_fragile),
    ),
    claim(
        "FA-TD.3",
        "Theorem D.3",
        "θ_dec is √d/3-robust.",
        ("Assumption 3.2",),
        one_run("built", "exact radii of fresh points", BUILT, _decoupled),
    ),
)
