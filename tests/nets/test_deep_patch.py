"""Deep patch networks: against torch's own convolutions, layer by layer; runs do not mix."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.nets.deep_patch import CONVOLUTIONAL, DEEP_KINDS, DeepKind, DeepPatchNet


def by_convolutions(net: DeepPatchNet, w: Tensor, x: Tensor) -> Tensor:
    """The same network of one run, with conv1d over the row of patches."""
    (first, b), *later, (last, c) = net.layers(w)

    def conv(layer: tuple[Tensor, Tensor], h: Tensor) -> Tensor:
        kernel = layer[0].view(3, net.width, net.width).permute(2, 1, 0)
        return F.conv1d(h, kernel, layer[1][0], padding=1)

    h = F.relu(F.conv1d(x.mT, first.mT[..., None], b[0]))
    if net.kind == "residual":
        for one, two in zip(later[::2], later[1::2], strict=True):
            h = F.relu(h + conv(two, F.relu(conv(one, h))))
    else:
        for layer in later:
            h = F.relu(conv(layer, h))
    return h.mean(-1) @ last + c


@pytest.mark.parametrize("kind", CONVOLUTIONAL)
def test_outputs_are_those_of_torch_s_convolutions(kind: DeepKind) -> None:
    net = DeepPatchNet(kind, width=4, k=3, d=5)
    w = torch.stack([net.init(stream(seed, "init")) for seed in range(2)])
    w += 0.1 * torch.randn(w.shape, generator=stream(0, "biases"), dtype=w.dtype)
    x = torch.randn(2, 6, 7, 5, generator=stream(0, "x"), dtype=w.dtype)
    both = net.outputs(w, x)
    for run in range(2):
        assert torch.allclose(both[run], by_convolutions(net, w[run], x[run]), atol=1e-12)


def test_depth_is_what_the_name_says_and_sizes_fit() -> None:
    layers = {kind: len(DeepPatchNet(kind, 4, 3, 5).shapes) for kind in DEEP_KINDS}
    assert layers == {"conv-1": 2, "conv-2": 3, "conv-3": 4, "conv-4": 5, "residual": 6, "attention": 8}
    net = DeepPatchNet("conv-2", 4, 3, 5)
    assert net.size == (5 + 1) * 4 + (12 + 1) * 4 + (4 + 1) * 3
    with pytest.raises(BadInput):
        net.outputs(torch.zeros(net.size + 1), torch.zeros(1, 2, 5))


def test_initial_weights_have_the_stated_variances_and_no_biases() -> None:
    net = DeepPatchNet("conv-2", 64, 40, 50)
    found = net.layers(net.init(stream(0, "init")))
    for (weights, bias), variance in zip(found, (2 / 50, 2 / 192, 1 / 64), strict=True):
        assert float(weights.var()) == pytest.approx(variance, rel=0.15)
        assert float(bias.abs().max()) == 0


def by_transformer(net: DeepPatchNet, w: Tensor, x: Tensor) -> Tensor:
    """The attention network of one run, with torch's own encoder layer of one head."""
    (first, b), query, key, value, mix, wide, narrow, (last, c) = net.layers(w)
    block = nn.TransformerEncoderLayer(
        net.width, 1, 2 * net.width, dropout=0.0, batch_first=True, norm_first=True, dtype=w.dtype
    )
    with torch.no_grad():
        for place, layers in (
            (block.self_attn.in_proj_weight, [part[0].mT for part in (query, key, value)]),
            (block.self_attn.in_proj_bias, [part[1][0] for part in (query, key, value)]),
            (block.self_attn.out_proj.weight, [mix[0].mT]),
            (block.self_attn.out_proj.bias, [mix[1][0]]),
            (block.linear1.weight, [wide[0].mT]),
            (block.linear1.bias, [wide[1][0]]),
            (block.linear2.weight, [narrow[0].mT]),
            (block.linear2.bias, [narrow[1][0]]),
        ):
            place.copy_(torch.cat(layers))
        h = block.eval()(x @ first + b)
    return F.layer_norm(h, h.shape[-1:]).mean(-2) @ last + c


def test_attention_is_that_of_torch_s_transformer_and_runs_do_not_mix() -> None:
    net = DeepPatchNet("attention", width=4, k=3, d=5)
    w = torch.stack([net.init(stream(seed, "init")) for seed in range(2)])
    w += 0.3 * torch.randn(w.shape, generator=stream(0, "biases"), dtype=w.dtype)
    x = torch.randn(2, 6, 7, 5, generator=stream(0, "x"), dtype=w.dtype)
    both = net.outputs(w, x)
    for run in range(2):
        assert torch.allclose(both[run], by_transformer(net, w[run], x[run]), atol=1e-10)
    assert torch.allclose(net.outputs(w, x.flip(-2)), both, atol=1e-12)  # attention knows no order of patches


def test_only_the_layer_before_the_relu_of_attention_starts_wider() -> None:
    net = DeepPatchNet("attention", 64, 40, 50)
    found = net.layers(net.init(stream(0, "init")))
    variances = (1 / 50, *(1 / 64,) * 4, 2 / 64, 1 / 128, 1 / 64)
    for (weights, bias), variance in zip(found, variances, strict=True):
        assert float(weights.var()) == pytest.approx(variance, rel=0.15)
        assert float(bias.abs().max()) == 0
