"""Networks that differ in labels alone, attacks tried on networks they have not seen, and judges of both that
can say no."""

import math

import numpy as np
import polars as pl
import pytest
import torch
from image_runs import finished, folder_with
from judging import finding, made
from pictures import checked_figures
from torch import nn

from experiments.test_columns import compare_with_declared
from featscope.attacks.feature import FeaturePGD
from featscope.attacks.readout import ReadOut
from featscope.attacks.threat import Threat
from featscope.claims.judging import threshold
from featscope.claims.registry import claims
from featscope.core.errors import BadInput
from featscope.core.losses import margin
from featscope.core.progress import Silent
from featscope.core.store import Store
from featscope.core.streams import stream
from featscope.experiments.image_network import both, both_needed, networks_needed, trained
from featscope.experiments.registry import experiment
from featscope.experiments.spec import resolve
from featscope.images.datasets import load
from featscope.images.groupings import grouping
from featscope.nets.networks import NetworkSpec
from featscope.papers.at.feature_attack_search import Duel as Pair
from featscope.papers.at.feature_attack_search import FeatureSearch, attack_pair, draw, rate
from featscope.papers.at.image_feature_attacks import spreads
from featscope.papers.fa import image_fine_labels
from featscope.papers.fa.fine_labels_columns import CURVES, PAIRS
from featscope.papers.fa.fine_labels_duel import Duel
from featscope.papers.fa.image_fine_labels import area

FINE, FEATURES = experiment("image-fine-labels"), experiment("image-feature-attacks")
NET = {
    "network.train": 50,
    "network.test": 12,
    "network.net.width": 2,
    "network.training.epochs": 2,
    "network.training.batch_size": 8,
}
TINY = {"datasets": ["mnist"], **{f"mnist.{key}": value for key, value in NET.items()}}
TINY_FINE = {
    **TINY,
    "images": 12,
    "steps": 3,
    "checked_images": 6,
    "queries": 3,
    "mnist.radii": [0.0, 0.5, 2.0],
    "mnist.checked": [0.5],
}
TINY_FEATURES = {
    **TINY,
    "seeds": [0, 1, 2],
    "pairs": [[1, 0], [0, 1]],
    "draws": 2,
    "reach": [0.5, 1.0],
    "mnist.network.attacked": 6,
    "mnist.adversarial.epochs": 1,
    "mnist.adversarial.batch_size": 8,
}


@pytest.fixture
def store(small_mnist, tmp_path):
    return Store(tmp_path / "runs")


def networks(spec, seed, store):
    """Both networks of a seed as `image-fine-labels` gets them."""
    both_labels = spec.networks("mnist")
    folder = folder_with(networks_needed((network, seed) for network in both_labels.values()), store)
    return {name: trained(network, seed, folder) for name, network in both_labels.items()}


def test_the_two_networks_differ_in_their_labels_alone(store):
    spec = resolve(FINE, "quick", TINY_FINE)
    nets = networks(spec, 1, store)
    left = nets["binary"].spec.replace(grouping="each", net=nets["binary"].spec.net.replace(classes=10))
    assert left == nets["fine"].spec
    first = {name: dict(net.at(0).named_parameters()) for name, net in nets.items()}
    for key, value in first["fine"].items():
        assert key.startswith("head") or torch.equal(value, first["binary"][key])


