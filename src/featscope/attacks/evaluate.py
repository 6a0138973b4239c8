"""The evaluator trusts nobody: it re-projects, re-predicts, and counts an example as robust only if every
attack failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from featscope.attacks.mode import in_mode
from featscope.attacks.pgd import Attack
from featscope.attacks.threat import Threat
from featscope.core.errors import require
from featscope.core.linearise import Model
from featscope.core.losses import margin


@dataclass(frozen=True)
class Evaluation:
    """For each example whether it is classified correctly, whether it withstood every attack, and the worst
    perturbation found.
    """

    clean: Tensor
    robust: Tensor
    delta: Tensor
    by: dict[str, float]

    @property
    def accuracy(self) -> float:
        """Share of examples that are correct and withstood every attack."""
        return float(self.robust.double().mean())


def tried(model: Model, x: Tensor, y: Tensor, threat: Threat, delta: Tensor) -> tuple[Tensor, Tensor]:
    """Perturbations put back into the threat, and which of them fool the model: only what the threat contains
    can.
    """
    inside = threat.project(delta, x)
    return inside, threat.contains(inside, x) & ~(margin(model(x + inside), y) > 0)


@torch.no_grad()
def evaluate(
    model: Model, x: Tensor, y: Tensor, threat: Threat, attacks: Sequence[Attack], rng: torch.Generator
) -> Evaluation:
    """Attack the examples that are still robust with each attack in turn.

    A tie counts as wrong: an example is correct only if F_y > F_j for every other class j. ``by`` gives the
    robust accuracy after each attack in turn. A module's modes, buffers and parameters are as they were
    before.
    """
    require(len(y) > 0, "there must be at least one example to evaluate", "0 examples", "give some")
    threat.require_fits(x, y)
    with in_mode(model, "eval"):
        clean = margin(model(x), y) > 0
        robust, delta, by = clean.clone(), torch.zeros_like(x), {}
        for attack in attacks:
            left = robust.nonzero()[:, 0]
            if left.numel():
                found = attack(model, x[left], y[left], threat, rng)
                found, fooled = tried(model, x[left], y[left], threat, found)
                delta[left[fooled]] = found[fooled]
                robust[left[fooled]] = False
            by[attack.name] = float(robust.double().mean())
    return Evaluation(clean, robust, delta, by)
