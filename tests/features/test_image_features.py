"""Inversion reaches features, stays in the box, resumes exactly; feature accuracy counts what a network
reads."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from image_task import SPEC, task, trained

from featscope.core.errors import BadInput
from featscope.core.store import Part
from featscope.core.streams import stream
from featscope.dynamics import trajectory as loop
from featscope.features import invert as features
from featscope.features.accuracy import feature_accuracy
from featscope.features.invert import (
    InversionSpec,
    Inverted,
    _gradient,
    invert,
    network_hash,
    read,
    relative_error,
    save,
    starting_images,
)
from featscope.nets.classifier import Representation
from featscope.nets.fold import Folded, fold

SHORT = InversionSpec(steps=60, batch=7)


@pytest.mark.parametrize("start", ["noise", "grey", "black", "image"])
def test_inversion_nears_the_features_from_every_start(start):
    net = trained()
    x, y = task(16, 3)
    spec = SHORT.replace(start=start, steps=150)
    found = invert(net, x, y, spec)
    with torch.no_grad():
        target = net.represent(x)
        before = relative_error(net.represent(starting_images(spec, x, 0)), target)
        after = relative_error(net.represent(found.x), target)
    torch.testing.assert_close(after, found.error)
    assert float(found.error.mean()) < 0.1 * float(before.mean())
    assert 0 <= float(found.x.min()) <= float(found.x.max()) <= 1
    # The network that made the features reads the label in them as in the originals.
    assert torch.equal(net(found.x).argmax(-1), net(x).argmax(-1))


def test_the_gradient_matches_autograd_and_is_zero_at_the_target():
    net = trained()
    x, _ = task(5, 4)
    other, _ = task(5, 5)
    target = net.represent(other).detach()
    gradient, error = _gradient(Representation(net), x, target)
    leaf = x.clone().requires_grad_(True)
    value = relative_error(net.represent(leaf), target)
    torch.testing.assert_close(error, value.detach())
    torch.testing.assert_close(gradient, torch.autograd.grad(value.sum(), leaf)[0], rtol=1e-4, atol=1e-6)
    own, zero = _gradient(Representation(net), x, net.represent(x).detach())
    assert bool(own.isfinite().all())
    assert float(zero.max()) < 1e-5


def test_an_image_that_is_good_enough_stays():
    net = trained()
    x, y = task(6, 6)
    found = invert(net, x, y, SHORT.replace(tolerance=100.0))
    assert torch.equal(found.x, starting_images(SHORT, x, 0))


def test_the_rows_of_an_inversion_are_mean_and_maximum_of_its_errors_ten_times(monkeypatch):
    made = []

    def watched(*args, **options):
        made.append(loop.trajectory(*args, **options))
        return made[-1]

    monkeypatch.setattr(features, "trajectory", watched)
    found = invert(trained(), *task(7, 3), SHORT.replace(steps=20, batch=3))
    rows = made[0].rows
    assert [row["step"] for row in rows] == list(range(0, 21, 2))
    assert rows[-1]["error_mean"] == pytest.approx(float(found.error.mean()))
    assert rows[-1]["error_max"] == pytest.approx(float(found.error.max()))
    assert rows[-1]["error_max"] > rows[-1]["error_mean"] > 0


def test_an_inversion_does_not_depend_on_its_batches_and_resumes_exactly(tmp_path, monkeypatch):
    net = trained()
    x, y = task(9, 7)
    whole = invert(net, x, y, SHORT.replace(steps=20))
    split = invert(net, x, y, SHORT.replace(steps=20, batch=3))
    assert float((whole.error - split.error).abs().max()) < 0.05
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    calls = {"n": 0}
    real = features._gradient

    def dies(*args):
        calls["n"] += 1
        if calls["n"] == 20:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(features, "_gradient", dies)
    with pytest.raises(KeyboardInterrupt):
        invert(net, x, y, SHORT.replace(steps=20), keep=Part(tmp_path, "part"))
    monkeypatch.setattr(features, "_gradient", real)
    assert (tmp_path / "part.json").exists()
    resumed = invert(net, x, y, SHORT.replace(steps=20), keep=Part(tmp_path, "part"))
    assert torch.equal(resumed.x, whole.x)


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
torch.set_num_threads(1)
from image_task import SPEC, task
from featscope.core.store import Part
from featscope.core.streams import stream
from featscope.dynamics import trajectory
from featscope.features.invert import InversionSpec, invert, save
trajectory.CHECKPOINT_SECONDS = -1.0
folder = Path(sys.argv[2])
made = invert(SPEC.build(stream(0, "init")), *task(12, 7), InversionSpec(steps=60, batch=5), keep=Part(folder, "part"))
save(made, folder / "set.safetensors")
"""


