"""The HTML page: figures and key numbers of runs, and the ledger, in one file that needs nothing else."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape
from matplotlib.figure import Figure

from featscope.claims import book
from featscope.core.frozen import json_form
from featscope.core.health import told
from featscope.core.locks import locked, locked_file
from featscope.experiments.registry import experiments
from featscope.experiments.run import Run
from featscope.plots.picture import Picture
from featscope.report.figures import figures

#: the last chunk of every PNG file
PNG_END = b"IEND\xaeB`\x82"


def _png(figure: Figure | Picture) -> bytes:
    if isinstance(figure, Picture):
        return figure.png()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()


def draw(run: Run) -> list[Path]:
    """Draw the run's figures into its `figures` folder, which appears when it is complete, and write its
    `report.html`."""
    folder, spare = run.path / "figures", run.path / "figures.new"
    pictures = {f"{name}.png": _png(figure) for name, figure in figures(run).items()}
    with locked(run.path):
        shutil.rmtree(spare, ignore_errors=True)
        spare.mkdir()
        for name, picture in pictures.items():
            (spare / name).write_bytes(picture)
        shutil.rmtree(folder, ignore_errors=True)
        spare.rename(folder)
    write_page([run], run.path / "report.html")
    return [folder / name for name in pictures]


def is_drawn(run: Run) -> bool:
    """Whether the run's figures are there and whole."""
    folder = run.path / "figures"
    return folder.is_dir() and all(path.read_bytes().endswith(PNG_END) for path in folder.glob("*.png"))


def _picture(path: Path) -> dict[str, str]:
    return {"name": path.stem, "data": base64.b64encode(path.read_bytes()).decode("ascii")}


def _flat(body: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in body.items():
        flat.update(_flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value})
    return flat


def changed(run: Run) -> dict[str, Any]:
    """The settings in which a run differs from its experiment's `cpu` profile."""
    plan = experiments().get(run.experiment)
    if plan is None:
        return {}
    usual = _flat(json_form(plan.spec()))
    return {key: value for key, value in _flat(_settings(run)).items() if usual.get(key) != value}


def _settings(run: Run) -> Mapping[str, Any]:
    """The settings as they were written, so that a run of an older form is shown, too."""
    found: Mapping[str, Any] = run.identity["spec"]
    return found


def in_order(runs: Sequence[Run]) -> list[Run]:
    """Runs in the order of the papers and experiments; of one experiment, the usual settings first."""
    place = {name: i for i, name in enumerate(experiments())}
    return sorted(runs, key=lambda r: (place.get(r.experiment, len(place)), len(changed(r)), r.path.name))


def _section(run: Run) -> dict[str, Any]:
    pictures = sorted((run.path / "figures").glob("*.png"))
    plan = experiments().get(run.experiment)
    return {
        "name": run.experiment,
        "folder": run.path.name,
        "shows": plan.shows if plan else "",
        "changed": ", ".join(
            f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in changed(run).items()
        ),
        "figures": [_picture(path) for path in pictures],
        "summary": json.dumps(run.summary, indent=2, ensure_ascii=False),
        "spec": json.dumps(_settings(run), indent=2, ensure_ascii=False),
        "seconds": run.manifest["wall_seconds"],
        "notes": {part: told(note) for part, note in run.manifest.get("notes", {}).items()},
    }


def write_page(runs: Sequence[Run], out: Path, ledger: Sequence[dict[str, Any]] = ()) -> None:
    """Write one page with a section for each run and, if given, the ledger."""
    environment = Environment(loader=PackageLoader("featscope.report"), autoescape=select_autoescape(["j2"]))
    page = environment.get_template("page.html.j2").render(
        runs=[_section(run) for run in in_order(runs)],
        ledger=list(ledger),
        counts=sorted(Counter(line["verdict"] for line in ledger).items()),
    )
    with locked_file(out):
        spare = out.with_name(out.name + ".new")
        spare.write_text(page, encoding="utf-8")
        os.replace(spare, out)


def read_ledger(folder: Path) -> list[dict[str, Any]]:
    """The ledger that `featscope check` wrote into a folder, or an empty one."""
    return [line.as_json() for line in book.read(folder)]
