"""CGRO's geometry-inspired transferable attack, equation (A), for any target classifier g."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from featscope.attacks.threat import Threat
from featscope.core.errors import require
from featscope.core.linearise import Model, linearise
from featscope.core.signs import label_index, two_logits
from featscope.core.streams import stream
from featscope.laws.signal import SignalLaw


def linear_target(x: Tensor) -> Tensor:
    """The paper's g(X) = ⟨w*, X[signal(X)]⟩ as logits; only the signal patch has a component along w*."""
    along = x[..., 0]
    found = along.abs().argmax(-1, keepdim=True)
    g = along.gather(-1, found)[..., 0]
    return two_logits(g)


@dataclass(frozen=True, eq=False)
class GTA:
    """X − γ g(X)/‖∇g(X)‖ · ∇g(X), brought back into the threat.

    ``printed`` divides by ‖∇g‖ as (A) is printed; ``geometric`` by ‖∇g‖², the step to the tangent plane's
    zero. They agree for a target with unit gradient such as the paper's. The target's score is the difference
    of its two logits.
    """

    target: Model
    gamma: float
    scaling: Literal["printed", "geometric"] = "printed"

    def __post_init__(self) -> None:
        require(self.gamma > 0, "γ must be positive", f"gamma={self.gamma}", "raise gamma")

    @property
    def name(self) -> str:
        """The attack's name."""
        return "gta"

    def __call__(self, model: Model, x: Tensor, y: Tensor, threat: Threat, rng: torch.Generator) -> Tensor:
        """Return the perturbation; it looks at neither model nor label, which makes it transferable."""
        logits, pull = linearise(self.target, x)
        score = logits[..., 1] - logits[..., 0]
        sides = torch.stack([-torch.ones_like(score), torch.ones_like(score)], -1)
        gradient = pull(sides)
        size = gradient.flatten(-threat.event).norm(dim=-1)
        scale = score / size.clamp(min=1e-300) ** (1 if self.scaling == "printed" else 2)
        step = -self.gamma * scale[(...,) + (None,) * threat.event] * gradient
        return threat.project(step, x)


def transferred(x: Tensor, y: Tensor, law: SignalLaw) -> Tensor:
    """The points of (A) at the law's γ with the paper's linear target: what training on (O) is given."""
    attack, threat = GTA(linear_target, 1 - law.residual), Threat("L2", law.radius, 2)
    # (A) draws nothing, so any stream will do.
    return x + attack(linear_target, x, label_index(y), threat, stream(0, "attack"))
