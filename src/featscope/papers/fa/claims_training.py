"""FA on the course of training: Lemmas 5.3, 5.5, B.23, B.24; for k classes C.10, C.23 to C.25."""

from __future__ import annotations

import math

import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Reading, Runs
from featscope.claims.judging import (
    at_least,
    at_most,
    every,
    exactly,
    explained,
    fitted,
    largest,
    one_run,
    over,
    over_seeds,
    smallest,
    steepest,
    trivially_met,
)
from featscope.core.rules import BEND, SMALL, SPEAKS
from featscope.core.stats import Interval
from featscope.experiments.run import Run
from featscope.papers.fa.claims_induction import induction
from featscope.papers.fa.clusters import Course
from featscope.papers.fa.clusters_regimes import BinaryFlow, FirstSteps, ProofNumbers
from featscope.papers.fa.clusters_scaling import Swept
from featscope.papers.fa.openings import bound_opens
from featscope.papers.fa.printed import PROOF
from featscope.papers.fa.runs import (
    ASSUMPTIONS,
    FIG2,
    LARGER,
    SCALING,
    SMALLER,
    SMALLER_LITERAL,
    falls,
    in_window,
    last,
    proof_numbers,
    stated,
)

UNTIL_T0 = (*ASSUMPTIONS, "t ≤ T₀ = exp(Õ(√k))")
#: keeps a logarithm finite where no time has passed
TINY = 1e-300


def _all_active(rows: pl.DataFrame, first: pl.Series) -> Finding:
    """The share of own neurons that are inactive at worst is 0."""
    active = rows[Course.own_active]
    share = 1 - smallest(active)
    shown = {"rows": rows.height, "rows_with_inactive": int((active < 1).sum()), "least": smallest(active)}
    return exactly(share, 0.0, inactive_share_at_worst=share, first_recorded=first.to_list(), **shown)


def _active(net: str) -> Judge:
    """Lemma 5.5 / 7. of B.7 and C.10: from step 1 on the own neurons of every point are active."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part(net).filter(pl.col(Course.step) >= 1)
        return _all_active(rows, rows[Course.own_active].head(3))

    return judge


def _active_flow(net: str) -> Judge:
    """The same where a flow follows the first steps of descent, of which only step 0 comes before step 1."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        start = run.part("start", net=net)
        rows = pl.concat([start.filter(pl.col(FirstSteps.step) >= 1), run.part(net)], how="diagonal_relaxed")
        return _all_active(rows, start[FirstSteps.own_active])

    return judge


def _growth(net: str) -> Judge:
    """ln(Tη)/4 ≤ λ ≤ 4 ln(T+1) at the end of the flow; VACUOUS where no T is in the theorems' window."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        eta = proof_numbers(run)[ProofNumbers.learning_rate]
        columns = [BinaryFlow.time, Course.lambda_min, Course.lambda_max]
        ends = [
            (math.log(max(time, TINY)) / 4, 4 * math.log(time / eta + 1), low, high, time)
            for time, low, high in last(run, net).select(columns).iter_rows()
        ]
        excess = [miss for least, most, low, high, _ in ends for miss in (least - low, high - most)]
        shown = [{"lambda": [low, high], "time": time} for _, _, low, high, time in ends]
        least, most, _, _, _ = ends[0]
        return in_window(run, exactly(largest(excess), 0.0, ends=shown, low=least, high=most), net == "fine")

    return judge


def _rate(net: str) -> Judge:
    """λ grows by a number between ¼ and 4 for every factor e of time, fitted over ηt ≥ 1 of each seed."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part(net).filter(pl.col(BinaryFlow.time) >= 1)
        fits = [_slope(one) for _, one in rows.group_by(Course.seed, maintain_order=True)]
        low, high = smallest(fit.low for fit in fits), largest(fit.high for fit in fits)
        value = sum(fit.value for fit in fits) / len(fits) if fits else math.nan
        found = Interval(value, low, high)
        parts = {"at least": at_least(found, 0.25), "at most": at_most(found, 4.0)}
        return explained(every(parts), slope=value, per="factor e of time")

    return judge


def _slope(rows: pl.DataFrame) -> Interval:
    """The slope of mean λ in ln(ηt); the exponent of e^λ in ηt is the same number."""
    return fitted(rows[BinaryFlow.time].to_list(), rows[Course.lambda_mean].exp().to_list())


