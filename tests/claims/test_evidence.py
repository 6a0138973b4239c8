"""What a finding shows beside its verdict is what was measured: each number by hand from the rows of the
tables."""

import math
from typing import Any

import judge_rows_at_images as images
import judge_rows_at_scaling as scaling
import pytest
import torch
from judge_rows_at_training import bracket_run
from judge_rows_cgro_appendix import bound
from judge_rows_cgro_built import SEPARATION, counted, networks, stored
from judge_rows_cgro_images import landscape
from judge_rows_cgro_training import crosstalk, kept, points, samples, stages, starts, sweep
from judge_rows_ep import fstar, manifold, separation
from judge_rows_ep_bounds import DIMENSIONS, bounds
from judging import finding

from featscope.claims.claim import Need
from featscope.claims.ledger import data_of, requests, select
from featscope.claims.registry import claims
from featscope.core.errors import BadInput
from featscope.core.stats import wilson
from featscope.experiments.registry import experiment
from featscope.experiments.runner import ordered


def shown(claim: str, name: str, runs: Any) -> dict[str, Any]:
    return dict(finding(claim, name, runs).evidence)


def test_evidence_of_growth_with_d() -> None:
    found = shown("AT-LD.9", "median", {"run": scaling.sweep("standard", 0, "A", -0.5, -0.4)})
    assert found["d"] == list(scaling.DIMENSIONS)
    assert found["median"] == pytest.approx([2 / math.sqrt(d) for d in scaling.DIMENSIONS])
    assert found["share"] == 1.0
    attacked = {"run": scaling.sweep("features-only", 1, "B", -0.3, -0.2, dimensions=(10**2, 10**3, 10**4))}
    assert shown("AT-LD.24", "features-only", attacked)["own_prediction"] == pytest.approx(-0.3 / 3)
    twice = {"run": scaling.initial_run(-0.5, 0.5, lambda d, m, seed: 2.0)}
    for name in ("in-d", "in-m"):
        assert shown("AT-LD.3", name, twice)["drawn_against_exact"] == pytest.approx(2.0)


def test_evidence_of_perturbations_that_fool() -> None:
    """σ̃(.9) of the label's patch is more than 2σ̃(.6) of the other class's two (z³/3 below 1; in a line it would be
    less). Steps of −.9 and −.2 there fool; none, one away from the other class, and one beyond ε = 1.2 do not."""
    run = bracket_run("full-ball", "test", (0.9, 0.9), (0.8, 0.8))
    delta = torch.zeros(5, 3, 2)
    delta[:, 0, 0] = torch.tensor([-0.9, -0.2, 0.0, 1.2, -3.0])
    stored = {
        "w": torch.eye(2)[:, None],
        "x": torch.tensor([[0.9, 0.0], [0.0, 0.6], [0.0, 0.6]]).expand(5, 3, 2),
        "y": torch.zeros(5, dtype=torch.int64),
        "delta": delta,
    }
    assert "fooled" not in shown("AT-T4.4", "full-ball", {"run": run})
    run.tensors.update({f"radii[arm=adversarial]/{key}": value for key, value in stored.items()})
    found = shown("AT-T4.4", "full-ball", {"run": run})
    assert found["fooled"] == "2 of 5"
    assert found["certified_error_at_least"] == pytest.approx(wilson(2, 5).low)
    assert "fooled" not in shown("AT-T4.4", "feature-span", {"run": run})


def test_evidence_of_the_printed_feature_accuracies() -> None:
    found = shown("AT-T1", "table-other-start", images.runs(images.features(images.GOOD, apart=0.0)))
    cells = {
        ("standard", "NR"): 0.7,
        ("standard", "R"): 0.5,
        ("adversarial", "NR"): 0.5,
        ("adversarial", "R"): 0.7,
    }
    names = {cell: f"feature_{cell[1]}" for cell in cells}
    assert found["gaps"] == pytest.approx(
        {f"{m} {name}": abs(cells[m, s] - images.PRINTED[m][name]) for (m, s), name in names.items()}
    )
    assert found["cells"] == {
        m: {f"feature_{s}": [cells[m, s]] * 6 for s in ("NR", "R")} for m in ("standard", "adversarial")
    }
    run = images.features(images.GOOD, error=0.15)
    better = shown("AT-T1", "suppressed-other-start", images.runs(run))["inversion"]
    assert better["mean_error"] == {"NR": [0.2] * 6, "R": [0.2] * 5 + [0.15]}


