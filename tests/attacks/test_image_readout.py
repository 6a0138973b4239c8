"""Fine labels read as coarse ones: the decision is the paper's, gradients match autograd, attacks reach the
closed form on linear networks."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from image_task import task, trained
from torch import nn

from featscope.attacks.curve import robust_curve
from featscope.attacks.pgd import PGD
from featscope.attacks.readout import OwnLoss, ReadOut
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput
from featscope.core.linearise import linearise
from featscope.core.losses import CROSS_ENTROPY, MARGIN, margin
from featscope.core.streams import stream
from featscope.dynamics.image_training import pack
from featscope.images.groupings import grouping
from featscope.nets.classifier import Representation
from featscope.nets.fold import fold

PAIRS = grouping("0,2|1,3", 4)


def logits(seed, n=20, classes=4, scale=3.0):
    return scale * torch.randn(n, classes, generator=stream(seed, "logits"), dtype=torch.float64)


@given(st.integers(0, 200), st.sampled_from(["0,2|1,3", "0|1,2,3", "halves", "parity", "3|0"]))
def test_the_decision_is_the_sign_of_the_difference_of_summed_probabilities(seed, text):
    f, groups = logits(seed), grouping(text, 4)
    scores = ReadOut(nn.Identity(), groups)(f)
    p = f.softmax(-1)
    sums = torch.stack([p[:, list(part)].sum(-1) for part in groups.parts], -1)
    assert torch.equal(scores[:, 0] > scores[:, 1], sums[:, 0] > sums[:, 1])
    # All scores miss the log of the sums by the same amount, the log of the common denominator.
    torch.testing.assert_close(scores - sums.log(), f.logsumexp(-1, keepdim=True).expand(-1, 2))
    largest = ReadOut(nn.Identity(), groups, "largest")(f)
    inside = torch.tensor([c in set().union(*groups.parts) for c in range(4)])
    assert torch.equal(largest.argmax(-1), groups(f.masked_fill(~inside, -torch.inf).argmax(-1)))


def test_the_score_has_a_gradient_where_the_difference_of_probabilities_has_none():
    f = torch.tensor([[200.0, 0.0, 0.0, 0.0]], requires_grad=True)
    p = f.softmax(-1)
    (flat,) = torch.autograd.grad((p[:, [0, 2]].sum() - p[:, [1, 3]].sum()), f)
    assert float(flat.abs().max()) == 0
    _, pull = linearise(ReadOut(nn.Identity(), PAIRS), f.detach())
    assert pull(torch.tensor([[1.0, -1.0]])).tolist() == [[1.0, -0.5, 0.0, -0.5]]


@pytest.mark.parametrize("decision", ["sum", "largest"])
def test_the_pull_of_the_margin_is_the_softmax_inside_each_group(decision):
    net, groups = trained(), PAIRS
    x, y = task(8, 1)
    coarse = groups(y)
    scores, pull = linearise(ReadOut(net, groups, decision), x)
    found = pull(MARGIN.grad(scores, coarse))
    leaf = x.clone().requires_grad_(True)
    f = net(leaf)
    value = 0.0
    for i in range(len(y)):
        own, other = (f[i, list(groups.parts[g])] for g in (int(coarse[i]), 1 - int(coarse[i])))
        value = value + (
            other.exp().sum().log() - own.exp().sum().log() if decision == "sum" else other.max() - own.max()
        )
    torch.testing.assert_close(found, torch.autograd.grad(value, leaf)[0], rtol=1e-4, atol=1e-6)


def test_groups_of_one_class_are_the_network_itself():
    f = logits(3)
    each = grouping("each", 4)
    assert torch.allclose(ReadOut(nn.Identity(), each)(f), f)
    assert torch.equal(ReadOut(nn.Identity(), each, "largest")(f), f)


def test_a_tie_between_groups_counts_as_wrong():
    f = torch.tensor([[1.0, 1.0, 0.0, 0.0], [2.0, 1.0, 0.0, 0.0]])
    scores = ReadOut(nn.Identity(), PAIRS, "largest")(f)
    assert (margin(scores, torch.tensor([0, 0])) > 0).tolist() == [False, True]
    # Of two classes that share the lead, a sum needs the second to decide; the group of the argmax alone
    # cannot.
    narrow = torch.tensor([[1.0, 0.9, -5.0, 0.9]])
    assert int(ReadOut(nn.Identity(), PAIRS, "largest")(narrow).argmax()) == 0
    assert int(ReadOut(nn.Identity(), PAIRS)(narrow).argmax()) == 1


@pytest.mark.parametrize("label", [0, 3])
def test_the_own_loss_is_the_gradient_of_the_cross_entropy_of_the_fine_class(label):
    net = trained()
    x, _ = task(6, 2)
    model = OwnLoss(ReadOut(net, PAIRS), label)
    scores, pull = linearise(model, x)
    torch.testing.assert_close(scores, ReadOut(net, PAIRS)(x).detach())
    leaf = x.clone().requires_grad_(True)
    value = nn.functional.cross_entropy(net(leaf), torch.full((6,), label), reduction="sum")
    wanted = torch.autograd.grad(value, leaf)[0]
    torch.testing.assert_close(pull(torch.zeros_like(scores)), wanted, rtol=1e-4, atol=1e-7)
    _, again = linearise(model, x)
    torch.testing.assert_close(again(torch.randn(scores.shape)), wanted, rtol=1e-4, atol=1e-7)


def test_on_two_classes_both_objectives_have_the_same_direction():
    f, y = logits(5, classes=2), torch.randint(0, 2, (20,), generator=stream(5, "y"))
    towards = [loss.grad(f, y) for loss in (CROSS_ENTROPY, MARGIN)]
    unit = [g / g.norm(dim=-1, keepdim=True) for g in towards]
    torch.testing.assert_close(unit[0], unit[1])


class Lines(nn.Module):
    """F_j = ⟨w_{g(j)}, x⟩ + b_j: classes of one group share their weights, so both scores and both attacks
    are linear."""

    def __init__(self):
        super().__init__()
        rng = stream(0, "lines")
        rows = torch.randn(2, 12, generator=rng, dtype=torch.float64)
        self.w = nn.Parameter(rows[[0, 1, 0, 1]])
        self.b = nn.Parameter(torch.randn(4, generator=rng, dtype=torch.float64))

    def forward(self, x):
        return x.flatten(1) @ self.w.T + self.b


@pytest.mark.parametrize("attack", ["readout", "own-loss"])
def test_attacks_on_a_linear_network_stop_at_the_exact_radius(attack):
    net = Lines()
    x = torch.randn(40, 1, 3, 4, generator=stream(1, "x"), dtype=torch.float64)
    readout = ReadOut(net, PAIRS)
    with torch.no_grad():
        scores = readout(x)
        coarse = scores.argmax(-1)
        exact = (scores[:, 0] - scores[:, 1]).abs() / (net.w[0] - net.w[1]).norm()
    label = [0, 1]
    for i in range(8):
        model = readout if attack == "readout" else OwnLoss(readout, label[int(coarse[i])])
        radii = [float(exact[i]) * f for f in (0.5, 0.99, 1.01)]
        pgd = PGD("margin", 20, stop_early=True)
        found = robust_curve(
            model, x[i : i + 1], coarse[i : i + 1], Threat("L2", 1.0, 3), radii, pgd, stream(0, "a")
        )
        assert math.isclose(float(found.fooled_at), radii[-1], rel_tol=1e-6)


def test_own_loss_attack_is_judged_by_the_read_out_and_leaves_the_network_alone():
    net = trained().train()
    before = (pack(net.parameters()).clone(), pack(net.buffers()).clone())
    x, y = task(60, 3)
    chosen = y == 1
    model = OwnLoss(ReadOut(fold(net, x[:2]).model, PAIRS), 1)
    attack = PGD("margin", 10, stop_early=True)
    radii = (0.0, 0.5, 1.0, 2.0)
    found = robust_curve(
        model,
        x[chosen],
        PAIRS(y)[chosen],
        Threat("L2", 1.0, 3, bounds=(0.0, 1.0)),
        radii,
        attack,
        stream(0, "a"),
    )
    assert net.training
    net.eval()
    assert torch.equal(before[0], pack(net.parameters()))
    assert torch.equal(before[1], pack(net.buffers()))
    fallen = torch.isfinite(found.fooled_at)
    assert bool(fallen.any())
    with torch.no_grad():
        moved = ReadOut(net, PAIRS)(x[chosen] + found.delta)
    assert bool((moved[fallen].argmax(-1) == 0).all())


def test_the_encoder_is_the_representation_and_folds():
    net = trained()
    x, _ = task(5, 4)
    copy = fold(Representation(net), x[:2])
    assert copy.folded > 0
    torch.testing.assert_close(copy.model(x), net.represent(x).detach(), rtol=1e-4, atol=1e-5)
    assert torch.equal(Representation(net, "stem")(x), net.represent(x, "stem"))
    with pytest.raises(BadInput, match="layer"):
        Representation(net, "stemm")


def test_bad_read_outs_are_refused():
    with pytest.raises(BadInput, match="class that the network has not: class 9"):
        ReadOut(trained(), grouping("halves"))
    with pytest.raises(BadInput, match="sum or largest"):
        ReadOut(trained(), PAIRS, "mean")
