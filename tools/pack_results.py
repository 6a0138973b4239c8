"""Copy finished runs on real images into `results/`, so that nobody must train to read them.

    python tools/pack_results.py RUNS... [--into results] [--profile cpu]

Taken are the runs behind readings of claims at the profile, and runs that `featscope run --until` judged
(their `until.json` says at which looks). Rows, settings, manifests and summaries are kept, and small tensors
that figures show. Weights are not, and of data sets whose terms do not allow to pass pixels on nothing that
could be an image; the manifest names what was left out. Every reading whose runs are all there is judged
from what was copied, and the lines make `results/ledger.json`; what needs a tensor that was left out is not.
What was packed before and is behind no line any more is taken away.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl
from safetensors.torch import save_file
from torch import Tensor

from featscope.claims import book, ledger
from featscope.claims.ledger import Line
from featscope.claims.registry import claims
from featscope.core.errors import BadInput
from featscope.core.files import digest, write_json
from featscope.core.store import Store
from featscope.core.stored import LEFT_OUT
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run, find_runs

KEPT = ("spec.json", "manifest.json", "summary.json", "rows.parquet")
UNTIL = "until.json"
#: what the folder may weigh
MOST = 30_000_000
#: numbers of a tensor that is passed on
NUMBERS = 50_000
#: data sets whose terms do not allow to pass their images on
CLOSED = frozenset({"cifar10", "cifar100", "svhn"})
#: pixels of an image, along a side and in all
SIDES, PIXELS = (28, 32), (784, 1024, 3072)
#: what a training leaves
STATE = frozenset({"weights", "buffers", "momentum", "best_weights", "best_buffers", "best", "epoch_loss"})


def like_an_image(shape: tuple[int, ...]) -> bool:
    """Whether numbers of this shape may be pixels: squares of an image's side, or rows of its length."""
    square = len(shape) >= 2 and shape[-1] == shape[-2] and shape[-1] in SIDES
    return square or bool(set(shape) & set(PIXELS))


def passed_on(name: str, tensor: Tensor, closed: bool) -> bool:
    """Whether a tensor of this name goes with the run; ``closed``: its data set's images may not."""
    if name.rpartition("/")[2] in STATE or tensor.numel() > NUMBERS:
        return False
    return not (closed and like_an_image(tuple(tensor.shape)))


def require_no_pixels(rows: pl.DataFrame) -> None:
    """Refuse a table with lists as long as an image."""
    for column, kind in rows.schema.items():
        if isinstance(kind, pl.List):
            longest = rows[column].list.len().max()
            assert not isinstance(longest, int) or longest < min(PIXELS), f"{column} may hold pixels"


def behind_readings(profile: str) -> set[str]:
    """The digests of all runs that readings of claims on real images need."""
    found = set()
    for claim in claims().values():
        for reading in claim.readings:
            if any(experiment(need.experiment).data for need in reading.needs.values()):
                found |= {digest(one.identity) for one in ledger.requests(reading, profile).values()}
    return found


def wanted(runs: Iterable[Run], profile: str) -> Iterator[Run]:
    """The runs of this version that are behind a reading, or were judged look by look."""
    needed = behind_readings(profile)
    for run in runs:
        there = experiment(run.experiment).data is not None and not run.outdated
        if there and (run.path.name in needed or (run.path / UNTIL).exists()):
            yield run


def pack(run: Run, into: Path) -> Path:
    """Copy a run without what may not or need not be passed on."""
    place = Store(into).place(run.identity)
    if place.resolve() == run.path.resolve():
        return place
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    require_no_pixels(run.rows)
    for name in (*KEPT, UNTIL):
        if (run.path / name).exists():
            shutil.copyfile(run.path / name, place / name)
    read = experiment(run.experiment).data
    closed = read is None or bool(CLOSED & set(read(run.settings)))
    kept = {name: t for name, t in run.tensors.items() if passed_on(name, t, closed)}
    save_file({name: t.contiguous() for name, t in kept.items()}, place / "tensors.safetensors")
    gone = {*run.manifest.get(LEFT_OUT, []), *run.tensors} - set(kept)
    write_json(place / "manifest.json", {**run.manifest, LEFT_OUT: sorted(gone)})
    return place


def judged(into: Path, profile: str) -> list[Line]:
    """All readings that can be judged from what was passed on."""
    lines = []
    for claim in claims().values():
        for reading in claim.readings:
            if not any(experiment(need.experiment).data for need in reading.needs.values()):
                continue
            runs = ledger.found_runs(reading, profile, Store(into))
            if runs is None:
                continue
            try:
                lines.append(ledger.judge(claim, reading, runs, profile))
            except BadInput as error:
                print(f"left out: {claim.id} {reading.name}: {error}")
    return lines


def drop_the_rest(into: Path, lines: Iterable[Line]) -> None:
    """Take runs away that no line reads and no look judged."""
    used = {name for line in lines for name in line.evidence["runs"].values()}
    for run in find_runs(into):
        if run.path.name not in used and not (run.path / UNTIL).exists():
            print(f"behind no line: {run.path}")
            shutil.rmtree(run.path)


def main() -> None:
    """Pack and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, default=Path("results"))
    parser.add_argument("--profile", default="cpu")
    given = parser.parse_args()
    for run in wanted((run for folder in given.runs for run in find_runs(folder)), given.profile):
        print(pack(run, given.into))
    lines = judged(given.into, given.profile)
    (given.into / book.NAME).unlink(missing_ok=True)
    book.merge(given.into, lines, given.profile)
    drop_the_rest(given.into, lines)
    weight = sum(file.stat().st_size for file in given.into.rglob("*") if file.is_file())
    assert weight <= MOST, f"{given.into} weighs {weight} bytes, more than {MOST}"
    print(f"{len(lines)} lines, {weight / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
