"""What there is, by name, without importing any of it: names, papers, references and times in one file, so
that `list`, typos and shell completion come at once.

`python -m featscope.cli.catalogue` writes the file from the registries (`make catalogue`); a test keeps it in
step with them. Rooms of other packages are not in it and are imported when there are any.
"""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("catalogue.json")
#: the entry points of other packages' rooms (experiments/registry.py)
GROUP = "featscope.papers"
#: the papers' names as a person knows them
TITLES = {
    "at": "adversarial training learns robust features, standard does not",
    "fa": "feature averaging: a bias of gradient descent, not robust",
    "cgro": "clean generalisation and robust overfitting",
    "ep": "robustness costs parameters: expressive power",
}

Json = dict[str, Any]


def made() -> Json:
    """The catalogue as the registries give it."""
    from featscope.claims.registry import claims
    from featscope.experiments.keys import leaves
    from featscope.experiments.registry import experiments
    from featscope.experiments.spec import PROFILES

    return {
        "experiments": [
            {
                "name": plan.name,
                "paper": plan.paper,
                "shows": plan.shows,
                "takes": dict(plan.takes),
                "data": {profile: list(plan.needs_data(profile)) for profile in PROFILES},
                "keys": list(leaves(plan.spec)),
            }
            for plan in experiments().values()
        ],
        "claims": [
            {
                "id": claim.id,
                "paper": claim.paper,
                "reference": claim.reference,
                "statement": claim.statement,
                "readings": [reading.name for reading in claim.readings],
            }
            for claim in claims().values()
        ],
    }


def catalogue() -> Json:
    """The catalogue: from its file, or from the registries where other packages add rooms."""
    if entry_points(group=GROUP):
        return made()
    found: Json = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def experiment_names() -> list[str]:
    """For shell completion."""
    return [line["name"] for line in catalogue()["experiments"]]


def claim_ids() -> list[str]:
    """For shell completion."""
    return [line["id"] for line in catalogue()["claims"]]


def write() -> None:
    """Write the file from the registries."""
    FILE.write_text(json.dumps(made(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
