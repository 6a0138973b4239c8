"""The grids of `clusters-elementary` against other ways to the same numbers."""

import math

import pytest
from scipy import integrate, stats

from featscope.papers.fa.clusters_elementary import ElementarySpec, derivatives, softmaxes, tails


def test_tails_are_the_probabilities() -> None:
    """A.8 and A.9 with moderate numbers by integration and by the distribution of extremes."""
    rows = list(tails(ElementarySpec(dimensions=(10,), draws=(1, 5, 100), shares=(0.25, 1.0))))
    density = stats.norm.pdf
    tail = 2 * integrate.quad(density, math.log(10), math.inf)[0]
    assert math.exp(rows[0]["exact"]) == pytest.approx(tail, rel=1e-8)
    assert math.exp(rows[0]["bound"]) == pytest.approx(2 * 10 ** (-math.log(10) / 2), rel=1e-12)
    for row in rows[1:]:
        size, t, root = row["size"], row["t"], math.sqrt(2 * math.log(row["size"]))
        if row["lemma"] == "A.9 min":
            exact = 1 - stats.norm.cdf(root + t) ** size
            bound = 0.5 * math.exp(-t * t / 2)
        else:
            exact = stats.norm.cdf(math.sqrt(2 * math.log(size) - t)) ** size
            bound = math.exp(-math.exp(t / 2) / (math.sqrt(2 * math.pi) * (root + 1)))
        assert math.exp(row["exact"]) == pytest.approx(exact, rel=1e-6)
        assert math.exp(row["bound"]) == pytest.approx(bound, rel=1e-9)


def test_the_counter_example_of_b6() -> None:
    """At margins 0 and −10 the ratio is 2.0 where e⁵ = 148 is asked for."""
    row = next(r for r in derivatives(ElementarySpec()) if (r["q_i"], r["q_j"]) == (0.0, -10.0))
    assert math.exp(row["log_ratio"]) == pytest.approx((1 + 1) / (1 + math.exp(-10)), rel=1e-12)
    assert math.exp(row["log_ratio"]) < 2.0 < math.exp(5)
    assert row["least_slope"] == pytest.approx(-1 / (1 + math.exp(-10)))
    assert row["largest_slope"] == pytest.approx(-0.5)


def test_softmax_rows_are_softmaxes() -> None:
    spec = ElementarySpec(classes=(4,), epsilons=(0.5,), margins=(0.0, 1.0, 3.0))
    for row in softmaxes(spec):
        missed = [
            3 * math.exp(other) / (3 * math.exp(other) + math.exp(q))
            for q, other in ((row["q_i"], row["others_i"]), (row["q_j"], row["others_j"]))
        ]
        gap = row["q_i"] - row["q_j"]
        assert math.exp(row["log_ratio"]) == pytest.approx(missed[1] / missed[0], rel=1e-12)
        assert math.exp(row["log_low"]) == pytest.approx((math.exp(gap) + 3) / (4 * 2), rel=1e-12)
        assert math.exp(row["log_top"]) == pytest.approx(math.exp(gap) * 2, rel=1e-12)
