"""A sweep as people ask for it: from a TOML file, or as `fs.sweep(…)`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from featscope.core.errors import BadInput, require, unknown
from featscope.experiments.registry import experiment
from featscope.sweeps.axes import axis_of
from featscope.sweeps.engines import engine as engine_of
from featscope.sweeps.sweep import EDGE_WIDTH, FinishedSweep, Sweep, run_sweep, share_of

#: the keys of a file
KEYS = (
    "experiment",
    "profile",
    "seeds",
    "design",
    "points",
    "design_seed",
    "refine",
    "width",
    "level",
    "vary",
    "set",
)


def from_file(path: Path) -> Sweep:
    """The sweep that a TOML file describes."""
    try:
        body = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput("no such file", str(path), "name a TOML file, or an experiment") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput("not a TOML file", f"{path} ({error})", "see docs/how-to/sweeps.md") from None
    for key in body:
        if key not in KEYS:
            raise unknown(f"key of {path.name}", key, KEYS)
    require(
        "experiment" in body, "a sweep names its experiment", str(path), 'write experiment = "patch-race"'
    )
    for key in ("vary", "set"):
        table = isinstance(body.get(key, {}), Mapping)
        require(
            table, f"{key} of a sweep is a table", str(path), f"write [{key}] and a line for each setting"
        )
    vary, settings = _flat(body.pop("vary", {})), _flat(body.pop("set", {}), whole=True)
    refined = body.pop("refine", None)
    return of(body.pop("experiment"), vary, settings=settings, refine=refined, **body)


def _flat(tree: Mapping[str, Any], whole: bool = False, prefix: str = "") -> dict[str, Any]:
    """Tables as dotted keys; what has low and high is a range."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and (whole or "low" not in value):
            found |= _flat(value, whole, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


class Design(TypedDict, total=False):
    """How a sweep is laid out, by the names of `Sweep`."""

    profile: str
    seeds: int | None
    design: str
    points: int
    design_seed: int
    width: float
    level: float | None


def of(
    name: str,
    vary: Mapping[str, Any],
    *,
    settings: Mapping[str, Any] | None = None,
    refine: str | None = None,
    **how: Unpack[Design],
) -> Sweep:
    """The sweep of an experiment over axes: key → "1:4:7", a list of values, or low, high, count and log."""
    plan = experiment(name)
    axes = tuple(axis_of(plan, key, given) for key, given in vary.items())
    return Sweep(plan.name, axes, settings=dict(settings or {}), refined=refine, **how)


def sweep(
    name: str,
    vary: Mapping[str, str | Sequence[Any] | Mapping[str, Any]],
    *,
    profile: str = "cpu",
    out: str | Path = "sweeps",
    seeds: int | None = None,
    design: str = "grid",
    points: int = 0,
    design_seed: int = 0,
    refine: str | None = None,
    width: float = EDGE_WIDTH,
    level: float | None = None,
    engine: str = "local",
    workers: int = 0,
    address: str | None = None,
    engine_options: Mapping[str, Any] | None = None,
    shard: str = "1/1",
    **settings: Any,
) -> FinishedSweep:
    """Run an experiment over many settings; ``rows`` of what comes back is a polars frame, a row for each
    point and seed.

    ``vary`` maps settings to "low:high:number", "low:high:number:log", or a list; ``settings`` are fixed, as
    in ``run``. What is finished below ``out`` is not run again.

    >>> import featscope as fs
    >>> swept = fs.sweep("patch-race", {"law.alpha": [1.5, 4.0]}, out=folder, seeds=2, workers=1)
    >>> swept.rows.select("law.alpha", "seed", "robust_share").rows()
    [(1.5, 0, 0.0), (1.5, 1, 0.0), (4.0, 0, 1.0), (4.0, 1, 1.0)]
    """
    fixed = {key.replace("__", "."): value for key, value in settings.items()}
    asked = of(
        name,
        vary,
        profile=profile,
        seeds=seeds,
        settings=fixed,
        design=design,
        points=points,
        design_seed=design_seed,
        refine=refine,
        width=width,
        level=level,
    )
    root = Path(out)
    chosen = engine_of(engine, asked.place(root), workers, address, engine_options)
    return run_sweep(asked, root, chosen, shard=share_of(shard))
