"""The algorithm as printed against ours, on whole problems; the single formulas have their tests in tests/errata."""

from __future__ import annotations

import numpy as np
import pytest
from synthesis.cases import PQR, make_problem

from mklref.exceptions import InvalidParameter
from mklref.solution import Status
from mklref.synthesis import certify, forward_backward, reference, solve
from mklref.synthesis.dictionary import Dictionary
from mklref.synthesis.forward_backward import operator_norm
from mklref.synthesis.problem import correlations, scores


def printed_iteration(problem, steps: int = 3000) -> np.ndarray:
    """Algorithm 2 as printed: gradient -K_y'(1 - K_y a)_+ without the factor 2, gamma just below 2/||K||^2."""
    gamma = 1.9 / np.linalg.norm(np.hstack(problem.kernels), 2) ** 2
    A = np.zeros(problem.shape)
    for _ in range(steps):
        margins = problem.y * scores(problem.kernels, A)
        gradient = correlations(problem.kernels, problem.y * np.maximum(1.0 - margins, 0.0))
        A = problem.norm.prox(A + gamma * gradient, gamma * problem.lam)
    return A


@pytest.mark.parametrize("pqr", PQR)
def test_printed_algorithm_solves_the_problem_with_twice_the_penalty(pqr):
    """K9: it is 1 % or more above the optimum of (2), and at that of 2 lambda; ours is certified for (2)."""
    problem = make_problem(pqr, n=10, lam=6.0)
    A = printed_iteration(problem)
    assert certify(problem, A).upper > 1.01 * solve(problem).objective
    twice = problem.replace(lam=2 * problem.lam)
    assert certify(twice, A).upper == pytest.approx(reference.solve(twice).objective, rel=1e-5)
    assert forward_backward(problem, tol=1e-5).status is Status.OPTIMAL


def test_printed_step_is_too_long_for_the_true_gradient():
    """K9: gamma < 2/||K||^2 is not admissible for the gradient with its factor 2; below 1/||K||^2 it converges."""
    problem = make_problem((2, 2, 1), n=10, lam=0.05, loss="squared")
    size = np.linalg.norm(np.hstack(problem.kernels), 2) ** 2
    A = np.zeros(problem.shape)
    for _ in range(60):
        Z = correlations(problem.kernels, problem.C * (problem.y - scores(problem.kernels, A)))
        A = problem.norm.prox(A + 1.9 / size * Z, 1.9 / size * problem.lam)
    assert certify(problem, A).upper > 1.05 * solve(problem).objective
    with pytest.raises(InvalidParameter, match=r"step = .* must lie in"):
        forward_backward(problem, step=1.9 / size)
    assert forward_backward(problem, step=0.95 / size, tol=1e-5).status is Status.OPTIMAL
    with pytest.raises(InvalidParameter, match="step = 0 must lie in"):
        forward_backward(problem, step=0)


def test_operator_norm(rng):
    K = rng.normal(size=(3, 7, 5))
    exact = np.linalg.norm(np.hstack(K), 2)
    found = operator_norm(Dictionary(K))
    assert 0.97 * exact <= found <= exact * (1 + 1e-12)
    assert operator_norm(Dictionary(np.zeros((1, 2, 2)))) == 0.0


def test_steps_descend(rng):
    """Forward-backward with an admissible step never increases the objective (Algorithm 1, with its roles as in K6)."""
    problem = make_problem((1, 2, 2), n=10)
    values = []
    A = np.zeros(problem.shape)
    gamma = 1.9 / (2 * np.linalg.norm(np.hstack(problem.kernels), 2) ** 2)
    for _ in range(100):
        values.append(certify(problem, A).upper)
        t = scores(problem.kernels, A)
        gradient = problem.C * problem.loss.subgradient(t, problem.y)
        A = problem.norm.prox(A - gamma * correlations(problem.kernels, gradient), gamma * problem.lam)
    assert np.all(np.diff(values) <= 1e-12 * values[0])
    assert forward_backward(problem, max_iter=99, tol=1e-14).objective == pytest.approx(values[-1], rel=1e-2)
