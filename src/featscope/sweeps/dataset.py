"""The one table of a sweep: parts while it runs, `points.parquet` when it is done.

A row is a point and a seed: settings, order parameters, verdicts, the digest of its run, its error. The table
is ordered by point and seed, and says nothing of when or where it was made: the same sweep gives the same
table.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from featscope.core.files import write_bytes
from featscope.core.store import Rows, table
from featscope.sweeps.points import DIGEST, ERROR, POINT, SEED, SEEDS


def write_table(path: Path, rows: pl.DataFrame) -> None:
    """Write a table whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = io.BytesIO()
    rows.write_parquet(made)
    spare = path.with_name(path.name + ".new")
    write_bytes(spare, made.getvalue())
    spare.replace(path)


@dataclass
class DataSet:
    """The table of one sweep in its folder; ``settings`` are the columns that come first."""

    folder: Path
    settings: Sequence[str]
    name: str = "points.parquet"
    by_point: dict[int, Rows] = field(default_factory=dict)
    _parts: int = 0

    @property
    def path(self) -> Path:
        """Where the finished table is."""
        return self.folder / self.name

    @property
    def _streamed(self) -> Path:
        return self.folder / f"{self.name.removesuffix('.parquet')}.parts"

    def begin(self) -> None:
        """Take away the parts of an interrupted sweep: their rows come again from the runs."""
        shutil.rmtree(self._streamed, ignore_errors=True)

    def add(self, points: Sequence[Rows]) -> None:
        """Add the rows of some points, and write them as a part."""
        for rows in points:
            self.by_point[rows[0][POINT]] = rows
        write_table(self._streamed / f"{self._parts:06}.parquet", self._table([r for p in points for r in p]))
        self._parts += 1

    def table(self) -> pl.DataFrame:
        """All rows so far, in order."""
        return self._table([row for number in sorted(self.by_point) for row in self.by_point[number]])

    def finish(self) -> pl.DataFrame:
        """Write the table in one file and drop the parts."""
        rows = self.table()
        write_table(self.path, rows)
        shutil.rmtree(self._streamed, ignore_errors=True)
        return rows

    def _table(self, rows: Rows) -> pl.DataFrame:
        made = table(rows)
        first = [POINT, *self.settings, SEEDS, SEED]
        middle = [name for name in made.columns if name not in {*first, DIGEST, ERROR}]
        return made.select([name for name in [*first, *middle, DIGEST, ERROR] if name in made.columns])
