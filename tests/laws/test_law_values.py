"""The laws' numbers by a second route: every condition of ``check`` against a case computed by hand, met at
equality and unmet beyond it."""

from __future__ import annotations

import hashlib
import math

import pytest
import torch
from scipy import stats as sps

from featscope.core.conditions import Condition
from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.laws.amplitudes import Constant, Count, LogNormal, Uniform
from featscope.laws.cluster_properties import failure_bound, proof_epsilon, properties
from featscope.laws.clusters import ClusterBatch, ClusterLaw, ClusterSetting
from featscope.laws.graph_packing import GraphPackingLaw, packing_levels
from featscope.laws.patches import PatchBatch, PatchLaw, PatchSetting, both_kinds
from featscope.laws.separated import ManifoldLaw, PackingLaw, RadiusSetting, SeparatedLaw, packing_for
from featscope.laws.separation import conflict
from featscope.laws.signal import SignalLaw, SignalSetting

F64 = torch.float64


def found_in(conditions: list[Condition]) -> dict[str, Condition]:
    assert len({c.name for c in conditions}) == len(conditions)
    return {c.name: c for c in conditions}


def says(condition: Condition, value: float, bound: float, met: bool) -> None:
    assert condition.value == pytest.approx(value, rel=1e-12), condition.text
    assert condition.bound == pytest.approx(bound, rel=1e-8), condition.text
    assert condition.met is met, condition.text


def far_points(gap: float = 1.0, norm_trap: float = 0.0) -> PatchBatch:
    """Three points of two patches in the plane: the nearest of different classes are ``gap`` apart in one
    coordinate, two of one class coincide."""
    x = torch.tensor([[[0.0, 0.0]], [[gap, norm_trap]], [[gap, norm_trap]]], dtype=F64)
    y = torch.tensor([0, 1, 1])
    return PatchBatch(x, y, torch.ones(3, 1, dtype=torch.bool), torch.ones(3, 1, dtype=F64))


MIXED = PatchLaw(
    k=2,
    d=36,
    patches=16,
    robust_patches={"low": 1, "high": 3},
    alpha=[{"name": "uniform", "low": 10, "high": 20}, 30.0],
    beta=[0.5, {"name": "uniform", "low": 0.25, "high": 1.0}],
    sigma_n=0.5,
)


def test_patch_conditions_are_those_computed_by_hand() -> None:
    found = found_in(MIXED.check(PatchSetting(1.0, far_points(3.0, 2.5))))
    says(found["A2.3 strong"], 10 / 1.0, 10, True)
    # E α³: (20⁴ − 10⁴)/40 = 3750 and 30³; E β³: 1/8 and (1 − 4⁻⁴)/3. Two robust patches of 16 on average; the
    # worst class each.
    says(found["A2.3 dense"], 14 * 0.125 / (2 * 27000), 10, False)
    says(found["B.3 room"], 36 / 4, 10, False)
    says(found["B.3 noise"], math.log(3), math.log(3), True)
    says(found["B.3 α ≫ ε"], 10, 10, True)
    says(found["B.3 ε > β"], 1.0, 1.0, True)
    says(found["§2.5 ε = Θ(σ_n√d)"], math.log(3), math.log(3), True)
    says(found["2ε-separation"], 3.0, 2.0, True)
    says(found["halfway"], 30.0, 2.0, True)


def test_without_a_radius_only_what_speaks_of_none_is_checked() -> None:
    found = found_in(MIXED.check(PatchSetting(None, far_points(3.0, 2.5))))
    assert set(found) == {"A2.3 strong", "A2.3 dense", "B.3 room", "B.3 noise"}
    assert found == {name: c for name, c in found_in(MIXED.check(PatchSetting(1.0))).items() if name in found}


