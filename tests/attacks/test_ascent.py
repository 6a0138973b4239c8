"""The one loop and its parts, against ascents written out with plain tensors."""

import pytest
import torch
from torch import Tensor

from featscope.attacks.ascent import (
    Highest,
    Seen,
    UntilFooled,
    ascend,
    by_autograd,
    falling,
    stepping,
    through,
)
from featscope.attacks.minimal import MinimalPGD
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.losses import CROSS_ENTROPY, margin
from featscope.core.streams import stream
from featscope.features.landscape import _climb


def bumpy(z: Tensor) -> Tensor:
    """Three logits whose loss rises and falls along a path."""
    w = torch.randn(3, 6, generator=stream(0, "w"), dtype=torch.float64).to(z.dtype)
    v = torch.randn(6, 5, generator=stream(0, "v"), dtype=torch.float64).to(z.dtype)
    return torch.sin(3 * z @ v.mT) @ w.mT


def points(n: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    x = torch.rand(n, 5, generator=stream(1, "x"), dtype=torch.float64).to(dtype)
    return x, bumpy(x).argmax(-1)


def written_out(
    x: Tensor, y: Tensor, threat: Threat, delta: Tensor, sizes: list[float], until: bool = False
) -> tuple[Tensor, int]:
    """PGD on cross-entropy for one example: its point of smallest margin, and how many were looked at."""
    best, least, looks = delta, float("inf"), 0
    for size in [*sizes, 0.0]:
        leaf = (x + delta).requires_grad_(True)
        outputs = bumpy(leaf)
        (gradient,) = torch.autograd.grad(torch.nn.functional.cross_entropy(outputs, y), leaf)
        looks += 1
        if float(margin(outputs.detach(), y)) < least:
            best, least = delta, float(margin(outputs.detach(), y))
        if until and least <= 0:
            break
        along = gradient.sign() if threat.norm == "Linf" else gradient / gradient.norm()
        moved = delta + size * along
        shrunk = moved / max(1.0, float(moved.norm()) / threat.eps)
        inside = moved.clamp(-threat.eps, threat.eps) if threat.norm == "Linf" else shrunk
        delta = (x + inside).clamp(0, 1) - x
    return best, looks


@pytest.mark.parametrize("norm", ["Linf", "L2"])
@pytest.mark.parametrize("until", [False, True])
@pytest.mark.parametrize("size", [None, 0.05])
def test_pgd_is_its_ten_lines(norm: str, until: bool, size: float | None) -> None:
    x, y = points(20)
    threat = Threat(norm, 0.15, 1, bounds=(0.0, 1.0))
    looked: list[int] = []

    def counted(z: Tensor) -> Tensor:
        looked.append(len(z))
        return bumpy(z)

    found = PGD("cross-entropy", 8, size, stop_early=until)(counted, x, y, threat, stream(2, "a"))
    start = threat.sample(x, stream(2, "a"))
    sizes = [0.15 * (1 - step / 8) if size is None else size for step in range(8)]
    rows = [
        written_out(x[i : i + 1], y[i : i + 1], threat, start[i : i + 1], sizes, until) for i in range(20)
    ]
    torch.testing.assert_close(found, torch.cat([best for best, _ in rows]), rtol=0, atol=1e-9)
    # One look more for those who leave early: whether they are wrong as they are.
    assert sum(looked) == sum(looks for _, looks in rows) + (20 if until else 0)
    if until:
        assert len({looks for _, looks in rows}) > 2


def test_every_restart_and_target_is_kept_by_its_score_and_a_fooled_example_climbs_no_more() -> None:
    x, y = points(20)
    threat = Threat("L2", 0.1, 1)
    one, many = (PGD(steps=4, restarts=restarts)(bumpy, x, y, threat, stream(0, "a")) for restarts in (1, 4))
    left = [margin(bumpy(x + delta), y) for delta in (one, many)]
    assert bool((left[1] <= left[0]).all())
    assert bool((left[1] < left[0] - 1e-6).any())
    wrong = PGD(steps=4, stop_early=True)(bumpy, x, (y + 1) % 3, threat, stream(0, "a"))
    assert not wrong.any()


def test_the_last_point_is_reached_without_a_last_look() -> None:
    """Training pays for as many looks as steps; who keeps points pays for the last, too, without its
    gradient.
    """
    x, y = points(6)
    threat, calls, pulls = Threat("Linf", 0.1, 1), [], []

    def look(z: Tensor, labels: Tensor) -> Seen:
        calls.append(len(labels))
        seen = through(bumpy, CROSS_ENTROPY)(z, labels)
        return Seen(seen.score, seen.value, lambda: (pulls.append(1), seen.gradient())[1])

    move = stepping(threat, falling(0.1, 5))
    end = ascend(look, move, torch.zeros_like(x), 5, None, x, y)
    assert (len(calls), len(pulls)) == (5, 5)
    best = Highest(torch.zeros_like(x), torch.full((6,), -torch.inf, dtype=x.dtype))
    assert torch.equal(ascend(look, move, torch.zeros_like(x), 5, best, x, y), end)
    assert (len(calls), len(pulls)) == (11, 10)
    hit = -margin(bumpy(x + end), y)
    assert bool((best.score >= hit).all())
    assert torch.equal(best.score, -margin(bumpy(x + best.delta), y))


def test_the_first_of_equal_scores_is_kept_and_nan_never() -> None:
    kept = Highest(torch.zeros(3, 2), torch.tensor([0.0, 0.0, -torch.inf]))
    kept(torch.ones(3, 2), torch.tensor([0.0, 1.0, torch.nan]))
    assert kept.delta[:, 0].tolist() == [0, 1, 0]
    assert kept.score.tolist() == [0, 1, -torch.inf]


def test_those_who_are_fooled_leave_and_the_others_keep_their_places() -> None:
    kept = UntilFooled(torch.zeros(4, 1), torch.tensor([-1.0, 0.0, -1.0, -1.0]))  # a tie is wrong
    (parts,) = kept.begin(torch.arange(4))
    assert parts.tolist() == [0, 2, 3]
    assert kept(torch.full((3, 1), 7.0), torch.tensor([-0.5, 0.0, -2.0])).tolist() == [True, False, True]
    assert kept(torch.full((2, 1), 8.0), torch.tensor([-0.7, 1.0])).tolist() == [True, False]
    assert kept.delta[:, 0].tolist() == [7, 0, 7, 8]
    assert kept.score.tolist() == [-0.5, 0.0, 0.0, 1.0]


def test_a_value_of_ones_own_is_followed_by_autograd_in_any_mode() -> None:
    x, y = points(6)
    with torch.no_grad():
        seen = by_autograd(lambda z, labels: CROSS_ENTROPY.value(bumpy(z), labels))(x, y)
        gradient = seen.gradient()
    outputs = through(bumpy, CROSS_ENTROPY)(x, y)
    torch.testing.assert_close(seen.score, outputs.value())
    torch.testing.assert_close(seen.value(), outputs.value())
    torch.testing.assert_close(gradient, outputs.gradient())
    torch.testing.assert_close(outputs.score, -margin(bumpy(x), y))


def test_the_landscapes_search_is_its_loop_written_out() -> None:
    x, y = points(7)
    net = torch.nn.Sequential(torch.nn.Linear(5, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3)).double()
    threat = Threat("Linf", 0.2, 1)
    start, nothing = threat.sample(x, stream(0, "s")), torch.full((7,), 0.3, dtype=x.dtype)
    top, best = _climb(net, x, y, threat, 4, start, nothing, torch.zeros_like(x))
    for i in range(7):
        delta, high, at = start[i : i + 1], 0.3, torch.zeros(1, 5, dtype=x.dtype)
        for step in range(5):
            leaf = (x[i : i + 1] + delta).requires_grad_(True)
            loss = torch.nn.functional.cross_entropy(net(leaf), y[i : i + 1])
            norm = torch.autograd.grad(loss, leaf, create_graph=True)[0].abs().sum()
            if float(norm.detach()) > high:
                high, at = float(norm.detach()), delta
            (uphill,) = torch.autograd.grad(norm, leaf)
            delta = (delta + 0.2 * (1 - step / 5) * uphill.sign()).clamp(-0.2, 0.2)
        assert float(top[i]) == pytest.approx(high, abs=1e-9)
        torch.testing.assert_close(best[i : i + 1], at, rtol=0, atol=1e-9)


def test_one_round_of_the_smallest_radius_is_pgd_at_each_examples_own_radius() -> None:
    """The first restart begins at the example, steps are 2.5 ε/steps, and the last point counts where it
    fools.
    """
    x, y = points(15)
    reach, steps = 0.05, 6

    def objective(z: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = z.detach().requires_grad_(True)
            left = margin(bumpy(leaf), y.expand(leaf.shape[:-1]))
            return left.detach(), -torch.autograd.grad(left.sum(), leaf)[0]

    found = MinimalPGD(steps, restarts=1, rounds=1, reach=reach, last_only=True)(objective, x, stream(0, "a"))
    delta = torch.zeros_like(x)
    for _ in range(steps):
        uphill = objective(x + delta)[1]
        delta = delta + (2.5 / steps) * reach * uphill / uphill.norm(dim=-1, keepdim=True)
        delta = delta / (delta.norm(dim=-1, keepdim=True) / reach).clamp(min=1.0)
    fooled = objective(x + delta)[0] <= 0
    assert 0 < int(fooled.sum()) < 15
    assert torch.equal(found.radius.isfinite(), fooled)
    torch.testing.assert_close(found.delta[fooled], delta[fooled], rtol=0, atol=1e-9)
