"""Compact isometric copies: a model that only ever meets its vectors through inner products, in as many
coordinates as vectors.

Gradient descent on the papers' networks moves weights inside the span of the initial weights and the data.
Any rotation of that span into R^count leaves every inner product, and hence the whole training run,
unchanged. Two ways lead there:

- ``rotate`` rotates *given* vectors (an LQ factorisation), so a run on the copy can be compared with the run
  on the data;
- ``bartlett`` draws the copy of i.i.d. Gaussian vectors *in law* without ever holding them: the
  lower-triangular factor of a
  Wishart matrix (Bartlett 1933). Row i is N(0,1) left of the diagonal, √χ²_{dim−i} on it (i from 0), zero
  right of it. The
  price does not depend on ``dim``, so d = 10⁹ costs what d = 10³ costs.

``fresh`` draws a new N(0, I_dim) vector seen from the copy: its coordinates in the span are i.i.d. N(0,1).
The part outside the span is not represented; it is orthogonal to every vector of the copy, so it changes no
output of a network that lives in the span and no ℓ2 distance to its decision boundary. Inner products of two
fresh vectors and ℓ∞ threats do not carry over.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from featscope.core.errors import require, require_at_least

F64 = torch.float64
#: Rows drawn at once: nothing is drawn far right of the diagonal, which halves the work for many vectors.
BLOCK = 1024


class Rotated(NamedTuple):
    """Given vectors in the coordinates of an orthonormal basis of their span: ``vectors = coordinates @
    basis``."""

    coordinates: Tensor
    basis: Tensor


def _has_room(count: int, dim: int) -> None:
    require_at_least("count", count, 1)
    require(
        dim >= count,
        "a compact copy needs at least as many dimensions as vectors",
        f"dim={dim}, vectors={count}",
        "raise d or lower the number of vectors",
    )


def bartlett(count: int, dim: int, rng: torch.Generator, dtype: torch.dtype = F64) -> Tensor:
    """Draw ``count`` i.i.d. N(0, I_dim) vectors up to a common rotation, as the rows of a lower-triangular
    (count, count) matrix.

    L Lᵀ has the law of the Gram matrix of the vectors, Wishart(dim, I_count).
    """
    _has_room(count, dim)
    rows = torch.zeros(count, count, dtype=dtype)
    for low in range(0, count, BLOCK):
        part = slice(low, min(low + BLOCK, count))
        rows[part, : part.stop] = torch.randn(part.stop - low, part.stop, generator=rng, dtype=dtype)
    rows.tril_(-1)
    # χ²_ν = 2·Gamma(ν/2). In float64 whatever the copy's type: at dim = 10⁹ the spread of √χ² is below
    # float32's resolution.
    freedom = dim - torch.arange(count, dtype=F64)
    rows.diagonal().copy_((2 * torch._standard_gamma(freedom / 2, generator=rng)).sqrt())
    return rows


def fresh(n: int, like: Tensor, rng: torch.Generator) -> Tensor:
    """Draw the coordinates, in the copy whose rows are ``like``, of ``n`` new N(0, I_dim) vectors independent
    of the copy."""
    return torch.randn(n, like.shape[-1], generator=rng, dtype=like.dtype).to(like.device)


def rotate(vectors: Tensor) -> Rotated:
    """Return the copy of given ``vectors`` (count, dim): lower-triangular coordinates with a diagonal that is
    not negative.

    For Gaussian vectors these coordinates have the law of :func:`bartlett`.
    """
    count, dim = vectors.shape
    _has_room(count, dim)
    basis, upper = torch.linalg.qr(vectors.mT, mode="reduced")
    sign = torch.where(upper.diagonal() < 0, -1.0, 1.0).to(vectors)
    return Rotated((sign[:, None] * upper).mT.contiguous().tril_(), (basis * sign).mT.contiguous())