def test_patch_conditions_are_unmet_just_beyond_their_bounds() -> None:
    found = found_in(MIXED.replace(sigma_n=0.51).check(PatchSetting(1.01, far_points(2.0, 1.9), tau=2.0)))
    says(found["A2.3 strong"], 10.0, 10, True)
    says(found["A2.3 dense"], 14 * 0.25 / (2 * 900), 10, False)
    says(found["B.3 noise"], math.log(3.06), math.log(3), False)
    says(found["B.3 α ≫ ε"], 10 / 1.01, 10, False)
    says(found["B.3 ε > β"], 1.01, 1.0, True)
    says(found["§2.5 ε = Θ(σ_n√d)"], math.log(3.06 / 1.01), math.log(3), False)
    says(found["2ε-separation"], 2.0, 2.02, False)
    short = found_in(MIXED.replace(d=40, sigma_n=0.05).check(PatchSetting(0.99, far_points())))
    says(short["B.3 room"], 10.0, 10, True)
    says(short["B.3 ε > β"], 0.99, 1.0, False)
    says(short["B.3 noise"], -math.log(0.05 * math.sqrt(40)), math.log(3), False)
    weak = found_in(MIXED.replace(alpha=[9.99, 12.0]).check(PatchSetting(6.0, far_points())))
    says(weak["A2.3 strong"], 9.99, 10, False)
    says(weak["halfway"], 12.0, 12.0, True)
    assert not found_in(MIXED.check(PatchSetting(15.01, far_points())))["halfway"].met


def test_patch_conditions_at_their_limits() -> None:
    even = PatchLaw(k=2, d=40, patches=11, robust_patches=1, alpha=1.0, beta=1.0, sigma_n=0.0)
    found = found_in(even.check(PatchSetting(0.0, far_points(1.0, 1.5), norm="L2")))
    says(found["A2.3 dense"], 10.0, 10, True)
    assert found["B.3 noise"].value == math.inf
    assert not found["B.3 noise"].met
    assert found["§2.5 ε = Θ(σ_n√d)"].value == math.inf
    assert found["B.3 α ≫ ε"].value == math.inf
    assert found["B.3 α ≫ ε"].met
    says(found["2ε-separation"], math.hypot(1.0, 1.5), 0.0, True)
    none = found_in(even.replace(robust_patches=0).check(PatchSetting(1.0, far_points())))
    assert none["A2.3 dense"].value == math.inf
    alone = far_points()._replace(y=torch.zeros(3, dtype=torch.long))
    assert found_in(even.check(PatchSetting(1.0, alone)))["2ε-separation"].value == math.inf


def test_conflicts_count_pairs_of_different_labels_only() -> None:
    x = torch.tensor([[0.0, 0.0], [0.6, 0.8], [5.0, 5.0], [5.0, 5.0]], dtype=F64)
    y = torch.tensor([0, 1, 1, 1])
    for norm, reach in (("L2", 1.0), ("Linf", 0.8)):
        touching, apart = conflict(x, y, norm, reach / 2), conflict(x, y, norm, reach / 2 - 1e-9)
        assert touching.bound == pytest.approx(1 - 1 / 4)
        assert touching.share == pytest.approx(1 / 3)
        assert sorted(touching.left.tolist()) == sorted(touching.right.tolist()) == [0, 1]
        assert (apart.bound, apart.share) == (1.0, 0.0)


GOOD = ClusterSetting(n=128, m=2, learning_rate=1024.0**-2, init_weight=2.0**-12.5, init_bias=2.0**-12.5)


def cluster_case(law: ClusterLaw | None = None, **changes: float) -> dict[str, Condition]:
    return found_in((law or ClusterLaw(k=2, d=1024)).check(GOOD._replace(**changes)))


def test_cluster_assumptions_hold_at_equality() -> None:
    found = cluster_case()
    says(found["A3.2"], 0.0, 0.0, True)
    says(found["D3.1"], 1.0, 1.0, True)
    says(found["A3.3"], 1.0, 3.0, True)
    says(found["A4.3.d"], 1024, 1024, True)
    says(found["A4.3.n"], 128, 128, True)
    says(found["A4.3.n-top"], math.log(128), math.log(1024) ** 2, True)
    says(found["A4.3.m"], 1.0, 3.0, True)
    says(found["A4.3.eta"], 2.0**-20, 2.0**-20, True)
    says(found["A4.3.w"], 2.0**-25, 2.0**-25, True)
    says(found["A4.3.b"], 2.0**-25, 2.0**-25, True)


