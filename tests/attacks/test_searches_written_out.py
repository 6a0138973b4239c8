"""Searches computed once more in plain loops: the nearest boundary, tangent planes, squares, worst margins."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from featscope.attacks import patch_axis_margin, readout_nearest
from featscope.attacks.gta import linear_target, transferred
from featscope.attacks.minimal import binary_objective, own_loss_objective, readout_objective
from featscope.attacks.nearest import FIRST_CHANGE, LAST_CHANGE, NearestAttack, _shortened, _whole, _within
from featscope.attacks.nearest import NearestFound as Nearest
from featscope.attacks.patch_model_free import model_free, write_robust
from featscope.attacks.pgd import PGD
from featscope.attacks.square import Square
from featscope.attacks.threat import Threat
from featscope.core.streams import stream
from featscope.laws.patches import PatchLaw
from featscope.laws.signal import SignalLaw
from featscope.nets.activations import smoothed_relu
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import TwoLayer

F64 = torch.float64


def curved() -> nn.Sequential:
    net = nn.Sequential(nn.Linear(3, 8), nn.Softplus(), nn.Linear(8, 3)).double()
    with torch.no_grad():
        for place, p in enumerate(net.parameters()):
            p.copy_(torch.randn(p.shape, generator=stream(place, "net"), dtype=F64))
    return net


def plain_way(net: nn.Module, x: Tensor, y: int, aim: int, steps: int, p: float) -> list[Tensor]:
    """The points δ of one way to the class ``aim``, by autograd and one example."""

    def outputs(delta: Tensor) -> Tensor:
        return net((x + delta)[None])[0]

    def size(delta: Tensor) -> float:
        return float(delta.norm(p=p))

    dual = 1.0 if math.isinf(p) else 2.0
    delta, radius, best, seen = torch.zeros_like(x), 0.0, math.inf, []
    for t in range(steps + 1):
        seen.append(delta)
        out = outputs(delta).detach()
        fooled = bool(out[y] <= max(float(out[j]) for j in range(3) if j != y))
        if fooled and size(delta) < best:
            best = size(delta)
        if t == steps:
            break
        leaf = delta.clone().requires_grad_(True)
        at = outputs(leaf)
        (gradient,) = torch.autograd.grad(at[aim] - at[y], leaf)
        ahead = size(delta) + float(out[y] - out[aim]) / float(gradient.norm(p=dual))
        wave = (1 + math.cos(math.pi * t / steps)) / 2
        change = LAST_CHANGE + (FIRST_CHANGE - LAST_CHANGE) * wave
        if fooled:
            radius = min(radius, best) * (1 - change)
        elif math.isfinite(best):
            radius = min(radius * (1 + change), best)
        else:
            radius = max(ahead, 0.0) * (1 + change)
        unit = gradient.sign() if math.isinf(p) else gradient / gradient.norm()
        moved = delta + radius * (0.05 + 0.95 * wave) * unit
        if math.isinf(p):
            delta = moved.clamp(-radius, radius)
        else:
            delta = moved * min(1.0, radius / float(moved.norm()))
    return seen


@pytest.mark.parametrize(("norm", "p"), [("L2", 2.0), ("Linf", math.inf)])
def test_the_nearest_attack_is_its_loop_written_out(norm: str, p: float) -> None:
    net, steps = curved(), 9
    x = 0.4 * torch.randn(10, 3, generator=stream(1, "x"), dtype=F64)
    y = net(x).argmax(-1)
    looked: list[Tensor] = []

    def watched(points: Tensor) -> Tensor:
        looked.append(points.detach().clone())
        return net(points)

    threat = Threat(norm, 1.0, 1)
    attack = NearestAttack(steps=steps, targets=1)
    with torch.no_grad():
        for aim in range(3):
            some = (y != aim).nonzero()[:, 0]
            looked.clear()
            found = attack._towards(watched, x[some], y[some], torch.full_like(y[some], aim), threat)
            for row, i in enumerate(some.tolist()):
                with torch.enable_grad():
                    wanted = plain_way(net, x[i], int(y[i]), aim, steps, p)
                for t, delta in enumerate(wanted):
                    torch.testing.assert_close(looked[t][row] - x[i], delta, rtol=1e-7, atol=1e-9)
                fooling = [d for d in wanted if int(net((x[i] + d)[None]).argmax()) != int(y[i])]
                shortest = min((float(d.norm(p=p)) for d in fooling), default=math.inf)
                # Shortened along its own segment: never longer, and at a point that is wrong.
                assert float(found.radius[row]) <= shortest * (1 + 1e-12)
                if fooling:
                    assert int(net((x[i] + found.delta[row])[None]).argmax()) != int(y[i])


def test_the_room_that_bounds_leave_is_their_width_and_its_diagonal_in_l2() -> None:
    x = torch.zeros(2, 3, 4)
    assert _whole(Threat("Linf", 1.0, 2, bounds=(-0.5, 2.0)), x) == 2.5
    assert _whole(Threat("L2", 1.0, 2, bounds=(-0.5, 2.0)), x) == pytest.approx(2.5 * math.sqrt(12))
    assert _whole(Threat("L2", 1.0, 2), x) == math.inf


def test_each_examples_ball_is_its_own_for_points_with_several_axes() -> None:
    delta = torch.full((2, 2, 2), 3.0, dtype=F64)
    radius = torch.tensor([1.0, 100.0], dtype=F64)
    inside = _within(Threat("L2", 7.0, 2), radius, delta, torch.zeros_like(delta))
    torch.testing.assert_close(inside[0], torch.full((2, 2), 0.5, dtype=F64))
    torch.testing.assert_close(inside[1], delta[1])


def test_halvings_end_within_their_power_of_two_on_the_wrong_side() -> None:
    def net(x: Tensor) -> Tensor:
        f = x[:, 0] - 0.3
        return torch.stack([-f, f], -1)

    found = Nearest(torch.ones(1, dtype=F64), torch.ones(1, 1, dtype=F64))
    for halvings in (1, 2, 3, 12):
        cut = _shortened(
            net, torch.zeros(1, 1, dtype=F64), torch.tensor([0]), Threat("L2", 1.0, 1), found, halvings
        )
        # the least multiple of 2^−halvings that is not below .3
        assert cut.radius.item() == pytest.approx(math.ceil(0.3 * 2**halvings) / 2**halvings)
    default = _shortened(net, torch.zeros(1, 1, dtype=F64), torch.tensor([0]), Threat("L2", 1.0, 1), found)
    assert default.radius.item() == pytest.approx(math.ceil(0.3 * 2**12) / 2**12)


def multiclass_case() -> tuple[MultiClass, Tensor, Tensor, Tensor, Tensor]:
    w = torch.randn(8, 5, generator=stream(0, "w"), dtype=F64)
    net = MultiClass(w, 2)
    signs = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=F64)
    x = torch.randn(3, 6, 5, generator=stream(0, "x"), dtype=F64)
    cluster = torch.tensor([0, 1, 2, 3, 0, 2])
    return net, signs, x, signs[cluster], cluster


def test_objectives_descend_their_scores_by_autograd() -> None:
    net, signs, x, y, cluster = multiclass_case()

    def outputs(points: Tensor) -> Tensor:
        return (points @ net.w.mT).clamp(min=0).reshape(*points.shape[:-1], 4, 2).mean(-1)

    def readout(points: Tensor) -> Tensor:
        out = outputs(points)
        return y * (out[..., :2].exp().sum(-1).log() - out[..., 2:].exp().sum(-1).log())

    leaf = x.clone().requires_grad_(True)
    score, direction = readout_objective(net, signs, y)(x)
    torch.testing.assert_close(score, readout(x))
    torch.testing.assert_close(direction, -torch.autograd.grad(readout(leaf).sum(), leaf)[0])
    score, direction = own_loss_objective(net, signs, y, cluster)(x)
    torch.testing.assert_close(score, readout(x))
    own = nn.functional.cross_entropy(outputs(leaf).flatten(0, 1), cluster.repeat(3), reduction="sum")
    torch.testing.assert_close(direction, torch.autograd.grad(own, leaf)[0])


def test_the_two_class_objective_is_the_margin_with_a_tie_on_the_negative_side() -> None:
    net = TwoLayer(torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=F64), torch.zeros(2, dtype=F64),
                   torch.tensor([1.0, -1.0], dtype=F64))  # fmt: skip
    x = torch.tensor([[[2.0, 1.0], [2.0, 1.0], [1.0, 1.0], [1.0, 1.0]]], dtype=F64)
    y = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=F64)
    score, direction = binary_objective(net, y)(x)
    assert score[0, :2].tolist() == [1.0, -1.0]
    assert score[0, 2] == 0
    assert 0 < float(score[0, 3]) < 1e-300
    torch.testing.assert_close(direction[0, 0], torch.tensor([-1.0, 1.0], dtype=F64))
    torch.testing.assert_close(direction[0, 1], torch.tensor([1.0, -1.0], dtype=F64))


def test_a_tangent_planes_nearest_point_by_hand_and_the_ray_is_cut_below_its_stretch() -> None:
    """g = x₁ − 2 with −∇g = (−1, 0): from anywhere the plane's nearest point to 0 is (2, 0)."""

    def objective(points: Tensor) -> tuple[Tensor, Tensor]:
        gap = 2 - points[..., 0]
        return gap, torch.tensor([1.0, 0.0], dtype=F64).expand_as(points)

    x = torch.zeros(1, 2, dtype=F64)
    start = torch.tensor([[0.3, 5.0]], dtype=F64)
    end = readout_nearest._planes(objective, x, start)
    torch.testing.assert_close(end, torch.tensor([[2.0, 0.0]], dtype=F64))
    # What ends below the boundary is stretched by half of it at most.
    near = readout_nearest._shortened(objective, x, torch.tensor([[1.6, 0.0]], dtype=F64))
    assert near[0, 0].item() == pytest.approx(2.0, abs=1e-9)
    far = readout_nearest._shortened(objective, x, torch.tensor([[1.2, 0.0]], dtype=F64))
    assert far[0, 0].item() == pytest.approx(1.8)
    beyond = readout_nearest._shortened(objective, x, torch.tensor([[8.0, 0.0]], dtype=F64))
    assert beyond[0, 0].item() == pytest.approx(2.0, abs=1e-9)