def test_curves_fall_from_clean_accuracy_and_the_worst_is_the_worst(store, capfd):
    spec = resolve(FINE, "quick", TINY_FINE)
    done = finished(FINE, spec, store)
    compare_with_declared(done)
    images = load("mnist", "test")
    x, y = images.batch(images.subset(12, 0))
    coarse = (y >= 5).long()
    for seed in spec.seeds:
        rows = done.part("curve", dataset="mnist", seed=seed).sort("radius")
        nets = {name: net.last for name, net in networks(spec, seed, store).items()}
        for key, net in (
            ("fine_readout", ReadOut(nets["fine"], grouping("halves"))),
            ("binary", nets["binary"]),
        ):
            with torch.no_grad():
                clean = float((margin(net(x), coarse) > 0).double().mean())
            assert rows[key][0] == rows[f"{key.split('_')[0]}_last"][0] == clean
        for key in ("binary", "fine_own_loss", "fine_readout", "fine_worst", "fine_largest"):
            assert all(a >= b for a, b in zip(rows[key], rows[key][1:], strict=False))
        with torch.no_grad():
            logits = nets["fine"](x)
        within = (logits.argmax(-1) != y) & (
            ReadOut(nets["fine"], grouping("halves")).scores(logits).argmax(-1) == coarse
        )
        assert rows["fine_last_within"][0] == float(within.double().mean())
        assert all(a <= b for a, b in zip(rows["fine_last_within"], rows["fine_last"], strict=True))
        points = done.part("points", dataset="mnist", seed=seed)
        assert np.array_equal(
            points["fine_worst"], np.minimum(points["fine_own_loss"], points["fine_readout"])
        )
        assert set(CURVES) <= set(rows.columns)
    for pair, (fine, binary) in PAIRS.items():
        by_seed = done.summary["datasets"]["mnist"]["area"][pair]["by_seed"]
        for seed, value in zip(spec.seeds, by_seed, strict=True):
            rows = done.part("curve", dataset="mnist", seed=seed).sort("radius")
            assert value == pytest.approx(np.trapezoid(rows[fine] - rows[binary], rows["radius"]))
    assert list(checked_figures(done, capfd)) == ["fig3"]


def test_fine_labels_of_several_data_sets_are_gathered_from_rows(store, tmp_path):
    spec = resolve(FINE, "quick", TINY_FINE)
    single = finished(FINE, spec, store)
    with Store(tmp_path).write({"experiment": "gathered", "spec": {}}, Silent()) as folder:
        folder.needed["mnist"] = single
        found = image_fine_labels.summarise(spec, "mnist", *image_fine_labels.gathered(spec, "mnist", folder))
        rows = folder.part("curve", dataset="mnist").read().rows
    assert found == single.summary["datasets"]["mnist"]
    assert rows == single.part("curve").drop("part").to_dicts()


def test_fine_labels_resume_to_the_same_rows(store, tmp_path, monkeypatch):
    spec = resolve(FINE, "quick", TINY_FINE)
    whole = finished(FINE, spec, store)
    real = Duel.radii

    def dies(self, radii):
        if self.seed == 1:
            raise KeyboardInterrupt
        return real(self, radii)

    other = Store(tmp_path / "others")
    monkeypatch.setattr(Duel, "radii", dies)
    with pytest.raises(KeyboardInterrupt):
        finished(FINE, spec, other)
    # What seed 0 has left must not be made again.
    monkeypatch.setattr(Duel, "radii", lambda self, radii: real(self, radii) if self.seed == 1 else None)
    again = finished(FINE, spec, other)
    assert again.rows.equals(whole.rows)
    assert again.summary == whole.summary


def test_areas_of_known_curves():
    assert area([0, 1, 3], [1, 0.5, 0.5]) == pytest.approx(0.75 + 1.0)
    assert area([0, 2], [-0.5, 0.5]) == 0


def test_attacked_networks_are_those_of_the_next_seed(store, capfd):
    spec = resolve(FEATURES, "quick", TINY_FEATURES)
    done = finished(FEATURES, spec, store)
    compare_with_declared(done)
    which = (spec.mnist.network, spec.mnist.adversarial, spec.seeds)
    nets = both(*which, folder_with(both_needed(*which), store))
    for place, seed in enumerate(spec.seeds):
        rows = done.part("rates", dataset="mnist", seed=seed)
        following = (place + 1) % 3
        assert set(rows["attacked_seed"]) == {spec.seeds[following]} != {seed}
        for row in rows.to_dicts():
            x, _ = draw("mnist", row["source"], row["target"], spec.images, seed)
            for method in ("standard", "adversarial"):
                before = rate(nets[method][following].last, x, torch.zeros_like(x), row["target"])
                assert row[f"{method}_before"] == before
        searched = rows.filter(pl.col("attack") != "noise")
        assert float(searched["distance"].max()) <= 1 + 1e-6
        assert rows.filter(pl.col("attack") == "noise")["own_head"].null_count() == 2
        _same_networks_other_targets(done, seed)
    table = done.summary["datasets"]["mnist"]["table"]
    cell = table["standard"]["NRF"]["mean"]["by_seed"]
    assert set(done.summary["datasets"]["mnist"]["spread"]["standard"]["NRF"]) == {"networks", "draws"}
    frames = [
        done.part("rates", dataset="mnist", seed=seed).filter(pl.col("attack") == "NRF")
        for seed in spec.seeds
    ]
    assert cell == pytest.approx([float(frame["standard"].mean()) for frame in frames])
    assert list(checked_figures(done, capfd)) == ["table2"]


