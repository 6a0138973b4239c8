"""Experiment `known-density`: CGRO Theorem E.1 and Proposition E.2 where the density is known, D = 1 … 6.

Three settings in which every term has a closed form, a quadrature or a plain Monte Carlo of distances:

* X ~ N(0, I_D) with y = sign x₁ and a network of x₁ alone, logistic loss, ℓ2: a linear one, a constant one,
  and a wave a·sin(ωx₁). Risks are integrals over x₁.
* X uniform on the torus [0, 1)^D, ℓ∞, and a loss that remembers the sample: L = min(1, (dist(x, S) − δ)₊/w).
  It is 0 on every training ball, so L̂_adv = 0; its gradient has length 1/w from δ to δ + w off the sample.
* The two terms of the proof with a bandwidth of their own: (I) by quadrature in the first setting; (II) for
  the worst loss in [0, 1], half of E∫|p_S − E p_S|, for a box kernel on the torus: the mean absolute
  deviation of a binomial, known exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.spatial import cKDTree
from scipy.stats import binom

from featscope.core.columns import Columns, column
from featscope.core.settings import setting
from featscope.core.store import Folder, Json
from featscope.core.streams import derive
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec

Row = dict[str, Any]
Array = np.ndarray
#: nodes of the quadrature over x₁ in [−LIMIT, LIMIT]; the Gaussian mass beyond is below 1e-15
NODES, LIMIT = 20_001, 8.0
#: nodes of the kernel's quadrature
KERNEL_NODES = 401


class KnownDensity(Spec):
    """Dimensions, samples, radii and networks of the three settings."""

    dtype: Literal["float64"] = "float64"
    profiles: ClassVar[Mapping[str, Overrides]] = {
        "quick": {"samples": [100, 400, 1600], "repeats": 100, "points": 4000, "seeds": [0, 1]}
    }

    dimensions: tuple[int, ...] = setting((1, 2, 3, 4, 5, 6), "dimensions D", letter="D")
    samples: tuple[int, ...] = setting((100, 1000, 10_000), "sample sizes N", letter="N", min_length=3)
    repeats: int = setting(400, "samples drawn for a quantile of the gap", ge=20)
    level: float = setting(0.95, "level of the quantile that stands for 'with high probability'", gt=0, lt=1)
    slope: float = setting(2.0, "a of the linear network a·x₁ and of the wave", letter="a", gt=0)
    radius: float = setting(0.25, "δ of the Gaussian setting", letter="δ", gt=0)
    output: float = setting(1.0, "what the constant network says")
    radius_shares: tuple[float, ...] = setting(
        (0.3, 0.03, 0.003), "δ as shares of the sample's spacing N^(−1/D)"
    )
    points: int = setting(20_000, "fresh points for distances to the sample", ge=100)
    bandwidths: tuple[float, ...] = setting(
        (0.4, 0.2, 0.1, 0.05, 0.025), "bandwidths h of the proof's two terms", letter="h", min_length=3
    )
    phases: tuple[float, ...] = setting((0.01, 0.1, 1.0, 10.0, 100.0), "ω·δ of the wave")


class Gap(Columns):
    """A network that does not depend on the sample: how far the empirical adversarial risk falls short."""

    network = column("linear or constant")
    D = column("dimension")
    n = column("sample size N")
    seed = column("seed of the samples")
    gap = column("quantile of L_adv − L̂_adv over the repeated samples")
    flatness = column("E max_{‖ξ‖≤δ} ‖∇L(X + ξ)‖, by quadrature")
    rate = column("N^(−1/(D+2))")


class MemoryGap(Columns):
    """A loss that remembers the sample, with bounds of its global flatness."""

    D = column("dimension")
    n = column("sample size N")
    seed = column("seed of the sample")
    radius_rule = column("how δ is chosen: proof (N^(−1/(D+2))) or apart (a share of N^(−1/D))")
    share = column("δ ÷ N^(−1/D)")
    radius = column("radius δ")
    clean = column("L_clean, a lower bound of the gap because L̂_adv = 0")
    flatness_low = column("lower bound of the global flatness")
    flatness_high = column("upper bound of it")
    rate = column("N^(−1/(D+2))")


class ProofTerm(Columns):
    """The two terms of the proof, the bandwidth apart from δ."""

    term = column("I or II")
    D = column("dimension")
    n = column("sample size N; none for I")
    bandwidth = column("bandwidth h")
    value = column("the term")
    order = column("h² (I) or N^(−1/2) h^(−D/2) (II)")


class LowerConstant(Columns):
    """Proposition E.2's constant (L_adv − L_clean) ÷ (δ·E‖∇L‖)."""

    network = column("linear or wave")
    phase = column("a·δ (linear) or ω·δ (wave)")
    radius = column("radius δ")
    constant = column("the constant")


def nodes() -> tuple[Array, Array]:
    """Points x₁ and Gaussian weights that sum to 1."""
    x = np.linspace(-LIMIT, LIMIT, NODES)
    weights = np.exp(-x * x / 2)
    return x, weights / weights.sum()


