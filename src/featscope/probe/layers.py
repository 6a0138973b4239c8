"""A network as a list of layers that can be bounded and written down: affine maps, ReLUs and other increasing
activations, pools, sums; and activations of which only the slope is bounded (:mod:`featscope.probe.slopes`).

It is read from a trace of the network and kept only if it gives the network's outputs. What cannot be read so
has no certificate, and the reason is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from featscope.core.errors import FeatscopeError
from featscope.nets.adapters import Cast, OneLogit
from featscope.nets.fold import freeze
from featscope.probe.slopes import SLOPED, slope_of

#: outputs may differ by this share of their size (the layers are float64, the network may be float32)
AGREEMENT = 1e-4
#: activations that increase, with derivatives that fall with the distance from 0 or are piecewise constant
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": functional.softplus,
}


class Unreadable(FeatscopeError):
    """The network is none of these layers; the message says why."""


@dataclass(frozen=True, eq=False)
class Layer:
    """One map: its kind, the numbers of the values it reads (0 is the input, k + 1 the result of layer k),
    its arrays and its sizes."""

    kind: str
    reads: tuple[int, ...]
    arrays: Mapping[str, Tensor] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def affine(self) -> bool:
        """Whether it is an affine map of one value."""
        return self.kind in ("linear", "conv", "scale", "average", "reshape")

    def __call__(self, *values: Tensor) -> Tensor:
        """The layer's result."""
        if self.kind == "add":
            return values[0] + values[1]
        if self.kind == "relu":
            return values[0].clamp(min=0)
        if self.kind == "max":
            pooled: Tensor = functional.max_pool2d(values[0], **self.options)
            return pooled
        if self.kind in ACTIVATIONS:
            return ACTIVATIONS[self.kind](values[0])
        if self.kind in SLOPED:
            return SLOPED[self.kind].function(values[0], **self.options)
        return self.linear_part(values[0]) + self.constant(values[0])

    def constant(self, like: Tensor) -> Tensor:
        """The result at 0, for one example."""
        bias = self.arrays.get("bias")
        if bias is None:
            return torch.zeros((), dtype=like.dtype)
        return bias.view(1, -1, 1, 1) if self.kind == "conv" else bias

    def linear_part(self, value: Tensor, absolute: bool = False) -> Tensor:
        """The map without its constant; ``absolute`` with the absolute weights."""
        weight = self.arrays.get("weight")
        if weight is not None and absolute:
            weight = weight.abs()
        if self.kind == "reshape":
            return value.reshape(len(value), *self.options["shape"])
        if self.kind == "average":
            return functional.avg_pool2d(value, **self.options)
        assert weight is not None
        if self.kind == "linear":
            return functional.linear(value, weight)
        if self.kind == "conv":
            return functional.conv2d(value, weight, **self.options)
        return value * weight


def layer_values(layers: list[Layer], x: Tensor) -> list[Tensor]:
    """The input and the result of each layer, in double precision."""
    values = [x.double()]
    for layer in layers:
        values.append(layer(*(values[read] for read in layer.reads)))
    return values


@torch.no_grad()
def layers_of(network: nn.Module, x: Tensor) -> list[Layer]:
    """The network's layers, or :class:`Unreadable` with the reason."""
    some = x[:4]
    layers = _read(network, some)
    expected = network(some).double()
    gap = (layer_values(layers, some)[-1] - expected).abs().max() / expected.abs().max().clamp(min=1e-30)
    if not float(gap) <= AGREEMENT:
        raise Unreadable(f"its layers as read give other outputs ({float(gap):.1e} apart)")
    return layers


def _read(network: nn.Module, x: Tensor) -> list[Layer]:
    if isinstance(network, OneLogit):
        inner = _read(network.net, x)
        flat = Layer("reshape", (len(inner),), {}, {"shape": [1]})
        spread = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
        return [*inner, flat, Layer("linear", (len(inner) + 1,), {"weight": spread})]
    if isinstance(network, Cast) and network.dtype in (torch.float32, torch.float64):
        return _read(network.net, x.to(network.dtype))
    try:
        traced = fx.symbolic_trace(freeze(network))
    except Exception as error:
        raise Unreadable(f"it cannot be traced ({type(error).__name__})") from None
    reader = _Reader(traced, x)
    try:
        reader.run(x)
    except Unreadable as error:
        # The interpreter adds the place in the trace; the reason is the first line.
        raise Unreadable(str(error).splitlines()[0]) from None
    except Exception as error:
        first = (str(error).splitlines() or [""])[0][:80]
        raise Unreadable(f"a layer of it cannot be read ({type(error).__name__}: {first})") from None
    return reader.layers


