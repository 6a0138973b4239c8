"""Image training: the objective is what the formula says, epochs resume exactly, and the best network is
chosen on held-out images."""

import copy
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from image_task import SPEC, task
from torch.nn import functional

from featscope.core.errors import BadInput
from featscope.core.store import Part
from featscope.core.streams import stream
from featscope.dynamics import trajectory as loop
from featscope.dynamics.augment import Augment
from featscope.dynamics.image_training import (
    AttackSpec,
    Trainer,
    TrainingSpec,
    accuracy,
    pack,
    robust_accuracy,
    split,
)
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.images.datasets import ImageBatch

ATTACK = AttackSpec(eps=0.1, steps=3)
FAST = TrainingSpec(epochs=3, batch_size=32, schedule=Schedule(peak=0.05), attack=ATTACK, select_steps=3)


def net(seed=0):
    return SPEC.build(stream(seed, "init"))


def trainer(spec=FAST, n=160, **options):
    return Trainer(net(), ImageBatch(*task(n)), spec, 0, **options)


def test_schedules_have_their_shapes():
    cyclical = Schedule(shape="cyclical", peak=2.0, rise=0.4)
    assert [cyclical(d) for d in (0.0, 0.2, 0.4, 0.7, 1.0)] == pytest.approx([0, 1, 2, 1, 0])
    cosine = Schedule(shape="cosine", peak=2.0)
    assert [cosine(d) for d in (0.0, 0.5, 1.0)] == pytest.approx([2, 1, 0])
    piecewise = Schedule(shape="piecewise", peak=1.0)
    assert [piecewise(d) for d in (0.0, 0.5, 0.8)] == pytest.approx([1, 0.1, 0.01])
    assert Schedule(shape="constant", peak=0.3)(0.7) == 0.3
    with pytest.raises(BadInput):
        Schedule(drops=(0.8, 0.2))
    assert [Ramp(epochs=2)(0.3, e) for e in (0, 1, 2, 5)] == pytest.approx([0, 0.15, 0.3, 0.3])
    assert Ramp()(0.3, 0) == 0.3


@given(st.integers(0, 3), st.integers(0, 100))
def test_augmentation_shifts_and_mirrors_whole_images(shift, seed):
    x = torch.rand(6, 2, 5, 5, generator=stream(seed, "x"))
    moved = Augment(shift=shift)(x, stream(seed, "a"))
    padded = functional.pad(x, (shift,) * 4)
    for before, after in zip(padded, moved, strict=True):
        windows = before.unfold(1, 5, 1).unfold(2, 5, 1).permute(1, 2, 0, 3, 4).flatten(0, 1)
        assert any(torch.equal(after, window) for window in windows)
    mirrored = Augment(mirror=True)(x, stream(seed, "a"))
    for before, after in zip(x, mirrored, strict=True):
        assert torch.equal(after, before) or torch.equal(after, before.flip(-1))
    assert Augment()(x, stream(seed, "a")) is x


def test_an_epoch_is_plain_descent_with_momentum():
    """Two epochs against torch's own optimiser written out by hand."""
    spec = FAST.replace(epochs=2, schedule=Schedule(shape="constant", peak=0.05), weight_decay=1e-3)
    made = trainer(spec)
    state = made.start()
    for t in range(2):
        state = made.step(state, t)
    other = net().train()
    memory = [torch.zeros_like(p) for p in other.parameters()]
    for t in range(2):
        order = torch.randperm(len(made.train.y), generator=stream(0, "order", t))
        for chosen in torch.split(order, 32):
            loss = functional.cross_entropy(other(made.train.x[chosen]), made.train.y[chosen])
            grads = torch.autograd.grad(loss, list(other.parameters()))
            with torch.no_grad():
                for p, g, m in zip(other.parameters(), grads, memory, strict=True):
                    m.mul_(0.9).add_(g + 1e-3 * p)
                    p.sub_(0.05 * m)
    torch.testing.assert_close(state.weights, pack(other.parameters()), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state.momentum, pack(iter(memory)), rtol=1e-3, atol=1e-4)


def test_the_objectives_reduce_to_one_another():
    x, y = task(24, 3)

    def value(**changes):
        return trainer(FAST.replace(**changes)).loss(net().eval(), x, y, 0.0, stream(0, "a")).detach()

    standard = value(method="standard")
    torch.testing.assert_close(value(method="mixed", lam=0.0), standard)
    torch.testing.assert_close(value(method="mixed", lam=1.0), value(method="adversarial"))
    torch.testing.assert_close(value(method="trades", beta=0.0), standard)
    zero = AttackSpec(eps=0.0)
    torch.testing.assert_close(value(method="adversarial", attack=zero), standard)
    assert value(method="adversarial") > standard
    assert value(method="trades", beta=5.0) > standard
    half = value(method="mixed", lam=0.5)
    torch.testing.assert_close(half, 0.5 * (standard + value(method="adversarial")))


