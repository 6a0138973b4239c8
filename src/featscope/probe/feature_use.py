"""Part 3 (AT): which features does it use? Images are made from noise that a network cannot tell from real
ones, so that they hold the features that *it* reads, and nothing else; a robust reference network says
whether these are robust features.

    X̂ = argmin ‖G(X̂) − G(X)‖ from noise,    share = (reference's accuracy on X̂ − chance) ÷ (on X − chance)

AT: standard training learns non-robust features, which the reference does not read; adversarial training
learns robust ones, which it does. Two attacks through features stand beside it: one that moves the network's
features and is tried on the reference, and the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from featscope.attacks.feature import FeaturePGD, target_rate
from featscope.core.errors import require
from featscope.core.stats import Interval, exact_binomial
from featscope.core.streams import stream
from featscope.features.invert import InversionSpec, invert, starting_images
from featscope.nets.fold import evenly
from featscope.probe.findings import as_share
from featscope.probe.inputs import HeadInputs, which_right
from featscope.probe.keep import Keep
from featscope.probe.reference import reference_of
from featscope.probe.subject import Subject

#: steps of an inversion and of a feature attack, images at most and at least
STEPS, ATTACK_STEPS, MOST, LEAST = 200, 40, 200, 20
#: half way from chance to the reference's accuracy on real examples
HALF = 0.5
#: seconds that a reference of the probe's own may take, as a share of the part's
TRAINING = 0.6
NAME = "feature_use"


@dataclass(frozen=True, eq=False)
class FeatureUse:
    """Accuracies on images that hold the network's features alone, the share that a robust reference reads,
    and rates of attacks through features."""

    own: Interval
    reference: Interval
    reference_clean: float
    share: Interval
    error: float
    rates: dict[str, float]
    source: str
    reference_robust: float
    examples: int
    title: str = "AT: which features does it use?"

    @property
    def answer(self) -> str:
        """robust, non-robust, or cannot tell, by the interval of the share; images that the network itself
        does not read, and a reference that is not robust, tell nothing."""
        if self.own.value < HALF or self.reference_robust < HALF * self.reference_clean:
            return "cannot tell"
        if self.share.low >= HALF:
            return "robust"
        return "non-robust" if self.share.high < HALF else "cannot tell"

    @property
    def sentence(self) -> str:
        """For people."""
        told = {
            "robust": "it reads robust features: what it sees, a robust network sees too",
            "non-robust": "it reads non-robust features: what it sees, a robust network does not see",
            "cannot tell": "which features it reads cannot be told from these images",
        }[self.answer]
        found = self.share
        return f"{told} (share {found.value:.2f}, {found.low:.2f} to {found.high:.2f})"

    def as_json(self) -> dict[str, Any]:
        """As in probe.json."""
        return {
            "title": self.title,
            "answer": self.answer,
            "sentence": self.sentence,
            "share": as_share(self.share),
            "own": as_share(self.own),
            "reference": as_share(self.reference),
            "reference_clean": self.reference_clean,
            "reference_robust": self.reference_robust,
            "reference_source": self.source,
            "feature_error": self.error,
            "rates": self.rates,
            "examples": self.examples,
        }


class FromUnit(nn.Module):
    """A network, and its features, on inputs scaled to [0, 1]: inversions live there."""

    def __init__(self, network: nn.Module, low: float, high: float) -> None:
        super().__init__()
        self.features, self.low, self.high = network, low, high
        self.training = network.training

    def forward(self, z: Tensor) -> Tensor:
        """What the network gives for low + (high − low)·z."""
        out: Tensor = self.features(self.low + (self.high - self.low) * z)
        return out


def encoder(subject: Subject, network: nn.Module) -> nn.Module:
    """G: the input of the last linear layer, or the logits where there is none."""
    head = Subject(
        network, subject.x, subject.y, subject.eps, names=subject.names, layer=subject.layer
    ).head()
    return network if head is None else HeadInputs(network, head[0])


def span(subject: Subject) -> tuple[float, float]:
    """The interval that inputs are in: the bounds, or that of the data."""
    return subject.bounds or (float(subject.x.min()), float(subject.x.max()))


def measure(subject: Subject, seconds: float, keep: Keep) -> FeatureUse:
    """Invert, and let the reference read."""
    reference = reference_of(subject, seconds * TRAINING, keep)
    passes = STEPS + 2 * ATTACK_STEPS

    def counted() -> dict[str, Any]:
        room = int(seconds * (1 - TRAINING) / (passes * keep.cost))
        return {"examples": max(min(room, MOST), LEAST)}

    n = int(keep.once(f"{NAME}-examples", counted)["examples"])
    index = right_for_both(subject, reference.network, n)
    require(
        len(index) >= LEAST // 2,
        "too few examples are right for both networks",
        f"{len(index)}",
        "give a better reference",
    )
    x, y = subject.x[index], subject.y[index]
    made = keep.once(f"{NAME}-inverted", lambda: _inverted(subject, x, y))
    rates = keep.once(f"{NAME}-rates", lambda: _rates(subject, reference.network, x, y))
    chance = 1 / subject.classes
    read, own = _read(reference.network, made["x"], y), _read(subject.network, made["x"], y)
    # The reference reads all of these examples right, so a share is of everything that it could read.
    share = Interval(*((end - chance) / (1 - chance) for end in (read.value, read.low, read.high)))
    return FeatureUse(
        own, read, reference.clean, share, float(made["error"].mean()),
        dict(rates), reference.source, reference.robust, len(index),
    )  # fmt: skip


def right_for_both(subject: Subject, reference: nn.Module, most: int) -> Tensor:
    """Examples that both networks get right, evenly spread."""
    both = which_right(subject.network, subject.x, subject.y) & which_right(reference, subject.x, subject.y)
    index = both.nonzero()[:, 0]
    return index[evenly(len(index), most)]


def _inverted(subject: Subject, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    low, high = span(subject)
    scaled = FromUnit(encoder(subject, subject.network), low, high)
    z = ((x - low) / (high - low)).clamp(0, 1)
    spec = InversionSpec(layer="features", steps=STEPS, start="noise")
    with torch.enable_grad():
        found = invert(scaled, z, y, spec, subject.seed)
    start = starting_images(spec, z, subject.seed)
    return {"x": low + (high - low) * found.x, "error": found.error, "start": low + (high - low) * start[:8]}


def _read(network: nn.Module, x: Tensor, y: Tensor) -> Interval:
    hits = which_right(network, x, y)
    return exact_binomial(int(hits.sum()), len(hits))


def _rates(subject: Subject, reference: nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
    """How often an attack through one network's features, towards an example of another class, is taken for
    that class by the network and by the reference; the first before, without an attack."""
    other = torch.tensor([_another(y, place) for place in range(len(y))])
    aim, rng = y[other], stream(subject.seed, NAME, "attack")
    found = {"before": _rate(reference, x, torch.zeros_like(x), aim)}
    for name, network in (("network", subject.network), ("reference", reference)):
        attack = FeaturePGD(encoder(subject, network), x[other], steps=ATTACK_STEPS)
        delta = attack(network, x, y, subject.threat, rng)
        found[f"through the {name}, on the network"] = _rate(subject.network, x, delta, aim)
        found[f"through the {name}, on the reference"] = _rate(reference, x, delta, aim)
    return found


def _another(y: Tensor, place: int) -> int:
    """The next example of another class; the example itself if there is none."""
    later = torch.cat([torch.arange(place + 1, len(y)), torch.arange(place)])
    found = later[y[later] != y[place]]
    return int(found[0]) if len(found) else place


def _rate(network: nn.Module, x: Tensor, delta: Tensor, aim: Tensor) -> float:
    return float(target_rate(network, x, delta, aim).double().mean())
