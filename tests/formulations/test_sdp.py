"""Combinations of any sign: the certificate from its definition, and against l1-MKL."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from conic import solve
from makers import make_problem

from mklref import reference
from mklref._conic import polish
from mklref._conic.polish import certified
from mklref._conic.scaling import balanced, factorize
from mklref._conic.signed import SignedPoint, Span, newton
from mklref.exceptions import InvalidParameter, InvalidType, SolverFailure
from mklref.formulations import as_formulation
from mklref.losses import EpsilonInsensitive
from mklref.problem import Problem
from mklref.regularizers import Fixed
from mklref.signed import SignedProblem
from mklref.solution import Status


def make(seed: int = 1, **arguments) -> SignedProblem:
    problem = make_problem(seed=seed, n=16, M=3, loss=arguments.pop("loss", "hinge"))
    return SignedProblem(problem.kernels, problem.y, loss=problem.loss, **{"C": 2.0, **arguments})


@pytest.mark.parametrize("loss", ["hinge", "squared", "logistic"])
def test_certified_and_below_nonnegative_weights(loss):
    problem = make(loss=loss)
    solution = reference.solve(problem, "sdp", solver="CLARABEL", tol=1e-5)
    assert solution.status is Status.OPTIMAL, solution.certificate.explain()
    assert solution.value == pytest.approx(solution.objective, rel=1e-5)
    assert solution.certificate == problem.certify(
        solution.dual_coef, solution.weights, solution.intercept, solution.slack
    )
    kernel = problem.kernels.combine(solution.weights)
    assert np.trace(kernel) == pytest.approx(16.0)
    assert np.linalg.eigvalsh(kernel)[0] >= -1e-12
    restricted = reference.solve(problem.nonnegative(), "qcqp")
    assert solution.certificate.upper <= restricted.certificate.upper * (1 + 1e-6)
    assert solution.weights.min() < -1e-2  # so that the sign makes a difference here
    assert solution.certificate.upper < restricted.certificate.lower - 1e-3


@pytest.mark.parametrize(
    "arguments", [{}, {"intercept": False, "loss": "squared"}, {"loss": "one_class", "C": 0.2, "trace": 32.0}]
)
def test_recovery_unpolished_with_an_intercept_without_and_with_one_that_costs(arguments):
    problem = make(**arguments)
    model = as_formulation("sdp").build(problem, factorize(problem.kernels))
    model.set_costs(problem.costs)
    bounds = certified(problem, model.run(reference.Engine("CLARABEL")))["certificate"]
    assert abs(bounds.relative_gap) < 5e-5  # 1 % of beta, mu or b is worth 3e-4 or more
    assert model.program.value == pytest.approx(bounds.upper, rel=5e-5)
    scaling = balanced(problem)
    model = as_formulation("sdp").build(problem, factorize(problem.kernels).scaled(scaling.factor))
    model.set_costs(scaling.costs(problem.costs))
    restored = scaling.restore(model.run(reference.Engine("CLARABEL")))
    assert abs(certified(problem, restored)["certificate"].relative_gap) < 5e-5


@pytest.mark.parametrize("k", [2.0**-30, 2.0**30])
def test_a_one_class_machine_is_the_same_for_every_trace(k):
    """f = k f' and b = k b' on kernels k times as large: solvers see one problem, not one below their tolerance."""
    base, other = (reference.solve(make(loss="one_class", C=0.2, trace=trace), "sdp") for trace in (16.0, 16.0 * k))
    assert other.status is Status.OPTIMAL, other.certificate.explain()
    assert other.value == pytest.approx(other.objective, rel=1e-5, abs=0.0)
    assert other.objective == pytest.approx(k * base.objective, rel=1e-6, abs=0.0)
    assert other.intercept == pytest.approx(k * base.intercept, rel=1e-3, abs=0.0)
    np.testing.assert_allclose(other.weights, k * base.weights, atol=k * 1e-3)


def test_the_intercept_is_the_best_for_the_scores(monkeypatch):
    """Costs of 1e4 made a gap of the last digits of the one that the solver has."""
    problem = make(loss="one_class", C=1e4)
    found = reference.solve(problem, "sdp")
    off = SignedPoint(found.dual_coef, found.weights, found.intercept - 1e-4, found.slack)
    monkeypatch.setattr(polish, "_steps", lambda problem, point: ())
    assert certified(problem, off)["certificate"].relative_gap > 1.0
    assert polish.polished(problem, off)["certificate"].relative_gap < 1e-4


@pytest.mark.parametrize("C", [2.0, 200.0])
@pytest.mark.parametrize("solver", ["CLARABEL", "SCS"])
def test_kernels_that_share_a_null_space_and_have_units_of_their_own_are_certified(solver, C, rng):
    """No combination is definite, which conic solvers ask for; units of kernels, trace and C are no matter."""
    assert Span(SignedProblem([np.diag([2.0, 1.0, 1e-13])], [1.0, 1.0, -1.0])).G.shape == (3, 2)  # a span of rounding
    features = rng.normal(size=(3, 10, 2)) @ rng.normal(size=(3, 2, 4)) @ np.diag([1.0, 1.0, 1.0, 0.0])
    kernels = np.array([1e4, 1.0, 1e-5])[:, None, None] * (features @ features.transpose(0, 2, 1))
    y = np.where(rng.normal(size=10) > 0.0, 1.0, -1.0)
    problem = SignedProblem(kernels, y, C=C, loss="squared_hinge", trace=1e-2)
    solution = reference.solve(problem, "sdp", solver=solver)
    assert solution.status is Status.OPTIMAL, solution.certificate.explain()
    assert solution.value == pytest.approx(solution.objective, rel=1e-6)
    assert solution.raw.certificate.relative_gap < 1e-5


@pytest.mark.sampled(4)
@pytest.mark.parametrize("solver", ["CLARABEL", "SCS"])
@pytest.mark.parametrize("loss", ["hinge", "huber", "epsilon_insensitive", "squared"])
def test_a_large_cost_is_certified_to_the_last_digits(loss, solver):
    """Errors of K(mu) and of the scores cost C times as much: alone the machine of K(mu) left 1e-5 to 1e-2."""
    rng = np.random.default_rng(3)
    samples = [rng.normal(size=(12, d)) for d in (1, 2, 3)]
    distances = [((X[:, None] - X[None]) ** 2).sum(axis=-1) for X in samples]
    kernels = [*(np.exp(-D) for D in distances), samples[1] @ samples[1].T]
    y = rng.normal(size=12)
    problem = SignedProblem(kernels, np.sign(y) if loss == "hinge" else y, C=3e4, loss=loss)
    bounds = reference.solve(problem, "sdp", solver=solver).certificate
    assert bounds.relative_gap < 1e-7, bounds.explain()


@pytest.mark.parametrize("definite", [True, False])
def test_steps_return_to_the_optimum_from_nearby(definite, rng):
    problem = make(C=100.0)
    if definite:
        factors = rng.normal(size=(2, 16, 2))
        kernels = [np.eye(16), *(factors @ factors.transpose(0, 2, 1))]
        problem = SignedProblem(kernels, rng.normal(size=16) + factors.sum(axis=(0, 2)), C=100.0, loss="squared")
    found = reference.solve(problem, "sdp", solver="SCS" if definite else "CLARABEL")
    point = SignedPoint(found.dual_coef, found.weights, found.intercept, found.slack)
    span = Span(problem)
    null = span.null_spaces(problem, point)[0]
    assert (null == 0) == definite
    low, high = problem.loss.box(problem.y, problem.costs)
    inside = (found.dual_coef > low + 1.0) & (found.dual_coef < high - 1.0)
    noise = 1e-5 * rng.normal(size=16)
    off = point._replace(dual_coef=point.dual_coef * (1.0 + inside * noise), weights=point.weights * (1.0 + noise[:3]))
    assert certified(problem, off)["certificate"].relative_gap > 1e-6
    assert polish.polished(problem, off)["certificate"].relative_gap < 1e-9
    steps = list(newton(problem, span, off, 1e-4, null))
    for name in SignedPoint._fields:  # 1e-5 squared twice
        second, last = (np.asarray(getattr(steps[k], name)) for k in (1, -1))
        np.testing.assert_allclose(second, last, rtol=0.0, atol=1e-11 * max(1.0, np.abs(last).max()), err_msg=name)


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_samples_that_are_taken_to_be_at_a_bound_leave_it(loss):
    """At the end of its box, or at the kink of the tube, where they stayed: gaps of 1e-2 at C = 1e5."""
    problem = make(C=100.0, loss=loss)
    found = reference.solve(problem, "sdp", solver="CLARABEL")
    beta, margin = found.dual_coef, np.abs(found.dual_coef)
    low, high = problem.loss.box(problem.y, problem.costs)
    inside = (margin > 1e-3) & (beta > low + 1e-3) & (beta < high - 1e-3)
    i = np.flatnonzero(inside)[np.argmin(margin[inside])]
    off = SignedPoint(np.where(np.arange(16) == i, 0.0, beta), found.weights, found.intercept, found.slack)
    assert certified(problem, off)["certificate"].relative_gap > 1e-4
    assert polish.polished(problem, off)["certificate"].relative_gap < 1e-9


def test_scores_that_vanish_leave_a_lower_bound(rng):
    """Where K_m beta = 0 for every m, all sides of the constraints are 0 up to rounding, and lambda is 0."""
    L = np.tile(rng.normal(size=(3, 2, 2)), (1, 2, 1))
    problem = SignedProblem(L @ L.transpose(0, 2, 1), [1.0, 1.0, -1.0, -1.0], C=3.0, loss="squared_hinge")
    outside = 9.0 * (np.eye(4) - L[0] @ np.linalg.pinv(L[0]))
    bounds = problem.certify([3.0, 3.0, -3.0, -3.0], problem.feasible(np.ones(3)), 0.0, outside)
    assert (bounds.lower, bounds.upper) == pytest.approx((6.0, 6.0), rel=1e-12)


def test_squares_that_differ_by_rounding_alone_leave_a_lower_bound(rng):
    """Of multiples of one kernel, which sees 1e-7 of beta: the squares keep less digits than lambda has to have."""
    x, y = rng.normal(size=(2, 5))
    K, C = np.outer(x, x) / (x @ x), 1e7
    problem = SignedProblem([K, 0.7 * K], y, C=C, loss="squared", trace=1.0, intercept=False)
    beta = C * (y - C / (1.0 + C) * (K @ y))
    bounds = problem.certify(beta, problem.feasible(np.ones(2)), 0.0, np.zeros((5, 5)))
    assert (bounds.lower, bounds.upper) == pytest.approx((0.5 * y @ beta, 0.5 * y @ beta), rel=1e-6)


def test_an_intercept_that_the_problem_does_not_have_certifies_nothing():
    problem = make(intercept=False)
    with pytest.raises(InvalidParameter, match=r"intercept = 0\.2 must be 0: the problem has no intercept"):
        problem.certify(np.zeros(16), np.ones(3), 0.2)


def test_equals_l1_mkl_where_negative_weights_do_not_help():
    """Kernels with disjoint supports: no combination with a negative weight is positive semidefinite."""
    K = np.zeros((2, 8, 8))
    rng = np.random.default_rng(0)
    for k, block in zip(K, (slice(0, 4), slice(4, 8)), strict=True):
        L = rng.normal(size=(4, 4))
        k[block, block] = L @ L.T
    problem = SignedProblem(K, np.tile([1.0, -1.0], 4), C=1.0, trace=5.0)
    signed = reference.solve(problem, "sdp", solver="CLARABEL", tol=1e-5)
    l1 = reference.solve(problem.nonnegative(), "qcqp")
    assert signed.objective == pytest.approx(l1.objective, rel=1e-5)
    theta = signed.weights * problem.traces / problem.trace
    np.testing.assert_allclose(theta, l1.weights, atol=1e-3)


def test_lower_bound_by_definition():
    """For a given beta, lambda is at least the optimal value of  max mu'q  over feasible mu, divided by c."""
    problem = make()
    solution = reference.solve(problem, "sdp", solver="CLARABEL", tol=1e-5)
    rng = np.random.default_rng(1)
    K = problem.kernels.dense()
    for scale in (0.0, 0.05):
        beta = solution.dual_coef + scale * rng.normal(size=16)
        beta = np.clip(problem.y * (beta - beta.mean()), 0, 2) * problem.y
        q = problem.kernels.quadratic(beta)
        mu = cp.Variable(3)
        feasible = [sum(mu[m] * K[m] for m in range(3)) >> 0, problem.traces @ mu == problem.trace]
        program = cp.Problem(cp.Maximize(q @ mu), feasible)
        error = solve(program)
        largest = program.value
        level, _ = problem._multiplier(beta, solution.weights, solution.slack)
        assert level * problem.trace >= largest * (1 - 1e-6) - error
        if scale == 0.0:
            assert level * problem.trace == pytest.approx(largest, abs=error + 1e-4 * abs(largest))


