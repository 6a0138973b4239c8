"""Two classes written as signs: labels ±1 as class indices, and a score as two logits."""

from __future__ import annotations

import torch
from torch import Tensor


def label_index(y: Tensor) -> Tensor:
    """±1 labels as class indices 0, 1."""
    return (y > 0).long()


def two_logits(score: Tensor) -> Tensor:
    """Logits (−f/2, f/2) of a score f: their cross-entropy is the logistic loss log(1 + e^{−yf})."""
    return torch.stack([-score / 2, score / 2], -1)


def share(flags: Tensor) -> Tensor:
    """The share of true entries along the last axis."""
    return flags.double().mean(-1)
