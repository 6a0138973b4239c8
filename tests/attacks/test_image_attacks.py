"""Attacks on image networks: exact on linear models, nothing left behind, masking shows, peers are not
better."""

import copy
import dataclasses
import itertools

import pytest
import torch
from image_task import L2, LINF, Linear, task, trained
from torch import Tensor, nn

from featscope.attacks.apgd import APGD, checkpoints
from featscope.attacks.evaluate import evaluate
from featscope.attacks.feature import FeaturePGD, feature_distance, target_rate
from featscope.attacks.mode import in_mode
from featscope.attacks.pgd import PGD, shifted, targeted, towards
from featscope.attacks.square import Square
from featscope.attacks.suite import SINGLE, assess, assess_curve, ensemble, preflight
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput
from featscope.core.losses import CROSS_ENTROPY, MARGIN, SOFT_MARGIN, margin
from featscope.core.streams import stream

SEARCHES = [
    PGD("margin", 40),
    PGD("margin", 40, stop_early=True),
    PGD("soft-margin", 40, stop_early=True),
    APGD("cross-entropy", 40),
    APGD("margin", 40),
    APGD("soft-margin", 40),
    PGD("margin", 40, every_target=True),
    Square(400),
]


@pytest.mark.parametrize("norm", ["Linf", "L2"])
@pytest.mark.parametrize(
    "attack", SEARCHES[:-1], ids=lambda a: a.name + ("-early" if getattr(a, "stop_early", False) else "")
)
def test_the_exact_radius_of_a_linear_model_is_reached_within_a_percent_and_never_beaten(norm, attack):
    model = Linear()
    x = torch.randn(30, 2, 6, 6, generator=stream(1, "x"))
    y = model(x).argmax(-1)
    radius = model.radius(x, y, Threat(norm, 1.0, 3))
    for i in range(0, 30, 5):
        one, label = x[i : i + 1], y[i : i + 1]
        for factor, expected in ((1.01, 0.0), (0.99, 1.0)):
            threat = Threat(norm, factor * float(radius[i]), 3)
            assert evaluate(model, one, label, threat, [attack], stream(0, i)).accuracy == expected


def test_square_never_beats_the_exact_radius_and_finds_what_is_far_beyond_it():
    model = Linear()
    x = torch.randn(40, 2, 6, 6, generator=stream(1, "x"))
    y = model(x).argmax(-1)
    for norm in ("Linf", "L2"):
        radius = model.radius(x, y, Threat(norm, 1.0, 3))
        below, beyond = 0.999 * float(radius.min()), 3 * float(radius.max())
        assert evaluate(model, x, y, Threat(norm, below, 3), [Square(100)], stream(0, "s")).accuracy == 1.0
        assert evaluate(model, x, y, Threat(norm, beyond, 3), [Square(400)], stream(0, "s")).accuracy < 0.1


def test_checkpoints_end_at_the_last_step_and_draw_nearer():
    for steps in (1, 5, 10, 50, 100):
        marks = checkpoints(steps)
        assert marks[-1] == steps
        assert all(a < b for a, b in itertools.pairwise(marks))
    gaps = [b - a for a, b in itertools.pairwise([0, *checkpoints(100)])]
    assert gaps[0] == 22
    assert min(gaps[:-1]) >= 6


@pytest.mark.parametrize(
    "attack", [*SEARCHES, PGD("cross-entropy", 5, every_target=True, stop_early=True)], ids=lambda a: a.name
)
@pytest.mark.parametrize("training", [False, True])
def test_parameters_buffers_modes_and_gradients_are_as_before(attack, training):
    net = copy.deepcopy(trained()).train(training)
    next(
        m for m in net.modules() if isinstance(m, nn.BatchNorm2d)
    ).eval()  # a mixture of modes must survive too
    before, modes = copy.deepcopy(net.state_dict()), [m.training for m in net.modules()]
    x, y = task(10, 5)
    small = Square(5) if isinstance(attack, Square) else attack
    delta = small(net, x, y, LINF, stream(0, "a"))
    evaluate(net, x, y, LINF, [small], stream(0, "a"))
    assert bool(LINF.contains(delta, x).all())
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert modes == [m.training for m in net.modules()]
    assert all(p.grad is None and p.requires_grad for p in net.parameters())


