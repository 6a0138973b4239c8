"""A copy of a network whose steps have a slope: rounding, signs and `detach` pass gradients on as if they
were not there (straight-through, after Athalye, Carlini and Wagner 2018).

Its outputs are the network's own, so what is found with its gradients fools the network, and is tried on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from featscope.attacks.mode import in_mode
from featscope.core.errors import BadInput
from featscope.core.linearise import Model, linearise
from featscope.core.losses import MARGIN
from featscope.nets.fold import evenly, freeze

#: share of the examples without gradient beyond which a network is searched through such a copy
BLIND = 0.05
#: examples whose gradient is looked at
SAMPLE = 16
STEPS = frozenset(
    function
    for name in ("round", "floor", "ceil", "trunc", "fix", "sign", "sgn")
    for home in (torch, Tensor)
    if (function := getattr(home, name, None)) is not None
)
CUTS = frozenset({torch.detach, Tensor.detach})


class _Pass(torch.autograd.Function):
    """The value of a step, with the gradient of what it was a step of."""

    @staticmethod
    def forward(ctx: Any, given: Tensor, value: Tensor) -> Tensor:
        """The value."""
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """The gradient goes on as it came."""
        return gradients[0], None


class _Sloped(TorchFunctionMode):
    """Steps with slope 1, and nothing cut off."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in CUTS:
            return args[0]
        value = func(*args, **(kwargs or {}))
        if func in STEPS and isinstance(value, Tensor) and value.is_floating_point():
            return _Pass.apply(args[0], value)  # type: ignore[no-untyped-call]
        return value


class StraightThrough(nn.Module):
    """A frozen copy of a network with such steps."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = freeze(network)

    def forward(self, x: Tensor) -> Tensor:
        """The network's outputs."""
        with _Sloped():
            outputs: Tensor = self.network(x)
        return outputs


def blind(model: Model, x: Tensor) -> Tensor:
    """Which examples have a margin without any gradient; all, where none can be taken."""
    with in_mode(model, "eval"):
        outputs, pull = linearise(model, x)
        try:
            gradient = pull(MARGIN.grad(outputs, outputs.argmax(-1)))
        except BadInput:
            return torch.ones(len(x), dtype=torch.bool, device=x.device)
    return ~(gradient.flatten(1).abs().amax(-1) > 0)


def seeing_copy(model: Model, x: Tensor) -> StraightThrough | None:
    """The copy with straight-through steps, if the network is blind at some of the examples, the copy sees
    there, and its outputs are the network's.
    """
    some = x[evenly(len(x), SAMPLE).to(x.device)]
    if not isinstance(model, nn.Module) or float(blind(model, some).double().mean()) <= BLIND:
        return None
    try:
        copy = StraightThrough(model)
        with in_mode(model, "eval"), torch.no_grad():
            same = torch.equal(copy(some), model(some))
        better = same and float(blind(copy, some).double().mean()) <= BLIND
    except Exception:
        # A network that cannot be copied, or whose own code does not run so, is searched as it is.
        return None
    return copy if better else None
