"""The lab's recursions in Python, from start values that the browser drew."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from featscope.dynamics import patch_recursion as co
from featscope.dynamics.cluster_reduced import (
    ClusterReduction,
    ReducedClusters,
    averaged_radius,
    group_of_cluster,
)
from featscope.dynamics.patch_observables import cross_correlations, own_correlations
from featscope.dynamics.patch_span import span_radii
from featscope.dynamics.signal_descent import Objective
from featscope.dynamics.signal_reduced import SignalReduction
from featscope.laws.clusters import ClusterLaw
from featscope.laws.patches import PatchLaw
from featscope.laws.signal import SignalLaw
from featscope.nets.patch_cnn import PatchNetSpec

#: what the page's scripts have: step control, most steps, neurons a class
PATCH_RELATIVE, PATCH_STEPS, WIDTH = 0.03, 1200, 10
SIGNAL_RELATIVE, SIGNAL_STEPS = 0.1, 400

Settings = Mapping[str, Any]


def tensor(values: Any, *shape: int) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).view(*shape)


class PatchTwin:
    """The package's recursion at the page's settings."""

    def __init__(self, s: Settings, gram: Any) -> None:
        self.s, k, size = s, s["k"], s["k"] * WIDTH
        law = PatchLaw(k=k, d=2 * k, patches=s["robust"] + s["weak"], robust_patches=s["robust"], alpha=s["ratio"], sigma_n=0.0)  # fmt: skip
        self.net, self.data = PatchNetSpec(width=WIDTH, q=s["q"]), co.latents(law.population(), k)
        self.gram = (
            torch.zeros(1, size, size, dtype=torch.float64) if gram is None else tensor(gram, 1, size, size)
        )
        self.clip = None
        if s["training"] == "adversarial":
            self.clip = co.CoefficientClip(s["eps"], s["step"], s["clip"] != "as-printed", s["clip"] == "features-only")  # fmt: skip
        self.horizon = tensor([float(s["d"]) ** 1.5], 1)
        velocity = (
            co.adversarial_velocity(self.net, self.data, self.clip)
            if self.clip
            else co.standard_velocity(self.net, self.data)
        )
        self.step = co.small_steps(velocity, PATCH_RELATIVE, self.horizon)

    def state(self, u: Any, v: Any, e: Any = None, time: float = 0.0) -> co.Coefficients:
        k, size = self.s["k"], self.s["k"] * WIDTH
        eye = tensor(e, 1, size, size) if e else torch.eye(size, dtype=torch.float64)[None]
        shape = (1, k, WIDTH, k)
        return co.Coefficients(tensor(u, *shape), tensor(v, *shape), eye, self.gram, tensor([time], 1))

    def learned(self, state: co.Coefficients) -> bool:
        if self.clip is None:
            outputs = co.clean_pass(self.net, state, self.data).outputs
        else:
            x = co.perturb(self.net, state, self.data, self.clip)
            outputs = co.adversarial_pass(self.net, state, self.data, x).outputs
        return bool((torch.diagonal(outputs[0]) >= math.log(self.s["d"])).all())

    def run(self, state: co.Coefficients) -> dict[str, Any]:
        rows, ended = [], False
        for t in range(PATCH_STEPS + 1):
            a, b = own_correlations(state.u).amax(-1)[0], own_correlations(state.v).amax(-1)[0]
            c, d = cross_correlations(state.u).max(), cross_correlations(state.v).max()
            rows.append([float(state.time), *a.tolist(), *b.tolist(), float(c), float(d)])
            if t == PATCH_STEPS or ended or float(state.time) >= float(self.horizon):
                break
            ended = self.learned(state)
            state = self.step(state, t)
        one = co.Coefficients(*(part[0] for part in state))
        radius = span_radii(self.net, one, self.data)
        return {"rows": tensor(rows, len(rows), -1), "u": one.u, "v": one.v, "e": one.e, "radius": radius}


def cluster_twin(s: Settings, start: Mapping[str, Any]) -> dict[str, Any]:
    law = ClusterLaw(k=s["k"], d=s["d"], positive=s["plus"], cosine=s["cosine"])
    h, f = 5 if s["groups"] == 2 else 1, len(start["cluster"])
    n = s["groups"] * h
    begun = ReducedClusters(
        tensor(start["along"], n, s["k"]), tensor(start["across"], n, f), tensor(start["crossed"], f, s["k"]),
        torch.tensor(start["cluster"]), tensor(start["share"], f),
    )  # fmt: skip
    groups = group_of_cluster(s["k"], s["plus"], s["groups"])
    model, scale = ClusterReduction(law, begun, groups, h), s["init"] / s["d"]
    state, step = model.begin(), model.step(s["rate"] / s["d"])
    for t in range(s["steps"]):
        state = step(state, t)
    return {
        "c": state.c, "lambda": model.features(state), "centre": model.at_centres(state), "groups": groups,
        "cosines": model.feature_cosines(state, scale), "radius": model.radii(state, scale), "averaged": averaged_radius(law, groups),
    }  # fmt: skip


def signal_twin(s: Settings, start: Mapping[str, Any]) -> dict[str, Any]:
    law = SignalLaw(d=s["d"], gap=s["gap"])
    q = len(start["v"]) // WIDTH
    model = SignalReduction(
        law, Objective.of(law, s["n"], s["rate"] / law.strength**2, s["tradeoff"]), tensor(start["gram"], q, q), q // 3, SIGNAL_RELATIVE
    )  # fmt: skip
    first = tensor(start["v"], WIDTH, q)
    state, step = model.begin(tensor(start["u"], WIDTH), first), model.step(s["steps"])
    rows = []
    for t in range(SIGNAL_STEPS + 1):
        signal, noise = model.outputs(state.u, state.v)
        if not math.isfinite(float(signal)):
            break
        rows.append(
            [float(state.time), float(signal), float(noise.min()), float(noise.median()), float(noise.max())]
        )
        if t == SIGNAL_STEPS or float(state.time) >= s["steps"]:
            break
        state = step(state, t)
    gram = model.weight_gram(state, first, law.d**-0.5)
    fresh = model.fresh_noise(gram, tensor(start["fresh"], -1, 3, WIDTH))
    return {"rows": tensor(rows, len(rows), -1), "u": state.u, "v": state.v, "c": state.c, "fresh": fresh}
