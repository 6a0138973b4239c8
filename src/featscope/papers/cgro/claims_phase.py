"""PH-signal: where memorisation gives way to the residual signal, against N*."""

from __future__ import annotations

from featscope.claims.claim import Claim, Kind, Need
from featscope.claims.judging import one_run
from featscope.core.rules import PHASE_EDGE
from featscope.papers.cgro.phase_signal import SAMPLES, TRADEOFF
from featscope.sweeps.phases import edge_within

PHASE = Need("phase-signal")

CLAIMS = (
    Claim(
        "PH-signal",
        "cgro",
        "beyond CGRO: phase diagrams of §4",
        "Robust overfitting ends where N = N*: beyond that 1−γ the residual signal is learned and fresh "
        "attacked "
        "points are classified, whatever λ is.",
        (),
        (
            one_run(
                "samples",
                "the 1−γ at which accuracy under (A) on fresh points is ¾, over N, against the 1−γ with N* "
                "= N",
                PHASE,
                edge_within(SAMPLES, PHASE_EDGE),
            ),
            one_run(
                "tradeoff",
                "the same over λ at one N",
                PHASE,
                edge_within(TRADEOFF, PHASE_EDGE),
            ),
        ),
        named_kind=Kind.QUESTION,
    ),
)
