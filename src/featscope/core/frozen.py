"""Frozen, validated values: the base of every law and every experiment's spec."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from featscope.core.errors import BadInput, unknown


class Value(BaseModel):
    """A frozen value. Unknown keys, NaN and infinities are refused with a one-line :class:`BadInput`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise one_line(error, type(self)) from None

    def replace(self, **changes: Any) -> Self:
        """Return a validated copy with some fields changed."""
        return type(self)(**{**dict(self), **changes})


def one_line(error: ValidationError, model: type[BaseModel]) -> BadInput:
    """Turn pydantic's first complaint into the rule, the value and the remedy."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, BadInput):
        return cause
    name = ".".join(str(part) for part in first["loc"]) or model.__name__
    if first["type"] == "extra_forbidden":
        return unknown("key", name, model.model_fields)
    rule = f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}"
    return BadInput(rule, f"{name}={first['input']!r}", "`featscope list --json` shows the keys")
