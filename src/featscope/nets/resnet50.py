"""ResNet-50 as Keras publishes it (He et al. 2015): bottleneck blocks whose first 1×1 convolution has the
stride.

    block(x) = ReLU(BN(conv₁ₓ₁ ReLU(BN(conv₃ₓ₃ ReLU(BN(conv₁ₓ₁ x))))) + shortcut(x))

Convolutions have biases. Pixels enter as p − mean in the range 0 … 255, channels in the order blue, green,
red; here the order is red, green, blue, and the first convolution's weights are turned instead. The
representation is the mean over positions of the last block, 2048 numbers, none negative.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from featscope.core.errors import require
from featscope.nets.classifier import REPRESENTATION, GlobalMean, ImageClassifier

#: what is subtracted from red, green and blue in 0 … 255
MEAN, STD = (123.68 / 255, 116.779 / 255, 103.939 / 255), (1 / 255,) * 3
EPSILON = 1e-3
#: blocks of each stage, and channels inside them
BLOCKS, WIDTHS = (3, 4, 6, 3), (64, 128, 256, 512)
EXPAND, CLASSES = 4, 1000


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2)
    return [conv, nn.BatchNorm2d(outputs, eps=EPSILON)]


class Bottleneck(nn.Module):
    """Three convolutions beside a shortcut, which is a convolution where ``change``."""

    def __init__(self, inputs: int, width: int, stride: int, change: bool) -> None:
        super().__init__()
        outputs = EXPAND * width
        self.body = nn.Sequential(
            *_conv(inputs, width, 1, stride),
            nn.ReLU(),
            *_conv(width, width, 3),
            nn.ReLU(),
            *_conv(width, outputs, 1),
        )
        self.shortcut = nn.Sequential(*_conv(inputs, outputs, 1, stride)) if change else nn.Identity()
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """One residual step."""
        out: Tensor = self.relu(self.body(x) + self.shortcut(x))
        return out


def resnet50() -> ImageClassifier:
    """The network, without weights."""
    stages: dict[str, nn.Module] = {
        "stem": nn.Sequential(*_conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    }
    inputs = 64
    for i, (blocks, width) in enumerate(zip(BLOCKS, WIDTHS, strict=True)):
        for j in range(blocks):
            stride = 2 if i > 0 and j == 0 else 1
            stages[f"block{i + 2}{'abcdef'[j]}"] = Bottleneck(inputs, width, stride, j == 0)
            inputs = EXPAND * width
    stages[REPRESENTATION] = GlobalMean()
    return ImageClassifier(stages, inputs, 3, CLASSES, MEAN, STD)


def published_names() -> list[str]:
    """The published names of convolutions and BatchNorms in the order of our layers, then the head."""
    found = ["conv1", "bn_conv1"]
    for i, blocks in enumerate(BLOCKS):
        for j in range(blocks):
            for branch in ("2a", "2b", "2c", *(["1"] if j == 0 else [])):
                place = f"{i + 2}{'abcdef'[j]}_branch{branch}"
                found += [f"res{place}", f"bn{place}"]
    return [*found, "fc1000"]


def _state(layer: nn.Module, owner: str, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What the published tensors of a layer are in ours; kernels are (height, width, in, out)."""
    if isinstance(layer, nn.BatchNorm2d):
        keys = {
            "weight": "gamma",
            "bias": "beta",
            "running_mean": "moving_mean",
            "running_var": "moving_variance",
        }
        return {ours: weights[f"{owner}/{theirs}"] for ours, theirs in keys.items()}
    kernel, bias = weights[f"{owner}/kernel"], weights[f"{owner}/bias"]
    if isinstance(layer, nn.Linear):
        return {"weight": kernel.mT, "bias": bias}
    turned = kernel.permute(3, 2, 0, 1)
    return {"weight": turned.flip(1) if owner == "conv1" else turned, "bias": bias}


def load_published(net: ImageClassifier, weights: Mapping[str, Tensor]) -> None:
    """Put weights with the published names into ``net``; all must fit, none may be left."""
    layers = [m for m in net.modules() if isinstance(m, nn.Conv2d | nn.BatchNorm2d | nn.Linear)]
    rule = "the weights do not fit ResNet-50"
    remedy = "fetch them again: `featscope data fetch resnet-50 --force`"
    owners = published_names()
    have = {name.rpartition("/")[0] for name in weights}
    strange = sorted(have.symmetric_difference(owners))
    require(not strange, rule, f"{len(strange)} layers, first {strange[:1]}", remedy)
    for owner, layer in zip(owners, layers, strict=True):
        state = _state(layer, owner, weights)
        want = {key: tuple(value.shape) for key, value in layer.state_dict().items() if key in state}
        found = {key: tuple(value.shape) for key, value in state.items()}
        require(found == want, rule, f"{owner}: {found} where it has {want}", remedy)
        layer.load_state_dict(state, strict=False)
