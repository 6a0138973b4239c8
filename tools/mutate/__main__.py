"""Mutation testing by sample: small errors in the code, drawn by seed, and whether a test notices. See
docs/testing.md."""

import argparse
import importlib.util
import json
import os
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["COVERAGE_CORE"] = "ctrace"  # the tracer that can tell tests apart

from changes import Mutant, mutants
from chosen import Key, chosen, key, named
from cover import coverage_map
from processes import load_heavy_libraries, run_all
from trial import KILLED, NOT_COVERED, SURVIVED, TIMED_OUT, Selection, select, trial, verdict

PACKAGES = ("core", "laws", "nets", "attacks", "dynamics", "features", "claims", "papers")
EQUIVALENT = "equivalent"
ACCEPTED = Path(__file__).parents[1] / "mutants-accepted.toml"
COLUMNS = (KILLED, TIMED_OUT, SURVIVED, NOT_COVERED, EQUIVALENT)


def main() -> int:
    """Draw, try, report."""
    options = _options()
    if importlib.util.find_spec("coverage") is None:
        print("coverage is not installed; `pip install -e '.[dev]'`, or run `make mutate`", file=sys.stderr)
        return 2
    root = Path(options.root).resolve()
    source = next(path.parent for path in sorted((root / "src").glob("*/__init__.py")))
    work = root / ".mutate"
    sys.path[:0] = [str(root / "src"), str(root / "tests" / "support")]
    pool = [m for package in options.packages for m in _of_package(source, package, options.module)]
    sample = (
        chosen(options.chosen, pool, source) if options.chosen else draw(pool, options.sample, options.seed)
    )
    drawn = f"from {options.chosen.name}" if options.chosen else f"seed {options.seed}"
    print(
        f"{len(sample)} of {len(pool)} mutants on {len({(m.path, m.line) for m in pool})} lines, {drawn}",
        flush=True,
    )
    if not options.light:
        load_heavy_libraries()
    coverage = coverage_map(root, source, work / "coverage", options.jobs, options.tests)
    faced = {m: select(m, root, coverage, options.budget) for m in sample}
    accepted = _accepted(ACCEPTED)
    results = {}
    try:
        for m, outcome in _try_all(faced, root, work, options.jobs):
            results[m] = EQUIVALENT if outcome == SURVIVED and key(m) in accepted else outcome
    except KeyboardInterrupt:
        print(f"interrupted after {len(results)}; the table is of these")
    print(
        "",
        _table(results),
        *(_list(results, outcome, faced, root) for outcome in (SURVIVED, NOT_COVERED)),
        sep="\n",
    )
    share = _noticed(Counter(results.values()))
    rows = [_as_json(m, outcome, faced[m], root, accepted.get(key(m), "")) for m, outcome in results.items()]
    text = json.dumps({"seed": options.seed, "noticed": share, "mutants": rows}, indent=1, ensure_ascii=False)
    (work / "last.json").write_text(text)
    return int(share < options.least)


def _try_all(
    faced: dict[Mutant, Selection], root: Path, work: Path, jobs: int
) -> Iterator[tuple[Mutant, str]]:
    """Each mutant with its outcome; what is not killed is said at once."""
    yield from ((m, NOT_COVERED) for m in faced if not faced[m].tests)
    tried = {f"mutant-{i}": m for i, m in enumerate(faced) if faced[m].tests}
    for task, end in run_all(
        [trial(name, m, faced[m], root) for name, m in tried.items()], jobs, work / "logs"
    ):
        mutant, outcome = tried[task.name], verdict(end)
        if outcome != KILLED:
            print(f"{outcome}: {_described(mutant, root)} [{task.name}, {end.seconds:.0f} s]", flush=True)
        yield mutant, outcome


