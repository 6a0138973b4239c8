"""Networks at their limits, and what they count of themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.nets.adapters import Called, Cast, OneLogit, Picked
from featscope.nets.built.blocks import square
from featscope.nets.built.counting import shattered_share
from featscope.nets.built.graph import Graph
from featscope.nets.built.robust import opposite_distance
from featscope.nets.classifier import GlobalMax, GlobalMean, Normalise, Representation, initialise
from featscope.nets.deep_patch import DEEP_KINDS, DeepPatchNet
from featscope.nets.fold import COMPARED, evenly, fold
from featscope.nets.lenet import lenet5
from featscope.nets.narrow import even_groups
from featscope.nets.networks import NetworkSpec
from featscope.nets.resnet import resnet, resnet9
from featscope.nets.two_layer import output_weights
from featscope.nets.wide_resnet import wide_resnet

CASES: list[tuple[Callable[..., object], tuple[object, ...], tuple[object, ...], str]] = [
    (lambda w: lenet5(width=w, side=12), (1,), (0,), "width must be at least 1"),
    (lambda s: lenet5(width=1, side=s), (12,), (11,), "at least 12×12"),
    (lambda w: resnet(width=w, blocks=(1,)), (1,), (0,), "width must be at least 1"),
    (lambda *b: resnet(width=1, blocks=b), (1, 1), (1, 0), "every stage needs a block"),
    (lambda *b: resnet(width=1, blocks=b), (1,), (), "every stage needs a block"),
    (lambda w: resnet9(width=w), (1,), (0,), "width must be at least 1"),
    (lambda d: wide_resnet(depth=d, widen=1, base=1), (10,), (4,), "6n"),
    (lambda d: wide_resnet(depth=d, widen=1, base=1), (16,), (15,), "6n"),
    (lambda w: wide_resnet(depth=10, widen=w, base=1), (1,), (0,), "widen must be at least 1"),
    (lambda b: wide_resnet(depth=10, widen=1, base=b), (1,), (0,), "base must be at least 1"),
    (lambda c: resnet9(classes=c, width=1), (2,), (1,), "classes must be at least 2"),
    (lambda *s: Normalise([0.0, 0.0], s), (1.0, 1e-9), (1.0, 0.0), "positive std"),
    (lambda *s: Normalise([0.0, 0.0], s), (1.0, 1.0), (1.0,), "positive std"),
    (lambda n: output_weights(n), (1,), (0,), "at least one neuron"),
    (lambda k: DeepPatchNet(k, 2, 2, 3), (next(iter(DEEP_KINDS)),), ("none",), "unknown kind"),
    (lambda mu: shattered_share(mu), (0.0,), (-1e-9,), "at least 0"),
    (lambda mu: shattered_share(mu), (0.499,), (0.5,), "below ½"),
    (lambda n: even_groups([1, 2], n), (2,), (3,), "as many groups as members"),
    (lambda n: even_groups([1, 2], n), (1,), (0,), "as many groups as members"),
    (lambda n: square(Graph(1), Graph(1).x, n), (1,), (0,), "levels must be at least 1"),
    (lambda n: Graph(2).affine((Graph(2).x, torch.ones(1, n))), (2,), (3,), "fit its source"),
    (lambda n: Graph(2).affine(size=n), (2,), (None,), "needs a size"),
    (lambda n: Graph(2).affine((Graph(2).x, 1.0), bias=torch.ones(n)), (2,), (3,), "node's size"),
    (lambda c: NetworkSpec(classes=c), (2,), (1,), "classes"),
    (lambda s: NetworkSpec(side=s), (4,), (3,), "side"),
]


@pytest.mark.parametrize(("make", "taken", "refused", "told"), CASES)
def test_limits_of_networks(
    make: Callable[..., object], taken: tuple[object, ...], refused: tuple[object, ...], told: str
) -> None:
    make(*taken)
    with pytest.raises(BadInput, match=told) as caught:
        make(*refused)
    assert "\n" not in str(caught.value)


def test_a_graph_counts_what_it_stores() -> None:
    graph = Graph(2)
    assert (graph.depth, graph.neurons, graph.parameters) == (0, 0, 0)
    constant = graph.affine(size=3, bias=torch.tensor([1.0, 0.0, 2.0]))
    assert graph.depth == 0  # a node without terms is a start of its own
    assert graph.parameters == 2
    on = graph.relu(constant)
    assert (graph.depth, graph.neurons) == (1, 3)
    again = graph.relu(
        graph.affine((on, torch.tensor([[1.0, 0.0, 2.0]])), (graph.x, torch.ones(1, 2)), bias=-1.0)
    )
    assert (graph.depth, graph.neurons, graph.parameters) == (2, 4, 2 + 4 + 1)
    graph.affine((graph.x, 3.0))
    assert graph.depth == 0
    assert graph.parameters == 7 + 2
    values = graph.values(torch.tensor([[0.5, -2.0], [1.0, 1.0]], dtype=torch.float64))
    assert values[on.index].tolist() == [[1.0, 0.0, 2.0]] * 2
    assert values[again.index].tolist() == [[2.5], [6.0]]  # 1·1 + 2·2 + x₁ + x₂ − 1
    assert graph(torch.tensor([[0.5, -2.0]])).tolist() == [[1.5, -6.0]]


def test_an_enclosure_of_a_point_is_as_wide_as_rounding_allows_and_no_wider() -> None:
    """3x₁ − 2x₂ + 5 at (1, 2): five numbers are added with 2 products each, Σ|w x| + |b| = 12."""
    graph = Graph(2)
    graph.affine((graph.x, torch.tensor([[3.0, -2.0]])), bias=5.0)
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    low, high = graph.enclose(x, x)
    wide = 2 * (1 + 2 * 2 + 4) * torch.finfo(torch.float64).eps * 12
    assert float(4.0 - low) == pytest.approx(wide, rel=0.1, abs=0)
    assert float(high - 4.0) == pytest.approx(wide, rel=0.1, abs=0)
    low, high = graph.enclose(x - 0.5, x + 0.5)
    assert float(low) == pytest.approx(4.0 - 2.5)
    assert float(high) == pytest.approx(4.0 + 2.5)
    wide_box = Graph(1)
    wide_box.affine((wide_box.x, 3.0))
    low, high = wide_box.enclose(torch.tensor([[-3.0]]).double(), torch.tensor([[1.0]]).double())
    # The larger end decides: one product, |3·(−3)| = 9.
    assert float(-9.0 - low) == pytest.approx(
        2 * (1 + 2 + 4) * torch.finfo(torch.float64).eps * 9, rel=0.2, abs=0
    )
    assert float(high - 3.0) == pytest.approx(
        2 * (1 + 2 + 4) * torch.finfo(torch.float64).eps * 9, rel=0.2, abs=0
    )
    negative = Graph(1)
    negative.affine((negative.x, 0.0), bias=-7.0)
    low, high = negative.enclose(x[:, :1], x[:, :1])
    assert float(low) < -7.0 < float(high)


def test_a_single_point_of_each_label_has_a_distance() -> None:
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0], [9.0, 9.0]], dtype=torch.float64)
    y = torch.tensor([1.0, -1.0, -1.0])
    assert opposite_distance(x[:2], y[:2], "L2") == pytest.approx(5.0)
    assert opposite_distance(x, -y, "Linf") == pytest.approx(4.0)
    assert (
        opposite_distance(x, torch.ones(3), "L2") == opposite_distance(x, -torch.ones(3), "L2") == torch.inf
    )


def test_examples_are_spread_evenly_with_both_ends() -> None:
    assert evenly(10, 4).tolist() == [0, 3, 6, 9]
    assert evenly(3, 8).tolist() == [0, 1, 2]
    assert evenly(1, 8).tolist() == [0]
    assert evenly(0, 8).tolist() == []
    assert len(evenly(1000, COMPARED)) == 8


def test_adapters_give_logits_and_keep_the_mode() -> None:
    x = torch.tensor([[1.0, -2.0]])
    two = Called(lambda t: (t, 3 * t))
    assert torch.equal(Picked(two)(x), x)
    assert torch.equal(Picked(two, 1)(x), 3 * x)
    assert torch.equal(Picked(Called(lambda t: {"logits": t}), "logits")(x), x)
    assert torch.equal(Picked(Called(lambda t: torch.max(t, -1)), "indices")(x), torch.tensor([0]))
    assert OneLogit(Called(lambda t: t[:, :1]))(x).tolist() == [[0.0, 1.0]]
    cast = Cast(nn.Linear(2, 2).double(), torch.float64)
    assert cast(x).dtype == torch.float32
    for wrapped in (Picked(two.eval()), OneLogit(two.eval()), Cast(two.eval(), torch.float64)):
        assert not wrapped.training
    assert Picked(Called(lambda t: t).train()).training


def test_weights_are_he_normal_the_head_has_gain_one_and_the_rest_is_plain() -> None:
    net = nn.Sequential(
        nn.Conv2d(8, 64, 3), nn.BatchNorm2d(64), nn.Flatten(), nn.Linear(64, 500), nn.Linear(500, 400)
    )
    with torch.no_grad():
        net[1].weight.fill_(7.0)
        net[1].running_mean.fill_(3.0)
    initialise(net, stream(0, "init"))
    for place, gain, fan_in in ((0, 2.0, 72), (3, 2.0, 64), (4, 1.0, 500)):
        weight = net[place].weight.detach()
        assert float(weight.std()) == pytest.approx((gain / fan_in) ** 0.5, rel=0.02)
        assert abs(float(weight.mean())) < 0.05 * (gain / fan_in) ** 0.5
        assert float(net[place].bias.detach().abs().max()) == 0
    assert net[1].weight.unique().tolist() == [1.0]
    assert net[1].running_mean.unique().tolist() == [0.0]


def test_poolings_and_normalisation_by_hand() -> None:
    x = torch.tensor([[[[1.0, 2.0], [3.0, 6.0]], [[0.0, 0.0], [0.0, -4.0]]]])
    assert GlobalMean()(x).tolist() == [[3.0, -1.0]]
    assert GlobalMax()(x).tolist() == [[6.0, 0.0]]
    made = Normalise([1.0, -1.0], [2.0, 4.0])(x)
    torch.testing.assert_close(made[0, :, 1, 1], torch.tensor([(6 - 1) / 2, (-4 + 1) / 4]))


def test_a_layer_that_runs_twice_or_returns_no_tensor_is_no_representation() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.pair = nn.Linear(2, 2), Called(lambda t: (t, t))  # type: ignore[arg-type,return-value]
            self.once = nn.Linear(2, 3)

        def forward(self, x: Tensor) -> Tensor:
            self.pair(x)
            return self.once(self.inner(self.inner(x)))  # type: ignore[no-any-return]

    net, x = Twice(), torch.ones(4, 2)
    assert Representation(net, "once")(x).shape == (4, 3)
    for layer, told in (("inner", "inner: 2 calls"), ("pair", "pair: 1 calls"), ("none", "unknown layer")):
        with pytest.raises(BadInput, match=told):
            Representation(net, layer)(x)
    assert not net.inner._forward_hooks


@pytest.mark.parametrize(
    ("architecture", "given", "stem", "head"),
    [
        ("wide-resnet", {"width": 3, "widen": 2, "depth": 10}, 3, 3 * 2 * 4),
        ("resnet9", {"width": 3}, 3, 3 * 8),
        ("resnet", {"width": 3, "blocks": (1, 1)}, 3, 3 * 2),
        ("preact-resnet", {"width": 5, "blocks": (1, 1, 1)}, 5, 5 * 4),
        ("lenet5", {"width": 3, "side": 28}, 3, 42),
    ],
)
def test_a_specification_gives_its_sizes_to_the_network(
    architecture: str, given: dict[str, object], stem: int, head: int
) -> None:
    spec = NetworkSpec(
        architecture=architecture, channels=2, classes=7, mean=(0.25, 0.5), std=(0.5, 2.0), **given
    )
    net = spec.build(stream(0, "init"))
    first = next(part for part in net.modules() if isinstance(part, nn.Conv2d))
    assert (first.in_channels, first.out_channels) == (2, stem)
    assert (net.head.in_features, net.head.out_features) == (head, 7)
    assert net.normalise.mean.flatten().tolist() == [0.25, 0.5]
    assert net.normalise.std.flatten().tolist() == [0.5, 2.0]
    assert net.layers == spec.layers
    assert hasattr(net.stages, "maps") == (architecture in ("preact-resnet", "wide-resnet"))
    x = torch.rand(2, 2, 28, 28, generator=stream(0, "x"))
    assert net(x).shape == (2, 7)
    plain = NetworkSpec(architecture=architecture, **given).build(stream(0, "init"))
    assert plain.normalise.mean.flatten().tolist() == [0.0] * 3
    assert plain.normalise.std.flatten().tolist() == [1.0] * 3


HOOKS: dict[str, Callable[[nn.Module], object]] = {
    "forward": lambda m: m.register_forward_hook(lambda *_: None),
    "before": lambda m: m.register_forward_pre_hook(lambda *_: None),
    "backward": lambda m: m.register_full_backward_hook(lambda *_: None),
    "before backward": lambda m: m.register_full_backward_pre_hook(lambda *_: None),
}


@pytest.mark.parametrize("kind", HOOKS)
def test_a_network_with_any_hook_is_used_as_it_is(kind: str) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3)).eval()
    x = torch.rand(5, 4, generator=stream(0, "x"))
    assert fold(net, x).model is not net
    HOOKS[kind](net[1])
    found = fold(net, x)
    assert found.model is net
    assert found.reason == "hooks and compiled networks are used as they are"
