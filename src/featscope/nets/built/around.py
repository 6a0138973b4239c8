"""f_S of CGRO equation (C) around a trained network of several classes.

With ℓ∞ indicators I_i of the training balls, S = Σ I_i, the network's logits z and their mean z̄ over classes,

    f_k = clamp(½ + (z_k − z̄)/2c, 0, 1)        f_S,k = 2c·(ReLU(f_k − S) + Σ_{y_i=k} I_i)

Where S = 0 and |z_k − z̄| ≤ c its differences of logits are the network's. On B(X_i, δ) the indicators of
other classes vanish and S ≥ 1 ≥ f_k, so the own class leads by at least 2c: a certificate that needs the
separation of the training images alone. The indicators are those of the built networks (1 within δ' = δ +
(R − 2δ)/8, 0 from R − δ' on); only pairs of a point and a training image nearer than R − δ' are formed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from featscope.core.errors import require

#: wider than what float32 does to a distance of pixels in [0, 1]
ROUNDING = 1e-5


class BuiltAround(nn.Module):
    """f_S of a network, training images (N, …) with labels, the radius δ, and the separation R of the
    labels; ``scale`` is c."""

    memory: Tensor
    labels: Tensor

    def __init__(
        self, net: nn.Module, x: Tensor, y: Tensor, delta: float, separation: float, scale: float
    ) -> None:
        super().__init__()
        require(
            separation > 2 * delta,
            "f_S needs training images of different labels more than 2δ apart",
            f"R={separation:.4g}, δ={delta:.4g}",
            "lower the radius, or leave out the closest images",
        )
        require(scale > 0, "the scale of the logits must be positive", f"scale={scale}", "raise it")
        self.net, self.scale = net, scale
        self.delta, self.wide = delta, delta + (separation - 2 * delta) / 8
        self.reach = separation - self.wide
        self.register_buffer("memory", x.flatten(1).clone())
        self.register_buffer("labels", y.clone())

    def votes(self, x: Tensor, classes: int) -> Tensor:
        """Σ_{y_i=k} I_i for every class k, (B, k)."""
        flat = x.flatten(1)
        with torch.no_grad():
            apart = torch.cdist(flat, self.memory, p=math.inf)
        point, image = (apart < self.reach).nonzero(as_tuple=True)
        excess = torch.relu((flat[point] - self.memory[image]).abs() - self.wide).sum(-1)
        near = torch.relu(1 - excess / (self.reach - self.wide))
        empty = torch.zeros(len(x), classes, dtype=x.dtype, device=x.device)
        return empty.index_put((point, self.labels[image]), near, accumulate=True)

    @torch.no_grad()
    def certified(self, chunk: int = 500) -> Tensor:
        """For every training image whether f_S is proven right on its whole ball: its own indicator is 1
        there, and those of other labels, at least d − δ away, are 0."""
        own = self.delta <= self.wide - ROUNDING
        proven = []
        for part, labels in zip(
            torch.split(self.memory, chunk), torch.split(self.labels, chunk), strict=True
        ):
            apart = torch.cdist(part, self.memory, p=math.inf)
            other = torch.where(labels[:, None] == self.labels[None, :], math.inf, apart).amin(-1)
            proven.append((other - self.delta >= self.reach + ROUNDING) & own)
        return torch.cat(proven)

    def forward(self, x: Tensor) -> Tensor:
        """The logits f_S,k."""
        z = self.net(x)
        clean = (0.5 + (z - z.mean(-1, keepdim=True)) / (2 * self.scale)).clamp(0, 1)
        votes = self.votes(x, z.shape[-1])
        return 2 * self.scale * (torch.relu(clean - votes.sum(-1, keepdim=True)) + votes)


@torch.no_grad()
def largest_logit(net: nn.Module, x: Tensor) -> float:
    """c: the largest distance of a logit from the mean over classes at these images."""
    z = net(x)
    return float((z - z.mean(-1, keepdim=True)).abs().max())
