"""FA's k-class network (§4.2) in closed form, and its binary read-out.

    F_j(x) = (1/h) Σ_r ReLU⟨w_{j,r}, x⟩,    p = softmax F,    F_binary(x) = Σ_{J₊} p_j − Σ_{J₋} p_j.

The read-out has the sign of logsumexp_{J₊} F − logsumexp_{J₋} F, which is what an attack should move: it does
not saturate.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from featscope.core.linearise import Pullback
from featscope.nets.products import inner_products


class MultiClass(NamedTuple):
    """Weights (…, k·h, D), class by class, and the number of neurons a class."""

    w: Tensor
    h: int = 1

    @property
    def k(self) -> int:
        """Number of classes."""
        return self.w.shape[-2] // self.h

    def equivalent(self) -> Tensor:
        """(…, k, D): the mean weight of each class, what Figure 2 correlates with the features."""
        shape = (*self.w.shape[:-2], self.k, self.h, self.w.shape[-1])
        return self.w.reshape(shape).mean(-2)


def from_hidden(net: MultiClass, z: Tensor) -> Tensor:
    """F from the pre-activations (…, n, k·h)."""
    return z.clamp(min=0).reshape(*z.shape[:-1], net.k, net.h).mean(-1)


def logits(net: MultiClass, x: Tensor) -> Tensor:
    """(…, n, k): F_j(x_i)."""
    return from_hidden(net, inner_products(x, net.w))


def pull_inputs(net: MultiClass, z: Tensor, cotangent: Tensor) -> Tensor:
    """Σ_j c_j ∇_x F_j, given the pre-activations."""
    per_neuron = cotangent.repeat_interleave(net.h, -1) / net.h
    pulled: Tensor = (per_neuron * (z >= 0)) @ net.w
    return pulled


def cross_entropy_slope(outputs: Tensor, cluster: Tensor) -> Tensor:
    """p − 1{own class}, with the own entry as minus the sum of the others.

    Late in training 1 − p_c falls far below the spacing of numbers near 1; the difference would be rounding,
    the sum is not.
    """
    own = cluster.expand(outputs.shape[:-1])[..., None]
    others = torch.softmax(outputs, -1).scatter(-1, own, 0.0)
    return others.scatter(-1, own, -others.sum(-1, keepdim=True))


def point_coefficients(net: MultiClass, x: Tensor, cluster: Tensor) -> tuple[Tensor, Tensor]:
    """C (…, k·h, n) with −∇_w L_CE = C X / n, and the logits (Corollary C.8)."""
    z = inner_products(x, net.w)
    outputs = from_hidden(net, z)
    slope = cross_entropy_slope(outputs, cluster).repeat_interleave(net.h, -1) / net.h
    return -(slope * (z >= 0)).mT, outputs


def readout(outputs: Tensor, signs: Tensor) -> Tensor:
    """logsumexp over J₊ minus logsumexp over J₋: same sign as Σ_{J₊} p − Σ_{J₋} p."""
    return torch.logsumexp(outputs[..., signs > 0], -1) - torch.logsumexp(outputs[..., signs < 0], -1)


def readout_slope(outputs: Tensor, signs: Tensor) -> Tensor:
    """∂ readout / ∂F: softmax inside J₊ minus softmax inside J₋."""
    slope = torch.empty_like(outputs)
    slope[..., signs > 0] = torch.softmax(outputs[..., signs > 0], -1)
    slope[..., signs < 0] = -torch.softmax(outputs[..., signs < 0], -1)
    return slope


class MultiClassNet(nn.Module):
    """The k-class network as a module with logits."""

    def __init__(self, net: MultiClass) -> None:
        super().__init__()
        self.w = nn.Parameter(net.w.clone())
        self.h = net.h

    @property
    def functional(self) -> MultiClass:
        """The parameters as a functional network."""
        return MultiClass(self.w, self.h)

    def forward(self, x: Tensor) -> Tensor:
        """(n, k) logits."""
        return logits(self.functional, x)

    def linearise(self, x: Tensor) -> tuple[Tensor, Pullback]:
        """Logits and the map from their cotangents to the input, in closed form."""
        net = MultiClass(self.w.detach(), self.h)
        z = inner_products(x, net.w)
        return from_hidden(net, z), lambda cotangent: pull_inputs(net, z, cotangent)


def fragile(features: Tensor, signs: Tensor) -> MultiClass:
    """The multi-class network of Proposition 4.8: F_j = ReLU⟨μ_j + Σ_{l in j's class} μ_l, x⟩, perfect on
    clean data and fragile."""
    sums = torch.where(signs[:, None] > 0, features[signs > 0].sum(0), features[signs < 0].sum(0))
    return MultiClass(features + sums)