@pytest.mark.parametrize("raise_others", [True, False])
def test_worst_margins_along_axes_by_plain_loops(raise_others: bool) -> None:
    along = torch.randn(5, 4, 3, generator=stream(0, "a"), dtype=F64)
    y, gamma, eps, q, rho = torch.tensor([0, 1, 2, 0, 1]), 1.3, 0.2, 3, 0.7

    def act(z: float) -> float:
        return 0.0 if z < 0 else z**q / (q * rho ** (q - 1)) if z < rho else z - rho * (1 - 1 / q)

    found = patch_axis_margin.worst_margins(along, y, gamma, eps, q, rho, raise_others)
    for i in range(5):
        own = sum(act(gamma * (float(along[i, p, y[i]]) - eps)) for p in range(4))
        up = eps if raise_others else 0.0
        rivals = [
            sum(act(gamma * (float(along[i, p, j]) + up)) for p in range(4)) for j in range(3) if j != y[i]
        ]
        assert float(found[i]) == pytest.approx(own - max(rivals))
    default = patch_axis_margin.worst_margins(along, y, gamma, eps, q, rho)
    assert torch.equal(default, patch_axis_margin.worst_margins(along, y, gamma, eps, q, rho, True))
    outputs = patch_axis_margin.outputs(along, gamma, q, rho)
    assert float(outputs[1, 2]) == pytest.approx(sum(act(gamma * float(along[1, p, 2])) for p in range(4)))
    torch.testing.assert_close(outputs, smoothed_relu(gamma * along, q, rho).sum(1))


