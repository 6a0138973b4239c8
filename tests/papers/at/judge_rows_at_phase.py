"""What the judges of AT's phase diagrams must say."""

from __future__ import annotations

from judging import Case, Table, judged, made
from phase_rows import edge_table

PANELS = {
    "standard q=3": "standard q3",
    "standard q=4": "standard q4",
    "standard q=5": "standard q5",
    "standard by descent": "descent q3",
    "attack: radius and step": "radius and step",
    "attack: radius and strength": "radius and strength",
    "full ball": "full ball",
}


@judged("PH-patch", *PANELS)
def edges(name: str) -> Table:
    return edge_table("phase-patch", PANELS[name], 1.5)


def changed(*epochs: list[float | None]) -> Case:
    rows = [
        {
            "setting": "q",
            "at": float(at),
            "usual": at == 0,
            "seed": seed,
            "class": 0,
            "switch": epoch,
            "u_end": 1.0,
        }
        for at, mine in enumerate(epochs)
        for seed, epoch in enumerate(mine)
    ]
    return Case({"run": made("patch-sensitivity", {"changes": rows})}, "")


def said(verdict: str, value: float | None, *epochs: list[float | None]) -> Case:
    return Case(changed(*epochs).runs, verdict, value, 0.95)


@judged("PH-sensitivity", "one at a time")
def switching() -> Table:
    all_but_one: list[float | None] = [1.0] * 19 + [None]
    return Table(
        holds=said("HOLDS", 1.0, [10.0, 0.0], [600.0, 5.0]),
        fails=said("FAILS", 0.5, [10.0, 20.0], [30.0, None]),
        at_bound=said("HOLDS", 0.95, [1.0] * 20, all_but_one),
        bad_seed=said("FAILS", 0.75, [1.0] * 4, [1.0, 2.0, None, 3.0]),
        nan=said("FAILS", 0.0, [1.0], [None]),
        more=(said("FAILS", None),),
    )
