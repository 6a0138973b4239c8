"""image-features and image-inversion: every cell is what its rows say, roles rotate, and the judges can say
yes and no."""

from itertools import product
from typing import Any

import pytest
import torch
from image_runs import finished
from image_task import task, trained
from judging import made
from pictures import checked_figures
from torch.nn.utils import parameters_to_vector

from experiments.test_columns import compare_with_declared
from featscope.claims.claim import Reading, Verdict
from featscope.claims.scope import settled
from featscope.core.errors import BadInput
from featscope.core.store import Store
from featscope.experiments.image_network import ImageNetwork
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run, find_runs
from featscope.experiments.spec import resolve
from featscope.features.invert import Inverted
from featscope.papers.at import claims_image_features as images
from featscope.papers.at.claims_image_features import CLAIMS, at_the_end, late
from featscope.papers.at.image_feature_columns import FEATURE
from featscope.papers.at.image_features import METHODS, SETS, differences, read_set
from featscope.papers.at.image_relations import RELATIONS, first_weights, readers, start_means

TINY: dict[str, Any] = {
    "network.train": 50,
    "network.test": 12,
    "network.attacked": 0,
    "network.net.width": 2,
    "network.training.epochs": 1,
    "network.training.batch_size": 8,
    "network.training.select_steps": 2,
    "adversarial.epochs": 2,
    "adversarial.batch_size": 8,
    "adversarial.select_steps": 2,
    "inversion.steps": 3,
    "images": 8,
    "seeds": [0, 1, 2, 3],
}
VARIANTS = ("image-features-widths", "image-features-cifar10", "image-features-svhn")


def test_other_inversions_attack_nothing_again():
    """Robust accuracy is counted in the run that all readings share; the others only invert."""
    assert images.IMAGE_FEATURES.overrides == {}
    for need in (*images.STARTS.values(), images.SMALL_STEPS):
        assert (need.overrides["attacked"], need.overrides["images"]) == (0, 50)


def test_each_network_makes_sets_once_and_reads_once_in_each_relation():
    seeds = (4, 7, 9, 5, 6, 8)
    found = readers(seeds, 2)
    assert list(found) == list(seeds)
    for relation in RELATIONS:
        assert sorted(of[relation] for of in found.values()) == sorted(seeds)
    assert found[4] == {"reader-is-reference": 4, "same-start": 5, "other-start": 7}
    assert found[9] == {"reader-is-reference": 9, "same-start": 8, "other-start": 4}
    assert found[8] == {"reader-is-reference": 8, "same-start": 9, "other-start": 5}
    alone = readers((4, 7, 9), 1)
    assert alone[9] == {"reader-is-reference": 9, "other-start": 4}


def test_who_shares_first_weights_is_what_the_relation_says():
    """The networks of the first seeds are the plain ones, which other experiments share."""
    seeds = (0, 1, 2, 3, 4, 5)
    weights = first_weights(seeds, 2)
    assert weights == {0: None, 1: None, 2: None, 3: 0, 4: 1, 5: 2}
    start = {seed: seed if first is None else first for seed, first in weights.items()}
    for seed, of in readers(seeds, 2).items():
        assert start[of["same-start"]] == start[seed] != start[of["other-start"]]
        assert of["same-start"] != seed
    assert start_means([1.0, 2.0, 3.0, 3.0, 6.0, 9.0], 2) == [2.0, 4.0, 6.0]
    assert start_means([1.0, 2.0], 1) == [1.0, 2.0]


def test_networks_of_a_start_begin_at_the_same_weights_and_end_elsewhere():
    spec = resolve(experiment("image-features"), "quick", {**TINY, "network.net.blocks": [1]})
    nets = spec.networks()
    first = {seed: parameters_to_vector(nets[seed]["standard"].untrained(seed).parameters()) for seed in nets}
    assert torch.equal(first[0], first[2])
    assert not torch.equal(first[0], first[1])
    assert nets[0]["standard"] == spec.network
    assert {net.training.method for net in nets[2].values()} == {"standard", "adversarial"}


