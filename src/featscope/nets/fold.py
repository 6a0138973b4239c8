"""Faster copies of networks for evaluation: BatchNorm folded into the convolution before it, parameters
frozen, channels last.

In evaluation mode BatchNorm is an affine map, so conv followed by BatchNorm is one convolution. Tracing can
lose what a network does: a backward of one's own, a `no_grad`, a hook. So a copy is used only if its outputs
and its input gradients are the network's on the examples at hand; otherwise the network is returned as a
frozen copy in evaluation mode, or as it is where it cannot be copied.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from featscope.core.linearise import linearise

#: the folded network's outputs may differ from the network's by this share of their size (float32 rounding)
AGREEMENT = 1e-4
#: and each example's input gradient by this share of its norm: rounding can move a unit across the kink of a
#: ReLU
GRADIENT_AGREEMENT = 1e-2
#: how many examples are compared, spread evenly over those given
COMPARED = 8


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
        if (
            before.op != "call_module"
            or len(before.users) > 1
            or uses[before.target] > 1
            or uses[node.target] > 1
        ):
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


def evenly(count: int, most: int) -> Tensor:
    """At most ``most`` of the numbers 0 … count − 1, evenly spread and always the same."""
    return torch.linspace(0, max(count - 1, 0), min(count, most)).round().long()


def _hooked(model: nn.Module) -> bool:
    return any(
        part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks
        for part in model.modules()
    )


def _compiled(model: nn.Module) -> bool:
    """Whether a part went through ``torch.compile(part)`` or ``part.compile()``."""
    return any(hasattr(part, "_orig_mod") or part._compiled_call_impl is not None for part in model.modules())


class _Quiet(nn.Module):
    """A traced network that raises its errors without printing its generated code first."""

    def __init__(self, traced: fx.GraphModule) -> None:
        super().__init__()
        self.traced = traced

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.traced.forward(x)
        return outputs


def _gaps(slow: nn.Module, quick: nn.Module, x: Tensor) -> tuple[float, float]:
    """How far outputs and input gradients are apart, relative to their size; the gradient of a fixed random
    combination of the outputs, example by example.
    """
    (outputs, pull), (other, pull_other) = linearise(slow, x), linearise(quick, x)
    weights = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(0)).to(outputs)
    gradient, gradient_other = pull(weights).flatten(1).double(), pull_other(weights).flatten(1).double()
    size = gradient.norm(dim=1)
    apart = (gradient - gradient_other).norm(dim=1)
    # Where the network has no gradient the copy must have none either, up to rounding at the scale of the
    # other examples.
    scale = size.clamp(min=1e-6 * float(size.max())).clamp(min=1e-300)
    return float((outputs - other).abs().max() / outputs.abs().max().clamp(min=1e-30)), float(
        (apart / scale).max()
    )


def _copies(plain: nn.Module) -> tuple[int, list[nn.Module]]:
    """How many BatchNorms were folded, and the copy with channels last and as it is: some networks view their
    activations, which needs plain strides.
    """
    traced = fx.symbolic_trace(copy.deepcopy(plain))
    count = _fuse(traced)
    traced.eval().requires_grad_(False)
    last = copy.deepcopy(traced).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return count, [_Quiet(last), _Quiet(traced)]


def fold(model: nn.Module, examples: Tensor) -> Folded:
    """Return a faster copy for evaluation that agrees with ``model`` on ``examples``, or a frozen copy; the
    model stays as it is.
    """
    if _hooked(model) or _compiled(model):
        return Folded(model, 0, "hooks and compiled networks are used as they are")
    try:
        plain = freeze(model)
    except Exception as error:
        return Folded(model, 0, f"cannot be copied ({type(error).__name__})")
    some = examples[evenly(len(examples), COMPARED).to(examples.device)]
    try:
        count, candidates = _copies(plain)
    except Exception as error:
        # Tracing fails in many ways, and each means the same: this network is used as it is.
        return Folded(plain, 0, f"cannot be traced ({type(error).__name__})")
    reason = ""
    for fast in candidates:
        try:
            value, gradient = _gaps(plain, fast, some)
        except Exception as error:
            reason = reason or f"the folded copy fails ({type(error).__name__})"
            continue
        if value <= AGREEMENT and gradient <= GRADIENT_AGREEMENT:
            return Folded(fast, count, "" if count else "no BatchNorm follows a convolution")
        reason = f"the folded copy differs by {value:.1e} in outputs and {gradient:.1e} in gradients"
    return Folded(plain, 0, reason)
