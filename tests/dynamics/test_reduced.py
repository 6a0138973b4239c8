"""The reduced recursions of FA and CGRO against descent, whose errors their modules and the lab state."""

from __future__ import annotations

import math

import pytest
import torch

from featscope.attacks.two_layer_radius import exact_radii
from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.dynamics import patch_recursion as co
from featscope.dynamics.cluster_descent import (
    binary_step,
    coefficients,
    fine_step,
    start_binary,
    start_fine,
)
from featscope.dynamics.cluster_reduced import (
    ClusterReduction,
    ReducedClusters,
    averaged_radius,
    group_of_cluster,
)
from featscope.dynamics.patch_span import feature_radius, span_margins, span_radii
from featscope.dynamics.signal_descent import Components, Kernel, Objective, recursion_step
from featscope.dynamics.signal_reduced import SignalReduction, lower_factor, radius_along_signal
from featscope.laws.clusters import ClusterLaw
from featscope.laws.patches import PatchLaw
from featscope.laws.signal import SignalLaw, stack
from featscope.nets.cubic_cnn import output
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.nets.two_layer import TwoLayer, output_weights

# --- FA


def trained(
    d: int, groups: int, scale: float, cosine: float, n: int = 200, k: int = 6, steps: int = 60
) -> dict[str, float]:
    """Relative errors of λ, of the mean σ and of the weights' norms, and the radii of both."""
    law, h = ClusterLaw(k=k, d=d, positive=3, cosine=cosine), 5 if groups == 2 else 1
    owner = group_of_cluster(k, 3, groups)
    drawn = law.draw(n, groups * h, 0, compact=True)
    eta = 3.0 / d
    begun = ReducedClusters.of(law, drawn.train, drawn.features, scale * drawn.directions)
    model = ClusterReduction(law, begun, owner, h)
    state, step = model.begin(), model.step(eta)
    full = start_fine(drawn.directions, n, scale)
    descent = fine_step(drawn.train._replace(cluster=owner[drawn.train.cluster]), h, eta)
    for t in range(steps):
        state, full = step(state, t), descent(full, t)
    true = coefficients(law, drawn.train, law.noise_norms(drawn.train), full.c)
    lam, norm = model.features(state), model.squared_norm(state, torch.eye(groups * h).double(), scale).sqrt()
    mine = torch.arange(groups * h)[:, None] // h == owner[drawn.train.cluster][None, :]
    sigma = model.noise(state)[mine].mean() / true.noise[mine].mean() - 1
    return {
        "lambda": float((lam - true.features).abs().max() / true.features.abs().max()),
        "sigma": abs(float(sigma)),
        "norm": float((norm / full.w.norm(dim=-1) - 1).abs().max()),
        "radius": float(model.radii(state, scale).median()),
    }


@pytest.mark.parametrize("d", [3000, 300_000_000])
@pytest.mark.parametrize(("groups", "cosine"), [(2, 0.0), (3, 0.0), (6, 0.0), (2, 0.4)])
def test_the_orthogonal_noise_recursion_is_within_one_per_cent_of_descent(
    groups: int, cosine: float, d: int
) -> None:
    found = trained(d, groups, 0.03 / d, cosine)
    assert found["lambda"] < 0.01
    assert found["sigma"] < 0.02
    assert found["norm"] < 0.03


@pytest.mark.parametrize("groups", [2, 3, 6])
def test_with_first_pre_activations_of_fixed_size_it_is_descent_in_the_limit(groups: int) -> None:
    """What is left out is of order d^−½ then: a factor 10⁵ in d leaves less than a fiftieth of the error."""
    small, large = (trained(d, groups, 5e-4 / math.sqrt(d), 0.0)["lambda"] for d in (3000, 300_000_000))
    assert large < small / 50
    assert large < 1e-4