@pytest.mark.parametrize(
    ("name", "law", "changes", "value", "bound"),
    [
        ("A3.2", {"cosine": -0.01}, {}, 0.01, 0),
        ("A3.2", {"cosine": 0.01}, {}, 0.01, 0),
        ("D3.1", {"alpha": 1.5}, {}, 0, 1),
        ("D3.1", {"sigma": 0.5}, {}, 0, 1),
        ("A3.3", {"k": 5, "positive": 1}, {}, 4, 3),
        ("A3.3", {"k": 5, "positive": 4}, {}, 4, 3),
        ("A4.3.d", {"d": 1023}, {}, 1023, 1024),
        ("A4.3.n", {}, {"n": 127}, 127, 128),
        ("A4.3.n-top", {}, {"n": int(math.exp(48.1))}, 48.1, math.log(1024) ** 2),
        ("A4.3.m", {}, {"m": 7}, 3.5, 3),
        ("A4.3.m", {"k": 7}, {"m": 2}, 3.5, 3),
        ("A4.3.eta", {}, {"learning_rate": 1.001 * 2.0**-20}, 1.001 * 2.0**-20, 2.0**-20),
        ("A4.3.w", {}, {"init_weight": 2.0**-12.49}, 2.0**-24.98, 2.0**-25),
        ("A4.3.b", {}, {"init_bias": 2.0**-12.49}, 2.0**-24.98, 2.0**-25),
    ],
)
def test_each_cluster_assumption_fails_alone(
    name: str, law: dict[str, float], changes: dict[str, float], value: float, bound: float
) -> None:
    says(cluster_case(ClusterLaw(**{"k": 2, "d": 1024, **law}), **changes)[name], value, bound, False)


def test_cluster_assumptions_met_at_their_far_end() -> None:
    assert cluster_case(m=6)["A4.3.m"].met
    assert cluster_case(ClusterLaw(k=3, d=1024), m=1)["A4.3.m"].met
    assert cluster_case(ClusterLaw(k=4, d=1024, positive=1))["A3.3"].met
    assert cluster_case(ClusterLaw(k=4, d=1024, positive=3))["A3.3"].met
    assert cluster_case(n=int(math.exp(48.0)))["A4.3.n-top"].met
    unmet = {name for name, c in cluster_case(init_weight=1.0).items() if not c.met}
    assert unmet == {"A4.3.w"}
    assert {name for name, c in cluster_case(init_bias=1.0).items() if not c.met} == {"A4.3.b"}


@pytest.mark.parametrize("mirror", [1.0, -1.0])
def test_the_properties_of_a_training_set_by_plain_loops(mirror: float) -> None:
    """The same noise and its negative: extremes of one sign become extremes of the other."""
    law = ClusterLaw(k=3, d=60, alpha=1.5, sigma=0.7, cosine=0.2)
    batch = law.sample(14, stream(3, "points"))
    centres = 1.5 * law.features()[batch.cluster]
    batch = batch._replace(x=centres + mirror * (batch.x - centres))
    mu, n = law.features(), 14
    xi = (batch.x - 1.5 * mu[batch.cluster]) / 0.7
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    inner = {(i, j): float(batch.x[i] @ batch.x[j]) for i in range(n) for j in range(n)}
    inside = [v / 60 for (i, j), v in inner.items() if i != j and batch.cluster[i] == batch.cluster[j]]
    counts = [int((batch.cluster == j).sum()) for j in range(3)]
    delta = 4 * math.sqrt(60) * math.log(60)
    expected = {
        "1": (max(abs(float(v.norm()) - math.sqrt(60)) for v in xi), 2 * math.log(60)),
        "2": (max(float(v.norm()) for v in batch.x), 3 * math.sqrt(60)),
        "3": (max(abs(float(xi[i] @ xi[j])) for i, j in pairs), delta),
        "4": (max(abs(float(m @ v)) for m in mu for v in xi), delta),
        "5": (max(abs(inner[p]) for p in pairs if batch.cluster[p[0]] != batch.cluster[p[1]]), delta),
        "6": (max(max(v, 1 / max(v, 1e-9)) for v in inside), 2.0),
        "7": (max(abs(c - 14 / 3) for c in counts), math.sqrt(28 / 3) * math.log(14 / 3)),
    }
    found = found_in(properties(law, batch, distinct=True))
    assert list(found) == list(expected)
    for name, (value, bound) in expected.items():
        assert found[name].value == pytest.approx(value, rel=1e-9), name
        assert found[name].bound == pytest.approx(bound, rel=1e-12), name
        assert found[name].met is (value <= bound), name
    assert {name: c.met for name, c in found.items()} == {
        "1": True,
        "2": True,
        "3": True,
        "4": True,
        "5": True,
        "6": False,
        "7": True,
    }


