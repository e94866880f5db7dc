"""Faults of published solvers, planted in the algorithms: each one has to be noticed, and the healthy code not."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest
from algorithms.cases import SIMPLEX, complaints
from makers import make_problem

import mklref
from mklref import algorithms
from mklref.algorithms import base
from mklref.algorithms.base import Run
from mklref.solution import Status

TOL = 1e-4
TRIES = 150
"""Iterations that a mutant gets: several times what the healthy algorithm needs."""

# The package has functions under the names of its modules.
SILP, SIMPLEMKL, GRADIENT_DESCENT = (
    sys.modules[f"mklref.algorithms.{name}"] for name in ("silp", "simplemkl", "gradient_descent")
)


@pytest.fixture(scope="module")
def problem():
    """Its solution uses four of seven kernels."""
    return make_problem(seed=3, n=40, M=7, C=10.0)


@pytest.fixture(scope="module")
def truth(problem):
    return mklref.solve(problem)


@pytest.fixture(scope="module")
def worst_vertex(problem, truth):
    """A start with all weight on a useless kernel: the good ones have to come back from 0."""
    vertex = np.eye(problem.n_kernels)[np.argmin(truth.weights)]
    return dataclasses.replace(truth, weights=vertex, dual_coef=np.zeros(problem.n_samples))


def found_in(problem, truth, name, **options):
    """What is noticed in a run: by an error, its status, its certificate, the truth, or the sum of its weights."""
    try:
        solution = algorithms.ALGORITHMS[name](problem, tol=TOL, max_iter=TRIES, **options)
    except ValueError as broken:
        return [f"it breaks: {broken}"]
    found = complaints(problem, solution, TOL, truth.certificate)
    sums = solution.history.column("weights").sum(axis=1)
    if np.abs(sums - 1.0).max() > 1e-9:
        found.append(f"a sum of weights is {sums[np.abs(sums - 1.0).argmax()]:.3g}")
    return found


@pytest.mark.parametrize("name", SIMPLEX)
def test_nothing_is_found_in_healthy_code(name, problem, truth, worst_vertex):
    assert found_in(problem, truth, name) == []
    assert found_in(problem, truth, name, start=worst_vertex) == []


# --- faults of the descent on the simplex ----------------------------------------------------------------------------


def printed_update(D, mu):
    """D_mu - D_nu where D_mu + D_nu belongs (Algorithm 1 as printed, erratum R2).

    What comes in has D_nu = 0 already, so that its sum is -D_nu; only at first, with D_mu = 0, there is no D_nu.
    """
    D = D.copy()
    D[mu] = -D.sum() if D[mu] == 0.0 else D[mu] + D.sum()
    return D


def test_the_printed_update_leaves_the_simplex(problem, truth, monkeypatch):
    D, D_nu = np.array([-0.5, 0.0, 1.0, 0.5]), -1.0
    assert printed_update(D, 3)[3] == D[3] - D_nu
    monkeypatch.setattr(SIMPLEMKL, "balanced", printed_update)
    sums = []
    inner = SIMPLEMKL.moved
    monkeypatch.setattr(SIMPLEMKL, "moved", lambda *step: sums.append(inner(*step).sum()) or inner(*step))
    assert found_in(problem, truth, "simplemkl") != []
    assert max(sums) > 1.1


def absorbing_zeros(d, gradient, mu):
    """A weight that is 0 stays 0."""
    D = np.where(d == 0.0, 0.0, gradient[mu] - gradient)
    D[mu] = 0.0
    D[mu] = -D.sum()
    return D


def printed_direction(d, gradient, mu):
    """(14) as printed: D_mu sums over positive weights only, and leaves the simplex when a zero rises (erratum R1)."""
    D = np.where((d == 0.0) & (gradient > gradient[mu]), 0.0, gradient[mu] - gradient)
    positive = (d > 0.0) & (np.arange(len(d)) != mu)
    D[mu] = float(np.sum(gradient[positive] - gradient[mu]))
    return D


@pytest.mark.parametrize("direction", [absorbing_zeros, printed_direction])
@pytest.mark.parametrize(("module", "name"), [(SIMPLEMKL, "simplemkl"), (GRADIENT_DESCENT, "gradient_descent")])
def test_zeros_that_never_return(direction, module, name, problem, truth, worst_vertex, monkeypatch):
    monkeypatch.setattr(module, "descent_direction", direction)
    assert found_in(problem, truth, name, start=worst_vertex) != []


def test_multiplicative_weights_never_return_from_zero(problem, truth, worst_vertex, monkeypatch):
    """The closed form theta proportional to rho as the step of SILP: fine inside, absorbing at 0."""

    def closed_form(cuts, last=None):
        norms = cuts[-1].weights * np.sqrt(cuts[-1].squares)
        return algorithms.cuts.Master(-np.inf, norms / norms.sum(), np.ones(len(cuts)) / len(cuts))

    monkeypatch.setattr(SILP, "linear_master", closed_form)
    assert found_in(problem, truth, "silp", start=worst_vertex) != []


# --- faults of the stopping rule ------------------------------------------------------------------------------------


def one_sided(run, point):
    """Stop as soon as the objective does not fall by more than tol: a rise stops as well."""
    objectives = [record.objective for record in run.recorder.records[-2:]]
    return len(objectives) == 2 and objectives[0] - objectives[1] <= run.tol


def dual_value_as_upper_bound(run, point):
    """J taken for exact, and for the dual value of the problem: there is no gap at any weights."""
    return True


def signed_gap(run, point):
    """The wrong sign of a bound, hidden by an absolute value elsewhere: any point passes."""
    return point.lower - point.upper <= run.tol


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (one_sided, "silp"),
        (one_sided, "level"),
        (dual_value_as_upper_bound, "gradient_descent"),
        (dual_value_as_upper_bound, "silp"),
        (signed_gap, "simplemkl"),
        (signed_gap, "hessian_mkl"),
    ],
)
def test_stops_that_promise_nothing(rule, name, problem, truth, monkeypatch):
    """The certificate is computed afresh after the run, and takes the claim back."""
    monkeypatch.setattr(Run, "reached", rule)
    found = found_in(problem, truth, name)
    assert any("it ends as STALLED" in text for text in found), found


def test_a_limit_called_converged(problem, truth, monkeypatch):
    """Three iterations, and OPTIMAL without a look at the certificate."""
    monkeypatch.setattr(Status, "confirmed", lambda status, optimal: Status.OPTIMAL)
    solution = algorithms.gradient_descent(problem, tol=TOL, max_iter=3)
    assert solution.status is Status.OPTIMAL
    found = complaints(problem, solution, TOL, truth.certificate)
    assert any("relative gap" in text for text in found)


# --- faults of the point that is returned ---------------------------------------------------------------------------


def returning(change):
    """Run._solution with a change of the best point before it is certified."""
    original = Run._solution

    def mutant(run, status):
        run.best.point = change(run, run.best.point)
        return original(run, status)

    return mutant


def mixed_weights(run, best):
    return dataclasses.replace(best, weights=run.recorder.records[0].weights)


def mixed_dual_variables(run, best):
    return dataclasses.replace(best, betas=run.first.betas)


def mixed_intercept(run, best):
    return dataclasses.replace(best, intercepts=(best.intercepts[0] + 0.1,))


def tidied_weights(run, best):
    """Small weights set to 0 and the rest scaled up, after the objective was computed."""
    kept = np.where(best.weights > 0.5 * best.weights.max(), best.weights, 0.0)
    return dataclasses.replace(best, weights=kept / kept.sum())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("change", [mixed_weights, mixed_dual_variables, mixed_intercept, tidied_weights])
@pytest.mark.parametrize("name", ["silp", "simplemkl", "hessian_mkl"])
def test_points_mixed_from_two_iterates(change, name, problem, truth, monkeypatch):
    original = Run.svm

    def remember(run, weights):
        point = original(run, weights)
        run.first = getattr(run, "first", point)
        return point

    monkeypatch.setattr(Run, "svm", remember)
    monkeypatch.setattr(Run, "_solution", returning(change))
    found = found_in(problem, truth, name)
    assert any("it ends as" in text for text in found), found
    assert any("relative gap" in text for text in found), found


def test_a_stale_certificate(problem, truth, monkeypatch):
    """The bounds of the best point with the arrays of another one: the claim and the arrays differ."""
    certify = base.certify
    solved = truth.dual_coef, truth.weights, truth.intercept
    monkeypatch.setattr(
        base, "certify", lambda problem, beta, *, weights, intercept: certify(problem, solved[0], weights=solved[1])
    )
    solution = algorithms.gradient_descent(problem, tol=TOL, max_iter=2)
    assert solution.status is Status.OPTIMAL
    found = complaints(problem, solution, TOL, truth.certificate)
    assert "its certificate is not that of its arrays" in found


def test_machines_solved_loosely(problem, truth, monkeypatch):
    """One coarse call for each machine: gradients are wrong, and no gap of 1e-4 is reached."""
    monkeypatch.setattr(Run, "_solve", lambda run, machine: machine.solve(0.3 * abs(truth.objective)))
    assert found_in(problem, truth, "gradient_descent") != []
