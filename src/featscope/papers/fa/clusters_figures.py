"""FA's Figures 2 (a, b) and 3 (left): features that networks learn, and distances to the boundary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from featscope.attacks.minimal import (
    Found,
    MinimalPGD,
    binary_objective,
    own_loss_objective,
    readout_objective,
)
from featscope.attacks.readout_certificate import certified_radii
from featscope.attacks.two_layer_radius import BracketedRadii, exact_radii
from featscope.core.columns import Columns, column
from featscope.core.settings import RadiusList, setting
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.dynamics.cluster_observables import cosines, summarise_cosines
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides
from featscope.laws.clusters import ClusterBatch
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import in_span, span
from featscope.papers.fa.clusters import (
    COURSES,
    ClusterSpec,
    TrainedPair,
    cluster_training_size,
    each_healthy,
    train,
)
from featscope.papers.fa.sphere_gap import sphere_gap

QUICK: Overrides = {"d": 300, "n": 200, "learning_rate": 0.01, "seeds": [0], "test_points": 60}


class Fig2Spec(ClusterSpec):
    """§6.1's setting."""

    profiles: ClassVar[dict[str, Overrides]] = {"quick": QUICK, "paper": {}}
    test_points: int = 2000
    every: int = 1


class HeatMaps(Columns):
    """One row a seed: both trained networks on test points, and the heat maps in a few numbers.

    The heat maps themselves are the tensors `binary` and `fine`.
    """

    seed = column("the seed")
    clean_binary = column("test accuracy of the 2-class network")
    clean_fine = column("test accuracy of the k-class network's read-out")
    sphere_bound = column("proved bound of inf_C sup |C f_FA − f| on the sphere ‖x‖ = √d")
    sphere_found = column("what a search finds of it")
    binary_mean = column("mean cosine of a neuron with a feature of its class")
    binary_min = column("least cosine of a neuron with a feature of its class")
    binary_max = column("largest cosine of a neuron with a feature of its class")
    binary_other_max = column("largest |cosine| of a neuron with a feature of the other class")
    fine_mean = column("mean cosine of a class's mean weight with its feature")
    fine_min = column("least cosine of a class's mean weight with its feature")
    fine_max = column("largest cosine of a class's mean weight with its feature")
    fine_other_max = column("largest |cosine| of a class's mean weight with another feature")


class Fig3Spec(ClusterSpec):
    """§6.1's setting, attacked: radii of the curve, and steps, restarts and rounds of the attacks."""

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {**QUICK, "attack_steps": 20, "restarts": 2},
        "paper": {"test_points": 1000},
    }
    radii: RadiusList = setting(tuple(float(r) for r in range(0, 57, 1)), "ℓ2 radii of the curve", letter="ε")
    attack_steps: int = setting(60, "steps of the attack at each radius", ge=1)
    restarts: int = setting(5, "random starts of the attack", ge=1)
    rounds: int = setting(10, "halvings of the search for the smallest radius", ge=1)
    kept_points: int = setting(50, "points whose radii are kept one by one", ge=1)


class Attacks(Columns):
    """What tells how far a point is from the boundary, network by network."""

    binary_exact = column("2-class network, exact")
    binary_own_loss = column(
        "2-class network, PGD; its own loss and its margin have the same normalised gradient"
    )
    fine_readout = column("k-class network, PGD on the read-out")
    fine_own_loss = column("k-class network, PGD on its own loss, every iterate counted and shortened")
    fine_own_loss_last = column("k-class network, PGD on its own loss, last iterate only")
    fine_certified = column("k-class network, certified")


class PointRadii(Attacks):
    """One row for each seed and test point: its radii, at most 4√d; tensors prove the exact ones."""

    seed = column("the seed")
    point = column("index of the test point")
    y = column("its label ±1")


class Fig3Curve(Attacks):
    """One row for each seed and radius: the shares of test points whose radius is larger."""

    seed = column("the seed")
    radius = column("ℓ2 radius")


class Fig3BySeed(Columns):
    """One row a seed: accuracies, medians over test points, and how tight the bounds are."""

    seed = column("the seed")
    clean_binary = column("test accuracy of the 2-class network")
    clean_fine = column("test accuracy of the k-class network's read-out")
    programmes = column("quadratic programmes solved for the exact radii")
    gap = column("largest relative gap of an exact radius")
    median_exact = column("median exact radius, 2-class")
    median_attack = column("median attacked radius, 2-class")
    least_attack_over_exact = column("least attacked ÷ exact radius; below 1 would refute one of them")
    median_readout = column("median radius of PGD on the read-out, k-class")
    median_own_loss = column("median radius of PGD on the own loss, k-class")
    median_own_loss_last = column("median radius of PGD on the own loss, last iterate only, k-class")
    median_certified = column("median certified radius, k-class")
    certified_above_attacked = column(
        "share of points whose certified radius is above an attacked one; must be 0"
    )


def tables(done: TrainedPair) -> tuple[Tensor, Tensor]:
    """The two heat maps: cosine of feature i with neuron j, and with the mean weight of class j."""
    mu = done.drawn.features
    return cosines(mu, done.binary.w), cosines(mu, done.fine.equivalent())


