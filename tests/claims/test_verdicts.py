"""What turns numbers into verdicts: bounds, NaN, several parts, conditions, and a line of the ledger."""

import json
import math
from itertools import permutations

import polars as pl
import pytest
from judge_rows_ep_bounds import DIMENSIONS, LEAST, bounds, counts
from judging import finding

from featscope.claims.claim import Finding, Verdict, plain
from featscope.claims.judging import (
    above,
    at_least,
    at_most,
    below,
    error_over_seeds,
    every,
    exactly,
    exceeds,
    exponent_at_most,
    grows_at_most,
    largest,
    over_seeds,
    reaches,
    scoped,
    share_over_seeds,
    smallest,
    soft,
    steepest,
    vacuous,
)
from featscope.core import conditions
from featscope.core.conditions import Condition
from featscope.core.stats import NOTHING, Interval

NAN, INF = math.nan, math.inf
ORDER = (Verdict.FAILS, Verdict.OUT_OF_SCOPE, Verdict.VACUOUS, Verdict.INCONCLUSIVE, Verdict.HOLDS)
H, F, I = Verdict.HOLDS, Verdict.FAILS, Verdict.INCONCLUSIVE  # noqa: E741


@pytest.mark.parametrize(
    ("low", "high", "most_", "least_", "above_", "below_"),
    [
        # an interval against the bound 1: ≤, ≥, >, <
        (0.5, 0.9, H, F, F, H),
        (0.5, 1.0, H, I, F, I),
        (0.5, 1.5, I, I, I, I),
        (1.0, 1.0, H, H, F, F),
        (1.0, 1.5, I, H, I, F),
        (1.1, 1.5, F, H, H, F),
        (-INF, INF, I, I, I, I),
        (-INF, 0.5, H, F, F, H),
        (1.5, INF, F, H, H, F),
    ],
)
def test_an_interval_against_a_bound(
    low: float, high: float, most_: str, least_: str, above_: str, below_: str
) -> None:
    estimate = Interval((low + high) / 2 if math.isfinite(low + high) else 0.0, low, high)
    for judge, expected in ((at_most, most_), (at_least, least_), (above, above_), (below, below_)):
        found = judge(estimate, 1.0, note="kept")
        assert found.verdict is expected, judge
        assert (found.value, found.bound, found.evidence["note"]) == (estimate.value, 1.0, "kept")
        assert found.evidence["interval"] == [plain(low), plain(high)]


@pytest.mark.parametrize("judge", [at_most, at_least, above, below])
@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("rest", [-5.0, 5.0, 0.0])
def test_nan_in_an_interval_settles_nothing(judge, place: int, rest: float) -> None:
    numbers = [rest, rest, rest]
    numbers[place] = NAN
    found = judge(Interval(*numbers), 0.0)
    assert found.verdict is I
    json.dumps([found.value, found.bound, dict(found.evidence)], allow_nan=False)
    assert judge(NOTHING, 0.0).verdict is I


@pytest.mark.parametrize("judge", [at_most, at_least, above, below, exactly, reaches, exceeds])
def test_a_bound_that_is_no_number_holds_nothing(judge) -> None:
    value = Interval(1.0, 1.0, 1.0) if judge in (at_most, at_least, above, below) else 1.0
    found = judge(value, NAN)
    assert found.verdict in (F, I)
    assert found.bound is None


def test_numbers_without_sampling_error() -> None:
    for value, low_enough, reached, exceeded in (
        (0.9, H, F, F),
        (1.0, H, H, F),
        (1.1, F, H, H),
        (NAN, F, F, F),
        (INF, F, H, H),
    ):
        verdicts = [judge(value, 1.0, note=1).verdict for judge in (exactly, reaches, exceeds)]
        assert verdicts == [low_enough, reached, exceeded]
        for judge in (exactly, reaches, exceeds):
            assert (judge(value, 1.0).value, judge(value, 1.0).bound) == (plain(value), 1.0)
            assert judge(value, 1.0, note=1).evidence == {"note": 1}


def test_plain_numbers() -> None:
    assert [plain(v) for v in (1.5, NAN, INF, -INF)] == [1.5, None, None, None]


