"""Errors a user can act on: one line that names the rule, the value and the remedy."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Callable, Iterable
from typing import TypeVar

N = TypeVar("N", int, float)


class FeatscopeError(Exception):
    """An error with a remedy. The command line prints it as one line and exits with 2."""


class BadInput(FeatscopeError, ValueError):
    """A value breaks a rule: `rule: value; remedy`.

    >>> import featscope as fs
    >>> try:
    ...     fs.PatchLaw(k=10, d=8)
    ... except fs.BadInput as error:
    ...     print(error)
    2k must be at most d for orthogonal features: k=10, d=8; raise d or lower k
    """

    def __init__(self, rule: str, value: str, remedy: str) -> None:
        super().__init__(f"{rule}: {value}; {remedy}")

    def __reduce__(self) -> tuple[Callable[[type[BadInput], str], BadInput], tuple[type[BadInput], str]]:
        # So that it reaches the parent from a worker process with its type and its text.
        return _again, (type(self), str(self))


def _again(kind: type[BadInput], text: str) -> BadInput:
    made = kind.__new__(kind, text)
    made.args = (text,)
    return made


def require(ok: bool, rule: str, value: str, remedy: str) -> None:
    """Raise :class:`BadInput` unless ``ok``."""
    if not ok:
        raise BadInput(rule, value, remedy)


def require_number(name: str, value: N) -> N:
    """Return ``value`` if it is a finite number; true is none."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    require(
        real, f"{name} must be a number", f"{name}={value!r}"[:120], "write it as one, for example 8 / 255"
    )
    require(_is_finite(value), f"{name} must be finite", f"{name}={value}"[:120], "give a number")
    return value


def _is_finite(value: float) -> bool:
    """Whether a float holds it: whole numbers grow beyond every float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def require_positive(name: str, value: N) -> N:
    """Return ``value`` if it is finite and > 0."""
    require(require_number(name, value) > 0, f"{name} must be positive", f"{name}={value}", f"raise {name}")
    return value


def require_at_least(name: str, value: N, least: N) -> N:
    """Return ``value`` if it is finite and ≥ ``least``."""
    require(
        require_number(name, value) >= least,
        f"{name} must be at least {least}",
        f"{name}={value}",
        f"set {name} to {least} or more",
    )
    return value


def require_whole(name: str, value: int, least: int) -> int:
    """Return ``value`` if it is a whole number ≥ ``least``."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    require(whole, f"{name} must be a whole number", f"{name}={value!r}"[:120], f"use int({name})")
    return require_at_least(name, value, least)


#: names that an error lists
MOST_NAMES = 40


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the remedy for an unknown name: the nearest valid ones, whatever the case of their letters, or
    the first of them."""
    names = sorted(known)
    folded = {each.casefold(): each for each in names}
    close = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(folded[each] for each in close) + "?"
    rest = f", … ({len(names)} in all)" if len(names) > MOST_NAMES else ""
    return "choose one of " + ", ".join(names[:MOST_NAMES]) + rest


def known_as(kind: str, name: str, known: Iterable[str]) -> str:
    """The known name that is meant, whatever the case of its letters; an unknown one lists the nearest."""
    text = isinstance(name, str)
    require(
        text, f"{kind} must be given by name", repr(name)[:120], f"write it as text, one {kind} at a time"
    )
    names = {each.casefold(): each for each in known}
    if name.casefold() not in names:
        raise unknown(kind, name, names.values())
    return names[name.casefold()]


def unknown(kind: str, name: str, known: Iterable[str]) -> BadInput:
    """Return the error for a name that is not in ``known``."""
    return BadInput(f"unknown {kind}", name, nearest(name, known))