def test_evidence_of_training() -> None:
    found = shown("CG-L4.2", "T0", starts((10, 10.0), (10, 4.0), (1, 5.0), (-1, None)))
    assert (found["starts"], found["worst_ratio"], found["within_a_step_or_a_tenth"]) == (4, 5.0, 1)
    assert shown("CG-L4.2", "T0", starts((-1, None)))["worst_ratio"] is None
    assert shown("CG-L4.2", "recursion", stages(verify_steps=77))["steps"] == 77
    for name in ("up to a logarithm", "until memorisation"):
        assert shown("CG-L4.4", name, stages(crosstalk(1.0, 1.0, 1.0)))["unit"] == 8.0
    found = shown("CG-T4.1", "N=poly", samples(0.5, 0.5, 0.5, critical=30.0))
    assert (found["N"], found["critical_samples"], found["d"]) == (20, 30.0, 512)
    assert "N=20 against N*=30" in shown("CG-T4.1", "N≪N*", samples(0.5, 0.5, 0.5, critical=30.0))["unmet"][0]
    found = shown("CG-T4.1", "ball", stages(tensors=points(failing=30, wrong=10)))["certificate"]
    assert found == {"points": 100, "failures": 30, "wrong_clean": 10, "largest_norm": 1.5, "radius": 1.5}
    stored = points(failing=30, wrong=10)
    stored[kept("delta")][0, 0, 0] = math.nan
    nobody = shown("CG-T4.1", "ball", stages(tensors=stored))["certificate"]
    assert nobody == {"points": 100, "failures": 0, "wrong_clean": 0, "largest_norm": None, "radius": 1.5}
    fit = shown("CG-T4.1", "scaling in d", sweep("dimensions", d=[1, 2, 4], signal=[1.0, 2.0, 4.0]))
    assert (fit["exponent"], fit["predicted"]) == (pytest.approx(1.0), 0.0)


def test_evidence_of_built_networks() -> None:
    found = shown("CG-C", "built", networks(stored(4), stored(8, apart=0.25)))["parts"]
    assert found["separation, re-verified"]["sets"] == 2
    assert [c["least"] for c in found["separation, re-verified"]["certificate"]] == [SEPARATION, 0.25]
    assert [c["separated"] for c in found["separation, re-verified"]["certificate"]] == [True, False]
    assert found["clean test error"]["cases"] == 3
    parts = shown("CG-T5.2", "counts", counted())["parts"]
    assert {key: part["value"] for key, part in parts.items() if "growth" in key} == pytest.approx(
        {f"{kind}: growth in {of}": 1.0 for kind in ("Linf", "L2-shared", "L2-each") for of in "ND"}
    )
    assert parts["formula mismatches"]["cases"] == 27
    squared = shown("CG-T5.2", "counts", counted("Linf", lambda n, size: size))["parts"]
    assert squared["Linf: growth in N"]["value"] == pytest.approx(1.0)
    assert squared["Linf: growth in D"]["value"] == pytest.approx(2.0)
    # the rows of ``bound`` at either radius are e^(bD)
    found = shown("CG-T5.3", "Ω(exp(D)), some δ", bound())
    assert found["rate_by_radius"] == pytest.approx({"0.2": 0.3, "0.005": 1.2})
    assert shown("CG-T5.3", "neural-separable", bound())["laws"] == 2


