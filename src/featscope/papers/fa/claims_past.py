"""Questions one step past FA: the paper's attack on trained networks, averaging and the KKT point,
adversarial training, the least width, the joint limit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from featscope.claims.claim import Claim, Finding, Judge, Kind, Need, Reading, Runs
from featscope.claims.judging import (
    above,
    at_least,
    at_most,
    every,
    exactly,
    fitted,
    largest,
    number,
    numbers,
    one_run,
    over_seeds,
    reaches,
    scoped,
    smallest,
    threshold,
)
from featscope.core.columns import Column
from featscope.core.rules import AS_GOOD, BEND, MUCH, ONE_DIRECTION, PREDICTED, SMALL
from featscope.experiments.run import Run
from featscope.papers.fa.clusters_adversarial import ATTACKS, RobustEnd
from featscope.papers.fa.clusters_attack import GradientSize, ProofAttack
from featscope.papers.fa.clusters_kkt import KktCourse, KktSpec
from featscope.papers.fa.clusters_limit import LimitRow
from featscope.papers.fa.clusters_width import WidthRow

ATTACK = Need("clusters-attack")
KKT = Need("clusters-kkt")
ADVERSARIAL = Need("clusters-adversarial")
WIDTH = Need("clusters-width")
LIMIT_RUN = Need("clusters-limit")
#: Theorem D.3's radius ÷ √d
ROBUST_AT = 1 / 3
#: radius of adversarial training ÷ √d that is judged
TRAINED_AT = 0.3


def _question(
    id_: str, reference: str, statement: str, hypotheses: tuple[str, ...], *readings: Reading
) -> Claim:
    return Claim(id_, "fa", reference, statement, hypotheses, readings, named_kind=Kind.QUESTION)


def seed_medians(rows: pl.DataFrame, key: str) -> list[float]:
    """The median over points of each seed; NaN if one point has none."""
    found = []
    for _, mine in rows.sort(ProofAttack.seed).group_by(ProofAttack.seed, maintain_order=True):
        values = numbers(mine[key])
        found.append(math.nan if not all(map(math.isfinite, values)) else float(pl.Series(values).median()))  # type: ignore[arg-type]
    return found


# --- the paper's attack


def _ratio(runs: Runs) -> Finding:
    """Each seed's median of the radius along the direction over the exact one is at most AS_GOOD."""
    rows = runs["run"].part("points")
    pgd = seed_medians(rows, ProofAttack.pgd_ratio)
    return at_most(over_seeds(seed_medians(rows, ProofAttack.ratio)), AS_GOOD, pgd_over_exact=pgd)


def _cosine(runs: Runs) -> Finding:
    """Each seed's median cosine of the exact minimal perturbation with the direction is at least
    ONE_DIRECTION."""
    return at_least(over_seeds(seed_medians(runs["run"].part("points"), ProofAttack.cosine)), ONE_DIRECTION)


def _linear(key: Column) -> Judge:
    """Each seed's median departure from linearity, in units of f(x), is at most SMALL."""

    def judge(runs: Runs) -> Finding:
        return at_most(over_seeds(seed_medians(runs["run"].part("points"), key)), SMALL)

    return judge


def _linear_wide(runs: Runs) -> Finding:
    """At every k of the sweep, in every seed, the median departure from linearity is at most SMALL."""
    rows = runs["run"].part("gradient").sort(GradientSize.k, GradientSize.seed)
    parts = {
        f"k = {k}": at_most(over_seeds(numbers(mine[GradientSize.bend_active]).tolist()), SMALL)
        for (k,), mine in rows.group_by(GradientSize.k, maintain_order=True)
    }
    return every(parts)


