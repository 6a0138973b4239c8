"""Rows for EP-architecture: two networks, two trainings; the training that is not asked says the opposite."""

from __future__ import annotations

import math
from collections.abc import Sequence

from judging import Case, Table, judged, made

from featscope.experiments.run import Run

RADII = (0.0, 0.1, 0.3)


def curves(method: str, gains: Sequence[float], clean: Sequence[float] = (0.9, 0.9)) -> dict[str, Run]:
    """Both curves of each seed; the transformer is ``gain`` higher at .1 and .3, so its mean is 5/6 of it."""
    rows = []
    for seed, gain in enumerate(gains):
        for one in ("standard", "adversarial"):
            sign = 1 if one == method else -1
            heights = {
                "lenet5": (clean[0] if one == method else 0.9, 0.5, 0.4),
                "vit": (clean[1] if one == method else 0.9, 0.5 + sign * gain, 0.4 + sign * gain),
            }
            for name, curve in heights.items():
                for radius, height in sorted(zip(RADII, curve, strict=True), reverse=True):
                    where = {"architecture": name, "method": one, "seed": seed, "radius": radius}
                    rows.append({**where, "accuracy": height, "parameters": 60_000})
    return {
        "run": made("image-architecture", {"curve": rows}, radii=list(RADII), seeds=list(range(len(gains))))
    }


@judged("EP-architecture", "standard", "adversarial")
def higher(name: str) -> Table:
    def case(gains: Sequence[float], verdict: str, clean: Sequence[float] = (0.9, 0.9), **more: str) -> Case:
        value = None if any(map(math.isnan, gains)) else sum(gains) / len(gains) * 5 / 6
        shift = (clean[1] - clean[0]) / 6
        return Case(
            curves(name, gains, clean), verdict, None if value is None else value + shift, 0.0, **more
        )

    return Table(
        holds=case((0.1, 0.12, 0.11), "HOLDS"),
        fails=case((-0.1, -0.12, -0.11), "FAILS"),
        at_bound=case((0.0, 0.0, 0.0), "FAILS"),
        bad_seed=case((0.1, 0.1, -0.3), "INCONCLUSIVE"),
        nan=case((0.1, math.nan, 0.1), "INCONCLUSIVE"),
        more=(
            case((0.2, 0.22, 0.21), "OUT_OF_SCOPE", (0.9, 0.39), would_be="HOLDS"),
            case((0.2, 0.22, 0.21), "OUT_OF_SCOPE", (0.39, 0.9), would_be="HOLDS"),
            case((0.1, 0.12, 0.11), "HOLDS", (0.41, 0.41)),
            case((0.1,), "INCONCLUSIVE"),
        ),
    )
