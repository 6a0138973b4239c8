"""FA's schematic Figures 1 and 4 as statements."""

from __future__ import annotations

from featscope.claims.claim import Claim, Finding, Kind, Need, Runs
from featscope.claims.judging import (
    above,
    at_most,
    every,
    exactly,
    exceeds,
    largest,
    one_run,
    over_seeds,
    quotient,
    smallest,
)
from featscope.core.rules import SAME, SMALL
from featscope.papers.fa.clusters_plane import PlaneCentre, PlaneSite, TrainedSimplex
from featscope.papers.fa.runs import stated

PLANE = Need("clusters-plane")


def _plane(runs: Runs) -> Finding:
    """f_FA is linear, both classify all centres, and f_FD's least distance is the larger one."""
    c, rows = PlaneCentre, runs["run"].part("centres")
    near = smallest(rows[c.averaging])
    return every(
        {
            "least distance, f_FD less f_FA": exceeds(smallest(rows[c.decoupled]) - near, 0.0),
            "f_FA classifies every centre": exceeds(near, 0.0),
            "f_FA less a linear function": exactly(largest(rows[c.bent]), SAME),
        }
    )


def _simplex(runs: Runs) -> Finding:
    """Trained on the simplex, the 2-class network's median radius is f_FA's up to 2·SMALL."""
    c, rows = TrainedSimplex, runs["run"].part("simplex")
    pairs = rows.select(c.exact_over_root_d, c.averaging_over_root_d).iter_rows()
    gaps = [abs(quotient(ours, built) - 1) for ours, built in pairs]
    return at_most(over_seeds(gaps), 2 * SMALL, in_units_of_root_d=rows[c.exact_over_root_d].to_list())


def _simplex_weights(runs: Runs) -> Finding:
    """Trained on the simplex, every weight is turned to all features of its class and away from the other."""
    c, rows = TrainedSimplex, runs["run"].part("simplex")
    return every(
        {
            "least cosine with the own class": above(over_seeds(rows[c.same_min].to_list()), 0.0),
            "largest cosine with the other class": at_most(over_seeds(rows[c.other_max].to_list()), 0.0),
        }
    )


def _hyperplane(runs: Runs) -> Finding:
    """Every point is further from the robust boundary than from the hyperplane, which is right on all."""
    c, rows = PlaneSite, runs["run"].part("sites")
    right = smallest(((rows[c.y] - 0.5) * rows[c.label]).to_list())
    return every(
        {
            "robust less linear distance": exceeds(smallest(rows[c.robust] - rows[c.linear]), 0.0),
            "the hyperplane's least margin": exceeds(right, 0.0),
        }
    )


CLAIMS: tuple[Claim, ...] = (
    stated(
        "FA-F1",
        "Figure 1",
        "With Σμ = 0 averaging is a linear classifier, and decoupling keeps every centre further from its "
        "boundary.",
        (),
        one_run("plane", "five clusters in the plane, three positive: exact distances", PLANE, _plane),
    ),
    Claim(
        "FA-Q-simplex",
        "fa",
        "beyond Figure 1, whose features add up to 0",
        "Trained on the corners of a simplex (cosine −1/(k−1)), the 2-class network is the averaging one.",
        (),
        (
            one_run("radius", "§6.1's values: the median radius is f_FA's up to 10 %", PLANE, _simplex),
            one_run("weights", "§6.1's values: every weight averages its class", PLANE, _simplex_weights),
        ),
        named_kind=Kind.QUESTION,
    ),
    stated(
        "FA-F4",
        "Figure 4",
        "A hyperplane between many points near it is right and fragile; a classifier of balls is robust.",
        (),
        one_run("plane", "points of a packing beside a line: exact distances", PLANE, _hyperplane),
    ),
)
