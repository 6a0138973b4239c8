"""FA on data, initialisation, first step and coefficients (Appendix A, §5.1, Lemmas B.1 and C.5)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Reading, Runs
from featscope.claims.judging import (
    at_most,
    exactly,
    explained,
    largest,
    numbers,
    one_run,
    smallest,
    trivially_met,
)
from featscope.core.rules import SAME, SMALL
from featscope.core.stats import wilson
from featscope.experiments.run import Run
from featscope.papers.fa.claims_elementary import ELEMENTARY, fails_in_the_limit
from featscope.papers.fa.clusters_properties import Draws, PropertiesSpec, Stated
from featscope.papers.fa.clusters_routes import Routes
from featscope.papers.fa.openings import (
    activation_failure,
    activation_opens,
    fine_activation_failure,
    fine_activation_opens,
)
from featscope.papers.fa.runs import (
    ASSUMPTIONS,
    DATA,
    ROUTES,
    START,
    START_DATA,
    START_LEMMA,
    START_LITERAL,
    stated,
)


def _failures(run: Run, names: Sequence[str]) -> tuple[int, int]:
    """Draws on which some property of ``names`` fails or was not looked at, and all draws."""
    rows = run.part("draws")
    wanted = rows.filter(pl.col(Draws.property).is_in(list(names)) & pl.col(Draws.met))
    met = wanted.group_by(Draws.draw).agg(pl.col(Draws.property).n_unique())
    draws = rows[Draws.draw].n_unique()
    return draws - int((met[Draws.property] == len(names)).sum()), draws


def _values(run: Run, name: str) -> pl.DataFrame:
    """The rows of one property."""
    return run.part("draws").filter(pl.col(Draws.property) == name)


def _mean(rows: pl.DataFrame) -> float:
    return float(numbers(rows[Draws.value]).mean())


def _shown(run: Run, name: str) -> dict[str, float]:
    rows = _values(run, name)
    failures = int((~rows[Draws.met]).sum())
    return {
        "bound": rows[Draws.bound][0],
        "max": largest(rows[Draws.value]),
        "mean": _mean(rows),
        "failures": failures,
    }


def _rate(names: Sequence[str], bound: float | None = None) -> Judge:
    """The failure rate over draws against the stated probability.

    A probability below SMALL, which no draw can resolve, is held to SMALL.
    """

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        failed, draws = _failures(run, names)
        stated = run.part("stated")[Stated.failure_probability].item() if bound is None else bound
        shown = {"stated_failure_probability": stated, "draws": draws, "failed": failed}
        table = {name: _shown(run, name) for name in names}
        return at_most(wilson(failed, draws), max(stated, SMALL), **shown, properties=table)

    return judge


def _norms(runs: Runs) -> Finding:
    """The rate of draws that miss a bound, against the stated probability or SMALL."""
    spec = PropertiesSpec.of(runs["run"])
    d, m = spec.law.d, spec.training.m
    bound = 4 * m * math.exp(-(math.log(d) ** 2)) + 2 * float(m) ** -3
    return _rate(["A.10 w", "A.10 b"], bound)(runs)


def _activated(runs: Runs) -> Finding:
    """The rate of failing draws against the stated probability; VACUOUS where that allows nearly all to
    fail."""
    spec = PropertiesSpec.of(runs["run"])
    k, n, m = spec.law.k, spec.training.n, spec.training.m
    bound, opens = activation_failure(m, k, n), activation_opens()
    why = f"m^−0.01 + … = {bound:.3f} of the draws may fail: nearly all, before k = 2m = {opens}"
    return trivially_met(_rate(["A.12"], min(bound, 1.0))(runs), bound > 1 - SMALL, why, k=opens)


def _fine_activated(runs: Runs) -> Finding:
    """The same for the k-class network: (hk)^−0.01 + 2hk² exp(−n/(9k³h²))."""
    spec = PropertiesSpec.of(runs["run"])
    k, n, h = spec.law.k, spec.training.n, spec.training.h
    bound = fine_activation_failure(h, k, n)
    opens = fine_activation_opens()
    why = f"(hk)^−0.01 + … = {bound:.3f} of the draws may fail: nearly all, before hk = {opens}"
    return trivially_met(_rate(["C.3"], min(bound, 1.0))(runs), bound > 1 - SMALL, why, k=opens)


def _fine_norms(runs: Runs) -> Finding:
    """The rate of draws that miss C.1's bound, against the stated probability or SMALL."""
    spec = PropertiesSpec.of(runs["run"])
    d, m, h = spec.law.d, spec.training.m, spec.training.h
    stated = 4 * h * m * math.exp(-(math.log(d) ** 2)) + 2 * float(h * m) ** -3
    return _rate(["C.1"], stated)(runs)


def _route(*keys: str) -> Judge:
    """The largest relative difference of two routes to one number, against SAME."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part("routes")
        found = {key: largest(rows[key]) for key in keys}
        return exactly(largest(found.values()), SAME, relative_errors=found)

    return judge


def _first_step(name: str) -> Judge:
    """The rate of draws on which a neuron is inactive after step 1, against SMALL."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        after = _values(run, name)
        shares = {"after": _mean(after), "least": smallest(after[Draws.value])}
        if name == "B.1":
            shares["before"] = _mean(_values(run, "B.1 before"))
        return explained(_rate([name], 0.0)(runs), activation=shares)

    return judge


SEVEN = tuple(f"A.6.{i}" for i in range(1, 8))
LITERAL_TEXT = "Assumption 4.3 at k = 3 with σ_w² = η k^−5 as printed"
LEMMA_TEXT = "Assumption 4.3 at k = 3 with σ_w = η/(6nm√d), what the proof of A.13 uses"
PAPER_TEXT = "the values of §6.1"


