"""Bounds of the risk, with high probability, by the complexity of the class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mklref._validate import as_float_array, checked_number, checked_positive, require_finite
from mklref.bounds.complexity import complexity_bound
from mklref.exceptions import InvalidTarget


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
    n_samples, n_kernels : int
        n >= 1, M >= 2.
    p : float
        In [1, inf].
    lipschitz : float
        L, positive: the Lipschitz constant of V.
    delta : float
        In (0, 1).
    kernel_radius, radius : float
        R and C, positive. C has to be chosen before the samples are seen.

    Returns
    -------
    float
        Above 1 it says nothing.

    Raises
    ------
    InvalidType, InvalidParameter
        Arguments out of range.
    """
    risk = checked_number(
        "empirical_risk", empirical_risk, "[0, 1]", lambda r: 0.0 <= r <= 1.0, "the mean of a loss with these values."
    )
    probability = checked_number("delta", delta, "(0, 1)", lambda d: 0.0 < d < 1.0, "the probability of failure.")
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
        Arguments out of range.
    """
    return risk_bound(
        empirical_risk,
        n_samples,
        n_kernels,
        p,
        lipschitz=1.0 / checked_positive("margin", margin),
        delta=delta,
        kernel_radius=kernel_radius,
        radius=radius,
    )


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
        Arrays of different or wrong shape, not finite, or other labels.
    InvalidParameter
        A margin that is not positive.
    """
    gamma = checked_positive("margin", margin)
    h, labels = (as_float_array(data, name, InvalidTarget) for data, name in ((scores, "scores"), (y, "y")))
    if h.ndim != 1 or h.shape != labels.shape or not len(h):
        raise InvalidTarget(f"scores has shape {h.shape}, y has shape {labels.shape}; expected (n,) for both, n >= 1.")
    require_finite(h, "scores", InvalidTarget)
    if not np.all(np.abs(labels) == 1.0):
        i = int(np.argmax(np.abs(labels) != 1.0))
        raise InvalidTarget(f"y[{i}] = {labels[i]:g}; labels are -1 and +1.")
    with np.errstate(over="ignore"):  # a ratio beyond float64 is clipped like any other
        return float(np.mean(np.clip(1.0 - labels * h / gamma, 0.0, 1.0)))
