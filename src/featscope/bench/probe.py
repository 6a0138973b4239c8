"""The probe's attacks against AutoAttack's standard version (`pyautoattack`), where it is installed: robust
accuracy, time, and whether one warns where the other does. Two-class networks, which AutoAttack cannot take,
are measured alone."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from featscope.attacks.pgd import PGD
from featscope.attacks.suite import Assessment, assess, ensemble
from featscope.attacks.threat import Threat
from featscope.bench.timing import Ratio
from featscope.core.streams import stream

THREAT = Threat("Linf", 0.03, 3, bounds=(0.0, 1.0))
#: without convolutions the networks withstand more: a radius at which some examples fall and some do not
WIDE = THREAT.with_radius(0.06)
EXAMPLES = 200
#: as in the probe with a usual budget
STEPS, QUERIES = 50, 500


def task(n: int, seed: int, classes: int = 10) -> tuple[Tensor, Tensor]:
    """Prototypes of 3 × 12 × 12 with noise: robust accuracies between 0 and 1 within seconds of training."""
    prototypes = 0.5 + 0.16 * torch.randn(classes, 3, 12, 12, generator=stream(0, "peers"))
    y = torch.randint(0, classes, (n,), generator=stream(seed, "y"))
    return (prototypes[y] + 0.15 * torch.randn(n, 3, 12, 12, generator=stream(seed, "x"))).clamp(0, 1), y


def fitted(net: nn.Module, adversarial: bool, classes: int = 10, steps: int = 60) -> nn.Module:
    """Trained for a moment, against a short PGD if ``adversarial``."""
    rng = stream(0, "init")
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if parameter.dim() > 1:
                scale = (2 / parameter[0].numel()) ** 0.5
                parameter.copy_(scale * torch.randn(parameter.shape, generator=rng))
            elif name.endswith("bias"):
                parameter.zero_()
    optimiser = torch.optim.Adam(net.parameters(), 2e-3)
    short = PGD("cross-entropy", 3)
    for step in range(steps):
        x, y = task(64, 100 + step, classes)
        if adversarial:
            x = x + short(net.eval(), x, y, THREAT, stream(step, "attack"))
        optimiser.zero_grad()
        torch.autograd.backward(functional.cross_entropy(net.train()(x), y))
        optimiser.step()
    return net.eval().requires_grad_(False)


class Rounded(nn.Module):
    """Rounds its input before the network sees it: gradients are zero."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the rounded input."""
        outputs: Tensor = self.net((x * 6).round() / 6)
        return outputs


def convolutions(classes: int = 10) -> nn.Module:
    """Two convolutions with BatchNorm."""
    return nn.Sequential(
        nn.Conv2d(3, 12, 3, 2), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 16, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(144, classes),
    )  # fmt: skip


def hidden(act: Callable[[], nn.Module] = nn.ReLU) -> nn.Module:
    """One hidden layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(432, 64), act(), nn.Linear(64, 10))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "convolutions": lambda: fitted(convolutions(), False),
    "convolutions, adversarially trained": lambda: fitted(convolutions(), True),
    "hidden layer": lambda: fitted(hidden(), False),
    "hidden layer, adversarially trained": lambda: fitted(hidden(), True),
    "tanh, adversarially trained": lambda: fitted(hidden(nn.Tanh), True),
    "GELU": lambda: fitted(hidden(nn.GELU), False),
    "rounded input": lambda: Rounded(fitted(convolutions(), True)),
}


def ours(net: nn.Module, x: Tensor, y: Tensor, threat: Threat) -> Assessment:
    """The probe's ensemble, all checks included."""
    return assess(net, x, y, threat, ensemble(STEPS, QUERIES))


class _Heard(logging.Handler):
    """Collects what a library warns of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.told.append(record.getMessage())


def theirs(library: Any, net: nn.Module, x: Tensor, y: Tensor, threat: Threat) -> tuple[float, bool]:
    """AutoAttack's standard version: robust accuracy, and whether it warned."""
    heard, log = _Heard(), logging.getLogger("auto-attack")
    log.addHandler(heard)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            adversary = library.AutoAttack(net, norm="Linf", eps=threat.eps, version="standard", seed=0)
            moved = adversary.run_standard_evaluation(x, y, batch_size=len(x))
    finally:
        log.removeHandler(heard)
    found = moved[0] if isinstance(moved, tuple) else moved
    with torch.no_grad():
        right = net(found).argmax(1) == y
    return float(right.double().mean()), bool(heard.told)


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and its CPU seconds."""
    begin = time.process_time()
    return call(), time.process_time() - begin


def measure() -> Iterator[Ratio]:
    """One line for each network; without pyautoattack our numbers alone."""
    try:
        library: Any = importlib.import_module("pyautoattack")
    except ImportError:
        library = None
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        x, y = task(EXAMPLES, 1)
        for name, make in NETWORKS.items():
            yield _line(name, make(), x, y, library)
        two = fitted(convolutions(2), True, 2)
        yield _line("two classes", two, *task(EXAMPLES, 1, 2), None)
    finally:
        torch.set_num_threads(threads)


def _line(name: str, net: nn.Module, x: Tensor, y: Tensor, library: Any) -> Ratio:
    threat = THREAT if any(isinstance(part, nn.Conv2d) for part in net.modules()) else WIDE
    mine, seconds = timed(partial(ours, net, x, y, threat))
    note = f"robust accuracy {mine.accuracy:.3f}{', warned' if mine.warnings else ''}"
    if library is None:
        missing = (
            "pyautoattack is not installed" if len(set(y.tolist())) > 2 else "AutoAttack takes no two classes"
        )
        return Ratio(name, missing, 0.0, 0.0, 0.0, note)
    (accuracy, warned), theirs_seconds = timed(partial(theirs, library, net, x, y, threat))
    ratio = theirs_seconds / seconds
    return Ratio(
        name, "AutoAttack", ratio, ratio, ratio, f"{note} / {accuracy:.3f}{', warned' if warned else ''}"
    )
