"""The race of AT's features: many settings at once are the settings one by one, and the winner is the one
that the tensor power method names."""

import pytest
import torch

from featscope.dynamics import patch_recursion as co
from featscope.dynamics.patch_race import RaceEvent, all_decided
from featscope.laws.patches import PatchLaw
from featscope.papers.at.patch_race import PatchRace, RaceRows, order_of, raced, races


def spec(**changes: object) -> PatchRace:
    law = {"sigma_n": 0.0, "d": 10_000, **changes.pop("law", {})}  # type: ignore[dict-item]
    return PatchRace(law=PatchLaw(**law), **{"seeds": (0, 1), "relative": 0.1, **changes})  # type: ignore[arg-type]


def test_latents_without_vectors_are_those_of_the_population() -> None:
    laws = [
        PatchLaw(sigma_n=0.0, k=3, d=10, alpha=(2.0, 3.0, 4.0), patches=7, robust_patches=2),
        PatchLaw(sigma_n=0.0, k=3, d=10, beta=0.5),
    ]
    batch = co.constant_latents(laws)
    for place, law in enumerate(laws):
        one = co.latents(law.population(), law.k)
        order = one.robust[0].to(torch.int64).argsort(descending=True)  # robust first
        assert torch.equal(batch.robust, one.robust[:, order])
        assert torch.equal(batch.amplitude[place], one.amplitude[:, order])
        assert torch.equal(batch.multiplicity[place], one.multiplicity[:, order])


@pytest.mark.parametrize("training", ["standard", "features-only", "two-sided", "as-printed"])
def test_settings_of_a_batch_do_not_see_each_other(training: str) -> None:
    settings = [
        spec(training=training, steps=60, law={"alpha": 2.0}),
        spec(
            training=training, steps=60, law={"alpha": 5.0, "d": 200, "patches": 30}, eps=0.3, step_size=7.0
        ),
    ]
    together = raced(settings)
    for alone, rows in zip(settings, together, strict=True):
        for one, other in zip(raced([alone])[0], rows, strict=True):
            assert one.keys() == other.keys()
            assert [one[k] is None for k in one] == [other[k] is None for k in other]
            numbers = [(one[k], other[k]) for k in one if isinstance(one[k], float)]
            assert numbers == [pytest.approx(pair, rel=1e-12) for pair in numbers]


@pytest.mark.parametrize("two_sided", [True, False])
def test_a_clip_with_one_radius_a_run_is_the_clip_of_each(two_sided: bool) -> None:
    ascent = torch.randn(2, 3, 2, 4, dtype=torch.float64)
    many = co.CoefficientClip(torch.tensor([0.1, 0.5]).double(), torch.tensor([1.0, 2.0]).double(), two_sided)
    for place, (eps, size) in enumerate([(0.1, 1.0), (0.5, 2.0)]):
        one = co.CoefficientClip(torch.tensor(eps).double().item(), size, two_sided)
        expected = one(ascent[place])
        assert torch.allclose(many(ascent)[place], expected, atol=1e-7)


@pytest.mark.parametrize("q", [3, 4])
def test_the_winner_is_the_faster_of_two_power_iterations(q: int) -> None:
    """x' = S x^{q−1} blows up at 1/((q−2) S x0^{q−2}), with S = Σα^q or Σβ^q and x0 the largest initial
    coefficient; close calls are left out."""
    checked = 0
    for alpha, patches in [(1.5, 4), (2.0, 9), (3.0, 28), (2.0, 40), (4.0, 16)]:
        one = spec(law={"alpha": alpha, "patches": patches}, net={"width": 10, "q": q}, seeds=(0, 1, 2))
        _, start, _ = races([one])
        rates = torch.tensor([alpha**q, float(patches - 1)])
        own = torch.stack([co_own.amax(-1) for co_own in map(_own, (start.u, start.v))], -1)
        times = 1 / (rates * own ** (q - 2))
        for row in raced([one])[0]:
            robust, other = times[one.seeds.index(row[RaceRows.seed]), row[RaceRows.label]].tolist()
            if max(robust / other, other / robust) > 1.3:
                checked += 1
                assert row[RaceRows.robust] == (robust < other)
    assert checked >= 15


def _own(part: torch.Tensor) -> torch.Tensor:
    return torch.diagonal(part, dim1=-3, dim2=-1).mT


def test_the_explicit_perturbation_is_what_the_network_sees() -> None:
    one = spec(law={"k": 3, "d": 80, "patches": 5}, training="standard", steps=40, net={"width": 5}, eps=0.7)
    made, _, eps = races([one])
    net, law = one.net.replace(sigma_0=0.3), one.law
    w = torch.stack([net.init(law.k, law.d, torch.Generator().manual_seed(s)) for s in (0, 1)])
    u, v = law.features()
    margin = made.full_ball_margin(co.from_weights(w, u, v), eps)
    x = law.population().x
    for run, y in [(0, 0), (0, 2), (1, 1)]:
        least = []
        for j in {0, 1, 2} - {y}:
            moved = x[y] + 0.7 * (u[j] + v[j] - u[y] - v[y])
            assert (moved - x[y]).abs().max() == pytest.approx(0.7)
            out = net.net(w[run])(moved[None])[0]
            least.append(float(out[y] - out[j]))
        assert float(margin[run, y]) == pytest.approx(min(least), rel=1e-10)


def test_order_parameters_count_classes_and_leave_out_the_undecided() -> None:
    row = {RaceRows.seed: 0, RaceRows.decided: True, RaceRows.A: 1.0, RaceRows.B: 0.5, RaceRows.T: 2.0}
    row |= {RaceRows.robust: True, RaceRows.T_cancelled: 1.0, RaceRows.full_ball_margin: -1.0}
    other = {
        **row,
        RaceRows.label: 1,
        RaceRows.robust: False,
        RaceRows.T_cancelled: 3.0,
        RaceRows.full_ball_margin: 0.1,
    }
    lost = {**row, RaceRows.seed: 1, RaceRows.decided: False, RaceRows.robust: None}
    found = order_of(spec(), [{**row, RaceRows.label: 0}, other, {**lost, RaceRows.label: 0}])
    assert found[0]["robust_share"] == found[0]["cancelled_first"] == found[0]["fooled_share"] == 0.5
    assert found[0]["log_lead"] == pytest.approx(torch.log(torch.tensor(4.0)).item())
    assert (found[1]["decided_share"], found[1]["robust_share"]) == (0.0, None)


def test_a_decided_run_stands_still() -> None:
    one = spec(seeds=(0,), law={"alpha": 6.0})
    made, start, _ = races([one])
    end = made.run(start, 0.1, 400)
    again = made.step(0.1)(end, 3)
    assert bool(all_decided(end).all())
    assert torch.equal(end.u, again.u)
    assert torch.equal(end.events[:, RaceEvent.DECIDED], again.events[:, RaceEvent.DECIDED])
