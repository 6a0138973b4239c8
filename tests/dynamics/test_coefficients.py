"""The recursions against gradient descent, and their laws against direct sampling."""

import math

import pytest
import torch
from scipy import stats as sps

from featscope.attacks.patch_training_attack import Directions, PatchTrainingAttack
from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.dynamics import patch_recursion as co
from featscope.dynamics.patch_descent import Weights, training_step
from featscope.dynamics.patch_observables import feature_correlations, orthogonal_part, own_correlations
from featscope.laws.patches import PatchLaw
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.papers.at.scaling_start import expected_maximum, power_run

LAWS = {
    "constant": PatchLaw(k=3, d=60, patches=6, robust_patches=2, sigma_n=0),
    "spread": PatchLaw(
        k=2,
        d=60,
        patches=5,
        robust_patches={"low": 1, "high": 3},
        alpha={"name": "uniform", "low": 1, "high": 3},
        sigma_n=0,
        frame="random",
    ),
}
SPEC = PatchNetSpec(width=10, sigma_0=0.1, rho=0.8)


def setup(name: str):
    law = LAWS[name]
    batch = law.population() if name == "constant" else law.sample(7, stream(0, "data"))
    u, v = law.features()
    w0 = SPEC.init(law.k, law.d, stream(0, "init"))
    return law, batch, co.latents(batch, law.k), u, v, w0


@pytest.mark.parametrize("name", sorted(LAWS))
def test_standard_recursion_is_descent_over_600_steps(name: str) -> None:
    _, batch, data, u, v, w0 = setup(name)
    descent, recursion = (
        training_step(SPEC, batch.x, batch.y, 0.1),
        co.descent(co.standard_velocity(SPEC, data), 0.1),
    )
    weights, state = Weights(w0), co.from_weights(w0, u, v)
    for t in range(600):
        weights, state = descent(weights, t), recursion(state, t)
    assert float((co.reconstruct(state, u, v, w0) - weights.w).abs().max()) < 1e-9
    assert float((weights.w - w0).abs().max()) > 0.3
    assert float(state.time) == pytest.approx(60)


@pytest.mark.parametrize("name", sorted(LAWS))
@pytest.mark.parametrize("step_size", [3.0, 100.0])
def test_adversarial_recursion_is_descent_over_500_steps(name: str, step_size: float) -> None:
    _, batch, data, u, v, w0 = setup(name)
    directions, ascent = (
        Directions(torch.cat([u, v]), w0),
        PatchTrainingAttack(clip="coefficient", eps=0.5, step_size=step_size),
    )
    descent = training_step(
        SPEC, batch.x, batch.y, 0.05, lambda net, x, y: ascent.perturb(net, x, y, directions)
    )
    recursion = co.descent(co.adversarial_velocity(SPEC, data, co.CoefficientClip(0.5, step_size)), 0.05)
    weights, state = Weights(w0), co.from_weights(w0, u, v)
    for t in range(500):
        weights, state = descent(weights, t), recursion(state, t)
    assert float((co.reconstruct(state, u, v, w0) - weights.w).abs().max()) < 1e-9
    assert float((weights.w - w0).abs().max()) > 0.01


def test_merged_patches_give_the_same_recursion() -> None:
    law, batch, merged, u, v, w0 = setup("constant")
    apart = co.Latents(batch.y, batch.robust, batch.amplitude, torch.ones_like(batch.amplitude), law.k)
    assert merged.amplitude.shape[1] == 2
    for velocity in (
        co.standard_velocity,
        lambda s, d: co.adversarial_velocity(s, d, co.CoefficientClip(0.5, 30.0)),
    ):
        one, two = (
            velocity(SPEC, merged)(co.from_weights(w0, u, v)),
            velocity(SPEC, apart)(co.from_weights(w0, u, v)),
        )
        assert torch.allclose(one.u, two.u, atol=1e-13)
        assert torch.allclose(one.outputs, two.outputs, atol=1e-12)


def test_runs_of_the_recursion_are_independent() -> None:
    law, _, data, *_ = setup("constant")
    together = co.draw(5, law.k, 10, 1000, 0.03, stream(0, "draw"))
    sizes = torch.tensor([1.0, 10.0, 50.0, 100.0, 300.0], dtype=torch.float64)
    moved = co.descent(co.adversarial_velocity(SPEC, data, co.CoefficientClip(0.5, sizes)), 0.1)(together, 0)
    for i in range(5):
        alone = co.Coefficients(*(part[i : i + 1] for part in together))
        single = co.descent(
            co.adversarial_velocity(SPEC, data, co.CoefficientClip(0.5, float(sizes[i]))), 0.1
        )(alone, 0)
        assert torch.allclose(moved.u[i], single.u[0], atol=1e-14)
        assert torch.allclose(moved.e[i], single.e[0], atol=1e-14)


