"""AT's training attack (§2.5): one ascent step X̃ = X + Clip(η̃ ∇_X L) on a margin loss, with the three
readings of Clip.

It is not a threat: Δ = 0 need not be among what it tries, so robustness against it means being right at X
*and* at X̃.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from featscope.core.balls import Ball, ball
from featscope.core.errors import BadInput, require, require_at_least
from featscope.core.frozen import Value
from featscope.core.losses import OWN_LOGIT, loss, margin
from featscope.nets.patch_cnn import PatchNet

Clip = Literal["coordinate", "patch", "coefficient"]


class PatchTrainingAttack(Value):
    """One step of size ``step_size`` (η̃) on ``objective``, clipped to radius ``eps``.

    `coordinate` clamps every coordinate to [−ε, ε]; `patch` rescales each patch by max(1, ‖z_p‖/ε);
    `coefficient` clips the coefficients of the features and of the initial directions one by one, as Lemma
    D.17 writes it (one-sided: −min{ε, ·}).
    """

    objective: Literal["own-logit", "margin", "cross-entropy"] = "own-logit"
    step_size: float = 1000.0
    eps: float = 1.2
    norm: str = "Linf"
    clip: Clip = "patch"

    def model_post_init(self, context: object) -> None:
        """Refuse negative radii and clips that the norm does not have."""
        require_at_least("step_size", self.step_size, 0.0)
        require_at_least("eps", self.eps, 0.0)
        plain = self.norm == "Linf" or self.clip == "patch"
        require(
            plain, f"the {self.clip} clip is defined for Linf only", f"norm={self.norm}", "use clip=patch"
        )
        ball(self.norm, self.eps)

    @property
    def ball(self) -> Ball:
        """The ball that a clipped patch lies in."""
        return ball(self.norm, self.eps)

    def gradient(self, net: PatchNet, x: Tensor, y: Tensor) -> Tensor:
        """∇_X of the objective; for −F_y only the own class's neurons are visited."""
        if self.objective == OWN_LOGIT.name:
            return net.own_gradient(x, y).neg_()
        outputs, pull = net.linearise(x)
        return pull(loss(self.objective).grad(outputs, y))

    def perturb(self, net: PatchNet, x: Tensor, y: Tensor, directions: Directions | None = None) -> Tensor:
        """Δ = Clip(η̃ ∇_X L)."""
        gradient = self.gradient(net, x, y)
        if self.clip == "patch":
            return self.ball.rescale(gradient, self.step_size)
        z = gradient.mul_(self.step_size)
        if self.clip == "coordinate":
            return z.clamp_(-self.eps, self.eps)
        if directions is None:
            raise BadInput(
                "the coefficient clip needs its directions",
                "directions=None",
                "pass Directions(features, w0)",
            )
        return directions.combine(-(-directions.coefficients(z)).clamp(max=self.eps))


class Directions:
    """The directions of Lemma D.16: the 2k features and the parts P_F^⊥ w_ir(0) of the initial weights.

    Coefficients along them are determined only if they are linearly independent, which needs d ≥ km + 2k.
    """

    def __init__(self, features: Tensor, w0: Tensor) -> None:
        count, d = w0.shape[-3] * w0.shape[-2] + features.shape[-2], features.shape[-1]
        rule = "the coefficient clip needs independent directions, d at least km + 2k"
        require(d >= count, rule, f"d={d}, km+2k={count}", "raise d or lower the width")
        flat = w0.flatten(-3, -2)
        rest = flat - (flat @ features.mT) @ features
        self.features, self.rest = features, rest
        self._dual = torch.linalg.pinv(rest)

    def coefficients(self, z: Tensor) -> Tensor:
        """The coefficients of the patches of z (…, N, P, d) along features and initial directions, (…, N, P,
        2k + km)."""
        along = z @ self.features.mT
        dual = self._dual if self._dual.dim() == 2 else self._dual[:, None]
        return torch.cat([along, (z - along @ self.features) @ dual], -1)

    def combine(self, c: Tensor) -> Tensor:
        """Σ c_j · direction_j."""
        n = self.features.shape[-2]
        rest = self.rest if self.rest.dim() == 2 else self.rest[:, None]
        return c[..., :n] @ self.features + c[..., n:] @ rest


def right_at_both(
    net: PatchNet, x: Tensor, delta: Tensor, y: Tensor, outputs: Tensor | None = None
) -> Tensor:
    """Whether each point is classified correctly at X and at X + Δ (the `training-attack` reading; a tie is
    wrong); ``outputs`` at X, where they are known, are not computed again."""
    clean = net(x) if outputs is None else outputs
    return (margin(clean, y) > 0) & (margin(net(x + delta), y) > 0)
