"""A search without gradients over square patches (after Andriushchenko et al. 2020): what it finds, masked
gradients cannot hide. On vectors (N, d) a patch is a run of entries.

ℓ∞: the perturbation is ±ε, one sign for each channel and square; a square is redrawn and kept if the margin
falls. Other norms: a square bump of random signs is added and the sum is projected on the threat, a plainer
search than the published ℓ2 one.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from featscope.attacks.mode import kept
from featscope.attacks.threat import Threat
from featscope.core.errors import require, require_at_least
from featscope.core.linearise import Model
from featscope.core.losses import margin

#: the share of the image that a square covers halves at these shares of the queries
_HALVINGS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
#: in a long search, at these shares of the queries: an example whose margin is still more than so many times
#: what it has fallen is given up. Set after trials (docs/rules-history.md, "The probe's attacks").
_GIVEN_UP = ((0.1, 2.7), (0.2, 1.1), (0.4, 0.25), (0.7, 0.06))


@dataclass(frozen=True)
class Square:
    """``queries`` proposals for each example; ``share`` is the part of the image that the first squares
    cover. A search that finds something is repeated with ``persist`` times the queries on what is left: what
    fools one example of a batch often fools others. A ``race`` gives up examples that fall too slowly.
    """

    queries: int = 500
    share: float = 0.8
    persist: int = 1
    race: bool = False

    def __post_init__(self) -> None:
        require_at_least("queries", self.queries, 1)
        require_at_least("persist", self.persist, 1)
        require(0 < self.share <= 1, "share must be in (0, 1]", f"share={self.share}", "use 0.8")

    @property
    def name(self) -> str:
        """For example square500."""
        return f"square{self.queries}"

    def side(self, query: int, height: int, width: int) -> int:
        """The squares' side, which falls as the search goes on."""
        share = self.share / 2 ** sum(query > h * self.queries for h in _HALVINGS)
        if height == 1:
            run: int = round(share * width)
            return max(1, run)
        return max(1, min(round(math.sqrt(share * height * width)), height, width))

    @torch.no_grad()
    def __call__(self, model: Model, x: Tensor, y: Tensor, threat: Threat, rng: torch.Generator) -> Tensor:
        """Return for each example the perturbation of smallest margin that was tried; fooled examples are
        left alone.
        """
        require(
            x.dim() in (2, 4),
            "squares are drawn on images (N, C, H, W) and on vectors (N, d)",
            f"shape {tuple(x.shape)}",
            "use another attack",
        )
        if x.dim() == 2:
            strip = dataclasses.replace(threat, event=3)
            return self(lambda images: model(images[:, 0, 0]), x[:, None, None], y, strip, rng)[:, 0, 0]
        marks = {round(share * self.queries): times for share, times in _GIVEN_UP} if self.race else {}
        with kept(model):
            best, worst = torch.zeros_like(x), margin(model(x), y)
            left, clean = (worst > 0).nonzero()[:, 0], worst.clone()
            right = len(left)
            if len(left):
                delta = self._stripes(x[left], threat, rng)
                found = margin(model(x[left] + delta), y[left])
                best[left], worst[left] = delta, found
            for query in range(1, self.queries):
                left = left[worst[left] > 0]
                if query in marks:
                    left = left[worst[left] <= marks[query] * (clean - worst)[left]]
                if not len(left):
                    break
                delta = self._propose(best[left], x[left], threat, query, rng)
                found = margin(model(x[left] + delta), y[left])
                better = found < worst[left]
                best[left[better]], worst[left[better]] = delta[better], found[better]
            left = (worst > 0).nonzero()[:, 0]
            if self.persist > 1 and 0 < len(left) < right:
                queries = self.persist * self.queries
                longer = dataclasses.replace(self, queries=queries, persist=1, race=True)
                best[left] = longer(model, x[left], y[left], threat, rng)
        return best

    def _stripes(self, x: Tensor, threat: Threat, rng: torch.Generator) -> Tensor:
        """Vertical stripes of random signs, one for each column and channel."""
        n, channels, _, width = x.shape
        signs = _signs((n, channels, 1, width), rng).to(x).expand_as(x)
        scale = (
            threat.eps
            if math.isinf(threat.ball.p)
            else threat.eps / threat.ball.norm(signs.flatten(1)).view(-1, 1, 1, 1)
        )
        return threat.project(signs * scale, x)

    def _propose(self, delta: Tensor, x: Tensor, threat: Threat, query: int, rng: torch.Generator) -> Tensor:
        n, channels, height, width = x.shape
        side = self.side(query, height, width)
        inside = (
            _window(n, height, min(side, height), rng)[:, None, :, None]
            & _window(n, width, side, rng)[:, None, None, :]
        )
        inside = inside.to(x.device)
        signs = _signs((n, channels, 1, 1), rng).to(x)
        if math.isinf(threat.ball.p):
            return threat.project(torch.where(inside, threat.eps * signs, delta), x)
        bump = inside * signs
        return threat.project(
            delta + threat.eps * bump / threat.ball.norm(bump.flatten(1)).view(-1, 1, 1, 1), x
        )


def _signs(shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    return 2.0 * torch.randint(0, 2, shape, generator=rng) - 1


def _window(n: int, length: int, side: int, rng: torch.Generator) -> Tensor:
    """For each example a window of ``side`` places at a random position, (n, length)."""
    start = torch.randint(0, length - side + 1, (n, 1), generator=rng)
    place = torch.arange(length)[None]
    return (place >= start) & (place < start + side)
