"""What an evaluator of foreign networks asks of images, labels and outputs before any attack: a right answer
or a refusal in one line.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from featscope.attacks.mode import in_mode
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput, require
from featscope.core.linearise import Model
from featscope.nets.adapters import Cast


def admit(model: Model, x: Tensor, y: Tensor, threat: Threat) -> tuple[Model, Tensor]:
    """The network with logits in the images' precision, and the labels as class numbers; anything else is
    refused.
    """
    both = isinstance(x, Tensor) and isinstance(y, Tensor)
    require(
        both,
        "images and labels must be tensors",
        f"{type(x).__name__} and {type(y).__name__}",
        "use torch.as_tensor",
    )
    swapped = y.dim() > 1 and y.is_floating_point() and not x.is_floating_point()
    require(
        not swapped, "images come before labels", f"{_type(x)} before {_type(y)}", "swap the two arguments"
    )
    one = "a single image has no batch", f"images of shape {tuple(x.shape)}, labels of shape {tuple(y.shape)}"
    require(y.dim() > 0, *one, "use x[None] and y[None]")
    y = _labels(y)
    _images(x)
    require(len(y) != 1 or len(x) == 1, *one, "use x[None]")
    require(
        len(x) == len(y) > 0,
        "there must be as many labels as images, and at least one",
        f"{len(x)} images, {len(y)} labels",
        "check both",
    )
    threat.require_fits(x, y)
    _initialised(model)
    model = _in_precision(model, x)
    outputs = _first_outputs(model, x[:2])
    if outputs.dtype != x.dtype and isinstance(model, nn.Module):
        model = Cast(model, x.dtype)
    classes = outputs.shape[1]
    least, most = int(y.min()), int(y.max())
    rule = "labels are class numbers from 0 to the number of outputs less one"
    require(
        least >= 0 and most < classes,
        rule,
        f"labels from {least} to {most}, {classes} outputs",
        "number the classes from 0",
    )
    return model, y


def _initialised(model: Model) -> None:
    lazy = isinstance(model, nn.Module) and any(map(torch.nn.parameter.is_lazy, model.parameters()))
    require(
        not lazy,
        "the network must have weights",
        "lazy layers that were never called",
        "load them, or call it once",
    )


def _labels(y: Tensor) -> Tensor:
    rule = "labels must be class numbers of shape (N,)"
    remedy = "use y.long(), or (y > 0).long() for ±1"
    if y.dim() == 2:
        remedy = "use y.argmax(-1) for one-hot labels" if y.shape[1] > 1 else "use y.flatten().long()"
    require(y.dim() == 1 and not y.is_floating_point(), rule, f"{_type(y)} of shape {tuple(y.shape)}", remedy)
    return y.long()


def _images(x: Tensor) -> None:
    remedy = (
        "use x.float() / 255"
        if not x.is_floating_point()
        else "use x.float(); a network of half precision is cast inside"
    )
    require(x.dtype in (torch.float32, torch.float64), "images must be float32 or float64", _type(x), remedy)
    require(
        bool(torch.isfinite(x).all()),
        "images must be finite",
        f"{int((~torch.isfinite(x)).sum())} are not",
        "remove NaN and infinity",
    )


def _type(t: Tensor) -> str:
    return str(t.dtype).removeprefix("torch.")


def _in_precision(model: Model, x: Tensor) -> Model:
    """A network of half precision takes the images cast; its own type otherwise."""
    if not isinstance(model, nn.Module):
        return model
    types = {
        p.dtype
        for p in model.parameters()
        if not isinstance(p, nn.UninitializedParameter) and p.is_floating_point()
    }
    if len(types) == 1 and next(iter(types)) != x.dtype:
        return Cast(model, next(iter(types)))
    return model


def _first_outputs(model: Model, x: Tensor) -> Tensor:
    """The outputs of a few images, looked at as a stranger's."""
    given = x.clone()
    with in_mode(model, "eval"), torch.no_grad():
        try:
            outputs = model(given)
        except BadInput:
            raise
        except Exception as error:
            first = (str(error).strip().splitlines() or [""])[0][:160]
            remedy = f"call it once by hand on {_type(x)} of shape {tuple(x.shape)}"
            raise BadInput(
                "the network fails on the images", f"{type(error).__name__}: {first}", remedy
            ) from error
    require(
        torch.equal(given, x),
        "a network must not change its input",
        "an operation in place",
        "let it begin with x = x.clone()",
    )
    if not isinstance(outputs, Tensor):
        key = next(iter(outputs), 0) if isinstance(outputs, Mapping) else 0
        remedy = f"wrap it: featscope.nets.adapters.Picked(network, {key!r})"
        raise BadInput(
            "a network must return one tensor of logits", f"it returns a {type(outputs).__name__}", remedy
        )
    if outputs.shape in ((len(x),), (len(x), 1)):
        remedy = "wrap it: featscope.nets.adapters.OneLogit(network) has the logits (0, f)"
        raise BadInput(
            "logits must be of shape (N, classes), two classes at least",
            f"shape {tuple(outputs.shape)}",
            remedy,
        )
    shaped = outputs.dim() == 2 and len(outputs) == len(x)
    require(
        shaped,
        "logits must be of shape (N, classes)",
        f"{tuple(outputs.shape)} for {len(x)} images",
        "return one row for each image",
    )
    require(
        bool(torch.isfinite(outputs).all()),
        "logits must be finite",
        "NaN or infinity",
        "check the weights and the input range",
    )
    return outputs