def draw(pool: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """One mutant for each line at most: lines with equal chance, then the kinds of change possible there,
    then the changes."""
    by_line: dict[tuple[Path, int], Mutant] = {}
    for mutant in sorted(pool, key=lambda m: m.rank(seed)):
        line = (mutant.path, mutant.line)
        if line not in by_line and mutant.compiles:
            by_line[line] = mutant
    return sorted(by_line.values(), key=lambda m: m.line_rank(seed))[:size]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutate", description=__doc__)
    parser.add_argument(
        "packages",
        nargs="*",
        default=PACKAGES,
        help="packages below the source package; missing ones are skipped",
    )
    parser.add_argument("--sample", type=int, default=300, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0, help="which mutants")
    parser.add_argument(
        "--chosen", type=Path, help="instead of a sample: a last.json (its survivors), or a table (TOML)"
    )
    parser.add_argument("--module", default="", help="only modules whose dotted name contains this")
    parser.add_argument("--tests", nargs="*", default=[], help="only these test files (default: all)")
    parser.add_argument("--budget", type=float, default=60.0, help="CPU seconds of tests for each mutant")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--least", type=float, default=0.0, help="exit with 1 if a smaller share is noticed")
    parser.add_argument("--light", action="store_true", help="load no libraries ahead")
    parser.add_argument("--root", default=Path(__file__).parents[2], help="the folder with src and tests")
    return parser.parse_args()


def _of_package(source: Path, package: str, wanted: str) -> list[Mutant]:
    folder = source / package
    if not folder.is_dir():
        print(f"no package {package}: skipped")
        return []
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if wanted in module:
            found += mutants(path, module, package)
    return found


def _accepted(path: Path) -> dict[Key, str]:
    """Survivors that change nothing a test could see, each with its reason."""
    if not path.exists():
        return {}
    entries = tomllib.loads(path.read_text()).get("mutant", [])
    return {named(e): e["reason"] for e in entries}


def _described(mutant: Mutant, root: Path) -> str:
    where = f"{mutant.path.relative_to(root)}:{mutant.line} {mutant.where}"
    return f"{where} ({mutant.kind}): `{mutant.before}` → `{mutant.after}`   in: {mutant.code}"


def _table(results: dict[Mutant, str]) -> str:
    """A row for each package, and one for all."""
    packages = dict.fromkeys(m.package for m in results)
    counts = {p: Counter(outcome for m, outcome in results.items() if m.package == p) for p in packages}
    lines = [
        "| package | sampled | " + " | ".join(COLUMNS) + " | noticed |",
        "|---" * (len(COLUMNS) + 3) + "|",
    ]
    for name, count in [*counts.items(), ("all", Counter(results.values()))]:
        lines.append(
            f"| {name} | {count.total()} | "
            + " | ".join(str(count[c]) for c in COLUMNS)
            + f" | {100 * _noticed(count):.1f} % |"
        )
    return "\n".join(lines)


def _list(results: dict[Mutant, str], outcome: str, faced: dict[Mutant, Selection], root: Path) -> str:
    """The mutants with this outcome, in the order of files and lines; where the budget cut the tests, that is
    said."""
    found = sorted((m for m in results if results[m] == outcome), key=lambda m: (m.path, m.line))
    lines = [f"{outcome}: {len(found)}"]
    for m in found:
        cut = (
            f" (budget left out {faced[m].left_out} of {faced[m].covering} tests)"
            if faced[m].left_out
            else ""
        )
        lines.append(f"  {_described(m, root)}{cut}")
    return "\n".join(lines)


def _as_json(
    mutant: Mutant, outcome: str, selection: Selection, root: Path, reason: str
) -> dict[str, object]:
    return {
        "outcome": outcome,
        "place": mutant.place,
        "file": str(mutant.path.relative_to(root)),
        "line": mutant.line,
        "kind": mutant.kind,
        "code": mutant.code,
        "before": mutant.before,
        "after": mutant.after,
        "reason": reason,
        "tests": len(selection.tests),
        "left_out": selection.left_out,
    }


def _noticed(count: Counter[str]) -> float:
    """The share of mutants that change something and are killed; a timeout is noticed, a line without tests
    is not."""
    able = count.total() - count[EQUIVALENT]
    return (count[KILLED] + count[TIMED_OUT]) / able if able else 1.0


if __name__ == "__main__":
    sys.exit(main())
