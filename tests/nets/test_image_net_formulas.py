"""Each image network against its formula, written once more with plain functions over its weights; strides,
paddings and widths are said here."""

import pytest
import torch
from torch import nn
from torch.nn import functional as fun

from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.nets.classifier import (
    GlobalMax,
    GlobalMean,
    ImageClassifier,
    Normalise,
    Representation,
    initialise,
)
from featscope.nets.efficientnet import MEAN, STD, InvertedResidual, Stage, efficientnet_lite0
from featscope.nets.encoders import Resized
from featscope.nets.lenet import lenet5
from featscope.nets.networks import NetworkSpec
from featscope.nets.resnet import resnet, resnet9
from featscope.nets.wide_resnet import wide_resnet

MEANS, STDS = (0.5, 0.25), (0.5, 2.0)


def settled(net):
    """Evaluation mode, double, with BatchNorms that are not the identity."""
    for i, module in enumerate(m for m in net.modules() if isinstance(m, nn.BatchNorm2d)):
        rng = stream(i, "norm")
        module.running_mean.normal_(generator=rng).mul_(0.3)
        module.running_var.uniform_(0.5, 2.0, generator=rng)
        module.weight.data.uniform_(0.5, 1.5, generator=rng)
        module.bias.data.normal_(generator=rng).mul_(0.3)
    return net.eval().double()


def built(**settings):
    return settled(
        NetworkSpec(channels=2, classes=3, mean=MEANS, std=STDS, **settings).build(stream(0, "init"))
    )


def images(side, channels=2):
    return torch.rand(3, channels, side, side, generator=stream(0, "x"), dtype=torch.float64)


def normal(x):
    return torch.stack([(x[:, c] - MEANS[c]) / STDS[c] for c in range(2)], 1)


def conv(layer, x, stride=1, padding=1):
    return fun.conv2d(x, layer.weight, layer.bias, stride, padding)


def norm(layer, x, eps=1e-5):
    mean, var, weight, bias = (
        t.view(1, -1, 1, 1) for t in (layer.running_mean, layer.running_var, layer.weight, layer.bias)
    )
    return weight * (x - mean) / (var + eps).sqrt() + bias


def head(net, pooled):
    return pooled @ net.head.weight.mT + net.head.bias


def test_lenet5_is_its_formula():
    net = built(architecture="lenet5", width=3, side=28)
    first, second, third, last = net.stages.values()
    x = images(28)
    z = fun.max_pool2d(conv(first[0], normal(x), padding=2).relu(), 2)
    z = fun.max_pool2d(conv(second[0], z, padding=0).relu(), 2)
    assert z.shape[1:] == (8, 5, 5)
    z = (z.flatten(1) @ third[1].weight.mT + third[1].bias).relu()
    z = (z @ last[0].weight.mT + last[0].bias).relu()
    assert (third[1].out_features, last[0].out_features) == (60, 42)
    torch.testing.assert_close(net(x), head(net, z))
    torch.testing.assert_close(net.represent(x), z)


@pytest.mark.parametrize(("side", "maps"), [(12, 1), (13, 1), (17, 2), (32, 6)])
def test_lenet5_takes_other_sides(side, maps):
    net = NetworkSpec(architecture="lenet5", width=1, side=side, channels=1).build(stream(0, "init"))
    assert net(torch.zeros(1, 1, side, side)).shape == (1, 10)
    assert [m.in_features for m in net.modules() if isinstance(m, nn.Linear)] == [3 * maps**2, 20, 14]


def residual(block, x, stride):
    inner = norm(block.norm2, conv(block.conv2, norm(block.norm1, conv(block.conv1, x, stride)).relu()))
    past = (
        x
        if isinstance(block.shortcut, nn.Identity)
        else norm(block.shortcut[1], conv(block.shortcut[0], x, stride, 0))
    )
    return (inner + past).relu()


