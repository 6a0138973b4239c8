"""What is looked at before anything is measured. What is wrong is named with what mends it; what would make
an attack meaningless stops the probe in one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from featscope.core.errors import BadInput, require
from featscope.core.linearise import linearise
from featscope.core.losses import CROSS_ENTROPY, MARGIN, margin
from featscope.core.stats import exact_binomial
from featscope.core.streams import stream
from featscope.probe.findings import Sign, exact_share
from featscope.probe.subject import Subject

#: examples that the checks look at
SAMPLE = 128
#: the share of examples without a gradient that is an alarm
ZERO = 0.05
#: logits that differ by less than this are lost in rounding
SMALL_LOGITS = 1e-4
#: a shift of the inputs, as a share of the radius, that no honest network ignores altogether
TINY = 0.01
#: how far another order of the classes must be ahead, and how well it must do, to be taken for the right one
ORDER_GAIN, ORDER_ACCURACY = 0.3, 0.5


@dataclass(frozen=True)
class Preflight:
    """The findings, what was made right on the way in, and clean accuracy with its exact interval."""

    findings: tuple[Sign, ...]
    notes: tuple[str, ...]
    clean: dict[str, float]
    title: str = "Preflight"

    @property
    def alarms(self) -> tuple[Sign, ...]:
        """What speaks against any number of an attack."""
        return tuple(finding for finding in self.findings if finding.alarm)

    def as_json(self) -> dict[str, Any]:
        """As in probe.json."""
        found = [finding.as_json() for finding in self.findings]
        return {"title": self.title, "clean": self.clean, "notes": list(self.notes), "findings": found}


@torch.no_grad()
def look(subject: Subject, notes: list[str], model: object = None) -> Preflight:
    """All checks; ``model`` is what the user gave, whose mode is looked at."""
    x, y = subject.x[:SAMPLE], subject.y[:SAMPLE]
    outputs = subject.network(x)
    right = predicted(subject) == subject.y
    _require_order(subject)
    again = _same_again(subject, x, outputs)
    findings = [
        _range(subject),
        _mode(model),
        _kind(outputs),
        again,
        None if again.alarm else _batch(subject, x, outputs),
        _gradient(subject, x, y, outputs),
        _saturated(subject, x, y, outputs),
        _steps(subject, x, outputs),
        _scale(outputs),
        _accuracy(subject, right),
    ]
    return Preflight(tuple(f for f in findings if f is not None), tuple(notes), exact_share(right))


def predicted(subject: Subject, batch: int = 500) -> Tensor:
    """The class of each example; a tie is nobody's."""
    pieces = zip(torch.split(subject.x, batch), torch.split(subject.y, batch), strict=True)
    out = []
    for x, y in pieces:
        outputs = subject.network(x)
        require(
            bool(torch.isfinite(outputs).all()),
            "logits must be finite",
            "NaN or infinity",
            "check the weights and the input range",
        )
        out.append(
            torch.where(margin(outputs, y) > 0, y, outputs.scatter(1, y[:, None], -torch.inf).argmax(1))
        )
    return torch.cat(out)


def _range(subject: Subject) -> Sign:
    least, most = float(subject.x.min()), float(subject.x.max())
    reach = f"inputs reach from {least:.3g} to {most:.3g}"
    if subject.bounds is None and subject.x.dim() == 4:
        return Sign(
            "range",
            f"{least:.3g} … {most:.3g}",
            False,
            f"{reach}: they look normalised, and the radius {subject.eps:.3g} is in their units",
            "normalised input",
            "put the normalisation inside: nn.Sequential(Normalise(mean, std), network), images in [0, 1]",
        )
    within = (
        "without bounds"
        if subject.bounds is None
        else f"within [{subject.bounds[0]:g}, {subject.bounds[1]:g}]"
    )
    if (
        subject.bounds is not None
        and subject.norm == "Linf"
        and subject.eps >= subject.bounds[1] - subject.bounds[0]
    ):
        return Sign(
            "range",
            subject.eps,
            True,
            f"the radius {subject.eps:.3g} covers the range of the inputs: any image may become any other",
            "radius",
            "lower eps",
        )
    return Sign("range", f"{least:.3g} … {most:.3g}", False, f"{reach}, {within}")


def _mode(model: object) -> Sign | None:
    training = isinstance(model, nn.Module) and any(part.training for part in model.modules())
    told = (
        "the network was given in training mode; it is probed in evaluation mode"
        if training
        else "the network is in evaluation mode"
    )
    return Sign(
        "mode", "training" if training else "eval", False, told, "", "call model.eval()" if training else ""
    )


def _kind(outputs: Tensor) -> Sign:
    logarithms = float(torch.logsumexp(outputs, 1).abs().max()) < 1e-3
    told = (
        "outputs are logarithms of probabilities, as good as logits" if logarithms else "outputs are logits"
    )
    return Sign("outputs", "log-probabilities" if logarithms else "logits", False, told)


