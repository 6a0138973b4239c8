"""Images with given features (AT §6.2, after Ilyas et al. 2019): min over X̂ in [0, 1] of ‖G(X̂) − G(X)‖₂,
started from noise.

The set of X̂ with the labels of their X holds what the reference network's representation G keeps of the
data: D̂_NR for a standard-trained
reference, D̂_R for an adversarially trained one. Start, layer, steps and the error reached go with the
images, because they decide what another
network reads in them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from featscope.attacks.mode import in_mode
from featscope.core.errors import BadInput, require
from featscope.core.files import canonical
from featscope.core.frozen import Value
from featscope.core.settings import setting
from featscope.core.store import Part
from featscope.core.streams import stream
from featscope.dynamics.trajectory import trajectory
from featscope.nets.classifier import REPRESENTATION, Representation
from featscope.nets.fold import fold

Start = Literal["noise", "grey", "black", "image"]
_BETAS, _TINY = (0.9, 0.999), 1e-8
#: relative errors of a reconstruction may differ by this between the network and its fast copy
COPY_ERROR = 1e-3


class InversionSpec(Value):
    """Adam on the images, clamped to [0, 1] after every step.

    `noise`: uniform in [0, 1], what the paper describes; `grey`: ½ and `black`: 0, each with noise of size
    .05; `image`: another image of the data. An image whose relative error falls to ``tolerance`` stays as it
    is.
    """

    layer: str = setting(REPRESENTATION, "layer whose features are matched")
    start: Start = setting("noise", "what the search starts from: noise, grey, black or another image")
    steps: int = setting(300, "steps of Adam", ge=1)
    step_size: float = setting(0.05, "step size of Adam", gt=0)
    tolerance: float = setting(0.0, "relative error at which an image is left as it is", ge=0)
    batch: int = setting(200, "images reconstructed at a time", ge=1)


class Inversion(NamedTuple):
    """The state of the search: images and Adam's two means."""

    x: Tensor
    first: Tensor
    second: Tensor


class Inverted(NamedTuple):
    """A data set of reconstructed images with the labels of their originals and the relative feature error of
    each."""

    x: Tensor
    y: Tensor
    error: Tensor
    provenance: dict[str, Any]


