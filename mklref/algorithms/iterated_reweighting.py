"""Iterated reweighting: a concave penalty of the block norms, bounded by its tangents (Tomioka and Suzuki, 3.2-3.3)."""

from __future__ import annotations

from collections.abc import Iterator

from mklref import regularizers as reg
from mklref.algorithms.base import Run, algorithm
from mklref.algorithms.lp_wrapper import closed_form
from mklref.algorithms.point import Point

_PENALTIES = (reg.ElasticNet, reg.ConcaveBlock, reg.Power, reg.HalfPower, reg.WeightedL1, reg.Tikhonov)


@algorithm(
    lambda problem: isinstance(problem.regularizer, _PENALTIES),
    ", ".join(kind.__name__ for kind in _PENALTIES),
    remedy="For Lp(p) and BlockNorm(q): lp_wrapper; for Groups: group_wrapper; else mklref.solve.",
)
def iterated_reweighting(run: Run) -> Iterator[Point]:
    """Elastic nets, generalised block norms and Tikhonov penalties by kernel machines with fixed weights.

    Where R = sum_m g(rho_m^2) with a concave g, every theta > 0 gives a tangent from above, by (10) and (11),

    g(rho_m^2) <= rho_m^2/(2 theta_m) - g*(1/(2 theta_m)),     with equality at theta_m = 1/(2 g'(rho_m^2)).

    The right-hand side makes a kernel machine with the weights theta. Solving it and touching again, the paper's
    convex upper-bounding technique, is majorisation and minimisation: the objective never rises. The elastic net (12)
    is g(x) = (1-lam) sqrt(x) + lam/2 x, with theta = rho/((1-lam) + lam rho); its Ivanov form and the Tikhonov
    penalties on a norm of the weights alternate in the same way, each with its own closed form.

    Where d/drho g(rho^2) starts at 0 every useful kernel keeps a positive weight, and limit points are optimal as in
    Kloft's Theorem 4. Penalties that switch kernels off (elastic nets, sums of block norms) approach their zeros
    only linearly, and sublinearly at the threshold, without such a theorem: if the iterations end uncertified, the
    status is NO_GUARANTEE. Zeros that would be of use come back as in `lp_wrapper`.
    """
    run.guaranteed = not switches_off(run.regularizer)
    theta = run.start
    while True:
        point = run.svm(theta)  # minimise the tangent bound over f and b
        yield point
        theta = closed_form(run, point)  # touch again: theta = 1/(2 g'(rho^2))


def switches_off(regularizer: reg.Regularizer) -> bool:
    """Whether the penalty can leave a useful kernel without weight: its slope in rho does not start at 0."""
    if isinstance(regularizer, reg.ConcaveBlock):
        return regularizer.g.slopes.low > 0.0
    if isinstance(regularizer, reg.HalfPower):
        return regularizer.q == 1.0
    return not (isinstance(regularizer, reg.Power | reg.Tikhonov) and regularizer.p > 1.0)
