"""R and R* from above, in rational arithmetic, as functions of the squared norms.

With N_r(x) = (sum x^r)^{1/r} for x >= 0, max x for r = inf, x_l the part of group l and d_l its size:

    regulariser       R(rho), x = rho^2                              R*(g), x = g^2
    Lp(p)             1/2 N_{p/(p+1)}(x)                             1/2 N_{p/(p-1)}(x)
    Fixed(w)          1/2 sum x_m/w_m                                1/2 sum w_m x_m
    Tikhonov(p, mu)   3 (mu N_{p/(p+1)}(x)^2 / 16)^{1/3}             N_{p/(p-1)}(x)^2 / (16 mu)
    Groups(p, q)      1/2 N_{1/(1+p+q)}(d_l^p N_{1/(1+q)}(x_l))      1/2 N_{1/(1-p-q)}(d_l^{-p} N_{1/(1-q)}(x_l))

The exponents are exact rationals of the floats p and q; p + q within 1e-9 of 1 counts as 1, as in `Groups`. Both R and
R* are non-decreasing, so that upper bounds of the squares give upper bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from mklref.certificate.exact import Unbounded, power_up
from mklref.exceptions import NotApplicable
from mklref.regularizers import Fixed, Groups, Lp, Regularizer, Tikhonov
from mklref.regularizers.norms import FEASIBILITY

SUPPORTED = (Lp, Fixed, Tikhonov, Groups)
NAMES = ", ".join(kind.__name__ for kind in SUPPORTED)


def require_supported(regularizer: Regularizer) -> None:
    """Raise `NotApplicable` if there is no rigorous bound of this regulariser; a subclass may have another R."""
    if type(regularizer) not in SUPPORTED:
        raise NotApplicable(
            f"regularizer {regularizer} has no rigorous certificate; those that have are {NAMES}. "
            "Use certify without rigorous=True, or state the problem as one of these (mklref.equivalences)."
        )


def penalty(regularizer: Regularizer, squares: Sequence[Fraction]) -> Fraction:
    """R(rho) from above for upper bounds of rho^2; `Unbounded` where it is infinite, or too large."""
    match regularizer:
        case Fixed(weights=weights):
            if any(x and not w for x, w in zip(squares, weights, strict=True)):
                raise Unbounded
            return sum((x / Fraction(w) for x, w in zip(squares, weights, strict=True) if w), Fraction(0)) / 2
        case Tikhonov(mu=mu):
            norm = _norm(regularizer, squares, 1)
            return 3 * power_up(Fraction(mu) * norm * norm / 16, Fraction(1, 3))
    return _norm(regularizer, squares, 1) / 2


def conjugate(regularizer: Regularizer, squares: Sequence[Fraction]) -> Fraction:
    """R*(g) from above for upper bounds of g^2; `Unbounded` where it is too large."""
    match regularizer:
        case Fixed(weights=weights):
            return sum((Fraction(w) * x for x, w in zip(squares, weights, strict=True)), Fraction(0)) / 2
        case Tikhonov(mu=mu):
            norm = _norm(regularizer, squares, -1)
            return norm * norm / (16 * Fraction(mu))
    return _norm(regularizer, squares, -1) / 2


def _norm(regularizer: Regularizer, squares: Sequence[Fraction], sign: int) -> Fraction:
    """The norm N of the table from above, in R with the sign 1, in R* with the sign -1."""
    match regularizer:
        case Lp(p=p) | Tikhonov(p=p):
            return norm_up(squares, _inverse(1 + sign * _reciprocal(p)))
        case Groups(groups=groups, p=p, q=q):
            within, blocks = _inverse(1 + sign * Fraction(q)), []
            for members in groups:
                factor = power_up(Fraction(len(members)) ** sign, Fraction(p)) if p else Fraction(1)
                blocks.append(factor * norm_up([squares[m] for m in members], within))
            return norm_up(blocks, _inverse(1 + sign * _sum_of_exponents(regularizer)))
    raise NotApplicable(str(regularizer))


def norm_up(x: Sequence[Fraction], r: Fraction | None) -> Fraction:
    """N_r(x) from above for x >= 0 and r in (0, inf], None standing for inf."""
    largest = max(x)
    if largest == 0 or r is None:
        return largest
    if r == 1:
        return sum(x, Fraction(0))
    return largest * power_up(sum((power_up(entry / largest, r) for entry in x), Fraction(0)), 1 / r)


def _sum_of_exponents(groups: Groups) -> Fraction:
    exact = Fraction(groups.p) + Fraction(groups.q)
    return Fraction(1) if abs(exact - 1) <= FEASIBILITY else exact


def _reciprocal(p: float) -> Fraction:
    """1/p, exactly; 0 for p = inf."""
    return Fraction(0) if math.isinf(p) else 1 / Fraction(p)


def _inverse(x: Fraction) -> Fraction | None:
    """1/x for x >= 0, None standing for inf."""
    return 1 / x if x else None
