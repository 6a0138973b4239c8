"""Robust accuracy of a trained cubic network by reading: what "robust error" means decides what Theorem 4.1 says.

`gta`: at the point of the attack (A). `ball`: anywhere within δ. `as-defined` (CGRO §1): training points by (A), test points over the ball.
`gta+noise-ball`: at (A)'s point with a further small ℓ2 ball on the noise patches. Every `ball` figure is a bracket.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from featscope.attacks.cubic_certificate import certified_margin
from featscope.attacks.evaluate import Evaluation, evaluate
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.dynamics.signal_descent import weakened
from featscope.laws.separation import conflict
from featscope.laws.signal import Instance, SignalBatch, SignalLaw
from featscope.nets.cubic_cnn import CubicCNN, label_index, reduce

Rows = list[dict[str, Any]]
#: points drawn for the bound that holds for every classifier.
CONFLICT_POINTS = 200


class Setting(Protocol):
    """What the readings need of a spec."""

    law: SignalLaw
    seeds: tuple[int, ...]
    radii: tuple[float, ...]
    noise_ball: float
    restarts: int

    def fresh(self, seed: int, like: Tensor) -> SignalBatch:
        """The test sample of one seed."""
        ...


class Case:
    """One network and one sample in the coordinates of the network's row space, the signal patch first."""

    def __init__(self, w: Tensor, batch: SignalBatch, residual: float) -> None:
        first = batch.signal_first()
        self.w, self.x, self.basis = reduce(w, first)
        self.attacked = weakened(first, residual) @ self.basis
        self.y, self.label = batch.y, label_index(batch.y)
        self.net = CubicCNN(self.w)

    def ball(self, radius: float, restarts: int, rng: torch.Generator) -> tuple[Evaluation, float]:
        """Attacked and certified accuracy over the ℓ2 ball. Random starts leave the point itself, where a small patch has no gradient."""
        attacks = (PGD(steps=20, restarts=restarts), PGD(steps=100, step_size=radius / 10, restarts=1))
        found = evaluate(self.net, self.x, self.label, Threat("L2", radius, 2), attacks, rng)
        sure = certified_margin(self.w, self.x, self.y, radius) > 0
        return found, float(sure.double().mean())

    def noise_ball(self, radius: float, restarts: int, rng: torch.Generator) -> tuple[Evaluation, float]:
        """The same around (A)'s point, on the noise patches only."""
        movable = torch.ones(self.x.shape[-2])
        movable[0] = 0
        threat = Threat("L2", radius, 2, support=movable[:, None], name="noise-ball")
        found = evaluate(self.net, self.attacked, self.label, threat, (PGD(steps=20, restarts=restarts),), rng)
        sure = certified_margin(self.w, self.attacked, self.y, radius, movable) > 0
        return found, float(sure.double().mean())


def _rows(spec: Setting, seed: int, name: str, case: Case) -> Iterator[dict[str, Any]]:
    for part in spec.radii:
        found, sure = case.ball(part * spec.law.radius, spec.restarts, stream(seed, "attack", name, "ball", repr(part)))
        line = {"share": part, "radius": part * spec.law.radius, "attacked": found.accuracy, "certified": sure}
        yield {"run": seed, "set": name, "reading": "ball", **line}
    found, sure = case.noise_ball(spec.noise_ball, spec.restarts, stream(seed, "attack", name, "noise"))
    line = {"radius": spec.noise_ball, "attacked": found.accuracy, "certified": sure}
    yield {"run": seed, "set": name, "reading": "gta+noise-ball", **line}


def _lift(case: Case, delta: Tensor, batch: SignalBatch) -> Tensor:
    """A perturbation of the reduced, signal-first points as one of the given points."""
    full = delta @ case.basis.mT
    order = torch.arange(full.shape[-2]).expand(*batch.position.shape, -1)
    rank = torch.where(order == batch.position[..., None], -1, order).argsort(-1)
    return torch.zeros_like(full).scatter(-2, rank[..., None].expand_as(full), full)


def readings(spec: Setting, instance: Instance, weights: Tensor, folder: Folder) -> Json:
    """Read robustness of every seed's network in every way; keep a certificate of the first seed's failures over the ball."""
    rows: Rows = []
    tensors: dict[str, Tensor] = {}
    for index, seed in enumerate(spec.seeds):
        train = SignalBatch(*(t[index] for t in instance.train))
        test = spec.fresh(seed, weights[index])
        for name, batch in (("train", train), ("test", test)):
            case = Case(weights[index], batch, spec.law.residual)
            rows += _rows(spec, seed, name, case)
            if index == 0 and name == "train":
                found, _ = case.ball(spec.law.radius, spec.restarts, stream(seed, "attack", "certificate"))
                delta = _lift(case, found.delta, batch)
                tensors = {"w": weights[0], "x": batch.x, "y": batch.y, "delta": delta}
    folder.add("robustness", rows, tensors)
    return _summary(spec, rows) | _conflict(spec)


def _conflict(spec: Setting) -> Json:
    """What no classifier can do at radius δ: opposite points whose δ-balls meet, and the bound that a matching of them proves."""
    batch = spec.law.sample(CONFLICT_POINTS, stream(spec.seeds[0], "data", "conflict"))
    found = conflict(batch.x, label_index(batch.y), "L2", spec.law.radius)
    return {"any_classifier": found.bound, "conflicting_pairs": found.share}


def _summary(spec: Setting, rows: Rows) -> Json:
    def mean(name: str, reading: str, key: str, part: float | None = None) -> float:
        chosen = [r[key] for r in rows if (r["set"], r["reading"]) == (name, reading) and (part is None or r["share"] == part)]
        return float(sum(chosen) / len(chosen))

    found: Json = {}
    for name in ("train", "test"):
        found[f"noise_ball_{name}"] = mean(name, "gta+noise-ball", "attacked")
        found[f"noise_ball_{name}_certified"] = mean(name, "gta+noise-ball", "certified")
        found[f"ball_{name}"] = mean(name, "ball", "attacked", max(spec.radii))
        found[f"ball_{name}_certified"] = mean(name, "ball", "certified", max(spec.radii))
    return found
