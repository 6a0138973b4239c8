"""AT's network (§2.3): F_i(X) = Σ_r Σ_p σ̃(⟨w_ir, x_p⟩).

Weights are (…, k, m, d) and inputs (…, N, P, d), where the leading axes are independent runs. Gradients are
in closed form: ∂F_i/∂w_ir = Σ_p σ̃'(⟨w_ir, x_p⟩) x_p and ∂F_i/∂x_p = Σ_r σ̃'(⟨w_ir, x_p⟩) w_ir.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from featscope.core.errors import require
from featscope.core.frozen import Value
from featscope.core.linearise import Pullback
from featscope.core.settings import setting
from featscope.nets.activations import check_activation, slope_, smoothed_relu, value_, value_and_slope_

#: rows of pre-activations that are formed and summed at a time: they stay in a core's cache
ROWS = 400


@dataclass(frozen=True, eq=False)
class PatchNet:
    """One network, or a batch of independent ones along the leading axes of ``w``."""

    w: Tensor
    q: int = 3
    rho: float = 1.0

    def __post_init__(self) -> None:
        check_activation(self.q, self.rho)
        require(
            self.w.dim() >= 3, "weights have shape (…, k, m, d)", f"{tuple(self.w.shape)}", "reshape them"
        )

    @property
    def classes(self) -> int:
        """k."""
        return int(self.w.shape[-3])

    def run(self, index: int) -> PatchNet:
        """The network of one run."""
        return PatchNet(self.w[index], self.q, self.rho)

    def _flat(self, x: Tensor) -> Tensor:
        fits = x.dim() >= 3 and x.shape[-1] == self.w.shape[-1]
        shape = f"x {tuple(x.shape)}, w {tuple(self.w.shape)}"
        require(
            fits,
            "inputs have shape (…, N, P, d) with the weights' d",
            shape,
            "give patches of the weights' dimension",
        )
        return x.flatten(-3, -2)

    def preactivations(self, x: Tensor) -> Tensor:
        """⟨w_ir, x_p⟩ as (…, N·P, k·m)."""
        return self._flat(x) @ self.w.flatten(-3, -2).mT

    def _by_class(self, t: Tensor, x: Tensor) -> Tensor:
        return t.view(*t.shape[:-2], x.shape[-3], x.shape[-2], self.classes, self.w.shape[-2])

    def __call__(self, x: Tensor) -> Tensor:
        """F(X), (…, N, k)."""
        return self.by_patch(x).sum(-2)

    def by_patch(self, x: Tensor) -> Tensor:
        """What each patch adds to each class, Σ_r σ̃(⟨w_ir, x_p⟩), (…, N, P, k)."""
        if torch.is_grad_enabled() and (x.requires_grad or self.w.requires_grad):
            return self._by_class(smoothed_relu(self.preactivations(x), self.q, self.rho), x).sum(-1)
        flat, w = self._flat(x), self.w.flatten(-3, -2)
        runs = self.w.shape[:-3] if self.w.dim() > 3 else x.shape[:-3]
        flat, w = flat.expand(*runs, -1, -1), w.expand(*runs, -1, -1)
        out = x.new_empty(*runs, flat.shape[-2], self.classes)
        for rows, weights, sums in zip(*(t.reshape(-1, *t.shape[-2:]) for t in (flat, w, out)), strict=True):
            self._sum_up(rows, weights.mT, sums)
        return out.view(*runs, *x.shape[-3:-1], self.classes)

    def _sum_up(self, rows: Tensor, weights: Tensor, out: Tensor) -> None:
        """The same for the rows of one run, some at a time, so that what is formed on the way is read from
        the cache."""
        for some, sums in zip(torch.split(rows, ROWS), torch.split(out, ROWS), strict=True):
            value = value_(some @ weights, self.q, self.rho)
            torch.sum(value.view(len(some), self.classes, -1), -1, out=sums)

    def _value_and_slope(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value, slope = value_and_slope_(self.preactivations(x), self.q, self.rho)
        return self._by_class(value, x).sum(-1).sum(-2), self._by_class(slope, x)

    def linearise(self, x: Tensor) -> tuple[Tensor, Pullback]:
        """F(X) and the map c ↦ Σ_i c_i ∂F_i/∂X."""
        outputs, slope = self._value_and_slope(x)

        def pull(cotangent: Tensor) -> Tensor:
            weighted = (slope * cotangent[..., :, None, :, None]).flatten(-4, -3).flatten(-2)
            return (weighted @ self.w.flatten(-3, -2)).view_as(x)

        return outputs, pull

    def weight_pullback(self, x: Tensor) -> tuple[Tensor, Pullback]:
        """F(X) and the map c ↦ Σ_n Σ_i c_ni ∂F_i(X_n)/∂w. The map may be called once: it reuses its
        memory."""
        outputs, slope = self._value_and_slope(x)

        def pull(cotangent: Tensor) -> Tensor:
            weighted = slope.mul_(cotangent[..., :, None, :, None]).flatten(-4, -3).flatten(-2)
            return (weighted.mT @ self._flat(x)).view_as(self.w)

        return outputs, pull

    def own_gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """∂F_y/∂X. Only the neurons of a point's own class are visited, run by run and class by class."""
        points, weights = x.reshape(-1, *x.shape[-2:]), self.w.reshape(-1, *self.w.shape[-2:])
        group = (y + self.classes * self._numbers(y)).flatten()
        order = None if bool((group[1:] >= group[:-1]).all()) else torch.argsort(group, stable=True)
        grouped = points if order is None else points.index_select(0, order)
        counts = [x.shape[-2] * c for c in torch.bincount(group, minlength=len(weights)).tolist()]
        gradient = torch.empty_like(points)
        # Points of a class lie side by side, so that each class is a slice and nothing is copied.
        slices = (torch.split(t.flatten(0, 1), counts) for t in (grouped, gradient))
        for patches, out, w in zip(*slices, weights, strict=True):
            torch.mm(slope_(patches @ w.mT, self.q, self.rho), w, out=out)
        if order is not None:
            gradient = torch.empty_like(points).index_copy_(0, order, gradient)
        return gradient.view_as(x)

    @staticmethod
    def _numbers(y: Tensor) -> Tensor:
        """The number of each point's run, to be added to its label; 0 for an only run."""
        runs = y.shape[:-1]
        return torch.arange(runs.numel(), device=y.device).view(*runs, 1)

    def module(self) -> nn.Module:
        """One run as an ``nn.Module`` that any torch tool can use."""
        require(
            self.w.dim() == 3,
            "a module is one run",
            f"weights {tuple(self.w.shape)}",
            "pick one with .run(i)",
        )
        return PatchModule(self.w.detach().clone(), self.q, self.rho)


