"""Attacks and certificates at their limits: the first value that is refused, and the last that is not."""

import pytest
import torch

from featscope.attacks.apgd import APGD
from featscope.attacks.feature import FeaturePGD
from featscope.attacks.patch_certificate import ROUNDING, is_certified
from featscope.core.errors import BadInput


def test_a_bound_that_rounding_explains_certifies_nothing() -> None:
    outputs = torch.zeros(2, 3, dtype=torch.float64)
    bound = torch.tensor([ROUNDING, 2 * ROUNDING], dtype=torch.float64)
    assert is_certified(bound, outputs).tolist() == [False, True]


def test_features_are_not_approached_in_no_steps() -> None:
    target = torch.zeros(1, 2)
    assert FeaturePGD(lambda x: x, target, steps=1).name.endswith("pgd1")
    with pytest.raises(BadInput, match="steps"):
        FeaturePGD(lambda x: x, target, steps=0)


def test_a_loss_that_does_not_exist_is_refused_before_the_attack_runs() -> None:
    with pytest.raises(BadInput):
        APGD(objective="no such loss")  # type: ignore[arg-type]
