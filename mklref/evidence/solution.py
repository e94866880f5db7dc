"""What the methods of empirical Bayes return: a stationary point, how it was reached, and the posterior there."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from mklref._names import Naming, each_naming, last_names, names_of_both, require_named
from mklref._typing import Array
from mklref._validate import checked_array, checked_flag
from mklref.evidence.likelihood import MarginalLikelihood, Stationarity, judge
from mklref.exceptions import InvalidInput
from mklref.kernels.validation import checked_blocks


class EvidenceStatus(Enum):
    """How a method ended; the text says what to do next."""

    STATIONARY = (
        "The first-order conditions hold to the requested tolerance. The problem is not convex: "
        "this is a local answer, and restarts may find a lower one. Where stationarity.curvature is negative it may be "
        "a saddle: 'newton' leaves it. Where stationarity.sensitivity is beyond 1 the last bits of the kernels "
        "decide the weights, as beside too little noise for targets beyond the span of the kernels: "
        "give learn_noise=True, or a larger noise_variance."
    )
    ABSORBED = (
        "A weight is zero that should grow, and this iteration cannot leave zero: "
        "go on from here with 'newton' or 'reweighted'."
    )
    STALLED = (
        "Rounding errors stop further progress, or may be larger than the tolerance (stationarity.rounding), or keep "
        "the inner problem of 'reweighted' from its certificate: "
        "go on from here with 'newton', normalise the kernels, or accept the residual. Beside too little noise for "
        "targets beyond the span of the kernels, weights grow until the rounding of the kernels explains the rest: "
        "give learn_noise=True, or a larger noise_variance."
    )
    ITERATION_LIMIT = "The iteration limit came first: raise max_iter, go on with 'newton', or accept the residual."
    TIME_LIMIT = "The time limit came first: raise max_time, or accept the residual."
    STOPPED = "The callback asked to stop."
    INTERRUPTED = "Ctrl-C: this is the best point up to then."


@dataclass(frozen=True)
class EvidenceRecord:
    """One iteration."""

    iteration: int
    seconds: float
    objective: float
    """phi of (14)."""
    residual: float
    """The largest residual of the first-order conditions."""
    weights: Array
    noise_variance: float
    inner_gap: float
    """Certified relative gap of the inner problem of the reweighted iteration; nan for the others."""


class Posterior(NamedTuple):
    """Mean and variance of each new sample."""

    mean: Array
    variance: Array


@dataclass(frozen=True)
class EvidenceSolution:
    """A point of (14) with its stationarity. There is no gap: nothing bounds how far the global minimum is below.

    The posterior mean is f(x) = sum_m weights_m sum_i dual_coef_i k_m(x_i, x).
    """

    dual_coef: Array
    """alpha = Kbar^{-1} y (n,)."""
    weights: Array
    """theta (M,), nonnegative: the variances of the functions."""
    noise_variance: float
    objective: float
    """phi of (14)."""
    stationarity: Stationarity
    effective_parameters: Array
    """theta_m tr(Kbar^{-1} K_m) (M,), which sum to less than n (MacKay 1992)."""
    status: EvidenceStatus
    method: str
    history: tuple[EvidenceRecord, ...] = field(repr=False)
    factor: Array = field(repr=False)
    """The Cholesky factor of Kbar (n, n)."""
    restart_objectives: Array = field(default_factory=lambda: np.empty(0))
    """phi where each start ended, the given start first: how many local answers were seen."""
    sample_names: tuple[Naming, ...] = ()
    """Each way in which data frames named the training samples (n,)."""
    kernel_names: tuple[Naming, ...] = ()
    """The names of the kernels (M,), where the stack had some."""

    @property
    def log_evidence(self) -> float:
        """log N(y; 0, Kbar), with the constant -n/2 log(2 pi) that (14) leaves out."""
        return -self.objective - 0.5 * len(self.dual_coef) * float(np.log(2.0 * np.pi))

    def decision_function(self, kernels_new: Any) -> Array:
        """The posterior means of new samples.

        Parameters
        ----------
        kernels_new : array (M, k, n) or sequence of (k, n) arrays
            k_m(new sample, training sample).

        Returns
        -------
        array (k,)

        Raises
        ------
        InvalidInput
            Wrong number of kernels or of training samples, with both numbers; data frames whose columns are not the
            training samples, by their names, in the order of the training; or entries that are not finite.
        InvalidType
            Complex, sparse, masked, object or bool data.
        """
        return np.asarray(self._cross_covariance(kernels_new) @ self.dual_coef)

    def posterior(self, kernels_new: Any, diagonals: Any, *, observation: bool = False) -> Posterior:
        """Mean and variance of the function, or of an observation, at new samples.

            c(x)     = sum_m theta_m k_m(x, X)
            mean     = c(x)'Kbar^{-1} y
            variance = sum_m theta_m k_m(x, x) - c(x)'Kbar^{-1} c(x)    (+ s for an observation)

        Parameters
        ----------
        kernels_new : array (M, k, n) or sequence of (k, n) arrays
            k_m(new sample, training sample).
        diagonals : array (M, k)
            k_m(x, x) of the new samples; `FamilyStack.diagonals` has them.
        observation : bool
            Whether to add the noise.

        Returns
        -------
        Posterior
            (mean, variance), each (k,). The weights are taken as known: their uncertainty is not in the variance.

        Raises
        ------
        InvalidInput, InvalidType
            As `decision_function`; diagonals that do not fit or are negative; observation that is not a bool.
        """
        observed = checked_flag("observation", observation)
        cross = self._cross_covariance(kernels_new)
        require_named("diagonals", last_names(diagonals), each_naming(kernels_new, "index"))
        prior = self.weights @ self._checked_diagonals(diagonals, len(cross))
        half = scipy.linalg.solve_triangular(self.factor, cross.T, lower=True, check_finite=False)
        variance = np.maximum(prior - np.einsum("ik,ik->k", half, half), 0.0)
        noise = self.noise_variance if observed else 0.0
        return Posterior(np.asarray(cross @ self.dual_coef), variance + noise)

    def _cross_covariance(self, kernels_new: Any) -> Array:
        """c(x) for each new sample, (k, n)."""
        known = self.sample_names, self.kernel_names
        blocks = checked_blocks(kernels_new, len(self.weights), len(self.dual_coef), *known)
        return np.asarray(sum(weight * block for weight, block in zip(self.weights, blocks, strict=True)))

    def _checked_diagonals(self, diagonals: Any, k: int) -> Array:
        shape, of = (len(self.weights), k), ": k_m(x, x) of new samples"
        array = checked_array(diagonals, "diagonals", shape, of, InvalidInput)
        if array.min(initial=0.0) < 0.0:
            m, i = (int(j) for j in np.unravel_index(int(array.argmin()), array.shape))
            raise InvalidInput(f"diagonals[{m}, {i}] = {array[m, i]:g} is negative; k(x, x) is a squared norm.")
        return array

    def __str__(self) -> str:
        return f"objective {self.objective:.6g}, {self.stationarity}"

    def __repr__(self) -> str:
        sizes = f"M={len(self.weights)}, n={len(self.dual_coef)}"
        return f"EvidenceSolution({sizes}, {self.status.name} by {self.method}: {self})"


def solution_at(
    point: MarginalLikelihood, status: EvidenceStatus, method: str, history: tuple[EvidenceRecord, ...]
) -> EvidenceSolution:
    """The solution that is an evaluated point."""
    return EvidenceSolution(
        dual_coef=point.alpha,
        weights=point.weights,
        noise_variance=point.noise_variance,
        objective=point.value,
        stationarity=judge(point),
        effective_parameters=point.weights * point.traces[: len(point.weights)],
        status=status,
        method=method,
        history=history,
        factor=point.factor,
        restart_objectives=np.array([point.value]),
        **names_of_both(point.given.kernels),
    )
