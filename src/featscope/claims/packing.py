"""What the packing shows, judged from rows: CGRO Theorem 5.3 and EP's lower bounds both read it so."""

from __future__ import annotations

import math

import polars as pl

from featscope.claims.claim import Finding, Runs, plain
from featscope.claims.judging import at_least, every, exactly, fitted, largest, reaches, smallest
from featscope.core.rules import BEND
from featscope.experiments.packing import ListedLaw, Packing, PackingCount


def rate(runs: Runs) -> tuple[list[float], list[float], float, float]:
    """D, the least number of parameters, and δ, μ of the count at the largest δ and the μ nearest to .1."""
    run = runs["run"]
    spec = Packing.of(run)
    delta, mu = spec.shown_delta, spec.shown_mu
    rows = (
        run.part("count")
        .filter((pl.col(PackingCount.delta) == delta) & (pl.col(PackingCount.mu) == mu))
        .sort(PackingCount.D)
    )
    return [float(v) for v in rows[PackingCount.D]], rows[PackingCount.needed].to_list(), delta, mu


def exponential(runs: Runs) -> Finding:
    """The count grows like e^{bD}: b > 0 with its interval, against a quarter of the packing's own rate."""
    dims, needed, delta, mu = rate(runs)
    fit = fitted([math.exp(d / max(dims) * 20) for d in dims], needed)
    scale = 20 / max(dims)
    grown = type(fit)(fit.value * scale, fit.low * scale, fit.high * scale)
    sites = math.log(math.ceil(1 / (2 * delta)))
    return at_least(
        grown,
        sites / 4 * (1 - BEND),
        rate_of_packing=sites,
        needed=dict(zip(map(str, dims), map(plain, needed), strict=True)),
        delta=delta,
        mu=mu,
    )


def law_holds(runs: Runs) -> Finding:
    """The packing satisfies Assumption 5.1 and its clean classifier is fragile: in full for small D."""
    rows = runs["run"].part("law")
    apart = [rows[column].rename("apart") for column in (ListedLaw.separation_Linf, ListedLaw.separation_L2)]
    close = smallest(pl.concat([distance / (2 * rows[ListedLaw.radius]) for distance in apart]))
    return every(
        {
            "separation over 2δ": reaches(close, 1.0),
            "clean error of x_D > ½": exactly(largest(rows[ListedLaw.clean_error]), 0.0),
            "robust error of x_D > ½": reaches(smallest(rows[ListedLaw.linear_robust_error]), 0.5),
        }
    )