def softplus(z: Array) -> Array:
    """log(1 + e^z)."""
    return np.asarray(np.logaddexp(0.0, z))


def sigmoid(z: Array) -> Array:
    """1/(1 + e^−z)."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -z)))


class Network:
    """Loss of attacked points and the flatness around them, as functions of x₁, for y = sign x₁."""

    def __init__(self, attacked: Callable[[Array], Array], flat: Callable[[Array], Array]) -> None:
        self.attacked, self.flat = attacked, flat


def networks(spec: KnownDensity) -> dict[str, Network]:
    """The linear network, whose worst point lies δ nearer to the boundary, and the constant one."""
    a, delta, c = spec.slope, spec.radius, spec.output
    return {
        "linear": Network(
            lambda x: softplus(-a * (np.abs(x) - delta)), lambda x: a * sigmoid(-a * (np.abs(x) - delta))
        ),
        "constant": Network(lambda x: softplus(-np.sign(x) * c), lambda x: np.zeros_like(x)),
    }


def gap_rows(spec: KnownDensity) -> list[Row]:
    """The gap's quantile for each network and N; D enters the bound's rate alone."""
    c, (x, weights) = Gap, nodes()
    rows: list[Row] = []
    for (name, net), n, seed in product(networks(spec).items(), spec.samples, spec.seeds):
        draws = np.random.default_rng(derive(seed, "gap", name, n)).standard_normal((spec.repeats, n))
        gaps = float(weights @ net.attacked(x)) - net.attacked(draws).mean(-1)
        row: Row = {c.network: name, c.n: n, c.seed: seed, c.gap: float(np.quantile(gaps, spec.level))}
        row[c.flatness] = float(weights @ net.flat(x))
        rows += [{**row, c.D: dim, c.rate: n ** (-1 / (dim + 2))} for dim in spec.dimensions]
    return rows


def remembered(distance: Array, delta: float, n: int, dim: int) -> Row:
    """Both sides for L = min(1, (dist − δ)₊/w), w = δ, from fresh points' distances to the sample.

    Flatness is at least 1/w where a point itself lies on a slope, and at most 1/w times the volume of N boxes
    of half-width 2δ + w, from where a slope is within δ.
    """
    c, width = MemoryGap, delta
    steep = (distance > delta) & (distance < delta + width)
    return {
        c.clean: float(np.clip((distance - delta) / width, 0, 1).mean()),
        c.flatness_low: float(steep.mean() / width),
        c.flatness_high: min(1.0, n * (2 * (2 * delta + width)) ** dim) / width,
    }


def memory_rows(spec: KnownDensity) -> list[Row]:
    """Distances on the torus, for the proof's radius and for radii apart from its bandwidth."""
    c, rows = MemoryGap, list[Row]()
    for dim, n, seed in product(spec.dimensions, spec.samples, spec.seeds):
        rng = np.random.default_rng(derive(seed, "memory", dim, n))
        sample, fresh = rng.random((n, dim)), rng.random((spec.points, dim))
        distance = np.asarray(cKDTree(sample, boxsize=1.0).query(fresh, p=math.inf)[0])
        rate, spacing = n ** (-1 / (dim + 2)), n ** (-1 / dim)
        radii = [("proof", rate), *(("apart", part * spacing) for part in spec.radius_shares)]
        for rule, delta in radii:
            place: Row = {c.D: dim, c.n: n, c.seed: seed, c.radius_rule: rule, c.rate: rate}
            place |= {c.radius: delta, c.share: delta / spacing}
            rows.append({**place, **remembered(distance, delta, n, dim)})
    return rows


def bias(spec: KnownDensity, bandwidth: float, dim: int) -> float:
    """(I) = |E L(X) − E L(X + hξ)| for the linear network, ξ uniform in the unit ball of R^D.

    ξ₁ has the density ∝ (1 − t²)^((D−1)/2); L at x₁ + hξ₁ keeps the label of x₁, as the proof's p_S does.
    """
    x, weights = nodes()
    t = np.linspace(-1, 1, KERNEL_NODES)[1:-1]
    kernel = (1 - t * t) ** ((dim - 1) / 2)
    kernel /= kernel.sum()
    clean = softplus(-spec.slope * np.abs(x))
    moved = softplus(-spec.slope * (np.abs(x)[:, None] + bandwidth * t))
    return abs(float(weights @ (moved @ kernel - clean)))


def worst_variance(n: int, bandwidth: float, dim: int) -> float:
    """(II) for the worst loss in [0, 1]: ½E|K/(Np) − 1|, K ~ Bin(N, p), p = (2h)^D, by de Moivre."""
    p = min(1.0, (2 * bandwidth) ** dim)
    k = math.floor(n * p) + 1
    deviation = 2 * k * (1 - p) * binom.pmf(k, n, p) if p < 1 else 0.0
    return float(deviation / (2 * n * p))


