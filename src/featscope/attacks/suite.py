"""Robust accuracy of any network of images, at one radius or at many, with warnings where the numbers may
mean less than they seem.

One evaluator for both: the same refusals, the same attacks, the same search without gradients. A cheap attack
goes first and takes what falls easily; whatever counts as robust has withstood all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from featscope.attacks.admit import admit
from featscope.attacks.aimed import Aimed
from featscope.attacks.apgd import APGD
from featscope.attacks.copies import Fallen, Search, fast_copy, search
from featscope.attacks.curve import AccuracyCurve, count, fall, require_ascending
from featscope.attacks.evaluate import Evaluation, evaluate
from featscope.attacks.mode import in_mode
from featscope.attacks.nearest import NearestAttack
from featscope.attacks.pgd import PGD, Attack
from featscope.attacks.square import Square
from featscope.attacks.threat import Threat
from featscope.core.errors import require
from featscope.core.linearise import Model, linearise
from featscope.core.losses import CROSS_ENTROPY, MARGIN, SOFT_MARGIN, loss
from featscope.core.streams import stream

#: shares of the examples beyond which a warning is given
ZERO_GRADIENT = 0.05
BLACK_BOX = 0.01

#: how much longer the search without gradients looks once it has found something
PERSIST = 10

#: the cheap attack that goes first: cross-entropy's direction, which weighs all rival classes, without its
#: saturation
SINGLE = PGD(SOFT_MARGIN.name, steps=20, stop_early=True)


def ensemble(steps: int = 50, queries: int = 500) -> list[Attack]:
    """A cheap PGD first, adaptive PGD on the margin, the nearest way to the likeliest classes, PGD at every
    wrong class, adaptive PGD on the soft margin, and a search without gradients last.
    """
    return [
        replace(SINGLE, steps=min(steps, SINGLE.steps)),
        APGD(MARGIN.name, steps, stop_early=True),
        NearestAttack(steps),
        Aimed(steps),
        APGD(SOFT_MARGIN.name, steps, stop_early=True),
        Square(queries, persist=PERSIST),
    ]


@dataclass(frozen=True)
class Assessment:
    """The evaluation over all batches, what was folded, and the warnings."""

    evaluation: Evaluation
    warnings: list[str] = field(default_factory=list)
    folded: int = 0

    @property
    def accuracy(self) -> float:
        """Robust accuracy against all attacks."""
        return self.evaluation.accuracy

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against the number."""
        return not self.warnings


def preflight(
    model: Model, x: Tensor, y: Tensor, threat: Threat, attacks: Sequence[Attack] = ()
) -> list[str]:
    """What can be seen before any attack: odd inputs, a network in training or random, gradients that vanish
    for the objectives of the attacks.
    """
    warnings = []
    if threat.bounds is None and (float(x.min()) < 0 or float(x.max()) > 1):
        warnings.append(
            f"inputs reach from {float(x.min()):.3g} to {float(x.max()):.3g}, outside [0, 1], and the threat "
            "has no bounds"
        )
    if (
        threat.bounds is not None
        and threat.norm == "Linf"
        and threat.eps >= threat.bounds[1] - threat.bounds[0]
    ):
        warnings.append(
            f"the radius {threat.eps:.3g} covers the range of the inputs: any image may become any other"
        )
    if isinstance(model, nn.Module) and any(part.training for part in model.modules()):
        warnings.append("the network is in training mode; it is evaluated in evaluation mode")
    with in_mode(model, "eval"), torch.no_grad():
        outputs, again = model(x), model(x)
        if not torch.equal(outputs, again):
            warnings.append("two calls of the network differ: it is random, and one call proves little")
        elif len(x) > 1 and not _alike(model(x[:1]), outputs[:1]):
            warnings.append(
                "outputs depend on the other images of the batch: a number holds for this batch size only"
            )
        require_logits(outputs)
        names = {objective for attack in attacks if (objective := getattr(attack, "objective", None))} or (
            {CROSS_ENTROPY.name} if not attacks else set()
        )
        for name in sorted(names):
            _, pull = linearise(model, x)
            gradient = pull(loss(name).grad(outputs, y)).flatten(1)
            still = float((gradient.abs().amax(-1) == 0).double().mean())
            if still > ZERO_GRADIENT:
                warnings.append(
                    f"the gradient of the {name} is zero at {still:.0%} of the examples: it may be masked"
                )
    return warnings


def _alike(one: Tensor, other: Tensor) -> bool:
    """Equal up to what another order of the same sums may change."""
    return bool(((one - other).abs() <= 1e-3 * other.abs().max().clamp(min=1e-30)).all())


def require_logits(outputs: Tensor) -> None:
    """Refuse probabilities: where they round to 0 and 1 no gradient is left, and the network looks robust."""
    likely = float(outputs.min()) >= 0 and float((outputs.sum(-1) - 1).abs().max()) < 1e-3
    remedy = "leave out the last softmax, or return its logarithm"
    require(
        not likely,
        "attacks need logits",
        "the outputs are probabilities: they are positive and sum to 1",
        remedy,
    )


