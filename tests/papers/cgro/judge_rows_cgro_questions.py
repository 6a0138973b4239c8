"""Rows for CGRO's judges of questions beyond the paper: `image-built`."""

from __future__ import annotations

import math
from typing import Any

from judging import Case, Table, judged, made

from featscope.experiments.run import Run

NAN = math.nan
SEEDS = (0, 1, 2)
EPS = 0.1


def three(value: Any) -> tuple[Any, Any, Any]:
    """One value for all seeds, or one for each."""
    return value if isinstance(value, tuple) else (value, value, value)


# --- f_S beside a trained network


def built(
    train: Any = 0.9,
    test: Any = 0.1,
    outside: Any = 0.1,
    change: Any = 3.0,
    size: int = 100,
    own: tuple[float, float, float] = (1.0, 0.0, 0.0),
    **nets: Any,
) -> dict[str, Run]:
    """The adversarial network's robust accuracy at training images within ε and 2ε and at test images, and
    its loss change there, beside an f_S of 1, 0, 0 and a change of 4.

    The other size, the clean network and other radii would decide otherwise.
    """
    radii, rows = [], []
    for seed in SEEDS:
        mine = {"train": (three(train)[seed], three(outside)[seed]), "test": (three(test)[seed], 0.0)}
        theirs = {"train": (own[0], own[1]), "test": (own[2], 0.0)}
        for other in (100, 300):
            for which in ("train", "test"):
                values = {"adversarial": mine[which], "built": theirs[which], "clean": (0.3, 0.9)}
                if other != size:
                    values["adversarial"] = (0.5, 0.5)
                for net, pair in values.items():
                    for radius, robust in zip((EPS, 2 * EPS), pair, strict=True):
                        shown = {"adversarial": three(change)[seed], "built": 4.0, "clean": 40.0}[net]
                        shown = shown if radius == EPS and other == size else 0.5
                        radii.append(
                            {
                                "size": other,
                                "seed": seed,
                                "net": net,
                                "set": which,
                                "radius": radius,
                                "robust": robust,
                                "change": shown if which == "test" else 9.0,
                            }
                        )
            facts = {"certified_train": 1.0, "clean_test": 0.9} | nets
            rows += [
                {"size": other, "seed": seed, "net": "clean", "clean_test": 0.9},
                {
                    "size": other,
                    "seed": seed,
                    "net": "built",
                    **{key: three(value)[seed] for key, value in facts.items()},
                },
            ]
    return {"run": made("image-built", {"nets": rows, "radii": radii}, seeds=list(SEEDS))}


SIZES = {"few images": 100, "more images": 300}


def _size(name: str) -> int:
    return SIZES[name.partition(", ")[2]]


@judged("CG-fS", "memory, few images", "memory, more images")
def _memory(name: str) -> Table:
    size = _size(name)
    return Table(
        holds=Case(built(test=(0.2, 0.1, 0.0), size=size), "HOLDS", 0.8, 0.5),
        fails=Case(built(test=(0.8, 0.79, 0.81), size=size), "FAILS", 0.1, 0.5),
        at_bound=Case(built(train=1.0, test=0.5, size=size), "HOLDS", 0.5, 0.5),
        bad_seed=Case(built(test=(0.0, 0.0, 0.9), size=size), "INCONCLUSIVE"),
        nan=Case(built(test=(0.1, NAN, 0.1), size=size), "INCONCLUSIVE"),
        more=(
            Case(built(train=0.25, test=0.0, size=size), "OUT_OF_SCOPE", 0.25, 0.5, "FAILS"),
            # f_S with a smaller gap of its own: a half of it is enough.
            Case(built(train=0.75, test=0.5, own=(1.0, 0.0, 0.5), size=size), "HOLDS", 0.5, 0.5),
            Case(built(own=(1.0, 0.0, 1.0), size=size), "INCONCLUSIVE"),
        ),
    )


@judged("CG-fS", "falls outside, few images", "falls outside, more images")
def _fall(name: str) -> Table:
    size = _size(name)
    return Table(
        holds=Case(built(outside=(0.2, 0.1, 0.0), size=size), "HOLDS", 0.8, 0.5),
        fails=Case(built(outside=(0.8, 0.79, 0.81), size=size), "FAILS", 0.1, 0.5),
        at_bound=Case(built(train=1.0, outside=0.5, size=size), "HOLDS", 0.5, 0.5),
        bad_seed=Case(built(outside=(0.0, 0.0, 0.9), size=size), "INCONCLUSIVE"),
        nan=Case(built(outside=(0.1, NAN, 0.1), size=size), "INCONCLUSIVE"),
        more=(Case(built(train=0.5, outside=0.25, own=(1.0, 0.5, 0.0), size=size), "HOLDS", 0.5, 0.5),),
    )


@judged("CG-fS", "sharp at test images, few images", "sharp at test images, more images")
def _sharp(name: str) -> Table:
    size = _size(name)
    return Table(
        holds=Case(built(change=(3.0, 3.2, 2.8), size=size), "HOLDS", 0.75, 0.5),
        fails=Case(built(change=(0.3, 0.4, 0.5), size=size), "FAILS", 0.1, 0.5),
        at_bound=Case(built(change=2.0, size=size), "HOLDS", 0.5, 0.5),
        bad_seed=Case(built(change=(4.0, 4.0, 0.1), size=size), "INCONCLUSIVE"),
        nan=Case(built(change=(3.0, NAN, 3.0), size=size), "INCONCLUSIVE"),
    )


@judged("CG-fS", "f_S")
def _construction() -> Table:
    return Table(
        holds=Case(built(certified_train=1.0), "HOLDS"),
        fails=Case(built(own=(0.995, 0.0, 0.0)), "FAILS", 0.995, 1.0),
        at_bound=Case(built(clean_test=0.9), "HOLDS"),
        bad_seed=Case(built(certified_train=(1.0, 0.99, 1.0)), "FAILS", 0.99, 1.0),
        nan=Case(built(certified_train=(1.0, NAN, 1.0)), "FAILS"),
        more=(
            Case(built(clean_test=(0.9, 0.875, 0.9)), "FAILS", -0.025, 0.0),
            Case(built(clean_test=(0.95, 0.9, 0.9)), "HOLDS"),
        ),
    )