@pytest.mark.parametrize(
    ("product", "met"), [(2.0, True), (2.01, False), (0.5, True), (0.49, False), (-1.0, False)]
)
def test_property_six_stands_between_half_and_twice_d(product: float, met: bool) -> None:
    """Two points of one cluster with inner product ``product``·d."""
    law = ClusterLaw(k=2, d=4)
    x = torch.tensor([[2.0, 0, 0, 0], [2 * product, 1.0, 0, 0], [0, 2.0, 0, 0]], dtype=F64)
    batch = ClusterBatch(x, torch.tensor([1.0, 1, -1]), torch.tensor([0, 0, 1]))
    assert found_in(properties(law, batch, distinct=True))["6"].met is met


def test_the_three_terms_of_the_proofs_epsilon() -> None:
    """Each of the terms is the largest somewhere, and the value there is that term."""
    share = 2**7 / 2
    assert proof_epsilon(ClusterLaw(k=2, d=10**12), 2**7) == pytest.approx(
        2 * math.log(share) / (math.sqrt(share) - math.log(share))
    )
    assert proof_epsilon(ClusterLaw(k=10, d=100), 10**6) == pytest.approx(100 * 4 * math.log(100) / 10)
    assert proof_epsilon(ClusterLaw(k=100, d=10**30), 400) == pytest.approx(100**2 / 400)


def test_the_failure_probability_in_powers() -> None:
    law, n = ClusterLaw(k=3, d=50), 30
    assert failure_bound(law, n) == pytest.approx(
        8 * n**2 * 50 ** (-math.log(50) / 2) + 6 * 10 ** (-math.log(10))
    )


SIGNAL = SignalLaw(d=16, patches=3, alpha=2.0, sigma=0.25, gap=0.5)


def test_signal_conditions_are_those_computed_by_hand() -> None:
    # σ²d = 1, v0 = 2σ0·¼·4 = 2σ0, (α(1−γ))³ = 1, u_p = 2.3/2: N* = 2σ0/1.15.
    assert SIGNAL.critical_samples(0.575) == pytest.approx(1.0)
    assert SIGNAL.radius == 1.0
    assert SIGNAL.class_distance(True) == pytest.approx(math.sqrt(4 * 4 + 4 * 15 / 16))
    assert SIGNAL.class_distance(False) == pytest.approx(math.sqrt(2 * 4 + 4 * 15 / 16))
    found = found_in(SIGNAL.check(SignalSetting(3, 0.5, 0.5, 0.5)))
    says(found["samples"], 3 * 1.15, 0.1, False)
    says(found["radius-same"], 1.0, math.sqrt(19.75) / 2, True)
    says(found["radius-apart"], 1.0, math.sqrt(11.75) / 2, True)
    says(found["start"], 1.0, 1.0, True)
    says(found["step"], 1.0, 1.0, True)
    says(found["tradeoff"], 0.5, 1.0, True)
    says(found["noise"], 0.5, 1.0, True)
    assert SIGNAL.check(SignalSetting(1, 5.76, 0.5, 0.5))[0].met
    assert not SIGNAL.check(SignalSetting(1, 5.74, 0.5, 0.5))[0].met


def test_signal_conditions_fail_one_by_one() -> None:
    def unmet(law: SignalLaw, init: float, rate: float, tradeoff: float) -> set[str]:
        return {c.name for c in law.check(SignalSetting(1, init, rate, tradeoff)) if not c.met} - {"samples"}

    assert unmet(SIGNAL, 0.5, 0.5, 0.5) == set()
    assert unmet(SIGNAL, 0.501, 0.5, 0.5) == {"start"}
    assert unmet(SIGNAL, 0.5, 0.501, 0.5) == {"step"}
    assert unmet(SIGNAL, 0.5, 0.5, 0.499) == {"step"}
    assert unmet(SIGNAL, 0.5, 0.5, 1.0) == {"tradeoff"}
    assert unmet(SIGNAL.replace(sigma=0.5), 0.5, 0.5, 0.5) == set()
    assert unmet(SIGNAL.replace(sigma=0.501), 0.5, 0.5, 0.5) == {"noise"}
    near = SignalLaw(d=100, patches=2, alpha=2.0, sigma=1e-9, gap=0.01)
    assert unmet(near, 0.1, 0.1, 0.5) == {"radius-apart"}
    # Half the distance of two signals at different places is α/√2.
    assert unmet(near.replace(gap=0.2928), 0.1, 0.1, 0.5) == {"radius-apart"}
    assert unmet(near.replace(gap=0.2930), 0.1, 0.1, 0.5) == set()


