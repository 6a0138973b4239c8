"""Mutants that are named, not drawn: what an earlier trial left over, or errors written by hand."""

import ast
import json
import sys
import tomllib
from pathlib import Path

from changes import Mutant
from trial import NOT_COVERED, SURVIVED

Key = tuple[str, str, str, str]


def key(mutant: Mutant) -> Key:
    """What names a mutant although lines and folders move."""
    return mutant.place, mutant.code, mutant.before, mutant.after


def named(entry: dict[str, str]) -> Key:
    """The same of a stored one."""
    return entry["place"], entry["code"], entry["before"], entry["after"]


def chosen(path: Path, pool: list[Mutant], source: Path) -> list[Mutant]:
    """The survivors of an earlier trial (its JSON), or the errors of a table written by hand (TOML)."""
    if path.suffix == ".toml":
        return [_by_hand(entry, source) for entry in tomllib.loads(path.read_text())["mutant"]]
    rows = json.loads(path.read_text())["mutants"]
    left = [named(row) for row in rows if row["outcome"] in (SURVIVED, NOT_COVERED)]
    known = {key(m): m for m in pool}
    for place, code, *_ in (name for name in left if name not in known):
        print(f"no longer there: {place}: {code}", file=sys.stderr)
    return [known[name] for name in left if name in known]


def _by_hand(entry: dict[str, str], source: Path) -> Mutant:
    """``before``, which stands once in the file, replaced by ``after``."""
    path, before, after = source / entry["file"], entry["before"], entry["after"]
    text = path.read_text()
    if text.count(before) != 1:
        raise SystemExit(f"{entry['file']} has {text.count(before)} times, not once: {before}")
    at = text.index(before)
    first, last = text.count("\n", 0, at) + 1, text.count("\n", 0, at + len(before)) + 1
    start = len(text[:at].encode())
    where, lines, at_import = _around(ast.parse(text), first)
    parts = path.relative_to(source.parent).with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    place = (parts[1], module, path, where, first, last, at_import, lines)
    said = ("by hand", " ".join(before.split()), " ".join(after.split()))
    code = text.splitlines()[first - 1].strip()
    return Mutant(*place, *said, code, text, (start, start + len(before.encode())), after)


def _around(tree: ast.AST, line: int) -> tuple[str, tuple[int, int], bool]:
    """Name and lines of the function around a line, and whether the line runs at import."""
    name, lines, at_import = "", (0, 0), True
    for node in ast.walk(tree):  # outer ones come first
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0):
            name = f"{name}.{node.name}".lstrip(".")
            if isinstance(node, ast.FunctionDef):
                lines, at_import = (node.lineno, node.end_lineno or 0), line < node.body[0].lineno
    return name, lines, at_import
