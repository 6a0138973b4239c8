"""FA's heads on embeddings: the same network as the theory's, heat maps, Figure 10, radii, the claims, and
resuming."""

import itertools
from typing import Any

import encoder_files
import image_files
import pytest
import torch
from image_runs import finished
from judging import finding, made
from pictures import checked_figures

from experiments.test_columns import compare_with_declared
from featscope.claims.claim import Verdict
from featscope.claims.scope import settled
from featscope.core.errors import BadInput
from featscope.core.progress import Silent
from featscope.core.store import Store
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import binary_direction, fine_direction
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run
from featscope.experiments.spec import resolve
from featscope.images import datasets
from featscope.images.catalogue import CIFAR10, DATASETS, EFFICIENTNET, ENCODERS
from featscope.images.weights import WeightFile
from featscope.laws.clusters import ClusterBatch, ClusterLaw
from featscope.nets.multiclass import MultiClass, logits, readout
from featscope.nets.two_layer import output_weights
from featscope.papers.fa import claims_embeddings as claims
from featscope.papers.fa import embedding_heads
from featscope.papers.fa import image_embeddings as study
from featscope.papers.fa.embedding_radii import RadiusSpec, attack_head

PLAN = experiment("image-embeddings")
SMALL = {
    "train": 40,
    "test": 12,
    "sample": 2,
    "heads.steps": 6,
    "heads.long_steps": 10,
    "heads.every": 3,
    "radius.points": 4,
    "radius.rounds": 2,
    "radius.restarts": 1,
}


def synthetic(kind="raw", n=300, d=400, offset=0.0, seed=0):
    """A task whose embeddings are drawn from FA's own law, moved along one direction by ``offset``."""
    law = ClusterLaw(k=10, d=d, sigma=0.5)
    train, test = (law.draw(m, 1, seed + s, compact=False).train for s, m in ((0, n), (1, 60)))
    away = offset * torch.ones(d, dtype=torch.float64)
    return embedding_heads.make_task(
        (train.x + away, train.cluster), (test.x + away, test.cluster), kind, 10, 6144.0
    )


def folder_of(tmp_path, spec):
    return Store(tmp_path).write({"experiment": "x", "spec": spec.model_dump(mode="json")}, Silent())


def test_two_outputs_with_cross_entropy_are_the_theory_s_network_with_logistic_loss():
    """ln(1 + e^{−y(f₁ − f₂)}) is the cross-entropy of (f₁, f₂): same descent direction, neuron by neuron."""
    task = synthetic()
    w = torch.randn(30, 400, generator=stream(0, "w"), dtype=torch.float64) * 1e-3
    _, logistic, _ = binary_direction(w, w.new_zeros(30), output_weights(15), task.train)
    batch = task.train._replace(cluster=embedding_heads.labels("binary", task.train))
    _, entropy = fine_direction(w, embedding_heads.network("binary", w, 10)[0].h, batch)
    torch.testing.assert_close(entropy, logistic, rtol=1e-10, atol=1e-14)


