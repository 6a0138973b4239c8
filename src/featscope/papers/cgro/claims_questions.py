"""Questions that CGRO leaves open: deeper networks on its law (CG-depth), and what λ decides (CG-lambda,
CG-lambda-images)."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Kind, Need, Reading, Runs
from featscope.claims.judging import (
    above,
    at_least,
    at_most,
    error_over_seeds,
    every,
    number,
    one_run,
    scoped,
    smallest,
    threshold,
)
from featscope.core.rows import last_rows
from featscope.core.rules import CONSTANT, SMALL
from featscope.core.stats import mean_interval
from featscope.core.stored import labelled
from featscope.experiments.run import Run
from featscope.nets.deep_patch import CONVOLUTIONAL
from featscope.papers.cgro.image_lambda import ImageLambda, LambdaEnd
from featscope.papers.cgro.runs import only_if_fitted
from featscope.papers.cgro.signal_depth import DYNAMICS, DepthDynamics, SignalDepth
from featscope.papers.cgro.signal_scaling import SignalScaling, TradeoffSweep

DEPTH, SCALING, IMAGES = Need("signal-depth"), Need("signal-scaling"), Need("image-lambda")


# --- deeper networks


def _ends(run: Run, kind: str, column: str) -> list[float | None]:
    """The last accuracy of each seed of the attacked arm; none for a seed that diverged."""
    labels = {DepthDynamics.net: kind, DepthDynamics.arm: "attacked"}
    last = last_rows(run.part(DYNAMICS, net=kind, arm="attacked"))
    lost = run.diverged.get(labelled(DYNAMICS, {str(key): value for key, value in labels.items()}), [])
    ends = dict(zip(last[DepthDynamics.seed].to_list(), last[column].to_list(), strict=True))
    return [None if str(seed) in lost else ends.get(seed) for seed in SignalDepth.of(run).seeds]


def _picture(kind: str, least: float) -> Judge:
    """Clean test and attacked training points are right, and attacked fresh ones are not."""

    def judge(runs: Runs) -> Finding:
        run, c = runs["run"], DepthDynamics
        spec = SignalDepth.of(run)
        clean, memorised, fresh = (
            _ends(run, kind, column) for column in (c.clean_test, c.gta_train, c.gta_test)
        )
        found = every(
            {
                "clean test error": at_most(error_over_seeds(clean, spec.test), SMALL),
                "training error at (A)": at_most(error_over_seeds(memorised, spec.n), SMALL),
                "test error at (A)": at_least(error_over_seeds(fresh, spec.test), least),
            },
            gta_test=fresh,
        )
        learned, needed = smallest(clean), threshold(2)
        told = f"the network learns the clean task: test accuracy {learned:.2f} against {needed:.2f}"
        return scoped([] if learned >= needed else [told], found)

    return judge


#: the paper's two ways to say that robust test error stays large
LEVELS = {"½ − o(1)": 0.5 - SMALL, "Ω(1)": 1 / CONSTANT}


def _depth_readings() -> tuple[Reading, ...]:
    return tuple(
        one_run(
            f"{name} ({kind})",
            f"{kind}: clean test error and training error at (A) at most {SMALL:g}, test error at (A) at "
            f"least {least:.3g}",
            DEPTH,
            _picture(kind, least),
        )
        for kind in CONVOLUTIONAL
        for name, least in LEVELS.items()
    )


# --- λ

Column = Callable[[Run, float, int, str], float]


def _synthetic(run: Run, lam: float, seed: int, column: str) -> float:
    names = {"robust_train": TradeoffSweep.gta_train, "robust_test": TradeoffSweep.gta_test}
    rows = run.part("tradeoffs", seed=seed).filter(pl.col(TradeoffSweep.tradeoff) == lam)
    return number(rows[names.get(column, column)].to_list()[0] if rows.height else None)


def _of_images(run: Run, lam: float, seed: int, column: str) -> float:
    rows = run.part("ended", seed=seed).filter(pl.col(LambdaEnd.lam) == lam)
    return number(rows[column].to_list()[0] if rows.height else None)


#: the weight of §4's runs, between the two ends
USED = 0.9


def _memorises(look: Column, run: Run, seeds: tuple[int, ...]) -> list[float]:
    """The gap of robust accuracy, training minus test, at λ = .9 minus at λ = 0."""

    def gap(lam: float, seed: int) -> float:
        return look(run, lam, seed, "robust_train") - look(run, lam, seed, "robust_test")

    return [gap(USED, seed) - gap(0.0, seed) for seed in seeds]


def _learns_clean(look: Column, run: Run, seeds: tuple[int, ...]) -> list[float]:
    """Clean test accuracy at λ = .9 minus at λ = 1."""
    return [look(run, USED, seed, "clean_test") - look(run, 1.0, seed, "clean_test") for seed in seeds]


ASKED = {
    "attacked points are memorised": (
        "robust accuracy, training minus test, is larger at λ = .9 than at λ = 0",
        _memorises,
    ),
    "clean points are needed": (
        "clean test accuracy is higher at λ = .9 than at λ = 1",
        _learns_clean,
    ),
}


def _on_images(measure: Callable[..., list[float]]) -> Judge:
    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        spec = ImageLambda.of(run)
        found = measure(_of_images, run, spec.seeds)
        fitted = [_of_images(run, USED, seed, "robust_train") for seed in spec.seeds]
        return only_if_fitted(spec.net.classes, fitted, above(mean_interval(found), 0.0, by_seed=found))

    return judge


def _on_the_law(measure: Callable[..., list[float]]) -> Judge:
    def judge(runs: Runs) -> Finding:
        run = runs["run"]
        found = measure(_synthetic, run, SignalScaling.of(run).seeds)
        return above(mean_interval(found), 0.0, by_seed=found)

    return judge


def _lambda(id_: str, where: str, need: Need, judge: Callable[..., Judge]) -> Claim:
    """The question on one kind of data."""
    return Claim(
        id_,
        "cgro",
        f"CGRO §3.3: the weight λ of (O), {where}",
        "λ decides what is learned: without attacked points none is memorised, and without clean ones the "
        "clean task suffers.",
        ("trained on (O)",),
        tuple(
            one_run(name, f"{where}: {text}", need, judge(measure)) for name, (text, measure) in ASKED.items()
        ),
        named_kind=Kind.QUESTION,
    )


CLAIMS = (
    Claim(
        "CG-depth",
        "cgro",
        "CGRO §7, deeper networks on the law of §3",
        "Deeper networks trained on (O), too, generalise clean, memorise the attacked training points, and "
        "stay open at attacked fresh ones.",
        ("CGRO's law, ReLU, all layers trained, attack (A) with the linear target",),
        _depth_readings(),
        named_kind=Kind.QUESTION,
    ),
    _lambda("CG-lambda", "signal law, attack (A)", SCALING, _on_the_law),
    _lambda("CG-lambda-images", "MNIST, PGD", IMAGES, _on_images),
)
