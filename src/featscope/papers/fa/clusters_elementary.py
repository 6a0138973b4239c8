"""`clusters-elementary`: what of FA's appendix needs no training.

The k at which statements open, Gaussian tails (A.8, A.9), activation at the start for n → ∞ (A.12), and
inequalities of loss derivatives (A.15, B.6, C.18).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any, ClassVar, Literal

from scipy.special import log_ndtr, log_softmax

from featscope.core.columns import Columns, column
from featscope.core.settings import Positives, Sizes, setting
from featscope.core.store import Folder, Json, Rows
from featscope.experiments.cost import Size
from featscope.experiments.highlights import Highlight
from featscope.experiments.spec import Experiment, Overrides, Spec
from featscope.papers.fa.openings import (
    activation_breaks,
    activation_limit,
    activation_opens,
    bound_opens,
    radii_part,
    radius_opens,
    window_opens,
)
from featscope.papers.fa.printed import PROOF


class ElementarySpec(Spec):
    """Grids on which the inequalities are evaluated; nothing is drawn."""

    profiles: ClassVar[dict[str, Overrides]] = {"quick": {}, "paper": {}}
    seeds: tuple[int, ...] = (0,)
    dtype: Literal["float64"] = "float64"
    dimensions: Sizes = setting((2, 3, 10, 100, 3072, 10**6, 10**9), "dimensions of Lemma A.8", letter="d")
    draws: Sizes = setting((1, 2, 3, 10, 100, 10**4, 10**8), "numbers of Gaussians in Lemma A.9", letter="l")
    shares: Positives = setting(
        (1e-3, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0), "t of Lemma A.9 as a share of 2 ln l (and of 4)"
    )
    clusters: Sizes = setting(
        (4, 10, 100, 338, 10**4, 10**8, 10**12, 10**14, 10**16), "clusters of Proposition A.12", letter="k"
    )
    margins: tuple[float, ...] = setting(
        (-30.0, -10.0, -5.0, -1.0, -0.1, 0.0, 0.1, 1.0, 5.0, 10.0, 30.0), "margins of Lemmas A.15, B.6, C.18"
    )
    classes: Sizes = setting((2, 3, 10, 100), "classes of Lemma C.18", letter="k")
    epsilons: Positives = setting((0.001, 0.1, 0.5, 1.0, 1.25), "ε of Lemma C.18", letter="ε")


class Opening(Columns):
    """One row a statement: the k from which on it says something."""

    statement = column("the statement")
    condition = column("what must hold, with unit constants, d = k^10, n = k^7, η = d^−2, m = k/2, c = 1")
    opens = column("the least k from which on it does")


class Tail(Columns):
    """One row for each inequality of Lemmas A.8 and A.9 at each point of the grid; logarithms."""

    lemma = column("A.8, A.9 min or A.9 max")
    size = column("d or l")
    t = column("t of Lemma A.9")
    exact = column("ln of the probability")
    bound = column("ln of its bound")


class Activation(Columns):
    """Proposition A.12 for n → ∞, m = k/2: one row for each k."""

    k = column("clusters")
    m = column("neurons a class")
    fails = column("probability with which some neuron is activated by too few points of some cluster")
    allowed = column("m^−0.01, what the proposition allows")


class Derivative(Columns):
    """Two margins q_i ≥ q_j of the logistic loss (A.15, B.6)."""

    q_i = column("the larger margin")
    q_j = column("the smaller margin")
    log_ratio = column("ln of the ratio of derivatives")
    least_slope = column("the lesser of y_i ℓ_i' and y_j ℓ_j'")
    largest_slope = column("the larger of them")


class Softmax(Columns):
    """Two points of the k-class loss, q_i ≥ q_j ≥ 0, whose other outputs are all 0 or all ε (C.18)."""

    k = column("classes")
    eps = column("ε, which no other output exceeds")
    q_i = column("the larger own output")
    q_j = column("the smaller own output")
    others_i = column("the other outputs of the first point")
    others_j = column("the other outputs of the second point")
    log_ratio = column("ln of ℓ'_j/ℓ'_i")
    log_low = column("ln of (e^Δ + k − 1)/(k(1 + 2ε))")
    log_top = column("ln of e^Δ(1 + 2ε)")


def openings() -> Rows:
    """Every statement whose constants decide from which k on it says something."""
    c = Opening
    found: list[tuple[str, str, int | None]] = [
        ("Theorem 4.5", "some T is at least 1/η and at most exp(√k)", window_opens(False)),
        ("Theorem 4.7", "some T is at least k^8/η and at most exp(√k)", window_opens(True)),
        ("Theorem 4.5, item 3", "2(1+c)√(d/k) < √(d/2)", radius_opens(4)),
        ("Theorems 4.5 and 4.7", "2(1+c)√(d/k) < √d/10", radii_part(4, 0.1)),
        ("Proposition 4.8", "3(1+c)√(d/k) < √(d/2)", radius_opens(6)),
        ("Theorem D.2", "2(1+c)√(d/k) < √(d/2)", radius_opens(4)),
        ("Proposition A.12", "at most .95 of the draws may fail", activation_opens()),
        ("Proposition A.12 breaks", "1 − (1 − 1/(3m²))^(2mk) > m^−0.01, n → ∞", activation_breaks()),
    ]
    for net, lemma in (("binary", "B.7, B.19, B.24"), ("fine", "C.10, C.19, C.24")):
        for name, (constant, power) in PROOF[net]._asdict().items():
            text = f"{constant:g}·k^{power}·ε ≤ 0.1 ({name})"
            found.append((f"Lemmas {lemma}", text, bound_opens(constant, power)))
    for lemma, constant in (
        ("B.10 to B.12, B.26", 1 / 6),
        ("B.13", 1 / 3),
        ("B.14, C.17", 1.0),
        ("B.15, B.20", 2.0),
    ):
        found.append((f"Lemmas {lemma}", f"{constant:.3g}·ε ≤ 0.1", bound_opens(constant)))
    return [{c.statement: s, c.condition: text, c.opens: k} for s, text, k in found]


def tails(spec: ElementarySpec) -> Iterator[dict[str, Any]]:
    """Both sides of A.8 and A.9, as logarithms."""
    c = Tail
    for d in spec.dimensions:
        exact = math.log(2) + float(log_ndtr(-math.log(d)))
        yield {
            c.lemma: "A.8",
            c.size: d,
            c.t: math.nan,
            c.exact: exact,
            c.bound: math.log(2) - math.log(d) ** 2 / 2,
        }
    for size, part in product(spec.draws, spec.shares):
        root = math.sqrt(2 * math.log(size))
        far = 4 * part
        # 1 − (1 − Q)^l, without rounding Q away
        missed = math.log(-math.expm1(size * float(log_ndtr(root + far))))
        yield {
            c.lemma: "A.9 min",
            c.size: size,
            c.t: far,
            c.exact: missed,
            c.bound: -math.log(2) - far**2 / 2,
        }
        near = 2 * math.log(size) * part
        below = size * float(log_ndtr(math.sqrt(2 * math.log(size) - near)))
        bound = -math.exp(near / 2) / (math.sqrt(2 * math.pi) * (root + 1))
        yield {c.lemma: "A.9 max", c.size: size, c.t: near, c.exact: below, c.bound: bound}


def activations(spec: ElementarySpec) -> Iterator[dict[str, Any]]:
    """What Proposition A.12 allows, and what happens."""
    c = Activation
    for k in spec.clusters:
        m = k / 2
        yield {c.k: k, c.m: m, c.fails: activation_limit(m, k), c.allowed: math.pow(m, -0.01)}


def _slope(q: float) -> float:
    """y ℓ'(q) = −1/(1 + e^q)."""
    return -math.exp(_log_slope(q))


