"""Robust accuracy at a list of radii, by bisection of the list for each example.

Who is fooled at a radius is fooled at every larger one, so an attack that fails leaves only the larger radii
to try and one that succeeds only the smaller: an example meets about log₂ of the number of radii attacks, not
one at each radius. It ends between two neighbours of the list: fooled at one, withstanding the attack at the
one below. Further attacks begin there and go down: each has failed at the largest radius at which an example
counts as robust.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from featscope.attacks.copies import Fallen
from featscope.attacks.evaluate import tried
from featscope.attacks.mode import in_mode
from featscope.attacks.pgd import PGD, Attack
from featscope.attacks.square import Square
from featscope.attacks.straight_through import blind
from featscope.attacks.threat import Threat
from featscope.core.errors import require
from featscope.core.linearise import Model
from featscope.core.losses import margin


@dataclass(frozen=True, eq=False)
class AccuracyCurve:
    """Robust accuracy at each radius, and for each example the smallest radius of the list at which it is
    fooled (∞: none; 0: at once).

    ``by`` has the accuracies after each attack in turn. ``warnings`` say what makes the numbers doubtful;
    without any the curve is ``trusted``.
    """

    radii: tuple[float, ...]
    accuracy: tuple[float, ...]
    fooled_at: Tensor
    delta: Tensor
    by: dict[str, tuple[float, ...]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    folded: int = 0

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against the numbers."""
        return not self.warnings


@torch.no_grad()
def robust_curve(
    model: Model,
    x: Tensor,
    y: Tensor,
    threat: Threat,
    radii: Sequence[float],
    attack: PGD,
    rng: torch.Generator,
    batch: int = 500,
) -> AccuracyCurve:
    """One attack at radii that bisect the list.

    A perturbation found at a smaller radius is one at every larger radius, so accuracy never rises.
    """
    require_ascending(radii)
    threat.require_fits(x, y)
    fooled_at, delta = torch.full((len(y),), torch.inf), torch.zeros_like(x)
    with in_mode(model, "eval"):
        for first in range(0, len(y), batch):
            part = slice(first, first + batch)
            search = _Search(
                model, x[part], y[part], threat, _positive(radii), rng, fooled_at[part], delta[part]
            )
            search.bisect(search.begin(), attack)
    return count(radii, Fallen(fooled_at, delta))


@torch.no_grad()
def fall(
    model: Model,
    x: Tensor,
    y: Tensor,
    threat: Threat,
    radii: Sequence[float],
    attacks: Sequence[Attack],
    rng: torch.Generator,
) -> Fallen:
    """Several attacks on one batch: the first bisects a list of radii, each of the others goes down from
    where the last one ended.
    """
    found = Fallen(torch.full((len(y),), torch.inf), torch.zeros_like(x))
    with in_mode(model, "eval"):
        search = _Search(model, x, y, threat, _positive(radii), rng, found.fooled_at, found.delta)
        right = search.begin()
        for place, attack in enumerate(attacks):
            if place == 0 and isinstance(attack, PGD) and len(search.radii) > 1:
                search.bisect(right, attack)
                found.delta[torch.isinf(found.fooled_at).to(x.device)] = 0
            else:
                search.descend(attack)
            found.after[attack.name] = found.fooled_at.clone()
            if place == 0:
                search.look_around()
    return found


def require_ascending(radii: Sequence[float]) -> None:
    """Refuse an empty list, negative radii and any other order."""
    increasing = all(a < b for a, b in zip(radii, list(radii)[1:], strict=False))
    require(
        len(radii) > 0 and min(radii) >= 0 and increasing,
        "radii must be ascending",
        f"{tuple(radii)}",
        "sort them",
    )


def _positive(radii: Sequence[float]) -> list[float]:
    return [radius for radius in radii if radius > 0]


def accuracies(radii: Sequence[float], fooled_at: Tensor) -> tuple[float, ...]:
    """The share of examples that no perturbation within each radius fools."""
    return tuple(float((fooled_at > radius).double().mean()) for radius in radii)


