"""Losses and regularisers that a user writes: solved like those of the package, or refused by name."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from makers import make_problem

import mklref
from mklref.exceptions import InvalidParameter, NotApplicable
from mklref.losses import Loss, QuadraticDual, Squared, SquaredHinge
from mklref.regularizers import ConcaveBlock, Lp, Polyhedral, PowerRoot, Regularizer
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


@dataclass(frozen=True, eq=False)
class Halves(Regularizer):
    """2/3 sum rho^1.5, with psi = 1/6 sum theta^3, without a Jacobian."""

    def value(self, rho):
        return 2 / 3 * float(np.sum(rho**1.5))

    def conjugate(self, g):
        return float(np.sum(g**3)) / 3

    def weights_from_norms(self, rho):
        return np.sqrt(rho)

    def weights_from_dual(self, g):
        return g

    def weight_penalty(self, theta):
        return float(np.sum(theta**3)) / 6


WRONG = [
    (Steep(), "value", lambda right, *given: 1.001 * right, r"steep.* contradicts itself at y = .*V\(t\) \+ V\*\(s\)"),
    (Steep(), "subgradient", lambda right, *given: -right, "steep.* contradicts itself"),
    (Steep(), "conjugate", lambda right, s, y: right - 1e-5 * s**2, "steep.* contradicts itself"),
    (Steep(), "domain", lambda right, y: (0.0 * y, right[1]), "steep.* contradicts itself"),
    (
        Steep(),
        "domain",
        lambda right, y: (-np.inf, np.inf),
        r"domain of the loss steep.* has shape \(\); expected",
    ),
    (Steep(), "kinks", lambda right, y: y, r"kinks of the loss steep.* expected \(k, "),
    (Steep(), "value", lambda right, t, y: right + 0.1 * (y == y.max()), "steep.* contradicts itself"),
    (Steep(), "quadratic_dual", lambda right, y: replace(right, curvature=0.1), r"quadratic_dual .* is not V\*"),
    (Halves(), "value", lambda right, rho: 1.001 * right, r"Halves\(\) contradict R\(theta g\)"),
    (Halves(), "conjugate", lambda right, g: 0.999 * right, r"Halves\(\) contradict R\(theta g\)"),
    (Halves(), "weights_from_dual", lambda right, g: 2.0 * right, r"Halves\(\) contradict R\(theta g\)"),
    (Halves(), "weights_from_dual", lambda right, g: 1.0, r"Halves\(\) has shape \(\); expected \(4,\)"),
    (Halves(), "weights_from_norms", lambda right, rho: 2.0 * right, r"R = 1/2 sum rho_m"),
    (Halves(), "weight_penalty", lambda right, theta: 0.0, r"R = 1/2 sum rho_m"),
    (Halves(), "weights_jacobian", lambda right, g: g, r"weights_jacobian .* has shape \(4,\); expected \(4, 4\)"),
]


@pytest.mark.parametrize(
    ("right", "method", "wrong", "says"), WRONG, ids=[f"{case[1]}-{k}" for k, case in enumerate(WRONG)]
)
def test_a_class_that_contradicts_itself_is_refused_by_the_problem(right, method, wrong, says):
    """Else wrong bounds would be certified: with a conjugate that is too small the lower one is too large."""
    which = "loss" if isinstance(right, Loss) else "regularizer"
    problem = make_problem(seed=3, loss="squared").replace(**{which: right})
    original = getattr(type(right), method) if method != "weights_jacobian" else lambda self, g: None
    planted = {method: lambda self, *given: wrong(original(self, *given), *given)}
    with pytest.raises(InvalidParameter, match=says):
        problem.replace(**{which: type(type(right).__name__, (type(right),), planted)()})


def changed(kind):
    """A class made from another, with a value that is not inherited."""
    return type("Changed", (kind,), {"value": lambda self, x: kind.value(self, x)})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"loss": Steep()}, "steep:20 would be stated as the Squared .* from Loss"),
        ({"loss": type("Near", (SquaredHinge,), {"margin": 0.5})()}, "the SquaredHinge .* from Loss"),
        ({"regularizer": changed(Lp)(2)}, "the Lp that it is made from; derive it from Regularizer"),
        ({"regularizer": ConcaveBlock(changed(PowerRoot)(2))}, "the PowerRoot .* from ConcaveFunction"),
    ],
)
def test_cvxpy_states_no_class_as_the_one_that_it_is_made_from(changes, says):
    problem = make_problem(seed=3).replace(**changes)
    with pytest.raises(NotApplicable, match=says):
        mklref.reference.solve(problem)


def test_a_regularizer_that_lacks_its_jacobian_is_told_its_name():
    with pytest.raises(NotApplicable, match="defines weights_jacobian"):
        mklref.solve(make_problem(seed=3, regularizer=Halves()))
