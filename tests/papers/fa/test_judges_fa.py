"""What FA's judges say beside their verdicts: certificates are verified anew, and numbers that readers are
shown are the run's."""

import math
from typing import Any

import pytest
from judge_rows_fa_embeddings import SPOILED as SPOILED_HEAD
from judge_rows_fa_embeddings import heads
from judge_rows_fa_figures import fig3
from judge_rows_fa_start import start
from judge_rows_fa_theorems import built, points
from judge_runs_fa import GOOD, NAN, SPOILED, UNMET, UNMET_TOLD, assumption, ended, fig2, line_proof, scaling
from judging import finding

from featscope.claims.registry import claims


def needs(claim: str, name: str) -> tuple[str, dict[str, object]]:
    need = next(r for r in claims()[claim].readings if r.name == name).needs["run"]
    return need.experiment, dict(need.overrides)


def test_readings_run_what_their_names_say() -> None:
    lemma = needs("FA-PA.13", "assumption-lemma")[1]
    literal = needs("FA-PA.13", "assumption-literal")[1]
    # η = d^−2; σ_w = η/(6nm√d) with √d = k^5, or σ_w² = η k^−5 as printed
    shared = {
        "k": 3,
        "d": 3**10,
        "n": 3**7,
        "m": 2,
        "learning_rate": pytest.approx(3.0**-20),
        "compact": True,
        "dtype": "float32",
    }
    sizes = {"lemma": 3.0**-20 / (6 * 3**7 * 2 * 3**5), "literal": 3.0**-12.5}
    for name, found in (("lemma", lemma), ("literal", literal)):
        size = pytest.approx(sizes[name])
        assert found == shared | {"init_weight": size, "init_bias": size, "data": False}
    assert needs("FA-PA.6", "assumption") == ("clusters-properties", lemma | {"data": True})
    assert needs("FA-PA.13", "paper") == ("clusters-properties", {"compact": True})
    assert needs("FA-L5.5", "assumption-literal") == (
        "clusters-assumption",
        {"large": False, "init": "literal"},
    )
    assert needs("FA-L5.5", "assumption-lemma") == ("clusters-assumption", {"large": False})
    assert needs("FA-L5.5", "assumption-lemma-large") == (
        "clusters-assumption",
        {"large": True, "dtype": "float32"},
    )
    assert needs("FA-F3mc", "mnist-worst") == ("image-fine-labels", {"datasets": ["mnist"]})
    assert needs("FA-F3mc", "cifar10-worst") == ("image-fine-labels-cifar10", {})


LAW = {"k": 4, "d": 100, "positive": 1}


def test_a_perturbation_that_fools_settles_its_point() -> None:
    proofs = finding(
        "FA-T4.5", "paper/robust", {"run": points("binary_exact", [1.0] * 9, [1.0] * 9, **LAW)}
    ).evidence["proofs"]
    assert proofs == [{"points": 1, "settled": 1, "least_lower": pytest.approx(2.0)}] * 2


@pytest.mark.parametrize(("delta", "settled"), [(-2.0, 1), (-2.00001, 1), (-2.0001, 0), (-1.9, 0), (2.0, 0)])
def test_a_perturbation_that_is_too_long_or_does_not_fool_settles_nothing(delta: float, settled: int) -> None:
    run = points("binary_exact", [1.0] * 9, **LAW)
    run.__dict__["tensors"] = line_proof("radii", delta, seed=0)
    assert finding("FA-T4.5", "paper/robust", {"run": run}).evidence["proofs"][0]["settled"] == settled


@pytest.mark.parametrize(("claim", "part"), [("FA-TD.2", "averaging"), ("FA-TD.3", "decoupled")])
def test_each_built_network_is_verified_by_its_own_certificates(claim: str, part: str) -> None:
    run = built(biased=[{"clean": 1.0, "robust_far": 0.0}], decoupled={"robust_third": 1.0})
    run.__dict__["tensors"] = line_proof("built", net=part)
    assert finding(claim, "built", {"run": run}).evidence["proof"]["settled"] == 1


