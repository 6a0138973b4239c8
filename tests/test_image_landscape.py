"""The loss around images: exact where it is known, monotone in the radius, and the experiments that watch it."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import image_files as files
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput
from featscope.core.store import Store
from featscope.core.streams import stream
from featscope.experiments.registry import experiment
from featscope.experiments.spec import resolve, run
from featscope.features.landscape import gradient_norms, landscape
from featscope.images import datasets
from featscope.images.catalogue import DATASETS, MNIST
from featscope.report.figures import figures
from image_task import task, trained

RADII = (0.0, 0.05, 0.1, 0.2)


class Linear(nn.Module):
    """Two logits ±⟨w, x⟩/2: the margin is ±⟨w, x⟩, and loss and gradient norm depend on it alone."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(2 * 5 * 5, generator=stream(0, "w"), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        half = x.flatten(1) @ self.w / 2
        return torch.stack([half, -half], -1)


@pytest.mark.parametrize("norm", ["Linf", "L2"])
def test_a_linear_model_has_the_known_landscape(norm):
    """L = softplus(−m), ‖∇L‖_* = sigmoid(−m)·‖w‖_*; within δ the margin falls to m − δ‖w‖_*."""
    net = Linear()
    threat = Threat(norm, 1.0, 3)
    x = torch.randn(20, 2, 5, 5, generator=stream(1, "x"), dtype=torch.float64)
    y = torch.randint(0, 2, (20,), generator=stream(1, "y"))
    found = landscape(net, x, y, threat, RADII, 10, stream(0, "a"), batch=7)
    w = net.w.detach()
    m = (x.flatten(1) @ w) * (1 - 2 * y)
    size = threat.ball.dual_norm(w)
    for i, radius in enumerate(RADII):
        worst = m - radius * size
        torch.testing.assert_close(found.change[i], functional.softplus(-worst) - functional.softplus(-m), rtol=1e-3, atol=1e-9)
        torch.testing.assert_close(found.gradient[i], torch.sigmoid(-worst) * size, rtol=1e-3, atol=1e-9)


def test_the_gradient_of_the_norm_matches_differences():
    net = Linear()
    threat = Threat("L2", 1.0, 3)
    x = torch.randn(3, 2, 5, 5, generator=stream(2, "x"), dtype=torch.float64)
    y = torch.zeros(3, dtype=torch.int64)
    _, uphill = gradient_norms(net, x, y, threat)
    step = torch.randn(x.shape, generator=stream(3, "x"), dtype=torch.float64) * 1e-6
    up, _ = gradient_norms(net, x + step, y, threat)
    down, _ = gradient_norms(net, x - step, y, threat)
    torch.testing.assert_close((uphill * step).flatten(1).sum(1), (up - down) / 2, rtol=1e-5, atol=1e-12)


def test_both_are_monotone_in_the_radius_and_the_mean_value_bound_holds():
    net = trained()
    x, y = task(60, 3)
    threat = Threat("Linf", 0.1, 3, bounds=(0.0, 1.0))
    found = landscape(net, x, y, threat, RADII, 8, stream(0, "a"))
    assert float(found.change[0].abs().max()) == 0
    for values in found:
        assert bool((values[1:] >= values[:-1]).all())
    at_points, _ = gradient_norms(net, x, y, threat)
    torch.testing.assert_close(found.gradient[0], at_points)
    assert bool((found.change.mean(1)[1:] > 0).all())
    # L(x+ξ) − L(x) ≤ δ·max‖∇L‖_*: both sides are searched, so only the mean over images is compared.
    for i, radius in enumerate(RADII[1:], start=1):
        assert float(found.change[i].mean()) <= radius * float(found.gradient[i].mean()) * 1.05
    with pytest.raises(BadInput):
        landscape(net, x, y, threat, (0.2, 0.1), 2, stream(0, "a"))


