"""A test that looks several times keeps its level: by simulation, and against what looking at 95 % would do."""

import math

import numpy as np
import pytest
from scipy import stats as sps

from featscope.core.errors import BadInput
from featscope.core.looks import LOOKS, Looks
from featscope.core.stats import at_confidence, exponent, mean_correlation, mean_interval, wilson


def settled_share(sizes, confidence, bound, draws):
    """The share of rows whose interval excludes the bound at one of the looks."""
    excluded = np.zeros(len(draws), dtype=bool)
    for n in sizes:
        seen = draws[:, :n]
        half = sps.t.ppf(0.5 + confidence / 2, n - 1) * seen.std(1, ddof=1) / math.sqrt(n)
        excluded |= np.abs(seen.mean(1) - bound) > half
    return excluded.mean()


def test_false_verdicts_are_as_rare_as_promised_at_the_bound() -> None:
    draws = np.random.default_rng(0).normal(0.3, 2.0, (40_000, max(LOOKS.sizes)))
    found = settled_share(LOOKS.sizes, LOOKS.confidence, 0.3, draws)
    # Three standard errors of the simulation are .0033.
    assert found <= LOOKS.alpha + 0.0033
    # It is a test, not a refusal: Bonferroni is wasteful by less than half here.
    assert found > LOOKS.alpha / 2
    # Each look at 95 % would be wrong far more often.
    assert settled_share(LOOKS.sizes, 0.95, 0.3, draws) > 2 * LOOKS.alpha


def test_the_simulated_interval_is_the_one_that_judges_take() -> None:
    values = [0.1, 0.4, 0.35, 0.2]
    with at_confidence(LOOKS.confidence):
        found = mean_interval(values)
    draws = np.asarray([values])
    just_inside, just_outside = found.low + 1e-9, found.low - 1e-9
    assert settled_share((4,), LOOKS.confidence, just_inside, draws) == 0
    assert settled_share((4,), LOOKS.confidence, just_outside, draws) == 1


def test_an_effect_is_found() -> None:
    draws = np.random.default_rng(1).normal(1.0, 1.0, (4000, max(LOOKS.sizes)))
    assert settled_share(LOOKS.sizes, LOOKS.confidence, 0.0, draws) > 0.9


def test_the_confidence_is_shared_among_the_looks() -> None:
    assert LOOKS.confidence == pytest.approx(1 - 0.05 / 5)
    assert Looks((3, 9), 0.1).confidence == pytest.approx(0.95)
    assert Looks((3, 9)).seeds(3) == (0, 1, 2)


@pytest.mark.parametrize("sizes", [(), (1, 3), (4, 4), (6, 4)])
def test_looks_that_are_none_are_refused(sizes) -> None:
    with pytest.raises(BadInput, match="ascending numbers of seeds"):
        Looks(sizes)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1])
def test_a_level_is_a_share(alpha) -> None:
    with pytest.raises(BadInput, match="level"):
        Looks((4,), alpha)


def test_intervals_inside_are_wider_and_afterwards_as_before() -> None:
    values, hits = [0.1, 0.2, 0.4], (3, 10)
    x, y = [1.0, 2.0, 4.0, 8.0], [1.0, 2.2, 3.9, 8.3]
    usual = mean_interval(values), wilson(*hits), exponent(x, y), mean_correlation(values)
    with at_confidence(0.99) as level:
        wider = mean_interval(values), wilson(*hits), exponent(x, y), mean_correlation(values)
        named = mean_interval(values, 0.95)
    assert all(a.low < b.low and b.high < a.high for a, b in zip(wider, usual, strict=True))
    assert named == usual[0]
    assert level.over_seeds
    assert (mean_interval(values), wilson(*hits)) == usual[:2]


def test_what_takes_no_mean_over_seeds_says_so() -> None:
    with at_confidence(0.99) as level:
        wilson(3, 10)
    assert not level.over_seeds


def test_a_level_ends_with_an_error_too() -> None:
    before = mean_interval([0.0, 1.0, 2.0])
    with pytest.raises(ZeroDivisionError), at_confidence(0.999):
        _ = 1 / 0
    assert mean_interval([0.0, 1.0, 2.0]) == before
    with pytest.raises(BadInput, match="confidence"), at_confidence(1.0):
        pass