def pre_activated(block, x, stride):
    ready = norm(block.norm1, x).relu()
    past = x if block.shortcut is None else conv(block.shortcut, ready, stride, 0)
    return conv(block.conv2, norm(block.norm2, conv(block.conv1, ready, stride)).relu()) + past


def test_resnet_is_its_formula():
    net = built(architecture="resnet", width=3, blocks=(2, 1, 1), side=12)
    stem, one, two, three, _ = net.stages.values()
    x = images(12)
    z = norm(stem[1], conv(stem[0], normal(x))).relu()
    for block, stride in ((one[0], 1), (one[1], 1), (two[0], 2), (three[0], 2)):
        z = residual(block, z, stride)
    assert z.shape[1:] == (12, 3, 3)
    torch.testing.assert_close(net(x), head(net, z.flatten(2).mean(-1)))


@pytest.mark.parametrize(
    ("settings", "widths"),
    [
        ({"architecture": "preact-resnet", "width": 3, "blocks": (1, 2, 1)}, (3, 6, 12)),
        ({"architecture": "wide-resnet", "width": 2, "widen": 3, "depth": 16}, (6, 12, 24)),
    ],
)
def test_pre_activation_networks_are_their_formula(settings, widths):
    net = built(side=12, **settings)
    stem, *stages, last, _ = net.stages.values()
    counts = settings.get("blocks", (2, 2, 2))
    assert [len(stage) for stage in stages] == list(counts)
    x = images(12)
    z = conv(stem, normal(x))
    for i, stage in enumerate(stages):
        for j, block in enumerate(stage):
            z = pre_activated(block, z, 2 if i > 0 and j == 0 else 1)
            assert z.shape[1] == widths[i]
    z = norm(last[0], z).relu()
    torch.testing.assert_close(net(x), head(net, z.flatten(2).mean(-1)))


def test_only_blocks_that_change_the_shape_have_a_shortcut():
    for architecture, nothing in (("resnet", nn.Identity), ("preact-resnet", type(None))):
        net = built(architecture=architecture, width=2, blocks=(2, 2), side=8)
        plain = [
            isinstance(block.shortcut, nothing) for name in ("stage1", "stage2") for block in net.stages[name]
        ]
        assert plain == [True, True, False, True]


def test_resnet9_is_its_formula():
    net = built(architecture="resnet9", width=2, side=16)
    stem, one, two, three, _ = net.stages.values()

    def unit(layers, at, x):
        return norm(layers[at + 1], conv(layers[at], x)).relu()

    def plus(step, x):
        return x + unit(step.body, 3, unit(step.body, 0, x))

    x = images(16)
    z = unit(stem, 0, normal(x))
    z = plus(one[4], fun.max_pool2d(unit(one, 0, z), 2))
    z = fun.max_pool2d(unit(two, 0, z), 2)
    z = plus(three[4], fun.max_pool2d(unit(three, 0, z), 2))
    assert z.shape[1:] == (16, 2, 2)
    torch.testing.assert_close(net(x), head(net, z.flatten(2).amax(-1)))


@pytest.mark.parametrize(
    ("kernel", "stride", "expand"), [(3, 1, 1), (3, 1, 2), (3, 2, 4), (5, 2, 4), (5, 1, 4)]
)
def test_an_inverted_residual_is_its_formula(kernel, stride, expand):
    block = settled(InvertedResidual(4, 4, kernel, stride, expand))
    initialise(block, stream(1, "init"))
    x = 3 * images(8, 4)
    layers = [m for m in block.path if isinstance(m, nn.Conv2d | nn.BatchNorm2d)]
    z = x
    if expand > 1:
        z = norm(layers[1], conv(layers.pop(0), z, padding=0), 1e-3).clamp(0, 6)
        layers.pop(0)
    # TensorFlow's SAME on even sides: in all kernel − stride, the smaller half before.
    before = (kernel - stride) // 2
    padded = fun.pad(z, (before, kernel - stride - before) * 2)
    each = fun.conv2d(padded, layers[0].weight, None, stride, groups=4 * expand)
    z = norm(layers[1], each, 1e-3).clamp(0, 6)
    z = norm(layers[3], conv(layers[2], z, padding=0), 1e-3)
    torch.testing.assert_close(block(x), x + z if stride == 1 else z)


