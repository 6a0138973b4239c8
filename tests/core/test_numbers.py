"""The numbers that documented results rest on: every constant, default and limit of the library stands once more in
numbers.toml. A number that is changed on purpose is changed there, too; one that is changed by accident is found here.

`python tests/core/test_numbers.py` prints the table as the code has it now.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import pkgutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel

import featscope

PACKAGES = ("core", "laws", "nets", "attacks", "dynamics", "features")
TABLE = Path(__file__).with_name("numbers.toml")
LIMITS = ("gt", "ge", "lt", "le", "min_length", "max_length")


def modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        root = importlib.import_module(f"{featscope.__name__}.{package}")
        yield root
        for found in pkgutil.walk_packages(root.__path__, root.__name__ + "."):
            yield importlib.import_module(found.name)


def plain(value: Any) -> bool:
    """Numbers, and lists of numbers."""
    if isinstance(value, tuple | list):
        return len(value) > 0 and all(map(plain, value))
    return isinstance(value, bool | int | float)


def assigned(module: ModuleType) -> list[str]:
    """The names that the module itself gives a value."""
    tree = ast.parse(inspect.getsource(module))
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    targets += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    names = [n for t in targets for n in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return [n.id for n in names if isinstance(n, ast.Name)]


def of_function(name: str, function: Any) -> Iterator[tuple[str, Any]]:
    for parameter in inspect.signature(function).parameters.values():
        if plain(parameter.default):
            yield f"{name}({parameter.name})", parameter.default


def of_settings(name: str, model: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    for key in model.__annotations__:
        info = model.model_fields.get(key)
        if info is None:
            continue
        if plain(info.default):
            yield f"{name}.{key}", info.default
        for limit in info.metadata:
            for word in LIMITS:
                if (value := getattr(limit, word, None)) is not None:
                    yield f"{name}.{key} {word}", value


def of_class(name: str, cls: type) -> Iterator[tuple[str, Any]]:
    if issubclass(cls, BaseModel):
        yield from of_settings(name, cls)
    elif "__init__" in vars(cls) or hasattr(cls, "_fields"):
        yield from of_function(name, cls)
    for method, value in vars(cls).items():
        inner = getattr(value, "__func__", value)
        if inspect.isfunction(inner) and not (method.startswith("__") and method != "__call__"):
            yield from of_function(f"{name}.{method}", inner)


def numbers() -> dict[str, Any]:
    """Dotted name → number, for constants, defaults of arguments and fields, and limits of settings."""
    found: dict[str, Any] = {}
    for module in modules():
        short = module.__name__.removeprefix(f"{featscope.__name__}.")
        for name in assigned(module):
            value = getattr(module, name)
            entries = (
                {f"[{key}]": one for key, one in value.items()} if isinstance(value, dict) else {"": value}
            )
            found.update({f"{short}.{name}{key}": one for key, one in entries.items() if plain(one)})
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) != module.__name__:
                continue
            if inspect.isclass(value):
                found.update(of_class(f"{short}.{name}", value))
            elif inspect.isfunction(inspect.unwrap(value)) if callable(value) else False:
                found.update(of_function(f"{short}.{name}", value))
    return found


def as_toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return repr(value)


def listed(value: Any) -> Any:
    return [listed(item) for item in value] if isinstance(value, tuple | list) else value


def same(one: Any, other: Any) -> bool:
    """Of one type, and equal up to a processor's last digits."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=1e-12) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


def test_every_constant_default_and_limit_is_the_one_that_is_written_down() -> None:
    wanted = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    found = {name: listed(value) for name, value in numbers().items()}
    assert len(found) > 300
    for name in sorted(wanted.keys() | found.keys()):
        assert same(found.get(name), wanted.get(name)), name


if __name__ == "__main__":
    sys.stdout.write("# Constants, defaults and limits of the library (test_numbers.py).\n")
    for key, number in sorted(numbers().items()):
        sys.stdout.write(f'"{key}" = {as_toml(number)}\n')
