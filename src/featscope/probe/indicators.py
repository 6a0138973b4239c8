"""Can a number of an attack be trusted? The field's indicators of attack failure (Pintor et al. 2022; Athalye
et al. 2018; Carlini et al. 2019), each with its number and a plain sentence.

They look at a sample of the examples that the network gets right.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from featscope.attacks.evaluate import evaluate, tried
from featscope.attacks.pgd import PGD
from featscope.attacks.suite import SINGLE
from featscope.core.linearise import linearise
from featscope.core.losses import MARGIN, margin
from featscope.core.streams import stream
from featscope.probe.findings import Sign
from featscope.probe.subject import Subject

#: examples looked at
SAMPLE = 64
#: an honest network's margin falls by at least this share of what its gradient says, over a short step
TRUE_SLOPE = 0.2
#: the short step, as a share of the radius
SHORT = 0.02
#: after so many halvings a continuous margin has lost all of its largest change, a jump has kept it
HALVINGS, KEPT = 10, 0.25
#: shares of the examples beyond which an indicator is an alarm
STILL, BLACK_BOX, TRANSFER, BEYOND, MORE = 0.05, 0.01, 0.02, 0.05, 0.02
#: how many times the radius is doubled to see accuracy fall to 0
DOUBLINGS = 7


def indicators(
    subject: Subject, x: Tensor, y: Tensor, robust: Tensor, square_gain: float | None
) -> list[Sign]:
    """All of them for the sample ``x``, ``y`` of right examples, of which ``robust`` withstood every attack;
    ``square_gain`` is the share that only the search without gradients fooled."""
    if not len(y):
        return []
    found = [_slope(subject, x, y), _jumps(subject, x, y), _rising(subject, x, y)]
    found += [] if square_gain is None else [_black_box(square_gain)]
    found += [_transfer(subject, x, y, robust), _falls(subject, x, y), _more_steps(subject, x, y, robust)]
    return found


@torch.no_grad()
def _slope(subject: Subject, x: Tensor, y: Tensor) -> Sign:
    """How far the margin falls along its gradient, against what the gradient says."""
    threat = subject.threat
    outputs, pull = linearise(subject.network, x)
    gradient = pull(MARGIN.grad(outputs, y))
    step = threat.project(SHORT * threat.eps * threat.steepest(gradient), x)
    said = (gradient * step).flatten(1).sum(1)
    fell = margin(outputs, y) - margin(subject.network(x + step), y)
    # Where the gradient is zero nothing is said; where a step is cut off by the bounds less is.
    ratio = torch.where(said > 0, fell / said.clamp(min=1e-30), 0.0)
    value = float(ratio.clamp(-10, 10).median())
    alarm = not TRUE_SLOPE <= value <= 1 / TRUE_SLOPE
    told = f"over a short step the margin falls by {value:.2f} of what its gradient says (median)"
    return Sign(
        "gradient-truth",
        value,
        alarm,
        told + (": the gradient is not the network's slope" if alarm else ""),
        "gradient that lies" if alarm else "",
        "attack through a smooth stand-in of the layer" if alarm else "",
    )


@torch.no_grad()
def _jumps(subject: Subject, x: Tensor, y: Tensor, points: int = 16) -> Sign:
    """Whether the margin jumps: the largest change between neighbouring points of a segment is halved again
    and again, always on the side with the larger change."""
    far = subject.threat.sample(x, stream(subject.seed, "jumps"))

    def value(part: Tensor) -> Tensor:
        return margin(subject.network(x + part.view(-1, *([1] * (x.dim() - 1))) * far), y)

    ends = torch.linspace(0, 1, points + 1).to(x)
    changes = torch.stack([value(end.expand(len(y))) for end in ends]).diff(dim=0).abs()
    largest, place = changes.max(0)
    low, high = place.to(x) / points, (place + 1).to(x) / points
    at_low, at_high = value(low), value(high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        here = value(middle)
        left = (here - at_low).abs() >= (at_high - here).abs()
        low, at_low = torch.where(left, low, middle), torch.where(left, at_low, here)
        high, at_high = torch.where(left, middle, high), torch.where(left, here, at_high)
    kept = torch.where(largest > 0, (at_high - at_low).abs() / largest.clamp(min=1e-30), 0.0)
    share = float((kept > KEPT).double().mean())
    alarm = share > STILL
    told = f"on a random way of one radius the margin jumps at {share:.0%} of the examples"
    cause, remedy = (
        "jumps",
        "look for k-winners, rounding or thresholds, and attack through a smooth stand-in",
    )
    return Sign("continuity", share, alarm, told, cause if alarm else "", remedy if alarm else "")


@torch.no_grad()
def _rising(subject: Subject, x: Tensor, y: Tensor) -> Sign:
    """Whether a plain ascent gets anywhere: from the example itself, the margin at its end is lower."""
    climb = PGD("margin", 10, random_start=False)
    delta = climb(subject.network, x, y, subject.threat, stream(subject.seed, "rising"))
    still = float((margin(subject.network(x + delta), y) >= margin(subject.network(x), y)).double().mean())
    alarm = still > STILL
    told = f"ten steps of PGD do not lower the margin of {still:.0%} of the examples"
    return Sign(
        "loss-rises",
        still,
        alarm,
        told,
        "attack goes nowhere" if alarm else "",
        "look at the gradient" if alarm else "",
    )


def _black_box(gain: float) -> Sign:
    alarm = gain > BLACK_BOX
    told = f"a search without gradients fools another {gain:.1%} of the examples after all gradient attacks"
    return Sign(
        "black-box",
        gain,
        alarm,
        told,
        "masked gradients" if alarm else "",
        "trust the search, and look for what masks the gradients" if alarm else "",
    )


@torch.no_grad()
def _transfer(subject: Subject, x: Tensor, y: Tensor, robust: Tensor) -> Sign:
    """Perturbations made on another network: the reference, or a student of the network."""
    other = subject.reference
    name = "the reference network"
    if other is None:
        other, name = _student(subject), "a small student of the network"
    found = PGD("margin", 20)(other, x, y, subject.threat, stream(subject.seed, "transfer"))
    _, fooled = tried(subject.network, x, y, subject.threat, found)
    gain = float((fooled & robust).double().mean())
    alarm = gain > TRANSFER
    whole = float(fooled.double().mean())
    told = (
        f"perturbations made on {name} fool {whole:.0%}, and {gain:.1%} that no attack on the network fooled"
    )
    return Sign(
        "transfer",
        gain,
        alarm,
        told,
        "masked gradients" if alarm else "",
        "attack the network through the other one" if alarm else "",
    )


def _student(subject: Subject, steps: int = 60) -> nn.Module:
    """A small stand-in with one hidden layer, trained to say what the network says, near the examples."""
    x = subject.x[:512]
    with torch.no_grad():
        said = subject.network(x).argmax(1)
    rng = stream(subject.seed, "student")
    student = nn.Sequential(
        nn.Flatten(), nn.Linear(x[0].numel(), 64), nn.ReLU(), nn.Linear(64, subject.classes)
    ).to(x)
    with torch.no_grad():
        for parameter in student.parameters():
            size = 1 / max(parameter.shape[-1], 1) ** 0.5
            parameter.copy_(size * (2 * torch.rand(parameter.shape, generator=rng).to(x) - 1))
    with torch.enable_grad():
        optimiser = torch.optim.Adam(student.parameters(), 3e-3)
        for _ in range(steps):
            noise = subject.threat.sample(x, rng)
            optimiser.zero_grad()
            torch.autograd.backward(functional.cross_entropy(student(x + noise), said))
            optimiser.step()
    return student.eval().requires_grad_(False)


@torch.no_grad()
def _falls(subject: Subject, x: Tensor, y: Tensor) -> Sign:
    """Accuracy against PGD at radii that double until nothing is left, or the radius is absurd."""
    left, radius, threat = torch.arange(len(y)), subject.eps, subject.threat
    room = torch.inf if subject.bounds is None else subject.bounds[1] - subject.bounds[0]
    whole = room if subject.norm == "Linf" else room * x[0].numel() ** 0.5
    for _ in range(DOUBLINGS):
        here = threat.with_radius(min(radius, whole))
        found = evaluate(subject.network, x[left], y[left], here, [SINGLE], stream(subject.seed, "falls"))
        left = left[found.robust]
        if not len(left) or radius >= whole:
            break
        radius *= 2
    value = len(left) / len(y)
    alarm = value > BEYOND
    told = f"accuracy against PGD is {value:.0%} at radius {min(radius, whole):.3g}"
    return Sign(
        "falls-to-zero",
        value,
        alarm,
        told + (": with so large a radius it should be 0" if alarm else ""),
        "attack does not search" if alarm else "",
        "look at the gradient" if alarm else "",
    )


@torch.no_grad()
def _more_steps(subject: Subject, x: Tensor, y: Tensor, robust: Tensor) -> Sign:
    """Many more steps and starts on what withstood everything."""
    left = robust.nonzero()[:, 0]
    gain = 0.0
    if len(left):
        longer = replace(SINGLE, steps=10 * SINGLE.steps)
        again = evaluate(
            subject.network, x[left], y[left], subject.threat, [longer], stream(subject.seed, "more")
        )
        gain = float((~again.robust).sum()) / len(y)
    alarm = gain > MORE
    told = f"ten times the steps fool another {gain:.1%} of the examples"
    return Sign(
        "more-steps",
        gain,
        alarm,
        told,
        "attack not converged" if alarm else "",
        "raise the budget" if alarm else "",
    )