def test_the_powers_of_d_carry_their_logarithms() -> None:
    law = SignalLaw(d=64, alpha_logs=2.0, gap_logs=0.5)
    assert law.strength == pytest.approx(64**0.249 * math.log(64) ** 2)
    assert law.residual == pytest.approx(1 / (8 * math.sqrt(math.log(64))))
    assert law.noise_scale == pytest.approx(64**-0.509)


def test_a_packing_is_its_grid_with_displaced_labels() -> None:
    law = PackingLaw(D=3, levels=3, margin=0.1, delta_share=0.5, shift_share=0.25)
    assert law.spacing == pytest.approx(0.4)
    assert law.radius == pytest.approx(0.1)
    assert law.shift == pytest.approx(0.025)
    support = law.support()
    assert law.sites == len(support.y) == 9
    assert sorted({round(v, 9) for v in support.x[:, 0].tolist()}) == pytest.approx([0.1, 0.5, 0.9])
    assert len({tuple(row) for row in support.x[:, :2].tolist()}) == 9
    assert torch.allclose(support.x[:, 2], 0.5 + 0.025 * support.y)
    apart = torch.cdist(support.x[support.y > 0], support.x[support.y < 0], p=math.inf)
    assert float(apart.min()) >= law.spacing - 1e-12
    found = found_in(law.check(law.own_radius))
    says(found["separated"], 0.4, 0.2, True)
    says(found["fragile"], 0.025, 0.1, True)
    asked = found_in(law.check(RadiusSetting(0.02)))
    says(asked["separated"], 0.4, 0.04, True)
    says(asked["fragile"], 0.025, 0.02, False)
    says(found_in(law.check(RadiusSetting(0.21)))["separated"], 0.4, 0.42, False)
    assert not torch.equal(law.replace(label_seed=5).support().y, support.y)
    with pytest.raises(BadInput, match="too large"):
        PackingLaw(D=20, levels=3).support()


@pytest.mark.parametrize("norm", ["L2", "Linf"])
def test_a_separated_sample_keeps_its_distance_and_alternates(norm: str) -> None:
    batch = SeparatedLaw(d=3, norm=norm, separation=0.25).sample(20, stream(0, "points"))
    assert batch.y.tolist() == [1.0, -1.0] * 10
    gaps = torch.cdist(batch.x[batch.y > 0], batch.x[batch.y < 0], p=2.0 if norm == "L2" else math.inf)
    assert float(gaps.min()) >= 0.25
    with pytest.raises(BadInput, match="no room"):
        SeparatedLaw(d=1, norm=norm, separation=1.5).sample(4, stream(0, "points"))


def test_the_manifolds_chart_recovers_and_expands_by_its_scale() -> None:
    law = ManifoldLaw(k=2, d=9, levels=3)
    assert law.scale == pytest.approx(1 / (math.sqrt(2) + 2))
    assert law.radius == pytest.approx(law.scale * law.chart.radius)
    z = torch.rand(30, 2, generator=stream(0, "z"), dtype=F64)
    rows, offset = law.reader()
    assert torch.allclose(law.embed(z) @ rows.mT + offset, z, atol=1e-12)
    assert torch.allclose(law.frame() @ law.frame().mT, torch.eye(9, dtype=F64), atol=1e-12)
    x = law.embed(z)
    assert bool((torch.pdist(x) >= law.scale * torch.pdist(z) - 1e-12).all())
    assert float(x.min()) >= 0 and float(x.max()) <= 1  # noqa: PT018
    wave = torch.sin(2 * math.pi * (z[:, 1] + 3 / 9)) * 0.5 / 3
    assert torch.allclose((x - 0.5) @ law.frame()[:, 2 + 3] / law.scale, wave, atol=1e-12)
    # The chart's R = .4 and δ = .4·R/2 = .08, both times the scale in R^9.
    found = found_in(law.check(law.own_radius))
    says(found["separated-embedded"], 0.4 * law.scale, 0.16 * law.scale, True)
    says(found["separated"], 0.4, 0.16, True)
    far = found_in(law.check(RadiusSetting(0.3 * law.scale)))
    says(far["separated-embedded"], 0.4 * law.scale, 0.6 * law.scale, False)
    says(far["separated"], 0.4, 0.6, False)