def test_a_mode_is_restored_after_an_error_too():
    net = copy.deepcopy(trained()).train()

    def fails():
        with in_mode(net, "eval"):
            assert not net.training
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert net.training
    with in_mode(net, "train"):
        before = [b.clone() for b in net.buffers()]
        net(task(8, 1)[0])
    assert all(torch.equal(a, b) for a, b in zip(before, net.buffers(), strict=True))


@pytest.mark.parametrize("threat", [LINF, L2], ids=["Linf", "L2"])
def test_stopping_early_fools_the_same_examples(threat):
    net = trained()
    x, y = task(120, 3)
    full = evaluate(net, x, y, threat, [PGD("margin", 12, random_start=False)], stream(0, "a"))
    early = evaluate(
        net, x, y, threat, [PGD("margin", 12, random_start=False, stop_early=True)], stream(0, "a")
    )
    assert torch.equal(full.robust, early.robust)
    assert 0 < full.accuracy < 1


def test_examples_are_not_all_of_one_batch_when_others_stop():
    """What is found for an example does not depend on the others in the batch."""
    net = trained()
    x, y = task(20, 4)
    attack = PGD("margin", 8, random_start=False, stop_early=True)
    whole = attack(net, x, y, LINF, stream(0, "a"))
    single = torch.cat([attack(net, x[i : i + 1], y[i : i + 1], LINF, stream(0, "a")) for i in range(20)])
    torch.testing.assert_close(whole, single, rtol=0, atol=2 * LINF.eps)
    both = [margin(net(x + d), y).detach() > 0 for d in (whole, single)]
    assert torch.equal(both[0], both[1])


def test_targets_are_aimed_at():
    net = trained()
    x, y = task(60, 6)
    target = (y + 1) % 4
    outputs = net(x).detach()
    torch.testing.assert_close(shifted(1).value(outputs, y), targeted(target).value(outputs, y))
    goal = towards(target)
    leaf = outputs.clone().requires_grad_(True)
    torch.testing.assert_close(goal.grad(outputs, y), torch.autograd.grad(goal.value(leaf, y).sum(), leaf)[0])
    assert torch.equal(goal.value(outputs, y) > 0, outputs.argmax(-1) == target)
    threat = LINF.with_radius(0.4)
    delta = PGD(steps=20, goal=goal)(net, x, y, threat, stream(0, "a"))
    untargeted = PGD("margin", 20)(net, x, y, threat, stream(0, "a"))
    assert float(target_rate(net, x, delta, target).double().mean()) > 0.9
    assert float(target_rate(net, x, untargeted, target).double().mean()) < 0.9
    with pytest.raises(BadInput):
        PGD(goal=targeted(target), every_target=True)


def test_feature_distance_matches_autograd_and_is_zero_at_the_target():
    features = torch.randn(5, 7, dtype=torch.float64, generator=stream(0, "f"))
    target = torch.randn(5, 7, dtype=torch.float64, generator=stream(1, "f"))
    target[2] = features[2]
    goal = feature_distance(target)
    y = torch.zeros(5, dtype=torch.int64)
    leaf = features.clone().requires_grad_(True)
    rest = torch.tensor([0, 1, 3, 4])
    auto = torch.autograd.grad(goal.value(leaf, y)[rest].sum(), leaf)[0]
    torch.testing.assert_close(goal.grad(features, y)[rest], auto[rest], rtol=1e-10, atol=1e-12)
    assert float(goal.grad(features, y)[2].abs().max()) == 0