def test_settings_of_the_reference_networks_are_those_of_the_shared_ones():
    """The hash of a network must be that of `image-network` itself, or it would be trained twice."""
    for name in ("image-features", "image-inversion"):
        assert resolve(experiment(name), "cpu").network == ImageNetwork()
    for name in ("image-features", "image-inversion", *VARIANTS):
        for profile in ("quick", "paper"):
            resolve(experiment(name), profile)


def test_variants_differ_from_each_other_where_their_names_say():
    widths = {
        width: resolve(experiment(VARIANTS[0]), "cpu", {"network.net.width": width}) for width in (8, 32)
    }
    wide = widths[8].network.replace(net=widths[8].network.net.replace(width=32))
    assert widths[32] == widths[8].replace(network=wide)
    cifar, svhn = (resolve(experiment(name), "cpu") for name in VARIANTS[1:])
    assert svhn.network == cifar.network.replace(dataset="svhn")
    assert (svhn.adversarial, svhn.inversion, svhn.images) == (
        cifar.adversarial,
        cifar.inversion,
        cifar.images,
    )
    assert cifar.adversarial.attack.eps == cifar.network.training.attack.eps == 8 / 255
    assert resolve(experiment(VARIANTS[0]), "paper", {"network.net.width": 16}).network.net.width == 16


def test_bad_settings_are_refused():
    features, inversion = experiment("image-features"), experiment("image-inversion")
    for plan, change, words in (
        (features, {"seeds": [0], "networks_per_start": 1}, "two seeds"),
        (features, {"seeds": [0, 1, 2]}, "multiple of 2"),
        (features, {"seeds": [0, 1]}, "two starts"),
        (features, {"network.first_weights": 3}, "no effect"),
        (features, {"network.seeds": [3]}, "no effect"),
        (features, {"adversarial.method": "standard"}, "not standard"),
        (inversion, {"layers": ["poled"]}, "pooled"),
        (inversion, {"starts": []}, "at least one"),
        (inversion, {"widths": [4, 4]}, "once"),
        (inversion, {"inversion.start": "black"}, "starts, layers"),
    ):
        with pytest.raises(BadInput, match=words):
            resolve(plan, "quick", change)


@pytest.mark.usefixtures("small_mnist")
def test_the_features_experiment_fills_the_table_from_shared_networks(tmp_path, capfd):
    plan, store = experiment("image-features"), Store(tmp_path / "runs")
    done = finished(plan, resolve(plan, "quick", {**TINY, "attacked": 6, "attack_steps": 2}), store)
    compare_with_declared(done)
    assert len([r for r in find_runs(store.root) if r.experiment == "image-network"]) == 8
    seeds = (0, 1, 2, 3)
    who = {"reader-is-reference": seeds, "same-start": (2, 3, 0, 1), "other-start": (1, 0, 3, 2)}
    for (relation, read_by), (method, epochs) in product(who.items(), zip(METHODS, (1, 2), strict=True)):
        where = {"relation": relation, "method": method}
        curves = [done.part("curve", **where, seed=seed).sort("step") for seed in seeds]
        assert tuple(c["reader"].to_list()[0] for c in curves) == read_by
        assert all(c["step"].to_list() == list(range(epochs + 1)) for c in curves)
        for name in SETS:
            last = [c[FEATURE[name]].to_list()[-1] for c in curves]
            cell = done.summary["table"][relation][method][f"feature_{name}"]
            assert cell["seeds"] == last
            assert cell["mean"] == pytest.approx(sum(last) / 4)
            assert [_read(done, seed, relation, method, name)["accuracy"] for seed in seeds] == last
    assert done.summary["inversion"]["start"] == "noise"
    for seed, name in product(seeds, SETS):
        images = done.tensor("invert", "x", set=name, seed=seed)
        assert 0 <= float(images.min()) <= float(images.max()) <= 1
        rows = done.part("invert", set=name, seed=seed).sort("step").to_dicts()
        own = _read(done, seed, "reader-is-reference", SETS[name], name)
        assert own["error_mean"] == pytest.approx(rows[-1]["error_mean"], rel=1e-5)
        assert own["start"] == "noise"
    tested = done.part("tested")
    assert tested.height == 8
    assert set(tested["published"]) == {done.summary["data_published"]}
    assert set(checked_figures(done, capfd)) == {"features", "table", "reconstructions"}
    for claim, reading in [(c, r) for c in CLAIMS for r in c.readings if not _of_other_data(r)]:
        finding = settled(claim, reading, {"run": done, "tested": done})
        assert finding.verdict is Verdict.OUT_OF_SCOPE
        assert any("clean_test" in text for text in finding.evidence["unmet"])


