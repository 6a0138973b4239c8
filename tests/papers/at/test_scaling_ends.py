"""What `patch-scaling` says of a network given by coefficients, against the network itself in R^d; runs of
several widths and thresholds in one batch, against each alone."""

import math

import pytest
import torch
from torch import Tensor

from featscope.core.errors import BadInput
from featscope.core.losses import CROSS_ENTROPY
from featscope.core.streams import stream
from featscope.dynamics import patch_recursion as co
from featscope.experiments.registry import experiment
from featscope.experiments.spec import resolve
from featscope.laws.patches import PatchLaw
from featscope.nets.patch_cnn import PatchNet, PatchNetSpec
from featscope.papers.at.choices import choices
from featscope.papers.at.patch_scaling import PatchScaling, setting_of, start
from featscope.papers.at.scaling_columns import Curves, Ends
from featscope.papers.at.scaling_ends import Population, end_shares
from featscope.papers.at.scaling_start import DEVIATIONS, maxima_rows

LAW = PatchLaw(k=3, d=40, patches=5, robust_patches=2, alpha=2.5, sigma_n=0)
SPEC = PatchNetSpec(width=4, rho=0.6)
EPS = 1.2


def networks(count: int = 40) -> tuple[Tensor, co.Coefficients]:
    """Networks in the span of the features, some good and some bad at everything that is asked."""
    u, v = LAW.features()
    own = torch.eye(3, dtype=torch.float64)[:, None, :]
    scale = torch.rand(2, count, 3, 4, 1, generator=stream(0, "scale"), dtype=torch.float64) ** 3
    noise = 0.15 * torch.randn(2, count, 3, 4, 3, generator=stream(0, "noise"), dtype=torch.float64)
    along = scale * own + noise
    w = along[0] @ u + along[1] @ v
    return w, co.from_weights(w, u, v)


def by_hand(w: Tensor) -> dict[str, list[float]]:
    """The same shares by the network in R^d, point by point and neuron by neuron."""
    u, v = LAW.features()
    batch = LAW.population()
    found: dict[str, list[float]] = {}
    for one in w:
        net = PatchNet(one, SPEC.q, SPEC.rho)

        def answer(x: Tensor, net: PatchNet = net) -> int:
            outputs = net(x[None])[0]
            top = outputs.topk(2)
            return int(top.indices[0]) if float(top.values[0] - top.values[1]) > 0 else -1

        row: dict[str, list[float]] = {}
        for y in range(3):
            x, robust = batch.x[y], batch.robust[y]
            only = torch.where(robust[:, None], x, torch.zeros_like(x))
            row.setdefault("clean", []).append(answer(x) == y)
            row.setdefault("robust_only", []).append(answer(only) == y)
            row.setdefault("non_robust_only", []).append(answer(x - only) == y)
            row.setdefault("lowered", []).append(answer(x - EPS * (u[y] + v[y])) == y)
            written = {j: EPS * (u[j] - u[y]) for j in range(3) if j != y}
            row.setdefault("attacked", []).append(all(answer(x + z) == y for z in written.values()))
            row.setdefault("attacked_robust_only", []).append(
                all(answer(only + z) == y for z in written.values())
            )
            for j in written:
                swap = torch.where(robust[:, None], torch.zeros(1, dtype=x.dtype), EPS * v[j] - v[y])
                row.setdefault("fooled", []).append(answer(x + swap) != y)
                row.setdefault("targeted", []).append(answer(x + swap) == j)
        for name, values in row.items():
            found.setdefault(name, []).append(sum(values) / len(values))
    return found


def test_end_shares_are_those_of_the_network() -> None:
    w, state = networks()
    place = Population(SPEC, state, co.latents(LAW.population(), 3), EPS)
    shares = end_shares(place, None)
    for name, values in by_hand(w).items():
        assert shares[name].tolist() == pytest.approx(values), name
        assert len(set(values)) > 1, f"{name} is the same for every network: nothing is compared"


