"""Which tests run which lines, measured once for each test file and kept by the content of what it depends
on."""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from processes import Task, run_all

Lines = dict[str, dict[str, list[int]]]


@dataclass
class CoverageMap:
    """CPU seconds of each test that passes, and for each source file the tests that run each line ("" is its
    import)."""

    seconds: dict[str, float] = field(default_factory=dict)
    tests_by_line: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    importers: dict[str, set[str]] = field(default_factory=dict)

    def add(self, test_file: str, seconds: dict[str, float], lines: Lines) -> None:
        """Add what one test file has run."""
        self.seconds |= seconds
        for path, by_test in lines.items():
            self.importers.setdefault(path, set()).add(test_file)
            for test, numbers in by_test.items():
                for number in numbers if test in seconds else ():
                    self.tests_by_line.setdefault(path, {}).setdefault(number, set()).add(test)

    def covering(self, path: str, first: int, last: int) -> set[str]:
        """The tests that run any of these lines."""
        by_line = self.tests_by_line.get(path, {})
        return set().union(*(by_line.get(n, set()) for n in range(first, last + 1)))

    def of_files(self, files: set[str]) -> set[str]:
        """All tests of these test files."""
        return {test for test in self.seconds if test.partition("::")[0] in files}


class Recorder:
    """A pytest plug-in: one coverage context and one CPU time for each test."""

    def __init__(self, source: Path) -> None:
        import coverage

        self.coverage = coverage.Coverage(data_file=None, source=[str(source)])
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Everything between here and the next test belongs to this one."""
        self.coverage.switch_context(item.nodeid)
        started = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = round(time.process_time() - started, 3)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that is skipped or fails here can kill nothing."""
        if report.outcome != "passed":
            self.failed.add(report.nodeid)

    def result(self, root: Path) -> dict[str, object]:
        """What was measured, with paths below the root."""
        data = self.coverage.get_data()
        lines: Lines = {}
        for path in data.measured_files():
            by_test: dict[str, list[int]] = {}
            for number, contexts in data.contexts_by_lineno(path).items():
                for context in contexts:
                    by_test.setdefault(context, []).append(number)
            lines[os.path.relpath(path, root)] = by_test
        passed = {test: s for test, s in self.seconds.items() if test not in self.failed}
        return {"seconds": passed, "failed": sorted(self.failed), "lines": lines}


def coverage_map(root: Path, source: Path, cache: Path, jobs: int, tests: list[str]) -> CoverageMap:
    """The map of all test files; only those whose content, helpers or source changed are run again."""
    cache.mkdir(parents=True, exist_ok=True)
    files = sorted((root / "tests").rglob("test_*.py")) if not tests else [root / t for t in tests]
    shared = _digest(
        [
            *sorted(source.rglob("*.py")),
            *(p for p in sorted((root / "tests").rglob("*.py")) if not p.name.startswith("test_")),
        ]
    )
    kept = {file: cache / f"{file.stem}-{_digest([file], shared)[:16]}.json" for file in files}
    missing = [file for file in files if not kept[file].exists()]
    if missing:
        print(f"coverage: {len(missing)} of {len(files)} test files to run", flush=True)
    tasks = [
        Task(file.name, _measuring(file, root, source, kept[file]), cpu_seconds=3600, wall_seconds=7200)
        for file in missing
    ]
    for task, end in run_all(tasks, jobs, cache / "logs"):
        print(f"  {task.name}: {end.said} after {end.seconds:.0f} s", flush=True)
    result = CoverageMap()
    for file, path in kept.items():
        if path.exists():
            measured = json.loads(path.read_text())
            result.add(os.path.relpath(file, root), measured["seconds"], measured["lines"])
    return result


def _measuring(file: Path, root: Path, source: Path, kept: Path) -> Callable[[], int]:
    def measure() -> int:
        os.chdir(root)
        recorder = Recorder(source)
        recorder.coverage.start()
        code = int(pytest.main([str(file.relative_to(root)), *PYTEST_OPTIONS], plugins=[recorder]))
        recorder.coverage.stop()
        if code in (0, 1):
            partial = kept.with_suffix(".part")
            partial.write_text(json.dumps(recorder.result(root)))
            partial.replace(kept)
            for stale in kept.parent.glob(f"{file.stem}-*.json"):
                if stale != kept:
                    with contextlib.suppress(FileNotFoundError):
                        stale.unlink()
        return code

    return measure


PYTEST_OPTIONS = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--tb=line", "--no-header"]


def _digest(paths: list[Path], start: str = "") -> str:
    digest = hashlib.sha256(start.encode())
    for path in paths:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
