"""Networks that FA builds by hand (Definition 4.1, appendix D), and §5.1's coefficients by several routes."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from featscope.attacks.minimal import MinimalPGD, readout_objective
from featscope.attacks.two_layer_radius import LIMIT, exact_radii
from featscope.core.columns import Columns, column
from featscope.core.losses import CROSS_ENTROPY
from featscope.core.settings import setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import (
    Descent,
    binary_step,
    coefficients,
    decomposed,
    fine_step,
    start_binary,
    start_fine,
)
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec, require_one_seed
from featscope.laws.clusters import ClusterBatch, ClusterLaw
from featscope.laws.compact import rotate
from featscope.nets import multiclass, two_layer
from featscope.nets.multiclass import MultiClass, MultiClassNet
from featscope.nets.two_layer import TwoLayer, TwoLayerNet, averaging, averaging_with_bias, decoupled, span
from featscope.papers.fa.clusters import Training, averaging_radius, right


class BuiltSpec(Spec):
    """The law, and the biases of θ_avg in units of d."""

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {"d": 2000, "test_points": 40},
        "paper": {"test_points": 1000},
    }
    seeds: tuple[int, ...] = (0,)
    law: ClusterLaw = setting(ClusterLaw(), "the law of the data")
    biases: tuple[float, ...] = setting(
        (-1.2, -0.9, -0.5, 0.0, 0.5, 0.9, 1.2), "biases of θ_avg in units of d"
    )
    test_points: int = setting(200, "fresh points on which radii are measured", ge=1)

    @property
    def seed(self) -> int:
        """The seed of the test points; the networks themselves are built without a draw."""
        return require_one_seed(self, "give one seed, and raise test_points for more points")

    def model_post_init(self, context: object) -> None:
        """One seed only."""
        self.seed  # noqa: B018 - refuses several


#: points whose certificates are kept for a reader to verify
KEPT_POINTS = 50


class DrawnOnce(Columns):
    """What every row says: which seed drew the test points."""

    seed = column("seed of the test points")


class BuiltRadii(DrawnOnce):
    """What the exact radii of test points say of a built 2-class network."""

    clean = column("test accuracy")
    median = column("median radius")
    min = column("least radius")
    max = column("largest radius")
    median_plus = column("median radius of points with y = +1")
    median_minus = column("median radius of points with y = −1")
    robust_far = column("share of points with a radius above 2(1+c)√(d/k)")
    robust_third = column("share of points with a radius above √d/3")
    over_root_dk = column("median radius ÷ √(d/k)")
    over_root_d = column("median radius ÷ √d")


class BuiltRow(BuiltRadii):
    """One row a network: f_FA and θ_dec; tensors hold what proves its radii."""

    net = column("averaging or decoupled")


class BiasedRow(BuiltRadii):
    """One row for each pair of biases of θ_avg."""

    plus = column("bias of the positive neuron ÷ d")
    minus = column("bias of the negative neuron ÷ d")


class Moved(DrawnOnce):
    """One row: f_FA on points moved by the paper's own perturbation."""

    radius = column("length of the perturbation")
    right_after = column("accuracy on moved points")


class FragileRow(DrawnOnce):
    """One row: the network of Proposition 4.8 before and after the perturbation of its proof."""

    clean = column("test accuracy of the read-out")
    fine_clean = column("test accuracy of the k classes")
    loss = column("mean cross-entropy on test points")
    explicit_radius = column("length of the perturbation")
    right_after_explicit = column("accuracy of the read-out on moved points")
    median_attacked = column("median radius of PGD on the read-out")
    over_root_dk = column("the same ÷ √(d/k)")


class FragilePoint(DrawnOnce):
    """One row a test point: how far PGD must go from it to fool the network of Proposition 4.8."""

    point = column("index of the test point")
    attacked = column("radius of PGD on the read-out")
    along = column(
        "least radius tried along −y(Σ₊μ − Σ₋μ), the proof's direction, that fools it; 2√d if none"
    )


