"""Generated command lines and damaged folders: exit 0 or 2, one line, no traceback, nothing lost, and what must
be refused is refused.

FEATSCOPE_FUZZ is how many are generated in all (`make test-fuzz`: 2500, and 50 more as processes).
"""

import json
import math
import random
import shutil
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest
from fuzzing import COUNTS, TOTAL, content, hold_to_the_rule, inside, invoke, share
from hypothesis import given
from hypothesis import strategies as st

from featscope.cli import main as cli
from featscope.cli.catalogue import catalogue
from featscope.core.settings import kinds
from featscope.experiments.keys import leaves
from featscope.experiments.registry import experiments

PROCESSES = 50 if TOTAL >= 2000 else 0


# --- settings

NUMBERS = st.one_of(
    st.sampled_from([0, 1, 2, 3, 10, 0.5, 1e-300, 1e300, -1, -0.5, 10**30, -(10**30), 1.5, 255]),
    st.floats(-10, 10),
    st.integers(-5, 50),
)
ODD = st.sampled_from(
    ["NaN", "Infinity", "-Infinity", "true", "false", "null", "[]", "{}", '""', "abc", "8/255", "1/0", "[", '{"a":', "[[[]]]",
     "[true]", '["x"]', '{"name": "x"}', '{"d": 0}', "0x10", "１", "1e999", "--", "=", "[0.2, 0.1]", "[-1]", "[1, 1]", "[0]", "9" * 5000]
)  # fmt: skip
VALUES = st.one_of(
    NUMBERS.map(json.dumps), ODD, st.lists(NUMBERS, max_size=4).map(json.dumps), st.text(max_size=12)
)
NAMES = sorted(experiments())


def limits_of(info: Any) -> list[tuple[str, float]]:
    return [
        (sign, getattr(limit, sign))
        for limit in info.metadata
        for sign in ("gt", "ge", "lt", "le")
        if getattr(limit, sign, None) is not None
    ]


def must_be_refused(info: Any, text: str) -> bool:
    """What no reading of a setting's declaration allows. The oracle knows the declaration, not the code."""
    allowed = kinds(info.annotation)
    numbers_only = bool(allowed) and allowed <= {int, float, type(None)}
    is_list = typing.get_origin(info.annotation) is tuple
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return numbers_only and "/" not in text
    if isinstance(value, bool):
        return bool not in allowed
    if isinstance(value, float) and not math.isfinite(value):
        return True
    if value is None:
        return type(None) not in allowed and numbers_only
    if value == [] and is_list:
        return not any(getattr(limit, "min_length", None) == 0 for limit in info.metadata)
    if isinstance(value, list):
        return numbers_only and not is_list
    if isinstance(value, dict | str):
        return numbers_only
    if numbers_only and is_list:
        return True
    if numbers_only and int in allowed and float not in allowed and value != int(value):
        return True
    return numbers_only and not is_list and any(
        (sign == "gt" and not value > bound) or (sign == "ge" and not value >= bound)
        or (sign == "lt" and not value < bound) or (sign == "le" and not value <= bound)
        for sign, bound in limits_of(info)
    )  # fmt: skip


@st.composite
def assignments(draw: Any) -> tuple[list[str], bool]:
    """A run with settings, and whether it must be refused."""
    name = draw(st.sampled_from(NAMES))
    known = leaves(experiments()[name].spec)
    key = draw(st.sampled_from(sorted(known)))
    value = draw(VALUES)
    refused = must_be_refused(known[key], value)
    spelt = draw(st.sampled_from([name, name.upper(), name.title()]))
    arguments = ["run", spelt, "--dry-run", "--set", f"{key}={value}"]
    if draw(st.integers(0, 9)) == 0:
        arguments += ["--set", f"{key}={draw(VALUES)}"]
        refused = True
    if draw(st.integers(0, 9)) == 0:
        arguments += ["--set", f"{key}x=1"]
        refused = True
    arguments += ["--profile", draw(st.sampled_from(["quick", "cpu", "paper", "QUICK"]))]
    if draw(st.integers(0, 9)) == 0:
        seeds = draw(st.integers(-3, 10**9))
        arguments += ["--seeds", str(seeds)]
        refused = refused or not 1 <= seeds <= 10_000 or key == "seeds"
    return arguments, refused


@given(case=assignments())
@share(0.4)
def test_settings(case: tuple[list[str], bool], tmp_path: Path) -> None:
    arguments, refused = case
    code, _, err = invoke([*arguments, "--out", str(tmp_path / "none")])
    hold_to_the_rule(arguments, code, err)
    COUNTS["must be refused"] += refused
    assert not (refused and code == 0), f"silently accepted: {arguments}"
    assert not (tmp_path / "none").exists()


# --- verbs and options

CLAIMS = [line["id"] for line in catalogue()["claims"]]
WORD = st.one_of(
    st.sampled_from(
        ["at", "FA", "cgro", "robust", "ball", "--", "-", "", "ε", "🙂", "a" * 300, "../..", "/dev/null", "*"]
    ),
    st.text(max_size=8),
    st.sampled_from([name[:-1] for name in NAMES] + [name[::-1] for name in CLAIMS]),
)


def lines(verb: str, fixed: Any) -> Any:
    options = st.lists(
        st.one_of(WORD, st.sampled_from(["--json", "--paper", "--profile", "--nonsense", "-p", "-o"])),
        max_size=3,
    )
    return st.builds(lambda first, rest: [verb, *first, *rest], fixed, options)


