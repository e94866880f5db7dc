"""One step of each method that decreases (14); the identity counts as a kernel whose weight is a learned noise.

Bound both terms of phi at the current point, (15) at any functions f_m and (16) at the slopes z:

    phi(theta') <= 1/(2s) |y - sum_m f_m|^2 + 1/2 sum_m (||f_m||^2/theta'_m + z_m theta'_m) - 1/2 psi*(z)

    reweighted        minimise over f and theta': block 1-norm MKL with the weights sqrt(z_m), then
                      theta'_m = ||f_m||/sqrt(z_m)
    wipf_nagarajan    keep f_m = theta_m K_m alpha, minimise over theta':   theta'_m = theta_m sqrt(a_m/z_m)
    mackay            fixed point of the derivative:                        theta'_m = theta_m a_m/z_m

The bound takes the same value at theta_m and at theta_m a_m/z_m, and less in between: so neither update ever increases
phi, and MacKay's is the longest step for which this proof holds. The paper leaves the convergence of MacKay's open.
The two updates cannot leave a weight of zero; the reweighted one can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mklref._typing import Array
from mklref.certificate import certify
from mklref.evidence.likelihood import MarginalLikelihood
from mklref.evidence.newton import closer, residual, saddle_step
from mklref.evidence.problem import EvidenceProblem
from mklref.evidence.variational import with_slopes
from mklref.exceptions import Interrupted
from mklref.native import solve as solve_mkl
from mklref.problem import Problem
from mklref.regularizers import WeightedL1
from mklref.solution import Solution, Status

_INNER_SHARE = 1e-3
_INNER_LARGEST, _INNER_SMALLEST = 1e-6, 1e-8
"""Relative gap of the inner problem: a gap of epsilon leaves sqrt(epsilon) in the weights, so it follows the square of
the residual."""
_MOST_INNER = 10
"""Iterations of the native solver, after which Newton's method takes over."""
_EXTREME = 1e6
"""Kernels or a noise variance beyond this, or below its inverse, are rescaled for the inner problem."""
_HOPELESS = 1e100
"""With targets or a noise variance beyond this, or below its inverse, float64 does not hold the inner problem."""
_FLATTEST = 1e-300
"""The same of slopes z_m, whose roots are penalties, and of kernels beside one of size 1, that are smaller."""
_POLISHED = 1e-12
"""Residual of Newton's method on the inner problem."""


def fixed_point(point: MarginalLikelihood, exponent: float) -> MarginalLikelihood | None:
    """theta_m (a_m/z_m)^exponent, not below the lower bounds: MacKay for 1, Wipf and Nagarajan for 1/2.

    None where a_m or z_m is negative: those of semidefinite kernels are not, so that rounding has taken over.
    """
    if np.any(point.squares < 0.0) or np.any(point.traces < 0.0):
        return None
    growth = (point.squares / point.units) ** exponent
    return point.moved(np.maximum(point.lower, point.x * growth))


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def below(point: MarginalLikelihood, tol: float) -> MarginalLikelihood | None:
    """A lower point than a stationary one whose lowest curvature is below -tol, or None: it is no saddle."""
    curvature, direction = point.lowest_curvature
    return saddle_step(point, curvature, direction) if curvature < -tol else None


