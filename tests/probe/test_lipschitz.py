"""Certified radii from a Lipschitz constant: norms are upper bounds, and no point of a ball changes class."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from featscope.certificates.layers import Plain
from featscope.certificates.lipschitz import safe_radii
from featscope.core.streams import stream
from featscope.probe.layers import Unreadable, layer_values, layers_of
from featscope.probe.lipschitz import lipschitz_radii, only_lipschitz, stretches
from featscope.probe.slopes import SLOPED
from featscope.probe.written import described

ACTIVATIONS = [
    nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.ELU(1.7), nn.LeakyReLU(-1.4), nn.Mish(), nn.SELU(),
    nn.Hardswish(), nn.Softsign(), nn.ReLU6(), nn.Hardtanh(-0.5, 0.8),
]  # fmt: skip


def drawn(net: nn.Module, seed: int = 0) -> nn.Module:
    rng = stream(seed, "weights")
    with torch.no_grad():
        for parameter in net.parameters():
            scale = 1 / math.sqrt(parameter[0].numel()) if parameter.dim() > 1 else 0.3
            parameter.copy_(scale * torch.randn(parameter.shape, generator=rng))
    return net.double().eval()


def plain(layers) -> Plain:
    whole = described(layers)
    arrays = {key: value.numpy() for key, value in whole.items() if key != "layers"}
    return Plain(whole["layers"], arrays)


@pytest.mark.parametrize("act", ACTIVATIONS, ids=str)
def test_the_slope_of_an_activation_is_nowhere_larger(act):
    x = torch.zeros(4, 3, dtype=torch.float64)
    (layer,) = layers_of(nn.Sequential(act), x)
    slope = SLOPED[layer.kind].slope(**layer.options)
    at = torch.linspace(-40, 40, 800_001, dtype=torch.float64)
    values = layer(at)
    assert torch.allclose(values, act(at), atol=1e-12)
    steepest = float((values.diff() / at.diff()).abs().max())
    assert slope / 1.02 <= steepest <= slope * (1 + 1e-9)
    # The same activation in NumPy.
    again = plain([layer]).one(0, [at.numpy()])
    assert np.allclose(again, values.numpy(), atol=1e-9)


def test_norms_are_upper_bounds_and_exact_for_a_matrix():
    net = drawn(
        nn.Sequential(
            nn.Conv2d(2, 5, 3, stride=2, padding=1), nn.BatchNorm2d(5), nn.SiLU(), nn.MaxPool2d(3, 2, 1),
            nn.AvgPool2d(2), nn.Flatten(), nn.Linear(5, 7),
        )
    )  # fmt: skip
    x = torch.randn(4, 2, 8, 8, generator=stream(0, "x"), dtype=torch.float64)
    layers = layers_of(net, x)
    values = layer_values(layers, x[:1])
    for number, layer in enumerate(layers):
        alone = replace(layer, reads=(0,))
        own = stretches([alone], values[layer.reads[0]])[1]
        if not layer.affine:
            continue
        at = values[layer.reads[0]]
        matrix = torch.autograd.functional.jacobian(
            lambda v, layer=layer: layer(v).flatten(), at
        ).reshape(values[number + 1].numel(), -1)  # fmt: skip
        assert own.linf == pytest.approx(float(torch.linalg.matrix_norm(matrix, math.inf)), rel=1e-6)
        spectral = float(torch.linalg.matrix_norm(matrix, 2))
        assert spectral <= own.l2 <= 3 * spectral
        if layer.kind in ("linear", "scale", "average", "reshape"):
            assert own.l2 == pytest.approx(spectral, rel=1e-6)


@pytest.mark.parametrize("norm", ["Linf", "L2"])
@pytest.mark.parametrize("act", [nn.GELU(), nn.SiLU(), nn.ELU(1.7), nn.LeakyReLU(-1.4)], ids=str)
def test_no_point_of_a_dense_grid_inside_the_radius_changes_class(act, norm):
    net = drawn(nn.Sequential(nn.Linear(2, 9), act, nn.Linear(9, 3)), 3)
    x = 2 * torch.randn(60, 2, generator=stream(1, "x"), dtype=torch.float64)
    with torch.no_grad():
        y = net(x).argmax(1)
        layers = layers_of(net, x)
        assert only_lipschitz(layers)
        radius = lipschitz_radii(layers, x, y, norm)
        assert (radius > 0).all()
        side = torch.linspace(-1, 1, 81, dtype=torch.float64)
        grid = torch.cartesian_prod(side, side)
        inside = grid if norm == "Linf" else grid[grid.norm(dim=1) <= 1]
        changed = []
        for factor in (1.0, 6.0):
            points = x[:, None] + factor * radius[:, None, None] * inside
            changed.append(bool((net(points.flatten(0, 1)).view(60, -1, 3).argmax(-1) != y[:, None]).any()))
    # Inside nothing changes; and the radii are no excuse: six times as far something does.
    assert changed == [False, True]


@pytest.mark.parametrize("norm", ["Linf", "L2"])
def test_a_linear_network_behind_an_identity_slope_gets_its_exact_radius_in_its_own_norm(norm):
    net = drawn(nn.Sequential(nn.Hardtanh(-1e6, 1e6), nn.Linear(6, 4)))
    x = torch.randn(30, 6, generator=stream(1, "x"), dtype=torch.float64)
    outputs = net(x)
    y = outputs.argmax(1)
    weight = net[1].weight
    rows = weight[y][:, None] - weight[None]
    dual = rows.abs().sum(-1) if norm == "Linf" else rows.norm(dim=-1)
    exact = ((outputs.gather(1, y[:, None]) - outputs) / dual)[dual > 0].view(30, 3).amin(1)
    found = lipschitz_radii(layers_of(net, x), x, y, norm)
    assert (found <= exact).all()
    assert torch.allclose(found, exact, rtol=1e-6)


def test_wrong_examples_have_no_radius_and_sums_add():
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.last, self.act = nn.Linear(4, 4), nn.Linear(4, 2), nn.GELU()

        def forward(self, x):
            return self.last(x + self.act(self.inner(x)))

    net = drawn(Residual())
    x = torch.randn(10, 4, generator=stream(1, "x"), dtype=torch.float64)
    layers = layers_of(net, x)
    inner = torch.linalg.matrix_norm(net.inner.weight, 2).item()
    assert stretches(layers, x[:1])[3].l2 == pytest.approx(1 + 1.13 * inner, rel=1e-6)
    right = net(x).argmax(1)
    assert (lipschitz_radii(layers, x, 1 - right, "L2") == 0).all()


@pytest.mark.parametrize("norm", ["Linf", "L2"])
def test_the_second_route_in_numpy_agrees_and_refuses_a_larger_radius(norm):
    net = drawn(
        nn.Sequential(
            nn.Conv2d(1, 3, 3, padding=1), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 4)
        )
    )
    x = torch.randn(6, 1, 6, 6, generator=stream(1, "x"), dtype=torch.float64)
    layers = layers_of(net, x)
    y = net(x).argmax(1)
    radius = lipschitz_radii(layers, x, y, norm).numpy()
    again = safe_radii(plain(layers), x.numpy(), y.numpy(), norm)
    # The table rounds GELU's slope 1.12904 up to 1.13.
    assert (radius <= again).all()
    assert np.allclose(radius, again, rtol=1.2e-3)


def test_what_has_no_slope_bound_is_said():
    with pytest.raises(Unreadable, match="layernorm"):
        layers_of(nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2)), torch.zeros(4, 4))