def test_the_allowance_for_rounding_by_its_definition(rng, monkeypatch):
    """In a unit in which it shows: errors of scores and squares, of the trace, and of the smallest eigenvalues."""
    problem, u, n, M = make(intercept=False), 1e-4, 16, 3
    beta, mu = rng.uniform(-2.0, 1.0, n) * problem.y, problem.feasible(rng.normal(size=M))
    monkeypatch.setattr("mklref.signed.UNIT", u)
    monkeypatch.setattr("mklref.certificate.allowance.UNIT", u)
    bounds, K, traces, y = problem.certify(beta, mu), problem.kernels.dense(), problem.traces, problem.y
    v, d, sizes = K @ beta, np.sqrt(np.einsum("mii->mi", K)), np.abs(mu)
    q, t, reach, most = v @ beta, mu @ v, d @ np.abs(beta), 4.0 + np.log2(n / 4)
    square = sizes @ (u * M * q + u * (most * reach**2 + n * np.abs(v) @ np.abs(beta)))
    shift = n * u * (sizes @ traces) - np.linalg.eigvalsh(np.tensordot(mu, K, 1))[0]
    e = u * (most * (sizes * reach) @ d + M * (sizes @ np.abs(v)) + np.abs(t) + np.abs(y - t))
    losses = 2.0 * np.maximum(0.0, 1.0 - y * t + e).sum() * (1.0 + u * (n + 4.0))
    losses += 2.0 * max(0.0, np.maximum(0, 1 - y * (t + shift * beta)).sum() - np.maximum(0, 1 - y * t).sum())
    stretch = 1.0 + M * u * (sizes @ traces) / n
    assert bounds.upper == pytest.approx(losses + 0.5 * stretch * (mu @ q + square + shift * beta @ beta), rel=1e-9)
    # Z makes up for what the constraints miss, and a multiple of the identity for what Z lacks.
    inside = np.maximum(y * beta, 0.0) * y
    v, reach, k = K @ inside, d @ np.abs(inside), np.count_nonzero(inside)
    q, errors = v @ inside, u * ((4.0 + np.log2(k / 4)) * reach**2 + k * np.abs(v) @ np.abs(inside)) / traces
    K, level = K / traces[:, None, None], mu @ q / (mu @ traces)
    Z = np.tensordot(np.linalg.solve(np.einsum("lij,mij->lm", K, K), level - q / traces), K, 1)
    values = np.linalg.eigvalsh(Z)
    missed = errors + u * n * (2.0 * np.einsum("ij,mij->m", np.abs(Z), np.abs(K)) + abs(level))
    U, s, V = np.linalg.svd(K.reshape(M, -1), full_matrices=False)
    added = missed @ np.abs(U) / s @ np.linalg.norm(V.reshape(M, n, n), np.inf, axis=(1, 2))  # for ||D||
    error = 0.5 * n * (added + n * u * np.abs(values).max())
    error += (n + 4.0) * u * (np.abs(inside) @ (1.0 + np.abs(t)) + np.abs(inside).sum())
    assert bounds.lower == pytest.approx(y @ inside - 0.5 * n * (level - values[0]) - error, rel=1e-9)


