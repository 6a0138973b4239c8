"""Intervals against SciPy, in small samples, with numbers that are none, and on data that does not vary."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sps

from featscope.claims.judging import error_over_seeds, fitted, numbers
from featscope.core.errors import BadInput
from featscope.core.stats import (
    NOTHING,
    Interval,
    as_fact,
    correlations,
    exponent,
    mean_correlation,
    mean_interval,
    wilson,
)

VALUES = st.lists(st.floats(-5, 5), min_size=2, max_size=6)
CONFIDENCE = st.sampled_from([0.8, 0.95, 0.99])


@given(n=st.integers(1, 40), share=st.floats(0, 1), confidence=CONFIDENCE)
def test_wilsons_interval_is_scipys(n: int, share: float, confidence: float) -> None:
    hits = round(share * n)
    theirs = sps.binomtest(hits, n).proportion_ci(confidence, method="wilson")
    assert wilson(hits, n, confidence) == pytest.approx((hits / n, theirs.low, theirs.high), abs=1e-12)
    if confidence == 0.95:
        assert wilson(hits, n) == wilson(hits, n, 0.95)


def test_wilsons_ends_are_exact_where_all_or_none_hit() -> None:
    for n in (1, 2, 3, 7, 1000):
        assert wilson(0, n).low == 0.0
        assert wilson(n, n).high == 1.0
        assert 0 < wilson(0, n).high < 1
    for hits, n in ((0, 0), (-1, 3), (4, 3)):
        with pytest.raises(BadInput):
            wilson(hits, n)


@given(values=VALUES, confidence=CONFIDENCE)
def test_students_interval_is_scipys(values: list[float], confidence: float) -> None:
    spread = np.std(values, ddof=1)
    ours = mean_interval(values, confidence)
    assert ours.value == pytest.approx(np.mean(values), abs=1e-12)
    if spread > 1e-6:
        theirs = sps.t.interval(
            confidence, len(values) - 1, loc=np.mean(values), scale=sps.sem(values, ddof=1)
        )
        assert ours[1:] == pytest.approx(theirs, rel=1e-9, abs=1e-9)
    assert ours.low <= ours.value <= ours.high


def test_students_interval_by_hand() -> None:
    # Two values: half the difference times tan(.95·π/2) = 12.706, Student's quantile at one degree of
    # freedom.
    wide = mean_interval([0.0, 2.0])
    assert wide == pytest.approx((1.0, 1 - math.tan(0.475 * math.pi), 1 + math.tan(0.475 * math.pi)))
    # Three: 4.3027 · 1/√3.
    assert mean_interval([1.0, 2.0, 3.0]).high == pytest.approx(2 + 4.302652729911275 / math.sqrt(3))
    assert mean_interval([0.25, 0.25, 0.25]) == (0.25, 0.25, 0.25)
    assert mean_interval([2.0]) == (2.0, -math.inf, math.inf)


@pytest.mark.parametrize(
    "values", [[], [math.nan], [1.0, math.nan], [math.nan, 1.0, 2.0], [1.0, math.inf], [1.0, 2.0, -math.inf]]
)
def test_a_mean_of_what_is_no_number_is_nothing(values: list[float]) -> None:
    assert all(math.isnan(end) for end in mean_interval(values))
    if not any(map(math.isinf, values)):
        assert all(math.isnan(end) for end in mean_correlation(values))


@given(y=st.lists(st.floats(0.1, 10), min_size=3, max_size=8), confidence=CONFIDENCE)
def test_the_exponents_interval_is_that_of_scipys_slope(y: list[float], confidence: float) -> None:
    x = [2.0 * 3**k for k in range(len(y))]
    fit = sps.linregress(np.log(x), np.log(y))
    # SciPy gives a line without residual no error at all.
    half = sps.t.ppf(0.5 + confidence / 2, len(y) - 2) * np.nan_to_num(fit.stderr)
    assert exponent(x, y, confidence) == pytest.approx(
        (fit.slope, fit.slope - half, fit.slope + half), rel=1e-9, abs=1e-12
    )


def test_an_exponent_by_hand() -> None:
    # On logarithms to base e: x = 0, 1, 2, y = 0, 1, 1. Slope ½; residuals −1/6, 1/3, −1/6, so s² = 1/6 and
    # the slope's error is √(1/6/2).
    fit = exponent([1.0, math.e, math.e**2], [1.0, math.e, math.e])
    half = math.tan(0.475 * math.pi) * math.sqrt(1 / 12)
    assert fit == pytest.approx((0.5, 0.5 - half, 0.5 + half))
    assert exponent([1.0, 2.0, 4.0], [7.0, 7.0, 7.0]) == pytest.approx((0, 0, 0), abs=1e-12)
    assert exponent([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]) == pytest.approx((2, 2, 2), abs=1e-7)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([1.0, 2.0], [1.0, 2.0]),
        ([1.0, 2.0, 2.0], [1.0, 2.0, 3.0]),
        ([0.0, 1.0, 2.0], [1.0, 2.0, 3.0]),
        ([1.0, 2.0, 3.0], [1.0, 0.0, 3.0]),
    ],
)
def test_an_exponent_needs_three_sizes_and_positive_numbers(x: list[float], y: list[float]) -> None:
    with pytest.raises(BadInput):
        exponent(x, y)
    assert fitted(x, y) is NOTHING


def test_a_fit_is_nothing_where_a_number_is_missing() -> None:
    x = [1.0, 2.0, 4.0, 8.0]
    assert fitted(x, [1.0, 2.0, 4.0, 8.0]) == pytest.approx((1, 1, 1), abs=1e-7)
    for bad in (math.nan, math.inf, -1.0, 0.0, None):
        for at in range(4):
            assert fitted(x, [bad if k == at else 5.0 for k in range(4)]) is NOTHING
            assert fitted([bad if k == at else v for k, v in enumerate(x)], [5.0] * 4) is NOTHING


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=3, max_size=12))
def test_correlations_are_scipys(pairs: list[tuple[int, int]]) -> None:
    x, y = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    ours = correlations(x, y)
    if len(set(x)) < 2 or len(set(y)) < 2:
        assert math.isnan(ours.pearson)
        assert math.isnan(ours.spearman)
    else:
        assert ours == pytest.approx((sps.pearsonr(x, y).statistic, sps.spearmanr(x, y).statistic), abs=1e-9)


def test_fishers_scale_is_scipys() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(12)
    y = x + rng.standard_normal(12)
    r = correlations(x.tolist(), y.tolist()).pearson
    theirs = sps.pearsonr(x, y).confidence_interval(0.95)
    # SciPy's interval of one correlation is symmetric about the same centre on that scale.
    assert mean_correlation([r]).value == pytest.approx(
        math.tanh((math.atanh(theirs.low) + math.atanh(theirs.high)) / 2)
    )
    rs = [0.2, 0.9, -0.1, 0.5]
    z = np.arctanh(rs)
    ends = np.tanh(sps.t.interval(0.9, 3, loc=z.mean(), scale=sps.sem(z)))
    assert mean_correlation(rs, 0.9) == pytest.approx((math.tanh(z.mean()), *ends))
    assert mean_correlation([1.0, 1.0]).low == pytest.approx(1.0, abs=1e-8)


def test_errors_over_runs_are_those_of_all_points_and_reach_over_the_runs() -> None:
    # 1 and 3 of 20 wrong: 4 of 40, whose interval holds both.
    assert error_over_seeds([0.95, 0.85], 20) == (0.1, wilson(4, 40).low, wilson(4, 40).high)
    assert error_over_seeds([1.0, 0.5], 20) == (0.25, 0.0, 0.5)
    # .55 of 500 is 225 wrong, though (1 − .55)·500 is not an integer in floating point.
    assert error_over_seeds([0.55], 500) == wilson(225, 500)
    for bad in ([], [0.5, math.nan], [math.nan, 0.5], [None, 0.5]):
        assert error_over_seeds(bad, 10) is NOTHING


def test_nothing_is_no_number() -> None:
    assert isinstance(NOTHING, Interval)
    assert all(math.isnan(end) for end in NOTHING)


def test_columns_become_arrays() -> None:
    assert numbers(pl.Series([1, 2])).tolist() == [1.0, 2.0]
    assert numbers(pl.Series([[1, 2], [3, 4]])).shape == (2, 2)
    assert numbers(pl.Series([1, None])).dtype == np.float64


def test_what_does_not_exist_is_null_in_a_summary() -> None:
    assert as_fact(Interval(0.5, 0.25, 0.75)) == {"mean": 0.5, "interval": [0.25, 0.75]}
    assert as_fact(mean_interval([0.5])) == {"mean": 0.5, "interval": None}
    assert as_fact(NOTHING) == {"mean": None, "interval": None}
    # One end alone is no interval.
    assert as_fact(Interval(0.5, -math.inf, 0.75)) == {"mean": 0.5, "interval": None}
    assert as_fact(Interval(0.5, 0.25, math.nan)) == {"mean": 0.5, "interval": None}