def _of_other_data(reading: Reading) -> bool:
    return reading.needs["run"].experiment in VARIANTS


def _read(done: Run, seed: int, relation: str, method: str, name: str) -> dict[str, Any]:
    rows = done.part("read", seed=seed, relation=relation, method=method).to_dicts()
    return next(row for row in rows if row["set"] == name)


@pytest.mark.usefixtures("small_mnist")
def test_nothing_is_attacked_where_that_is_not_asked(tmp_path, capfd):
    plan, store = experiment("image-features"), Store(tmp_path / "runs")
    alone = {"seeds": [0, 1], "networks_per_start": 1, "attacked": 0}
    done = finished(plan, resolve(plan, "quick", {**TINY, **alone}), store)
    assert set(done.summary["table"]) == {"reader-is-reference", "other-start"}
    assert set(done.summary["table"]["other-start"]["adversarial"]) == {
        "clean_test",
        "feature_NR",
        "feature_R",
    }
    assert "robust_test" not in done.part("tested", method="adversarial", seed=0).columns
    assert set(checked_figures(done, capfd)) == {"features", "table", "reconstructions"}


@pytest.mark.usefixtures("small_mnist")
def test_the_inversion_experiment_publishes_every_cell_and_goes_on_where_it_stopped(
    tmp_path, monkeypatch, capfd
):
    plan, store = experiment("image-inversion"), Store(tmp_path / "runs")
    spec = resolve(
        plan,
        "quick",
        {
            **TINY,
            "seeds": [0, 1],
            "widths": [2, 3],
            "starts": ["noise", "image"],
            "layers": ["pooled", "stem"],
        },
    )
    made = []
    real = experiment("image-inversion").run.__globals__["invert"]

    def counted(*args, **options):
        made.append(args)
        if len(made) == 7:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setitem(plan.run.__globals__, "invert", counted)
    with pytest.raises(KeyboardInterrupt):
        finished(plan, spec, store)
    done = finished(plan, spec, store)
    compare_with_declared(done)
    # 2 widths × 2 layers × 2 starts × 2 pairs × 2 sets, and the one that was cut
    assert len(made) == 32 + 1
    cells = done.summary["cells"]
    assert len({(c["width"], c["layer"], c["start"], c["set"]) for c in cells}) == len(cells) == 16
    for cell in cells:
        rows = done.part("cell", **{key: cell[key] for key in ("width", "layer", "start")}).to_dicts()
        for reader in ("own", "other", "fresh-standard", "fresh-adversarial"):
            mine = [r["accuracy"] for r in rows if r["set"] == cell["set"] and r["reader"] == reader]
            assert cell[reader]["mean"] == pytest.approx(sum(mine) / 2)
    assert set(checked_figures(done, capfd)) == {"cells", "starts"}


def test_halves_by_error_make_up_the_whole():
    net = trained()
    x, y = task(31, 9)
    wrong = y.clone()
    wrong[:10] = (wrong[:10] + 1) % 4
    error = torch.linspace(1, 0, 31)
    provenance = {"start": "noise", "layer": "pooled", "steps": 1, "step_size": 0.1}
    row = read_set(net, "R", Inverted(x, wrong, error, provenance))
    assert row["accuracy"] == pytest.approx((15 * row["accuracy_near"] + 16 * row["accuracy_far"]) / 31)
    assert row["accuracy_near"] == pytest.approx(1.0)
    assert row["accuracy_far"] < 0.5


