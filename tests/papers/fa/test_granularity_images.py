"""Labels in groups on images and embeddings: radii, certificates and the averaging direction on data whose law
is known, and a small run of each experiment."""

from pathlib import Path

import pytest
import torch
from image_runs import finished
from pictures import checked_figures

from experiments.test_columns import compare_with_declared
from featscope.core.progress import Silent
from featscope.core.store import Store
from featscope.experiments.registry import experiment
from featscope.experiments.spec import resolve
from featscope.laws.clusters import ClusterLaw
from featscope.papers.fa import embedding_granularity as study
from featscope.papers.fa.embedding_heads import make_task

HEADS, NETWORKS = experiment("embedding-granularity"), experiment("image-granularity")


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict], list[dict]]:
    """Rows of heads on FA's own law, where averaging inside groups is known to decide the radius."""
    law = ClusterLaw(k=10, d=1000)
    train, test = (law.draw(n, 1, seed, compact=False).train for seed, n in ((0, 400), (1, 40)))
    task = make_task((train.x, train.cluster), (test.x, test.cluster), "raw", 10, 6144.0)
    spec = resolve(HEADS, "quick", {"each": 1, "points": 40, "steps": 300})
    with Store(tmp_path_factory.mktemp("runs")).write({"experiment": "x", "spec": {}}, Silent()) as folder:
        rows = study.run_seed(spec, task, 0, folder)
        found = folder.part("average", seed=0).read().rows
    return rows, found


def test_radii_on_clusters_follow_the_law(clusters: tuple[list[dict], list[dict]]) -> None:
    rows = clusters[0]
    assert [row["count"] for row in rows] == [2, 5, 6, 10]
    assert all(row["clean"] == row["clean_own"] == 1 for row in rows)
    assert all(0 <= row["certified"] <= row["radius"] for row in rows)
    for row in rows:
        assert row["radius"] / rows[0]["radius"] == pytest.approx(row["law"], rel=0.1)
    assert study.slope([r["law"] for r in rows], [r["radius"] for r in rows]) == pytest.approx(1, abs=0.1)


def test_the_averaging_direction_is_nearly_the_smallest_on_clusters(
    clusters: tuple[list[dict], list[dict]],
) -> None:
    rows = clusters[1]
    assert len(rows) == 40
    assert all(row["ratio"] >= 1 - 1e-9 for row in rows)
    assert all(row["along"] == pytest.approx(row["ratio"] * row["exact"]) for row in rows)
    assert float(torch.tensor([row["ratio"] for row in rows]).median()) < 1.1
    assert float(torch.tensor([row["cosine"] for row in rows]).median()) > 0.95


def test_networks_of_every_grouping_are_attacked(
    small_mnist: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    small = {
        "seeds": [0],
        "images": 12,
        "steps": 2,
        "radii": 4,
        "network.train": 50,
        "network.test": 12,
        "network.training.epochs": 1,
        "network.training.batch_size": 8,
        "network.net.width": 2,
    }
    spec = resolve(NETWORKS, "quick", small)
    done = finished(NETWORKS, spec, Store(tmp_path / "runs"))
    compare_with_declared(done)
    assert sorted(done.part("net")["count"]) == [2, 5, 10]
    points = done.part("points")
    assert points.height == 36
    assert set(points["radius"]) <= {3.0 * i / 4 for i in range(5)}
    for count in (2, 5, 10):
        clean = (done.part("points", count=count)["radius"] > 0).mean()
        assert done.part("net", count=count)["clean"][0] == pytest.approx(clean)
    assert list(checked_figures(done, capfd)) == ["granularity"]
