"""FA's Assumption 4.3 run as it stands, by gradient flow on the compact copy.

d = k^10, n = k^7 (or more of both), η = d^−2, T = k^8/η.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from featscope.attacks.minimal import MinimalPGD, readout_objective
from featscope.attacks.readout_certificate import certified_radii
from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.columns import Columns, column
from featscope.core.settings import setting
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import (
    Descent,
    binary_direction,
    fine_direction,
    start_binary,
    start_fine,
)
from featscope.dynamics.cluster_flow import Field as FlowField
from featscope.dynamics.cluster_flow import Flow, begin, finished, flow_step
from featscope.dynamics.cluster_lemmas import binary_lemmas, fine_lemmas
from featscope.dynamics.cluster_observables import ClusterObservables
from featscope.dynamics.trajectory import trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.cluster_properties import proof_epsilon
from featscope.laws.clusters import ClusterLaw
from featscope.nets import two_layer
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import span
from featscope.papers.fa.clusters import (
    BinaryCourse,
    Course,
    TrainedPair,
    Training,
    averaging_radius,
    decoupling_radius,
)
from featscope.papers.fa.sphere_gap import sphere_gap

#: What of a flow's state may be as large as it likes.
CLOCKS = ("time", "calls")


class RegimeSpec(Spec):
    """The number of clusters fixes law and training.

    ``init`` is σ_w² = η k^−5 as printed, or σ_w = η/(6nm√d) as the proofs need.
    """

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {"sizes": [2, 3], "test_points": 50, "plenty_points": 1000},
        "paper": {"large": True},
    }
    seeds: tuple[int, ...] = (0,)
    sizes: tuple[int, int] = setting(
        (3, 4), "numbers of clusters: the first, and the one used with `large`", letter="k"
    )
    large: bool = setting(False, "use the second of `sizes`")
    plenty: bool = setting(
        False, "more points and dimensions than k^7 and k^10, as Assumption 4.3 allows, for a smaller ε"
    )
    plenty_points: int = setting(6561, "training points with `plenty`", letter="n", ge=100)
    plenty_dimension: int = setting(10**10, "dimension with `plenty`", letter="d", ge=1000)
    init: Literal["literal", "lemma"] = setting(
        "lemma", "scale of the first weights: as printed, or as the proofs need"
    )
    tolerance: float = setting(5e-3, "largest relative error of a step of the gradient flow", gt=0, lt=1)
    test_points: int = setting(300, "fresh points on which accuracy is measured", ge=1)
    every: int = setting(3, "steps between two recorded rows", ge=1)

    @property
    def k(self) -> int:
        """Number of clusters: the first of ``sizes``, the second if ``large``."""
        return self.sizes[self.large]

    @property
    def law(self) -> ClusterLaw:
        """d = k^10, or more."""
        return ClusterLaw(k=self.k, d=self.plenty_dimension if self.plenty else self.k**10)

    @property
    def first_steps(self) -> int:
        """Literal steps of descent before the flow: as many as T₀ = exp(√k) allows."""
        return int(math.exp(math.sqrt(self.k)))

    @property
    def training(self) -> Training:
        """n = k^7 or more, m = |J₊| neurons a class (as m = k/2 in §6.1), η = d^−2."""
        n, m, d = self.plenty_points if self.plenty else self.k**7, self.law.plus, self.law.d
        eta = float(d) ** -2
        scale = (
            math.sqrt(eta * float(self.k) ** -5)
            if self.init == "literal"
            else eta / (6 * n * m * math.sqrt(d))
        )
        return Training(n=n, m=m, learning_rate=eta, init_weight=scale, init_bias=scale, compact=True)


class FlowClock(Columns):
    """What a flow knows of its progress."""

    time = column("τ = ηt")
    calls = column("evaluations of the field")


class LemmaCourse(Columns):
    """What the steps of the inductions speak of; q̂ is the mean of λ + σ over a point's own neurons."""

    feature_gap = column("largest |⟨w, μ_j⟩ − λ| (B.11, C.11)")
    noise_gap = column("largest |⟨w, ξ_i⟩ − σ| (B.12, C.12)")
    point_gap = column("largest |⟨w, x_i⟩ − λ − σ| (B.13, C.13)")
    hat_error = column("largest |q − q̂| (B.14, C.14)")
    hat_gap_error = column("largest |Δ_q − Δ̂_q| (B.15, C.15)")
    hat_gap = column("largest gap of q̂ between two points (item 3)")
    hat_gap_cluster = column("the same inside a cluster (item 2)")
    slope_ratio_cluster = column("largest ÷ least |ℓ'| inside a cluster (item 5)")
    margin_above = column("largest q − (2n/k)σ of a point's own neurons (B.20, C.20)")
    margin_below = column("largest (n/2k)σ − q (B.20, C.20)")
    slope_above = column("largest ln|ℓ'| + (n/2k)σ (B.21, C.21)")
    slope_below = column("largest −ln|ℓ'| − (2n/k)σ (B.21, C.21)")