@pytest.mark.parametrize("batchnorm", ["eval", "train"])
@pytest.mark.parametrize("norm", ["Linf", "L2"])
def test_training_perturbations_stay_in_the_threat_and_move_no_statistics(batchnorm, norm):
    attack = AttackSpec(norm=norm, eps=0.3, steps=1, step_size=0.375, batchnorm=batchnorm)
    made = net().train()
    before = copy.deepcopy(made.state_dict())
    x, y = task(16, 1)
    delta = attack.perturb(made, x, y, 0.0, stream(0, "a"))
    assert bool(attack.threat().contains(delta, x, slack=1e-5).all())
    assert made.training
    assert all(torch.equal(before[key], value) for key, value in made.state_dict().items())
    grown = functional.cross_entropy(made.eval()(x + delta), y) - functional.cross_entropy(made(x), y)
    assert float(grown.detach()) > 0 or batchnorm == "train"
    half = attack.replace(ramp=Ramp(epochs=2)).perturb(made, x, y, 1.0, stream(0, "a"))
    assert bool(attack.threat(0.15).contains(half, x, slack=1e-5).all())


def test_adversarial_training_buys_robustness():
    x, y = task(200, 9)
    data = ImageBatch(x, y)
    scores = {}
    for method in ("standard", "adversarial", "mixed", "trades"):
        spec = FAST.replace(method=method, epochs=6, beta=3.0)
        made = trainer(spec, n=320)
        last = made.last(made.run().state)
        scores[method] = robust_accuracy(last, data, ATTACK.threat(), 10, stream(0, "test"))
        assert accuracy(last, data) > 0.8
    assert min(scores[m] for m in ("adversarial", "mixed", "trades")) > scores["standard"] + 0.1


def test_a_resumed_training_gives_the_rows_of_an_uninterrupted_one(tmp_path, monkeypatch):
    spec = FAST.replace(method="adversarial", augment=Augment(shift=1, mirror=True))
    test = ImageBatch(*task(40, 7))
    whole = trainer(spec, test=test, robust_test=20).run(Part(tmp_path / "a", "whole"))
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    broken = trainer(spec, test=test, robust_test=20)
    step = broken.step

    def dies(state, t):
        if t == 2:
            raise KeyboardInterrupt
        return step(state, t)

    broken.step = dies
    with pytest.raises(KeyboardInterrupt):
        broken.run(Part(tmp_path / "b", "cut"))
    resumed = trainer(spec, test=test, robust_test=20).run(Part(tmp_path / "b", "cut"))
    assert resumed.rows == whole.rows
    assert all(torch.equal(a, b) for a, b in zip(resumed.state, whole.state, strict=True))
    assert set(whole.rows[-1]) >= {"loss", "clean_test", "robust_train", "robust_test", "held_out"}


SCRIPT = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
torch.set_num_threads(1)
from image_task import SPEC, task
from featscope.core.store import Part
from featscope.core.streams import stream
from featscope.dynamics import trajectory
from featscope.dynamics.image_training import Trainer, TrainingSpec
from featscope.images.datasets import ImageBatch
trajectory.CHECKPOINT_SECONDS = -1.0
spec = TrainingSpec(epochs=15, batch_size=16)
made = Trainer(SPEC.build(stream(0, "init")), ImageBatch(*task(400)), spec, 0)
rows = made.run(Part(Path(sys.argv[2]), "part")).rows
print(json.dumps(rows))
"""


def test_kill_9_during_training_is_resumed_to_the_same_rows(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parents[1] / "support")]
    child = subprocess.Popen([*command, str(tmp_path / "killed")], stdout=subprocess.DEVNULL, env=os.environ)
    pointer = tmp_path / "killed" / "part.json"
    while child.poll() is None and not (pointer.exists() and json.loads(pointer.read_text())["step"] >= 2):
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not json.loads(pointer.read_text())["done"]
    both = [
        subprocess.run([*command, str(tmp_path / name)], capture_output=True, check=True).stdout
        for name in ("killed", "fresh")
    ]
    assert json.loads(both[0]) == json.loads(both[1])


def test_best_is_chosen_on_held_out_images_and_last_is_the_last(monkeypatch):
    scores = iter([0.5, 0.9, 0.7])
    made = trainer(FAST, test=ImageBatch(*task(20, 5)))
    monkeypatch.setattr(made, "_score", lambda t: next(scores))
    states = [made.start()]
    for t in range(3):
        states.append(made.step(states[-1], t))
    assert torch.equal(states[3].best_weights, states[2].weights)
    assert torch.equal(pack(made.best(states[3]).parameters()), states[2].weights)
    assert torch.equal(pack(made.last(states[3]).parameters()), states[3].weights)
    with pytest.raises(BadInput):
        made.best(states[0])


def test_held_out_images_are_never_trained_on():
    kept, held = split(torch.zeros(50), 0.2, 3)
    assert len(held) == 10
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(50))
    made = trainer(FAST.replace(held_out=0.5), n=100)
    assert len(made.train.y) == len(made.held.y) == 50
    for bad in (lambda: trainer(FAST, n=20), lambda: split(torch.zeros(1), 0.5, 0)):
        with pytest.raises(BadInput):
            bad()


def test_mixed_precision_trains_too():
    made = trainer(FAST.replace(autocast=True, epochs=4), n=320)
    recording = made.run()
    assert recording.rows[-1]["loss"] < recording.rows[1]["loss"]
    assert recording.state.weights.dtype == torch.float32
