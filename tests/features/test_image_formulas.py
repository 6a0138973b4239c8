"""Image training and inversion by a second route: torch's optimisers step for step, the objectives written
out, and no seed drawn from twice."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from image_task import task
from scipy import stats as sps
from torch import Tensor, nn
from torch.nn import functional

from featscope.attacks.threat import Threat
from featscope.core import streams
from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.dynamics.augment import Augment
from featscope.dynamics.image_training import (
    AttackSpec,
    Trained,
    Trainer,
    TrainingSpec,
    accuracy,
    pack,
    robust_accuracy,
    split,
    unpack,
)
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.features import landscape as features_landscape
from featscope.features.accuracy import feature_accuracy
from featscope.features.invert import (
    InversionSpec,
    Inverted,
    invert,
    network_hash,
    relative_error,
    starting_images,
)
from featscope.features.landscape import ROUNDING, Landscape, landscape, largest_change, loss_and_norm
from featscope.images.datasets import ImageBatch
from featscope.images.groupings import draw_subset, grouping, halves, parity

F64 = torch.float64


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=stream(seed, "normal"), dtype=F64)


def small_net(outputs: int = 4, inputs: int = 144, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Flatten, hidden layer, logits: no statistics, so that any two routes see the same function."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 6), nn.Tanh(), nn.Linear(6, outputs)).to(dtype)
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(0.2 * normal(*p.shape, seed=i))
    return net


class Plane(nn.Module):
    """Two classes with logits ±⟨w, x⟩/2: the margin of class 0 is ⟨w, x⟩."""

    def __init__(self, w: Tensor) -> None:
        super().__init__()
        self.w = nn.Parameter(w.flatten())

    def forward(self, x: Tensor) -> Tensor:
        half = x.flatten(1) @ self.w / 2
        return torch.stack([half, -half], -1)


# ---------------------------------------------------------------- inversion


def test_inversion_is_torchs_adam_step_for_step() -> None:
    """The same images as torch.optim.Adam with the learning rate falling linearly to 0 and a clamp after each
    step."""
    net, steps, size = small_net(dtype=F64), 15, 0.07
    x = torch.rand(5, 1, 12, 12, generator=stream(0, "x"), dtype=F64)
    spec = InversionSpec(layer="2", steps=steps, step_size=size, batch=2)
    target = net[:3](x).detach()
    leaf = nn.Parameter(starting_images(spec, x, 4))
    optimiser = torch.optim.Adam([leaf], lr=size)
    trace = []
    for t in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = size * (1 - t / steps)
        optimiser.zero_grad()
        gap = (net[:3](leaf) - target).norm(dim=-1) / target.norm(dim=-1)
        gap.sum().backward()
        optimiser.step()
        with torch.no_grad():
            leaf.clamp_(0, 1)
        trace.append(leaf.detach().clone())
    found = invert(net, x, torch.zeros(5), spec, 4)
    torch.testing.assert_close(found.x, trace[-1], rtol=0, atol=1e-7)
    torch.testing.assert_close(
        found.error, ((net[:3](found.x) - target).norm(dim=-1) / target.norm(dim=-1)).detach()
    )
    # The steps matter: one step fewer is another set of images.
    assert float((trace[-1] - trace[-2]).abs().max()) > 1e-4
    one = invert(net, x, torch.zeros(5), spec.replace(steps=1), 4)
    start = starting_images(spec, x, 4)
    torch.testing.assert_close((one.x - start).abs().amax(), torch.tensor(size, dtype=F64), rtol=1e-4, atol=0)


def test_an_image_rests_at_the_tolerance_and_moves_above_it() -> None:
    net, spec = small_net(dtype=F64), InversionSpec(layer="2", steps=1)
    x = torch.rand(2, 1, 12, 12, generator=stream(0, "x"), dtype=F64)
    start, target = starting_images(spec, x, 0), net[:3](x).detach()
    error = relative_error(net[:3](start).detach(), target)
    between = invert(net, x, torch.zeros(2), spec.replace(tolerance=float(error.mean())))
    still = [torch.equal(a, b) for a, b in zip(between.x, start, strict=True)]
    assert still == (error <= error.mean()).tolist()
    assert sorted(still) == [False, True]


def test_inversions_start_where_they_say() -> None:
    x = torch.rand(40, 1, 5, 5, generator=stream(0, "x")).double()
    noise = starting_images(InversionSpec(start="noise"), x, 0)
    assert sps.kstest(noise.flatten().numpy(), "uniform").pvalue > 1e-3
    grey, black = (starting_images(InversionSpec(start=s), x, 0) for s in ("grey", "black"))  # type: ignore[arg-type]
    assert sps.kstest(grey.flatten().numpy(), sps.uniform(0.45, 0.1).cdf).pvalue > 1e-3
    assert float(black.min()) == 0.0
    assert 0.04 < float(black.max()) <= 0.05
    assert float((black == 0).double().mean()) == pytest.approx(0.5, abs=0.1)
    other = starting_images(InversionSpec(start="image"), x, 0)
    which = [next(j for j in range(40) if torch.equal(x[j], image)) for image in other]
    assert all(i != j for i, j in enumerate(which))
    assert len(set(which)) > 10
    pair = starting_images(InversionSpec(start="image"), x[:2], 0)
    assert torch.equal(pair, x[:2].flip(0))
    assert not torch.equal(noise, starting_images(InversionSpec(start="noise"), x, 1))


def test_a_networks_hash_knows_every_value() -> None:
    net = small_net()
    before = network_hash(net)
    with torch.no_grad():
        net[3].bias[0] += 1e-3
    assert network_hash(net) != before
    same = [torch.nn.ParameterDict({name: torch.ones(2)}) for name in ("a", "b")]
    assert network_hash(same[0]) != network_hash(same[1])
    assert network_hash(same[0]) == network_hash(torch.nn.ParameterDict({"a": torch.ones(2)}))


# ---------------------------------------------------------------- seeds


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Every (seed, names) of which a generator is made."""
    names: list[tuple[object, ...]] = []
    real = streams.derive

    def derive(seed: int, *path: str | int) -> int:
        names.append((seed, *path))
        return real(seed, *path)

    monkeypatch.setattr(streams, "derive", derive)
    return names


