"""Attacks against their printed schedules, written out a second time; threats inside, on and outside; streams
of batches."""

import dataclasses
import math

import pytest
import torch

from featscope.attacks.apgd import APGD, AdaptiveSteps, checkpoints
from featscope.attacks.ascent import Seen
from featscope.attacks.copies import DROPPED, Fallen, recount, search
from featscope.attacks.curve import robust_curve
from featscope.attacks.evaluate import evaluate
from featscope.attacks.minimal import MinimalPGD
from featscope.attacks.pgd import PGD, shifted
from featscope.attacks.square import Square
from featscope.attacks.suite import assess
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput
from featscope.core.losses import OWN_LOGIT, margin
from featscope.core.streams import stream


def test_checkpoints_are_croce_and_heins():
    """p₀ = 0, p₁ = .22, p_{j+1} = p_j + max(p_j − p_{j−1} − .03, .06); w_j = ⌈p_j N⌉."""
    assert checkpoints(100) == [22, 41, 57, 70, 80, 87, 93, 99, 100]
    places = [0, 22]  # in hundredths, exactly
    while places[-1] < 100:
        places.append(places[-1] + max(places[-1] - places[-2] - 3, 6))
    for steps in (7, 20, 50, 1000):
        assert checkpoints(steps) == sorted({min(-(-p * steps // 100), steps) for p in places[1:]})


def bumpy(z):
    """Three logits whose loss rises and falls along a path."""
    w = torch.randn(3, 6, generator=stream(0, "w"), dtype=torch.float64)
    v = torch.randn(6, 5, generator=stream(0, "v"), dtype=torch.float64)
    return torch.sin(3 * z.flatten(1) @ v.mT) @ w.mT


def reference_apgd(x, y, threat, delta, steps):
    """Croce and Hein's algorithm for one example; after a return to the best point there is no last move to
    average with."""

    def look(d):
        leaf = (x + d).requires_grad_(True)
        value = -margin(bumpy(leaf), y)
        return float(value.detach()), torch.autograd.grad(value.sum(), leaf)[0]

    places, size, seen = checkpoints(steps), 2 * threat.eps, [x + delta]
    value, gradient = look(delta)
    last, top, top_delta, top_gradient, top_then, rises, halved_then, mark = (
        delta,
        value,
        delta,
        gradient,
        value,
        0,
        False,
        0,
    )
    halvings = 0
    for step in range(1, steps + 1):
        ahead = threat.project(delta + size * threat.direction(gradient), x)
        share = 1.0 if step == 1 else 0.75
        last, delta = delta, threat.project(delta + share * (ahead - delta) + (1 - share) * (delta - last), x)
        seen.append(x + delta)
        new, gradient = look(delta)
        rises, value = rises + (new > value), new
        if value > top:
            top, top_delta, top_gradient = value, delta, gradient
        if step in places:
            halve = rises < 0.75 * (step - mark) or (not halved_then and top <= top_then)
            if halve:
                size, delta, last, gradient, value = size / 2, top_delta, top_delta, top_gradient, top
                halvings += 1
            mark, rises, top_then, halved_then = step, 0, top, halve
    return torch.cat(seen), halvings


@pytest.mark.parametrize("norm", ["Linf", "L2"])
def test_adaptive_pgd_walks_as_printed(norm):
    x = torch.rand(12, 5, generator=stream(1, "x"), dtype=torch.float64)
    y = bumpy(x).argmax(-1)
    threat = Threat(norm, 0.4, 1, bounds=(0.0, 1.0))
    walked = []

    def spied(z):
        walked.append(z.detach().clone())
        return bumpy(z)

    APGD("margin", 40)(spied, x, y, threat, stream(3, "a"))
    start = threat.sample(x, stream(3, "a"))
    halvings = set()
    for i in range(len(x)):
        expected, halved = reference_apgd(x[i : i + 1], y[i : i + 1], threat, start[i : i + 1], 40)
        halvings.add(halved)
        torch.testing.assert_close(torch.stack([z[i] for z in walked[1:]]), expected, rtol=0, atol=1e-6)
    assert len(halvings) > 1


def test_a_step_with_momentum_by_hand():
    """From −8 in a ball of radius 8 the first step of 16 ends at 8. Then a coordinate that turns has 8 − ¾·16 + ¼·16
    = 0; one that goes on stays at the bound."""

    def slope(*signs):
        return Seen(torch.zeros(1), lambda: torch.zeros(1), lambda: torch.tensor([signs]))

    x = torch.zeros(1, 2)
    climb = AdaptiveSteps(Threat("Linf", 8.0, 1), 100)
    first = climb(0, x, x - 8, slope(1.0, 1.0))
    assert first.tolist() == [[8.0, 8.0]]
    assert climb(1, x, first, slope(-1.0, 1.0)).tolist() == [[0.0, 8.0]]


def test_squares_shrink_as_published():
    """For 10 000 queries the covered share halves after 10, 50, 200, 500, 1000, 2000, 4000, 6000 and 8000."""
    attack = Square(10_000, 0.8)
    marks = [10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000]
    for k, mark in enumerate(marks):
        assert attack.side(mark, 200, 200) == round(math.sqrt(0.8 / 2**k * 200 * 200))
        assert attack.side(mark + 1, 200, 200) == round(math.sqrt(0.8 / 2 ** (k + 1) * 200 * 200))
    assert attack.side(9999, 4, 4) == 1
    assert Square(10, 1.0).side(0, 6, 9) == 6


def test_square_proposes_signs_of_full_size_on_one_square():
    """ℓ∞ without bounds: stripes ±ε first; then one square of one sign for each channel is redrawn."""
    seen = []

    def spied(z):
        seen.append(z.clone())
        return torch.stack([10 - z.flatten(1).sum(-1) * 1e-3, torch.zeros(len(z))], -1)

    x = torch.zeros(1, 2, 8, 8)
    Square(40)(spied, x, torch.tensor([0]), Threat("Linf", 0.5, 3), stream(0, "s"))
    stripes = seen[1][0]
    assert bool((stripes.abs() == 0.5).all())
    assert torch.equal(stripes, stripes[:, :1].expand_as(stripes))
    best, sides = seen[1], set()
    for query, proposal in enumerate(seen[2:], 1):
        assert bool((proposal.abs() == 0.5).all())
        changed = (proposal != best)[0].any(0).nonzero()
        if len(changed):
            side = Square(40).side(query, 8, 8)
            sides.add(side)
            assert int((changed.amax(0) - changed.amin(0)).max()) < side
        if float(proposal.sum()) > float(best.sum()):
            best = proposal
    assert len(sides) > 2


def test_square_begins_with_a_whole_radius_for_each_example():
    """ℓ2 without bounds: the first stripes of every example have length ε, however many are searched at once."""
    seen = []

    def spied(z):
        seen.append(z.clone())
        return torch.stack([torch.ones(len(z)), torch.zeros(len(z))], -1)

    x, y = torch.zeros(4, 2, 3, 5), torch.zeros(4, dtype=torch.int64)
    Square(1)(spied, x, y, Threat("L2", 0.5, 3), stream(0, "s"))
    assert seen[1].flatten(1).norm(dim=-1).tolist() == pytest.approx([0.5] * 4, rel=1e-5)
    assert torch.equal(seen[1], seen[1][:, :, :1].expand_as(x))


@pytest.mark.parametrize("norm", ["Linf", "L2", "L3"])
def test_a_threat_contains_what_is_inside_and_on_it_and_nothing_outside(norm):
    x = torch.full((3, 2, 4), 0.5, dtype=torch.float64)
    delta = torch.randn(x.shape, generator=stream(0, "d"), dtype=torch.float64)
    order = math.inf if norm == "Linf" else float(norm[1:])
    unit = delta / torch.linalg.vector_norm(delta.flatten(1), ord=order, dim=-1).view(-1, 1, 1)
    threat = Threat(norm, 0.3, 2)
    for size, inside in ((0.0, True), (0.29, True), (0.3, True), (0.3001, False), (3.0, False)):
        assert threat.contains(size * unit, x).tolist() == [inside] * 3
    mixed = torch.cat([0.1 * unit[:1], 0.5 * unit[1:2], 0.3 * unit[2:]])
    assert threat.contains(mixed, x).tolist() == [True, False, True]
    boxed = Threat(norm, 0.3, 2, bounds=(0.4, 0.6))
    for shift, inside in ((0.1, True), (-0.1, True), (0.1001, False), (-0.1001, False)):
        one = torch.zeros_like(x)
        one[:, 1, 2] = shift
        assert boxed.contains(one, x).tolist() == [inside] * 3
    part = Threat(norm, 0.3, 2, support=torch.tensor([1.0, 0, 0, 1]))
    for place, inside in ((0, True), (1, False), (2, False), (3, True)):
        one = torch.zeros_like(x)
        one[:, 0, place] = 0.01
        for step in (one, -one):
            assert part.contains(step, x).tolist() == [inside] * 3
    nothing = Threat(norm, 0.0, 2)
    assert nothing.contains(0 * x, x).all()
    assert not nothing.contains(1e-9 * unit, x).any()


def test_float32_images_are_contained_after_projection_and_a_percent_more_is_not():
    x = torch.rand(50, 3, 16, 16, generator=stream(0, "x"))
    middle = 0.3 + 0.4 * x  # where bounds do not shorten anything
    wild = torch.randn(x.shape, generator=stream(1, "x"))
    for norm, eps in (("Linf", 8 / 255), ("Linf", 1e-3), ("L2", 0.5)):
        threat = Threat(norm, eps, 3, bounds=(0.0, 1.0))
        assert threat.contains(threat.project(wild, x), x).all()
        wide = threat.with_radius(1.01 * eps).project(wild, middle)
        assert not threat.contains(wide, middle).any()


def test_a_subspace_contains_its_span_alone():
    basis = torch.linalg.qr(torch.randn(6, 2, generator=stream(0, "b"), dtype=torch.float64)).Q.mT
    threat, x = Threat("L2", 1.0, 1, basis=basis), torch.zeros(1, 6, dtype=torch.float64)
    along = torch.tensor([[0.6, -0.5]], dtype=torch.float64) @ basis
    off = torch.randn(1, 6, generator=stream(1, "b"), dtype=torch.float64)
    off -= (off @ basis.mT) @ basis
    assert threat.contains(along, x).all()
    assert not threat.contains(along + 1e-3 * off, x).any()
    assert not threat.contains(1.5 * along, x).any()
    torch.testing.assert_close(threat.project(along + off, x), along)
    found = PGD(steps=60, goal=OWN_LOGIT)(
        lambda z: torch.stack([-z[:, 0], z[:, 0]], -1), x, torch.tensor([0]), threat, stream(0, "a")
    )
    torch.testing.assert_close(
        found, threat.steepest(torch.eye(6, dtype=torch.float64)[:1]), atol=0.02, rtol=0
    )


def test_the_own_logit_is_minus_the_logit_of_the_label():
    outputs = torch.randn(7, 4, generator=stream(0, "o"), dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 3, 3, 2, 1])
    assert torch.equal(OWN_LOGIT.value(outputs, y), -outputs[torch.arange(7), y])
    leaf = outputs.clone().requires_grad_(True)
    assert torch.equal(
        OWN_LOGIT.grad(outputs, y), torch.autograd.grad(OWN_LOGIT.value(leaf, y).sum(), leaf)[0]
    )
    w = torch.randn(4, 5, generator=stream(0, "w"), dtype=torch.float64)
    x = torch.randn(7, 5, generator=stream(0, "x"), dtype=torch.float64)
    delta = PGD("own-logit", 1, 0.1, random_start=False)(
        lambda z: z @ w.mT, x, y, Threat("Linf", 0.1, 1), stream(0, "a")
    )
    kept = (delta != 0).any(-1)
    assert int(kept.sum()) > 3
    torch.testing.assert_close(delta[kept], -0.1 * w[y][kept].sign())


class Draws:
    """An attack that only notes what its stream gives."""

    name = "draws"

    def __init__(self) -> None:
        self.seen: list[tuple[float, ...]] = []

    def __call__(self, model, x, y, threat, rng):
        self.seen.append(tuple(torch.rand(4, generator=rng).tolist()))
        return torch.zeros_like(x)


def test_no_two_batches_share_a_random_start_and_a_seed_gives_its_starts_again():
    def net(z):
        return torch.stack([z.flatten(1).mean(-1), -z.flatten(1).mean(-1)], -1)

    x, y = 0.1 + 0.8 * torch.rand(20, 1, 4, 4, generator=stream(0, "x")), torch.zeros(20, dtype=torch.int64)
    threat = Threat("Linf", 0.01, 3, bounds=(0.0, 1.0))
    runs = []
    for seed in (0, 0, 1):
        attack = Draws()
        assess(net, x, y, threat, [attack], seed=seed, batch=5)
        runs.append(attack.seen)
    assert len(set(runs[0])) == len(runs[0]) == 4
    assert runs[0] == runs[1]
    assert not set(runs[0]) & set(runs[2])


def test_the_evaluator_counts_nothing_that_the_threat_rejects():
    """Inputs outside the bounds would be moved by more than the radius; a projection that fails must not
    count."""

    class Loose(Threat):
        def project(self, delta, x):
            return delta

    def net(z):
        return torch.stack([1 - z.sum(-1), z.sum(-1) - 1], -1)

    class Leap:
        name = "leap"

        def __call__(self, model, x, y, threat, rng):
            return 5 * torch.ones_like(x)

    x, y = torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)
    assert evaluate(net, x, y, Loose("Linf", 0.1, 1), [Leap()], stream(0, "a")).accuracy == 1
    assert evaluate(net, x, y, Loose("Linf", 5.0, 1), [Leap()], stream(0, "a")).accuracy == 0
    with pytest.raises(BadInput, match="divide"):
        evaluate(net, x + 200, y, Threat("Linf", 0.1, 1, bounds=(0.0, 1.0)), [Leap()], stream(0, "a"))
    with pytest.raises(BadInput, match="event=1"):
        evaluate(net, x, y, Threat("Linf", 0.1, 2), [Leap()], stream(0, "a"))


def test_the_smallest_radius_of_a_linear_score_is_its_distance():
    w = torch.tensor([3.0, -4.0, 0.0], dtype=torch.float64)
    x = torch.randn(30, 3, generator=stream(0, "x"), dtype=torch.float64)

    def objective(z):
        return z @ w + 0.3, -w.expand_as(z)

    exact = ((x @ w + 0.3) / 5).clamp(min=0)
    found = MinimalPGD(steps=20, restarts=2, rounds=8, reach=10.0)(objective, x, stream(0, "a"))
    assert bool((found.radius >= exact - 1e-9).all())
    assert bool((found.radius <= 1.01 * exact + 1e-6).all())
    torch.testing.assert_close(found.delta.norm(dim=-1), found.radius)
    assert bool((objective(x + found.delta)[0] <= 1e-9).all())
    assert bool(((found.radius == 0) == (x @ w + 0.3 <= 0)).all())
    far = MinimalPGD(steps=20, restarts=2, rounds=8, reach=0.5)(objective, x, stream(0, "a"))
    assert torch.equal(torch.isinf(far.radius), exact > 0.5)
    last = MinimalPGD(steps=20, restarts=2, rounds=8, reach=10.0, last_only=True)(
        objective, x, stream(0, "a")
    )
    right = exact > 0
    assert bool((last.radius[right] >= exact[right] - 1e-9).all())
    assert bool((last.radius[right] <= 1.2 * exact[right] + 0.1).all())


@pytest.mark.parametrize(
    ("rises", "gained", "halved_then", "halves"),
    [
        (8, True, False, False),
        (7, True, False, True),
        (10, False, False, True),
        (10, False, True, False),
        (7, False, True, True),
    ],
)
def test_a_step_is_halved_by_too_few_rises_or_by_no_gain_with_an_unchanged_step(
    rises, gained, halved_then, halves
):
    """Of ten steps 7.5 must rise; no gain counts only if the step was not halved at the last checkpoint."""
    x, value = torch.zeros(1, 2), torch.zeros(1)
    climb = AdaptiveSteps(Threat("Linf", 0.5, 1), 100)
    climb.begin(x, value, x)
    climb.rises = torch.tensor([float(rises)])
    climb.top, climb.top_before = torch.tensor([1.0 if gained else 0.0]), torch.zeros(1)
    climb.halved, climb.top_delta, climb.delta = torch.tensor([halved_then]), x + 0.25, x + 0.5
    climb.reconsider(10)
    assert climb.size.tolist() == [0.5 if halves else 1.0]
    assert climb.delta.tolist() == [[0.25, 0.25] if halves else [0.5, 0.5]]
    assert climb.halved.tolist() == [halves]


def test_a_margin_of_zero_is_reached():
    """FA's sgn(0) = −1: where the score is 0 the point counts as misclassified."""

    def objective(z):
        return (z[..., 0] - 0.5).clamp(min=0), torch.tensor([-1.0, 0.0], dtype=z.dtype).expand_as(z)

    x = torch.tensor([[1.0, 0.0], [0.5, 0.0]], dtype=torch.float64)
    found = MinimalPGD(steps=10, restarts=2, rounds=6, reach=4.0)(objective, x, stream(0, "a"))
    assert found.radius.tolist() == pytest.approx([0.5, 0.0], abs=1e-6)
    assert objective(x + found.delta)[0].tolist() == [0.0, 0.0]


def test_a_tie_is_wrong_on_the_network_itself():
    def level(x):
        return torch.zeros(len(x), 2)

    x, y = torch.zeros(3, 1), torch.tensor([0, 1, 0])
    searched = Fallen(torch.full((3,), torch.inf), torch.zeros_like(x), {"a": torch.full((3,), torch.inf)})
    found, differs = recount(level, searched, x, y)
    assert found.fooled_at.tolist() == [0.0] * 3
    assert found.after["a"].tolist() == [0.0] * 3
    assert not differs.any()


def test_all_that_a_dropped_copy_left_standing_is_searched_on_the_network():
    """The copy finds too large a radius for the first and none for the third; also what fell at a small radius is
    searched again, and what is wrong as it is needs no search."""
    x, y = torch.tensor([[0.25], [0.5], [3.0], [-1.0]]), torch.zeros(4, dtype=torch.int64)
    copied, asked = torch.tensor([[0.75], [0.5], [math.inf], [0.0]]), []

    def network(z):
        return torch.cat([z, torch.zeros_like(z)], -1)

    def copy(z):
        raise AssertionError("only looked through")

    def look(model, chosen, name):
        asked.append((model is network, name, chosen.tolist()))
        radius = (x.clamp(min=0) if model is network else copied)[chosen]
        return Fallen(radius[:, 0], -radius.nan_to_num(posinf=0.0))

    found, told = search(network, copy, x, y, look)
    assert told == [DROPPED]
    assert found.fooled_at.tolist() == [0.25, 0.5, 3.0, 0.0]
    assert found.delta.tolist() == [[-0.25], [-0.5], [-3.0], [0.0]]
    assert asked == [
        (False, "first", [0, 1, 2, 3]),
        (True, "sample", [2]),
        (False, "sample", [2]),
        (True, "network", [0, 1, 2]),
    ]


def test_a_target_is_so_many_classes_after_the_label_for_any_number_of_axes():
    """Five points with three classes in two runs: the class after the last is the first."""
    outputs = torch.randn(2, 5, 3, generator=stream(0, "o"), dtype=torch.float64)
    y = torch.tensor([[0, 1, 2, 1, 2], [2, 2, 0, 1, 0]])
    value, grad = shifted(2).value(outputs, y), shifted(2).grad(outputs, y)
    for run in range(2):
        for i in range(5):
            label = int(y[run, i])
            target = (label + 2) % 3
            assert value[run, i] == outputs[run, i, target] - outputs[run, i, label]
            rises = [float(c == target) - float(c == label) for c in range(3)]
            assert grad[run, i].tolist() == rises


def test_the_first_radius_of_a_curve_is_searched_from_a_start_within_it():
    seen = []

    @dataclasses.dataclass(frozen=True)
    class Recording(PGD):
        def __call__(self, model, x, y, threat, rng, start=None):
            seen.append((threat, start))
            return super().__call__(model, x, y, threat, rng, start)

    x = torch.full((200, 2), 0.5, dtype=torch.float64)
    robust_curve(
        lambda z: torch.stack([z[:, 0] * 0 + 1, z[:, 0] * 0], -1),
        x,
        torch.zeros(200).long(),
        Threat("L2", 1.0, 1),
        (0.1, 0.2, 0.4),
        Recording(steps=1),
        stream(0, "a"),
    )
    threat, start = seen[0]
    assert threat.eps == 0.2
    assert threat.contains(start, x).all()
    # uniform in the disc: a quarter within half the radius
    assert float((start.norm(dim=-1) < 0.1).double().mean()) == pytest.approx(0.25, abs=0.1)


def test_a_support_broadcasts_to_an_example_or_is_refused():
    x, y = torch.zeros(3, 2, 4), torch.zeros(3).long()
    for shape in ((4,), (1, 4), (2, 1), (2, 4), (1, 1)):
        Threat("Linf", 0.1, 2, support=torch.ones(shape)).require_fits(x, y)
    for shape in ((3,), (2,), (2, 2), (3, 1, 4), (2, 2, 4)):
        with pytest.raises(BadInput, match="broadcast"):
            Threat("Linf", 0.1, 2, support=torch.ones(shape)).require_fits(x, y)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 1, 3, 4, 4)])
