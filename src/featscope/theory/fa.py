"""All of FA's statements (claims.md's FA part on synthetic data)."""

from __future__ import annotations

from featscope.theory import fa_figures, fa_start, fa_theorems, fa_training
from featscope.theory.claim import Claim

CLAIMS: tuple[Claim, ...] = (*fa_start.CLAIMS, *fa_training.CLAIMS, *fa_theorems.CLAIMS, *fa_figures.CLAIMS)