def test_a_packing_for_a_number_of_sites_has_the_fewest_levels() -> None:
    # 5^3 = 125 and 4^3 = 64; three levels at least
    assert (packing_for(4, 65, 7).levels, packing_for(4, 126, 7).levels, packing_for(9, 2, 7).levels) == (
        5,
        6,
        3,
    )
    assert packing_for(4, 65, 7).label_seed == 7
    says(SeparatedLaw(separation=0.19).check(RadiusSetting(0.1))[0], 0.19, 0.2, False)


@pytest.mark.parametrize(
    ("law", "reference", "low", "high"),
    [
        (Uniform(low=0.5, high=3.0), sps.uniform(0.5, 2.5), 0.5, 3.0),
        (LogNormal(median=2.0, spread=0.4), sps.lognorm(0.4, scale=2.0), 0.0, math.inf),
    ],
)
def test_amplitudes_have_their_distributions_and_supports(
    law: Uniform | LogNormal, reference: object, low: float, high: float
) -> None:
    draw = law.sample((4000,), stream(1, "amplitude"))
    assert sps.kstest(draw.numpy(), reference.cdf).pvalue > 1e-3  # type: ignore[attr-defined]
    assert (law.infimum, law.supremum) == (low, high)
    for power in (1, 2, 3):
        assert law.moment(power) == pytest.approx(float(reference.moment(power)))  # type: ignore[attr-defined]


def test_constants_and_counts_have_theirs() -> None:
    law = Constant(value=3.0)
    assert (law.infimum, law.supremum, law.moment(3)) == (3.0, 3.0, 27.0)
    assert torch.equal(law.sample((2, 2), stream(0)), torch.full((2, 2), 3.0, dtype=F64))
    drawn = torch.bincount(Count(low=2, high=4).sample(6000, stream(0, "count")), minlength=6)
    assert drawn[[0, 1, 5]].tolist() == [0, 0, 0]
    assert sps.chisquare(drawn[2:5].numpy()).pvalue > 1e-3


def test_patches_classes_and_positions_are_uniform() -> None:
    law = PatchLaw(k=3, d=8, patches=5, robust_patches={"low": 1, "high": 2}, sigma_n=0.0)
    batch = law.sample(6000, stream(2, "data"))
    assert sps.chisquare(torch.bincount(batch.y, minlength=3).numpy()).pvalue > 1e-3
    counts = batch.robust.sum(-1)
    assert sorted(set(counts.tolist())) == [1, 2]
    assert sps.chisquare(torch.bincount(counts)[1:].numpy()).pvalue > 1e-3
    single = batch.robust[counts == 1].double().argmax(-1)
    assert sps.chisquare(torch.bincount(single, minlength=5).numpy()).pvalue > 1e-3
    first = law.replace(positions="first").sample(50, stream(2, "data"))
    assert torch.equal(first.robust.long().cumsum(-1)[:, -1:] > torch.arange(5), first.robust)


def test_a_population_has_the_amplitudes_of_its_classes() -> None:
    law = PatchLaw(k=2, d=6, patches=3, robust_patches=1, alpha=[2.0, 3.0], beta=[0.5, 0.25], sigma_n=0.0)
    assert law.population().amplitude.tolist() == [[2.0, 0.5, 0.5], [3.0, 0.25, 0.25]]
    assert law.population().robust.tolist() == [[True, False, False]] * 2
    assert law.beta_supremum == 0.5
    frames = [law.replace(frame="random", frame_seed=seed).features()[0] for seed in (0, 0, 1)]
    assert torch.equal(frames[0], frames[1])
    assert not torch.equal(frames[0], frames[2])


@pytest.mark.parametrize(("low", "high", "good"), [(0, 1, False), (1, 4, False), (1, 3, True)])
def test_growth_lemmas_ask_for_both_kinds(low: int, high: int, good: bool) -> None:
    law = PatchLaw(k=2, d=6, patches=4, robust_patches={"low": low, "high": high})
    if good:
        both_kinds(law)
    else:
        with pytest.raises(BadInput, match="growth"):
            both_kinds(law)