class BinaryFlow(BinaryCourse, FlowClock, LemmaCourse):
    """One row for each seed and recorded step of the 2-class network's flow."""


class FineFlow(Course, FlowClock, LemmaCourse):
    """One row for each seed and recorded step of the k-class network's flow."""

    other_output = column("largest output of a class that is not the point's (C.17)")


class FirstSteps(BinaryFlow, FineFlow):
    """One row for each network, seed and literal step of descent before its flow."""

    net = column("binary or fine")


class AtTheEnd(Columns):
    """One row a seed: both networks on test points at the end of their flows."""

    seed = column("the seed")
    clean_binary = column("test accuracy of the 2-class network")
    clean_fine = column("test accuracy of the k-class network's read-out")
    median_exact = column("median exact radius, 2-class")
    robust_binary = column("share of points with an exact radius above 2(1+c)√(d/k), 2-class")
    exact_over_root_dk = column("median exact radius ÷ √(d/k), 2-class")
    median_readout = column("median radius of PGD on the read-out, k-class")
    median_certified = column("median certified radius, k-class")
    robust_fine_certified = column("share of points certified beyond √d/10, k-class")
    readout_over_root_d = column("median radius of PGD on the read-out ÷ √d, k-class")
    sphere_bound = column("proved bound of inf_C sup |C f_FA − f| on the sphere ‖x‖ = √d")
    sphere_found = column("what a search finds of it")
    fresh_noise_binary = column("largest |⟨w, ξ⟩| over the noise of test points, 2-class (B.26)")
    fresh_noise_fine = column("the same, k-class (C.26)")
    steps = column("evaluations of the field, 2-class")
    steps_fine = column("evaluations of the field, k-class")
    data_gigabytes = column("size of the training set in memory")


class ProofNumbers(Columns):
    """One row: what the proofs' bounds are made of at this setting, unit constants in O, Ω and Θ."""

    k = column("clusters")
    d = column("dimension")
    n = column("training points")
    learning_rate = column("η, the learning rate")
    epsilon = column("the proof's ε(k)")
    least_steps = column("T must be at least 1/η, 2-class")
    least_steps_fine = column("T must be at least k^8/η, k-class")
    most_steps = column("T may be at most exp(√k)")
    averaging_radius = column("2(1+c)√(d/k)")
    decoupling_radius = column("√d/10")


def _proof_numbers(spec: RegimeSpec) -> dict[str, float]:
    law, training = spec.law, spec.training
    steps = 1 / training.learning_rate
    return {
        "k": law.k,
        "d": law.d,
        "n": training.n,
        "learning_rate": training.learning_rate,
        "epsilon": proof_epsilon(law, training.n),
        "least_steps": steps,
        "least_steps_fine": steps * float(law.k) ** 8,
        "most_steps": math.exp(math.sqrt(law.k)),
        "averaging_radius": averaging_radius(law),
        "decoupling_radius": decoupling_radius(law),
    }


def _descent(state: Flow) -> Descent:
    return Descent(state.w, state.b, state.c)


def _flow(
    spec: RegimeSpec,
    watch: ClusterObservables,
    start: Descent,
    field: FlowField,
    end: float,
    folder: Folder,
    net: str,
    seed: int,
) -> Flow:
    """Literal steps of descent, a row for each, then the flow to τ = ``end``."""
    eta = spec.training.learning_rate
    a = two_layer.output_weights(spec.training.m, start.w.dtype)

    def descend(state: Flow, t: int) -> Flow:
        c, w, b = field(state.w, state.b)
        moved = state._replace(w=state.w + eta * w, b=state.b + eta * b, c=state.c + eta * c)
        return moved._replace(time=state.time + eta, calls=state.calls + 1)

    def observe(state: Flow, t: int) -> dict[str, Any]:
        now = _descent(state)
        seen = watch.fine(now, 1) if net == "fine" else watch.binary(now, a)
        lemmas = fine_lemmas(watch, now, 1) if net == "fine" else binary_lemmas(watch, now, a)
        return {"time": float(state.time), "calls": float(state.calls), **seen, **lemmas}

    state = begin(start.w, start.b, start.c, 0.0, eta)
    warm = trajectory(
        descend,
        state,
        spec.first_steps,
        observe,
        1,
        keep=folder.part("start", net=net, seed=seed),
        clocks=CLOCKS,
    )
    step, part = flow_step(field, end, spec.tolerance), folder.part(net, seed=seed)
    state = warm.healthy(f"{net}, seed {seed}", "lower tolerance").state
    done = trajectory(step, state, 100_000, observe, spec.every, keep=part, stop=finished(end), clocks=CLOCKS)
    return done.healthy(f"{net}, seed {seed}", "lower tolerance").state


def run_regime(spec: RegimeSpec, folder: Folder) -> Json:
    """Both networks at Assumption 4.3's sizes."""
    folder.conditions(spec.law.check(spec.training.hyper))
    numbers = _proof_numbers(spec)
    folder.add("proof", [numbers])
    ends = []
    for seed in spec.seeds:
        done, calls = _train(spec, folder, seed)
        row = _measured(spec, done, *calls)
        folder.add("by_seed", [row], seed=seed)
        ends.append({"seed": seed, **row})
    return {"by_seed": ends, **numbers, "m": spec.training.m, "init_weight": spec.training.init_weight}