class PatchModule(nn.Module):
    """The network with its weights as a parameter."""

    def __init__(self, w: Tensor, q: int = 3, rho: float = 1.0) -> None:
        super().__init__()
        check_activation(q, rho)
        self.w, self.q, self.rho = nn.Parameter(w), q, rho

    def forward(self, x: Tensor) -> Tensor:
        """F(X), (N, k)."""
        return PatchNet(self.w, self.q, self.rho)(x)


class PatchNetSpec(Value):
    """Width and activation, and the scale σ0 of the Gaussian initialisation."""

    width: int = setting(100, "neurons of each class", letter="m", ge=1)
    q: int = setting(3, "power of the activation below its threshold", letter="q")
    rho: float = setting(1.0, "threshold above which the activation is linear", letter="ϱ")
    sigma_0: float = setting(0.01, "standard deviation of the first weights", letter="σ_0", ge=0)

    def model_post_init(self, context: object) -> None:
        """Refuse what has no network."""
        check_activation(self.q, self.rho)

    def init(self, k: int, d: int, rng: torch.Generator) -> Tensor:
        """w(0) ~ N(0, σ0² I), (k, m, d), float64."""
        return self.sigma_0 * torch.randn(k, self.width, d, generator=rng, dtype=torch.float64)

    def net(self, w: Tensor) -> PatchNet:
        """The network with these weights."""
        return PatchNet(w, self.q, self.rho)