def test_what_is_certified_withstands_every_perturbation_tried_in_the_span() -> None:
    u, v = LAW.features()
    strong = 4.0 * u[:, None, :].repeat(1, 4, 1)
    w = torch.stack([strong, strong + 0.3 * v[:, None, :], 4.0 * v[:, None, :].repeat(1, 4, 1)])
    data = co.latents(LAW.population(), 3)
    batch, features = LAW.population(), torch.cat([u, v])
    last = []
    for eps in (0.1, 0.3, 0.5, 0.7, 0.75, 0.9):
        place = Population(SPEC, co.from_weights(w, u, v), data, eps)
        sure = place.certified(place.points())
        rng = stream(0, "tried", int(10 * eps))
        for index in range(3):
            signs = torch.randint(0, 2, (300, 3, 5, 6), generator=rng).double() * 2 - 1
            outputs = PatchNet(w[index], SPEC.q, SPEC.rho)(batch.x + eps * signs @ features)
            stands = (outputs.argmax(-1) == batch.y).all(0)
            assert bool((stands | ~sure[index]).all())
        # A network along u alone is at its worst under the perturbation that writes u_j: the bound is tight.
        assert sure[0].tolist() == place.withstands_writing(place.points())[0].tolist()
        last.append(bool(sure[0].all()))
    assert last[0]
    assert not last[-1]


def test_the_training_attack_counts_only_what_is_right_at_both() -> None:
    state = co.draw(300, 3, 4, LAW.d, 1.0, stream(0, "any"), gram=False)
    data = co.latents(LAW.population(), 3)
    place = Population(SPEC, state, data, EPS)
    clip = co.CoefficientClip(EPS, 0.5, True, True)
    x = co.perturb(SPEC, state, data, clip)
    tilde = co.adversarial_pass(SPEC, state, data, x).outputs.argmax(-1) == data.y
    clean = co.clean_pass(SPEC, state, data).outputs.argmax(-1) == data.y
    both = (tilde & clean).double().mean(-1)
    assert end_shares(place, clip)[Ends.training_attack].tolist() == pytest.approx(both.tolist())
    assert bool((tilde & ~clean).any())
    assert bool((clean & ~tilde).any())


def test_runs_of_several_widths_and_thresholds_are_each_alone() -> None:
    data = co.latents(LAW.population(), 3)
    parts, singles = [], []
    for width, rho in ((2, 0.3), (5, 0.9)):
        drawn = co.draw(1, 3, width, 60, 0.2, stream(width, "init"))
        parts.append(co.widened(drawn, 5))
        singles.append((drawn, PatchNetSpec(width=width, rho=rho)))
    batch = co.Coefficients(*(torch.cat(p) for p in zip(*parts, strict=True)))
    together = co.Activation(3, torch.tensor([0.3, 0.9], dtype=torch.float64).view(-1, 1, 1, 1, 1))
    for clip in (None, co.CoefficientClip(0.5, 20.0), co.CoefficientClip(0.5, 20.0, True, True)):

        def velocity(spec: co.Smoothed, clip: co.CoefficientClip | None = clip) -> co.Velocity:
            return (
                co.standard_velocity(spec, data)
                if clip is None
                else co.adversarial_velocity(spec, data, clip)
            )

        state, alone = batch, [drawn for drawn, _ in singles]
        for t in range(80):
            state = co.descent(velocity(together), 0.1)(state, t)
            alone = [
                co.descent(velocity(spec), 0.1)(c, t) for c, (_, spec) in zip(alone, singles, strict=True)
            ]
        for index, (c, (_, spec)) in enumerate(zip(alone, singles, strict=True)):
            assert torch.allclose(state.u[index, :, : spec.width], c.u[0], atol=1e-12)
            assert torch.allclose(state.v[index, :, : spec.width], c.v[0], atol=1e-12)
            assert not bool(state.u[index, :, spec.width :].any())
            assert float((c.u - singles[index][0].u).abs().max()) > 1e-3


def test_the_pull_is_cross_entropys_and_outlives_rounding() -> None:
    outputs = torch.randn(4, 3, 5, generator=stream(0, "f"), dtype=torch.float64)
    y = torch.tensor([0, 4, 2]).expand(4, 3)
    assert torch.allclose(co.descent_pull(outputs, y), -CROSS_ENTROPY.grad(outputs, y), atol=1e-15)
    far = torch.tensor([[60.0, 0.0, 0.0]], dtype=torch.float64)
    pull = co.descent_pull(far, torch.tensor([0]))
    assert pull[0, 0].item() == pytest.approx(2 * math.exp(-60), rel=1e-12)
    assert CROSS_ENTROPY.grad(far, torch.tensor([0]))[0, 0].item() == 0.0


