"""Part 1: how robust, and is it true. Accuracy over radii between an attacked upper and a certified lower
bound, the median distance to the nearest adversarial example, each class by itself, and what speaks
against it all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from featscope.attacks.copies import fast_copy
from featscope.attacks.nearest import NearestAttack
from featscope.attacks.suite import ensemble, settle
from featscope.nets.fold import evenly
from featscope.probe import plan, written
from featscope.probe.bounds import bounded_radii
from featscope.probe.findings import Sign, exact_share
from featscope.probe.indicators import SAMPLE, indicators
from featscope.probe.keep import Keep
from featscope.probe.layers import Layer, Unreadable, layers_of
from featscope.probe.lipschitz import lipschitz_radii, only_lipschitz
from featscope.probe.subject import Subject

#: radii of the curve in units of the user's
FACTORS = (0.25, 0.5, 1.0, 2.0)
#: examples of one step that is kept
BATCH = 100
#: seconds that the certificates may take, as a share of the part's
CERTIFYING = 0.3
#: examples that are certified, at most
CERTIFIED = 200
NAME = "robustness"
#: how radii are certified
LINEAR, LIPSCHITZ = "linear bounds", "Lipschitz constant"


@dataclass(frozen=True, eq=False)
class Certified:
    """Radii within which no perturbation changes a prediction, of the first examples; how, or why there are
    none."""

    radius: Tensor
    method: str
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Robustness:
    """What was found: for each example an upper bound of its radius (0: wrong as it is; ∞: nothing found),
    for some a certified lower one, and the findings."""

    eps: float
    norm: str
    radii: tuple[float, ...]
    y: Tensor
    names: tuple[str, ...]
    upper: Tensor
    certified: Certified
    by_attack: dict[str, float]
    findings: tuple[Sign, ...]
    effort: dict[str, Any] = field(default_factory=dict)
    title: str = "How robust, and is it true"

    @property
    def alarms(self) -> tuple[Sign, ...]:
        """What speaks against the numbers."""
        return tuple(finding for finding in self.findings if finding.alarm)

    @property
    def robust(self) -> Tensor:
        """Which examples withstood everything at the user's radius."""
        return self.upper > self.eps

    def at(self, radius: float) -> dict[str, Any]:
        """The bracket at one radius."""
        lower = self.certified.radius
        certified: dict[str, Any] | None = None
        if len(lower):
            upper = self.upper[: len(lower)]
            same = float((upper > radius).double().mean())
            # An example that is wrong as it is has radius 0, too, and is not right at 0.
            certified = {
                **exact_share((lower >= radius) & (upper > 0)), "examples": len(lower), "attacked": same
            }  # fmt: skip
        return {"radius": radius, "attacked": exact_share(self.upper > radius), "certified": certified}

    @property
    def verdict(self) -> str:
        """One sentence; a masked network gets no number alone."""
        here = self.at(self.eps)
        attacked = here["attacked"]
        spread = f"{attacked['low']:.1%} to {attacked['high']:.1%}"
        most = f"at most {attacked['value']:.1%} ({spread}) at {self.norm} radius {self.eps:.4g}"
        if self.alarms:
            causes = ", ".join(dict.fromkeys(finding.cause or finding.name for finding in self.alarms))
            return f"not established: {most} if the attacks can be trusted, and they cannot: {causes}"
        proved = here["certified"]
        least = "nothing is certified"
        if proved is not None:
            least = f"{proved['value']:.1%} of the {proved['examples']} examples tried are certified"
        return f"robust accuracy {most}; {least}"

    def as_json(self) -> dict[str, Any]:
        """As in probe.json."""
        return {
            "title": self.title,
            "established": not self.alarms,
            "verdict": self.verdict,
            "eps": self.eps,
            "norm": self.norm,
            "at_eps": self.at(self.eps),
            "curve": [self.at(radius) for radius in (0.0, *self.radii)],
            "distance": _distances(self.upper),
            "certificate": self._certificate(),
            "by_attack": self.by_attack,
            "per_class": self._classes(),
            "findings": [finding.as_json() for finding in self.findings],
            "effort": self.effort,
        }

    def _certificate(self) -> dict[str, Any]:
        radius = self.certified.radius
        positive = radius[radius > 0]
        median = float(radius.median()) if len(radius) else None
        return {
            "method": self.certified.method,
            "reason": self.certified.reason,
            "examples": len(radius),
            "proved": len(positive),
            "median": median,
        }

    def _classes(self) -> list[dict[str, Any]]:
        found = []
        for label, name in enumerate(self.names):
            mine = self.y == label
            if bool(mine.any()):
                found.append(
                    {
                        "class": name,
                        "examples": int(mine.sum()),
                        "clean": exact_share(self.upper[mine] > 0),
                        "attacked": exact_share(self.robust[mine]),
                    }
                )
        return found


