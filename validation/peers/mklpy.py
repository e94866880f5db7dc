"""MKLpy's AverageMKL: the mean of M kernels and a support vector machine, which is our Fixed(theta) on M theta_m K_m.

Its other algorithms (EasyMKL, GRAM, R-MKL, MEMO, CKA) solve problems of their own, with which none of ours
coincides: EasyMKL learns weights from the margin between distributions, R-MKL and GRAM from radius and margin.
"""

from __future__ import annotations

import numpy as np
import torch
from MKLpy.algorithms import AverageMKL
from sklearn.svm import SVC

from mklref.problem import Problem
from mklref.testing import Answer
from validation.peers import scikit_learn


def solve(problem: Problem) -> Answer:
    """AverageMKL with an SVC of tolerance 1e-8; the weights that it returns are 1/M each."""
    theta = problem.regularizer.weights_from_norms(np.ones(problem.n_kernels))
    scaled = [len(theta) * weight * matrix for weight, matrix in zip(theta, problem.kernels.dense(), strict=True)]
    learner = SVC(C=problem.C, kernel="precomputed", tol=scikit_learn.TOLERANCE)
    model = AverageMKL(learner=learner).fit([torch.tensor(K, dtype=torch.float64) for K in scaled], problem.y)
    beta = np.zeros(problem.n_samples)
    beta[model.learner.support_] = model.learner.dual_coef_[0]
    returned = len(theta) * theta * np.asarray(model.solution.weights, dtype=np.float64)
    return Answer(beta, returned, float(model.learner.intercept_[0]))


def supports(problem: Problem) -> str:
    """The hinge loss with an intercept and given weights, without weights of samples."""
    if problem.loss.name != "hinge" or problem.sample_weight is not None:
        return "not the hinge loss, or sample weights"
    return scikit_learn.supports(problem)


solve.supports = supports  # type: ignore[attr-defined]