def network_hash(net: nn.Module) -> str:
    """SHA-256 of names and values of all parameters and buffers."""
    total = hashlib.sha256()
    for name, value in sorted(net.state_dict().items()):
        total.update(name.encode())
        total.update(value.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def relative_error(features: Tensor, target: Tensor) -> Tensor:
    """‖G(X̂) − G(X)‖₂ ÷ ‖G(X)‖₂ for each image."""
    size = torch.linalg.vector_norm(target, dim=-1).clamp(min=1e-12)
    error: Tensor = torch.linalg.vector_norm(features - target, dim=-1) / size
    return error


def starting_images(spec: InversionSpec, x: Tensor, seed: int) -> Tensor:
    """The starting images."""
    rng = stream(seed, "inversion", spec.start)
    noise = torch.rand(x.shape, generator=rng).to(x)
    if spec.start == "noise":
        return noise
    if spec.start == "image":
        require(len(x) > 1, "starting at another image needs two", "1 image", "use start=noise")
        shift = torch.randint(1, len(x), (len(x),), generator=rng)
        return x[(torch.arange(len(x)) + shift) % len(x)].clone()
    return ((0.5 if spec.start == "grey" else 0.0) + 0.1 * (noise - 0.5)).clamp(0, 1)


def _gradient(represent: nn.Module, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """∇_X̂ ‖G(X̂) − target‖₂ ÷ ‖target‖₂, 0 where the norm is 0 and has no gradient, and the relative
    errors."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_(True)
        features = represent(leaf)
        gap = (features - target).detach()
        size = torch.linalg.vector_norm(gap, dim=-1, keepdim=True)
        scale = torch.linalg.vector_norm(target, dim=-1, keepdim=True).clamp(min=1e-12)
        cotangent = torch.where(size > 0, gap / (size.clamp(min=1e-30) * scale), torch.zeros_like(gap))
        gradient = torch.autograd.grad(features, leaf, cotangent)[0]
    return gradient, (size / scale)[:, 0]


def invert(
    net: nn.Module, x: Tensor, y: Tensor, spec: InversionSpec, seed: int = 0, keep: Part | None = None
) -> Inverted:
    """Reconstruct all images in batches, through the one loop, so that an interrupted inversion goes on where
    it was saved.

    ``net`` is one of our networks or any other; the search runs on a folded copy of it up to the layer where
    that can be made; errors are measured on the network itself.
    """
    with in_mode(net, "eval"), torch.no_grad():
        represent = Representation(net, spec.layer)
        target = _in_batches(represent, x, spec.batch)
        searched = [fold(represent, torch.cat([x[:4], starting_images(spec, x, seed)[:4]])).model]

        def step(state: Inversion, t: int) -> Inversion:
            moved = [
                _adam(searched[-1], spec, t, *parts)
                for parts in zip(*(torch.split(s, spec.batch) for s in (*state, target)), strict=True)
            ]
            return Inversion(*(torch.cat(part) for part in zip(*moved, strict=True)))

        def errors(images: Tensor) -> Tensor:
            return relative_error(_in_batches(represent, images, spec.batch), target)

        def observe(state: Inversion, t: int) -> dict[str, float]:
            found = errors(state.x)
            return {"error_mean": float(found.mean()), "error_max": float(found.max())}

        zeros = torch.zeros_like(x)
        first = Inversion(starting_images(spec, x, seed), zeros, zeros.clone())
        every = max(1, spec.steps // 10)
        sound = ("the inversion", "lower step_size")
        made = trajectory(step, first, spec.steps, observe, every, keep=keep).healthy(*sound).state.x
        seen = relative_error(_in_batches(searched[0], made, spec.batch), target)
        if float((seen - errors(made)).abs().max()) > COPY_ERROR:
            # Where the search ended the copy is another function than the network, so the search is repeated
            # on the network.
            searched.append(represent)
            made = trajectory(step, first, spec.steps, observe, every).healthy(*sound).state.x
        provenance = {"network": network_hash(net), "seed": seed, **spec.model_dump()}
        return Inverted(made, y.clone(), errors(made), provenance)


def _in_batches(represent: nn.Module, x: Tensor, batch: int) -> Tensor:
    return torch.cat([represent(part) for part in torch.split(x, batch)])


def _adam(
    represent: nn.Module,
    spec: InversionSpec,
    t: int,
    x: Tensor,
    first: Tensor,
    second: Tensor,
    target: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    gradient, error = _gradient(represent, x, target)
    first = _BETAS[0] * first + (1 - _BETAS[0]) * gradient
    second = _BETAS[1] * second + (1 - _BETAS[1]) * gradient.square()
    ahead = (first / (1 - _BETAS[0] ** (t + 1))) / ((second / (1 - _BETAS[1] ** (t + 1))).sqrt() + _TINY)
    # The step falls to 0 along the search, so that it settles.
    moved = (x - spec.step_size * (1 - t / spec.steps) * ahead).clamp(0, 1)
    going = (error > spec.tolerance).view(-1, *[1] * (x.dim() - 1))
    return torch.where(going, moved, x), first, second


def save(data: Inverted, path: Path) -> None:
    """Write a reconstructed data set with its provenance (safetensors), atomically."""
    spare = path.with_name(path.name + ".new")
    tensors = {"x": data.x.contiguous(), "y": data.y.contiguous(), "error": data.error.contiguous()}
    save_file(tensors, str(spare), metadata={"provenance": canonical(data.provenance)})
    spare.replace(path)


def read(path: Path) -> Inverted:
    """Read a reconstructed data set."""
    try:
        with safe_open(str(path), "pt") as source:
            provenance = json.loads((source.metadata() or {})["provenance"])
            x, y, error = (source.get_tensor(key) for key in ("x", "y", "error"))
    except (OSError, SafetensorError, KeyError, ValueError) as problem:
        raise BadInput(
            "not a reconstructed data set",
            f"{path} ({str(problem)[:80]})",
            "make it again with features.invert",
        ) from None
    return Inverted(x, y, error, provenance)
