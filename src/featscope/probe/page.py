"""The probe's page: warnings, how robust, the diagnosis, examples, and each part's numbers, in one file that
needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from jinja2 import Environment
from torch import Tensor

from featscope import __version__
from featscope.core.files import write_bytes
from featscope.nets.fold import evenly
from featscope.plots.axes import ACCURACY, Axis
from featscope.plots.grids import ImageRows
from featscope.plots.palette import ATTACKED, CERTIFIED, CLEAN
from featscope.plots.panels import Panel
from featscope.plots.picture import Picture
from featscope.plots.series import Curve, Rule
from featscope.plots.sheet import side_by_side
from featscope.probe.keep import Keep
from featscope.probe.subject import Subject
from featscope.report import values
from featscope.report.templating import page_templates

#: images of a row
SHOWN = 8
#: the parts in their order, and the keys that the page shows elsewhere
PARTS = ("data_limits", "feature_use", "averaging", "memorising")
ELSEWHERE = {"title", "sentence", "answer", "skipped"}


@dataclass(frozen=True)
class Plate:
    """A drawn figure: its words and the PNG as a data address."""

    title: str
    caption: str
    alt: str
    png: str


@cache
def _environment() -> Environment:
    made = page_templates("featscope.probe")
    filters: dict[str, Any] = {"number": values.printed_number, "table": values.table}
    made.filters |= filters
    return made


def write(path: Path, document: Mapping[str, Any], subject: Subject, keep: Keep) -> None:
    """Write the page."""
    write_bytes(path, render(document, subject, keep).encode())


def render(document: Mapping[str, Any], subject: Subject, keep: Keep) -> str:
    """The page as text."""
    plates = [curve(document), *examples(subject, keep)]
    parts = [(name, document[name]) for name in PARTS if name in document]
    robust = document["robustness"]
    return _environment().get_template("probe.html.j2").render(
        document=document,
        robust=robust,
        alarms=[finding for finding in robust["findings"] if finding["alarm"]],
        quiet=[finding for finding in robust["findings"] if not finding["alarm"]],
        diagnosis=document.get("diagnosis"),
        parts=[(name, part, {k: v for k, v in part.items() if k not in ELSEWHERE}) for name, part in parts],
        plates=[plate(picture) for picture in plates],
        version=__version__,
    )  # fmt: skip


def plate(picture: Picture) -> Plate:
    """Draw a picture for the page."""
    address = "data:image/png;base64," + base64.b64encode(picture.png()).decode("ascii")
    return Plate(picture.title, picture.caption, picture.alt, address)


def curve(document: Mapping[str, Any]) -> Picture:
    """Accuracy over radii: what the attacks left and what is proved."""
    robust = document["robustness"]
    rows = robust["curve"]
    radii = [row["radius"] for row in rows]
    series: list[Any] = [
        Curve("attacked: at most", ATTACKED, radii, [row["attacked"]["value"] for row in rows]),
    ]
    proved = [row for row in rows if row["certified"] is not None]
    if proved:
        least = [row["certified"]["value"] for row in proved]
        series.append(Curve("certified: at least", CERTIFIED, [row["radius"] for row in proved], least))
    clean = document["preflight"]["clean"]["value"]
    rules = [Rule(clean, "clean", "y", CLEAN), Rule(robust["eps"], "ε", "x")]
    panel = Panel("Accuracy over radii", Axis(f"radius, {robust['norm']}"), ACCURACY, series, rules=rules)
    return Picture(
        title="How robust",
        caption="The true robust accuracy lies between the two lines, on the examples that both are of.",
        alt="Line chart of accuracy against the radius: attacked from above, certified from below; the "
        "user's radius and the clean accuracy are marked.",
        spec=side_by_side([panel]),
    )


def examples(subject: Subject, keep: Keep) -> list[Picture]:
    """Images with their nearest adversarial ones, and inversions, if the data are images."""
    shape = subject.x.shape[1:]
    if len(shape) != 3 or shape[0] not in (1, 3):
        return []
    found = []
    low, high = subject.bounds or (float(subject.x.min()), float(subject.x.max()))
    fooled = _fooled(subject, keep)
    if fooled is not None:
        x, delta = fooled
        rows = [
            ("image", _grey(x, low, high)),
            ("perturbation, enlarged", 0.5 + delta / (2 * float(delta.abs().max().clamp(min=1e-12)))),
            ("taken for another class", _grey(x + delta, low, high)),
        ]
        found.append(
            Picture(
                title="Nearest adversarial images",
                caption="The smallest perturbations that were found; grey is none.",
                alt="Rows of images: the originals, their perturbations, and their sums.",
                spec=side_by_side([ImageRows("Nearest adversarial images", rows)]),
            )
        )
    if keep.has("feature_use-inverted"):
        made = keep.once("feature_use-inverted", dict)
        rows = [
            ("start", _grey(made["start"][:SHOWN], low, high)),
            ("what the network sees", _grey(made["x"][:SHOWN], low, high)),
        ]
        found.append(
            Picture(
                title="What the network sees",
                caption="Made from noise so that the network's features are those of real images: robust "
                "networks give recognisable ones.",
                alt="Rows of images: noise, and images made from it by matching the network's features.",
                spec=side_by_side([ImageRows("What the network sees", rows)]),
            )
        )
    return found


def _grey(x: Tensor, low: float, high: float) -> Tensor:
    return ((x - low) / (high - low)).clamp(0, 1)


def _fooled(subject: Subject, keep: Keep) -> tuple[Tensor, Tensor] | None:
    """The first examples with a perturbation that was found."""
    if not keep.has("robustness-nearest-000"):
        return None
    effort, step = keep.once("robustness-effort", dict), keep.once("robustness-nearest-000", dict)
    index = evenly(len(subject.y), int(effort["examples"]))[: len(step["radius"])]
    there = (step["radius"].isfinite() & (step["radius"] > 0)).nonzero()[:SHOWN, 0]
    if not len(there):
        return None
    return subject.x[index[there]], torch.as_tensor(step["delta"][there])
