"""The bracket over radii: certified never above attacked, at radius 0 neither; and a share is a share."""

import torch

from featscope.probe.robustness import Certified, Robustness


def found(upper: list[float], lower: list[float]) -> Robustness:
    radius = Certified(torch.tensor(lower, dtype=torch.float64), "linear bounds")
    y = torch.zeros(len(upper), dtype=torch.long)
    return Robustness(0.1, "Linf", (0.05, 0.1), y, ("a", "b"), torch.tensor(upper), radius, {}, ())


def test_an_example_that_is_wrong_as_it_is_is_certified_nowhere() -> None:
    bracket = found([0.0, 0.0, 0.2, 0.3], [0.0, 0.0, 0.0, 0.15])
    at = {radius: bracket.at(radius)["certified"]["value"] for radius in (0.0, 0.1, 0.2)}
    # At 0 the two that are right count, proved at some radius or not; at .1 the one proved beyond it.
    assert at == {0.0: 0.5, 0.1: 0.25, 0.2: 0.0}
    for radius in (0.0, 0.05, 0.1, 0.25):
        point = bracket.at(radius)["certified"]
        assert point["value"] <= point["attacked"]
