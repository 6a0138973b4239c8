"""The quantities of FA's inductions against their definitions, point by point and neuron by neuron."""

import math

import pytest
import torch

from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import Descent, binary_step, fine_step, start_binary, start_fine
from featscope.dynamics.cluster_lemmas import binary_lemmas, fine_lemmas
from featscope.dynamics.cluster_observables import ClusterObservables
from featscope.laws.clusters import ClusterDraw, ClusterLaw
from featscope.nets.two_layer import output_weights

LAW, N, M = ClusterLaw(k=3, d=500, alpha=1.3, sigma=0.8), 40, 2


def _trained(fine: bool) -> tuple[ClusterDraw, Descent]:
    drawn = LAW.draw(N, 3 if fine else 2 * M, 0, compact=False)
    a = output_weights(M)
    if fine:
        state, step = start_fine(drawn.directions, N, 1e-4), fine_step(drawn.train, 1, 4e-3)
    else:
        state = start_binary(drawn.directions, N, 1e-4, 1e-4, stream(0, "init", "bias"))
        step = binary_step(drawn.train, a, 4e-3)
    for t in range(60):
        state = step(state, t)
    return drawn, state


@pytest.mark.parametrize("fine", [False, True])
def test_each_quantity_is_its_definition(fine: bool) -> None:
    drawn, state = _trained(fine)
    train, mu = drawn.train, drawn.features
    watch = ClusterObservables(LAW, train)
    found = fine_lemmas(watch, state, 1) if fine else binary_lemmas(watch, state, output_weights(M))
    lam, sig = watch.coefficients(state)
    noise = (train.x - LAW.alpha * mu[train.cluster]) / LAW.sigma
    gaps: dict[str, list[float]] = {"feature": [], "noise": [], "point": []}
    above, below, top, low = [], [], [], []
    q, hat, slope = [], [], []
    for i in range(N):
        c, x = int(train.cluster[i]), train.x[i]
        values = state.w @ x + state.b
        if fine:
            mine = [c]
            outputs = values.clamp(min=0)
            q.append(float(outputs[c]))
            slope.append(math.log(1 - float(torch.softmax(outputs, 0)[c])))
        else:
            mine = [0, 1] if train.y[i] > 0 else [2, 3]
            rest = [r for r in range(4) if r not in mine]
            q.append(float(values.clamp(min=0)[mine].mean() - values.clamp(min=0)[rest].mean()))
            slope.append(math.log(1 / (1 + math.exp(q[-1]))))
        hat.append(sum(float(lam[r, c] + sig[r, i]) for r in mine) / len(mine))
        for r in range(len(state.w)):
            gaps["noise"].append(abs(float(state.w[r] @ noise[i] - sig[r, i])))
            gaps["point"].append(abs(float(state.w[r] @ x - lam[r, c] - sig[r, i])))
        for r in mine:
            unit = N / 3 * float(sig[r, i])
            above.append(q[i] - 2 * unit)
            below.append(unit / 2 - q[i])
            top.append(slope[i] + unit / 2)
            low.append(-slope[i] - 2 * unit)
    gaps["feature"] = [
        abs(float(state.w[r] @ mu[j] - lam[r, j])) for r in range(len(state.w)) for j in range(3)
    ]
    errors = [a - b for a, b in zip(q, hat, strict=True)]
    clusters = [[i for i in range(N) if train.cluster[i] == j] for j in range(3)]
    wanted = {
        "feature_gap": max(gaps["feature"]),
        "noise_gap": max(gaps["noise"]),
        "point_gap": max(gaps["point"]),
        "hat_error": max(map(abs, errors)),
        "hat_gap_error": max(errors) - min(errors),
        "hat_gap": max(hat) - min(hat),
        "hat_gap_cluster": max(max(hat[i] for i in c) - min(hat[i] for i in c) for c in clusters),
        "slope_ratio_cluster": max(
            math.exp(max(slope[i] for i in c) - min(slope[i] for i in c)) for c in clusters
        ),
        "margin_above": max(above),
        "margin_below": max(below),
        "slope_above": max(top),
        "slope_below": max(low),
    }
    if fine:
        outputs = (train.x @ state.w.mT).clamp(min=0)
        outputs[torch.arange(N), train.cluster] = -1.0
        wanted["other_output"] = float(outputs.max())
    assert found == {key: pytest.approx(value, rel=1e-8, abs=1e-12) for key, value in wanted.items()}