@pytest.mark.parametrize("method", ["standard", "adversarial", "mixed", "trades"])
def test_no_two_draws_of_a_training_share_a_seed(method: str, drawn: list[tuple[object, ...]]) -> None:
    attack, seed = AttackSpec(eps=0.05, steps=1), 11
    spec = TrainingSpec(
        method=method,
        epochs=3,
        batch_size=16,
        attack=attack,
        augment=Augment(shift=1),
        select="robust",
        select_steps=1,
    )
    data, net = ImageBatch(*task(60)), small_net()
    drawn.clear()
    Trainer(net, data, spec, seed, test=data, robust_test=4).run()
    # Observations repeat their starts on purpose, so that rows differ by the network alone, and the sample
    # that
    # tries the fast copy has the starts of its network; they are no draws of the training.
    training = [name for name in drawn if name[1] not in ("observe", "sample")]
    # The held-out images, an order and a score for each epoch, an augmentation and an attack for each of its
    # 4 batches.
    assert Counter(name[1] for name in training) == {
        "held-out": 1,
        "order": 3,
        "select": 3,
        "augment": 12,
        "attack": 12,
    }
    assert max(Counter(training).values()) == 1
    watched = {name for name in drawn if name[1] == "observe"}
    assert watched == {(seed, "observe", "train"), (seed, "observe", "test")}
    everything = {*training, *watched}
    assert len({stream(*name).initial_seed() for name in everything}) == len(everything)  # type: ignore[arg-type]
    assert {name[0] for name in everything} == {seed}


