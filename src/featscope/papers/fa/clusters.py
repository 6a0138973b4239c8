"""What the experiments on FA's cluster model share: the setting of §6.1, and training both networks in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeVar

import torch
from pydantic import model_validator
from torch import Tensor

from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.frozen import Value
from featscope.core.health import Diverged
from featscope.core.settings import setting
from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import Descent, binary_step, fine_step, start_binary, start_fine
from featscope.dynamics.cluster_observables import ClusterObservables
from featscope.dynamics.trajectory import trajectory
from featscope.experiments.cost import Size
from featscope.experiments.spec import Spec
from featscope.laws.clusters import ClusterBatch, ClusterDraw, ClusterLaw, ClusterSetting
from featscope.nets import multiclass, two_layer
from featscope.nets.multiclass import MultiClass
from featscope.nets.two_layer import TwoLayer

R = TypeVar("R")


class Course(Columns):
    """One row for each seed and recorded step of a network's training.

    Own means of the neuron's own class (k-class: cluster).
    """

    seed = column("the seed of data and initial weights")
    step = column("t, steps of descent")
    loss = column("mean training loss")
    train = column("training accuracy")
    margin_min = column("least margin of a training point")
    margin_max = column("largest margin of a training point")
    slope_ratio = column("largest ÷ least |ℓ'| of training points")
    own_active = column("share of (point, own neuron) pairs with a pre-activation ≥ 0")
    lambda_min = column("least λ of an own feature")
    lambda_max = column("largest λ of an own feature")
    lambda_mean = column("mean λ of own features")
    lambda_ratio = column("lambda_max ÷ lambda_min; −1 where the least is not positive")
    lambda_other = column("largest |λ| of another feature")
    lambda_other_top = column("largest λ of another feature")
    sigma_min = column("least σ of an own point")
    sigma_max = column("largest σ of an own point")
    sigma_other = column("largest |σ| of another point")
    sigma_other_top = column("largest σ of another point")
    deviation = column("√d · ‖w_r − λ Σ μ_j/‖μ_j‖²‖ over own features, largest over neurons")
    cosine_mean = column("mean cosine of a weight with an own feature")
    cosine_min = column("least cosine of a weight with an own feature")
    cosine_max = column("largest cosine of a weight with an own feature")
    cosine_other_max = column("largest |cosine| of a weight with another feature")


class BinaryCourse(Course):
    """One row for each seed and recorded step of the 2-class network's training."""

    bias = column("largest |b_r|")
    other_active = column("share of (point, other class's neuron) pairs with a pre-activation ≥ 0")


#: the parts that `train` writes
COURSES: dict[str, type[Columns]] = {"binary": BinaryCourse, "fine": Course}


def averaging_radius(law: ClusterLaw) -> float:
    """2(1+c)√(d/k), at which Theorem 4.5's proof fools the 2-class network."""
    return 2 * (1 + law.balance) * math.sqrt(law.d / law.k)


def decoupling_radius(law: ClusterLaw) -> float:
    """√d/10, within which Theorem 4.7's proof finds the read-out of the k-class network robust."""
    return math.sqrt(law.d) / 10


class Training(Value):
    """Points n, neurons m (2-class) and h (k-class) a class, learning rate, initial scales, steps.

    The defaults are §6.1's values.
    """

    n: int = setting(1000, "training points", letter="n", ge=1)
    m: int = setting(5, "neurons of each sign of the 2-class network", letter="m", ge=1)
    h: int = setting(1, "neurons of each class of the k-class network", letter="h", ge=1)
    learning_rate: float = setting(1e-3, "step size of gradient descent", letter="η", gt=0)
    init_weight: float = setting(1e-5, "standard deviation of the first weights", letter="σ_w", ge=0)
    init_bias: float = setting(1e-5, "standard deviation of the first biases", letter="σ_b", ge=0)
    steps: int = setting(100, "steps of gradient descent", letter="T", ge=1)
    compact: bool = setting(False, "train the isometric copy in law, whose cost does not depend on d")

    @property
    def hyper(self) -> ClusterSetting:
        """What Assumption 4.3 speaks of."""
        return ClusterSetting(self.n, self.m, self.learning_rate, self.init_weight, self.init_bias)