class _Reader(fx.Interpreter):
    """Runs the trace on a few examples and writes down what is done to them. A value that depends on the
    examples is known by its place in the list."""

    def __init__(self, traced: fx.GraphModule, x: Tensor) -> None:
        super().__init__(traced)
        self.layers: list[Layer] = []
        self.places: dict[int, int] = {id(x): 0}
        self.held: list[Any] = [x]

    def run_node(self, n: fx.Node) -> Any:
        """One node: its value, and what layer it is."""
        value = super().run_node(n)
        if n.op in ("placeholder", "get_attr") or not isinstance(value, Tensor):
            if n.op == "placeholder":
                self._name(value, 0)
            return value
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op == "output" or not any(self._place(a) is not None for a in [*args, *kwargs.values()]):
            return value
        # Two nodes must not share a tensor: dropout in evaluation, for one, returns its input.
        value = value.clone()
        target = self.fetch_attr(str(n.target)) if n.op == "call_module" else n.target
        self._note(target, args, kwargs, value)
        return value

    def _place(self, value: Any) -> int | None:
        return self.places.get(id(value)) if isinstance(value, Tensor) else None

    def _name(self, value: Tensor, place: int) -> None:
        self.places[id(value)] = place
        self.held.append(value)

    def _note(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: Tensor) -> None:
        name = _name_of(target)
        reads = [place for a in [*args, *kwargs.values()] if (place := self._place(a)) is not None]
        if name in SAME:
            self._name(value, reads[0])
            return
        for layer in self._layers(name, target, args, kwargs, value, tuple(reads)):
            self.layers.append(layer)
        self._name(value, len(self.layers))

    def _layers(
        self,
        name: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        value: Tensor,
        reads: tuple[int, ...],
    ) -> list[Layer]:
        first = args[0]
        if name in SHAPES and len(value) == len(self.held[0]):
            return [Layer("reshape", reads, {}, {"shape": list(value.shape[1:])})]
        if name in ("relu", "relu_") or name in ACTIVATIONS:
            return [Layer(name.rstrip("_"), reads)]
        if name in ("add", "iadd") and len(reads) == 2 and args[0].shape == args[1].shape:
            return [Layer("add", reads)]
        if name in ("add", "iadd", "sub", "mul", "truediv", "div", "radd", "rsub") and len(reads) == 1:
            return [_scaled(name, args, reads, self._place(first) is not None, value)]
        if name in ("linear", "matmul"):
            return [_linear(target, args, kwargs, reads)]
        if name == "conv2d":
            return [_conv(target, args, kwargs, reads)]
        if name in ("batchnorm1d", "batchnorm2d"):
            return [_batch_norm(target, reads, first)]
        if name in POOLS:
            return [_pool(name, target, args, kwargs, reads, first)]
        if name == "mean" and first.dim() == 4 and value.shape[1:].numel() == first.shape[1]:
            shape = {"shape": list(value.shape[1:])}
            whole = Layer("average", reads, {}, {"kernel_size": list(first.shape[2:])})
            return [whole, Layer("reshape", (len(self.layers) + 1,), {}, shape)]
        known = slope_of(name, target, args, kwargs) if len(reads) == 1 else None
        if known is not None:
            return [Layer(known[0], reads, {}, known[1])]
        raise Unreadable(f"no bound is known for its layer {name}")


#: what returns its input in evaluation mode
SAME = {"dropout", "dropout2d", "identity", "contiguous", "to", "float", "double", "clone", "feature_dropout"}
SHAPES = {"flatten", "view", "reshape", "unflatten", "squeeze", "unsqueeze"}
POOLS = {"avgpool2d", "avg_pool2d", "adaptiveavgpool2d", "adaptive_avg_pool2d", "maxpool2d", "max_pool2d"}


def _name_of(target: Any) -> str:
    if isinstance(target, nn.Module):
        return type(target).__name__.lower()
    if isinstance(target, str):
        return target
    return str(getattr(target, "__name__", target)).lower()


def _double(value: Any) -> Tensor:
    return torch.as_tensor(value).detach().double()


