"""Files that are written whole or not at all, and read with a one-line error where they are damaged."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors
from torch import Tensor

from featscope.core.errors import BadInput


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: the text that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """The first 16 hex digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically."""
    spare = path.with_name(path.name + ".new")
    write_bytes(spare, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())
    spare.replace(path)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


class Damaged(BadInput):
    """A file is not what was written, or is gone."""


def read_json(path: Path, remedy: str | None = None) -> Any:
    """Read JSON; a damaged file is a one-line error."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (*GONE, ValueError) as error:
        raise damaged(path, error, remedy) from None


#: what reading a file gives that is not there or is no file; other errors of the system are no damage
GONE = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


def damaged(path: Path, error: Exception, remedy: str | None = None) -> Damaged:
    """The one-line error of a damaged file, with what to do."""
    reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
    home = path.parent
    again = f"delete the folder {home} and make the run again with the command that made it"
    if any(home.glob("*/manifest.json")) or any(home.glob("*/*/manifest.json")):
        again = f"move {path.name} out of {home}, which holds runs that are not harmed"
    return Damaged("damaged or missing file", f"{path} ({reason})", remedy or again)


def write_data(folder: Path, rows: pl.DataFrame, tensors: Mapping[str, Tensor]) -> None:
    """Write a run's or a part's table and tensors."""
    # Through memory, because on a full disk polars and safetensors raise errors of their own.
    made = io.BytesIO()
    rows.write_parquet(made)
    write_bytes(folder / "rows.parquet", made.getvalue())
    write_bytes(
        folder / "tensors.safetensors",
        to_safetensors({name: t.detach().cpu().contiguous() for name, t in tensors.items()}),
    )


def read_rows(folder: Path) -> pl.DataFrame:
    """The table of a run or a part."""
    path = folder / "rows.parquet"
    try:
        # The names of parts have brackets, which are no pattern.
        return pl.read_parquet(path, glob=False)
    except (*GONE, pl.exceptions.PolarsError) as error:
        raise damaged(path, error) from None


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """The tensors of a run or a part."""
    path = folder / "tensors.safetensors"
    try:
        return load_file(str(path))
    except (*GONE, SafetensorError) as error:
        raise damaged(path, error) from None
