"""CGRO Lemmas A.4, C.5, C.7, D.2, D.3 and Proposition D.5, judged from rows."""

from __future__ import annotations

import math

import polars as pl

from featscope.claims.claim import Finding, Need, Reading, Runs
from featscope.claims.judging import (
    at_least,
    at_most,
    every,
    exactly,
    grows_at_most,
    largest,
    over_seeds,
    smallest,
    vacuous,
)
from featscope.core.rules import CONSTANT, SAME
from featscope.experiments.run import Run
from featscope.papers.cgro.appendix_lemmas import (
    AppendixLemmas,
    CubicNoise,
    Pieces,
    ProductNetwork,
    SquareNetwork,
)
from featscope.papers.cgro.runs import STAGES, each_seed, logarithm, stated
from featscope.papers.cgro.signal_stages import SignalStages
from featscope.papers.cgro.stages_columns import Stages, Training

LEMMAS = {"run": Need("appendix-lemmas")}


def _noise_by_seed(runs: Runs) -> list[pl.DataFrame]:
    rows = runs["run"].part("noise")
    return [rows.filter(pl.col(CubicNoise.seed) == seed) for seed in AppendixLemmas.of(runs["run"]).seeds]


def cubic_as_printed(runs: Runs) -> Finding:
    """The share of small draws against d/2^(1/d), which is no probability while it is at least 1."""
    frames, c = _noise_by_seed(runs), CubicNoise
    allowed = smallest(runs["run"].part("noise")[c.printed])
    found = at_most(over_seeds([largest(f[c.small] - f[c.printed]) for f in frames]), 0.0)
    if allowed >= 1:
        return vacuous(f"the lemma allows a share d/2^(1/d) of at least {allowed:.4g}", found)
    return found


def cubic_as_used(runs: Runs) -> Finding:
    """The same with 2^d, as the lemma is used; the constant of O(d) is 3."""
    frames, c = _noise_by_seed(runs), CubicNoise
    return at_most(over_seeds([largest(f[c.small] - CONSTANT * f[c.used]) for f in frames]), 0.0)


def cubic_by_degree(runs: Runs) -> Finding:
    """Carbery and Wright: a cubic is below a share t of its size with probability O(t^(1/3)), t = 1/ln d."""
    frames, c = _noise_by_seed(runs), CubicNoise
    allowed = CONSTANT * pl.col(c.d).log().pow(-1 / 3)
    shares = [largest(f.select(pl.col(c.small) - allowed).to_series()) for f in frames]
    found = at_most(over_seeds(shares), 0.0)
    least = smallest(runs["run"].part("noise").select(allowed).to_series())
    # 3/(ln d)^⅓ is a share from ln d = 27 on
    return vacuous(f"the share allowed, 3/(ln d)^⅓, is at least {least:.4g}", found) if least >= 1 else found


def square_network(runs: Runs) -> Finding:
    """Error at most ε; parameters and depth grow at most like log(1/ε)."""
    rows, c = runs["run"].part("square"), SquareNetwork

    def spread(size: str) -> Finding:
        """The largest size ÷ log(1/ε) in units of the first: a constant, if the size is O(log(1/ε))."""
        each = (rows[size] / rows[c.logarithm]).to_list()
        return exactly(largest(each) / each[0] if each else math.nan, CONSTANT)

    return every(
        {
            "error ÷ ε": exactly(largest(rows[c.measured] / rows[c.error]), 1.0),
            "parameters": spread(c.parameters),
            "depth": spread(c.depth),
        }
    )


def product_network(runs: Runs) -> Finding:
    """Error at most ε, exactly 0 on the axes, range [0, B²], and parameters O(log²(B/ε))."""
    rows, c = runs["run"].part("product"), ProductNetwork
    growth = {
        f"parameters, B={bound:g}": grows_at_most(
            same[c.logarithm].to_list(), same[c.parameters].to_list(), 2.0
        )
        for (bound,), same in rows.group_by(c.bound, maintain_order=True)
    }
    return every(
        {
            "error ÷ ε": exactly(largest(rows[c.measured] / rows[c.error]), 1.0),
            "where a factor is 0": exactly(largest(rows[c.on_axes]), 0.0),
            "outside [0, B²]": exactly(largest(rows[c.outside]), SAME),
            **growth,
        }
    )


def linear_pieces(runs: Runs) -> Finding:
    """Pieces ÷ 2^n over all shapes and seeds."""
    rows, c = runs["run"].part("pieces"), Pieces
    return exactly(largest(rows[c.pieces] / 2.0 ** rows[c.units]), 1.0, shapes=rows[c.shape].n_unique())


def _error_terms(run: Run, frame: pl.DataFrame) -> tuple[pl.Series, float]:
    """Lemma C.5's two error terms without their logarithms: ληα³(1−γ)³Σ_s mean_i ψ, and Pσ²√d/α."""
    spec = SignalStages.of(run)
    law = spec.law
    first = spec.tradeoff * spec.learning_rate * (law.strength * law.residual) ** 3 * frame[Training.slack]
    return first, law.patches * law.noise_scale**2 * law.d**0.5 / law.strength


