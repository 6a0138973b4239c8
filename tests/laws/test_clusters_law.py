"""The cluster law: its geometry, its compact copy in law, its assumptions, and its refusals."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sps

from featscope.attacks.two_layer_radius import exact_radii
from featscope.cli.main import invoke
from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.dynamics.cluster_descent import binary_step, start_binary
from featscope.laws.cluster_properties import _gram, cross_bound, failure_bound, proof_epsilon, properties
from featscope.laws.clusters import ClusterLaw, ClusterSetting
from featscope.nets.two_layer import TwoLayer, forward, output_weights


@settings(max_examples=25, deadline=None)
@given(k=st.integers(2, 9), extra=st.integers(0, 30), share=st.floats(-0.95, 0.95))
def test_features_have_norm_root_d_and_the_prescribed_cosine(k: int, extra: int, share: float) -> None:
    cosine = share if share >= 0 else share / (k - 1)
    law = ClusterLaw(k=k, d=k + extra, cosine=cosine)
    gram = law.features() @ law.features().mT / law.d
    wanted = (1 - cosine) * torch.eye(k, dtype=torch.float64) + cosine
    assert torch.allclose(gram, wanted, atol=1e-12)


def test_points_are_centres_plus_noise_with_their_labels() -> None:
    law = ClusterLaw(k=4, d=50, positive=1, alpha=2.0, sigma=0.5, probabilities=(0.7, 0.1, 0.1, 0.1))
    batch = law.sample(20000, stream(0, "points"))
    assert torch.equal(batch.y > 0, batch.cluster == 0)
    assert abs(float((batch.cluster == 0).double().mean()) - 0.7) < 0.02
    noise = (batch.x - 2.0 * law.features()[batch.cluster]) / 0.5
    assert sps.kstest(noise[:, 7].numpy(), "norm").pvalue > 1e-3
    assert torch.allclose(law.noise_norms(batch), (noise * noise).sum(-1))


def _measure(compact: bool, seed: int) -> dict[str, float]:
    """One training run: Gram entries, a training margin, a test margin and an exact radius."""
    law = ClusterLaw(k=4, d=300)
    n, m = 40, 2
    drawn = law.draw(n, 2 * m, seed, compact=compact)
    a = output_weights(m)
    state = start_binary(drawn.directions, n, 1e-4, 1e-4, stream(seed, "init", "bias"))
    step = binary_step(drawn.train, a, 0.02)
    for t in range(30):
        state = step(state, t)
    net = TwoLayer(state.w, state.b, a)
    test = law.sample(3, stream(seed, "data", "test"), drawn.features.shape[1])
    exact = exact_radii(net, test.x[:1], test.y[:1])
    gram = drawn.train.x[:3] @ drawn.train.x[:3].mT
    same = float(drawn.train.cluster[0] == drawn.train.cluster[1])
    return {
        "norm": float(gram[0, 0]),
        "inner": float(gram[0, 1]) - same * law.d,
        "margin": float(drawn.train.y[0] * forward(net, drawn.train.x[:1])[0]),
        "test": float(test.y[0] * forward(net, test.x[:1])[0]),
        "radius": float(exact.upper[0]),
        "weight": float(torch.linalg.vector_norm(state.w[0])),
    }


def test_the_compact_copy_has_the_law_of_direct_sampling() -> None:
    direct = [_measure(False, seed) for seed in range(250)]
    copies = [_measure(True, 10_000 + seed) for seed in range(250)]
    for key in direct[0]:
        assert sps.ks_2samp([row[key] for row in direct], [row[key] for row in copies]).pvalue > 1e-3, key


def test_a_compact_training_set_is_a_staircase_and_knows_it() -> None:
    drawn = ClusterLaw(k=3, d=10**9).draw(20, 5, 0, compact=True)
    assert drawn.train.x.shape == (20, 28)
    for i in range(20):
        assert not drawn.train.x[i, drawn.train.width(i + 1) :].any()
    assert not drawn.train.x[:, 23:].any()
    assert float(torch.linalg.vector_norm(drawn.train.x[0])) == pytest.approx(math.sqrt(2e9), rel=1e-3)


def test_the_same_seed_gives_the_same_draw_and_streams_do_not_mix() -> None:
    law = ClusterLaw(k=3, d=40)
    one, two = law.draw(10, 2, 5, compact=False), law.draw(10, 4, 5, compact=False)
    assert torch.equal(one.train.x, two.train.x)
    assert torch.equal(one.directions, two.directions[:2])


def test_properties_agree_with_a_direct_computation() -> None:
    law = ClusterLaw(k=3, d=500, alpha=1.5, sigma=0.7)
    batch = law.draw(60, 1, 0, compact=True).train
    found = {c.name: c for c in properties(law, batch, distinct=False)}
    gram = batch.x @ batch.x.mT
    same = batch.cluster[:, None] == batch.cluster[None]
    assert found["5"].value == pytest.approx(float(gram[~same].abs().max()))
    inside = gram[same] / law.d
    assert found["6"].value == pytest.approx(float(torch.maximum(inside, 1 / inside).max()))
    noise = (batch.x - 1.5 * law.features(batch.x.shape[1])[batch.cluster]) / 0.7
    assert found["3"].value == pytest.approx(
        max(abs(float(noise[i] @ noise[j])) for i in range(60) for j in range(i))
    )
    assert found["7"].value == pytest.approx(max(abs(int((batch.cluster == j).sum()) - 20) for j in range(3)))


def test_property_six_fails_on_the_diagonal_and_holds_off_it() -> None:
    law = ClusterLaw(k=3, d=3**10)
    batch = law.draw(200, 1, 0, compact=True).train
    assert not {c.name: c for c in properties(law, batch, distinct=False)}["6"].met
    assert {c.name: c for c in properties(law, batch, distinct=True)}["6"].met


def test_assumption_four_three_at_its_own_sizes() -> None:
    k = 3
    law, d = ClusterLaw(k=k, d=k**10), k**10
    eta = float(d) ** -2
    good = ClusterSetting(k**7, 2, eta, math.sqrt(eta * k**-5), math.sqrt(eta * k**-5))
    assert all(c.met for c in law.check(good))
    train = law.draw(k**4, 4, 0, compact=True).train
    assert [c.name for c in properties(law, train, distinct=True)] == list("1234567")
    bad = {c.name for c in law.check(good._replace(n=100, learning_rate=1e-3)) if not c.met}
    assert bad == {"A4.3.n", "A4.3.eta"}
    assert proof_epsilon(law, k**7) == pytest.approx(1.63, abs=0.01)
    assert proof_epsilon(ClusterLaw(k=4, d=4**10), 4**7) == pytest.approx(0.87, abs=0.01)
    assert failure_bound(law, k**7) < 1e-15
    assert cross_bound(d) == pytest.approx(4 * math.sqrt(d) * math.log(d))


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"k": 10, "d": 8}, "k must be at most d.*k=10, d=8"),
        ({"k": 4, "cosine": -0.5}, "positive semidefinite.*cosine=-0.5"),
        ({"k": 4, "cosine": 1.0}, "positive semidefinite"),
        ({"k": 4, "positive": 0}, "both classes need a cluster"),
        ({"k": 4, "positive": 4}, "both classes need a cluster"),
        ({"k": 2, "probabilities": (0.5, 0.6)}, "sum to 1"),
        ({"k": 3, "positive": 1, "probabilities": (0.0, 0.5, 0.5)}, "both classes need probability"),
    ],
)
def test_impossible_laws_are_refused_with_a_remedy(fields: dict[str, object], match: str) -> None:
    with pytest.raises(BadInput, match=match):
        ClusterLaw(**fields)


@pytest.mark.parametrize(
    "setting",
    [["k=10", "d=8"], ["cosine=-0.2"], ["n=5"], ["positive=0"], ["positive=10"], ["compact=true", "n=4000"]],
)
def test_the_command_line_says_it_in_one_line(
    setting: list[str], tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", "clusters-fig2", "--out", str(tmp_path)]
    for assignment in setting:
        arguments += ["--set", assignment]
    assert invoke(arguments) == 2
    captured = capsys.readouterr().err
    assert captured.startswith("error: ")
    assert captured.count("\n") == 1
    assert ";" in captured


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("block", [1, 3, 10, 256])
def test_inner_products_do_not_depend_on_the_blocks(compact: bool, block: int) -> None:
    train = ClusterLaw(k=3, d=40).draw(10, 2, 0, compact=compact).train
    torch.testing.assert_close(_gram(train, block), train.x @ train.x.mT, rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_noise_that_meets_is_measured_whatever_its_sign(seed: int) -> None:
    law = ClusterLaw(k=2, d=30)
    batch = law.sample(6, seed=seed)
    noise = (batch.x - law.alpha * law.features()[batch.cluster]) / law.sigma
    inner = (noise @ noise.mT).fill_diagonal_(0)
    found = {condition.name: condition.value for condition in properties(law, batch, True)}
    assert found["3"] == pytest.approx(float(inner.abs().max()))
