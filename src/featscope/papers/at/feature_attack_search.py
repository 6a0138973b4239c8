"""The attacks of AT A.2 for one pair of classes: who is moved towards what, the search, and the rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from featscope.attacks.feature import FeaturePGD, target_rate
from featscope.attacks.threat import Threat
from featscope.core.linearise import Model
from featscope.core.store import Rows
from featscope.core.streams import stream
from featscope.images.datasets import load
from featscope.nets.classifier import ImageClassifier, Representation
from featscope.nets.fold import fold
from featscope.papers.at.feature_attack_columns import RATE, Rates

#: the attack, and the training of the network whose features it uses
ATTACKS = {"NRF": "standard", "RF": "adversarial"}
SEARCHED = (*ATTACKS, "noise")


def draw(
    dataset: str, source: int, target: int, count: int, seed: int, again: int = 0
) -> tuple[Tensor, Tensor]:
    """Test images X of the source class, and for each a random X′ of the target class, drawn by seed.

    ``again`` draws other X′ for the same X.
    """
    test = load(dataset, "test")
    own, pool = ((test.y == label).nonzero()[:, 0] for label in (source, target))
    picked = own[torch.randperm(len(own), generator=stream(0, "source", source))[:count]].sort().values
    rng = stream(seed, "target", source, target, *_again(again))
    drawn = pool[torch.randint(0, len(pool), (len(picked),), generator=rng)]
    return test.batch(picked).x, test.batch(drawn).x


def _again(number: int) -> tuple[str | int, ...]:
    """What a further draw adds to the name of a stream."""
    return ("again", number) if number else ()


@dataclass(frozen=True)
class FeatureSearch:
    """How long and where features are moved, and of how many images."""

    images: int
    steps: int
    layer: str


def search(
    reference: ImageClassifier,
    x: Tensor,
    target: Tensor,
    threat: Threat,
    how: FeatureSearch,
    rng: torch.Generator,
) -> Tensor:
    """Perturbations that bring features near those of ``target`` images, searched on a folded copy."""
    encoder = fold(Representation(reference, how.layer), x).model
    parts = []
    for image, aim in zip(torch.split(x, 100), torch.split(target, 100), strict=True):
        attack = FeaturePGD(encoder, aim, how.steps)
        parts.append(
            threat.project(
                attack(encoder, image, torch.zeros(len(image), dtype=torch.int64), threat, rng), image
            )
        )
    return torch.cat(parts)


@torch.no_grad()
def nearness(reference: ImageClassifier, layer: str, x: Tensor, delta: Tensor, target: Tensor) -> Tensor:
    """‖G(X + Δ) − G(X′)‖ ÷ ‖G(X) − G(X′)‖ for each image: 1 means nothing was gained."""
    aim = reference.represent(target, layer)
    after, before = ((reference.represent(image, layer) - aim).norm(dim=-1) for image in (x + delta, x))
    ratio: Tensor = after / before.clamp(min=1e-30)
    return ratio


def rate(model: Model, x: Tensor, delta: Tensor, target: int) -> float:
    """Share of the images that are classified as the target."""
    aim = torch.full((len(x),), target, dtype=torch.int64)
    parts = zip(torch.split(x, 500), torch.split(delta, 500), torch.split(aim, 500), strict=True)
    return float(torch.cat([target_rate(model, *part) for part in parts]).double().mean())


def _noise(x: Tensor, threat: Threat, rng: torch.Generator) -> Tensor:
    """±ε for each pixel."""
    return threat.project(threat.eps * (2.0 * torch.randint(0, 2, x.shape, generator=rng) - 1).to(x), x)


@dataclass(frozen=True, eq=False)
class Duel:
    """The references of one seed, and the networks of the next that are attacked."""

    seed: int
    attacked_seed: int
    references: Mapping[str, ImageClassifier]
    attacked: Mapping[str, ImageClassifier]


def attack_pair(
    duel: Duel, dataset: str, pair: tuple[int, int], threat: Threat, how: FeatureSearch, again: int = 0
) -> tuple[Rows, dict[str, Tensor]]:
    """Both attacks and noise for one pair of classes and one seed, with some images to look at."""
    x, aims = draw(dataset, *pair, how.images, duel.seed, again)
    rows: Rows = []
    shown = {"original": x[:4].clone(), "target": aims[:4].clone()}
    for label in SEARCHED:
        rng = stream(duel.seed, "attack", dataset, label, *pair, *_again(again))
        row: dict[str, Any] = {
            Rates.attack: label,
            Rates.attacked_seed: duel.attacked_seed,
            Rates.images: len(x),
        }
        if label in ATTACKS:
            reference = duel.references[ATTACKS[label]]
            delta = search(reference, x, aims, threat, how, rng)
            row[Rates.own_head] = rate(reference, x, delta, pair[1])
            row[Rates.distance] = float(nearness(reference, how.layer, x, delta, aims).median())
            shown[label] = (x + delta)[:4].clone()
        else:
            delta = _noise(x, threat, rng)
        for method, (after, before) in RATE.items():
            net = duel.attacked[method]
            row |= {after: rate(net, x, delta, pair[1]), before: rate(net, x, torch.zeros_like(x), pair[1])}
        rows.append(row)
    return rows, shown
