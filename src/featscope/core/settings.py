"""How a setting is declared: a default, what it means, the paper's letter, and what values it may have.

    class Net(Value):
        width: int = setting(100, "neurons of each class", letter="m", ge=1)

`featscope show` prints them, and `--set m=50` finds the key by its letter.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field
from pydantic.fields import FieldInfo

from featscope.core.errors import require

REQUIRED: Any = ...


def setting(default: Any, meaning: str, letter: str = "", later: bool = False, **limits: Any) -> Any:
    """A field with a meaning and, where the paper has one, its letter; ``limits`` are pydantic's.

    ``later``: the setting came when runs without it were stored. At its default it is no part of a run's
    identity, so those runs are still found; a default that changes asks for a higher revision.
    """
    extra = {"letter": letter} if letter else {}
    return Field(
        default=default,
        description=meaning,
        json_schema_extra=({**extra, "later": True} if later else dict(extra)) or None,
        **limits,
    )


def letter_of(info: FieldInfo) -> str:
    """The paper's letter of a field, or nothing."""
    extra = info.json_schema_extra
    return str(extra["letter"]) if isinstance(extra, dict) and "letter" in extra else ""


def is_later(info: FieldInfo) -> bool:
    """Whether a field came when runs without it were stored."""
    extra = info.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("later"))


def inherit_meanings(cls: type[BaseModel]) -> None:
    """A field that a subclass gives another default keeps its meaning and its letter."""
    for name, info in cls.model_fields.items():
        for parent in cls.__mro__[1:]:
            above = getattr(parent, "model_fields", {}).get(name)
            if above is None or info.description:
                continue
            info.description, info.json_schema_extra = above.description, above.json_schema_extra


def _ascending(radii: tuple[float, ...]) -> tuple[float, ...]:
    rising = all(a < b for a, b in pairwise(radii))
    require(rising, "radii must be ascending", f"{radii}", "sort them and name each once")
    return radii


#: what a list of settings may hold; a list is never empty unless its field says min_length=0
Sizes = tuple[Annotated[int, Field(ge=1)], ...]
Positives = tuple[Annotated[float, Field(gt=0)], ...]
Shares = tuple[Annotated[float, Field(ge=0, le=1)], ...]
#: radii in ascending order; the first may be 0
RadiusList = Annotated[tuple[Annotated[float, Field(ge=0)], ...], AfterValidator(_ascending)]


def kinds(annotation: Any) -> set[type]:
    """The plain types that an annotation allows at any depth; those of a literal's values."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return {type(value) for value in inner}
    if origin is Annotated:
        return kinds(inner[0])
    if inner:
        return set().union(*(kinds(option) for option in inner))
    return {annotation} if isinstance(annotation, type) else set()


def require_declared(name: str, info: FieldInfo, value: Any) -> None:
    """Refuse what pydantic would let pass: true for 1, "2" for 2, and empty lists where none is meant."""
    allowed = kinds(info.annotation)
    numbers_only = bool(allowed) and allowed <= {int, float, type(None)}
    for item in _scalars(value):
        wrong = (isinstance(item, bool) and bool not in allowed) or (isinstance(item, str) and numbers_only)
        said = f"{name}={str(item).lower() if isinstance(item, bool) else repr(item)[:80]}"
        require(not wrong, f"{name} must be a number", said, "write it as one, for example 0.5 or 8/255")
    empty = isinstance(value, list | tuple) and not value and not _may_be_empty(info)
    require(not empty, f"{name} must not be empty", f"{name}=[]", "name at least one value")


def _scalars(value: Any) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return [item for part in value for item in _scalars(part)]
    return [value]


def _may_be_empty(info: FieldInfo) -> bool:
    return any(getattr(limit, "min_length", None) == 0 for limit in info.metadata)


def allowed(info: FieldInfo) -> str:
    """What values a field may have, in words: `≥ 1`, `> 0, < 1`, `a or b`, `list, each > 0`."""
    return _allowed(info.annotation, info.metadata)


def holds_others(info: FieldInfo) -> bool:
    """Whether a field is a part with settings of its own."""
    return isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel)


_SIGNS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}


def _allowed(annotation: Any, limits: Sequence[Any] = ()) -> str:
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _allowed(inner[0], [*inner[1:], *limits])
    if origin is typing.Literal:
        return " or ".join(map(str, inner))
    said = [
        f"{sign} {getattr(limit, name):g}"
        for limit in _flat(limits)
        for name, sign in _SIGNS.items()
        if getattr(limit, name, None) is not None
    ]
    if origin is tuple:
        each = _allowed(inner[0])
        return ", ".join(["list", *([f"each {each}"] if each else []), *said])
    if inner:
        options = [_allowed(option, limits) for option in inner if option is not type(None)]
        return " or ".join(
            dict.fromkeys(filter(None, [*options, *(["none"] if type(None) in inner else [])]))
        )
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation.__name__.lower()
    words = {bool: "true or false", int: "whole", str: "text", float: "" if said else "number"}
    return ", ".join(filter(None, [words.get(annotation, ""), *said]))


def _flat(limits: Sequence[Any]) -> list[Any]:
    """Limits one by one: a nested Field holds its own."""
    return [one for limit in limits for one in (getattr(limit, "metadata", None) or [limit])]
