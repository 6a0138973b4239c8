"""Every verb with values for its arguments and options that it must take and others that it must not: one of
these is enough for exit 2, in one line, before any work begins, and no run is lost.

The table below names every verb, argument and option of the command line; a test says which are missing.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from fuzzing import COUNTS, content, has_begun, hold_to_the_rule, inside, invoke, share, stop_before_the_work
from hypothesis import given
from hypothesis import strategies as st

from featscope.bench.registry import BENCHES
from featscope.cli import main as cli
from featscope.cli.catalogue import catalogue
from featscope.experiments.registry import experiments

NAMES = sorted(experiments())
CLAIMS = [line["id"] for line in catalogue()["claims"]]


@dataclass(frozen=True)
class Values:
    """What an option takes and what it must refuse; a flag has neither."""

    good: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verb:
    """The arguments in their order, each by good and bad ones, and the options."""

    arguments: tuple[Values, ...] = ()
    options: dict[str, Values] = field(default_factory=dict)
    #: options that the good line has: a probe needs data and a radius
    needed: tuple[str, ...] = ()


FLAG = Values()
JSON = {"--json": FLAG}
NO_NUMBERS = ("", "abc", "nan", "1.5", "1e3", "0x1", "1/2", "9" * 400, "--")
PROFILE = {"--profile": Values(("quick", "cpu", "paper", "QUICK"), ("fast", "", "quickly", "1", "ε"))}
SEEDS = {"--seeds": Values(("1", "3"), ("0", "-1", "10001", *NO_NUMBERS))}
SETS = ("", "=", "=1", "eps", "no-such-key=1", "eps.x.y=1", "..=1", "seeds=[]", "seeds=[-1]", "seeds=[0,0]", "seeds=abc", "dtype=int8")  # fmt: skip
OUT = {"--out": Values(("runs", "new"), ("plain.txt", "/dev/null", "plain.txt/below"))}
JOBS = Values(("0", "1"), ("-1", *NO_NUMBERS))
PAPER = {"--paper": Values(("at", "FA", "cgro", "Ep"), ("", "xx", "at,fa", "1"))}
EXPERIMENT = Values((*NAMES, "PATCH-FIG3"), ("", "patch-fig33", "ε", "no-such", "../runs", "--"))
CLAIM = Values((*CLAIMS[::7], "at-p3.2"), ("AT-P9.9", "", "é", "AT", "1"))
NOWHERE = ("no-such-folder", "plain.txt", "/dev/null", "empty")
FOLDER = Values(("runs",), NOWHERE)
RUN = Values(("FIRST", "SECOND"), ("", "zzzz", "no-such-folder", "plain.txt"))
NETWORK = Values(
    ("net.py:load",),
    ("", "net.py", "net.py:", ":load", "net.py:nothing", "none.py:load", "net.py:broken", "net.py:number", "plain.txt:load",
     "no.such.module:load", "os:getcwd", "empty:load"),
)  # fmt: skip
#: two folders of finished probes
PAIR = Values((), ("empty empty", "no-such-folder empty", "runs runs", "plain.txt plain.txt"))
AXES = Values(
    ("learning_rate=0.1:0.3:2", "n=10,20", "n=10:1000:3:log", "law.d=100:200:2"),
    ("", "=", "n", "n=", "nokey=1,2", "n=1:2:3:4", "n=a:b:c", "n=10:20:-1", "n=10:20:1.5", "n=20:10:3", "n=0:10:3:log",
     "n=nan:20:3", "n=1:inf:3", "n=10:20:1000000", "seeds=1,2", ":::", "n=[]"),
)  # fmt: skip

VERBS = {
    "list": Verb((), {**PAPER, **JSON}),
    "show": Verb((EXPERIMENT,), JSON),
    "run": Verb((EXPERIMENT,), {**PROFILE, **SEEDS, **OUT, **JSON, "--set": Values((), SETS), "--force": FLAG, "--dry-run": FLAG, "--until": Values((), ("", "soon", "-1", "0", "nan"))}),
    "check": Verb(
        (CLAIM,),
        {**PAPER, **PROFILE, **SEEDS, **OUT, **JSON, "--images": FLAG, "--set": Values((), SETS), "--jobs": JOBS,
         "--only": Values(("fails", "OUT-OF-SCOPE", "holds"), ("", "maybe", "1", "hold"))},
    ),
    "explain": Verb((Values((*CLAIM.good, "VACUOUS", "out of scope"), CLAIM.bad),), {**PROFILE, **OUT, **JSON}),
    "verify": Verb(
        (Values((), (*NOWHERE, "runs", "net.py")),),
        {**JSON, "--export": Values(("new",)), "--network": Values(NETWORK.good, NETWORK.bad)},
    ),
    "report": Verb((FOLDER,), {"--out": Values(("new.html",), ("/dev/null", "empty", "plain.txt/x.html"))}),
    "figures": Verb(
        (FOLDER,),
        {"--out": Values(("new",), ("plain.txt", "/dev/null")), "--format": Values(("svg", "json"), ("gif", "", "svgz", "1")),
         "--only": Values(("signal",), ("zzzz",))},
    ),
    "lab": Verb((), {"--export": Values(("new.html",), ("empty", "/dev/null", "plain.txt/x.html")), "--port": Values(("0",), ("-1", "65536", *NO_NUMBERS)), "--no-browser": FLAG}),
    "bench": Verb((Values(tuple(BENCHES), ("", "nothing", "Start", "1")),), JSON),
    "doctor": Verb((), JSON),
    "sweep": Verb(
        (Values(("signal-stages", "SIGNAL-STAGES"), (*EXPERIMENT.bad, "none.toml", "plain.toml", "bad.toml")),),
        {"--vary": AXES, **PROFILE, **SEEDS, **OUT, **JSON, "--set": Values((), SETS),
         "--design": Values(("grid",), ("", "grids", "1")), "--points": Values(("0",), ("-1", *NO_NUMBERS)),
         "--design-seed": Values(("0", "5"), ("-1", *NO_NUMBERS)), "--refine": Values((), ("", " ")),
         "--width": Values((), ("0", "-1", "nan", "inf", "abc", "2")), "--level": Values((), ("nan", "inf", "abc")),
         "--engine": Values(("local",), ("", "cloud", "Local ")), "--workers": JOBS, "--address": Values(),
         "--engine-set": Values((), ("", "=", "x", "x=1")),
         "--shard": Values(("1/1", "2/3"), ("", "0/2", "3/2", "-1/3", "1/0", "a/b", "1", "1/2/3", "1.5/2"))},
        needed=("--vary",),
    ),
    "probe": Verb(
        (NETWORK,),
        {"--data": Values(("x.npz", "net.py:points"), ("", "none.npz", "bad.npz", "few.npz", "plain.txt", "nan.npz", "mnits", "empty", "net.py:number")),
         "--eps": Values(("0.1", "8/255"), ("", "-1", "0", "nan", "inf", "1/0", "abc", "1e999", "[1]")),
         "--norm": Values(("Linf", "L2"), ("", "L1", "l3", "2")), "--weights": Values((), ("none.pth", "plain.txt", "bad.npz", "empty")),
         "--reference": Values(NETWORK.good, NETWORK.bad), "--groups": Values(("0|1",), ("", "0", "0|1|2", "a|b", "none.npy", "0,1|1")),
         "--bounds": Values(("none", "-9,9"), ("", "1", "1,0", "a,b", "nan,1", "0,0", "0,1,2", "-inf,inf")),
         "--budget": Values(("1s", "10m", "1h"), ("", "0s", "-1m", "abc", "10 parsecs", "nan", "1e999s")),
         "--out": Values(("new",), ("plain.txt", "/dev/null")), "--seed": Values(("0", "7"), ("-1", *NO_NUMBERS)), "--compare": PAIR, **JSON},
        needed=("--data", "--eps"),
    ),
    "data list": Verb((), {**JSON, "--data": Values(("empty",))}),
    "data fetch": Verb(
        (Values(("mnist", "cifar10"), ("", "mnits", "--", "1")),),
        {"--from": Values(("empty",), ("no-such-folder",)), "--source": Values(("official",), ("", "nowhere")), "--unverified": FLAG,
         "--force": FLAG, "--data": Values(("empty",), ("plain.txt", "/dev/null"))},
    ),
    "data verify": Verb((Values((), ("", "mnits", "mnist")),), {**JSON, "--data": Values(("empty",))}),
    "runs list": Verb((Values(("runs", "empty"), ("no-such-folder", "plain.txt", "/dev/null")),), JSON),
    "runs show": Verb((RUN,), JSON),
    "runs diff": Verb((RUN, RUN), JSON),
    "runs export": Verb(
        (RUN,),
        {"--part": Values(("cases",), ("", "nothing")), "--to": Values(("new.html",), ("empty", "plain.txt/x.csv")), "--format": Values(("csv", "latex"), ("", "xls", "1"))},
    ),
    "runs clean": Verb((Values(("runs", "empty"), ("no-such-folder", "plain.txt", "/dev/null")),), {**JSON, "--yes": FLAG}),
}  # fmt: skip
#: verbs that have the flag look for runs in the folder of that name; the lines name it themselves
RUNS_BELOW = ("runs show", "runs diff", "runs export")


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def test_every_verb_and_option_is_in_the_table() -> None:
    found = dict(commands(typer.main.get_command(cli.app)))
    assert sorted(found) == sorted(VERBS)
    for name, command in found.items():
        known = {*VERBS[name].options, "--help", *(["--out"] if name in RUNS_BELOW else [])}
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert {*parameter.opts, *parameter.secondary_opts} & known, (name, parameter.opts)
    unknown = {name for name, verb in VERBS.items() for option in verb.options if option not in str(
        [(p.opts, p.secondary_opts) for p in found[name].params])}  # fmt: skip
    assert not unknown


def said(option: str, value: str) -> list[str]:
    return [option, *(value.split() if option == "--compare" else [value])]


@st.composite
def lines(draw: Any) -> tuple[list[str], bool]:
    """A line, and whether it must be refused."""
    name = draw(st.sampled_from(sorted(VERBS)))
    verb, words, refused = VERBS[name], name.split(), False
    wrong = draw(st.booleans())

    def pick(values: Values) -> str | None:
        nonlocal refused
        if values.bad and (not values.good or (wrong and draw(st.integers(0, 2)) == 0)):
            refused = True
            return str(draw(st.sampled_from(values.bad)))
        return str(draw(st.sampled_from(values.good))) if values.good else None

    options: list[str] = []
    for option, values in verb.options.items():
        if option not in verb.needed and draw(st.integers(0, 3)):
            continue
        if values == FLAG and option not in ("--address",):
            options += [option]
        elif not (values.bad and not values.good and not wrong):
            value = pick(values)
            options += said(option, value) if value is not None else []
    arguments = [value for values in verb.arguments if (value := pick(values)) is not None]
    if wrong and draw(st.integers(0, 5)) == 0:
        refused = True
        options += [draw(st.sampled_from(["--nonsense", "--jsn", "-z"]))]
    if name in RUNS_BELOW:
        options += ["--out", "runs"]
    if draw(st.booleans()) and not any(word.startswith("-") for word in arguments):
        return [*words, *arguments, *options], refused
    return [*words, *options, *arguments], refused


NET = """import torch