def test_the_lite_table_is_read_row_by_row():
    net = efficientnet_lite0((Stage(1, 3, 1, 1, 16), Stage(2, 5, 2, 6, 24)), stem=8, top=40, classes=5)
    assert net.layers == ("stem", "block0", "block1", "block2", "top", "pooled")
    assert [net.stages[f"block{i}"].added for i in range(3)] == [False, False, True]
    filters = [
        next(m for m in net.stages[f"block{i}"].path if isinstance(m, nn.Conv2d) and m.groups > 1)
        for i in range(3)
    ]
    assert [(f.groups, f.kernel_size[0], f.stride[0]) for f in filters] == [
        (8, 3, 1),
        (96, 5, 2),
        (144, 5, 1),
    ]
    maps = net.eval().represent(torch.rand(1, 3, 64, 64), "top")
    assert maps.shape == (1, 40 * 16 * 16)
    assert net(torch.rand(1, 3, 64, 64)).shape == (1, 5)


def test_pixels_enter_efficientnet_as_published():
    pixels = torch.tensor([0.0, 127.0, 255.0]).view(1, 1, 1, 3).expand(1, 3, 1, 3) / 255
    assert Normalise(MEAN, STD)(pixels)[0, 2, 0].tolist() == pytest.approx([-127 / 128, 0, 1], abs=1e-6)


def test_each_layer_is_drawn_with_its_own_variance_and_the_head_with_gain_1():
    net = initialise(
        NetworkSpec(architecture="lenet5", width=24, side=28, channels=1).build(stream(1, "init")),
        stream(0, "init"),
    )
    drawn = [m for m in net.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    fans = [25, 24 * 25, 64 * 25, 480, 336]
    for layer, fan, gain in zip(drawn, fans, (2, 2, 2, 2, 1), strict=True):
        variance = float(layer.weight.detach().double().var())
        assert variance == pytest.approx(gain / fan, rel=6 * (2 / layer.weight.numel()) ** 0.5)
        assert not layer.bias.any()


def test_initialising_again_forgets_what_batchnorm_learned():
    net = built(architecture="resnet", width=2, blocks=(1,), side=8)
    initialise(net, stream(0, "init"))
    for module in (m for m in net.modules() if isinstance(m, nn.BatchNorm2d)):
        assert (module.running_mean.abs().max(), (module.running_var - 1).abs().max()) == (0, 0)
        assert ((module.weight - 1).abs().max(), module.bias.abs().max()) == (0, 0)


def test_a_spec_hands_every_setting_to_its_network():
    defaults = NetworkSpec()
    assert defaults.layers == ("stem", "stage1", "stage2", "stage3", "stage4", "pooled")
    assert (defaults.width, defaults.blocks, defaults.depth, defaults.widen) == (64, (2, 2, 2, 2), 34, 10)
    assert (defaults.channels, defaults.classes, defaults.side) == (3, 10, 32)
    for architecture in ("lenet5", "resnet9", "resnet", "preact-resnet", "wide-resnet"):
        net = built(architecture=architecture, width=2, blocks=(1, 1), depth=10, widen=2, side=16)
        assert net.normalise.mean.flatten().tolist() == list(MEANS)
        assert net.normalise.std.flatten().tolist() == list(STDS)
        assert net.head.out_features == 3
        assert next(m for m in net.modules() if isinstance(m, nn.Conv2d)).in_channels == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"architecture": "wide-resnet", "depth": 4},
        {"architecture": "wide-resnet", "depth": 17},
        {"architecture": "lenet5", "side": 11},
        {"blocks": ()},
        {"blocks": (1, 0)},
    ],
)
def test_sizes_just_outside_are_refused(settings):
    with pytest.raises(BadInput):
        NetworkSpec(**{"width": 2, "widen": 1} | settings).build(stream(0, "init"))


