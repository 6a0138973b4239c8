"""A network of fine labels read as a classifier of groups (FA §4.2 and §6.2), and two ways to attack it.

FA subtracts the summed probabilities of the negative classes from those of the positive ones. Their sign is
that of S_+ − S_− with S_g = log Σ_{j∈g} e^{F_j}, because all probabilities share one denominator; S has
gradients where the difference of probabilities has saturated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from featscope.core.errors import require
from featscope.core.linearise import Pullback, linearise
from featscope.core.losses import CROSS_ENTROPY
from featscope.images.groupings import Grouping

Decision = Literal["sum", "largest"]


class ReadOut(nn.Module):
    """One score for each group of classes: log Σ_{j∈g} e^{F_j} (`sum`, FA's rule) or max_{j∈g} F_j
    (`largest`: the group of the predicted class).
    """

    def __init__(self, net: nn.Module, groups: Grouping, decision: Decision = "sum") -> None:
        super().__init__()
        require(
            decision in ("sum", "largest"), "a read-out is sum or largest", f"decision={decision}", "use sum"
        )
        top, classes = (
            max(c for part in groups.parts for c in part),
            getattr(getattr(net, "head", None), "out_features", None),
        )
        require(
            classes is None or top < classes,
            "the groups name a class that the network has not",
            f"class {top}",
            "use another grouping",
        )
        self.net, self.groups, self.decision = net, groups, decision
        self.training = net.training

    def scores(self, outputs: Tensor) -> Tensor:
        """Group scores (N, groups) of the network's outputs (N, classes)."""
        parts = [outputs[..., list(part)] for part in self.groups.parts]
        return torch.stack(
            [part.logsumexp(-1) if self.decision == "sum" else part.amax(-1) for part in parts], -1
        )

    def forward(self, x: Tensor) -> Tensor:
        """Group scores, to be used as the logits of the coarse labels."""
        return self.scores(self.net(x))


@dataclass(frozen=True, eq=False)
class OwnLoss:
    """The read-out with the input gradient of the network's own cross-entropy for the fine class ``label``.

    An attack on it climbs the loss that the network was trained with, and is judged by the read-out at every
    iterate. The objective of the attack is not used. All examples must be of the class ``label``, so a batch
    of several classes is attacked class by class.
    """

    readout: ReadOut
    label: int

    def __call__(self, x: Tensor) -> Tensor:
        """Group scores."""
        scores: Tensor = self.readout(x)
        return scores

    def linearise(self, x: Tensor) -> tuple[Tensor, Pullback]:
        """Group scores, and a pull that ignores its cotangent: it returns the gradient of the own
        cross-entropy.
        """
        outputs, pull = linearise(self.readout.net, x)
        y = torch.full(outputs.shape[:-1], self.label, dtype=torch.int64, device=outputs.device)
        return self.readout.scores(outputs), lambda _: pull(CROSS_ENTROPY.grad(outputs, y))