@pytest.mark.parametrize(("k", "plus", "balance"), [(5, 3, 1.5), (4, 2, 1.0), (3, 2, 2.0)])
def test_an_odd_number_of_clusters_gives_the_positive_class_one_more(
    k: int, plus: int, balance: float
) -> None:
    law = ClusterLaw(k=k, d=k)
    assert law.plus == plus
    assert law.signs().tolist() == [1.0] * plus + [-1.0] * (k - plus)
    assert law.balance == pytest.approx(balance)


def test_a_uniform_amplitude_of_no_width_is_a_constant_and_refused() -> None:
    with pytest.raises(BadInput, match="low < high"):
        Uniform(low=1.0, high=1.0)
    assert Uniform(low=1.0, high=1.0 + 1e-9).infimum == 1.0


def test_the_labels_of_sites_are_the_last_bit_of_their_hashes_first_byte() -> None:
    law = PackingLaw(D=4, levels=3, label_seed=7)
    sites = torch.tensor([[0, 0, 0], [0, 1, 2], [2, 2, 1], [1, 0, 2]])
    wanted = [1.0 - 2 * (hashlib.sha256(b"7/" + bytes(row)).digest()[0] % 2) for row in sites.tolist()]
    assert law.label(sites).tolist() == wanted
    assert law.label(sites.view(2, 2, 3)).tolist() == [wanted[:2], wanted[2:]]
    many = PackingLaw(D=2, levels=300)
    first = hashlib.sha256(b"0/" + (299).to_bytes(8, "little")).digest()[0] % 2
    assert many.label(torch.tensor([[299]])).tolist() == [1.0 - 2 * first]
    assert PackingLaw(D=2, levels=256).label(torch.tensor([[255]])).tolist() == [
        1.0 - 2 * (hashlib.sha256(b"0/" + bytes([255])).digest()[0] % 2)
    ]


def test_a_manifolds_frame_has_no_preferred_direction() -> None:
    """The columns of a frame of positive numbers would begin with one of a single sign."""
    for seed in range(3):
        frame = ManifoldLaw(k=2, d=30, seed=seed).frame()
        assert 5 <= int((frame[:, 0] > 0).sum()) <= 25
    assert not torch.equal(ManifoldLaw(seed=0).frame(), ManifoldLaw(seed=1).frame())
    chart = ManifoldLaw(k=3, d=9, levels=4, delta_share=0.3, seed=5).chart
    assert (chart.D, chart.levels, chart.delta_share, chart.label_seed) == (3, 4, 0.3, 5)


def test_features_are_the_rows_of_a_cholesky_factor_and_weights_are_gaussian() -> None:
    law = ClusterLaw(k=4, d=9, cosine=0.3)
    gram = 0.7 * torch.eye(4, dtype=F64) + 0.3
    wanted = torch.zeros(4, 9, dtype=F64)
    wanted[:, :4] = 3 * torch.linalg.cholesky(gram)
    torch.testing.assert_close(law.features(), wanted)
    simplex = ClusterLaw(k=4, d=9, cosine=-1 / 3).features()
    torch.testing.assert_close(simplex @ simplex.mT, 9 * (4 / 3 * torch.eye(4, dtype=F64) - 1 / 3))
    drawn = SignalLaw(d=50).instance(3, 200, 0.5, stream(0, "data"), stream(0, "init"))
    assert sps.kstest(drawn.w.flatten().numpy() / 0.5, "norm").pvalue > 1e-3
    assert drawn.w.shape == (200, 50)


def test_a_graph_packings_conditions_by_hand() -> None:
    """ε = .2 gives three levels, so sites are ½ apart; ε0 is a share of δ."""
    law = GraphPackingLaw(k=3, d=5, eps=0.2, delta=0.15, shift_share=0.5)
    found = found_in(law.check())
    says(found["separated"], 0.5, 0.4, True)
    says(found["radius"], 0.15, 0.2, True)
    says(found["fragile"], 0.075, 0.15, True)
    assert not found_in(law.replace(delta=0.21).check())["radius"].met
    assert (packing_levels(0.25), packing_levels(0.2), packing_levels(0.1), packing_levels(0.49)) == (
        2,
        3,
        5,
        2,
    )
    assert (law.levels, law.sites) == (3, 9)
