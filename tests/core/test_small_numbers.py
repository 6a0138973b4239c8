"""Numbers of the core by a second route: what is still a number, exact intervals, correlations, signs."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats as sps

from featscope.core.columns import column
from featscope.core.errors import BadInput
from featscope.core.health import ailments, bound, told, without_gaps
from featscope.core.signs import label_index, two_logits
from featscope.core.stats import Interval, as_fact, correlations, exact_binomial, exponent


def test_numbers_are_saturated_beyond_one_over_epsilon_and_overflow_goes_first() -> None:
    assert bound(torch.float64) == 2.0**52
    assert bound(torch.float32) == 2.0**23
    edge = torch.tensor([2.0**52, 2.0**52 + 1, -(2.0**53), math.inf, math.nan], dtype=torch.float64)
    assert ailments([edge[:, None]], 5) == [None, "saturated", "saturated", "overflowed", "overflowed"]
    both = torch.tensor([[2.0**60, 1.0], [2.0**60, math.inf]], dtype=torch.float64)
    assert ailments([both, torch.ones(2), torch.tensor([2**60, 1])], 2) == ["saturated", "overflowed"]
    assert ailments([torch.ones(2, 0)], 2) == [None, None]


def test_gaps_are_named_by_their_keys_and_runs_by_when_and_how() -> None:
    value, gaps = without_gaps({"a": [1.0, math.inf], "b": {"c": math.nan, "d": "x"}, "e": (2, math.nan)})
    assert value == {"a": [1.0, None], "b": {"c": None, "d": "x"}, "e": [2, None]}
    assert gaps == ["a.1", "b.c", "e.1"]
    assert told({"diverged": {"1": 7, "": 3}, "how": {"1": "saturated"}, "note": "n"}) == (
        "run 1 saturated at step 7, overflowed at step 3, in no mean; note: n"
    )
    assert told({"note": "n"}) == "note: n"
    assert told({}) == ""


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (5, 5), (3, 20), (1, 1), (17, 40)])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_the_exact_interval_is_scipys(hits: int, n: int, confidence: float) -> None:
    wanted = sps.binomtest(hits, n).proportion_ci(confidence, method="exact")
    found = exact_binomial(hits, n, confidence)
    assert found == (pytest.approx(hits / n), pytest.approx(wanted.low), pytest.approx(wanted.high))
    assert exact_binomial(hits, n) == exact_binomial(hits, n, 0.95)


@pytest.mark.parametrize(("hits", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_a_share_of_nothing_or_beyond_all_is_refused(hits: int, n: int) -> None:
    with pytest.raises(BadInput, match="0 ≤ hits ≤ n"):
        exact_binomial(hits, n)


def test_two_different_numbers_are_enough_for_a_correlation_and_three_pairs() -> None:
    x, y = [0.0, 0.0, 1.0, 1.0], [1.0, 2.0, 2.0, 5.0]
    assert correlations(x, y).pearson == pytest.approx(float(sps.pearsonr(x, y).statistic))
    assert correlations(y, x).spearman == pytest.approx(float(sps.spearmanr(y, x).statistic))
    assert correlations([1.0, 2.0, 3.0], [1.0, 2.0, 4.0]).spearman == pytest.approx(1.0)
    for one, other in (([1.0, 2.0], [1.0, 2.0]), ([1.0] * 3, [1.0, 2.0, 3.0]), ([1.0, 2.0, 3.0], [1.0] * 3)):
        assert all(map(math.isnan, correlations(one, other)))
    with pytest.raises(BadInput, match="needs pairs"):
        correlations([1.0, 2.0, 3.0], [1.0, 2.0])


def test_a_line_without_residual_has_an_interval_of_no_width() -> None:
    found = exponent([1.0, 2.0, 4.0], [3.0, 12.0, 48.0])
    assert found == Interval(pytest.approx(2.0), pytest.approx(2.0, abs=1e-6), pytest.approx(2.0, abs=1e-6))


def test_signs_and_columns() -> None:
    logits = two_logits(torch.tensor([3.0, -2.0]))
    assert logits.tolist() == [[-1.5, 1.5], [1.0, -1.0]]
    assert label_index(torch.tensor([1.0, -1.0])).tolist() == [1, 0]
    found = column("meaning", "name")
    assert (str(found), found.meaning) == ("name", "meaning")


@pytest.mark.parametrize("ends", [(0.0, math.inf), (-math.inf, 2.0), (-math.inf, math.inf)])
def test_an_interval_with_an_open_end_is_null_in_a_summary(ends: tuple[float, float]) -> None:
    assert as_fact(Interval(1.0, *ends)) == {"mean": 1.0, "interval": None}
    assert as_fact(Interval(1.0, 0.5, 1.5)) == {"mean": 1.0, "interval": [0.5, 1.5]}
    assert as_fact(Interval(math.nan, 0.5, 1.5))["mean"] is None
