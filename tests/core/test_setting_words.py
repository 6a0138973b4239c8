"""What a setting is: its limits in words, its letter, what it refuses that pydantic would take."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import pytest
from pydantic import Field

from featscope.core.errors import BadInput
from featscope.core.frozen import Value, json_form, registered
from featscope.core.settings import (
    Positives,
    RadiusList,
    Shares,
    Sizes,
    _allowed,
    allowed,
    holds_others,
    is_later,
    kinds,
    letter_of,
    setting,
)


class Inner(Value):
    d: int = setting(1, "dimension", letter="d", ge=1)


class Some(Value):
    sizes: Sizes = setting((1,), "sizes")
    shares: Shares = setting((0.5,), "shares", min_length=0)
    radii: RadiusList = setting((0.0, 0.1), "radii")
    lengths: Positives = setting((1.0,), "lengths")
    part: Inner = Inner()
    flag: bool = setting(False, "flag", later=True)
    kind: Literal["a", "b"] = setting("a", "kind")
    rate: float = setting(0.1, "rate", letter="η", gt=0, le=1)
    share: float | None = setting(None, "share", ge=0, lt=1)
    free: float = setting(0.0, "free")
    word: str = setting("w", "word")
    count: int = setting(2, "count", ge=2)


class Child(Some, registered="child-of-some"):
    rate: float = 0.2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sizes", "list, each whole, ≥ 1"),
        ("shares", "list, each ≥ 0, ≤ 1"),
        ("part", "inner"),
        ("flag", "true or false"),
        ("kind", "a or b"),
        ("rate", "> 0, ≤ 1"),
        ("share", "≥ 0, < 1 or none"),
        ("free", "number"),
        ("word", "text"),
        ("count", "whole, ≥ 2"),
    ],
)
def test_what_a_field_allows_in_words(name: str, words: str) -> None:
    assert allowed(Some.model_fields[name]) == words


def test_letters_meanings_and_what_came_later() -> None:
    fields = Some.model_fields
    assert [letter_of(fields[n]) for n in ("rate", "free", "flag")] == ["η", "", ""]
    assert [is_later(fields[n]) for n in ("rate", "free", "flag")] == [False, False, True]
    assert [holds_others(fields[n]) for n in ("part", "rate")] == [True, False]
    assert Child.model_fields["rate"].description == "rate"
    assert letter_of(Child.model_fields["rate"]) == "η"
    assert kinds(Annotated[tuple[int, ...] | None, Field()]) >= {int, type(None)}
    assert kinds(Literal["a", 1]) == {str, int}
    assert _allowed(int | None, [Field(ge=1)]) == "whole, ≥ 1 or none"
    assert registered("child-of-some") is Child
    with pytest.raises(BadInput, match="no class has this"):
        registered("nobody")


@pytest.mark.parametrize(
    ("given", "told_so"),
    [
        ({"rate": True}, "rate must be a number: rate=true"),
        ({"rate": "0.1"}, "rate must be a number: rate='0.1'"),
        ({"sizes": (1, True)}, "sizes must be a number: sizes=true"),
        ({"sizes": [1, "2"]}, "sizes must be a number: sizes='2'"),
        ({"sizes": ()}, "sizes must not be empty"),
        ({"radii": (0.1, 0.1)}, "radii must be ascending"),
        ({"radii": (0.2, 0.1)}, "radii must be ascending"),
        ({"radii": (-0.1, 0.1)}, "radii"),
        ({"flg": True}, "unknown key: flg; did you mean flag"),
        ({"rate": math.nan}, "rate"),
        ({"kind": "c"}, "kind"),
        ({"sizes": (1, 0)}, "sizes.1"),
        ({"shares": (0.5, -0.1)}, "shares.1"),
        ({"shares": (0.5, 1.1)}, "shares.1"),
        ({"lengths": (0.0,)}, "lengths.0"),
        ({"part": {"d": 0}}, "d: input should be greater than or equal to 1"),
    ],
)
def test_values_that_pydantic_would_take_are_refused_too(given: dict[str, object], told_so: str) -> None:
    with pytest.raises(BadInput) as caught:
        Some(**given)
    assert str(caught.value).startswith(told_so)


def test_values_that_are_meant_are_taken() -> None:
    Some(shares=(0.0, 1.0), sizes=(1,), lengths=(1e-9,), radii=(0.0,))
    value = Some(shares=(), flag=True, word="1", kind="b", share=None, radii=(0.0, 0.1), sizes=[2, 3])
    assert (value.shares, value.flag, value.word, value.sizes) == ((), True, "1", (2, 3))
    assert value.replace(rate=1.0).rate == 1.0
    assert value.replace(rate=1.0).flag is True
    assert json_form(value)["part"] == {"d": 1}
