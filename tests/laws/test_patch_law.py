"""The patch law against its definition, and the bound on every classifier against brute force."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sps

from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.laws.amplitudes import Constant, LogNormal, Uniform
from featscope.laws.patches import PatchLaw, PatchSetting, stack
from featscope.laws.separation import conflict


@settings(max_examples=25)
@given(
    k=st.integers(2, 4),
    patches=st.integers(1, 8),
    frame=st.sampled_from(["axes", "random"]),
    seed=st.integers(0, 999),
)
def test_samples_have_the_defined_form(k: int, patches: int, frame: str, seed: int) -> None:
    law = PatchLaw(
        k=k,
        d=2 * k + 5,
        patches=patches,
        robust_patches={"low": 0, "high": patches},
        sigma_n=0.0,
        frame=frame,
    )
    batch = law.sample(30, stream(seed, "data"))
    u, v = law.features()
    basis = torch.cat([u, v])
    assert torch.allclose(basis @ basis.mT, torch.eye(2 * k, dtype=torch.float64), atol=1e-12)
    for n in range(30):
        for p in range(patches):
            feature = u[batch.y[n]] if batch.robust[n, p] else v[batch.y[n]]
            assert torch.allclose(batch.x[n, p], (2.0 if batch.robust[n, p] else 1.0) * feature)


def test_noise_is_gaussian_with_the_given_scale() -> None:
    law = PatchLaw(sigma_n=0.3)
    batch = law.sample(200, stream(0, "noise"))
    noise = (batch.x - law.signal(batch.y, batch.robust, batch.amplitude)).flatten()
    assert sps.kstest((noise / 0.3).numpy()[:20000], "norm").pvalue > 1e-3


def test_restricted_samples_lose_one_kind_of_feature_and_keep_the_noise() -> None:
    law = PatchLaw(robust_patches=3)
    batch = law.sample(50, stream(0, "data"))
    noise = batch.x - law.signal(batch.y, batch.robust, batch.amplitude)
    robust, other = law.restrict(batch, "robust"), law.restrict(batch, "non-robust")
    assert torch.allclose(robust.x[~batch.robust], noise[~batch.robust], atol=1e-12)
    assert torch.equal(robust.x[batch.robust], batch.x[batch.robust])
    assert torch.allclose(robust.x + other.x, batch.x + noise, atol=1e-12)


def test_amplitudes_can_differ_by_class() -> None:
    law = PatchLaw(alpha=[3.0, {"name": "uniform", "low": 5, "high": 6}], sigma_n=0)
    batch = law.sample(100, stream(0, "data"))
    strong = batch.amplitude[batch.robust]
    labels = batch.y[:, None].expand_as(batch.robust)[batch.robust]
    assert (strong[labels == 0] == 3).all()
    assert ((strong[labels == 1] >= 5) & (strong[labels == 1] <= 6)).all()


@pytest.mark.parametrize(
    "law", [Constant(value=1.7), Uniform(low=1, high=3), LogNormal(median=2, spread=0.4)]
)
@pytest.mark.parametrize("power", [1.0, 3.0])
def test_moments_are_those_of_the_samples(law: Constant | Uniform | LogNormal, power: float) -> None:
    draw = law.sample((200000,), stream(0, "moment")) ** power
    error = 5 * float(draw.std()) / math.sqrt(len(draw)) + 1e-9
    assert float(draw.mean()) == pytest.approx(law.moment(power), abs=error)


def test_train_and_test_are_two_samples_of_one_law() -> None:
    law = PatchLaw()
    one, two = law.sample(5, stream(0, "data", "train")), law.sample(5, stream(0, "data", "test"))
    assert not torch.equal(one.x, two.x)
    assert torch.equal(one.x, law.sample(5, stream(0, "data", "train")).x)
    assert stack([one, two]).x.shape == (2, 5, 16, 100)


def largest_robust_set(x: torch.Tensor, y: torch.Tensor, eps: float) -> int:
    """The largest set of points without a pair of different labels at distance ≤ 2ε, by enumeration."""
    n = len(y)
    bad = [
        (i, j)
        for i in range(n)
        for j in range(i)
        if y[i] != y[j] and float((x[i] - x[j]).abs().max()) <= 2 * eps
    ]
    for size in range(n, 0, -1):
        for chosen in itertools.combinations(range(n), size):
            kept = set(chosen)
            if not any(i in kept and j in kept for i, j in bad):
                return size
    return 0


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 3), eps=st.floats(0.05, 1.0))
def test_matching_bounds_every_classifier(seed: int, k: int, eps: float) -> None:
    x = torch.randn(9, 2, 2, generator=stream(seed, "x"), dtype=torch.float64)
    y = torch.randint(0, k, (9,), generator=stream(seed, "y"))
    found = conflict(x, y, "Linf", eps)
    best = largest_robust_set(x, y, eps)
    assert best <= 9 * found.bound + 1e-9
    if k == 2:
        # Kőnig: for two classes the bound is attained.
        assert best == round(9 * found.bound)


def test_figure_3_law_forbids_robustness_above_one_half() -> None:
    law = PatchLaw()
    batch = law.sample(300, stream(0, "data"))
    found = conflict(batch.x, batch.y, "Linf", 1.2)
    met = {c.name: c.met for c in law.check(PatchSetting(1.2, batch))}
    assert found.share > 0.98
    assert 0.5 <= found.bound < 0.56
    assert not met["2ε-separation"]
    assert not met["A2.3 strong"]
    assert met["B.3 ε > β"]
    few = law.sample(100, stream(0, "data"))
    assert conflict(few.x, few.y, "Linf", 0.01).bound == 1.0


def test_population_is_one_point_a_class() -> None:
    law = PatchLaw(k=3, d=20, patches=4, robust_patches=1, sigma_n=0)
    batch = law.population()
    assert batch.y.tolist() == [0, 1, 2]
    assert torch.equal(batch.x, law.signal(batch.y, batch.robust, batch.amplitude))
    with pytest.raises(BadInput, match="population"):
        PatchLaw(alpha={"name": "uniform", "low": 1, "high": 2}).population()


@pytest.mark.parametrize(
    "bad",
    [
        {"k": 10, "d": 8},
        {"k": 1},
        {"sigma_n": -0.1},
        {"sigma_n": math.nan},
        {"alpha": 0},
        {"alpha": -2.0},
        {"beta": [1.0]},
        {"robust_patches": 17},
        {"robust_patches": {"low": 3, "high": 2}},
        {"frame": "tilted"},
        {"patches": 0},
        {"alpah": 2},
        {"alpha": {"name": "uniform", "low": 2, "high": 1}},
    ],
)
def test_bad_laws_are_refused_in_one_line(bad: dict[str, object]) -> None:
    with pytest.raises(BadInput) as caught:
        PatchLaw(**bad)
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value)