@pytest.mark.parametrize("data", ["mnist", "cifar10"])
def test_evidence_of_landscapes(data: str) -> None:
    pixels = 784 if data == "mnist" else 3072
    eps = 0.1 if data == "mnist" else 8 / 255
    found = shown("CG-E.1", f"{data}-printed", landscape(data, settings={"train": 1000}))
    assert (found["N"], found["D"]) == (900, pixels)
    assert found["rate"] == pytest.approx(900 ** (-1 / (pixels + 2)))
    assert found["log10_N_that_halves_it"] == pytest.approx((pixels + 2) * math.log10(2))
    assert found["log10_of_term_II_at_this_radius"] == pytest.approx(
        -math.log10(30) - pixels / 2 * math.log10(eps)
    )
    assert found["accuracy"] == pytest.approx({"clean_test": 0.9, "robust_train": 0.9, "robust_test": 0.5})
    small = shown(
        "CG-E.1", f"{data}-printed", landscape(data, settings={"train": 50, "training__held_out": 0.001})
    )
    assert small["N"] == 49, "at least one image is held out"
    found = shown(
        "CG-F3", f"{data}-faster", landscape(data, test=([10.0, 20.0], [10.0, math.nan], [10.0, 30.0]))
    )
    assert (found["everywhere"], found["local"]) == ([2.0, None, 3.0], [0.5, 0.5, 0.5])
    gaps = [2.0, 3.0, 4.0, 5.0, 101.0]
    parts = shown(
        "CG-F3", f"{data}-gap-follows", landscape(data, losses=gaps, test=[4.0, 3.0, 2.0, 1.0, 3.5])
    )["parts"]
    # Σ dx·dy = 73, Σ dx² = 7610, Σ dy² = 5.8; by rank −4/10
    assert parts["pearson"]["seeds"] == pytest.approx([73 / math.sqrt(7610 * 5.8)] * 3)
    assert parts["spearman"]["seeds"] == pytest.approx([-0.4] * 3)
    assert parts["pearson"]["value"] == pytest.approx(73 / math.sqrt(7610 * 5.8))
    assert shown("CG-F3", f"{data}-gap-follows", landscape(data))["epochs"] == 5
    over = shown("CG-E.2", f"{data}-ball", landscape(data, ball=(1.0, 2.0, 6.0)))["constant_over_radii"]
    assert list(over) == [f"{factor * eps:.4g}" for factor in (0.5, 1, 2, 3)]
    assert over[f"{eps:.4g}"] == pytest.approx(1.0)
    outside = finding("CG-F2", f"{data}-sharper", landscape(data, fit=(0.9, 0.29, 0.8)))
    assert outside.evidence["unmet"] == ["robust training accuracy 0.290, needed 0.300"]


def test_evidence_of_ep() -> None:
    rate = shown("EP-f*", "grid network", fstar(at=0, parameters=449, formula=452))["parts"]["rate in d"]
    assert (rate["counts"], rate["d"]) == ([112, 449, 1792], [2, 3, 4])
    assert shown("EP-f*", "exact", fstar())["parts"]["slope · ε"]["cases"] == 6
    counts = shown("EP-manifold", "built", manifold())["counts"]
    assert counts[:2] == [{"k": 2, "d": 16, "parameters": 960}, {"k": 2, "d": 32, "parameters": 1920}]
    for claim, name, kind in (("EP-lower", "count", "general"), ("EP-manifold", "lower", "manifold")):
        found = shown(claim, name, bounds(kind))
        assert found["needed"] == {str(d): pytest.approx(7 * math.exp(0.3 * d)) for d in DIMENSIONS}
        assert (found["laws"], found["parts"]["rate"]["value"]) == (2, pytest.approx(0.3))
    # ε = .2 and μ = .1: 3^(d−1) sites ask for more than d + 1 parameters from d = 16 on, for 201 from k = 26
    for claim, name, kind, opens in (
        ("EP-lower", "count", "general", 16),
        ("EP-manifold", "lower", "manifold", 26),
    ):
        assert shown(claim, name, bounds(kind, scale=6e-4))["opens_at"] == {"dimension": opens}
    parts = shown("EP-manifold", "built", manifold(clean_test=0.75, attacked=0.5, formula=0))["parts"]
    assert {key: part["value"] for key, part in parts.items()} == pytest.approx(
        {
            "robust margin": 0.2,
            "clean test error": 0.25,
            "attacked test error": 0.5,
            "formula mismatches": 1.0,
            "k=2: growth in d": 1.0,
            "k=3: growth in d": 1.0,
        }
    )
    found = shown("EP-sep", "mnist-separated", separation("mnist", 102, 51, 0.1))
    assert (found["separation"], found["train_train"], found["test_train"], found["eps"]) == (
        0.2,
        0.4,
        0.2,
        0.1,
    )
    lost = shown("EP-sep", "mnist-table", separation("mnist", bad="test label"))
    assert (lost["train_train"], lost["test_train"]) == (188 / 255, None)
    outside = shown("EP-sep", "cifar10-far", separation("cifar10", whole=False))
    assert outside["unmet"] == ["cifar10 was not searched as a whole"]


