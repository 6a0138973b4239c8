"""CGRO for real: descent on all weights of the cubic network, and the bracket of its robust accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from featscope.attacks.gta import transferred
from featscope.core.signs import share
from featscope.core.streams import stream
from featscope.dynamics.signal_descent import CubicWeights, Kernel, Objective, descent_step
from featscope.lab.streaming import flat_numbers, recorded_steps, states
from featscope.laws.signal import Instance, SignalBatch, SignalLaw, stack
from featscope.papers.cgro.signal_robustness import Case

WIDTH, MOST_POINTS, MOST_STEPS, TESTED, FRESH, SHOWN = 10, 100, 20_000, 500, 150, 60
SHARES, ATTACKED_POINTS = (0.02, 0.06, 0.1, 1.0), 100


def run_cgro(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Descend on (O) with the attack (A), and measure the robust accuracy of training and fresh points."""
    n, steps = int(min(given["n"], MOST_POINTS)), int(min(given["steps"], MOST_STEPS))
    s, seed = dict(given) | {"n": n, "steps": steps}, int(given["seed"])
    law = SignalLaw(d=int(s["d"]), gap=s["gap"])
    roomy = law.d - 1 >= n * (law.patches - 1) + WIDTH
    draw = law.compact_instance if roomy else law.instance
    one = draw(n, WIDTH, law.d**-0.5, stream(seed, "data", "train"), stream(seed, "init"))
    instance = stack([one])
    kernel = Kernel.of(instance)
    text = f"full descent on {n} points in {one.w.shape[-1]} coordinates (d = {law.d}), {steps} steps"
    yield {"kind": "start", "settings": s, "text": text, "start": _as_json(kernel, law, seed)}
    objective = Objective.of(law, n, s["rate"] / law.strength**2, s["tradeoff"])
    fresh = law.fresh(TESTED, one.w, stream(seed, "data", "test"))
    w = instance.w
    for t, state in _descent(instance, law, objective, steps):
        w = state.w
        row = {"time": t, **_look(w, kernel, objective, fresh)}
        yield {"kind": "row", "step": t, "steps": steps, "row": row}
    yield {"kind": "radii", "table": _brackets(w[0], one.train, fresh, law, seed)}
    yield {
        "kind": "done",
        "text": "done: the table has what no attack fools and what is certified, over ℓ2 balls",
    }


def _as_json(kernel: Kernel, law: SignalLaw, seed: int) -> dict[str, Any]:
    normals = torch.randn(
        FRESH, law.patches - 1, WIDTH, generator=stream(seed, "data", "lab"), dtype=torch.float64
    )
    parts = {"u": kernel.u0[0], "v": kernel.v0[0], "gram": kernel.gram[0], "fresh": normals}
    return {name: flat_numbers(part) for name, part in parts.items()}


def _descent(
    instance: Instance, law: SignalLaw, o: Objective, steps: int
) -> Iterator[tuple[int, CubicWeights]]:
    x, y = instance.train.x, instance.train.y
    step = descent_step(x, y, o.eta, o.lam, transferred(x, y, law))
    return states(step, CubicWeights(instance.w), recorded_steps(steps, SHOWN, log=True))


def _look(w: Tensor, kernel: Kernel, o: Objective, fresh: SignalBatch) -> dict[str, float]:
    rates = o.rates(w[..., 0], w @ kernel.noise.mT)
    noise = (fresh.y[:, None, None] * fresh.noise()).flatten(0, 1)
    tested = (w[0] @ noise.mT).pow(3).view(w.shape[1], len(fresh.y), -1).sum((0, 2))
    signal, own = rates.signal[0], rates.noise[0]
    return {
        "signal": float(signal),
        "low": float(own.min()),
        "median": float(own.median()),
        "high": float(own.max()),
        "cleanTest": float(share(signal + tested > 0)),
        "gtaTrain": float(share(o.rho * signal + own > 0)),
        "gtaTest": float(share(o.rho * signal + tested > 0)),
    }


def _brackets(
    w: Tensor, train: SignalBatch, fresh: SignalBatch, law: SignalLaw, seed: int
) -> list[list[Any]]:
    rows: list[list[Any]] = [
        ["radius", "train, attacked", "train, certified", "test, attacked", "test, certified"]
    ]
    few = SignalBatch(*(part[:ATTACKED_POINTS] for part in fresh))
    cases = {"train": Case(w, train, law.residual), "test": Case(w, few, law.residual)}
    for part in SHARES:
        cells = []
        for name, case in cases.items():
            upper, lower = case.ball(part * law.radius, 1, stream(seed, "attack", name, repr(part)))
            cells += [f"{100 * upper.accuracy:.0f} %", f"{100 * lower:.0f} %"]
        rows.append([f"{part:g} δ = {part * law.radius:.3g}", *cells])
    return rows
