"""Image networks: published sizes, any width, channels and classes, named representations, and folding that
changes nothing."""

import copy

import pytest
import torch
from torch import nn

from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.nets.classifier import REPRESENTATION, Normalise, initialise
from featscope.nets.fold import _gaps, fold
from featscope.nets.lenet import lenet5
from featscope.nets.networks import NetworkSpec
from featscope.nets.resnet import resnet, resnet9
from featscope.nets.wide_resnet import wide_resnet

SMALL = {
    "lenet5": NetworkSpec(architecture="lenet5", width=3, channels=1, side=28, classes=7),
    "resnet9": NetworkSpec(architecture="resnet9", width=4, channels=2, side=16),
    "resnet": NetworkSpec(architecture="resnet", width=4, channels=1, side=16, classes=2),
    "preact-resnet": NetworkSpec(architecture="preact-resnet", width=4, side=16, blocks=(1, 2)),
    "wide-resnet": NetworkSpec(architecture="wide-resnet", width=4, widen=2, depth=10, side=16),
}


def images(spec, n=4, seed=0):
    return torch.rand(n, spec.channels, spec.side, spec.side, generator=stream(seed, "x"))


def warmed(spec):
    """A network whose BatchNorms have statistics and affine maps of their own."""
    net = spec.build(stream(0, "init"))
    for i, module in enumerate(m for m in net.modules() if isinstance(m, nn.BatchNorm2d)):
        rng = stream(i, "norm")
        module.running_mean.normal_(generator=rng)
        module.running_var.uniform_(0.5, 2.0, generator=rng)
        module.weight.data.uniform_(0.5, 1.5, generator=rng)
        module.bias.data.normal_(generator=rng)
    return net.eval()


def count(net):
    return sum(p.numel() for p in net.parameters())


def test_parameter_counts_are_the_known_ones():
    """Counts from the layers' formulas: conv k²·in·out, BatchNorm 2·out, linear (in+1)·out."""
    assert count(lenet5()) == 61_706
    assert count(resnet()) == 11_173_962
    assert count(resnet(pre_activation=True)) == 11_172_170
    assert count(resnet9()) == 6_573_130
    assert count(wide_resnet(depth=16, widen=4)) == 2_748_890


@pytest.mark.parametrize("name", SMALL)
def test_any_width_channels_and_classes(name):
    spec = SMALL[name]
    net = spec.build(stream(0, "init"))
    x = images(spec)
    assert net(x).shape == (4, spec.classes)
    with torch.no_grad():
        net.eval()
        g = net.represent(x)
        assert torch.equal(net.head(g), net(x))
        assert g.shape == (4, net.head.in_features)
        for layer in net.layers:
            assert net.represent(x, layer).shape[0] == 4
    assert net.layers[-1] == REPRESENTATION
    with pytest.raises(BadInput, match="layer"):
        net.represent(x, "poled")


