"""Training at its limits: the last value that is taken, the first that is refused, and what is told on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from image_task import SPEC, task
from torch import Tensor, nn

from featscope.core.errors import BadInput
from featscope.core.health import Diverged
from featscope.core.store import Part
from featscope.core.streams import stream
from featscope.dynamics.augment import Augment
from featscope.dynamics.cluster_flow import flow_step
from featscope.dynamics.image_training import Trainer, TrainingSpec, accuracy, pack, place, split, unpack
from featscope.dynamics.patch_descent import by_class, shuffled, training_epoch
from featscope.dynamics.patch_recursion import constant_latents, draw, widened
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.dynamics.trajectory import Recording, name_of, trajectory
from featscope.features.invert import InversionSpec, starting_images
from featscope.images.datasets import ImageBatch
from featscope.laws.patches import PatchLaw
from featscope.nets.patch_cnn import PatchNetSpec

ONE = TrainingSpec(epochs=1, batch_size=9, schedule=Schedule(peak=0.05))


class Walk(NamedTuple):
    x: Tensor


def net(seed: int = 0) -> nn.Module:
    return SPEC.build(stream(seed, "init"))


def trainer(batch_size: int, n: int = 10) -> Trainer:
    """Of ten images one is held out, so that nine are left."""
    return Trainer(net(), ImageBatch(*task(n)), ONE.replace(batch_size=batch_size, held_out=0.1), 0)


def walk(steps: int = 1, every: int = 1, runs: int = 1) -> object:
    start = Walk(torch.zeros(max(runs, 1)))
    return trajectory(
        lambda s, t: s, start, steps, lambda s, t: {}, every, runs=[{"seed": i} for i in range(runs)]
    )


def epoch(batch_size: int) -> object:
    x, y = torch.zeros(4, 2, 6, dtype=torch.float64), torch.tensor([0, 1, 0, 1])
    return training_epoch(PatchNetSpec(width=1), x, y, 0.1, batch_size=batch_size)


def drawn(d: int, gram: bool) -> object:
    return draw(1, 2, 2, d, 0.1, stream(0), gram)


def populations(*ks: int) -> object:
    return constant_latents([PatchLaw(k=k, d=20) for k in ks])


def held(n: int) -> object:
    return split(torch.zeros(n), 0.5, 0)


def unpacked(numbers: int) -> None:
    unpack(torch.zeros(numbers), iter([torch.zeros(2), torch.zeros(1, 2)]))


def flow(tolerance: float) -> object:
    return flow_step(lambda *_: None, 1.0, tolerance)  # type: ignore[arg-type,return-value]


def starting(n: int) -> Tensor:
    return starting_images(InversionSpec(start="image"), torch.rand(n, 1, 2, 2), 0)


CASES: list[tuple[Callable[..., object], tuple[object, ...], tuple[object, ...], str]] = [
    (trainer, (9,), (10,), "more images than there are"),
    (held, (2,), (1,), "nothing is left to train on"),
    (unpacked, (4,), (5,), "does not fit the network"),
    (walk, (0,), (-1,), "steps must be at least 0"),
    (walk, (1, 1), (1, 0), "every must be at least 1"),
    (walk, (1, 1, 1), (1, 1, 0), "at least one run"),
    (epoch, (4,), (5,), "batch_size must be 1"),
    (epoch, (1,), (0,), "batch_size must be 1"),
    (drawn, (8, True), (7, True), "km \\+ 2k"),
    (drawn, (4, False), (3, False), "2k must be at most d"),
    (populations, (2, 2), (2, 3), "one k"),
    (lambda *d: Schedule(drops=d), (0.1, 0.1), (0.2, 0.1), "ascending shares"),
    (lambda *d: Schedule(drops=d), (1e-9, 0.999), (0.0, 0.5), "ascending shares"),
    (lambda *d: Schedule(drops=d), (0.5,), (0.5, 1.0), "ascending shares"),
    (lambda r: Schedule(rise=r), (0.999,), (1.0,), "rise"),
    (lambda e: Ramp(epochs=e), (0.0,), (-1e-9,), "epochs"),
    (lambda s: Augment(shift=s), (0,), (-1,), "shift"),
    (lambda t: flow(t), (0.999,), (1.0,), "between 0 and 1"),
    (lambda t: flow(t), (1e-12,), (0.0,), "between 0 and 1"),
    (starting, (2,), (1,), "needs two"),
]


@pytest.mark.parametrize(("make", "taken", "refused", "told"), CASES)
def test_limits_of_training(
    make: Callable[..., object], taken: tuple[object, ...], refused: tuple[object, ...], told: str
) -> None:
    make(*taken)
    with pytest.raises(BadInput, match=told) as caught:
        make(*refused)
    assert "\n" not in str(caught.value)


def test_an_epoch_tells_its_number_of_all_and_its_mean_loss(tmp_path: Path) -> None:
    told: list[tuple[str, int, int, dict[str, float]]] = []

    class Listener:
        def report(self, label: str, step: int, steps: int, facts: Mapping[str, float]) -> None:
            told.append((label, step, steps, dict(facts)))

    made = Trainer(net(), ImageBatch(*task(20)), ONE.replace(epochs=2), 0)
    done = made.run(Part(tmp_path, "training", {}, Listener()))
    epochs = [each for each in told if "images/s" in each[3]]
    assert [(step, of) for _, step, of, _ in epochs] == [(1, 2), (2, 2)]
    assert [facts["loss"] for *_, facts in epochs] == pytest.approx(
        [row["loss"] for row in done.rows[1:]], rel=1e-6
    )
    assert all(facts["images/s"] > 0 for *_, facts in epochs)
    # Before the first epoch there is no loss and no score yet.
    assert (done.rows[0]["step"], done.rows[0]["loss"], done.rows[0]["held_out"]) == (0, 0.0, -1.0)


def test_weights_and_buffers_go_out_and_in_again() -> None:
    first, second = net(0), net(1)
    for buffer in first.buffers():
        buffer.add_(2)
    place(second, pack(first.parameters()), pack(first.buffers()))
    for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert pack(iter([])).shape == (0,)


def test_the_best_network_needs_an_epoch() -> None:
    made = trainer(9)
    state = made.start()
    with pytest.raises(BadInput, match="no epoch has been trained"):
        made.best(state)
    assert not made.last(state).training
    after = made.step(state, 0)
    assert 0 <= float(after.best) <= 1
    made.best(after)


def test_accuracy_is_a_share_in_any_batches_and_a_tie_is_wrong() -> None:
    outputs = torch.tensor([[2.0, 1.0], [1.0, 2.0], [1.0, 1.0], [3.0, 0.0]])
    data = ImageBatch(outputs, torch.zeros(4, dtype=torch.long))
    for batch in (1, 3, 1000):
        assert accuracy(nn.Identity(), data, batch) == 0.5


def test_images_at_even_distances() -> None:
    data = ImageBatch(torch.arange(10.0)[:, None], torch.arange(10))
    assert Trainer.some(data, 5).y.tolist() == [1, 3, 5, 7, 9]
    assert Trainer.some(data, 10).y.tolist() == list(range(10))
    assert Trainer.some(data, 99).y.tolist() == list(range(10))
    assert Trainer.some(data, 1).y.tolist() == [5]
    assert len(Trainer.some(ImageBatch(data.x[:0], data.y[:0]), 3).y) == 0


def test_points_of_a_class_stand_side_by_side_in_each_run_and_orders_are_those_of_seeds() -> None:
    x = torch.arange(8.0).view(2, 4, 1, 1)
    y = torch.tensor([[1, 0, 1, 0], [0, 0, 1, 0]])
    sorted_x, sorted_y = by_class(x, y)
    assert sorted_y.tolist() == [[0, 0, 1, 1], [0, 0, 0, 1]]
    assert sorted_x.flatten(1).tolist() == [[1.0, 3.0, 0.0, 2.0], [4.0, 5.0, 7.0, 6.0]]
    together = shuffled(x, y, [3, 4], 2)[0]
    for run, seed in enumerate((3, 4)):
        order = torch.randperm(4, generator=stream(seed, "epoch", 2))
        assert torch.equal(together[run], x[run][order])
        alone, labels = shuffled(x[run], y[run], [seed], 2)
        assert torch.equal(alone, together[run])
        assert torch.equal(labels, y[run][order])


def test_a_network_widened_by_silent_neurons_keeps_its_own_in_place() -> None:
    narrow = draw(2, 2, 2, 30, 0.1, stream(0))
    wide = widened(narrow, 3)
    assert wide.u.shape == (2, 2, 3, 2)
    assert torch.equal(wide.u[:, :, :2], narrow.u)
    assert torch.equal(wide.v[:, :, 2], torch.zeros(2, 2, 2, dtype=torch.float64))
    kept = torch.tensor([0, 1, 3, 4])
    assert torch.equal(wide.gram[:, kept][:, :, kept], narrow.gram)
    assert float(wide.gram.square().sum()) == pytest.approx(float(narrow.gram.square().sum()))
    assert torch.equal(wide.e[:, kept][:, :, kept], narrow.e)


def test_runs_are_called_by_their_seed_or_by_all_their_labels() -> None:
    assert name_of({"seed": 3}) == "3"
    assert name_of({"seed": 3, "arm": "a"}) == "seed=3,arm=a"
    assert name_of({"arm": "a"}) == "arm=a"
    assert name_of({}) == ""
    fine = Recording([], Walk(torch.zeros(1)))
    assert fine.healthy("x") is fine
    with pytest.raises(
        Diverged, match="left the numbers: here, run 3 saturated at step 5; lower the learning rate"
    ):
        Recording([], Walk(torch.zeros(1)), {"3": 5}, {"3": "saturated"}).healthy("here")