def _same_again(subject: Subject, x: Tensor, outputs: Tensor) -> Sign:
    gap = float((subject.network(x) - outputs).abs().max())
    random = gap > 1e-6 * float(outputs.abs().max())
    told = (
        f"two calls differ by up to {gap:.2g}: the network is random in evaluation mode"
        if random
        else "two calls agree"
    )
    return Sign(
        "determinism",
        gap,
        random,
        told,
        "random layer" if random else "",
        "fix its noise, or average its logits over many draws" if random else "",
    )


def _batch(subject: Subject, x: Tensor, outputs: Tensor) -> Sign | None:
    alone = subject.network(x[:1])
    gap = float((alone - outputs[:1]).abs().max() / outputs.abs().max().clamp(min=1e-30))
    if gap <= 1e-3:
        return None
    return Sign(
        "batch",
        gap,
        True,
        "outputs depend on the other images of the batch: a number holds for this batch size only",
        "batch statistics",
        "give BatchNorm running statistics",
    )


def _gradient(subject: Subject, x: Tensor, y: Tensor, outputs: Tensor) -> Sign:
    # Where autograd is cut altogether, this stops the probe with the line that mends it.
    _, pull = linearise(subject.network, x)
    gradient = pull(MARGIN.grad(outputs, y)).flatten(1)
    require(
        bool(torch.isfinite(gradient).all()),
        "gradients must be finite",
        "NaN or infinity by autograd",
        "look for sqrt, log or a division at 0 in its forward",
    )
    still = float((gradient.abs().amax(1) == 0).double().mean())
    alarm = still > ZERO
    told = f"the gradient of the margin is zero at {still:.0%} of the examples"
    return Sign(
        "gradient",
        still,
        alarm,
        told,
        "zero gradient" if alarm else "",
        "look for rounding, signs, clamps or detach() in its forward" if alarm else "",
    )


def _saturated(subject: Subject, x: Tensor, y: Tensor, outputs: Tensor) -> Sign | None:
    weights = CROSS_ENTROPY.grad(outputs, y).abs().amax(1)
    still = float((weights == 0).double().mean())
    if still <= ZERO:
        return None
    return Sign(
        "saturation",
        still,
        True,
        f"the softmax of the logits is 0 and 1 exactly at {still:.0%} of the examples: the cross-entropy "
        "has no gradient there",
        "saturated softmax",
        "divide the logits by a temperature: predictions stay the same",
    )


def _steps(subject: Subject, x: Tensor, outputs: Tensor) -> Sign | None:
    """Whether the network is constant in small steps: a shift far below the radius changes nothing, not even
    the last bit."""
    rng = stream(subject.seed, "preflight", "steps")
    shift = subject.threat.with_radius(TINY * subject.eps).sample(x, rng)
    moved = subject.network(x + shift)
    same = float((moved == outputs).all(1).double().mean())
    if same <= ZERO:
        return None
    return Sign(
        "steps",
        same,
        True,
        f"a shift of {TINY:.0%} of the radius changes no logit at {same:.0%} of the examples: the input is "
        "rounded, or the network constant in steps",
        "quantised input",
        "take the rounding out, or put its straight-through gradient in",
    )


def _scale(outputs: Tensor) -> Sign:
    spread = float((outputs.amax(1) - outputs.amin(1)).median())
    small = spread < SMALL_LOGITS
    told = f"logits of an example span {spread:.3g} (median)"
    return Sign(
        "scale",
        spread,
        small,
        told + (": so small a scale hides gradients in rounding" if small else ""),
        "vanishing logit scale" if small else "",
        "multiply the logits by a constant: predictions stay the same" if small else "",
    )


def _accuracy(subject: Subject, right: Tensor) -> Sign:
    found = exact_binomial(int(right.sum()), len(right))
    chance = float(torch.bincount(subject.y).max()) / len(subject.y)
    guessing = found.low <= chance and len(right) >= 10 and float(subject.y.max()) > float(subject.y.min())
    told = f"clean accuracy {found.value:.1%} ({found.low:.1%} to {found.high:.1%}) of {len(right)} examples"
    more = f", no better than always the commonest class ({chance:.1%})" if guessing else ""
    return Sign(
        "accuracy",
        found.value,
        guessing,
        told + more,
        "wrong inputs or labels" if guessing else "",
        "check normalisation, channel order and labels" if guessing else "",
    )


def _require_order(subject: Subject) -> None:
    """Refuse labels in another order than the outputs: a permutation of the classes does far better."""
    classes, found = subject.classes, predicted(subject)
    if classes > 200:
        return
    table = torch.zeros(classes, classes)
    table.index_put_((subject.y, found), torch.ones(len(found)), accumulate=True)
    rows, columns = linear_sum_assignment(-table.numpy())
    best = float(table[rows, columns].sum()) / len(found)
    now = float((found == subject.y).double().mean())
    if best < max(now + ORDER_GAIN, ORDER_ACCURACY) or now > best / 2:
        return
    order = ", ".join(f"{a}→{b}" for a, b in zip(rows.tolist(), columns.tolist(), strict=True) if a != b)
    raise BadInput(
        "labels must be in the order of the outputs",
        f"accuracy is {now:.1%}, and {best:.1%} with labels {order[:80]}",
        "number the labels as the network does",
    )
