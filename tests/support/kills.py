"""Kill −9 at chosen writes, and two processes at once: a script, so that no library's threads are there when
it forks.

`python kills.py TRIALS FOLDER [SCENARIO …]` prints one line of JSON for each. A child runs a command and is
killed at the n-th moment at which it touches the folder (a file opened
for writing, half written, synced, a folder made, moved, removed); n is drawn by a seed over all moments of an
undisturbed run. The same command is then repeated in
another child. A trial is lost if that fails, if what a reader finds differs from the undisturbed run, or if
work that was finished before the kill has to be done again.
"""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import image_files as files
import numpy as np
import torch

from featscope.claims.registry import claims
from featscope.cli import main as cli
from featscope.core import files as written
from featscope.core.stored import find_stored
from featscope.dynamics import image_training as epochs
from featscope.dynamics import trajectory
from featscope.images import datasets
from featscope.images.catalogue import DATASETS, MNIST

TINY_NET = [
    "train=60",
    "test=12",
    "attacked=4",
    "net.width=2",
    "training.epochs=3",
    "training.batch_size=16",
    "training.select_steps=2",
]
TINY_INVERSION = [
    "network.train=50",
    "network.test=12",
    "network.attacked=0",
    "network.net.blocks=[1,1]",
    "network.training.epochs=1",
    "network.training.batch_size=16",
    "network.training.select_steps=2",
    "adversarial.epochs=1",
    "adversarial.batch_size=16",
    "adversarial.select_steps=2",
    "inversion.steps=2",
    "images=4",
    'layers=["pooled"]',
    'starts=["grey"]',
    "widths=[2]",
]


def sets(changes: list[str]) -> list[str]:
    return [f"--set={text}" for text in changes]


@dataclass(frozen=True)
class Scenario:
    """A command in a folder, what is there before it, and what its result is."""

    command: Callable[[Path], list[str]]
    read: Callable[[Path], object]
    prepare: Callable[[Path], None] = lambda folder: None
    #: after a kill, what must still be had without doing the work again
    survives: Callable[[Path], int] = lambda folder: 0


# -- what a reader finds
# ----------------------------------------------------------------------------------------------------------


def runs_in(folder: Path) -> object:
    found = {}
    for run in find_stored(folder):
        tensors = {
            name: hashlib.sha256(t.numpy().tobytes()).hexdigest() for name, t in sorted(run.tensors.items())
        }
        found[f"{run.experiment}/{run.path.name}"] = [
            run.rows.rows(),
            run.rows.columns,
            run.summary,
            tensors,
            run.manifest["finished"],
        ]
    left = [path.name for path in folder.rglob("*") if path.name.endswith((".partial", ".old", ".new"))]
    return [found, left]


def ledger_in(folder: Path) -> object:
    """Runs and lines; when the ledger was written is not compared."""
    written = json.loads((folder / "ledger.json").read_text())
    return [runs_in(folder), {key: value for key, value in written.items() if key != "made"}]


