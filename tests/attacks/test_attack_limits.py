"""Attacks, threats and certificates at their limits: the last value that is taken, and the first that is
refused or warned of."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from featscope.attacks.admit import admit
from featscope.attacks.apgd import APGD
from featscope.attacks.copies import Fallen
from featscope.attacks.curve import count, fall, require_ascending
from featscope.attacks.evaluate import evaluate
from featscope.attacks.feature import FeaturePGD
from featscope.attacks.minimal import MinimalPGD
from featscope.attacks.nearest import NearestAttack
from featscope.attacks.patch_certificate import ROUNDING, is_certified
from featscope.attacks.patch_model_free import model_free, write_robust
from featscope.attacks.patch_training_attack import Directions, PatchTrainingAttack
from featscope.attacks.pgd import PGD, targeted
from featscope.attacks.square import Square
from featscope.attacks.suite import _afterwards, preflight, require_logits, usual_attacks
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.laws.patches import PatchLaw

LABELS = torch.zeros(2, dtype=torch.long)
GOAL = targeted(LABELS)
FLAT = PatchLaw(k=2, d=6, patches=3, beta=0.5, sigma_n=0.0)


def feature(steps: int) -> FeaturePGD:
    return FeaturePGD(lambda x: x, torch.zeros(1, 2), steps=steps)


def training_attack(norm: str, clip: str) -> PatchTrainingAttack:
    return PatchTrainingAttack(norm=norm, clip=clip)


def fits(bounds: tuple[float, float], value: float) -> None:
    Threat("Linf", 0.1, 1, bounds=bounds).require_fits(torch.full((2, 3), value, dtype=torch.float64), LABELS)


def directions(d: int) -> Directions:
    """Two features and two neurons for each of two classes: six directions."""
    return Directions(
        torch.eye(2, d, dtype=torch.float64), torch.randn(2, 2, d, generator=stream(0, "w")).double()
    )


def freed(eps: float) -> Tensor:
    return model_free(FLAT, FLAT.sample(4), eps, stream(0, "a"))


def written(frame: str) -> Tensor:
    law = FLAT.replace(frame=frame)
    return write_robust(law, law.sample(4), 0.1, stream(0, "a"))


def threat(**given: object) -> Threat:
    return Threat(**{"norm": "L2", "eps": 0.1, "event": 2, **given})  # type: ignore[arg-type]


def goal(**given: object) -> PGD:
    return PGD(goal=GOAL, **given)  # type: ignore[arg-type]


def counted(n: int) -> object:
    x = torch.zeros(n, 2)
    return evaluate(lambda t: t, x, torch.zeros(n, dtype=torch.long), Threat("L2", 0.1, 1), [], stream(0))


CASES: list[tuple[Callable[..., object], dict[str, object], dict[str, object], str]] = [
    (PGD, {"steps": 1}, {"steps": 0}, "steps must be at least 1"),
    (PGD, {"restarts": 1}, {"restarts": 0}, "restarts must be at least 1"),
    (PGD, {"objective": "own-logit"}, {"objective": "no such loss"}, "unknown loss"),
    (goal, {}, {"every_target": True}, "goal of one's own"),
    (goal, {"every_target": False}, {"stop_early": True}, "goal of one's own"),
    (APGD, {"steps": 1}, {"steps": 0}, "steps must be at least 1"),
    (APGD, {"restarts": 1}, {"restarts": 0}, "restarts must be at least 1"),
    (APGD, {"objective": "margin"}, {"objective": "no such loss"}, "unknown loss"),
    (Square, {"queries": 1}, {"queries": 0}, "queries must be at least 1"),
    (Square, {"persist": 1}, {"persist": 0}, "persist must be at least 1"),
    (NearestAttack, {"steps": 1}, {"steps": 0}, "steps must be at least 1"),
    (NearestAttack, {"targets": 1}, {"targets": 0}, "targets must be at least 1"),
    (MinimalPGD, {"steps": 1}, {"steps": 0}, "steps must be at least 1"),
    (MinimalPGD, {"restarts": 1}, {"restarts": 0}, "restarts must be at least 1"),
    (MinimalPGD, {"rounds": 1}, {"rounds": 0}, "rounds must be at least 1"),
    (feature, {"steps": 1}, {"steps": 0}, "steps must be at least 1"),
    (training_attack, {"norm": "L2", "clip": "patch"}, {"norm": "L2", "clip": "coordinate"}, "Linf only"),
    (
        training_attack,
        {"norm": "Linf", "clip": "coefficient"},
        {"norm": "L2", "clip": "coefficient"},
        "Linf only",
    ),
    (training_attack, {"norm": "L3", "clip": "patch"}, {"norm": "L1", "clip": "patch"}, "p at least 2"),
    (directions, {"d": 6}, {"d": 5}, "d at least km"),
    (freed, {"eps": 0.5}, {"eps": 0.499}, "at least β"),
    (written, {"frame": "axes"}, {"frame": "random"}, "along the axes"),
    (counted, {"n": 1}, {"n": 0}, "at least one example"),
    (threat, {"eps": 0.0}, {"eps": -1e-9}, "eps must be at least"),
    (threat, {"event": 1}, {"event": 0}, "at least one axis"),
    (threat, {"apart": 1}, {"apart": 2}, "axis of its own"),
    (threat, {"apart": 0}, {"apart": -1}, "axis of its own"),
    (threat, {"bounds": (0.0, 1e-9)}, {"bounds": (0.5, 0.5)}, "low < high"),
    (threat, {"basis": torch.eye(2)}, {"basis": torch.eye(2), "norm": "Linf"}, "a subspace goes with L2"),
    (threat, {"basis": torch.eye(2)}, {"basis": torch.eye(2), "bounds": (0.0, 1.0)}, "a subspace goes with"),
    (threat, {"basis": torch.eye(2)}, {"basis": torch.eye(2), "support": torch.ones(2)}, "a subspace goes"),
    (threat, {"support": torch.ones(2), "bounds": (0.0, 1.0), "norm": "Linf"}, {"norm": "L"}, "norm"),
    (fits, {"bounds": (0.0, 1.0), "value": 1 + 9e-7}, {"bounds": (0.0, 1.0), "value": 1 + 2e-6}, "lie in"),
    (fits, {"bounds": (0.0, 1.0), "value": -9e-7}, {"bounds": (0.0, 1.0), "value": -2e-6}, "lie in"),
    (fits, {"bounds": (0.0, 1.0), "value": 0.5}, {"bounds": (0.0, 1.0), "value": 255.0}, "by 255"),
    (fits, {"bounds": (0.0, 1.0), "value": 0.5}, {"bounds": (0.0, 1.0), "value": 2.01}, "by 255"),
    (fits, {"bounds": (0.0, 1.0), "value": 0.5}, {"bounds": (0.0, 1.0), "value": 2.0}, "normalisation"),
    (fits, {"bounds": (0.0, 1.0), "value": 0.5}, {"bounds": (0.0, 1.0), "value": 255.1}, "normalisation"),
    (fits, {"bounds": (0.0, 1.0), "value": 0.5}, {"bounds": (0.0, 1.0), "value": -0.5}, "normalisation"),
    (fits, {"bounds": (-1.0, 1.0), "value": 0.5}, {"bounds": (-1.0, 1.0), "value": 3.0}, "normalisation"),
    (fits, {"bounds": (0.0, 2.0), "value": 0.5}, {"bounds": (0.0, 2.0), "value": 3.0}, "normalisation"),
    (require_ascending, {"radii": (0.0, 0.1)}, {"radii": ()}, "ascending"),
    (require_ascending, {"radii": (0.0,)}, {"radii": (-1e-9, 0.1)}, "ascending"),
    (require_ascending, {"radii": (0.1, 0.2)}, {"radii": (0.1, 0.1)}, "ascending"),
]


@pytest.mark.parametrize(("make", "taken", "refused", "told"), CASES)
def test_limits_of_attacks_and_threats(
    make: Callable[..., object], taken: dict[str, object], refused: dict[str, object], told: str
) -> None:
    make(**taken)
    with pytest.raises(BadInput, match=told) as caught:
        make(**refused)
    assert "\n" not in str(caught.value)


def test_a_bound_that_rounding_explains_certifies_nothing() -> None:
    outputs = torch.zeros(2, 3, dtype=torch.float64)
    bound = torch.tensor([ROUNDING, 2 * ROUNDING], dtype=torch.float64)
    assert is_certified(bound, outputs).tolist() == [False, True]


def test_probabilities_are_told_from_logits_that_are_not_negative_or_sum_to_something_else() -> None:
    half = torch.full((2, 2), 0.5, dtype=torch.float64)
    for logits in (half + torch.tensor([0.6, -0.6]), half + 1e-3, torch.tensor([[0.5, 0.5], [0.5, 0.6]])):
        require_logits(logits)
    for probabilities in (half, torch.tensor([[1.0, 0.0]]), half + 4e-4):
        with pytest.raises(BadInput, match="attacks need logits"):
            require_logits(probabilities)


def flat_at(zeros: int, n: int = 20) -> Callable[[Tensor], Tensor]:
    """A network of two logits that does not depend on its input at the first ``zeros`` of n examples."""
    scale = (torch.arange(n) >= zeros).double()

    def net(x: Tensor) -> Tensor:
        f = x.sum(-1) * (scale if len(x) == n else scale[: len(x)]) - 3.0
        return torch.stack([f, -f], -1)

    return net


@pytest.mark.parametrize(("zeros", "warned"), [(1, False), (2, True)])
def test_vanishing_gradients_are_said_beyond_one_in_twenty(zeros: int, warned: bool) -> None:
    x = torch.linspace(0.1, 0.9, 60, dtype=torch.float64).view(20, 3)
    found = preflight(flat_at(zeros), x, torch.zeros(20, dtype=torch.long), Threat("L2", 0.1, 1))
    assert [text for text in found if "gradient of the cross-entropy is zero at 10%" in text] == (
        found if warned else []
    )
    assert len(found) == warned


def test_the_gradients_of_the_attacks_own_objectives_are_looked_at_and_no_other() -> None:
    """Saturated: cross-entropy has no gradient left in single precision, the margin has."""
    x = torch.linspace(0.1, 0.9, 8).view(4, 2)

    def sure(x: Tensor) -> Tensor:
        f = 1e4 * (x.sum(-1) + 1)
        return torch.stack([f, -f], -1)

    y, ball = torch.zeros(4, dtype=torch.long), Threat("Linf", 0.1, 1)
    assert preflight(sure, x, y, ball, [PGD("margin")]) == []
    assert len(preflight(sure, x, y, ball, [PGD("margin"), PGD("cross-entropy")])) == 1
    assert len(preflight(sure, x, y, ball)) == 1
    assert preflight(sure, x, y, ball, [Square()]) == []


@pytest.mark.parametrize(
    ("low", "high", "bounds", "warned"),
    [
        (0.0, 1.0, None, False),
        (-0.1, 1.0, None, True),
        (0.0, 1.1, None, True),
        (-0.1, 1.1, (-1.0, 2.0), False),
    ],
)
def test_inputs_outside_the_unit_cube_are_said_where_the_threat_has_no_bounds(
    low: float, high: float, bounds: tuple[float, float] | None, warned: bool
) -> None:
    x = torch.linspace(low, high, 8, dtype=torch.float64).view(4, 2)
    found = preflight(lambda t: torch.stack([t.sum(-1), -t.sum(-1)], -1), x, torch.zeros(4).long(),
                      Threat("Linf", 0.1, 1, bounds=bounds))  # fmt: skip
    assert any("outside [0, 1]" in text for text in found) == warned


@pytest.mark.parametrize(
    ("norm", "eps", "warned"), [("Linf", 1.0, True), ("Linf", 0.999, False), ("L2", 5.0, False)]
)
def test_a_radius_that_covers_the_range_is_said(norm: str, eps: float, warned: bool) -> None:
    x = torch.linspace(0, 1, 8, dtype=torch.float64).view(4, 2)
    found = preflight(lambda t: torch.stack([t.sum(-1), -t.sum(-1)], -1), x, torch.zeros(4).long(),
                      Threat(norm, eps, 1, bounds=(0.0, 1.0)))  # fmt: skip
    assert any("covers the range" in text for text in found) == warned


@pytest.mark.parametrize(("fooled", "warned"), [(1, False), (2, True)])
def test_what_the_search_without_gradients_adds_is_said_beyond_one_in_a_hundred(
    fooled: int, warned: bool
) -> None:
    """Of 100 examples the second attack fools so many more, at one of two radii."""
    n, radii = 100, (0.1, 0.2)
    after = torch.full((n,), torch.inf)
    found = after.clone()
    found[:fooled] = 0.2
    attacks = [PGD(steps=1), Square(queries=1)]
    fallen = Fallen(found, torch.zeros(n, 2), {attacks[0].name: after, attacks[1].name: found})
    x = torch.ones(n, 2)

    def net(points: Tensor) -> Tensor:
        f = points.sum(-1)
        return torch.stack([f, -f], -1)

    said = _afterwards(net, count(radii, fallen), x, torch.zeros(n).long(), Threat("L2", 0.2, 1), attacks, 0)
    assert any("square1 needs no gradient and fools another 2.0%" in text for text in said) == warned
    swapped = Fallen(found, torch.zeros(n, 2), {attacks[1].name: after, attacks[0].name: found})
    again = _afterwards(
        net, count(radii, swapped), x, torch.zeros(n).long(), Threat("L2", 0.2, 1), attacks[::-1], 0
    )
    assert not any("needs no gradient" in text for text in again)


class Ahead:
    """Moves by the whole radius along the first axis, whatever the network."""

    name = "ahead"

    def __call__(self, model: object, x: Tensor, y: Tensor, threat: Threat, rng: torch.Generator) -> Tensor:
        return torch.tensor([threat.eps, 0.0], dtype=x.dtype).expand_as(x)


@pytest.mark.parametrize(("peak", "warned"), [(0.3, True), (5.0, False)])
def test_an_attack_that_does_worse_at_twice_the_radius_is_said(peak: float, warned: bool) -> None:
    """Wrong between .1 and ``peak`` along the first axis: at radius .2 the attack is there, at .4 beyond."""

    def net(x: Tensor) -> Tensor:
        wrong = ((x[:, 0] > 0.1) & (x[:, 0] < peak)).double()
        return torch.stack([1 - wrong, wrong], -1)

    x, y = torch.zeros(3, 2, dtype=torch.float64), torch.zeros(3).long()
    fallen = Fallen(torch.full((3,), 0.2), torch.zeros(3, 2), {"ahead": torch.full((3,), 0.2)})
    said = _afterwards(net, count((0.1, 0.2), fallen), x, y, Threat("L2", 0.2, 1), [Ahead()], 0)
    assert any("fewer examples at twice the radius" in text for text in said) == warned


def test_who_is_not_fooled_at_any_radius_has_no_perturbation() -> None:
    """f = x₁ − 1: the example at .8 falls at .3, the one at 0 at no radius, the one at 2 is wrong as it is."""

    def net(x: Tensor) -> Tensor:
        f = x[:, 0] - 1
        return torch.stack([-f, f], -1)

    x = torch.tensor([[0.8, 0.0], [0.0, 0.0], [2.0, 0.0]], dtype=torch.float64)
    y, radii = torch.zeros(3).long(), (0.1, 0.3, 0.5)
    for attacks in ([PGD(steps=5)], [PGD(steps=5), APGD(steps=5)], [APGD(steps=5)]):
        found = fall(net, x, y, Threat("L2", 0.5, 1), radii, attacks, stream(0, "a"))
        assert found.fooled_at.tolist() == pytest.approx([0.3, torch.inf, 0.0])
        assert found.delta[1:].tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert 0.2 <= float(found.delta[0, 0]) <= 0.3
        assert list(found.after) == [attack.name for attack in attacks]
        curve = count(radii, found)
        assert curve.accuracy == pytest.approx((2 / 3, 1 / 3, 1 / 3))
        assert curve.radii == radii
        assert curve.trusted


def test_points_that_squares_cannot_be_drawn_on_go_without_that_search_and_it_is_said() -> None:
    for shape, drawn in (((2, 5), True), ((2, 3, 4, 4), True), ((2, 3, 4), False), ((2, 1, 3, 4, 4), False)):
        attacks, told = usual_attacks(torch.zeros(shape), steps=7)
        assert isinstance(attacks[-1], Square) == drawn
        assert len(attacks) == (6 if drawn else 5)
        assert bool(told) != drawn
        assert attacks[1] == APGD("margin", 7, stop_early=True)


def test_the_error_of_a_network_is_told_in_160_characters_of_its_first_line() -> None:
    def broken(x: Tensor) -> Tensor:
        raise RuntimeError("e" * 300 + "\nsecond line")

    with pytest.raises(BadInput) as caught:
        admit(broken, torch.zeros(2, 3), LABELS, Threat("Linf", 0.1, 1))
    assert f"RuntimeError: {'e' * 160};" in str(caught.value)


def test_squares_on_a_strip_are_as_long_as_their_share_of_it() -> None:
    square = Square(queries=100, share=0.8)
    assert square.side(0, 1, 50) == 40
    assert square.side(0, 2, 50) == 2
    assert square.side(0, 10, 10) == round(80**0.5)
