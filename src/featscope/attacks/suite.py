"""Several attacks on a network of images, in batches, on a folded copy, with warnings where the numbers may mean less than they seem."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from featscope.attacks.apgd import APGD
from featscope.attacks.curve import Curve, count, robust_curve
from featscope.attacks.evaluate import Evaluation, evaluate
from featscope.attacks.mode import in_mode
from featscope.attacks.pgd import PGD, Attack
from featscope.attacks.square import Square
from featscope.attacks.threat import Threat
from featscope.core.linearise import Model, linearise
from featscope.core.losses import CROSS_ENTROPY, SOFT_MARGIN, margin
from featscope.core.streams import stream
from featscope.nets.fold import fold

#: shares of the examples beyond which a warning is given
ZERO_GRADIENT = 0.05
BLACK_BOX = 0.01

#: one PGD for robust accuracy on images: cross-entropy's direction, which weighs all rival classes, without its saturation
SINGLE = PGD(SOFT_MARGIN.name, steps=20, stop_early=True)


def ensemble(steps: int = 50, queries: int = 500) -> list[Attack]:
    """Adaptive PGD on the soft margin and on the margin, PGD at every wrong class, and a search without gradients last."""
    return [
        APGD(SOFT_MARGIN.name, steps),
        APGD("margin", steps),
        PGD("margin", steps, every_target=True, stop_early=True),
        Square(queries),
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


def preflight(model: Model, x: Tensor, y: Tensor, threat: Threat) -> list[str]:
    """What can be seen before any attack: inputs out of range, probabilities for logits, a network in training, gradients that vanish."""
    warnings = []
    low, high = threat.bounds or (0.0, 1.0)
    if float(x.min()) < low or float(x.max()) > high:
        warnings.append(f"inputs reach from {float(x.min()):.3g} to {float(x.max()):.3g}, outside [{low:g}, {high:g}]")
    if isinstance(model, nn.Module) and any(part.training for part in model.modules()):
        warnings.append("the network is in training mode; it is evaluated in evaluation mode")
    with in_mode(model, "eval"), torch.no_grad():
        outputs, again = model(x), model(x)
        if not torch.equal(outputs, again):
            warnings.append("two calls of the network differ: it is random, and one call proves little")
        sums = outputs.sum(-1)
        if float(outputs.min()) >= 0 and float((sums - 1).abs().max()) < 1e-3:
            warnings.append("the outputs look like probabilities; attacks need logits")
        _, pull = linearise(model, x)
        gradient = pull(CROSS_ENTROPY.grad(outputs, y)).flatten(1)
        still = float((gradient.abs().amax(-1) == 0).double().mean())
        if still > ZERO_GRADIENT:
            warnings.append(f"the cross-entropy's gradient is zero at {still:.0%} of the examples: it may be masked")
    return warnings


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
    """Evaluate in batches. A network that can be folded is attacked as its folded copy, and every perturbation is tried on the network itself."""
    chosen = list(attacks) if attacks is not None else ensemble()
    warnings = preflight(model, x[:batch], y[:batch], threat)
    attacked, folded = _copy(model, x, fast)
    parts = []
    for number, start in enumerate(range(0, len(y), batch)):
        rng = stream(seed, "assess", number)
        part = slice(start, start + batch)
        found = evaluate(attacked, x[part], y[part], threat, chosen, rng)
        parts.append(_on_the_network(model, found, x[part], y[part]))
    joined = _join(parts)
    warnings += _afterwards(attacked, joined, x, y, threat, chosen, seed)
    return Assessment(joined, warnings, folded)


@torch.no_grad()
def assess_curve(
    model: Model,
    x: Tensor,
    y: Tensor,
    threat: Threat,
    radii: Sequence[float],
    attack: PGD = SINGLE,
    seed: int = 0,
    batch: int = 500,
    fast: bool = True,
) -> Curve:
    """Robust accuracy over radii, searched on a folded copy. What does not fool the network itself, by rounding at a tie, is searched again on the network."""
    curve = robust_curve(_copy(model, x, fast)[0], x, y, threat, radii, attack, stream(seed, "curve"), batch)
    with in_mode(model, "eval"):
        wrong = torch.cat(
            [~(margin(model(a), b) > 0) for a, b in zip(torch.split(x + curve.delta, batch), torch.split(y, batch), strict=True)]
        )
    differs = (wrong.cpu() != torch.isfinite(curve.fooled_at)).nonzero()[:, 0].to(x.device)
    if not len(differs):
        return curve
    again = robust_curve(model, x[differs], y[differs], threat, radii, attack, stream(seed, "curve", "again"), batch)
    curve.fooled_at[differs.cpu()], curve.delta[differs] = again.fooled_at, again.delta
    return count(radii, curve.fooled_at, curve.delta)


def _copy(model: Model, x: Tensor, fast: bool) -> tuple[Model, int]:
    """What is attacked, a folded copy of a network or the model as it is, and how many BatchNorms were folded."""
    if not (fast and isinstance(model, nn.Module)):
        return model, 0
    copy = fold(model, x[:8])
    return copy.model, copy.folded


@torch.no_grad()
def _on_the_network(model: Model, found: Evaluation, x: Tensor, y: Tensor) -> Evaluation:
    """Count on the network itself what was found on its copy; rounding may decide differently at a tie."""
    with in_mode(model, "eval"):
        clean = margin(model(x), y) > 0
        robust = clean & (margin(model(x + found.delta), y) > 0)
    return Evaluation(clean, robust, found.delta, found.by)


def _join(parts: Sequence[Evaluation]) -> Evaluation:
    total = sum(len(part.clean) for part in parts)
    names = parts[0].by
    by = {name: sum(part.by[name] * len(part.clean) for part in parts) / total for name in names}
    clean, robust, delta = (torch.cat([getattr(part, key) for part in parts]) for key in ("clean", "robust", "delta"))
    return Evaluation(clean, robust, delta, by)


def _afterwards(
    model: Model, found: Evaluation, x: Tensor, y: Tensor, threat: Threat, attacks: Sequence[Attack], seed: int, sample: int = 50
) -> list[str]:
    """Signs of masked gradients: a search without gradients beats the others, or a larger radius fools fewer."""
    warnings = []
    names = list(found.by)
    gained = [found.by[a] - found.by[b] for a, b in itertools.pairwise(names)]
    for attack, gain in zip(attacks[1:], gained, strict=False):
        if isinstance(attack, Square) and gain > BLACK_BOX:
            warnings.append(f"{attack.name} needs no gradient and fools another {gain:.1%} of the examples: gradients may be masked")
    fooled = (found.clean & ~found.robust).nonzero()[:, 0][:sample]
    if len(fooled) and attacks and not isinstance(attacks[0], Square):
        here = evaluate(model, x[fooled], y[fooled], threat, attacks[:1], stream(seed, "again"))
        wider = evaluate(model, x[fooled], y[fooled], threat.with_radius(2 * threat.eps), attacks[:1], stream(seed, "again"))
        if wider.accuracy > here.accuracy:
            warnings.append(f"{attacks[0].name} fools fewer examples at twice the radius: it does not search well")
    return warnings