@pytest.fixture
def small_mnist(tmp_path, monkeypatch):
    """Images with a visible class: a bright row for each label."""
    described, arrays = files.small(MNIST)
    for split in ("train", "test"):
        pixels = (arrays[f"{split}-images"] // 8).astype("uint8")
        for i, label in enumerate(arrays[f"{split}-labels"]):
            pixels[i, 2 * int(label) + 4] = 250
        arrays[f"{split}-images"] = pixels
    monkeypatch.setenv("FEATSCOPE_DATA", str(tmp_path / "data"))
    datasets.install(described, arrays, tmp_path / "data", "test", checked=False)
    monkeypatch.setitem(DATASETS, "mnist", described)


TINY = {"training.epochs": 2, "training.batch_size": 8, "train": 50, "test": 12, "every": 1, "training.attack.steps": 2}


@pytest.mark.usefixtures("small_mnist")
def test_the_landscape_experiment_records_every_radius_and_epoch(tmp_path):
    plan = experiment("image-landscape")
    done = run(plan, resolve(plan, "quick", {**TINY, "measured": 6, "steps": 2}), Store(tmp_path / "runs"))
    rows = done.part("seed-0").sort("step")
    assert rows["step"].to_list() == [0, 1, 2]
    for column in ("change_train", "change_test", "gradient_train", "gradient_test"):
        for values in rows[column].to_list():
            assert len(values) == 9
            assert values == sorted(values)
    last = {seed: done.part(f"seed-{seed}").sort("step")["change_test"].to_list()[-1] for seed in (0, 1)}
    ratios = [values[6] / values[3] for values in last.values()]
    assert done.summary["outside_over_inside"]["change_test"]["mean"] == pytest.approx(sum(ratios) / 2)
    assert set(figures(done)) == {"landscape"}
    with pytest.raises(BadInput, match="double"):
        resolve(plan, "quick", {"radii": [0.1, 0.3]})


@pytest.mark.usefixtures("small_mnist")
def test_the_overfitting_experiment_compares_best_and_last(tmp_path):
    plan = experiment("image-overfitting")
    done = run(plan, resolve(plan, "quick", {**TINY, "attacked": 10, "seeds": [0]}), Store(tmp_path / "runs"))
    for which in ("best", "last"):
        values = {key: done.summary[f"{key}_{which}"]["mean"] for key in ("robust_train", "robust_test", "gap")}
        assert values["gap"] == pytest.approx(values["robust_train"] - values["robust_test"])
    assert done.summary["gap_last"]["interval"] is None
    rows = done.part("seed-0").sort("step")
    assert {"robust_train", "robust_test", "clean_test", "held_out"} <= set(rows.columns)
    assert rows["held_out"].to_list() == sorted(rows["held_out"].to_list())
    assert set(figures(done)) == {"overfitting"}


@pytest.mark.usefixtures("small_mnist")
def test_the_features_experiment_fills_the_four_cells(tmp_path):
    plan = experiment("image-features")
    tiny = {key: value for key, value in TINY.items() if key in {"train", "test"}}
    for method in ("standard", "adversarial"):
        tiny |= {f"{method}.epochs": 1, f"{method}.batch_size": 8, f"{method}.select_steps": 2}
    spec = resolve(plan, "quick", {**tiny, "inversion.steps": 3, "attacked": 6, "seeds": [0, 1], "net.width": 2})
    done = run(plan, spec, Store(tmp_path / "runs"))
    for method in ("standard", "adversarial"):
        for column in ("feature_NR", "feature_R"):
            last = [done.part(f"fresh-{method}-{seed}").sort("step")[column].to_list()[-1] for seed in (0, 1)]
            assert done.summary["table"][method][column]["mean"] == pytest.approx(sum(last) / 2)
    assert done.summary["inversion"]["start"] == "noise"
    assert all(len(flags) == 2 for flags in done.summary["ordering"].values())
    weights = [done.tensors[f"{role}-standard-0/weights"] for role in ("reference", "fresh")]
    assert not torch.equal(*weights)
    assert set(figures(done)) == {"features"}


@pytest.mark.parametrize("name", ["image-landscape", "image-overfitting", "image-separation", "image-features"])
def test_every_profile_is_a_valid_setting(name):
    for profile in ("quick", "cpu", "paper"):
        resolve(experiment(name), profile)
