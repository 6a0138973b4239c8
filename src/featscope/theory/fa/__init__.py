"""The claims of FA (arXiv 2410.10322) on synthetic data and on real images."""

from __future__ import annotations

from featscope.theory.claim import Claim
from featscope.theory.fa import embeddings, figures, fine_labels, start, theorems, training

CLAIMS: tuple[Claim, ...] = (*start.CLAIMS, *training.CLAIMS, *theorems.CLAIMS, *figures.CLAIMS, *embeddings.CLAIMS, *fine_labels.CLAIMS)
