"""Experiment `signal-scaling`: where Theorem 4.1 stops holding — N across N*, λ, d — and other attacks in training than (A)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field

from featscope.core.store import Folder, Json
from featscope.core.streams import stream
from featscope.dynamics.signal_descent import Components, Weights, descent_step, steepest_ball, weakened
from featscope.dynamics.trajectory import by_seed, trajectory
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.laws.signal import SignalBatch, SignalLaw, stack
from featscope.nets.cubic_cnn import output, signal_output
from featscope.papers.cgro.signal_robustness import Case
from featscope.papers.cgro.signal_stages import ACCURACIES, SignalStages, predictions, share, train

Row = dict[str, Any]
#: α³U beyond which training has run away (a healthy run at radius δ/2 stays below 10⁶).
BLOWN_UP = 1e50


class SignalScaling(Spec):
    """Sweeps around the setting of `signal-stages`, on compact copies in law where d allows."""

    profiles: ClassVar[Mapping[str, Overrides]] = {
        "quick": {
            "samples": [2, 5, 10, 20], "dimensions": [256, 512, 1024], "dimension_n": 5, "tradeoffs": [0.0, 0.9], "tradeoff_steps": 1000,
            "attack_steps": 100, "test": 500,
        },
        "paper": {"dimensions": [1024, 2048, 4096, 8192, 16384, 32768, 65536], "samples": [2, 5, 10, 20, 40, 80, 160]},
    }  # fmt: skip

    dtype: Literal["float64"] = "float64"
    m: int = Field(default=10, ge=1)
    learning_rate: float = Field(default=0.1, gt=0)
    test: int = Field(default=2000, ge=1)
    samples: tuple[int, ...] = Field(default=(2, 5, 10, 20, 40, 80), min_length=1, description="N, with d=samples_d and 1−γ = 1/√d")
    samples_d: int = Field(default=512, ge=2)
    steps_per_sample: int = Field(default=300, ge=1, description="T = this · N")
    dimensions: tuple[int, ...] = Field(default=(512, 1024, 2048, 4096, 8192), min_length=1, description="d, with η ∝ α⁻²")
    dimension_n: int = Field(default=20, ge=1)
    tradeoffs: tuple[float, ...] = Field(default=(0.0, 0.5, 0.9, 0.99, 1.0), min_length=1, description="λ")
    tradeoff_n: int = Field(default=20, ge=1)
    tradeoff_steps: int = Field(default=6000, ge=1)
    starts: int = Field(default=40, ge=1, description="seeds for T0")
    start_steps: int = Field(default=1000, ge=1)
    attacks: tuple[Literal["gta", "fgsm", "pgd"], ...] = Field(default=("gta", "fgsm", "pgd"), min_length=1)
    attack_radii: tuple[float, ...] = Field(default=(0.1, 1.0), min_length=1, description="shares of δ for FGSM and PGD in training")
    attack_n: int = Field(default=20, ge=1)
    attack_steps: int = Field(default=3000, ge=1)

    def stages(self, **changes: Any) -> SignalStages:
        """The setting of `signal-stages` with changes."""
        base = {"seeds": self.seeds, "m": self.m, "learning_rate": self.learning_rate, "test": self.test}
        return SignalStages(**{**base, "verify_steps": 0, **changes})


def _line(spec: SignalStages, row: Row, **facts: Any) -> Row:
    kept = ("run", "step", *ACCURACIES, "signal", "V_min", "V_median", "V_max", "signal_at", "first_memorised")
    chosen = {key: row[key] for key in (*kept, "median_memorised", "last_memorised", "alpha_u", "v_max", "slack")}
    return {**facts, **chosen, "critical_samples": spec.law.critical_samples(spec.start_scale)}


def across_samples(spec: SignalScaling, folder: Folder) -> list[Row]:
    """GTA-test accuracy as N crosses N*, 1−γ = 1/√d, T ∝ N."""
    law = SignalLaw(d=spec.samples_d, gap_logs=0.0)
    lines: list[Row] = []
    for n in spec.samples:
        steps = spec.steps_per_sample * n
        compact = n * (law.patches - 1) + spec.m < law.d
        one = spec.stages(law=law, n=n, steps=steps, every=steps, compact=compact)
        lines += [_line(one, row, n=n) for row in train(one, folder.part(f"train/n{n}")).last]
    folder.add("samples", lines)
    return lines


def across_tradeoffs(spec: SignalScaling, folder: Folder) -> list[Row]:
    """What λ decides: none of the attacked points (0) … only attacked points (1)."""
    lines: list[Row] = []
    for lam in spec.tradeoffs:
        steps = spec.tradeoff_steps
        one = spec.stages(n=spec.tradeoff_n, tradeoff=lam, steps=steps, every=steps, compact=True)
        lines += [_line(one, row, tradeoff=lam) for row in train(one, folder.part(f"train/lambda{lam}")).last]
    folder.add("tradeoffs", lines)
    return lines


def across_dimensions(spec: SignalScaling, folder: Folder) -> list[Row]:
    """All points memorised, and a quarter of that time more, for growing d; η shrinks like α⁻²."""
    unit = SignalLaw(d=1024).strength

    def settled(state: Components, t: int) -> bool:
        last = int(state.memorised_at.max())
        return bool((state.memorised_at >= 0).all()) and t >= 1.25 * last

    lines: list[Row] = []
    for d in spec.dimensions:
        law = SignalLaw(d=d)
        eta = spec.learning_rate * (unit / law.strength) ** 2
        cap = int(600 * spec.dimension_n * d / 1024) + 2000
        one = spec.stages(law=law, n=spec.dimension_n, learning_rate=eta, steps=cap, every=max(1, cap // 60), compact=True)
        done = train(one, folder.part(f"train/d{d}"), settled)
        for row, foreseen in zip(done.last, predictions(one, done.kernel), strict=True):
            lines.append(_line(one, row, d=d, alpha=law.strength, learning_rate=eta, T1_order=foreseen["T1_order"]))
    folder.add("dimensions", lines)
    return lines


def across_starts(spec: SignalScaling, folder: Folder) -> list[Row]:
    """T0 of many starts against its prediction from the largest u_r(0) alone."""
    one = spec.stages(seeds=tuple(range(spec.starts)), n=5, steps=spec.start_steps, every=spec.start_steps, test=1, compact=True)
    done = train(one, folder.part("train/starts"))
    foreseen = predictions(one, done.kernel)
    lines: list[Row] = [
        {"run": row["run"], "T0": row["signal_at"], "T0_predicted": p["T0"]} for row, p in zip(done.last, foreseen, strict=True)
    ]
    folder.add("starts", lines)
    return lines


def across_attacks(spec: SignalScaling, folder: Folder) -> list[Row]:
    """Objective (O) with FGSM or PGD over the ℓ2 ball against the current network, beside (A)."""
    lines: list[Row] = []
    for name in spec.attacks:
        for part in spec.attack_radii if name != "gta" else (1.0,):
            lines += _train_attacked(spec, folder, name, part)
    folder.add("attacks", lines)
    return lines


def _train_attacked(spec: SignalScaling, folder: Folder, name: str, part: float) -> list[Row]:
    one = spec.stages(n=spec.attack_n, steps=spec.attack_steps, compact=True)
    law, instance = one.law, stack([one.instance(seed) for seed in one.seeds])
    x, y = instance.train.x, instance.train.y
    given = weakened(x, law.residual) if name == "gta" else steepest_ball(part * law.radius, 1 if name == "fgsm" else 5)
    step = descent_step(x, y, one.learning_rate, one.tradeoff, given)

    noise = instance.train.noise()

    def observe(state: Weights, t: int) -> Any:
        memory = y * output(state.w, noise)
        return {"signal": law.strength**3 * signal_output(state.w), "V_median": memory.median(-1).values}

    keep = folder.part(f"train/{name}{part}")
    done = trajectory(
        step, Weights(instance.w), spec.attack_steps, observe, max(1, spec.attack_steps // 30), runs=by_seed(one.seeds), keep=keep
    )
    lines: list[Row] = []
    for index, seed in enumerate(one.seeds):
        if str(seed) in done.diverged:
            lines.append({"attack": name, "share": part, "run": seed, "blown_up": True, "diverged": done.diverged[str(seed)]})
            continue
        w = done.state.w[index]
        signal = float(law.strength**3 * signal_output(w))
        row: Row = {"attack": name, "share": part, "run": seed, "signal": signal, "blown_up": signal > BLOWN_UP}
        sets = {"train": SignalBatch(*(t[index] for t in instance.train)), "test": one.fresh(seed, w)}
        for label, batch in sets.items():
            case = Case(w, batch, law.residual)
            rng = stream(seed, "attack", name, repr(part), label)
            row[f"clean_{label}"] = float(share(case.y * output(case.w, case.x) > 0))
            row[f"gta_{label}"] = float(share(case.y * output(case.w, case.attacked) > 0))
            for fraction in spec.attack_radii:
                found, sure = case.ball(fraction * law.radius, 2, rng)
                row |= {f"ball{fraction:g}_{label}": found.accuracy, f"certified{fraction:g}_{label}": sure}
        lines.append(row)
    return lines


def _mean(lines: list[Row], key: str, value: Any, of: str) -> float:
    chosen = [line[of] for line in lines if line[key] == value]
    return float(sum(chosen) / len(chosen))


def run_scaling(spec: SignalScaling, folder: Folder) -> Json:
    """All four sweeps."""
    with torch.no_grad():
        samples, tradeoffs = across_samples(spec, folder), across_tradeoffs(spec, folder)
        dimensions, attacks = across_dimensions(spec, folder), across_attacks(spec, folder)
        starts = across_starts(spec, folder)
    law = SignalLaw(d=spec.samples_d, gap_logs=0.0)
    return {
        "critical_samples": law.critical_samples(1 / math.sqrt(law.d)),
        "samples": {str(n): {key: _mean(samples, "n", n, key) for key in ACCURACIES} for n in spec.samples},
        "tradeoffs": {str(v): {k: _mean(tradeoffs, "tradeoff", v, k) for k in (*ACCURACIES, "signal")} for v in spec.tradeoffs},
        "dimensions": {
            str(d): {k: _mean(dimensions, "d", d, k) for k in (*ACCURACIES, "signal", "median_memorised", "step")} for d in spec.dimensions
        },
        "attacks": attacks,
        "starts_within_a_step_or_a_tenth": sum(close(line) for line in starts),
        "starts": len(starts),
    }


def close(line: Row) -> bool:
    """Whether T0 is within one step or a tenth of its prediction."""
    if line["T0"] < 0 or line["T0_predicted"] is None:
        return False
    return bool(abs(line["T0"] - line["T0_predicted"]) <= max(1, 0.1 * line["T0_predicted"]))


EXPERIMENTS = (
    Experiment(
        name="signal-scaling",
        paper="cgro",
        shows="CGRO §4: N across the critical N*, the trade-off λ, growing d, and FGSM or PGD in place of the attack (A)",
        spec=SignalScaling,
        run=run_scaling,
        takes={"quick": "10 s", "cpu": "70 s", "paper": "15 min"},
        counts_diverged=True,
    ),
)
