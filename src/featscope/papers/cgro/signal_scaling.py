"""Experiment `signal-scaling`: where Theorem 4.1 stops holding (N, λ, d), and other attacks than (A)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from featscope.attacks.gta import transferred
from featscope.core.columns import Columns, column
from featscope.core.settings import RadiusList, Shares, Sizes, setting
from featscope.core.signs import share
from featscope.core.store import Folder, Json, Rows
from featscope.core.streams import stream
from featscope.dynamics.signal_descent import Components, CubicWeights, descent_step, steepest_ball
from featscope.dynamics.trajectory import Recording, seed_labels, trajectory
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.signal import Instance, SignalBatch, SignalLaw, stack
from featscope.nets.cubic_cnn import output, signal_output
from featscope.papers.cgro.signal_robustness import Case
from featscope.papers.cgro.signal_stages import ACCURACIES, SignalStages, predictions, train
from featscope.papers.cgro.stages_columns import Outcome, Training

Row = dict[str, Any]
#: α³U beyond which training has run away (a healthy run at radius δ/2 stays below 10⁶).
BLOWN_UP = 1e50


class SignalScaling(Spec):
    """Sweeps around the setting of `signal-stages`, on compact copies in law where d allows."""

    profiles: ClassVar[Mapping[str, Overrides]] = {
        "quick": {
            "samples": [2, 5, 10, 20], "dimensions": [256, 512, 1024], "dimension_n": 5,
            "tradeoffs": [0.0, 0.9], "tradeoff_steps": 1000, "attack_steps": 100, "test": 500,
        },
        "paper": {
            "dimensions": [1024, 2048, 4096, 8192, 16384, 32768, 65536],
            "samples": [2, 5, 10, 20, 40, 80, 160],
        },
    }  # fmt: skip

    dtype: Literal["float64"] = "float64"
    m: int = setting(10, "width of the network", letter="m", ge=1)
    learning_rate: float = setting(0.1, "step size of gradient descent", letter="η", gt=0)
    test: int = setting(2000, "fresh points on which accuracy is measured", ge=1)
    samples: Sizes = setting(
        (2, 5, 10, 20, 40, 80),
        "training points that are swept, with d = samples_d and 1−γ = 1/√d",
        letter="N",
    )
    samples_d: int = setting(512, "dimension of the sweep over N", ge=2)
    steps_per_sample: int = setting(300, "T = this · N", ge=1)
    dimensions: Sizes = setting(
        (512, 1024, 2048, 4096, 8192), "dimensions that are swept, with η ∝ α⁻²", letter="d"
    )
    dimension_n: int = setting(20, "training points of the sweep over d", ge=1)
    tradeoffs: Shares = setting(
        (0.0, 0.5, 0.9, 0.99, 1.0), "weights of the perturbed loss that are swept", letter="λ"
    )
    tradeoff_n: int = setting(20, "training points of the sweep over λ", ge=1)
    tradeoff_steps: int = setting(6000, "steps of the sweep over λ", ge=1)
    starts: int = setting(40, "seeds of the sweep of first steps, for T0", ge=1)
    start_steps: int = setting(1000, "most steps until the signal is learned, for T0", ge=1)
    attacks: tuple[Literal["gta", "fgsm", "pgd"], ...] = setting(
        ("gta", "fgsm", "pgd"), "training attacks that are compared", min_length=1
    )
    attack_radii: RadiusList = setting((0.1, 1.0), "shares of δ for FGSM and PGD in training")
    attack_n: int = setting(20, "training points of that comparison", ge=1)
    attack_steps: int = setting(3000, "steps of that comparison", ge=1)

    def stages(self, **changes: Any) -> SignalStages:
        """The setting of `signal-stages` with changes."""
        base = {"seeds": self.seeds, "m": self.m, "learning_rate": self.learning_rate, "test": self.test}
        return SignalStages(**{**base, "verify_steps": 0, **changes})


class Ended(Outcome):
    """The end of one training of a sweep."""

    critical_samples = column("N* at the setting")


class SampleSweep(Ended):
    """The end of one training with N points."""

    n = column("training points N")


class TradeoffSweep(Ended):
    """The end of one training with weight λ on attacked points."""

    tradeoff = column("λ, the weight of attacked points")


class DimensionSweep(Ended):
    """The end of one training in d dimensions."""

    d = column("dimension")
    alpha = column("α, the norm of the signal")
    learning_rate = column("η ∝ α⁻²")
    T1_order = column("the paper's order N/(ησ0σ³d^{3/2}) of T1")


class StartSweep(Columns):
    """T0 of one start."""

    seed = column("seed of the start")
    T0 = column("first step with α³U ≥ 1; −1: not reached")
    T0_predicted = column("its prediction from max_r u_r(0); none if that is not positive")


class AttackSweep(Columns):
    """One network trained with an attack, read on one sample; a training that diverged has no accuracies."""

    attack = column("attack in training: gta, fgsm or pgd")
    share = column("its radius as a share of δ")
    seed = column("seed of the run")
    sample = column("train or test")
    signal = column("α³U at the end")
    blown_up = column("whether training ran away")
    diverged = column("step at which training left the numbers; none if it did not")
    clean = column("clean accuracy")
    gta = column("accuracy at the points of (A)")
    ball = column("attacked accuracy over the ℓ2 balls of the radii `attack_radii`·δ")
    certified = column("certified accuracy over the same balls")


class SweepTraining(Training):
    """Recorded steps of the trainings; the labels say of which."""

    sweep = column("samples, tradeoffs, dimensions, starts or attacks")
    n = column("training points N, in the sweep of samples")
    tradeoff = column("λ, in the sweep of trade-offs")
    d = column("dimension, in the sweep of dimensions")
    attack = column("attack in training, in the sweep of attacks")
    share = column("its radius as a share of δ")


KEPT = tuple(Outcome.all())


def _ends(one: SignalStages, last: Rows, **facts: float) -> Rows:
    """The last rows of a training as lines of a sweep."""
    critical = one.law.critical_samples(one.start_scale)
    return [{**facts, **{key: row[key] for key in KEPT}, Ended.critical_samples: critical} for row in last]


def across_samples(spec: SignalScaling, folder: Folder) -> Rows:
    """GTA-test accuracy as N crosses N*, 1−γ = 1/√d, T ∝ N."""
    law = SignalLaw(d=spec.samples_d, gap_logs=0.0)
    lines: Rows = []
    for n in spec.samples:
        steps = spec.steps_per_sample * n
        compact = n * (law.patches - 1) + spec.m < law.d
        one = spec.stages(law=law, n=n, steps=steps, every=steps, compact=compact)
        folder.conditions(law.check(one.setting), sweep="samples", n=n)
        lines += _ends(one, train(one, folder.part("train", sweep="samples", n=n)).last, n=n)
    folder.add("samples", lines)
    return lines


def across_tradeoffs(spec: SignalScaling, folder: Folder) -> Rows:
    """What λ decides: none of the attacked points (0) … only attacked points (1)."""
    lines: Rows = []
    for lam in spec.tradeoffs:
        steps = spec.tradeoff_steps
        one = spec.stages(n=spec.tradeoff_n, tradeoff=lam, steps=steps, every=steps, compact=True)
        folder.conditions(one.law.check(one.setting), sweep="tradeoffs", tradeoff=lam)
        done = train(one, folder.part("train", sweep="tradeoffs", tradeoff=lam))
        lines += _ends(one, done.last, tradeoff=lam)
    folder.add("tradeoffs", lines)
    return lines


def _settled(state: Components, t: int) -> bool:
    """All points are memorised, and a quarter of that time more has passed."""
    last = int(state.memorised_at.max())
    return bool((state.memorised_at >= 0).all()) and t >= 1.25 * last


def across_dimensions(spec: SignalScaling, folder: Folder) -> Rows:
    """All points memorised, and a quarter of that time more, for growing d; η shrinks like α⁻²."""
    unit = SignalLaw(d=1024).strength
    lines: Rows = []
    for d in spec.dimensions:
        law = SignalLaw(d=d)
        eta = spec.learning_rate * (unit / law.strength) ** 2
        cap = int(600 * spec.dimension_n * d / 1024) + 2000
        every = max(1, cap // 60)
        one = spec.stages(
            law=law, n=spec.dimension_n, learning_rate=eta, steps=cap, every=every, compact=True
        )
        folder.conditions(law.check(one.setting), sweep="dimensions", d=d)
        done = train(one, folder.part("train", sweep="dimensions", d=d), _settled)
        # The order is one number for all seeds: it knows the setting alone.
        order = predictions(one, done.kernel)[0].T1_order
        lines += _ends(one, done.last, d=d, alpha=law.strength, learning_rate=eta, T1_order=order)
    folder.add("dimensions", lines)
    return lines


def across_starts(spec: SignalScaling, folder: Folder) -> Rows:
    """T0 of many starts against its prediction from the largest u_r(0) alone."""
    seeds, steps = tuple(range(spec.starts)), spec.start_steps
    one = spec.stages(seeds=seeds, n=5, steps=steps, every=steps, test=1, compact=True)
    folder.conditions(one.law.check(one.setting), sweep="starts")
    done = train(one, folder.part("train", sweep="starts"))
    c, foreseen = StartSweep, predictions(one, done.kernel)
    lines: Rows = [
        {c.seed: row[Outcome.seed], c.T0: row[Outcome.signal_at], c.T0_predicted: predicted.T0}
        for row, predicted in zip(done.last, foreseen, strict=True)
    ]
    folder.add("starts", lines)
    return lines


def across_attacks(spec: SignalScaling, folder: Folder) -> Rows:
    """Objective (O) with FGSM or PGD over the ℓ2 ball against the current network, beside (A)."""
    one = spec.stages(n=spec.attack_n, steps=spec.attack_steps, compact=True)
    folder.conditions(one.law.check(one.setting), sweep="attacks")
    instance = stack([one.instance(seed) for seed in one.seeds])
    lines: Rows = []
    for name in spec.attacks:
        for part in spec.attack_radii if name != "gta" else (1.0,):
            done = _train_attacked(one, instance, folder, name, part)
            found = folder.once(
                "attacks",
                partial(_attack_rows, spec, one, instance, done, name, part),
                attack=name,
                share=part,
            )
            lines += [{AttackSweep.attack: name, AttackSweep.share: part, **row} for row in found.rows]
    return lines


def _train_attacked(
    one: SignalStages, instance: Instance, folder: Folder, name: str, part: float
) -> Recording[CubicWeights]:
    law, x, y = one.law, instance.train.x, instance.train.y
    ascent = steepest_ball(part * law.radius, 1 if name == "fgsm" else 5)
    given = transferred(x, y, law) if name == "gta" else ascent
    step = descent_step(x, y, one.learning_rate, one.tradeoff, given)
    noise = instance.train.noise()

    def observe(state: CubicWeights, t: int) -> Mapping[str, Tensor | float]:
        memory = y * output(state.w, noise)
        signal = law.strength**3 * signal_output(state.w)
        return {Training.signal: signal, Training.V_median: memory.median(-1).values}

    keep, runs = folder.part("train", sweep="attacks", attack=name, share=part), seed_labels(one.seeds)
    return trajectory(
        step, CubicWeights(instance.w), one.steps, observe, max(1, one.steps // 30), runs=runs, keep=keep
    )


def _attack_rows(
    spec: SignalScaling,
    one: SignalStages,
    instance: Instance,
    done: Recording[CubicWeights],
    name: str,
    part: float,
) -> tuple[Rows, dict[str, Tensor]]:
    """Every network of one attack on its training points and on fresh ones."""
    c = AttackSweep
    rows: Rows = []
    for index, seed in enumerate(one.seeds):
        if str(seed) in done.diverged:
            lost: Row = {c.seed: seed, c.signal: None, c.blown_up: True, c.diverged: done.diverged[str(seed)]}
            rows += [{**lost, c.sample: sample} for sample in ("train", "test")]
            continue
        w = done.state.w[index]
        signal = float(one.law.strength**3 * signal_output(w))
        ended: Row = {c.seed: seed, c.signal: signal, c.blown_up: signal > BLOWN_UP, c.diverged: None}
        batches = {"train": SignalBatch(*(t[index] for t in instance.train)), "test": one.fresh(seed, w)}
        for sample, batch in batches.items():
            rng = stream(seed, "attack", name, repr(part), sample)
            read = _accuracies(Case(w, batch, one.law.residual), one.law, spec.attack_radii, rng)
            rows.append({**ended, c.sample: sample, **read})
    return rows, {}


def _accuracies(case: Case, law: SignalLaw, radii: tuple[float, ...], rng: torch.Generator) -> Row:
    c = AttackSweep
    found = [case.ball(fraction * law.radius, 2, rng) for fraction in radii]
    return {
        c.clean: float(share(case.y * output(case.w, case.x) > 0)),
        c.gta: float(share(case.y * output(case.w, case.attacked) > 0)),
        c.ball: [attacked.accuracy for attacked, _ in found],
        c.certified: [sure for _, sure in found],
    }


def _means(lines: Rows, key: str, values: tuple[float, ...], columns: tuple[str, ...]) -> Json:
    """For each value of a swept column the means of others over the seeds."""
    chosen = {value: [line for line in lines if line[key] == value] for value in values}
    return {
        str(value): {column: sum(line[column] for line in mine) / len(mine) for column in columns}
        for value, mine in chosen.items()
    }


def run_scaling(spec: SignalScaling, folder: Folder) -> Json:
    """All five sweeps."""
    with torch.no_grad():
        samples, tradeoffs = across_samples(spec, folder), across_tradeoffs(spec, folder)
        dimensions, attacks = across_dimensions(spec, folder), across_attacks(spec, folder)
        starts = across_starts(spec, folder)
    law = SignalLaw(d=spec.samples_d, gap_logs=0.0)
    late = (Outcome.signal, Outcome.median_memorised, Outcome.step)
    return {
        "critical_samples": law.critical_samples(1 / math.sqrt(law.d)),
        "samples": _means(samples, SampleSweep.n, spec.samples, ACCURACIES),
        "tradeoffs": _means(tradeoffs, TradeoffSweep.tradeoff, spec.tradeoffs, (*ACCURACIES, Outcome.signal)),
        "dimensions": _means(dimensions, DimensionSweep.d, spec.dimensions, (*ACCURACIES, *late)),
        "attacks": attacks,
        "starts_within_a_step_or_a_tenth": sum(
            close(line[StartSweep.T0], line[StartSweep.T0_predicted]) for line in starts
        ),
        "starts": len(starts),
    }


def close(reached: int, predicted: float | None) -> bool:
    """Whether T0 is within one step or a tenth of its prediction."""
    return reached >= 0 and predicted is not None and abs(reached - predicted) <= max(1, 0.1 * predicted)


def size(spec: SignalScaling) -> Size:
    """The largest compact copy, and the recursions of all sweeps."""
    points = max(*spec.samples, spec.dimension_n, spec.tradeoff_n, spec.attack_n)
    patches = 3 * points
    held = (points + spec.test) * 4 * (patches + spec.m + 1) + patches * patches
    steps = spec.steps_per_sample * sum(spec.samples) + spec.start_steps * spec.starts
    steps += spec.tradeoff_steps * len(spec.tradeoffs) + 5 * spec.steps_per_sample * spec.dimension_n * len(
        spec.dimensions
    )
    steps += spec.attack_steps * len(spec.attacks) * len(spec.attack_radii)
    return Size(held, len(spec.seeds) * steps * patches * spec.m)


EXPERIMENTS = (
    Experiment(
        name="signal-scaling",
        paper="cgro",
        shows="CGRO §4: N across the critical N*, the trade-off λ, growing d, and FGSM or PGD in place of "
        "the attack (A)",
        spec=SignalScaling,
        run=run_scaling,
        revision=3,
        columns={
            "samples": SampleSweep,
            "tradeoffs": TradeoffSweep,
            "dimensions": DimensionSweep,
            "starts": StartSweep,
            "attacks": AttackSweep,
            "train": SweepTraining,
        },
        takes={"quick": "10 s", "cpu": "70 s", "paper": "15 min"},
        highlights=(
            Highlight("critical_samples", "critical number of samples N"),
            Highlight("samples/*/gta_test", "accuracy under (A) on fresh points, N = {}", "share"),
            Highlight("tradeoffs/*/gta_train", "accuracy under (A) on training points, λ = {}", "share"),
            Highlight("dimensions/*/gta_test", "accuracy under (A) on fresh points, d = {}", "share"),
        ),
        size=size,
        counts_diverged=True,
    ),
)