def test_no_network_without_width():
    for make in (
        lambda: resnet(width=0),
        lambda: resnet9(width=0),
        lambda: lenet5(width=0),
        lambda: wide_resnet(widen=0),
        lambda: wide_resnet(base=0),
    ):
        with pytest.raises(BadInput, match="at least 1"):
            make()
    for net in (
        resnet(width=1, blocks=(1,)),
        resnet9(width=1),
        lenet5(width=1, channels=3),
        wide_resnet(depth=10, widen=1, base=1),
    ):
        assert net(torch.zeros(2, 3, 28, 28)).shape == (2, 10)


def test_published_widths_are_the_defaults():
    """ResNet-18 starts with 64 channels, ResNet-9 ends with 512, WideResNet-34-10 with 640, LeNet-5 with
    84."""
    assert [resnet().head.in_features, resnet9().head.in_features, lenet5().head.in_features] == [
        512,
        512,
        84,
    ]
    assert wide_resnet(depth=10).head.in_features == 640
    assert (
        NetworkSpec(architecture="wide-resnet", width=16, widen=1)
        .build(stream(0, "init"))
        .stages["stage3"][4]
        .conv2.out_channels
        == 64
    )


def test_a_classifier_needs_two_classes_a_representation_and_sound_normalisation():
    with pytest.raises(BadInput, match="classes"):
        ImageClassifier({"pooled": GlobalMean()}, 1, 1, 1)
    assert ImageClassifier({"pooled": GlobalMean()}, 1, 1, 2)(torch.zeros(1, 1, 2, 2)).shape == (1, 2)
    with pytest.raises(BadInput, match="last stage"):
        ImageClassifier({"pooled": GlobalMean(), "after": nn.Identity()}, 1, 1, 2)
    for mean, std in (([0.0], [1.0, 1.0]), ([0.0, 0.0], [1.0, 0.0]), ([0.0], [-1.0])):
        with pytest.raises(BadInput, match="normalisation"):
            Normalise(mean, std)


def test_pooling_reads_all_positions():
    x = torch.arange(24.0).view(1, 2, 3, 4)
    assert GlobalMean()(x).tolist() == [[5.5, 17.5]]
    assert GlobalMax()(x).tolist() == [[11.0, 23.0]]


def test_a_foreign_network_is_read_at_a_submodule_that_runs_once():
    twice = nn.Linear(4, 4)
    net = nn.Sequential(nn.Flatten(), nn.Linear(8, 4), nn.ReLU(), nn.Sequential(twice, twice))
    x = torch.rand(3, 2, 2, 2)
    torch.testing.assert_close(Representation(net, "1")(x), net[1](x.flatten(1)))
    assert not net[1]._forward_hooks
    shared = nn.Module()
    shared.add_module("layer", twice)
    shared.forward = lambda x: twice(twice(x.flatten(1)))
    with pytest.raises(BadInput, match="run once"):
        Representation(shared, "layer")(torch.rand(3, 4))
    with pytest.raises(BadInput, match="layer"):
        Representation(net, "")


def test_an_encoder_resizes_only_what_has_another_side_and_stays_in_the_unit_interval():
    grey = torch.rand(2, 1, 8, 8, generator=stream(0, "x"))
    seen = Resized(nn.Identity(), 8)(grey)
    assert torch.equal(seen, torch.cat([grey] * 3, 1))
    steps = (torch.rand(2, 3, 8, 8, generator=stream(1, "x")) > 0.5).float()
    for wide in (steps, steps[..., :4], steps[..., :4, :]):
        large = Resized(nn.Identity(), 16)(wide)
        expected = fun.interpolate(wide, size=(16, 16), mode="bicubic", align_corners=False, antialias=True)
        assert large.shape[-2:] == (16, 16)
        assert expected.min() < 0
        assert expected.max() > 1
        torch.testing.assert_close(large, expected.clamp(0, 1))