def _log_slope(q: float) -> float:
    """ln(1/(1 + e^q))."""
    return -max(q, 0.0) - math.log1p(math.exp(-abs(q)))


def derivatives(spec: ElementarySpec) -> Iterator[dict[str, Any]]:
    """Every pair of margins."""
    c = Derivative
    for q_i, q_j in product(spec.margins, repeat=2):
        if q_i >= q_j:
            slopes = (_slope(q_i), _slope(q_j))
            ratio = _log_slope(q_j) - _log_slope(q_i)
            yield {
                c.q_i: q_i,
                c.q_j: q_j,
                c.log_ratio: ratio,
                c.least_slope: min(slopes),
                c.largest_slope: max(slopes),
            }


def _log_missed(k: int, q: float, other: float) -> float:
    """ln of 1 − p_c: an own output of q among k − 1 others."""
    return math.log(k - 1) + float(log_softmax([q, *[other] * (k - 1)])[1])


def softmaxes(spec: ElementarySpec) -> Iterator[dict[str, Any]]:
    """Every pair of outputs that are not negative, with extreme other outputs."""
    c, outputs = Softmax, [q for q in spec.margins if q >= 0]
    for k, eps, q_i, q_j in product(spec.classes, spec.epsilons, outputs, outputs):
        if q_i < q_j:
            continue
        for first, second in product((0.0, eps), repeat=2):
            gap = q_i - q_j
            yield {
                c.k: k,
                c.eps: eps,
                c.q_i: q_i,
                c.q_j: q_j,
                c.others_i: first,
                c.others_j: second,
                c.log_ratio: _log_missed(k, q_j, second) - _log_missed(k, q_i, first),
                c.log_low: math.log((math.exp(gap) + k - 1) / k) - math.log1p(2 * eps),
                c.log_top: gap + math.log1p(2 * eps),
            }


def run_elementary(spec: ElementarySpec, folder: Folder) -> Json:
    """All grids."""
    found = {
        "openings": openings(),
        "tails": list(tails(spec)),
        "activation": list(activations(spec)),
        "derivatives": list(derivatives(spec)),
        "softmax": list(softmaxes(spec)),
    }
    for part, rows in found.items():
        folder.add(part, rows)
    return {"opens": {f"{row['statement']}: {row['condition']}": row["opens"] for row in found["openings"]}}


def size(spec: ElementarySpec) -> Size:
    """A few thousand numbers."""
    pairs = len(spec.margins) ** 2
    cells = 4 * len(spec.classes) * len(spec.epsilons) * pairs
    return Size(cells * 10, cells * max(spec.classes))


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        "clusters-elementary",
        "fa",
        "the k at which FA's statements open, and what of its appendix needs no training: Gaussian tails, "
        "first activations, loss derivatives",
        ElementarySpec,
        run_elementary,
        {"quick": "1 s", "cpu": "1 s", "paper": "1 s"},
        highlights=(Highlight("opens/*", "k from which on {}"),),
        size=size,
        columns={
            "openings": Opening,
            "tails": Tail,
            "activation": Activation,
            "derivatives": Derivative,
            "softmax": Softmax,
        },
    ),
)
