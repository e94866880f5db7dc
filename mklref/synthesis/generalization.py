r"""Generalisation bounds of Kowalski, Szafranski and Ralaivola, with the conditions and constants that hold.

For f in the ball F(kappa) = {sum_t sum_i A_ti k_t(x_i, .) : ||A||_{pq;r} <= kappa}, with probability 1 - delta over n
samples (Theorem 2, which rests on Theorem 1, quoted there from Ben-David, Rahimi and Srebro),

    P(y f(x) <= 0) <= mean_i phi(y_i f(x_i)) + 16 R + sqrt(log(1/delta)/(2n)),      phi(m) = min(max(0, 1 - m)^2, 1)
    R = kappa sup over samples of size 2n of E_sigma ||K sigma||_{p'q';r} / (2n)                       (Proposition 1)

Proposition 1 is an equality, with the radius kappa in its proof and not kappa/n (erratum K2).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import as_float_array, checked_count, checked_number, checked_positive, require_finite
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidParameter
from mklref.synthesis.proximity import MixedNorm

VANISHING = ((1, 1, 1), (1, 1, 2), (1, 2, 2), (2, 1, 1))
"""(p, q, r) for which Proposition 2 holds; it lists (1, 2, 1) and (2, 1, 2) in place of the last two (erratum K4)."""


def clipped_loss(margins: Any) -> Array:
    """phi(m) = min(max(0, 1 - m)^2, 1), elementwise: an upper bound of the 0/1 loss, 2-Lipschitz.

    Raises
    ------
    InvalidType, InvalidInput
        Margins that are no finite real numbers.
    """
    m = as_float_array(margins, "margins", InvalidInput).astype(np.float64, copy=False)
    require_finite(m, "margins", InvalidInput)
    return np.asarray(np.clip(1.0 - m, 0.0, 1.0) ** 2)


def rademacher_complexity(
    kernels: Any, *, p: int, q: int, r: int, radius: float = 1.0, draws: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """The Rademacher complexity of the ball of a mixed norm on one sample, by Monte Carlo (Proposition 1).

    E_sigma sup_{||A|| <= kappa} (1/n) sum_j sigma_j f(x_j) = (kappa/n) E_sigma ||(K_t'sigma)_t||_{p'q';r}.

    Parameters
    ----------
    kernels : array (tau, n, N)
        K_t[j, i] = k_t(x_i, x_j) on the sample. Theorem 2 asks for the supremum over all samples of size 2n, which
        cannot be computed: this is the value for one of them.
    p, q, r : int
        The norm.
    radius : float
        kappa, in (0, inf).
    draws : int
        Number of random sign vectors, at least 2.
    seed : int
        Of the generator.

    Returns
    -------
    estimate, standard error : float

    Raises
    ------
    InvalidKernel
        Not three-dimensional, empty or not finite.
    InvalidType, InvalidParameter
        Kernels without a faithful conversion to float64; numbers that are none, or out of range.
    """
    norm = MixedNorm(p, q, r)
    stack = as_float_array(kernels, "kernels", InvalidKernel)
    if stack.ndim != 3 or not stack.size:
        raise InvalidKernel(f"kernels has shape {stack.shape}; expected (tau, n, N), not empty.")
    require_finite(stack, "kernels", InvalidKernel)
    kappa, count = checked_positive("radius", radius), checked_count("draws", draws, 2, "one has no standard error.")
    source = np.random.default_rng(checked_count("seed", seed, 0, "where the generator starts."))
    signs = source.choice([-1.0, 1.0], size=(count, stack.shape[1]))
    size = float(np.abs(stack).max()) or 1.0  # squares of what is far from 1 leave float64
    images = np.matmul(signs, stack / size)  # tau, draws, N
    values = np.array([norm.dual_norm(Z) for Z in images.swapaxes(0, 1)])
    factor = kappa / stack.shape[1] * size
    return factor * float(values.mean()), factor * float(values.std(ddof=1)) / math.sqrt(len(values))


def massart(length: float, vectors: int) -> float:
    """Massart's bound of E_sigma sup_{x in A} |x'sigma| for `vectors` vectors of norm at most `length` (Lemma 1).

    length sqrt(2 ln(2 |A|)); Lemma 1 divides both sides by the dimension.

    Raises
    ------
    InvalidType, InvalidParameter
        Numbers that are none, or out of range.
    """
    count = checked_count("vectors", vectors, 1, "how many there are.")
    return checked_positive("length", length) * math.sqrt(2.0 * (math.log(2.0) + math.log(count)))


def proposition_2(n: int, tau: int, largest: float, *, p: int, q: int, r: int) -> float:
    """An upper bound of E_sigma ||K sigma||_{p'q';r}/(2n) on every sample of size 2n, where |k_t| <= largest.

    tau K_inf sqrt(ln(4n)/n). The bound has to hold everywhere and for absolute values (erratum K3). For each kernel
    it is Massart's bound for 2n vectors of norm K_inf sqrt(2n), divided by 2n: that factor is missing in the last
    display of the proof (erratum K5), and the constant is right with it.

    Raises
    ------
    InvalidType, InvalidParameter
        Numbers that are none, or out of range; a norm for which it does not hold (erratum K4).
    """
    norm = MixedNorm(p, q, r)
    if (norm.p, norm.q, norm.r) not in VANISHING:
        listed = ", ".join(map(str, VANISHING))
        raise InvalidParameter(f"Proposition 2 does not hold for (p, q, r) = {(p, q, r)}; it does for {listed}.")
    n = checked_count("n", n, 1, "half the size of the samples.")
    K_inf = checked_positive("largest", largest, "a bound of |k_t|.")
    return (
        checked_count("tau", tau, 1, "the number of kernels.") * massart(K_inf * math.sqrt(2.0 * n), 2 * n) / (2.0 * n)
    )


def theorem_2(margins: Any, complexity: float, *, delta: float = 0.05) -> float:
    """The right-hand side of Theorem 2 for margins y_i f(x_i) (n,) and a complexity R.

    Parameters
    ----------
    margins : array (n,)
    complexity : float
        R, for instance radius * proposition_2(n, tau, largest, ...).
    delta : float
        The probability with which the bound may fail, in (0, 1).

    Raises
    ------
    InvalidType, InvalidInput, InvalidParameter
        Margins as for `clipped_loss`, or not (n,); numbers that are none, or out of range.
    """
    array = as_float_array(margins, "margins", InvalidInput)
    if array.ndim != 1 or not array.size:
        raise InvalidInput(f"margins has shape {array.shape}; expected (n,), not empty.")
    failure = checked_number("delta", delta, "(0, 1)", "the probability of failure.")
    R = checked_number("complexity", complexity, "[0, inf)", "a Rademacher complexity.")
    confidence = math.sqrt(-math.log(failure) / (2.0 * len(array)))
    return float(clipped_loss(array).mean()) + 16.0 * R + confidence
