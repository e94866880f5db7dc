"""Baselines: the weights by their definitions, and certificates that speak of the machine and not of MKL."""

from __future__ import annotations

import re

import numpy as np
import pytest
from algorithms.cases import cancer, complaints, machine_of
from makers import DEGENERATE, LOSSES, make_problem

import mklref
from mklref import Fixed, Status
from mklref.algorithms import BASELINES, average_kernel, best_single_kernel, easymkl, kernel_alignment
from mklref.algorithms.baselines import alignment_weights
from mklref.exceptions import InvalidParameter, InvalidType, NotApplicable

TOLERANCE = 1e-6
every_baseline = pytest.mark.parametrize("name", BASELINES)


@every_baseline
def test_breast_cancer(name):
    problem = cancer()
    solution = BASELINES[name](problem, tol=TOLERANCE)
    assert complaints(machine_of(name, problem, solution), solution, TOLERANCE) == []
    assert solution.solver == f"baseline/{name}"
    assert solution.weights.min() >= 0.0
    mkl = mklref.certify(problem, solution.dual_coef, weights=solution.weights, intercept=solution.intercept)
    assert not mkl.is_optimal(1e-3)  # the certificate of the machine is no certificate of MKL


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "tol", "changes"),
    [
        *((name, TOLERANCE, {"loss": loss}) for name in BASELINES for loss in LOSSES if loss.targets == "labels"),
        *(
            (name, TOLERANCE, {"loss": loss})
            for name in ("average_kernel", "best_single_kernel", "kernel_alignment")
            for loss in ("squared", "epsilon_insensitive")
        ),
        *((name, 1e-4, {"degenerate": degenerate}) for name in BASELINES for degenerate in DEGENERATE),
    ],
    ids=str,
)
def test_losses_and_degenerate_kernels(name, tol, changes):
    problem = make_problem(seed=2, **changes)
    solution = BASELINES[name](problem, tol=tol)
    assert complaints(machine_of(name, problem, solution), solution, tol) == []


# Each by its definition.


def test_average_kernel_has_equal_weights():
    np.testing.assert_array_equal(average_kernel(make_problem(M=5)).weights, np.full(5, 0.2))


def test_the_best_single_kernel_is_the_best_corner_above_the_optimum():
    problem = make_problem(seed=2, M=5)
    best = best_single_kernel(problem, tol=TOLERANCE)
    corners = [mklref.solve(problem.replace(regularizer=Fixed(corner))).objective for corner in np.eye(5)]
    np.testing.assert_array_equal(best.weights, np.eye(5)[np.argmin(corners)])
    assert best.objective == pytest.approx(min(corners), rel=1e-5)
    assert mklref.solve(problem).certificate.lower <= best.objective


def test_held_out_losses_by_definition():
    """The sum over the folds, with the machine of scikit-learn: the chosen kernel is the one with the least."""
    from sklearn.svm import SVC

    problem = make_problem(seed=2, n=30, M=5)
    folds, n = 3, 30
    shuffled = np.random.default_rng(7).permutation(n)
    dealt = shuffled[np.argsort(problem.y[shuffled], kind="stable")]
    losses = np.zeros(5)
    for m, K in enumerate(problem.kernels.dense()):
        for fold in range(folds):
            test = dealt[fold::folds]
            train = np.array([i for i in range(n) if i not in test])
            machine = SVC(C=1.0, kernel="precomputed", tol=1e-9).fit(K[np.ix_(train, train)], problem.y[train])
            scores = machine.decision_function(K[np.ix_(test, train)])
            losses[m] += np.maximum(0.0, 1.0 - problem.y[test] * scores).sum()
    assert np.partition(losses, 1)[1] - losses.min() > 0.1
    chosen = best_single_kernel(problem, tol=1e-8, folds=3, rng=np.random.default_rng(7)).weights
    assert np.argmax(chosen) == np.argmin(losses)


@pytest.mark.parametrize("degenerate", ["generic", "duplicated_kernel", "zero_kernel", "low_rank"])
@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_alignment_by_its_quadratic_program(loss, degenerate):
    """A and a entry by entry; the program by cvxpy; and the alignment itself against random weights."""
    import cvxpy as cp

    problem = make_problem(loss=loss, seed=4, degenerate=degenerate)
    n, y = 25, problem.y
    H = np.eye(n) - 1.0 / n
    centred = [H @ K @ H for K in problem.kernels.dense()]
    A = np.array([[np.sum(left * right) for right in centred] for left in centred])
    a = np.array([np.sum(K * np.outer(y, y)) for K in centred])
    v = cp.Variable(4, nonneg=True)
    program = cp.Problem(cp.Minimize(0.5 * cp.quad_form(v, cp.psd_wrap(A)) - a @ v))
    program.solve(solver="CLARABEL")

    def alignment(theta):
        return theta @ a / np.sqrt(theta @ A @ theta) / (y @ y)

    weights = alignment_weights(problem)
    assert weights.sum() == pytest.approx(1.0)
    assert alignment(weights) == pytest.approx(alignment(np.maximum(v.value, 0.0)), rel=1e-6)
    rng = np.random.default_rng(0)
    assert all(alignment(weights) >= alignment(rng.dirichlet(np.ones(4))) - 1e-12 for _ in range(200))
    np.testing.assert_array_equal(kernel_alignment(problem).weights, weights)


