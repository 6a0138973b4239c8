"""Laws at their limits: the last value that is taken, the first that is refused, and the rule that is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.laws.amplitudes import LARGEST, Constant, Count, LogNormal, Uniform
from featscope.laws.cluster_groups import flip_labels
from featscope.laws.clusters import ClusterLaw
from featscope.laws.compact import bartlett
from featscope.laws.graph_packing import GraphPackingLaw, packing_levels
from featscope.laws.patches import PatchLaw
from featscope.laws.separated import ManifoldLaw, PackingLaw, SeparatedLaw
from featscope.laws.signal import SignalLaw

GROUP = torch.zeros(4, dtype=torch.long)


def clusters(*probabilities: float) -> ClusterLaw:
    return ClusterLaw(k=3, d=30, positive=1, probabilities=probabilities)


def flipped(share: float) -> torch.Tensor:
    return flip_labels(GROUP, 2, share, stream(0, "flip"))


def graph(sites: int) -> object:
    """A packing of ``sites`` sites on a line of ``sites`` levels."""
    return GraphPackingLaw(k=2, d=2, eps=1 / (2 * sites), delta=0.1 / sites).support()


CASES: list[tuple[Callable[..., object], tuple[object, ...], tuple[object, ...], str]] = [
    (lambda k, d: PatchLaw(k=k, d=d), (2, 4), (2, 3), "2k must be at most d"),
    (lambda n, p: PatchLaw(robust_patches=n, patches=p), (3, 3), (4, 3), "at most patches"),
    (lambda *a: PatchLaw(alpha=list(a)), (1.0, 2.0), (1.0, 2.0, 3.0), "alpha needs one distribution"),
    (lambda *b: PatchLaw(beta=list(b)), (1.0, 2.0), (1.0,), "beta needs one distribution"),
    (lambda s: PatchLaw(sigma_n=s), (0.0,), (-1e-9,), "sigma_n"),
    (lambda n: PatchLaw().sample(n), (1,), (0,), "n must be at least 1"),
    (lambda v: Constant(value=v), (LARGEST,), (1.01 * LARGEST,), "value"),
    (lambda v: Constant(value=v), (1e-9,), (0.0,), "value"),
    (lambda v: Uniform(low=v, high=1.0), (1e-9,), (0.0,), "low"),
    (lambda v: Uniform(low=1.0, high=v), (LARGEST,), (1.01 * LARGEST,), "high"),
    (lambda v: LogNormal(median=v, spread=1.0), (LARGEST,), (1.01 * LARGEST,), "median"),
    (lambda v: LogNormal(median=1.0, spread=v), (10.0,), (10.1,), "spread"),
    (lambda v: LogNormal(median=1.0, spread=v), (1e-9,), (0.0,), "spread"),
    (lambda low, high: Count(low=low, high=high), (3, 3), (4, 3), "low ≤ high"),
    (lambda k, d: ClusterLaw(k=k, d=d), (3, 3), (3, 2), "k must be at most d"),
    (lambda p: ClusterLaw(k=4, d=9, positive=p), (1,), (0,), "both classes need a cluster"),
    (lambda p: ClusterLaw(k=4, d=9, positive=p), (3,), (4,), "both classes need a cluster"),
    (lambda c: ClusterLaw(k=4, d=9, cosine=c), (-1 / 3,), (-0.334,), "positive semidefinite"),
    (lambda c: ClusterLaw(k=4, d=9, cosine=c), (0.999,), (1.0,), "positive semidefinite"),
    (clusters, (0.5, 0.25, 0.25), (0.5, 0.5), "one probability for each"),
    (clusters, (0.5, 0.25, 0.25), (0.5, 0.25, 0.26), "sum to 1"),
    (clusters, (0.5, 0.5, 0.0), (0.6, 0.5, -0.1), "sum to 1"),
    (clusters, (0.5, 0.5, 0.0), (1.0, 0.0, 0.0), "both classes need probability"),
    (clusters, (0.5, 0.5, 0.0), (0.0, 0.5, 0.5), "both classes need probability"),
    (lambda n: ClusterLaw(k=2, d=2).sample(n), (1,), (0,), "n must be at least 1"),
    (flipped, (0.0,), (-1e-9,), "between 0 and 1"),
    (flipped, (1.0,), (1.001,), "between 0 and 1"),
    (lambda n: bartlett(n, 3, stream(0)), (1,), (0,), "count must be at least 1"),
    (lambda n: bartlett(n, 3, stream(0)), (3,), (4,), "as many dimensions"),
    (packing_levels, (0.499,), (0.5,), "between 0 and ½"),
    (packing_levels, (1e-6,), (0.0,), "between 0 and ½"),
    (lambda k, d: GraphPackingLaw(k=k, d=d), (3, 3), (4, 3), "k ≤ d"),
    (graph, (20_000,), (20_001,), "too large to list"),
    (lambda d: SignalLaw(d=d, gap_logs=0.0), (2,), (1,), "d"),
    (lambda g: SignalLaw(gap=g), (0.999,), (1.0,), "gap"),
    (lambda g: SignalLaw(d=2, gap_logs=g), (0.5,), (1.0,), "between 0 and 1"),
    (lambda n: SignalLaw(d=4).sample(n), (1,), (0,), "n must be at least 1"),
    (lambda d: PackingLaw(D=2, levels=d).support(), (200_000,), (200_001,), "too large to list"),
    (lambda n: PackingLaw(D=2).sample(n), (1,), (0,), "n must be at least 1"),
    (lambda n: ManifoldLaw(k=2, d=3).sample(n), (1,), (0,), "n must be at least 1"),
    (lambda k, d: ManifoldLaw(k=k, d=d), (2, 3), (3, 3), "k < d"),
    (lambda s: SeparatedLaw(d=1, separation=s).sample(2), (0.5,), (1.0,), "no room"),
]


@pytest.mark.parametrize(("make", "taken", "refused", "told"), CASES)
def test_limits_of_laws(
    make: Callable[..., object], taken: tuple[object, ...], refused: tuple[object, ...], told: str
) -> None:
    make(*taken)
    with pytest.raises(BadInput, match=told) as caught:
        make(*refused)
    assert "\n" not in str(caught.value)
