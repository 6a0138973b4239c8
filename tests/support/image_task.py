"""A small task of images in [0, 1] and a network trained on it within seconds."""

import functools

import torch
from torch import Tensor, nn

from featscope.attacks.threat import Threat
from featscope.core.losses import margin
from featscope.core.streams import stream
from featscope.nets.networks import NetworkSpec

SPEC = NetworkSpec(architecture="resnet", width=6, blocks=(1, 1), channels=1, side=12, classes=4)

LINF = Threat("Linf", 0.08, 3, bounds=(0.0, 1.0))
L2 = Threat("L2", 0.8, 3, bounds=(0.0, 1.0))


def task(n, seed=0, noise=0.15):
    """Four prototypes with noise, clipped to [0, 1]."""
    prototypes = 0.5 + 0.3 * torch.randn(4, 1, 12, 12, generator=stream(0, "prototypes"))
    y = torch.randint(0, 4, (n,), generator=stream(seed, "y"))
    x = prototypes[y] + noise * torch.randn(n, 1, 12, 12, generator=stream(seed, "x"))
    return x.clamp(0, 1), y


@functools.cache
def trained():
    """A network with clean accuracy near 1, in evaluation mode."""
    x, y = task(256)
    net = SPEC.build(stream(0, "init"))
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    net.train()
    for _ in range(40):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net.eval()


class Linear(nn.Module):
    """Two classes, F = A x; away from the box the flip radius is margin ÷ dual norm."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(2, 2 * 6 * 6, generator=stream(0, "linear")))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.a.mT

    def radius(self, x: Tensor, y: Tensor, threat: Threat) -> Tensor:
        gap = (self.a[0] - self.a[1]).detach()
        return margin(self(x).detach(), y) / threat.ball.dual_norm(gap)
