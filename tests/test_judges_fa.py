"""What FA's judges say beside their verdicts: certificates are verified anew, and numbers that readers are shown are the run's."""

import pytest

from judge_rows_fa_start import start
from judge_rows_fa_theorems import built, points
from judge_runs_fa import NAN, UNMET, assumption, fig2, line_proof
from judging import finding

LAW = {"k": 4, "d": 100, "positive": 1}


def test_a_perturbation_that_fools_settles_its_point() -> None:
    proofs = finding("FA-T4.5", "paper/robust", {"run": points("binary_exact", [1.0] * 9, [1.0] * 9, **LAW)}).evidence["proofs"]
    assert proofs == [{"points": 1, "settled": 1, "least_lower": pytest.approx(2.0)}] * 2


@pytest.mark.parametrize(("delta", "settled"), [(-2.0, 1), (-2.00001, 1), (-2.0001, 0), (-1.9, 0), (2.0, 0)])
def test_a_perturbation_that_is_too_long_or_does_not_fool_settles_nothing(delta: float, settled: int) -> None:
    run = points("binary_exact", [1.0] * 9, **LAW)
    run.__dict__["tensors"] = line_proof("radii-0", delta)
    assert finding("FA-T4.5", "paper/robust", {"run": run}).evidence["proofs"][0]["settled"] == settled


@pytest.mark.parametrize(("claim", "part"), [("FA-TD.2", "averaging"), ("FA-TD.3", "decoupled")])
def test_each_built_network_is_verified_by_its_own_certificates(claim: str, part: str) -> None:
    run = built(biased=[{"clean": 1.0, "robust_far": 0.0}], decoupled={"robust_third": 1.0})
    run.__dict__["tensors"] = line_proof(f"certificates-{part}")
    assert finding(claim, "built", {"run": run}).evidence["proof"]["settled"] == 1


def test_a_radius_at_which_no_classifier_is_robust_is_noted() -> None:
    # 2(1+c)√(d/k) is above √(d/2) for k = 4 and c = 3, below it for k = 100 and c = 1: 4√(d/100) < √(d/2)
    assert "no classifier" in finding("FA-T4.5", "paper/robust", {"run": points("binary_exact", [1.0], **LAW)}).evidence["note"]
    assert "note" not in finding("FA-T4.5", "paper/robust", {"run": points("binary_exact", [1.0], k=100, d=200)}).evidence


def test_findings_name_what_is_not_met() -> None:
    assert finding("FA-PA.13", "paper", {"run": start({}, unmet=UNMET)}).evidence["unmet"] == UNMET


def test_numbers_that_are_none_are_null_in_the_evidence() -> None:
    found = finding("FA-F2", "2-class", {"run": fig2("binary", [], [{"binary_min": NAN, "binary_other_max": 0.1}])})
    assert found.evidence["ratios"] == [None]


def test_an_empty_window_says_its_numbers() -> None:
    window = {"least": 9.0, "least_fine": 99.0, "most": 4.0}
    rows = [{"seed": 0, "clean_binary": 1.0, "clean_fine": 1.0}]
    binary = finding("FA-T4.5", "assumption/clean", {"run": assumption("binary", [[{}]], by_seed=rows, window=window)})
    fine = finding("FA-T4.7", "assumption/clean", {"run": assumption("fine", [[{}]], by_seed=rows, window=window)})
    assert "at least 9 " in binary.evidence["vacuous"]
    assert "at least 99 " in fine.evidence["vacuous"]
    assert (binary.evidence["k"], binary.evidence["averaging_radius"], binary.evidence["decoupling_radius"]) == (2, 90.5, 3.2)