def _distances(upper: Tensor) -> dict[str, Any]:
    """Quartiles of the distance over the examples that are right; ∞ is null."""
    right = upper[upper > 0]
    if not len(right):
        return {"median": None, "quartiles": None, "found": None}
    cuts = [
        float(v)
        for v in torch.quantile(
            right.double().clamp(max=1e300),
            torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64),
            interpolation="nearest",
        )
    ]
    known = [v if v < 1e300 else None for v in cuts]
    return {"median": known[1], "quartiles": known, "found": exact_share(right.isfinite())}


def measure(subject: Subject, seconds: float, keep: Keep, warned: Sequence[Sign] = ()) -> Robustness:
    """Attack, certify, and look for what speaks against it; ``warned`` are the preflight's findings."""
    chosen = keep.once(
        f"{NAME}-effort", lambda: vars(plan.effort(seconds, keep.cost, len(subject.y), subject.classes))
    )
    n = int(chosen["examples"])
    index = evenly(len(subject.y), n)
    x, y = subject.x[index], subject.y[index]
    radii = tuple(factor * subject.eps for factor in FACTORS)
    searched, dropped = _search(subject, x, y, radii, chosen, keep)
    upper, delta = _nearest(subject, x, y, searched, keep)
    keep.perturbations(NAME, index[upper.isfinite() & (upper > 0)], delta[upper.isfinite() & (upper > 0)])
    keep.once(f"{NAME}-radii", lambda: {"index": index, "upper": upper})
    certified = _certify(subject, x, y, upper, seconds * CERTIFYING, keep)
    written.certificates(keep, index[: len(certified.radius)], certified.radius)
    findings = _doubts(subject, x, y, upper, searched, keep)
    by = {name: float((after > subject.eps).double().mean()) for name, after in searched["after"].items()}
    own = [finding for finding in warned if finding.alarm] + ([dropped] if dropped else [])
    return Robustness(
        subject.eps, subject.norm, radii, y, subject.names, upper, certified, by, (*own, *findings),
        {key: chosen[key] for key in ("examples", "steps", "queries")},
    )  # fmt: skip


def _search(
    subject: Subject, x: Tensor, y: Tensor, radii: Sequence[float], chosen: dict[str, Any], keep: Keep
) -> tuple[dict[str, Any], Sign | None]:
    """The ensemble on batches that are kept one by one; for each example the radius at which it fell after
    each attack, and its perturbation."""
    attacks = ensemble(int(chosen["steps"]), int(chosen["queries"]))
    if x.dim() not in (2, 4):
        attacks = attacks[:-1]
    copy, _ = fast_copy(subject.network, x)
    steps = []
    pieces = list(torch.split(torch.arange(len(y)), BATCH))
    for number, piece in enumerate(pieces):

        def make(piece: Tensor = piece, number: int = number) -> dict[str, Any]:
            found, dropped = settle(
                subject.network,
                copy,
                x[piece],
                y[piece],
                subject.threat,
                radii,
                attacks,
                subject.seed + number,
            )
            after = {f"after-{name}": radius for name, radius in found.after.items()}
            return {"fooled_at": found.fooled_at, "delta": found.delta, **after, "dropped": dropped}

        steps.append(keep.once(f"{NAME}-search-{number:03}", make))
        keep.report(
            "attacks",
            number + 1,
            len(pieces),
            robust=float((steps[-1]["fooled_at"] > subject.eps).double().mean()),
        )
    names = [attack.name for attack in attacks]
    joined = {key: torch.cat([step[key] for step in steps]) for key in ("fooled_at", "delta")}
    after = {name: torch.cat([step[f"after-{name}"] for step in steps]) for name in names}
    told = next((text for step in steps for text in step["dropped"]), None)
    warning = None if told is None else Sign("fast-copy", None, False, told)
    return {**joined, "after": after}, warning


