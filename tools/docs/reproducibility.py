"""The page on reproducibility: the items of the NeurIPS checklist that concern it, answered from the registries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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
    "svhn": "for non-commercial use",
    "efficientnet-lite0": "Apache-2.0",
    "clip-vit-b-32": "MIT",
}
HEAD = """# Reproducibility

<!-- written by tools/docs; `make docs-made` writes it again -->

The items of the NeurIPS paper checklist that concern reproducibility, answered for everything that featscope runs. The tables come from the registries of experiments and claims, and a test keeps this page in step with them.

| item | answer | where |
|---|---|---|
| Claims | yes: {claims} claims in {readings} readings, each with a stable id, a reference to the paper and a verdict | [rules](claims.md), `featscope check` |
| Limitations | yes: hypotheses that a run does not meet are listed beside its verdict; statements that are empty at these constants are VACUOUS | [rules](claims.md) |
| Theory: assumptions | yes: each law checks the paper's assumptions and reports each with its number and its bound | `law.check(setting)`, [laws](how-to/own-law.md) |
| Experiments can be reproduced | yes: `make reproduce` makes every run on synthetic data, the ledger and the page | table below |
| Open data and code | yes: Apache-2.0; synthetic data are drawn, real data are fetched from their authors and checked by hash | [images](images.md) |
| Settings and details | yes: every run folder holds its resolved settings, versions, seeds, platform and data hashes | [run folder](architecture.md) |
| Statistical significance | yes: intervals over seeds, or of the share of points where the points are the sample; which one is said in the rules | [rules](claims.md) |
| Choices made after results | yes: listed claim by claim | [history](rules-history.md) |
| Compute | a CPU with two cores; expected times below; nothing needs a GPU but the `paper` profile on images | table below |
| Licences of assets | see below | |

**Randomness.** All draws come from named streams of one seed (`data`, `init`, `attack`, …). The same seed gives the same rows on the same machine, and adding a measurement changes no draw.
**Versions.** `constraints.txt` pins torch to the tested build. **Resuming.** A finished run is found by the hash of its settings; an interrupted one goes on where it was.
"""


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
            ", ".join(plan.needs_data) or "synthetic",
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
    sections = [
        HEAD.format(claims=len(known), readings=readings).rstrip(),
        "## Claims by paper",
        _table(["paper", "claims", "readings"], _claim_rows(known)),
        "## Experiments",
        "Expected times by profile on two cores (`quick` is what tests run, `cpu` is `make reproduce`, `paper` has the paper's own sizes); seeds as quick / cpu / paper where they differ.",
        _table(head, _experiment_rows(known)),
        "## Data and weights",
        "Licences as their authors state them. Nothing of this is passed on with featscope; `featscope data fetch` gets it from its source.",
        _table(["name", "what", "licence"], assets),
    ]
    return "\n\n".join(sections) + "\n"
