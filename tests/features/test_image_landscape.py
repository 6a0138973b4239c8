"""The loss around images: exact where it is known, monotone in the radius, and the experiments that watch
it."""

import pytest
import torch
from image_runs import finished
from image_task import task, trained
from pictures import checked_figures
from torch import Tensor, nn
from torch.nn import functional

from experiments.test_columns import compare_with_declared
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput
from featscope.core.store import Store
from featscope.core.streams import stream
from featscope.experiments.registry import experiment
from featscope.experiments.spec import resolve
from featscope.features import landscape as landscape_module
from featscope.features.landscape import ROUNDING, gradient_norms, landscape, largest_change, loss_and_norm
from featscope.papers.cgro import image_landscape

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
        torch.testing.assert_close(
            found.change[i], functional.softplus(-worst) - functional.softplus(-m), rtol=1e-3, atol=1e-9
        )
        torch.testing.assert_close(found.gradient[i], torch.sigmoid(-worst) * size, rtol=1e-3, atol=1e-9)
    torch.testing.assert_close(found.loss, functional.softplus(-m))
    torch.testing.assert_close(found.slope, torch.sigmoid(-m) * size)
    reach = torch.tensor(RADII, dtype=torch.float64)[:, None] * found.gradient + ROUNDING
    torch.testing.assert_close(found.mean_value(RADII), found.change / reach)
    # This loss is convex along every line: change ≥ δ·slope (Proposition E.2 with constant 1) and ≤
    # δ·gradient.
    steps = torch.tensor(RADII, dtype=torch.float64)[:, None]
    assert bool((found.change >= 0.999 * steps * found.slope).all())
    assert float(found.mean_value(RADII).max()) <= 1
    assert not bool(found.repaired.any())


class Cliff(nn.Module):
    """One pixel; the margin falls by 4 between .5 and .52 and by 2·slope a unit elsewhere, so the largest
    gradients are in a strip that a search hardly meets."""

    def __init__(self, slope: float = 0.0) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x: Tensor) -> Tensor:
        pixel = x.flatten(1)[:, 0]
        half = 1 - self.slope * pixel - 100 * (pixel - 0.5).clamp(0, 0.02)
        return torch.stack([half, -half], -1)


def test_a_gradient_that_the_search_misses_is_found_by_bisection():
    """Beyond the cliff the loss has changed though the gradient found is 0; the segment to there holds a
    point with ‖∇L‖ ≥ change/δ."""
    x, y, threat = torch.zeros(40, 1, 1, 1), torch.zeros(40, dtype=torch.int64), Threat("Linf", 1.0, 3)
    short = landscape(Cliff(), x, y, threat, (0.4,), 3, stream(5, "a"))
    assert float(short.change.max()) == float(short.gradient.max()) == 0
    assert not bool(short.repaired.any())
    found = landscape(Cliff(), x, y, threat, (0.9,), 3, stream(5, "a"))
    over = found.change[0] > 1
    assert int(over.sum()) >= 5
    assert bool((found.repaired[0] == over).all())
    assert float(found.mean_value((0.9,)).max()) <= 1
    # On the strip the gradient is 200·sigmoid(−margin): between 200·sigmoid(−2) and 200·sigmoid(2).
    low, high = (200 * float(torch.sigmoid(torch.tensor(m))) for m in (-2.0, 2.0))
    assert bool(((found.gradient[0][over] >= low - 1e-3) & (found.gradient[0][over] <= high + 1e-3)).all())


def test_a_gradient_that_is_a_little_too_small_is_found_too():
    """With a slope beside the cliff the search finds a gradient, a third of what the change asks for; still
    change ≤ δ·gradient at every image."""
    x, y, threat = torch.zeros(40, 1, 1, 1), torch.zeros(40, dtype=torch.int64), Threat("Linf", 1.0, 3)
    found = landscape(Cliff(0.5), x, y, threat, (0.9,), 3, stream(5, "a"))
    weak = found.repaired[0]
    assert int(weak.sum()) >= 5
    beside = 2 * 0.5 * float(torch.sigmoid(torch.tensor(2.9)))  # the largest gradient off the strip
    assert bool((found.change[0][weak] > 0.9 * beside).all())
    assert bool((found.change[0][weak] < 10 * 0.9 * beside).all())
    assert float(found.mean_value((0.9,)).max()) <= 1


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
    for values in (found.change, found.gradient):
        assert bool((values[1:] >= values[:-1]).all())
    at_points, _ = gradient_norms(net, x, y, threat)
    torch.testing.assert_close(found.gradient[0], at_points)
    torch.testing.assert_close(found.slope, at_points)
    torch.testing.assert_close(loss_and_norm(net, x, y, threat), (found.loss, found.slope))
    assert bool((found.change.mean(1)[1:] > 0).all())
    # L(x+ξ) − L(x) ≤ δ·max‖∇L‖_* for every single image, though both sides are searched.
    assert float(found.mean_value(RADII).max()) <= 1
    change, where = largest_change(net, x, y, threat, RADII, 8, stream(0, "a"))
    clean = functional.cross_entropy(net(x), y, reduction="none")
    for i, radius in enumerate(RADII):
        assert bool(threat.with_radius(radius).contains(where[i], x, slack=1e-5).all())
        torch.testing.assert_close(
            functional.cross_entropy(net(x + where[i]), y, reduction="none") - clean, change[i]
        )
    with pytest.raises(BadInput):
        landscape(net, x, y, threat, (0.2, 0.1), 2, stream(0, "a"))


