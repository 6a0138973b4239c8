"""FA's Assumption 4.3 run as it stands: d = k^10, n = k^7, η = d^−2, T = 1/η and k^8/η, by gradient flow on the compact copy."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from featscope.attacks.minimal import MinimalPGD, readout_objective
from featscope.attacks.readout_certificate import certified_radii
from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.conditions import unmet
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import Descent, binary_direction, fine_direction, start_binary, start_fine
from featscope.dynamics.cluster_flow import Field as FlowField
from featscope.dynamics.cluster_flow import Flow, begin, finished, flow_step
from featscope.dynamics.cluster_observables import Watch
from featscope.dynamics.trajectory import trajectory
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.cluster_properties import proof_epsilon
from featscope.laws.clusters import ClusterLaw, Draw
from featscope.nets import two_layer
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import span
from featscope.papers.fa.clusters import Trained, Training
from featscope.papers.fa.sphere_gap import sphere_gap

#: What of a flow's state may be as large as it likes.
CLOCKS = ("time", "calls")
#: Literal steps of descent before the flow.
WARM = 2


class RegimeSpec(Spec):
    """The number of clusters fixes law and training; ``init`` is σ_w² = η k^−5 as printed, or σ_w = η/(6nm√d) as the proofs need."""

    profiles: ClassVar[dict[str, Overrides]] = {"quick": {"sizes": [2, 3], "test_points": 50}, "paper": {"large": True}}
    seeds: tuple[int, ...] = (0,)
    sizes: tuple[int, int] = (3, 4)
    large: bool = False
    init: Literal["literal", "lemma"] = "lemma"
    tolerance: float = Field(default=5e-3, gt=0, lt=1)
    test_points: int = Field(default=300, ge=1)
    every: int = Field(default=3, ge=1)

    @property
    def k(self) -> int:
        """Number of clusters: the first of ``sizes``, the second if ``large``."""
        return self.sizes[self.large]

    @property
    def law(self) -> ClusterLaw:
        """d = k^10."""
        return ClusterLaw(k=self.k, d=self.k**10)

    @property
    def training(self) -> Training:
        """n = k^7, m = |J₊| neurons a class (as m = k/2 in §6.1), η = d^−2."""
        n, m, d = self.k**7, self.law.plus, self.law.d
        eta = float(d) ** -2
        scale = math.sqrt(eta * float(self.k) ** -5) if self.init == "literal" else eta / (6 * n * m * math.sqrt(d))
        return Training(n=n, m=m, learning_rate=eta, init_weight=scale, init_bias=scale, compact=True)


def _descent(state: Flow) -> Descent:
    return Descent(state.w, state.b, state.c)


def _flow(
    spec: RegimeSpec, watch: Watch, start: Descent, field: FlowField, end: float, folder: Folder, name: str, seed: int, h: int
) -> Flow:
    """WARM literal steps of descent, a row for each, then the flow to τ = ``end``; h = 0 means the 2-class network."""
    eta = spec.training.learning_rate
    a = two_layer.output_weights(spec.training.m, start.w.dtype)

    def descend(state: Flow, t: int) -> Flow:
        c, w, b = field(state.w, state.b)
        return state._replace(w=state.w + eta * w, b=state.b + eta * b, c=state.c + eta * c, time=state.time + eta, calls=state.calls + 1)

    def observe(state: Flow, t: int) -> dict[str, Any]:
        seen = watch.fine(_descent(state), h) if h else watch.binary(_descent(state), a)
        return {"seed": float(seed), "time": float(state.time), "calls": float(state.calls), **seen}

    state = begin(start.w, start.b, start.c, 0.0, eta)
    warm = trajectory(descend, state, WARM, observe, 1, keep=folder.part(f"start-{name}-{seed}"), clocks=CLOCKS)
    step, part = flow_step(field, end, spec.tolerance), folder.part(f"{name}-{seed}")
    state = warm.healthy(f"{name}, seed {seed}", "lower tolerance").state
    done = trajectory(step, state, 100_000, observe, spec.every, keep=part, stop=finished(end), clocks=CLOCKS)
    return done.healthy(f"{name}, seed {seed}", "lower tolerance").state


def run_regime(spec: RegimeSpec, folder: Folder) -> Json:
    """Both networks at Assumption 4.3's sizes."""
    law, training = spec.law, spec.training
    results = []
    for seed in spec.seeds:
        drawn = law.draw(training.n, 2 * training.m + law.k, seed, compact=True, dtype=spec.torch_dtype)
        watch = Watch(law, drawn.train)
        a = two_layer.output_weights(training.m, spec.torch_dtype)
        rng = stream(seed, "init", "bias")
        first = start_binary(drawn.directions[: 2 * training.m], training.n, training.init_weight, training.init_bias, rng)
        second = start_fine(drawn.directions[2 * training.m :], training.n, training.init_weight)

        def fine_field(w: Tensor, b: Tensor, drawn: Draw = drawn) -> tuple[Tensor, Tensor, Tensor]:
            return *fine_direction(w, 1, drawn.train), torch.zeros_like(b)

        def binary_field(w: Tensor, b: Tensor, drawn: Draw = drawn, a: Tensor = a) -> tuple[Tensor, Tensor, Tensor]:
            return binary_direction(w, b, a, drawn.train)

        binary = _flow(spec, watch, first, binary_field, 1.0, folder, "binary", seed, 0)
        fine = _flow(spec, watch, second, fine_field, float(law.k) ** 8, folder, "fine", seed, 1)
        done = Trained(law, training, seed, drawn, _descent(binary), _descent(fine))
        results.append(_judged(spec, done, binary, fine))
    steps, d = 1 / training.learning_rate, float(law.d)
    return {
        "by_seed": results,
        "unmet": unmet(law.check(training.hyper)),
        "epsilon": proof_epsilon(law, training.n),
        "window": {"least": steps, "least_fine": steps * float(law.k) ** 8, "most": math.exp(math.sqrt(law.k))},
        "radii": {"averaging": 2 * (1 + law.balance) * math.sqrt(d / law.k), "decoupling": math.sqrt(d) / 10},
        "k": law.k,
        "d": law.d,
        "n": training.n,
        "m": training.m,
        "init_weight": training.init_weight,
        "learning_rate": training.learning_rate,
        "data_gigabytes": results[0]["data_gigabytes"],
    }