def _scaled(name: str, args: tuple[Any, ...], reads: tuple[int, ...], first: bool, value: Tensor) -> Layer:
    """A sum or product with a constant, entry by entry, as large as one example."""
    other = _double(args[1] if first else args[0])
    one = torch.ones((), dtype=torch.float64)
    if not first and name in ("truediv", "div"):
        raise Unreadable("no bound is known for a division by its values")
    weight, bias = {
        "mul": (other, 0 * other),
        "truediv": (1 / other, 0 * other),
        "div": (1 / other, 0 * other),
        "sub": (one, -other) if first else (-one, other),
        "rsub": (-one, other),
    }.get(name, (one, other))
    shape = (1, *value.shape[1:])
    return Layer("scale", reads, {"weight": weight.expand(shape).clone(), "bias": bias.expand(shape).clone()})


def _linear(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], reads: tuple[int, ...]) -> Layer:
    if len(reads) != 1 or args[0].dim() != 2:
        raise Unreadable("no bound is known for a product of values, or of more than one axis")
    if isinstance(target, nn.Linear):
        weight, bias = target.weight, target.bias
    elif _name_of(target) == "matmul":
        weight, bias = args[1].mT, None
    else:
        weight, bias = args[1], args[2] if len(args) > 2 else kwargs.get("bias")
    return Layer("linear", reads, {"weight": _double(weight), **_bias(bias)})


def _bias(bias: Tensor | None) -> dict[str, Tensor]:
    return {} if bias is None else {"bias": _double(bias)}


def _conv(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], reads: tuple[int, ...]) -> Layer:
    if isinstance(target, nn.Conv2d):
        if target.padding_mode != "zeros" or isinstance(target.padding, str):
            raise Unreadable("no bound is known for its padding")
        sizes = {key: getattr(target, key) for key in ("stride", "padding", "dilation", "groups")}
        weight, bias = target.weight, target.bias
    else:
        named = (
            dict(
                zip(
                    ("input", "weight", "bias", "stride", "padding", "dilation", "groups"), args, strict=False
                )
            )
            | kwargs
        )
        weight, bias = named["weight"], named.get("bias")
        sizes = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
        sizes |= {key: named[key] for key in sizes if key in named}
    return Layer(
        "conv",
        reads,
        {"weight": _double(weight), **_bias(bias)},
        {key: _whole(v) for key, v in sizes.items()},
    )


def _whole(value: Any) -> Any:
    return [int(v) for v in value] if isinstance(value, tuple | list) else int(value)


def _batch_norm(target: Any, reads: tuple[int, ...], x: Tensor) -> Layer:
    if target.running_mean is None:
        raise Unreadable("its BatchNorm has no running statistics")
    mean, spread = _double(target.running_mean), (_double(target.running_var) + target.eps).sqrt()
    scale = _double(target.weight) if target.weight is not None else torch.ones_like(mean)
    shift = _double(target.bias) if target.bias is not None else torch.zeros_like(mean)
    shape = (1, -1, *([1] * (x.dim() - 2)))
    full = (1, *x.shape[1:])
    weight, bias = (scale / spread).view(shape), (shift - mean * scale / spread).view(shape)
    return Layer("scale", reads, {"weight": weight.expand(full).clone(), "bias": bias.expand(full).clone()})


def _pool(
    name: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], reads: tuple[int, ...], x: Tensor
) -> Layer:
    if name.startswith("adaptive"):
        size = target.output_size if isinstance(target, nn.Module) else args[1]
        if size not in (1, (1, 1), [1, 1]):
            raise Unreadable("no bound is known for an adaptive pool to more than one place")
        return Layer("average", reads, {}, {"kernel_size": list(x.shape[2:])})
    keys = ("kernel_size", "stride", "padding")
    if isinstance(target, nn.Module):
        given = {key: getattr(target, key) for key in keys} | {"dilation": getattr(target, "dilation", 1)}
        odd = getattr(target, "ceil_mode", False) or getattr(target, "divisor_override", None)
    else:
        given = dict(zip(("input", *keys), args, strict=False)) | kwargs
        odd = kwargs.get("ceil_mode") or kwargs.get("divisor_override")
    if odd or given.get("dilation", 1) not in (1, (1, 1)):
        raise Unreadable("no bound is known for its pool")
    sizes = {"kernel_size": _whole(given["kernel_size"]), "padding": _whole(given.get("padding", 0))}
    sizes["stride"] = _whole(given.get("stride") or given["kernel_size"])
    return Layer("max" if name.startswith("max") else "average", reads, {}, sizes)