def test_two_groups_are_the_two_class_network_and_its_exact_radius() -> None:
    law, n, h, d = ClusterLaw(k=6, d=20_000), 200, 5, 20_000
    drawn, scale, eta = law.draw(n, 2 * h, 1, compact=True), 0.03 / d, 3.0 / d
    begun = ReducedClusters.of(law, drawn.train, drawn.features, scale * drawn.directions)
    model = ClusterReduction(law, begun, group_of_cluster(6, 3, 2), h)
    state, step = model.begin(), model.step(eta)
    full = start_binary(drawn.directions, n, scale, scale, stream(1, "init", "bias"))
    descent = binary_step(drawn.train, output_weights(h), eta)
    for t in range(60):
        state, full = step(state, t), descent(full, t)
    exact = exact_radii(TwoLayer(full.w, full.b, output_weights(h)), drawn.features, law.signs()).lower
    assert model.radii(state, scale).tolist() == pytest.approx(exact.tolist(), rel=0.02)
    assert averaged_radius(law, model.groups) == pytest.approx(math.sqrt(d / 6))


def test_points_that_stand_for_others_give_what_all_of_them_give() -> None:
    law, k = ClusterLaw(k=2, d=10_000), 2
    one = ReducedClusters(
        torch.zeros(2, k).double(),
        torch.full((2, 2), 1e-3).double(),
        torch.zeros(2, k).double(),
        torch.tensor([0, 1]),
        torch.full((2,), 3.0).double(),
    )
    three = ReducedClusters(
        one.along,
        one.across.repeat_interleave(3, -1),
        torch.zeros(6, k).double(),
        torch.tensor([0, 0, 0, 1, 1, 1]),
        torch.ones(6).double(),
    )
    ends = []
    for start in (one, three):
        model = ClusterReduction(law, start, torch.tensor([0, 1]), 1)
        state, step = model.begin(), model.step(3e-4)
        for t in range(20):
            state = step(state, t)
        ends.append((model.features(state), model.squared_norm(state, torch.eye(2).double(), 1e-6)))
    torch.testing.assert_close(ends[0][0], ends[1][0], rtol=1e-12, atol=0)
    torch.testing.assert_close(ends[0][1], ends[1][1], rtol=1e-12, atol=0)


def test_groups_have_one_sign_and_are_even() -> None:
    assert group_of_cluster(10, 5, 2).tolist() == [0] * 5 + [1] * 5
    assert group_of_cluster(10, 5, 10).tolist() == list(range(10))
    assert group_of_cluster(10, 5, 4).tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]
    assert group_of_cluster(5, 1, 4).tolist() == [0, 1, 1, 2, 3]
    assert group_of_cluster(12, 11, 2).tolist() == [0] * 11 + [1]
    for k in range(2, 13):
        for plus in range(1, k):
            for groups in range(2, k + 1):
                found = group_of_cluster(k, plus, groups).tolist()
                assert sorted(set(found)) == list(range(groups))
                assert not set(found[:plus]) & set(found[plus:])
    with pytest.raises(BadInput, match="label groups"):
        group_of_cluster(4, 2, 5)


def test_the_radius_of_perfect_averaging() -> None:
    law = ClusterLaw(k=10, d=1000)
    for groups, size in ((2, 10), (4, 6), (10, 2)):
        assert averaged_radius(law, group_of_cluster(10, 5, groups)) == pytest.approx(math.sqrt(1000 / size))


# --- CGRO


def followed(
    d: int, n: int, steps: int, relative: float, lam: float = 0.9
) -> tuple[SignalReduction, Kernel, Components]:
    """The reduction of an instance with every point followed, and the exact recursion's end."""
    law = SignalLaw(d=d)
    kernel = Kernel.of(stack([law.compact_instance(n, 6, d**-0.5, stream(0, "data"), stream(0, "init"))]))
    objective = Objective.of(law, n, 3.0 / law.strength**2, lam)
    exact, step = kernel.start(n), recursion_step(kernel, objective)
    for t in range(steps):
        exact = step(exact, t)
    return SignalReduction(law, objective, kernel.gram[0], n, relative), kernel, exact


