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

from dataclasses import dataclass

import numpy as np

from mklref.evidence.likelihood import MarginalLikelihood
from mklref.evidence.newton import newton_step, residuals
from mklref.evidence.problem import EvidenceProblem
from mklref.native import solve as solve_mkl
from mklref.problem import Problem
from mklref.regularizers import WeightedL1
from mklref.solution import Solution

_INNER_SHARE = 1e-3
_INNER_LARGEST, _INNER_SMALLEST = 1e-6, 1e-8
"""Relative gap of the inner problem: a gap of epsilon leaves sqrt(epsilon) in the weights, so it follows the square of
the residual."""
_INNER_LAST = (1e-10, 1e-12)
"""Tried before giving up; the last is about what rounding lets the inner solver certify."""
_ROUNDING = 1e-12
"""What phi may rise by, as a share of 1 + |phi|, in a step that brings the first-order conditions closer."""
_MOST_INNER = 50
"""Iterations of the inner solver: it converges quadratically, unless rounding keeps it from the gap asked for."""


def fixed_point(point: MarginalLikelihood, exponent: float) -> MarginalLikelihood | None:
    """theta_m (a_m/z_m)^exponent, not below the lower bounds: MacKay for 1, Wipf and Nagarajan for 1/2."""
    growth = (point.squares / point.units) ** exponent
    return MarginalLikelihood.at(point.problem, np.maximum(point.problem.lower, point.x * growth))


def newton(point: MarginalLikelihood) -> MarginalLikelihood | None:
    """A projected Newton step on phi itself, or None if rounding leaves no decrease."""
    problem = point.problem
    return newton_step(point, problem.lower, lambda x: MarginalLikelihood.at(problem, x))


@dataclass
class Reweighted:
    """Steps that minimise the bound over functions and weights, each by the native solver, warm-started."""

    problem: EvidenceProblem
    inner: Solution | None = None
    """The last inner solution, with its certificate."""

    def step(self, point: MarginalLikelihood) -> MarginalLikelihood | None:
        """The next point, or None if the inner problem cannot be certified or not be solved to one that is better.

        The bound promises a decrease at its minimum only, so that a step needs a certified gap of at most 1e-6 there.
        """
        residual = _residual(point)
        gap = float(np.clip(_INNER_SHARE * residual**2, _INNER_SMALLEST, _INNER_LARGEST))
        # A warm start from weights that have all but vanished may not leave them: then a cold one.
        for tol, start in ((gap, self.inner), *((last, None) for last in _INNER_LAST)):
            inner, following = self._minimise_bound(point, tol, start)
            if following is None or not inner.certificate.is_optimal(_INNER_LARGEST):
                continue
            rise = following.value - point.value
            if rise < 0.0 or (rise <= _ROUNDING * (1.0 + abs(point.value)) and _residual(following) < residual):
                self.inner = inner
                return following
        return None

    def _minimise_bound(
        self, point: MarginalLikelihood, gap: float, start: Solution | None
    ) -> tuple[Solution, MarginalLikelihood | None]:
        """theta'_m = ||f_m||/sqrt(z_m) for the solution f of the reweighted problem; then s' = |y - f|/sqrt(z_0)."""
        problem = self.problem
        mkl = Problem(
            problem.kernels,
            problem.y,
            C=1.0 / point.noise_variance,
            loss="squared",
            regularizer=WeightedL1(np.sqrt(point.units[: problem.n_kernels])),
            intercept=False,
        )
        inner = solve_mkl(mkl, tol=gap, max_iter=_MOST_INNER, start=start)
        norms = inner.weights * np.sqrt(np.maximum(problem.kernels.quadratic(inner.dual_coef), 0.0))
        weights = mkl.regularizer.weights_from_norms(norms)
        noise = point.noise_variance
        if problem.learn_noise:
            errors = problem.y - inner.decision_function(problem.kernels)
            noise = max(float(problem.lower[-1]), float(np.linalg.norm(errors)) / float(np.sqrt(point.traces[-1])))
        return inner, MarginalLikelihood.at(problem, problem.join(weights, noise))


def _residual(point: MarginalLikelihood) -> float:
    return float(residuals(point, point.problem.lower).max())
