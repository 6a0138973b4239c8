"""Networks as strangers write them, on a small task of colour images, and a PGD written out by hand to
compare with."""

import copy
import functools

import torch
from torch import Tensor, nn
from torch.nn import functional

from featscope.attacks.threat import Threat
from featscope.core.losses import margin
from featscope.core.streams import stream
from featscope.nets.adapters import Cast, OneLogit, Picked

THREAT = Threat("Linf", 0.1, 3, bounds=(0.0, 1.0))


def images(n, seed=0, classes=4):
    """Prototypes of 3 × 8 × 8 with noise, in [0, 1]."""
    prototypes = 0.5 + 0.2 * torch.randn(classes, 3, 8, 8, generator=stream(0, "foreign"))
    y = torch.randint(0, classes, (n,), generator=stream(seed, "y"))
    return (prototypes[y] + 0.2 * torch.randn(n, 3, 8, 8, generator=stream(seed, "x"))).clamp(0, 1), y


def fit(net, classes=4):
    """Train for a moment."""
    x, y = images(256, 1, classes)
    optimiser = torch.optim.Adam(net.parameters(), 5e-3)
    net.train()
    for _ in range(30):
        optimiser.zero_grad()
        functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    return net.eval()


class Viewing(nn.Module):
    """Views its activations, which a copy with channels last cannot."""

    def __init__(self, classes=4):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.norm2 = nn.Conv2d(8, 8, 3, stride=2), nn.BatchNorm2d(8)
        self.act, self.drop, self.head = nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Linear(72, classes)

    def forward(self, x):
        z = self.act(self.norm2(self.conv2(self.act(self.norm(self.conv(x))))))
        return self.head(self.drop(z.view(z.size(0), -1)))


class Attention(nn.Module):
    """A small ViT: patches, LayerNorm, attention, a class token."""

    def __init__(self):
        super().__init__()
        self.patch, self.token = nn.Conv2d(3, 16, 2, 2), nn.Parameter(torch.randn(1, 1, 16))
        self.place = nn.Parameter(0.1 * torch.randn(1, 17, 16))
        self.norm, self.attend = nn.LayerNorm(16), nn.MultiheadAttention(16, 2, batch_first=True)
        self.mlp, self.head = (
            nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)),
            nn.Linear(16, 4),
        )

    def forward(self, x):
        z = torch.cat([self.token.expand(len(x), -1, -1), self.patch(x).flatten(2).mT], 1) + self.place
        n = self.norm(z)
        z = z + self.attend(n, n, n, need_weights=False)[0]
        return self.head((z + self.mlp(z))[:, 0])


class Shared(nn.Module):
    """One convolution and one norm used twice."""

    def __init__(self):
        super().__init__()
        self.stem, self.conv, self.norm, self.head = (
            nn.Conv2d(3, 8, 1),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.Linear(8, 4),
        )

    def forward(self, x):
        z = self.stem(x)
        for _ in range(2):
            z = functional.relu(self.norm(self.conv(z)))
        return self.head(z.amax((2, 3)))


class StraightThrough(torch.autograd.Function):
    """Rounding forward, the identity backward."""

    @staticmethod
    def forward(ctx, x):
        return (x * 8).round() / 8

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Behind(nn.Module):
    """A network behind a map of its input and before a map of its outputs."""

    def __init__(self, net, before=None, after=None):
        super().__init__()
        self.net, self.before, self.after = net, before, after

    def forward(self, x):
        out = self.net(self.before(x) if self.before else x)
        return self.after(out) if self.after else out


def rounded(x: Tensor) -> Tensor:
    """Eight levels, without gradient."""
    return (x * 8).round() / 8


@functools.cache
def _fitted(name):
    torch.manual_seed(0)
    if name == "mlp":
        return fit(nn.Sequential(nn.Flatten(), nn.Linear(192, 32), nn.ReLU(inplace=True), nn.Linear(32, 4)))
    if name == "batchnorm":
        layers = [
            nn.Conv2d(3, 8, 3),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3),
            nn.BatchNorm2d(8),
            nn.ReLU(),
        ]
        return fit(nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, 4)))
    if name == "two":
        return fit(Viewing(2), classes=2)
    return fit({"view": Viewing, "attention": Attention, "shared": Shared}[name]())


def fitted(name):
    """A network of one's own, to change at will."""
    return copy.deepcopy(_fitted(name))


class Difference(nn.Module):
    """One logit: the difference of two."""

    def __init__(self):
        super().__init__()
        self.net = fitted("two")

    def forward(self, x):
        out = self.net(x)
        return out[:, 1] - out[:, 0]


def hooked():
    """A network whose hook doubles a layer's output."""
    net = fitted("batchnorm")
    net[3].register_forward_hook(lambda module, inputs, output: 2 * output)
    return net


#: name ↦ a network (N, 3, 8, 8) → logits, in the forms of issue and of everyday use
NETWORKS = {
    "in-place ReLU": lambda: fitted("mlp"),
    "BatchNorm": lambda: fitted("batchnorm"),
    ".view, dropout, in-place": lambda: fitted("view"),
    "channels last": lambda: fitted("batchnorm").to(memory_format=torch.channels_last),
    "attention, LayerNorm": lambda: fitted("attention"),
    "shared parameters": lambda: fitted("shared"),
    "forward hook": hooked,
    "bfloat16": lambda: fitted("batchnorm").to(torch.bfloat16),
    "straight-through quantiser": lambda: Behind(fitted("batchnorm"), StraightThrough.apply),
    "input rounding": lambda: Behind(fitted("batchnorm"), rounded),
    "logits × 1000": lambda: Behind(fitted("batchnorm"), after=lambda out: 1000 * out),
    "logits × 1e-6": lambda: Behind(fitted("batchnorm"), after=lambda out: 1e-6 * out),
    "two classes": lambda: fitted("two"),
    "one logit": lambda: OneLogit(Difference()),
    "tuple": lambda: Picked(Behind(fitted("view"), after=lambda out: (out, 0)), 0),
}
TWO = ("two classes", "one logit")


def readable(name):
    """The network as the peers need it: in the precision of the images."""
    net = NETWORKS[name]().eval()
    return Cast(net, torch.bfloat16) if name == "bfloat16" else net


def plain_pgd(net, x, y, eps, steps=10, seed=0):
    """PGD on cross-entropy as everybody writes it; ``seed`` None starts at the image."""
    start = (
        torch.zeros_like(x)
        if seed is None
        else eps * (2 * torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)) - 1)
    )
    moved = (x + start).clamp(0, 1)
    for _ in range(steps):
        moved.requires_grad_(True)
        gradient = torch.autograd.grad(functional.cross_entropy(net(moved), y), moved)[0]
        moved = (x + (moved.detach() + 2.5 * eps / steps * gradient.sign() - x).clamp(-eps, eps)).clamp(0, 1)
    return moved.detach()


@torch.no_grad()
def accuracy(net, x, y):
    """Share of images that are right."""
    return float((margin(net(x).float(), y) > 0).double().mean())
