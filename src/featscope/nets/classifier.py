"""What all image networks share: normalisation inside, stages by name, a representation that can be read at
any of them.

Inputs are images in [0, 1], outputs are logits. The representation G(x) of AT §6.2 is the input of the last
linear layer, named `pooled`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from featscope.core.errors import require, require_at_least, unknown

REPRESENTATION = "pooled"


class Normalise(nn.Module):
    """(x − mean) ÷ std, channel by channel; part of the network, so that threats live in [0, 1]."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        require(
            len(mean) == len(std) and min(std) > 0,
            "normalisation needs one mean and one positive std a channel",
            f"{mean}, {std}",
            "fix",
        )
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).view(1, -1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise.

        The view gives one-channel images plain strides: strides that also read as channels-last send torch's
        CPU convolutions down a path whose weight gradients write out of bounds at widths that are no multiple
        of 8.
        """
        return (x.flatten(1).view(x.shape) - self.mean) / self.std


class ImageClassifier(nn.Module):
    """Normalisation, named stages in order, and a linear head that reads the last stage, `pooled`."""

    def __init__(
        self,
        stages: Mapping[str, nn.Module],
        width: int,
        channels: int,
        classes: int,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        require_at_least("classes", classes, 2)
        require(
            list(stages)[-1:] == [REPRESENTATION],
            "the last stage must be the representation",
            f"{list(stages)}",
            f"name it {REPRESENTATION}",
        )
        self.normalise = Normalise(mean or [0.0] * channels, std or [1.0] * channels)
        self.stages = nn.ModuleDict(stages)
        self.head = nn.Linear(width, classes)

    @property
    def layers(self) -> tuple[str, ...]:
        """The names at which the representation can be read, from the input to the head."""
        return tuple(self.stages)

    def represent(self, x: Tensor, layer: str = REPRESENTATION) -> Tensor:
        """G(x): the output of the stage ``layer``, flattened to (N, ·)."""
        if layer not in self.stages:
            raise unknown("layer", layer, self.layers)
        x = self.normalise(x)
        for name, stage in self.stages.items():
            x = stage(x)
            if name == layer:
                break
        return x.flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.normalise(x)
        for stage in self.stages.values():
            x = stage(x)
        logits: Tensor = self.head(x)
        return logits


class Representation(nn.Module):
    """The map G: a network up to one of its layers, x ↦ (N, ·), as a module of its own.

    Of our networks a layer is a stage, and the module can be traced and folded. Of any other network it is a
    submodule by its name in `named_modules`, whose output is read while the whole network runs.
    """

    def __init__(self, net: nn.Module, layer: str = REPRESENTATION) -> None:
        super().__init__()
        names = (
            net.layers
            if isinstance(net, ImageClassifier)
            else tuple(name for name, _ in net.named_modules() if name)
        )
        if layer not in names:
            raise unknown("layer", layer, names)
        self.net, self.layer = net, layer

    def forward(self, x: Tensor) -> Tensor:
        """G(x)."""
        return self.net.represent(x, self.layer) if isinstance(self.net, ImageClassifier) else self._listen(x)

    def _listen(self, x: Tensor) -> Tensor:
        heard: list[Tensor] = []
        ear = self.net.get_submodule(self.layer).register_forward_hook(
            lambda module, inputs, output: heard.append(output)
        )
        try:
            self.net(x)
        finally:
            ear.remove()
        one = len(heard) == 1 and isinstance(heard[0], Tensor)
        require(
            one,
            "a layer must run once and return a tensor",
            f"{self.layer}: {len(heard)} calls",
            "name another layer",
        )
        return heard[0].flatten(1)


class GlobalMean(nn.Module):
    """The mean over all positions: (N, C, H, W) → (N, C)."""

    def forward(self, x: Tensor) -> Tensor:
        """Average."""
        return x.mean((2, 3))


class GlobalMax(nn.Module):
    """The maximum over all positions: (N, C, H, W) → (N, C)."""

    def forward(self, x: Tensor) -> Tensor:
        """Maximise."""
        return x.amax((2, 3))


def initialise(model: nn.Module, rng: torch.Generator) -> nn.Module:
    """Draw all weights from one stream: He's normal law for convolutions and hidden layers (fan in), zero
    biases, unit normalisation; gain 1 for the projections of attention, and zeros for the places of tokens.

    The last linear layer gets the same law with gain 1, because no ReLU follows it.
    """
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                gain = 1.0 if linears and module is linears[-1] else 2.0
                fan_in = module.weight[0].numel()
                draw = torch.randn(module.weight.shape, generator=rng) * (gain / fan_in) ** 0.5
                module.weight.copy_(draw)
                if module.bias is not None:
                    module.bias.zero_()
            elif isinstance(module, nn.BatchNorm2d | nn.LayerNorm):
                module.reset_parameters()
            elif isinstance(module, nn.MultiheadAttention):
                inputs = module.in_proj_weight
                inputs.copy_(torch.randn(inputs.shape, generator=rng) / inputs.shape[1] ** 0.5)
                module.in_proj_bias.zero_()
    return model