def test_every_batch_gets_its_own_generator() -> None:
    """The first numbers of the generators that the objective receives are all different, over batches and
    epochs."""
    spec = TrainingSpec(method="adversarial", epochs=2, batch_size=10, attack=AttackSpec(eps=0.05, steps=1))
    trainer = Trainer(small_net(), ImageBatch(*task(60)), spec, 0)
    first, real = [], trainer.loss

    def loss(net: nn.Module, x: Tensor, y: Tensor, epoch: float, rng: torch.Generator) -> Tensor:
        first.append(float(torch.rand((), generator=rng)))
        return real(net, x, y, epoch, rng)

    trainer.loss = loss  # type: ignore[method-assign]
    trainer.run()
    assert len(set(first)) == len(first) == 12
    again = Trainer(small_net(), ImageBatch(*task(60)), spec, 1)
    repeated: list[float] = []
    again.loss = lambda net, x, y, epoch, rng: (
        repeated.append(float(torch.rand((), generator=rng))),
        net(x).sum() * 0,
    )[1]  # type: ignore
    again.run()
    assert not set(repeated) & set(first)


# ---------------------------------------------------------------- schedules and augmentation


def test_schedules_at_and_beyond_their_corners() -> None:
    cyclical = Schedule(shape="cyclical", peak=3.0, rise=0.25)
    assert [cyclical(d) for d in (-1.0, 0.125, 0.25, 0.625, 1.0, 2.0)] == pytest.approx(
        [0, 1.5, 3, 1.5, 0, 0]
    )
    cosine = Schedule(shape="cosine", peak=3.0)
    assert [cosine(d) for d in (0.25, 0.75, 5.0)] == pytest.approx(
        [1.5 * (1 + 0.5**0.5), 1.5 * (1 - 0.5**0.5), 0]
    )
    steps = Schedule(shape="piecewise", peak=2.0, drops=(0.3, 0.6), factor=0.5)
    assert [steps(d) for d in (0.29, 0.3, 0.59, 0.6, 1.0)] == pytest.approx([2, 1, 1, 0.5, 0.5])
    assert [Ramp(epochs=4)(0.8, e) for e in (0.0, 0.5, 1.0, 4.0, 9.0)] == pytest.approx(
        [0, 0.1, 0.2, 0.8, 0.8]
    )


