"""Gradient flow with error-controlled steps: the limit of descent as η → 0 at fixed time τ = η t.

A margin grows like ln τ, so the interesting times are spread over many decades: FA's Assumption 4.3 asks for
η = O(d^−2) and T = Ω(1/η), which at k = 4 is 10^12 steps of descent. The flow dθ/dτ = −∇L(θ) covers them in
some hundred steps, because the error control lets the step grow in proportion to τ: the rows are evenly
spread in ln τ. Method: Bogacki and Shampine's 3(2) pair, error measured by neuron against the weight's norm.

What happens to the initial scale in the limit. Descent with σ_w = ρ η and η → 0 has weights of order η after
any fixed number of steps: the initialisation vanishes with η and leaves only the activation pattern of its
direction. So a run in the limit starts with a few literal descent steps of its own η, on which the patterns
of Lemma B.1 can be read, and goes on as flow from there. With the literal σ_w = √(η k^−5) ≫ η the initial
weights are what they are, and the flow starts from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.core.errors import require
from featscope.dynamics.trajectory import Step

#: dθ/dτ: from weights and biases to (C, dw, db), the coefficients with which the data enter and the
#: directions.
Field = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]

_GROW, _SHRINK, _SAFETY = 4.0, 0.2, 0.9


class Flow(NamedTuple):
    """The state: weights, biases, summed coefficients, the time τ and the next step's size, and how many
    fields were evaluated."""

    w: Tensor
    b: Tensor
    c: Tensor
    time: Tensor
    size: Tensor
    calls: Tensor


def begin(w: Tensor, b: Tensor, c: Tensor, time: float, size: float) -> Flow:
    """The state at τ = ``time`` with a first step of ``size``."""
    zero = torch.zeros((), dtype=torch.float64)
    return Flow(w, b, c, zero + time, zero + size, zero.clone())


def _add(
    state: Flow, terms: list[tuple[float, tuple[Tensor, Tensor, Tensor]]]
) -> tuple[Tensor, Tensor, Tensor]:
    w, b, c = state.w, state.b, state.c
    for factor, (dc, dw, db) in terms:
        w, b, c = w + factor * dw, b + factor * db, c + factor * dc
    return w, b, c


def _error(state: Flow, stages: list[tuple[Tensor, Tensor, Tensor]], h: float, w: Tensor) -> float:
    """The largest neuron-wise error of the embedded pair, relative to the neuron's norm."""
    weights = (-5 / 72, 1 / 12, 1 / 9, -1 / 8)
    wrong = torch.zeros_like(w)
    for factor, (_, dw, _) in zip(weights, stages):
        wrong += h * factor * dw
    norms = torch.maximum(torch.linalg.vector_norm(w, dim=-1), torch.linalg.vector_norm(state.w, dim=-1))
    return float((torch.linalg.vector_norm(wrong, dim=-1) / norms.clamp(min=1e-300)).max())


def flow_step(field: Field, end: float, tolerance: float) -> Step[Flow]:
    """One accepted step; none goes beyond ``end``, after which the state rests."""
    require(
        0 < tolerance < 1,
        "tolerance must lie between 0 and 1",
        f"tolerance={tolerance}",
        "use for example 0.001",
    )

    known: dict[str, tuple[Tensor, tuple[Tensor, Tensor, Tensor]]] = {}

    def field_at(state: Flow) -> tuple[tuple[Tensor, Tensor, Tensor], int]:
        # The last stage of an accepted step is the first of the next: the same weights, so the same field.
        held = known.get("last")
        if held is not None and held[0] is state.w:
            return held[1], 0
        return field(state.w, state.b), 1

    def step(state: Flow, t: int) -> Flow:
        left = end - float(state.time)
        if left <= 1e-12 * end:
            return state
        first, asked = field_at(state)
        calls, h = state.calls + asked, min(float(state.size), left)
        while True:
            second = field(*_add(state, [(h / 2, first)])[:2])
            third = field(*_add(state, [(3 * h / 4, second)])[:2])
            w, b, c = _add(state, [(2 * h / 9, first), (h / 3, second), (4 * h / 9, third)])
            fourth = field(w, b)
            calls = calls + 3
            error = _error(state, [first, second, third, fourth], h, w)
            change = min(_GROW, max(_SHRINK, _SAFETY * (tolerance / max(error, 1e-300)) ** (1 / 3)))
            if error <= tolerance:
                known["last"] = (w, fourth)
                return Flow(w, b, c, state.time + h, torch.as_tensor(h * change, dtype=torch.float64), calls)
            h *= change

    return step


def finished(end: float) -> Callable[[Flow, int], bool]:
    """Whether the flow has reached ``end``."""
    return lambda state, t: float(state.time) >= end * (1 - 1e-9)
