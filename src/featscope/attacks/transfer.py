"""An attack on one network whose perturbations are tried on another."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from featscope.attacks.pgd import Attack
from featscope.attacks.threat import Threat
from featscope.core.linearise import Model


@dataclass(frozen=True, eq=False)
class Transfer:
    """What ``attack`` finds on ``target``, whatever network is asked about: for networks whose own gradient
    vanishes where they have memorised."""

    target: Model
    attack: Attack

    @property
    def name(self) -> str:
        """The attack's name."""
        return f"{self.attack.name}, transferred"

    def __call__(self, model: Model, x: Tensor, y: Tensor, threat: Threat, rng: torch.Generator) -> Tensor:
        """The perturbations found on the target."""
        return self.attack(self.target, x, y, threat, rng)
