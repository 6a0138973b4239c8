"""How a stranger's network and data become a :class:`~featscope.probe.subject.Subject`: made right where it
is plain what is meant, and said; refused in one line where it is not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from featscope.attacks.admit import admit
from featscope.attacks.mode import in_mode
from featscope.attacks.suite import require_logits
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput, require, require_positive
from featscope.nets.adapters import Called, OneLogit, Picked
from featscope.nets.fold import freeze
from featscope.probe.subject import Subject

#: how many examples decide what a network's outputs are
LOOKED_AT = 64
Bounds = tuple[float, float] | None
#: bounds that are read off the data: [0, 1] for images inside it, none otherwise
AUTO = "auto"


@dataclass(frozen=True)
class Given:
    """What a user gives besides network and examples; ``notes`` collect what was made right on the way."""

    eps: float
    norm: str = "Linf"
    bounds: Bounds | str = AUTO
    train: tuple[Any, Any] | None = None
    groups: Tensor | None = None
    names: Sequence[str] = ()
    layer: str | None = None
    reference: nn.Module | None = None
    seed: int = 0
    notes: list[str] = field(default_factory=list)


@contextlib.contextmanager
def lent(model: Any) -> Iterator[nn.Module]:
    """The network as a frozen copy in evaluation mode; one that cannot be copied is lent and comes back as it
    was, mode, buffers and flags."""
    network = model if isinstance(model, nn.Module) else Called(model)
    try:
        copied = freeze(network)
    except Exception:
        # Copying fails in many ways, and each means the same: this network is used as it is.
        flags = [(parameter, parameter.requires_grad) for parameter in network.parameters()]
        try:
            with in_mode(network, "eval"):
                yield network.requires_grad_(False)
        finally:
            for parameter, flag in flags:
                parameter.requires_grad_(flag)
    else:
        with in_mode(copied, "eval"):
            yield copied


def admitted(network: nn.Module, x: Any, y: Any, given: Given) -> Subject:
    """The subject: logits out, examples as float tensors, labels as class numbers."""
    _finite_weights(network)
    notes = given.notes
    x, y = _examples(x, notes), _labels(y, notes)
    require_positive("eps", given.eps)
    if x.dim() == 4:
        x = _channels_first(network, x, notes)
    network = _logits(network, x, y, notes)
    bounds = _bounds(x, given.bounds)
    threat = Threat(given.norm, given.eps, event=max(x.dim() - 1, 1), bounds=bounds)
    fitting, y = admit(network, x, y, threat)
    assert isinstance(fitting, nn.Module)
    with torch.no_grad():
        outputs = fitting(x[:LOOKED_AT])
    require_logits(outputs)
    train_x, train_y = _train(given.train, x, notes)
    return Subject(
        fitting.eval(), x, y, float(given.eps), given.norm, bounds, train_x, train_y,
        _groups(given.groups, outputs.shape[1], len(y)), _names(given.names, outputs.shape[1]),
        given.reference, given.seed, given.layer,
    )  # fmt: skip


def _finite_weights(network: nn.Module) -> None:
    broken = [
        name
        for name, value in network.state_dict().items()
        if isinstance(value, Tensor)
        and not isinstance(value, nn.UninitializedParameter)
        and value.is_floating_point()
        and not bool(torch.isfinite(value).all())
    ]
    require(
        not broken,
        "weights must be finite",
        f"NaN or infinity in {', '.join(broken[:3])}",
        "load another checkpoint: this one was broken in training or saving",
    )


def _tensor(value: Any, what: str) -> Tensor:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(value))
    require(
        isinstance(value, Tensor), f"{what} must be a tensor", type(value).__name__, "use torch.as_tensor"
    )
    made: Tensor = value.detach()
    return made


def _examples(given: Any, notes: list[str]) -> Tensor:
    x = _tensor(given, "images")
    if x.dtype == torch.uint8:
        notes.append("images are bytes: divided by 255, radii are those of [0, 1]")
        return x.float() / 255
    if x.dtype in (torch.float16, torch.bfloat16):
        notes.append("images of half precision were made float32")
        return x.float()
    return x


def _labels(given: Any, notes: list[str]) -> Tensor:
    y = _tensor(given, "labels")
    if y.dim() == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.dim() == 1 and y.is_floating_point() and bool((y == y.round()).all()) and bool((y >= 0).all()):
        notes.append("labels are floats with whole values: read as class numbers")
        return y.long()
    return y


def _channels_first(network: nn.Module, x: Tensor, notes: list[str]) -> Tensor:
    """Images (N, H, W, C) are turned where the network takes them only so."""
    if x.shape[-1] not in (1, 3) or x.shape[1] in (1, 3) or _works(network, x[:2]):
        return x
    turned = x.permute(0, 3, 1, 2).contiguous()
    if not _works(network, turned[:2]):
        return x
    notes.append("images were (N, H, W, C): turned to (N, C, H, W), which the network takes")
    return turned


def _works(network: nn.Module, x: Tensor) -> bool:
    try:
        with torch.no_grad():
            network(x.clone())
    except Exception:
        return False
    return True


def with_logits(network: nn.Module, x: Tensor) -> nn.Module:
    """The network with one tensor of logits out, for inputs that were admitted before."""
    return _logits(network, x, torch.zeros(len(x), dtype=torch.int64), [])


def _logits(network: nn.Module, x: Tensor, y: Tensor, notes: list[str]) -> nn.Module:
    """The network with one tensor of logits (N, K) out."""
    kind = {p.dtype for p in network.parameters() if p.is_floating_point()}
    some = x[:LOOKED_AT].to(next(iter(kind))) if len(kind) == 1 and x.is_floating_point() else x[:LOOKED_AT]
    try:
        with torch.no_grad():
            outputs = network(some.clone())
    except Exception:
        return network  # admit says what fails, in its words
    if not isinstance(outputs, Tensor):
        key = _key(outputs, len(some))
        notes.append(
            f"the network returns a {type(outputs).__name__}: its entry {key!r} is taken for the logits"
        )
        network, outputs = Picked(network, key), Picked.of(outputs, key)
    if outputs.shape in ((len(some),), (len(some), 1)):
        _require_score(outputs, y)
        notes.append("the network has one output f: the logits are (0, f), class 1 where f > 0")
        network = OneLogit(network)
    return network.eval()


def _key(outputs: Any, n: int) -> int | str:
    """Which entry is the logits: the one of that name, or the first that can be."""
    if (isinstance(outputs, Mapping) and "logits" in outputs) or hasattr(outputs, "logits"):
        return "logits"
    entries: dict[Any, Any] = {}
    if isinstance(outputs, Mapping):
        entries = dict(outputs)
    elif isinstance(outputs, tuple | list):
        entries = dict(enumerate(outputs))
    fit = [
        key
        for key, value in entries.items()
        if isinstance(value, Tensor) and value.dim() in (1, 2) and len(value) == n
    ]
    if not fit:
        raise BadInput(
            "a network must return logits (N, classes)",
            f"it returns a {type(outputs).__name__} without any",
            "return the tensor of logits, or a mapping with the entry 'logits'",
        )
    first: int | str = fit[0]
    return first


def _require_score(outputs: Tensor, y: Tensor) -> None:
    inside = float(outputs.min()) >= 0 and float(outputs.max()) <= 1
    require(
        not inside,
        "attacks need logits",
        "the one output lies in [0, 1] at every example, as a sigmoid's does",
        "leave out the last sigmoid, or return torch.logit of it",
    )
    known = bool(((y == 0) | (y == 1)).all())
    require(
        known,
        "one output means two classes, 0 and 1",
        f"labels {sorted(set(y.tolist()))[:5]}",
        "use (y > 0).long() for ±1",
    )


def _bounds(x: Tensor, given: Bounds | str) -> Bounds:
    if not isinstance(given, str):
        return given
    least, most = float(x.min()), float(x.max())
    bytes_of_pixels = x.dim() == 4 and least >= 0 and 2 < most <= 255
    require(
        not bytes_of_pixels,
        "images must lie in [0, 1]",
        f"they reach from {least:.3g} to {most:.3g}",
        "divide the images by 255, or give bounds=(0, 255) if the network wants them so",
    )
    return (0.0, 1.0) if x.dim() == 4 and least >= 0 and most <= 1 else None


def _train(given: tuple[Any, Any] | None, x: Tensor, notes: list[str]) -> tuple[Tensor | None, Tensor | None]:
    if given is None:
        return None, None
    silent: list[str] = []
    train_x, train_y = _examples(given[0], silent), _labels(given[1], silent)
    if train_x.shape[1:] != x.shape[1:] and train_x.dim() == 4:
        train_x = train_x.permute(0, 3, 1, 2).contiguous()
    same = train_x.shape[1:] == x.shape[1:] and len(train_x) == len(train_y) > 0
    require(
        same,
        "training examples must be like the test examples, each with a label",
        f"{tuple(train_x.shape)} and {tuple(x.shape)}, {len(train_y)} labels",
        "check both",
    )
    return train_x.to(x.dtype), train_y.long()


def _groups(groups: Tensor | None, classes: int, n: int) -> Tensor | None:
    if groups is None:
        return None
    groups = torch.as_tensor(groups)
    fits = groups.dim() == 1 and len(groups) in (classes, n) and not groups.is_floating_point()
    require(
        fits,
        "groups are one whole number for each class or for each example",
        f"shape {tuple(groups.shape)}, {classes} classes, {n} examples",
        "use parity, first-half, or a list such as 0,1,8|2,3",
    )
    return groups.long()


def _names(names: Sequence[str], classes: int) -> tuple[str, ...]:
    require(
        not names or len(names) == classes,
        "there must be one name for each class",
        f"{len(names)} names, {classes} classes",
        "check them",
    )
    return tuple(map(str, names)) or tuple(str(label) for label in range(classes))
