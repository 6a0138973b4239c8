"""Without a seed a law draws what it draws with seed 0, and not what it draws with another."""

import torch

from featscope.laws.clusters import ClusterLaw
from featscope.laws.signal import SignalLaw


def test_clusters_drawn_without_a_seed_are_those_of_seed_0() -> None:
    law = ClusterLaw(k=4, d=10)
    assert torch.equal(law.sample(3).x, law.sample(3, seed=0).x)
    assert not torch.equal(law.sample(3).x, law.sample(3, seed=1).x)


def test_signals_drawn_without_a_seed_are_those_of_seed_0() -> None:
    law = SignalLaw()
    assert torch.equal(law.sample(3).x, law.sample(3, seed=0).x)
    assert not torch.equal(law.sample(3).x, law.sample(3, seed=1).x)
