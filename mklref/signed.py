r"""A kernel machine whose kernel is a combination of any sign, as long as it is positive semidefinite.

    minimise over mu, f, b    sum_i c_i V(f_i + b, y_i) + 1/2 f'K(mu)^{-1} f
    subject to                K(mu) = sum_m mu_m K_m positive semidefinite,    trace K(mu) = c

where f'K^{-1}f is infinite outside the range of K. With mu >= 0 as well it is l1-MKL on the kernels (c/trace K_m) K_m,
with weights theta_m = mu_m trace K_m / c; without, its value can only be lower. The dual problem, over beta with
1'beta = c_b, a positive semidefinite Z, and lambda,

    maximise                  -sum_i c_i V*(-beta_i/c_i, y_i) - c lambda/2
    subject to                beta'K_m beta + <Z, K_m> = lambda trace K_m    for every m

gives a lower bound from any (beta, Z): a residual of the constraint is removed by adding a combination of the K_m to
Z, and what Z then lacks in definiteness by adding a multiple of the identity, which only raises lambda.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mklref._names import last_names, require_named
from mklref._typing import Array
from mklref._validate import checked_array, checked_positive
from mklref.certificate import Bounds, repair
from mklref.certificate.allowance import UNIT, dual_loss_error, most_losses, squares_error
from mklref.certificate.bounds import finite_or, unit_of
from mklref.certificate.feasible import checked_intercepts
from mklref.certificate.intercept import intercept_objective, middle_intercept
from mklref.exceptions import InvalidParameter
from mklref.kernels.validation import psd_tolerance
from mklref.losses import Loss
from mklref.problem import Problem
from mklref.regularizers import Lp, Regularizer
from mklref.solution import Solution

_DEPENDENT = 1e-14
"""Share of the largest singular value of the kernels below which a direction is rounding of a dependent kernel."""


class SignedProblem(Problem):
    """Lanckriet's problem: kernel weights of any sign under a trace constraint. Frozen, as every `Problem`.

    Parameters
    ----------
    kernels, y, C, loss, intercept
        As for `Problem`: the kernels are positive semidefinite, with positive traces.
    trace : float, optional
        c, the trace of the combined kernel; n by default, as for a kernel with unit diagonal.

    Raises
    ------
    InvalidParameter
        A trace that is not positive and finite, a zero kernel; what `Problem` refuses.
    """

    __slots__ = ("trace", "traces")
    _ARGUMENTS = ("kernels", "y", "C", "loss", "intercept", "trace")
    signed = True
    elsewhere = "It has a certificate of its own, problem.certify, and is solved by mklref.reference.solve."

    trace: float
    traces: Array

    def __init__(
        self,
        kernels: Any,
        y: Any,
        *,
        C: float = 1.0,
        loss: str | Loss = "hinge",
        intercept: bool = True,
        trace: float | None = None,
    ) -> None:
        super().__init__(kernels, y, C=C, loss=loss, regularizer=Lp(1), intercept=intercept)
        self._put("traces", self.kernels.traces())
        if self.traces.min() <= 0.0:
            raise InvalidParameter(f"kernels[{self.traces.argmin()}] is zero and has no trace to divide by; drop it.")
        given = self.n_samples if trace is None else trace
        self._put("trace", checked_positive("trace", given, "that of the combined kernel."))

    def with_kernels(self, kernels: Any, regularizer: Regularizer) -> Problem:
        """The same machine on other kernels, with nonnegative weights."""
        common = {name: getattr(self, name) for name in ("y", "C", "loss", "intercept")}
        return Problem(kernels, regularizer=regularizer, **common)

    def nonnegative(self) -> Problem:
        """The same problem with weights theta_m = mu_m trace K_m / c >= 0 and sum 1: l1-MKL, an upper bound."""
        factors = self.trace / self.traces
        return self.with_kernels(factors[:, None, None] * self.kernels.dense().astype(np.float64), Lp(1))

    @np.errstate(over="ignore", under="ignore", invalid="ignore")  # absurd weights are mixed with others
    def feasible(self, weights: Any) -> Array:
        """Weights with the right trace whose kernel is semidefinite, near M given numbers, else `InvalidParameter`.

        They are mixed with the uniform combination of the kernels of unit trace until the kernel has no negative
        eigenvalue beyond rounding.
        """
        weights = checked_array(weights, "weights", (self.n_kernels,))
        centre = self.trace / self.n_kernels / self.traces
        shares, low, high = weights / (np.abs(weights).max() or 1.0) * self.traces, 0.0, 1.0
        total = float(shares.sum())  # one that rounding may have made of 0 is none
        near = shares / total * self.trace / self.traces if total > UNIT * np.abs(shares).max() else centre
        if self._is_psd(near):
            return near
        for _ in range(50):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self._is_psd((1 - middle) * near + middle * centre) else (middle, high)
        return np.asarray((1 - high) * near + high * centre)

    def _is_psd(self, weights: Array) -> bool:
        """With half of the rounding that `certify` allows: on another processor it is another one."""
        lowest, rounding = self._lowest(weights)
        return lowest >= -0.5 * rounding

    def _lowest(self, weights: Array) -> tuple[float, float]:
        """The smallest eigenvalue of the kernel, -inf where it overflows, and how far below 0 rounding may take it."""
        K = self.kernels.combine(weights)
        if not np.isfinite(K).all():
            return -np.inf, 0.0
        return float(np.linalg.eigvalsh(K)[0]), psd_tolerance(K)

    @np.errstate(over="ignore", under="ignore", invalid="ignore")  # an absurd point has infinite bounds
    def certify(self, dual_coef: Any, weights: Any, intercept: float | None = None, slack: Any = None) -> Bounds:
        """Bounds on the optimal value from beta (n,), mu (M,), b and Z (n, n), by default the best b and Z = 0.

        Raises
        ------
        InvalidParameter
            Arrays of the wrong shape or not finite, or an intercept that the problem does not have.
        InvalidType
            No numbers.
        """
        require_named("dual_coef", last_names(dual_coef), self.kernels.sample_names)
        require_named("weights", last_names(weights), [self.kernels.names], "kernels")
        n = self.n_samples
        beta, mu = checked_array(dual_coef, "dual_coef", (n,)), checked_array(weights, "weights", (self.n_kernels,))
        Z = np.zeros((n, n)) if slack is None else checked_array(slack, "slack", (n, n))
        violations: list[tuple[str, float]] = []
        trace = float(self.traces @ mu)
        if abs(trace - self.trace) > 1e-9 * self.trace:
            text = f"the trace of the kernel is {trace:.6g} instead of {self.trace:.6g}"
            violations.append((text, abs(trace - self.trace)))
        lowest, rounding = self._lowest(mu)
        if lowest < -rounding:
            violations.append((f"the kernel has the eigenvalue {lowest:.3g}", -lowest))
        images = self.kernels.images(beta)
        image = self.kernels.combine(mu) @ beta
        b = middle_intercept(self, image) if intercept is None else checked_intercepts(self, intercept)[0]
        # f'K^{-1}f = beta'K beta of the scores f = K beta, and trace/c times that of K scaled to the trace c.
        objective = intercept_objective(self, image, b) + 0.5 * trace / self.trace * float(beta @ image)
        square = float(np.abs(mu) @ (np.abs(images @ beta) * len(mu) * UNIT + squares_error(self, beta, images)))
        most = float(mu @ (images @ beta)) + square
        stretch = (trace + len(mu) * UNIT * float(np.abs(mu) @ self.traces)) / self.trace
        # An eigenvalue that may be below 0 is raised to 0: by the objective of K + shift I, which is semidefinite.
        rounding = n * UNIT * float(np.abs(mu) @ self.traces)
        shift = max(0.0, rounding - lowest) if np.isfinite(lowest) else np.inf
        moved_losses = intercept_objective(self, image + shift * beta, b) - intercept_objective(self, image, b)
        most += shift * float(beta @ beta)
        upper = most_losses(self, beta, mu, images, b) + max(0.0, moved_losses) + 0.5 * stretch * most
        inside, moved = repair(self, beta)
        multiplier, error = self._multiplier(inside, mu, Z)
        lower = float(self.loss.dual_value(inside, self.y, self.costs) - 0.5 * self.trace * multiplier)
        least = lower - dual_loss_error(self, inside, image, b) - 0.5 * self.trace * error
        added = (upper - objective) + (lower - least)
        return Bounds(
            lower=finite_or(least, -np.inf),
            upper=np.inf if violations else finite_or(max(objective, upper), np.inf),
            rounding=finite_or(added, 0.0),
            objective=np.inf if violations else finite_or(objective, np.inf),
            infeasibility=max((size for _, size in violations + moved), default=0.0),
            violations=tuple(text for text, _ in violations + moved),
            unit=unit_of(self),
        )

    def _multiplier(self, beta: Array, mu: Array, Z: Array) -> tuple[float, float]:
        """lambda of a feasible dual point with this beta, near Z, and by how much rounding may have made it too small.

        Every constraint is divided by trace K_m: small kernels count as much as large ones. What may be missed of them
        by r is paid for by D with <D, K_m> = r_m, as sum_m mu_m r_m = <D, K(mu)> <= ||D|| c, however large weights are
        that nearly dependent kernels have. What rounding leaves of the smallest eigenvalue of Z is n u ||Z||.
        """
        K = self.kernels.dense().astype(np.float64) / self.traces[:, None, None]
        images, mu = self.kernels.images(beta), mu * self.traces
        squares, errors = images @ beta / self.traces, squares_error(self, beta, images) / self.traces
        values, vectors = np.linalg.eigh(0.5 * Z + 0.5 * Z.T)
        Z = (vectors * np.maximum(values, 0.0)) @ vectors.T
        left = squares + np.einsum("ij,mij->mi", Z, K).sum(axis=1)
        if not np.isfinite(left).all():
            return np.inf, 0.0
        # The constraints weighted by mu, or equally: an estimate of lambda that is exact at an optimum.
        shares = mu if mu.sum() > 0.0 else np.ones(len(mu))
        level = float(shares @ left) / float(shares.sum())
        U, sizes, V = np.linalg.svd(K.reshape(len(K), -1), full_matrices=False)
        kept = sizes > _DEPENDENT * sizes[0]
        U, V = U[:, kept] / sizes[kept], V[kept].reshape(-1, *Z.shape)
        for _ in range(2):  # the second round removes the rounding error of the first
            D = np.tensordot((level - left) @ U, V, 1)
            Z = Z + 0.5 * (D + D.T)
            left = squares + np.einsum("ij,mij->mi", Z, K).sum(axis=1)
        rounding = errors + len(Z) * UNIT * (2.0 * np.einsum("ij,mij->m", np.abs(Z), np.abs(K)) + abs(level))
        missed = np.abs(left - level) + rounding
        if not np.isfinite(Z).all() or not np.all(missed <= 1e-9 * abs(level) + 2.0 * rounding):
            return np.inf, 0.0
        values = np.linalg.eigvalsh(Z)
        shift, noise = max(0.0, -float(values[0])), len(Z) * UNIT * float(np.abs(values).max())
        return level + shift, float(missed @ np.abs(U) @ np.abs(V).sum(axis=2).max(axis=1)) + noise

    def __repr__(self) -> str:
        return f"SignedProblem(M={self.n_kernels}, n={self.n_samples}, C={self.C:g}, loss={self.loss})"


@dataclass(frozen=True, repr=False)
class SignedSolution(Solution):
    """A point of a signed problem with its bounds: mu (M,) of any sign in the place of the weights."""

    certificate: Bounds  # type: ignore[assignment]
    solver: str = "sdp"
    slack: Array = field(kw_only=True)
    """Z (n, n), positive semidefinite: proves that no other combination is better."""

    _FORMATS = ("mklref-signed-1",)
    _ARRAYS = (*Solution._ARRAYS, "slack")
    _BOUNDS = Bounds
