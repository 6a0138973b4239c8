"""The parts of the exact radius and of the read-out's certificate, each by plain loops or by its own conditions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from featscope.attacks.readout_certificate import _by_slope, _knapsack, _max_plus
from featscope.attacks.two_layer_radius import _emptiness, _Halves, _proved, _Solver, exact_radii
from featscope.core.streams import stream
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import TwoLayer, forward

F64 = torch.float64


def network(seed: int, plus: int, minus: int, d: int = 3) -> TwoLayer:
    n = plus + minus
    a = torch.cat([torch.linspace(0.5, 1.5, plus), -torch.linspace(0.4, 1.3, minus)]).double()
    rng = stream(seed, "net")
    return TwoLayer(torch.randn(n, d, generator=rng, dtype=F64), torch.randn(n, generator=rng, dtype=F64), a)


@pytest.mark.parametrize("positive", [True, False])
def test_a_view_has_the_neurons_of_both_classes_and_the_sums_of_their_subsets(positive: bool) -> None:
    net, x = network(0, 2, 3), np.array([0.3, -0.7, 1.1])
    view = _Halves(net).view(x, positive, 2.5)
    w, b, a = (t.numpy() for t in net)
    own = [r for r in range(5) if (a[r] > 0) == positive]
    rival = [r for r in range(5) if (a[r] > 0) != positive]
    assert view.strict is (not positive)
    for place, r in enumerate(own):
        size = abs(a[r]) * np.linalg.norm(w[r])
        assert view.own_at[place] == pytest.approx(abs(a[r]) * (w[r] @ x + b[r]))
        assert view.own[place] == pytest.approx(abs(a[r]) * w[r])
        assert view.own_size[place] == pytest.approx(size)
        assert view.own_room[place] == pytest.approx(2.5 * size + abs(a[r] * b[r]))
    for s, bits in enumerate(itertools.product((0, 1), repeat=len(rival))):
        # bit r of s, lowest first
        chosen = [r for r, bit in zip(rival, reversed(bits)) if bit]
        assert view.rival_sums_at[s] == pytest.approx(sum(abs(a[r]) * (w[r] @ x + b[r]) for r in chosen))
        assert view.rival_sums[s] == pytest.approx(sum((abs(a[r]) * w[r] for r in chosen), np.zeros(3)))
        size = sum(abs(a[r]) * np.linalg.norm(w[r]) for r in chosen)
        assert view.rival_size[s] == pytest.approx(size)
        assert view.rival_room[s] == pytest.approx(2.5 * size + sum(abs(a[r] * b[r]) for r in chosen))
    for s, bits in enumerate(itertools.product((0, 1), repeat=len(own))):
        chosen = [r for r, bit in zip(own, reversed(bits)) if bit]
        assert view.own_sums_at[s] == pytest.approx(sum(abs(a[r]) * (w[r] @ x + b[r]) for r in chosen))
        assert list(view.table[s]) == list(map(float, reversed(bits)))


@pytest.mark.parametrize("positive", [True, False])
def test_what_a_vector_proves_piece_by_piece(positive: bool) -> None:
    net, x = network(1, 2, 2), np.array([0.3, -0.7, 1.1])
    view = _Halves(net).view(x, positive, float(np.linalg.norm(x)))
    certificate = np.random.default_rng(0).random((4, 2))
    found = _proved(view, certificate)
    for s in range(4):
        gap = certificate[s] @ view.own_at - view.rival_sums_at[s]
        normal = np.linalg.norm(certificate[s] @ view.own - view.rival_sums[s])
        assert found[s] == pytest.approx(max(gap, 0.0) / normal)
        assert _proved(view, certificate, s)[0] == found[s]


@pytest.mark.parametrize(
    ("gap", "open_too", "closed_too"), [(0.5, True, True), (0.0, True, False), (-0.5, False, False)]
)
def test_a_vanishing_normal_proves_emptiness_by_its_gap(gap: float, open_too: bool, closed_too: bool) -> None:
    """Own and rival neuron parallel, p(x) − q(x) = ``gap``: {p ≤ q} is empty for a positive gap, {p < q} for 0, too."""
    for positive, empty in ((True, closed_too), (False, open_too)):
        sign = 1.0 if positive else -1.0
        net = TwoLayer(
            torch.tensor([[1.0, 2.0], [1.0, 2.0]], dtype=F64),
            torch.tensor([gap, 0.0], dtype=F64),
            torch.tensor([sign, -sign], dtype=F64),
        )
        x = np.array([0.5, 0.25])
        view = _Halves(net).view(x, positive, float(np.linalg.norm(x)))
        assert _proved(view, np.ones((2, 1)))[1] == (math.inf if empty else 0.0)


def test_the_programme_meets_its_conditions() -> None:
    """min ‖δ‖² subject to A δ ≤ b: feasible, δ = −Σ λ_i A_i with λ ≥ 0, which is 0 where a face is not met."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(6, 3))
    right = rows @ np.array([1.0, -1.0, 0.5]) + 0.1
    solver = _Solver(network(2, 2, 2))
    step, multipliers = solver._programme(rows, right)
    assert solver.solved == 1
    assert step is not None
    slack = right - rows @ step
    assert slack.min() > -1e-9
    assert multipliers.min() > -1e-9
    assert np.abs(multipliers * slack).max() < 1e-9
    assert step == pytest.approx(-multipliers @ rows, abs=1e-9)
    nowhere, none = solver._programme(np.array([[1.0, 0, 0], [-1.0, 0, 0]]), np.array([-1.0, -1.0]))
    assert nowhere is None
    assert none.tolist() == [0.0, 0.0]