@pytest.mark.parametrize("name", SMALL)
def test_the_same_seed_gives_the_same_weights_and_another_does_not(name):
    first, again, other = (SMALL[name].build(stream(seed, "init")).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


def test_initial_weights_have_he_variance():
    net = resnet(width=64, blocks=(1,))
    initialise(net, stream(0, "init"))
    conv = net.stages["stage1"][0].conv1.weight
    assert float(conv.detach().var()) == pytest.approx(2 / (64 * 9), rel=0.02)
    assert float(net.head.bias.detach().abs().max()) == 0


def test_normalisation_is_inside():
    mean, std = (0.5, 0.2, 0.1), (0.2, 0.3, 0.4)
    x = torch.rand(2, 3, 8, 8, generator=stream(0, "x"))
    with_norm = resnet(width=4, blocks=(1,), mean=mean, std=std).eval()
    without = copy.deepcopy(with_norm)
    without.normalise = Normalise([0.0] * 3, [1.0] * 3)
    scaled = (x - torch.tensor(mean).view(1, 3, 1, 1)) / torch.tensor(std).view(1, 3, 1, 1)
    torch.testing.assert_close(with_norm(x), without(scaled))
    with pytest.raises(BadInput):
        Normalise([0.0], [0.0])


@pytest.mark.parametrize(
    ("name", "norms"), [("resnet9", 8), ("resnet", 20), ("preact-resnet", 3), ("wide-resnet", 4)]
)
def test_folding_keeps_logits_and_input_gradients(name, norms):
    net, x = warmed(SMALL[name]), images(SMALL[name])
    before = copy.deepcopy(net.state_dict())
    fast = fold(net, x)
    assert fast.folded == norms, fast.reason
    outputs, grads = [], []
    for model in (net, fast.model):
        leaf = x.clone().requires_grad_(True)
        out = model(leaf)
        outputs.append(out.detach())
        grads.append(torch.autograd.grad(out.square().sum(), leaf)[0])
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-3, atol=1e-3 * float(grads[0].abs().max()))
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert not any(p.requires_grad for p in fast.model.parameters())
    assert all(p.requires_grad for p in net.parameters())


def test_folding_in_double_is_exact_to_rounding():
    net, x = warmed(SMALL["resnet"]).double(), images(SMALL["resnet"]).double()
    torch.testing.assert_close(fold(net, x).model(x), net(x), rtol=1e-11, atol=1e-11)


def test_a_training_network_is_folded_as_in_evaluation_and_stays_in_training():
    net, x = warmed(SMALL["resnet"]), images(SMALL["resnet"])
    expected = net(x)
    net.train()
    fast = fold(net, x)
    assert net.training
    torch.testing.assert_close(fast.model(x), expected, rtol=1e-4, atol=1e-4)


class Branching(nn.Module):
    """Looks at its values, so that it cannot be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.conv(x).mean((2, 3))
        return out if float(x.sum()) > 0 else -out


class Shared(nn.Module):
    """Reads a convolution both directly and through BatchNorm: folding would change the direct reading."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)
        self.norm.running_mean.fill_(0.7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = self.conv(x)
        return (self.norm(seen) + seen).mean((2, 3))


@pytest.mark.parametrize("make", [Branching, Shared])
def test_networks_that_cannot_be_folded_are_used_as_they_are(make):
    net = make().eval()
    x = torch.rand(2, 1, 6, 6, generator=stream(0, "x"))
    fast = fold(net, x)
    assert fast.folded == 0
    assert fast.reason
    torch.testing.assert_close(fast.model(x), net(x))
    torch.testing.assert_close(fast.model(-x), net(-x))


def test_impossible_sizes_are_refused():
    for bad in (
        lambda: wide_resnet(depth=35),
        lambda: lenet5(side=8),
        lambda: resnet(blocks=()),
        lambda: resnet9(width=0),
    ):
        with pytest.raises(BadInput):
            bad()


def test_one_channel_images_get_plain_strides():
    odd = torch.rand(4, 8, 8, 1, generator=stream(0, "x")).permute(0, 3, 1, 2)
    assert odd.is_contiguous(memory_format=torch.channels_last)
    out = Normalise([0.0], [1.0])(odd)
    assert out.stride() == (64, 64, 8, 1)
    assert torch.equal(out, odd)


class Half(torch.autograd.Function):
    """x, whose gradient is lost where x < 0."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (ctx.saved_tensors[0] >= 0)


class Rectified(nn.Module):
    def forward(self, x):
        return Half.apply(x)


def test_a_gradient_that_is_lost_at_one_example_is_seen():
    x = torch.ones(4, 3)
    assert _gaps(nn.Identity(), Rectified(), x) == (0.0, 0.0)
    x[2] = -1.0
    assert _gaps(nn.Identity(), Rectified(), x) == (0.0, pytest.approx(1.0))
    assert _gaps(Rectified(), nn.Identity(), x)[1] > 1.0