def _same_networks_other_targets(done, seed):
    """Further draws and further radii change neither networks nor images; the larger ball is not left."""
    rates, again = (done.part(part, dataset="mnist", seed=seed) for part in ("rates", "redrawn"))
    wider = {eps: done.part("reach", dataset="mnist", seed=seed, eps=eps) for eps in (0.5, 1.0)}
    for other in (again, *wider.values()):
        for column in ("attack", "source", "attacked_seed", "standard_before", "adversarial_before"):
            assert other[column].to_list() == rates[column].to_list()
    where = {"dataset": "mnist", "seed": seed, "source": 1, "target": 0}
    for eps in wider:
        original, *moved = (
            done.tensor("reach", name, eps=eps, **where) for name in ("original", "NRF", "RF")
        )
        assert all(float((x - original).abs().max()) <= eps + 1e-6 for x in moved)


def test_sources_are_the_same_for_every_seed_and_targets_are_drawn(small_mnist):
    test = load("mnist", "test")
    x, aims = draw("mnist", 1, 0, 5, 0)
    assert torch.equal(x, test.batch((test.y == 1).nonzero()[:, 0]).x)
    pool = test.batch((test.y == 0).nonzero()[:, 0]).x
    draws = [draw("mnist", 1, 0, 5, seed)[1] for seed in range(6)]
    for image in torch.cat(draws):
        assert any(torch.equal(image, other) for other in pool)
    assert any(not torch.equal(aims, other) for other in draws)
    again = [draw("mnist", 1, 0, 5, 0, number) for number in range(6)]
    assert torch.equal(again[0][1], aims)
    assert all(torch.equal(images, x) for images, _ in again)
    assert any(not torch.equal(aims, other) for _, other in again)


def test_spreads_over_networks_and_over_draws_are_told_apart():
    """Two seeds at 0 and 1; draws of the first at 0 and .2, of the second at 1 and .6."""

    def row(seed, value, **more):
        place = {"seed": seed, "source": 1, "target": 0, "attack": "NRF"}
        return place | {"standard": value, "adversarial": 0.5} | more

    rows = [row(0, 0.0), row(1, 1.0)]
    again = [row(0, 0.2, draw=1), row(1, 0.6, draw=1)]
    rf = [{**one, "attack": "RF"} for one in rows], [{**one, "attack": "RF"} for one in again]
    found = spreads([*rows, *rf[0]], [*again, *rf[1]])
    assert found["standard"]["NRF"] == pytest.approx({"networks": 0.5**0.5, "draws": 0.3 * 0.5**0.5})
    assert found["adversarial"]["RF"] == {"networks": 0.0, "draws": 0.0}


def test_a_wider_ball_moves_the_reference_further(small_mnist):
    """Small radii, of which the search uses all, on a network that has features though it has learned
    nothing."""
    net = NetworkSpec(architecture="lenet5", width=2, channels=1, side=28).build(stream(0, "init")).eval()
    duel = Pair(0, 1, dict.fromkeys(("standard", "adversarial"), net), {"standard": net, "adversarial": net})
    reached = []
    for eps in (0.005, 0.02, 0.05):
        threat = Threat("Linf", eps, 3, bounds=(0.0, 1.0))
        rows, _ = attack_pair(duel, "mnist", (1, 0), threat, FeatureSearch(5, 40, net.layers[-1]))
        reached.append(next(row["distance"] for row in rows if row["attack"] == "NRF"))
        assert [row["own_head"] == row["standard"] for row in rows[:2]] == [True, True]
    assert 1 > reached[0] > reached[1] > reached[2]


def test_on_a_linear_encoder_the_search_reaches_the_clipped_difference():
    x, aims = (torch.rand(6, 1, 4, 4, generator=stream(0, name)) for name in ("x", "aims"))
    eps = 0.2
    delta = FeaturePGD(nn.Flatten(), aims, 60)(
        None, x, torch.zeros(6, dtype=torch.int64), Threat("Linf", eps, 3), stream(0, "a")
    )
    best = (aims - x).clamp(-eps, eps)
    reached, least = ((x + d - aims).flatten(1).norm(dim=1) for d in (delta, best))
    assert bool((reached >= least - 1e-6).all())
    assert bool((reached <= 1.01 * least).all())