def class_block(done: TrainedPair) -> Tensor:
    """(k, 2m): whether feature and neuron belong to the same class."""
    signs = done.law.signs(done.binary.a.dtype)
    return (signs[:, None] * done.binary.a[None, :]) > 0


def run_fig2(spec: Fig2Spec, folder: Folder) -> Json:
    """Train both networks for each seed and read the heat maps off."""
    folder.conditions(spec.law.check(spec.training.hyper))

    def measure(seed: int) -> dict[str, Any]:
        done = train(spec, spec.law, spec.training, seed, folder, spec.every)
        binary, fine = tables(done)
        clean = done.clean(done.test(spec.test_points))
        inside = summarise_cosines(binary, class_block(done))
        diagonal = summarise_cosines(fine, torch.eye(spec.law.k, dtype=torch.bool))
        row = {"clean_binary": clean[0], "clean_fine": clean[1]}
        scale = float(done.watch.binary(done.binary_state, done.binary.a)["lambda_mean"])
        above, found = sphere_gap(done.binary, spec.law, scale, done.drawn.features, stream(seed, "sphere"))
        row |= {"sphere_bound": above, "sphere_found": found}
        row |= {f"binary_{key}": value for key, value in inside.items()}
        row |= {f"fine_{key}": value for key, value in diagonal.items()}
        folder.add("table", [row], {"binary": binary, "fine": fine}, seed=seed)
        return row

    per_seed, lost = each_healthy(spec.seeds, measure)
    return {**fig2_summary(per_seed), **lost}


def fig2_summary(rows: Sequence[dict[str, Any]]) -> Json:
    """Means over seeds, extremes over all of them."""

    def mean(key: str) -> float:
        return float(sum(row[key] for row in rows) / len(rows))

    return {
        "binary": {
            "same_class_cosine": {
                "mean": mean("binary_mean"),
                "min": min(row["binary_min"] for row in rows),
                "max": max(row["binary_max"] for row in rows),
                "by_seed": [row["binary_mean"] for row in rows],
            },
            "cross_class_cosine_max": max(row["binary_other_max"] for row in rows),
            "clean_test": mean("clean_binary"),
        },
        "fine": {
            "diagonal_cosine_mean": mean("fine_mean"),
            "off_diagonal_cosine_max": max(row["fine_other_max"] for row in rows),
            "clean_test": mean("clean_fine"),
        },
    }


def attack_all(
    spec: Fig3Spec, done: TrainedPair, batch: ClusterBatch
) -> tuple[BracketedRadii, dict[str, Tensor]]:
    """Exact radii of the 2-class network, and radii by attack and by certificate of both."""
    reach = 2.0 * spec.law.alpha * float(spec.law.d) ** 0.5
    pgd = MinimalPGD(spec.attack_steps, spec.restarts, spec.rounds, reach)
    rng = stream(done.seed, "attack")
    exact = exact_radii(done.binary, batch.x, batch.y)
    small, points, _ = in_span(done.binary, batch.x)
    binary: Found = pgd(binary_objective(small, batch.y), points, rng)
    basis = span(done.fine.w)
    net, inner, signs = (
        MultiClass(done.fine.w @ basis.mT, done.fine.h),
        batch.x @ basis.mT,
        spec.law.signs(batch.x.dtype),
    )
    readout = pgd(readout_objective(net, signs, batch.y), inner, rng)
    own = pgd(own_loss_objective(net, signs, batch.y, batch.cluster), inner, rng)
    plain = MinimalPGD(spec.attack_steps, 1, spec.rounds, reach, last_only=True)
    last = plain(own_loss_objective(net, signs, batch.y, batch.cluster), inner, rng)
    lower = certified_radii(
        net, signs, inner, batch.y, batch.cluster, torch.minimum(readout.radius, own.radius)
    )
    found = {
        "binary_exact": exact.lower,
        "binary_own_loss": binary.radius,
        "fine_readout": readout.radius,
        "fine_own_loss": own.radius,
        "fine_own_loss_last": last.radius,
        "fine_certified": lower,
    }
    return exact, found


def curve(found: dict[str, Tensor], at: Sequence[float]) -> list[dict[str, float]]:
    """For each value the shares of examples whose radii exceed it."""
    return [
        {"radius": r} | {key: float((radii > r).double().mean()) for key, radii in found.items()} for r in at
    ]