@pytest.mark.parametrize(("norm", "p"), [("Linf", math.inf), ("L2", 2.0), ("L3", 3.0)])
def test_the_model_free_perturbation_swaps_features_patch_by_patch_at_full_radius(
    norm: str, p: float
) -> None:
    law = PatchLaw(k=3, d=8, patches=4, robust_patches=1, sigma_n=0.0,
                   beta={"name": "uniform", "low": 0.2, "high": 0.5})  # fmt: skip
    batch, eps = law.sample(30, stream(0, "data")), 0.6
    delta = model_free(law, batch, eps, stream(0, "a"), norm)
    _, v = law.features()
    assert torch.equal(delta[batch.robust], torch.zeros_like(delta[batch.robust]))
    seen = set()
    for i, patch in (~batch.robust).nonzero().tolist():
        along, beta, y = v @ delta[i, patch], float(batch.amplitude[i, patch]), int(batch.y[i])
        assert float(along[y]) == pytest.approx(-beta)
        other = int(along.argmax())
        left = eps if math.isinf(p) else (eps**p - beta**p) ** (1 / p)
        assert float(along[other]) == pytest.approx(left)
        assert float(delta[i, patch].norm(p=p)) == pytest.approx(eps)
        seen.add((other - y) % 3)
    assert seen == {1, 2}
    inside = model_free(law, batch, eps, stream(0, "a"))
    assert torch.equal(inside, model_free(law, batch, eps, stream(0, "a"), "Linf"))
    written = write_robust(law, batch, eps, stream(0, "a"))
    u, _ = law.features()
    for i in range(30):
        along = u @ written[i, 0]
        assert float(along[batch.y[i]]) == pytest.approx(-eps)
        assert sorted(along.tolist()) == pytest.approx([-eps, 0.0, eps])
        assert torch.equal(written[i], written[i, :1].expand(4, -1))


