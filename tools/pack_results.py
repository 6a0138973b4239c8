"""Copy finished runs on real images into `results/`, so that nobody must train to read them.

    python tools/pack_results.py RUNS... [--into results] [--profile cpu]

Rows, settings, manifests and summaries are kept. Tensors are not: some are large, and some are pixels of data
sets whose terms do not allow to pass them on. Readings whose judge needs tensors are therefore not judged
here. Every other reading whose runs are all there is judged, and the lines make `results/ledger.json`.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterable
from pathlib import Path

from safetensors.torch import save_file

from featscope.claims import book, ledger
from featscope.claims.ledger import Line
from featscope.claims.registry import claims
from featscope.core.errors import BadInput
from featscope.core.store import Store
from featscope.experiments.registry import experiment
from featscope.experiments.run import Run, find_runs

KEPT = ("spec.json", "manifest.json", "summary.json", "rows.parquet")
#: what the folder may weigh
MOST = 30_000_000


def pack(runs: Iterable[Run], into: Path) -> list[Path]:
    """Copy runs of this version that read a data set, without their tensors."""
    made = []
    for run in runs:
        if run.outdated or experiment(run.experiment).data is None:
            continue
        place = Store(into).place(run.identity)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name in KEPT:
            shutil.copyfile(run.path / name, place / name)
        save_file({}, place / "tensors.safetensors")
        made.append(place)
    return made


def judged(into: Path, profile: str) -> list[Line]:
    """All readings that can be judged from rows alone."""
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


def main() -> None:
    """Pack and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, default=Path("results"))
    parser.add_argument("--profile", default="cpu")
    given = parser.parse_args()
    for place in pack((run for folder in given.runs for run in find_runs(folder)), given.into):
        print(place)
    lines = judged(given.into, given.profile)
    book.merge(given.into, lines, given.profile)
    weight = sum(file.stat().st_size for file in given.into.rglob("*") if file.is_file())
    assert weight <= MOST, f"{given.into} weighs {weight} bytes, more than {MOST}"
    print(f"{len(lines)} lines, {weight / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
