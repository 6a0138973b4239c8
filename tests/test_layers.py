"""A module imports only from its own package and from layers above it in the design's list."""

import ast
from pathlib import Path

import pytest

import featscope

ROOT = Path(featscope.__file__).parent
LAYERS = [
    "core",
    "laws",
    "images",
    "nets",
    "attacks",
    "dynamics",
    "features",
    "experiments",
    "theory",
    "report",
    "bench",
    "cli",
]
MODULES = sorted(ROOT.rglob("*.py"))


def layer(parts: tuple[str, ...]) -> int | None:
    return LAYERS.index(parts[0]) if parts and parts[0] in LAYERS else None


def imported(path: Path) -> list[tuple[str, ...]]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            base = node.module or ""
            names += [f"{base}.{alias.name}" for alias in node.names] if base == "featscope" else [base]
    return [tuple(name.split(".")[1:]) for name in names if name.split(".")[0] == "featscope"]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_upwards(path: Path) -> None:
    own = path.relative_to(ROOT).with_suffix("").parts
    mine = layer(own)
    if mine is None:
        assert own in {("__init__",), ("__main__",)}, f"{path} belongs to no layer"
        return
    for target in imported(path):
        theirs = layer(target)
        assert theirs is None or theirs <= mine, f"{'.'.join(own)} imports {'.'.join(target)} from a layer below"
