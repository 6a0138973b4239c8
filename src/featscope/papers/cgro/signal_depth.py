"""`signal-depth`: do deeper networks on CGRO's law generalise clean and memorise under attack, too?

Networks of one to four convolutional layers with ReLU and a residual one, trained on (O) with the points of
(A), all layers trained. Beside them the same networks trained on clean points alone (λ = 0). Robustness is
read at the points of (A) with the paper's linear target, which training was given, and at those of (A) with
the clean network of the same seed as the target g: (A) is defined for any classifier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from featscope.attacks.gta import GTA, transferred
from featscope.attacks.threat import Threat
from featscope.core.columns import Columns, column
from featscope.core.errors import require
from featscope.core.losses import CROSS_ENTROPY, margin
from featscope.core.rows import last_rows
from featscope.core.settings import setting
from featscope.core.signs import label_index, share
from featscope.core.store import Folder, Json, Rows, table
from featscope.core.streams import stream
from featscope.dynamics.trajectory import Recording, Step, seed_labels, trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Spec
from featscope.laws.signal import SignalLaw, SignalSetting
from featscope.nets.deep_patch import CONVOLUTIONAL, DeepKind, DeepPatchNet

Arm = Literal["clean", "attacked"]
ARMS: tuple[Arm, ...] = ("clean", "attacked")
DYNAMICS, AIMED = "dynamics", "aimed"


class SignalDepth(Spec):
    """CGRO's law, full batch, every layer trained."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"seeds": [0, 1], "law.d": 64, "n": 10, "width": 8, "steps": 20, "every": 10, "test": 50},
        "paper": {"law.d": 1024, "n": 50, "width": 32, "steps": 2000, "every": 50, "test": 2000},
    }

    seeds: tuple[int, ...] = setting((0, 1, 2, 3, 4), "seeds of data and initial weights")
    dtype: Literal["float32", "float64"] = setting("float32", "precision of the computation")
    law: SignalLaw = setting(SignalLaw(d=256), "the law of the data")
    nets: tuple[DeepKind, ...] = setting(CONVOLUTIONAL, "the networks, by their convolutional layers")
    n: int = setting(20, "training points", letter="N", ge=1)
    width: int = setting(16, "channels of every convolution", letter="m", ge=1)
    learning_rate: float = setting(0.1, "step size of gradient descent", letter="η", gt=0)
    tradeoff: float = setting(0.9, "weight of the perturbed loss in (O)", letter="λ", gt=0, le=1)
    steps: int = setting(400, "steps of gradient descent", letter="T", ge=1)
    every: int = setting(20, "steps between two recorded rows", ge=1)
    test: int = setting(400, "fresh points on which accuracy is measured", ge=1)

    def model_post_init(self, context: object) -> None:
        """Refuse what has no meaning."""
        some = 0 < len(self.nets) == len(set(self.nets))
        require(some, "networks must be named, each once", f"nets={self.nets}", "name each once")

    def net(self, kind: DeepKind) -> DeepPatchNet:
        """A network of the law's shape with two outputs."""
        return DeepPatchNet(kind, self.width, 2, self.law.d)


class DepthDynamics(Columns):
    """One row for each network, arm, seed and recorded step."""

    net = column("conv-1 … conv-4 by their convolutional layers, or residual")
    arm = column("clean (λ = 0) or attacked (λ of the spec)")
    seed = column("the seed of data and initial weights")
    step = column("steps of descent done")
    loss = column("value of (O)")
    clean_train = column("clean accuracy of the training points")
    clean_test = column("clean accuracy of fresh points")
    gta_train = column("accuracy of the training points at their points of (A), linear target")
    gta_test = column("accuracy of fresh points at their points of (A), linear target")


class Aimed(Columns):
    """One row for each network and seed: the attacked arm at points of (A) aimed at the clean arm."""

    net = column("conv-1 … conv-4 by their convolutional layers, or residual")
    seed = column("the seed of data and initial weights")
    target_test = column("accuracy of the target itself at these points of fresh examples")
    aimed_train = column("accuracy of the training points at points of (A) with the clean network as g")
    aimed_test = column("accuracy of fresh points at points of (A) with the clean network as g")


class Parameters(NamedTuple):
    """The parameters of all runs, (runs, size)."""

    w: Tensor


class Data(NamedTuple):
    """Points, their points of (A), and labels as class indices, training and fresh, all seeds stacked."""

    train: Tensor
    train_moved: Tensor
    train_y: Tensor
    test: Tensor
    test_moved: Tensor
    test_y: Tensor


def sampled(spec: SignalDepth) -> Data:
    """The samples of all seeds."""
    parts: list[Tensor] = []
    for name, n in (("train", spec.n), ("test", spec.test)):
        batches = [spec.law.sample(n, stream(seed, "data", name)) for seed in spec.seeds]
        moved = [transferred(batch.x, batch.y, spec.law) for batch in batches]
        parts += [torch.stack([batch.x for batch in batches]).to(spec.torch_dtype)]
        parts += [torch.stack(moved).to(spec.torch_dtype)]
        parts += [torch.stack([label_index(batch.y) for batch in batches])]
    return Data(*parts)


def objective(net: DeepPatchNet, w: Tensor, data: Data, lam: float) -> Tensor:
    """(O) of every run: (1−λ)·loss at the points + λ·loss at their points of (A)."""
    value = torch.zeros(len(data.train), dtype=w.dtype)
    for weight, points in ((1 - lam, data.train), (lam, data.train_moved)):
        if weight:
            value = value + weight * CROSS_ENTROPY.value(net.outputs(w, points), data.train_y).mean(-1)
    return value


