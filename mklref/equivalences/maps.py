"""How a solution of one problem is one of another: the parameter maps, one function each.

Most maps leave the functions f_m as they are and change the cost: with C' = k C,

    beta' = k beta,   theta' = theta/k,   b' = b,

because beta_i/c_i and f_m = theta_m K_m beta stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mklref._typing import Array
from mklref.exceptions import NotApplicable
from mklref.losses import DensityLevelSet, OneClass
from mklref.problem import Problem
from mklref.regularizers import (
    ElasticNet,
    Fixed,
    Groups,
    HalfPower,
    Lp,
    Power,
    Regularizer,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)
from mklref.regularizers.norms import ball_exponent, p_norm
from mklref.solution import Solution


class Carried(NamedTuple):
    """A solution of the problem on the left, as a point of the problem on the right."""

    problem: Problem
    dual_coef: Array
    weights: Array
    intercept: float
    function_scale: float = 1.0
    """The functions on the right are this many times those on the left."""


Carry = Callable[[Problem, Solution], Carried]


def block_norms(problem: Problem, solution: Solution) -> Array:
    """rho_m = ||f_m|| = theta_m sqrt(beta'K_m beta), (M,) (Kloft (22) with the transpose of erratum L8).

    Raises
    ------
    NotApplicable
        If all of them vanish: the maps that depend on the solution need f != 0.
    """
    squares = np.maximum(problem.kernels.quadratic(solution.dual_coef), 0.0)
    rho = np.asarray(solution.weights * np.sqrt(squares))
    if not rho.any():
        raise NotApplicable("the solution is f = 0, to which no parameter map applies; raise C.")
    return rho


def same_functions(problem: Problem, solution: Solution, regularizer: Regularizer, factor: float = 1.0) -> Carried:
    """C' = k C, beta' = k beta, theta' = theta/k."""
    right = problem.replace(C=factor * problem.C, regularizer=regularizer)
    return Carried(right, factor * solution.dual_coef, solution.weights / factor, solution.intercept)


def unchanged(problem: Problem, solution: Solution) -> Carried:
    """The same problem in another formulation."""
    return same_functions(problem, solution, problem.regularizer)


def renamed(other: Callable[[Any], Regularizer]) -> Carry:
    """Another regulariser with the same R."""
    return lambda problem, solution: same_functions(problem, solution, other(problem.regularizer))


def tikhonov_to_ivanov(problem: Problem, solution: Solution) -> Carried:
    """`Tikhonov(p, mu)` at C is `Lp(p)` at C s, s = ||theta||_p = (||rho||_q^2/(4 mu))^{1/3} (Kloft Theorem 1).

    The theorem says that some constant exists; this one follows from the minimum over s of ||rho||_q^2/(2s) + mu s^2.
    Prop. 11, from which the paper derives it, needs a penalty that is unique at the optimum (erratum L16); s is.
    """
    penalty = problem.regularizer
    assert isinstance(penalty, Tikhonov)
    return same_functions(problem, solution, penalty.ball, penalty.radius(block_norms(problem, solution)))


def ivanov_to_tikhonov(problem: Problem, solution: Solution, mu: float = 1.0) -> Carried:
    """The inverse, for any mu: `Lp(p)` at C is `Tikhonov(p, mu)` at C/s."""
    ball = problem.regularizer
    assert isinstance(ball, Lp)
    penalty = Tikhonov(ball.p, mu)
    return same_functions(problem, solution, penalty, 1.0 / penalty.radius(block_norms(problem, solution)))


def _half_power_factor(rho: Array, q: float) -> float:
    """q/2 (sum rho^q)^{-1/p} = q/2 ||rho||_q^{q-2}, by the chain rule of 1/2 ||rho||_q^2 in 1/2 sum rho^q."""
    return float(0.5 * q * p_norm(rho, q) ** (q - 2.0))


def lp_to_half_power(problem: Problem, solution: Solution) -> Carried:
    """`Lp(p)` at C is `HalfPower(q)` at q/2 (sum rho^q)^{-1/p} C, q = 2p/(p+1) (Kloft Prop. 5).

    The proof prints the factor without q/2 (erratum L10). At p = 1, squared loss and no intercept, this takes the
    weighted form of the group lasso to (14), at C/(2 sum rho), so that (14) at C is the weighted form at 2 C sum rho;
    the paper equates them at the same C (L4).
    """
    ball = problem.regularizer
    assert isinstance(ball, Lp)
    q = ball.block_exponent
    return same_functions(problem, solution, HalfPower(q), _half_power_factor(block_norms(problem, solution), q))


def half_power_to_lp(problem: Problem, solution: Solution) -> Carried:
    """The inverse of `lp_to_half_power`."""
    power = problem.regularizer
    assert isinstance(power, HalfPower)
    factor = 1.0 / _half_power_factor(block_norms(problem, solution), power.q)
    return same_functions(problem, solution, Lp(ball_exponent(power.q)), factor)


def lp_to_power(problem: Problem, solution: Solution) -> Carried:
    """`Lp(p)` at C is `Power(p)` at C ||rho||_q^{q-2}: Tomioka (5) to (7), whose own C is the reciprocal."""
    ball = problem.regularizer
    assert isinstance(ball, Lp)
    q = ball.block_exponent
    factor = p_norm(block_norms(problem, solution), q) ** (q - 2.0)
    return same_functions(problem, solution, Power(ball.p), factor)


def power_to_lp(problem: Problem, solution: Solution) -> Carried:
    """The inverse of `lp_to_power`."""
    power = problem.regularizer
    assert isinstance(power, Power)
    q = power.block_exponent
    factor = p_norm(block_norms(problem, solution), q) ** (2.0 - q)
    return same_functions(problem, solution, Lp(power.p), factor)


def elastic_net_to_tikhonov(problem: Problem, solution: Solution) -> Carried:
    """Ivanov (C, lam) is Tikhonov (C/c, lam/c) with c = lam + (1-lam) sum rho (Tomioka 3.3).

    The paper leaves the conversion open; it equates dR/drho = (1-lam) S + lam rho with c times that of (13).
    """
    net = problem.regularizer
    assert isinstance(net, ElasticNet)
    c = net.lam + (1.0 - net.lam) * float(block_norms(problem, solution).sum())
    return same_functions(problem, solution, ElasticNet(net.lam / c, "tikhonov"), 1.0 / c)


def elastic_net_to_ivanov(problem: Problem, solution: Solution) -> Carried:
    """The inverse: Tikhonov (C, lam) is Ivanov (C c, lam c) with c = S/(1 - lam + lam S), S = sum rho."""
    net = problem.regularizer
    assert isinstance(net, ElasticNet)
    total = float(block_norms(problem, solution).sum())
    c = total / (1.0 - net.lam + net.lam * total)
    return same_functions(problem, solution, ElasticNet(net.lam * c, "ivanov"), c)


def nu_to_fixed_margin(problem: Problem, solution: Solution) -> Carried:
    """The nu one-class machine with margin r = -b is the density level set at C/r, with functions f/r.

    SimpleMKL (17) and Kloft 3.5, for R homogeneous of degree 2 and r > 0.
    """
    margin = -solution.intercept
    if not margin > 0.0:
        raise NotApplicable(f"the margin r = {margin:.3g} is not positive: no fixed margin fits; choose a larger nu.")
    right = problem.replace(loss=DensityLevelSet(), intercept=False, C=problem.C / margin)
    return Carried(right, solution.dual_coef / margin, solution.weights, 0.0, 1.0 / margin)


def fixed_margin_to_nu(problem: Problem, solution: Solution) -> Carried:
    """The inverse, with r = 1/(1'beta): C r is 1/(nu n)."""
    margin = 1.0 / float(solution.dual_coef.sum())
    right = problem.replace(loss=OneClass(), intercept=True, C=problem.C * margin)
    return Carried(right, solution.dual_coef * margin, solution.weights, -margin, margin)


def freeze_weights(problem: Problem, solution: Solution) -> Carried:
    """With the optimal weights fixed, an ordinary kernel machine has the same solution (SimpleMKL (9)-(11))."""
    return same_functions(problem, solution, Fixed(solution.weights))


def scale_kernels(problem: Problem, solution: Solution) -> Carried:
    """`WeightedLp(p, scale)` is `Lp(p)` on scale_m K_m; `WeightedL1(omega)` is `Power(1)` on K_m/omega_m^2."""
    weighted = problem.regularizer
    base: Regularizer
    if isinstance(weighted, WeightedLp):
        base, scale = Lp(weighted.p), weighted.scale
    else:
        assert isinstance(weighted, WeightedL1)
        base, scale = Power(1), weighted.omega**-2.0
    kernels = problem.kernels.dense() * scale[:, None, None]
    right = problem.replace(kernels=kernels, regularizer=base)
    return Carried(right, solution.dual_coef, solution.weights / scale, solution.intercept)


def sum_groups(problem: Problem, solution: Solution) -> Carried:
    """`Groups(groups, 1, 0)` is l1 over the sums of the kernels of each group, with weights of at most 1/d_l."""
    penalty = problem.regularizer
    assert isinstance(penalty, Groups)
    matrices = problem.kernels.dense()
    sums = np.array([matrices[list(group)].sum(axis=0) for group in penalty.groups])
    right = problem.replace(kernels=sums, regularizer=WeightedLp(1, 1.0 / penalty.sizes))
    weights = np.array([solution.weights[list(group)].mean() for group in penalty.groups])
    return Carried(right, solution.dual_coef, weights, solution.intercept)
