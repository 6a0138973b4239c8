"""`patch-depth`: does the order of learning survive in deeper networks (AT §7)?

Networks of one to four convolutional layers, a small residual one and one with attention, trained on the
patch law as it is and at §2.5's one-step perturbations with the patch clip. What they have learned is read by
feature learning accuracy (Def. 4.1), which asks for no weights, and by Theorem 4.3's Δ, which looks at no
model. The field defaults are a reduced run; the full one is the `paper` profile, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from featscope.attacks.patch_model_free import model_free
from featscope.core.balls import ball
from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.losses import CROSS_ENTROPY, margin, own
from featscope.core.rows import last_rows
from featscope.core.settings import setting
from featscope.core.store import Folder, Json, table
from featscope.core.streams import stream
from featscope.dynamics.trajectory import Recording, Step, seed_labels, trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Spec
from featscope.laws.patches import PatchBatch, PatchLaw, PatchSetting, stack
from featscope.nets.deep_patch import DEEP_KINDS, DeepKind, DeepPatchNet
from featscope.papers.at import printed
from featscope.papers.at.patch_columns import ARMS, Arm

DEPTH_DYNAMICS = "dynamics"


class DepthDynamics(Columns):
    """One row for each network, arm, seed and recorded step."""

    net = column("conv-1 … conv-4 by their convolutional layers, residual, or attention")
    arm = column("standard or adversarial")
    seed = column("the seed of data, initial weights and the model-free Δ")
    step = column("steps of descent done")
    loss = column("mean cross-entropy of the training points")
    clean_test = column("accuracy on the test points")
    feature_robust = column("accuracy on D_R, where only robust features are left")
    feature_non_robust = column("accuracy on D_NR, where only non-robust features are left")
    margin_robust = column("median margin on D_R")
    margin_non_robust = column("median margin on D_NR")
    robust_model_free = column("test points right under the Δ that looks at no model")
    robust_training_attack = column("test points right at X and at X̃")


class PatchDepth(Spec):
    """Figure 3's law, full batch, one step of the training attack."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0, 1],
            "width": 4,
            "train_size": 20,
            "test_size": 40,
            "steps": 6,
            "every": 3,
        },
        "paper": {
            "law.d": 100,
            "law.sigma_n": 0.1,
            "width": 16,
            "train_size": 60,
            "learning_rate": 0.1,
            "steps": 300,
            "every": 10,
        },
    }
    seeds: tuple[int, ...] = setting((0, 1, 2, 3, 4), "seeds of data and initial weights")
    dtype: Literal["float32", "float64"] = setting("float32", "precision of the computation")
    law: PatchLaw = setting(PatchLaw(d=40, sigma_n=40**-0.5), "the law of the data")
    nets: tuple[DeepKind, ...] = setting(DEEP_KINDS, "the networks, by their layers")
    width: int = setting(8, "channels of every convolution", letter="m", ge=1)
    eps: float = setting(printed.FIGURE_3_EPS, "radius of training and of the model-free Δ", letter="ε", gt=0)
    train_size: int = setting(40, "training points", letter="N", ge=1)
    test_size: int = setting(200, "test points", ge=1)
    learning_rate: float = setting(0.2, "step size of gradient descent", letter="η", gt=0)
    steps: int = setting(120, "steps of gradient descent", letter="T", ge=1)
    step_size: float = setting(
        printed.FIGURE_3_ATTACK_STEP_SIZE, "step size of the training attack", letter="η̃", gt=0
    )
    every: int = setting(6, "steps between two recorded rows", ge=1)

    def model_post_init(self, context: object) -> None:
        """Refuse what has no meaning."""
        some = 0 < len(self.nets) == len(set(self.nets))
        require(some, "networks must be named, each once", f"nets={self.nets}", "name each once")
        along = self.law.frame == "axes"
        require(along, "the ℓ∞ ball goes with features along the axes (Def. 2.1)", self.law.frame, "use axes")
        reach = self.eps >= self.law.beta_supremum
        given = f"eps={self.eps}, β={self.law.beta_supremum}"
        require(reach, "the model-free Δ needs eps of at least β", given, "raise eps")

    def net(self, kind: DeepKind) -> DeepPatchNet:
        """A network of the law's shape."""
        return DeepPatchNet(kind, self.width, self.law.k, self.law.d)


class Parameters(NamedTuple):
    """The parameters of all runs, (runs, size)."""

    w: Tensor


class Data:
    """Train and test samples of all seeds, and what is made of the test points."""

    def __init__(self, spec: PatchDepth) -> None:
        law, dtype = spec.law, spec.torch_dtype
        self.train = stack([law.sample(spec.train_size, stream(s, "data", "train")) for s in spec.seeds]).to(
            dtype
        )
        tests = [law.sample(spec.test_size, stream(s, "data", "test")) for s in spec.seeds]
        swaps = [
            model_free(law, batch, spec.eps, stream(seed, "attack", "model-free"))
            for seed, batch in zip(spec.seeds, tests, strict=True)
        ]
        test = stack(tests)
        self.test, self.y = test.to(dtype), test.y
        self.robust = law.restrict(test, "robust").x.to(dtype)
        self.non_robust = law.restrict(test, "non-robust").x.to(dtype)
        self.swapped = (test.x + torch.stack(swaps)).to(dtype)