def _both_sides(run: Run, frames: list[pl.DataFrame]) -> Finding:
    """What other patches added to or took from v_ijr, in units of both error terms together."""

    def worst(frame: pl.DataFrame, side: str) -> float:
        first, second = _error_terms(run, frame)
        return largest(frame[side] / (first + second))

    sides = {"taken": Training.crosstalk_low, "added": Training.crosstalk_high}
    return every(
        {
            name: at_most(over_seeds([worst(frame, key) for frame in frames]), logarithm(run))
            for name, key in sides.items()
        }
    )


def crosstalk(runs: Runs) -> Finding:
    """Lemma C.5, both sides, over the whole run."""
    return _both_sides(runs["run"], each_seed(runs["run"]))


def crosstalk_early(runs: Runs) -> Finding:
    """The same up to the first memorised point."""
    frames = []
    for frame in each_seed(runs["run"]):
        first = int(frame[Training.first_memorised][-1]) if frame.height else -1
        frames.append(frame.filter(pl.col(Training.step) <= first) if first >= 0 else frame)
    return _both_sides(runs["run"], frames)


def first_term_is_small(runs: Runs) -> Finding:
    """The step from C.5 to C.6: the first error term at the end ÷ the second, up to a logarithm."""
    run = runs["run"]
    found = []
    for frame in each_seed(run):
        first, second = _error_terms(run, frame)
        found.append(largest(first / second))
    return at_most(over_seeds(found), logarithm(run))


def memorised_for_good(runs: Runs) -> Finding:
    """Lemma C.7: the last point is memorised within 3 times the paper's order of T1, and V_i stays Ω̃(1)."""
    run, c = runs["run"], Training
    order = {row[Stages.seed]: row[Stages.T1_order] for row in run.part("stages").to_dicts()}
    times, least = [], []
    for seed, frame in zip(SignalStages.of(run).seeds, each_seed(run), strict=True):
        last = int(frame[c.last_memorised][-1]) if frame.height else -1
        times.append(last / order[seed] if last >= 0 and order.get(seed) else math.nan)
        late = frame.filter(pl.col(c.step) >= last) if last >= 0 else frame.clear()
        least.append(smallest(late[c.V_min]))
    return every(
        {
            "T1 ÷ its order": at_most(over_seeds(times), CONSTANT),
            "least V_i from then on": at_least(over_seeds(least), 1 / logarithm(run)),
        }
    )


_NONE: tuple[str, ...] = ()
CLAIMS = (
    stated(
        "CG-LA.4",
        "CGRO Lemma A.4",
        "For vectors whose cubic form reaches 1 on the sphere, the cubic form of Gaussian noise is at least "
        "Ω̃(σ³) except with probability O(d)/2^{1/d}.",
        (
            Reading("as printed", "share of draws below σ³/ln d against d/2^(1/d)", LEMMAS, cubic_as_printed),
            Reading(
                "2^d", "the same against 3d/2^d, as the proof of Theorem 4.1 uses it", LEMMAS, cubic_as_used
            ),
            Reading(
                "by degree",
                "the same against 3(1/ln d)^(1/3), what a cubic polynomial of Gaussians gives",
                LEMMAS,
                cubic_by_degree,
            ),
        ),
        _NONE,
    ),
    stated(
        "CG-LC.5",
        "CGRO Lemma C.5, Theorem C.6",
        "Each noise component is its start plus Θ(ησ²d/N)Σψ̃v² up to Õ(ληα³(1−γ)³/N)ΣΣψ + Õ(Pσ²√d/α), from "
        "both sides.",
        (
            Reading("up to a logarithm", "both sides, both error terms, Õ as ln d", STAGES, crosstalk),
            Reading("until memorisation", "the same up to the first V_i ≥ 1", STAGES, crosstalk_early),
            Reading(
                "first term dropped",
                "the step to Theorem C.6: the first error term is Õ of the second",
                STAGES,
                first_term_is_small,
            ),
        ),
    ),
    stated(
        "CG-LC.7",
        "CGRO Lemma C.7",
        "From T1 = Θ(N/(ησ0σ³d^1.5)) on every V_i is Ω̃(1), for all later steps.",
        (
            Reading(
                "all later steps",
                "the last point's time is at most 3 times the order, and min_i V_i ≥ 1/ln d from then on",
                STAGES,
                memorised_for_good,
            ),
        ),
    ),
    stated(
        "CG-LD.2",
        "CGRO Lemma D.2",
        "x² on [0, 1] is approximated within ε by a ReLU network of depth and size O(log(1/ε)).",
        (Reading("built", "measured error, parameters and depth over ε", LEMMAS, square_network),),
        _NONE,
    ),
    stated(
        "CG-LD.3",
        "CGRO Lemma D.3",
        "xy on [0, B]² is approximated within ε by a ReLU network of O(log²(B/ε)) parameters that is 0 where "
        "a factor is.",
        (Reading("built", "measured error, zeros, range and parameters over B, ε", LEMMAS, product_network),),
        _NONE,
    ),
    stated(
        "CG-PD.5",
        "CGRO Proposition D.5",
        "A ReLU network with n hidden units has at most 2^n linear regions.",
        (
            Reading(
                "on a line", "pieces of random and of folded networks along a line", LEMMAS, linear_pieces
            ),
        ),
        _NONE,
    ),
)