def training_step(spec: SignalDepth, net: DeepPatchNet, data: Data, lam: float) -> Step[Parameters]:
    """w ← w − η∇(O)."""

    def step(state: Parameters, t: int) -> Parameters:
        with torch.enable_grad():
            leaf = state.w.detach().requires_grad_(True)
            # The runs share no parameter: the gradient of the sum is that of each.
            (gradient,) = torch.autograd.grad(objective(net, leaf, data, lam).sum(), leaf)
        return Parameters(state.w - spec.learning_rate * gradient)

    return step


def observe(
    net: DeepPatchNet, data: Data, lam: float
) -> Callable[[Parameters, int], Mapping[str, Tensor | float]]:
    """Accuracies at the points and at their points of (A)."""
    c = DepthDynamics

    @torch.no_grad()
    def look(state: Parameters, t: int) -> Mapping[str, Tensor | float]:
        def right(x: Tensor, y: Tensor) -> Tensor:
            return share(margin(net.outputs(state.w, x), y) > 0)

        return {
            c.loss: objective(net, state.w, data, lam),
            c.clean_train: right(data.train, data.train_y),
            c.clean_test: right(data.test, data.test_y),
            c.gta_train: right(data.train_moved, data.train_y),
            c.gta_test: right(data.test_moved, data.test_y),
        }

    return look


def train(spec: SignalDepth, folder: Folder, data: Data, kind: DeepKind, arm: Arm) -> Recording[Parameters]:
    """Train one network on all seeds at once."""
    net, lam = spec.net(kind), 0.0 if arm == "clean" else spec.tradeoff
    start = torch.stack([net.init(stream(seed, "init", kind)) for seed in spec.seeds]).to(spec.torch_dtype)
    return trajectory(
        training_step(spec, net, data, lam),
        Parameters(start),
        spec.steps,
        observe(net, data, lam),
        spec.every,
        runs=seed_labels(spec.seeds),
        keep=folder.part(DYNAMICS, net=kind, arm=arm),
    )


def aimed(spec: SignalDepth, net: DeepPatchNet, data: Data, target: Tensor, w: Tensor) -> Rows:
    """The attacked networks at points of (A) with each seed's clean network as the target."""
    c, threat = Aimed, Threat("L2", spec.law.radius, 2)
    rows: Rows = []
    for index, seed in enumerate(spec.seeds):

        def outputs(x: Tensor, of: Tensor, index: int = index) -> Tensor:
            return net.outputs(of[index], x)

        # A deep target's gradient has any length, so the step is the geometric one.
        attack = GTA(lambda x: outputs(x, target), 1 - spec.law.residual, "geometric")

        def right(of: Tensor, x: Tensor, y: Tensor, attack: GTA = attack) -> float:
            delta = attack(attack.target, x, y, threat, stream(0, "attack"))
            return float(share(margin(outputs(x + delta, of), y) > 0))

        test = (data.test[index], data.test_y[index])
        rows.append(
            {
                c.seed: seed,
                c.target_test: right(target, *test),
                c.aimed_train: right(w, data.train[index], data.train_y[index]),
                c.aimed_test: right(w, *test),
            }
        )
    return rows


def summarise(trained: Recording[Parameters]) -> Json:
    """The last values by seed; seeds that diverged are listed."""
    last = last_rows(table(trained.rows))
    shown = [name for name in DepthDynamics.all() if name in last.columns]
    lost = {"diverged": trained.diverged, "how": trained.how} if trained.diverged else {}
    return {**{str(name): last[name].to_list() for name in shown}, **lost}


def run(spec: SignalDepth, folder: Folder) -> Json:
    """Train every network both ways, and aim (A) at the clean one."""
    # Parameterization 3.1 speaks of the law and of N; its start and step are those of the cubic network.
    setting = SignalSetting(spec.n, spec.law.d**-0.5, spec.learning_rate, spec.tradeoff)
    folder.conditions(spec.law.check(setting))
    data = sampled(spec)
    facts: Json = {}
    for kind in spec.nets:
        done = {arm: train(spec, folder, data, kind, arm) for arm in ARMS}
        with torch.no_grad():
            rows = aimed(spec, spec.net(kind), data, done["clean"].state.w, done["attacked"].state.w)
        folder.add(AIMED, rows, None, net=kind)
        shown = {key: [row[key] for row in rows] for key in (Aimed.aimed_train, Aimed.aimed_test)}
        facts[kind] = {**{arm: summarise(done[arm]) for arm in ARMS}, "aimed": shown}
    return facts


def size(spec: SignalDepth) -> Size:
    """All layers at every patch of all points and runs, forwards and backwards, clean and attacked."""
    patches = len(spec.seeds) * (spec.n + spec.test) * spec.law.patches
    shapes = [shape for kind in spec.nets for shape in spec.net(kind).shapes]
    channels = sum(rows + columns for rows, columns in shapes)
    return Size(
        patches * channels, 12 * spec.steps * patches * sum(rows * columns for rows, columns in shapes)
    )


EXPERIMENTS = (
    Experiment(
        name="signal-depth",
        paper="cgro",
        shows="one to four convolutional layers and a residual net on CGRO's law, trained on (O): clean "
        "generalisation, memorised attacks",
        spec=SignalDepth,
        run=run,
        takes={"quick": "3 s", "cpu": "15 s", "paper": "not measured; some minutes"},
        highlights=(
            Highlight("*/attacked/clean_test", "clean accuracy on fresh points by seed, {}", "share"),
            Highlight("*/attacked/gta_train", "accuracy at (A) on training points by seed, {}", "share"),
            Highlight("*/attacked/gta_test", "accuracy at (A) on fresh points by seed, {}", "share"),
            Highlight(
                "*/aimed/aimed_test", "the same with the clean network as the target, by seed, {}", "share"
            ),
        ),
        size=size,
        columns={DYNAMICS: DepthDynamics, AIMED: Aimed},
    ),
)
