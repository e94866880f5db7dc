"""An interval for the exact kernels from a solution on factors below them.

If K_m - L_m L_m' is semidefinite, f = L v has in the space of K_m at most the norm that it has in that of L_m L_m', so
that the objective on the factors bounds the optimum with the exact kernels from above as it stands. Every dual point
bounds it from below, t beta as well as beta, and the best t is smaller the more the factors leave out, because they do
not see how large beta'K_m beta is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mklref._run import check_start
from mklref._typing import Array
from mklref.certificate import Certificate, certify
from mklref.certificate.numerical import certify_images
from mklref.exceptions import InvalidInput
from mklref.kernels.factor_stack import FactorStack
from mklref.problem import Problem, require_problem
from mklref.solution import Solution

_SCALES = 0.5 ** np.arange(0.0, 8.0, 0.5)


def exact_interval(exact: Problem, approximation: Problem, solution: Solution) -> Certificate:
    """Bounds on the optimal value with the exact kernels, from a solution on factors that approximate them from below.

    Parameters
    ----------
    exact : Problem
        With the exact kernels, in memory or lazy; their products with beta are evaluated.
    approximation : Problem
        The same problem with a `FactorStack` for which K_m - L_m L_m' is semidefinite, as Nystroem's method and pivoted
        Cholesky factorisation give it, and random features do not. It is your word that this holds.
    solution : Solution
        Of the approximation; any point will do.

    Returns
    -------
    Certificate
        At the best multiple of the dual point, where `upper` is that on the factors if it is less.

    Raises
    ------
    InvalidType
        What is no problem, or no solution.
    InvalidInput
        A solution of another problem; problems with different samples, numbers of kernels, costs or targets.
    """
    require_problem(exact)
    require_problem(approximation)
    check_start(approximation, solution, "solution")
    stack = approximation.kernels
    same = exact.kernels.shape == stack.shape and np.array_equal(exact.y, approximation.y)
    if not isinstance(stack, FactorStack) or not same or not np.array_equal(exact.costs, approximation.costs):
        raise InvalidInput(
            "exact and approximation have to be one problem with two stacks of kernels, the second of them factors: "
            "make it by exact.replace(kernels=kernels.cholesky(family, X))."
        )
    below = certify(approximation, solution.dual_coef, weights=solution.weights, intercept=solution.intercept)
    machines = list(zip(exact.machines, exact.split(solution.dual_coef), strict=True))
    images = [machine.problem.kernels.images(beta) for machine, beta in machines]
    found = []
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for scale in _SCALES:
            parts = [(scale * beta, Multiple(image, scale)) for (_, beta), image in zip(machines, images, strict=True)]
            betas, own = zip(*parts, strict=True)
            found.append(certify_images(exact, betas, own, solution.weights, None))
    best = max(found, key=lambda certificate: certificate.lower)
    return replace(best, upper=min(below.upper, *(certificate.upper for certificate in found)))


class Multiple:
    """The images of scale beta, from those of beta."""

    __array_ufunc__ = None  # an array on the left leaves the product to the class

    def __init__(self, images: Any, scale: float) -> None:
        self.images, self.scale = images, scale

    def __rmatmul__(self, weights: Array) -> Array:
        return np.asarray(self.scale * (weights @ self.images))

    def __matmul__(self, u: Array) -> Array:
        return np.asarray(self.scale * (self.images @ u))

    def __abs__(self) -> Multiple:
        return Multiple(abs(self.images), self.scale)