def load():
    return torch.nn.Linear(3, 2).requires_grad_(False)

def broken():
    raise ValueError("as broken as can be")

def number():
    return 3

def points():
    return {"x": torch.zeros(4, 3), "y": torch.tensor([0, 1, 0, 1])}
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, a network, points, and what is none of these."""
    folder = tmp_path_factory.mktemp("desk")
    with inside(folder):
        for change in ([], ["--set", "rates=[0.5]"]):
            done = invoke(["run", "signal-lemmas", "--profile", "quick", *change, "--out", "runs"])
            assert done[0] == 0, done
    (folder / "net.py").write_text(NET)
    (folder / "plain.txt").write_text("nothing")
    (folder / "plain.toml").write_text("x = 1")
    (folder / "bad.toml").write_text("[[[")
    (folder / "bad.npz").write_bytes(b"PK no")
    x, y = np.random.default_rng(0).normal(size=(8, 3)), np.arange(8) % 2
    np.savez(folder / "x.npz", x=x, y=y)
    np.savez(folder / "few.npz", x=x, y=y[:5])
    np.savez(folder / "nan.npz", x=x * np.nan, y=y)
    (folder / "empty").mkdir()
    return folder


@pytest.fixture(scope="module", autouse=True)
def _no_work(desk: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEATSCOPE_DATA", str(desk / "no-data"))
        stop_before_the_work(patch)
        yield


def tried(desk: Path, arguments: list[str], refused: bool) -> None:
    runs = sorted(path.parent.name for path in (desk / "runs").rglob("manifest.json"))
    names = {"FIRST": runs[0], "SECOND": runs[1]}
    line = [names.get(word, word) for word in arguments]
    before = content(desk / "runs")
    with inside(desk):
        code, _, err = invoke(line)
    hold_to_the_rule(line, code, err)
    COUNTS["must be refused"] += refused
    assert not (refused and (code == 0 or has_begun(err))), f"silently accepted: {line}: {err}"
    after = content(desk / "runs")
    assert {**after, **before} == after, f"lost or changed by {line}"
    shutil.rmtree(desk / "runs" / "sweeps", ignore_errors=True)
    assert (desk / "plain.txt").read_text() == "nothing", f"overwritten by {line}"
    for made in ("new", "new.html", "no-data"):
        place = desk / made
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)


@given(case=lines())
@share(0.35)
def test_lines(case: tuple[list[str], bool], desk: Path) -> None:
    tried(desk, *case)


def singles() -> list[Any]:
    """Every value that must be refused, alone in a line that is good otherwise."""
    found = []
    for name, verb in VERBS.items():
        good = [values.good[0] for values in verb.arguments if values.good]
        needed = [word for option in verb.needed for word in (option, verb.options[option].good[0])]
        below = ["--out", "runs"] if name in RUNS_BELOW else []
        for place, values in enumerate(verb.arguments):
            for bad in values.bad:
                changed = [*good[:place], bad, *good[place + 1 :]]
                found.append([*name.split(), *needed, *below, *changed])
        for option, values in verb.options.items():
            rest = [word for o in verb.needed if o != option for word in (o, verb.options[o].good[0])]
            found += [[*name.split(), *good, *rest, *below, *said(option, bad)] for bad in values.bad]
    return found


def test_every_bad_value_alone_is_refused(desk: Path) -> None:
    accepted = []
    for line in singles():
        try:
            tried(desk, line, True)
        except Exception as error:
            accepted.append(f"{line}: {type(error).__name__}: {str(error)[:300]}")
    assert not accepted, "\n".join(accepted)


def test_what_was_generated() -> None:
    print(COUNTS)
    assert COUNTS["work begun"] > 0
    assert COUNTS["must be refused"] > 0