@dataclass
class Reweighted:
    """Steps that minimise the bound over functions and weights, each by the native solver, warm-started.

    Where the native solver does not reach the gap, as with little noise, Newton's method goes on in the weights: with
    the functions minimised out, the bound is 1/2 y'Kbar(theta)^{-1} y + 1/2 z'theta, smooth and convex.
    """

    problem: EvidenceProblem
    inner: Solution | None = None
    """The last inner solution, with its certificate, in the units of `balanced`."""

    def __post_init__(self) -> None:
        given = self.problem
        self.problem, self._units = balanced(given)
        self._given = given

    def step(self, point: MarginalLikelihood) -> MarginalLikelihood | None:
        """The next point, or None if the inner problem cannot be certified or not be solved to one that is better.

        The bound promises a decrease at its minimum only, so that a step needs a certified gap of at most 1e-6 there.
        """
        if self.problem is self._given:
            return self._step(point)
        there = MarginalLikelihood.at(self.problem, point.x / self._units)
        following = None if there is None else self._step(there)
        return None if following is None else MarginalLikelihood.at(self._given, following.x * self._units)

    def _step(self, point: MarginalLikelihood) -> MarginalLikelihood | None:
        slopes = point.units[: self.problem.n_kernels]
        held = (slopes >= _FLATTEST) & (slopes <= 1.0 / _FLATTEST)
        if not 1.0 / _HOPELESS < point.noise_variance < _HOPELESS or not held.all():
            return None
        gap = float(np.clip(_INNER_SHARE * residual(point) ** 2, _INNER_SMALLEST, _INNER_LARGEST))
        for inner in self._inner_solutions(point, gap):
            following = self._following(point, inner)
            if following is None or not inner.certificate.is_optimal(_INNER_LARGEST):
                continue
            if following.value < point.value or closer(following, point):
                self.inner = inner
                return following
        return None

    def _inner_solutions(self, point: MarginalLikelihood, gap: float) -> Iterator[Solution]:
        """Block 1-norm MKL with the weights sqrt(z_m) at the noise of the point: the native solution, then polished."""
        slopes = point.units[: self.problem.n_kernels]
        mkl = Problem(
            self.problem.kernels,
            self.problem.y,
            C=1.0 / point.noise_variance,
            loss="squared",
            regularizer=WeightedL1(np.sqrt(slopes)),
            intercept=False,
        )
        try:
            native = solve_mkl(mkl, tol=gap, max_iter=_MOST_INNER, start=self.inner)
        except Interrupted:  # whose solution is one of the inner problem
            raise KeyboardInterrupt from None
        if native.certificate.is_optimal(gap):
            yield native
        found = with_slopes(point, slopes, log_determinant=False, tol=_POLISHED).point
        certificate = certify(mkl, found.alpha, weights=found.weights)
        yield replace(
            native,
            dual_coef=found.alpha,
            weights=found.weights,
            objective=certificate.objective,
            certificate=certificate,
            status=Status.OPTIMAL.confirmed(certificate.is_optimal(gap)),
            solver="native, polished",
        )

    def _following(self, point: MarginalLikelihood, inner: Solution) -> MarginalLikelihood | None:
        """theta'_m = ||f_m||/sqrt(z_m) for the solution f of the reweighted problem; then s' = |y - f|/sqrt(z_0)."""
        problem = self.problem
        norms = inner.weights * problem.kernels.norms(inner.dual_coef)
        weights = norms / np.sqrt(point.units[: problem.n_kernels])
        noise = point.noise_variance
        if problem.learn_noise:
            errors = problem.y - inner.decision_function(problem.kernels)
            noise = max(float(problem.lower[-1]), float(np.linalg.norm(errors)) / float(np.sqrt(point.traces[-1])))
        return MarginalLikelihood.at(problem, problem.join(weights, noise))


def balanced(problem: EvidenceProblem) -> tuple[EvidenceProblem, Array]:
    """The problem in units in which kernels and noise are about 1, and those units of its variables.

    (K/k, y/h, s/h^2) is the same problem with the variables theta k/h^2 and s/h^2. k and h are powers of two, and 1
    unless the inner solver would leave double precision: then the kernels are copied.
    """
    size = float(problem.kernels.traces().max()) / problem.n_samples
    k = 1.0 if 1.0 / _EXTREME < size < _EXTREME or size == 0.0 else 2.0 ** round(np.log2(size))
    s = problem.noise_variance
    h = 1.0 if 1.0 / _EXTREME < s < _EXTREME else 2.0 ** round(0.5 * np.log2(s))
    if float(np.abs(problem.y).max()) > _HOPELESS * h:
        h = 1.0
    if k == h == 1.0:
        return problem, np.ones(len(problem.lower))
    floor = None if problem.noise_floor is None else problem.noise_floor / h / h
    kernels = problem.kernels.dense() / k
    kernels[problem.kernels.traces() / k < _FLATTEST] = 0.0  # what underflow leaves of them need not be semidefinite
    scaled = EvidenceProblem(kernels, problem.y / h, s / h / h, problem.learn_noise, floor)
    return scaled, problem.join(np.full(problem.n_kernels, h * (h / k)), h * h)
