"""The smallest perturbation: on networks whose exact distance is known, and what is returned where there is
none."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from featscope.attacks.nearest import NearestAttack, NearestFound, _shortened, _within, ranked
from featscope.attacks.threat import Threat


def linear(classes: int = 3, inputs: int = 4) -> nn.Linear:
    net = nn.Linear(inputs, classes).double()
    with torch.no_grad():
        net.weight.copy_(torch.arange(1.0, 1 + classes * inputs).sin().view(classes, inputs))
        net.bias.zero_()
    return net


def exact(net: nn.Linear, x: Tensor, y: Tensor, dual: float) -> Tensor:
    """min_j (F_y − F_j) ÷ ‖w_y − w_j‖_dual, with the class that attains it left to the caller."""
    outputs = net(x)
    far = []
    for i, label in enumerate(y.tolist()):
        others = [j for j in range(outputs.shape[1]) if j != label]
        gaps = [(outputs[i, label] - outputs[i, j]).item() for j in others]
        sizes = [(net.weight[label] - net.weight[j]).norm(p=dual).item() for j in others]
        far.append(min(gap / size for gap, size in zip(gaps, sizes)))
    return torch.tensor(far, dtype=torch.float64)


def points(n: int = 12) -> Tensor:
    return torch.arange(1.0, 1 + 4 * n, dtype=torch.float64).mul(1.7).cos().view(n, 4)


def test_a_linear_network_is_left_at_its_exact_distance_in_both_norms() -> None:
    net, x = linear(), points()
    y = net(x).argmax(-1)
    for norm, dual in (("Linf", 1.0), ("L2", 2.0)):
        found = NearestAttack(steps=30).find(net, x, y, Threat(norm, 1.0, 1))
        wanted = exact(net, x, y, dual)
        assert torch.all(found.radius >= wanted * (1 - 1e-9))
        torch.testing.assert_close(found.radius, wanted, rtol=2e-3, atol=0)
        size = found.delta.abs().amax(-1) if norm == "Linf" else found.delta.norm(dim=-1)
        torch.testing.assert_close(found.radius, size)
        assert torch.all(net(x + found.delta * (1 + 1e-9)).argmax(-1) != y)


def test_examples_that_are_wrong_have_radius_zero_and_are_not_moved() -> None:
    net, x = linear(), points()
    right = net(x).argmax(-1)
    y = torch.where(torch.arange(len(x)) % 2 == 0, right, (right + 1) % 3)
    found = NearestAttack(steps=10).find(net, x, y, Threat("L2", 1.0, 1))
    assert torch.all(found.radius[1::2] == 0)
    assert torch.all(found.delta[1::2] == 0)
    assert torch.all(found.radius[::2] > 0)
    nothing_left = NearestAttack(steps=3).find(net, x, (right + 1) % 3, Threat("L2", 1.0, 1))
    assert torch.all(nothing_left.radius == 0)


def test_a_network_that_never_changes_its_mind_has_radius_infinity() -> None:
    def constant(x: Tensor) -> Tensor:
        return torch.stack([x.sum(-1) * 0 + 1, x.sum(-1) * 0], -1)

    found = NearestAttack(steps=4).find(
        constant, points(3), torch.zeros(3, dtype=torch.long), Threat("L2", 1.0, 1)
    )
    assert torch.all(found.radius.isinf())


def test_rivals_are_ranked_by_distance_not_by_logit() -> None:
    """Class 1 has the second largest logit, but a steep boundary makes class 2 nearer."""
    net = nn.Linear(2, 3).double()
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0, 0.0], [0.1, 0.0], [0.0, 50.0]]))
        net.bias.copy_(torch.tensor([1.0, 0.9, -1.0]))
    x, y = torch.zeros(1, 2, dtype=torch.float64), torch.tensor([0])
    assert ranked(net, x, y, Threat("L2", 1.0, 1), 2).tolist() == [[2, 1]]  # 2/50 < .1/.1
    assert ranked(net, x, y, Threat("L2", 1.0, 1), 1).tolist() == [[2]]


def test_a_perturbation_is_kept_in_each_examples_own_ball_and_in_the_bounds() -> None:
    x = torch.tensor([[0.5, 0.5], [0.9, 0.1]], dtype=torch.float64)
    delta = torch.tensor([[3.0, -4.0], [0.3, -0.4]], dtype=torch.float64)
    inside = _within(Threat("L2", 1.0, 1), torch.tensor([0.5, 5.0], dtype=torch.float64), delta, x)
    torch.testing.assert_close(inside, torch.tensor([[0.3, -0.4], [0.3, -0.4]], dtype=torch.float64))
    bounded = _within(
        Threat("L2", 1.0, 1, bounds=(0.0, 1.0)), torch.tensor([5.0, 5.0], dtype=torch.float64), delta, x
    )
    torch.testing.assert_close(x + bounded, torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64))


def test_what_is_found_is_cut_where_the_prediction_first_changes() -> None:
    """f = x₁ − .3: the first wrong point on the way from 0 to 1 is at .3, and ∞ stays ∞; points have two
    axes."""

    def net(x: Tensor) -> Tensor:
        f = x.flatten(1)[:, 0] - 0.3
        return torch.stack([-f, f], -1)

    x = torch.zeros(2, 2, 2, dtype=torch.float64)
    y = torch.zeros(2, dtype=torch.long)
    delta = torch.zeros_like(x)
    delta[:, 0, 0], delta[:, 1, 1] = 1.0, 1.0
    found = NearestFound(torch.tensor([2.0, torch.inf], dtype=torch.float64), delta)
    cut = _shortened(net, x, y, Threat("L2", 1.0, event=2), found, halvings=20)
    assert abs(cut.radius[0].item() - 0.3 * 2**0.5) < 1e-5
    assert cut.radius[1].isinf()
    assert torch.all(net(x + cut.delta)[0].argmax(-1) == 1)
