"""Projected gradient ascent on a loss over a threat, with restarts kept for each example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from featscope.attacks.threat import Threat
from featscope.core.errors import require_at_least
from featscope.core.losses import MARGIN, Loss, loss, margin, one_hot, own
from featscope.core.pullback import Model, linearise


class Attack(Protocol):
    """A frozen value that looks for a perturbation in a threat."""

    @property
    def name(self) -> str:
        """The attack's name."""
        ...

    def __call__(self, model: Model, x: Tensor, y: Tensor, threat: Threat, rng: torch.Generator) -> Tensor:
        """Return one perturbation for each example."""
        ...


def targeted(target: Tensor) -> Loss:
    """The loss F_target − F_y for a given wrong class: ascending it drives towards that class."""

    def value(outputs: Tensor, y: Tensor) -> Tensor:
        return own(outputs, target) - own(outputs, y)

    def grad(outputs: Tensor, y: Tensor) -> Tensor:
        return one_hot(target, outputs) - one_hot(y, outputs)

    return Loss("targeted-margin", value, grad)


@dataclass(frozen=True)
class PGD:
    """δ ← Π(δ + s·direction(∇loss)), the best of ``restarts`` starts by margin.

    ``step_size`` None lets the step fall linearly from ε to 0, which settles where a fixed step keeps circling. With ``every_target`` each wrong class is aimed at in turn.
    """

    objective: str = "margin"
    steps: int = 20
    step_size: float | None = None
    restarts: int = 1
    random_start: bool = True
    every_target: bool = False

    def __post_init__(self) -> None:
        require_at_least("steps", self.steps, 1)
        require_at_least("restarts", self.restarts, 1)
        loss(self.objective)

    @property
    def name(self) -> str:
        """For example pgd20-margin."""
        return f"pgd{self.steps}-{self.objective}" + ("-targets" if self.every_target else "")

    def __call__(self, model: Model, x: Tensor, y: Tensor, threat: Threat, rng: torch.Generator) -> Tensor:
        """Return for each example the perturbation of smallest margin among all starts, targets and steps."""
        outputs = model(x).detach()
        best, worst = torch.zeros_like(x), margin(outputs, y)
        goals = [loss(self.objective)]
        if self.every_target:
            classes = outputs.shape[-1]
            goals = [targeted((y + shift) % classes) for shift in range(1, classes)]
        for goal in goals:
            for restart in range(self.restarts):
                start = threat.sample(x, rng) if self.random_start or restart else torch.zeros_like(x)
                delta, found = self._ascend(model, x, y, threat, goal, start)
                best, worst = _keep_smaller(best, worst, delta, found)
        return best

    def _ascend(self, model: Model, x: Tensor, y: Tensor, threat: Threat, goal: Loss, delta: Tensor) -> tuple[Tensor, Tensor]:
        best, worst = delta, torch.full(y.shape, torch.inf, dtype=x.dtype, device=x.device)
        for step in range(self.steps + 1):
            outputs, pull = linearise(model, x + delta)
            best, worst = _keep_smaller(best, worst, delta, margin(outputs, y))
            if step < self.steps:
                size = threat.eps * (1 - step / self.steps) if self.step_size is None else self.step_size
                delta = threat.project(delta + size * threat.direction(pull(goal.grad(outputs, y))), x)
        return best, worst


def _keep_smaller(best: Tensor, worst: Tensor, delta: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
    """Keep, example by example, the perturbation with the smaller margin."""
    better = found < worst
    wide = better.view(better.shape + (1,) * (delta.dim() - better.dim()))
    return torch.where(wide, delta, best), torch.where(better, found, worst)


#: One step of full size on the margin from the example itself (FGSM for ℓ∞).
ONE_STEP = PGD(MARGIN.name, steps=1, random_start=False)