def test_vacuous_keeps_the_numbers_and_unmet_hypotheses_wait_for_the_ledger() -> None:
    base = Finding(F, 2.0, 1.0, {"a": 1}, "at most", 0.5, 3.0)
    empty = vacuous("no rate", base)
    assert (empty.verdict, empty.value, empty.bound) == (Verdict.VACUOUS, 2.0, 1.0)
    assert (empty.direction, empty.low, empty.high) == ("at most", 0.5, 3.0)
    assert empty.evidence == {"a": 1, "vacuous": "no rate", "would_be": "FAILS"}
    missed = scoped(["too small"], scoped(["too large"], base))
    assert (missed.verdict, missed.unmet) == (F, ("too large", "too small"))
    assert scoped([], base) == base


def test_a_finding_says_from_which_side_and_with_which_interval() -> None:
    estimate = Interval(1.0, 0.5, math.inf)
    for judge, side in ((at_most, "at most"), (at_least, "at least"), (above, "above"), (below, "below")):
        found = judge(estimate, 1.0)
        assert (found.direction, found.low, found.high) == (side, 0.5, None)
    for judge, side in ((exactly, "at most"), (reaches, "at least"), (exceeds, "above")):
        assert (judge(1.0, 1.0).direction, judge(1.0, 1.0).low) == (side, None)
    assert grows_at_most([1, 2], [1, 2], 1.0).direction == "at most"
    whole = every({"a": scoped(["x"], at_least(estimate, 0.0)), "b": scoped(["y", "x"], exactly(2.0, 1.0))})
    assert (whole.direction, whole.low, whole.unmet) == ("at most", None, ("x", "y"))


@pytest.mark.parametrize(
    ("shares", "points", "expected"),
    [
        # Wilson's interval of 0 of 300, of 150 of 300 and of 20 of 100
        ((0.0, 0.0, 0.0), 100, (0.0, 0.0, 0.01264297)),
        ((0.5, 0.5, 0.5), 100, (0.5, 0.44368, 0.55632)),
        ((0.2,), 100, (0.2, 0.13337, 0.28883)),
        # … which seeds that differ widen to their range
        ((0.46, 0.0, 0.0), 100, (46 / 300, 0.0, 0.46)),
        ((0.5, 0.5, 0.6), 100, (160 / 300, 0.4768, 0.6)),
        ((0.0, 1.0), (100, 900), (0.9, 0.0, 1.0)),
    ],
)
def test_a_share_over_seeds(shares: tuple[float, ...], points, expected: tuple[float, ...]) -> None:
    assert share_over_seeds(shares, points) == pytest.approx(expected, abs=1e-4)
    value, low, high = share_over_seeds(shares, points)
    assert error_over_seeds(shares, points) == pytest.approx((1 - value, 1 - high, 1 - low))


def test_a_share_is_counted_not_rounded() -> None:
    assert error_over_seeds([0.95, 0.95], 100)[0] == 0.05
    for bad in ([], [NAN, 0.5], [0.5, None]):
        assert all(math.isnan(end) for end in share_over_seeds(bad, 10))


def test_an_exponent_may_bend_by_a_tenth() -> None:
    x = [1.0, 10.0, 100.0]
    found = exponent_at_most(x, [v**0.55 for v in x], 0.5, note=3)
    assert (found.verdict, found.value, found.bound) == (H, pytest.approx(0.55), 0.6)
    assert {k: found.evidence[k] for k in ("predicted", "allowance", "note")} == {
        "predicted": 0.5,
        "allowance": 0.1,
        "note": 3,
    }
    assert exponent_at_most(x, [v**0.61 for v in x], 0.5).verdict is F
    lost = exponent_at_most(x, [1.0, NAN, 1.0], 0.5)
    assert (lost.verdict, lost.value, lost.evidence["exponent"]) == (I, None, None)


@pytest.mark.parametrize("pair", list(permutations(range(5), 2)))
def test_the_weaker_of_two_verdicts_decides(pair: tuple[int, int]) -> None:
    findings = {f"part {at}": Finding(ORDER[at], float(at), at + 0.5, {"seen": at}) for at in pair}
    found = every(findings, whole="yes")
    first = min(pair)
    assert found.verdict is ORDER[first]
    assert (found.value, found.bound) == (first, first + 0.5)
    assert found.evidence["decided_by"] == f"part {first}"
    assert found.evidence["whole"] == "yes"
    assert found.evidence["parts"] == {
        f"part {at}": {"verdict": ORDER[at].value, "value": at, "bound": at + 0.5, "seen": at} for at in pair
    }


