"""The one loop. Every dynamics — descent, recursion, flow, image epochs — is a step that this loop runs,
records and resumes.

A state is a NamedTuple of tensors. With ``runs`` given, every tensor has a leading axis of independent runs,
and each recorded step gives one row for each run, with the run's labels (its seed, and what else tells it
from the others) as columns. A run that has left the numbers (core/health.py: overflowed or saturated) is
recorded up to there and then left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

from torch import Tensor

from featscope.core.errors import require, require_at_least
from featscope.core.health import Diverged, How, ailments, each_lost
from featscope.core.store import Part, Rows
from featscope.core.stored import Label

CHECKPOINT_SECONDS = 20.0


class State(Protocol):
    """A NamedTuple of tensors."""

    def _asdict(self) -> dict[str, Any]: ...


S = TypeVar("S", bound=State)
Labels = Mapping[str, Label]
Step = Callable[[S, int], S]
Observe = Callable[[S, int], Mapping[str, Tensor | float]]


@dataclass(frozen=True)
class Recording(Generic[S]):
    """What a trajectory leaves: its rows, the last state, where runs diverged (run → first recorded step that
    is not healthy) and how."""

    rows: Rows
    state: S
    diverged: dict[str, int] = field(default_factory=dict)
    how: dict[str, How] = field(default_factory=dict)

    def healthy(self, what: str, remedy: str = "lower the learning rate") -> Self:
        """The recording itself, or the one-line error of a training that left the numbers."""
        if self.diverged:
            lost = ", ".join(each_lost(self.diverged, self.how))
            raise Diverged(f"training left the numbers: {what}, {lost}; {remedy}")
        return self


def seed_labels(seeds: Sequence[int]) -> list[Labels]:
    """The labels of runs that differ by their seed alone."""
    return [{"seed": seed} for seed in seeds]


def name_of(labels: Labels) -> str:
    """What a run is called in notes: its seed, or all its labels where the seed alone does not tell it; an
    only run without labels has no name."""
    return (
        str(labels["seed"])
        if set(labels) == {"seed"}
        else ",".join(f"{key}={value}" for key, value in labels.items())
    )


def _row_values(observed: Mapping[str, Tensor | float], index: int, batched: bool) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in observed.items():
        if isinstance(value, Tensor):
            row[name] = (value[index] if batched else value).tolist()
        else:
            row[name] = value
    return row


def trajectory(
    step: Step[S],
    state: S,
    steps: int,
    observe: Observe[S],
    every: int = 1,
    *,
    runs: Sequence[Labels] | None = None,
    keep: Part | None = None,
    stop: Callable[[S, int], bool] | None = None,
    clocks: Sequence[str] = (),
) -> Recording[S]:
    """Run ``state = step(state, t)`` for t = 0 … steps−1 and observe at t = 0, every, 2·every, … and at the
    end.

    ``observe(state, t)`` is a pure function of the state. ``keep`` saves the trajectory as it goes and
    resumes it: t₁ steps and then t₂ more give what t₁+t₂ give. ``stop`` ends the trajectory early at a
    recorded step. ``clocks`` name tensors of the state that may grow without bound.
    """
    require_at_least("steps", steps, 0)
    require_at_least("every", every, 1)
    require(
        runs is None or len(runs) > 0,
        "a trajectory needs at least one run",
        "runs=()",
        "give at least one seed",
    )
    labels: Sequence[Labels] = runs if runs is not None else [{}]
    # An only run is called by the labels of its part, which become columns of its rows there.
    names = [name_of(label) for label in (runs if runs is not None else [keep.labels if keep else {}])]
    rows: Rows = []
    diverged: dict[str, int] = {}
    how: dict[str, How] = {}
    start = 0
    saved = keep.load() if keep else None
    if saved is not None:
        first = next(iter(state._asdict().values()))
        state = type(state)(**{name: t.to(first.device) for name, t in saved.tensors.items()})
        rows, diverged, start = saved.rows, dict(saved.notes.get("diverged", {})), saved.step
        how = dict(saved.notes.get("how", {}))
        if saved.done:
            return Recording(rows, state, diverged, how)

    def record(t: int) -> None:
        watched = [tensor for name, tensor in state._asdict().items() if name not in clocks]
        for name, ailment in zip(names, ailments(watched, len(names)), strict=True):
            if ailment is not None and name not in diverged:
                diverged[name], how[name] = t, ailment
        if len(diverged) == len(names):
            return
        observed = observe(state, t)
        for index, (name, label) in enumerate(zip(names, labels, strict=True)):
            if name not in diverged:
                rows.append({"step": t, **label, **_row_values(observed, index, runs is not None)})
        if keep:
            facts = {k: v for k, v in rows[-1].items() if isinstance(v, float)} if rows else {}
            keep.report(t, steps, facts)

    def save(t: int, done: bool) -> None:
        if keep:
            keep.save(t, done, rows, state._asdict(), {"diverged": diverged, "how": how} if diverged else {})

    t, clock = start, time.monotonic()
    while True:
        due = t % every == 0 or t == steps
        if due and not (saved is not None and t == start):
            record(t)
            if len(diverged) == len(names) or (stop is not None and stop(state, t)):
                break
        if t >= steps:
            break
        if time.monotonic() - clock > CHECKPOINT_SECONDS:
            save(t, False)
            clock = time.monotonic()
        state = step(state, t)
        t += 1
    save(t, True)
    return Recording(rows, state, diverged, how)
