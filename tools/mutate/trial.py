"""One mutant against the tests that run its line: in a process of its own, with the changed source in the
place of the file's."""

import ast
import importlib.machinery
import os
import sys
import types
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from changes import Mutant
from cover import PYTEST_OPTIONS, CoverageMap
from processes import End, Task

KILLED, TIMED_OUT, SURVIVED, NOT_COVERED = "killed", "timed out", "survived", "not covered"
NO_TESTS_RAN = 5
# The limit is CPU time: five times what the tests need without the mutant, and a floor for imports and
# fixtures.
PATIENCE, FLOOR = 5.0, 40.0
# The tests of constants, defaults and limits run no function: whatever runs at import faces them last.
TABLE_OF_NUMBERS = "tests/core/test_numbers.py"


@dataclass(frozen=True)
class Selection:
    """The tests a mutant faces, fastest first, and how many of those that run its line the budget left
    out."""

    tests: tuple[str, ...]
    covering: int
    left_out: int
    seconds: float


def select(mutant: Mutant, root: Path, coverage: CoverageMap, budget: float) -> Selection:
    """The tests that run the line, then the others of their files (they may share what a fixture or a cache
    has run)."""
    ranks = _covering(mutant, os.path.relpath(mutant.path, root), coverage)
    covering = set[str]().union(*ranks)
    chosen, spent = list[str](), 0.0
    for tests in ranks:
        found, seconds = _within(tests - set(chosen), coverage.seconds, budget - spent)
        chosen, spent = chosen + found, spent + seconds
    neighbours = coverage.of_files({test.partition("::")[0] for test in covering}) - covering
    more, extra = _within(neighbours, coverage.seconds, min(budget - spent, budget / 3))
    last = sorted(_table(mutant, coverage) - {*chosen, *more})
    seconds = spent + extra + sum(coverage.seconds[test] for test in last)
    return Selection((*chosen, *more, *last), len(covering), len(covering) - len(chosen), seconds)


def _table(mutant: Mutant, coverage: CoverageMap) -> set[str]:
    return coverage.of_files({TABLE_OF_NUMBERS}) if mutant.runs_at_import else set()


def _covering(mutant: Mutant, path: str, coverage: CoverageMap) -> list[set[str]]:
    """Who runs the line. For one that runs at import: who runs its function, if it is a default; else who
    runs anything of the module, and after those who imports it.

    A function that only makes a module's tables runs at import; a module that is imported late is imported
    inside some test, which tells nothing about who uses the line.
    """
    importing = coverage.covering(path, *_first_statement(mutant.original))
    running = coverage.covering(path, mutant.line, mutant.end_line)
    if running - importing and not mutant.runs_at_import:
        return [running]
    if in_function := coverage.covering(path, *mutant.function) - importing:
        return [in_function]
    in_module = set[str]().union(*coverage.tests_by_line.get(path, {}).values())
    return [in_module, coverage.of_files(coverage.importers.get(path, set()))]


def _first_statement(source: str) -> tuple[int, int]:
    """The lines of a module's first statement after its description; whoever runs them imports it."""
    body = ast.parse(source).body
    first = body[1] if len(body) > 1 and isinstance(body[0], ast.Expr) else body[0]
    return first.lineno, first.end_lineno or first.lineno


def _within(tests: set[str], seconds: dict[str, float], budget: float) -> tuple[list[str], float]:
    """The fastest tests that fit the budget; at least one."""
    chosen: list[str] = []
    spent = 0.0
    for test in sorted(tests, key=lambda t: (seconds[t], t)):
        if spent + seconds[test] > budget and (chosen or budget <= 0):
            break
        chosen.append(test)
        spent += seconds[test]
    return chosen, spent


def trial(name: str, mutant: Mutant, selection: Selection, root: Path) -> Task:
    """The task that ends with pytest's exit code."""
    cpu = FLOOR + PATIENCE * selection.seconds
    return Task(name, _facing(mutant, selection.tests, root), cpu, 10 * cpu)


def verdict(end: End) -> str:
    """What the end of a trial means. Tests that are no longer there have noticed nothing."""
    if end.timed_out:
        return TIMED_OUT
    return SURVIVED if end.code in (0, NO_TESTS_RAN) and not end.signal else KILLED


def _facing(mutant: Mutant, tests: Sequence[str], root: Path) -> Callable[[], int]:
    def face() -> int:
        os.chdir(root)
        sys.meta_path.insert(0, ChangedModule(mutant.module, mutant.path, mutant.source))
        codes = (_run(stage) for stage in _stages(tests))
        return next((code for code in codes if code not in (0, NO_TESTS_RAN)), 0)

    return face


def _stages(tests: Sequence[str]) -> list[list[str]]:
    """First the file with the most of these tests, which is likely the one about this module; then all
    others. Most mutants never see the imports of those."""
    files = Counter(test.partition("::")[0] for test in tests)
    main = files.most_common(1)[0][0] + "::"
    stages = (
        [test for test in tests if test.startswith(main)],
        [test for test in tests if not test.startswith(main)],
    )
    return [stage for stage in stages if stage]


def _run(tests: Sequence[str]) -> int:
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    return int(pytest.main([*files, "-x", *PYTEST_OPTIONS], plugins=[Only(tests)]))


class Only:
    """A pytest plug-in that keeps these tests, in this order. (Names on the command line fail on some
    parameters' ids.)"""

    def __init__(self, tests: Sequence[str]) -> None:
        self.order = {test: i for i, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Select and sort."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self.order), key=lambda item: self.order[item.nodeid]
        )


class ChangedModule(importlib.machinery.SourceFileLoader):
    """Finds and loads one module from changed source; nothing is written."""

    def __init__(self, name: str, path: Path, source: str) -> None:
        super().__init__(name, str(path))
        self.source = source

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Only this one."""
        if fullname != self.name:
            return None
        package = Path(self.path).name == "__init__.py"
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=self.path, is_package=package)
        spec.has_location = True
        if package:
            spec.submodule_search_locations = [str(Path(self.path).parent)]
        return spec

    def get_code(self, fullname: str) -> types.CodeType:
        """The code of the changed source, under the file's own name."""
        return compile(self.source, self.path, "exec", dont_inherit=True)
