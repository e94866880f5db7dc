"""Small problems, their optimal values by a conic solver, and random points, for the tests of the certificate.

Floating-point numbers as the rational numbers that they are, and sums that lose every term. Rigorous certificates as
documents: of a problem, and changed.
"""

from __future__ import annotations

import copy
import json
from decimal import Context, Decimal
from fractions import Fraction

import cvxpy as cp
import numpy as np
from conic import solve
from makers import make_problem

import mklref
from mklref.certificate.rounding import Interval
from mklref.formulations.mixed_norm import R
from mklref.regularizers import Fixed, Groups, Lp, Tikhonov

N, M = 20, 4


def small(loss="hinge", regularizer="l1", **arguments):
    return make_problem(loss=loss, regularizer=regularizer, n=N, M=M, **arguments)


def factors(problem):
    """L_m with K_m = L_m L_m'."""
    for K in problem.kernels.dense():
        values, vectors = np.linalg.eigh(K)
        kept = values > 1e-13 * values[-1]
        yield vectors[:, kept] * np.sqrt(values[kept])


def optimum(problem):
    """(P*, its error, beta, rho, b) from the block-norm primal, declared from the definition of the problem.

    minimise C sum V(t) + R(s) + c_b b over v_m, s, b with t = sum L_m v_m + b and ||v_m|| <= s_m; beta is the
    multiplier of the definition of t.
    """
    L = list(factors(problem))
    v = [cp.Variable(Lm.shape[1]) for Lm in L]
    s = cp.Variable(len(L), nonneg=True)
    b = cp.Variable() if problem.intercept else 0.0
    t = cp.Variable(problem.n_samples)
    penalty, domain = R(problem.regularizer, s)
    scores = t == sum(Lm @ vm for Lm, vm in zip(L, v, strict=True)) + b
    objective = problem.costs @ problem.loss.atom(t, problem.y) + penalty + problem.intercept_cost * b
    program = cp.Problem(
        cp.Minimize(objective), [scores, *domain, *(cp.norm(vm) <= sm for vm, sm in zip(v, s, strict=True))]
    )
    error = solve(program, use_quad_obj=False)
    rho = np.array([np.linalg.norm(vm.value) for vm in v])
    return program.value, error, scores.dual_value, rho, float(b.value) if problem.intercept else 0.0


def random_point(problem, rng, scale):
    """Anything: mostly infeasible dual variables, weights and intercept."""
    weights = rng.exponential(size=M) * (rng.uniform(size=M) < 0.8)
    intercept = float(scale * rng.normal()) if problem.intercept else None
    return scale * rng.normal(size=problem.n_samples), weights, intercept


PRECISE = Context(prec=120, Emax=10**17, Emin=-(10**17))


def fractions(x):
    return [Fraction(float(value)) for value in np.ravel(x)]


def decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


def inside(interval: Interval, values) -> bool:
    ends = zip(np.ravel(interval.lower), np.ravel(interval.upper), values, strict=True)
    return all(Fraction(float(low)) <= value <= Fraction(float(high)) for low, high, value in ends)


def exact_inner(x, y) -> Fraction:
    """Of whole numbers over one power of two: a sum of fractions would look for common factors each time."""
    parts = [np.frexp(np.ravel(given).astype(np.float64)) for given in (x, y)]
    p, r = ((2.0**53 * mantissas).astype(np.int64).tolist() for mantissas, _ in parts)
    exponents = parts[0][1] + parts[1][1]
    least = int(exponents.min(initial=0))
    whole = sum((a * b) << k for a, b, k in zip(p, r, (exponents - least).tolist(), strict=True))
    return whole * Fraction(2) ** (least - 106)


def awkward(rng, n):
    """Ones that fill every accumulator of a sum, and terms that each of them then rounds away."""
    v = np.full(n, 0.99 * 2.0**-53)
    v[: min(n, 32)] = 1.0
    return v if rng.uniform() < 0.5 else -v


REGULARIZERS = (
    Lp(1),
    Lp(1 + 1e-9),
    Lp(np.inf),
    Fixed([1.0, 0.5, 0.3, 0.0]),
    Tikhonov(1.5, 0.7),
    Groups([[0, 2], [1, 3]], 0.3, 0.4),
    Groups([[0, 2], [1, 3]], 0.5, 0.5),
)


def proven(problem, solution, **options):
    """The rigorous certificate of exactly this solution."""
    weights, b = solution.weights, solution.intercept
    return mklref.certify(problem, solution.dual_coef, weights=weights, intercept=b, rigorous=True, **options)


def document(problem, backend=None, **options):
    certificate = proven(problem, mklref.solve(problem, tol=1e-4), backend=backend, **options)
    return json.loads(json.dumps(certificate.to_dict()))


def changed(facts, *path, to):
    facts = copy.deepcopy(facts)
    place = facts
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to(place[path[-1]]) if callable(to) else to
    return facts