def test_the_encoder_s_scale_does_not_matter_and_centring_makes_half_means_opposite():
    task = synthetic()
    x, y = task.train.x, task.train.cluster
    again = embedding_heads.make_task((7 * x, y), (7 * task.test.x, task.test.cluster), "raw", 10, 6144.0)
    torch.testing.assert_close(again.test.x, task.test.x)
    assert float(again.train.x.square().sum(-1).mean()) == pytest.approx(6144.0)
    balanced = torch.cat([(y == c).nonzero()[:15, 0] for c in range(10)])
    moved = embedding_heads.make_task((x[balanced] + 3, y[balanced]), (x + 3, y), "centred", 10, 6144.0)
    mu = moved.features
    torch.testing.assert_close(mu[:5].mean(0), -mu[5:].mean(0), atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(
        embedding_heads.make_task((x[balanced], y[balanced]), (x, y), "centred", 10, 6144.0).test.x,
        moved.test.x,
    )


def test_equivalent_weights_are_means_of_three_and_features_are_class_means():
    task = synthetic()
    w = torch.randn(30, 400, generator=stream(1, "w"), dtype=torch.float64)
    table = embedding_heads.cosine_table(task, w)
    images = embedding_heads.image_table(task, w)
    for i, j in ((0, 0), (3, 7), (9, 2)):
        mine = task.train.x[task.train.cluster == i]
        weight = w[3 * j : 3 * j + 3].mean(0)
        assert float(table[i, j]) == pytest.approx(
            float(torch.cosine_similarity(mine.mean(0), weight, dim=0))
        )
        assert float(images[i, j]) == pytest.approx(
            float(torch.cosine_similarity(mine, weight[None], dim=1).mean())
        )


def test_blocks_tell_averaging_from_decoupling():
    signs = embedding_heads.half_signs(10, torch.float64)
    same = signs[:, None] * signs[None, :] > 0
    averaging = embedding_heads.blocks(torch.where(same, 0.45, -0.02), signs)
    assert averaging["contrast_half"] == pytest.approx(0.47)
    assert averaging["contrast_own"] == pytest.approx(0.0)
    assert averaging["same_min"] / averaging["same_other_max"] == pytest.approx(22.5)
    assert averaging["same_gap"] == pytest.approx(0.47)
    diagonal = embedding_heads.blocks(torch.eye(10, dtype=torch.float64) + 0.1, signs)
    assert diagonal["contrast_own"] == pytest.approx(1.0)
    assert diagonal["own_min"] / diagonal["own_other_max"] == pytest.approx(11.0)
    assert diagonal["same_gap"] == pytest.approx(0.0)


@pytest.mark.parametrize("offset", [0.0, 2.0])
def test_on_the_law_s_own_clusters_the_heads_average_and_decouple(tmp_path, offset):
    """FA-F2's ratio of 3 is met at offset 0; a common direction kills neurons, and the count of dead ones
    says so."""
    spec = resolve(PLAN, "cpu", {"heads.every": 100, "heads.long_steps": 100})
    task = synthetic(offset=offset)
    with folder_of(tmp_path, spec) as folder:
        found = {net: study.train_head(spec, task, net, "raw", 0, folder)["paper"] for net in study.NETS}
    shown = {
        net: embedding_heads.blocks(embedding_heads.cosine_table(task, w), task.signs)
        for net, w in found.items()
    }
    dead = {net: embedding_heads.dead(task, w)["dead_share"] for net, w in found.items()}
    if offset:
        assert min(dead.values()) > 0.2
        return
    assert max(dead.values()) == 0
    assert shown["binary"]["same_min"] / shown["binary"]["same_other_max"] > 3
    assert abs(shown["binary"]["contrast_own"]) < 0.02
    assert shown["fine"]["own_min"] / shown["fine"]["own_other_max"] > 3
    for net, w in found.items():
        assert embedding_heads.accuracies(net, w, task.test, 10) == {"half": 1.0, "own": 1.0}


def test_figure_10_is_all_pairs():
    task = synthetic(n=60, offset=0.3)
    numbers, matrix, means = study.correlation(task, 3)
    chosen = [i for c in range(10) for i in (task.train.cluster == c).nonzero()[:3, 0].tolist()]
    pairs: dict[tuple[int, int], list[float]] = {}
    for i, j in itertools.permutations(range(30), 2):
        value = float(torch.cosine_similarity(task.train.x[chosen[i]], task.train.x[chosen[j]], dim=0))
        assert float(matrix[i, j]) == pytest.approx(value)
        pairs.setdefault((i // 3, j // 3), []).append(value)
    average = {key: sum(values) / len(values) for key, values in pairs.items()}
    for (a, b), value in average.items():
        assert float(means[a, b]) == pytest.approx(value)
    same = [v for (a, b), values in pairs.items() if a == b for v in values]
    cross = [v for (a, b), values in pairs.items() if a != b for v in values]
    assert numbers["same"] == pytest.approx(sum(same) / len(same))
    assert numbers["cross"] == pytest.approx(sum(cross) / len(cross))
    margins = [min(average[a, a], average[b, b]) - average[a, b] for a, b in average if a != b]
    assert numbers["block_margin"] == pytest.approx(min(margins))
    assert numbers["blocks_below"] == sum(m < 0 for m in margins)


def test_radii_are_brackets_and_their_perturbations_flip_the_answer():
    task = synthetic()
    w = task.features.repeat_interleave(3, 0) * 1e-3
    heads = {net: embedding_heads.network(net, w, 10) for net in study.NETS}
    unit = float(task.test.x.square().sum(-1).mean().sqrt())
    for net, (head, signs) in heads.items():
        own = embedding_heads.labels(net, task.test)
        rows, kept = attack_head(RadiusSpec(points=20, steps=20), net, head, signs, own, task.test, 0)
        x, y = task.test.x[:20], task.test.y[:20]
        assert bool((y * readout(logits(head, x + kept["delta"]), signs) <= 0).all())
        sizes = torch.linalg.vector_norm(kept["delta"], dim=-1) / unit
        for row, size in zip(rows, sizes.tolist(), strict=True):
            assert 0 < row["certified"] <= row["attacked"] + 1e-9
            assert row["attacked"] == pytest.approx(min(row["readout"], row["own_loss"]))
            assert row["attacked"] == pytest.approx(size)


def test_the_radius_of_a_linear_head_is_its_distance():
    """Two neurons ±w, always one of them active: f = ⟨w, z⟩, whose boundary is |⟨w, z⟩|/‖w‖ away."""
    x = torch.randn(15, 6, generator=stream(0, "x"), dtype=torch.float64)
    w = torch.randn(6, generator=stream(0, "w"), dtype=torch.float64)
    y = torch.where(x @ w > 0, 1.0, -1.0).double()
    head, signs = MultiClass(torch.stack([w, -w]), 1), embedding_heads.half_signs(2, torch.float64)
    batch = ClusterBatch(x, y, (y < 0).long())
    rows, _ = attack_head(RadiusSpec(points=15), "binary", head, signs, batch.cluster, batch, 0)
    exact = (x @ w).abs() / w.norm() / x.square().sum(-1).mean().sqrt()
    for row, radius in zip(rows, exact.tolist(), strict=True):
        assert radius - 1e-9 <= row["attacked"] <= 1.01 * radius


@pytest.fixture
def data(tmp_path, monkeypatch):
    described, arrays = image_files.small(CIFAR10)
    for split in ("train", "test"):
        for pixels, label in zip(arrays[f"{split}-images"], arrays[f"{split}-labels"], strict=True):
            pixels[3 * int(label) : 3 * int(label) + 3] = 255
    weights = encoder_files.random_weights()
    datasets.install(described, arrays, tmp_path / "d", "test", checked=False)
    monkeypatch.setitem(DATASETS, "cifar10", described)
    monkeypatch.setitem(ENCODERS, EFFICIENTNET.name, encoder_files.described(weights))
    monkeypatch.setenv("FEATSCOPE_DATA", str(tmp_path / "d"))
    WeightFile(EFFICIENTNET).install(weights, tmp_path / "d", "test", False)


@pytest.mark.usefixtures("data")
def test_an_interrupted_run_gives_the_same_rows_and_the_figures_are_drawn(tmp_path, monkeypatch, capfd):
    spec = resolve(PLAN, "quick", {**SMALL, "seeds": [0, 1]})
    whole = finished(PLAN, spec, Store(tmp_path / "a"))
    compare_with_declared(whole)
    calls = itertools.count()
    plain = study.attack_head

    def failing(*args: Any) -> Any:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return plain(*args)

    monkeypatch.setattr(study, "attack_head", failing)
    with pytest.raises(KeyboardInterrupt):
        finished(PLAN, spec, Store(tmp_path / "b"))
    again = finished(PLAN, spec, Store(tmp_path / "b"))
    # 2 seeds × 2 kinds × 2 heads, and the one that was cut
    assert next(calls) == 9
    assert again.rows.equals(whole.rows)
    assert again.summary == whole.summary
    assert [name for name, t in whole.tensors.items() if not torch.equal(t, again.tensors[name])] == []
    assert set(checked_figures(whole, capfd)) == {"fig2cd", "fig2cd-long", "fig10", "along", "radii"}
    entries = {r.name: settled(c, r, {"run": whole}) for c in claims.CLAIMS for r in c.readings}
    assert {f.verdict for f in entries.values()} == {Verdict.OUT_OF_SCOPE}
    assert "side 32" in entries["higher"].evidence["unmet"][0]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"heads.neurons": 25}, "same number of neurons"),
        ({"sample": 30}, "comes from the training"),
        ({"dataset": "cifar"}, "cifar10"),
    ],
)
def test_bad_settings_are_one_line(wrong, text):
    with pytest.raises(BadInput, match=text):
        resolve(PLAN, "quick", wrong)


