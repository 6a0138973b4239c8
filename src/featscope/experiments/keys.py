"""Settings as people name and type them: dotted keys, the papers' letters, and values such as 8/255."""

from __future__ import annotations

import functools
import json
import re
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from featscope.core.errors import BadInput, require, unknown
from featscope.core.frozen import Value, json_form
from featscope.core.settings import letter_of


def _nested(annotation: Any) -> type[BaseModel] | None:
    """The model inside an annotation such as `Net` or `Net | None`, if there is one."""
    for option in (annotation, *typing.get_args(annotation)):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


def leaves(model: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """All settable keys of a spec, with dots between the levels."""
    return _leaves(model, "")


@functools.cache
def _leaves(model: type[BaseModel], prefix: str) -> Mapping[str, FieldInfo]:
    keys: dict[str, FieldInfo] = {}
    for name, info in model.model_fields.items():
        inner = _nested(info.annotation)
        keys[prefix + name] = info
        if inner is not None:
            keys |= _leaves(inner, f"{prefix}{name}.")
    return keys


def value_at(spec: Value, key: str) -> Any:
    """The value of a dotted key as JSON holds it; None where a part above it is of another form."""
    value: Any = json_form(spec)
    for level in key.split("."):
        value = value.get(level) if isinstance(value, dict) else None
    return value


#: Greek letters as they are typed
GREEK = {
    name: chr(code)
    for name, code in zip(
        [
            "alpha",
            "beta",
            "gamma",
            "delta",
            "epsilon",
            "zeta",
            "eta",
            "theta",
            "iota",
            "kappa",
            "lambda",
            "mu",
            "nu",
            "xi",
            "omicron",
            "pi",
            "rho",
        ],
        range(ord("α"), ord("α") + 17),
        strict=True,
    )
} | {"sigma": "σ", "tau": "τ", "phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "eps": "ε"}


def in_letters(key: str) -> str:
    """A letter as papers print it: `eta_tilde` is η̃, `sigma_0` is σ_0."""
    first, _, rest = key.partition("_")
    letter = GREEK.get(first, first)
    return f"{letter}\u0303" if rest == "tilde" else f"{letter}_{rest}" if rest else letter


def full_key(model: type[BaseModel], key: str) -> str:
    """Return the key with its levels: `d` becomes `law.d` where that is the only `d`, and the paper's letter
    becomes the key that it names."""
    known = leaves(model)
    if key in known:
        return key
    ends = [name for name in known if name.endswith("." + key)]
    spelt = {key, in_letters(key)}
    letters = [name for name, info in known.items() if letter_of(info) in spelt]
    for matches in (ends, letters):
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise BadInput("ambiguous key", key, "write " + " or ".join(matches))
    raise unknown("key", key, known)


def knows(model: type[BaseModel], key: str) -> bool:
    """Whether a key is a setting of a spec by any of its names; an ambiguous one is."""
    try:
        full_key(model, key)
    except BadInput as error:
        return not str(error).startswith("unknown")
    return True


# Possessive, and begun only where a number begins: a thousand digits are read once, not once for each cut.
_NUMBER = r"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?+"
_FRACTION = re.compile(rf"(?<![\d.])({_NUMBER})\s*+/\s*+({_NUMBER})")


def _divided(found: re.Match[str]) -> str:
    above, below = float(found[1]), float(found[2])
    require(below != 0, "a fraction needs a denominator that is not 0", found[0], "write for example 8/255")
    return repr(above / below)


def parse_value(text: str) -> Any:
    """A value as it is typed: JSON where it can be read so, with fractions such as 8/255; text otherwise."""
    for form in (text, _FRACTION.sub(_divided, text)):
        try:
            return json.loads(form)
        except (ValueError, RecursionError):
            continue
    return text


def parse_assignments(texts: list[str]) -> dict[str, Any]:
    """Parse `key=value` texts; each key once."""
    changes: dict[str, Any] = {}
    for text in texts:
        key, sep, value = (part.strip() for part in text.partition("="))
        require(bool(sep and key), "--set needs key=value", repr(text), "write for example --set eps=1.2")
        require(key not in changes, "a setting is given twice", f"--set {key}", "give it once")
        changes[key] = parse_value(value)
    return changes