@pytest.mark.parametrize("small", [1e-6, 1e-10, 1e-12])
def test_nearly_dependent_kernels_leave_no_false_lower_bound(small):
    """Weights of 1/small make of their difference a kernel of its own, for which a constraint missed by 1e-10 counts.

    The machine of one of them had a gap of 1e-16, and another combination an upper bound that was lower by 7 %.
    """
    rng = np.random.default_rng(0)
    A, y = rng.normal(size=(6, 6)), np.array([1.0, 1.0, -1.0, -1.0, 1.0, -1.0])
    kernel, turned = A @ A.T + 0.5 * np.eye(6), np.outer(y, y) - np.eye(6)
    problem = SignedProblem([kernel, kernel + small * turned], y, loss="squared_hinge", trace=float(np.trace(kernel)))
    uniform = Problem([kernel], y, loss="squared_hinge", regularizer=Fixed(np.ones(1)))
    better = uniform.replace(kernels=[kernel + 0.1 * turned])
    one, two = (reference.solve(machine, "dual") for machine in (uniform, better))
    bounds = problem.certify(one.dual_coef, problem.feasible(np.ones(2)), one.intercept)
    assert bounds.lower < two.certificate.upper * (1.0 - 1e-2) < one.certificate.lower


@pytest.mark.parametrize("spoil", ["flipped intercept", "uniform weights", "shrunk dual", "no slack", "indefinite"])
def test_spoilt_points_are_rejected(spoil):
    problem = make()
    solution = reference.solve(problem, "sdp", solver="CLARABEL", tol=1e-5)
    beta, mu, b, Z = solution.dual_coef, solution.weights, solution.intercept, solution.slack
    uniform = problem.feasible(1.0 / problem.traces)
    spoilt = {
        "flipped intercept": (beta, mu, b - 1.0, Z),
        "uniform weights": (beta, uniform, b, Z),
        "shrunk dual": (0.9 * beta, mu, b, Z),
        "no slack": (beta, mu, b, None),
        "indefinite": (beta, 2.0 * mu - uniform, b, Z),
    }[spoil]
    bounds = problem.certify(*spoilt)
    assert bounds.relative_gap > 1e-3
    if spoil == "indefinite":
        assert "the kernel has the eigenvalue -" in bounds.explain()
        assert "repaired" not in bounds.explain()  # there is no upper bound
        lowest = np.linalg.eigvalsh(problem.kernels.combine(spoilt[1]))[0]
        assert bounds.infeasibility == pytest.approx(-lowest)


