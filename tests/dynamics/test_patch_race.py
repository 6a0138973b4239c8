"""The race of AT's features: its events at their thresholds, and its outputs as those of explicit networks."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from featscope.core.streams import stream
from featscope.dynamics import patch_recursion as co
from featscope.dynamics.patch_events import LOOK, NOT_YET, noted, waiting
from featscope.dynamics.patch_race import REST, RaceEvent, Races, all_decided
from featscope.laws.patches import PatchLaw
from featscope.nets.patch_cnn import PatchNetSpec

F64 = torch.float64
LAW = PatchLaw(k=2, d=40, patches=5, robust_patches=1, alpha=(2.0, 3.0), beta=(1.0, 0.5), sigma_n=0.0)
NET = PatchNetSpec(width=3, q=3, rho=0.8, sigma_0=0.2)


def races(clip: co.CoefficientClip | None, *dims: float) -> Races:
    return Races(NET, co.constant_latents([LAW] * len(dims)), torch.tensor(dims, dtype=F64), clip)


def still(**own: Tensor) -> co.Coefficients:
    """One run whose coefficients are 0 but for those given: along the own features, (k, m)."""
    parts = {}
    for name in ("u", "v"):
        part = torch.zeros(1, 2, 3, 2, dtype=F64)
        for j in range(2):
            part[0, j, :, j] = own.get(name, torch.zeros(2, 3))[j]
        parts[name] = part
    eye = torch.eye(6, dtype=F64)[None]
    return co.Coefficients(parts["u"], parts["v"], eye, eye, torch.zeros(1, dtype=F64))


def test_a_race_is_decided_where_a_feature_meets_the_end_of_the_polynomial_part() -> None:
    """ρ/α is .4 and .8/3, ρ/β is .8 and 1.6; negative coefficients decide nothing."""
    made = races(None, 1e12)
    u = torch.tensor([[0.4, -9.0, 0.0], [0.8 / 3 - 1e-6, 0.0, -9.0]])
    assert made.reached(still(u=u)).tolist() == [[[True, False], [False, False]]]
    v = torch.tensor([[0.8 - 1e-6, 0.0, 0.0], [0.0, 1.6, -9.0]])
    assert made.reached(still(v=v)).tolist() == [[[False, True], [False, False]]]


def test_an_output_of_log_d_decides_too() -> None:
    """Four weak patches with V = .79 for class 0: F_0 = 4·.79³/(3·.8²)."""
    v = torch.tensor([[0.79, 0.0, 0.0], [0.0, 0.0, 0.0]])
    output = 4 * 0.79**3 / (3 * 0.64)
    state = still(v=v)
    assert races(None, 10.0).outputs(state)[0].tolist() == pytest.approx([output, 0.0])
    for shift, decided in ((-1e-6, True), (1e-6, False)):
        reached = races(None, math.exp(output + shift)).reached(state)
        assert reached[0, RaceEvent.DECIDED].tolist() == [decided, False]


def test_the_attack_cancels_beta_from_a_third_of_its_threshold_on() -> None:
    """ρ²/(η̃β)/3 against Σ_r V³: for class 0 (.64/7)/3, for class 1 twice as much."""
    made = races(co.CoefficientClip(0.1, 7.0), 1e12)
    for j, beta in ((0, 1.0), (1, 0.5)):
        edge = 0.64 / (7.0 * beta) / 3
        for shift, wanted in ((1e-9, True), (-1e-9, False)):
            v = torch.zeros(2, 3, dtype=F64)
            v[j] = torch.tensor([(edge / 2 + shift) ** (1 / 3)] * 2 + [-1.0], dtype=F64)
            found = made.reached(still(v=v))[0, RaceEvent.CANCELLED]
            assert found.tolist() == [wanted and j == 0, wanted and j == 1]


@pytest.mark.parametrize("attacked", [False, True])
def test_outputs_are_those_of_the_network_at_the_points_it_is_trained_on(attacked: bool) -> None:
    clip = co.CoefficientClip(0.3, 2.0, two_sided=True) if attacked else None
    made = races(clip, 40.0, 40.0)
    w = torch.stack([NET.init(2, 40, stream(seed, "init")) for seed in (0, 1)])
    u, v = LAW.features()
    c = co.from_weights(w, u, v)
    found, x = made.outputs(c), LAW.population().x
    for run in range(2):
        net = NET.net(w[run])
        for y in range(2):
            points = x[y].clone()
            if attacked:
                rest = (w[run] - w[run] @ u.mT @ u - w[run] @ v.mT @ v).reshape(6, 40)
                z = points @ w[run, y].mT
                slope = (z / NET.rho).clamp(0, 1) ** (NET.q - 1)
                lower = 2.0 * slope @ w[run, y]
                along_u, along_v = (lower @ t.mT for t in (u, v))
                own = torch.zeros(5, 6, dtype=F64)
                own[:, 3 * y : 3 * y + 3] = 2.0 * slope
                points = points - along_u.clamp(-0.3, 0.3) @ u - along_v.clamp(-0.3, 0.3) @ v
                points = points - own.clamp(-0.3, 0.3) @ rest
            assert float(found[run, y]) == pytest.approx(float(net(points[None])[0, y]), rel=1e-9)


def test_an_event_is_noted_once_with_its_time_and_coefficients() -> None:
    c = still(u=torch.tensor([[0.1, 0.2, 0.0], [0.0, 0.3, 0.0]]))
    state = waiting(c, 2, 2)
    assert state.events.shape == (1, 2, 2, 3)
    assert torch.equal(state.events, torch.full_like(state.events, NOT_YET))
    assert not bool(all_decided(state))
    a, b = torch.tensor([[0.2, 0.3]]).double(), torch.tensor([[0.5, 0.6]]).double()
    first = noted(
        state,
        c._replace(time=torch.tensor([7.0]).double()),
        torch.tensor([[[True, False], [False, False]]]),
        a,
        b,
    )
    assert first.events[0, 0, 0].tolist() == pytest.approx([7.0, 0.2, 0.5])
    assert first.events[0, 0, 1].tolist() == [NOT_YET] * 3
    assert not bool(all_decided(first))
    later = noted(
        first,
        c._replace(time=torch.tensor([9.0]).double()),
        torch.tensor([[[True, True], [False, True]]]),
        2 * a,
        b,
    )
    assert later.events[0, 0, 0].tolist() == pytest.approx([7.0, 0.2, 0.5])
    assert later.events[0, 0, 1].tolist() == pytest.approx([9.0, 0.6, 0.6])
    assert later.events[0, 1, 1].tolist() == pytest.approx([9.0, 0.6, 0.6])
    assert later.events[0, 1, 0, 0] == NOT_YET
    assert bool(all_decided(later))


def test_events_are_looked_for_every_few_steps_and_the_race_ends_with_the_last() -> None:
    made = races(None, 40.0, 1e6)
    start = co.draw(2, 2, 3, 40, 0.2, stream(0, "init"))
    step, state = made.step(0.05), waiting(start, len(RaceEvent), 2)
    plain, c = co.small_steps(made.velocity(), 0.05), start
    for t in range(3 * LOOK):
        state, c = step(state, t), plain(c, t)
        torch.testing.assert_close(state.u, c.u)
        if (t + 1) % LOOK:
            continue
        reached = made.reached(c)
        assert torch.equal(state.events[..., 0] != NOT_YET, reached | (state.events[..., 0] != NOT_YET))
    end = made.run(start, 0.05, 5000)
    assert bool(all_decided(end).all())
    again = made.run(start, 0.05, 5000 + REST)
    assert torch.equal(end.time, again.time)
    short = made.run(start, 0.05, 1)
    assert torch.equal(short.u, co.small_steps(made.velocity(), 0.05)(start, 0).u)


def test_the_full_ball_margin_is_that_of_an_explicit_perturbation() -> None:
    law = LAW.replace(k=3, alpha=(2.0, 3.0, 2.5), beta=(1.0, 0.5, 0.7))
    made = Races(NET, co.constant_latents([law] * 2), torch.tensor([40.0, 40.0], dtype=F64))
    w = torch.stack([NET.init(3, 40, stream(seed, "init")) for seed in (0, 1)])
    u, v = law.features()
    eps = torch.tensor([0.3, 0.6], dtype=F64)
    found, x = made.full_ball_margin(co.from_weights(w, u, v), eps), law.population().x
    for run in range(2):
        for y in range(3):
            margins = []
            for j in {0, 1, 2} - {y}:
                moved = x[y] + eps[run] * (u[j] + v[j] - u[y] - v[y])
                assert float((moved - x[y]).abs().max()) == pytest.approx(float(eps[run]))
                out = NET.net(w[run])(moved[None])[0]
                margins.append(float(out[y] - out[j]))
            assert float(found[run, y]) == pytest.approx(min(margins), rel=1e-9)