def term_rows(spec: KnownDensity) -> list[Row]:
    """Both terms over the bandwidth."""
    c, rows = ProofTerm, list[Row]()
    for dim, h in product(spec.dimensions, spec.bandwidths):
        place: Row = {c.D: dim, c.bandwidth: h}
        rows.append({**place, c.term: "I", c.n: None, c.value: bias(spec, h, dim), c.order: h * h})
        for n in spec.samples:
            value, order = worst_variance(n, h, dim), n**-0.5 * h ** (-dim / 2)
            rows.append({**place, c.term: "II", c.n: n, c.value: value, c.order: order})
    return rows


def wave_constant(spec: KnownDensity, phase: float) -> float:
    """E.2's constant for the wave f = a·sin(ωx₁) with label sign x₁, at δ = radius and ω = phase/δ.

    The worst value of −y·f within δ: the phase may turn by ω·δ towards a trough, and no further than it.
    """
    x, weights = nodes()
    a, omega = spec.slope, phase / spec.radius
    # y·sin(ωx₁) = sin(ω|x₁|): with θ = ω|x₁| its troughs are at 3π/2 + 2πk, and at −π/2 across the boundary.
    theta = omega * np.abs(x)
    away = (theta - 1.5 * math.pi + math.pi) % (2 * math.pi) - math.pi
    reached = np.sign(away) * np.maximum(np.abs(away) - phase, 0)
    worst, clean = -a * np.cos(reached), a * np.sin(theta)
    slope = a * omega * np.abs(np.cos(theta)) * sigmoid(-clean)
    gained = float(weights @ (softplus(-worst) - softplus(-clean)))
    return gained / (spec.radius * float(weights @ slope))


def linear_constant(spec: KnownDensity, phase: float) -> float:
    """E.2's constant for a·x₁ with a·δ = phase."""
    x, weights = nodes()
    delta = phase / spec.slope
    gained = softplus(-spec.slope * (np.abs(x) - delta)) - softplus(-spec.slope * np.abs(x))
    return float(weights @ gained) / (delta * spec.slope * float(weights @ sigmoid(-spec.slope * np.abs(x))))


def constant_rows(spec: KnownDensity) -> list[Row]:
    """E.2's constants."""
    c, rows = LowerConstant, list[Row]()
    for phase in spec.phases:
        linear: Row = {c.network: "linear", c.radius: phase / spec.slope}
        rows.append({**linear, c.phase: phase, c.constant: linear_constant(spec, phase)})
        wave: Row = {c.network: "wave", c.radius: spec.radius}
        rows.append({**wave, c.phase: phase, c.constant: wave_constant(spec, phase)})
    return rows


def run_density(spec: KnownDensity, folder: Folder) -> Json:
    """Compute all four tables."""
    gaps, memory, constants = gap_rows(spec), memory_rows(spec), constant_rows(spec)
    folder.add("gaps", gaps)
    folder.add("memory", memory)
    folder.add("terms", term_rows(spec))
    folder.add("constants", constants)
    m, g = MemoryGap, Gap
    apart = [row for row in memory if row[m.radius_rule] == "apart"]
    return {
        "largest_share_linear": max(
            row[g.gap] / (row[g.rate] * row[g.flatness]) for row in gaps if row[g.network] == "linear"
        ),
        "gap_of_a_constant": max(row[g.gap] for row in gaps if row[g.network] == "constant"),
        "largest_gap_remembered": max(row[m.clean] for row in apart),
        "least_constant_wave": min(
            row[LowerConstant.constant] for row in constants if row[LowerConstant.network] == "wave"
        ),
    }


def size(spec: KnownDensity) -> Size:
    """Repeated samples, distances to a sample found by a tree, and the quadrature of the first term."""
    largest, drawn = max(spec.samples), spec.repeats * sum(spec.samples)
    quadrature = NODES * KERNEL_NODES
    seeds, dimensions = len(spec.seeds), len(spec.dimensions)
    # A tree looks at about 2^D neighbouring cells of ten points.
    distances = spec.points * len(spec.samples) * sum(2**dim * 10 for dim in spec.dimensions)
    work = seeds * (2 * drawn + distances) + dimensions * len(spec.bandwidths) * quadrature
    held = max(spec.repeats * largest, quadrature, (largest + spec.points) * max(spec.dimensions))
    return Size(held, work, rate=1e8)


EXPERIMENTS = (
    Experiment(
        name="known-density",
        paper="cgro",
        shows="CGRO Theorem E.1, Proposition E.2 where the density is known: both sides, both terms of the "
        "proof, D = 1 … 6",
        spec=KnownDensity,
        run=run_density,
        columns={"gaps": Gap, "memory": MemoryGap, "terms": ProofTerm, "constants": LowerConstant},
        takes={"quick": "2 s", "cpu": "10 s", "paper": "10 s"},
        highlights=(
            Highlight(
                "largest_share_linear", "Theorem E.1, linear network: gap over the bound without its constant"
            ),
            Highlight("gap_of_a_constant", "Theorem E.1, constant network, whose bound is 0: largest gap"),
            Highlight("largest_gap_remembered", "loss that remembers the sample, δ apart: largest gap"),
            Highlight("least_constant_wave", "Proposition E.2, wave: least constant"),
        ),
        size=size,
    ),
)
