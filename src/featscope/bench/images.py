"""Speed of attacks on image networks against the bare passes of the folded network, a plain loop and, where
they are installed, torchattacks and foolbox, at equal steps."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from featscope.attacks.pgd import PGD
from featscope.attacks.suite import SINGLE, assess, assess_curve
from featscope.attacks.threat import Threat
from featscope.bench.timing import Ratio, compare
from featscope.core.losses import margin
from featscope.core.streams import stream
from featscope.nets.fold import fold
from featscope.nets.networks import NetworkSpec

STEPS = 10
#: about half of the examples withstand it, so that equal verdicts mean something
EPS = 0.01
THREAT = Threat("Linf", EPS, 3, bounds=(0.0, 1.0))
#: radii of the curve, up to where nearly every example is fooled
RADII = tuple(2 * EPS * k / 10 for k in range(1, 11))
NETWORK = NetworkSpec(architecture="resnet", width=8, channels=1, side=28)


def task(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Ten prototypes with noise, 28×28: timing needs no real data, but it needs a network that predicts
    something."""
    prototypes = 0.5 + 0.15 * torch.randn(10, 1, 28, 28, generator=stream(0, "prototypes"))
    y = torch.randint(0, 10, (n,), generator=stream(seed, "y"))
    x = prototypes[y] + 0.15 * torch.randn(n, 1, 28, 28, generator=stream(seed, "x"))
    return x.clamp(0, 1), y


def brief_network() -> nn.Module:
    """ResNet-18 of width 8, trained briefly."""
    net = NETWORK.build(stream(0, "init"))
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    for t in range(25):
        x, y = task(64, 100 + t)
        optimiser.zero_grad()
        torch.autograd.backward(functional.cross_entropy(net(x), y))
        optimiser.step()
    return net.eval()


def plain_pgd(net: nn.Module, x: Tensor, y: Tensor, eps: float, random_start: bool) -> Tensor:
    """Signed gradient steps on the network as it is, the way a first script writes them."""
    noise = 2 * torch.rand(x.shape, generator=stream(0, "start")) - 1
    moved = (x + eps * noise).clamp(0, 1) if random_start else x.clone()
    for _ in range(STEPS):
        moved.requires_grad_(True)
        loss = functional.cross_entropy(net(moved), y)
        gradient = torch.autograd.grad(loss, moved)[0]
        moved = (x + (moved.detach() + size(eps) * gradient.sign() - x).clamp(-eps, eps)).clamp(0, 1)
    return moved.detach()


def size(eps: float) -> float:
    """The step that everybody takes."""
    return 2.5 * eps / STEPS


Peer = Callable[[nn.Module, Tensor, Tensor, float, bool], Tensor]


def _torchattacks(library: Any) -> Peer:
    def theirs(net: nn.Module, x: Tensor, y: Tensor, eps: float, random_start: bool) -> Tensor:
        attack = library.PGD(net, eps=eps, alpha=size(eps), steps=STEPS, random_start=random_start)
        moved: Tensor = attack(x, y)
        return moved

    return theirs


def _foolbox(library: Any) -> Peer:
    def theirs(net: nn.Module, x: Tensor, y: Tensor, eps: float, random_start: bool) -> Tensor:
        model = library.PyTorchModel(net, bounds=(0, 1), device="cpu")
        attack = library.attacks.LinfPGD(abs_stepsize=size(eps), steps=STEPS, random_start=random_start)
        moved: Tensor = attack(model, x, y, epsilons=eps)[1]
        return moved

    return theirs


LIBRARIES: dict[str, Callable[[Any], Peer]] = {"torchattacks": _torchattacks, "foolbox": _foolbox}


