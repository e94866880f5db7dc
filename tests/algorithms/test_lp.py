"""Kloft's Algorithm 2: chunks of dual variables with weights after each, certified, without a whole machine.

Closed-form weights in turn with the machine, against twins on scikit-learn's: lp_wrapper, iterated_reweighting.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from algorithms.cases import cancer, complaints
from makers import LOSSES, make_problem

import mklref
from mklref import BlockNorm, ConcaveBlock, ElasticNet, Lp, Power, Status
from mklref.algorithms import iterated_reweighting, lp_interleaved, lp_wrapper
from mklref.algorithms.base import Run
from mklref.algorithms.lp_interleaved import moved
from mklref.algorithms.lp_wrapper import closed_form, lowest
from mklref.exceptions import InvalidParameter, InvalidType, NotApplicable
from mklref.losses import Logistic, Squared
from mklref.regularizers import SmoothedRoot

BOXED = [loss for loss in LOSSES if not isinstance(loss, Logistic | Squared)]


def naive(problem, size, iterations):
    """Algorithm 2 from its lines for the hinge loss: numpy loops, and Q = 2 solved by the formula for a pair."""
    assert size == 2
    K, y, C = problem.kernels.dense(), problem.y, problem.C
    M, n, p = len(K), len(y), problem.regularizer.p
    alpha, g, theta = np.zeros(n), np.zeros((M, n)), np.full(M, (1 / M) ** (1 / p))  # 1, alpha signed
    lower, upper = np.minimum(0, C * y), np.maximum(0, C * y)
    visited = []
    for _ in range(iterations):
        visited.append(theta)
        ascent = y - theta @ g  # 13, gradient of (21)
        up = max((i for i in range(n) if alpha[i] < upper[i]), key=lambda i: ascent[i])  # 3
        down = min((i for i in range(n) if alpha[i] > lower[i]), key=lambda i: ascent[i])
        Q = np.tensordot(theta, K, 1)
        best = (ascent[up] - ascent[down]) / (Q[up, up] + Q[down, down] - 2 * Q[up, down])  # 4
        step = min(best, upper[up] - alpha[up], alpha[down] - lower[down])
        alpha[up] += step
        alpha[down] -= step
        g += step * (K[:, up] - K[:, down])  # 5
        S = 0.5 * g @ alpha  # 6
        q = 2 * theta**2 * S
        theta = q ** (1 / (p + 1)) / (q ** (p / (p + 1))).sum() ** (1 / p)  # 9
    return visited


@pytest.mark.parametrize("p", [4 / 3, 2])
def test_twin_of_the_lines_of_the_paper(p):
    problem = make_problem(seed=2, n=16, M=3, C=2.0, regularizer=Lp(p))
    records = lp_interleaved(problem, tol=1e-12, chunk=2, max_iter=40).history.records
    expected = naive(problem, 2, 40)
    assert len(records) == 40
    for record, theta in zip(records, expected, strict=True):
        np.testing.assert_allclose(record.weights, theta, rtol=1e-9, atol=1e-12)


def halves(q):
    """Two kernels on half of the samples each, one on all, one of zeros, and a constant one: g_m = 0 as 1'beta = 0.

    Chunks of two variables leave one of the halves orthogonal to beta for a while.
    """
    problem = make_problem(seed=3, n=24, M=3, C=2.0, regularizer=BlockNorm(q))
    K, even = problem.kernels.dense(), np.arange(24) % 2 == 0
    left, right = (np.where(np.outer(half, half), matrix, 0.0) for half, matrix in zip((even, ~even), K, strict=False))
    return problem.replace(kernels=[left, right, K[2], np.zeros((24, 24)), np.ones((24, 24))])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("q", [2.5, 4, 8, np.inf])
@pytest.mark.parametrize("chunk", [2, 10, 24])
def test_beyond_2_with_kernels_orthogonal_to_beta(q, chunk, monkeypatch):
    """The dual objective falls by no more than the share of tol that a cap costs."""
    problem, values = halves(q), []
    assess = Run.assess

    def watched(run, weights, betas):
        values.append(assess(run, weights, betas))
        return values[-1]

    monkeypatch.setattr(Run, "assess", watched)
    solution = lp_interleaved(problem, chunk=chunk, max_iter=600)
    assert complaints(problem, solution, 1e-4, mklref.solve(problem).certificate) == []
    assert np.diff([point.lower for point in values]).min() >= -1e-5 * solution.objective


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("q", [2.5, 4, 8, np.inf])
def test_what_the_cap_costs(q, tol, rng):
    """The tangent of R* at max(g, s) lies above R* everywhere, and at g by no more than tol R*."""
    regularizer = BlockNorm(q)
    for _ in range(20):
        g = rng.exponential(size=6) * (rng.random(6) < 0.6) * 10.0 ** rng.uniform(-12, 3, size=6)
        g[0] = 10.0
        u = np.maximum(g, lowest(regularizer, 6, tol) * g.max())
        theta = regularizer.weights_from_dual(u)
        for other in (g, u, rng.exponential(size=6), 5.0 * rng.permutation(g)):
            above = regularizer.conjugate(u) + 0.5 * theta @ (other**2 - u**2) - regularizer.conjugate(other)
            assert above >= -1e-9 * theta @ (other**2 + u**2)
            if other is g:
                assert above <= tol * regularizer.conjugate(g)


def far_apart():
    """At q = inf useful weights of these kernels differ by 1e5: pair steps alone crawl from side to side."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=40) > 0, 1.0, -1.0)
    distances = ((X[:, None] - X) ** 2).sum(axis=2)
    gaussians = [np.exp(-distances / (2 * width**2)) for width in (0.3, 1, 3)]
    return mklref.Problem(
        [*gaussians, X @ X.T / 3, np.outer(X[:, 0], X[:, 0])], y, C=10.0, regularizer=BlockNorm(np.inf)
    )


