"""Faster copies of networks for evaluation: BatchNorm folded into the convolution before it, parameters frozen, channels last.

In evaluation mode BatchNorm is an affine map, so conv followed by BatchNorm is one convolution. A network that cannot be traced, or
whose copy does not agree with it on an example, is returned as a frozen copy in evaluation mode.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

#: the folded network's logits may differ from the network's by this share of their size (float32 rounding)
AGREEMENT = 1e-4


class Folded(NamedTuple):
    """A copy for evaluation, how many BatchNorms were folded, and why none was, if so."""

    model: nn.Module
    folded: int
    reason: str


def _replace(root: nn.Module, target: str, module: nn.Module) -> None:
    parent, _, name = target.rpartition(".")
    setattr(root.get_submodule(parent), name, module)


def _fuse(traced: fx.GraphModule) -> int:
    """Fold every BatchNorm whose only input is a convolution that nobody else reads; return how many."""
    count = 0
    modules = dict(traced.named_modules())
    uses: dict[object, int] = {}
    for node in traced.graph.nodes:
        if node.op == "call_module":
            uses[node.target] = uses.get(node.target, 0) + 1
    for node in list(traced.graph.nodes):
        if node.op != "call_module" or not isinstance(modules[node.target], nn.BatchNorm2d):
            continue
        before = node.args[0]
        if before.op != "call_module" or len(before.users) > 1 or uses[before.target] > 1 or uses[node.target] > 1:
            continue
        conv, norm = modules[before.target], modules[node.target]
        if not isinstance(conv, nn.Conv2d) or norm.running_mean is None:
            continue
        _replace(traced, before.target, fuse_conv_bn_eval(conv, norm))
        node.replace_all_uses_with(before)
        traced.graph.erase_node(node)
        count += 1
    traced.graph.lint()
    traced.recompile()
    return count


def freeze(model: nn.Module) -> nn.Module:
    """A copy in evaluation mode without gradients for parameters."""
    return copy.deepcopy(model).eval().requires_grad_(False)


def fold(model: nn.Module, example: Tensor) -> Folded:
    """Return a faster copy for evaluation that agrees with ``model`` on ``example``, or a frozen copy; the model stays as it is."""
    plain = freeze(model)
    try:
        traced = fx.symbolic_trace(copy.deepcopy(plain))
        count = _fuse(traced)
        fast = traced.eval().requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        with torch.no_grad():
            slow, quick = plain(example), fast(example)
        gap = float((slow - quick).abs().max() / slow.abs().max().clamp(min=1e-30))
    except Exception as error:
        # Tracing fails in many ways, and each means the same: this network is used as it is.
        return Folded(plain, 0, f"cannot be traced ({type(error).__name__})")
    if not gap <= AGREEMENT:
        return Folded(plain, 0, f"the folded copy differs by {gap:.1e}")
    return Folded(fast, count, "" if count else "no BatchNorm follows a convolution")