# -- claims
# -----------------------------------------------------------------------------------------------------------------------


#: heads that have learned and embeddings of which some readings hold
HEAD = {"same_min": 0.1, "same_other_max": 0.1, "own_min": 0.1, "own_other_max": 0.1, "same_gap": 0.0}
HEAD |= {
    "images_same_gap": 0.0,
    "dead_share": 0.0,
    "dead_weights": 0.0,
    "own": 0.1,
    "half": 0.1,
    "other": 0.1,
}
LEARNED = {"binary": {"test_own": 0.9, "test_half": 0.9}, "fine": {"test_own": 0.8, "test_half": 0.9}}
PAIRS = {
    "same": 0.5,
    "cross": 0.2,
    "same_low": 0.3,
    "cross_high": 0.4,
    "cross_size": 0.2,
    "block_margin": 0.1,
}
PAIRS |= {"blocks_below": 0.0, "feature_cosine_largest": 0.05}


def fake_run(encoder: str = "efficientnet-lite0", side: int = 224, **numbers: list[float]) -> Run:
    """A run of three seeds; ``numbers`` change columns, those of a head with its name before."""
    table, pairs = [], []
    for seed, kind in itertools.product(range(3), embedding_heads.EMBEDDING_KINDS):
        given = {key: values[seed] for key, values in numbers.items()}
        pairs.append({"kind": kind, "seed": seed, **PAIRS, **{k: v for k, v in given.items() if k in PAIRS}})
        for net, stage in itertools.product(study.NETS, study.STAGES):
            own = {k.removeprefix(f"{net}_"): v for k, v in given.items() if k.startswith(f"{net}_")}
            table.append(
                {"net": net, "kind": kind, "stage": stage, "seed": seed, **HEAD, **LEARNED[net], **own}
            )
    parts = {"table": table, "correlation": pairs}
    return made("image-embeddings", parts, encoder=encoder, side=side, seeds=[0, 1, 2])