# --- which claims are judged, and what they need


def test_claims_are_chosen_by_name_by_paper_and_by_data() -> None:
    assert [c.id for c in select(["EP-table", "CG-C"], None, "cpu")] == ["EP-table", "CG-C"]
    assert [c.id for c in select(["EP-table", "CG-C"], "cgro", "cpu")] == ["CG-C"]
    chosen = select([], "ep", "cpu")
    assert {c.paper for c in chosen} == {"ep"}
    assert "EP-sep" not in {c.id for c in chosen}, "images only when asked for"
    assert {c.paper for c in select([], None, "cpu")} == {"at", "fa", "cgro", "ep"}
    for ids, paper in ((["CG-X"], None), ([], "xy"), (["CG-C"], "ep")):
        with pytest.raises(BadInput):
            select(ids, paper, "cpu")


def test_the_data_that_a_claim_needs() -> None:
    assert data_of(claims()["CG-C"], "cpu") == []
    assert data_of(claims()["CG-F1"], "cpu") == ["mnist"]
    assert data_of(claims()["CG-F3"], "cpu") == ["cifar10", "mnist"]


def test_a_profile_needs_the_data_that_its_settings_name() -> None:
    assert data_of(claims()["CG-F1"], "paper") == ["cifar10"]
    assert data_of(claims()["EP-sep"], "cpu") == ["cifar10", "mnist"]
    assert data_of(claims()["EP-sep"], "paper") == ["cifar10", "mnist", "svhn"]
    fine = experiment("image-fine-labels")
    assert fine.needs_data("cpu", {"datasets": ["mnist"]}) == ("mnist",)
    assert experiment("image-overfitting").needs_data("quick", {"dataset": "svhn"}) == ("svhn",)
    assert experiment("signal-stages").needs_data("paper") == ()


def test_other_inversions_are_read_of_networks_that_the_tables_run_has_tested() -> None:
    readings = {reading.name: reading.needs for reading in claims()["AT-T1"].readings}
    table, few = Need("image-features"), {"images": 50, "attacked": 0}
    starts = {f"-{start}": {**few, "inversion.start": start} for start in ("grey", "black", "image")}
    other = {**starts, "-small-steps": {**few, "inversion.step_size": 0.05}}
    for name in ("standard-non-robust", "suppressed", "strengthened"):
        for end, overrides in other.items():
            needs = readings.pop(f"{name}-other-start{end}")
            assert needs == {"run": Need("image-features", overrides), "tested": table}
    # All others read a run that has tested its own networks.
    assert all(needs["run"] == needs["tested"] for needs in readings.values())
    assert sum(needs["run"] == table for needs in readings.values()) == 12


def test_a_run_that_several_claims_read_is_needed_once() -> None:
    readings = [reading for name in ("CG-T5.3", "EP-lower", "CG-C") for reading in claims()[name].readings]
    nodes = ordered([wanted for reading in readings for wanted in requests(reading, "quick").values()])
    assert [node.request.experiment.name for node in nodes.values()] == [
        "lower-bound",
        "packing",
        "bounds",
        "built-cgro",
    ]