def reading(claim, name):
    return next(r for r in claims()[claim].readings if r.name == name)


def table(std, adv, clean=(0.98, 0.97), robust=0.9, seeds=(0, 1, 2)):
    """Rates on standard and adversarially trained networks: NRF and RF for each seed."""
    rates = [
        {
            "dataset": "mnist",
            "seed": s,
            "attack": a,
            "source": 3,
            "target": 5,
            "own_head": 0.9,
            "distance": 0.1,
        }
        | {"standard": std[i][s], "adversarial": adv[i][s]}
        for s in seeds
        for i, a in enumerate(("NRF", "RF", "noise"))
    ]
    learned = [
        {"dataset": "mnist", "method": m, "seed": s, "clean_test": c, "robust_test": r}
        for m, c, r in (("standard", clean[0], 0.0), ("adversarial", clean[1], robust))
        for s in seeds
    ]
    return {"run": made("image-feature-attacks", {"rates": rates, "learned": learned}, seeds=list(seeds))}


NONE = [0.0, 0.0, 0.0]
PAPER = table(
    [[0.70, 0.71, 0.72], [0.06, 0.06, 0.062], NONE], [[0.06, 0.06, 0.065], [0.12, 0.125, 0.13], NONE]
)
EQUAL = table([[0.4, 0.5, 0.6], [0.4, 0.5, 0.6], NONE], [[0.3, 0.4, 0.5], [0.3, 0.4, 0.5], NONE])
TURNED = table([[0.1, 0.11, 0.1], [0.5, 0.5, 0.52], NONE], [[0.2, 0.2, 0.21], [0.04, 0.04, 0.03], NONE])
NOISY = table([[0.1, 0.9, 0.5], [0.5, 0.1, 0.3], NONE], [[0.1, 0.5, 0.0], [0.2, 0.1, 0.3], NONE])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("mnist-standard", ("HOLDS", "FAILS", "FAILS", "INCONCLUSIVE")),
        ("mnist-standard-much", ("HOLDS", "FAILS", "FAILS", "INCONCLUSIVE")),
        ("mnist-adversarial-low", ("HOLDS", "FAILS", "FAILS", "INCONCLUSIVE")),
        ("mnist-adversarial-small", ("FAILS", "FAILS", "FAILS", "INCONCLUSIVE")),
        ("mnist-adversarial-order", ("HOLDS", "FAILS", "FAILS", "INCONCLUSIVE")),
    ],
)
def test_the_table_is_judged_by_its_rows(name, wanted):
    judge = reading("AT-T2", name).judge
    assert tuple(judge(case).verdict.value for case in (PAPER, EQUAL, TURNED, NOISY)) == wanted


def test_small_rates_hold_and_unlearned_networks_are_out_of_scope():
    quiet = [[0.01, 0.01, 0.012], [0.02, 0.02, 0.021], NONE]
    assert reading("AT-T2", "mnist-adversarial-small").judge(table(quiet, quiet)).verdict == "HOLDS"
    for case in ({"clean": (0.3, 0.9)}, {"clean": (0.9, 0.3), "robust": 0.3}, {"robust": 0.2}):
        found = finding("AT-T2", "mnist-standard", table(quiet, quiet, **case))
        assert found.verdict == "OUT_OF_SCOPE"
        assert found.evidence["would_be"] == "FAILS"
    assert (threshold(10), threshold(2)) == pytest.approx((0.4, 2 / 3))


def figure(gaps, clean=0.9, fooled=0, seeds=3):
    """Curves of the 2-class network that fall from ``clean``, and of the 10-class network that much above at
    radii 1 and 2."""
    rows = []
    for s in range(seeds):
        for i, radius in enumerate((0.0, 1.0, 2.0)):
            base = clean * (1 - radius / 4)
            line = dict.fromkeys(CURVES, base + (gaps[s][i - 1] if i else 0.0)) | {
                "binary": base,
                "binary_last": base,
            }
            rows.append({"dataset": "mnist", "seed": s, "radius": radius, **line})
    looks = [("binary", 0.5, 0), ("binary", 1.0, 0), ("fine", 0.5, 0), ("fine", 1.0, fooled)]
    checks = [
        {"dataset": "mnist", "seed": 0, "radius": r, "net": n, "images": 100, "fooled": f}
        for n, r, f in looks
    ]
    return {"run": made("image-fine-labels", {"curve": rows, "check": checks}, seeds=list(range(seeds)))}