def peers() -> dict[str, Peer]:
    """What is compared: the plain loop, and the libraries that are there."""
    found: dict[str, Peer] = {"plain loop": plain_pgd}
    for name, peer in LIBRARIES.items():
        with contextlib.suppress(ImportError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[name] = peer(importlib.import_module(name))
    return found


def bare_passes(net: nn.Module, x: Tensor, y: Tensor) -> None:
    """A forward and an input-gradient pass for each step and nothing else: what no attack can be faster
    than."""
    leaf = x.clone().requires_grad_(True)
    for _ in range(STEPS):
        torch.autograd.grad(functional.cross_entropy(net(leaf), y, reduction="sum"), leaf)


def ours(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """All steps for all examples on ``net``, a copy that was folded once for all batches; the peers' step and
    start."""
    return x + PGD("cross-entropy", STEPS, size(EPS), random_start=False)(
        net, x, y, THREAT, stream(0, "attack")
    )


def our_accuracy(net: nn.Module, x: Tensor, y: Tensor) -> list[float]:
    """Robust accuracy as `assess` counts it: folding, the attack that leaves fooled examples alone, and all
    checks included."""
    return [assess(net, x, y, THREAT, [dataclasses.replace(SINGLE, steps=STEPS)]).accuracy]


def our_curve(net: nn.Module, x: Tensor, y: Tensor) -> list[float]:
    """Robust accuracy at all radii, folding and all checks included."""
    return list(assess_curve(net, x, y, THREAT, RADII, [dataclasses.replace(SINGLE, steps=STEPS)]).accuracy)


def their_accuracies(peer: Peer, net: nn.Module, x: Tensor, y: Tensor, radii: Sequence[float]) -> list[float]:
    """One call and one prediction for each radius."""
    return [float(right(net, peer(net, x, y, eps, True), y).double().mean()) for eps in radii]


@torch.no_grad()
def right(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Which predictions are correct."""
    return margin(net(x), y) > 0


def _verdicts(net: nn.Module, y: Tensor, mine: Tensor, theirs: Tensor) -> str:
    a, b = right(net, mine, y), right(net, theirs, y)
    shares = f"accuracy {a.double().mean():.1%} / {b.double().mean():.1%}"
    return f"{shares}, same verdict on {int((a == b).sum())} of {len(y)}"


def _accuracies(mine: list[float], theirs: list[float]) -> str:
    gaps = [a - b for a, b in zip(mine, theirs, strict=True)]
    text = f"accuracy {sum(mine) / len(mine):.1%} / {sum(theirs) / len(theirs):.1%}"
    return text if len(gaps) == 1 else f"mean {text}, ours minus theirs at most {max(gaps):+.1%} at a radius"


def images(n: int = 128, rounds: int = 5) -> Iterator[Ratio]:
    """PGD with all steps, robust accuracy at one radius, and the curve over ten radii against ten calls;
    CPU time of one thread. Training against bare passes is `featscope bench training`."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        net = brief_network()
        x, y = task(n, 1)
        timed = partial(compare, rounds=rounds, repeats=1, clock=time.process_time)
        fast = fold(net, x).model
        yield timed(
            f"PGD-{STEPS}, ResNet-18 width 8, all steps",
            partial(ours, fast, x, y),
            "bare passes of the folded network",
            partial(bare_passes, fast, x, y),
        )
        for name, peer in peers().items():
            yield from _against(name, peer, net, x, y, timed)
    finally:
        torch.set_num_threads(threads)


def _against(
    name: str, peer: Peer, net: nn.Module, x: Tensor, y: Tensor, timed: Callable[..., Ratio]
) -> Iterator[Ratio]:
    fast = fold(net, x).model
    yield timed(
        f"PGD-{STEPS}, ResNet-18 width 8, all steps",
        partial(ours, fast, x, y),
        name,
        partial(peer, net, x, y, EPS, False),
        check=partial(_verdicts, net, y),
    )
    yield timed(
        f"robust accuracy by PGD-{STEPS}",
        partial(our_accuracy, net, x, y),
        f"{name} and prediction",
        partial(their_accuracies, peer, net, x, y, [EPS]),
        check=_accuracies,
    )
    yield timed(
        f"curve over {len(RADII)} radii",
        partial(our_curve, net, x, y),
        f"{name}, {len(RADII)} calls",
        partial(their_accuracies, peer, net, x, y, RADII),
        check=_accuracies,
    )
