"""Speed of attacks on image networks against a plain loop and, where it is installed, torchattacks, at equal steps."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from featscope.attacks.curve import robust_curve
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.bench.timing import Ratio, compare
from featscope.core.losses import margin
from featscope.core.streams import stream
from featscope.nets.fold import fold
from featscope.nets.networks import NetworkSpec

STEPS = 10
EPS = 0.02
#: radii of the curve, up to where nearly every example is fooled
RADII = tuple(EPS * k / 10 for k in range(1, 11))
NETWORK = NetworkSpec(architecture="resnet", width=8, channels=1, side=28)


def task(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Ten prototypes with noise, 28×28: timing needs no real data, but it needs a network that predicts something."""
    prototypes = 0.5 + 0.15 * torch.randn(10, 1, 28, 28, generator=stream(0, "prototypes"))
    y = torch.randint(0, 10, (n,), generator=stream(seed, "y"))
    x = prototypes[y] + 0.15 * torch.randn(n, 1, 28, 28, generator=stream(seed, "x"))
    return x.clamp(0, 1), y


def network() -> nn.Module:
    """ResNet-18 of width 8, trained briefly."""
    net = NETWORK.build(stream(0, "init"))
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    for t in range(25):
        x, y = task(64, 100 + t)
        optimiser.zero_grad()
        torch.autograd.backward(functional.cross_entropy(net(x), y))
        optimiser.step()
    return net.eval()


def plain_pgd(net: nn.Module, x: Tensor, y: Tensor, eps: float, size: float) -> Tensor:
    """Signed gradient steps on the network as it is, the way a first script writes them."""
    moved = (x + eps * (2 * torch.rand(x.shape, generator=stream(0, "start")) - 1)).clamp(0, 1)
    for _ in range(STEPS):
        moved.requires_grad_(True)
        loss = functional.cross_entropy(net(moved), y)
        gradient = torch.autograd.grad(loss, moved)[0]
        moved = (x + (moved.detach() + size * gradient.sign() - x).clamp(-eps, eps)).clamp(0, 1)
    return moved.detach()


Peer = Callable[[nn.Module, Tensor, Tensor, float], Tensor]


def peers() -> dict[str, Peer]:
    """What is compared: the plain loop, and torchattacks if it is there."""
    found: dict[str, Peer] = {"plain loop": lambda net, x, y, eps: plain_pgd(net, x, y, eps, 2.5 * eps / STEPS)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library: Any = importlib.import_module("torchattacks")
    except ImportError:
        return found

    def theirs(net: nn.Module, x: Tensor, y: Tensor, eps: float) -> Tensor:
        moved: Tensor = library.PGD(net, eps=eps, alpha=2.5 * eps / STEPS, steps=STEPS)(x, y)
        return moved

    return {**found, "torchattacks": theirs}


def ours(net: nn.Module, x: Tensor, y: Tensor, eps: float) -> Tensor:
    """All steps for all examples on ``net``, a copy that was folded once for all batches."""
    threat = Threat("Linf", eps, 3, bounds=(0.0, 1.0))
    return x + PGD("cross-entropy", STEPS, 2.5 * eps / STEPS)(net, x, y, threat, stream(0, "attack"))


def our_curve(net: nn.Module, x: Tensor, y: Tensor) -> tuple[float, ...]:
    """Robust accuracy at all radii in one pass on the folded copy."""
    threat = Threat("Linf", EPS, 3, bounds=(0.0, 1.0))
    fast = fold(net, x[:2]).model
    return robust_curve(fast, x, y, threat, RADII, PGD("cross-entropy", STEPS, stop_early=True), stream(0, "attack")).accuracy


def accuracy(net: nn.Module, x: Tensor, y: Tensor) -> float:
    """Share of correct predictions."""
    with torch.no_grad():
        return float((margin(net(x), y) > 0).double().mean())


def images(n: int = 128, rounds: int = 3) -> Iterator[Ratio]:
    """PGD in evaluation, and the curve over ten radii against ten calls."""
    net = network()
    x, y = task(n, 1)
    fast = fold(net, x[:2]).model
    for name, peer in peers().items():
        yield compare(
            f"PGD-{STEPS}, ResNet-18 width 8",
            partial(ours, fast, x, y, EPS),
            name,
            partial(peer, net, x, y, EPS),
            rounds=rounds,
            repeats=1,
        )
        yield compare(
            f"curve over {len(RADII)} radii",
            partial(our_curve, net, x, y),
            f"{name}, {len(RADII)} calls",
            partial(_ten_calls, peer, net, x, y),
            rounds=rounds,
            repeats=1,
        )


def _ten_calls(peer: Peer, net: nn.Module, x: Tensor, y: Tensor) -> list[float]:
    return [accuracy(net, peer(net, x, y, eps), y) for eps in RADII]
