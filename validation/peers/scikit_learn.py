"""scikit-learn's SVC, SVR and OneClassSVM (libsvm) on one kernel, or on fixed weights of several.

libsvm maximises sum alpha - 1/2 alpha'Q alpha on 0 <= alpha_i <= C with an intercept, which is our dual for M = 1;
its dual_coef_ is signed. Its one-class machine has nu n as the sum of alpha, ours 1. Its tolerance is on the KKT
conditions, not on the gap.
"""

from __future__ import annotations

import numpy as np
from sklearn.svm import SVC, SVR, OneClassSVM

from mklref.problem import Problem
from mklref.regularizers import Fixed, Lp
from mklref.testing import Answer, Supports

TOLERANCE = 1e-8


def solve(problem: Problem) -> Answer:
    """The machine on the combined kernel."""
    weights = problem.regularizer.weights_from_norms(np.ones(problem.n_kernels))
    K = problem.kernels.combine(weights)
    loss, n = problem.loss, problem.n_samples
    if loss.name == "hinge":
        machine = SVC(C=problem.C, kernel="precomputed", tol=TOLERANCE)
    elif loss.name == "epsilon_insensitive":
        machine = SVR(C=problem.C, epsilon=loss.epsilon, kernel="precomputed", tol=TOLERANCE)
    else:
        machine = OneClassSVM(nu=1.0 / (problem.C * n), kernel="precomputed", tol=TOLERANCE)
    machine.fit(K, problem.y, sample_weight=problem.sample_weight)
    beta = np.zeros(n)
    beta[machine.support_] = machine.dual_coef_[0]
    share = problem.C if loss.name == "one_class" else 1.0
    return Answer(share * beta, weights, share * float(machine.intercept_[0]))


def supports(problem: Problem) -> str:
    """One kernel, or weights that are given."""
    regularizer = problem.regularizer
    if not isinstance(regularizer, Fixed | Lp):
        return "another regularizer"
    if problem.n_kernels > 1 and isinstance(regularizer, Lp) and np.isfinite(regularizer.p):
        return "weights are learned"
    reason = Supports(losses={"hinge", "epsilon_insensitive", "one_class"}, intercept={True})(problem)
    weighted = problem.loss.name == "one_class" and problem.sample_weight is not None
    return reason or ("sample weights of the one-class machine" if weighted else "")


solve.supports = supports  # type: ignore[attr-defined]
