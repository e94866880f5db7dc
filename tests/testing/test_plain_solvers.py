"""An author plants a fault in a solver of his own, and reads its name in the first line of the report.

The papers' algorithms on the catalogue, each within what it accepts: they are picked up by their table.

The adapter to scikit-learn, the one peer that is always there: its machine passes on everything in its scope.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mklref.algorithms import ALGORITHMS
from mklref.testing import Supports, check_solver
from mklref.testing.result import Outcome
from validation.peers.run import scikit_learn

SOURCE = (Path(__file__).parent / "plain.py").read_text(encoding="utf-8")
CASES = {
    "hinge": ["hinge-l2", "generic-hinge-l2"],
    "squared": ["squared-l2", "generic-squared-l2", "another-C-squared-l2", "low-rank-squared-l2"],
}
THETA = "        theta = new\n    return beta, theta, b"
SPHERE = "new = new / np.linalg.norm(new, p)"
NORM = SPHERE + " * np.linalg.norm(norms, 2 * p / (p + 1))"
BOX = "low = np.where(y > 0, 0.0, -C)\n    high = np.where(y > 0, C, 0.0)"
BALANCED = "C = C * n / (2 * np.where(y > 0, (y > 0).sum(), (y < 0).sum()))\n    "
START = "theta = np.full("

FAULTS = [
    ("hinge", "another regularizer", "norm not squared", SPHERE, NORM),
    ("squared", "another regularizer", "norm not squared", SPHERE, NORM),
    ("hinge", "machine not solved", "few inner steps", "steps=200_000", "steps=25"),
    ("hinge", "machine not solved", "inner tolerance", "tol=1e-9", "tol=1e-1"),
    ("hinge", "scaled kernels", "missing 1/2", START, "K = 2 * K\n    " + START),
    ("squared", "scaled kernels", "K/n", START, "K = K / len(y)\n    " + START),
    ("squared", "normalised kernels", "unit trace", START,
     "K = K / np.trace(K, axis1=1, axis2=2)[:, None, None]\n    " + START),
    ("hinge", "normalised kernels", "spherical", START,
     "d = np.sqrt(np.einsum('mii->mi', K))\n    K = K / d[:, :, None] / d[:, None, :]\n    " + START),
    ("hinge", "class weights", "balanced", BOX, BALANCED + BOX),
    ("hinge", "ridge on the kernels", "1e-3", START, "K = K + 1e-3 * np.eye(len(y))\n    " + START),
    ("squared", "penalised intercept", "b^2/2", "A[n, n] = 0.0", "A[n, n] = -1.0"),
    ("squared", "missing intercept constraint", "b = 0", "return x[:n], x[n]",
     "return np.linalg.solve(A[:n, :n], y), 0.0"),
    ("squared", "centred targets", "mean of y", START, "y = y - y.mean()\n    " + START),
    ("squared", "standardised targets", "deviation", START, "y = (y - y.mean()) / y.std()\n    " + START),
    ("squared", "centred kernels", "H K H", START,
     "H = np.eye(len(y)) - 1 / len(y)\n    K = H @ K @ H\n    " + START),
    ("squared", "duplicated samples", "three twice", "np.eye(n) / C",
     "np.diag(np.r_[0.5, 0.5, 0.5, np.ones(n - 3)]) / C"),
    ("hinge", "dropped samples", "the last three", BOX, "y = np.r_[y[:-3], 0, 0, 0]\n    "
     "low, high = np.where(y < 0, -C, 0.0), np.where(y > 0, C, 0.0)"),
    ("squared", "wrong scale of C", "mean of the losses", "np.eye(n) / C", "np.eye(n) * n / C"),
    ("hinge", "weights on another sphere", "sum 1", SPHERE, "new = new / np.sum(new)"),
    ("hinge", "unsigned dual_coef", "alpha", THETA, THETA.replace("beta", "abs(beta)")),
    ("hinge", "other sign of the intercept", "rho", THETA, THETA + " * -1"),
]  # fmt: skip
"""Loss, the name that is to be read, what is done, and where."""


def report(loss, old="", new=""):
    """That of the solver with one piece of its text replaced."""
    assert not old or SOURCE.count(old) == 1, old
    scope: dict[str, object] = {}
    exec(compile(SOURCE.replace(old, new) if old else SOURCE, "plain", "exec"), scope)
    return check_solver(scope["solve"], supports=Supports(losses=loss), include=CASES[loss])


@pytest.mark.parametrize("loss", CASES)
def test_the_solver_without_a_fault_passes(loss):
    assert report(loss).passed


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("loss", "name", "what", "old", "new"), FAULTS, ids=[" ".join(row[:3]) for row in FAULTS])
def test_its_fault_is_named_in_the_first_line(loss, name, what, old, new):
    first = str(report(loss, old, new)).splitlines()[0]
    assert f"excluded: {name} (" in first


OF_ALGORITHMS = (
    "hinge-l1",
    "squared-l2",
    "hinge-p-4-over-3",
    "hinge-elastic-net-ivanov",
    "hinge-groups-half",
    "rank-one-ties",
    "permuted-samples",
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_passes_where_it_applies(name):
    def solver(problem):
        return ALGORITHMS[name](problem, tol=1e-5)

    report = check_solver(solver, include=OF_ALGORITHMS, tol=1e-4)
    assert report.passed, str(report)


def test_scikit_learn_passes_where_it_solves_the_same_problem():
    report = check_solver(scikit_learn, exclude="large-C-sv*")  # where libsvm ends early
    assert report.passed, str(report)
    assert report.count(Outcome.PASSED) >= 30
