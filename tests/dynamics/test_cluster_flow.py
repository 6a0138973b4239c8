"""Gradient flow: the limit of descent, the order of its method, and additivity in time."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from featscope.core.errors import BadInput
from featscope.core.stats import exponent
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import binary_direction, binary_step, start_binary
from featscope.dynamics.cluster_flow import Flow, begin, finished, flow_step
from featscope.dynamics.trajectory import trajectory
from featscope.laws.clusters import ClusterLaw
from featscope.nets.two_layer import output_weights

LAW, N, M = ClusterLaw(k=3, d=600), 45, 2


def _run(step, state: Flow, end: float) -> Flow:  # type: ignore[no-untyped-def]
    return trajectory(step, state, 10_000, lambda s, t: {}, 1, stop=finished(end)).state


def test_descent_approaches_the_flow_at_first_order_as_eta_shrinks() -> None:
    """With σ_w = η/(6nm√d) both start from nothing but the pattern of the initial directions (the limit of
    the module's text)."""
    drawn = LAW.draw(N, 2 * M, 0, compact=False)
    a, end = output_weights(M), 0.2
    etas, errors = [0.004, 0.002, 0.001], []
    for eta in etas:
        scale = eta / (6 * N * M * math.sqrt(LAW.d))
        state = start_binary(drawn.directions, N, scale, scale, stream(0, "init", "bias"))
        warm = binary_step(drawn.train, a, eta)(state, 0)
        flow = begin(warm.w, warm.b, warm.c, eta, eta)
        step = flow_step(lambda w, b: binary_direction(w, b, a, drawn.train), end, 2e-4)
        smooth = _run(step, flow, end)
        descent = state
        for t in range(round(end / eta)):
            descent = binary_step(drawn.train, a, eta)(descent, t)
        errors.append(
            float(torch.linalg.vector_norm(descent.w - smooth.w) / torch.linalg.vector_norm(smooth.w))
        )
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.02
    assert exponent(etas, errors).value == pytest.approx(1.0, abs=0.25)


def _decay(w: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.zeros_like(w), -w, -2 * b


def test_the_pair_solves_exponential_decay_with_errors_that_follow_the_tolerance() -> None:
    start = begin(
        torch.ones(2, 3, dtype=torch.float64),
        torch.ones(2, dtype=torch.float64),
        torch.zeros(2, 3, dtype=torch.float64),
        0.0,
        0.1,
    )
    tolerances, errors, steps = [1e-3, 1e-4, 1e-5, 1e-6], [], []
    for tolerance in tolerances:
        done = _run(flow_step(_decay, 2.0, tolerance), start, 2.0)
        assert float(done.time) == pytest.approx(2.0)
        errors.append(float((done.w - math.exp(-2)).abs().max()))
        steps.append(float(done.calls) / 3)
    assert errors == sorted(errors, reverse=True)
    # A third-order method: error ∝ steps^−3.
    assert exponent(steps, errors).value == pytest.approx(-3.0, abs=0.6)
    assert float(done.b[0]) == pytest.approx(math.exp(-4), rel=1e-4)


def test_time_adds_up_and_the_state_rests_at_the_end() -> None:
    start = begin(
        torch.ones(1, 1, dtype=torch.float64),
        torch.ones(1, dtype=torch.float64),
        torch.zeros(1, 1, dtype=torch.float64),
        0.0,
        0.01,
    )
    half = _run(flow_step(_decay, 0.5, 1e-7), start, 0.5)
    whole = _run(flow_step(_decay, 1.0, 1e-7), half, 1.0)
    straight = _run(flow_step(_decay, 1.0, 1e-7), start, 1.0)
    assert float(whole.w) == pytest.approx(float(straight.w), rel=1e-6)
    assert flow_step(_decay, 1.0, 1e-7)(straight, 0) is straight


def test_coefficients_flow_with_the_weights() -> None:
    drawn = LAW.draw(N, 2 * M, 1, compact=True)
    a = output_weights(M)
    first = start_binary(drawn.directions, N, 1e-6, 1e-6, stream(1, "init", "bias"))
    step = flow_step(lambda w, b: binary_direction(w, b, a, drawn.train), 0.1, 1e-3)
    done = _run(step, begin(*first, 0.0, 1e-4), 0.1)
    assert torch.allclose(first.w + done.c @ drawn.train.x, done.w, rtol=1e-9, atol=1e-13)


def test_a_tolerance_outside_its_range_is_refused() -> None:
    with pytest.raises(BadInput, match="tolerance"):
        flow_step(_decay, 1.0, 0.0)
