"""The small problems of the outer loop, against cvxpy: the model of J plus psi, and the quadratic program."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from conic import solve
from regularizers.instances import FAMILIES, SCALE, M

from mklref.formulations.weighted_primal import psi
from mklref.native.model import minimise
from mklref.regularizers import Fixed, Groups, Lp

CURVED = [
    regularizer
    for regularizer in (Lp(1.01), Lp(4 / 3), Lp(2), Lp(7), Lp(np.inf), Fixed(SCALE), *FAMILIES)
    if regularizer.weight_form == "min" and regularizer.polyhedral(M) is None
]


def machine(regularizer, rng, ridge=0.3, rank=12, spread=0.5):
    """q, W and theta of a ridge machine on random kernels: W = L^{-1}(K_m beta)_m, L L' = Q + ridge."""
    n = 12
    features = rng.normal(size=(M, n, rank)) * 10.0 ** rng.uniform(-0.5, 0.5, size=(M, 1, 1)) / np.sqrt(rank)
    kernels = features @ features.transpose(0, 2, 1)
    theta = regularizer.weights_from_norms(10.0 ** rng.uniform(-spread, 0.0, size=M))
    root = np.linalg.cholesky(np.tensordot(theta, kernels, 1) + ridge * np.eye(n))
    beta = np.linalg.solve(root.T, np.linalg.solve(root, rng.normal(size=n)))
    images = kernels @ beta
    return images @ beta, np.linalg.solve(root, images.T), theta


def model(regularizer, q, W, theta, at):
    step = at - theta
    return -0.5 * q @ step + 0.5 * np.sum((W @ step) ** 2) + regularizer.weight_penalty(at)


def minimum_by_cvxpy(regularizer, q, W, theta):
    """The minimum of the model, its error, and the largest qhat = q - 2 W'W (at - theta) there."""
    at = cp.Variable(M, nonneg=True)
    penalty, domain = psi(regularizer, at)
    curvature = 0.5 * cp.sum_squares(W @ (at - theta)) if len(W) else 0.0
    program = cp.Problem(cp.Minimize(-0.5 * q @ (at - theta) + curvature + penalty), domain)
    error = solve(program)
    return program.value, error, (q - 2.0 * W.T @ (W @ (at.value - theta))).max()


def has_kinks_across_groups(regularizer):
    """Whether R* is the largest of the groups' norms; the way along the smooth relatives may then end early."""
    return isinstance(regularizer, Groups) and regularizer.p > 0 and regularizer.p + regularizer.q == 1


CASES = ({}, {"ridge": 3.0}, {"ridge": 0.1}, {"rank": 2}, {"spread": 4})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("regularizer", [member for member in CURVED if not has_kinks_across_groups(member)], ids=str)
def test_minimise_reaches_the_minimum_of_the_model(regularizer, rng):
    """Unless the model has it inside the weight set, where no q is left and the curvature is taken for too large."""
    compared = 0
    for case in CASES:
        q, W, theta = machine(regularizer, rng, **case)
        found = minimise(regularizer, q, W, theta)
        assert np.all(found >= 0.0)
        truth, error, largest = minimum_by_cvxpy(regularizer, q, W, theta)
        if largest > 1e-3 * q.max() and not np.isinf(getattr(regularizer, "p", 2.0)):
            assert model(regularizer, q, W, theta, found) == pytest.approx(truth, abs=error + 2e-6 * (1.0 + q @ theta))
            compared += 1
    assert compared >= 2 or np.isinf(getattr(regularizer, "p", 2.0))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("regularizer", CURVED, ids=str)
def test_the_way_there_leads_down(regularizer, rng):
    """-q/2'd + psi(theta + d) - psi(theta) <= 0, also where the model has its minimum inside the weight set."""
    for ridge in (10.0, 0.3, 0.02):
        for spread in (0.5, 3.0):
            q, W, theta = machine(regularizer, rng, ridge=ridge, spread=spread)
            for curvature in (W, W[:0]):
                if len(curvature) == 0 and not np.isfinite(regularizer.conjugate(np.sqrt(q))):
                    continue  # a linear model that is not bounded from below
                found = minimise(regularizer, q, curvature, theta)
                direction = found - theta
                change = -0.5 * q @ direction + regularizer.weight_penalty(found) - regularizer.weight_penalty(theta)
                assert change <= 1e-9 * (q @ theta)
