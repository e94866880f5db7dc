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
"""

from __future__ import annotations

from mklref.bounds.complexity import (
    CONSTANT,
    Estimate,
    class_radius,
    complexity_bound,
    conversion_factor,
    cortes_bound,
    rademacher_complexity,
    supremum,
)
from mklref.bounds.risk import margin_risk, radius_margin_bound, risk_bound

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
