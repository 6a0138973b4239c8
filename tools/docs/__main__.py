"""Write what the repository keeps and code makes: outputs of the tutorials, their notebooks and the page on
reproducibility; given a folder of finished runs also the pictures (`make docs-made RUNS=runs`)."""

import argparse
import tempfile
from pathlib import Path

from notebooks import NOTEBOOKS, notebook
from page_figures import draw
from reproducibility import page
from tutorials import TUTORIALS, refreshed, run_blocks

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Write everything that can be written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="?", type=Path, help="finished runs to draw docs/figures from")
    runs = parser.parse_args().runs
    (ROOT / "docs/reproducibility.md").write_text(page(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for name in TUTORIALS:
            path = ROOT / name
            path.write_text(
                refreshed(path.read_text(encoding="utf-8"), run_blocks(path, Path(folder))), encoding="utf-8"
            )
    for name in NOTEBOOKS:
        source = ROOT / name
        source.with_suffix(".ipynb").write_text(
            notebook(source.read_text(encoding="utf-8")), encoding="utf-8"
        )
    if runs is not None:
        for line in draw(runs, ROOT / "docs/figures"):
            print(line)


if __name__ == "__main__":
    main()