def run_fig3(spec: Fig3Spec, folder: Folder) -> Json:
    """Train, then find every test point's radius; the curves are counts of radii."""
    folder.conditions(spec.law.check(spec.training.hyper))
    curves: list[list[dict[str, float]]] = []

    def measure(seed: int) -> Json:
        done = train(spec, spec.law, spec.training, seed, folder, spec.every)
        batch = done.test(spec.test_points)
        exact, found = attack_all(spec, done, batch)
        cap = 4.0 * float(spec.law.d) ** 0.5
        rows = [
            {
                "point": i,
                "y": float(batch.y[i]),
                **{key: min(float(value[i]), cap) for key, value in found.items()},
            }
            for i in range(spec.test_points)
        ]
        folder.add("radii", rows, _evidence(done, batch, exact, spec.kept_points), seed=seed)
        curves.append(curve(found, spec.radii))
        folder.add("curve", curves[-1], seed=seed)
        facts = _facts(exact, found, done.clean(batch))
        folder.add("by_seed", [facts], seed=seed)
        return {"seed": seed, **facts}

    facts, lost = each_healthy(spec.seeds, measure)
    mean = {
        key: [sum(row[key] for row in rows) / len(rows) for rows in zip(*curves)] for key in Attacks.all()
    }
    return {
        "radii": list(spec.radii),
        "binary": {"exact": mean["binary_exact"], "own_loss": mean["binary_own_loss"]},
        "fine": {key: mean[f"fine_{key}"] for key in ("own_loss", "readout", "certified", "own_loss_last")},
        "by_seed": facts,
        **lost,
        "note": "margin and own loss of the 2-class network have one normalised gradient: own_loss is both",
    }


def _evidence(done: TrainedPair, batch: ClusterBatch, exact: BracketedRadii, keep: int) -> dict[str, Tensor]:
    """Weights, points, perturbations and certificates in full coordinates, for a reader to verify."""
    net = done.binary
    return {
        "w": net.w,
        "b": net.b,
        "a": net.a,
        "x": batch.x[:keep],
        "y": batch.y[:keep],
        "delta": exact.delta[:keep],
        "certificate": exact.certificate[:keep],
        "lower": exact.lower[:keep],
        "upper": exact.upper[:keep],
    }


def _facts(exact: BracketedRadii, found: dict[str, Tensor], clean: tuple[float, float]) -> Json:
    good = exact.correct & (exact.lower > 0)
    ratio = found["binary_own_loss"][good] / exact.lower[good]
    attacked = torch.minimum(found["fine_readout"], found["fine_own_loss"])
    return {
        "clean_binary": clean[0],
        "clean_fine": clean[1],
        "programmes": exact.solved,
        "gap": float(((exact.upper - exact.lower) / exact.upper.clamp(min=1e-300))[good].max()),
        "median_exact": float(exact.lower.median()),
        "median_attack": float(found["binary_own_loss"].median()),
        "least_attack_over_exact": float(ratio.min()),
        "median_readout": float(found["fine_readout"].median()),
        "median_own_loss": float(found["fine_own_loss"].median()),
        "median_own_loss_last": float(found["fine_own_loss_last"].clamp(max=1e6).median()),
        "median_certified": float(found["fine_certified"].median()),
        "certified_above_attacked": float((found["fine_certified"] > attacked).double().mean()),
    }


def fig2_size(spec: Fig2Spec) -> Size:
    """The training of both networks, and the fresh points."""
    return cluster_training_size(spec)


def fig3_size(spec: Fig3Spec) -> Size:
    """The training, and the attacks on fresh points."""
    trained = cluster_training_size(spec)
    looks = spec.test_points * spec.attack_steps * spec.restarts * spec.rounds
    neurons = 2 * spec.training.m + spec.law.k * spec.training.h
    return Size(trained.numbers, trained.work + len(spec.seeds) * looks * spec.law.d * neurons)


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-fig2",
        "fa",
        "Figure 2 (a, b): cosine of every feature with every neuron, trained with 2-class and with 10-class "
        "labels",
        Fig2Spec,
        run_fig2,
        {"quick": "2 s", "cpu": "10 s", "paper": "10 s"},
        highlights=(
            Highlight(
                "binary/same_class_cosine/mean", "mean cosine of a 2-class neuron with features of its class"
            ),
            Highlight(
                "binary/cross_class_cosine_max",
                "largest cosine of a 2-class neuron with a feature of the other class",
            ),
            Highlight("binary/clean_test", "clean accuracy on fresh points, 2 classes", "share"),
            Highlight("fine/diagonal_cosine_mean", "mean cosine of a k-class neuron with its own feature"),
            Highlight(
                "fine/off_diagonal_cosine_max", "largest cosine of a k-class neuron with another feature"
            ),
            Highlight("fine/clean_test", "clean accuracy on fresh points, k classes", "share"),
        ),
        size=fig2_size,
        revision=3,
        columns={**COURSES, "table": HeatMaps},
    ),
    Experiment(
        "clusters-fig3",
        "fa",
        "Figure 3 (left): robust accuracy against the ℓ2 radius; exact, attacked and certified",
        Fig3Spec,
        run_fig3,
        {"quick": "3 s", "cpu": "25 s", "paper": "45 s"},
        highlights=(
            Highlight(
                "by_seed/*/median_exact", "median ℓ2 radius that fools the 2-class network, exact, seed {}"
            ),
            Highlight(
                "by_seed/*/median_certified", "median certified ℓ2 radius of the k-class network, seed {}"
            ),
            Highlight(
                "by_seed/*/median_readout", "median attacked ℓ2 radius of the k-class network, seed {}"
            ),
        ),
        size=fig3_size,
        revision=3,
        columns={**COURSES, "radii": PointRadii, "curve": Fig3Curve, "by_seed": Fig3BySeed},
    ),
)