def test_emptiness_has_the_rivals_gradient_and_the_largest_gap() -> None:
    """Own neurons (1, 0), (0, 1), (1, 1), rival (1, 1): u = (1, 1, 0) or (0, 0, 1), whichever is larger at x."""
    w = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]], dtype=F64)
    a = torch.tensor([1.0, 1.0, 1.0, -1.0], dtype=F64)
    x = np.array([0.4, 0.6])
    for shift, wanted in ((0.5, [0.0, 0.0, 1.0]), (-0.5, [1.0, 1.0, 0.0])):
        b = torch.tensor([0.0, 0.0, shift, 0.0], dtype=F64)
        view = _Halves(TwoLayer(w, b, a)).view(x, True, 1.0)
        assert list(_emptiness(view, 1)) == pytest.approx(wanted)
    b = torch.zeros(4, dtype=F64)
    off = TwoLayer(torch.cat([w[:3], torch.tensor([[-1.0, 0.0]], dtype=F64)]), b, a)
    assert _emptiness(_Halves(off).view(x, True, 1.0), 1) is None
    half = TwoLayer(torch.cat([2 * w[:1], w[3:] * torch.tensor([1.0, 0.0])]), b[:2], a[[0, 3]])
    assert list(_emptiness(_Halves(half).view(x, True, 1.0), 1)) == pytest.approx([0.5])
    nothing = TwoLayer(0 * w, b, a)
    assert list(_emptiness(_Halves(nothing).view(x, True, 1.0), 1)) == [1.0, 1.0, 1.0]


def test_a_radius_without_proof_is_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x, y = network(3, 2, 2), torch.tensor([[0.3, -0.7, 1.1]], dtype=F64), torch.ones(1, dtype=F64)
    y = torch.where(forward(net, x) > 0, y, -y)
    assert exact_radii(net, x, y).exact.tolist() == [True]
    search = _Solver.radius

    def unproved(self: _Solver, *given: object) -> tuple[np.ndarray, np.ndarray]:
        delta, certificate = search(self, *given)  # type: ignore[arg-type]
        return delta, 0 * certificate

    monkeypatch.setattr(_Solver, "radius", unproved)
    found = exact_radii(net, x, y)
    assert found.exact.tolist() == [False]
    assert float(found.lower) < float(found.upper)


