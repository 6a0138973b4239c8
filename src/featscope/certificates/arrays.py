"""What every re-verification begins with: a certificate of the right shapes, made of numbers."""

from __future__ import annotations

import numpy as np

from featscope.core.errors import require

REMEDY = "run the experiment again"


def require_fitting(fits: bool, **arrays: np.ndarray) -> None:
    """Refuse arrays whose shapes do not fit together."""
    shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
    require(fits, "weights, points, labels and perturbations must fit together", shapes, REMEDY)


def require_numbers(*arrays: np.ndarray) -> None:
    """Refuse NaN and ∞."""
    finite = all(np.isfinite(array).all() for array in arrays)
    require(finite, "a certificate is made of numbers", "NaN or ∞", REMEDY)


def require_labels(known: bool, y: np.ndarray, which: str) -> None:
    """Refuse labels that are not what they should be."""
    require(known, f"labels must be {which}", str(np.unique(y)), REMEDY)
