"""Robust accuracy of a trained cubic network: what "robust error" means decides what Theorem 4.1 says.

`gta`: at the point of the attack (A). `ball`: anywhere within δ. `as-defined` (CGRO §1): training points by
(A), test points over the ball. `gta+noise-ball`: at (A)'s point with a further small ℓ2 ball on the noise
patches. Every `ball` figure is a bracket.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from featscope.attacks.cubic_certificate import certified_margin
from featscope.attacks.evaluate import Evaluation, evaluate
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.columns import Columns, column
from featscope.core.signs import label_index, share
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.signal_descent import weakened
from featscope.laws.separation import conflict
from featscope.laws.signal import Instance, SignalBatch, SignalLaw
from featscope.nets.cubic_cnn import CubicCNN, reduce

Row = dict[str, Any]
#: points drawn for the bound that holds for every classifier.
CONFLICT_POINTS = 200


#: the readings that need a search, as rows name them
BALL, NOISE_BALL = "ball", "gta+noise-ball"


class RobustBracket(Columns):
    """The bracket of one network's accuracy on one sample in one reading."""

    seed = column("seed of the run")
    sample = column("train or test")
    reading = column(
        "ball: anywhere within the radius; gta+noise-ball: at (A)'s point and around it on the noise patches"
    )
    share = column("radius of the ball as a share of δ; none for gta+noise-ball")
    radius = column("radius")
    attacked = column("accuracy under attack, an upper bound")
    certified = column("certified accuracy, a lower bound")


class Conflict(Columns):
    """What no classifier can do at radius δ."""

    seed = column("the first seed, which drew the points")
    any_classifier = column("largest robust accuracy over the ball that a matching of opposite points allows")
    conflicting_pairs = column("share of pairs of opposite points whose δ-balls meet")


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
        """Attacked and certified accuracy over the ℓ2 ball.

        Random starts leave the point itself, where a small patch has no gradient.
        """
        attacks = (PGD(steps=20, restarts=restarts), PGD(steps=100, step_size=radius / 10, restarts=1))
        found = evaluate(self.net, self.x, self.label, Threat("L2", radius, 2), attacks, rng)
        sure = certified_margin(self.w, self.x, self.y, radius) > 0
        return found, float(share(sure))

    def noise_ball(self, radius: float, restarts: int, rng: torch.Generator) -> tuple[Evaluation, float]:
        """The same around (A)'s point, on the noise patches only."""
        movable = torch.ones(self.x.shape[-2])
        movable[0] = 0
        threat = Threat("L2", radius, 2, support=movable[:, None], name="noise-ball")
        found = evaluate(
            self.net, self.attacked, self.label, threat, (PGD(steps=20, restarts=restarts),), rng
        )
        sure = certified_margin(self.w, self.attacked, self.y, radius, movable) > 0
        return found, float(share(sure))


def _rows(spec: Setting, seed: int, name: str, case: Case) -> Rows:
    c = RobustBracket
    found: Rows = []
    for part in spec.radii:
        radius, rng = part * spec.law.radius, stream(seed, "attack", name, "ball", repr(part))
        upper, lower = case.ball(radius, spec.restarts, rng)
        line: Row = {c.sample: name, c.reading: BALL, c.share: part, c.radius: radius}
        found.append({**line, c.attacked: upper.accuracy, c.certified: lower})
    upper, lower = case.noise_ball(spec.noise_ball, spec.restarts, stream(seed, "attack", name, "noise"))
    line = {c.sample: name, c.reading: NOISE_BALL, c.share: None, c.radius: spec.noise_ball}
    return [*found, {**line, c.attacked: upper.accuracy, c.certified: lower}]


def _lift(case: Case, delta: Tensor, batch: SignalBatch) -> Tensor:
    """A perturbation of the reduced, signal-first points as one of the given points."""
    full = delta @ case.basis.mT
    order = torch.arange(full.shape[-2]).expand(*batch.position.shape, -1)
    rank = torch.where(order == batch.position[..., None], -1, order).argsort(-1)
    return torch.zeros_like(full).scatter(-2, rank[..., None].expand_as(full), full)


def _read(
    spec: Setting, seed: int, train: SignalBatch, w: Tensor, certify: bool
) -> tuple[Rows, dict[str, Tensor]]:
    """One network in every reading; ``certify`` keeps the training points' perturbations over the ball."""
    seen = Case(w, train, spec.law.residual)
    rows = _rows(spec, seed, "train", seen)
    rows += _rows(spec, seed, "test", Case(w, spec.fresh(seed, w), spec.law.residual))
    if not certify:
        return rows, {}
    found, _ = seen.ball(spec.law.radius, spec.restarts, stream(seed, "attack", "certificate"))
    return rows, {"w": w, "x": train.x, "y": train.y, "delta": _lift(seen, found.delta, train)}


def readings(spec: Setting, instance: Instance, weights: Tensor, folder: Folder) -> Json:
    """Read robustness of every seed's network in every way; certify the first seed's failures."""
    rows: Rows = []
    for index, seed in enumerate(spec.seeds):
        train = SignalBatch(*(t[index] for t in instance.train))
        make = partial(_read, spec, seed, train, weights[index], index == 0)
        rows += folder.once("robustness", make, seed=seed).rows
    bound = _conflict(spec)
    folder.add("conflict", [{Conflict.seed: spec.seeds[0], **bound}])
    return _summary(spec, rows) | bound


def _conflict(spec: Setting) -> dict[str, float]:
    """What no classifier can do at radius δ, by a matching of opposite points whose δ-balls meet."""
    batch = spec.law.sample(CONFLICT_POINTS, stream(spec.seeds[0], "data", "conflict"))
    found = conflict(batch.x, label_index(batch.y), "L2", spec.law.radius)
    return {Conflict.any_classifier: found.bound, Conflict.conflicting_pairs: found.share}


def _summary(spec: Setting, rows: Rows) -> Json:
    c = RobustBracket

    def mean(name: str, reading: str, key: str, part: float | None = None) -> float:
        chosen = [
            row[key] for row in rows if (row[c.sample], row[c.reading], row[c.share]) == (name, reading, part)
        ]
        return float(sum(chosen) / len(chosen))

    found: Json = {}
    for name in ("train", "test"):
        for key, reading, part in (("noise_ball", NOISE_BALL, None), ("ball", BALL, max(spec.radii))):
            found[f"{key}_{name}"] = mean(name, reading, c.attacked, part)
            found[f"{key}_{name}_certified"] = mean(name, reading, c.certified, part)
    return found
