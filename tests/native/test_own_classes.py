"""Losses and regularisers that a user writes: solved like those of the package, or refused by name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from makers import make_problem

import mklref
from mklref.exceptions import NotApplicable
from mklref.losses import Loss, QuadraticDual, Squared
from mklref.regularizers import Lp, Polyhedral
from mklref.solution import Status


@dataclass(frozen=True)
class Steep(Squared):
    """a/2 (y - t)^2."""

    name = "steep"
    a: float = 20.0
    smoothness = 20.0

    def value(self, t, y):
        return self.a * super().value(t, y)

    def subgradient(self, t, y):
        return self.a * super().subgradient(t, y)

    def conjugate(self, s, y):
        return s * y + s**2 / (2.0 * self.a)

    def quadratic_dual(self, y):
        everywhere = np.full(len(y), np.inf)
        return QuadraticDual(linear=y, lower=-everywhere, upper=everywhere, curvature=1.0 / self.a)


@dataclass(frozen=True)
class Curved(Steep):
    """The same through its second derivative."""

    name = "curved"

    def quadratic_dual(self, y):
        return None

    def curvature(self, t, y):
        return np.full_like(t, self.a)


class Bare(Curved):
    curvature = Loss.curvature


@pytest.mark.parametrize("loss", [Steep(), Curved()], ids=str)
@pytest.mark.parametrize("regularizer", ["l1", "l2"])
def test_a_steeper_square_is_the_half_square_at_a_larger_cost(loss, regularizer):
    problem = make_problem(seed=3, loss="squared", regularizer=regularizer, C=5.0)
    expected = mklref.solve(problem.replace(C=5.0 * loss.a), tol=1e-9)
    found = mklref.solve(problem.replace(loss=loss), tol=1e-9)
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(expected.objective, rel=1e-8)


def test_a_loss_without_either_is_refused():
    with pytest.raises(NotApplicable, match="curved does not define curvature"):
        mklref.solve(make_problem(seed=3, loss=Bare()))


@dataclass(frozen=True, eq=False)
class Own(Lp):
    """Lp under another name, which knows nothing of kinks."""

    def smoothed(self, epsilon):
        return self

    def polyhedral(self, kernels):
        return None


class Simplex(Own):
    def polyhedral(self, kernels):
        return Polyhedral.simplex(kernels)


class Smoothed(Own):
    def smoothed(self, epsilon):
        return Lp(self.p).smoothed(epsilon)


@pytest.mark.parametrize("kind", [Simplex, Smoothed])
def test_a_regularizer_with_kinks_says_how_it_is_solved(kind):
    problem = make_problem(seed=4, C=3.0)
    expected = mklref.solve(problem.replace(regularizer="l1"), tol=1e-7)
    found = mklref.solve(problem.replace(regularizer=kind(1.0)), tol=1e-6)
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(expected.objective, rel=2e-6)


def test_a_regularizer_with_kinks_that_does_not_is_told_so():
    with pytest.raises(NotApplicable, match=r"smoothed .* polyhedral"):
        mklref.solve(make_problem(seed=4, C=3.0, regularizer=Own(1.0)))