def assess(
    model: Model,
    x: Tensor,
    y: Tensor,
    threat: Threat,
    attacks: Sequence[Attack] | None = None,
    seed: int = 0,
    batch: int = 250,
    fast: bool = True,
) -> Assessment:
    """Robust accuracy at the radius of the threat: :func:`assess_curve` at one radius."""
    found = assess_curve(model, x, y, threat, (threat.eps,), attacks, seed, batch, fast)
    clean, robust = (found.fooled_at > radius for radius in (0.0, threat.eps))
    evaluation = Evaluation(
        clean.to(x.device),
        robust.to(x.device),
        found.delta,
        {name: after[0] for name, after in found.by.items()},
    )
    return Assessment(evaluation, found.warnings, found.folded)


@torch.no_grad()
def assess_curve(
    model: Model,
    x: Tensor,
    y: Tensor,
    threat: Threat,
    radii: Sequence[float],
    attacks: Sequence[Attack] | None = None,
    seed: int = 0,
    batch: int = 250,
    fast: bool = True,
) -> AccuracyCurve:
    """Robust accuracy over radii against all attacks, in batches.

    A network that can be folded is searched as its folded copy and judged as itself.
    """
    require_ascending(radii)
    model, y = admit(model, x, y, threat)
    chosen, warnings = usual_attacks(x) if attacks is None else (list(attacks), [])
    warnings += preflight(model, x[:batch], y[:batch], threat, chosen)
    searched, folded = fast_copy(model, x, fast)
    found, dropped = settle(model, searched, x, y, threat, radii, chosen, seed, batch)
    warnings += dropped
    curve = count(radii, found)
    warnings += _afterwards(model, curve, x, y, threat, chosen, seed)
    return replace(curve, warnings=warnings, folded=folded)


def settle(
    model: Model,
    copy: Model,
    x: Tensor,
    y: Tensor,
    threat: Threat,
    radii: Sequence[float],
    attacks: Sequence[Attack],
    seed: int,
    batch: int = 250,
) -> tuple[Fallen, list[str]]:
    """All attacks at all radii, searched on a copy and settled on the network, and what speaks against it."""

    def with_attacks(used: Sequence[Attack]) -> Search:
        """The search of chosen examples, batch by batch, each with a random stream of its own."""

        def look(model: Model, chosen: Tensor, name: str) -> Fallen:
            tags = ("assess",) if name == "first" else ("assess", name)
            parts = [
                fall(model, x[part], y[part], threat, radii, used, stream(seed, *tags, number))
                for number, part in enumerate(torch.split(chosen, batch))
            ]
            after = {attack.name: torch.cat([part.after[attack.name] for part in parts]) for attack in used}
            return Fallen(
                torch.cat([part.fooled_at for part in parts]),
                torch.cat([part.delta for part in parts]),
                after,
            )

        return look

    return search(model, copy, x, y, with_attacks(attacks), with_attacks(_quick(attacks)))


def usual_attacks(x: Tensor, steps: int = 50) -> tuple[list[Attack], list[str]]:
    """The ensemble, and a warning where the search without gradients has nothing to draw squares on."""
    if x.dim() in (2, 4):
        return ensemble(steps), []
    told = "no search without gradients: squares are drawn on images (N, C, H, W) and on vectors (N, d)"
    return ensemble(steps)[:-1], [told]


def _quick(attacks: Sequence[Attack]) -> list[Attack]:
    """What the sample is searched with: gradients are what a copy can lose, and two attacks show it."""
    return [attack for attack in attacks if not isinstance(attack, Square)][:2]


def _afterwards(
    model: Model,
    found: AccuracyCurve,
    x: Tensor,
    y: Tensor,
    threat: Threat,
    attacks: Sequence[Attack],
    seed: int,
    sample: int = 50,
) -> list[str]:
    """Signs of masked gradients: a search without gradients finds more, or a larger radius fools fewer."""
    warnings = []
    for (before, attack), after in zip(
        itertools.pairwise(attacks), list(found.by.values())[1:], strict=False
    ):
        gain = max(a - b for a, b in zip(found.by[before.name], after, strict=True))
        if isinstance(attack, Square) and gain > BLACK_BOX:
            warnings.append(
                f"{attack.name} needs no gradient and fools another {gain:.1%} of the examples: gradients "
                "may be masked"
            )
    widest = found.radii[-1]
    fooled = ((found.fooled_at > 0) & (found.fooled_at <= widest)).nonzero()[:, 0][:sample].to(x.device)
    if len(fooled) and attacks and not isinstance(attacks[0], Square):
        here, wider = (
            evaluate(
                model,
                x[fooled],
                y[fooled],
                threat.with_radius(factor * widest),
                attacks[:1],
                stream(seed, "again"),
            )
            for factor in (1, 2)
        )
        if wider.accuracy > here.accuracy:
            warnings.append(
                f"{attacks[0].name} fools fewer examples at twice the radius: it does not search well"
            )
    return warnings
