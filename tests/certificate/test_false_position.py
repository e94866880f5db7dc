"""The zero of a non-decreasing slope: false position against bisection, and how often it asks for the slope."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from mklref.certificate import intercept

EPS = float(np.finfo(float).eps)


class Counted:
    """A slope that knows how often it was evaluated."""

    def __init__(self, slope):
        self.slope, self.calls = slope, 0

    def __call__(self, b):
        self.calls += 1
        return self.slope(b)


def bisection(slope, low, high):
    """The smallest number at which the slope is not negative, and how many halvings lead there."""
    halvings = 0
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if slope(middle) < 0.0 else (low, middle)
        halvings += 1
    return high, halvings


def random_scale(rng, low, high):
    return rng.normal() * 10.0 ** rng.integers(low, high)


def mirrored(slope):
    return lambda b: -slope(-b)


def linear(rng, zero):
    """Rarely 0 at any number."""
    steepness = 10.0 ** rng.uniform(-8.0, 8.0)
    offset = steepness * zero
    return lambda b: steepness * b - offset


def piecewise_linear(rng, zero):
    """Slopes of any steepness between kinks, exact and rounded once: non-decreasing to the last bit."""
    kinks = [Fraction(zero + random_scale(rng, -2, 3)) for _ in range(8)]
    rises = [Fraction(10.0 ** rng.uniform(-3.0, 3.0)) for _ in range(9)]

    def value(b):
        return rises[0] * b + sum(rise * max(b - kink, 0) for rise, kink in zip(rises[1:], kinks, strict=True))

    offset = value(Fraction(zero))
    return lambda b: float(value(Fraction(b)) - offset)


def sigmoid(rng, zero):
    width = 10.0 ** rng.uniform(-2.0, 2.0)
    return lambda b: math.tanh((b - zero) / width)


def exponential(rng, zero):
    return lambda b: math.expm1(min(b - zero, 700.0))


def root(rng, zero):
    return lambda b: math.copysign(abs(b - zero) ** (1 / 3), b - zero)


def ninth_power(rng, zero):
    """So flat that false position gets nowhere: the halvings do the work."""
    return lambda b: math.copysign(abs(b - zero) ** 9, b - zero)


def jump(rng, zero):
    return lambda b: 1.0 if b >= zero else -1e-8


MEAN = {
    linear: 11,
    sigmoid: 14,
    exponential: 25,
    piecewise_linear: 22,
    root: 60,
    jump: 190,
    ninth_power: 230,
}
"""Evaluations on average, those at both ends included; bisection takes about 60, and a quarter of those here halve."""


@pytest.mark.parametrize("kind", MEAN, ids=lambda kind: kind.__name__)
def test_false_position_is_bisection_with_fewer_slopes(kind, rng):
    calls = []
    for turn in range(60):
        slope = kind(rng, random_scale(rng, -3, 3))
        slope = Counted(mirrored(slope) if turn % 2 else slope)
        low, high = intercept._expand(slope.slope, random_scale(rng, -3, 3))
        expected, halvings = bisection(slope.slope, low, high)
        found = intercept._zero(slope, low, high)
        assert low <= found <= high
        assert abs(found - expected) <= 4 * EPS * abs(expected) or slope.slope(found) == 0.0
        assert slope.calls <= 2 + 4 * (halvings + 1)
        calls.append(slope.calls)
    assert np.mean(calls) <= MEAN[kind]


def test_sums_that_are_zero_to_rounding_are_not_searched_through(rng):
    """The slope of the half square at residuals around 10^6: its last bits are noise over many numbers."""
    calls = []
    for _ in range(300):
        residuals, costs = 1e6 + rng.normal(size=24), rng.uniform(0.3, 4.0, size=24)
        slope = Counted(lambda b, c=costs, r=residuals: float(c @ (b - r)))
        found = intercept._zero(slope, *intercept._expand(slope.slope, float(np.median(residuals))))
        assert found == pytest.approx(np.average(residuals, weights=costs), rel=8 * EPS)
        calls.append(slope.calls)
    assert np.mean(calls) <= 25


@pytest.mark.parametrize("zero", [0.0, 1e-30, -1e-12, 1e-300])
def test_zeros_far_below_the_interval_are_found_to_a_share_of_it(zero):
    """Their last bits are out of reach where nothing but halving helps."""
    slope = Counted(jump(None, zero))
    found = intercept._zero(slope, -3e4, 1e4)
    assert slope.calls <= 302
    assert slope.slope(found) > 0.0
    assert found - zero <= 4e4 * 2.0**-75


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
def test_an_end_that_is_no_sign_change_is_the_answer(value):
    """A zero there, the wrong sign, or no number at all."""
    first, last = Counted(lambda b: value), Counted(lambda b: -1.0 if b < 3.0 else -value)
    assert intercept._zero(first, 2.0, 3.0) == 2.0
    assert intercept._zero(last, 2.0, 3.0) == 3.0
    assert first.calls == last.calls == 2
