"""How many parameters a robust classifier needs at least: the VC count in the proof of CGRO Theorem 5.3 (EP
Theorem 3.4), in numbers.

If every labelling φ of n sites can be robustly classified up to a share μ of the sites, the sign patterns of
the family on the sites cover {±1}^n within Hamming distance μn. Hence 2^n ≤ Σ_{i≤μn} C(n,i) · Σ_{j≤l} C(n,j)
with l the VC dimension, and with Σ_{i≤pn} C(n,i) ≤ 2^{nH(p)} for p ≤ ½ (H the binary entropy) l/n ≥ H⁻¹(1 −
H(μ)).

VC dimension: Bartlett, Harvey, Liaw and Mehrabian (JMLR 20(63), 2019), Theorem 7, for ReLU (two pieces,
degree one): with W parameters, L layers and k_i units in layer i, VCdim ≤ L + L·W·log2(4e R log2(2e R)), R =
Σ i·k_i ≤ L·U.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from featscope.core.errors import require
from featscope.laws.graph_packing import packing_levels


def vc_bound(parameters: float, layers: float, units: float) -> float:
    """An upper bound of the VC dimension of a ReLU architecture."""
    r = max(layers * units, 2.0)
    return layers + layers * parameters * math.log2(4 * math.e * r * math.log2(2 * math.e * r))


def envelope_vc(m: float) -> float:
    """The bound for the paper's enveloping network of all networks with M parameters: M layers of M units, M³
    parameters."""
    return vc_bound(m**3, m, m * m)


def entropy(p: float) -> float:
    """H(p) in bits."""
    return 0.0 if p <= 0 or p >= 1 else -p * math.log2(p) - (1 - p) * math.log2(1 - p)


def shattered_share(mu: float) -> float:
    """C(μ) = H⁻¹(1 − H(μ)): the VC dimension must be at least C(μ)·n."""
    require(0 <= mu < 0.5, "μ must be at least 0 and below ½", f"mu={mu}", "lower mu")
    need = 1 - entropy(mu)
    return 0.5 if mu == 0 else float(brentq(lambda p: entropy(p) - need, 1e-15, 0.5))


def _least(size: float, vc_of: object) -> int:
    low, high = 0, 1
    while vc_of(high) < size:  # type: ignore[operator]
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if vc_of(middle) < size else (low, middle)  # type: ignore[operator]
    return high


def parameters_needed(sites: float, mu: float) -> int:
    """The least M for which the enveloping network's VC bound reaches C(μ)·n: fewer parameters leave a robust
    error of at least μ."""
    return _least(shattered_share(mu) * sites, envelope_vc)


def parameters_needed_at_depth(sites: float, mu: float, layers: int) -> int:
    """The same for one fixed architecture of given depth, whose units are at most its parameters."""
    return _least(shattered_share(mu) * sites, lambda w: vc_bound(w, layers, w))


def packing_sites(dim: int, delta: float) -> int:
    """Sites of a grid in [0,1]^{dim−1} whose spacing exceeds 2δ: a 2δ-packing of the hyperplane in every ℓp
    norm."""
    return int(packing_levels(delta) ** (dim - 1))


def parameters_to_shatter(points: float) -> int:
    """The least W for which the VC bound of one architecture with W parameters, at most W layers and W units
    reaches so many points."""
    return _least(points, lambda w: vc_bound(w, w, w))


def shattered_in_balls(n: int, dim: int, eps: float, delta: float) -> int:
    """Points that networks must shatter if they can fit any labels of n balls of radius δ in ℓ∞, 2ε apart.

    A pair of balls of opposite labels holds p points whatever their labels: each of the 2^{p−1} − 1 ways to
    part them has a coordinate of its own, in which the parts lie 2(ε − δ) apart; it takes δ ≥ ε/2. Pairs are
    kept apart by further coordinates. Without room for that, a ball holds one point.
    """
    levels = packing_levels(eps)
    single = min(n, int(levels**dim))
    apart = math.ceil(math.log(max(n // 2, 1)) / math.log(levels) - 1e-12)
    room = dim - apart
    if delta < eps / 2 or room < 1:
        return single
    return max(single, n // 2 * (int(math.log2(room + 1)) + 1))
