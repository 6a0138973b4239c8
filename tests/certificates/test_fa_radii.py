"""Radii of two-layer networks, re-verified: by hand where classes have unlike numbers of neurons, where a neuron
does not count, and where a rival cancels an own neuron."""

import math

import numpy as np
import pytest

from featscope.certificates.fa import network, verify

#: f = 2·ReLU(x₁) + 0·ReLU(x₂) − |x₂|; the second neuron belongs to no class
W = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, -1.0]])
B, A = np.zeros(4), np.array([2.0, 0.0, -1.0, -1.0])


def test_unlike_numbers_of_neurons_and_one_that_does_not_count() -> None:
    """From (2, 1), f = 3, the line 2x₁ = x₂ is 3/√5 away; from (½, 2), f = −1, it is 1/√5 away."""
    x, y = np.array([[2.0, 1.0], [0.5, 2.0]]), np.array([1.0, -1.0])
    assert network(W, B, A, x).tolist() == [3.0, -1.0]
    # Own and rival swap roles with the label. What lies beside a point's own neurons is not its certificate.
    certificate = np.full((2, 4, 2), 7.0)
    certificate[0, :, 0] = 1.0
    certificate[1, :] = (1.0, 0.0)
    delta = np.array([[-1.2, 0.6], [0.4, -0.2]])
    found = verify(W, B, A, x, y, delta, certificate)
    assert found.lower.tolist() == pytest.approx([3 / math.sqrt(5), 1 / math.sqrt(5)], rel=1e-12)
    assert found.upper.tolist() == pytest.approx([3 / math.sqrt(5), 1 / math.sqrt(5)], rel=2e-6)
    assert found.settled(1e-5).tolist() == [True, True]
    assert found.settled(1e-8).tolist() == [False, False]


def test_a_vector_outside_the_unit_box_proves_nothing() -> None:
    x, y, delta = np.array([[2.0, 1.0]]), np.array([1.0]), np.array([[-1.2, 0.6]])
    for u, lower in ((1.0, 3 / math.sqrt(5)), (1.1, 0.0), (-0.1, 0.0)):
        assert verify(W, B, A, x, y, delta, np.full((1, 4, 2), u)).lower[0] == pytest.approx(lower)


def test_a_rival_that_cancels_the_own_neuron_leaves_no_distance() -> None:
    """ReLU(x₁) − ReLU(x₁) is 0 everywhere: a point of class 1 is wrong where it stands. With a larger bias the own
    neuron wins everywhere, and no perturbation of any length is needed to say so."""
    w, a = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([1.0, -1.0])
    x, y, delta, u = np.array([[3.0, 0.0]]), np.array([1.0]), np.full((1, 2), np.inf), np.ones((1, 2, 1))
    equal = verify(w, np.zeros(2), a, x, y, delta, u)
    assert (equal.lower[0], equal.upper[0]) == (0.0, math.inf)
    ahead = verify(w, np.array([0.5, 0.0]), a, x, y, delta, u)
    # with no rival active the own neuron is 3.5 away from its end; with the rival it is always ½ ahead
    assert ahead.lower[0] == pytest.approx(3.5)
    behind = verify(w, np.array([-0.5, 0.0]), a, x, y, delta, u)
    assert behind.lower[0] == 0.0


def test_for_the_other_class_a_tie_forbids_to_enter() -> None:
    """For y = −1 f > 0 is needed: where the rival's lead over the own neuron is 0 everywhere, nothing is reached."""
    w, a = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([1.0, -1.0])
    x, y, delta, u = np.array([[3.0, 0.0]]), np.array([-1.0]), np.full((1, 2), np.inf), np.ones((1, 2, 1))
    assert verify(w, np.zeros(2), a, x, y, delta, u).lower[0] == math.inf
    assert verify(w, np.array([0.5, 0.0]), a, x, y, delta, u).lower[0] == 0.0
