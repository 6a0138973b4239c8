"""Compact copies of the patch law with noise, in law, for standard training at any d.

Standard training meets the noise ξ_p and the initial weights only through inner products. Their 2k
coordinates along the features are kept as they are; the rest, Gaussian vectors in d − 2k dimensions, becomes
the rows of a Bartlett factor. What comes out is a batch of the patch law in 2k + NP + km coordinates, so that
network, training and observables run unchanged. ℓ∞ threats and fresh test points do not carry over.
"""

from __future__ import annotations

import torch
from torch import Tensor

from featscope.core.errors import require
from featscope.laws.compact import bartlett
from featscope.laws.patches import PatchBatch, PatchLaw


def compact_patches(
    law: PatchLaw, n: int, vectors: int, rng: torch.Generator
) -> tuple[PatchLaw, PatchBatch, Tensor]:
    """Draw n points of the law and ``vectors`` further N(0, I_d) vectors, jointly, as a compact copy.

    Returns the law of the copy (the same but for its dimension), the batch, and the vectors (vectors, 2k + nP
    + vectors).
    """
    require(
        law.frame == "axes",
        "the copy lays features along its axes",
        f"frame={law.frame}",
        "use frame=axes: the law is the same",
    )
    count = n * law.patches + vectors
    along = torch.randn(count, 2 * law.k, generator=rng, dtype=torch.float64)
    gaussian = torch.cat([along, bartlett(count, law.d - 2 * law.k, rng)], -1)
    copy = law.replace(d=2 * law.k + count)
    clean = copy.replace(sigma_n=0.0).sample(n, rng)
    noise = law.sigma_n * gaussian[: n * law.patches].view(n, law.patches, -1)
    return copy, clean._replace(x=clean.x + noise), gaussian[n * law.patches :]
