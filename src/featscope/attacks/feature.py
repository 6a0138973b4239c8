"""Attacks on features: NRF-PGD and RF-PGD of AT A.2, min over the threat of ‖G(X + Δ) − G(X′)‖₂ for an X′ of
the target class.

G is the representation of a reference network: standard-trained for NRF-PGD, adversarially trained for
RF-PGD. The attacked network is not looked at, so the same perturbations are tried on any number of networks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.errors import require, require_at_least
from featscope.core.linearise import Model
from featscope.core.losses import Loss


def feature_distance(target: Tensor) -> Loss:
    """The loss −‖G − target‖₂ of features G (N, ·), with derivative 0 at the target itself, where the norm
    has none.
    """

    def value(features: Tensor, y: Tensor) -> Tensor:
        distance: Tensor = -torch.linalg.vector_norm(features - target, dim=-1)
        return distance

    def grad(features: Tensor, y: Tensor) -> Tensor:
        gap = target - features
        size = torch.linalg.vector_norm(gap, dim=-1, keepdim=True)
        return torch.where(size > 0, gap / size.clamp(min=1e-30), torch.zeros_like(gap))

    return Loss("feature-distance", value, grad)


@dataclass(frozen=True, eq=False)
class FeaturePGD:
    """PGD towards the features of ``target`` images (one for each example) under ``encoder``, the map G."""

    encoder: Model
    target: Tensor
    steps: int = 40
    step_size: float | None = None
    random_start: bool = True
    label: str = "feature"

    def __post_init__(self) -> None:
        require_at_least("steps", self.steps, 1)

    @property
    def name(self) -> str:
        """For example NRF-pgd40."""
        return f"{self.label}-pgd{self.steps}"

    @torch.no_grad()
    def __call__(self, model: Model, x: Tensor, y: Tensor, threat: Threat, rng: torch.Generator) -> Tensor:
        """Return for each example the perturbation whose features are nearest; ``model`` is not looked at."""
        rule = "there must be one target image for each example"
        require(
            len(self.target) == len(x),
            rule,
            f"{len(self.target)} targets, {len(x)} examples",
            "draw one for each",
        )
        goal = feature_distance(self.encoder(self.target).detach())
        attack = PGD(steps=self.steps, step_size=self.step_size, random_start=self.random_start, goal=goal)
        return attack(self.encoder, x, y, threat, rng)


@torch.no_grad()
def target_rate(model: Model, x: Tensor, delta: Tensor, target: Tensor) -> Tensor:
    """Which perturbed examples are classified as their target (the targeted attack's success)."""
    return model(x + delta).argmax(-1) == target
