"""What an experiment is: a frozen spec with profiles, resolved from a name, a profile and overrides."""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar, cast

import polars as pl
import torch
from pydantic import BaseModel, field_validator

from featscope.core.columns import Columns
from featscope.core.errors import known_as, require, require_whole
from featscope.core.files import canonical
from featscope.core.frozen import Value, identity_form, other_types, registered
from featscope.core.looks import LOOKS
from featscope.core.settings import setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.stored import Label
from featscope.experiments.cost import Cost, Size, expected, require_affordable
from featscope.experiments.highlights import Highlight
from featscope.experiments.keys import full_key, leaves

PROFILES: tuple[str, ...] = ("quick", "cpu", "long", "paper")
Overrides = Mapping[str, Any]


class HasSettings(Protocol):
    """What has settings: a finished run."""

    @property
    def settings(self) -> Spec:
        """The resolved spec."""
        ...


class Readable(HasSettings, Protocol):
    """A finished run with its rows."""

    def part(self, name: str, **labels: Label) -> pl.DataFrame:
        """The rows of one part."""
        ...


#: more are a slip of the finger
MOST_SEEDS = 10_000


def first_seeds(count: int) -> list[int]:
    """The seeds 0 … count − 1."""
    require_whole("seeds", count, 1)
    require(count <= MOST_SEEDS, f"seeds are at most {MOST_SEEDS}", f"seeds={count}", "take fewer")
    return list(range(count))