def _ratios(run: Run, net: str) -> list[float]:
    """Largest ÷ least own λ of each seed; infinite where the least is not positive (−1 in rows)."""
    return [math.inf if ratio < 0 else ratio for ratio in last(run, net)[Course.lambda_ratio]]


def _ratio(net: str) -> Judge:
    """λ ratios ≤ 1 + 204ε (times k² for the k-class network); VACUOUS where that is met but not small."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        proof, (constant, power) = proof_numbers(run), PROOF[net].lambda_ratio
        bound = constant * proof[ProofNumbers.k] ** power * proof[ProofNumbers.epsilon]
        opens = bound_opens(constant, power)
        why = f"the bound allows a ratio of {1 + bound:.3g}; it is below {1 + SPEAKS:g} from k = {opens} on"
        return trivially_met(exactly(largest(_ratios(run, net)) - 1, bound), bound > SPEAKS, why, k=opens)

    return judge


def _near_one(net: str) -> Judge:
    """λ ratios are 1 ± o(1): within SMALL at one setting."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        ratios = _ratios(run, net)
        return at_most(over_seeds([r - 1 for r in ratios]), SMALL, ratios=ratios)

    return judge


def _gap(net: str) -> Judge:
    """The margin gap at the end relative to the margin, with the absolute one beside it."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        margins = list(last(run, net).select(Course.margin_min, Course.margin_max).iter_rows())
        gaps = [high - low for low, high in margins]
        shares = [over(high - low, high) for low, high in margins]
        return at_most(over_seeds(shares), SMALL, gaps=gaps, margins=margins)

    return judge


def _widest_gap(run: Run, net: str) -> float:
    """The largest margin gap of a recorded step from t = 1 on, first steps and flow."""
    start = run.part("start", net=net).filter(pl.col(FirstSteps.step) >= 1)
    rows = pl.concat([start, run.part(net)], how="diagonal_relaxed")
    return largest((rows[Course.margin_max] - rows[Course.margin_min]).to_list())


def _gap_along_k(runs: Runs) -> Finding:
    """The largest absolute gap over all t falls from k to k: its slope in ln k is at most −BEND."""
    sizes = {float(proof_numbers(run)[ProofNumbers.k]): _widest_gap(run, "binary") for run in runs.values()}
    value = steepest(list(sizes), list(sizes.values()))
    return exactly(value, -BEND, gaps={f"k = {k:g}": gap for k, gap in sizes.items()}, allowance=BEND)


def _signs(net: str) -> Judge:
    """The largest λ and σ of foreign features and points, and minus the least own ones, along training."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part(net)
        own = {key: smallest(rows[key]) for key in (Course.lambda_min, Course.sigma_min)}
        other = {key: largest(rows[key]) for key in (Course.lambda_other_top, Course.sigma_other_top)}
        worst = largest([*(-value for value in own.values()), *other.values()])
        return exactly(worst, 0.0, **own, **other)

    return judge


def _sweep(key: str) -> Judge:
    """The exponent along n, fitted with its interval, lies below −BEND."""
    return lambda runs: falls(runs["run"], "n", key)


SMALLER_TEXT = "Assumption 4.3 at k = 3 (quick: 2), flow, σ_w = η/(6nm√d)"
LARGER_FLOW = "Assumption 4.3 at k = 4 (quick: 3), flow, σ_w = η/(6nm√d), float32"
#: which of the sweeps is read
ALONG_N = {"sweep": "n"}
N_TEXT = "along n at d = 10⁶, k = 10: o(1) as a fitted exponent"


def _regimes(judge: Judge) -> tuple[Reading, ...]:
    return one_run("assumption", SMALLER_TEXT, SMALLER, judge), one_run(
        "assumption-large", LARGER_FLOW, LARGER, judge
    )


