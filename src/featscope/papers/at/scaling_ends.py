"""What a network given by its coefficients does on the noiseless population, in closed form (AT Theorems D.1
and D.15, Lemmas D.12 to D.14, D.27 and D.28).

On constant amplitudes the population is one point a class: a probability over it is a share of the classes.
Perturbations lie in the span of the features, where the coefficients say all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from featscope.core.losses import margin
from featscope.dynamics import patch_recursion as co
from featscope.nets.activations import smoothed_relu
from featscope.papers.at.scaling_columns import Ends


class Patches(NamedTuple):
    """Points by their coordinates along u and v, each (n, g, k)."""

    u: Tensor
    v: Tensor


class Population(NamedTuple):
    """A batch of networks with the population that they are asked about, at a radius."""

    spec: co.Smoothed
    state: co.Coefficients
    data: co.Latents
    eps: float

    def points(self) -> Patches:
        """X."""
        return Patches(*self.data.coordinates())

    def robust_only(self) -> Patches:
        """D_R: X with its non-robust features replaced by zero (Definition 4.1)."""
        x = self.points()
        return Patches(x.u, torch.zeros_like(x.v))

    def non_robust_only(self) -> Patches:
        """D_NR, likewise."""
        x = self.points()
        return Patches(torch.zeros_like(x.u), x.v)

    def preactivations(self, x: Patches) -> Tensor:
        """⟨w_ir, x_p⟩, (…, n, g, k, m)."""
        along = torch.einsum("ngj,...irj->...ngir", x.u, self.state.u)
        return along + torch.einsum("ngj,...irj->...ngir", x.v, self.state.v)

    def summed(self, z: Tensor) -> Tensor:
        """F of preactivations, (…, n, k)."""
        value = smoothed_relu(z, self.spec.q, self.spec.rho).sum(-1)
        return (value * self.data.multiplicity[..., None]).sum(-2)

    def right(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Whether F_y is above all others, (…, n)."""
        return margin(outputs, y.expand(outputs.shape[:-1])) > 0

    def right_at(self, x: Patches) -> Tensor:
        """The same at points."""
        return self.right(self.summed(self.preactivations(x)), self.data.y)

    def axis(self, label: Tensor) -> Tensor:
        """The unit vector of a class for every patch of a point, (n, 1, k)."""
        return torch.nn.functional.one_hot(label, self.data.classes).to(self.data.amplitude)[:, None, :]

    def targets(self) -> Iterator[Tensor]:
        """Every y' ≠ y, for all points at once."""
        for shift in range(1, self.data.classes):
            yield (self.data.y + shift) % self.data.classes

    def swapped(self, target: Tensor) -> Patches:
        """X + Δ with Theorem 4.3's Δ: −β_p v_y + ε v_y' on the non-robust patches, 0 on the others."""
        x, non_robust = self.points(), (~self.data.robust).to(self.data.amplitude)[..., None]
        return Patches(x.u, self.eps * non_robust * self.axis(target))

    def written(self, x: Patches, target: Tensor) -> Patches:
        """x with −ε u_y + ε u_j on every patch."""
        return Patches(x.u + self.eps * (self.axis(target) - self.axis(self.data.y)), x.v)

    def lowered(self) -> Patches:
        """X with −ε u_y − ε v_y on every patch."""
        x, down = self.points(), self.eps * self.axis(self.data.y)
        return Patches(x.u - down, x.v - down)

    def withstands_writing(self, x: Patches) -> Tensor:
        """Whether a point is right under `written` for every j."""
        return torch.stack([self.right_at(self.written(x, j)) for j in self.targets()]).all(0)

    def certified(self, x: Patches) -> Tensor:
        """Whether F_y at its least is above every F_j at its largest, neuron by neuron over |δ_f| ≤ ε."""
        z = self.preactivations(x)
        reach = self.eps * (self.state.u.abs().sum(-1) + self.state.v.abs().sum(-1))[..., None, None, :, :]
        least, most = self.summed(z - reach), self.summed(z + reach)
        own = torch.nn.functional.one_hot(self.data.y, self.data.classes).bool()
        return self.right(torch.where(own, least, most), self.data.y)

    def at_training_attack(self, clip: co.CoefficientClip | None) -> Tensor:
        """Whether a point is right at X and at the training's X̃; at X alone without an attack."""
        right = self.right_at(self.points())
        if clip is None:
            return right
        x = co.perturb(self.spec, self.state, self.data, clip)
        return right & self.right(
            co.adversarial_pass(self.spec, self.state, self.data, x).outputs, self.data.y
        )


def end_shares(place: Population, clip: co.CoefficientClip | None) -> dict[str, Tensor]:
    """The shares of `Ends`, each (runs)."""
    x, only = place.points(), place.robust_only()
    answers = [
        (target, place.summed(place.preactivations(place.swapped(target)))) for target in place.targets()
    ]
    found = {
        Ends.clean: place.right_at(x),
        Ends.robust_only: place.right_at(only),
        Ends.non_robust_only: place.right_at(place.non_robust_only()),
        Ends.fooled: torch.cat([~place.right(outputs, place.data.y) for _, outputs in answers], -1),
        Ends.targeted: torch.cat([place.right(outputs, target) for target, outputs in answers], -1),
        Ends.training_attack: place.at_training_attack(clip),
        Ends.lowered: place.right_at(place.lowered()),
        Ends.attacked: place.withstands_writing(x),
        Ends.certified: place.certified(x),
        Ends.attacked_robust_only: place.withstands_writing(only),
        Ends.certified_robust_only: place.certified(only),
    }
    return {str(name): good.double().mean(-1) for name, good in found.items()}
