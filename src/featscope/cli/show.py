"""`featscope show`: what an experiment is about, and every setting with its meaning."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from featscope.cli.catalogue import experiment_names
from featscope.cli.console import JsonOption, announce, out, print_json, tell

if TYPE_CHECKING:
    from featscope.experiments.spec import Experiment


def show(
    name: Annotated[str, typer.Argument(help="the experiment", autocompletion=experiment_names)],
    as_json: JsonOption = False,
) -> None:
    """Say what an experiment shows, what it costs, and what each of its settings means."""
    from featscope.cli.run import known_line

    line = known_line(name)
    announce(f"{line['name']}: {line['shows']}")
    from featscope.experiments.registry import experiment

    plan = experiment(name)
    settings, costs = described(plan), costs_of(plan)
    if as_json:
        about = {"name": plan.name, "paper": plan.paper, "shows": plan.shows, "takes": dict(plan.takes)}
        print_json({**about, "costs": costs, "settings": settings})
        return
    tell(
        textwrap.fill(f"{plan.name} ({plan.paper.upper()}): {plan.shows}", out.width, subsequent_indent="  ")
    )
    for profile, told in costs.items():
        tell(f"  {profile:<6} {told}")
    for names, profiles in _data(plan).items():
        tell(f"  data   featscope data fetch {' '.join(names)} ({', '.join(profiles)})")
    tell(f"  change featscope run {plan.name} --set KEY=VALUE (a letter will do)")
    for row in settings:
        _print_setting(row)


def _data(plan: Experiment[Any]) -> dict[tuple[str, ...], list[str]]:
    """What must be fetched, with the profiles that need it."""
    from featscope.experiments.spec import PROFILES

    found: dict[tuple[str, ...], list[str]] = {}
    for profile in PROFILES:
        if names := plan.needs_data(profile):
            found.setdefault(names, []).append(profile)
    return found


def _print_setting(row: dict[str, str]) -> None:
    """Key, letter and meaning in one line; values and range in the next."""
    letter = f" ({row['letter']})" if row["letter"] else ""
    from featscope.experiments.spec import PROFILES

    # `long` is `cpu` in almost everything.
    shown = [profile for profile in PROFILES if profile != "long" or row["long"] != row["cpu"]]
    same = len({row[profile] for profile in shown}) == 1
    told = row["cpu"] if same else ", ".join(f"{profile} {row[profile]}" for profile in shown)
    limits = f"  [{row['range']}]" if row["range"] else ""
    for text, first, rest in (
        (f"{row['key']}{letter}: {row['meaning']}", "", "    "),
        (f"{told}{limits}", "    ", "    "),
    ):
        tell(
            textwrap.fill(
                text, out.width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
            )
        )


#: what profiles take where an experiment does not say
UNTOLD = {"long": "hours, seed after seed (--until)"}


def costs_of(plan: Experiment[Any]) -> dict[str, str]:
    """What each profile takes: the measured time, and the memory expected."""
    from featscope.experiments.cost import in_bytes
    from featscope.experiments.spec import PROFILES, cost, resolve

    found = {}
    for profile in PROFILES:
        memory = cost(plan, profile, resolve(plan, profile)).memory
        about = f", about {in_bytes(memory)} of memory" if memory else ""
        found[profile] = plan.takes.get(profile, UNTOLD.get(profile, "not measured")) + about
    return found


def described(plan: Experiment[Any]) -> list[dict[str, str]]:
    """Every setting: key, letter, meaning, its value in each profile, and its range. Settings that only hold
    others are left out."""
    from featscope.core.settings import allowed, holds_others, letter_of
    from featscope.experiments.keys import leaves, value_at
    from featscope.experiments.spec import PROFILES, resolve

    specs = {profile: resolve(plan, profile) for profile in PROFILES}
    return [
        {
            "key": key,
            "letter": letter_of(info),
            "meaning": info.description or "",
            "range": allowed(info),
            **{profile: _shown(value_at(spec, key)) for profile, spec in specs.items()},
        }
        for key, info in leaves(plan.spec).items()
        if letter_of(info) or not holds_others(info)
    ]


def _shown(value: Any, most: int = 40) -> str:
    if value is None:
        return "–"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else text[: most - 1] + "…"
