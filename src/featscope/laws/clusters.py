"""FA's multi-cluster law (Definition 3.1): x = α μ_j + σ ξ, j ~ Unif[k], ξ ~ N(0, I_d), y = +1 exactly for
the clusters in J₊.

Noise and initial weights are isotropic, so a rotation of the features changes nothing that an ℓ2 threat or
descent can see: the features stand in the first k coordinates, μ_j = √d · L_j with L the Cholesky factor of
their Gram matrix (the identity when they are orthogonal). What is learnt from n points with some Gaussian
initial weights then lives in k + n + weights coordinates whatever d is (laws/compact.py); ``ClusterLaw.draw``
gives either form, and everything downstream runs unchanged on both.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from pydantic import model_validator
from torch import Tensor

from featscope.core.conditions import Condition, asks_at_least, asks_at_most
from featscope.core.errors import BadInput, require, require_whole
from featscope.core.frozen import Value
from featscope.core.rules import CONSTANT
from featscope.core.settings import setting
from featscope.core.streams import stream
from featscope.laws.compact import bartlett

#: A setting that takes an assumption with equality must meet it after rounding.
ROUNDING = 1 + 1e-9


class ClusterSetting(NamedTuple):
    """What Assumption 4.3 speaks of besides the law: points, neurons a class, learning rate and initial
    scales."""

    n: int
    m: int
    learning_rate: float
    init_weight: float
    init_bias: float


class ClusterBatch(NamedTuple):
    """Points (n, D) with their binary labels ±1 and their clusters 0 … k−1.

    A compact copy is a staircase: with ``reach`` not 0, point i is zero from coordinate reach + i + 1 on, and
    a pass may skip that.
    """

    x: Tensor
    y: Tensor
    cluster: Tensor
    reach: int = 0

    def width(self, rows: int) -> int:
        """How many coordinates the first ``rows`` points use."""
        return min(self.reach + rows, self.x.shape[-1]) if self.reach else self.x.shape[-1]


class ClusterDraw(NamedTuple):
    """A training set and the Gaussian directions of the initial weights, in one coordinate system of D
    dimensions."""

    features: Tensor  # (k, D)
    train: ClusterBatch
    directions: Tensor  # (weights, D): i.i.d. N(0, I_d), or the copy of such vectors


def _root(gram: Tensor) -> Tensor:
    """The symmetric square root of a Gram matrix that may be singular."""
    values, vectors = torch.linalg.eigh(gram)
    root: Tensor = vectors @ torch.diag(values.clamp(min=0).sqrt()) @ vectors.mT
    return root


class ClusterLaw(Value):
    """FA's law: k clusters in R^d, features of norm √d and pairwise cosine ``cosine``; the first ``positive``
    make J₊.

    ``positive`` None means half of them, rounded up; ``probabilities`` None means uniform.

    >>> import featscope as fs
    >>> batch = fs.ClusterLaw(k=4, d=30).sample(100, seed=0)
    >>> tuple(batch.x.shape), batch.y.unique().tolist(), batch.cluster.unique().tolist()
    ((100, 30), [-1.0, 1.0], [0, 1, 2, 3])
    """

    k: int = setting(10, "clusters", letter="k", ge=2)
    d: int = setting(3072, "dimension", letter="d", ge=1)
    positive: int | None = setting(
        None, "clusters of label +1; half of them, rounded up, if not given", letter="J_+"
    )
    alpha: float = setting(1.0, "amplitude of the features", letter="α", gt=0)
    sigma: float = setting(1.0, "standard deviation of the noise in each coordinate", letter="σ", ge=0)
    cosine: float = setting(0.0, "cosine between two features")
    probabilities: tuple[float, ...] | None = setting(
        None, "chance of each cluster; equal if not given", letter="p"
    )

    @model_validator(mode="after")
    def _consistent(self) -> ClusterLaw:
        k, plus = self.k, self.plus
        require(
            k <= self.d,
            "k must be at most d for independent features",
            f"k={k}, d={self.d}",
            "raise d or lower k",
        )
        require(
            0 < plus < k,
            "both classes need a cluster",
            f"positive={plus}, k={k}",
            f"set positive to 1 … {k - 1}",
        )
        # The Gram matrix (1−c)I + c·11ᵀ has eigenvalues 1−c and 1+(k−1)c.
        low = -1 / (k - 1)
        if not low * ROUNDING <= self.cosine < 1:
            raise BadInput(
                "the cosines must make a positive semidefinite Gram matrix",
                f"cosine={self.cosine}, k={k}",
                f"use a cosine from {low:.4g} (the simplex) on and below 1",
            )
        if self.probabilities is not None:
            p = self.probabilities
            require(
                len(p) == k,
                "one probability for each cluster",
                f"{len(p)} of them, k={k}",
                "list k probabilities",
            )
            good = min(p) >= 0 and math.isclose(sum(p), 1.0, abs_tol=1e-9)
            require(good, "probabilities must be ≥ 0 and sum to 1", f"{p}", "normalise them")
            masses = sum(p[:plus]), sum(p[plus:])
            require(
                min(masses) > 0,
                "both classes need probability",
                f"P(y=±1)={masses}",
                "give each class some mass",
            )
        return self

    @property
    def plus(self) -> int:
        """|J₊|."""
        return (self.k + 1) // 2 if self.positive is None else self.positive

    @property
    def balance(self) -> float:
        """The smallest c of Assumption 3.3: max(|J₊|/|J₋|, |J₋|/|J₊|)."""
        minus = self.k - self.plus
        return max(self.plus / minus, minus / self.plus)

    @property
    def simplex(self) -> bool:
        """Whether the features are the corners of a simplex, Σ μ_j = 0: the least cosine there is."""
        return math.isclose(self.cosine, -1 / (self.k - 1), rel_tol=1e-9)

    def signs(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """(k,): +1 on J₊, −1 on J₋."""
        return torch.where(torch.arange(self.k) < self.plus, 1.0, -1.0).to(dtype)

    def features(self, coordinates: int | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
        """(k, D) features μ_j, zero beyond the first k coordinates."""
        gram = (1 - self.cosine) * torch.eye(self.k, dtype=torch.float64) + self.cosine
        block = math.sqrt(self.d) * (_root(gram) if self.simplex else torch.linalg.cholesky(gram))
        wide = torch.zeros(self.k, coordinates or self.d, dtype=dtype)
        wide[:, : self.k] = block.to(dtype)
        return wide

    def _clusters(self, n: int, rng: torch.Generator) -> Tensor:
        if self.probabilities is None:
            return torch.randint(0, self.k, (n,), generator=rng)
        return torch.multinomial(
            torch.tensor(self.probabilities, dtype=torch.float64), n, True, generator=rng
        )

    def _place(self, noise: Tensor, cluster: Tensor) -> ClusterBatch:
        """x = α μ_c + σ ξ, written over the noise to hold one copy of the data."""
        x = noise.mul_(self.sigma)
        x[:, : self.k] += self.alpha * self.features(self.k, noise.dtype)[cluster]
        return ClusterBatch(x, self.signs(noise.dtype)[cluster], cluster)

    def sample(
        self,
        n: int,
        rng: torch.Generator | None = None,
        coordinates: int | None = None,
        dtype: torch.dtype = torch.float64,
        seed: int = 0,
    ) -> ClusterBatch:
        """Draw n points; with ``coordinates`` of a compact copy they are fresh points as the copy sees
        them."""
        require_whole("n", n, 1)
        rng = rng or stream(seed, "data")
        cluster = self._clusters(n, rng)
        return self._place(torch.randn(n, coordinates or self.d, generator=rng, dtype=dtype), cluster)

    def draw(
        self, n: int, weights: int, seed: int, *, compact: bool, dtype: torch.dtype = torch.float64
    ) -> ClusterDraw:
        """Draw a training set of n points and ``weights`` initial directions, in R^d or as a compact copy in
        R^(k+n+weights)."""
        require(
            n >= self.k,
            "the training set needs a point for each cluster",
            f"n={n}, k={self.k}",
            "raise n to k or more",
        )
        data, init = stream(seed, "data", "train"), stream(seed, "init")
        if not compact:
            train = self.sample(n, data, dtype=dtype)
            directions = torch.randn(weights, self.d, generator=init, dtype=dtype)
            return ClusterDraw(self.features(dtype=dtype), train, directions)
        cluster = self._clusters(n, data)
        k, size, room = self.k, self.k + n + weights, self.d - self.k
        noise = torch.zeros(n, size, dtype=dtype)
        noise[:, :k] = torch.randn(n, k, generator=data, dtype=dtype)
        noise[:, k : k + n] = bartlett(n, room, data, dtype)
        # Given the noise, a weight has N(0,1) coordinates in its span and is Gaussian in the room − n
        # dimensions that are left.
        directions = torch.zeros(weights, size, dtype=dtype)
        directions[:, : k + n] = torch.randn(weights, k + n, generator=init, dtype=dtype)
        directions[:, k + n :] = bartlett(weights, room - n, init, dtype)
        return ClusterDraw(
            self.features(size, dtype), self._place(noise, cluster)._replace(reach=k), directions
        )

    def noise_norms(self, batch: ClusterBatch) -> Tensor:
        """(n,) ‖ξ_i‖², from the points without a second copy of them."""
        k = self.k
        block = batch.x[:, :k] - self.alpha * self.features(k, batch.x.dtype)[batch.cluster]
        rest: Tensor = torch.linalg.vector_norm(batch.x[:, k:], dim=-1)
        return ((block * block).sum(-1) + rest * rest) / self.sigma**2

    def check(self, setting: ClusterSetting | None = None) -> list[Condition]:
        """Assumptions 3.2, 3.3 and 4.3 with the constants in O, Ω and Θ read as 1 (Θ as within a factor
        CONSTANT).

        Without a setting nothing is trained, and only what speaks of the law alone is checked.
        """
        plain = self.alpha == 1 and self.sigma == 1
        alone = [
            asks_at_most("A3.2", "features are orthogonal: |cosine| ≤ 0", abs(self.cosine), 0.0),
            asks_at_least("D3.1", "α = σ = 1", float(plain), 1.0),
            asks_at_most("A3.3", "balance c = Θ(1)", self.balance, CONSTANT),
        ]
        return alone + (self._check_training(setting) if setting else [])

    def _check_training(self, setting: ClusterSetting) -> list[Condition]:
        """Assumption 4.3."""
        d, k, eta = self.d, self.k, setting.learning_rate
        small = eta * float(k) ** -5 * ROUNDING
        return [
            asks_at_least("A4.3.d", "d ≥ k^10", float(d), float(k) ** 10),
            asks_at_least("A4.3.n", "n ≥ k^7", float(setting.n), float(k) ** 7),
            asks_at_most("A4.3.n-top", "ln n ≤ ln² d", math.log(setting.n), math.log(d) ** 2),
            asks_at_most("A4.3.m", "m = Θ(k): max(m/k, k/m)", max(setting.m / k, k / setting.m), CONSTANT),
            asks_at_most("A4.3.eta", "η ≤ d^−2", eta, float(d) ** -2 * ROUNDING),
            asks_at_most("A4.3.w", "σ_w² ≤ η k^−5", setting.init_weight**2, small),
            asks_at_most("A4.3.b", "σ_b² ≤ η k^−5", setting.init_bias**2, small),
        ]
