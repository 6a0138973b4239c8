"""`featscope list`: experiments and claims, with what each shows and how long it takes."""

from __future__ import annotations

from rich.table import Table

from featscope.cli.console import JsonOption, out, print_json


def list_(as_json: JsonOption = False) -> None:
    """List experiments and claims: what each shows and how long it takes."""
    from featscope.claims.registry import claims
    from featscope.experiments.registry import experiments
    from featscope.experiments.spec import leaves

    known = claims().values()
    if as_json:
        stated = [
            {"id": c.id, "paper": c.paper, "reference": c.reference, "readings": [r.name for r in c.readings]}
            for c in known
        ]
        plans = [
            {
                "name": e.name,
                "paper": e.paper,
                "shows": e.shows,
                "takes": dict(e.takes),
                "keys": list(leaves(e.spec)),
            }
            for e in experiments().values()
        ]
        print_json({"experiments": plans, "claims": stated})
        return
    shown = Table(
        "experiment",
        "paper",
        "shows",
        "takes",
        title="Experiments (featscope run NAME)",
        title_justify="left",
    )
    for e in experiments().values():
        shown.add_row(e.name, e.paper, e.shows, "\n".join(f"{p}: {t}" for p, t in e.takes.items()))
    out.print(shown)
    shown = Table("claim", "reference", "readings", title="Claims (featscope check ID)", title_justify="left")
    for c in known:
        shown.add_row(c.id, c.reference, ", ".join(r.name for r in c.readings))
    out.print(shown)
