"""Frozen, validated values: the base of every law and every experiment's spec.

A class may carry a registered name: `class MyLaw(PatchLaw, registered="my-law")`. The name, not the place of
the code, says in a run's identity that a part is of another type than the one declared for it.
"""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticSerializationError

from featscope.core.errors import BadInput, require, unknown
from featscope.core.settings import inherit_meanings, is_later, require_declared


class Value(BaseModel):
    """A frozen value. Unknown keys, NaN and infinities are refused with a one-line :class:`BadInput`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)
    #: the name of this very class, not inherited: a subclass is another thing
    registered_name: ClassVar[str | None] = None

    def __init_subclass__(cls, registered: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.registered_name = _register(cls, registered)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        inherit_meanings(cls)

    @model_validator(mode="before")
    @classmethod
    def _as_declared(cls, data: Any) -> Any:
        for name, value in data.items() if isinstance(data, dict) else ():
            if name in cls.model_fields:
                require_declared(name, cls.model_fields[name], value)
        return data

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise one_line(error, type(self)) from None

    def replace(self, **changes: Any) -> Self:
        """Return a validated copy with some fields changed."""
        return type(self)(**{**dict(self), **changes})


_CLASSES: dict[str, type[BaseModel]] = {}


def registered(name: str) -> type[BaseModel]:
    """The class of a registered name."""
    if name not in _CLASSES:
        raise BadInput(
            "no class has this registered name here", name, "import the module that defines it first"
        )
    return _CLASSES[name]


def _register(cls: type[BaseModel], name: str | None) -> str | None:
    """Keep ``name`` for this class; the same class defined again, as in a notebook, keeps it."""
    if name is None:
        return None
    place = f"{cls.__module__}.{cls.__qualname__}"
    require(
        bool(name), "a registered name must not be empty", f"{cls.__name__}: {name!r}", "give a word or two"
    )
    other = _CLASSES.get(name, cls)
    taken = f"{other.__module__}.{other.__qualname__}"
    require(
        taken == place,
        "a registered name belongs to one class",
        f"{name!r} is {taken}",
        f"register {cls.__name__} under another name",
    )
    _CLASSES[name] = cls
    return name


def json_form(value: BaseModel) -> dict[str, Any]:
    """The value as JSON holds it, with all fields of parts that are of a subclass of the type declared for
    them."""
    try:
        found: dict[str, Any] = json.loads(value.model_dump_json(serialize_as_any=True))
    except PydanticSerializationError as error:
        raise BadInput(
            "a run's settings must be plain data",
            f"{type(value).__name__}: {error}",
            "use numbers, text, tuples and Values",
        ) from None
    return found


def identity_form(value: BaseModel) -> dict[str, Any]:
    """The value as a run's identity holds it: settings that came later are left out at their default."""
    found = json_form(value)
    _leave_out(value, found)
    return found


def _leave_out(part: Any, form: Any) -> None:
    if isinstance(part, BaseModel):
        for name, info in type(part).model_fields.items():
            inner = getattr(part, name)
            if is_later(info) and inner == info.default:
                del form[name]
            else:
                _leave_out(inner, form[name])
    elif isinstance(part, Mapping):
        for key, inner in part.items():
            _leave_out(inner, form[str(key)])
    elif isinstance(part, list | tuple):
        for inner, place in zip(part, form, strict=True):
            _leave_out(inner, place)


def other_types(value: BaseModel, declared: type[BaseModel]) -> dict[str, str]:
    """The registered names of the parts that are not of the type declared for them, by dotted key; the value
    itself has the key ``""``.

    A part without a name is refused: two laws that draw differently must not share one run.
    """
    return dict(_others(value, {declared}, ""))


def _others(part: Any, expected: set[type], key: str) -> Iterable[tuple[str, str]]:
    inner = f"{key}." if key else ""
    if isinstance(part, BaseModel):
        if type(part) not in expected:
            yield key, _name_of(part, key)
        for name, info in type(part).model_fields.items():
            yield from _others(getattr(part, name), _models(info.annotation), inner + name)
    elif isinstance(part, Mapping):
        for name, item in part.items():
            yield from _others(item, expected, f"{inner}{name}")
    elif isinstance(part, list | tuple | set | frozenset):
        for index, item in enumerate(part):
            yield from _others(item, expected, f"{inner}{index}")


def _models(annotation: Any) -> set[type[BaseModel]]:
    """All models that an annotation names, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    return {model for option in typing.get_args(annotation) for model in _models(option)}


def _name_of(part: BaseModel, key: str) -> str:
    name = getattr(type(part), "registered_name", None)
    cls, parent = type(part).__name__, type(part).__bases__[0].__name__
    if name is None:
        remedy = (
            f'give it one: `class {cls}({parent}, registered="a-name")`, and another when its code changes'
        )
        raise BadInput(
            "a part of a run whose type has no registered name cannot be told from its parent",
            f"{key or 'spec'}: {cls}",
            remedy,
        )
    return str(name)


def one_line(error: ValidationError, model: type[BaseModel]) -> BadInput:
    """Turn pydantic's first complaint into the rule, the value and the remedy."""
    # Of a union every option complains; the one that got furthest is the one that was meant.
    first = max(error.errors(), key=lambda problem: len(problem["loc"]))
    context = first.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, BadInput):
        return cause
    name = _key(first["loc"], model) or model.__name__
    if first["type"] == "extra_forbidden":
        return unknown("key", name, model.model_fields)
    if first["type"] == "union_tag_invalid":
        expected = re.findall(r"'([^']*)'", str(context["expected_tags"]))
        return unknown(f"name for {name}", str(context["tag"]), expected)
    said = _MESSAGES.get(first["type"], first["msg"][0].lower() + first["msg"][1:])
    remedy = "`featscope show EXPERIMENT` says what each setting may be"
    return BadInput(f"{name}: {said}", f"{name}={_shortened(first['input'])}", remedy)


#: pydantic's words where they speak of pydantic
_MESSAGES = {
    "tuple_type": "a list is needed, such as [1, 2]",
    "model_type": 'parts are needed, such as {"d": 50}',
    "model_attributes_type": "a number, or a name with its parts, is needed",
    "missing": "is missing",
    "int_from_float": "a whole number is needed",
    "int_parsing": "a whole number is needed",
    "float_parsing": "a number is needed",
    "float_type": "a number is needed",
    "int_type": "a whole number is needed",
}


def _shortened(value: Any, most: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def _key(place: Iterable[int | str], model: type[BaseModel]) -> str:
    """The dotted key of a complaint; pydantic names validators and options of unions on the way, which are no
    keys."""
    known, keys = set(model.model_fields), list[str]()
    for level in place:
        if isinstance(level, int):
            keys.append(str(level))
        elif level in known:
            keys.append(level)
            inner = _models(model.model_fields[level].annotation) if level in model.model_fields else set()
            known = known.union(*(kind.model_fields for kind in inner)) if inner else known
        elif not keys:
            keys.append(level)
    return ".".join(keys)
