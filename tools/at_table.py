"""AT's Table 1 by who reads, from finished runs, in the form of docs/images-at.md.

    python tools/at_table.py RUNS

One line for each run and relation, in per cent: means over starts with 95 % intervals, the printed numbers
above.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from featscope.experiments.run import Run, find_runs
from featscope.papers.at.image_features import METHODS, ImageFeatures
from featscope.papers.at.printed import TABLE_1

FEATURES = ("feature_NR", "feature_R")
COLUMNS = ("data, width, images", "who reads", "clean; clean, robust", "standard: D̂_NR, D̂_R")
HEAD = "| " + " | ".join((*COLUMNS, "adversarial: D̂_NR, D̂_R", "errors of D̂_NR; D̂_R")) + " |"


def _cell(fact: Mapping[str, Any]) -> str:
    interval = fact["interval"]
    ends = f" ({100 * max(interval[0], 0):.0f} to {100 * min(interval[1], 1):.0f})" if interval else ""
    return f"{100 * fact['mean']:.0f}{ends}"


def _reached(clean: Mapping[str, float], robust: float | None) -> str:
    """Clean accuracies of both trainings, and the adversarial one's robust accuracy."""
    told = f"{100 * clean['standard']:.0f}; {100 * clean['adversarial']:.0f}"
    return told if robust is None else f"{told}, {100 * robust:.0f}"


def lines(run: Run) -> Iterator[str]:
    """The printed line of the run's data, then one line for each relation."""
    spec, summary = ImageFeatures.of(run), run.summary
    data, printed = spec.network.dataset, TABLE_1.get(spec.network.dataset)
    if printed is not None:
        told = [", ".join(f"{100 * getattr(printed[m], key):.0f}" for key in FEATURES) for m in METHODS]
        reached = _reached({m: printed[m].clean_test for m in METHODS}, printed["adversarial"].robust_test)
        yield f"| {data}, printed | | {reached} | {told[0]} | {told[1]} | |"
    errors = "; ".join(
        f"{min(values):.2g} to {max(values):.2g}" for values in summary["inversion"]["mean_error"].values()
    )
    for relation, table in summary["table"].items():
        cells = [", ".join(_cell(table[m][key]) for key in FEATURES) for m in METHODS]
        robust = table["adversarial"].get("robust_test", {}).get("mean")
        reached = _reached({m: table[m]["clean_test"]["mean"] for m in METHODS}, robust)
        what = f"{data}, {spec.network.net.width}, {spec.network.train}"
        yield f"| {what} | {relation} | {reached} | {cells[0]} | {cells[1]} | {errors} |"


def main() -> None:
    """Print the table of all runs below a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", type=Path)
    print(HEAD)
    print("|" + "---|" * 6)
    for run in find_runs(parser.parse_args().runs):
        if run.experiment.startswith("image-features") and not run.outdated:
            print("\n".join(lines(run)))


if __name__ == "__main__":
    main()