def test_scs_has_the_cone_and_ecos_has_not():
    problem = make(loss="squared")
    reached = reference.solve(problem, "sdp", solver="SCS", tol=1e-2)
    assert reached.status is Status.OPTIMAL
    with pytest.raises(SolverFailure, match=r"ECOS.*Try another solver, normalise"):  # there is no other formulation
        reference.solve(problem, "sdp", solver="ECOS")


def test_bad_input():
    problem = make()
    with pytest.raises(InvalidParameter, match=r"trace = 0.0 must lie in \(0, inf\)"):
        make(trace=0.0)
    with pytest.raises(InvalidParameter, match=r"kernels\[1\] is zero"):
        SignedProblem([np.eye(4), np.zeros((4, 4))], [1.0, -1.0, 1.0, -1.0])
    with pytest.raises(InvalidParameter, match=r"slack has shape \(4, 4\); expected \(16, 16\)"):
        problem.certify(np.zeros(16), np.ones(3), slack=np.zeros((4, 4)))
    with pytest.raises(InvalidParameter, match=r"dual_coef\[0\] is nan"):
        problem.certify(np.full(16, np.nan), np.ones(3))
    with pytest.raises(InvalidType, match="intercept is"):
        problem.certify(np.zeros(16), np.ones(3), intercept="0")


