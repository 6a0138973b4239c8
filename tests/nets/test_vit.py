"""The small vision transformer: shape, symmetry, parameters, seeds."""

import pytest
import torch
from torch import nn

from featscope.core.errors import BadInput
from featscope.nets.networks import NetworkSpec
from featscope.nets.vit import TokenMean, Tokens, vit

SPEC = NetworkSpec(architecture="vit", width=32, channels=1, side=28, transformer_blocks=2)


def test_parameters_are_those_of_lenet_at_width_48() -> None:
    def count(net: nn.Module) -> int:
        return sum(p.numel() for p in net.parameters())

    wide = vit(width=48)
    # a block: 4m² + 4m of attention, 8m² + 5m of the hidden layer, 4m of two norms
    block = 12 * 48**2 + 13 * 48
    assert count(wide) == 2 * block + (49 + 1) * 48 + 16 * 48 + 2 * 48 + 49 * 10
    lenet = NetworkSpec(architecture="lenet5", width=6, channels=1, side=28).build(torch.Generator())
    assert count(wide) == pytest.approx(count(lenet), rel=0.05)


def test_tokens_are_patches_row_by_row_with_their_place() -> None:
    tokens = Tokens(1, 28, 16)
    with torch.no_grad():
        tokens.places.copy_(torch.arange(16.0)[:, None].expand(16, 16))
    x = torch.rand(2, 1, 28, 28)
    found = tokens(x)
    for place in (0, 5, 15):
        row, column = 7 * (place // 4), 7 * (place % 4)
        patch = x[:, :, row : row + 7, column : column + 7].flatten(1)
        by_hand = patch @ tokens.embed.weight.flatten(1).mT + tokens.embed.bias + place
        torch.testing.assert_close(found[:, place], by_hand)


def test_the_representation_is_the_mean_of_standardised_tokens() -> None:
    x = torch.tensor([[[1.0, 3.0], [5.0, 1.0], [0.0, 4.0]]])  # each becomes (∓1, ±1)
    torch.testing.assert_close(
        TokenMean(2)(x).detach(), torch.tensor([[-1 / 3, 1 / 3]]), rtol=1e-4, atol=1e-4
    )


def test_without_places_the_order_of_patches_does_not_matter_and_with_them_it_does() -> None:
    net = SPEC.build(torch.Generator().manual_seed(0)).eval()
    x = torch.rand(3, 1, 28, 28)
    swapped = torch.cat([x[..., 14:], x[..., :14]], -1)
    torch.testing.assert_close(net(x), net(swapped), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        net.stages["tokens"].places.copy_(torch.randn(16, 32))
    assert float((net(x) - net(swapped)).detach().abs().max()) > 1e-3


def test_one_seed_gives_one_network_and_nothing_is_drawn_elsewhere() -> None:
    first, again, other = (SPEC.build(torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    for name, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    projection = first.stages["block1"].self_attn.in_proj_weight
    assert not torch.equal(projection, other.stages["block1"].self_attn.in_proj_weight)
    assert float(projection.detach().var()) == pytest.approx(1 / 32, rel=0.1)
    assert not first.stages["block1"].self_attn.in_proj_bias.detach().any()


def test_the_representation_can_be_read_at_every_stage() -> None:
    assert SPEC.layers == ("tokens", "block1", "block2", "pooled")
    net, x = SPEC.build(torch.Generator()), torch.rand(2, 1, 28, 28)
    assert net.represent(x).shape == (2, 32)
    torch.testing.assert_close(net.head(net.represent(x)), net(x))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"side": 30}, "multiple of 4"),
        ({"width": 40}, "multiple of 16"),
        ({"transformer_blocks": 0}, "transformer"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(change: dict[str, int], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        SPEC.replace(**change).build(torch.Generator())