def test_of_equal_verdicts_the_first_part_decides() -> None:
    found = every({name: Finding(F, value, 0.0) for name, value in (("b", 2.0), ("a", 1.0))})
    assert (found.value, found.evidence["decided_by"]) == (2.0, "b")


def test_the_steepest_step_of_an_exact_sweep() -> None:
    # in any order: 1 → 2 doubles, 2 → 4 grows by 8, 4 → 16 by 4
    assert steepest([4.0, 1.0, 16.0, 2.0], [16.0, 1.0, 64.0, 2.0]) == pytest.approx(3.0)
    assert steepest([1.0, 10.0], [5.0, 0.05]) == pytest.approx(-2.0)
    # of several seeds the largest count of each size
    assert steepest([1, 1, 10, 10], [3, 3, 30, 3000]) == pytest.approx(3.0)
    assert steepest([1, 1, 10, 10], [3, 300, 30, 300]) == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([], []),
        ([2.0], [1.0]),
        ([2.0, 2.0], [1.0, 3.0]),
        ([1.0, 2.0, 3.0], [1.0, NAN, 1.0]),
        ([1.0, 2.0], [0.0, 1.0]),
        ([1.0, 2.0], [1.0, INF]),
        ([0.0, 2.0], [1.0, 1.0]),
    ],
)
def test_growth_that_cannot_be_read_fails(x: list[float], y: list[float]) -> None:
    assert math.isnan(steepest(x, y))
    found = grows_at_most(x, y, 1.0)
    assert (found.verdict, found.value, found.bound) == (F, None, 1.1)


def test_exact_growth_may_bend_by_a_tenth() -> None:
    found = grows_at_most([1, 2**10], [1, 2**11], 1.0)
    assert (found.verdict, found.value, found.bound) == (H, pytest.approx(1.1), 1.1)
    assert found.evidence == {"predicted": 1.0, "allowance": 0.1}
    assert grows_at_most([1, 2**10], [100, 2**11 * 101], 1.0).verdict is F
    assert grows_at_most([1, 2], [1, 4], 2.0).verdict is H


def test_few_seeds_have_their_range_as_interval() -> None:
    assert over_seeds([3.0, 1.0, 5.0]) == (3.0, 1.0, 5.0)
    assert over_seeds([2.0]) == (2.0, 2.0, 2.0)
    assert over_seeds([1.0, INF]) == (INF, 1.0, INF)
    for values in ([], [NAN, 1.0], [1.0, NAN]):
        assert all(math.isnan(end) for end in over_seeds(values))


def test_the_ends_of_a_column() -> None:
    column = pl.Series([3, 1, 2])
    assert (smallest(column), largest(column)) == (1.0, 3.0)
    for bad in (pl.Series([1.0, NAN, 2.0]), pl.Series([1.0, None, 2.0]), pl.Series([], dtype=pl.Int64)):
        assert math.isnan(smallest(bad))
        assert math.isnan(largest(bad))


def test_one_logarithm() -> None:
    assert soft(math.e) == pytest.approx(1.0)
    assert soft(256.0) == pytest.approx(8 * math.log(2))


# --- conditions


def test_conditions_take_equality_and_refuse_nan() -> None:
    for value, over, under in (
        (0.5, False, True),
        (1.0, True, True),
        (1.5, True, False),
        (NAN, False, False),
    ):
        assert conditions.asks_at_least("a", "text", value, 1.0).met is over
        assert conditions.asks_at_most("a", "text", value, 1.0).met is under
    found = conditions.asks_at_most("b", "n is small", 2.0, 1.0)
    assert found == Condition("b", "n is small", 2.0, 1.0, False)
    assert found.as_json() == {"name": "b", "text": "n is small", "value": 2.0, "bound": 1.0, "met": False}


# --- judges that no run can make fail, held to account on rows that no run would write


@pytest.mark.parametrize(
    ("claim", "name", "kind"), [("EP-lower", "count", "general"), ("EP-manifold", "lower", "manifold")]
)
def test_a_count_that_grows_too_slowly_would_fail(claim: str, name: str, kind: str) -> None:
    slow = 0.9999 * LEAST
    found = finding(claim, name, bounds(kind, rate=slow, scale=99.0))
    assert (found.verdict, found.value, found.bound) == (F, pytest.approx(slow), pytest.approx(LEAST))
    cubic = finding(claim, name, counts(kind, [float(d) ** 3 for d in DIMENSIONS]))
    assert cubic.verdict is not H
    assert cubic.evidence["decided_by"] == "rate"