def test_squares_need_images_or_vectors(shape: tuple[int, ...]) -> None:
    y, threat = torch.zeros(2, dtype=torch.long), Threat("Linf", 0.1, len(shape) - 1)
    with pytest.raises(BadInput, match=r"images .* and on vectors"):
        Square()(lambda x: x, torch.zeros(shape), y, threat, stream(0, "s"))


def test_squares_on_vectors_are_runs_of_entries_on_the_sphere() -> None:
    """Entry 4 alone decides: some run must set it to −ε, and every entry stays at ±ε. The network is always
    shown vectors."""
    x, y = torch.zeros(6, 9), torch.zeros(6, dtype=torch.long)
    x[:, 4] = 0.05

    def of_one_entry(v: torch.Tensor) -> torch.Tensor:
        assert v.shape[1:] == (9,)
        return torch.stack([v[:, 4], -v[:, 4]], dim=1)

    delta = Square(60)(of_one_entry, x, y, Threat("Linf", 0.1, 1), stream(0, "s"))
    assert torch.allclose(delta.abs(), torch.full_like(x, 0.1))
    assert torch.allclose(delta[:, 4], torch.full((6,), -0.1))
    weak = Square(60)(of_one_entry, x, y, Threat("Linf", 0.04, 1), stream(0, "s"))
    assert (of_one_entry(x + weak).argmax(1) == y).all()