CLAIMS: tuple[Claim, ...] = (
    stated(
        "FA-L5.3",
        "Lemma 5.3",
        "Margins of training points stay balanced: their gaps are at most ε(k) → 0 at all times.",
        UNTIL_T0,
        one_run("paper", "§6.1's values: gap ÷ margin at the end", FIG2, _gap("binary")),
        *_regimes(_gap("binary")),
        Reading(
            "as printed",
            "largest absolute gap over all t, from k = 3 (quick: 2) to k = 4 (quick: 3) of Assumption 4.3",
            {"smaller": SMALLER, "larger": LARGER},
            _gap_along_k,
        ),
        one_run("scaling", N_TEXT, SCALING, _sweep(Swept.margin_gap), at=ALONG_N),
    ),
    stated(
        "FA-L5.5",
        "Lemma 5.5",
        "From step 1 on every training point activates all neurons of its class.",
        UNTIL_T0,
        one_run("paper", "§6.1's values, every recorded step", FIG2, _active("binary")),
        one_run(
            "assumption-literal",
            "Assumption 4.3 at k = 3 (quick: 2) as printed, σ_w² = η k^−5",
            SMALLER_LITERAL,
            _active_flow("binary"),
        ),
        one_run("assumption-lemma", SMALLER_TEXT, SMALLER, _active_flow("binary")),
        one_run("assumption-lemma-large", LARGER_FLOW, LARGER, _active_flow("binary")),
    ),
    stated(
        "FA-LB.23",
        "Lemma B.23",
        "ln(Tη)/4 ≤ λ ≤ 4 ln(T+1) for the features of the neuron's class.",
        UNTIL_T0,
        *_regimes(_growth("binary")),
        one_run("rate", "λ ≈ c·ln(ηt), 1 ≤ ηt ≤ k^8: ¼ ≤ c ≤ 4; " + SMALLER_TEXT, SMALLER, _rate("binary")),
    ),
    stated(
        "FA-LB.24",
        "Lemma B.24",
        "Coefficients of features of the neurons' own classes agree up to a factor 1 + 204ε.",
        UNTIL_T0,
        *_regimes(_ratio("binary")),
        one_run("o(1)", SMALLER_TEXT + "; ratio within 5 % of 1", SMALLER, _near_one("binary")),
        one_run("o(1)-large", LARGER_FLOW + "; ratio within 5 % of 1", LARGER, _near_one("binary")),
        one_run("scaling", N_TEXT + " of ratio − 1", SCALING, _sweep(Swept.ratio_excess), at=ALONG_N),
    ),
    stated(
        "FA-LC.10",
        "Lemma C.10",
        "The eight inductive bounds for the k-class network.",
        UNTIL_T0,
        *induction("fine"),
        one_run(
            "activation, literal",
            "item 7 with σ_w² = η k^−5 as printed",
            SMALLER_LITERAL,
            _active_flow("fine"),
        ),
        one_run("activation, lemma", "item 7 with σ_w = η/(6nm√d)", SMALLER, _active_flow("fine")),
        one_run("margins", N_TEXT, SCALING, _sweep(Swept.fine_margin_gap), at=ALONG_N),
    ),
    stated(
        "FA-LC.9",
        "Corollaries B.5 and C.9",
        "λ and σ are not negative for the neuron's own features and points and not positive for the others, "
        "at all times.",
        (),
        one_run("2-class", "§6.1's values, every step", FIG2, _signs("binary")),
        one_run("k-class", "§6.1's values, every step", FIG2, _signs("fine")),
    ),
    stated(
        "FA-LC.23",
        "Lemma C.23",
        "ln(Tη)/4 ≤ λ ≤ 4 ln(T+1) for the k-class network.",
        UNTIL_T0,
        *_regimes(_growth("fine")),
        one_run("rate", "λ ≈ c·ln(ηt), 1 ≤ ηt ≤ k^8: ¼ ≤ c ≤ 4; " + SMALLER_TEXT, SMALLER, _rate("fine")),
    ),
    stated(
        "FA-LC.24",
        "Lemma C.24",
        "Own-cluster coefficients of the k-class network agree up to a factor 1 + 204k²ε.",
        UNTIL_T0,
        *_regimes(_ratio("fine")),
        one_run("o(1)-large", LARGER_FLOW + "; ratio within 5 % of 1", LARGER, _near_one("fine")),
    ),
    stated(
        "FA-LC.25",
        "Lemma C.25",
        "√d ‖w_s − λ μ_s/‖μ_s‖²‖ = o(1) for the k-class network.",
        UNTIL_T0,
        one_run("scaling", N_TEXT, SCALING, _sweep(Swept.fine_deviation), at=ALONG_N),
    ),
)
