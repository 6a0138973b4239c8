"""`patch-fig3`: AT Figure 3, the dynamics and learning curves of standard and adversarial training on the
patch law.

The defaults are the printed numbers, η = .1 and T = 1000, where an epoch is a pass over the data in batches
of 5: the paper prints no batch size, and with this one the switch of phase comes near its epoch 150
(`patch-batches` shows the others). The full batch of AT §2.4 is `--set standard.batch_size=null --set
adversarial.batch_size=null`: then 1000 epochs are 1000 steps, which end in the first phase.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from featscope.attacks.evaluate import evaluate
from featscope.attacks.patch_certificate import certify, is_certified
from featscope.attacks.patch_model_free import model_free
from featscope.attacks.patch_training_attack import Directions, PatchTrainingAttack, right_at_both
from featscope.attacks.pgd import ONE_STEP, PGD, Attack
from featscope.attacks.threat import Threat
from featscope.core.errors import require
from featscope.core.losses import margin
from featscope.core.settings import setting
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics import patch_observables as seen
from featscope.dynamics.patch_descent import Perturb, Weights, training_epoch
from featscope.dynamics.trajectory import Recording, seed_labels, trajectory
from featscope.experiments.cost import Size
from featscope.experiments.spec import Experiment, Spec
from featscope.laws.patches import PatchBatch, PatchLaw, PatchSetting, stack
from featscope.laws.separation import conflict
from featscope.nets.patch_cnn import PatchNet, PatchNetSpec
from featscope.papers.at import printed
from featscope.papers.at.choices import choices
from featscope.papers.at.fig3_columns import DYNAMICS, MATCHING, RADII, ROBUST_OVER, Dynamics, Matching, Radii
from featscope.papers.at.fig3_settings import FEW_POINTS, AdversarialTraining, Measurement, Training
from featscope.papers.at.fig3_summary import summarise
from featscope.papers.at.overview import FIG3_HIGHLIGHTS
from featscope.papers.at.patch_columns import ARMS, Arm


class PatchFig3(Spec):
    """Settings of AT §6.1; the field defaults are those of the `cpu` profile."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            **FEW_POINTS,
            "test_size": 100,
            "adversarial.epochs": 600,
            "standard.epochs": 100,
            "every": 10,
            "evaluation.every": 300,
            "evaluation.points": 40,
            "evaluation.curve_points": 40,
            "evaluation.radii": [0.02, 0.1, 0.3, 1.2],
        },
        "paper": {
            "test_size": 1000,
            "every": 5,
            "evaluation.points": 500,
            "evaluation.curve_points": 200,
        },
    }
    seeds: tuple[int, ...] = setting((0, 1, 2, 3, 4), "the seeds, one independent repetition each")
    law: PatchLaw = setting(PatchLaw(), "the law of the data")
    net: PatchNetSpec = setting(PatchNetSpec(), "the network")
    eps: float = setting(
        printed.FIGURE_3_EPS, "radius of the threat, in training and in evaluation", letter="ε", gt=0
    )
    norm: str = setting("Linf", "norm of the threat: Linf or L2")
    train_size: int = setting(100, "training points", letter="N", ge=1)
    test_size: int = setting(200, "fresh points on which accuracy is measured", ge=1)
    arms: tuple[Arm, ...] = setting(ARMS, "which trainings are made")
    standard: Training = setting(Training(), "gradient descent on clean points")
    adversarial: AdversarialTraining = setting(AdversarialTraining(), "gradient descent on perturbed points")
    evaluation: Measurement = setting(Measurement(), "how robustness is measured")
    every: int = setting(10, "epochs between two recorded rows", ge=1)

    def model_post_init(self, context: object) -> None:
        """Refuse combinations that have no meaning."""
        along = self.norm == "L2" or self.law.frame == "axes"
        require(
            along,
            "norms other than ℓ2 need features along the axes (Def. 2.1)",
            f"norm={self.norm}",
            "use frame=axes or norm=L2",
        )
        some = 0 < len(self.arms) == len(set(self.arms))
        require(
            some,
            "arms must be standard, adversarial or both, each once",
            f"arms={self.arms}",
            "name each once",
        )
        one_step = self.adversarial.attack_steps == 1 or self.adversarial.leaves_one_step_alone
        given = f"attack_steps={self.adversarial.attack_steps}"
        require(one_step, "clip and step_size belong to the one-step attack", given, "leave them out")
        for training in (self.standard, self.adversarial):
            fits = training.batch_size is None or training.batch_size <= self.train_size
            require(
                fits,
                "batch_size must be at most train_size",
                f"{training.batch_size} of {self.train_size}",
                "lower it",
            )
        self.ascent  # noqa: B018 - refuses a clip that the norm does not have
        self.threat("full-ball")

    @property
    def ascent(self) -> PatchTrainingAttack:
        """The training attack."""
        adv = self.adversarial
        return PatchTrainingAttack(
            objective=adv.objective, step_size=adv.step_size, eps=self.eps, norm=self.norm, clip=adv.clip
        )

    def threat(self, name: str, eps: float | None = None) -> Threat:
        """`full-ball`, or `feature-span`: only what lies in the span of the features may change.

        The ball is one of each patch, as the clip of training is; in ℓ∞ that is the ball of the whole point.
        """
        radius = self.eps if eps is None else eps
        if name == "full-ball":
            return Threat(self.norm, radius, event=2, apart=1)
        span = torch.cat(self.law.features(self.torch_dtype))
        if self.law.frame == "axes":
            return Threat(self.norm, radius, event=2, support=span.sum(0), name=name, apart=1)
        return Threat(self.norm, radius, event=2, basis=span, name=name, apart=1)


