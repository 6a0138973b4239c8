"""The race of AT's two features by the coefficient recursions: many settings side by side along the leading
axis, each with its own law, dimension, radius and step of the attack.

A race of a class is decided when one of its features leaves the polynomial part of the activation, max A ≥
ϱ/α (Lemma D.24's T'_y) or max B ≥ ϱ/β (Lemma D.9's T_y), or when its output reaches log d (Lemma D.10's
T'_y),
which comes first where there are many patches. What is kept is A and B then, and when the attack
began to cancel β (Lemma D.23's T_y). A decided run stands still, so that what is found does not depend on who
else is in the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from featscope.core.rules import CONSTANT
from featscope.dynamics import patch_recursion as co
from featscope.dynamics.patch_events import LOOK, NOT_YET, EventRun, noted, waiting
from featscope.dynamics.patch_observables import own_correlations
from featscope.dynamics.trajectory import Step, trajectory
from featscope.nets.patch_cnn import PatchNetSpec

#: steps between two looks at whether every run is decided
REST = 100


class RaceEvent(IntEnum):
    """What is waited for in each class."""

    #: one of the features reaches its threshold ϱ/α or ϱ/β, or the output log d
    DECIDED = 0
    #: under attack, Σ B^q reaches a third of the value at which the attack cancels β
    CANCELLED = 1


def all_decided(state: EventRun) -> Tensor:
    """Which runs have decided every class."""
    return (state.events[:, RaceEvent.DECIDED, :, 0] != NOT_YET).all(-1)


@dataclass(frozen=True)
class Races:
    """Runs of one network width and activation, each with its own data and dimension; ``clip`` is the attack
    of adversarial training, or none."""

    net: PatchNetSpec
    data: co.Latents
    dims: Tensor
    clip: co.CoefficientClip | None = None

    def velocity(self) -> co.Velocity:
        """What moves the coefficients."""
        if self.clip is None:
            return co.standard_velocity(self.net, self.data)
        return co.adversarial_velocity(self.net, self.data, self.clip)

    def outputs(self, c: co.Coefficients) -> Tensor:
        """F_y at the clean or at the perturbed points, (runs, k)."""
        if self.clip is None:
            out = co.clean_pass(self.net, c, self.data).outputs
        else:
            x = co.perturb(self.net, c, self.data, self.clip)
            out = co.adversarial_pass(self.net, c, self.data, x).outputs
        return torch.diagonal(out, dim1=-2, dim2=-1)

    def reached(self, c: co.Coefficients) -> Tensor:
        """Which events hold now, (runs, events, k)."""
        rho, q = self.net.rho, self.net.q
        a, b = own_correlations(c.u), own_correlations(c.v)
        alpha, beta = self.data.amplitude[..., 0], self.data.amplitude[..., 1]
        arrived = torch.maximum(alpha * a.amax(-1), beta * b.amax(-1)) >= rho
        decided = arrived | (self.outputs(c) >= self.dims.log()[:, None])
        if self.clip is None:
            return torch.stack([decided, torch.zeros_like(decided)], 1)
        size = torch.as_tensor(self.clip.step_size, dtype=torch.float64).expand(len(self.dims))
        cancels = rho ** (q - 1) / (size[:, None] * beta ** (q - 2))
        return torch.stack([decided, b.clamp(min=0).pow(q).sum(-1) >= cancels / CONSTANT], 1)

    def step(self, relative: float) -> Step[EventRun]:
        """One small step of every run that is not decided; events are looked for every ``LOOK`` steps."""
        velocity = self.velocity()

        def step(state: EventRun, t: int) -> EventRun:
            horizon = torch.where(all_decided(state), state.time, torch.inf)
            c = co.small_steps(velocity, relative, horizon)(state.coefficients(), t)
            if (t + 1) % LOOK:
                return EventRun(*c, state.events)
            a, b = own_correlations(c.u).amax(-1), own_correlations(c.v).amax(-1)
            return noted(state, c, self.reached(c), a, b)

        return step

    def run(self, start: co.Coefficients, relative: float, steps: int) -> EventRun:
        """Run every race from ``start`` until it is decided, for at most ``steps`` steps."""
        state = waiting(start, len(RaceEvent), self.data.classes)

        def nothing(state: EventRun, t: int) -> Mapping[str, Tensor | float]:
            return {}

        def over(state: EventRun, t: int) -> bool:
            return bool(all_decided(state).all())

        runs = [{"run": number} for number in range(len(self.dims))]
        return trajectory(
            self.step(relative), state, steps, nothing, REST, runs=runs, stop=over, clocks=("time", "events")
        ).state

    def full_ball_margin(self, c: co.Coefficients, eps: Tensor) -> Tensor:
        """The least F_y − F_j after −ε(u_y + v_y) + ε(u_j + v_j) on every patch, over j ≠ y, (runs, k).

        With features along axes the perturbation has ‖Δ‖∞ = ε: a margin below 0 proves that the network is
        not robust over the full ball; one above proves nothing.
        """
        xu, xv = self.data.coordinates()
        one = torch.eye(self.data.classes, dtype=torch.float64)
        least = torch.full((len(self.dims), self.data.classes), torch.inf, dtype=torch.float64)
        for shift in range(1, self.data.classes):
            other = (self.data.y + shift) % self.data.classes
            push = eps.view(-1, 1, 1, 1) * (one[other] - one[self.data.y])[:, None, :]
            gamma = torch.zeros(*xu.shape[:-1], c.e.shape[-1], dtype=torch.float64)
            out = co.adversarial_pass(
                self.net, c, self.data, co.Perturbed(xu + push, xv + push, gamma)
            ).outputs
            index = torch.stack([self.data.y, other], -1).expand(*out.shape[:-1], 2)
            least = torch.minimum(least, -out.gather(-1, index).diff(dim=-1)[..., 0])
        return least
