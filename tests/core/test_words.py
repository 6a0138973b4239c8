"""What a wrong setting is told: pydantic's complaints in our words, and what a field allows."""

from typing import Annotated

import pytest
from pydantic import Field

from featscope.core.errors import BadInput
from featscope.core.frozen import Value
from featscope.core.settings import _allowed


class Inner(Value):
    d: int = 1


class Outer(Value):
    sizes: tuple[int, ...] = (1,)
    part: Inner = Inner()
    count: int = 1
    given: int


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"sizes": 3, "given": 1}, "sizes: a list is needed"),
        ({"part": 3, "given": 1}, "part: parts are needed"),
        ({"count": 1.5, "given": 1}, "count: a whole number is needed"),
        ({}, "given: is missing"),
    ],
)
def test_a_wrong_value_is_told_what_is_needed(wrong: dict, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        Outer(**wrong)


def test_limits_of_an_annotation_are_told() -> None:
    assert _allowed(Annotated[float, Field(gt=0)]) == "> 0"
    assert _allowed(Annotated[float, Field(gt=0)], [Field(lt=1)]) == "> 0, < 1"
    assert _allowed(tuple[Annotated[float, Field(gt=0)], ...]) == "list, each > 0"
