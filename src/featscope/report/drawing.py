"""A run's drawn figures: beside its rows, drawn once.

The `figures` folder holds for each figure NAME.json (the picture: spec, caption, claims) and NAME.png.
`drawn.json` says by which code they were drawn; they are drawn again only when that has changed or a file is
gone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

from featscope import plots
from featscope.core.errors import FeatscopeError
from featscope.core.files import digest, read_json, write_json
from featscope.core.locks import locked
from featscope.core.stored import LEFT_OUT, LeftOut
from featscope.experiments.run import Run
from featscope.plots.picture import Picture
from featscope.report.figures import drawings

FOLDER = "figures"
MARK = "drawn.json"
#: the last chunk of every PNG file
PNG_END = b"IEND\xaeB`\x82"
#: dots for each unit of the spec: sharp on a screen, small in a page
SCALE = 1.5
#: a chart has few colours; a palette makes its file three times smaller
COLOURS = 128


def png(picture: Picture) -> bytes:
    """The picture as a PNG with a palette."""
    drawn = Image.open(io.BytesIO(picture.png(SCALE))).convert("RGB")
    made = io.BytesIO()
    drawn.quantize(COLOURS, dither=Image.Dither.NONE).save(made, "PNG", optimize=True)
    return made.getvalue()


@cache
def _sources(module: str) -> tuple[Path, ...]:
    """The files whose code a figure depends on: those beside the module that draws it, and the plots'."""
    file = Path(str(sys.modules[module].__file__))
    own = sorted(file.parent.glob("*.py")) if "." in module else [file]
    return (*own, *sorted(Path(plots.__path__[0]).glob("*.py")))


@cache
def _digest(files: tuple[Path, ...]) -> str:
    joined = hashlib.sha256()
    for file in files:
        joined.update(file.read_bytes())
    return joined.hexdigest()[:16]


def drawn_by(draws: dict[str, Callable[[Run], Picture]]) -> dict[str, str]:
    """Figure → the digest of the code that draws it."""
    return {name: _digest(_sources(draw.__module__)) for name, draw in draws.items()}


def has_figures(run: Run) -> bool:
    """Whether the run's figures are there and whole, and drawn by the code as it is."""
    folder = run.path / FOLDER
    try:
        made = read_json(folder / MARK)
    except FeatscopeError:
        return False
    now = drawn_by(dict(drawings(run.experiment)))
    # What needs a tensor that was not passed on cannot be there.
    same = made == {name: now.get(name) for name in made} if run.manifest.get(LEFT_OUT) else made == now
    return bool(same) and all(_whole(folder / name) for name in made)


def _whole(stem: Path) -> bool:
    image = stem.with_name(f"{stem.name}.png")
    return image.is_file() and image.read_bytes().endswith(PNG_END) and _read(stem) is not None


def _read(stem: Path) -> Picture | None:
    try:
        body: dict[str, Any] = read_json(stem.with_name(f"{stem.name}.json"))
        return Picture(**{**body, "claims": tuple(body["claims"])})
    except (FeatscopeError, TypeError, KeyError):
        return None


def draw_figures(run: Run) -> list[Path]:
    """Draw the run's figures, unless they are there, into its folder, which appears when it is complete; not
    those that show what was not passed on."""
    draws = dict(drawings(run.experiment))
    if not has_figures(run):
        pictures = {}
        for name, function in draws.items():
            with contextlib.suppress(LeftOut):
                pictures[name] = function(run)
        _keep(run.path, pictures, drawn_by({name: draws[name] for name in pictures}))
    return [path for name in draws if (path := run.path / FOLDER / f"{name}.png").exists()]


def _keep(home: Path, pictures: Mapping[str, Picture], by: Mapping[str, str]) -> None:
    folder, spare = home / FOLDER, home / f"{FOLDER}.new"
    images = {name: png(picture) for name, picture in pictures.items()}
    with locked(home):
        shutil.rmtree(spare, ignore_errors=True)
        spare.mkdir()
        for name, picture in pictures.items():
            body = json.dumps(dataclasses.asdict(picture), ensure_ascii=False, separators=(",", ":"))
            (spare / f"{name}.json").write_text(body, encoding="utf-8")
            (spare / f"{name}.png").write_bytes(images[name])
        write_json(spare / MARK, dict(by))
        shutil.rmtree(folder, ignore_errors=True)
        spare.rename(folder)


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A figure as it lies in the run's folder."""

    name: str
    picture: Picture
    image: bytes


def drawn(run: Run) -> list[Drawn]:
    """The figures that are in the run's folder, whatever drew them, in the order of the paper."""
    folder = run.path / FOLDER
    order = [*drawings(run.experiment), *sorted(path.stem for path in folder.glob("*.png"))]
    return [
        Drawn(name, picture, (folder / f"{name}.png").read_bytes())
        for name in dict.fromkeys(order)
        if _whole(folder / name) and (picture := _read(folder / name)) is not None
    ]


def figures_mark(run: Run) -> str:
    """The digest of what the run's figures were drawn by."""
    return digest(drawn_by(dict(drawings(run.experiment))))


@cache
def page_mark() -> str:
    """The digest of the code that makes pages; a page says by which it was made."""
    home = Path(__file__).parent
    return _digest((*sorted(home.glob("*.py")), *sorted((home / "templates").iterdir())))