def _binary_row(
    net: TwoLayer, batch: ClusterBatch, law: ClusterLaw
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """A network's row, and what proves the radii of its first points."""
    f = two_layer.forward(net, batch.x)
    exact = exact_radii(net, batch.x, batch.y)
    root = math.sqrt(law.d)
    by_point = {"x": batch.x, "y": batch.y, "delta": exact.delta, "certificate": exact.certificate}
    proof = {"w": net.w, "b": net.b, "a": net.a} | {key: t[:KEPT_POINTS] for key, t in by_point.items()}
    return {
        "clean": right(f, batch.y),
        "median": float(exact.lower.median()),
        "min": float(exact.lower.min()),
        "max": float(exact.upper.clamp(max=1e12).max()),
        "median_plus": float(exact.lower[batch.y > 0].median()),
        "median_minus": float(exact.lower[batch.y < 0].median()),
        "robust_far": float((exact.lower > averaging_radius(law)).double().mean()),
        "robust_third": float((exact.lower > root / 3).double().mean()),
        "over_root_dk": float(exact.lower.median()) / math.sqrt(law.d / law.k),
        "over_root_d": float(exact.lower.median()) / root,
    }, proof


def explicit(law: ClusterLaw, batch: ClusterBatch, factor: float) -> tuple[Tensor, float]:
    """x − y (factor/k) (Σ_{J₊} μ − Σ_{J₋} μ), the papers' own perturbation, and its norm."""
    mu, signs = law.features(dtype=batch.x.dtype), law.signs(batch.x.dtype)
    push = (factor / law.k) * (signs @ mu)
    return batch.x - batch.y[:, None] * push, float(torch.linalg.vector_norm(push))


def run_built(spec: BuiltSpec, folder: Folder) -> Json:
    """Clean accuracy, exact radii and explicit perturbations of every built network."""
    law = spec.law
    folder.conditions(law.check())
    batch = law.sample(spec.test_points, stream(spec.seed, "data", "test"), dtype=spec.torch_dtype)
    mu, signs, d = law.features(dtype=spec.torch_dtype), law.signs(), law.d
    nets = {"averaging": averaging(mu, signs)}
    if max(law.plus, law.k - law.plus) <= LIMIT:
        # Beyond, θ_dec has too many pieces for an exact radius.
        nets["decoupled"] = decoupled(mu, signs, d)
    built = {name: _binary_row(net, batch, law) for name, net in nets.items()}
    for name, (row, proof) in built.items():
        folder.add("built", [{DrawnOnce.seed: spec.seed, **row}], proof, net=name)
    biased = folder.once("biased", lambda: (_biased(spec, batch), {})).rows
    push, size = explicit(law, batch, 2 * (1 + law.balance))
    moved = {"radius": size, "right_after": right(two_layer.forward(nets["averaging"], push), batch.y)}
    folder.add("explicit", [{DrawnOnce.seed: spec.seed, **moved}])
    fragile = _fragile(spec, batch, folder)
    return {
        **{name: row for name, (row, _) in built.items()},
        "biased": biased,
        "explicit": moved,
        "fragile": fragile,
    }


def _biased(spec: BuiltSpec, batch: ClusterBatch) -> Rows:
    """θ_avg with every pair of biases."""
    law, rows = spec.law, []
    mu, signs = law.features(dtype=spec.torch_dtype), law.signs()
    for plus in spec.biases:
        for minus in spec.biases:
            net = averaging_with_bias(mu, signs, plus * law.d, minus * law.d)
            place: dict[str, float] = {
                BiasedRow.seed: spec.seed,
                BiasedRow.plus: plus,
                BiasedRow.minus: minus,
            }
            rows.append({**place, **_binary_row(net, batch, law)[0]})
    return rows


def along_proof(law: ClusterLaw, net: MultiClass, batch: ClusterBatch, tried: int = 800) -> Tensor:
    """The least of evenly spaced radii up to 2√d at which the read-out is wrong along the proof's way."""
    mu, signs = law.features(dtype=batch.x.dtype), law.signs(batch.x.dtype)
    way = torch.nn.functional.normalize(signs @ mu, dim=0)
    still, slope = batch.x @ net.w.mT, -batch.y[:, None] * (net.w @ way)
    far = 2 * math.sqrt(law.d)
    found = torch.full((len(batch.x),), far, dtype=batch.x.dtype)
    for radius in torch.linspace(far, far / tried, tried).tolist():
        outputs = multiclass.from_hidden(net, still + radius * slope)
        wrong = torch.where(multiclass.readout(outputs, signs) > 0, 1.0, -1.0).to(batch.y) != batch.y
        found = torch.where(wrong, radius, found)
    return found


def _fragile(spec: BuiltSpec, batch: ClusterBatch, folder: Folder) -> Json:
    """The network of Proposition 4.8 and the perturbation of its proof, 3(1+c)/k (Σ μ − Σ μ)."""
    law = spec.law
    mu, signs = law.features(dtype=batch.x.dtype), law.signs(batch.x.dtype)
    net = multiclass.fragile(mu, signs)
    outputs = multiclass.logits(net, batch.x)
    moved, size = explicit(law, batch, 3 * (1 + law.balance))
    after = multiclass.readout(multiclass.logits(net, moved), signs)
    basis = span(net.w)
    small, points = MultiClass(net.w @ basis.mT), batch.x @ basis.mT
    pgd = MinimalPGD(steps=60, restarts=3, rounds=10, reach=2 * math.sqrt(law.d))
    attacked = pgd(readout_objective(small, signs, batch.y), points, stream(spec.seed, "attack")).radius
    row = {
        "clean": right(multiclass.readout(outputs, signs), batch.y),
        "fine_clean": float((outputs.argmax(-1) == batch.cluster).double().mean()),
        "loss": float(CROSS_ENTROPY.value(outputs, batch.cluster).mean()),
        "explicit_radius": size,
        "right_after_explicit": right(after, batch.y),
        "median_attacked": float(attacked.median()),
        "over_root_dk": float(attacked.median()) / math.sqrt(law.d / law.k),
    }
    kept = {"x": batch.x[:KEPT_POINTS], "moved": moved[:KEPT_POINTS], "w": net.w}
    folder.add("fragile", [{FragileRow.seed: spec.seed, **row}], kept)
    c = FragilePoint
    straight = along_proof(law, net, batch)
    by_point: Rows = [
        {c.seed: spec.seed, c.point: i, c.attacked: float(r), c.along: float(s)}
        for i, (r, s) in enumerate(zip(attacked, straight, strict=True))
    ]
    folder.add("fragile_points", by_point)
    return row


class RoutesSpec(Spec):
    """A small law on which every route is affordable in float64."""

    profiles: ClassVar[dict[str, Overrides]] = {
        "quick": {"d": 200, "n": 40, "steps": 20},
        "paper": {"d": 3072, "n": 1000, "steps": 100},
    }
    seeds: tuple[int, ...] = (0, 1)
    law: ClusterLaw = setting(ClusterLaw(k=6, d=800), "the law of the data")
    training: Training = setting(
        Training(n=150, m=3, steps=80, learning_rate=4e-3), "points, neurons and gradient descent"
    )


class Routes(Columns):
    """One row a seed: largest relative difference of the weights (or coefficients) that two routes give."""

    seed = column("the seed")
    binary_autograd = column("closed form against autograd, 2-class")
    binary_decomposition = column("weights rebuilt from coefficients against descent, 2-class")
    binary_marginal = column("λ_j/‖μ_j‖² against the sum of σ_i/‖ξ_i‖² over the cluster, 2-class")
    binary_rotated = column("the compact copy turned back against the data, 2-class")
    fine_autograd = column("closed form against autograd, k-class")
    fine_decomposition = column("weights rebuilt from coefficients against descent, k-class")
    fine_marginal = column("λ_j/‖μ_j‖² against the sum of σ_i/‖ξ_i‖² over the cluster, k-class")
    fine_rotated = column("the compact copy turned back against the data, k-class")


def _autograd(net: torch.nn.Module, batch: ClusterBatch, training: Training, fine: bool) -> None:
    """Plain autograd descent, the independent route."""
    for _ in range(training.steps):
        outputs = net(batch.x)
        if fine:
            loss = torch.nn.functional.cross_entropy(outputs, batch.cluster)
        else:
            loss = torch.nn.functional.softplus(-batch.y * (outputs[:, 1] - outputs[:, 0])).mean()
        parameters = list(net.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
            parameter.data -= training.learning_rate * gradient


def _worst(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).abs().max() / wanted.abs().max())


def run_routes(spec: RoutesSpec, folder: Folder) -> Json:
    """Closed form against autograd, coefficients against weights, rotated copy against the data."""
    folder.conditions(spec.law.check(spec.training.hyper))
    rows: Rows = []
    for seed in spec.seeds:
        rows += folder.once("routes", partial(_routes, spec.law, spec.training, seed), seed=seed).rows
    return {key: max(row[key] for row in rows) for key in rows[0]}


def _run(law: ClusterLaw, batch: ClusterBatch, training: Training, start: Descent, fine: bool) -> Descent:
    a = two_layer.output_weights(training.m)
    step = (
        fine_step(batch, training.h, training.learning_rate)
        if fine
        else binary_step(batch, a, training.learning_rate)
    )
    for t in range(training.steps):
        start = step(start, t)
    return start


def _routes(law: ClusterLaw, t: Training, seed: int) -> tuple[Rows, dict[str, Tensor]]:
    drawn = law.draw(t.n, 2 * t.m + law.k * t.h, seed, compact=False)
    first, second = drawn.directions[: 2 * t.m], drawn.directions[2 * t.m :]
    starts = {
        False: start_binary(first, t.n, t.init_weight, t.init_bias, stream(seed, "init", "bias")),
        True: start_fine(second, t.n, t.init_weight),
    }
    noise = drawn.train.x - law.alpha * drawn.features[drawn.train.cluster]
    copy = rotate(torch.cat([drawn.features, noise, drawn.directions]))
    mu, xi, w0 = (
        copy.coordinates[: law.k],
        copy.coordinates[law.k : law.k + t.n],
        copy.coordinates[law.k + t.n :],
    )
    rotated = ClusterBatch(law.alpha * mu[drawn.train.cluster] + xi, drawn.train.y, drawn.train.cluster)
    norms = law.noise_norms(drawn.train)
    row: dict[str, float] = {}
    for fine, start in starts.items():
        label = "fine" if fine else "binary"
        done = _run(law, drawn.train, t, start, fine)
        module: torch.nn.Module = MultiClassNet(MultiClass(start.w, t.h)) if fine else _module(start, t.m)
        _autograd(module, drawn.train, t, fine)
        found = coefficients(law, drawn.train, norms, done.c)
        turned = start._replace(w=t.init_weight * (w0[2 * t.m :] if fine else w0[: 2 * t.m]))
        there = _run(law, rotated, t, turned, fine)
        sums = torch.stack(
            [
                found.noise[:, drawn.train.cluster == j] @ (1 / norms[drawn.train.cluster == j])
                for j in range(law.k)
            ],
            -1,
        )
        row |= {
            f"{label}_autograd": _worst(done.w, next(module.parameters()).detach()),
            f"{label}_decomposition": _worst(decomposed(law, drawn.train, norms, start.w, found), done.w),
            f"{label}_marginal": _worst(sums, found.features / law.d),
            f"{label}_rotated": _worst(there.w @ copy.basis, done.w),
        }
    return [row], {}


def _module(start: Descent, m: int) -> TwoLayerNet:
    """The 2-class network for autograd; its two logits differ by f."""
    return TwoLayerNet(TwoLayer(start.w, start.b, two_layer.output_weights(m)))


def built_size(spec: BuiltSpec) -> Size:
    """Fresh points and features, met by the network of every pair of biases."""
    held = (spec.test_points + spec.law.k) * spec.law.d
    return Size(held, len(spec.seeds) * held * spec.law.k * len(spec.biases) ** 2)


def routes_size(spec: RoutesSpec) -> Size:
    """Two networks by four routes on one sample."""
    held, neurons = spec.training.n * spec.law.d, 2 * spec.training.m + spec.law.k * spec.training.h
    return Size(held + neurons * spec.law.d, 4 * len(spec.seeds) * spec.training.steps * held * neurons)


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-built",
        "fa",
        "f_FA, θ_avg with any biases, θ_dec and the fragile multi-class network of Proposition 4.8: exact "
        "radii and explicit perturbations",
        BuiltSpec,
        run_built,
        {"quick": "2 s", "cpu": "6 s", "paper": "20 s"},
        highlights=(
            Highlight("averaging/median", "median radius of f_FA"),
            Highlight("averaging/over_root_dk", "… over √(d/k)"),
            Highlight("decoupled/median", "median radius of the decoupled network"),
            Highlight("decoupled/over_root_d", "… over √d"),
        ),
        size=built_size,
        revision=4,
        columns={
            "built": BuiltRow,
            "biased": BiasedRow,
            "explicit": Moved,
            "fragile": FragileRow,
            "fragile_points": FragilePoint,
        },
    ),
    Experiment(
        "clusters-routes",
        "fa",
        "weight decomposition and coefficient updates against autograd descent; the rotated compact copy "
        "against the data",
        RoutesSpec,
        run_routes,
        {"quick": "1 s", "cpu": "3 s", "paper": "30 s"},
        highlights=(Highlight("*", "largest relative difference, {}"),),
        size=routes_size,
        revision=2,
        columns={"routes": Routes},
    ),
)