def verdict(claim: str, name: str, **changes: Any) -> Verdict:
    return finding(claim, name, {"run": fake_run(**changes)}).verdict


def test_ratios_are_held_to_three_in_every_seed():
    for net, name, key in (
        ("binary", "2-class", "same"),
        ("fine", "10-class", "own"),
        ("fine", "10-class (centred, long)", "own"),
    ):
        least, most = f"{net}_{key}_min", f"{net}_{key}_other_max"
        assert verdict("FA-F2cd", name, **{least: [0.5, 0.4, 0.6], most: [0.1] * 3}) is Verdict.HOLDS
        assert verdict("FA-F2cd", name, **{least: [0.2, -0.1, 0.1], most: [0.1] * 3}) is Verdict.FAILS
        assert verdict("FA-F2cd", name, **{least: [0.2, 0.4, 0.5], most: [0.1] * 3}) is Verdict.INCONCLUSIVE


def test_uniformly_larger_is_a_gap_above_zero():
    assert verdict("FA-F2cd", "2-class larger", binary_same_gap=[0.1, 0.2, 0.05]) is Verdict.HOLDS
    assert verdict("FA-F2cd", "2-class larger", binary_same_gap=[-0.1, -0.2, -0.05]) is Verdict.FAILS
    assert (
        verdict("FA-F2cd", "2-class larger (long)", binary_same_gap=[-0.1, 0.2, 0.1]) is Verdict.INCONCLUSIVE
    )


def test_heads_that_have_not_learned_and_other_encoders_are_out_of_scope():
    good = {"fine_own_min": [0.9] * 3}
    assert verdict("FA-F2cd", "10-class", **good) is Verdict.HOLDS
    assert verdict("FA-F2cd", "10-class", **good, fine_test_own=[0.8, 0.54, 0.8]) is Verdict.OUT_OF_SCOPE
    assert (
        verdict("FA-F2cd", "2-class larger", binary_same_gap=[0.1] * 3, binary_test_own=[0.8, 0.74, 0.8])
        is Verdict.OUT_OF_SCOPE
    )
    assert verdict("FA-F2cd", "10-class", **good, side=64) is Verdict.OUT_OF_SCOPE
    assert verdict("FA-F2cd", "10-class (CLIP)", **good) is Verdict.OUT_OF_SCOPE
    assert verdict("FA-F2cd", "10-class (CLIP)", **good, encoder="clip-vit-b-32") is Verdict.HOLDS
    assert verdict("FA-F10", "higher (CLIP)") is Verdict.OUT_OF_SCOPE
    assert (
        verdict("FA-F10", "higher (CLIP)", encoder="clip-vit-b-32", same=[0.5, 0.51, 0.52]) is Verdict.HOLDS
    )


def test_correlations_are_judged_over_seeds():
    assert verdict("FA-F10", "higher", same=[0.5, 0.51, 0.52]) is Verdict.HOLDS
    assert verdict("FA-F10", "higher", same=[0.1, 0.11, 0.12]) is Verdict.FAILS
    assert verdict("FA-F10", "higher", same=[0.1, 0.5, 0.2]) is Verdict.INCONCLUSIVE
    assert verdict("FA-F10", "blocks") is Verdict.HOLDS
    assert verdict("FA-F10", "blocks", block_margin=[-0.1, -0.2, -0.1]) is Verdict.FAILS
    assert verdict("FA-F10", "orthogonal features") is Verdict.HOLDS
    assert verdict("FA-F10", "orthogonal features", feature_cosine_largest=[0.2] * 3) is Verdict.FAILS
    assert verdict("FA-F10", "orthogonal images", cross_size=[0.05, 0.2, 0.05]) is Verdict.INCONCLUSIVE