def test_the_papers_target_reads_the_signal_patch_and_its_attack_leaves_the_residual() -> None:
    law = SignalLaw(d=9, patches=3, alpha=2.0, sigma=0.3, gap=0.25)
    batch = law.sample(20, stream(0, "data"))
    logits = linear_target(batch.x)
    torch.testing.assert_close(logits[:, 1] - logits[:, 0], 2.0 * batch.y)
    moved = transferred(batch.x, batch.y, law)
    # X − γ g(X) w*: of α y along w* what is left is (1 − γ) α y, and nothing else moves.
    for i in range(20):
        patch = int(batch.position[i])
        wanted = batch.x[i].clone()
        wanted[patch, 0] = 0.25 * 2.0 * batch.y[i]
        torch.testing.assert_close(moved[i], wanted)


@pytest.mark.parametrize(("persist", "more"), [(1, 0), (5, 3)])
def test_a_search_that_found_something_is_repeated_longer_on_what_is_left(persist: int, more: int) -> None:
    """The image near 0 is wrong after any move, those near 9 never: who is asked, and how often."""
    asked: list[int] = []

    def net(x: Tensor) -> Tensor:
        asked.append(len(x))
        first = x[:, 0, 0, 0]
        f = torch.where(first > 5, torch.ones_like(first), 0.05 - first.abs())
        return torch.stack([f, torch.zeros_like(f)], -1)

    y, threat, far = torch.zeros(3, dtype=torch.long), Threat("Linf", 0.1, 3), torch.full((3, 1, 2, 2), 9.0)
    Square(4, persist=persist)(net, far, y, threat, stream(0, "s"))
    assert asked == [3] * 5  # as they are, stripes, three proposals; nothing was found, nothing is repeated
    asked.clear()
    near = far.clone()
    near[0] = 0.0
    found = Square(4, persist=persist)(net, near, y, threat, stream(0, "s"))
    # once more for the two that are left: as they are, stripes and a proposal; then, at a tenth of 5·4 queries, who has
    # not fallen at all is given up
    assert asked == [3, 3, 2, 2, 2] + [2] * more
    assert found[0, 0, 0, 0].abs().item() == pytest.approx(0.1)
    asked.clear()
    Square(4, persist=persist)(net, near[:1], y[:1], threat, stream(0, "s"))
    assert asked == [1, 1]  # nobody is left


@pytest.mark.parametrize(("classes", "restarts"), [(3, 1), (4, 2)])
def test_every_wrong_class_is_aimed_at_once_for_each_start_and_the_own_never(
    classes: int, restarts: int
) -> None:
    calls: list[int] = []
    weight = torch.randn(classes, 2, generator=stream(0, "w"), dtype=F64)

    def net(x: Tensor) -> Tensor:
        calls.append(len(x))
        return x @ weight.mT

    x, y = torch.randn(5, 2, generator=stream(0, "x"), dtype=F64), torch.zeros(5, dtype=torch.long)
    PGD(steps=3, every_target=True, restarts=restarts)(net, x, y, Threat("L2", 0.1, 1), stream(0, "a"))
    # one look at the number of classes, then three steps and a last look for each class and start
    assert len(calls) == 1 + (classes - 1) * restarts * 4
    calls.clear()
    PGD(steps=3, restarts=restarts)(net, x, y, Threat("L2", 0.1, 1), stream(0, "a"))
    assert len(calls) == restarts * 4


def test_a_tie_is_fooled_and_searched_no_more() -> None:
    asked: list[int] = []

    def net(x: Tensor) -> Tensor:
        asked.append(len(x))
        f = torch.where(x[:, 0, 0, 0] > 5, torch.ones_like(x[:, 0, 0, 0]), torch.zeros_like(x[:, 0, 0, 0]))
        return torch.stack([f, torch.zeros_like(f)], -1)

    x = torch.full((3, 1, 2, 2), 9.0)
    x[1] = 0.0
    found = Square(3, persist=4)(net, x, torch.zeros(3, dtype=torch.long), Threat("Linf", 0.1, 3), stream(0))
    assert asked == [3, 2, 2, 2]
    assert torch.equal(found[1], torch.zeros_like(found[1]))


def test_a_race_gives_up_who_falls_too_slowly() -> None:
    """Ten queries, looked at before the 1st, 2nd and 4th: a margin of .7 after a fall by .3 stays (2.7 · .3 = .81), one
    of .74 does not (.702); .52 stays at the next look (1.1 · .48 = .528) and not at the third (.25 · .48)."""
    margins = iter([[1.0, 1.0], [0.7, 0.74], [0.52], [0.6], [0.6]])
    asked: list[int] = []

    def net(x: Tensor) -> Tensor:
        asked.append(len(x))
        f = torch.tensor(next(margins), dtype=F64)
        return torch.stack([f, torch.zeros_like(f)], -1)

    x, y = torch.zeros(2, 1, 2, 2, dtype=F64), torch.zeros(2, dtype=torch.long)
    Square(10, race=True)(net, x, y, Threat("Linf", 0.1, 3), stream(0))
    assert asked == [2, 2, 1, 1, 1]
