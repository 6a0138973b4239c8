"""CGRO's statements about representation (§1 equation (C), §5), judged from rows."""

from __future__ import annotations

import math

import torch

from featscope.certificates.cgro import MemoryCheck, robust_memory
from featscope.claims.built import formula_met, linear_growth, robust_by_certificate
from featscope.claims.claim import Claim, Finding, Kind, Need, Reading, Runs, plain
from featscope.claims.judging import every, exactly, number, reaches, smallest
from featscope.claims.packing import exponential, law_holds, rate
from featscope.experiments.run import Run
from featscope.nets.built.robust import KINDS
from featscope.papers.cgro.built import Classifier, Memory

BUILT = {"run": Need("built-cgro")}
PACKING = {"run": Need("packing")}


def _memory(run: Run) -> Finding:
    """Re-verify the stored training sets in exact rationals: 0 if all are separated as the certificate needs.

    Nothing stored proves nothing.
    """
    rows = run.part("memory")
    found = [_verified(run, dim) for dim in rows[Memory.D]] if rows.height else []
    bad = sum(not (f["separated"] and f["wide_enough"]) for f in found)
    return exactly(float(bad) if found else math.nan, 0.0, sets=len(found), certificate=found)


def _verified(run: Run, dim: int) -> MemoryCheck:
    row = run.part("memory", D=dim)
    x, y = (run.tensor("memory", name, D=dim) for name in ("x", "y"))
    delta, separation = number(row[Memory.delta][0]), number(row[Memory.separation][0])
    if not all(torch.isfinite(part).all() for part in (x, y, torch.tensor([delta, separation]))):
        return {"separated": False, "wide_enough": False, "least": None}
    return robust_memory(x.numpy(), y.numpy(), delta, separation)


def classifier(runs: Runs) -> Finding:
    """f_S: clean-good, certified on the training balls, fragile on unseen points."""
    rows = runs["run"].part("cgro")
    return every(
        {
            "clean test error": exactly(1 - smallest(rows[Classifier.clean_test]), 0.0, cases=rows.height),
            "robust train margin": robust_by_certificate(rows),
            "separation, re-verified": _memory(runs["run"]),
            "robust test error on unseen points": reaches(smallest(rows[Classifier.fooled_unseen]), 0.5),
        }
    )


def counts(runs: Runs) -> Finding:
    """Exact formulas and their growth: N·D for ℓ∞, N·D·n for ℓ2 with n = O(log) square levels."""
    rows = runs["run"].part("cgro")
    parts = {"formula mismatches": formula_met(rows)}
    for kind in KINDS:
        parts |= linear_growth(rows, kind)
    return every(parts)


def exponential_base_e(runs: Runs) -> Finding:
    """Ω(exp(D)) as printed: b ≥ 1."""
    found = exponential(runs)
    dims, needed, delta, mu = rate(runs)
    value = found.value if found.value is not None else math.nan
    return reaches(value, 1.0, rate=found.value, delta=delta, mu=mu, last=plain(needed[-1]), at=dims[-1])


CLAIMS = (
    Claim(
        "CG-C",
        "cgro",
        "CGRO §1, equation (C)",
        "f_S classifies clean points by the clean classifier, training balls by memory, and is fragile "
        "elsewhere.",
        ("classes R-separated with R > 2δ", "a clean classifier with |f| clamped to 1"),
        (Reading("built", "as a ReLU graph on packings, D and N swept, ℓ∞ and ℓ2", BUILT, classifier),),
        named_kind=Kind.CONSTRUCTION,
    ),
    Claim(
        "CG-T5.2",
        "cgro",
        "CGRO Theorem 5.2",
        "f_S is a ReLU network with poly(D) + Õ(ND) parameters.",
        ("Assumption 5.1",),
        (
            Reading(
                "counts",
                "exact counts equal a formula; fitted exponents in N and D at most 1 (ℓ2: after dividing by "
                "the levels)",
                BUILT,
                counts,
            ),
        ),
    ),
    Claim(
        "CG-T5.3",
        "cgro",
        "CGRO Theorem 5.3",
        "Some law satisfying Assumption 5.1 needs a number of parameters exponential in D for a robust test "
        "error below a constant.",
        ("VC bound of Bartlett et al. 2019, Theorem 7", "enveloping network with M³ parameters"),
        (
            Reading(
                "exp(Ω(D))",
                "least M by VC counting on the packing: fitted rate against a quarter of the packing's",
                PACKING,
                exponential,
            ),
            Reading("Ω(exp(D))", "rate at least 1, as printed, at the same δ", PACKING, exponential_base_e),
            Reading("law", "the packing's own properties, its support listed in full", PACKING, law_holds),
        ),
    ),
)
