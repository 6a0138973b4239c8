"""The claims of FA (arXiv 2410.10322) on synthetic data."""

from __future__ import annotations

from featscope.theory.claim import Claim
from featscope.theory.fa import figures, start, theorems, training

CLAIMS: tuple[Claim, ...] = (*start.CLAIMS, *training.CLAIMS, *theorems.CLAIMS, *figures.CLAIMS)
