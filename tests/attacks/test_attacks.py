"""Attacks face a linear model, where the flip radius is known, and the evaluator is given nothing to
trust."""

import itertools

import pytest
import torch
from scipy import stats as sps
from torch import Tensor, nn

from featscope.attacks.evaluate import evaluate
from featscope.attacks.patch_model_free import model_free, write_robust
from featscope.attacks.patch_training_attack import Directions, PatchTrainingAttack, right_at_both
from featscope.attacks.pgd import ONE_STEP, PGD
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput
from featscope.core.losses import margin
from featscope.core.streams import stream
from featscope.laws.patches import PatchLaw
from featscope.nets.patch_cnn import PatchNet, PatchNetSpec


class Linear:
    """F = x Aᵀ for two classes; the margin's gradient is ±(a_0 − a_1)."""

    def __init__(self, d: int = 12) -> None:
        self.a = torch.randn(2, d, generator=stream(0, "linear"), dtype=torch.float64)

    def __call__(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.a.mT

    def radius(self, x: Tensor, y: Tensor, threat: Threat) -> Tensor:
        return margin(self(x), y) / threat.ball.dual_norm(self.a[0] - self.a[1])


def points(model: Linear, n: int = 60) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 3, 4, generator=stream(1, "points"), dtype=torch.float64)
    return x, model(x).argmax(-1)


@pytest.mark.parametrize("norm", ["Linf", "L2", "L3"])
@pytest.mark.parametrize("objective", ["margin", "cross-entropy"])
def test_pgd_reaches_the_exact_radius_of_a_linear_model_and_never_beats_it(norm: str, objective: str) -> None:
    model = Linear()
    x, y = points(model)
    radius = model.radius(x, y, Threat(norm, 1.0, 2))
    attack = PGD(objective, steps=20 if norm == "L3" else 40, restarts=1 if norm == "L3" else 2)
    for i in range(0, 60, 20 if norm == "L3" else 7):
        one, label = x[i : i + 1], y[i : i + 1]
        beyond = Threat(norm, 1.01 * float(radius[i]), 2)
        below = Threat(norm, 0.99 * float(radius[i]), 2)
        assert evaluate(model, one, label, beyond, [attack], stream(2, i)).accuracy == 0.0
        assert evaluate(model, one, label, below, [attack], stream(2, i)).accuracy == 1.0


def test_one_step_is_exact_on_a_linear_model() -> None:
    model = Linear()
    x, y = points(model)
    threat = Threat("Linf", 0.2, 2)
    found = evaluate(model, x, y, threat, [ONE_STEP], stream(0, "a"))
    assert torch.equal(found.robust, model.radius(x, y, threat) > 0.2)


def test_radius_zero_is_clean_accuracy_and_accuracy_falls_with_the_radius() -> None:
    w = torch.randn(3, 5, 6, generator=stream(0, "w"), dtype=torch.float64)
    net = PatchNet(w)
    x = torch.randn(40, 4, 6, generator=stream(0, "x"), dtype=torch.float64)
    y = torch.randint(0, 3, (40,), generator=stream(0, "y"))
    clean = float((margin(net(x), y) > 0).double().mean())
    suite = [PGD("margin", 10, every_target=True)]
    curve = [
        evaluate(net, x, y, Threat("Linf", e, 2), suite, stream(0, "a")).accuracy
        for e in (0.0, 0.02, 0.05, 0.1, 0.3, 1.0)
    ]
    assert curve[0] == clean
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(curve))
    assert curve[-1] < clean


def test_margin_loss_sees_through_a_saturated_cross_entropy() -> None:
    model = Linear()
    x, y = points(model)

    def saturated(z: Tensor) -> Tensor:
        return 1e6 * model(z)

    threat = Threat("Linf", 10.0, 2)
    blind = evaluate(
        saturated, x, y, threat, [PGD("cross-entropy", 20, random_start=False)], stream(0, "a")
    ).accuracy
    assert blind > 0.9
    assert (
        evaluate(saturated, x, y, threat, [PGD("margin", 20, random_start=False)], stream(0, "a")).accuracy
        == 0.0
    )


