"""Searching on a fast copy without trusting it.

What a copy finds is tried on the network. Of what it does not find a sample is searched on the network too,
from the same starts: if the network shows what its copy hides, the copy is dropped and everything that it did
not settle is searched again on the network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from featscope.attacks.mode import in_mode
from featscope.attacks.straight_through import seeing_copy
from featscope.core.linearise import Model
from featscope.core.losses import margin
from featscope.nets.fold import evenly, fold

#: how many of the examples that a copy does not fool are searched on the network itself
SAMPLE = 16
DROPPED = (
    "the network is fooled where its fast copy is not: the copy was dropped, and the search repeated on the "
    "network"
)


@dataclass(frozen=True, eq=False)
class Fallen:
    """For each example the radius at which it is fooled (0: at once; ∞: not), its perturbation, and the radii
    after each attack in turn.
    """

    fooled_at: Tensor
    delta: Tensor
    after: dict[str, Tensor] = field(default_factory=dict)

    def put(self, chosen: Tensor, found: Fallen) -> None:
        """Take over what was found for the chosen examples where it is smaller."""
        here = chosen.cpu()
        better = found.fooled_at < self.fooled_at[here]
        self.delta[chosen[better.to(chosen.device)]] = found.delta[better.to(found.delta.device)]
        for name, radius in self.after.items():
            radius[here] = torch.minimum(radius[here], found.after.get(name, found.fooled_at))
        self.fooled_at[here] = torch.minimum(self.fooled_at[here], found.fooled_at)


#: search (model, which examples, a name for the random stream)
Search = Callable[[Model, Tensor, str], Fallen]


def fast_copy(model: Model, x: Tensor, fast: bool = True) -> tuple[Model, int]:
    """What is searched, a folded copy of a network or the model as it is, and how many BatchNorms were
    folded. Of a network without gradients it is the copy whose steps have a slope, where there is one.
    """
    if not (fast and isinstance(model, nn.Module)):
        return model, 0
    seeing = seeing_copy(model, x)
    if seeing is not None:
        return seeing, 0
    copy = fold(model, x)
    return copy.model, copy.folded


@torch.no_grad()
def recount(network: Model, found: Fallen, x: Tensor, y: Tensor, batch: int = 500) -> tuple[Fallen, Tensor]:
    """What of it fools the network itself, and which examples the copy judged differently; rounding may
    decide at a tie.
    """
    with in_mode(network, "eval"):
        pieces = zip(
            torch.split(x, batch), torch.split(found.delta, batch), torch.split(y, batch), strict=True
        )
        right = [
            torch.stack([margin(network(a), c) > 0, margin(network(a + d), c) > 0]) for a, d, c in pieces
        ]
    clean, still = torch.cat(right, 1).cpu()
    fooled = torch.isfinite(found.fooled_at)
    differs = clean & ((fooled & still) | (found.fooled_at == 0))

    def judged(radius: Tensor) -> Tensor:
        kept = torch.where(differs, torch.inf, radius)
        return torch.where(clean, kept, 0.0)

    return Fallen(
        judged(found.fooled_at), found.delta, {name: judged(r) for name, r in found.after.items()}
    ), differs


def search(
    network: Model, copy: Model, x: Tensor, y: Tensor, look: Search, probe: Search | None = None
) -> tuple[Fallen, list[str]]:
    """Search on the copy and settle on the network; ``probe`` is the search of the sample, if another."""
    everyone = torch.arange(len(y), device=x.device)
    if copy is network:
        return look(network, everyone, "first"), []
    try:
        found, differs = recount(network, look(copy, everyone, "first"), x, y)
    except RuntimeError:
        # A copy traced on a few examples may not take another number of them.
        return look(network, everyone, "first"), []
    again = differs.nonzero()[:, 0].to(x.device)
    if len(again):
        found.put(again, look(network, again, "again"))
    seen, fault = missed_by_copy(network, copy, x, y, found.fooled_at, probe or look)
    found.put(*seen)
    if not fault:
        return found, []
    left = (found.fooled_at > 0).nonzero()[:, 0].to(x.device)
    found.put(left, look(network, left, "network"))
    return found, [DROPPED]


def missed_by_copy(
    network: Model, copy: Model, x: Tensor, y: Tensor, fooled_at: Tensor, look: Search
) -> tuple[tuple[Tensor, Fallen], bool]:
    """A sample of the examples that fell last, searched on the network: what was found, and whether the same
    search on the copy finds less.
    """
    last = (fooled_at == fooled_at.max()) & (fooled_at > 0) if len(fooled_at) else fooled_at > 0
    left = last.nonzero()[:, 0]
    chosen = left[evenly(len(left), SAMPLE)].to(x.device)
    if not len(chosen):
        return (chosen, Fallen(fooled_at[:0], x[:0])), False
    own = look(network, chosen, "sample")
    theirs, _ = recount(network, look(copy, chosen, "sample"), x[chosen], y[chosen])
    more = int((own.fooled_at < theirs.fooled_at).sum()) > int((theirs.fooled_at < own.fooled_at).sum())
    return (chosen, own), more