TINY = {
    "training.epochs": 2,
    "training.batch_size": 8,
    "train": 50,
    "test": 12,
    "every": 1,
    "training.attack.steps": 2,
}


SMALL_LANDSCAPE = {**TINY, "measured": 6, "attacked": 10, "steps": 2, "training.select_steps": 2}


@pytest.mark.parametrize("name", ["image-landscape", "image-landscape-cifar10"])
@pytest.mark.usefixtures("small_mnist", "small_cifar")
def test_the_landscape_experiment_records_epochs_radii_and_risks(name, tmp_path, capfd):
    plan = experiment(name)
    spec = resolve(plan, "quick", {**SMALL_LANDSCAPE, "training.attack.ramp.epochs": 0})
    done = finished(plan, spec, Store(tmp_path / "runs"))
    compare_with_declared(done)
    rows = done.part("training", seed=0).sort("step")
    assert rows["step"].to_list() == [0, 1, 2]
    for part in ("train", "test"):
        for column in (f"change_{part}", f"gradient_{part}"):
            for values in rows[column].to_list():
                assert len(values) == 3
                assert values == sorted(values)
        assert (rows[f"robust_loss_{part}"] >= rows[f"loss_{part}"]).all()
        assert max(max(values) for values in rows[f"mean_value_{part}"].to_list()) <= 1
    last = [done.part("radii", seed=seed) for seed in (0, 1)]
    assert all(frame.height == 2 * len(spec.radii) for frame in last)
    eps = spec.training.attack.eps
    for what in ("change", "gradient"):
        pairs = [frame.filter(frame["set"] == "test").sort("radius") for frame in last]
        ratios = [_near(frame, 2 * eps)[what] / _near(frame, eps)[what] for frame in pairs]
        assert done.summary["outside_over_inside"][f"{what}_test"]["mean"] == pytest.approx(sum(ratios) / 2)
    single = done.tensor("radii", "change_test", seed=0).mean(1)
    assert single.tolist() == pytest.approx(last[0].filter(last[0]["set"] == "test")["change"].to_list())
    assert set(checked_figures(done, capfd)) == {"landscape", "flatness", "epochs"}
    # Two epochs at full radius are no correlation.
    assert done.summary["gap_and_flatness"] == {"pearson": [None, None], "spearman": [None, None]}
    for key in ("radii", "watched"):
        with pytest.raises(BadInput, match="double"):
            resolve(plan, "quick", {key: [eps, 3 * eps]})


def _near(frame, radius):
    return min(frame.to_dicts(), key=lambda row: abs(row["radius"] - radius))


@pytest.mark.usefixtures("small_mnist")
def test_a_landscape_run_that_breaks_off_after_training_is_resumed_to_the_same_rows(tmp_path, monkeypatch):
    plan = experiment("image-landscape")
    spec = resolve(plan, "quick", {**SMALL_LANDSCAPE, "seeds": [0]})
    whole = finished(plan, spec, Store(tmp_path / "whole"))
    with monkeypatch.context() as broken:
        broken.setattr(image_landscape, "_over_radii", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            finished(plan, spec, Store(tmp_path / "broken"))
    resumed = finished(plan, spec, Store(tmp_path / "broken"))
    assert resumed.rows.equals(whole.rows)
    assert all(torch.equal(value, whole.tensors[key]) for key, value in resumed.tensors.items())


@pytest.mark.usefixtures("small_mnist")
def test_the_overfitting_experiment_compares_best_and_last(tmp_path, capfd):
    plan = experiment("image-overfitting")
    spec = resolve(plan, "quick", {**TINY, "attacked": 10, "seeds": [0]})
    done = finished(plan, spec, Store(tmp_path / "runs"))
    compare_with_declared(done)
    for which in ("best", "last"):
        values = {
            key: done.summary[f"{key}_{which}"]["mean"] for key in ("robust_train", "robust_test", "gap")
        }
        assert values["gap"] == pytest.approx(values["robust_train"] - values["robust_test"])
        row = done.part("compared").to_dicts()[0]
        assert {key: row[f"{key}_{which}"] for key in values} == values
        assert row[f"clean_test_{which}"] >= row[f"robust_test_{which}"]
    assert done.summary["gap_last"]["interval"] is None
    rows = done.part("training", seed=0).sort("step")
    assert {"robust_train", "robust_test", "clean_test", "held_out"} <= set(rows.columns)
    assert rows["held_out"].to_list() == sorted(rows["held_out"].to_list())
    assert set(checked_figures(done, capfd)) == {"overfitting"}


@pytest.mark.parametrize("name", ["image-landscape", "image-overfitting", "image-separation"])
def test_every_profile_is_a_valid_setting(name):
    for profile in ("quick", "cpu", "paper"):
        resolve(experiment(name), profile)


def test_a_larger_radius_is_searched_from_what_the_last_one_found_grown_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[tuple[float, torch.Tensor | None]] = []

    class Recorded(PGD):
        def __call__(self, model, x, y, threat, rng, start=None):  # type: ignore[no-untyped-def]
            given.append((threat.eps, start))
            return torch.full_like(x, threat.eps)

    monkeypatch.setattr(landscape_module, "PGD", Recorded)
    x, y = torch.full((2, 1, 2, 2), 0.5), torch.tensor([0, 1])
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    largest_change(net, x, y, Threat("Linf", 0.1, 3), (0.0, 0.1, 0.3), 2, stream(0, "a"))
    (_, first), (eps, second) = given
    assert first is None
    assert eps == 0.3
    assert second is not None
    assert torch.allclose(second, torch.full_like(x, 0.3))
