"""Without a seed a law draws what it draws with seed 0, and not what it draws with another."""

import pytest
import torch

from featscope.core.streams import stream
from featscope.laws.clusters import ClusterLaw
from featscope.laws.patches import PatchLaw
from featscope.laws.separated import ManifoldLaw, PackingLaw, SeparatedLaw
from featscope.laws.signal import SignalLaw


@pytest.mark.parametrize(
    "law",
    [PatchLaw(d=8), ClusterLaw(k=4, d=10), SignalLaw(), PackingLaw(D=4), SeparatedLaw(), ManifoldLaw()],
    ids=lambda law: type(law).__name__,
)
def test_a_law_without_a_seed_has_seed_0_and_draws_from_the_stream_of_data(law: PatchLaw) -> None:
    assert torch.equal(law.sample(5).x, law.sample(5, seed=0).x)
    assert torch.equal(law.sample(5).x, law.sample(5, stream(0, "data")).x)
    assert not torch.equal(law.sample(5).x, law.sample(5, seed=1).x)
