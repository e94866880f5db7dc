r"""A duality gap for mixed-norm synthesis, which the paper does not give.

    upper   P(A)    = C sum_j V(f_j, y_j) + lambda Omega(A),                          f = sum_t K_t A_t
    lower   D(beta) = -C sum_j V*(-beta_j/C, y_j) - lambda Omega*(Z/lambda),          Z_t = K_t'beta

D(beta) <= P(A) for all A and beta by Fenchel-Young, C V(f) + C V*(-beta/C) >= -beta f and
lambda Omega(A) + lambda Omega*(Z/lambda) >= sum A Z = beta'f. Both are equal at the optimum, where beta = -C V'(f, y).
So the residual beta of any A gives a lower bound; for q = 1 it is scaled into the ball of the dual norm first.
No symmetry, definiteness or squareness of the kernels is used.

Both bounds are wider by what rounding may have done to them, as those of a `Problem` are
(`mklref.certificate.allowance`): with |K_t| and |A|, |beta| entry by entry,

    e_j  = u (#{A != 0} sum_t (|K_t||A_t|)_j + |t_j| + |y_j - t_j|)       errors of the scores t_j
    dZ_t = u #{beta != 0} |K_t|'|beta|                                     errors of the correlations
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_array
from mklref.certificate import Bounds
from mklref.certificate.allowance import ELEMENTWISE, UNIT
from mklref.certificate.bounds import finite_or
from mklref.synthesis.problem import SynthesisProblem, checked_problem, correlations, scores
from mklref.synthesis.proximity import MixedNorm


def certify(problem: SynthesisProblem, coef: Any, dual_coef: Any = None) -> Bounds:
    """Bounds on the optimal value from coefficients A, four passes over the kernels.

    Parameters
    ----------
    problem : SynthesisProblem
    coef : array (tau, N)
    dual_coef : array (n,), optional
        beta, by default the residual -C V'(f, y) of A. What lies outside the domain of V* is moved into it and reported
        as a violation; scaling into the ball for q = 1 is not.

    Returns
    -------
    Bounds
        -inf and inf where a value overflows; `rounding` says by how much they are wider than what was computed.

    Raises
    ------
    InvalidParameter
        Arrays of the wrong shape or not finite.
    InvalidType
        Not a `SynthesisProblem`, or data without a faithful conversion to float64.
    """
    checked_problem(problem)
    A = checked_array(coef, "coef", problem.shape)
    given = None if dual_coef is None else checked_array(dual_coef, "dual_coef", (problem.n_samples,))
    low, high = problem.loss.box(problem.y, problem.costs)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        t = scores(problem.kernels, A)
        beta = residual(problem, t) if given is None else given
        inside = np.clip(beta, low, high)
        moved = float(np.abs(beta - inside).max())
        words = f"dual_coef leaves the domain of V* by up to {moved:.3g}"
        Z = correlations(problem.kernels, inside)
        lower, _ = dual_value(problem, inside, Z)
        objective = primal_value(problem, A, t)
        certain = _least_dual_value(problem, inside, Z)
        upper = _most_primal_value(problem, A, t)
    added = (upper - objective) + (lower - certain)
    return Bounds(
        finite_or(certain, -np.inf),
        finite_or(upper, np.inf),
        moved,
        (words,) if moved > 0.0 else (),
        rounding=finite_or(added, 0.0),
        objective=finite_or(objective, np.inf),
    )


def _most_primal_value(problem: SynthesisProblem, A: Array, t: Array) -> float:
    """P(A), and what rounding may have taken off."""
    y, loss, n = problem.y, problem.loss, problem.n_samples
    error = int(np.count_nonzero(A)) * _magnitudes(problem, np.abs(A), scores) + np.abs(t) + np.abs(y - t)
    losses = problem.C * float(np.maximum(loss.value(t - UNIT * error, y), loss.value(t + UNIT * error, y)).sum())
    penalty = problem.lam * problem.norm.value(A)
    return losses + penalty + UNIT * ((n + ELEMENTWISE) * losses + (A.size + ELEMENTWISE) * penalty)


def _least_dual_value(problem: SynthesisProblem, beta: Array, Z: Array) -> float:
    """D(beta), less what rounding may have added."""
    noise = int(np.count_nonzero(beta)) * _magnitudes(problem, np.abs(beta), correlations)
    noise += (Z.size + ELEMENTWISE) * np.abs(Z)
    value, scale = dual_value(problem, beta, np.abs(Z) + UNIT * noise)
    terms = problem.loss.dual_terms(scale * beta, problem.y, problem.costs)
    sizes = scale * float(np.abs(beta) @ np.abs(problem.y)) + float(np.abs(terms).sum())
    return value - (problem.n_samples + ELEMENTWISE) * UNIT * sizes


def _magnitudes(problem: SynthesisProblem, x: Array, product: Callable[[Array, Array], Array]) -> Array:
    """`scores` or `correlations` of |K| and x >= 0, kernel by kernel."""
    parts = [product(np.abs(K)[None], x if x.ndim == 1 else x[[t]]) for t, K in enumerate(problem.kernels)]
    return np.concatenate(parts) if x.ndim == 1 else np.sum(parts, axis=0)


def residual(problem: SynthesisProblem, t: Array) -> Array:
    """beta = -C V'(t, y), (n,): the dual point that belongs to the scores t."""
    return np.asarray(-problem.C * problem.loss.subgradient(t, problem.y))


def primal_value(problem: SynthesisProblem, A: Array, t: Array, norm: MixedNorm | None = None) -> float:
    """P(A) for A (tau, N), or in another shape with its norm, with the scores t (n,)."""
    penalty = (norm or problem.norm).value(A)
    return problem.C * float(problem.loss.value(t, problem.y).sum()) + problem.lam * penalty


def dual_value(problem: SynthesisProblem, beta: Array, Z: Array, norm: MixedNorm | None = None) -> tuple[float, float]:
    """D(s beta) and the scale s: s = 1 for q = 2, and for q = 1 the largest s <= 1 with s ||Z||_{p'inf;r} <= lambda."""
    size = (norm or problem.norm).dual_norm(Z)
    scale, penalty = 1.0, 0.0
    if problem.norm.q == 2:
        penalty = 0.5 * (size / problem.lam) * size
    elif size > problem.lam:
        scale = problem.lam / size
    return problem.loss.dual_value(scale * beta, problem.y, problem.costs) - penalty, scale