def page_in(folder: Path) -> object:
    """The page; the minute in which it was made is not compared."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC by", "", (folder / "page.html").read_text(encoding="utf-8"))
    return hashlib.sha256(text.encode()).hexdigest()


def data_in(folder: Path) -> object:
    datasets.verify(DATASETS["mnist"], folder)
    visible = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in visible}


# -- scenarios
# --------------------------------------------------------------------------------------------------------------------


def small_data(folder: Path) -> None:
    """A data folder with random digits, and the environment that names it."""
    rng, sizes = np.random.default_rng(0), {"train": 80, "test": 20}
    arrays = {}
    for split, n in sizes.items():
        arrays[f"{split}-images"] = rng.integers(0, 256, (n, *MNIST.shape), dtype=np.uint8)
        arrays[f"{split}-labels"] = (np.arange(n) % 10).astype(np.uint8)
    datasets.install(MNIST, arrays, folder, "a test", checked=False)
    os.environ["FEATSCOPE_DATA"] = str(folder)


def official(folder: Path, forced: bool) -> Scenario:
    """Fetch from the official files in a folder; ``forced``: over what is there."""
    described, arrays = files.small(MNIST)
    DATASETS["mnist"] = described
    mine = files.write_files(folder / "official", files.official_files(MNIST, arrays))
    options = ["--from", str(mine), *(["--force"] if forced else [])]

    def before(data: Path) -> None:
        if forced:
            datasets.install(described, arrays, data, f"folder {mine.name}")

    def there(data: Path) -> int:
        # Without --from and with no server to ask, only what is there can be given.
        return cli.invoke(["data", "fetch", "mnist", "--data", str(data)]) if forced else 0

    return Scenario(
        lambda data: ["data", "fetch", "mnist", "--data", str(data), *options], data_in, before, there
    )


def training(folder: Path, forced: bool = False) -> Scenario:
    small_data(folder / "data")

    def command(runs: Path) -> list[str]:
        return [
            "run",
            "image-network",
            "-p",
            "quick",
            *sets(TINY_NET),
            "--out",
            str(runs),
            *(["--force"] if forced else []),
        ]

    def before(runs: Path) -> None:
        if forced:
            alone(lambda: cli.invoke(command(runs)))

    def never(*_: object) -> None:
        raise AssertionError("trained again")

    def there(runs: Path) -> int:
        epochs.Trainer.step = never
        return cli.invoke(command(runs)[:-1]) if forced else 0

    return Scenario(command, runs_in, before, there)


def inversion(folder: Path) -> Scenario:
    small_data(folder / "data")
    return Scenario(
        lambda runs: ["run", "image-inversion", "-p", "quick", *sets(TINY_INVERSION), "--out", str(runs)],
        runs_in,
    )


def checking(folder: Path) -> Scenario:
    chosen = {name: claims()[name] for name in CHECKED}
    claims().clear()
    claims().update(chosen)
    return Scenario(lambda runs: ["check", "-p", "quick", "-j", "1", "--out", str(runs)], ledger_in)


#: claims whose runs are short
CHECKED: tuple[str, ...] = ("CG-LA.1", "EP-table")


def reporting(folder: Path) -> Scenario:
    made = folder / "made"
    quick = ["run", "signal-lemmas", "-p", "quick", "--seeds", "1", "--out", str(made)]
    alone(lambda: cli.invoke(quick))

    def before(runs: Path) -> None:
        shutil.copytree(made, runs, dirs_exist_ok=True)
        for run in find_stored(runs):
            shutil.rmtree(run.path / "figures")

    return Scenario(lambda runs: ["report", str(runs), "--out", str(runs / "page.html")], page_in, before)


SCENARIOS: dict[str, Callable[[Path], Scenario]] = {
    "fetch": lambda folder: official(folder, False),
    "fetch again": lambda folder: official(folder, True),
    "train": training,
    "train again": lambda folder: training(folder, True),
    "invert": inversion,
    "check": checking,
    "report": reporting,
}


# -- children ---------------------------------------------------------------------------------------------------------------------


def alone(work: Callable[[], object], log: Path | None = None) -> int:
    """Do it in a child; its exit code, or −9. What it says goes to ``log``."""
    return os.waitstatus_to_exitcode(os.waitpid(start(work, log), 0)[1])


def start(work: Callable[[], object], log: Path | None = None) -> int:
    """A child that does it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            target = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(target, 1)
            os.dup2(target, 2)
            result = work()
            code = result if isinstance(result, int) else 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return child


