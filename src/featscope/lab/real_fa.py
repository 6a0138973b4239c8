"""FA for real: descent on all weights of the network of g label groups, and the radii of fresh points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from featscope.attacks.minimal import MinimalPGD, readout_objective
from featscope.attacks.readout_certificate import certified_radii
from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import (
    Descent,
    binary_step,
    coefficients,
    fine_step,
    start_binary,
    start_fine,
)
from featscope.dynamics.cluster_reduced import ReducedClusters, group_of_cluster
from featscope.dynamics.trajectory import Step
from featscope.lab.streaming import flat_numbers, recorded_steps, states
from featscope.laws.clusters import ClusterBatch, ClusterDraw, ClusterLaw
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import TwoLayer, output_weights, span

MOST_POINTS, TESTED, SHOWN = 1000, 60, 40


def run_fa(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Descend, and find how far fresh points are from being turned."""
    s = dict(given) | {"n": int(min(given["n"], MOST_POINTS))}
    law, seed = (
        ClusterLaw(k=int(s["k"]), d=int(s["d"]), positive=int(s["plus"]), cosine=s["cosine"]),
        int(s["seed"]),
    )
    groups, h = group_of_cluster(law.k, law.plus, int(s["groups"])), 5 if s["groups"] == 2 else 1
    weights = int(s["groups"]) * h
    drawn = law.draw(s["n"], weights, seed, compact=law.d - law.k >= s["n"] + weights)
    scale = s["init"] / law.d
    start = ReducedClusters.of(law, drawn.train, drawn.features, scale * drawn.directions)
    text = f"full descent on {s['n']} points in {drawn.features.shape[1]} coordinates (d = {law.d})"
    yield {"kind": "start", "settings": s, "text": text, "start": _as_json(start)}
    step, begun = _descent(s, groups, h, drawn, scale, seed)
    norms = law.noise_norms(drawn.train)
    state = begun
    for t, state in states(step, begun, recorded_steps(int(s["steps"]), SHOWN, log=False)):
        found = coefficients(law, drawn.train, norms, state.c)
        row = {"step": t, **_means(found.features, found.noise, groups, drawn.train.cluster, h)}
        yield {"kind": "row", "step": t, "steps": int(s["steps"]), "row": row}
    yield _radii(s, law, state, groups, h, drawn)
    yield {"kind": "done", "text": f"done: radii of {TESTED} fresh points"}


def _as_json(start: ReducedClusters) -> dict[str, Any]:
    return {name: flat_numbers(part) for name, part in start._asdict().items()} | {
        "cluster": start.cluster.tolist()
    }


def _descent(
    s: Mapping[str, Any], groups: Tensor, h: int, drawn: ClusterDraw, scale: float, seed: int
) -> tuple[Step[Descent], Descent]:
    """Two groups are the 2-class network with its biases; more are told to the multi-class one as labels."""
    eta, n = s["rate"] / s["d"], len(drawn.train.y)
    if s["groups"] == 2:
        state = start_binary(drawn.directions, n, scale, scale, stream(seed, "init", "bias"))
        return binary_step(drawn.train, output_weights(h), eta), state
    train = drawn.train._replace(cluster=groups[drawn.train.cluster])
    return fine_step(train, h, eta), start_fine(drawn.directions, n, scale)


def _means(lam: Tensor, noise: Tensor, groups: Tensor, cluster: Tensor, h: int) -> dict[str, float]:
    owner = torch.arange(len(lam)) // h
    own, mine = owner[:, None] == groups[None, :], owner[:, None] == groups[cluster][None, :]
    big, rest = lam[own], lam[~own]
    return {
        "lambdaMin": float(big.min()),
        "lambdaMax": float(big.max()),
        "lambdaMean": float(big.mean()),
        "lambdaOther": float(rest.abs().max()),
        "sigmaMean": float(noise[mine].mean()),
        "sigmaMax": float(noise[mine].max()),
    }


def _radii(
    s: Mapping[str, Any], law: ClusterLaw, state: Descent, groups: Tensor, h: int, drawn: ClusterDraw
) -> dict[str, Any]:
    test = law.sample(TESTED, stream(int(s["seed"]), "data", "test"), drawn.features.shape[1])
    if s["groups"] == 2:
        found = exact_radii(TwoLayer(state.w, state.b, output_weights(h)), test.x, test.y)
        kinds = {"exact": found.lower}
    else:
        kinds = _bracket(law, MultiClass(state.w, h), groups, test, int(s["seed"]))
    name, shown = next(iter(kinds.items()))
    points = [[int(s["steps"]), float(r)] for r in shown if r.isfinite()]
    head = ["radius of fresh points", "least", "median", "largest"]
    rows = [[kind, *(float(v) for v in (r.min(), r.median(), r.max()))] for kind, r in kinds.items()]
    return {"kind": "radii", "table": [head, *rows], "points": points, "name": f"fresh points, {name}"}


def _bracket(
    law: ClusterLaw, net: MultiClass, groups: Tensor, test: ClusterBatch, seed: int
) -> dict[str, Tensor]:
    """Radii of the read-out between the two signs: certified, and by an attack on it."""
    basis, signs = span(net.w), torch.zeros(net.k, dtype=torch.float64)
    signs[groups] = law.signs()
    inner, points = MultiClass(net.w @ basis.mT, net.h), test.x @ basis.mT
    pgd = MinimalPGD(steps=40, restarts=2, rounds=10, reach=2.0 * float(law.d) ** 0.5)
    attacked = pgd(readout_objective(inner, signs, test.y), points, stream(seed, "attack")).radius
    sure = certified_radii(inner, signs, points, test.y, groups[test.cluster], attacked)
    return {"certified": sure, "attacked": attacked}
