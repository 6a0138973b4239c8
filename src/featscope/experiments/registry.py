"""The papers' rooms and all experiments by name.

A room is a module with EXPERIMENTS, CLAIMS and FIGURES. Those of the package are named here, those of other
packages are announced as entry points of the group `featscope.papers`; none is imported before somebody asks.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from featscope.core.errors import BadInput, known_as
from featscope.experiments.spec import Experiment

#: rooms of the package, in the order of the ledger
PAPERS = ("at", "fa", "cgro", "ep")
#: experiments whose runs several papers read
SHARED = ("featscope.experiments.image_network", "featscope.experiments.packing")
GROUP = "featscope.papers"


@cache
def rooms() -> dict[str, ModuleType]:
    """All rooms by the paper's name: the package's own, then those of other packages."""
    found = {name: import_module(f"featscope.papers.{name}") for name in PAPERS}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        if point.name in found:
            raise BadInput(
                "two rooms for one paper",
                f"{point.name} ({point.value})",
                "give the entry point another name",
            )
        found[point.name] = point.load()
    return found


@cache
def experiments() -> dict[str, Experiment[Any]]:
    """All experiments by name, paper by paper."""
    everyone = [plan for room in rooms().values() for plan in room.EXPERIMENTS]
    everyone += [plan for name in SHARED for plan in import_module(name).EXPERIMENTS]
    found: dict[str, Experiment[Any]] = {}
    for plan in everyone:
        if plan.name in found:
            raise BadInput("two experiments of one name", plan.name, "rename one of them")
        found[plan.name] = plan
    return found


def experiment(name: str) -> Experiment[Any]:
    """Return the experiment of that name; an unknown name lists the nearest."""
    return experiments()[known_as("experiment", name, experiments())]