def test_output_speed_is_the_derivative_of_the_outputs() -> None:
    _, _, data, u, v, w0 = setup("constant")
    state = co.from_weights(w0, u, v)
    clip = co.CoefficientClip(0.5, 30.0)
    motion = co.adversarial_velocity(SPEC, data, clip)(state)
    x = co.perturb(SPEC, state, data, clip)
    moved = co.descent(lambda _: motion, 1e-7)(state, 0)
    numeric = (
        co.adversarial_pass(SPEC, moved, data, x).outputs - co.adversarial_pass(SPEC, state, data, x).outputs
    ) / 1e-7
    assert torch.allclose(numeric, motion.outputs, atol=1e-5)


def test_initial_coefficients_have_the_law_of_direct_sampling() -> None:
    law = PatchLaw(k=2, d=40, sigma_n=0)
    u, v = law.features()
    spec = PatchNetSpec(width=3, sigma_0=0.2)
    direct = [co.from_weights(spec.init(2, 40, stream(i, "direct")), u, v) for i in range(1500)]
    drawn = co.draw(1500, 2, 3, 40, 0.2, stream(0, "law"))
    for i, j in ((0, 0), (5, 5), (0, 3), (4, 1)):
        a = torch.stack([c.gram[i, j] for c in direct])
        assert sps.ks_2samp(a.numpy(), drawn.gram[:, i, j].numpy()).pvalue > 1e-3
    assert sps.kstest((drawn.u.flatten() / 0.2).numpy(), "norm").pvalue > 1e-3


def test_recursion_runs_at_a_billion_dimensions() -> None:
    state = co.draw(2, 2, 10, 10**9, 10**-4.5, stream(0, "big"))
    assert torch.allclose(
        torch.diagonal(state.gram, dim1=-2, dim2=-1), torch.ones(2, 20, dtype=torch.float64), atol=1e-3
    )
    with pytest.raises(BadInput, match="km"):
        co.draw(1, 2, 100, 150, 0.1, stream(0, "big"))
    with pytest.raises(BadInput, match="2k"):
        co.draw(1, 5, 2, 8, 0.1, stream(0, "big"), gram=False)


def test_small_steps_are_the_limit_of_descent() -> None:
    """At equal time the distance to descent shrinks in proportion to η, and the adaptive steps reach the same
    point."""
    _, _, data, u, v, w0 = setup("constant")
    velocity, horizon = co.standard_velocity(SPEC, data), torch.tensor(8.0, dtype=torch.float64)
    state = co.from_weights(w0, u, v)
    step, t = co.small_steps(velocity, 0.0005, horizon), 0
    while float(state.time) < 8:
        state, t = step(state, t), t + 1
    gaps = []
    for eta in (0.2, 0.1, 0.05):
        other = co.from_weights(w0, u, v)
        for s in range(round(8 / eta)):
            other = co.descent(velocity, eta)(other, s)
        gaps.append(float((other.v - state.v).abs().max()))
    assert gaps[0] / gaps[1] == pytest.approx(2, rel=0.35)
    assert gaps[1] / gaps[2] == pytest.approx(2, rel=0.35)


@pytest.mark.parametrize("q", [3, 4, 5])
@pytest.mark.parametrize("ratio", [0.25, 1.0, 4.0])
def test_tensor_power_iteration_meets_its_integral(q: int, ratio: float) -> None:
    """In the small-step limit y0^{2−q} − y^{2−q} = S (x0^{2−q} − x^{2−q})."""
    y0 = torch.tensor([1e-2, 1e-3], dtype=torch.float64)
    x0 = 1.5 * y0 * ratio ** (1 / (q - 2))
    y = power_run(x0, y0, torch.full_like(y0, ratio), q, 1e-3)
    power = 2 - q
    expected = (y0**power - ratio * (x0**power - 1.0)) ** (1 / power)
    assert torch.allclose(y, expected, rtol=0.02)


def test_expected_maximum_of_gaussians() -> None:
    assert expected_maximum(1) == pytest.approx(0, abs=1e-9)
    assert expected_maximum(2) == pytest.approx(1 / math.sqrt(math.pi), abs=1e-9)
    draws = torch.randn(4000, 50, generator=stream(0, "max"), dtype=torch.float64).amax(-1)
    assert expected_maximum(50) == pytest.approx(
        float(draws.mean()), abs=4 * float(draws.std()) / math.sqrt(4000)
    )


def test_observables_read_the_decomposition() -> None:
    law, _, _, u, v, w0 = setup("constant")
    found = feature_correlations(w0, law)
    assert torch.allclose(own_correlations(found.u)[1], w0[1] @ u[1])
    rest = orthogonal_part(w0, law)
    assert float((rest @ torch.cat([u, v]).mT).abs().max()) < 1e-12
    assert torch.allclose(rest + found.u @ u + found.v @ v, w0, atol=1e-12)