class Moments:
    """Counts the moments at which a folder is touched, and ends the process at one of them."""

    def __init__(self, folder: Path, last: int | None, out: Path | None = None) -> None:
        self.folder, self.last, self.seen, self.out = str(folder), last, 0, out

    def tick(self) -> None:
        self.seen += 1
        if self.seen == self.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(self, event: str, arguments: tuple[object, ...]) -> None:
        writes = event in ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree")
        if event == "open":
            flags = arguments[2]
            writes = isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))
        if writes and any(str(a).startswith(self.folder) for a in arguments):
            self.tick()

    def install(self) -> None:
        sync = os.fsync

        def half(path: Path, data: bytes) -> None:
            with path.open("wb") as out:
                out.write(data[: len(data) // 2])
                out.flush()
                self.tick()
                out.write(data[len(data) // 2 :])

        def counted(handle: int) -> None:
            self.tick()
            sync(handle)

        written.write_bytes, os.fsync = half, counted
        sys.addaudithook(self.hook)


def disturbed(
    scenario: Scenario, folder: Path, last: int | None, count: Path | None = None
) -> Callable[[], int]:
    def work() -> int:
        torch.set_num_threads(1)
        trajectory.CHECKPOINT_SECONDS = -1.0
        moments = Moments(folder, last)
        moments.install()
        code = cli.invoke(scenario.command(folder))
        if count is not None:
            count.write_text(str(moments.seen))
        return code

    return work


def reading(scenario: Scenario, folder: Path, out: Path) -> Callable[[], None]:
    return lambda: out.write_text(json.dumps(scenario.read(folder), default=str)) and None


def fresh(scenario: Scenario, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    scenario.prepare(folder)
    return folder


def main(name: str, trials: int, folder: Path) -> dict[str, object]:
    scenario = SCENARIOS[name](folder)
    whole, result, count, log = (
        fresh(scenario, folder / "place"),
        folder / "result.json",
        folder / "count",
        folder / "log",
    )
    assert alone(disturbed(scenario, whole, None, count), log) == 0, log.read_text()
    assert alone(reading(scenario, whole, result), log) == 0, log.read_text()
    expected, moments = result.read_text(), int(count.read_text())
    rng, lost, killed = random.Random(f"{name} 0"), [], 0
    for trial in range(trials):
        # The last moments are the exchange of the new for the old: always among those tried.
        last = moments - trial if trial < min(4, trials // 2) else rng.randint(1, moments)
        place = fresh(scenario, folder / "place")
        killed += alone(disturbed(scenario, place, last), log) == -signal.SIGKILL
        kept = alone(lambda place=place: scenario.survives(place), log)
        codes = [kept, *([] if kept else [alone(disturbed(scenario, place, None), log)])]
        if any(codes) or not same(scenario, place, result, expected, log):
            lost.append({"moment": last, "codes": codes, "log": log.read_text()[-600:]})
    return {
        "scenario": name,
        "moments": moments,
        "tried": trials,
        "killed": killed,
        "lost": lost,
        "together": together(scenario, folder, expected),
    }


def same(scenario: Scenario, place: Path, result: Path, expected: str, log: Path) -> bool:
    result.unlink(missing_ok=True)
    return alone(reading(scenario, place, result), log) == 0 and result.read_text() == expected


def together(scenario: Scenario, folder: Path, expected: str) -> str:
    """Two processes give the command at the same time: both get the result, or one is told to wait in one line; empty if all is well."""
    place, logs = fresh(scenario, folder / "place"), [folder / "one", folder / "two"]
    children = [start(disturbed(scenario, place, None), log) for log in logs]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    said = [log.read_text() for log in logs]
    told = all(
        code == 0 or (code == 2 and "wait for it" in text) for code, text in zip(codes, said, strict=True)
    )
    if 0 in codes and told and same(scenario, place, folder / "result.json", expected, folder / "log"):
        return ""
    return f"{codes}: {said} {(folder / 'log').read_text()[-600:]}"


if __name__ == "__main__":
    for chosen in sys.argv[3:] or SCENARIOS:
        home = Path(sys.argv[2]).resolve() / chosen.replace(" ", "-")
        home.mkdir(parents=True)
        line = home / "line.json"
        if alone(
            lambda home=home, line=line, chosen=chosen: (
                line.write_text(json.dumps(main(chosen, int(sys.argv[1]), home))) and None
            ),
            home / "said",
        ):
            sys.exit((home / "said").read_text())
        print(line.read_text(), flush=True)
