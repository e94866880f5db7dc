"""Rademacher complexities and generalisation bounds of lp-norm multiple kernel learning (Kloft, appendix A).

The class is that of all functions of weights in the unit ball of lp, without an intercept:

    C H^p  = { sum_m <w_m, psi_m(.)> : || (||w_m||)_m ||_q <= C },     q = 2p/(p+1)
           = { sum_m sqrt(theta_m) <w_m, psi_m(.)> : ||w|| <= C, ||theta||_p <= 1, theta >= 0 }

Its Rademacher complexity, with independent signs sigma_i and p* = p/(p-1), has a supremum in closed form:

    Rad(C H^p) = E sup_h 1/n sum_i sigma_i h(x_i) = C/n E sqrt( || (sigma'K_m sigma)_m ||_{p*} )

Throughout k_m(x, x) <= R^2, c = 23/22, and logarithms are natural.

    Rad(H^p) <= sqrt(M^{1/p*}) Rad(H^1)                                        Theorem 6
    Rad(H^1) <= sqrt(c e ceil(log M) R^2 / n)                                  Theorem 8 (Cortes, Mohri, Rostamizadeh)
    Rad(H^p) <= sqrt(c e M^{1/p*} ceil(log M) R^2 / n)                         the corollary of both
    Rad(H^p) <= sqrt(c e p* M^{1/p*} R^2 / n)                                  Cortes et al., p* an integer
    risk     <= empirical risk + 2 L C (bound of Rad) + sqrt(log(2/delta) / (2n))       (33), (35); (34): L = 1/gamma

The corollary is printed as one on H^1; it is one on H^p (erratum L14). The rate sqrt(M) log M that the paper gives for
p = inf is true and loose, for it grows as sqrt(M log M).

Names mean the same everywhere: `n_samples` n >= 1, `n_kernels` M >= 2 (for M = 1 the logarithm is zero, and so would be
the bound), `p` in [1, inf], `kernel_radius` R > 0 (1 for spherically normalised kernels), `radius` C > 0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mklref._names import require_one_order
from mklref._typing import Array
from mklref._validate import (
    as_float_array,
    checked_array,
    checked_count,
    checked_flag,
    checked_number,
    checked_positive,
    checked_rng,
    require_finite,
)
from mklref.exceptions import InvalidParameter, InvalidTarget
from mklref.kernels.stack import ArrayStack, KernelStack, stack
from mklref.regularizers.norms import block_exponent, conjugate_exponent, p_norm

__all__ = [
    "CONSTANT",
    "Estimate",
    "class_radius",
    "complexity_bound",
    "conversion_factor",
    "cortes_bound",
    "margin_risk",
    "rademacher_complexity",
    "radius_margin_bound",
    "risk_bound",
    "supremum",
]

CONSTANT = 23.0 / 22.0
"""c of Theorem 8."""

_ROUNDING = 1e-9
_CHUNK = 1024
"""Draws that are multiplied with the kernels at a time."""


class Estimate(NamedTuple):
    """A mean over random draws, with its standard error."""

    value: float
    standard_error: float
    draws: int

    @classmethod
    def of(cls, values: Array) -> Estimate:
        """That of nonnegative draws, in the unit of the largest one: squares of others may leave float64."""
        top = float(values.max()) or 1.0
        error = float((values / top).std(ddof=1)) / math.sqrt(len(values))
        return cls(top * float((values / top).mean()), top * error, len(values))


def supremum(kernels: Any, signs: Any, p: float, *, radius: float = 1.0) -> Array:
    """sup over h in C H^p of 1/n sum_i sigma_i h(x_i) = C/n sqrt(|| (sigma'K_m sigma)_m ||_{p*}), for each sigma.

    Parameters
    ----------
    kernels : array (M, n, n), sequence of (n, n) arrays, or KernelStack
    signs : array (draws, n)
        One vector sigma in each row; any real numbers.
    p : float
        In [1, inf].
    radius : float
        C, positive.

    Returns
    -------
    array (draws,)

    Raises
    ------
    InvalidType, InvalidKernel
        As `mklref.kernels.stack`.
    InvalidParameter
        p or radius out of range, signs of the wrong shape or not finite, or a supremum beyond float64.
    """
    grams = _checked_kernels(kernels)
    dual, C = conjugate_exponent(_checked_p(p)), checked_positive("radius", radius)
    n = grams.shape[1]
    sigma = checked_array(signs, "signs", ("draws", n), ", one sign for each sample")
    # Powers of two as units, which change no digit: sums of large kernels, and squares of large numbers, leave float64.
    size, length = _unit(grams.own_diagonals.max()), _unit(np.abs(sigma).max(initial=0.0))
    sigma, squares = sigma / length, np.zeros((len(sigma), len(grams)))
    for m in range(len(grams)):
        squares[:, m] = np.einsum("ri,ri->r", sigma @ (grams.matrix(m) / size), sigma)
    norms = [p_norm(np.maximum(row, 0.0), dual) for row in squares]
    with np.errstate(over="ignore"):
        found = np.sqrt(norms) * math.sqrt(size) / n * length * C
    if not np.isfinite(found).all():
        raise InvalidParameter(
            f"radius = {C:g} and signs of {length:g} and more lead beyond float64; the supremum is proportional to "
            "both, and to the root of the kernels: rescale them."
        )
    return np.asarray(found)


def rademacher_complexity(
    kernels: Any, p: float, *, radius: float = 1.0, draws: int = 1000, rng: np.random.Generator | None = None
) -> Estimate:
    """Empirical Rademacher complexity of C H^p on these samples, by Monte Carlo over the signs.

    Parameters
    ----------
    kernels, p, radius
        As `supremum`.
    draws : int
        How many vectors of signs, at least 2.
    rng : numpy.random.Generator, optional
        np.random.default_rng(0) by default. Equal generators give common random numbers: then complexities for
        several p are comparable far below their standard errors.

    Returns
    -------
    Estimate
        (value, standard_error, draws).

    Raises
    ------
    InvalidType, InvalidKernel, InvalidParameter
        As `supremum`; fewer than two draws; or an rng that is not a Generator.
    """
    grams = _checked_kernels(kernels)
    count = checked_count("draws", draws, 2, "one draw has no standard error.")
    source = np.random.default_rng(0) if rng is None else checked_rng(rng)
    n = grams.shape[1]
    parts = []
    for start in range(0, count, _CHUNK):
        signs = source.choice([-1.0, 1.0], size=(min(_CHUNK, count - start), n))
        parts.append(supremum(grams, signs, p, radius=radius))
    return Estimate.of(np.concatenate(parts))


def conversion_factor(n_kernels: int, p: float, source: float = 1.0) -> float:
    """The factor kappa in Rad(H^p) <= kappa Rad(H^r): Theorem 6 for r = 1, Remark 7 for other r.

        kappa^2 = max { ||theta||_r : ||theta||_p <= 1 } = M^{max(0, 1/r - 1/p)}

    Remark 7 prints the inequality the other way round, Rad(H^p) bounded by the class to which the bound should be
    carried (erratum L15).

    Parameters
    ----------
    n_kernels : int
        M, at least 1.
    p, source : float
        p and r in [1, inf]: of the class whose complexity is bounded, and of that whose complexity is known.

    Raises
    ------
    InvalidType, InvalidParameter
        Numbers that are none, or out of range.
    """
    M = checked_count("n_kernels", n_kernels, 1, "a class has at least one kernel.")
    excess = 1.0 / _checked_p(source, "source") - 1.0 / _checked_p(p)
    return float(M ** (0.5 * max(0.0, excess)))


def complexity_bound(n_samples: int, n_kernels: int, p: float, *, kernel_radius: float = 1.0) -> float:
    """sqrt(c e M^{1/p*} ceil(log M) R^2 / n): Theorem 8 for p = 1, its corollary with Theorem 6 beyond.

    Raises
    ------
    InvalidType, InvalidParameter
        Numbers that are none, or out of range.
    """
    n, M, R = _checked_sizes(n_samples, n_kernels, kernel_radius)
    sparse = R * math.sqrt(CONSTANT * math.e * math.ceil(math.log(M)) / n)
    return conversion_factor(M, p) * sparse


def cortes_bound(
    n_samples: int, n_kernels: int, p: float, *, kernel_radius: float = 1.0, e_factor: bool = True
) -> float:
    """sqrt(c e p* M^{1/p*} R^2 / n), p* an integer: what Kloft compares with. It diverges as p falls to 1.

    Parameters
    ----------
    n_samples, n_kernels, kernel_radius
        As `complexity_bound`.
    p : float
        p*/(p* - 1) for an integer p*: 2, 3/2, 4/3, ...; inf for p* = 1.
    e_factor : bool
        Whether to keep the factor e, with which Kloft quotes it. Without it no complexity that we measured exceeds
        the bound either.

    Raises
    ------
    InvalidType, InvalidParameter
        Numbers that are none, or out of range, or p* that is no integer.
    """
    n, M, R = _checked_sizes(n_samples, n_kernels, kernel_radius)
    dual = conjugate_exponent(_checked_p(p))
    if not math.isfinite(dual) or abs(dual - round(dual)) > _ROUNDING * dual:
        raise InvalidParameter(
            f"p = {p!r} has p* = {dual:g}; the bound is stated for integers p* only: p = 2, 3/2, 4/3, 5/4, ... "
            "Use complexity_bound for other p."
        )
    factor = math.e if checked_flag("e_factor", e_factor) else 1.0
    return R * math.sqrt(CONSTANT * factor * dual * float(M) ** (1.0 / dual) / n)


def class_radius(norms: Any, p: float) -> float:
    """The smallest C with h in C H^p: the q-norm of the block norms ||w_m||, q = 2p/(p+1).

    Parameters
    ----------
    norms : array (M,)
        Nonnegative and finite; of a solution, weights times sqrt(beta'K_m beta).
    p : float
        In [1, inf].

    Raises
    ------
    InvalidType, InvalidParameter
        Norms of the wrong shape, not finite or negative; p out of range.
    """
    rho = as_float_array(norms, "norms", InvalidParameter).astype(np.float64, copy=False)
    if rho.ndim != 1 or not len(rho):
        raise InvalidParameter(f"norms has shape {rho.shape}; expected (M,), one for each kernel.")
    require_finite(rho, "norms", InvalidParameter)
    if rho.min() < 0.0:
        m = int(rho.argmin())
        raise InvalidParameter(f"norms[{m}] = {rho[m]:g} is negative; a norm is at least 0.")
    with np.errstate(over="ignore"):  # inf, which is no smaller than the radius
        return p_norm(rho, block_exponent(_checked_p(p)))


def _unit(largest: float) -> float:
    """The largest power of two that is not above it; 1 for 0."""
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest > 0.0 else 1.0


def _checked_kernels(kernels: Any) -> KernelStack:
    grams = stack(kernels)
    if isinstance(grams, ArrayStack):
        grams.require_psd()
    return grams


def _checked_p(p: Any, label: str = "p") -> float:
    return checked_number(label, p, "[1, inf]", "below 1 the ball of weights is not convex.")


def _checked_sizes(n_samples: Any, n_kernels: Any, kernel_radius: Any) -> tuple[int, int, float]:
    n = checked_count("n_samples", n_samples, 1, "the number of samples.")
    M = checked_count(
        "n_kernels", n_kernels, 2, "for one kernel ceil(log M) = 0; a single kernel has Rad <= R/sqrt(n)."
    )
    return n, M, checked_positive("kernel_radius", kernel_radius)


def risk_bound(
    empirical_risk: float,
    n_samples: int,
    n_kernels: int,
    p: float,
    *,
    lipschitz: float,
    delta: float = 0.05,
    kernel_radius: float = 1.0,
    radius: float = 1.0,
) -> float:
    """Corollary 9, (33), and (35) for balls of radius C: holds for all h in C H^p with probability 1 - delta.

        P[y h(x) <= 0] <= empirical risk + 2 L C sqrt(c e M^{1/p*} ceil(log M) R^2/n) + sqrt(log(2/delta)/(2n))

    Parameters
    ----------
    empirical_risk : float
        1/n sum_i V(y_i h(x_i)) in [0, 1], for a loss V with values in [0, 1] and V(t) = 1 for t <= 0.
    n_samples, n_kernels, p, kernel_radius
        As `complexity_bound`.
    lipschitz : float
        L, positive: the Lipschitz constant of V.
    delta : float
        In (0, 1).
    radius : float
        C, positive, and chosen before the samples are seen.

    Returns
    -------
    float
        Above 1 it says nothing.

    Raises
    ------
    InvalidType, InvalidParameter
        Numbers that are none, or out of range.
    """
    risk = checked_number("empirical_risk", empirical_risk, "[0, 1]", "the mean of a loss with these values.")
    probability = checked_number("delta", delta, "(0, 1)", "the probability of failure.")
    L, C = checked_positive("lipschitz", lipschitz), checked_positive("radius", radius)
    complexity = complexity_bound(n_samples, n_kernels, p, kernel_radius=kernel_radius)
    return risk + 2.0 * L * C * complexity + math.sqrt((math.log(2.0) - math.log(probability)) / (2.0 * n_samples))


def radius_margin_bound(
    empirical_risk: float,
    n_samples: int,
    n_kernels: int,
    p: float,
    *,
    margin: float,
    delta: float = 0.05,
    kernel_radius: float = 1.0,
    radius: float = 1.0,
) -> float:
    """Corollary 10, (34): (33) for the margin loss min(1, max(0, 1 - t/gamma)), whose Lipschitz constant is 1/gamma.

    Parameters
    ----------
    empirical_risk : float
        `margin_risk` on the samples, in [0, 1].
    n_samples, n_kernels, p, delta, kernel_radius, radius
        As `risk_bound`.
    margin : float
        gamma, positive, chosen before the samples are seen.

    Raises
    ------
    InvalidType, InvalidParameter
        Numbers that are none, or out of range.
    """
    steepness = 1.0 / checked_positive("margin", margin)
    common: dict[str, float] = {"delta": delta, "kernel_radius": kernel_radius, "radius": radius}
    return risk_bound(empirical_risk, n_samples, n_kernels, p, lipschitz=steepness, **common)


def margin_risk(scores: Any, y: Any, margin: float) -> float:
    """1/n sum_i min(1, max(0, 1 - y_i h(x_i)/gamma)).

    Parameters
    ----------
    scores : array (n,)
        h(x_i).
    y : array (n,)
        Labels -1 and +1.
    margin : float
        gamma, positive.

    Raises
    ------
    InvalidType, InvalidTarget
        Arrays of different or wrong shape, or samples, not finite, or other labels.
    InvalidParameter
        A margin that is not positive.
    """
    gamma = checked_positive("margin", margin)
    require_one_order({"scores": scores, "y": y}, InvalidTarget)
    h, labels = (as_float_array(data, name, InvalidTarget) for data, name in ((scores, "scores"), (y, "y")))
    if h.ndim != 1 or h.shape != labels.shape or not len(h):
        raise InvalidTarget(f"scores has shape {h.shape}, y has shape {labels.shape}; expected (n,) for both, n >= 1.")
    require_finite(h, "scores", InvalidTarget)
    if not np.all(np.abs(labels) == 1.0):
        i = int(np.argmax(np.abs(labels) != 1.0))
        raise InvalidTarget(f"y[{i}] = {labels[i]:g}; labels are -1 and +1.")
    with np.errstate(over="ignore"):  # a ratio beyond float64 is clipped like any other
        return float(np.mean(np.clip(1.0 - labels * h / gamma, 0.0, 1.0)))