class Spec(Value):
    """The settings of an experiment. The field defaults are the `cpu` profile; `profiles` holds what the
    others change."""

    profiles: ClassVar[Mapping[str, Overrides]] = {}

    seeds: tuple[int, ...] = setting(
        (0, 1, 2), "the seeds, one independent repetition each; they draw data, first weights and attacks"
    )
    dtype: Literal["float32", "float64"] = setting("float64", "precision of the computation")

    @field_validator("seeds")
    @classmethod
    def _seeds(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        require(len(seeds) > 0, "an experiment needs at least one seed", "seeds=()", "give --seeds 1 or more")
        require(len(set(seeds)) == len(seeds), "seeds must differ", f"seeds={seeds}", "name each seed once")
        require(min(seeds) >= 0, "seeds must not be negative", f"seeds={seeds}", "use 0, 1, 2, …")
        return seeds

    @classmethod
    def of(cls, run: HasSettings) -> Self:
        """The settings of a run of this experiment, with their type."""
        found = run.settings
        require(
            isinstance(found, cls),
            f"the run's settings are not {cls.__name__}",
            type(found).__name__,
            "give a run of that experiment",
        )
        return cast(Self, found)

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype as torch's."""
        return torch.float32 if self.dtype == "float32" else torch.float64


T = TypeVar("T", bound=Spec)


def _nothing(spec: Spec) -> Mapping[str, Request]:
    return {}


@dataclass(frozen=True)
class Batch(Generic[T]):
    """How settings are run at once along one leading axis: those of one ``shape`` together; ``run`` gives a
    writer for each, which does with a folder what the experiment's own run would."""

    shape: Callable[[T], Hashable]
    run: Callable[[Sequence[T]], Sequence[Callable[[Folder], Json]]]


@dataclass(frozen=True)
class Experiment(Generic[T]):
    """A named experiment: what it shows, its spec, and the function that runs it and returns its summary."""

    name: str
    paper: str
    shows: str
    spec: type[T]
    run: Callable[[T, Folder], Json]
    takes: Mapping[str, str]
    revision: int = 1
    #: the data sets and weights that settings read; None for what needs none
    data: Callable[[T], tuple[str, ...]] | None = None
    #: whether its rows say themselves which runs diverged, so that judges have counted them
    counts_diverged: bool = False
    #: the runs that it reads, by labels of its own
    needs: Callable[[T], Mapping[str, Request]] = field(default=_nothing)
    #: part → the columns that it writes there
    columns: Mapping[str, type[Columns]] = field(default_factory=dict)
    #: the key numbers of its summary, in the order in which a person reads them
    highlights: tuple[Highlight, ...] = ()
    #: how large settings are, so that cost is known before they run
    size: Callable[[T], Size] | None = None
    #: how several settings are run at once, where they can
    batch: Batch[T] | None = None
    #: a row of order parameters for each seed of a run; without it, the numbers of its summary
    order: Callable[[Readable], Rows] | None = None
    #: too long for a check of everything, which reads the run that the package brings along instead
    by_name: bool = False
    #: parts that a seed and the settings decide, whatever other seeds there are; a run of more seeds takes
    #: them over from a run of fewer
    apart: tuple[str, ...] = ()

    def needs_data(self, profile: str, overrides: Overrides | None = None) -> tuple[str, ...]:
        """What must have been fetched for a run in a profile with overrides."""
        return () if self.data is None else self.data(resolve(self, profile, overrides))

    def measured(self, profile: str) -> float | None:
        """What `takes` says, in seconds, where it was measured."""
        found = re.match(r"([\d.]+) (s|min|h)\b", self.takes.get(profile, ""))
        return float(found[1]) * {"s": 1, "min": 60, "h": 3600}[found[2]] if found else None


def cost(experiment: Experiment[Any], profile: str, spec: Spec) -> Cost:
    """What settings will take; unknown where the experiment does not say how large they are."""
    if experiment.size is None:
        return Cost(None, None)
    # What nobody has measured at `long` is scaled from `cpu`.
    known = "cpu" if profile == "long" and experiment.measured(profile) is None else profile
    usual = experiment.size(resolve(experiment, known))
    width = 4 if spec.dtype == "float32" else 8
    return expected(experiment.size(spec), usual, experiment.measured(known), width)


def refuse_unused(spec: Spec, reason: str, *keys: str) -> None:
    """Refuse changes of settings that this experiment does not use; ``keys`` are dotted."""
    for key in keys:
        top, _, leaf = key.partition(".")
        default = type(spec).model_fields[top].default
        given, usual = (getattr(value, leaf) if leaf else value for value in (getattr(spec, top), default))
        require(given == usual, f"{key} has no effect here", f"{key}={given}", reason)


def require_one_seed(spec: Spec, instead: str) -> int:
    """The only seed of an experiment that draws once; several are refused rather than left unused."""
    require(
        len(spec.seeds) == 1, "this experiment draws once, by one seed", f"seeds={list(spec.seeds)}", instead
    )
    return spec.seeds[0]


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    *levels, leaf = key.split(".")
    for level in levels:
        tree = tree.setdefault(level, {})
        require(isinstance(tree, dict), f"{level} has no parts to set", key, f"set {level} as a whole")
    tree[leaf] = value


def _pieces(model: type[BaseModel], key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A change as changes of single keys: parts that a change does not name stay as they are."""
    annotation = leaves(model)[key].annotation
    if isinstance(value, Mapping) and isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, inner in value.items():
            yield from _pieces(model, full_key(model, f"{key}.{name}"), inner)
    else:
        yield key, value


def _overlap(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _each_once(model: type[BaseModel], overrides: Overrides) -> dict[str, Any]:
    """The changes by full key; two that touch the same setting are refused."""
    changes: dict[str, Any] = {}
    for key, value in overrides.items():
        for place, piece in _pieces(model, full_key(model, key), value):
            clash = next((known for known in changes if _overlap(known, place)), None)
            require(clash is None, "a setting is given twice", f"{key} and {clash}", "give it once")
            changes[place] = piece
    return changes


def _profile(model: type[Spec], profile: str) -> Overrides:
    """What a profile changes. `long` is `cpu` with the seeds of the first look where an experiment has
    several and says nothing else: hours go into seeds, one after another."""
    if profile == "long" and profile not in model.profiles:
        return {"seeds": list(LOOKS.seeds(LOOKS.sizes[0]))} if len(model().seeds) > 1 else {}
    return model.profiles.get(profile, {})


def resolve(experiment: Experiment[T], profile: str, overrides: Overrides | None = None) -> T:
    """Return the experiment's spec for a profile with overrides applied (dotted keys reach into parts)."""
    profile = known_as("profile", profile, PROFILES)
    model = experiment.spec
    tree: dict[str, Any] = json.loads(model().model_dump_json())
    for source in (_profile(model, profile), overrides or {}):
        for key, value in _each_once(model, source).items():
            _put(tree, key, value)
    return model(**tree)


def identity(experiment: Experiment[Any], spec: Spec) -> Json:
    """What identifies a run: the experiment, its revision, the resolved spec, and the names of parts that are
    not of the declared type."""
    types = other_types(spec, experiment.spec)
    who: Json = {"experiment": experiment.name, "revision": experiment.revision, "spec": identity_form(spec)}
    return {**who, "types": types} if types else who


@dataclass(frozen=True)
class Request:
    """An experiment with settings: a run that somebody asks for."""

    experiment: Experiment[Any]
    spec: Spec

    @cached_property
    def identity(self) -> Json:
        """What the run is found by."""
        return identity(self.experiment, self.spec)

    @property
    def key(self) -> str:
        """The identity as text."""
        return canonical(self.identity)

    def needs(self) -> Mapping[str, Request]:
        """The runs that this one reads."""
        return self.experiment.needs(self.spec)


def request(experiment: Experiment[Any], profile: str, overrides: Overrides | None = None) -> Request:
    """The request of an experiment in a profile with overrides; settings that cannot be afforded are
    refused."""
    spec = resolve(experiment, profile, overrides)
    if overrides:
        require_affordable(experiment.name, cost(experiment, profile, spec))
    return Request(experiment, spec)


def _step(container: Any, level: str) -> str | int:
    return int(level) if isinstance(container, list) else level


def restore(experiment: Experiment[T], identity: Json) -> T:
    """The spec that an identity was made of; parts of other types are made by the classes of their registered
    names."""
    body = copy.deepcopy(identity["spec"])
    model: type[BaseModel] = experiment.spec
    for key, name in sorted(identity.get("types", {}).items(), key=lambda item: -item[0].count(".")):
        kind = registered(name)
        if key:
            *levels, leaf = key.split(".")
            place = functools.reduce(lambda inner, level: inner[_step(inner, level)], levels, body)
            place[_step(place, leaf)] = kind(**place[_step(place, leaf)])
        else:
            model = kind
    return cast(T, model(**body))


def written_radii(body: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """All radii of a spec, written out exactly (as the shortest text that reads back to the same number)."""
    found: dict[str, str] = {}
    for key, value in body.items():
        if isinstance(value, Mapping):
            found.update(written_radii(value, f"{prefix}{key}."))
        elif key in {"eps", "radius", "delta", "radii"}:
            found[prefix + key] = repr(value)
    return found
