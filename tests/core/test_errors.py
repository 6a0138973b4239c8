"""What errors say: rule, value and remedy in one line, cut where they are long."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from featscope.core.errors import (
    MOST_NAMES,
    BadInput,
    known_as,
    nearest,
    require_number,
    require_positive,
    require_whole,
)
from featscope.core.frozen import _shortened


def said(make: Callable[[], object]) -> str:
    with pytest.raises(BadInput) as caught:
        make()
    return str(caught.value)


def test_long_values_are_cut_at_120_characters() -> None:
    long = "x" * 300
    assert said(lambda: require_number("n", long)) == (
        "n must be a number: " + f"n='{long}"[:120] + "; write it as one, for example 8 / 255"
    )
    assert said(lambda: require_whole("n", long, 0)) == (
        "n must be a whole number: " + f"n='{long}"[:120] + "; use int(n)"
    )
    assert said(lambda: known_as("loss", [long], ["a"])) == (
        "loss must be given by name: " + f"['{long}"[:120] + "; write it as text, one loss at a time"
    )
    assert _shortened("y" * 78) == repr("y" * 78)
    assert _shortened("y" * 79) == "'" + "y" * 78 + "…"


def test_numbers_are_finite_and_true_is_none() -> None:
    for wrong in (math.inf, -math.inf, math.nan, True, "1", None):
        with pytest.raises(BadInput):
            require_number("n", wrong)
    assert require_positive("n", 1e-300) == 1e-300
    assert said(lambda: require_positive("n", 0)) == "n must be positive: n=0; raise n"
    assert require_whole("n", 3, 3) == 3
    assert said(lambda: require_whole("n", 2, 3)) == "n must be at least 3: n=2; set n to 3 or more"


def test_names_are_known_in_any_case_and_the_three_nearest_or_the_first_forty_are_told() -> None:
    assert known_as("norm", "LINF", ["L2", "Linf"]) == "Linf"
    assert nearest("patch", ["patch-a", "patch-b", "patch-c", "patch-d", "other"]).count(" or ") == 2
    names = [f"n{i:02d}" for i in range(MOST_NAMES + 1)]
    assert nearest("zzzzzzz", names) == f"choose one of {', '.join(names[:40])}, … (41 in all)"
    assert nearest("zzzzzzz", names[:40]) == f"choose one of {', '.join(names[:40])}"
