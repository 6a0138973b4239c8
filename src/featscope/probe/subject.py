"""What is probed: a network that gives logits, examples, a threat, and what the user says of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor, nn

from featscope.attacks.threat import Threat


@dataclass(frozen=True, eq=False)
class Subject:
    """A network in evaluation mode with frozen parameters that gives logits (N, K), its test examples,
    training examples where there are any, and the threat.

    ``groups`` has a group index for each class (length K) or for each test example (length N); ``names`` are
    the classes' names; ``reference`` is a network to read features with; ``layer`` names the linear layer
    that is taken for the last, where it is not the last that was registered.
    """

    network: nn.Module
    x: Tensor
    y: Tensor
    eps: float
    norm: str = "Linf"
    bounds: tuple[float, float] | None = (0.0, 1.0)
    train_x: Tensor | None = None
    train_y: Tensor | None = None
    groups: Tensor | None = None
    names: tuple[str, ...] = ()
    reference: nn.Module | None = None
    seed: int = 0
    layer: str | None = None

    @property
    def classes(self) -> int:
        """How many logits there are."""
        return len(self.names)

    @property
    def two_class(self) -> bool:
        """Whether there are two classes."""
        return self.classes == 2

    @cached_property
    def threat(self) -> Threat:
        """The ball of the user's radius within the bounds."""
        return Threat(self.norm, self.eps, event=self.x.dim() - 1, bounds=self.bounds)

    def head(self) -> tuple[str, nn.Linear] | None:
        """The last linear layer with its name, if there is one."""
        linear = [(name, part) for name, part in self.network.named_modules() if isinstance(part, nn.Linear)]
        chosen = [pair for pair in linear if self.layer is None or pair[0].endswith(self.layer)]
        return chosen[-1] if chosen else None
