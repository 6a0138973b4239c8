"""One arm of `patch-scaling`, all its runs at once: outputs, events, logits, speeds and end states."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from featscope.core.rules import CONSTANT, SAME
from featscope.dynamics import patch_recursion as co
from featscope.dynamics.patch_observables import cross_correlations, own_correlations
from featscope.papers.at.scaling_columns import Curves, Ends
from featscope.papers.at.scaling_ends import Population, end_shares


class Setting(NamedTuple):
    """What one arm needs: q, ε, c0, the data, dimension and ϱ of each run, −∞ for neurons that a run does not
    have (runs, 1, m), clip and velocity."""

    q: int
    eps: float
    c0: float
    data: co.Latents
    dims: Tensor
    rho: Tensor
    absent: Tensor
    clip: co.CoefficientClip | None
    velocity: co.Velocity

    @property
    def activation(self) -> co.Activation:
        """σ̃ of every run."""
        return co.Activation(self.q, self.rho.view(-1, 1, 1, 1, 1))

    def amplitude(self, robust: bool) -> Tensor:
        """α or β of each class, (k)."""
        return self.data.amplitude[:, self.data.robust[0] == robust][:, 0]

    def own(self, t: Tensor) -> Tensor:
        """A or B, (runs, k, m), −∞ where there is no neuron."""
        return own_correlations(t) + self.absent

    def off(self, t: Tensor) -> Tensor:
        """The largest C or D, (runs)."""
        return cross_correlations(t + self.absent[..., None]).amax(-1)

    def all_outputs(self, c: co.Coefficients) -> Tensor:
        """F at the clean or at the perturbed points, (runs, k, k)."""
        if self.clip is None:
            return co.clean_pass(self.activation, c, self.data).outputs
        x = co.perturb(self.activation, c, self.data, self.clip)
        return co.adversarial_pass(self.activation, c, self.data, x).outputs

    def reached(self, c: co.Coefficients) -> Tensor:
        """Which events hold now, (runs, events, k).

        Standard (D.9, D.10): max B ≥ ϱ/β; F_y ≥ log d. Adversarial (D.23 to D.25): Σ B^q = Θ(1/η̃), read as a
        third of ϱ^{q−1}/(η̃ β^{q−2}), the value at which the attack cancels β; max A ≥ ϱ/α; F_y(X̃) ≥ log d.
        """
        rho, q = self.rho[:, None], self.q
        alpha, beta = self.amplitude(True), self.amplitude(False)
        a, b = self.own(c.u), self.own(c.v)
        grown = own_outputs(self.all_outputs(c)) >= self.dims.log()[:, None]
        if self.clip is None:
            return torch.stack([b.amax(-1) >= rho / beta, grown], 1)
        cancelled = rho ** (q - 1) / (self.dims[:, None] ** self.c0 * beta ** (q - 2))
        total = b.clamp(min=0).pow(q).sum(-1) >= cancelled / CONSTANT
        return torch.stack([total, a.amax(-1) >= rho / alpha, grown], 1)

    def logits(self, outputs: Tensor) -> dict[str, Tensor]:
        """1 − logit_y and the range of the other logits, each (runs, k)."""
        y = self.data.y.expand(outputs.shape[:-1])
        own_class = torch.nn.functional.one_hot(self.data.y, self.data.classes).bool()
        others = -co.descent_pull(outputs, y)
        return {
            Curves.residual: -own_outputs(others),
            Curves.other_low: others.masked_fill(own_class, torch.inf).amin(-1),
            Curves.other_high: others.masked_fill(own_class, -torch.inf).amax(-1),
        }

    def rates(self, c: co.Coefficients) -> dict[str, Tensor]:
        """The speeds of A and B in units of Lemma D.8's formula, over neurons in the polynomial part, each
        (runs, k)."""
        q, motion, found, linear = self.q, self.velocity(c), [], []
        for robust, position, speed in ((True, c.u, motion.u), (False, c.v, motion.v)):
            size = self.amplitude(robust)[:, None] * self.own(position) / self.rho[:, None, None]
            amount = self.data.multiplicity[:, self.data.robust[0] == robust]
            unit = amount * self.amplitude(robust)[:, None] * size.clamp(min=0) ** (q - 1) / self.data.classes
            found.append((own_correlations(speed) / unit).masked_fill((size <= 0) | (size > 1), torch.nan))
            linear.append((size > 1).any(-1))
        every = torch.cat(found, -1)
        none = every.isnan().all(-1)
        low, high = every.nan_to_num(torch.inf).amin(-1), every.nan_to_num(-torch.inf).amax(-1)
        return {
            Curves.rate_low: low.masked_fill(none, torch.nan),
            Curves.rate_high: high.masked_fill(none, torch.nan),
            Curves.linear: (linear[0] | linear[1]).double(),
        }

    def ends(self, c: co.Coefficients, horizon: Tensor) -> dict[str, Tensor]:
        """The columns of `Ends`, each (runs, …)."""
        place = Population(self.activation, c, self.data, self.eps)
        return {
            Ends.arrived: (c.time >= horizon * (1 - SAME)).double(),
            Ends.u: self.own(c.u).amax(-1),
            Ends.v: self.own(c.v).amax(-1),
            Ends.off: torch.maximum(self.off(c.u), self.off(c.v)),
            **end_shares(place, self.clip),
        }


def own_outputs(outputs: Tensor) -> Tensor:
    """F_y of the population's point of each class, (runs, k)."""
    return torch.diagonal(outputs, dim1=-2, dim2=-1)
