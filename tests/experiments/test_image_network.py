"""A network is trained once, found again by every experiment that names the same, and its epochs are those of
the training."""

import multiprocessing
import threading

import pytest
import torch
from image_runs import folder_with

from featscope.core.errors import BadInput, FeatscopeError
from featscope.core.progress import Silent
from featscope.core.store import Store
from featscope.core.streams import stream
from featscope.dynamics.image_training import Trainer, accuracy, pack
from featscope.experiments.image_network import Network, both, both_needed, networks_needed, trained
from featscope.experiments.image_training import data
from featscope.experiments.registry import experiment
from featscope.experiments.spec import resolve
from featscope.images.datasets import ImageBatch

TINY = {
    "train": 50,
    "test": 12,
    "attacked": 6,
    "net.width": 2,
    "training.epochs": 2,
    "training.batch_size": 8,
}


@pytest.fixture
def tiny(small_mnist):
    return resolve(experiment("image-network"), "quick", TINY)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


def network(spec, seed, store) -> Network:
    """The network as an experiment that needs it gets it."""
    return trained(spec, seed, folder_with(networks_needed([(spec, seed)]), store))


def test_the_second_who_asks_gets_the_same_network_without_training(tiny, store, monkeypatch):
    first = network(tiny, 3, store)
    assert first.run.path.parent == store.root / "image-network"
    monkeypatch.setattr(Trainer, "step", None)
    again = network(tiny.replace(seeds=(0, 1)), 3, store)
    assert again.run.path == first.run.path
    assert torch.equal(pack(again.last.parameters()), pack(first.last.parameters()))


def test_kept_epochs_are_those_of_the_training(tiny, store):
    net = network(tiny, 0, store)
    assert net.epochs == (0, 1, 2)
    start = tiny.net.build(stream(0, "init"))
    assert torch.equal(pack(net.at(0).parameters()), pack(start.parameters()))
    assert torch.equal(pack(net.at(2).buffers()), pack(net.last.buffers()))
    _, test = data(tiny, 0)
    for row in net.rows:
        assert accuracy(net.at(row["step"]), test) == row["clean_test"]
    assert not net.last.training
    assert max(row["held_out"] for row in net.rows) == net.rows[-1]["held_out"]


def test_epochs_that_were_not_kept_are_refused(tiny, store):
    net = network(tiny.replace(snapshots=5), 0, store)
    assert net.epochs == (0, 2)
    with pytest.raises(BadInput, match=r"kept: \[0, 2\]"):
        net.at(1)


def test_standard_and_adversarial_differ_in_training_only(tiny, store):
    other = tiny.training.replace(method="adversarial")
    nets = both(tiny, other, (0, 1), folder_with(both_needed(tiny, other, (0, 1)), store))
    for s, a in zip(nets["standard"], nets["adversarial"], strict=True):
        assert s.spec.replace(training=a.spec.training) == a.spec
        assert torch.equal(pack(s.at(0).parameters()), pack(a.at(0).parameters()))
        assert not torch.equal(pack(s.last.parameters()), pack(a.last.parameters()))


def test_labels_follow_the_grouping_and_the_outputs_must_fit(tiny):
    spec = tiny.replace(grouping="halves", net=tiny.net.replace(classes=2))
    fine, coarse = data(tiny, 0)[0], data(spec, 0)[0]
    assert torch.equal(fine.x, coarse.x)
    assert torch.equal(coarse.y, (fine.y >= 5).long())
    kept = data(tiny.replace(grouping="0,1|7", net=tiny.net.replace(classes=2)), 0)[0]
    assert len(kept.y) == int(((fine.y <= 1) | (fine.y == 7)).sum())
    with pytest.raises(BadInput, match=r"set net\.classes=2"):
        data(tiny.replace(grouping="halves"), 0)


SOME = {"experiment": "x", "spec": {}}


def _hold(root, ready, go):
    with Store(root).write(SOME, Silent()) as folder:
        ready.set()
        go.wait(30)
        folder.finish({"made": 1}, {})


def test_a_run_that_another_process_makes_is_waited_for(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, go = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path, ready, go))
    other.start()
    assert ready.wait(60)
    store = Store(tmp_path)
    with pytest.raises(FeatscopeError, match="another process"), store.write(SOME, Silent(), wait=False):
        pass
    found = []

    def wait():
        with store.write(SOME, Silent(), wait=True):
            found.append(store.find(SOME))

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not found
    go.set()
    waiting.join(60)
    other.join(60)
    assert found[0].summary == {"made": 1}


@pytest.mark.parametrize("n", [1, 3, 7, 60])
def test_some_images_are_spread_over_the_whole_set(n):
    """The rank of the i-th of n images is within one place of (i + ½)·N/n, and a larger n than there are
    images gives all."""
    whole = ImageBatch(torch.arange(50).view(50, 1, 1, 1).float(), torch.arange(50))
    found = Trainer.some(whole, n).y
    assert len(found) == min(n, 50)
    assert bool((found.diff() > 0).all())
    assert bool(((found - (torch.arange(len(found)) + 0.5) * 50 / len(found)).abs() <= 1).all())
    assert torch.equal(Trainer.some(whole, n).x[:, 0, 0, 0].long(), found)


@pytest.mark.parametrize(
    ("name", "key"), [("image-features", "inversion.layer"), ("image-feature-attacks", "layer")]
)
def test_a_layer_that_the_network_lacks_is_refused_before_anything_is_trained(name, key):
    with pytest.raises(BadInput, match="stage4"):
        resolve(experiment(name), "cpu", {key: "stage44"})