class Data:
    """Train and test samples of all seeds, with initial weights, stacked along the axis of runs."""

    def __init__(self, spec: PatchFig3) -> None:
        dtype = spec.torch_dtype
        self.train = self._samples(spec, "train", spec.train_size, dtype)
        self.test = self._samples(spec, "test", spec.test_size, dtype)
        self.test_noise = seen.noise_of(spec.law, self.test)
        inits = [spec.net.init(spec.law.k, spec.law.d, stream(seed, "init")) for seed in spec.seeds]
        self.w0 = torch.stack(inits).to(dtype)

    @staticmethod
    def _samples(spec: PatchFig3, name: str, size: int, dtype: torch.dtype) -> PatchBatch:
        return stack([spec.law.sample(size, stream(seed, "data", name)).to(dtype) for seed in spec.seeds])

    def test_of(self, index: int, points: int) -> PatchBatch:
        """The first test points of one run."""
        return PatchBatch(*(part[index, :points] for part in self.test))


def training_attack(spec: PatchFig3, data: Data) -> Perturb:
    """The map (net, X, y) → Δ that adversarial training uses."""
    if spec.adversarial.attack_steps > 1:
        pgd = PGD(spec.adversarial.objective, steps=spec.adversarial.attack_steps, random_start=False)
        threat, rng = spec.threat("full-ball"), stream(0, "training-attack")
        return lambda net, x, y: pgd(net, x, y, threat, rng)
    if spec.adversarial.clip != "coefficient":
        return spec.ascent.perturb
    noiseless = spec.law.sigma_n == 0
    require(
        noiseless,
        "the coefficient clip is defined for noiseless laws",
        f"sigma_n={spec.law.sigma_n}",
        "set sigma_n=0",
    )
    u, v = spec.law.features(spec.torch_dtype)
    directions = Directions(torch.cat([u, v]), data.w0)
    return lambda net, x, y: spec.ascent.perturb(net, x, y, directions)


def attacks(spec: PatchFig3) -> list[Attack]:
    """One step, then PGD on a margin loss and on cross-entropy, aimed at every class in turn where there are
    more than two."""
    steps, restarts = spec.evaluation.steps, spec.evaluation.restarts
    several = spec.law.k > 2
    return [
        ONE_STEP,
        PGD("margin", steps=steps, restarts=restarts, every_target=several),
        PGD("cross-entropy", steps=steps, restarts=restarts),
    ]


def observe(
    spec: PatchFig3, data: Data, attack: Perturb, last: int
) -> Callable[[Weights, int], Mapping[str, Tensor | float]]:
    """Everything that is recorded of a training run; costly quantities every ``evaluation.every`` epochs and
    at the end."""
    law = spec.law

    def look(state: Weights, t: int) -> Mapping[str, Tensor | float]:
        net = spec.net.net(state.w)
        u, v = seen.feature_correlations(state.w, law)
        rest = seen.orthogonal_part(state.w, law)
        train, test = net(data.train.x), seen.feature_outputs(net, data.test, data.test_noise)
        fit, labels = seen.fit_of(train, data.train.y), data.test.y
        row: dict[str, Tensor | float] = {
            Dynamics.loss: fit.loss,
            Dynamics.residual: fit.residual,
            Dynamics.clean_train: fit.accuracy,
            Dynamics.clean_test: seen.share_right(test.whole, labels),
            Dynamics.u: seen.own_correlations(u).amax(-1),
            Dynamics.v: seen.own_correlations(v).amax(-1),
            Dynamics.C: seen.cross_correlations(u),
            Dynamics.D: seen.cross_correlations(v),
            Dynamics.rest_l1: rest.abs().sum(-1).flatten(-2).amax(-1),
            Dynamics.rest_l2: rest.norm(dim=-1).flatten(-2).amax(-1),
            Dynamics.feature_robust: seen.share_right(test.robust, labels),
            Dynamics.feature_non_robust: seen.share_right(test.non_robust, labels),
        }
        if t % spec.evaluation.every == 0 or t == last:
            row |= {Dynamics.u_all: seen.own_correlations(u), Dynamics.v_all: seen.own_correlations(v)}
            row[Dynamics.noise_max] = seen.noise_correlation_max(net, law, data.train)
            row[Dynamics.noise_update_rest] = seen.noise_update_rest(net, law, data.train)
            spread = seen.own_outputs(net, data.train.x, data.train.y)
            row |= {Dynamics.F_max: spread.largest, Dynamics.F_ratio: spread.ratio}
            row |= robust_accuracies(spec, data, net)
        return row | under_training_attack(spec, data, net, attack, train, test.whole)

    return look


