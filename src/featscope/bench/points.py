"""`featscope bench points`: what a point costs, exactly and as a certified bound, against the attack that it
stands beside."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from featscope.attacks.cubic_certificate import certified_margin
from featscope.attacks.evaluate import evaluate
from featscope.attacks.patch_certificate import certify
from featscope.attacks.pgd import PGD
from featscope.attacks.readout_certificate import certified_radii
from featscope.attacks.threat import Threat
from featscope.attacks.two_layer_radius import exact_radii
from featscope.bench.clusters import M, trained_run
from featscope.bench.timing import Ratio, compare, printed_time, seconds, threads
from featscope.core.signs import label_index
from featscope.core.streams import stream
from featscope.laws.clusters import ClusterLaw
from featscope.laws.patches import PatchLaw
from featscope.laws.signal import SignalLaw
from featscope.nets.cubic_cnn import CubicCNN
from featscope.nets.multiclass import MultiClass
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.nets.two_layer import TwoLayer, TwoLayerNet, output_weights

POINTS = 100
ATTACK = PGD("margin", steps=100, restarts=10)


def _line(name: str, bound: Callable[[], Any], attack: Callable[[], Any]) -> Ratio:
    """A bound of all points against an attack of all points, and what it takes a point."""
    clock = time.process_time
    found = compare(name, bound, f"{ATTACK.name}, 10 starts", attack, rounds=3, repeats=1, clock=clock)
    return replace(found, note=f"{printed_time(seconds(bound, 1, clock) / POINTS)} a point")


def clusters() -> Iterator[Ratio]:
    """FA's network as trained: the exact radius, and the read-out's bound at weights along the features."""
    _, state = trained_run(3072, False)
    net, law = TwoLayer(state.w, state.b, output_weights(M)), ClusterLaw()
    batch = law.sample(POINTS, stream(0, "data", "test"))
    labels, threat = (batch.y > 0).long(), Threat("L2", 17.0, 1)

    def attack() -> Any:
        return evaluate(TwoLayerNet(net), batch.x, labels, threat, [ATTACK], stream(0, "attack"))

    yield _line("exact radius, two layers", lambda: exact_radii(net, batch.x, batch.y), attack)
    fine = MultiClass(law.features(law.d) / law.d)
    above = torch.full((POINTS,), 60.0, dtype=torch.float64)
    signs = law.signs()
    yield _line(
        "certified radius, k classes",
        lambda: certified_radii(fine, signs, batch.x, batch.y, batch.cluster, above),
        attack,
    )


def patches() -> Ratio:
    """AT's network at its start: the better of intervals and tangents."""
    law, spec = PatchLaw(), PatchNetSpec()
    batch = law.sample(POINTS, stream(0, "bench"))
    net, threat = spec.net(spec.init(law.k, law.d, stream(0, "init"))), Threat("Linf", 0.1, event=2)
    batch = batch._replace(y=net(batch.x).argmax(-1))
    return _line(
        "certified margin, patches",
        lambda: certify(net, batch.x, batch.y, threat),
        lambda: evaluate(net, batch.x, batch.y, threat, [ATTACK], stream(0, "attack")),
    )


def signals() -> Ratio:
    """CGRO's network at its start."""
    law = SignalLaw()
    drawn = law.instance(POINTS, 10, law.d**-0.5, stream(0, "data"), stream(0, "init"))
    x, y, threat = drawn.train.x, drawn.train.y, Threat("L2", 0.1, event=2)
    net = CubicCNN(drawn.w)
    # Half of the points are wrong at the start: labels are the network's own.
    y = torch.where(net.score(x) > 0, 1.0, -1.0).to(y).detach()
    return _line(
        "certified margin, signal",
        lambda: certified_margin(drawn.w, x, y, threat.eps),
        lambda: evaluate(net, x, label_index(y), threat, [ATTACK], stream(0, "attack")),
    )


def measure() -> Iterator[Ratio]:
    """One thread, CPU time, a hundred points at once."""
    with threads(1):
        yield from clusters()
        yield patches()
        yield signals()