def test_alignment_does_not_feel_constants_and_units():
    problem = make_problem(seed=4)
    K = problem.kernels.dense()
    weights = alignment_weights(problem)
    np.testing.assert_allclose(alignment_weights(problem.replace(kernels=K + 3.0)), weights, rtol=1e-10, atol=1e-10)
    c = np.array([1e-6, 1.0, 1e6, 3.0])
    expected = weights / c / np.sum(weights / c)
    scaled = problem.replace(kernels=c[:, None, None] * K)
    np.testing.assert_allclose(alignment_weights(scaled), expected, rtol=1e-6)


@pytest.mark.parametrize("lam", [0.1, 0.5, 0.9])
def test_easymkl_by_its_margin_problem(lam):
    """gamma over the two simplices by cvxpy, twice, with eta in between."""
    import cvxpy as cp

    problem = make_problem(seed=2, n=20)
    K, y = problem.kernels.dense(), problem.y

    def gamma(Q):
        root = np.linalg.cholesky(Q + 1e-11 * np.eye(20))
        g = cp.Variable(20, nonneg=True)
        margin = (1 - lam) * cp.sum_squares(root.T @ cp.multiply(y, g)) + lam * cp.sum_squares(g)
        cp.Problem(cp.Minimize(margin), [cp.sum(g[y > 0]) == 1, cp.sum(g[y < 0]) == 1]).solve(solver="CLARABEL")
        return g.value

    first = y * gamma(K.sum(axis=0))
    eta = np.array([first @ matrix @ first for matrix in K])
    eta /= np.linalg.norm(eta)
    solution = easymkl(problem, lam=lam, tol=1e-10)
    np.testing.assert_allclose(solution.weights, eta, rtol=1e-5)
    alpha = y * solution.dual_coef
    assert alpha.min() >= 0.0
    assert alpha[y > 0].sum() == pytest.approx(alpha[y < 0].sum())
    np.testing.assert_allclose(alpha / alpha[y > 0].sum(), gamma(np.tensordot(eta, K, 1)), atol=1e-5)


def test_easymkl_looks_at_kernels_and_labels_only():
    problem = make_problem(seed=2)
    other = problem.replace(loss="logistic", C=7.0, sample_weight=np.linspace(1, 2, 25), intercept=False)
    np.testing.assert_array_equal(easymkl(problem).weights, easymkl(other).weights)


@pytest.mark.parametrize(
    ("limit", "status"), [({"max_iter": 1}, "ITERATION_LIMIT"), ({"max_time": 1e-9}, "TIME_LIMIT")]
)
def test_limits_are_reported(limit, status):
    """A machine that rounding keeps from its tolerance."""
    solution = average_kernel(make_problem(C=1e12), tol=1e-12, **limit)
    assert solution.status is Status[status]
    assert solution.certificate.gap > 1e-12 * solution.objective


def test_baselines_do_not_mind_the_regularizer():
    problem = make_problem(seed=2)
    for baseline in BASELINES.values():
        again = baseline(problem.replace(regularizer=mklref.ElasticNet(0.5)))
        np.testing.assert_array_equal(baseline(problem).weights, again.weights)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: easymkl(make_problem(loss="squared")), NotApplicable, "easymkl is made for labels; this problem has"),
        (lambda: easymkl(make_problem(), lam=1.0), InvalidParameter, "lam = 1.0 must lie in (0, 1)"),
        (lambda: kernel_alignment(make_problem(loss="one_class")), NotApplicable, "made for labels or real targets"),
        (lambda: best_single_kernel(make_problem(), folds=3), InvalidType, "rng is None; give a numpy Generator"),
        (lambda: best_single_kernel(make_problem(), rng=3), InvalidType, "rng is 3; give a numpy Generator"),
        (lambda: _folded(1), InvalidParameter, "folds = 1 must be an integer in [2, 25]"),
        (lambda: _folded(26), InvalidParameter, "folds = 26 must be an integer in [2, 25]"),
        (lambda: _folded(3, loss="one_class"), NotApplicable, "with folds is made for labels or real targets"),
        (lambda: _folded(5, alone=True), InvalidParameter, "folds = 5 leaves training once without class -1"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def _folded(folds, alone=False, **arguments):
    problem = make_problem(**arguments)
    if alone:
        problem = problem.replace(y=np.where(np.arange(25) == 3, -1.0, 1.0))
    return best_single_kernel(problem, folds=folds, rng=np.random.default_rng(0))


@pytest.mark.parametrize(("name", "what"), [("kernel_alignment", "targets"), ("easymkl", "classes")])
def test_no_kernel_of_use(name, what):
    """Constant kernels are 0 once centred, and 0 between two classes of equal mass."""
    problem = make_problem().replace(kernels=np.zeros((2, 25, 25)) if name == "easymkl" else np.ones((2, 25, 25)))
    with pytest.raises(NotApplicable, match=f"{name} is made for kernels of which one tells the {what} apart"):
        BASELINES[name](problem)


def test_what_is_too_long_to_be_printed_is_named_all_the_same():
    problem, long = make_problem(), 10**5000
    for options in ({"folds": 3, "rng": long}, {"folds": long, "rng": np.random.default_rng(0)}, {"callback": long}):
        with pytest.raises((InvalidParameter, InvalidType), match=r"(is|=) an integer beyond 1e\+30") as caught:
            best_single_kernel(problem, **options)
        assert len(str(caught.value)) < 120