def _both(judge: Judge) -> tuple[Reading, ...]:
    return (
        one_run("paper", PAPER_TEXT, START, judge),
        one_run("assumption-literal", LITERAL_TEXT, START_LITERAL, judge),
        one_run("assumption-lemma", LEMMA_TEXT, START_LEMMA, judge),
    )


CLAIMS: tuple[Claim, ...] = (
    stated(
        "FA-PA.6",
        "Proposition A.6",
        "With probability 1 − δ seven properties hold: norms near √d, inner products small across clusters "
        "and near d inside them.",
        ASSUMPTIONS,
        one_run("paper", "§6.1's values, property 6 for i ≠ j", START, _rate(SEVEN)),
        one_run("assumption", "d = k^10, n = k^7 at k = 3, property 6 for i ≠ j", START_DATA, _rate(SEVEN)),
        one_run(
            "literal",
            "the same with i = j allowed in property 6, as printed",
            START_DATA,
            _rate((*SEVEN, "A.6.literal.6")),
        ),
        assumes=DATA,
    ),
    stated(
        "FA-L5.1",
        "Lemma 5.1",
        "Weights are w(0) plus features with coefficients λ plus noises with coefficients σ, at every time.",
        (),
        one_run(
            "2-class",
            "coefficients by (2) and (3), weights rebuilt",
            ROUTES,
            _route(Routes.binary_decomposition),
        ),
        one_run(
            "compact",
            "the rotated copy trains to the same weights as the data",
            ROUTES,
            _route(Routes.binary_rotated, Routes.fine_rotated),
        ),
    ),
    stated(
        "FA-L5.2",
        "Lemma 5.2, equations (2) and (3)",
        "λ and σ change by the loss derivatives of the points that activate the neuron.",
        (),
        one_run(
            "2-class",
            "against autograd descent",
            ROUTES,
            _route(Routes.binary_autograd, Routes.binary_decomposition),
        ),
        one_run(
            "k-class",
            "Corollary C.8, against autograd descent",
            ROUTES,
            _route(Routes.fine_autograd, Routes.fine_decomposition),
        ),
    ),
    stated(
        "FA-CB.4",
        "Corollary B.4, equation (4)",
        "λ_j/‖μ_j‖² is the sum of σ_i/‖ξ_i‖² over the cluster's points.",
        (),
        one_run("2-class", "λ against the sum", ROUTES, _route(Routes.binary_marginal)),
        one_run("k-class", "Corollary C.7", ROUTES, _route(Routes.fine_marginal)),
    ),
    stated(
        "FA-LC.6",
        "Lemma C.6",
        "The weight decomposition for the k-class network.",
        (),
        one_run(
            "k-class",
            "coefficients by Corollary C.8, weights rebuilt",
            ROUTES,
            _route(Routes.fine_decomposition),
        ),
    ),
    stated(
        "FA-LC.7",
        "Corollary C.7",
        "λ_j/‖μ_j‖² is the sum of σ_i/‖ξ_i‖² for the k-class network.",
        (),
        one_run("k-class", "λ against the sum", ROUTES, _route(Routes.fine_marginal)),
    ),
    stated(
        "FA-LC.8",
        "Corollary C.8",
        "The coefficient updates of the k-class network.",
        (),
        one_run(
            "k-class",
            "against autograd descent",
            ROUTES,
            _route(Routes.fine_autograd, Routes.fine_decomposition),
        ),
    ),
    stated(
        "FA-PA.10",
        "Proposition A.10",
        "Initial norms are near σ_w√d and initial biases at most 2σ_b√(2 ln m).",
        ("w(0) and b(0) are Gaussian",),
        *_both(_norms),
        assumes=(),
    ),
    stated(
        "FA-PA.12",
        "Proposition A.12",
        "Each neuron is activated by at least n/(3km²) points of each cluster at the start.",
        ASSUMPTIONS,
        *_both(_activated),
        one_run(
            "limit",
            "the probability itself for n → ∞, m = k/2, k to 10¹⁶, where every other condition can be met",
            ELEMENTARY,
            fails_in_the_limit,
        ),
        assumes=(*DATA, "A4.3.m"),
    ),
    stated(
        "FA-PC.1",
        "Proposition C.1",
        "Initial norms of the k-class network are near σ_w√d.",
        ("w(0) is Gaussian",),
        *_both(_fine_norms),
        assumes=(),
    ),
    stated(
        "FA-PC.3",
        "Proposition C.3",
        "Each neuron of the k-class network is activated by at least n/(3k³h²) points of each cluster.",
        ASSUMPTIONS,
        *_both(_fine_activated),
        assumes=DATA,
    ),
    stated(
        "FA-LC.4",
        "Lemma C.4",
        "Initial class probabilities lie between 1/(2k) and 2/k.",
        ASSUMPTIONS,
        *_both(_rate(["C.4"], 0.0)),
    ),
    stated(
        "FA-PA.13",
        "Lemma A.13",
        "Initial pre-activations are at most η√d/(nm).",
        ASSUMPTIONS,
        *_both(_rate(["A.13"], 0.0)),
    ),
    stated(
        "FA-PA.14",
        "Lemma A.14",
        "Initial loss derivatives lie between 1/3 and 2/3.",
        ASSUMPTIONS,
        *_both(_rate(["A.14"], 0.0)),
    ),
    stated(
        "FA-LB.1",
        "Lemma B.1",
        "After one step every point activates all neurons of its class.",
        ASSUMPTIONS,
        *_both(_first_step("B.1")),
    ),
    stated(
        "FA-LC.5",
        "Lemma C.5",
        "After one step every point activates all neurons of its cluster.",
        ASSUMPTIONS,
        *_both(_first_step("C.5")),
    ),
)