def test_the_evaluator_reprojects_a_cheating_attack() -> None:
    class Cheat:
        name = "cheat"

        def __call__(
            self, model: object, x: Tensor, y: Tensor, threat: Threat, rng: torch.Generator
        ) -> Tensor:
            return 100 * torch.ones_like(x) * torch.randn(x.shape, generator=rng)

    model = Linear()
    x, y = points(model)
    threat = Threat("L2", 1e-3, 2)
    found = evaluate(model, x, y, threat, [Cheat()], stream(0, "a"))
    assert threat.contains(found.delta, x).all()
    assert found.accuracy > 0.95


def test_a_module_is_left_as_it_was() -> None:
    module = nn.Sequential(
        nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2)
    ).double()
    module.train()
    before = {k: v.clone() for k, v in module.state_dict().items()}
    x = torch.randn(16, 3, 4, dtype=torch.float64, generator=stream(0, "x"))
    evaluate(
        module,
        x,
        torch.zeros(16, dtype=torch.long),
        Threat("Linf", 0.1, 2),
        [PGD("margin", 5)],
        stream(0, "a"),
    )
    assert module.training
    assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())
    assert all(p.grad is None for p in module.parameters())


def test_a_threat_keeps_to_its_support_and_bounds() -> None:
    support = torch.tensor([1.0, 0, 0, 1])
    x = torch.rand(20, 3, 4, generator=stream(0, "x"), dtype=torch.float64)
    for norm in ("Linf", "L2"):
        threat = Threat(norm, 0.4, 2, support=support, bounds=(0.0, 1.0))
        for delta in (
            threat.sample(x, stream(1, "s")),
            threat.project(torch.randn_like(x), x),
            threat.project(0 * x, x),
        ):
            assert threat.contains(delta, x).all()
            assert (delta[..., 1:3] == 0).all()
            assert float((x + delta).min()) >= 0
            assert float((x + delta).max()) <= 1
    g = torch.randn(20, 3, 4, generator=stream(0, "g"), dtype=torch.float64)
    threat = Threat("L2", 0.4, 2, support=support)
    assert torch.allclose((g * threat.steepest(g)).flatten(1).sum(-1), threat.dual_norm(g))


@pytest.mark.parametrize("bad", [{"eps": -1.0}, {"norm": "L1"}, {"event": 0}, {"bounds": (1.0, 0.0)}])
def test_bad_threats_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        Threat(**{"norm": "Linf", "eps": 0.1, "event": 2, **bad})


def test_clips_are_the_printed_formulas() -> None:
    w = torch.randn(2, 5, 30, generator=stream(0, "w"), dtype=torch.float64)
    x = torch.randn(6, 3, 30, generator=stream(0, "x"), dtype=torch.float64)
    y = torch.tensor([0, 1, 0, 1, 1, 0])
    net = PatchNet(w)
    z = -7.0 * net.own_gradient(x, y)
    delta = PatchTrainingAttack(clip="coordinate", step_size=7.0, eps=0.3).perturb(net, x, y)
    assert torch.allclose(delta, z / (z.abs() / 0.3).clamp(min=1))
    delta = PatchTrainingAttack(clip="patch", step_size=7.0, eps=0.3).perturb(net, x, y)
    assert torch.allclose(delta, z / (z.abs().amax(-1, keepdim=True) / 0.3).clamp(min=1))
    delta = PatchTrainingAttack(clip="patch", norm="L2", step_size=7.0, eps=0.3).perturb(net, x, y)
    assert torch.allclose(delta, z / (z.norm(dim=-1, keepdim=True) / 0.3).clamp(min=1))
    assert torch.equal(PatchTrainingAttack(eps=0.0).perturb(net, x, y), torch.zeros_like(x))


@pytest.mark.parametrize("objective", ["own-logit", "margin", "cross-entropy"])
def test_ascent_raises_its_objective(objective: str) -> None:
    from featscope.core.losses import loss

    w = torch.randn(3, 5, 8, generator=stream(0, "w"), dtype=torch.float64)
    x = torch.randn(30, 3, 8, generator=stream(0, "x"), dtype=torch.float64)
    y = torch.randint(0, 3, (30,), generator=stream(0, "y"))
    net = PatchNet(w)
    goal = loss(objective)
    moved = goal.value(
        net(x + PatchTrainingAttack(objective=objective, eps=1e-4, step_size=1e-4).perturb(net, x, y)), y
    )
    assert (moved >= goal.value(net(x), y) - 1e-12).all()


