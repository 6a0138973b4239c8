"""Settings at their limits are taken, just beyond them refused in one line; and the defaults that documented numbers rest on."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from featscope.attacks.aimed import Aimed
from featscope.attacks.apgd import APGD
from featscope.attacks.minimal import MinimalPGD
from featscope.attacks.nearest import NearestAttack
from featscope.attacks.patch_training_attack import PatchTrainingAttack
from featscope.attacks.pgd import PGD
from featscope.attacks.square import Square
from featscope.attacks.suite import assess, assess_curve, ensemble
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput
from featscope.core.store import Part
from featscope.dynamics.schedules import Schedule
from featscope.dynamics.trajectory import trajectory
from featscope.features import landscape
from featscope.features.invert import InversionSpec
from featscope.laws.amplitudes import Count
from featscope.laws.clusters import ClusterLaw
from featscope.laws.patches import PatchLaw, both_kinds
from featscope.laws.separated import PackingLaw
from featscope.laws.signal import SignalLaw
from featscope.nets.built.fstar import nodes, slope_bound
from featscope.nets.classifier import REPRESENTATION, ImageClassifier
from featscope.nets.patch_cnn import PatchModule, PatchNet, PatchNetSpec
from featscope.nets.resnet import resnet9

SIGNAL = SignalLaw(d=16, patches=3, alpha=2.0, sigma=0.25, gap=0.5)
CLUSTERS = ClusterLaw(k=3, d=30)


class Walk(NamedTuple):
    x: Tensor


def classifier(*names: str) -> ImageClassifier:
    return ImageClassifier({name: nn.Flatten() for name in names}, 4, 1, 2)


def clusters(*probabilities: float) -> ClusterLaw:
    return ClusterLaw(k=3, d=30, positive=1, probabilities=probabilities)


def patches(count: int, robust: int) -> PatchLaw:
    return PatchLaw(patches=count, robust_patches=robust)


@pytest.mark.parametrize(
    ("make", "taken", "refused"),
    [
        (SIGNAL.sample, (1,), (0,)),
        (lambda n: CLUSTERS.draw(n, 2, 0, compact=False), (3,), (2,)),
        (lambda n: CLUSTERS.draw(n, 2, 0, compact=True), (3,), (2,)),
        (clusters, (0.1, 0.9, 0.0), (0.0, 0.5, 0.5)),
        (patches, (1, 0), (0, 0)),
        (lambda *sizes: both_kinds(patches(*sizes)), (3, 1), (3, 0)),
        (lambda *sizes: both_kinds(patches(*sizes)), (3, 2), (3, 3)),
        (lambda low, high: Count(low=low, high=high), (0, 0), (1, 0)),
        (lambda low, high: Count(low=low, high=high), (2, 2), (-1, 2)),
        (lambda margin: PackingLaw(margin=margin), (1e-3,), (0.0,)),
        (lambda margin: PackingLaw(margin=margin), (0.499,), (0.5,)),
        (lambda share: Square(share=share), (1.0,), (1.001,)),
        (lambda share: Square(share=share), (1e-3,), (0.0,)),
        (lambda n: APGD(restarts=n), (1,), (0,)),
        (lambda n: APGD(steps=n), (1,), (0,)),
        (lambda size: PatchTrainingAttack(step_size=size), (0.0,), (-1e-9,)),
        (lambda size: PatchTrainingAttack(eps=size), (0.0,), (-1e-9,)),
        (lambda rho: PatchNetSpec(rho=rho), (1e-9,), (0.0,)),
        (lambda q: PatchNetSpec(q=q), (2,), (1,)),
        (nodes, (1_999_999, 1), (2_000_000, 1)),
        (classifier, ("body", REPRESENTATION), (REPRESENTATION, "body")),
    ],
)
def test_limits(make: Callable[..., object], taken: tuple[object, ...], refused: tuple[object, ...]) -> None:
    make(*taken)
    with pytest.raises(BadInput):
        make(*refused)


def test_defaults_that_documented_numbers_rest_on() -> None:
    w = torch.zeros(2, 1, 1)
    # AT's activation, B.3's training attack
    assert (PatchNet(w).q, PatchNet(w).rho) == (3, 1.0)
    assert (PatchModule(w).q, PatchModule(w).rho) == (3, 1.0)
    assert PatchNetSpec().model_dump() == {"width": 100, "q": 3, "rho": 1.0, "sigma_0": 0.01}
    attack = PatchTrainingAttack()
    assert (attack.objective, attack.step_size, attack.eps, attack.norm, attack.clip) == (
        "own-logit", 1000.0, 1.2, "Linf", "patch",
    )  # fmt: skip
    assert (Square().queries, Square().share) == (500, 0.8)
    search = MinimalPGD()
    assert (search.steps, search.restarts, search.rounds, search.reach) == (60, 5, 12, 100.0)
    assert ensemble() == [
        PGD("soft-margin", 20, stop_early=True),
        APGD("margin", 50, restarts=1, stop_early=True),
        NearestAttack(steps=50, targets=3),
        Aimed(50, screening=10, finalists=3),
        APGD("soft-margin", 50, restarts=1, stop_early=True),
        Square(500, share=0.8, persist=10),
    ]
    for evaluator in (assess, assess_curve):
        assert inspect.signature(evaluator).parameters["fast"].default is True
    inversion = InversionSpec()
    assert (inversion.steps, inversion.step_size, inversion.tolerance) == (300, 0.05, 0.0)
    assert Schedule().rise == 0.4
    assert inspect.signature(resnet9).parameters["width"].default == 64
    # of a loss in float32
    assert landscape.ROUNDING == 1e-5


def test_a_basis_has_the_length_of_the_last_axis() -> None:
    x, y = torch.zeros(3, 2, 4), torch.zeros(3).long()
    Threat("L2", 0.1, 2, basis=torch.eye(4)[:2]).require_fits(x, y)
    with pytest.raises(BadInput, match="length of the last axis"):
        Threat("L2", 0.1, 2, basis=torch.eye(2)).require_fits(x, y)


def test_the_slope_of_f_star_by_hand() -> None:
    a, b = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 0.0]])
    # 2/(1 + 2) between the sets, 2/(1 + 4) beyond them
    points = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    assert slope_bound(points, a, b, "L2").tolist() == pytest.approx([2 / 3, 2 / 5])


def test_progress_is_told_step_by_step(tmp_path: Path) -> None:
    told = []

    class Listener:
        def report(self, label: str, step: int, steps: int, facts: Mapping[str, float]) -> None:
            told.append((label, step, steps, dict(facts)))

    part = Part(tmp_path, "walk", {}, Listener())
    trajectory(
        lambda s, t: Walk(s.x + 1), Walk(torch.zeros(1)), 2, lambda s, t: {"value": float(s.x)}, keep=part
    )
    assert told[-1][:3] == ("walk", 2, 2)
    assert [step for _, step, _, _ in told] == [0, 1, 2]
    assert told[-1][3]["value"] == 2.0
