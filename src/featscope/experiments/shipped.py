"""Runs that the package brings along: those of experiments that are too long for a check of everything.

A check, and the page, read them where the store has none; `featscope run NAME --force` makes one anew.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from featscope.core.files import digest
from featscope.core.store import Store
from featscope.experiments.spec import Request

#: experiment/digest/…, as in a store
HOME = Path(__file__).parents[1] / "shipped"


def shipped(request: Request) -> Path | None:
    """Where the package has the run of a request, if it has."""
    found = HOME / request.experiment.name / digest(request.identity)
    return found if (found / "manifest.json").exists() else None


def adopt(requests: Iterable[Request], store: Store) -> list[str]:
    """Put shipped runs into a store that lacks them; the names of their experiments."""
    taken = []
    for request in requests:
        source = shipped(request) if request.experiment.by_name else None
        if source is None or store.find(request.identity) is not None:
            continue
        place = store.place(request.identity)
        place.parent.mkdir(parents=True, exist_ok=True)
        spare = place.with_name(place.name + ".old")
        shutil.rmtree(spare, ignore_errors=True)
        shutil.copytree(source, spare)
        shutil.rmtree(place, ignore_errors=True)
        spare.rename(place)
        taken.append(request.experiment.name)
    return taken