def test_a_radius_at_which_no_classifier_is_robust_says_from_which_k_on_it_is_smaller() -> None:
    def found(**law: int) -> dict[str, Any]:
        run = points("binary_exact", [1.0] * 100, **law)
        return dict(finding("FA-T4.5", "paper/robust", {"run": run}).evidence)

    # 2(1+c)√(d/k) = 8·5 is above √(d/2) = 7.1 for k = 4 and c = 3; 2·8² = 128 clusters are the last too few
    assert "exceeds half the distance of two centres, 7.1" in found(**LAW)["vacuous"]
    assert found(**LAW)["opens_at"] == {"k": 129}
    # 4√(d/k): 32 clusters are the last too few
    assert found(k=32, d=32)["opens_at"] == {"k": 33}
    assert "vacuous" not in found(k=100, d=200)


def test_radii_are_summarised_by_their_medians() -> None:
    found = finding(
        "FA-T4.5", "paper/robust", {"run": points("binary_exact", [1.0, 2.0, 9.0], **LAW)}
    ).evidence
    assert found["median_exact"] == 2.0
    run = points("fine_certified", [3.0, 4.0, 9.0], **LAW)
    assert finding("FA-T4.7", "paper/robust", {"run": run}).evidence["medians"] == {
        "certified": 4.0,
        "readout": 1.0,
        "own_loss": 1.5,
    }


def test_findings_name_what_is_not_met() -> None:
    assert finding("FA-PA.13", "paper", {"run": start({}, unmet=UNMET)}).evidence["unmet"] == UNMET_TOLD


def test_numbers_that_are_none_are_null_in_the_evidence() -> None:
    found = finding(
        "FA-F2", "2-class", {"run": fig2("binary", [], [{"binary_min": NAN, "binary_other_max": 0.1}])}
    )
    assert found.evidence["ratios"] == [None]


def test_an_empty_window_says_its_numbers() -> None:
    window = {"least_steps": 9.0, "least_steps_fine": 99.0, "most_steps": 4.0}
    rows = [{"clean_binary": 1.0, "clean_fine": 1.0}]
    binary = finding(
        "FA-T4.5", "assumption/clean", {"run": assumption("binary", [[{}]], by_seed=rows, **window)}
    )
    fine = finding("FA-T4.7", "assumption/clean", {"run": assumption("fine", [[{}]], by_seed=rows, **window)})
    assert "at least 9 " in binary.evidence["vacuous"]
    assert "at least 99 " in fine.evidence["vacuous"]
    assert (
        binary.evidence["k"],
        binary.evidence["averaging_radius"],
        binary.evidence["decoupling_radius"],
    ) == (3, 90.5, 3.2)


def test_the_course_of_training_is_shown() -> None:
    ends = ended({"time": 1.0, "lambda_min": 2.0, "lambda_max": 3.0, "margin_min": 4.0, "margin_max": 5.0})
    grown = finding("FA-LB.23", "assumption", {"run": assumption("binary", ends)}).evidence
    assert grown["ends"] == [{"lambda": [2.0, 3.0], "time": 1.0}]
    assert (grown["low"], grown["high"]) == (0.0, pytest.approx(4 * math.log(3)))
    balanced = finding("FA-L5.3", "paper", {"run": fig2("binary", ends)}).evidence
    assert (balanced["gaps"], balanced["margins"]) == ([1.0], [[4.0, 5.0]])
    late = [GOOD | {"time": math.exp(4)}]
    assert finding("FA-LB.23", "assumption", {"run": assumption("binary", [late])}).evidence[
        "low"
    ] == pytest.approx(1.0)


def test_inactive_rows_are_counted() -> None:
    rows = [[SPOILED, *(GOOD | {"own_active": share} for share in (0.5, 0.75, 1.0, 1.0))]]
    found = finding("FA-L5.5", "paper", {"run": fig2("binary", rows)}).evidence
    assert (found["rows"], found["rows_with_inactive"], found["least"], found["first_recorded"]) == (
        4,
        2,
        0.5,
        [0.5, 0.75, 1.0],
    )
    flow = finding(
        "FA-L5.5", "assumption-lemma", {"run": assumption("binary", [[GOOD]], [[SPOILED, GOOD]])}
    ).evidence
    assert (flow["rows"], flow["rows_with_inactive"], flow["first_recorded"]) == (2, 0, [0.1, 1.0])


