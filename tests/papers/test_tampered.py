"""Stored certificates, tampered with field by field: what a file no longer proves is refused, or proves
less."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch

from featscope.attacks.two_layer_radius import exact_radii
from featscope.certificates.at import fooled, matching_bound
from featscope.certificates.cgro import ball_failures, robust_memory
from featscope.certificates.ep import pair_separation
from featscope.certificates.fa import verify
from featscope.core.errors import BadInput
from featscope.nets.two_layer import TwoLayer

Fields = dict[str, np.ndarray]
Tamper = Callable[[Fields], Fields]


def put(name: str, value: object, at: tuple[int, ...] = (0,)) -> Tamper:
    """Replace one entry of a field."""

    def change(fields: Fields) -> Fields:
        array = fields[name].copy()
        array[at] = value
        return fields | {name: array}

    return change


def swap(name: str, new: Callable[[np.ndarray], np.ndarray]) -> Tamper:
    """Replace a field."""
    return lambda fields: fields | {name: new(fields[name])}


# --- AT: explicit perturbations and matchings
# ----------------------------------------------------------------------------------------------

EPS = 0.5


def at_fields() -> Fields:
    """Two classes on two axes, F_i = σ̃(x_i) with q = 2, ϱ = 1: Δ = (−ε, ε) makes both of these points wrong,
    at (.5, .6) and (.6, .5)."""
    w = np.eye(2)[:, None, :]
    x = np.array([[[1.0, 0.1]], [[0.1, 1.0]]])
    delta = np.array([[[-EPS, EPS]], [[EPS, -EPS]]])
    return {"w": w, "x": x, "y": np.array([0, 1]), "delta": delta}


def at_count(fields: Fields) -> int:
    return fooled(fields["w"], fields["x"], fields["y"], fields["delta"], EPS, 2, 1.0)


def test_the_honest_perturbations_of_at_count() -> None:
    assert at_count(at_fields()) == 2
    assert at_count(put("delta", -EPS * (1 + 5e-7), (0, 0, 0))(at_fields())) == 2
    tie = put("delta", np.array([[-0.45, 0.45]]))(at_fields())
    assert at_count(tie) == 2  # F_y = F_j is an error


@pytest.mark.parametrize(
    "tamper",
    [
        put("delta", -EPS * (1 + 2.1e-6), (0, 0, 0)),
        put("delta", EPS * (1 + 2.1e-6), (0, 0, 1)),
        put("delta", 0.0),
        put("y", 1),
        put("x", np.array([[0.1, 1.0]])),
        put("w", 0.0, (1, 0, 1)),
    ],
)
def test_a_tampered_perturbation_of_at_does_not_count(tamper: Tamper) -> None:
    assert at_count(tamper(at_fields())) <= 1


@pytest.mark.parametrize(
    "tamper",
    [
        put("delta", np.nan, (0, 0, 0)),
        put("x", np.inf, (0, 0, 0)),
        put("w", np.nan, (0, 0, 0)),
        put("y", 2),
        put("y", -1),
        swap("y", lambda y: y.astype(float)),
        swap("y", lambda y: y[:1]),
        swap("delta", lambda d: d[:1]),
        swap("x", lambda x: x[..., :1]),
        swap("w", lambda w: w[0]),
    ],
)
def test_what_is_no_certificate_of_at_is_refused(tamper: Tamper) -> None:
    with pytest.raises(BadInput, match="run the experiment again"):
        at_count(tamper(at_fields()))


def matching_fields() -> Fields:
    x = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [4.0, 0.0], [9.0, 9.0]])
    return {
        "x": x,
        "y": np.array([0, 1, 0, 1, 0]),
        "left": np.array([0, 1, 2, 3]),
        "right": np.array([1, 0, 3, 2]),
    }


def bound(fields: Fields, eps: float = EPS) -> float | None:
    return matching_bound(fields["x"], fields["y"], fields["left"], fields["right"], eps)


def test_the_honest_matching_proves_its_bound() -> None:
    assert bound(matching_fields()) == pytest.approx(1 - 4 / 10)
    assert bound(matching_fields(), EPS * (1 - 5e-7)) == pytest.approx(0.6)
    fewer = matching_fields() | {"left": np.array([0]), "right": np.array([1])}
    assert bound(fewer) == pytest.approx(0.9)


@pytest.mark.parametrize(
    "tamper",
    [
        put("left", 1),
        put("right", 0),
        put(
            "left", -5
        ),  # −5 is point 0 of five: the same point by another name, with a repetition on neither list
        put("right", -4),
        put("left", 5),
        put("y", 1),
        put("y", 0, (1,)),
        put("x", 1.0 + 2.1e-6, (1, 0)),
        put("x", np.nan, (4, 0)),
        swap("left", lambda a: a[:3]),
        swap("left", lambda a: a.astype(float)),
        swap("left", lambda a: a[None]),
        swap("y", lambda a: a[:4]),
    ],
)
def test_a_tampered_matching_is_refused(tamper: Tamper) -> None:
    assert bound(tamper(matching_fields())) is None
    assert bound(matching_fields(), EPS * (1 - 2.1e-6)) is None


# --- FA: radii
# -----------------------------------------------------------------------------------------------------------------------------


def fa_fields() -> Fields:
    """f = ReLU(3x₁) − ReLU(4x₂) + …: one point of each class, with a neuron more of either class."""
    w = torch.tensor(
        [[3.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 4.0, 0.0], [0.0, 0.0, -2.0]], dtype=torch.float64
    )
    net = TwoLayer(
        w,
        torch.tensor([0.5, 0.1, 0.2, -0.3], dtype=torch.float64),
        torch.tensor([0.5, 0.5, -0.5, -0.5], dtype=torch.float64),
    )
    x, y = (
        torch.tensor([[2.0, 0.3, 0.4], [0.1, 1.5, 0.2]], dtype=torch.float64),
        torch.tensor([1.0, -1.0], dtype=torch.float64),
    )
    found = exact_radii(net, x, y)
    names = ("w", "b", "a", "x", "y", "delta", "certificate")
    return {
        name: t.numpy() for name, t in zip(names, (*net, x, y, found.delta, found.certificate), strict=True)
    }


def settled(fields: Fields) -> list[bool]:
    return verify(*fields.values()).settled(1e-5).tolist()


def test_the_honest_radii_are_settled() -> None:
    fields = fa_fields()
    assert settled(fields) == [True, True]
    proof = verify(*fields.values())
    assert (proof.lower <= proof.upper).all()
    assert proof.upper == pytest.approx(np.linalg.norm(fields["delta"], axis=1), rel=2e-6)


@pytest.mark.parametrize("point", [0, 1])
@pytest.mark.parametrize(
    "tamper",
    [
        lambda i: put("delta", fa_fields()["delta"][i] * (1 - 3e-6), (i,)),
        lambda i: put("delta", fa_fields()["delta"][i] * 1.01, (i,)),
        lambda i: put("delta", 0.0, (i,)),
        lambda i: put("delta", np.inf, (i,)),
        lambda i: put("y", -fa_fields()["y"][i], (i,)),
        lambda i: put("certificate", np.nan, (i,)),
        lambda i: put("certificate", 0.0, (i,)),
        lambda i: put("certificate", 1.01 * fa_fields()["certificate"][i], (i,)),
        lambda i: put("certificate", -1e-6, (i,)),
        lambda i: put("certificate", 1 + 1e-6, (i, slice(1, None))),
        lambda i: put("x", fa_fields()["x"][i] * 1.01, (i,)),
    ],
)
def test_a_tampered_radius_is_not_settled(tamper: Callable[[int], Tamper], point: int) -> None:
    found = settled(tamper(point)(fa_fields()))
    assert not found[point]
    assert found[1 - point]


@pytest.mark.parametrize(
    "tamper",
    [
        put("w", np.nan, (0, 0)),
        put("delta", np.nan, (0, 0)),
        put("x", np.inf, (0, 0)),
        put("y", 0.0),
        put("y", np.nan),
        swap("y", lambda y: y[:1]),
        swap("delta", lambda d: d[:1]),
        swap("x", lambda x: x[:, :2]),
        swap("b", lambda b: b[:1]),
        swap("certificate", lambda c: c[:, :2]),
        swap("certificate", lambda c: c[..., :1]),
        swap("certificate", lambda c: c[:1]),
    ],
)
def test_what_is_no_certificate_of_fa_is_refused(tamper: Tamper) -> None:
    with pytest.raises(BadInput, match="run the experiment again"):
        verify(*tamper(fa_fields()).values())


def test_vectors_outside_the_unit_cube_prove_nothing_though_they_would_prove_more() -> None:
    """f = ReLU(x₁) + ReLU(x₂) at (2, −3) has radius 2; u = (1, −5) would prove 17/√26 = 3.3."""
    net = [
        np.eye(2),
        np.zeros(2),
        np.ones(2),
        np.array([[2.0, -3.0]]),
        np.array([1.0]),
        np.array([[-2.0, 0.0]]),
    ]
    for u, proved in (((1.0, 0.0), 2.0), ((1.0, -5.0), 0.0)):
        certificate = np.zeros((1, 4, 2))
        certificate[0, 0] = u
        assert verify(*net, certificate).lower[0] == proved


# --- CGRO: perturbations in the ball, and memory -------------------------------------------------------------------------------------------


def cgro_fields() -> Fields:
    """One weight along the first axis: Δ of norm 1 against y moves the first projection from ±.9 over zero."""
    x = np.array([[[0.9, 0.0], [0.0, 0.5]], [[-0.9, 0.0], [0.0, 0.5]]])
    delta = np.array([[[-0.6, 0.0], [-0.8, 0.0]], [[0.6, 0.0], [0.8, 0.0]]])
    return {"w": np.array([[1.0, 0.0]]), "x": x, "y": np.array([1.0, -1.0]), "delta": delta}


def failures(fields: Fields, radius: float = 1.0) -> int:
    return int(ball_failures(fields["w"], fields["x"], fields["y"], fields["delta"], radius)["failures"])


def test_the_honest_failures_count() -> None:
    found = ball_failures(*cgro_fields().values(), 1.0)
    assert found == {
        "points": 2,
        "failures": 2,
        "wrong_clean": 0,
        "largest_norm": pytest.approx(1.0),
        "radius": 1.0,
    }
    assert failures(cgro_fields(), 1 - 5e-10) == 2


@pytest.mark.parametrize(
    "tamper",
    [
        put("delta", -0.8 - 1e-6, (0, 1, 0)),
        put("delta", 0.0),
        put("y", -1.0),
        put("x", 2.0, (0, 0, 0)),
        put("x", -0.9, (0, 0, 0)),
    ],
)
def test_a_tampered_failure_does_not_count(tamper: Tamper) -> None:
    assert failures(tamper(cgro_fields())) == 1
    assert failures(cgro_fields(), 1 - 1e-6) == 0


@pytest.mark.parametrize(
    "tamper",
    [
        put("delta", np.nan, (0, 0, 0)),
        put("w", np.nan, (0, 0)),
        put("x", np.inf, (0, 0, 0)),
        put("y", 0.0),
        put("y", 2.0),
        swap("y", lambda y: y[:1]),
        swap("delta", lambda d: d[:1]),  # would broadcast over all points
        swap("delta", lambda d: d[:, :1]),
        swap("x", lambda x: x[..., :1]),
    ],
)
def test_what_is_no_failure_is_refused(tamper: Tamper) -> None:
    with pytest.raises(BadInput, match="run the experiment again"):
        failures(tamper(cgro_fields()))


def memory_fields() -> Fields:
    """The nearest points of different labels are 25/64 apart, a number without rounding."""
    return {"x": np.array([[0.0, 0.5], [0.390625, 0.5], [1.0, 1.0]]), "y": np.array([1.0, -1.0, -1.0])}


def memory(
    fields: Fields, delta: float = 0.15625, separation: float = 0.390625 + 1 / 128
) -> tuple[bool, bool]:
    found = robust_memory(fields["x"], fields["y"], delta, separation)
    return bool(found["separated"]), bool(found["wide_enough"])


def test_memory_is_decided_without_rounding() -> None:
    separation = Fraction(0.390625) + Fraction(1, 128)
    room = separation - 2 * Fraction(0.15625)
    assert separation - room / 8 <= Fraction(0.390625)
    assert memory(memory_fields()) == (True, True)
    # The least separation that a gap of .390625 still proves, for this δ, is R = (8·gap − 2δ)/7; one float above, it does not.
    edge = 2.8125 / 7
    assert memory(memory_fields(), 0.15625, np.nextafter(edge, 0)) == (True, True)
    assert memory(memory_fields(), 0.15625, np.nextafter(edge, 1)) == (False, True)
    assert memory(memory_fields(), 0.2, 0.4) == (False, False)
    assert robust_memory(**memory_fields(), delta=0.1, separation=0.3)["least"] == 0.390625
    alone = robust_memory(np.array([[0.0, 0.0]]), np.array([1.0]), 0.1, 0.3)
    assert alone == {"separated": True, "wide_enough": True, "least": None}


def test_memory_of_float32_points_is_exact_too() -> None:
    x = np.array([[0.1, 0.0], [0.3, 0.0]], dtype=np.float32)
    least = robust_memory(x, np.array([1.0, -1.0]), 0.05, 0.15)["least"]
    assert least == float(Fraction(float(x[1, 0])) - Fraction(float(x[0, 0])))


@pytest.mark.parametrize(
    "tamper", [put("x", 0.38, (1, 0)), put("y", 1.0, (1,)), put("x", np.array([0.1, 0.5]), (2,))]
)
def test_points_that_come_too_close_are_seen(tamper: Tamper) -> None:
    found = robust_memory(**tamper(memory_fields()), delta=0.15625, separation=0.3984375)
    assert found["least"] != 0.390625
    assert found["separated"] == (found["least"] > 0.390625)


@pytest.mark.parametrize(
    "tamper",
    [
        put("x", np.nan, (0, 0)),
        put("y", 0.0),
        put("y", np.nan),
        swap("y", lambda y: y[:2]),
        swap("x", lambda x: x[0]),
    ],
)
def test_what_is_no_memory_is_refused(tamper: Tamper) -> None:
    with pytest.raises(BadInput, match="run the experiment again"):
        memory(tamper(memory_fields()))
    for delta, separation in ((math.nan, 0.4), (0.1, math.inf), (-0.1, 0.4)):
        with pytest.raises(BadInput, match="run the experiment again"):
            memory(memory_fields(), delta, separation)


# --- EP: pairs of images -------------------------------------------------------------------------------------------------------------------


def test_a_pair_of_images_is_measured_in_bytes_and_refused_if_it_is_none() -> None:
    left, right, labels = (
        np.array([[0, 10], [250, 7]], dtype=np.uint8),
        np.array([[3, 10], [12, 255]], dtype=np.uint8),
        np.array([3, 5]),
    )
    assert pair_separation(left, right, labels) == 248 / 255
    assert pair_separation(right, left, labels) == 248 / 255
    for wrong in (
        (left, right, np.array([3, 3])),
        (left, right[:1], labels),
        (left, right.astype(np.float64), labels),
        (left, right, np.array([3.0, np.nan])),
        (left, right, np.array([3, 5, 7])),
        (left[:0], right[:0], labels),
    ):
        assert pair_separation(*wrong) is None