def fake_run(
    cells: dict[str, dict[str, list[float]]],
    clean: float = 0.99,
    robust: float = 0.94,
    own: float = 0.98,
    error: float = 0.05,
) -> Run:
    """A run made of rows alone: curves that end at given accuracies, networks as good as the printed ones."""
    curve, tested, read = [], [], []
    for seed in range(6):
        for method, relation in product(METHODS, RELATIONS):
            ends = {key: cells[method][key][seed % 3] for key in FEATURE.values()}
            for step in range(5):
                place = {"relation": relation, "method": method, "seed": seed, "step": step}
                curve.append({**place, **{k: v if step > 2 else 0.1 for k, v in ends.items()}})
        for method in METHODS:
            withstands = 0.0 if method == "standard" else robust
            known = {"clean_test": clean, "robust_test": withstands, "published": True}
            tested.append({"method": method, "seed": seed, **known})
        for name, method in SETS.items():
            of_set = {"set": name, "method": method, "accuracy": own, "error_mean": error}
            read.append({"seed": seed, "relation": "reader-is-reference", **of_set})
    parts = {"curve": curve, "tested": tested, "read": read}
    return made("image-features", parts, seeds=[0, 1, 2, 3, 4, 5])


def _cells(
    std_nr: float, std_r: float, adv_nr: float, adv_r: float, spread: float = 0.01
) -> dict[str, dict[str, list[float]]]:
    def around(v: float) -> list[float]:
        return [v - spread, v, v + spread]

    return {
        "standard": {"feature_NR": around(std_nr), "feature_R": around(std_r)},
        "adversarial": {"feature_NR": around(adv_nr), "feature_R": around(adv_r)},
    }


def _verdicts(run: Run) -> dict[str, Verdict]:
    return {
        f"{c.id} {r.name}": settled(c, r, {"run": run, "tested": run}).verdict
        for c in CLAIMS
        for r in c.readings
        if r.needs["run"] == images.IMAGE_FEATURES
    }


def test_the_printed_table_holds_and_its_reverse_fails():
    printed = fake_run(_cells(0.8811, 0.4461, 0.3949, 0.6919))
    assert set(_verdicts(printed).values()) == {Verdict.HOLDS}
    reverse = fake_run(_cells(0.07, 0.34, 0.07, 0.3))
    assert set(_verdicts(reverse).values()) == {Verdict.FAILS}


def test_a_wide_spread_of_differences_is_inconclusive():
    cells = _cells(0.8811, 0.4461, 0.3949, 0.6919)
    cells["standard"]["feature_NR"] = [0.3, 0.6, 0.99]
    found = _verdicts(fake_run(cells))
    for relation in RELATIONS:
        assert found[f"AT-T1 standard-non-robust-{relation}"] is Verdict.INCONCLUSIVE
        assert found[f"AT-F4 standard-ordered-{relation}"] is Verdict.INCONCLUSIVE
        assert found[f"AT-T1 table-{relation}"] is Verdict.INCONCLUSIVE
        assert found[f"AT-T1 strengthened-{relation}"] is Verdict.HOLDS


@pytest.mark.parametrize("short", [{"clean": 0.85}, {"robust": 0.8}, {"own": 0.8}, {"error": 0.3}])
def test_networks_or_sets_that_fall_short_are_out_of_scope_with_the_number(short):
    run_ = fake_run(_cells(0.8811, 0.4461, 0.3949, 0.6919), **short)
    assert set(_verdicts(run_).values()) == {Verdict.OUT_OF_SCOPE}
    unmet = settled(CLAIMS[0], CLAIMS[0].readings[0], {"run": run_, "tested": run_}).unmet
    assert any(f"{next(iter(short.values())):.3f}" in text for text in unmet)


def test_curves_are_read_at_the_end_and_over_the_second_half():
    assert at_the_end([0, 1, 2], [0.1, 0.5, 0.7]) == 0.7
    assert late([0, 1, 2, 3, 4], [0, 0, 0, 0.5, 0.7]) == pytest.approx(0.6)
    assert late([0, 1], [0.2, 0.9]) == 0.9


def test_differences_are_positive_for_the_paper_s_statements():
    found = differences(_cells(0.9, 0.4, 0.3, 0.7, 0.0))
    assert [values[0] for values in found.values()] == pytest.approx([0.5, 0.6, 0.3])