def _judged(spec: RegimeSpec, done: Trained, binary: Flow, fine: Flow) -> Json:
    law = spec.law
    batch = done.test(spec.test_points)
    clean = done.clean(batch)
    exact = exact_radii(done.binary, batch.x, batch.y)
    basis, signs = span(done.fine.w), law.signs(batch.x.dtype)
    net, inner = MultiClass(done.fine.w @ basis.mT), batch.x @ basis.mT
    pgd = MinimalPGD(steps=40, restarts=3, rounds=8, reach=2 * math.sqrt(law.d))
    attacked = pgd(readout_objective(net, signs, batch.y), inner, stream(done.seed, "attack"))
    lower = certified_radii(net, signs, inner, batch.y, batch.cluster, attacked.radius)
    averaging, decoupling = 2 * (1 + law.balance) * math.sqrt(law.d / law.k), math.sqrt(law.d) / 10
    last = done.watch.binary(done.binary_state, done.binary.a)
    below, found = sphere_gap(done.binary, law, float(last["lambda_mean"]), done.drawn.features, stream(done.seed, "sphere"))
    return {
        "seed": done.seed,
        "clean_binary": clean[0],
        "clean_fine": clean[1],
        "median_exact": float(exact.upper.median()),
        "robust_binary": float((exact.lower > averaging).double().mean()),
        "exact_over_root_dk": float(exact.upper.median()) / math.sqrt(law.d / law.k),
        "median_readout": float(attacked.radius.median()),
        "median_certified": float(lower.median()),
        "robust_fine_certified": float((lower > decoupling).double().mean()),
        "readout_over_root_d": float(attacked.radius.median()) / math.sqrt(law.d),
        "sphere_bound": below,
        "sphere_found": found,
        "steps": int(binary.calls),
        "steps_fine": int(fine.calls),
        "data_gigabytes": round(done.drawn.train.x.numel() * done.drawn.train.x.element_size() / 1e9, 3),
    }


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-assumption",
        "fa",
        "Assumption 4.3 run as printed (d = k^10, n = k^7, η = d^−2) in the small-step limit, on the compact copy",
        RegimeSpec,
        run_regime,
        {"quick": "2 s", "cpu": "8 s (k=3)", "paper": "3 min, 4.3 GB (k=4)"},
    ),
)
