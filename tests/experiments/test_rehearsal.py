"""A dry run builds what the run would train, and counts what training does."""

import json
import math

import pytest
import torch
from typer.testing import CliRunner

from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.dynamics.image_training import AttackSpec, TrainingSpec
from featscope.dynamics.schedules import Schedule
from featscope.experiments.image_training import ImageTraining
from featscope.experiments.registry import experiment, experiments
from featscope.experiments.rehearsal import own_step, rehearse, rehearsed, trainings
from featscope.experiments.spec import Request, resolve
from featscope.nets.networks import NetworkSpec

LENET = NetworkSpec(architecture="lenet5", width=6, channels=1, side=28)


def spec(**training) -> ImageTraining:
    usual = {"epochs": 3, "batch_size": 64, "held_out": 0.1, "schedule": Schedule(peak=0.2)}
    return ImageTraining(train=1000, net=LENET, seeds=(0, 1), training=TrainingSpec(**{**usual, **training}))


def test_updates_passes_and_rates_are_those_of_the_training():
    found = rehearse(spec())
    assert found.parameters == sum(p.numel() for p in LENET.build(stream(0, "init")).parameters())
    # 900 images are left: 15 batches an epoch.
    assert (found.updates, found.batch_size, found.seeds) == (45, 64, 2)
    assert found.passes == 2 * 3 * 900
    assert found.rates[1] == pytest.approx(0.2, rel=0.05)
    assert max(found.rates[0], found.rates[2]) < 0.05
    attacked = rehearse(spec(method="adversarial", attack=AttackSpec(steps=7)))
    assert attacked.passes == 8 * found.passes
    assert attacked.hours == pytest.approx(8 * found.hours)
    mixed = rehearse(spec(method="mixed", attack=AttackSpec(steps=7)))
    assert mixed.passes == 9 * found.passes
    assert rehearse(spec(autocast=True)).hours == pytest.approx(found.hours / 2)


@pytest.mark.parametrize("shape", ["constant", "cyclical", "cosine", "piecewise"])
@pytest.mark.parametrize("rise", [0.001, 0.37, 0.5, 0.999])
def test_the_largest_rate_is_that_of_a_walk_through_all_updates(shape: str, rise: float):
    for epochs in (1, 2, 3, 7):
        schedule = Schedule(shape=shape, peak=0.2, rise=rise)
        found = rehearse(spec(schedule=schedule, epochs=epochs, batch_size=450))
        walked = [schedule((step + 0.5) / found.updates) for step in range(found.updates)]
        assert found.rates == (walked[0], max(walked), walked[-1])


def test_a_schedule_of_more_updates_than_can_be_walked_through_is_told():
    found = rehearse(spec(epochs=10**30))
    assert found.updates == 15 * 10**30
    assert found.rates[1] == pytest.approx(0.2)


def test_a_batch_of_more_images_than_are_left_is_refused():
    assert rehearse(spec(held_out=0.9, batch_size=100)).updates == 3
    with pytest.raises(BadInput, match=r"batch_size=101, 100 images"):
        rehearse(spec(held_out=0.9, batch_size=101))


def test_operations_are_those_of_the_layers():
    """A forward pass multiplies each weight once for each place; backward does so once more for the weights and,
    beyond the first layer, once more for the inputs."""
    net = LENET.build(stream(0, "init"))
    seen: list[float] = []

    def count(layer, given, made):
        places = made[0, 0].numel() if made.dim() == 4 else 1
        seen.append(2.0 * layer.weight.numel() * places)

    for layer in net.modules():
        if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
            layer.register_forward_hook(count)
    net(torch.rand(1, 1, 28, 28))
    assert rehearse(spec()).operations == pytest.approx(3 * sum(seen) - seen[0], rel=1e-6)


def test_networks_that_differ_by_seed_alone_are_told_once():
    plan = experiment("image-fine-labels")
    request = Request(plan, resolve(plan, "quick", {"datasets": ["mnist"]}))
    found = list(trainings(request))
    assert [one.net.classes for one in found] == [10, 2]
    assert all(one.seeds == (0, 1) for one in found)


IMAGES = [name for name, plan in experiments().items() if plan.data and name.startswith("image-")]


#: these train nothing
UNTRAINED = {"image-separation", "image-embeddings"}


@pytest.mark.parametrize("profile", ["quick", "long", "paper"])
@pytest.mark.parametrize("name", sorted(set(IMAGES) - UNTRAINED))
def test_every_image_experiment_can_be_rehearsed(name: str, profile: str) -> None:
    """Networks are built as large as they are, and take one step; the largest has 46 million weights."""
    plan = experiment(name)
    wanted = resolve(plan, profile)
    found = rehearsed(Request(plan, wanted))
    assert found
    assert all(one.parameters > 0 and one.updates > 0 and 0 < one.hours < math.inf for one in found)
    assert all(one.memory > 4 * 4 * one.parameters for one in found)
    assert all(one.seeds >= 1 for one in found)
    # Experiments that compare networks train some of them for one seed alone.
    if isinstance(wanted, ImageTraining):
        assert {one.seeds for one in found} == {len(wanted.seeds)}


@pytest.mark.parametrize("name", sorted(set(IMAGES) & UNTRAINED))
def test_what_trains_nothing_says_so(name: str) -> None:
    plan = experiment(name)
    assert rehearsed(Request(plan, resolve(plan, "paper"))) == []


def test_the_paper_s_networks_have_the_sizes_that_are_known_of_them() -> None:
    """ResNet-18 for 32 × 32 images has 11.17, WideResNet-34-10 46.16 million weights."""

    def sizes(name: str) -> set[int]:
        plan = experiment(name)
        return {one.parameters for one in rehearsed(Request(plan, resolve(plan, "paper")))}

    assert sizes("image-overfitting") == {11_172_170}
    assert sizes("image-feature-attacks") == {46_160_474}


@pytest.mark.parametrize("method", ["standard", "adversarial", "mixed", "trades"])
def test_the_step_is_the_training_s_own(method: str, monkeypatch) -> None:
    from featscope.dynamics import image_training

    seen = []
    usual = image_training.Trainer.loss

    def watched(self, net, x, y, epoch, rng):
        seen.append((self.spec.method, len(y), self.spec.attack.steps))
        return usual(self, net, x, y, epoch, rng)

    own_step.cache_clear()
    monkeypatch.setattr(image_training.Trainer, "loss", watched)
    rehearse(spec(method=method, attack=AttackSpec(steps=7)))
    assert seen == [(method, 2, 1)]
    # The same network under the same training, at another rate, is not built again.
    rehearse(spec(method=method, attack=AttackSpec(steps=9), schedule=Schedule(peak=0.3)))
    assert len(seen) == 1


def test_a_step_that_leads_nowhere_is_refused(monkeypatch) -> None:
    from featscope.dynamics import image_training

    own_step.cache_clear()
    monkeypatch.setattr(image_training.Trainer, "step", lambda self, state, t: state)
    with pytest.raises(BadInput, match="one step must move"):
        rehearse(spec())
    own_step.cache_clear()


def test_the_command_says_it_and_runs_nothing(tmp_path):
    from featscope.cli.main import app

    out = tmp_path / "runs"
    arguments = ["run", "image-overfitting", "--profile", "quick", "--dry-run", "--json", "--out", str(out)]
    told = json.loads(CliRunner().invoke(app, arguments).stdout)
    (one,) = told["trainings"]
    assert (one["method"], one["seeds"], one["gpu"]) == ("adversarial", 2, "A100")
    assert "A100" in one["assumes"]
    assert "40%" in one["assumes"]
    assert not out.exists()