def test_items_of_a_lemma_are_named_with_value_bound_and_opening() -> None:
    rows = [[SPOILED, GOOD | {"lambda_other": 0.5, "sigma_other": 0.02}]]
    found = finding("FA-LB.7", "other classes/whole flow", {"run": assumption("binary", rows)}).evidence
    assert found["decided_by"] == "8: |λ| of other clusters"
    lam = found["parts"]["8: |λ| of other clusters"]
    assert (lam["verdict"], lam["value"], lam["bound"]) == ("FAILS", 0.5, 0.01)
    loose = finding("FA-LB.7", "other classes/whole flow", {"run": assumption("binary", rows, epsilon=0.6)})
    # ε ≤ .1 from k = 10 on; |σ| would be bounded by 2ε, from 13 on
    assert loose.evidence["opens_at"] == {"k": 13}


def test_built_networks_show_radii_in_their_units() -> None:
    good = [{"clean": 1.0, "robust_far": 0.0, "max": size} for size in (3.0, 5.0)]
    # √d = 20, √(d/k) = 2
    row = {"robust_third": 1.0, "min": 10.0, "median_plus": 30.0, "median_minus": 40.0}
    run = {"run": built(biased=good, decoupled=row)}
    assert finding("FA-TD.2", "built", run).evidence["largest_radius"] == 2.5
    assert finding("FA-TD.3", "built", run).evidence["in_units_of_root_d"] == {
        "min": 0.5,
        "median_plus": 1.5,
        "median_minus": 2.0,
    }
    none = finding("FA-TD.2", "built", {"run": built(biased=[{"clean": 0.5}])}).evidence
    assert "no biases" in none["reason"]
    assert (none["nets"], finding("FA-TD.2", "built", run).evidence["nets"]) == (0, 2)


def test_figures_show_their_numbers() -> None:
    pair = {"median_own_loss": 3.0, "median_own_loss_last": 5.0, "median_readout": 2.0}
    attacks = finding("FA-F3", "attacks agree", {"run": fig3([pair])}).evidence
    assert (attacks["own_loss_over_readout"], attacks["plain"]) == ([1.5], [2.5])
    right = finding("FA-F3", "published 2-class", {"run": fig3(binary_exact=[1.0, 1.0, 0.0, 0.0])}).evidence
    assert right["half_radii"]["binary_exact"] == 15.0
    assert right["note"] == ""
    assert (
        "right of the published"
        in finding("FA-F3", "published 2-class", {"run": fig3(binary_exact=[1.0, 1.0, 0.6, 0.0])}).evidence[
            "note"
        ]
    )
    head = SPOILED_HEAD | {"same_gap": 0.1, "images_same_gap": 0.2}
    larger = finding("FA-F2cd", "2-class larger", {"run": heads("binary", "raw", "paper", [head])}).evidence
    assert (larger["gaps"], larger["gaps_of_image_averages"]) == ([0.1], [0.2])


def test_sweeps_show_their_rows() -> None:
    rows = [{"lambda_min": 0.0, "clean_binary": 0.25, "fine_lambda_min": 2.0, "clean_fine": 0.75}]
    run = {"run": scaling({}, {"talk": rows})}
    binary, fine = (
        finding("FA-T4.5", "talk/weights", run).evidence["rows"][0],
        finding("FA-T4.7", "talk/weights", run).evidence["rows"][0],
    )
    assert (binary["at"], binary["lambda_min"], binary["clean_binary"]) == (1000.0, 0.0, 0.25)
    assert (fine["at"], fine["fine_lambda_min"], fine["clean_fine"]) == (1000.0, 2.0, 0.75)


def test_first_steps_show_activation_before_and_after() -> None:
    run = start({"B.1": [3], "B.1 before": [1, 2]}, draws=4, value=0.25)
    found = finding("FA-LB.1", "paper", {"run": run}).evidence
    assert found["activation"] == {"after": 0.4375, "least": 0.25, "before": 0.375}
    assert found["properties"] == {"B.1": {"bound": 1.0, "max": 0.5, "mean": 0.4375, "failures": 1}}
    assert set(finding("FA-LC.5", "paper", {"run": start({})}).evidence["activation"]) == {"after", "least"}


def test_a_single_draw_can_be_shown() -> None:
    found = finding("FA-PA.13", "paper", {"run": start({}, draws=1)}).evidence
    assert found["properties"] == {"A.13": {"bound": 1.0, "max": 0.5, "mean": 0.5, "failures": 0}}
    assert (found["draws"], found["failed"]) == (1, 0)
