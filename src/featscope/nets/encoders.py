"""Pretrained image encoders: images in [0, 1] of any size in, embeddings out, with resizing and normalisation
inside.

`efficientnet-lite0` and `resnet-50` are our own networks with the published ImageNet weights; the embedding
is the pooled representation (1280 and 2048 numbers ≥ 0). `clip-vit-b-32` is CLIP's image tower, built by
open_clip where that is installed, with weights from the data folder; its embedding is the projection (512
numbers). No embedding is centred or scaled to unit norm here: that is for the reader of the embeddings to
choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from featscope.core.errors import BadInput, require
from featscope.images.catalogue import CLIP, EFFICIENTNET, RESNET50, encoder
from featscope.images.weights import Tensors, load_weights, open_clip_model
from featscope.nets import resnet50
from featscope.nets.classifier import ImageClassifier, Normalise
from featscope.nets.efficientnet import MEAN, STD, STRIDE, efficientnet_lite0, load_published
from featscope.nets.fold import fold

#: CLIP's own normalisation
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


class Resized(nn.Module):
    """A network behind a bicubic resize to its own side; the overshoot of the cubic is cut off at 0 and 1."""

    def __init__(self, net: nn.Module, side: int) -> None:
        super().__init__()
        self.net, self.side = net, side

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) in [0, 1] → embeddings."""
        if x.shape[1] == 1:
            x = x.expand(-1, 3, -1, -1)
        if x.shape[-2:] != (self.side, self.side):
            size = (self.side, self.side)
            x = nn.functional.interpolate(
                x, size=size, mode="bicubic", align_corners=False, antialias=True
            ).clamp(0, 1)
        embedded: Tensor = self.net(x)
        return embedded


class Represented(nn.Module):
    """A classifier without its head: what it represents at `pooled`."""

    def __init__(self, net: ImageClassifier) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """The representation."""
        return self.net.represent(x)


@dataclass(frozen=True, eq=False)
class Encoder:
    """A frozen network in evaluation mode with all that decides its embeddings: weights' hash, side,
    resizing, normalisation."""

    name: str
    model: nn.Module
    sha256: str
    preprocessing: dict[str, Any]
    width: int
    device: str = "cpu"

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Tensor:
        """(N, width) embeddings of images in [0, 1], on the CPU whatever device computes them."""
        embedded: Tensor = self.model(x.to(self.device))
        return embedded.cpu()


def load_encoder(name: str, side: int | None = None, root: Path | None = None) -> Encoder:
    """The encoder of that name with the weights of the data folder; ``side`` None is the side it was trained
    on."""
    known = encoder(name)
    chosen = known.side if side is None else side
    tensors, sha256 = load_weights(name, root)
    if name == EFFICIENTNET.name:
        rule = f"EfficientNet-Lite0 takes sides that are multiples of {STRIDE}"
        require(
            chosen % STRIDE == 0 and chosen > 0,
            rule,
            f"side={chosen}",
            f"use {known.side}, or another multiple of {STRIDE}",
        )
        model, mean, std = _efficientnet(tensors, chosen), MEAN, STD
    elif name == RESNET50.name:
        model, mean, std = _resnet50(tensors, chosen), resnet50.MEAN, resnet50.STD
    else:
        require(chosen == known.side, "CLIP ViT-B/32 takes one side", f"side={chosen}", f"use {known.side}")
        model, mean, std = _clip(tensors), CLIP_MEAN, CLIP_STD
    how = {"side": chosen, "resize": "bicubic", "mean": list(mean), "std": list(std)}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Encoder(
        name, Resized(model, chosen).eval().requires_grad_(False).to(device), sha256, how, known.width, device
    )


def _efficientnet(tensors: Tensors, side: int) -> nn.Module:
    net = efficientnet_lite0()
    load_published(net, tensors)
    return fold(Represented(net.eval()), torch.full((1, 3, side, side), 0.5)).model


def _resnet50(tensors: Tensors, side: int) -> nn.Module:
    net = resnet50.resnet50()
    resnet50.load_published(net, tensors)
    return fold(Represented(net.eval()), torch.full((1, 3, side, side), 0.5)).model


def _clip(tensors: Tensors) -> nn.Module:
    try:
        tower = open_clip_model().visual
    except Exception as error:
        remedy = "`pip install 'featscope[clip]'`, or choose encoder=efficientnet-lite0"
        raise BadInput("CLIP needs the package open_clip", str(error).splitlines()[0][:120], remedy) from None
    own = {name.removeprefix(CLIP.prefix): t for name, t in tensors.items()}
    want = {name: tuple(t.shape) for name, t in tower.state_dict().items()}
    wrong = sorted(
        name
        for name in {*own, *want}
        if name not in own or name not in want or tuple(own[name].shape) != want[name]
    )
    rule, remedy = (
        "the weights do not fit CLIP ViT-B/32's image tower",
        "name a file in open_clip's form: `--from FILE --unverified --force`",
    )
    require(not wrong, rule, f"{len(wrong)} tensors, first {wrong[:1]}", remedy)
    tower.load_state_dict({name: t.float() for name, t in own.items()})
    return nn.Sequential(Normalise(CLIP_MEAN, CLIP_STD), tower)