def test_coefficient_clip_is_one_sided_and_can_leave_the_ball() -> None:
    law = PatchLaw(k=2, d=30, patches=3, sigma_n=0)
    u, v = law.features()
    w0 = PatchNetSpec(width=5, sigma_0=0.5).init(2, 30, stream(0, "w"))
    directions = Directions(torch.cat([u, v]), w0)
    c = torch.randn(4, 3, 14, generator=stream(0, "c"), dtype=torch.float64)
    assert torch.allclose(directions.coefficients(directions.combine(c)), c, atol=1e-9)
    batch = law.population()
    ascent = PatchTrainingAttack(clip="coefficient", step_size=500.0, eps=0.1)
    found = directions.coefficients(ascent.perturb(PatchNet(w0), batch.x, batch.y, directions))
    assert float(found.min()) == pytest.approx(-0.1, abs=1e-9)
    assert float(found.max()) > 0.1
    with pytest.raises(BadInput, match="km"):
        Directions(torch.cat([u, v]), PatchNetSpec(width=20).init(2, 30, stream(0, "w")))


def test_being_right_at_the_attacked_point_alone_is_not_robustness() -> None:
    w = torch.zeros(2, 1, 2, dtype=torch.float64)
    w[0, 0, 0], w[1, 0, 1] = 1.0, 1.0
    net, x, y = PatchNet(w), torch.tensor([[[0.0, 1.0]]], dtype=torch.float64), torch.tensor([0])
    delta = torch.tensor([[[2.0, -1.0]]], dtype=torch.float64)
    assert bool(margin(net(x + delta), y) > 0)
    assert not bool(right_at_both(net, x, delta, y))


def test_model_free_perturbations_are_in_the_ball_and_swap_features() -> None:
    law = PatchLaw(k=3, d=10)
    batch = law.sample(30, stream(0, "data"))
    delta = model_free(law, batch, 1.2, stream(0, "a"))
    assert Threat("Linf", 1.2, 2).contains(delta, batch.x).all()
    assert (delta[batch.robust] == 0).all()
    _, v = law.features()
    own = torch.einsum("npd,nd->np", batch.x + delta, v[batch.y])
    noise = torch.einsum("npd,nd->np", batch.x, v[batch.y]) - torch.where(batch.robust, 0.0, 1.0)
    assert torch.allclose(own, noise, atol=1e-12)
    assert Threat("Linf", 1.2, 2).contains(write_robust(law, batch, 1.2, stream(0, "a")), batch.x).all()
    with pytest.raises(BadInput, match="eps"):
        model_free(law, batch, 0.5, stream(0, "a"))


def test_a_subspace_threat_moves_in_its_span_only_and_is_rotation_invariant() -> None:
    basis = torch.linalg.qr(torch.randn(8, 3, generator=stream(0, "b"), dtype=torch.float64)).Q.mT
    threat = Threat("L2", 0.7, 2, basis=basis)
    x = torch.randn(500, 4, 8, generator=stream(0, "x"), dtype=torch.float64)
    draw = threat.sample(x, stream(1, "s"))
    assert threat.contains(draw, x).all()
    assert torch.allclose(draw, (draw @ basis.mT) @ basis, atol=1e-12)
    # Uniform in the 12-dimensional ball of the subspace.
    radius = (draw.flatten(1).norm(dim=-1) / 0.7) ** 12
    assert sps.kstest(radius.numpy(), "uniform").pvalue > 1e-3
    axes = Threat("L2", 0.7, 2, support=torch.tensor([1.0, 1, 1, 0, 0, 0, 0, 0]))
    turn = torch.linalg.qr(
        torch.cat([basis.mT, torch.randn(8, 5, generator=stream(2, "q"), dtype=torch.float64)], 1)
    ).Q
    turn[:, :3] = basis.mT
    g = torch.randn(20, 4, 8, generator=stream(0, "g"), dtype=torch.float64)
    assert torch.allclose(threat.dual_norm(g), axes.dual_norm(g @ turn), atol=1e-10)
    with pytest.raises(BadInput, match="L2"):
        Threat("Linf", 0.7, 2, basis=basis)


def test_stopping_early_is_for_one_batch_alone() -> None:
    model, threat = Linear(), Threat("Linf", 0.1, event=2)
    x, y = points(model, 4)
    with pytest.raises(BadInput, match="stop_early works on one batch"):
        PGD(stop_early=True)(model, x[None], y[None], threat, stream(0, "attack"))