def _gradient(key: Column) -> Judge:
    """Ω(√k) in units in which f_FA has √k: the fitted exponent's interval lies above ½ − BEND."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part("gradient").sort(GradientSize.k, GradientSize.seed)
        k, size = rows[GradientSize.k].to_list(), rows[key].to_list()
        return at_least(fitted(k, size), 0.5 - BEND, k=k, size=size)

    return judge


# --- the KKT point


def settled_from(rows: pl.DataFrame, good: Sequence[bool]) -> float:
    """The first recorded time from which on every row is good; infinite if the last is not."""
    times = rows[KktCourse.time].to_list()
    kept = math.inf
    for time, fine in zip(reversed(times), reversed(good), strict=True):
        if not fine:
            break
        kept = float(time)
    return kept


def kkt_times(rows: pl.DataFrame) -> tuple[float, float]:
    """From when on neurons average, and from when on both KKT conditions hold, each up to SMALL."""
    rows = rows.sort(KktCourse.time)
    averaging = [value >= 1 - SMALL for value in numbers(rows[KktCourse.averaging])]
    errors = (numbers(rows[key]) for key in (KktCourse.stationarity, KktCourse.slackness))
    kkt = [0 <= a <= SMALL and 0 <= b <= SMALL for a, b in zip(*errors, strict=True)]
    return settled_from(rows, averaging), settled_from(rows, kkt)


def _by_seed(run: Run, layers: str) -> list[pl.DataFrame]:
    return [run.part("course", layers=layers, seed=seed) for seed in KktSpec.of(run).seeds]


def _precedes(layers: str) -> Judge:
    """The time of the KKT point over that of averaging is at least MUCH.

    A KKT point that is not reached comes after the last time, and averaging that is not reached never comes.
    """

    def judge(runs: Runs) -> Finding:
        ratios, times = [], []
        for rows in _by_seed(runs["run"], layers):
            averaged, kkt = kkt_times(rows)
            end = largest(rows[KktCourse.time].to_list())
            times.append([averaged, kkt])
            ratios.append(0.0 if math.isinf(averaged) else min(kkt, end) / averaged)
        return at_least(over_seeds(ratios), MUCH, times=times, note="a KKT time of null is after the last")

    return judge


def _conjecture(layers: str) -> Judge:
    """At the last time every neuron averages up to SMALL."""

    def judge(runs: Runs) -> Finding:
        ends = [rows.sort(KktCourse.time).tail(1) for rows in _by_seed(runs["run"], layers)]
        least = [number(end[KktCourse.averaging_min].item()) for end in ends]
        margins = [number(end[KktCourse.normalised_margin].item()) for end in ends]
        return at_least(over_seeds(least), 1 - SMALL, normalised_margin=margins)

    return judge


# --- adversarial training


def _decouples(attack: str) -> Judge:
    """Neurons are nearer to one feature than to the sum, and the exact radius exceeds standard training's."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part("end", attack=attack)
        c = RobustEnd
        trained, plain = (rows.filter(pl.col(c.eps) == eps).sort(c.seed) for eps in (TRAINED_AT, 0.0))
        decoupling, clean = numbers(trained[c.decoupling]).tolist(), numbers(trained[c.clean]).tolist()
        radii = numbers(trained[c.radius]), numbers(plain[c.radius])
        gains = (radii[0] / radii[1]).tolist() if len(radii[0]) == len(radii[1]) else []
        found = every(
            {"decoupled": above(over_seeds(decoupling), 0.0), "radius": above(over_seeds(gains), 1.0)},
            radius=radii[0].tolist(),
            standard=radii[1].tolist(),
            clean=clean,
        )
        low = smallest(clean)
        level = threshold(2)
        missed = [f"the two classes are learned: accuracy {low:.2f} against {level:.2f}"]
        return scoped([] if low >= level else missed, found)

    return judge


# --- width


def _remark(runs: Runs) -> Finding:
    """The fewest neurons a class of a network found that is √d/3-robust, against max |J±|."""
    rows = runs["run"].part("width", k=10, positive=5, cosine=0.0)
    robust = rows.filter(pl.col(WidthRow.best) >= ROBUST_AT)
    fewest = smallest(robust[WidthRow.best_class].to_list())
    table = rows.select(WidthRow.width, WidthRow.best, WidthRow.best_class).to_dicts()
    return reaches(fewest, largest(rows[WidthRow.largest_class].to_list()), widths=table)


def _optimum(runs: Runs) -> Finding:
    """With fewer than max |J±| neurons a class, no network found comes within PREDICTED of √(d/2)."""
    rows = runs["run"].part("width", k=6, positive=3, cosine=0.0)
    c, found = WidthRow, [math.nan] if not rows.height else []
    for radius, neurons in ((c.built, c.built_class), (c.searched, c.searched_class)):
        narrow = rows.filter(pl.col(neurons) < pl.col(c.largest_class))
        found += (numbers(narrow[radius]) / numbers(narrow[c.bound])).tolist()
    table = rows.select(c.width, c.built, c.searched).to_dicts()
    return exactly(largest(found), 1 - PREDICTED, widths=table)


def _reached(runs: Runs) -> Finding:
    """One neuron a cluster comes within PREDICTED of what no classifier exceeds, for every law."""
    rows = runs["run"].part("width").filter(pl.col(WidthRow.width) == pl.col(WidthRow.k))
    shares = (numbers(rows[WidthRow.built]) / numbers(rows[WidthRow.bound])).tolist()
    return reaches(smallest(shares), 1 - PREDICTED, laws=rows.height)


# --- the joint limit


def _vanishes(key: Column, p: float, q: float) -> Judge:
    """o(1) along k at n = k^p, d = k^q: the interval of the fitted exponent lies below −BEND."""

    def judge(runs: Runs) -> Finding:
        rows = runs["run"].part("net", p=p, q=q).sort(LimitRow.k, LimitRow.seed)
        k, values = rows[LimitRow.k].to_list(), rows[key].to_list()
        return at_most(fitted(k, values), -BEND, k=k, values=values)

    return judge


