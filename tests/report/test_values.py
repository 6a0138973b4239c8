"""Numbers and evidence as a person reads them."""

from __future__ import annotations

import math

import pytest

from featscope.report.values import MOST_ROWS, Grid, cell, printed_number, table, text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.142857, "0.1429"),
        (1.25e-05, "1.25×10⁻⁵"),
        (33595, "33595"),
        (2.0, "2"),
        (123456789.0, "1.235×10⁸"),
        (-0.5, "-0.5"),
        (None, "–"),
        (math.inf, "–"),
    ],
)
def test_numbers(value: float | None, shown: str) -> None:
    assert printed_number(value) == shown


def test_plain_values() -> None:
    assert [text(value) for value in (True, False, None, "a_b", 3)] == ["yes", "no", "–", "a_b", "3"]


def test_pairs_keep_their_order_and_lists_are_read_out() -> None:
    assert table({"b_c": [0.5, 1], "a": {}, "e": []}) == Grid(
        (), (("b c", "0.5, 1"), ("a", "none"), ("e", "none"))
    )


def test_records_of_one_shape_are_one_table() -> None:
    parts = {"first": {"value": 1.0, "met": True}, "second": {"value": 2.5}}
    found = Grid(("", "value", "met"), (("first", "1", "yes"), ("second", "2.5", "–")))
    assert table(parts) == found
    assert cell([{"d": 1, "n": 2}, {"d": 3, "n": 4}]) == Grid(("d", "n"), (("1", "2"), ("3", "4")))


def test_records_without_a_common_shape_are_not() -> None:
    assert cell([{"a": 1}, {"b": 2}, {"c": 3}]) == Grid(
        (), ((Grid((), (("a", "1"),)),), (Grid((), (("b", "2"),)),), (Grid((), (("c", "3"),)),))
    )


def test_long_lists_and_tables_say_how_much_is_left_out() -> None:
    assert "… (100 in all)" in str(cell(list(range(100))))
    found = cell([{"d": i, "n": i} for i in range(MOST_ROWS + 5)])
    assert isinstance(found, Grid)
    assert (len(found.rows), found.left_out) == (MOST_ROWS, 5)
