"""A finished run as judges, figures and users read it: rows and tensors, with settings of the experiment's
own type."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

from featscope.core.conditions import Condition
from featscope.core.errors import BadInput
from featscope.core.store import CONDITIONS
from featscope.core.stored import StoredRun, find_stored
from featscope.experiments.registry import experiment
from featscope.experiments.spec import Spec, restore


@dataclass(frozen=True)
class Run(StoredRun):
    """A finished run, read only."""

    @cached_property
    def settings(self) -> Spec:
        """The resolved spec; ``PatchFig3.of(run)`` is the same with its type checked."""
        plan = experiment(self.experiment)
        if self.outdated:
            revision = self.identity.get("revision")
            made = f"{self.path}: revision {revision} of {plan.name}, this version has {plan.revision}"
            remedy = f"make it again: featscope run {plan.name}; `featscope runs clean` takes older ones away"
            raise BadInput("a run of an older form", made, remedy)
        found: Spec = restore(plan, self.identity)
        return found

    @property
    def outdated(self) -> bool:
        """Whether the experiment's rows have had another form since."""
        return bool(self.identity.get("revision") != experiment(self.experiment).revision)

    @cached_property
    def conditions(self) -> list[Condition]:
        """The assumptions of the run's law with their numbers; none where the experiment has no law."""
        names = [field.name for field in fields(Condition)]
        rows = self.part(CONDITIONS)
        return [Condition(**row) for row in rows.select(names).to_dicts()] if rows.height else []


def find_runs(root: Path) -> list[Run]:
    """All finished runs at or below ``root``, by path."""
    return [Run(found.path) for found in find_stored(root)]
