"""Networks that FA builds by hand (Definition 4.1, appendix D)."""

from __future__ import annotations

import math
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
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec, require_one_seed
from featscope.laws.clusters import ClusterBatch, ClusterLaw
from featscope.nets import multiclass, two_layer
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import TwoLayer, averaging, averaging_with_bias, decoupled, span
from featscope.papers.fa.clusters import averaging_radius, right


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


def built_size(spec: BuiltSpec) -> Size:
    """Fresh points and features, met by the network of every pair of biases."""
    held = (spec.test_points + spec.law.k) * spec.law.d
    return Size(held, len(spec.seeds) * held * spec.law.k * len(spec.biases) ** 2)


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
)