def test_kill_9_during_an_inversion_is_resumed_to_the_same_images(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parents[1] / "support")]
    child = subprocess.Popen([*command, str(tmp_path / "killed")], env=os.environ)
    pointer = tmp_path / "killed" / "part.json"
    while child.poll() is None and not (pointer.exists() and json.loads(pointer.read_text())["step"] >= 5):
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not json.loads(pointer.read_text())["done"]
    assert not (tmp_path / "killed" / "set.safetensors").exists()
    for name in ("killed", "fresh"):
        subprocess.run([*command, str(tmp_path / name)], check=True)
    killed, fresh = (read(tmp_path / name / "set.safetensors") for name in ("killed", "fresh"))
    assert torch.equal(killed.x, fresh.x)
    assert torch.equal(killed.error, fresh.error)
    assert killed.provenance == fresh.provenance


@pytest.mark.parametrize("layer", ["pooled", "stage2", "stem"])
def test_the_search_runs_on_a_folded_copy_that_agrees_up_to_the_layer(layer):
    net = trained()
    x, _ = task(5, 4)
    represent = Representation(net, layer)
    copy = fold(represent, x[:2])
    assert copy.folded > 0
    with torch.no_grad():
        expected = net.represent(x, layer)
        torch.testing.assert_close(represent(x), expected)
        torch.testing.assert_close(copy.model(x), expected, rtol=1e-4, atol=1e-5)
        target = net.represent(task(5, 5)[0], layer)
    fast, slow = (_gradient(model, x, target)[0] for model in (copy.model, represent))
    assert float((fast - slow).abs().max()) < 1e-3 * float(slow.abs().max())
    with pytest.raises(BadInput, match="layer"):
        Representation(net, "poled")


def test_the_error_is_that_of_the_network_whatever_the_copy_does(monkeypatch):
    """A copy that is wrong is noticed where the search ends, and the search is repeated on the network."""
    net = trained()
    x, y = task(6, 3)
    bad = Representation(SPEC.build(stream(9, "init"))).eval()
    monkeypatch.setattr(features, "fold", lambda model, example: Folded(bad, 0, ""))
    found = invert(net, x, y, SHORT.replace(steps=20))
    with torch.no_grad():
        torch.testing.assert_close(found.error, relative_error(net.represent(found.x), net.represent(x)))
    monkeypatch.setattr(features, "fold", lambda model, example: Folded(model, 0, ""))
    assert torch.equal(found.x, invert(net, x, y, SHORT.replace(steps=20)).x)


def test_a_reconstructed_set_is_saved_with_where_it_came_from(tmp_path):
    net = trained()
    x, y = task(4, 8)
    made = invert(net, x, y, SHORT.replace(steps=3))
    save(made, tmp_path / "set.safetensors")
    again = read(tmp_path / "set.safetensors")
    assert torch.equal(again.x, made.x)
    assert torch.equal(again.y, y)
    assert torch.equal(again.error, made.error)
    assert again.provenance == made.provenance
    assert again.provenance["network"] == network_hash(net) != network_hash(SPEC.build(stream(5, "init")))
    assert again.provenance["start"] == "noise"
    (tmp_path / "bad").write_bytes(b"<html>")
    for name in ("bad", "absent"):
        with pytest.raises(BadInput, match="reconstructed"):
            read(tmp_path / name)


def test_feature_accuracy_is_the_share_of_labels_read_and_can_be_watched():
    net = trained()
    x, y = task(50, 9)
    wrong = y.clone()
    wrong[:20] = (wrong[:20] + 1) % 4
    predicted = net(x).argmax(-1)
    data = Inverted(x, wrong, torch.zeros(50), {})
    found = feature_accuracy(net.train(), data)
    assert net.training
    net.eval()
    assert found.value == float((predicted == wrong).double().mean())
    assert found.low < found.value < found.high
    with pytest.raises(BadInput, match="layer"):
        invert(net, x, y, SHORT.replace(layer="poled"))
    with pytest.raises(BadInput, match="two"):
        starting_images(SHORT.replace(start="image"), x[:1], 0)


@pytest.mark.parametrize(("steps", "seen"), [(5, range(6)), (19, range(20)), (25, [*range(0, 25, 2), 25])])
def test_the_way_is_recorded_ten_times_or_at_every_step_of_few(tmp_path, steps, seen):
    x = torch.rand(2, 1, 4, 4, generator=stream(0, "x"))
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3)).eval()
    part = Part(tmp_path, "inversion")
    invert(net, x, torch.zeros(2).long(), InversionSpec(layer="1", steps=steps), keep=part)
    assert [row["step"] for row in part.load().rows] == list(seen)


@pytest.mark.parametrize(("tolerance", "moves"), [(1.0, False), (0.999, True)])
def test_an_image_whose_error_is_the_tolerance_stays(tolerance, moves):
    """G is the identity, ½ against ¼: the relative error is 1."""
    x, target = torch.full((1, 1, 1, 1), 0.5), torch.full((1, 1), 0.25)
    spec, nothing = InversionSpec(tolerance=tolerance), torch.zeros(1, 1, 1, 1)
    moved, *_ = features._adam(torch.nn.Flatten(), spec, 0, x, nothing, nothing, target)
    assert (moved != x).item() == moves
