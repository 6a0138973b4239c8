"""FA's two-layer ReLU network (§3.2) with fixed second layer, in closed form:

    f(x) = Σ_r a_r ReLU(⟨w_r, x⟩ + b_r),    a_r = ±1/m, the first m neurons positive.

ReLU'(z) = 1{z ≥ 0} as the paper sets it, and sgn(0) = −1. Weights may carry leading axes of independent runs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from featscope.core.errors import require
from featscope.core.linearise import Pullback
from featscope.nets.products import inner_products


class TwoLayer(NamedTuple):
    """The network's parameters: weights (…, N, D), biases (…, N) and the fixed output weights (N,)."""

    w: Tensor
    b: Tensor
    a: Tensor

    @property
    def positive(self) -> Tensor:
        """Mask of the neurons with a_r > 0."""
        return self.a > 0


def output_weights(m: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """(2m,): 1/m for the first m neurons, −1/m for the others."""
    require(m >= 1, "a class needs at least one neuron", f"m={m}", "set m to 1 or more")
    half = torch.full((m,), 1 / m, dtype=dtype)
    return torch.cat([half, -half])


def preactivations(net: TwoLayer, x: Tensor) -> Tensor:
    """(…, n, N): ⟨w_r, x_i⟩ + b_r."""
    return inner_products(x, net.w) + net.b[..., None, :]


def forward(net: TwoLayer, x: Tensor) -> Tensor:
    """(…, n): f(x_i)."""
    return preactivations(net, x).clamp(min=0) @ net.a


def input_gradient(net: TwoLayer, x: Tensor) -> tuple[Tensor, Tensor]:
    """f(x_i) and ∇_x f(x_i)."""
    z = preactivations(net, x)
    return z.clamp(min=0) @ net.a, ((z >= 0) * net.a) @ net.w


def logistic_slope(margin: Tensor) -> Tensor:
    """−ℓ'(q) = 1/(1 + e^q) for ℓ(q) = ln(1 + e^−q)."""
    return torch.sigmoid(-margin)


def point_coefficients(net: TwoLayer, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """C (…, N, n) with −∇_w L = C X / n and −∇_b L = C 1 / n, and the margins q_i = y_i f(x_i) (…, n).

    C_{r,i} = −ℓ'(q_i) · y_i · a_r · 1{⟨w_r, x_i⟩ + b_r ≥ 0} (equations (1)–(3)).
    """
    z = preactivations(net, x)
    q = y * (z.clamp(min=0) @ net.a)
    c = (logistic_slope(q) * y)[..., None] * net.a * (z >= 0)
    return c.mT, q


def logistic_loss(margins: Tensor) -> Tensor:
    """mean ln(1 + e^−q)."""
    return nn.functional.softplus(-margins).mean(-1)


class TwoLayerNet(nn.Module):
    """One network as a module with the two logits (−f/2, f/2): class 1 is y = +1."""

    def __init__(self, net: TwoLayer) -> None:
        super().__init__()
        self.w, self.b = nn.Parameter(net.w.clone()), nn.Parameter(net.b.clone())
        self.a: Tensor
        self.register_buffer("a", net.a.clone())

    @property
    def functional(self) -> TwoLayer:
        """The parameters as a functional network."""
        return TwoLayer(self.w, self.b, self.a)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 2) logits."""
        f = forward(self.functional, x)
        return torch.stack([-f / 2, f / 2], -1)

    def linearise(self, x: Tensor) -> tuple[Tensor, Pullback]:
        """Logits and the map from their cotangents to the input, in closed form."""
        with torch.no_grad():
            f, gradient = input_gradient(self.functional, x)

        def pull(cotangent: Tensor) -> Tensor:
            return ((cotangent[..., 1] - cotangent[..., 0]) / 2)[..., None] * gradient

        return torch.stack([-f / 2, f / 2], -1), pull


def averaging(features: Tensor, signs: Tensor) -> TwoLayer:
    """f_FA (Definition 4.1): |J₊| ReLU⟨μ₊, x⟩ − |J₋| ReLU⟨μ₋, x⟩ with μ_± the mean features of the
    classes."""
    return averaging_with_bias(features, signs, 0.0, 0.0)


def averaging_with_bias(features: Tensor, signs: Tensor, plus: float, minus: float) -> TwoLayer:
    """θ_avg (appendix D.1): ReLU(⟨Σ_{J₊} μ, x⟩ + b₊) − ReLU(⟨Σ_{J₋} μ, x⟩ + b₋), identical neurons merged."""
    w = torch.stack([features[signs > 0].sum(0), features[signs < 0].sum(0)])
    return TwoLayer(w, w.new_tensor([plus, minus]), w.new_tensor([1.0, -1.0]))


def decoupled(features: Tensor, signs: Tensor, d: int) -> TwoLayer:
    """θ_dec (Theorem D.3): Σ_{J₊} ReLU(⟨μ_j, x⟩ − d/2) − Σ_{J₋} ReLU(⟨μ_l, x⟩ − d/2), positive neurons
    first."""
    order = torch.argsort(signs, descending=True, stable=True)
    w = features[order].clone()
    return TwoLayer(w, torch.full_like(signs, -d / 2), signs[order].to(w))


def in_span(net: TwoLayer, x: Tensor) -> tuple[TwoLayer, Tensor, Tensor]:
    """The network and points in an orthonormal basis (rank, D) of the weights' span: same outputs, same ℓ2
    distances to f = 0."""
    basis = span(net.w)
    return TwoLayer(net.w @ basis.mT, net.b, net.a), x @ basis.mT, basis


def span(w: Tensor) -> Tensor:
    """Orthonormal rows that span the rows of ``w``; directions below 1e-13 of the largest singular value are
    rounding."""
    _, size, basis = torch.linalg.svd(w, full_matrices=False)
    kept: Tensor = basis[size > 1e-13 * size.max() * math.sqrt(w.shape[0])]
    return kept