def test_feature_attack_nears_the_target_and_more_radius_nears_it_more():
    net = trained()
    x, y = task(40, 7)
    pool, labels = task(400, 8)
    target = (y + 2) % 4
    images = torch.stack([pool[labels == t][i] for i, t in enumerate(target.tolist())])
    distances = []
    for eps in (0.0, 0.05, 0.2):
        attack = FeaturePGD(net.represent, images, steps=20, label="NRF")
        delta = attack(None, x, y, LINF.with_radius(eps), stream(0, "a"))
        with torch.no_grad():
            gap = torch.linalg.vector_norm(net.represent(x + delta) - net.represent(images), dim=-1)
        distances.append(gap)
    assert bool((distances[1] <= distances[0] + 1e-6).all())
    assert float(distances[2].mean()) < float(distances[1].mean()) < float(distances[0].mean())
    assert float(target_rate(net, x, delta, target).double().mean()) > 0.9
    assert attack.name == "NRF-pgd20"
    with pytest.raises(BadInput):
        FeaturePGD(net.represent, images[:3])(None, x, y, LINF, stream(0, "a"))


class Masked(nn.Module):
    """The trained network behind a rounding that has no gradient."""

    def __init__(self) -> None:
        super().__init__()
        trained()  # before an evaluator turns gradients off

    def forward(self, x: Tensor) -> Tensor:
        return trained()((x * 20).round() / 20)


def test_masking_shows_in_the_warnings_and_in_the_search_without_gradients():
    x, y = task(60, 9)
    threat = LINF.with_radius(0.15)
    attacks = [PGD("cross-entropy", 10), Square(300)]
    found = assess(Masked(), x, y, threat, attacks, fast=False)
    text = " | ".join(found.warnings)
    assert "cross-entropy is zero" in text
    assert "needs no gradient" in text
    assert found.accuracy < 0.5 < found.evaluation.by["pgd10-cross-entropy"]
    # Through the copy whose rounding has a slope, gradients find it; the warning stays.
    seen = assess(Masked(), x, y, threat, attacks)
    assert "cross-entropy is zero" in " | ".join(seen.warnings)
    assert seen.evaluation.by["pgd10-cross-entropy"] < 0.5