UP, DOWN = [[0.1, 0.11], [0.1, 0.1], [0.12, 0.1]], [[-0.1, -0.11], [-0.1, -0.1], [-0.12, -0.1]]
FLAT, MIXED, CROSSED = (
    [[0.0, 0.0]] * 3,
    [[0.1, -0.2], [-0.2, 0.1], [0.1, 0.0]],
    [[0.2, -0.05], [0.21, -0.05], [0.2, -0.06]],
)


@pytest.mark.parametrize("attack", ["own-loss", "readout", "worst", "last"])
def test_the_area_must_be_above_zero_for_every_interval(attack):
    judge = reading("FA-F3mc", f"mnist-{attack}").judge
    found = [judge(figure(gaps)).verdict.value for gaps in (UP, DOWN, FLAT, MIXED, CROSSED)]
    assert found == ["HOLDS", "FAILS", "FAILS", "INCONCLUSIVE", "HOLDS"]
    assert finding("FA-F3mc", f"mnist-{attack}", figure(UP, clean=0.6)).verdict == "OUT_OF_SCOPE"
    assert judge(figure(UP, seeds=1)).verdict == "INCONCLUSIVE"


@pytest.mark.parametrize("attack", ["own-loss", "readout", "worst"])
def test_one_radius_below_is_enough_to_fail_everywhere(attack):
    judge = reading("FA-F3mc", f"mnist-{attack}-everywhere").judge
    found = [judge(figure(gaps)).verdict.value for gaps in (UP, DOWN, FLAT, MIXED, CROSSED)]
    assert found == ["HOLDS", "FAILS", "HOLDS", "INCONCLUSIVE", "FAILS"]


@pytest.mark.parametrize(("fooled", "verdict"), [(0, "HOLDS"), (4, "INCONCLUSIVE"), (30, "FAILS")])
def test_stronger_attacks_may_find_little_more(fooled, verdict):
    found = reading("FA-F3mc", "mnist-searched").judge(figure(UP, fooled=fooled))
    assert found.verdict == verdict
    assert found.evidence["decided_by"] == ("fine at 1" if fooled else "binary at 0.5")


@pytest.mark.parametrize(
    ("plan", "changes", "message"),
    [
        (FINE, {"mnist.radii": [0.5, 1.0], "mnist.checked": [1.0]}, "radii must ascend from 0"),
        (FINE, {"mnist.checked": [0.3]}, "checked radii"),
        (FINE, {"coarse": "0,1|2,3|4"}, "must be two"),
        (FINE, {"coarse": "0,1|2,3"}, "cover the ten classes"),
        (FINE, {"mnist.network.grouping": "halves"}, "fine labels"),
        (FINE, {"datasets": ["svhn"]}, "datasets"),
        (FINE, {"datasets": []}, "datasets must not be empty"),
        (FINE, {"datasets": ["mnist", "mnist"]}, "each once"),
        (FINE, {"cifar10.network.seeds": [1]}, "seeds of the network"),
        (FEATURES, {"seeds": [0]}, "must not be the references"),
        (FEATURES, {"pairs": [[3, 3]]}, "two different classes"),
        (FEATURES, {"pairs": [[3, 10]]}, "two different classes"),
        (FEATURES, {"mnist.adversarial.method": "standard"}, "one training is standard"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_one_line(plan, changes, message):
    with pytest.raises(BadInput, match=message) as caught:
        resolve(plan, "quick", changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("plan", [FINE, FEATURES])
@pytest.mark.parametrize("profile", ["quick", "cpu", "paper"])
def test_profiles_resolve_and_cpu_shares_the_reference_networks(plan, profile):
    spec = resolve(plan, profile)
    if profile == "cpu":
        assert spec.mnist.network == resolve(experiment("image-network"), "cpu")
    assert all(
        math.isfinite(r) for r in (spec.mnist.radii if plan is FINE else (spec.mnist.adversarial.attack.eps,))
    )
