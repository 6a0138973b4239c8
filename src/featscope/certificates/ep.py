"""Certificates on images, re-verified in plain NumPy by code that shares nothing with what found them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pair_separation(
    left: NDArray[np.uint8], right: NDArray[np.uint8], labels: NDArray[np.int64]
) -> float | None:
    """The ℓ∞ distance in [0, 1] of a pair of images of different labels; None if it is no such pair: not
    bytes, not one shape, one label."""
    bytes_ = left.dtype == right.dtype == np.uint8 and left.shape == right.shape and left.size > 0
    if (
        not bytes_
        or labels.shape != (2,)
        or not np.issubdtype(labels.dtype, np.integer)
        or labels[0] == labels[1]
    ):
        return None
    gap = np.abs(left.astype(np.int64) - right.astype(np.int64))
    return float(gap.max()) / 255
