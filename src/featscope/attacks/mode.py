"""An attack leaves a network as it found it: the mode of every part, its buffers and its parameters, bit for
bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal

import torch
from torch import nn

Mode = Literal["eval", "train"]


@contextlib.contextmanager
def kept(model: object) -> Iterator[None]:
    """Restore modes and buffers afterwards, whatever happened; what is not a module is left alone."""
    if not isinstance(model, nn.Module):
        yield
        return
    modes = [(part, part.training) for part in model.modules()]
    buffers = [(value, value.detach().clone()) for value in model.buffers()]
    # A forward pass may also put another tensor in a buffer's place.
    places = [(part, dict(part._buffers)) for part in model.modules()]
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
        for part, own in places:
            part._buffers.update(own)
        with torch.no_grad():
            for value, before in buffers:
                value.copy_(before)


@contextlib.contextmanager
def in_mode(model: object, mode: Mode) -> Iterator[None]:
    """Run in a mode and restore what was there.

    `eval` is what robustness is counted in, and the default everywhere: BatchNorm uses its running
    statistics. `train` uses the statistics of the batch, as much published training code does during its
    attacks; the running statistics are not moved by it here.
    """
    with kept(model):
        if isinstance(model, nn.Module):
            model.train(mode == "train")
        yield
