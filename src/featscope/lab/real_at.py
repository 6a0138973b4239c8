"""AT for real: descent on all weights of the patch network, and the bracket of its robust accuracy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from featscope.attacks.patch_training_attack import Directions, PatchTrainingAttack
from featscope.core.streams import stream
from featscope.dynamics.patch_descent import Perturb, Weights, training_epoch
from featscope.dynamics.patch_observables import cross_correlations, feature_correlations, own_correlations
from featscope.dynamics.patch_recursion import from_weights
from featscope.lab.streaming import flat_numbers, recorded_steps, states
from featscope.laws.patches import PatchBatch, PatchLaw
from featscope.nets.patch_cnn import PatchNet, PatchNetSpec
from featscope.papers.at.fig3_columns import Radii
from featscope.papers.at.fig3_settings import Measurement
from featscope.papers.at.patch_fig3 import PatchFig3, bracket

#: as in the page's recursion
WIDTH = 10
LARGEST_D, POINTS, ATTACKED_POINTS, SHOWN = 2000, 100, 40, 60
#: radii of the bracket, as shares of α
SHARES = (0.02, 0.05, 0.1, 0.2, 0.3)


def run_at(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Descend on points with noise, or on one noiseless point a class, and measure the robust accuracy."""
    s = dict(given) | {"d": int(min(given["d"], LARGEST_D))}
    seed, law = int(s["seed"]), _law(s)
    net = PatchNetSpec(width=WIDTH, q=int(s["q"]), sigma_0=law.d**-0.5)
    w0, (u, v) = net.init(law.k, law.d, stream(seed, "init")), law.features()
    batch = law.population() if s["sigma_n"] == 0 else law.sample(POINTS, stream(seed, "data", "train"))
    first = from_weights(w0, u, v)
    moving = s["training"] == "adversarial" and s["clip"] != "features-only"
    yield {
        "kind": "start",
        "settings": s,
        "text": f"full descent at d = {law.d}, {len(batch.y)} points",
        "start": {
            "u": flat_numbers(first.u),
            "v": flat_numbers(first.v),
            "gram": flat_numbers(first.gram) if moving else None,
        },
    }
    w = w0
    for row, state in _descent(s, law, net, batch, w0):
        w = state.w
        yield row
    yield {"kind": "radii", "table": _brackets(s, law, net.net(w), seed)}
    yield {
        "kind": "done",
        "text": "done: the table has what no attack fools and what is certified, over ℓ∞ balls",
    }


def _law(s: Mapping[str, Any]) -> PatchLaw:
    settings: dict[str, Any] = {
        "k": int(s["k"]),
        "d": s["d"],
        "patches": int(s["robust"] + s["weak"]),
        "robust_patches": int(s["robust"]),
        "alpha": float(s["ratio"]),
        "beta": 1.0,
        "sigma_n": float(s["sigma_n"]),
    }
    return PatchLaw(**settings)


def _descent(
    s: Mapping[str, Any], law: PatchLaw, net: PatchNetSpec, batch: PatchBatch, w0: Tensor
) -> Iterator[tuple[dict[str, Any], Weights]]:
    points, size, eta, steps = len(batch.y), int(s["batch"]), float(s["rate"]), int(s["steps"])
    batches = math.ceil(points / size) if size < points else 1
    epoch = training_epoch(
        net, batch.x, batch.y, eta, _attack(s, law, w0), batch_size=size if batches > 1 else None
    )
    epochs = max(1, steps // batches)
    for t, state in states(epoch, Weights(w0), recorded_steps(epochs, SHOWN, log=True)):
        u, v = feature_correlations(state.w, law)
        row = {
            "time": eta * batches * t,
            "A": flat_numbers(own_correlations(u).amax(-1)),
            "B": flat_numbers(own_correlations(v).amax(-1)),
            "C": float(cross_correlations(u).max()),
            "D": float(cross_correlations(v).max()),
        }
        yield {"kind": "row", "step": t * batches, "steps": epochs * batches, "row": row}, state


def _attack(s: Mapping[str, Any], law: PatchLaw, w0: Tensor) -> Perturb | None:
    """The training attack. Without noise the clip is the recursion's (two-sided: by patch); with noise it is
    the patch-wise one of §2.5."""
    if s["training"] == "standard":
        return None
    eps, size, features = float(s["eps"]), float(s["step"]), torch.cat(law.features())
    if s["sigma_n"] > 0 or s["clip"] == "two-sided":
        return PatchTrainingAttack(eps=eps, step_size=size).perturb
    if s["clip"] == "as-printed":
        ascent = PatchTrainingAttack(clip="coefficient", eps=eps, step_size=size)
        directions = Directions(features, w0)
        return lambda net, x, y: ascent.perturb(net, x, y, directions)
    plain = PatchTrainingAttack(eps=eps, step_size=size)

    def on_features(net: PatchNet, x: Tensor, y: Tensor) -> Tensor:
        return (size * plain.gradient(net, x, y) @ features.mT).clamp(-eps, eps) @ features

    return on_features


def _brackets(s: Mapping[str, Any], law: PatchLaw, net: PatchNet, seed: int) -> list[list[Any]]:
    spec = PatchFig3(law=law, eps=s["eps"], seeds=(seed,), evaluation=Measurement(radii=()))
    test = law.sample(ATTACKED_POINTS, stream(seed, "data", "test"))
    rows: list[list[Any]] = [["radius ε", "attacked, an upper bound", "certified, a lower bound"]]
    for eps in sorted({share * float(s["ratio"]) for share in SHARES} | {float(s["eps"])}):
        found = bracket(spec, net, test, spec.threat("full-ball", eps), seed)
        rows.append([f"{eps:.3g}", *(f"{100 * found[str(c)]:.0f} %" for c in (Radii.upper, Radii.lower))])
    return rows