@pytest.mark.parametrize("chunk", [20, 40])
def test_weights_that_differ_a_lot(chunk):
    problem = far_apart()
    best = mklref.solve(problem)
    assert best.status is Status.OPTIMAL
    truth = best.certificate
    assert complaints(problem, lp_interleaved(problem, chunk=chunk, tol=1e-6, max_iter=200), 1e-6, truth) == []


PAIRS = [
    (loss, intercept)
    for loss in BOXED
    for intercept in (True, False)
    if loss.intercept == "optional" or (loss.intercept == "required") is intercept
]


@pytest.mark.parametrize(("loss", "intercept"), PAIRS, ids=str)
def test_a_chunk_is_maximised_as_part_of_the_whole(loss, intercept, rng):
    """The derivatives of (21) from their definition: no feasible change within the chunk leads up by more than tol."""
    problem = make_problem(loss=loss, seed=3, n=24, M=5, regularizer=Lp(2), intercept=intercept)
    run = Run("test", problem, 1e-4, 10)
    machine, chosen, tol = run.machines[0], rng.permutation(24)[:8], 1e-9
    machine.move(rng.uniform(0.1, 1.0, 5))
    before = machine.beta.copy()
    beta = moved(run, machine, chosen, tol)
    others = np.setdiff1d(np.arange(24), chosen)
    assert np.array_equal(beta[others], before[others])
    assert run.inner_steps > 0
    Q = np.tensordot(machine.weights, problem.kernels.dense(), 1)
    dual = problem.loss.quadratic_dual(problem.y)
    slope = dual.linear - Q @ beta - dual.curvature / problem.costs * beta
    right = np.where(beta < machine.upper, slope - np.where(beta >= 0.0, dual.absolute, -dual.absolute), -np.inf)
    left = np.where(beta > machine.lower, slope - np.where(beta > 0.0, dual.absolute, -dual.absolute), np.inf)
    if intercept:
        assert beta.sum() == pytest.approx(before.sum(), abs=1e-12)
        assert right[chosen].max() - left[chosen].min() <= 1e-8
    else:
        assert right[chosen].max() <= 1e-8
        assert left[chosen].min() >= -1e-8


def test_a_weight_of_0_comes_back_unless_its_kernel_is_rounding_alone():
    """As a constant kernel is beside an intercept: the step halfway would raise the objective for nothing."""
    run = Run("test", make_problem(n=12, M=3, regularizer=Power(1.2)), 1e-4, 10)
    point = replace(run.svm(run.start), weights=np.array([0.0, 1.0, 2.0]))
    for square, comes_back in ((1e-30, False), (1.0, True)):
        theta = closed_form(run, replace(point, squares=np.array([square, 1.0, 1.0])))
        assert bool(theta[0] > 0.0) is comes_back


def test_it_takes_fewer_inner_steps_than_the_wrapper():
    """The point of interleaving: no machine is solved to the end at weights that will change."""
    problem = cancer(Lp(4 / 3))
    chunks, wrapper = lp_interleaved(problem), lp_wrapper(problem)
    assert chunks.history.counters["inner_steps"] < wrapper.history.counters["inner_steps"]


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_losses_without_bounds_or_kinks_are_refused_by_name(loss):
    with pytest.raises(NotApplicable, match=loss) as refused:
        lp_interleaved(make_problem(loss=loss, regularizer=Lp(2)))
    assert "mklref.solve" in str(refused.value)


