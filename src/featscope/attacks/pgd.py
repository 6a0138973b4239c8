"""Projected gradient ascent on a loss over a threat, with restarts kept for each example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from featscope.attacks.mode import kept
from featscope.attacks.threat import Threat
from featscope.core.errors import require, require_at_least
from featscope.core.linearise import Model, linearise
from featscope.core.losses import MARGIN, Loss, loss, margin, one_hot, own


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


def towards(target: Tensor) -> Loss:
    """The loss F_target − max_{j≠target} F_j: positive exactly where the example is classified as its target."""

    def grad(outputs: Tensor, y: Tensor) -> Tensor:
        return -MARGIN.grad(outputs, target)

    return Loss("towards-target", lambda outputs, y: margin(outputs, target), grad)


def shifted(shift: int) -> Loss:
    """The targeted loss for the class ``shift`` places after the label, so that it follows any choice of examples."""

    def aim(outputs: Tensor, y: Tensor) -> Loss:
        return targeted((y + shift) % outputs.shape[-1])

    return Loss("targeted-margin", lambda f, y: aim(f, y).value(f, y), lambda f, y: aim(f, y).grad(f, y))


@dataclass(frozen=True)
class PGD:
    """δ ← Π(δ + s·direction(∇loss)), the best of ``restarts`` starts by margin.

    ``step_size`` None lets the step fall linearly from ε to 0, which settles where a fixed step keeps circling. With ``every_target`` each wrong class is aimed at in turn.
    ``stop_early`` leaves an example alone once it is fooled, which is all that robust accuracy asks. A ``goal`` replaces the objective: a loss of one's own,
    for example :func:`towards` a class or a distance of features, and the best start is then the one with the largest goal.
    """

    objective: str = "margin"
    steps: int = 20
    step_size: float | None = None
    restarts: int = 1
    random_start: bool = True
    every_target: bool = False
    stop_early: bool = False
    goal: Loss | None = None

    def __post_init__(self) -> None:
        require_at_least("steps", self.steps, 1)
        require_at_least("restarts", self.restarts, 1)
        loss(self.objective)
        plain = self.goal is None or not (self.every_target or self.stop_early)
        require(plain, "a goal of one's own goes without every_target and stop_early", "both given", "drop one")

    @property
    def name(self) -> str:
        """For example pgd20-margin."""
        return f"pgd{self.steps}-{self.goal.name if self.goal else self.objective}" + ("-targets" if self.every_target else "")

    def __call__(self, model: Model, x: Tensor, y: Tensor, threat: Threat, rng: torch.Generator, start: Tensor | None = None) -> Tensor:
        """Return for each example the perturbation of smallest margin among all starts, targets and steps; ``start`` is tried first."""
        with kept(model), torch.no_grad():
            best, worst = torch.zeros_like(x), torch.full(y.shape, torch.inf, dtype=x.dtype, device=x.device)
            if self.goal is not None or (self.stop_early and start is None):
                # 0 counts as a try where that can matter: nothing found is below a goal of one's own at 0, and what is wrong as it is needs no attack.
                # Elsewhere it cannot: for an example that is right at 0 the smallest margin decides, and 0 has not fooled it.
                worst = self._score(model(x), y)
            goals = [self.goal or loss(self.objective)]
            if self.every_target:
                goals = [shifted(shift) for shift in range(1, model(x).shape[-1])]
            for goal in goals:
                for restart in range(self.restarts):
                    first = threat.sample(x, rng) if self.random_start or restart else torch.zeros_like(x)
                    first = threat.project(start, x) if start is not None and restart == 0 else first
                    delta, found = (self._ascend_some if self.stop_early else self._ascend)(model, x, y, threat, goal, first, worst)
                    best, worst = keep_smaller(best, worst, delta, found)
        return best

    def _score(self, outputs: Tensor, y: Tensor) -> Tensor:
        """What is to become small: the margin, or minus the goal."""
        return margin(outputs, y) if self.goal is None else -self.goal.value(outputs, y)

    def _size(self, step: int, threat: Threat) -> float:
        return threat.eps * (1 - step / self.steps) if self.step_size is None else self.step_size

    def _ascend(
        self, model: Model, x: Tensor, y: Tensor, threat: Threat, goal: Loss, delta: Tensor, known: Tensor
    ) -> tuple[Tensor, Tensor]:
        best, worst = delta, torch.full(y.shape, torch.inf, dtype=x.dtype, device=x.device)
        for step in range(self.steps):
            outputs, pull = linearise(model, x + delta)
            best, worst = keep_smaller(best, worst, delta, self._score(outputs, y))
            delta = threat.project(delta + self._size(step, threat) * threat.direction(pull(goal.grad(outputs, y))), x)
        return keep_smaller(best, worst, delta, self._score(model(x + delta), y))

    def _ascend_some(
        self, model: Model, x: Tensor, y: Tensor, threat: Threat, goal: Loss, delta: Tensor, known: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The same for the examples that are not fooled yet: each leaves the batch at its first wrong prediction."""
        require(y.dim() == 1, "stop_early works on one batch of examples", f"labels of shape {tuple(y.shape)}", "drop stop_early")
        best, worst = delta.clone(), torch.full(y.shape, torch.inf, dtype=x.dtype, device=x.device)
        left = (known > 0).nonzero()[:, 0]
        x, y, delta = x[left], y[left], delta[left]
        for step in range(self.steps + 1):
            if not len(left):
                break
            outputs, pull = linearise(model, x + delta)
            best[left], worst[left] = keep_smaller(best[left], worst[left], delta, margin(outputs, y))
            if step < self.steps:
                moved = threat.project(delta + self._size(step, threat) * threat.direction(pull(goal.grad(outputs, y))), x)
                alive = worst[left] > 0
                left, x, y, delta = left[alive], x[alive], y[alive], moved[alive]
        return best, worst


def keep_smaller(best: Tensor, worst: Tensor, delta: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
    """Keep, example by example, the perturbation with the smaller margin."""
    better = found < worst
    wide = better.view(better.shape + (1,) * (delta.dim() - better.dim()))
    return torch.where(wide, delta, best), torch.where(better, found, worst)


#: One step of full size on the margin from the example itself (FGSM for ℓ∞).
ONE_STEP = PGD(MARGIN.name, steps=1, random_start=False)
