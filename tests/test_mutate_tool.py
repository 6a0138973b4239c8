"""The mutation sampler on a toy package: the changes it makes, the draw, and who notices."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "mutate"

FORMULA = '''"""A toy."""


def area(width: float, height: float = 2.0) -> float:
    """Width times height."""
    if width < 0:
        raise ValueError(f"width {0 + 1}")
    return width * height


def nearest(values: list[float], target: float) -> float:
    unread = target * 2
    return min(values, key=lambda value: abs(value - target))
'''

TESTS = """from toy.shapes.formula import area, nearest


def test_area():
    assert area(3.0) == 6.0


def test_nearest():
    assert nearest([1.0, 5.0], 4.0) == 5.0
"""


@pytest.fixture
def changes(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOL))
    import changes

    return changes


@pytest.fixture
def choices(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOL))
    import chosen

    return chosen


@pytest.fixture
def toy(tmp_path):
    package = tmp_path / "src" / "toy" / "shapes"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text('"""Toy."""\n')
    (package / "formula.py").write_text(FORMULA)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_formula.py").write_text(TESTS)
    return tmp_path


def _lines(changes, tmp_path, code):
    path = tmp_path / "one.py"
    path.write_text(code + "\n")
    return {mutant.source.strip() for mutant in changes.mutants(path, "one", "") if mutant.compiles}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("a + b", {"(a - b)"}),
        ("a * b", {"(a / b)"}),
        ("a - b", {"(a + b)", "(b - a)"}),
        ("a**p", {"(a ** p * a)"}),
        ("a < b", {"(a <= b)", "(a > b)"}),
        ("a == b", {"(a != b)"}),
        ("a and b", {"(a or b)"}),
        ("not a", {"(a)"}),
        ("~a", {"(a)"}),
        ("-a", {"(a)"}),
        ("y = x.min(-1)", {"y = x.max(-1)", "y = x.min(-2)", "y = x.min(1)"}),
        ("y = x.sum()", {"y = x.mean()"}),
        ("a @ b.mT", {"a @ b"}),
        ("0", set()),
        ("x[0]", {"x[1]"}),
        ("x[1]", {"x[2]", "x[0]"}),
        ("x[:n]", {"x[:n + 1]"}),
        ("x = 0.5", {"x = 0.75", "x = 1.5"}),
        ("x = 1e-12", set()),
        ("x = True", {"x = False"}),
        ("f(a, b)", {"f(b, a)", "pass"}),
        ("x = f('a', b)", set()),
        ("x = {'a': u, 'b': v}", {"x = {'a': v, 'b': u}"}),
        ("x = a if c else b", {"x = (b if c else a)"}),
        ("x += y", {"x -= y", "pass"}),
        ("if c:\n    raise ValueError", {"pass"}),
        ("raise BadInput(f'{1 + 1}', 2)", set()),
        ("x: Annotated[int, 3] = y", set()),
        ("Weight = Tensor | float", set()),
        ("super().__init__(a, b)", set()),
        ("x = torch.maximum(a, b)", {"x = torch.minimum(a, b)"}),
        ("zip(a, b, strict=True)", {"zip(b, a, strict=True)", "pass"}),
    ],
)
def test_each_change_is_the_expected_source(changes, tmp_path, code, expected):
    assert _lines(changes, tmp_path, code) == expected


def test_positions_count_letters_of_more_than_one_byte(changes, tmp_path):
    assert _lines(changes, tmp_path, "x = 'σλ', σ + λ") == {"x = 'σλ', (σ - λ)"}


def test_the_draw_depends_on_the_seed_and_not_on_the_folder(changes, toy):
    path = toy / "src" / "toy" / "shapes" / "formula.py"
    moved = toy / "src" / "formula.py"
    moved.write_text("# One line more.\n" + FORMULA)
    here = changes.mutants(path, "toy.shapes.formula", "shapes")
    there = changes.mutants(moved, "formula", "")
    assert [m.rank(3) for m in here] == [m.rank(3) for m in there]
    assert [m.rank(3) for m in here] != [m.rank(4) for m in here]
    assert {m.place for m in here} == {"formula.area", "formula.nearest"}


def test_every_accepted_and_every_hand_written_mutant_is_still_one(changes, choices):
    package = TOOL.parents[1] / "src" / "featscope"
    entries = tomllib.loads((TOOL.parent / "mutants-accepted.toml").read_text())["mutant"]
    modules = {entry["place"].partition(".")[0] for entry in entries}
    there = {
        choices.key(mutant)
        for path in package.rglob("*.py")
        if path.stem in modules
        for mutant in changes.mutants(path, path.stem, "")
    }
    assert [entry for entry in entries if choices.named(entry) not in there] == []
    assert all(m.compiles for m in choices.chosen(TOOL.parent / "mutants-by-hand.toml", [], package))


def test_what_survived_is_tried_again_and_a_table_is_tried_as_written(changes, choices, toy, capsys):
    package = toy / "src" / "toy"
    pool = changes.mutants(package / "shapes" / "formula.py", "toy.shapes.formula", "shapes")
    rows = [
        {"outcome": outcome, "place": m.place, "code": m.code, "before": m.before, "after": m.after}
        for m, outcome in zip(pool, ["killed", "survived", "not covered"], strict=False)
    ]
    rows.append({"outcome": "survived", "place": "formula.gone", "code": "0", "before": "0", "after": "1"})
    (toy / "last.json").write_text(json.dumps({"mutants": rows}))
    assert choices.chosen(toy / "last.json", pool, package) == pool[1:3]
    assert "no longer there: formula.gone" in capsys.readouterr().err
    table = toy / "table.toml"
    table.write_text(
        '[[mutant]]\nfile = "shapes/formula.py"\nbefore = "width * height"\nafter = "width + height"\n'
    )
    (mutant,) = choices.chosen(table, [], package)
    assert mutant.source == FORMULA.replace("width * height", "width + height")
    assert (mutant.module, mutant.place, mutant.line) == ("toy.shapes.formula", "formula.area", 8)
    assert (mutant.package, mutant.function, mutant.runs_at_import) == ("shapes", (4, 8), False)
    table.write_text('[[mutant]]\nfile = "shapes/formula.py"\nbefore = "target"\nafter = "0"\n')
    with pytest.raises(SystemExit, match="not once: target"):
        choices.chosen(table, [], package)


def test_a_wrong_formula_is_killed_and_a_harmless_change_survives(toy):
    pytest.importorskip("coverage")
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [
        sys.executable,
        str(TOOL),
        "shapes",
        "absent",
        "--root",
        str(toy),
        "--sample",
        "99",
        "--jobs",
        "1",
        "--light",
    ]
    first = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    survivors = first.partition("survived: ")[2]
    assert "no package absent: skipped" in first
    assert "`width * height`" not in survivors
    assert "`min(" not in survivors
    assert "formula.py:6 area" in survivors  # no test gives a negative width
    assert "formula.py:12 nearest" in survivors  # what is not read changes nothing
    assert "survived: 2" in first
    demanding = subprocess.run(
        [*command, "--least", "1.0"], env=environment, capture_output=True, text=True, check=False
    )
    assert demanding.returncode == 1
    assert "test files to run" not in demanding.stdout  # the map of lines is kept
    assert demanding.stdout.partition("| package")[2] == first.partition("| package")[2]


LATE = '''"""Imported late, inside the first test that asks."""
import math


def row(size):
    return size + 1


TABLE = [row(1), row(2)]


def used(at):
    return TABLE[at] * 2
'''


def test_what_runs_when_a_test_imports_a_module_faces_those_who_use_the_module(changes, tmp_path):
    """`row` runs at import only, inside t::first, which asserts nothing of it; t::user reads the table."""
    import cover
    import trial

    path = tmp_path / "late.py"
    path.write_text(LATE)
    lines = {2: {"t::first"}, 5: {"t::first"}, 6: {"t::first"}, 9: {"t::first"}, 13: {"t::user"}}
    seconds = {"t::first": 1.0, "t::user": 2.0, "t::reader": 0.5, "u::other": 0.1}
    coverage = cover.CoverageMap(seconds, {"late.py": lines}, {"late.py": {"t"}})
    by_line = {mutant.line: mutant for mutant in changes.mutants(path, "late", "late")}
    made, used = (trial.select(by_line[line], tmp_path, coverage, 60.0) for line in (6, 13))
    assert made.tests == ("t::first", "t::user", "t::reader")
    assert used.tests[0] == "t::user"
    scarce = trial.select(by_line[6], tmp_path, coverage, 3.0)
    assert (scarce.tests, scarce.left_out) == (("t::first", "t::user"), 1)
