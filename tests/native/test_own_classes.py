"""Losses and regularisers that a user writes: solved like those of the package, or refused by name."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Protocol

import cvxpy as cp
import numpy as np
import pytest
from makers import make_problem, optimal
from scipy.special import xlogy

import mklref
from mklref.exceptions import InvalidParameter, NotApplicable
from mklref.losses import Hinge, Logistic, Loss, OneClass, QuadraticDual, Squared, SquaredHinge
from mklref.regularizers import ConcaveBlock, Lp, Polyhedral, PowerRoot, Regularizer
from mklref.solution import Status
from mklref.testing import assert_optimal
from mklref.testing.vectors import record_of_problem


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
    found = optimal(problem.replace(loss=loss), tol=1e-9)
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
    found = optimal(problem.replace(regularizer=kind(1.0)), tol=1e-6)
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


@dataclass(frozen=True)
class Linex(Loss):
    """exp(t - y) - (t - y) - 1, which overflows far away."""

    name = "linex"
    targets = "real"

    def value(self, t, y):
        return np.exp(t - y) - (t - y) - 1.0

    def subgradient(self, t, y):
        return np.exp(t - y) - 1.0

    def conjugate(self, s, y):
        return np.where(s < -1.0, np.inf, s * y + xlogy(1.0 + s, np.maximum(1.0 + s, 0.0)) - s)

    def domain(self, y):
        return np.full(len(y), -1.0), np.full(len(y), np.inf)

    def kinks(self, y):
        return np.empty((0, len(y)))

    def atom(self, t, y):
        return cp.exp(t - y) - (t - y) - 1.0


WRONG = [
    (Linex(), "value", lambda right, t, y: right + 0.01, "linex contradicts itself"),
    (Linex(), "conjugate", lambda right, s, y: right - 0.01, "linex contradicts itself"),
    (Linex(), "domain", lambda right, y: (1.01 * right[0], right[1]), "conjugate.* is inf; .* a smaller domain"),
    (Linex(), "domain", lambda right, y: right[::-1], "domain of the loss linex ends before it begins"),
    (Steep(), "conjugate", lambda right, s, y: right - np.inf, "conjugate.* is -inf; give the limit"),
    (
        Steep(),
        "quadratic_dual",
        lambda right, y: replace(right, upper=np.ones(len(y))),
        r"quadratic_dual .* is not V\*",
    ),
    (Halves(), "conjugate", lambda right, g: right - np.inf, "conjugate .* is -inf at 0; give the limit there"),
    (Halves(), "conjugate", lambda right, g: right + np.inf, "conjugate .* is inf at 0; give the limit there"),
    (Halves(), "weight_penalty", lambda right, theta: np.inf, r"R = 1/2 sum rho_m"),
    (Steep(), "value", lambda right, *given: 1.001 * right, r"steep.* contradicts itself at y = .*V\(t\) \+ V\*\(s\)"),
    (Steep(), "subgradient", lambda right, *given: -right, "steep.* contradicts itself"),
    (Steep(), "conjugate", lambda right, s, y: right - 1e-5 * s**2, "steep.* contradicts itself"),
    (Steep(), "domain", lambda right, y: (0.0 * y, right[1]), "steep.* contradicts itself"),
    (Steep(), "domain", lambda right, y: (-np.inf, np.inf), r"domain of the loss steep.* has shape \(\); expected"),
    (Steep(), "kinks", lambda right, y: y, r"kinks of the loss steep.* expected \(k, "),
    (Steep(), "value", lambda right, t, y: right + 0.1 * (y == y.max()), "steep.* contradicts itself"),
    (Steep(), "quadratic_dual", lambda right, y: replace(right, curvature=0.1), r"quadratic_dual .* is not V\*"),
    (
        Steep(),
        "quadratic_dual",
        lambda right, y: replace(right, lower=-np.inf),
        r"lower of quadratic_dual .* shape \(\)",
    ),
    (Steep(), "subgradient", lambda right, *given: right.tolist(), "subgradient .* is of type list; .* float64"),
    (
        Steep(),
        "domain",
        lambda right, y: (right[0], np.ones(len(y), np.int64)),
        "domain .* is of type int64; .* float64",
    ),
    (Steep(), "conjugate", lambda right, s, y: right + 0.0 / s, r"conjugate\(0\) .* is nan; give the limit there"),
    (Steep(), "value", lambda right, t, y: np.where(t > 1.0, np.nan, right), r"value\(.* is nan; give the limit"),
    (Halves(), "value", lambda right, rho: right + float(0.0 / rho[0]), r"value .* is nan at 0; give the limit there"),
    (Halves(), "value", lambda right, rho: 1.001 * right, r"Halves\(\) contradict R\(theta g\)"),
    (Halves(), "conjugate", lambda right, g: 0.999 * right, r"Halves\(\) contradict R\(theta g\)"),
    (Halves(), "weights_from_dual", lambda right, g: 2.0 * right, r"Halves\(\) contradict R\(theta g\)"),
    (Halves(), "weights_from_dual", lambda right, g: 1.0, r"Halves\(\) has shape \(\); expected \(4,\)"),
    (Halves(), "weights_from_dual", lambda right, g: [1] * len(g), "weights_from_dual .* is of type list; .* float64"),
    (Halves(), "weights_from_norms", lambda right, rho: 2.0 * right, r"R = 1/2 sum rho_m"),
    (Halves(), "weight_penalty", lambda right, theta: 0.0, r"R = 1/2 sum rho_m"),
    (Halves(), "in_unit", lambda right, norm: (norm, Halves()), r"value and in_unit .* R\(2 rho\) = 2 R'\(rho\)"),
    (Halves(), "in_unit", lambda right, norm: (2**0.5 * norm, Halves()), r"in_unit .* R\(0\.125 rho\) = 0\.17"),
    (Halves(), "in_unit", lambda right, norm: norm**1.5, r"in_unit\(2\) .* is 2\.8.*; return a number s > 0 and a Reg"),
    (Halves(), "in_unit", lambda right, norm: (np.nan, Halves()), r"in_unit\(2\) .* is \(nan, .*; return a number s"),
    (Halves(), "in_unit", lambda right, norm: norm.unit, r"in_unit\(2\) .* Halves\(\) raises AttributeError"),
    (Halves(), "weights_jacobian", lambda right, g: np.eye(4), "weights_jacobian .* in q and not in g"),
    (Halves(), "weights_jacobian", lambda right, g: np.diag(0.48 / g), "contradicts weights_from_dual"),
    (Halves(), "weights_jacobian", lambda right, g: np.diag(0.5 / g)[::-1], "contradicts weights_from_dual"),
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


def test_a_degree_that_is_inherited_by_another_value_is_refused():
    with pytest.raises(InvalidParameter, match=r"value and degree .* contradict R\(2 rho\) = 4 R'\(rho\)"):
        make_problem(seed=3, regularizer=type("Square", (Halves,), {"degree": 2.0})())


def test_a_penalty_on_the_weights_that_is_not_there_is_asked_for():
    with pytest.raises(NotApplicable, match=r"^Bare\(\) has no psi; give its class the method weight_penalty\(theta"):
        make_problem(regularizer=type("Bare", (Halves,), {"weight_penalty": Regularizer.weight_penalty})())


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_an_atom_is_compared_where_the_loss_is_small(sign):
    def problem(atom):
        loss = type("Changed", (Linex,), {"atom": lambda self, t, y: atom(Linex.atom(self, t, y), t - y)})()
        return make_problem(seed=3, regularizer="l2", loss=loss)

    with pytest.raises(InvalidParameter, match=r"atom of the loss linex .* is not its value"):
        mklref.reference.solve(problem(lambda V, r: V + 0.01 * cp.pos(sign * r)), "mixed_norm")
    assert mklref.reference.solve(problem(lambda V, r: (1.0 + 1e-8) * V), "mixed_norm").status is Status.OPTIMAL


class Near(SquaredHinge):
    """max(0, 1/2 - y t)^2 / 2, whose atom reads the margin as well."""

    margin = 0.5


class Above(Lp):
    """Lp, made from what p is above 1."""

    def __init__(self, excess):
        super().__init__(1.0 + excess)


def test_a_class_of_other_arguments_has_neighbours():
    own, lp = Above(0.05), Lp(1.05)
    assert [own.smoothed(0.2).p, own.smoothed(0.05).p, own.sharpened().p] == [1.2, 1.05, 1.0]
    assert own.p == 1.05
    found, expected = (mklref.solve(make_problem(seed=4, regularizer=one)) for one in (own, lp))
    assert found.objective == pytest.approx(expected.objective, rel=2e-6)


@dataclass(frozen=True, eq=False)
class Cheap(Lp):
    """R/4, and nothing else of what is known about lp balls."""

    def value(self, rho):
        return 0.25 * super().value(rho)

    def conjugate(self, g):
        return 0.25 * super().conjugate(4.0 * g)

    def weights_from_norms(self, rho):
        return 4.0 * super().weights_from_norms(rho)

    def weights_from_dual(self, g):
        return 4.0 * super().weights_from_dual(4.0 * g)

    def weight_penalty(self, theta):
        return super().weight_penalty(0.25 * theta)


class Bent(PowerRoot):
    def value(self, x):
        return super().value(x)


MADE = [
    (Near(), "dual", r"V\(t_i, y_i\)", "squared_hinge has no cvxpy dual; give its class Near dual_atom"),
    (Cheap(2.0), "dual", r"R\(\\rho_1", r"Cheap\(2\) has no cvxpy expression; give its class the method conjugate"),
    (ConcaveBlock(Bent(2.0)), "mixed_norm", "g", r"Bent.* has no cvxpy expression; give its class the method block"),
]


@pytest.mark.parametrize(("part", "formulation", "symbol", "says"), MADE, ids=["loss", "regularizer", "concave"])
def test_no_class_is_taken_for_the_one_that_it_is_made_from(part, formulation, symbol, says):
    which = "loss" if isinstance(part, Loss) else "regularizer"
    problem = make_problem(seed=3, regularizer="l2").replace(**{which: part})
    assert re.search(symbol, problem.to_latex())
    with pytest.raises(NotApplicable, match=says):
        mklref.reference.solve(problem, formulation)
    with pytest.raises(NotApplicable, match="class of your own; files name those of the library"):
        record_of_problem(problem)


def test_only_what_has_all_that_a_class_states_is_its_instance():
    class Behind(Loss):
        def box(self, y, costs):
            return y, y

    for module in (__name__, "builtins"):  # the latter is where `exec` puts what it defines
        assert not isinstance(type("Two", (SquaredHinge, Behind), {"__module__": module})(), SquaredHinge)
    registered = type("Registered", (), {})
    Lp.register(registered)
    assert not isinstance(registered(), Lp)


def test_a_class_of_ones_own_may_have_a_protocol_as_well():
    class Named(Protocol):
        name: str

    class Half(Hinge, Named):
        def value(self, t, y):
            return 0.5 * super().value(t, y)

    class Same(Hinge, Named):
        pass

    assert not isinstance(Half(), Hinge)
    assert isinstance(Half(), Loss)
    assert isinstance(Same(), Hinge)


def test_algorithms_equivalences_and_synthesis_are_not_for_classes_that_are_made_from_theirs():
    problem = make_problem(seed=3, regularizer=Cheap(2.0))
    assert [edge.name for edge in mklref.equivalences.leaving(problem)] == ["optimal weights"]
    for algorithm in (mklref.algorithms.sip, mklref.algorithms.lp_wrapper):
        with pytest.raises(NotApplicable, match=r"regularizer Cheap\(2\)"):
            algorithm(problem)
    with pytest.raises(InvalidParameter, match="is not among those of mixed-norm synthesis"):
        mklref.synthesis.SynthesisProblem(np.eye(3)[None], [1.0, -1.0, 1.0], p=1, q=1, r=1, lam=1.0, loss=Near())


def test_the_value_of_a_loss_decides_whether_an_inherited_atom_is_its_own():
    problem = make_problem(seed=3, regularizer="l2", loss=Near())
    expected = mklref.solve(problem, tol=1e-8).objective
    assert mklref.reference.solve(problem, "mixed_norm").objective == pytest.approx(expected, rel=1e-6)
    with pytest.raises(InvalidParameter, match=r"atom of the loss steep:20 \(Steep\) is not its value: atom\("):
        mklref.reference.solve(problem.replace(loss=Steep()), "mixed_norm")


@dataclass(frozen=True)
class Noted(Near):
    note: str = "a field that is no number"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", [{"loss": Noted()}, {"regularizer": Cheap(2.0)}], ids=list)
def test_the_oracle_judges_what_it_has_no_expression_for(part):
    problem = make_problem(seed=3, regularizer="l2").replace(**part)
    with pytest.raises(AssertionError, match="not optimal"):
        assert_optimal(problem, np.random.default_rng(0).normal(size=problem.n_samples))


def test_a_loss_may_round_as_its_formula_does():
    """log(1 + x) for x next to 0."""
    naive = {"value": lambda self, t, y: np.log(1.0 + np.exp(-y * t))}
    problem = make_problem(seed=3, regularizer="l2", loss=type("Naive", (Logistic,), naive)())
    expected = mklref.solve(problem.replace(loss="logistic")).objective
    assert mklref.reference.solve(problem, "mixed_norm").objective == pytest.approx(expected, rel=1e-5)


def test_a_class_that_changes_nothing_is_still_the_one_that_it_is_made_from():
    renamed = type("Renamed", (Lp,), {"name": "renamed", "more": lambda self: None})(2.0)
    assert isinstance(renamed, Lp)
    assert isinstance(Cheap(2.0), Cheap)  # of classes of one's own Python decides
    problem = make_problem(seed=3, regularizer=renamed)
    assert mklref.reference.solve(problem).status is mklref.algorithms.sip(problem, tol=1e-4).status is Status.OPTIMAL


def test_nothing_may_cost_something_where_the_intercept_has_a_cost():
    """Only of the library's loss of one class: with another margin than 0 its objective is larger by as much."""
    far = type("Far", (OneClass,), {"margin": 0.5})()
    problem = make_problem(seed=3, loss="one_class")
    expected = mklref.solve(problem, tol=1e-8).objective + 0.5
    found = optimal(problem.replace(loss=far), tol=1e-8)
    assert found.objective == pytest.approx(expected, rel=1e-7)
    assert min(record.upper for record in found.history.records) >= found.certificate.lower


def test_a_regularizer_that_lacks_its_jacobian_is_told_its_name():
    with pytest.raises(NotApplicable, match="defines weights_jacobian"):
        mklref.solve(make_problem(seed=3, regularizer=Halves()))
