"""What an experiment is: a frozen spec with profiles, resolved from a name, a profile and overrides."""

from __future__ import annotations

import copy
import functools
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar, cast

import torch
from pydantic import BaseModel, field_validator

from featscope.core.columns import Columns
from featscope.core.errors import BadInput, require, unknown
from featscope.core.files import canonical
from featscope.core.frozen import Value, json_form, other_types, registered
from featscope.core.store import Folder, Json

PROFILES: tuple[str, ...] = ("quick", "cpu", "paper")
Overrides = Mapping[str, Any]


class HasSettings(Protocol):
    """What has settings: a finished run."""

    @property
    def settings(self) -> Spec:
        """The resolved spec."""
        ...


class Spec(Value):
    """The settings of an experiment. The field defaults are the `cpu` profile; `profiles` holds what the
    others change."""

    profiles: ClassVar[Mapping[str, Overrides]] = {}
    #: the papers' letters as other names of keys, for example P → law.patches
    aliases: ClassVar[Mapping[str, str]] = {}

    seeds: tuple[int, ...] = (0, 1, 2)
    dtype: Literal["float32", "float64"] = "float64"

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
class Experiment(Generic[T]):
    """A named experiment: what it shows, its spec, and the function that runs it and returns its summary."""

    name: str
    paper: str
    shows: str
    spec: type[T]
    run: Callable[[T, Folder], Json]
    takes: Mapping[str, str]
    revision: int = 1
    needs_data: tuple[str, ...] = field(default=())
    #: whether its rows say themselves which runs diverged, so that judges have counted them
    counts_diverged: bool = False
    #: the runs that it reads, by labels of its own
    needs: Callable[[T], Mapping[str, Request]] = field(default=_nothing)
    #: part → the columns that it writes there
    columns: Mapping[str, type[Columns]] = field(default_factory=dict)


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


def _nested(annotation: Any) -> type[BaseModel] | None:
    """The model inside an annotation such as `Net` or `Net | None`, if there is one."""
    for option in (annotation, *typing.get_args(annotation)):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


def leaves(model: type[BaseModel], prefix: str = "") -> list[str]:
    """All settable keys of a spec, with dots between the levels."""
    keys: list[str] = []
    for name, info in model.model_fields.items():
        inner = _nested(info.annotation)
        keys.append(prefix + name)
        if inner is not None:
            keys += leaves(inner, f"{prefix}{name}.")
    return keys


def full_key(model: type[BaseModel], key: str) -> str:
    """Return the key with its levels: `d` becomes `law.d` where that is the only `d`."""
    known = leaves(model)
    key = getattr(model, "aliases", {}).get(key, key)
    if key in known:
        return key
    matches = [name for name in known if name.endswith("." + key)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise BadInput("ambiguous key", key, "write " + " or ".join(matches))
    raise unknown("key", key, known)


def knows(model: type[BaseModel], key: str) -> bool:
    """Whether a key is a setting of a spec by any of its names; an ambiguous one is."""
    try:
        full_key(model, key)
    except BadInput as error:
        return not str(error).startswith("unknown")
    return True


def parse_assignments(texts: list[str]) -> dict[str, Any]:
    """Parse `key=value` texts; values are JSON where they can be read so, text otherwise."""
    changes: dict[str, Any] = {}
    for text in texts:
        key, sep, value = text.partition("=")
        require(bool(sep and key), "--set needs key=value", repr(text), "write for example --set eps=1.2")
        try:
            changes[key.strip()] = json.loads(value)
        except ValueError:
            changes[key.strip()] = value
    return changes


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    *levels, leaf = key.split(".")
    for level in levels:
        tree = tree.setdefault(level, {})
        require(isinstance(tree, dict), f"{level} has no parts to set", key, f"set {level} as a whole")
    tree[leaf] = value


def resolve(experiment: Experiment[T], profile: str, overrides: Overrides | None = None) -> T:
    """Return the experiment's spec for a profile with overrides applied (dotted keys reach into parts)."""
    if profile not in PROFILES:
        raise unknown("profile", profile, PROFILES)
    model = experiment.spec
    tree: dict[str, Any] = json.loads(model().model_dump_json())
    for source in (model.profiles.get(profile, {}), overrides or {}):
        for key, value in source.items():
            _put(tree, full_key(model, key), value)
    return model(**tree)


def identity(experiment: Experiment[Any], spec: Spec) -> Json:
    """What identifies a run: the experiment, its revision, the resolved spec, and the names of parts that are
    not of the declared type."""
    types = other_types(spec, experiment.spec)
    who: Json = {"experiment": experiment.name, "revision": experiment.revision, "spec": json_form(spec)}
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
    """The request of an experiment in a profile with overrides."""
    return Request(experiment, resolve(experiment, profile, overrides))


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