def test_augmentation_is_uniform_over_shifts_and_mirrors_half() -> None:
    """One bright pixel tells where each image went; rows and columns are drawn apart."""
    n, s = 9000, 1
    x = torch.zeros(n, 1, 5, 5)
    x[:, :, 2, 1] = 1.0
    moved = Augment(shift=s)(x, stream(0, "augment"))
    place = moved.flatten(1).argmax(-1)
    cells = torch.stack([place // 5 - 2, place % 5 - 1], -1)
    assert int(cells.abs().max()) == 1
    counts = torch.bincount((cells[:, 0] + 1) * 3 + cells[:, 1] + 1, minlength=9)
    assert sps.chisquare(counts.numpy()).pvalue > 1e-3
    mirrored = Augment(mirror=True)(x, stream(0, "augment"))[:, 0, 2, 3]
    assert float(mirrored.mean()) == pytest.approx(0.5, abs=0.02)
    corner = torch.ones(200, 1, 3, 3)
    assert set(Augment(shift=1)(corner, stream(0, "a")).sum((1, 2, 3)).tolist()) == {4.0, 6.0, 9.0}
    deep = torch.rand(4, 3, 5, 5, generator=stream(0, "deep"))
    both = Augment(shift=1, mirror=True)(deep, stream(0, "a"))
    assert both.shape == deep.shape


# ---------------------------------------------------------------- the training attack


@pytest.mark.parametrize("objective", ["cross-entropy", "margin"])
@pytest.mark.parametrize("norm", ["Linf", "L2"])
@pytest.mark.parametrize(
    ("start", "step_size", "ramp"),
    [(False, None, 0.0), (True, 0.02, 0.0), (True, 0.02, 4.0), (False, None, 4.0)],
)
def test_the_training_attack_is_ascent_written_out(
    objective: str, norm: str, start: bool, step_size: float | None, ramp: float
) -> None:
    net, eps, steps = small_net(dtype=F64), 0.05, 3
    x, y = (
        0.3 + 0.4 * torch.rand(6, 1, 12, 12, generator=stream(0, "x"), dtype=F64),
        torch.tensor([0, 1, 2, 3, 0, 1]),
    )
    attack = AttackSpec(
        norm=norm,
        eps=eps,
        steps=steps,
        step_size=step_size,
        random_start=start,
        objective=objective,
        ramp=Ramp(epochs=ramp),
    )
    here = eps * (0.25 if ramp else 1.0)
    size = (2.5 * here / steps) if step_size is None else step_size * here / eps
    delta = Threat(norm, here, 3).sample(x, stream(0, "a")) if start else torch.zeros_like(x)
    for _ in range(steps):
        leaf = (x + delta).requires_grad_(True)
        outputs = net(leaf)
        rest = outputs.masked_fill(functional.one_hot(y, 4).bool(), -math.inf).amax(-1)
        value = (
            functional.cross_entropy(outputs, y)
            if objective == "cross-entropy"
            else (rest - outputs[range(6), y]).mean()
        )
        (g,) = torch.autograd.grad(value, leaf)
        if norm == "Linf":
            delta = (delta + size * g.sign()).clamp(-here, here)
        else:
            delta = delta + size * g / g.flatten(1).norm(dim=-1).view(-1, 1, 1, 1)
            delta = delta * (here / delta.flatten(1).norm(dim=-1)).clamp(max=1.0).view(-1, 1, 1, 1)
    torch.testing.assert_close(attack.perturb(net, x, y, 1.0, stream(0, "a")), delta, rtol=0, atol=1e-9)
    assert not attack.replace(ramp=Ramp(epochs=2)).perturb(net, x, y, 0.0, stream(0, "a")).any()


def test_objectives_written_out() -> None:
    net, data = small_net(), ImageBatch(*task(40))
    x, y = task(12, 3)
    attack = AttackSpec(eps=0.05, steps=2)

    def value(**changes: object) -> Tensor:
        spec = TrainingSpec(attack=attack, batch_size=8, **changes)  # type: ignore[arg-type]
        return Trainer(net, data, spec, 0).loss(net, x, y, 0.0, stream(0, "a")).detach()

    moved = x + attack.perturb(net, x, y, 0.0, stream(0, "a"))
    clean, hit = (float(functional.cross_entropy(net(at), y).detach()) for at in (x, moved))
    assert hit > clean + 1e-3
    assert float(value(method="standard")) == pytest.approx(clean, rel=1e-5)
    assert float(value(method="adversarial")) == pytest.approx(hit, rel=1e-5)
    assert float(value(method="mixed", lam=0.25)) == pytest.approx(0.75 * clean + 0.25 * hit, rel=1e-5)


@pytest.mark.parametrize(("step_size", "ramp"), [(None, 0.0), (0.01, 0.0), (0.01, 2.0), (None, 2.0)])
def test_trades_written_out(step_size: float | None, ramp: float) -> None:
    """CE(clean) + β·mean Σ_c p log(p/p̃), where the perturbation climbs that divergence from a small random
    start."""
    net, eps, steps = small_net(dtype=torch.float64), 0.05, 3
    (x, y), data = task(12, 3), ImageBatch(*task(40))
    x = x.double()  # near the start the divergence's gradient is tiny: float32 would draw its signs
    attack = AttackSpec(eps=eps, steps=steps, step_size=step_size, ramp=Ramp(epochs=ramp))
    here = eps * (0.5 if ramp else 1.0)
    threat = Threat("Linf", here, 3, bounds=(0.0, 1.0))
    size = 2.5 * here / steps if step_size is None else step_size * here / eps

    def divergence(at: Tensor) -> Tensor:
        p, moved = net(x).softmax(-1), net(at).softmax(-1)
        return (p * (p.log() - moved.log())).sum(-1)

    delta = threat.project(1e-3 * torch.randn(x.shape, generator=stream(0, "a")).to(x), x)
    for _ in range(steps):
        leaf = (x + delta).requires_grad_(True)
        (g,) = torch.autograd.grad(divergence(leaf).sum(), leaf)
        delta = threat.project(delta + size * g.sign(), x)
    spec = TrainingSpec(method="trades", beta=3.0, attack=attack, batch_size=8)
    found = Trainer(net, data, spec, 0).loss(net, x, y, 1.0, stream(0, "a"))
    expected = functional.cross_entropy(net(x), y) + 3.0 * divergence(x + delta).mean()
    assert float(divergence(x + delta).mean().detach()) > 1e-4
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(
        pack(iter(torch.autograd.grad(found, list(net.parameters())))),
        pack(iter(torch.autograd.grad(expected, list(net.parameters())))),
        rtol=1e-9,
        atol=1e-12,
    )


# ---------------------------------------------------------------- epochs


@pytest.mark.parametrize("momentum", [0.0, 0.8])
@pytest.mark.parametrize("shape", ["cyclical", "cosine", "piecewise"])
def test_epochs_are_torchs_sgd_with_the_rate_at_the_middle_of_each_batch(momentum: float, shape: str) -> None:
    """Batches of 16 of 49 images: three full ones, and the last image is left out."""
    schedule = Schedule(shape=shape, peak=0.3, rise=0.3, drops=(0.4, 0.7))
    spec = TrainingSpec(
        epochs=2,
        batch_size=16,
        schedule=schedule,
        momentum=momentum,
        weight_decay=0.01,
        augment=Augment(shift=1),
    )
    trainer = Trainer(small_net(), ImageBatch(*task(54)), spec, 5)
    assert len(trainer.train.y) == 49
    state, other = trainer.start(), small_net()
    optimiser = torch.optim.SGD(other.parameters(), 1.0, momentum, weight_decay=0.01)
    for t in range(2):
        losses = []
        order = torch.randperm(49, generator=stream(5, "order", t))
        for i in range(3):
            chosen = order[16 * i : 16 * i + 16]
            done = (t + (i + 0.5) / 3) / 2
            optimiser.param_groups[0]["lr"] = schedule(done)
            optimiser.zero_grad()
            loss = functional.cross_entropy(
                other(Augment(shift=1)(trainer.train.x[chosen], stream(5, "augment", t, i))),
                trainer.train.y[chosen],
            )
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
        state = trainer.step(state, t)
        torch.testing.assert_close(state.weights, pack(other.parameters()), rtol=1e-5, atol=1e-6)
        assert float(state.epoch_loss) == pytest.approx(sum(losses) / 3, rel=1e-5)
    if momentum:
        memory = pack(optimiser.state[p]["momentum_buffer"] for p in other.parameters())
        torch.testing.assert_close(state.momentum, memory, rtol=1e-4, atol=1e-6)
    else:
        assert not state.momentum.any()


def test_the_epochs_loss_weighs_batches_by_their_images_and_the_ramp_sees_fractions() -> None:
    spec = TrainingSpec(
        epochs=2, batch_size=16, held_out=0.2, schedule=Schedule(shape="constant", peak=1e-9), momentum=0.0
    )
    trainer = Trainer(small_net(), ImageBatch(*task(50)), spec, 5)
    epochs, real = [], trainer.loss

    def loss(net: nn.Module, x: Tensor, y: Tensor, epoch: float, rng: torch.Generator) -> Tensor:
        epochs.append(epoch)
        return real(net, x, y, epoch, rng)

    trainer.loss = loss  # type: ignore[method-assign]
    state = trainer.step(trainer.start(), 1)
    whole = functional.cross_entropy(trainer.net(trainer.train.x), trainer.train.y)
    assert len(trainer.train.y) == 40  # batches of 16, 16 and 8
    assert float(state.epoch_loss) == pytest.approx(float(whole.detach()), rel=1e-5)
    assert epochs == pytest.approx([1, 1 + 1 / 3, 1 + 2 / 3])


def test_the_first_of_equal_epochs_is_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(small_net(), ImageBatch(*task(40)), TrainingSpec(epochs=3, batch_size=8), 0)
    monkeypatch.setattr(trainer, "_score", lambda t: [0.5, 0.5, 0.4][t])
    states = [trainer.start()]
    for t in range(3):
        states.append(trainer.step(states[-1], t))
    assert torch.equal(states[3].best_weights, states[1].weights)
    assert float(states[3].best) == 0.5
    assert trainer.observe(states[3], 3)["held_out"] == 0.5


def test_who_watches_sees_the_state_of_every_recorded_epoch() -> None:
    trainer = Trainer(small_net(), ImageBatch(*task(24)), TrainingSpec(epochs=2, batch_size=8), 0)
    first, states = trainer.start().weights.clone(), {}
    done = trainer.run(seen=lambda state, t: states.update({t: state.weights.clone()}))
    assert [row["step"] for row in done.rows] == list(states) == [0, 1, 2]
    assert torch.equal(states[0], first)
    assert torch.equal(states[2], done.state.weights)


def test_robust_selection_scores_the_held_out_images_under_the_full_threat() -> None:
    w = normal(144).float()
    w = w - w.mean()
    data = ImageBatch(
        0.3 + 0.4 * torch.rand(60, 1, 12, 12, generator=stream(0, "x")), torch.zeros(60, dtype=torch.long)
    )
    attack = AttackSpec(eps=0.005, steps=2, ramp=Ramp(epochs=5))
    spec = TrainingSpec(
        epochs=1, batch_size=8, held_out=0.5, select="robust", attack=attack, schedule=Schedule(peak=1e-12)
    )
    trainer = Trainer(Plane(w), data, spec, 0)
    state = trainer.step(trainer.start(), 0)
    margins = trainer.held.x.flatten(1) @ w
    share = float((margins > 0.005 * w.abs().sum()).double().mean())
    assert 0.1 < share < float((margins > 0).double().mean())
    assert float(state.best) == pytest.approx(share)
    plain = Trainer(Plane(w), data, spec.replace(select="clean"), 0)
    assert float(plain.step(plain.start(), 0).best) == pytest.approx(float((margins > 0).double().mean()))


def test_accuracies_count_images_and_ties_are_wrong() -> None:
    w = normal(8).float()
    x = torch.randn(11, 1, 2, 4, generator=stream(0, "x"))
    x[3] = 0.0
    y = torch.tensor([0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1])
    margins = (x.flatten(1) @ w) * (1 - 2 * y)
    share = float((margins > 0).double().mean())
    net = Plane(w)
    assert accuracy(net, ImageBatch(x, y), batch=4) == pytest.approx(share)
    found = feature_accuracy(net, Inverted(x, y, torch.zeros(11), {}), batch=4)
    assert found.value == pytest.approx(share)
    low, high = sps.binomtest(round(share * 11), 11).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((low, high))
    threat = Threat("Linf", 0.3, 3)
    robust = float((margins > 0.3 * w.abs().sum()).double().mean())
    assert 0 < robust < share
    assert robust_accuracy(net, ImageBatch(x, y), threat, 3, stream(0, "a"), batch=4) == pytest.approx(robust)


def test_images_at_even_distances() -> None:
    data = ImageBatch(torch.arange(10.0).view(10, 1, 1, 1), torch.arange(10))
    assert Trainer.some(data, 4).y.tolist() == [1, 3, 6, 8]
    assert Trainer.some(data, 1).y.tolist() == [5]
    assert Trainer.some(data, 10).y.tolist() == list(range(10))
    assert Trainer.some(data, 99).x.flatten().tolist() == list(range(10))


def test_rows_hold_the_accuracies_of_their_sets() -> None:
    spec = TrainingSpec(epochs=1, batch_size=8, attack=AttackSpec(eps=0.01, steps=1), select_steps=2)
    data, test = ImageBatch(*task(60)), ImageBatch(*task(7, 9))
    trainer = Trainer(
        small_net(),
        data,
        spec,
        2,
        test=test,
        robust_test=5,
        watch=lambda net, train: {"seen": float(len(train.y))},
    )
    state = trainer.step(trainer.start(), 0)
    row, net = trainer.observe(state, 1), trainer.net
    assert row["clean_test"] == accuracy(net, test)
    assert row["clean_train"] == accuracy(net, Trainer.some(trainer.train, 7))
    assert row["clean_held_out"] == accuracy(net, trainer.held) == row["held_out"]
    assert row["seen"] == 54
    for name, images in (("train", trainer.train), ("test", test)):
        few = Trainer.some(images, 5)
        assert row[f"robust_{name}"] == robust_accuracy(
            net, few, spec.attack.threat(), 2, stream(2, "observe", name)
        )
    assert row["loss"] == float(state.epoch_loss)


def test_states_are_packed_in_order_and_must_fit() -> None:
    parts = [torch.arange(4.0).view(2, 2), torch.tensor([7.0])]
    flat = pack(iter(parts))
    assert flat.tolist() == [0, 1, 2, 3, 7]
    room = [torch.zeros(2, 2), torch.zeros(1)]
    unpack(flat, iter(room))
    assert torch.equal(room[0], parts[0])
    assert torch.equal(room[1], parts[1])
    with pytest.raises(BadInput, match="fit"):
        unpack(torch.zeros(6), iter(room))
    assert isinstance(
        Trainer(small_net(), ImageBatch(*task(20)), TrainingSpec(batch_size=4), 0).start(), Trained
    )


@pytest.mark.parametrize(
    ("n", "share", "held"), [(5, 0.5, 2), (7, 0.5, 4), (5, 0.05, 1), (9, 0.34, 3), (3, 0.7, 2)]
)
def test_odd_sizes_are_split_without_loss(n: int, share: float, held: int) -> None:
    kept, away = split(torch.zeros(n), share, 4)
    assert len(away) == held
    assert sorted([*kept.tolist(), *away.tolist()]) == list(range(n))
    assert kept.tolist() == sorted(kept.tolist())


def test_the_held_out_images_depend_on_the_seed() -> None:
    assert len({tuple(split(torch.zeros(30), 0.3, seed)[1].tolist()) for seed in range(5)}) == 5


# ---------------------------------------------------------------- groupings


@pytest.mark.parametrize(
    ("classes", "first", "second"),
    [(2, (0,), (1,)), (3, (0, 1), (2,)), (5, (0, 1, 2), (3, 4)), (10, (0, 1, 2, 3, 4), (5, 6, 7, 8, 9))],
)
def test_halves_of_an_odd_number_give_the_first_one_more(
    classes: int, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    assert halves(classes).parts == grouping("halves", classes).parts == (first, second)
    assert halves(classes).fine(1) == second


def test_parity_and_single_classes_of_an_odd_number() -> None:
    assert parity(5).parts == grouping("parity", 5).parts == ((0, 2, 4), (1, 3))
    assert grouping("each", 3).parts == ((0,), (1,), (2,))
    assert grouping("2|0", 3)(torch.tensor([0, 1, 2, 2])).tolist() == [1, -1, 0, 0]
    for make in (halves, parity):
        with pytest.raises(BadInput):
            make(1)
    with pytest.raises(BadInput):
        grouping("0|3", 3)
    with pytest.raises(BadInput, match="from 0"):
        grouping("0|-1", 3)


def test_balanced_subsets_take_what_a_small_class_has() -> None:
    y = torch.tensor([0] * 2 + [1] * 9 + [2] * 9)
    for n, counts in ((6, [2, 2, 2]), (7, [2]), (12, [2, 5, 5]), (20, [2, 9, 9])):
        found = torch.bincount(y[draw_subset(y, n, 0, "x")], minlength=3).tolist()
        assert found[: len(counts)] == counts
        assert sum(found) == n
    assert not torch.equal(draw_subset(y, 6, 0, "x"), draw_subset(y, 6, 1, "x"))
    assert not torch.equal(draw_subset(y, 9, 0, "x"), draw_subset(y, 9, 0, "other"))
    plain = [
        torch.bincount(y[draw_subset(y, 6, seed, "x", balanced=False)], minlength=3).tolist()
        for seed in range(20)
    ]
    assert any(row != [2, 2, 2] for row in plain)


# ---------------------------------------------------------------- landscape


class Bowl(nn.Module):
    """Two classes; the margin of class 0 is a·x₁ − b·x₂²/2, so that the gradient of the margin is (a,
    −b·x₂)."""

    def forward(self, x: Tensor) -> Tensor:
        one, two = x.flatten(1).unbind(-1)
        half = (2.0 * one - 1.5 * two * two) / 2
        return torch.stack([half, -half], -1)


@pytest.mark.parametrize("norm", ["Linf", "L2"])
def test_a_curved_landscape_against_a_dense_grid(norm: str) -> None:
    """The largest change and the largest gradient norm over the ball, by trying 90 000 points; found values
    reach them and never exceed."""
    threat, radii = Threat(norm, 1.0, 3), (0.0, 0.2, 0.5)
    x = torch.tensor([[0.3, 0.1], [-0.2, -0.4], [0.6, 0.3]], dtype=F64).view(3, 1, 1, 2)
    y = torch.tensor([0, 1, 0])
    found = landscape(Bowl(), x, y, threat, radii, 40, stream(0, "a"), batch=2)
    line = torch.linspace(-1, 1, 301, dtype=F64)
    grid = torch.cartesian_prod(line, line)
    size = grid.abs().amax(-1) if norm == "Linf" else grid.norm(dim=-1)
    ball = grid[size <= 1]
    clean = functional.cross_entropy(Bowl()(x), y, reduction="none")
    for r, radius in enumerate(radii):
        for i in range(3):
            points = (x[i].flatten() + radius * ball).requires_grad_(True)
            losses = functional.cross_entropy(
                Bowl()(points.view(-1, 1, 1, 2)), y[i].expand(len(points)), reduction="none"
            )
            (g,) = torch.autograd.grad(losses.sum(), points)
            steep = float((g.abs().sum(-1) if norm == "Linf" else g.norm(dim=-1)).max())
            assert float(found.change[r, i]) == pytest.approx(
                float(losses.detach().max() - clean[i]), abs=2e-3
            )
            assert float(found.gradient[r, i]) == pytest.approx(steep, rel=0.01)
    value, slope = loss_and_norm(Bowl(), x, y, threat)
    torch.testing.assert_close(found.loss, value)
    torch.testing.assert_close(found.slope, slope)
    change, where = largest_change(Bowl(), x, y, threat, radii, 40, stream(0, "a"))
    reach = functional.cross_entropy(Bowl()(x + where[2]), y, reduction="none") - clean
    torch.testing.assert_close(reach, change[2])


def test_losses_known_to_rounding_do_not_break_the_mean_value_bound() -> None:
    one = torch.ones(1)
    found = Landscape(
        one,
        one,
        torch.tensor([[0.0], [0.6]]),
        torch.tensor([[2.0], [3.0]]),
        torch.zeros(2, 1, dtype=torch.bool),
    )
    assert found.mean_value((0.0, 0.1)).flatten().tolist() == pytest.approx([0.0, 0.6 / (0.3 + ROUNDING)])
    with pytest.raises(BadInput, match="ascending"):
        landscape(Bowl(), torch.zeros(1, 1, 1, 2), torch.tensor([0]), Threat("L2", 1.0, 3), (), 1, stream(0))


class Cliff(nn.Module):
    """Two classes; the margin of class 0 falls by 5 between x₁ = 1.4 and 1.5 and is flat elsewhere."""

    def forward(self, x: Tensor) -> Tensor:
        one = x.flatten(1)[:, 0]
        half = -25.0 * ((one - 1.4).clamp(min=0) - (one - 1.5).clamp(min=0))
        return torch.stack([half, -half], -1)


def test_a_cliff_on_the_way_is_found_by_halving() -> None:
    """Both ends are flat; halves of the segment to (2, ½) meet the cliff at t = .71875."""
    x, y = torch.zeros(1, 1, 1, 2, dtype=F64), torch.tensor([0])
    delta = torch.tensor([2.0, 0.5], dtype=F64).view_as(x)
    nothing = torch.zeros(1, dtype=F64)
    threat, rise = Threat("L2", 3.0, 3), torch.full((1,), 4.0, dtype=F64)
    top, best = features_landscape._bisect(
        Cliff(), x, y, threat, delta, rise, torch.tensor([True]), nothing, torch.zeros_like(x)
    )
    assert best.flatten().tolist() == pytest.approx([2 * 0.71875, 0.5 * 0.71875])
    margin = -50 * (2 * 0.71875 - 1.4)
    assert float(top) == pytest.approx(50 / (1 + math.exp(margin)))


def test_where_the_gradient_is_the_same_everywhere_nothing_is_uphill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features_landscape, "_loss", lambda net, x, y: 3.0 * x.flatten(1).sum(-1))
    norms, uphill = features_landscape.gradient_norms(
        nn.Identity(), torch.ones(2, 1, 1, 4, dtype=F64), torch.tensor([0, 1]), Threat("L2", 1.0, 3)
    )
    assert norms.tolist() == pytest.approx([6.0, 6.0])
    assert uphill.abs().sum() == 0
