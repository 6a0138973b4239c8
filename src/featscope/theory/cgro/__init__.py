"""The claims of CGRO (arXiv 2306.01271): training on the signal/noise model, networks built by hand, and real images."""

from __future__ import annotations

from featscope.theory.cgro import built, images, training
from featscope.theory.claim import Claim

CLAIMS: tuple[Claim, ...] = (*training.CLAIMS, *built.CLAIMS, *images.CLAIMS)
