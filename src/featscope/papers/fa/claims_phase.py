"""PH-clusters: where FA's 2-class network stops averaging, against the lines of the model's own sizes."""

from __future__ import annotations

from featscope.claims.claim import Claim, Kind, Need
from featscope.claims.judging import one_run
from featscope.core.rules import CONSTANT, PHASE_EDGE
from featscope.papers.fa.phase_clusters import COSINE, INIT, NOISE
from featscope.sweeps.phases import edge_within

PHASE = Need("phase-clusters")

CLAIMS = (
    Claim(
        "PH-clusters",
        "fa",
        "beyond FA: phase diagrams of §3 to §5",
        "The 2-class network averages its clusters up to σ_w = Θ(η√d/(mk)), its weights are features "
        "rather than "
        "noise from n/k = (σ/α)² on, and its radius is √(d(1−c)/k) for features of cosine c.",
        (),
        (
            one_run(
                "start and step",
                "the σ_w at which the least own coefficient is half of the largest, over η, "
                "against η√d/(4√2·mk)",
                PHASE,
                edge_within(INIT, CONSTANT),
            ),
            one_run(
                "points and signal",
                "the n/k at which features and noise have equal parts in a weight, over α/σ, against (σ/α)²",
                PHASE,
                edge_within(NOISE, PHASE_EDGE),
            ),
            one_run(
                "cosine and clusters",
                "the cosine at which the median exact radius is half of √(d/k), over k, against ¾",
                PHASE,
                edge_within(COSINE, PHASE_EDGE),
            ),
        ),
        named_kind=Kind.QUESTION,
    ),
)