def under_training_attack(
    spec: PatchFig3, data: Data, net: PatchNet, attack: Perturb, train: Tensor, test: Tensor
) -> dict[str, Tensor]:
    """Accuracy at X and X̃ at once, on test and on training points, each (runs); the outputs at X are
    known."""
    n = spec.evaluation.points
    sets = {
        Dynamics.robust_training_attack: (data.test.x[:, :n], data.test.y[:, :n], test[:, :n]),
        Dynamics.robust_train_training_attack: (data.train.x, data.train.y, train),
    }
    return {
        str(name): right_at_both(net, x, attack(net, x, y), y, outputs).double().mean(-1)
        for name, (x, y, outputs) in sets.items()
    }


def robust_accuracies(spec: PatchFig3, data: Data, net: PatchNet) -> dict[str, Tensor]:
    """Accuracy under the model-free Δ and under every threat's attacks, each (runs)."""
    n = spec.evaluation.points
    found: dict[str, list[float]] = {name: [] for name in ROBUST_OVER.values()}
    for index, seed in enumerate(spec.seeds):
        one, batch = net.run(index), data.test_of(index, n)
        for threat, name in ROBUST_OVER.items():
            rng = stream(seed, "attack", threat)
            found[name].append(
                evaluate(one, batch.x, batch.y, spec.threat(threat), attacks(spec), rng).accuracy
            )
        if spec.eps >= spec.law.beta_supremum:
            delta = model_free(spec.law, batch, spec.eps, stream(seed, "attack", "model-free"), spec.norm)
            right = margin(one(batch.x + delta), batch.y) > 0
            found.setdefault(Dynamics.robust_model_free, []).append(float(right.double().mean()))
    return {name: torch.tensor(values) for name, values in found.items()}


def radius_curves(spec: PatchFig3, data: Data, w: Tensor, seeds: Sequence[int]) -> Rows:
    """For each of these seeds, threat and radius: attacked and certified bound on the robust accuracy.

    At ε the training points are measured too, and what PGD on cross-entropy alone would report.
    """
    rows: Rows = []
    for seed in seeds:
        index = spec.seeds.index(seed)
        net = spec.net.net(w[index])
        test = data.test_of(index, spec.evaluation.curve_points)
        train = PatchBatch(*(part[index, : spec.evaluation.curve_points] for part in data.train))
        for name in ROBUST_OVER:
            place: dict[str, Any] = {Radii.seed: seed, Radii.threat: name}
            for eps in sorted({*spec.evaluation.radii, spec.eps}):
                found = bracket(spec, net, test, spec.threat(name, eps), seed)
                rows.append({**place, Radii.points: "test", **found})
            rows.append(
                {**place, Radii.points: "train", **bracket(spec, net, train, spec.threat(name), seed)}
            )
    return rows


def bracket(spec: PatchFig3, net: PatchNet, batch: PatchBatch, threat: Threat, seed: int) -> dict[str, float]:
    """One bracket: what every attack left, what is certified by intervals and by tangents, and what
    cross-entropy alone would say."""
    found = evaluate(net, batch.x, batch.y, threat, attacks(spec), stream(seed, "attack", threat.name))
    bounds, outputs = certify(net, batch.x, batch.y, threat), net(batch.x)
    row: dict[str, float] = {
        Radii.eps: threat.eps,
        Radii.upper: found.accuracy,
        Radii.lower: float(is_certified(bounds.linear, outputs).double().mean()),
        Radii.lower_interval: float(is_certified(bounds.interval, outputs).double().mean()),
    }
    if threat.eps == spec.eps:
        naive = [PGD("cross-entropy", steps=spec.evaluation.steps)]
        alone = evaluate(net, batch.x, batch.y, threat, naive, stream(seed, "naive", threat.name))
        row[Radii.cross_entropy_alone] = alone.accuracy
    return row