SAFE = st.one_of(
    lines("list", st.just([])),
    lines("show", st.sampled_from([[name] for name in NAMES] + [[]])),
    lines("runs", st.sampled_from([[], ["list"], ["show"], ["diff"], ["export"], ["clean"], ["lst"]])),
    lines("report", st.just(["no-such-folder"])),
    lines("bench", st.just(["nothing"])),
    lines("data", st.sampled_from([["list"], ["verify", "mnits"], ["fetch", "mnits"], ["lst"]])),
    lines("run", st.sampled_from([["--dry-run", name] for name in NAMES])),
    st.lists(WORD, min_size=1, max_size=4).filter(lambda words: words[0].casefold() not in cli.VERBS),
)


@given(arguments=SAFE)
@share(0.1)
def test_verbs(arguments: list[str], tmp_path: Path) -> None:
    with inside(tmp_path):
        code, _, err = invoke(arguments)
    hold_to_the_rule(arguments, code, err)


def test_unknown_claims_are_refused() -> None:
    for name in ("AT-P9.9", "at-p9.9", "", "é", "AT-P3.2 "):
        code, _, err = invoke(["check", name])
        hold_to_the_rule(["check", name], code, err)
        assert code == 2


# --- damaged folders

FILES = ("spec.json", "manifest.json", "summary.json", "rows.parquet", "tensors.safetensors", "ledger.json")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two small finished runs, drawn, and a ledger."""
    folder = tmp_path_factory.mktemp("base") / "runs"
    for change in ([], ["--set", "rates=[0.5]"]):
        done = invoke(["run", "signal-lemmas", "--profile", "quick", *change, "--out", str(folder)])
        assert done[0] == 0, done
    (folder / "ledger.json").write_text("[]")
    return folder


def damage(path: Path, how: str, seed: int) -> None:
    rng = random.Random(seed)
    content = path.read_bytes() if path.is_file() else b""
    if how == "gone":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(content[: rng.randrange(max(len(content), 1))])
    elif how == "flipped":
        place = rng.randrange(max(len(content), 1))
        path.write_bytes(content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :])
    elif how == "folder":
        path.unlink()
        path.mkdir()
    elif how == "shape":
        path.write_text(
            rng.choice(
                [
                    "[]",
                    "{}",
                    "null",
                    "3",
                    '"x"',
                    '[{"verdict": 3}]',
                    '{"a": {"b": []}}',
                    "[[]]",
                    '{"lines": 3}',
                ]
            )
        )
    else:
        path.write_bytes(rng.randbytes(200))


COMMANDS = (
    ["runs", "list", "RUNS"], ["runs", "list", "RUNS", "--json"], ["runs", "show", "HURT", "--out", "RUNS"],
    ["runs", "diff", "HURT", "WELL", "--out", "RUNS"], ["runs", "export", "HURT", "--out", "RUNS"],
    ["runs", "export", "HURT", "--part", "cases", "--format", "latex", "--out", "RUNS"], ["runs", "clean", "RUNS"],
    ["runs", "clean", "RUNS", "--yes"], ["report", "RUNS", "--out", "PAGE"],
    ["run", "signal-lemmas", "--profile", "quick", "--out", "RUNS", "--dry-run"],
)  # fmt: skip


@given(
    name=st.sampled_from(FILES),
    how=st.sampled_from(["gone", "empty", "cut", "flipped", "folder", "shape", "noise"]),
    command=st.sampled_from(COMMANDS),
    seed=st.integers(0, 10**6),
)
@share(0.15)
def test_damaged_folders(
    name: str, how: str, command: list[str], seed: int, base: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("hurt")
    folder = place / "runs"
    shutil.copytree(base, folder)
    hurt, well = sorted(path.parent for path in folder.rglob("manifest.json"))
    damage(folder / name if name == "ledger.json" else hurt / name, how, seed)
    before = content(folder)
    words = {"RUNS": str(folder), "HURT": hurt.name, "WELL": well.name, "PAGE": str(place / "page.html")}
    arguments = [words.get(word, word) for word in command]
    code, _, err = invoke(arguments)
    hold_to_the_rule(arguments, code, err)
    kept = {key: value for key, value in before.items() if key.startswith(f"signal-lemmas/{well.name}/")}
    after = content(folder)
    assert all(after.get(key) == value for key, value in kept.items()), f"lost by {arguments}"
    if "--yes" not in command and command[0] != "report":
        assert after == before, f"changed by {arguments}"
    shutil.rmtree(place)


# --- as processes


@pytest.mark.skipif(not PROCESSES, reason="`make test-fuzz` starts 50 processes")
def test_as_processes(tmp_path: Path) -> None:
    rng = random.Random(0)
    for index in range(PROCESSES):
        name = rng.choice(NAMES)
        key = rng.choice(sorted(leaves(experiments()[name].spec)))
        value = rng.choice(["-1", "true", "NaN", "8/255", "[]", "abc", "1e300", "3"])
        line = [
            ["run", name, "--dry-run", "--profile", "quick", "--set", f"{key}={value}"],
            ["list", rng.choice(["at", "ball", "zzz"])],
            ["show", name[: rng.randrange(1, len(name) + 1)]],
            ["runs", rng.choice(["list", "clean", "lits"]), str(tmp_path)],
            [rng.choice(["chekc", "--help", "rnu", "doctor"])],
        ][index % 5]
        done = subprocess.run(
            [sys.executable, "-m", "featscope", *line],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        hold_to_the_rule(line, done.returncode, done.stderr)
        COUNTS["processes"] += 1


def test_what_was_generated() -> None:
    """The counts, for the record; the fuzzing must have met both answers."""
    print(COUNTS)
    assert COUNTS["refused"] > 0
    assert COUNTS["accepted"] > 0
    assert COUNTS["must be refused"] > 0