def _train(spec: RegimeSpec, folder: Folder, seed: int) -> tuple[TrainedPair, tuple[int, int]]:
    """Both networks at the end of their flows, and how often each field was evaluated."""
    law, training = spec.law, spec.training
    drawn = law.draw(training.n, 2 * training.m + law.k, seed, compact=True, dtype=spec.torch_dtype)
    watch = ClusterObservables(law, drawn.train)
    a = two_layer.output_weights(training.m, spec.torch_dtype)
    rng = stream(seed, "init", "bias")
    own, rest = drawn.directions[: 2 * training.m], drawn.directions[2 * training.m :]
    first = start_binary(own, training.n, training.init_weight, training.init_bias, rng)
    second = start_fine(rest, training.n, training.init_weight)

    def fine_field(w: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return *fine_direction(w, 1, drawn.train), torch.zeros_like(b)

    def binary_field(w: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return binary_direction(w, b, a, drawn.train)

    end = float(law.k) ** 8
    binary = _flow(spec, watch, first, binary_field, end, folder, "binary", seed)
    fine = _flow(spec, watch, second, fine_field, end, folder, "fine", seed)
    done = TrainedPair(law, training, seed, drawn, _descent(binary), _descent(fine))
    return done, (int(binary.calls), int(fine.calls))


def _measured(spec: RegimeSpec, done: TrainedPair, calls: int, calls_fine: int) -> dict[str, float]:
    """Accuracies and radii on test points."""
    law = spec.law
    batch = done.test(spec.test_points)
    noise = batch.x - law.alpha * done.drawn.features[batch.cluster]
    clean = done.clean(batch)
    exact = exact_radii(done.binary, batch.x, batch.y)
    basis, signs = span(done.fine.w), law.signs(batch.x.dtype)
    net, inner = MultiClass(done.fine.w @ basis.mT), batch.x @ basis.mT
    pgd = MinimalPGD(steps=40, restarts=3, rounds=8, reach=2 * math.sqrt(law.d))
    attacked = pgd(readout_objective(net, signs, batch.y), inner, stream(done.seed, "attack"))
    lower = certified_radii(net, signs, inner, batch.y, batch.cluster, attacked.radius)
    last = done.watch.binary(done.binary_state, done.binary.a)
    scale, rng = float(last["lambda_mean"]), stream(done.seed, "sphere")
    proved, found = sphere_gap(done.binary, law, scale, done.drawn.features, rng)
    return {
        "clean_binary": clean[0],
        "clean_fine": clean[1],
        "median_exact": float(exact.upper.median()),
        "robust_binary": float((exact.lower > averaging_radius(law)).double().mean()),
        "exact_over_root_dk": float(exact.upper.median()) / math.sqrt(law.d / law.k),
        "median_readout": float(attacked.radius.median()),
        "median_certified": float(lower.median()),
        "robust_fine_certified": float((lower > decoupling_radius(law)).double().mean()),
        "readout_over_root_d": float(attacked.radius.median()) / math.sqrt(law.d),
        "sphere_bound": proved,
        "sphere_found": found,
        "fresh_noise_binary": float((noise @ done.binary.w.mT).abs().max()),
        "fresh_noise_fine": float((noise @ done.fine.w.mT).abs().max()),
        "steps": calls,
        "steps_fine": calls_fine,
        "data_gigabytes": round(done.drawn.train.x.numel() * done.drawn.train.x.element_size() / 1e9, 3),
    }


def size(spec: RegimeSpec) -> Size:
    """The compact copy of n = k^7 points: n coordinates each."""
    points = spec.training.n
    return Size(points * points, len(spec.seeds) * points * points / spec.tolerance)


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-assumption",
        "fa",
        "Assumption 4.3 run as printed (d = k^10, n = k^7, η = d^−2) in the small-step limit, on the compact "
        "copy",
        RegimeSpec,
        run_regime,
        {"quick": "2 s", "cpu": "8 s (k=3)", "paper": "3 min, 4.3 GB (k=4)"},
        highlights=(
            Highlight("k", "clusters k"),
            Highlight("d", "dimension d"),
            Highlight("by_seed/*/clean_binary", "clean accuracy of the 2-class network, seed {}", "share"),
            Highlight(
                "by_seed/*/exact_over_root_dk", "median radius of the 2-class network over √(d/k), seed {}"
            ),
            Highlight(
                "by_seed/*/readout_over_root_d", "median radius of the k-class network over √d, seed {}"
            ),
        ),
        size=size,
        revision=3,
        columns={
            "start": FirstSteps,
            "binary": BinaryFlow,
            "fine": FineFlow,
            "by_seed": AtTheEnd,
            "proof": ProofNumbers,
        },
    ),
)