@pytest.mark.parametrize("weights", [[0.5, np.nan, 0.5], [np.inf, 0.0, 0.0], [1.0, 0.0], [], 1.0, "half", None])
def test_weights_that_are_no_numbers_have_no_feasible_point_near(weights):
    with pytest.raises((InvalidParameter, InvalidType), match="weights"):
        make().feasible(weights)


def test_weights_without_a_trace_have_a_lower_bound_and_a_feasible_point_near():
    problem = make()
    assert problem.certify(np.zeros(16), np.zeros(3)).lower == pytest.approx(0.0)
    assert problem.traces @ problem.feasible(np.zeros(3)) == pytest.approx(problem.trace)
    assert reference.formulations(problem) == ("sdp",)


def test_a_feasible_point_is_the_first_one_on_the_way_to_the_uniform_combination():
    """For 1e308 the trace was infinite, and the weights that were returned 0; of equal traces they were not finite."""
    problem = make()
    centre = problem.trace / 3.0 / problem.traces
    for weights in ([1.0, -0.4, 0.9], [1.0, -2.0, 1.5], [1e308, -1e308, 1e307], [1e-310, -1e-310, 1e-310]):
        near = np.array(weights) / np.abs(weights).max()
        near *= problem.trace / (problem.traces @ near)
        found = problem.feasible(weights)
        share = (found - near) / (centre - near)
        assert share == pytest.approx(share.mean())
        assert 0.0 < share.mean() < 1.0
        before = near + (share.mean() - 1e-3) * (centre - near)
        here, there = (np.linalg.eigvalsh(problem.kernels.combine(mu))[0] for mu in (found, before))
        assert there < -1e-4 < -1e-10 < here < 1e-10
    alike = problem.replace(kernels=problem.kernels.dense() / problem.traces[:, None, None])
    assert alike.feasible([1e300, -1e300, 1e-10]) == pytest.approx(alike.trace / 3.0 / alike.traces)
    inside = 2.0 * problem.feasible([1.0, 1.0, 2.0])
    assert problem.feasible(inside) == pytest.approx(0.5 * inside)


