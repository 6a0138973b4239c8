"""The four mechanisms on networks whose answer is known: by hand, and from the papers' own laws."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import featscope as fs
from featscope.attacks.patch_training_attack import PatchTrainingAttack
from featscope.core.errors import BadInput
from featscope.core.stats import Interval
from featscope.dynamics.patch_descent import Weights, training_step
from featscope.dynamics.signal_descent import Kernel, Objective, recursion_step
from featscope.laws.signal import SignalLaw, stack
from featscope.nets.adapters import Called
from featscope.nets.cubic_cnn import CubicCNN
from featscope.nets.multiclass import MultiClassNet
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.nets.two_layer import TwoLayerNet
from featscope.papers.fa.clusters import ClusterSpec, TrainedPair, Training, train
from featscope.probe import averaging, data_limits, diagnosis, feature_use, finer, memorising
from featscope.probe.inputs import Grouped
from featscope.probe.keep import Keep
from featscope.probe.known import CommonGround
from featscope.probe.medians import median_interval, row_cosines
from featscope.probe.subject import Subject

LONG = 60.0


def subject_of(
    network: nn.Module, x: Tensor, y: Tensor, classes: int, eps: float = 0.1, **given: object
) -> Subject:
    names = tuple(map(str, range(classes)))
    kept = {"norm": "L2", "bounds": None, **given}
    return Subject(network.eval().requires_grad_(False), x, y, eps, names=names, **kept)  # type: ignore[arg-type]


# --- averaging


def class_points(means: Tensor, n: int = 20) -> tuple[Tensor, Tensor]:
    """Pairs μ_c ± ξ: the class means are exactly the means."""
    k, d = means.shape
    noise = 0.1 * torch.randn(k, n // 2, d, generator=fs.stream(0, "noise"))
    x = torch.cat([means[:, None] + noise, means[:, None] - noise], 1).flatten(0, 1)
    return x, torch.arange(k).repeat_interleave(n)


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    head = nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    return head


@pytest.mark.parametrize("k", [2, 5])
def test_a_nearest_mean_classifier_averages_with_cosine_one(k: int) -> None:
    means = 3 * torch.randn(k, 8, generator=fs.stream(1, "means"))
    x, y = class_points(means)
    net = linear(means, -means.square().sum(-1) / 2)
    found = averaging.measure(subject := subject_of(net, x, y, k), LONG, Keep(subject))
    assert found.answer == "averages"
    assert found.cosine.value == pytest.approx(1, abs=1e-4)
    assert found.detour.value == pytest.approx(1, abs=1e-3)
    assert found.alignment is not None
    assert found.alignment["own"] == pytest.approx([1.0] * k, abs=1e-5)


def test_other_weights_have_the_cosine_computed_by_hand() -> None:
    means = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    x, y = class_points(means)
    angle = math.radians(50)
    w = torch.tensor([math.cos(angle), math.sin(angle), 0.0])
    net = linear(torch.stack([w, -w]), torch.zeros(2))
    found = averaging.measure(subject := subject_of(net, x, y, 2), LONG, Keep(subject))
    assert found.cosine.value == pytest.approx(math.cos(angle), abs=1e-4)
    assert found.detour.value == pytest.approx(1 / math.cos(angle), rel=1e-3)
    assert found.alignment is not None
    assert found.alignment["own"] == pytest.approx([math.cos(angle)] * 2, abs=1e-5)
    assert found.answer == "does not", "cos² 50° is below a half"


@pytest.fixture(scope="module")
def pair() -> TrainedPair:
    law, training = fs.ClusterLaw(k=10, d=300), Training(n=200, learning_rate=1e-2, steps=100)
    return train(ClusterSpec(law=law, training=training), law, training, 0, None, 100)


def test_the_cluster_laws_two_class_net_averages_and_its_k_class_net_does_not(pair: TrainedPair) -> None:
    test = pair.test(40)
    more = pair.law.sample(2000, seed=3)
    coarse = subject_of(
        TwoLayerNet(pair.binary), test.x, (test.y > 0).long(), 2, train_x=more.x, train_y=(more.y > 0).long()
    )
    groups = (pair.law.signs() > 0).long()
    fine = subject_of(
        MultiClassNet(pair.fine), test.x, test.cluster, 10,
        groups=groups, train_x=more.x, train_y=more.cluster,
    )  # fmt: skip
    two, many = (averaging.measure(one, 5.0, Keep(one)) for one in (coarse, fine))
    assert (two.answer, many.answer) == ("averages", "does not")
    assert two.cosine.value > 0.95
    assert many.detour.value == pytest.approx(math.sqrt(10 / 2), rel=0.25), "√(k/2) of FA"
    assert many.coarse


def test_groups_take_the_largest_logit_of_each() -> None:
    net = linear(torch.eye(4), torch.zeros(4))
    grouped = Grouped(net, torch.tensor([0, 1, 0, 1]))
    assert grouped(torch.tensor([[1.0, 2.0, 3.0, -4.0]])).tolist() == [[3.0, 2.0]]


def test_a_step_along_a_direction_ends_at_the_boundary() -> None:
    net = linear(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.zeros(2))
    x, y = torch.tensor([[0.7, 5.0], [2.0, 0.0]]), torch.tensor([0, 0])
    threat = fs.Threat("L2", 1.0, event=1)
    back = torch.tensor([[-1.0, 0.0], [-0.6, 0.8]])
    assert averaging.radius_along(net, x, y, back, threat).tolist() == pytest.approx([0.7, 2 / 0.6], rel=1e-5)
    away = averaging.radius_along(net, x, y, -back, threat)
    assert not away.isfinite().any()


def test_finer_labels_move_the_decision_away_where_a_class_has_two_clusters() -> None:
    # Class 1 sits on both sides of class 0: pseudo-labels find its parts.
    centres = torch.tensor([[0.0, 0.0], [4.0, 0.0], [-4.0, 0.0]])
    x = (centres[:, None] + 0.2 * torch.randn(3, 60, 2, generator=fs.stream(3, "x"))).flatten(0, 1)
    y = torch.tensor([0, 1, 1]).repeat_interleave(60)
    features = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    with torch.no_grad():
        features[0].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]))
        features[0].bias.zero_()
    one = subject_of(features, x, y, 2)
    found = finer.finer_labels(one, LONG, Keep(one))
    assert found is not None
    assert found.source == "k-means inside each class"
    assert found.labels == 2 * finer.PARTS
    assert found.coarse == pytest.approx(2, rel=0.3)
    assert 0.5 < found.ratio.value < 2


def test_a_ridge_regression_is_at_its_minimum() -> None:
    x = torch.randn(60, 4, generator=fs.stream(4, "x"))
    labels = (x[:, 0] + 0.5 * x[:, 1] > 0).long()
    weight, bias = finer.fitted(x, labels, 2)
    w = (weight * x.std()).double().requires_grad_(True)
    b = bias.double().requires_grad_(True)
    loss = (
        nn.functional.cross_entropy((x / x.std()).double() @ w.T + b, labels) + finer.DECAY * w.square().sum()
    )
    slopes = torch.autograd.grad(loss, (w, b))
    assert max(float(slope.abs().max()) for slope in slopes) < 1e-4


# --- memorising


def test_a_gap_has_newcombes_interval() -> None:
    found = memorising.difference(Interval(0.9, 0.8, 0.95), Interval(0.5, 0.4, 0.6))
    assert found.value == pytest.approx(0.4)
    assert found.low == pytest.approx(0.4 - math.hypot(0.1, 0.1))
    assert found.high == pytest.approx(0.4 + math.hypot(0.05, 0.1))


def test_the_signal_net_memorises() -> None:
    # CGRO: after the third stage it is right at its own points and at fresh ones, but farther from being
    # fooled around its own.
    law, n = SignalLaw(d=256), 20
    start = 1 / math.sqrt(law.d)
    drawn = stack([law.instance(n, 10, start, fs.stream(0, "data"), fs.stream(0, "init"))])
    kernel = Kernel.of(drawn)
    state, step = kernel.start(n), recursion_step(kernel, Objective.of(law, n, 0.1, 0.9))
    for t in range(4000):
        state = step(state, t)
    net = CubicCNN(kernel.weights(drawn.w, state)[0])
    fresh = law.fresh(60, drawn.w, fs.stream(9, "fresh"))
    own = {"train_x": drawn.train.x[0], "train_y": (drawn.train.y[0] > 0).long()}
    one = subject_of(net, fresh.x, (fresh.y > 0).long(), 2, eps=law.radius, **own)
    found = memorising.measure(one, LONG, Keep(one))
    assert found.clean["train"].value == found.clean["test"].value == 1
    assert found.gap.value == 0, "over the whole ball it is robust nowhere"
    assert found.answer == "memorises"
    nearer = replace(one, eps=found.widest.radius)
    assert memorising.measure(nearer, LONG, Keep(nearer)).gap.low > memorising.GAP
    same = replace(one, train_x=fresh.x, train_y=one.y)
    assert memorising.measure(same, LONG, Keep(same)).answer == "does not"


def test_training_examples_are_asked_for() -> None:
    one = subject_of(linear(torch.eye(2), torch.zeros(2)), torch.randn(9, 2), torch.zeros(9).long(), 2)
    with pytest.raises(BadInput, match="training"):
        memorising.measure(one, LONG, Keep(one))


# --- the data's limits


def test_separation_and_the_matching_bound_by_hand() -> None:
    x = torch.tensor([[0.0], [1.0], [10.0], [30.0]])
    y = torch.tensor([0, 1, 0, 1])
    net = linear(torch.tensor([[1.0], [-1.0]]), torch.zeros(2))
    near = subject_of(net, x, y, 2, eps=0.5, norm="Linf", train_x=x + 0.25, train_y=y)
    found = data_limits.measure(near, LONG, Keep(near))
    assert found.apart["test–test"].distance == 1
    assert found.apart["test–train"].distance == 0.75
    assert found.apart["test–test"].meeting == 2 / 8
    assert found.bound == 1 - 1 / 4, "of 0 and 1 one at most is right over its ball"
    assert (found.parameters, found.points, found.dimension) == (4, 4, 1)
    far = subject_of(net, x, y, 2, eps=0.3, norm="Linf")
    free = data_limits.measure(far, LONG, Keep(far))
    assert (free.bound, free.ratio) == (1, pytest.approx(1 / 0.6))


# --- features


def patch_net(attack: PatchTrainingAttack | None, law: fs.PatchLaw, steps: int) -> nn.Module:
    batch, net = law.sample(60, seed=0), PatchNetSpec(width=10)
    state = Weights(net.init(law.k, law.d, fs.stream(0, "init")))
    step = training_step(net, batch.x, batch.y, 1.0, attack.perturb if attack else None)
    for t in range(steps):
        state = step(state, t)
    return net.net(state.w).module()


def test_patch_nets_read_non_robust_and_robust_features() -> None:
    # Inversions move every coordinate alike (Adam), so features along the axes would all be moved: the same
    # networks and points are looked at in a random frame.
    law = fs.PatchLaw(k=2, d=60)
    frame = torch.linalg.qr(torch.randn(60, 60, generator=fs.stream(1, "frame"), dtype=torch.float64)).Q
    robust, standard = (
        Called(lambda x, net=net: net(x @ frame.T))  # type: ignore[misc]
        for net in (patch_net(PatchTrainingAttack(eps=1.2), law, 1200), patch_net(None, law, 300))
    )
    test = law.sample(60, seed=5)
    found = {}
    for name, net in (("standard", standard), ("adversarial", robust)):
        one = subject_of(net, test.x @ frame, test.y, 2, eps=0.05, reference=robust)
        found[name] = feature_use.measure(one, LONG, Keep(one))
        assert found[name].own.value > 0.9
    assert found["adversarial"].answer == "robust"
    assert found["standard"].answer == "non-robust"


# --- medians and the diagnosis


def test_a_medians_interval_holds_it_in_95_of_100() -> None:
    draws = torch.randn(400, 31, generator=fs.stream(0, "draws"), dtype=torch.float64)
    held = [found.low <= 0 <= found.high for found in map(median_interval, draws)]
    assert 0.93 <= sum(held) / len(held) <= 0.99
    few = median_interval(torch.tensor([1.0, 2.0, 3.0]))
    assert (few.value, few.low, few.high) == (2.0, -math.inf, math.inf)


def test_cosines_of_nothing_are_zero() -> None:
    assert row_cosines(
        torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[3.0, 0.0], [1.0, 0.0]])
    ).tolist() == [
        pytest.approx(0.6),
        0.0,
    ]


def test_the_diagnosis_says_what_it_cannot_tell() -> None:
    entries = {
        "averaging": {
            "answer": "averages",
            "sentence": "s",
            "cosine": {"value": 0.9, "low": 0.8, "high": 0.95},
        },
        "data_limits": {"bound": 0.9, "ratio": 0.5, "sentence": "s"},
        "memorising": {"skipped": "no training examples"},
    }
    found = {
        one["paper"]: one
        for one in diagnosis.diagnose(entries, CommonGround(None, "Linf", 0.1))["mechanisms"]
    }
    assert [found[paper]["answer"] for paper in ("EP", "AT", "FA", "CGRO")] == [
        "yes", "cannot tell", "averages", "cannot tell",
    ]  # fmt: skip
    assert (found["FA"]["value"], found["FA"]["low"]) == (0.9, 0.8)
    assert "no training examples" in found["CGRO"]["sentence"]
    assert diagnosis.limited({"bound": 1.0, "ratio": 0.5}) == "cannot tell"
    assert diagnosis.limited({"bound": 1.0, "ratio": 2.0}) == "no"
