"""What a layer of a network is given, and decisions about groups of its classes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from featscope.core.losses import margin
from featscope.nets.fold import evenly
from featscope.probe.subject import Subject

#: examples that are sent through a network to read a layer's inputs
READ = 5000


@torch.no_grad()
def which_right(network: nn.Module, x: Tensor, y: Tensor, batch: int = 500) -> Tensor:
    """Which examples a network gets right; a tie is wrong."""
    parts = zip(torch.split(x, batch), torch.split(y, batch), strict=True)
    return torch.cat([margin(network(points), own) > 0 for points, own in parts])


class Grouped(nn.Module):
    """One logit for each group of classes: the largest of its classes' logits."""

    groups: Tensor

    def __init__(self, network: nn.Module, groups: Tensor) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("groups", groups)
        self.training = network.training

    def forward(self, x: Tensor) -> Tensor:
        """(N, groups)."""
        outputs = self.network(x)
        inside = [outputs[:, self.groups == group].amax(-1) for group in range(int(self.groups.max()) + 1)]
        return torch.stack(inside, -1)


class HeadInputs(nn.Module):
    """The network up to its last linear layer: x ↦ what that layer is given, (N, ·)."""

    def __init__(self, network: nn.Module, name: str) -> None:
        super().__init__()
        self.network, self.name = network, name
        self.training = network.training

    def forward(self, x: Tensor) -> Tensor:
        """The input of the layer."""
        heard: list[Tensor] = []
        ear = self.network.get_submodule(self.name).register_forward_pre_hook(
            lambda module, inputs: heard.append(inputs[0])
        )
        try:
            self.network(x)
        finally:
            ear.remove()
        return heard[-1].flatten(1)


class Reheaded(nn.Module):
    """A network with another last layer: logits = W·h(x) + b."""

    def __init__(self, features: nn.Module, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.features = features
        self.weight, self.bias = nn.Parameter(weight, False), nn.Parameter(bias, False)
        self.training = features.training

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return nn.functional.linear(self.features(x), self.weight, self.bias)


def head_inputs(subject: Subject) -> tuple[str, nn.Linear, Tensor, Tensor] | None:
    """The last linear layer with its name, its inputs on training examples (test examples if there are none)
    and their labels; None without such a layer."""
    head = subject.head()
    if head is None or head[1].out_features != subject.classes:
        return None
    x, y = (subject.x, subject.y) if subject.train_x is None else (subject.train_x, subject.train_y)
    assert y is not None
    index = evenly(len(y), READ)
    with torch.no_grad():
        found = torch.cat([HeadInputs(subject.network, head[0])(part) for part in torch.split(x[index], 500)])
    return (*head, found, y[index])