def one_step(spec: PatchDepth, net: DeepPatchNet, w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Δ of §2.5: η̃ times the gradient of −F_y, each patch rescaled into the ball."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_(True)
        (gradient,) = torch.autograd.grad(own(net.outputs(w.detach(), leaf), y).sum(), leaf)
    return ball("Linf", spec.eps).rescale(-gradient, spec.step_size)


def training_step(spec: PatchDepth, net: DeepPatchNet, data: Data, arm: Arm) -> Step[Parameters]:
    """w ← w − η ∇_w mean L_CE(F; X + Δ, y), with Δ = 0 in standard training."""
    x, y = data.train.x, data.train.y

    def step(state: Parameters, t: int) -> Parameters:
        points = x if arm == "standard" else x + one_step(spec, net, state.w, x, y)
        with torch.enable_grad():
            leaf = state.w.detach().requires_grad_(True)
            # The runs share no parameter: the gradient of the sum is that of each.
            loss = CROSS_ENTROPY.value(net.outputs(leaf, points), y).mean(-1).sum()
            (gradient,) = torch.autograd.grad(loss, leaf)
        return Parameters(state.w - spec.learning_rate * gradient)

    return step


def observe(
    spec: PatchDepth, net: DeepPatchNet, data: Data
) -> Callable[[Parameters, int], Mapping[str, Tensor | float]]:
    """What a network has learned, and what fools it."""

    def right(margins: Tensor) -> Tensor:
        return (margins > 0).double().mean(-1)

    @torch.no_grad()
    def look(state: Parameters, t: int) -> Mapping[str, Tensor | float]:
        def margins(x: Tensor, y: Tensor = data.y) -> Tensor:
            return margin(net.outputs(state.w, x), y)

        clean, robust, other = margins(data.test.x), margins(data.robust), margins(data.non_robust)
        attacked = margins(data.test.x + one_step(spec, net, state.w, data.test.x, data.y))
        fit = CROSS_ENTROPY.value(net.outputs(state.w, data.train.x), data.train.y)
        return {
            DepthDynamics.loss: fit.mean(-1),
            DepthDynamics.clean_test: right(clean),
            DepthDynamics.feature_robust: right(robust),
            DepthDynamics.feature_non_robust: right(other),
            DepthDynamics.margin_robust: robust.median(-1).values,
            DepthDynamics.margin_non_robust: other.median(-1).values,
            DepthDynamics.robust_model_free: right(margins(data.swapped)),
            DepthDynamics.robust_training_attack: right(torch.minimum(clean, attacked)),
        }

    return look


def train(spec: PatchDepth, folder: Folder, data: Data, kind: DeepKind, arm: Arm) -> Recording[Parameters]:
    """Train one network on all seeds at once."""
    net = spec.net(kind)
    start = torch.stack([net.init(stream(seed, "init", kind)) for seed in spec.seeds]).to(spec.torch_dtype)
    return trajectory(
        training_step(spec, net, data, arm),
        Parameters(start),
        spec.steps,
        observe(spec, net, data),
        spec.every,
        runs=seed_labels(spec.seeds),
        keep=folder.part(DEPTH_DYNAMICS, net=kind, arm=arm),
    )


def summarise(trained: Recording[Parameters]) -> Json:
    """The last values by seed; seeds that diverged are listed."""
    last = last_rows(table(trained.rows))
    shown = [name for name in DepthDynamics.all() if name in last.columns]
    lost = {"diverged": trained.diverged, "how": trained.how} if trained.diverged else {}
    return {**{str(name): last[name].to_list() for name in shown}, **lost}


def run(spec: PatchDepth, folder: Folder) -> Json:
    """Train every network both ways."""
    data = Data(spec)
    sample = PatchBatch(*(part[0].double() if part.is_floating_point() else part[0] for part in data.test))
    folder.conditions(spec.law.check(PatchSetting(spec.eps, sample)))
    return {
        kind: {arm: summarise(train(spec, folder, data, kind, arm)) for arm in ARMS} for kind in spec.nets
    }


def size(spec: PatchDepth) -> Size:
    """All layers at every patch of all points and runs, forwards and backwards, twice under attack."""
    patches = len(spec.seeds) * (spec.train_size + spec.test_size) * spec.law.patches
    shapes = [shape for kind in spec.nets for shape in spec.net(kind).shapes]
    channels = sum(rows + columns for rows, columns in shapes)
    return Size(
        patches * channels, 9 * spec.steps * patches * sum(rows * columns for rows, columns in shapes)
    )


EXPERIMENTS = (
    Experiment(
        name="patch-depth",
        paper="at",
        shows="one to four convolutional layers, a residual net and a small transformer on AT's patch law: "
        "which features are learned, standard and adversarial",
        spec=PatchDepth,
        run=run,
        takes={"quick": "3 s", "cpu": "20 s", "paper": "8 min"},
        highlights=(
            Highlight("*/*/feature_robust", "accuracy on D_R by seed, {}, {}", "share"),
            Highlight("*/*/feature_non_robust", "accuracy on D_NR by seed, {}, {}", "share"),
            Highlight("*/*/robust_model_free", "accuracy under the model-free Δ by seed, {}, {}", "share"),
        ),
        size=size,
        revision=2,
        columns={DEPTH_DYNAMICS: DepthDynamics},
    ),
)
