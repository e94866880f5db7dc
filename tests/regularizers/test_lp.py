from __future__ import annotations

import numpy as np
import pytest
from regularizers.laws import LAWS

from mklref.regularizers import Fixed, Lp

M = 4
INSTANCES = [
    *(Lp(p) for p in (1, 1.05, 4 / 3, 2, 3.7, 20, np.inf)),
    Fixed([0.3, 1.2, 0.05, 2.0]),
    Fixed([1.0, 0.0, 0.4, 0.7]),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("regularizer", INSTANCES, ids=lambda regularizer: f"{regularizer}")
def test_laws(regularizer, law):
    law(regularizer, M)


@pytest.mark.parametrize("p", [1, 1 + 1e-9, 1.01, 4 / 3, 2, 50, 1e6, np.inf])
def test_faces_by_definition(p, rng):
    """Norms by NumPy, with the conjugate exponents written out."""
    q = 2 * p / (p + 1) if p < np.inf else 2.0
    dual = np.inf if p == 1 else (1.0 if p == np.inf else p / (p - 1))
    for x in (rng.uniform(0.5, 1.5, size=M), np.array([1.0, 1.0, 1.0, 1.0]), np.array([0.0, 0.0, 0.7, 0.0])):
        x = x / x.max()  # large exponents of numbers above 1 would overflow in the naive form
        assert Lp(p).value(x) == pytest.approx(0.5 * np.linalg.norm(x, q) ** 2, rel=1e-12)
        assert Lp(p).conjugate(x) == pytest.approx(0.5 * np.linalg.norm(x**2, dual), rel=1e-12)
        theta = Lp(p).weights_from_norms(x)
        assert np.linalg.norm(theta, p) == pytest.approx(1.0, rel=1e-9)
        assert Lp(p).weight_penalty(theta) == 0.0
        assert Lp(p).weight_penalty(1.01 * theta) == np.inf


@pytest.mark.parametrize("p", [1 + 1e-9, 1e6])
def test_extreme_exponents_satisfy_fenchel_young(p, rng):
    regularizer = Lp(p)
    for _ in range(20):
        g, rho = rng.uniform(0.5, 1.5, size=(2, M))
        assert regularizer.value(rho) + regularizer.conjugate(g) >= g @ rho * (1 - 1e-12)
        attained = regularizer.weights_from_dual(g) * g
        assert regularizer.value(attained) + regularizer.conjugate(g) == pytest.approx(g @ attained, rel=1e-8)


@pytest.mark.parametrize("p", [1, 1 + 1e-9, 4 / 3, 2, 1e6, np.inf])
@pytest.mark.parametrize("exponent", [-450, 450])
def test_scaling_by_a_power_of_two_is_exact(p, exponent, rng):
    """Values have degree 2, weights degree 0, and neither overflows nor vanishes."""
    x, c = rng.uniform(0.5, 1.5, size=M), 2.0**exponent
    assert Lp(p).value(c * x) == c * c * Lp(p).value(x)
    assert Lp(p).conjugate(c * x) == c * c * Lp(p).conjugate(x)
    np.testing.assert_array_equal(Lp(p).weights_from_norms(c * x), Lp(p).weights_from_norms(x))
    np.testing.assert_array_equal(Lp(p).weights_from_dual(c * x), Lp(p).weights_from_dual(x))


def test_at_p_one_the_dual_weights_are_uniform_over_the_maximal_kernels():
    np.testing.assert_array_equal(Lp(1).weights_from_dual(np.array([2.0, 0.3, 2.0, 1.999])), [0.5, 0.0, 0.5, 0.0])


def test_p_is_a_number_whatever_its_type():
    assert Lp(np.float32(2)).p == Lp(2).p == 2.0
    assert Lp(float("inf")).block_exponent == 2.0
