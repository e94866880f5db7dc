"""The lp wrapper: kernel machine and closed-form weights in turn (Kloft et al. 2011, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mklref._typing import Array
from mklref.algorithms.base import Run, algorithm
from mklref.algorithms.point import Point
from mklref.certificate.allowance import weights_error
from mklref.problem import on_the_simplex
from mklref.regularizers import BlockNorm, Lp

_SHARE = 0.1
"""Share of the wanted gap that bounding the weights of block norms q > 2 may cost of the dual objective."""


@algorithm(
    lambda problem: isinstance(problem.regularizer, Lp | BlockNorm),
    "weights in an lp ball, Lp(p), and block norms, BlockNorm(q)",
    remedy="For Groups: group_wrapper; for elastic nets and other penalties: iterated_reweighting; else mklref.solve.",
)
def lp_wrapper(run: Run) -> Iterator[Point]:
    """lp-norm MKL by alternating the kernel machine with the analytic weights.

    For weights in the lp ball the minimisation over them is in closed form, Kloft (17),

    theta_m = rho_m^{2/(p+1)} / (sum_l rho_l^{2p/(p+1)})^{1/p},     rho_m = ||w_m|| = theta_m sqrt(beta'K_m beta)   (22)

    and that over w is a kernel machine: block coordinate descent on a jointly convex problem. J(theta) never rises.

    - p > 1: every limit point is optimal if the kernels are positive definite (Theorem 4, for the hinge loss). The
      larger p, the fewer iterations.
    - p = 1: (17) holds, the theorem does not, and the descent is sublinear. If the iterations end uncertified, the
      status is NO_GUARANTEE.
    - Block norms q > 2 have no minimisation over the weights: R is a maximum over their inverses, Kloft (30). To
      iterate the weights theta_m = rho_m^{2-q} ||rho||_q^{q-2}, (31) without erratum L11, multiplies errors of
      log theta by up to 2 - q: they oscillate, and diverge for large q. The same weights as a function of
      g_m = sqrt(beta'K_m beta),

      theta_m = g_m^{(2-q)/(q-1)} (sum_l g_l^{q/(q-1)})^{(q-2)/q},

      are a tangent of R*, which is concave in g^2 for q >= 2, so that the dual objective never falls.

    A weight of 0 stays 0 in (17). One that would be of use, because the weights that fit the dual point are positive
    there, is brought back by a step halfway to them; the ball is convex.
    """
    run.guaranteed = not on_the_simplex(run.problem)  # there R* has kinks
    theta = run.start  # 1: input
    while True:  # 2: until a point is certified
        point = run.svm(theta)  # 3: beta by (21)
        yield point
        theta = closed_form(run, point)  # 4, 5: norms by (22), weights by (17)


def closed_form(run: Run, point: Point) -> Array:
    """The weights for the block norms (22) of a point, or for its dual norms where there is no minimum over weights.

    For q > 2 a small g_m has a huge weight, and max(g_m, s_m) takes its place: s_m is `lowest` times the largest g, or
    2 sqrt(E_m) if that is more. At q = inf, with S = sum_l g_l, the weight is then S/s_m; a larger one would gain at
    most s_m S/4 of R*, and this one already costs E_m S/s_m, which is as much, by the rounding of scores
    (`mklref.certificate.allowance`).
    """
    regularizer, g = run.regularizer, np.sqrt(point.squares)
    if isinstance(regularizer, BlockNorm) and regularizer.q > 2.0:
        parts = zip(run.machines, point.betas, strict=True)
        errors = np.sum([weights_error(own.problem, beta) for own, beta in parts], axis=0)
        least = np.maximum(lowest(regularizer, len(g), run.tol) * g.max(), 2.0 * np.sqrt(errors))
        return regularizer.weights_from_dual(np.maximum(g, least))
    theta, fitting = regularizer.weights_from_norms(point.weights * g), regularizer.weights_from_dual(g)
    use = fitting * point.squares  # rounding alone for a constant kernel beside an intercept
    useful = (theta == 0.0) & (use > np.finfo(float).eps * use.sum())
    return 0.5 * (theta + fitting) if useful.any() else theta


def lowest(regularizer: BlockNorm, M: int, tol: float) -> float:
    """The share of the largest g below which the weight of a kernel rises no further, for q > 2.

    The tangent of R* at max(g, s) bounds R* from above everywhere, and at g by R*(max(g, s)) - R*(g), which for
    s = (0.1 tol/M)^{1/q*} of the largest g is of the order 0.1 tol R*. The tangent at g_m = 0 is infinitely steep;
    a weight of 0 in its place, as of a kernel that is not there, lets the dual fall.
    """
    return float((_SHARE * tol / M) ** (1.0 / regularizer.dual_exponent))
