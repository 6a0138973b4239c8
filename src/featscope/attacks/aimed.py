"""PGD at every wrong class, cheaply: a few steps at each class show which are worth many.

A screening of a few steps at each wrong class ranks them by the margin that it reaches. The best few are
climbed in full, and only for examples that the screening brought anywhere near a wrong class.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from featscope.attacks.ascent import Highest, Seen, UntilFooled, ascend, falling, fooling, stepping
from featscope.attacks.mode import kept
from featscope.attacks.pgd import targeted
from featscope.attacks.threat import Threat
from featscope.core.errors import require_at_least
from featscope.core.linearise import Model, linearise

#: an example is far if what is left of its margin is more than this multiple of how much it fell
FAR = 1.5
#: and at the edge if it is less than this multiple: there other starts may help
EDGE = 0.3


@dataclass(frozen=True)
class Aimed:
    """``screening`` steps at each wrong class, then ``steps`` at the ``finalists`` that came nearest, and
    from two more starts where little is missing; fooled examples are left alone.
    """

    steps: int = 50
    screening: int = 10
    finalists: int = 3

    def __post_init__(self) -> None:
        for name in ("steps", "screening", "finalists"):
            require_at_least(name, getattr(self, name), 1)

    @property
    def name(self) -> str:
        """For example aimed50."""
        return f"aimed{self.steps}"

    def __call__(self, model: Model, x: Tensor, y: Tensor, threat: Threat, rng: torch.Generator) -> Tensor:
        """Return for each example the perturbation of smallest margin among all classes aimed at."""
        with kept(model), torch.no_grad():
            outputs = model(x)
            clean, classes = fooling(outputs, y), outputs.shape[1]
            search = _Aiming(model, x, y, threat, rng, Highest(torch.zeros_like(x), clean.clone()))
            reached = torch.full_like(outputs, -torch.inf)
            for shift in range(1, classes):
                left, target = search.left, (y + shift) % classes
                reached[left, target[left]] = search.at(left, target[left], self.screening)
            best = search.best
            near = -best.score <= FAR * (best.score - clean)
            ranking = reached.argsort(1, descending=True)
            finalists = range(min(self.finalists, classes - 1))
            for place in finalists:
                left = search.left[near[search.left]]
                search.at(left, ranking[left, place], self.steps)
            edge = -best.score <= EDGE * (best.score - clean)
            for place in (*finalists, *finalists):
                left = search.left[edge[search.left]]
                search.at(left, ranking[left, place], self.steps)
        return best.delta


@dataclass
class _Aiming:
    """The search of one batch; ``best`` has minus the smallest margin of each example so far, and where."""

    model: Model
    x: Tensor
    y: Tensor
    threat: Threat
    rng: torch.Generator
    best: Highest

    @property
    def left(self) -> Tensor:
        """Who is not fooled yet."""
        return (self.best.score < 0).nonzero()[:, 0]

    def at(self, left: Tensor, target: Tensor, steps: int) -> Tensor:
        """Climb towards a class each; minus the margin that each reaches."""
        if not len(left):
            return self.best.score[left]
        x, y = self.x[left], self.y[left]
        tried = UntilFooled(torch.zeros_like(x), torch.full_like(self.best.score[left], -torch.inf))
        climbing = tried.begin(self.threat.sample(x, self.rng), x, y, target)
        move = stepping(self.threat, falling(self.threat.eps, steps))
        ascend(self._look, move, climbing[0], steps, tried, *climbing[1:])
        here = Highest(self.best.delta[left], self.best.score[left])
        here(tried.delta, tried.score)
        self.best.delta[left], self.best.score[left] = here.delta, here.score
        return tried.score

    def _look(self, points: Tensor, y: Tensor, target: Tensor) -> Seen:
        goal = targeted(target)
        outputs, pull = linearise(self.model, points)
        return Seen(fooling(outputs, y), lambda: goal.value(outputs, y), lambda: pull(goal.grad(outputs, y)))