def _nearest(
    subject: Subject, x: Tensor, y: Tensor, searched: dict[str, Any], keep: Keep
) -> tuple[Tensor, Tensor]:
    """For each example the smallest perturbation that any attack found."""
    ball, attack = subject.threat.ball, NearestAttack()
    uppers, deltas = [], []
    pieces = list(torch.split(torch.arange(len(y)), BATCH))
    for number, piece in enumerate(pieces):

        def make(piece: Tensor = piece) -> dict[str, Any]:
            return attack.find(subject.network, x[piece], y[piece], subject.threat)._asdict()

        step = keep.once(f"{NAME}-nearest-{number:03}", make)
        fell, delta = searched["fooled_at"][piece], searched["delta"][piece]
        size = torch.where(
            fell.isfinite(), torch.minimum(ball.norm(delta.flatten(1)), fell.to(delta)), torch.inf
        )
        size = torch.where(fell == 0, 0.0, size)
        nearer = step["radius"] < size
        uppers.append(torch.where(nearer, step["radius"], size))
        deltas.append(torch.where(nearer.view(-1, *([1] * (x.dim() - 1))), step["delta"], delta))
        keep.report("distances", number + 1, len(pieces))
    return torch.cat(uppers), torch.cat(deltas)


def _certify(subject: Subject, x: Tensor, y: Tensor, upper: Tensor, seconds: float, keep: Keep) -> Certified:
    """Certified radii of as many examples as the time allows."""
    try:
        layers = layers_of(subject.network, x)
    except Unreadable as error:
        return Certified(torch.zeros(0), "none", f"no certificate: {error}")
    if only_lipschitz(layers):
        first = min(CERTIFIED, len(y))
        told = "bounds by linear functions are not known for its activations"
        radius = lipschitz_radii(layers, x[:first], y[:first], subject.norm)
        return Certified(radius, LIPSCHITZ, f"{told}; the product of its layers' norms is, and is weak")
    room = 1.0 if subject.bounds is None else subject.bounds[1] - subject.bounds[0]
    far = room if subject.norm == "Linf" else room * math.sqrt(x[0].numel())
    beyond = torch.where(upper.isfinite(), upper, max(far, 10 * subject.eps))

    def counted() -> dict[str, Any]:
        return {"examples": _affordable(subject, layers, x, y, beyond, seconds)}

    n = min(int(keep.once(f"{NAME}-certify", counted)["examples"]), len(y))
    found = []
    pieces = list(torch.split(torch.arange(n), 20))
    for number, piece in enumerate(pieces):

        def make(piece: Tensor = piece) -> dict[str, Any]:
            return {"radius": bounded_radii(layers, x[piece], y[piece], subject.threat, beyond[piece])}

        found.append(keep.once(f"{NAME}-certified-{number:03}", make)["radius"])
        keep.report("certificates", number + 1, len(pieces))
    radius = torch.cat(found) if found else torch.zeros(0)
    return Certified(radius, LINEAR)


def _affordable(
    subject: Subject, layers: list[Layer], x: Tensor, y: Tensor, beyond: Tensor, seconds: float
) -> int:
    begin = time.perf_counter()
    bounded_radii(layers, x[:2], y[:2], subject.threat, beyond[:2], rounds=1)
    each = (time.perf_counter() - begin) / min(len(y), 2) / 2
    return max(min(int(seconds / (13 * each)), CERTIFIED, len(y)), min(2, len(y)))


def _doubts(
    subject: Subject, x: Tensor, y: Tensor, upper: Tensor, searched: dict[str, Any], keep: Keep
) -> list[Sign]:
    """The indicators on a sample of the right examples."""
    right = (upper > 0).nonzero()[:, 0]
    some = right[evenly(len(right), SAMPLE)]
    after = list(searched["after"].values())
    names = list(searched["after"])
    gain = None
    if names and names[-1].startswith("square"):
        gain = float(((after[-2] > subject.eps) & (after[-1] <= subject.eps)).double().mean())

    def make() -> dict[str, Any]:
        found = indicators(subject, x[some], y[some], (upper > subject.eps)[some], gain)
        return {"findings": [finding.as_json() for finding in found]}

    return [Sign(**each) for each in keep.once(f"{NAME}-doubts", make)["findings"]]
