"""Both networks of `image-fine-labels`, of one seed, under every attack that the comparison counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from featscope.attacks.apgd import APGD
from featscope.attacks.copies import Fallen, missed_by_copy, recount
from featscope.attacks.curve import robust_curve
from featscope.attacks.pgd import PGD, Attack
from featscope.attacks.readout import Decision, OwnLoss, ReadOut
from featscope.attacks.square import Square
from featscope.attacks.suite import assess
from featscope.attacks.threat import Threat
from featscope.core.linearise import Model
from featscope.core.losses import margin
from featscope.core.store import Rows
from featscope.core.streams import stream
from featscope.dynamics.image_training import AttackSpec
from featscope.images.datasets import ImageBatch
from featscope.images.groupings import Grouping
from featscope.nets.fold import fold
from featscope.papers.fa.fine_labels_columns import Check


@dataclass(frozen=True, eq=False)
class Duel:
    """Both networks of one seed and the images at which they are attacked."""

    fine: nn.Module
    binary: nn.Module
    groups: Grouping
    data: ImageBatch
    steps: int
    seed: int

    @property
    def coarse(self) -> Tensor:
        """The 2-class labels."""
        return self.groups(self.data.y)

    @cached_property
    def fast(self) -> dict[str, nn.Module]:
        """Folded copies, on which perturbations are searched."""
        return {
            name: fold(net, self.data.x).model.eval()
            for name, net in (("fine", self.fine), ("binary", self.binary))
        }

    def readout(self, decision: Decision = "sum", fast: bool = False) -> ReadOut:
        """The 10-class network as a classifier of groups."""
        return ReadOut(self.fast["fine"] if fast else self.fine, self.groups, decision)

    def threat(self, radius: float = 1.0) -> Threat:
        """Images within an ℓ2 radius, in [0, 1]."""
        return Threat("L2", radius, 3, bounds=(0.0, 1.0))

    def fooled_at(
        self, model: Model, network: Model, chosen: Tensor, radii: Sequence[float], name: str
    ) -> Tensor:
        """The smallest radius at which each chosen image is fooled.

        What is found on a folded copy counts if the network itself is fooled by it.
        """
        x, y = self.data.x[chosen], self.coarse[chosen]
        attack = PGD("margin", self.steps, stop_early=True)

        def look(searched: Model, some: Tensor, tag: str) -> Fallen:
            tags = (name,) if tag == "first" else (name, tag)
            found = robust_curve(
                searched,
                x[some],
                y[some],
                self.threat(),
                radii,
                attack,
                stream(self.seed, "attack", *tags),
                batch=100,
            )
            # A perturbation of float32 may overshoot its radius by rounding, no more.
            inside = found.delta.flatten(1).norm(dim=1) <= found.fooled_at * (1 + 1e-5)
            return Fallen(torch.where(inside, found.fooled_at, torch.inf), found.delta)

        found, _ = recount(network, look(model, torch.arange(len(y)), "first"), x, y)
        _, fault = missed_by_copy(network, model, x, y, found.fooled_at, look)
        if fault:
            found.put(torch.arange(len(y)), look(network, torch.arange(len(y)), "network"))
        return found.fooled_at

    def own_loss(self, radii: Sequence[float]) -> Tensor:
        """The own-loss attack on the 10-class network, class by class."""
        radius = torch.full((len(self.data.y),), torch.inf)
        for label in sorted(set(self.data.y.tolist())):
            chosen = (self.data.y == label).nonzero()[:, 0]
            model = OwnLoss(self.readout(fast=True), label)
            radius[chosen] = self.fooled_at(
                model, OwnLoss(self.readout(), label), chosen, radii, f"own/{label}"
            )
        return radius

    def radii(self, radii: Sequence[float]) -> dict[str, Tensor]:
        """For each attack the radius at which each image falls (∞: none of the list)."""
        everyone = torch.arange(len(self.data.y))
        found = {
            "binary": self.fooled_at(self.fast["binary"], self.binary, everyone, radii, "binary"),
            "fine_own_loss": self.own_loss(radii),
        }
        decisions: dict[str, Decision] = {"fine_readout": "sum", "fine_largest": "largest"}
        for key, decision in decisions.items():
            found[key] = self.fooled_at(
                self.readout(decision, fast=True), self.readout(decision), everyone, radii, key
            )
        return found | {"fine_worst": torch.minimum(found["fine_own_loss"], found["fine_readout"])}

    def last(self, radius: float) -> dict[str, float]:
        """Robust accuracy under standard PGD on each network's own loss, where only the last iterate counts.

        ``fine_last_within`` is the share of images that withstand it because they only moved to a wrong class
        of their own group.
        """
        attack = AttackSpec(norm="L2", eps=radius, steps=self.steps)
        labels = {"binary": self.coarse, "fine": self.data.y}
        outputs: dict[str, list[Tensor]] = {name: [] for name in labels}
        for name, net in (("binary", self.binary), ("fine", self.fine)):
            for i, chosen in enumerate(torch.split(torch.arange(len(self.coarse)), 100)):
                x = self.data.x[chosen]
                moved = x + attack.perturb(
                    self.fast[name], x, labels[name][chosen], 0.0, stream(self.seed, "last", name, i)
                )
                with torch.no_grad():
                    outputs[name].append(net(moved))
        binary, fine = (torch.cat(outputs[name]) for name in labels)
        right = {
            "binary_last": margin(binary, self.coarse) > 0,
            "fine_last": margin(self.readout().scores(fine), self.coarse) > 0,
        }
        right["fine_last_within"] = right["fine_last"] & ~(margin(fine, self.data.y) > 0)
        return {key: float(hits.double().mean()) for key, hits in right.items()}

    def check(self, radius: float, fallen: Mapping[str, Tensor], count: int, queries: int) -> Rows:
        """What APGD on two losses and Square fool of the images that the curves' attacks left robust.

        Among the first ``count`` of a shuffle.
        """
        sample = torch.randperm(len(self.data.y), generator=stream(0, "checked"))[:count]
        rows: Rows = []
        for name, key, model in (
            ("binary", "binary", self.fast["binary"]),
            ("fine", "fine_worst", self.readout(fast=True)),
        ):
            left = sample[fallen[key][sample] > radius]
            row: dict[str, Any] = {Check.net: name, Check.radius: radius, Check.images: len(sample)}
            row |= {Check.left: len(left), Check.fooled: 0, Check.warnings: ""}
            if len(left):
                suite: dict[str, Attack] = {
                    Check.left_after_apgd_entropy: APGD("cross-entropy"),
                    Check.left_after_apgd_margin: APGD("margin"),
                    Check.left_after_square: Square(queries),
                }
                threat, attacks = self.threat(radius), list(suite.values())
                found = assess(
                    model, self.data.x[left], self.coarse[left], threat, attacks, self.seed, fast=False
                )
                judge = self.binary if name == "binary" else self.readout()
                with torch.no_grad():
                    still = margin(judge(self.data.x[left] + found.evaluation.delta), self.coarse[left]) > 0
                shares = {key: found.evaluation.by[attack.name] for key, attack in suite.items()}
                gained = {key: round(share * len(left)) for key, share in shares.items()}
                row |= {
                    Check.fooled: int((~still).sum()),
                    Check.warnings: "; ".join(found.warnings),
                    **gained,
                }
            rows.append(row)
        return rows