def certificates(spec: PatchFig3, data: Data, w: Tensor, count: int = 50) -> dict[str, Tensor]:
    """Explicit perturbations of the first run that fool it over the full ball: points, labels, perturbations
    and weights."""
    net, batch = spec.net.net(w[0]), data.test_of(0, count)
    rng = stream(spec.seeds[0], "certificate")
    found = evaluate(net, batch.x, batch.y, spec.threat("full-ball"), attacks(spec), rng)
    return {"x": batch.x, "y": batch.y, "delta": found.delta, "w": net.w}


def train(spec: PatchFig3, folder: Folder, data: Data, arm: Arm) -> Recording[Weights]:
    """Train one arm on all seeds at once."""
    attack = training_attack(spec, data)
    plan = spec.standard if arm == "standard" else spec.adversarial
    step = training_epoch(
        spec.net,
        data.train.x,
        data.train.y,
        plan.learning_rate,
        attack if arm == "adversarial" else None,
        batch_size=plan.batch_size,
        seeds=spec.seeds,
    )
    look, part = observe(spec, data, attack, plan.epochs), folder.part(DYNAMICS, arm=arm)
    start = Weights(data.w0.clone())
    record = trajectory(step, start, plan.epochs, look, spec.every, runs=seed_labels(spec.seeds), keep=part)
    if not record.rows:
        record.healthy(arm, "lower net.sigma_0")
    return record


def measure_radii(
    spec: PatchFig3, folder: Folder, data: Data, arm: Arm, trained: Recording[Weights], evidence: bool = True
) -> Rows:
    """What the final networks withstand, with perturbations as evidence. A run that diverged is no network,
    and has no radii."""
    alive = [seed for seed in spec.seeds if str(seed) not in trained.diverged]
    w, kept = trained.state.w, evidence and spec.seeds[0] in alive

    def make() -> tuple[Rows, Mapping[str, Tensor]]:
        return radius_curves(spec, data, w, alive), certificates(spec, data, w) if kept else {}

    return folder.once(RADII, make, arm=arm).rows


def record_law(spec: PatchFig3, folder: Folder, batch: PatchBatch) -> Json:
    """Record the law's conditions on a sample, and what no classifier can do there."""
    law = spec.law.check(PatchSetting(spec.eps, batch, norm=spec.norm))
    folder.conditions([*law, *choices(spec.law, spec.net, spec.adversarial.step_size)])
    found = conflict(batch.x, batch.y, spec.norm, spec.eps)
    row: Json = {Matching.upper: found.bound, Matching.intersecting_pairs: found.share}
    folder.add(
        MATCHING,
        [{Matching.seed: spec.seeds[0], **row}],
        {"x": batch.x, "y": batch.y, "left": found.left, "right": found.right},
    )
    return row


def run(spec: PatchFig3, folder: Folder) -> Json:
    """Train each arm on all seeds at once, then measure what the final networks withstand."""
    data = Data(spec)
    summary: Json = {"any_classifier": record_law(spec, folder, data.test_of(0, min(spec.test_size, 400)))}
    for arm in spec.arms:
        trained = train(spec, folder, data, arm)
        radii = measure_radii(spec, folder, data, arm, trained)
        summary[arm] = summarise(trained, radii, spec.eps, arm)
    return summary


def size(spec: PatchFig3) -> Size:
    """Samples and weights of every seed; each epoch meets every point with every neuron."""
    law, runs = spec.law, len(spec.seeds) * len(spec.arms)
    points = (spec.train_size + spec.test_size) * law.patches * law.d
    weights = law.k * spec.net.width * law.d
    epochs = spec.standard.epochs + spec.adversarial.epochs * (1 + spec.adversarial.attack_steps)
    looks = epochs / spec.evaluation.every * spec.evaluation.steps * spec.evaluation.restarts
    products = spec.train_size * epochs + spec.evaluation.points * looks
    return Size(runs * (points + 3 * weights), runs * products * law.patches * weights)


EXPERIMENTS = (
    Experiment(
        name="patch-fig3",
        paper="at",
        shows="AT Figure 3: correlations with robust and non-robust features and learning curves, standard "
        "against adversarial training",
        spec=PatchFig3,
        run=run,
        takes={"quick": "10 s", "cpu": "3 min", "paper": "8 min"},
        highlights=FIG3_HIGHLIGHTS,
        size=size,
        revision=5,
        columns={DYNAMICS: Dynamics, RADII: Radii, MATCHING: Matching},
    ),
)
