"""What a probe writes for `featscope verify`: the network as arrays, where it is made of layers that can be
read, and the certified radii."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from featscope.probe.bounds import worth_lines
from featscope.probe.keep import Keep
from featscope.probe.layers import Layer, Unreadable, layers_of
from featscope.probe.lipschitz import only_lipschitz

NETWORK, CERTIFIED = "network", "certified"


def described(layers: list[Layer]) -> dict[str, Any]:
    """Layers as arrays by number and name, and the rest as JSON."""
    arrays = {
        f"{number}.{name}": value
        for number, layer in enumerate(layers)
        for name, value in layer.arrays.items()
    }
    plain = [
        {"kind": layer.kind, "reads": list(layer.reads), "options": dict(layer.options)} for layer in layers
    ]
    return {**arrays, "layers": plain}


def network(keep: Keep) -> None:
    """The network as arrays, or why it is none."""

    def make() -> dict[str, Any]:
        try:
            return described(layers_of(keep.subject.network, keep.subject.x))
        except Unreadable as error:
            return {"layers": None, "reason": str(error)}

    keep.once(NETWORK, make)


def certificates(keep: Keep, index: Tensor, radius: Tensor) -> None:
    """The certified radii with their examples."""
    subject = keep.subject
    proved = (radius > 0).nonzero()[:, 0]
    where = index[proved]

    def make() -> dict[str, Any]:
        arrays = {"x": subject.x[where], "y": subject.y[where], "index": where, "radius": radius[proved]}
        facts = {"norm": subject.norm, "bounds": subject.bounds}
        layers = layers_of(subject.network, subject.x)
        if only_lipschitz(layers):
            return {**arrays, **facts, "by": "Lipschitz"}
        return {**arrays, **facts, "hints": worth_lines(layers, subject.x, subject.norm == "L2")}

    if len(proved):
        keep.once(CERTIFIED, make)