def count(
    radii: Sequence[float], found: Fallen, warnings: Sequence[str] = (), folded: int = 0
) -> AccuracyCurve:
    """The curve of what was found."""
    by = {name: accuracies(radii, after) for name, after in found.after.items()}
    return AccuracyCurve(
        tuple(radii),
        accuracies(radii, found.fooled_at),
        found.fooled_at,
        found.delta,
        by,
        list(warnings),
        folded,
    )


@dataclass
class _Search:
    """The search for one batch; ``fooled_at`` and ``delta`` are filled in."""

    model: Model
    x: Tensor
    y: Tensor
    threat: Threat
    radii: Sequence[float]
    rng: torch.Generator
    fooled_at: Tensor
    delta: Tensor
    #: who has no gradient at all, and is left to a search without
    blind: Tensor | None = None

    def look_around(self) -> None:
        """Who of those that withstood the first attack has no gradient: not at the example, and not at a
        random point of the smallest ball. No climb can move them.
        """
        here = self.threat.with_radius(self.radii[0])
        left = (self.fooled_at > self.radii[0]).nonzero()[:, 0].to(self.x.device)
        self.blind = torch.zeros(len(self.y), dtype=torch.bool)
        if len(left):
            away = here.sample(self.x[left], self.rng.clone_state())
            unseen = blind(self.model, self.x[left]) & blind(self.model, self.x[left] + away)
            self.blind[left.cpu()] = unseen.cpu()

    def begin(self) -> Tensor:
        """Examples that are wrong as they are have radius 0; the others are returned."""
        right = margin(self.model(self.x), self.y) > 0
        self.fooled_at[~right.cpu()] = 0.0
        return right.nonzero()[:, 0]

    def bisect(self, left: Tensor, attack: PGD) -> None:
        """Begin at the middle of the list, from a random start."""
        whole = self.threat.with_radius(1.0)
        self._between(attack, left, 0, len(self.radii), whole.sample(self.x[left], self.rng), 1.0)

    def _between(self, attack: PGD, left: Tensor, low: int, high: int, start: Tensor, size: float) -> None:
        """Examples ``left`` withstood the attack at the radius before ``low`` and were fooled at ``high`` (or
        are beyond the list); ``start`` has radius ``size``.
        """
        if low == high or not len(left):
            return
        middle = (low + high) // 2
        radius = self.radii[middle]
        here, x, y = self.threat.with_radius(radius), self.x[left], self.y[left]
        found, fooled = tried(
            self.model, x, y, here, attack(self.model, x, y, here, self.rng, start * (radius / size))
        )
        # What is kept for an example is the last success, or the last try if there is none: then it was at
        # the largest radius.
        new = fooled | torch.isinf(self.fooled_at[left.cpu()]).to(fooled.device)
        self.delta[left[new]] = found[new]
        self.fooled_at[left[fooled].cpu()] = radius
        self._between(attack, left[fooled], low, middle, found[fooled], radius)
        self._between(attack, left[~fooled], middle + 1, high, found[~fooled], radius)

    def descend(self, attack: Attack) -> None:
        """Attack each example at the largest radius at which it counts as robust, and at the next smaller one
        as long as it falls.
        """
        beyond = torch.inf
        for radius in reversed(self.radii):
            standing = (self.fooled_at > radius) & (self.fooled_at <= beyond)
            if self.blind is not None and not isinstance(attack, Square):
                standing &= ~self.blind
            left = standing.nonzero()[:, 0].to(self.x.device)
            beyond = radius
            if not len(left):
                continue
            here, x, y = self.threat.with_radius(radius), self.x[left], self.y[left]
            found, fooled = tried(self.model, x, y, here, attack(self.model, x, y, here, self.rng))
            self.delta[left[fooled]] = found[fooled]
            self.fooled_at[left[fooled].cpu()] = radius