def strided(
    model: SignalReduction, kernel: Kernel, steps: int
) -> tuple[torch.Tensor, torch.Tensor, list[float], int]:
    """α³U and V at the end, when each V_i passed 1, and how many steps it took."""
    state, step, times, made = (
        model.begin(kernel.u0[0], kernel.v0[0]),
        model.step(steps),
        [-1.0] * model.followed,
        0,
    )
    while True:
        signal, noise = model.outputs(state.u, state.v)
        times = [
            float(state.time) if old < 0 and float(v) >= 1 else old
            for old, v in zip(times, noise, strict=True)
        ]
        if float(state.time) >= steps:
            return signal, noise, times, made
        state, made = step(state, made), made + 1


def test_the_strided_recursion_is_the_exact_one_where_strides_are_one() -> None:
    model, kernel, exact = followed(300, 5, 40, relative=1e-12)
    signal, noise, _, made = strided(model, kernel, 40)
    rates = model.objective.rates(exact.u, exact.v)
    assert made == 40
    assert float(signal) == pytest.approx(float(rates.signal), rel=1e-12)
    torch.testing.assert_close(noise, rates.noise[0], rtol=1e-10, atol=1e-15)


def test_noise_is_what_its_coefficients_made_of_it_and_a_stride_is_as_long_as_little_changes() -> None:
    """v = v(0) + cK at every moment, also after long strides; how long a stride is, written out."""
    model, kernel, _ = followed(300, 5, 1, relative=0.1)
    first, begun = kernel.v0[0], model.begin(kernel.u0[0], kernel.v0[0])
    assert float(begun.time) == 0
    assert torch.equal(begun.c, torch.zeros_like(first))
    state, step, o = begun, model.step(500.0), model.objective
    for t in range(12):
        up, grown = model.velocity(state.u, state.v)
        moved = grown @ model.met()
        rates = [
            float(up.abs().max() / state.u.abs().max()),
            float(moved.abs().max() / state.v.abs().max()),
            float(3 * o.cube * (state.u**2 * up).sum().abs()) / 5,
            float((3 * state.v**2 * moved).view(len(state.u), 5, -1).sum((0, 2)).abs().max()) / 5,
        ]
        assert model.stride(state.u, state.v, up, moved) == max(1.0, math.floor(0.1 / max(rates)))
        before, state = state, step(state, t)
        if float(before.time) < 500:
            stride = min(max(1.0, math.floor(0.1 / max(rates))), 500 - float(before.time))
            assert float(state.time - before.time) == pytest.approx(stride)
        torch.testing.assert_close(state.v, first + state.c @ model.met())
    rest = state._replace(time=torch.tensor(500.0).double())
    assert torch.equal(step(rest, 0).u, rest.u)


def test_strides_keep_the_stages_to_three_per_cent() -> None:
    model, kernel, exact = followed(1000, 8, 4000, relative=0.1)
    signal, noise, times, made = strided(model, kernel, 4000)
    rates = model.objective.rates(exact.u, exact.v)
    assert made < 200
    assert float(signal) == pytest.approx(float(rates.signal), rel=0.01)
    assert float(noise.median()) == pytest.approx(float(rates.noise.median()), rel=0.03)
    assert (exact.memorised_at > 0).all()
    assert times == pytest.approx(exact.memorised_at[0].double().tolist(), rel=0.03)


