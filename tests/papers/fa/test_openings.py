"""The k at which FA's statements open: found numbers, the definition on both sides, and A.12 by drawing."""

import math

import pytest
import torch

from featscope.laws.cluster_properties import epsilon, proof_epsilon
from featscope.laws.clusters import ClusterLaw
from featscope.papers.fa.openings import (
    activation_breaks,
    activation_failure,
    activation_limit,
    activation_opens,
    assumed_epsilon,
    bound_opens,
    least,
    radii_part,
    radius_opens,
    window_opens,
)


def test_the_numbers_that_were_found_by_hand() -> None:
    assert window_opens(False) == 46_133
    assert window_opens(True) == 104_759
    assert bound_opens(204) == 71
    assert bound_opens(33, 2) == 158_010
    assert (radius_opens(6), radius_opens(4), radii_part(4, 0.1)) == (73, 33, 1601)


def test_each_opening_is_the_first_on_its_side() -> None:
    for fine in (False, True):
        k, steps = window_opens(fine), 28 if fine else 20
        assert k is not None
        # k^20 ≤ exp(√k) in another way of writing it
        assert k**steps <= math.exp(math.sqrt(k))
        assert (k - 1) ** steps > math.exp(math.sqrt(k - 1))
    for constant, power in ((5, 0), (65, 0), (204, 0), (5, 1), (1 / 6, 0)):
        k = bound_opens(constant, power)
        assert k is not None
        assert (
            constant * k**power * assumed_epsilon(k)
            <= 0.1
            < constant * (k - 1) ** power * assumed_epsilon(k - 1)
        )


def test_epsilon_is_the_largest_of_its_three_terms() -> None:
    n, d, k = 3**7, 3**10, 3
    terms = (
        2 * math.log(n / k) / (math.sqrt(n / k) - math.log(n / k)),
        k**2 * 4 * math.sqrt(d) * math.log(d) / d,
        k**2 / n,
    )
    assert epsilon(k, d, n) == pytest.approx(max(terms), rel=1e-12)
    assert (
        proof_epsilon(ClusterLaw(k=3, d=3**10), 3**7) == assumed_epsilon(3) == pytest.approx(1.6276, rel=1e-4)
    )
    assert epsilon(3, 1e30, 3**7) == pytest.approx(terms[0], rel=1e-12)
    assert epsilon(3, 100.0, 10**9) == pytest.approx(9 * 4 * 10 * math.log(100) / 100, rel=1e-12)


def test_least_finds_the_first_and_gives_up() -> None:
    assert least(lambda k: k >= 1000) == 1000
    assert least(lambda k: True, first=7) == 7
    assert least(lambda k: False) is None


def test_activation_in_the_limit_is_what_drawing_finds() -> None:
    """Shares Φ(g) of a cluster that activate a neuron, drawn from the Gaussians themselves."""
    m, k, draws = 4, 6, 40_000
    g = torch.randn(draws, 2 * m * k, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    failed = float((torch.special.ndtr(g).amin(-1) < 1 / (3 * m * m)).double().mean())
    assert failed == pytest.approx(activation_limit(m, k), abs=4 * math.sqrt(0.25 / draws))
    assert activation_limit(1e9, 2e9) == pytest.approx(1 - math.exp(-4 / 3), rel=1e-6)


def test_activation_opens_and_breaks_where_its_own_constants_say() -> None:
    opens, breaks = activation_opens(), activation_breaks()
    assert opens is not None
    assert breaks is not None
    assert activation_failure(opens / 2, opens, opens**7) <= 0.95
    assert activation_failure((opens - 1) / 2, opens - 1, (opens - 1) ** 7) > 0.95
    # (1 − e^{−4/3})^{−100} neurons
    assert breaks / 2 == pytest.approx((1 - math.exp(-4 / 3)) ** -100, rel=1e-3)
