"""Projected gradient ascent on a loss over a threat, with restarts kept for each example."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from featscope.attacks.ascent import Highest, UntilFooled, ascend, falling, fooling, stepping, through
from featscope.attacks.mode import kept
from featscope.attacks.threat import Threat
from featscope.core.errors import require, require_at_least
from featscope.core.linearise import Model
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
    """The loss F_target − max_{j≠target} F_j: positive where the example is classified as its target."""

    def grad(outputs: Tensor, y: Tensor) -> Tensor:
        return -MARGIN.grad(outputs, target)

    return Loss("towards-target", lambda outputs, y: margin(outputs, target), grad)


def shifted(shift: int) -> Loss:
    """The targeted loss for the class ``shift`` places after the label, so that it follows any choice of
    examples.
    """

    def aim(outputs: Tensor, y: Tensor) -> Loss:
        return targeted((y + shift) % outputs.shape[-1])

    return Loss("targeted-margin", lambda f, y: aim(f, y).value(f, y), lambda f, y: aim(f, y).grad(f, y))


@dataclass(frozen=True)
class PGD:
    """δ ← Π(δ + s·direction(∇loss)), the best of ``restarts`` starts by margin.

    ``step_size`` None lets the step fall linearly from ε to 0, which settles where a fixed step keeps
    circling. With ``every_target`` each wrong class is aimed at in turn. ``stop_early`` leaves an example
    alone once it is fooled, which is all that robust accuracy asks. A ``goal`` replaces the objective: a loss
    of one's own, for example :func:`towards` a class or a distance of features, and the best start is then
    the one with the largest goal.
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
        require(
            plain, "a goal of one's own goes without every_target and stop_early", "both given", "drop one"
        )

    @property
    def name(self) -> str:
        """For example pgd20-margin."""
        return f"pgd{self.steps}-{self.goal.name if self.goal else self.objective}" + (
            "-targets" if self.every_target else ""
        )

    def __call__(
        self,
        model: Model,
        x: Tensor,
        y: Tensor,
        threat: Threat,
        rng: torch.Generator,
        start: Tensor | None = None,
    ) -> Tensor:
        """Return for each example the perturbation of smallest margin among all tries; ``start`` is tried
        first.
        """
        alone, shape = y.dim() == 1 or not self.stop_early, tuple(y.shape)
        require(
            alone, "stop_early works on one batch of examples", f"labels of shape {shape}", "drop stop_early"
        )
        with kept(model), torch.no_grad():
            known = self._known(model, x, y, start)
            best = (UntilFooled if self.stop_early else Highest)(torch.zeros_like(x), known)
            move = stepping(threat, self._sizes(threat))
            for goal in self._goals(model, x):
                look = through(model, goal, self._score)
                for restart in range(self.restarts):
                    first = threat.sample(x, rng) if self.random_start or restart else torch.zeros_like(x)
                    first = threat.project(start, x) if start is not None and restart == 0 else first
                    climbing = best.begin(first, x, y) if isinstance(best, UntilFooled) else (first, x, y)
                    ascend(look, move, climbing[0], self.steps, best, *climbing[1:])
        return best.delta

    def _score(self, outputs: Tensor, y: Tensor) -> Tensor:
        """What is to become large: the goal, or minus the margin."""
        return fooling(outputs, y) if self.goal is None else self.goal.value(outputs, y)

    def _known(self, model: Model, x: Tensor, y: Tensor, start: Tensor | None) -> Tensor:
        """The score at 0 where 0 counts as a try, else −∞.

        What is found must not be below a goal of one's own at 0, and what is wrong as it is needs no attack.
        Elsewhere it cannot matter: for an example that is right at 0 the smallest margin decides, and 0 has
        not fooled it.
        """
        if self.goal is not None or (self.stop_early and start is None):
            return self._score(model(x), y)
        return torch.full(y.shape, -torch.inf, dtype=x.dtype, device=x.device)

    def _goals(self, model: Model, x: Tensor) -> list[Loss]:
        if self.every_target:
            return [shifted(shift) for shift in range(1, model(x).shape[-1])]
        return [self.goal or loss(self.objective)]

    def _sizes(self, threat: Threat) -> Callable[[int], float]:
        size = self.step_size
        return falling(threat.eps, self.steps) if size is None else lambda _: size


#: One step of full size on the margin from the example itself (FGSM for ℓ∞).
ONE_STEP = PGD(MARGIN.name, steps=1, random_start=False)