def scaled(**changes: object) -> PatchScaling:
    spec = resolve(experiment("patch-scaling"), "quick", {"dimensions": [10**4, 10**6, 10**8], **changes})
    assert isinstance(spec, PatchScaling)
    return spec


def test_threshold_and_width_follow_the_logarithm() -> None:
    spec = scaled(**{"rho_power": 2.0, "width_power": 1.0, "net.width": 2, "net.rho": 3.0})
    net = spec.net_at(10**6)
    assert net.rho == pytest.approx(3 / math.log(10**6) ** 2)
    assert net.width == math.ceil(2 * math.log(10**6))
    assert net.sigma_0 == pytest.approx(1e-3)
    stock = scaled().net_at(10**6)
    assert (stock.rho, stock.width) == (1.0, 10)
    with pytest.raises(BadInput):
        scaled(rho_power=-1.0)


def test_speeds_are_lemma_d8s_formula() -> None:
    """Under standard training on constant amplitudes the constant is 1 − logit_y itself."""
    spec = scaled(**{"rho_power": 1.0, "width_power": 1.0, "net.width": 1, "seeds": [0, 1]})
    place = setting_of(spec, "standard")
    c = start(spec, "standard").coefficients()
    c = c._replace(u=c.u * 2, v=c.v * 2)
    found = place.rates(c)
    logits = place.logits(place.all_outputs(c))
    assert torch.allclose(found[Curves.rate_low], logits[Curves.residual], rtol=1e-12)
    assert torch.allclose(found[Curves.rate_high], logits[Curves.residual], rtol=1e-12)
    assert float(found[Curves.linear].max()) == 0.0
    far = place.rates(c._replace(v=c.v * 1e9))
    assert float(far[Curves.linear].min()) == 1.0
    silent = place.rates(c._replace(u=-c.u.abs(), v=-c.v.abs()))
    assert bool(silent[Curves.rate_low].isnan().all())


def test_lemma_b1s_exact_probabilities_are_those_of_gaussians() -> None:
    rows = {(row["n"], row["side"], row["deviation"]): row for row in maxima_rows([100])}
    largest = torch.randn(20000, 100, generator=stream(0, "normal")).abs().amax(-1)
    typical = math.sqrt(2 * math.log(200))
    for side, deviation in (("above", 0.1), ("above", 0.5), ("below", 0.25), ("below", 1.0)):
        above = largest >= typical + deviation
        hits = above if side == "above" else largest <= typical - deviation
        exact = math.exp(rows[100, side, deviation]["log_exact"])
        assert float(hits.double().mean()) == pytest.approx(exact, abs=4 * math.sqrt(exact / 20000) + 1e-4)
    assert rows[100, "above", 2.0]["log_bound"] == pytest.approx(math.log(0.5) - 2)
    assert rows[100, "below", 2.0]["log_bound"] == pytest.approx(
        -math.e / (math.sqrt(2 * math.pi) * (typical + 1))
    )
    assert (1, "below", DEVIATIONS[-1]) not in rows


def test_choices_are_held_to_their_numbers() -> None:
    figure = {c.name: c for c in choices(PatchLaw(), PatchNetSpec(), 1000.0)}
    assert figure["B.3 σ0"].value == pytest.approx(math.log(10))
    assert figure["B.3 ϱ"].value == pytest.approx(math.log(100))
    assert figure["B.3 d large"].value == pytest.approx(0.02 * math.sqrt(2 * math.log(200)))
    assert figure["B.3 η̃"].value == pytest.approx(1.5)
    assert [name for name, c in figure.items() if not c.met] == ["B.3 σ0", "B.3 ϱ", "B.3 η̃"]
    law, net = PatchLaw(d=10**9, alpha=12), PatchNetSpec(width=21, rho=math.log(10**9) ** -2)
    inside = choices(law, net.replace(sigma_0=10**-4.5), 10**4.5)
    assert all(c.met for c in inside)
    smaller = choices(law.replace(d=10**8), net.replace(sigma_0=1e-4, rho=math.log(10**8) ** -2), 1e4)
    assert [c.name for c in smaller if not c.met] == ["B.3 d large"]
    assert "B.3 η̃" not in {c.name for c in choices(law, net)}