def test_bounds_do_not_depend_on_the_units_of_single_kernels(rng):
    """mu_m K_m is all that counts; with the constraint of a small kernel missed, lower bounds exceeded the optimum."""
    problem = make()
    units = np.array([2.0**40, 1.0, 2.0**-40])
    other = SignedProblem(units[:, None, None] * problem.kernels.dense(), problem.y, C=2.0)
    for _ in range(5):
        L = rng.normal(size=(16, 3))
        beta, mu = rng.uniform(0.0, 2.0, 16) * problem.y, problem.feasible(rng.normal(size=3))
        bounds, scaled = problem.certify(beta, mu, 0.0, L @ L.T), other.certify(beta, mu / units, 0.0, L @ L.T)
        assert np.isfinite(bounds.lower)
        assert scaled.lower == pytest.approx(bounds.lower, rel=1e-9)
        assert scaled.upper == pytest.approx(bounds.upper, rel=1e-12)


@pytest.mark.parametrize("h", [-7e-10, 7e-10])
def test_a_trace_that_is_off_by_little_is_paid_for(h, rng):
    """The same function from weights of the right trace and from others has the same bound."""
    problem = make()
    beta, mu = rng.normal(size=16), problem.feasible(rng.normal(size=3))
    exact, off = problem.certify((1.0 + h) * beta, mu), problem.certify(beta, (1.0 + h) * mu)
    assert not any("trace" in text for text in off.violations)
    assert off.upper == pytest.approx(exact.upper, rel=1e-13)
    wrong = problem.certify(np.zeros(16), (1.0 + 10.0 * h) * mu)
    assert "the trace of the kernel is" in wrong.violations[0]
    assert wrong.infeasibility == pytest.approx(160.0 * abs(h), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-300, 1e200, 1e308])
def test_absurd_points_have_bounds_and_raise_nothing(scale):
    """Warnings are errors here."""
    problem = make()
    points = ((scale, 1.0, 1.0), (1.0, scale, 1.0), (1.0, -scale, 1.0), (1.0, 1.0, scale), (1.0, 1.0, -scale))
    for beta, mu, Z in points:
        bounds = problem.certify(np.full(16, beta), np.array([mu, -mu, mu]), slack=np.full((16, 16), Z))
        assert bounds.lower < bounds.upper
        assert bounds.explain()


def test_an_eigenvalue_that_rounding_explains_makes_no_false_upper_bound():
    """With beta = 4e13 v along its vector, beta'K beta = -2.2e13 was taken for what the function costs."""
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    rest, last = (Q[:, :-1] * np.linspace(0.5, 1.0, 5)) @ Q[:, :-1].T, np.outer(Q[:, -1], Q[:, -1])
    y = np.where(Q[:, -1] > 0.0, 1.0, -1.0)
    kernels = np.array([0.5 * (rest + rest.T), last])
    problem = SignedProblem(kernels, y, C=1e7, intercept=False, trace=float(np.trace(rest)))
    bounds = problem.certify(4e13 * Q[:, -1], np.array([1.0, -2e-14]))
    assert not any("eigenvalue" in text for text in bounds.violations)
    assert bounds.upper > 0.0


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [48, 68, 85, 139, 146])
def test_costs_far_beyond_the_dual_variables_are_those_of_a_smaller_box(seed):
    """A conic solver breaks down where costs are 1e9 times the dual variables, and gaps of 0.01 to 1.7 were left."""
    rng = np.random.default_rng([seed, 3])
    L = rng.standard_normal((2, 3, 3)) * rng.integers(0, 2, size=(2, 1, 3)).clip(min=[[[1, 0, 0]]])
    y, C = 0.2 * rng.standard_normal(3), 10.0 ** rng.uniform(7, 9)
    problem = SignedProblem(L @ L.transpose(0, 2, 1), y, C=C, loss=EpsilonInsensitive(0.1))
    bounds = reference.solve(problem, "sdp").certificate
    assert bounds.gap <= 4.0 * bounds.rounding + 1e-5 * bounds.size, bounds.explain()