# ---- the read-out


def test_max_plus_by_plain_loops() -> None:
    left, right = torch.randn(2, 2, 6, generator=stream(0, "m"), dtype=F64)
    found = _max_plus(left, right)
    for i in range(2):
        for b in range(6):
            assert float(found[i, b]) == max(float(left[i, b - a] + right[i, a]) for a in range(b + 1))


def test_the_knapsack_by_trying_every_share() -> None:
    """Three classes, one friend and two rivals; fourteen bins, every way to share them."""
    w = torch.tensor([[2.0, 0.1, 0.0], [0.0, 1.5, 0.3], [0.2, 0.0, 1.2], [0.1, 0.4, 0.2]], dtype=F64)
    signs = torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=F64)
    z = torch.tensor([[4.0, 0.4, 0.3, 0.0], [3.2, 0.9, -0.5, 0.2]], dtype=F64)
    above, bins = torch.tensor([1.5, 0.9], dtype=F64), 14
    found = _knapsack(w, signs, 1.0, torch.tensor([0, 0]), z, above, bins)
    norms = w.norm(dim=-1)
    unit = (w / norms[:, None])[[0, 1, 2]]
    kappa = max(float(torch.linalg.eigvalsh(unit @ unit.mT)[-1]), 1.0)
    for i in range(2):
        budget = kappa * float(above[i]) ** 2 / bins

        def best(total: int, i: int = i, budget: float = budget) -> float:
            """How far ``total`` bins push rivals above the own output."""
            top = -math.inf
            for own, first in itertools.product(range(total + 1), repeat=2):
                if own + first <= total:
                    far = [math.sqrt(budget * share) for share in (own, first, total - own - first)]
                    up = sum(math.exp(max(float(z[i, j] + norms[j] * far[j]), 0.0)) for j in (1, 2))
                    top = max(top, up - math.exp(max(float(z[i, 0] - norms[0] * far[0]), 0.0)))
            return top

        size = bins + 3
        first = next((b for b in range(size + 1) if best(b) >= 2 - 1), size + 1)
        safe = min(max(first - 1 - 3, 0), bins)
        assert float(found[i]) == pytest.approx(math.sqrt(safe * budget / kappa))
    assert float(found.max()) > 0


def test_the_bound_by_slope() -> None:
    w = torch.tensor([[3.0, 4.0], [0.0, 1.0], [6.0, 8.0], [0.0, 0.0]], dtype=F64)
    signs = torch.tensor([1.0, -1.0], dtype=F64)
    net = MultiClass(w, 2)  # mean norms 3 and 5
    margin = torch.tensor([4.0, -1.0], dtype=F64)
    assert _by_slope(net, signs, margin).tolist() == pytest.approx([4.0 / 8.0, 0.0])
    assert _by_slope(MultiClass(0 * w, 2), signs, margin).tolist() == [math.inf, 0.0]


def test_a_network_without_weights_measures_length_by_the_point_alone() -> None:
    a, b = torch.tensor([1.0, -1.0], dtype=F64), torch.tensor([0.3, 0.2], dtype=F64)
    assert _Halves(TwoLayer(torch.zeros(2, 2, dtype=F64), b, a)).length(np.array([3.0, 4.0])) == 5.0


def test_flat_own_neurons_cannot_balance_a_rival() -> None:
    # Σ u_r · 0 is never the rival's gradient; a rival that is flat, too, is balanced by every u.
    w, a = torch.tensor([[0.0, 0.0], [1.0, 0.5]], dtype=F64), torch.tensor([1.0, -1.0], dtype=F64)
    x, b = np.array([0.2, 0.1]), torch.tensor([0.4, 0.0], dtype=F64)
    assert _emptiness(_Halves(TwoLayer(w, b, a)).view(x, True, 1.0), 1) is None
    assert _emptiness(_Halves(TwoLayer(0 * w, b, a)).view(x, True, 1.0), 1) is not None
