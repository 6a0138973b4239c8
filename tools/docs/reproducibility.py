"""The page on reproducibility: those items of the NeurIPS checklist, answered from the registries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from featscope.claims.claim import Claim
from featscope.claims.registry import claims
from featscope.experiments.registry import experiments
from featscope.experiments.spec import PROFILES, Experiment, resolve
from featscope.images.catalogue import DATASETS

NAMES = {"at": "AT", "fa": "FA", "cgro": "CGRO", "ep": "EP"}
#: as their authors state them; none is passed on with featscope
LICENCES = {
    "mnist": "CC BY-SA 3.0",
    "fashion-mnist": "MIT",
    "cifar10": "none stated by the authors",
    "cifar100": "none stated by the authors",
    "svhn": "for non-commercial use",
    "efficientnet-lite0": "Apache-2.0",
    "clip-vit-b-32": "MIT",
}
#: the page with places for what the registries say
TEMPLATE = Path(__file__).with_name("reproducibility.md.in")


def _row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return "\n".join([_row(head), "|" + "---|" * len(head), *map(_row, rows)])


def _seeds(plan: Experiment[Any]) -> str:
    """How many seeds each profile has, once where they agree."""
    counts = [len(resolve(plan, profile).seeds) for profile in PROFILES]
    return str(counts[0]) if len(set(counts)) == 1 else " / ".join(map(str, counts))


def _experiments_of(claim: Claim) -> set[str]:
    return {need.experiment for reading in claim.readings for need in reading.needs.values()}


def _supports(name: str, known: Iterable[Claim]) -> str:
    ids = [claim.id for claim in known if name in _experiments_of(claim)]
    return ", ".join(ids) or "–"


def _experiment_rows(known: Sequence[Claim]) -> Iterable[Sequence[object]]:
    for name, plan in experiments().items():
        times = [plan.takes.get(profile, "–") for profile in PROFILES]
        yield (
            f"`{name}`",
            NAMES.get(plan.paper, plan.paper),
            *times,
            _seeds(plan),
            ", ".join(plan.needs_data("cpu")) or "synthetic",
            _supports(name, known),
        )


def _claim_rows(known: Sequence[Claim]) -> Iterable[Sequence[object]]:
    count, readings = Counter[str](), Counter[str]()
    for claim in known:
        count[claim.paper] += 1
        readings[claim.paper] += len(claim.readings)
    for paper in count:
        yield NAMES.get(paper, paper), count[paper], readings[paper]


def page() -> str:
    """The whole page."""
    known = [claim for claim in claims().values() if claim.paper in NAMES]
    readings = sum(len(claim.readings) for claim in known)
    head = ["experiment", "paper", *PROFILES, "seeds", "data", "claims"]
    assets = [(name, data.title, LICENCES[name]) for name, data in DATASETS.items()]
    assets += [
        ("efficientnet-lite0", "EfficientNet-Lite0, ImageNet weights", LICENCES["efficientnet-lite0"]),
        ("clip-vit-b-32", "CLIP ViT-B/32, image encoder", LICENCES["clip-vit-b-32"]),
    ]
    return TEMPLATE.read_text(encoding="utf-8").format(
        claims=len(known),
        readings=readings,
        claim_table=_table(["paper", "claims", "readings"], _claim_rows(known)),
        experiment_table=_table(head, _experiment_rows(known)),
        asset_table=_table(["name", "what", "licence"], assets),
    )