@pytest.mark.parametrize(
    ("chunk", "error", "says"),
    [
        (1, InvalidParameter, "chunk = 1 must be an integer of at least 2: one variable cannot keep"),
        *((chunk, InvalidType, f"chunk is {chunk!r}") for chunk in (2.5, True, "4")),
    ],
)
def test_a_chunk_is_an_integer_of_at_least_2(chunk, error, says):
    with pytest.raises(error, match=says):
        lp_interleaved(make_problem(regularizer=Lp(2)), chunk=chunk)


@pytest.mark.parametrize("p", [1, 4 / 3, 3])
def test_twin_on_another_machine(p):
    """Lines 1 to 5 from their definitions, with scikit-learn's machine on the combined kernel."""
    from sklearn.svm import SVC

    problem = make_problem(seed=2, n=24, M=4, C=3.0, regularizer=Lp(p))
    K, theta = problem.kernels.dense(), np.full(4, 4.0 ** (-1 / p))
    records = lp_wrapper(problem, tol=1e-9, max_iter=6).history.records
    for record in records:
        np.testing.assert_allclose(record.weights, theta, rtol=1e-4, atol=1e-6)
        combined = sum(weight * matrix for weight, matrix in zip(theta, K, strict=True))
        machine = SVC(C=3.0, kernel="precomputed", tol=1e-9).fit(combined, problem.y)
        beta = np.zeros(24)
        beta[machine.support_] = machine.dual_coef_[0]
        norms = [weight * np.sqrt(beta @ matrix @ beta) for weight, matrix in zip(theta, K, strict=True)]
        total = sum(norm ** (2 * p / (p + 1)) for norm in norms) ** (1 / p)
        theta = np.array([norm ** (2 / (p + 1)) / total for norm in norms])
    assert len(records) == 6


@pytest.mark.parametrize("q", [2.5, 4, 8, np.inf])
def test_beyond_2_the_dual_objective_never_falls(q):
    lower = lp_wrapper(cancer(BlockNorm(q)), tol=1e-6).history.column("lower")
    assert len(lower) > 2
    assert np.all(np.diff(lower) > 0.0)  # these are the best so far: each iteration has improved on them


def test_beyond_2_the_weights_of_the_norms_diverge():
    """Why (31) is taken as a function of the dual norms: repeated in the norms it runs away."""
    problem = make_problem(seed=1, n=24, M=4, regularizer=BlockNorm(8))
    theta = np.ones(4)
    for _ in range(2):
        point = mklref.solve(problem.replace(regularizer=mklref.Fixed(theta)))
        g = problem.kernels.norms(point.dual_coef)
        last = mklref.certify(problem, point.dual_coef, weights=theta)
        theta = np.maximum(problem.regularizer.weights_from_norms(theta * g), 1e-12)
    assert last.relative_gap > 0.9
    assert theta.max() > 1e20
    assert lp_wrapper(problem, max_iter=30).status is Status.OPTIMAL


def test_a_useless_kernel_stays_without_weight():
    problem = make_problem(seed=3, degenerate="zero_kernel", regularizer=Lp(2))
    assert lp_wrapper(problem).weights[1] == 0.0


@pytest.mark.parametrize(
    ("regularizer", "slope"),
    [
        (ElasticNet(0.3), lambda x: 0.7 / (2 * np.sqrt(x)) + 0.15),
        (ConcaveBlock(SmoothedRoot(0.1)), lambda x: SmoothedRoot(0.1).derivative(x)),
        (Power(3), lambda x: 0.5 * x ** (0.75 - 1)),
    ],
    ids=["elastic net (12)", "smoothed root", "power"],
)
def test_twin_of_iterated_reweighting_by_tangents(regularizer, slope):
    """theta = 1/(2 g'(rho^2)) typed anew; g' of Table 1, and a machine by scikit-learn."""
    from sklearn.svm import SVC

    problem = make_problem(seed=2, n=24, M=4, C=3.0, regularizer=regularizer)
    K, theta = problem.kernels.dense(), None
    records = iterated_reweighting(problem, tol=1e-9, max_iter=6).history.records
    assert len(records) == 6
    for record in records:
        if theta is not None:
            np.testing.assert_allclose(record.weights, theta, rtol=1e-4)
        machine = SVC(C=3.0, kernel="precomputed", tol=1e-9).fit(np.tensordot(record.weights, K, 1), problem.y)
        beta = np.zeros(24)
        beta[machine.support_] = machine.dual_coef_[0]
        squared_norms = record.weights**2 * np.array([beta @ matrix @ beta for matrix in K])
        theta = 1 / (2 * slope(squared_norms))


def test_the_elastic_net_without_its_root_has_one_machine():
    """lam -> 1 leaves 1/2 sum rho^2, whose tangent is itself."""
    solution = iterated_reweighting(make_problem(seed=1, regularizer=ElasticNet(1 - 1e-9)))
    assert len(solution.history) == 1