class Says(nn.Module):
    """A network whose outputs are post-processed."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.net, self.what = trained(), what
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        out = self.net(x)
        if self.what == "probabilities":
            return out.softmax(-1)
        if self.what == "random":
            return out + 0.01 * torch.randn_like(out)
        return self.drop(out)


def test_preflight_sees_range_logits_mode_and_randomness():
    x, y = task(20, 1)
    assert preflight(trained(), x, y, LINF) == []
    assert "outside" in preflight(trained(), 255 * x, y, Threat("Linf", 0.08, 3))[0]
    with pytest.raises(BadInput, match="logits"):
        preflight(Says("probabilities").eval(), x, y, LINF)
    assert any("random" in w for w in preflight(Says("random").eval(), x, y, LINF))
    assert any("training mode" in w for w in preflight(Says("drop").train(), x, y, LINF))
    assert preflight(Says("drop").eval(), x, y, LINF) == []


def test_the_ensemble_is_not_weaker_than_its_parts_and_counts_on_the_network_itself():
    net = trained()
    x, y = task(80, 2)
    whole = assess(net, x, y, LINF, ensemble(steps=15, queries=60), batch=33)
    assert whole.folded == 6
    assert whole.warnings == []
    for attack in ensemble(steps=15, queries=60):
        alone = assess(net, x, y, LINF, [attack], batch=33)
        assert whole.accuracy <= alone.accuracy + 1e-9
    wrong = ~whole.evaluation.robust
    assert not bool((margin(net(x + whole.evaluation.delta), y) > 0)[wrong].any())
    assert bool(LINF.contains(whole.evaluation.delta, x, slack=1e-5).all())
    assert whole.evaluation.by["square60"] == pytest.approx(whole.accuracy, abs=1e-9)


def test_the_soft_margin_has_cross_entropys_direction_and_does_not_saturate():
    outputs = 3 * torch.randn(50, 5, dtype=torch.float64, generator=stream(0, "f"))
    y = torch.randint(0, 5, (50,), generator=stream(0, "y"))
    leaf = outputs.clone().requires_grad_(True)
    torch.testing.assert_close(
        SOFT_MARGIN.grad(outputs, y), torch.autograd.grad(SOFT_MARGIN.value(leaf, y).sum(), leaf)[0]
    )
    scale = 1 - torch.softmax(outputs, -1).gather(-1, y[:, None])
    torch.testing.assert_close(SOFT_MARGIN.grad(outputs, y) * scale, CROSS_ENTROPY.grad(outputs, y))
    torch.testing.assert_close(
        torch.log1p(SOFT_MARGIN.value(outputs, y).exp()), CROSS_ENTROPY.value(outputs, y)
    )
    two = outputs[:, :2]
    torch.testing.assert_close(SOFT_MARGIN.value(two, y % 2), MARGIN.value(two, y % 2))
    sure = torch.tensor([[200.0, 0.0, -1.0]])
    label = torch.tensor([0])
    assert float(CROSS_ENTROPY.grad(sure, label).abs().max()) == 0
    assert float(SOFT_MARGIN.grad(sure, label)[0, 0]) == -1


def test_a_network_sure_of_itself_does_not_look_robust_to_the_default():
    """Logits times 1000: cross-entropy's gradient vanishes in single precision, the soft margin's does
    not."""

    class Sure(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return 1000 * trained()(x)

    x, y = task(60, 3)
    wide = LINF.with_radius(0.15)
    saturated = evaluate(Sure(), x, y, wide, [PGD("cross-entropy", 10)], stream(0, "a")).accuracy
    default = evaluate(Sure(), x, y, wide, [SINGLE], stream(0, "a")).accuracy
    assert default < 0.2
    assert default < saturated


def peer_delta(peer, net, x, y, eps, steps, random_start):
    """What a peer's PGD finds with a step of 2.5·eps/steps."""
    if peer == "torchattacks":
        torchattacks = pytest.importorskip("torchattacks")
        torch.manual_seed(0)
        return (
            torchattacks.PGD(net, eps=eps, alpha=2.5 * eps / steps, steps=steps, random_start=random_start)(
                x, y
            )
            - x
        )
    foolbox = pytest.importorskip("foolbox")
    torch.manual_seed(0)
    model = foolbox.PyTorchModel(net, bounds=(0, 1), device="cpu")
    attack = foolbox.attacks.LinfPGD(abs_stepsize=2.5 * eps / steps, steps=steps, random_start=random_start)
    _, clipped, _ = attack(model, x, y, epsilons=eps)
    return clipped - x


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("peer", ["torchattacks", "foolbox"])
@pytest.mark.parametrize("random_start", [True, False])
def test_pgd_is_at_least_as_strong_as_its_peers_at_equal_steps(peer, random_start):
    """What image evaluation uses, at their number of steps; and with their step size and start, keeping the
    best step can only help."""
    net = trained()
    x, y = task(300, 12)
    for eps in (0.04, 0.07, 0.1):
        theirs = peer_delta(peer, net, x, y, eps, 10, random_start)
        accuracy = float((margin(net(x + theirs.detach()), y) > 0).double().mean())
        attacks = [dataclasses.replace(SINGLE, steps=10), PGD("cross-entropy", 10, stop_early=True)]
        if not random_start:
            attacks.append(PGD("cross-entropy", 10, step_size=0.25 * eps, random_start=False))
        for attack in attacks:
            ours = evaluate(net, x, y, LINF.with_radius(eps), [attack], stream(0, "a")).accuracy
            assert ours <= accuracy + 1e-9


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("peer", ["torchattacks", "foolbox"])
def test_the_curve_and_the_ensemble_are_at_least_as_strong_as_peers_at_every_radius(peer):
    net = trained()
    x, y = task(150, 12)
    radii = [0.02 * k for k in range(1, 7)]
    deltas = [peer_delta(peer, net, x, y, eps, 10, True) for eps in radii]
    theirs = [float((margin(net(x + d.detach()), y) > 0).double().mean()) for d in deltas]
    ours = assess_curve(net, x, y, LINF, radii, [dataclasses.replace(SINGLE, steps=10)]).accuracy
    assert all(a <= b + 1e-9 for a, b in zip(ours, theirs, strict=True))
    whole = assess(net, x, y, LINF.with_radius(radii[2]), ensemble(steps=10, queries=20))
    assert whole.accuracy <= theirs[2] + 1e-9