class ClusterSpec(Spec):
    """A law, a training, how many test points, and how often rows are taken."""

    law: ClusterLaw = setting(ClusterLaw(), "the law of the data")
    training: Training = setting(Training(), "points, neurons and gradient descent")
    test_points: int = setting(500, "fresh points on which accuracy is measured", ge=1)
    every: int = setting(5, "steps between two recorded rows", ge=1)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        n, k = self.training.n, self.law.k
        require(
            n >= k, "the training set needs a point for each cluster", f"n={n}, k={k}", "raise n to k or more"
        )
        vectors, room = n + 2 * self.training.m + k * self.training.h, self.law.d - k
        require(
            not self.training.compact or vectors <= room,
            "a compact copy needs at least as many dimensions as vectors",
            f"d−k={room}, n+weights={vectors}",
            "raise d, lower n or set compact=false",
        )
        return self


def cluster_training_size(spec: ClusterSpec) -> Size:
    """Sample and fresh points in d coordinates, or in those of the compact copy, met by all neurons."""
    t, law = spec.training, spec.law
    neurons = 2 * t.m + law.k * t.h
    coordinates = t.n + law.k + neurons if t.compact else law.d
    held = (t.n + spec.test_points + neurons) * coordinates
    return Size(held, len(spec.seeds) * t.steps * t.n * coordinates * neurons)


@dataclass(frozen=True)
class TrainedPair:
    """Both networks trained on one draw of one law."""

    law: ClusterLaw
    training: Training
    seed: int
    drawn: ClusterDraw
    binary_state: Descent
    fine_state: Descent

    @property
    def binary(self) -> TwoLayer:
        """The 2-class network."""
        return TwoLayer(
            self.binary_state.w,
            self.binary_state.b,
            two_layer.output_weights(self.training.m, self.drawn.features.dtype),
        )

    @property
    def fine(self) -> MultiClass:
        """The k-class network."""
        return MultiClass(self.fine_state.w, self.training.h)

    @cached_property
    def watch(self) -> ClusterObservables:
        """The observables of the run."""
        return ClusterObservables(self.law, self.drawn.train)

    def test(self, n: int) -> ClusterBatch:
        """n fresh points in the run's coordinates."""
        like = self.drawn.features
        return self.law.sample(n, stream(self.seed, "data", "test"), like.shape[1], like.dtype)

    def clean(self, batch: ClusterBatch) -> tuple[float, float]:
        """Share of points with the right sign, sgn(0) = −1: 2-class network, read-out of the k-class one."""
        f = two_layer.forward(self.binary, batch.x)
        g = multiclass.readout(multiclass.logits(self.fine, batch.x), self.law.signs(batch.x.dtype))
        return right(f, batch.y), right(g, batch.y)


def right(score: Tensor, y: Tensor) -> float:
    """Share of points with sgn(score) = y, sgn(0) = −1."""
    return float((torch.where(score > 0, 1.0, -1.0).to(y) == y).double().mean())


def train(
    spec: Spec, law: ClusterLaw, training: Training, seed: int, folder: Folder | None, every: int
) -> TrainedPair:
    """Train both networks on the same points; rows go to the parts `binary` and `fine` of the seed."""
    neurons, classes = 2 * training.m, law.k * training.h
    drawn = law.draw(training.n, neurons + classes, seed, compact=training.compact, dtype=spec.torch_dtype)
    watch = ClusterObservables(law, drawn.train)
    a = two_layer.output_weights(training.m, spec.torch_dtype)
    first = start_binary(
        drawn.directions[:neurons],
        training.n,
        training.init_weight,
        training.init_bias,
        stream(seed, "init", "bias"),
    )
    second = start_fine(drawn.directions[neurons:], training.n, training.init_weight)
    eta, steps = training.learning_rate, training.steps
    binary = trajectory(
        binary_step(drawn.train, a, eta),
        first,
        steps,
        lambda state, t: watch.binary(state, a),
        every,
        keep=folder.part("binary", seed=seed) if folder else None,
    )
    fine = trajectory(
        fine_step(drawn.train, training.h, eta),
        second,
        steps,
        lambda state, t: watch.fine(state, training.h),
        every,
        keep=folder.part("fine", seed=seed) if folder else None,
    )
    for name, record in (("binary", binary), ("fine", fine)):
        record.healthy(f"{name} network, seed {seed}", "lower training.learning_rate")
    return TrainedPair(law, training, seed, drawn, binary.state, fine.state)


def each_healthy(seeds: Sequence[int], measure: Callable[[int], R]) -> tuple[list[R], Json]:
    """What ``measure`` gives for every seed whose training stays with the numbers, and a note of the others.

    No seed left is an error.
    """
    found: list[R] = []
    lost: dict[str, str] = {}
    for seed in seeds:
        try:
            found.append(measure(seed))
        except Diverged as error:
            lost[str(seed)] = str(error)
            if len(lost) == len(seeds):
                raise
    return found, {"diverged": lost} if lost else {}
