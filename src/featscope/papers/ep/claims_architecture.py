"""EP-architecture: is a transformer more robust than a convolutional network of its size?"""

from __future__ import annotations

import numpy as np

from featscope.claims.claim import Claim, Finding, Judge, Kind, Need, Runs
from featscope.claims.judging import above, number, numbers, one_run, scoped, smallest, threshold
from featscope.core.stats import mean_interval
from featscope.experiments.run import Run
from featscope.papers.ep.image_architecture import (
    ARCHITECTURES,
    CNN,
    METHODS,
    TRANSFORMER,
    ArchitectureCurve,
    ImageArchitecture,
)

NEED = Need("image-architecture")


def _curve(run: Run, architecture: str, method: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Radii and accuracies of one network."""
    rows = run.part("curve", architecture=architecture, method=method, seed=seed)
    rows = rows.sort(ArchitectureCurve.radius)
    return numbers(rows[ArchitectureCurve.radius]), numbers(rows[ArchitectureCurve.accuracy])


def mean_height(run: Run, architecture: str, method: str, seed: int) -> float:
    """The mean of the curve over the radii: its area ÷ the largest radius."""
    radii, heights = _curve(run, architecture, method, seed)
    return float(np.trapezoid(heights, radii) / radii[-1]) if len(radii) > 1 else float("nan")


def _unlearned(run: Run, method: str) -> list[str]:
    """Networks that have not learned the ten digits."""
    level, seeds = threshold(10), ImageArchitecture.of(run).seeds
    clean = {
        name: smallest(number(_curve(run, name, method, seed)[1][0]) for seed in seeds)
        for name in ARCHITECTURES
    }
    low = {name: value for name, value in clean.items() if not value >= level}
    return [f"clean accuracy of {name} ≥ {level:.3g}: {value:.3f}" for name, value in low.items()]


def _higher(method: str) -> Judge:
    """The transformer's curve less the convolutional network's, its mean over radii, paired by seed."""

    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        gains = [
            mean_height(run, TRANSFORMER, method, seed) - mean_height(run, CNN, method, seed)
            for seed in ImageArchitecture.of(run).seeds
        ]
        note = "attacked accuracies: upper bounds, nothing is certified"
        found = above(mean_interval(gains), 0.0, by_seed=gains, note=note)
        return scoped(_unlearned(run, method), found)

    return judge


CLAIMS = (
    Claim(
        "EP-architecture",
        "ep",
        "talk, discussion: practical architecture",
        "A vision transformer is more robust than a convolutional network of as many parameters that was "
        "trained in the same way.",
        ("MNIST, ten classes, ℓ∞",),
        tuple(
            one_run(
                method,
                f"{method} training: the transformer's accuracy less LeNet-5's, mean over radii, is above 0; "
                "Student's interval over paired seeds",
                NEED,
                _higher(method),
            )
            for method in METHODS
        ),
        named_kind=Kind.QUESTION,
    ),
)