LIMITS = {
    LimitRow.deviation: "distance to averaging",
    LimitRow.margin_gap: "gap of margins",
    LimitRow.sphere_gap: "gap on the sphere",
}
SUPERSCRIPT = {2.0: "²", 3.0: "³", 10.0: "¹⁰"}


def _limit(key: Column, p: float, q: float) -> Reading:
    told = f"n = k{SUPERSCRIPT[p]}, d = k{SUPERSCRIPT[q]}"
    text = f"{LIMITS[key]} ÷ λ along k: exponent below −{BEND:g}"
    return one_run(f"{LIMITS[key]} ({told})", f"{text}, {told}", LIMIT_RUN, _vanishes(key, p, q))


TRAINED_WITH = {
    "proof": "the direction of the paper's proofs",
    "one-step": "one step along the gradient",
    "pgd": "PGD from the first step on",
    "ramp": "PGD whose radius grows over the first half",
}

CLAIMS: tuple[Claim, ...] = (
    _question(
        "FA-attack",
        "§7 and the proof of Theorem D.2, on trained networks",
        "The perturbation −y(Σ₊μ − Σ₋μ) of the proofs is nearly the smallest that fools the trained 2-class "
        "network: f is linear along it, and its gradient is Ω(√(kd)) times λ/d.",
        ("§6.1's setting",),
        one_run(
            "radius",
            f"§6.1, exact: the median ratio to the exact radius is at most {AS_GOOD:g}",
            ATTACK,
            _ratio,
        ),
        one_run(
            "cosine",
            f"§6.1: the median cosine of the minimal perturbation with it is at least {ONE_DIRECTION:g}",
            ATTACK,
            _cosine,
        ),
        one_run(
            "linear (gradient at x)",
            "§6.1: f(x + ρ) = f(x) + ⟨∇f(x), ρ⟩ up to 5 % of f(x)",
            ATTACK,
            _linear(ProofAttack.bend),
        ),
        one_run(
            "linear (gradient at x + ρ)",
            "§6.1: the same with the gradient where ρ has activated both classes' neurons",
            ATTACK,
            _linear(ProofAttack.bend_active),
        ),
        one_run(
            "linear (gradient at x + ρ, wide)",
            "the same at d = 10⁶, every k of the sweep",
            ATTACK,
            _linear_wide,
        ),
        one_run(
            "gradient",
            "‖∇f(x)‖ √d/λ along k: exponent at least ½",
            ATTACK,
            _gradient(GradientSize.gradient),
        ),
        one_run(
            "gradient (moved)",
            "the same at x + ρ",
            ATTACK,
            _gradient(GradientSize.gradient_moved),
        ),
    ),
    _question(
        "FA-kkt",
        "§2, FA against Frei et al. (2024); Min and Vidal's conjecture (2024)",
        "Neurons average their class's features long before training is near a KKT point of the margin "
        "problem, whether one layer or both are trained.",
        ("small initial weights, gradient flow",),
        *(
            one_run(
                f"before the KKT point ({layers})",
                f"{told}: both KKT conditions hold {MUCH:g} times later, with the loss's multipliers",
                KKT,
                _precedes(layers),
            )
            for layers, told in (("first", "second layer fixed"), ("both", "both layers trained"))
        ),
        *(
            one_run(
                f"averaging at the end ({layers})",
                f"{told}: every neuron's cosine with the sum of its class's features",
                KKT,
                _conjecture(layers),
            )
            for layers, told in (("first", "second layer fixed"), ("both", "both layers trained"))
        ),
    ),
    _question(
        "FA-adversarial",
        "the talk's last question: an algorithm that is robust; §8",
        "Adversarial training decouples the features that standard training averages, and its exact radius "
        "is larger.",
        ("k = 6 clusters, radius of training 0.3√d, the two classes are learned",),
        *(
            one_run(attack, f"{TRAINED_WITH[attack]}, ε = 0.3√d", ADVERSARIAL, _decouples(attack))
            for attack in ATTACKS
        ),
    ),
    _question(
        "FA-width",
        "Remark A.5 and Theorem D.3",
        "A robust network needs max(|J₊|, |J₋|) neurons a class.",
        ("radii of the cluster centres, the law's as d → ∞",),
        one_run("√d/3 (k = 10)", "to be √d/3-robust, as Theorem D.3's network", WIDTH, _remark),
        one_run("√(d/2) (k = 6)", "to come near the largest possible radius", WIDTH, _optimum),
        one_run("enough", "one neuron a cluster comes near the largest possible radius", WIDTH, _reached),
    ),
    _question(
        "FA-limit",
        "Assumption 4.3: d ≥ k¹⁰, n ≥ k⁷",
        "What Theorems 4.5 and 4.6 and Lemma 5.3 call o(1) vanishes along k in smaller samples and "
        "dimensions than assumed.",
        ("λ grows at the same rate at every k",),
        *(_limit(key, p, q) for p, q in ((3.0, 10.0), (3.0, 3.0), (2.0, 10.0)) for key in LIMITS),
    ),
)