def test_some_followed_points_stand_for_all_in_law() -> None:
    """The median time of memorisation over draws: a third of the points followed against all."""
    medians: dict[int, list[float]] = {6: [], 18: []}
    for seed in range(6):
        law, n = SignalLaw(d=1000), 18
        kernel = Kernel.of(
            stack([law.compact_instance(n, 6, law.d**-0.5, stream(seed, "data"), stream(seed, "init"))])
        )
        objective = Objective.of(law, n, 3.0 / law.strength**2, 0.9)
        for f, found in medians.items():
            q = 3 * f
            model = SignalReduction(law, objective, kernel.gram[0, :q, :q], f, 0.1)
            part = kernel._replace(v0=kernel.v0[:, :, :q])
            times = [t for t in strided(model, part, 8000)[2] if t > 0]
            found.append(sorted(times)[len(times) // 2])
    few, all_of_them = (sum(found) / len(found) for found in (medians[6], medians[18]))
    assert few == pytest.approx(all_of_them, rel=0.15)


def test_fresh_noise_is_that_of_the_network() -> None:
    """The weights' Gram matrix from c, and V of fresh points from it, against the weights and their outputs."""
    model, kernel, exact = followed(400, 5, 900, relative=0.1)
    instance = stack(
        [SignalLaw(d=400).compact_instance(5, 6, 400**-0.5, stream(0, "data"), stream(0, "init"))]
    )
    w = kernel.weights(instance.w, exact)[0, :, 1:]
    state = model.begin(kernel.u0[0], kernel.v0[0])._replace(u=exact.u[0], v=exact.v[0], c=exact.c[0])
    gram = model.weight_gram(state, kernel.v0[0], 400**-0.5)
    start = instance.w[0, :, 1:]
    known = gram - (1.0 * torch.eye(6).double()) + start @ start.mT
    torch.testing.assert_close(known, w @ w.mT, rtol=1e-9, atol=1e-12)
    normals = torch.randn(7, 3, 6, generator=stream(0, "fresh"), dtype=torch.float64)
    seen = model.law.noise_scale * normals @ torch.linalg.cholesky(gram).mT
    direct = output(torch.eye(6).double(), seen)
    torch.testing.assert_close(model.fresh_noise(gram, normals), direct, rtol=1e-9, atol=1e-15)


def test_the_factor_takes_what_rounding_has_made_singular() -> None:
    gram = torch.tensor([[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 9.0]]).double()
    factor = lower_factor(gram)
    torch.testing.assert_close(factor @ factor.mT, gram)
    torch.testing.assert_close(lower_factor(gram + torch.eye(3)), torch.linalg.cholesky(gram + torch.eye(3)))


def test_the_radius_along_the_signal_turns_the_point() -> None:
    signal, noise, alpha = torch.tensor(12.0).double(), torch.tensor([3.0, -0.5, 0.0]).double(), 5.0
    share = radius_along_signal(signal, noise, alpha) / alpha
    torch.testing.assert_close(signal * (1 - share) ** 3 + noise, torch.zeros(3).double(), rtol=0, atol=1e-12)


# --- AT


def test_the_span_radius_is_a_perturbation_of_the_network_itself() -> None:
    """Margins of the coefficients against a network in R^d under the explicit perturbation."""
    law, spec = (
        PatchLaw(k=3, d=50, patches=6, robust_patches=2, sigma_n=0.0),
        PatchNetSpec(width=4, sigma_0=0.3),
    )
    u, v = law.features()
    w = spec.init(3, 50, stream(3, "init"))
    for i in range(3):
        w[i] += 0.8 * u[i] + 0.5 * v[i]
    batch, state = law.population(), co.from_weights(w, u, v)
    data = co.latents(batch, 3)
    radii = span_radii(spec, state, data)
    assert (radii > 0.05).all()

    def worst(eps: torch.Tensor) -> list[float]:
        found = []
        for y in range(3):
            margins = []
            for j in {0, 1, 2} - {y}:
                x = batch.x[y] + eps[y] * (u[j] + v[j] - u[y] - v[y])
                outputs = spec.net(w)(x[None])[0]
                margins.append(float(outputs[y] - outputs[j]))
            found.append(min(margins))
        return found

    some = torch.tensor([0.1, 0.2, 0.3]).double()
    assert span_margins(spec, state, data, some).tolist() == pytest.approx(worst(some), rel=1e-10)
    assert min(worst(radii * (1 - 1e-6))) > 0
    assert max(worst(radii * (1 + 1e-6))) < 0


def test_the_radius_of_one_feature_alone() -> None:
    """w_i = γ u_i in the polynomial part is robust just below the limit and not above."""
    law, spec = (
        PatchLaw(k=2, d=10, patches=16, robust_patches=1, alpha=2.0, sigma_n=0.0),
        PatchNetSpec(width=1),
    )
    u, v = law.features()
    state = co.from_weights(0.1 * u[:, None, :], u, v)
    limit = feature_radius(2.0, 1, 16, 3)
    assert limit == pytest.approx(2 / (1 + 16 ** (1 / 3)))
    assert span_radii(spec, state, co.latents(law.population(), 2)).tolist() == pytest.approx(
        [limit] * 2, rel=1e-6
    )
