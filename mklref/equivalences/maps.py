"""How a solution of one problem is one of another: the parameter maps, one function each, and what an edge is.

Most maps leave the functions f_m as they are and change the cost: with C' = k C,

    beta' = k beta,   theta' = theta/k,   b' = b,

because beta_i/c_i and f_m = theta_m K_m beta stay. Then R'(rho) has the gradient k dR/drho at these functions, and the
sum of losses k C; a term c_b b is not rescaled with them, and 1'beta' = k c_b. So these maps are for c_b = 0: not for
the nu one-class machine.

A dual point outside the domain of R*, as the certificate allows it, is scaled into it first: t beta, theta/t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mklref import regularizers as reg
from mklref._run import check_start
from mklref._typing import Array
from mklref._validate import shown
from mklref.certificate.intercept import intercept_objective, middle_intercept
from mklref.exceptions import InvalidInput, NotApplicable
from mklref.losses import DensityLevelSet, OneClass
from mklref.problem import Problem, is_one_machine
from mklref.regularizers.norms import ball_exponent, p_norm, reciprocal
from mklref.solution import Solution, in_domain

R = TypeVar("R", bound=reg.Regularizer)

_ROUNDED = 1e-5
"""Share of R that the rounding of a parameter may change: the relative gap of an optimal point becomes its square."""


class Carried(NamedTuple):
    """A solution of the problem on the left, as a point of the problem on the right."""

    problem: Problem
    dual_coef: Array
    weights: Array
    intercept: float
    function_scale: float = 1.0
    """The functions on the right are this many times those on the left."""


Carry = Callable[[Problem, Solution], Carried]


def _left(problem: Problem, solution: Solution, kind: type[R]) -> tuple[R, Solution]:
    """The regulariser of a map that leads from this kind, and the solution in the domain of R*."""
    if not is_one_machine(problem) or not isinstance(problem.regularizer, kind):
        raise NotApplicable(f"this map leads from a Problem with {kind.__name__}; this is {_said(problem)}.")
    return problem.regularizer, _in_domain(problem, solution)


def _said(problem: Any) -> Any:
    return problem if isinstance(problem, Problem) else shown(problem)


def _check(problem: Problem, solution: Solution) -> None:
    if not is_one_machine(problem):
        raise NotApplicable(f"an equivalence is one of a Problem with one machine; this is {_said(problem)}.")
    check_start(problem, solution, "solution")


def _in_domain(problem: Problem, solution: Solution) -> Solution:
    _check(problem, solution)
    return in_domain(problem, solution)


def block_norms(problem: Problem, solution: Solution) -> Array:
    """rho_m = ||f_m|| = theta_m sqrt(beta'K_m beta), (M,) (Kloft (22) with the transpose of erratum L8).

    Raises
    ------
    NotApplicable
        If the point is no better than f = 0: the maps that depend on the solution need f != 0. Several machines.
    InvalidType, InvalidInput
        No solution, or one of another problem.
    """
    _check(problem, solution)
    images = problem.kernels.apply(solution.dual_coef)
    rho = np.asarray(solution.weights * np.sqrt(np.maximum(images @ solution.dual_coef, 0.0)))
    zero = np.zeros(problem.n_samples)
    losses = intercept_objective(problem, solution.weights @ images, solution.intercept)
    at_zero = intercept_objective(problem, zero, middle_intercept(problem, zero))
    if not rho.any() or losses + problem.regularizer.value(rho) >= at_zero:
        raise NotApplicable(
            "the solution is no better than f = 0, to which no parameter map applies; raise C, or lower tol."
        )
    return rho


def same_functions(problem: Problem, solution: Solution, regularizer: reg.Regularizer) -> Carried:
    """The same point of a problem with another regulariser."""
    right = _right(problem, regularizer=regularizer)
    return Carried(right, solution.dual_coef, solution.weights, solution.intercept)


def _rescaled(problem: Problem, solution: Solution, regularizer: reg.Regularizer, factor: float) -> Carried:
    """C' = k C, beta' = k beta, theta' = theta/k, for c_b = 0."""
    if problem.intercept_cost and factor != 1.0:
        around = "; 'one-class: nu to fixed margin' leads to a problem without it" * has_margin(problem.regularizer)
        term = f"{problem.intercept_cost:g} b of {problem.loss}"
        raise NotApplicable(f"this map rescales C, which does not rescale the term {term}{around}.")
    right = _right(problem, C=factor * problem.C, regularizer=regularizer)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        beta, theta = factor * solution.dual_coef, solution.weights / factor
    return _within_float64(Carried(right, beta, theta, solution.intercept), factor)


def _within_float64(carried: Carried, factor: float) -> Carried:
    """The same, if its numbers are some; C' is this factor times C."""
    _, beta, theta, b, scale = carried
    if not (np.isfinite(beta).all() and np.isfinite(theta).all() and np.isfinite(b) and 0.0 < scale < np.inf):
        raise NotApplicable(f"C' = {factor:.3g} C takes dual variables or weights out of float64; rescale the kernels.")
    return carried


def _right(problem: Problem, **changes: Any) -> Problem:
    """The problem on the right; what `Problem` refuses, such as a C' that overflows, is no argument of the caller."""
    try:
        return problem.replace(**changes)
    except InvalidInput as refused:
        raise NotApplicable(f"there is no problem on the right of this map: {refused}") from refused


def unchanged(problem: Problem, solution: Solution) -> Carried:
    """The same problem in another formulation."""
    return same_functions(problem, solution, problem.regularizer)


def renamed(other: Callable[[Any], reg.Regularizer]) -> Carry:
    """Another regulariser with the same R."""
    return lambda problem, solution: same_functions(problem, solution, other(problem.regularizer))


def tikhonov_to_ivanov(problem: Problem, solution: Solution) -> Carried:
    """`Tikhonov(p, mu)` at C is `Lp(p)` at C s, s = ||theta||_p = (||rho||_q^2/(4 mu))^{1/3} (Kloft Theorem 1).

    The theorem says that some constant exists; this one follows from the minimum over s of ||rho||_q^2/(2s) + mu s^2.
    Prop. 11, from which the paper derives it, needs a penalty that is unique at the optimum (erratum L16); s is.
    """
    penalty, solution = _left(problem, solution, reg.Tikhonov)
    return _rescaled(problem, solution, penalty.ball, penalty.radius(block_norms(problem, solution)))


def ivanov_to_tikhonov(problem: Problem, solution: Solution, mu: float = 1.0) -> Carried:
    """The inverse, for any mu: `Lp(p)` at C is `Tikhonov(p, mu)` at C/s."""
    ball, solution = _left(problem, solution, reg.Lp)
    penalty = reg.Tikhonov(ball.p, mu)
    return _rescaled(problem, solution, penalty, 1.0 / penalty.radius(block_norms(problem, solution)))


def lp_to_half_power(problem: Problem, solution: Solution) -> Carried:
    """`Lp(p)` at C is `HalfPower(q)` at q/2 (sum rho^q)^{-1/p} C, q = 2p/(p+1) (Kloft Prop. 5).

    By the chain rule of 1/2 ||rho||_q^2 in 1/2 sum rho^q; (sum rho^q)^{-1/p} = ||rho||_q^{q-2}. The proof prints the
    factor without q/2 (erratum L10). At p = 1, squared loss and no intercept, this takes the weighted form of the group
    lasso to (14), at C/(2 sum rho), so that (14) at C is the weighted form at 2 C sum rho; the paper equates them at
    the same C (L4).
    """
    ball, solution = _left(problem, solution, reg.Lp)
    q = ball.block_exponent
    return _rescaled(problem, solution, reg.HalfPower(q), 0.5 * q * _ball_norm_power(problem, solution, q - 2.0))


def half_power_to_lp(problem: Problem, solution: Solution) -> Carried:
    """The inverse of `lp_to_half_power`."""
    power, solution = _left(problem, solution, reg.HalfPower)
    q = power.q
    factor = 2.0 / q * _norm_power(problem, solution, q, 2.0 - q)
    return _rescaled(problem, solution, reg.Lp(ball_exponent(q)), factor)


def lp_to_power(problem: Problem, solution: Solution) -> Carried:
    """`Lp(p)` at C is `Power(p)` at C ||rho||_q^{q-2}: Tomioka (5) to (7), whose own C is the reciprocal."""
    ball, solution = _left(problem, solution, reg.Lp)
    q = ball.block_exponent
    return _rescaled(problem, solution, reg.Power(ball.p), _ball_norm_power(problem, solution, q - 2.0))


def power_to_lp(problem: Problem, solution: Solution) -> Carried:
    """The inverse of `lp_to_power`."""
    power, solution = _left(problem, solution, reg.Power)
    q = power.block_exponent
    return _rescaled(problem, solution, reg.Lp(power.p), _norm_power(problem, solution, q, 2.0 - q))


def _ball_norm_power(problem: Problem, solution: Solution, exponent: float) -> float:
    """||rho||_q^exponent of a solution for `Lp(p)`, from its dual point: ||g||_q* is the same, g_m^2 = beta'K_m beta.

    With it that point stays feasible at p = 1, where the R* of the others ends, however inexact the solution is.
    """
    block_norms(problem, solution)  # refuses f = 0
    squares = np.maximum(problem.kernels.apply(solution.dual_coef) @ solution.dual_coef, 0.0)
    with np.errstate(over="ignore"):
        return float(np.sqrt(2.0 * np.float64(problem.regularizer.conjugate(np.sqrt(squares)))) ** exponent)


def _norm_power(problem: Problem, solution: Solution, q: float, exponent: float) -> float:
    """||rho||_q^exponent, inf beyond float64."""
    with np.errstate(over="ignore"):
        return float(np.float64(p_norm(block_norms(problem, solution), q)) ** exponent)


def elastic_net_to_tikhonov(problem: Problem, solution: Solution) -> Carried:
    """Ivanov (C, lam) is Tikhonov (C/c, lam/c) with c = lam + (1-lam) sum rho (Tomioka 3.3).

    The paper leaves the conversion open; it equates dR/drho = (1-lam) S + lam rho with c times that of (13).
    """
    net, solution = _left(problem, solution, reg.ElasticNet)
    _require_form(net, "ivanov")
    rho = block_norms(problem, solution)
    c = net.lam + (1.0 - net.lam) * float(rho.sum())
    return _rescaled(problem, solution, _net(net.lam / c, "tikhonov", rho), 1.0 / c)


def elastic_net_to_ivanov(problem: Problem, solution: Solution) -> Carried:
    """The inverse: Tikhonov (C, lam) is Ivanov (C c, lam c) with c = S/(1 - lam + lam S), S = sum rho."""
    net, solution = _left(problem, solution, reg.ElasticNet)
    _require_form(net, "tikhonov")
    rho = block_norms(problem, solution)
    total = float(rho.sum())
    c = total / (1.0 - net.lam + net.lam * total)
    return _rescaled(problem, solution, _net(net.lam * c, "ivanov", rho), c)


def _require_form(net: reg.ElasticNet, form: str) -> None:
    if net.form != form:
        raise NotApplicable(f"this map leads from the {form} form of the elastic net; this is {net}.")


def _net(lam: float, form: str, rho: Array) -> reg.ElasticNet:
    """With extreme rho, lam' rounds to an end of (0, 1), where no elastic net is, or so near to 1 that R is another."""
    beside = [np.nextafter(lam, end) for end in (0.0, 1.0)]
    if beside[0] > 0.0 and beside[1] < 1.0:
        least, most = sorted(reg.ElasticNet(float(near), form).value(rho) for near in beside)
        if most - least <= _ROUNDED * most:
            return reg.ElasticNet(lam, form)
    raise NotApplicable(f"lam' = {lam:.17g} is rounded to 0, or next to 1: the norms of the functions are extreme.")


def nu_to_fixed_margin(problem: Problem, solution: Solution) -> Carried:
    """The nu one-class machine with margin r = -b is the density level set at C r^{1-d}, with functions f/r.

    SimpleMKL (17) and Kloft 3.5, for R homogeneous of degree d > 1 and r > 0; without a margin, f = 0 is as good.
    R(r f) = r^d R(f) and the losses r sum (1 - f)_+ are divided by r^d, so that theta becomes r^{d-2} theta.
    """
    solution, d = _require_one_class(problem, solution, OneClass)
    margin = np.float64(-solution.intercept)
    if not margin > 0.0:
        raise NotApplicable(f"the margin r = {margin:.3g} is not positive: no fixed margin fits; choose a larger nu.")
    block_norms(problem, solution)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        factor, scale = margin ** (1.0 - d), float(1.0 / margin)
        theta = margin ** (d - 2.0) * solution.weights
    right = _right(problem, loss=DensityLevelSet(), intercept=False, C=float(factor * problem.C))
    return _within_float64(Carried(right, factor * solution.dual_coef, theta, 0.0, scale), factor)


def fixed_margin_to_nu(problem: Problem, solution: Solution) -> Carried:
    """The inverse, with r = (1'beta)^{-1/(d-1)}: C/(1'beta) is 1/(nu n)."""
    solution, d = _require_one_class(problem, solution, DensityLevelSet)
    total = np.float64(solution.dual_coef.sum())
    if not (total > 0.0 and np.any(solution.weights * problem.kernels.norms(solution.dual_coef))):
        raise NotApplicable(f"f = 0, or dual variables of sum {total:.3g}, have no margin r = (1'beta)^(-1/(d-1)).")
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        margin = float(total ** (-1.0 / (d - 1.0)))
        theta = np.float64(margin) ** (2.0 - d) * solution.weights
    right = _right(problem, loss=OneClass(), intercept=True, C=float(problem.C / total))
    return _within_float64(Carried(right, solution.dual_coef / total, theta, -margin, margin), 1.0 / total)


def has_margin(regularizer: reg.Regularizer) -> bool:
    """Whether R is homogeneous of a degree above 1: margins of the one-class machines then differ by a scale of f."""
    return (regularizer.degree or 1.0) > 1.0


def _require_one_class(
    problem: Problem, solution: Solution, loss: type[OneClass | DensityLevelSet]
) -> tuple[Solution, float]:
    """The solution in the domain of R*, and the degree of R, if the problem has this loss and R a degree above 1."""
    if not is_one_machine(problem) or not isinstance(problem.loss, loss) or not has_margin(problem.regularizer):
        raise NotApplicable(
            f"this map leads from the loss {loss.name} with R of a degree d > 1; this is {_said(problem)}."
        )
    assert problem.regularizer.degree is not None
    return _in_domain(problem, solution), problem.regularizer.degree


def freeze_weights(problem: Problem, solution: Solution) -> Carried:
    """With the optimal weights fixed, an ordinary kernel machine has the same solution (SimpleMKL (9)-(11))."""
    solution = _in_domain(problem, solution)
    block_norms(problem, solution)
    return same_functions(problem, solution, reg.Fixed(solution.weights))


def scale_kernels(problem: Problem, solution: Solution) -> Carried:
    """`WeightedLp(p, scale)` is `Lp(p)` on the kernels scale_m K_m, with the weights theta/scale."""
    weighted, solution = _left(problem, solution, reg.WeightedLp)
    return _on_scaled_kernels(problem, solution, weighted.scale, reg.Lp(weighted.p))


def absorb_omega(problem: Problem, solution: Solution) -> Carried:
    """`WeightedL1(omega)` is `Power(1)` on the kernels K_m/omega_m^2, with the weights omega^2 theta."""
    weighted, solution = _left(problem, solution, reg.WeightedL1)
    with np.errstate(over="ignore"):
        return _on_scaled_kernels(problem, solution, weighted.omega**-2.0, reg.Power(1))


def _on_scaled_kernels(problem: Problem, solution: Solution, scale: Array, regularizer: reg.Regularizer) -> Carried:
    right = _right(problem, kernels=problem.kernels.dense() * scale[:, None, None], regularizer=regularizer)
    return Carried(right, solution.dual_coef, solution.weights / scale, solution.intercept)


def sum_groups(problem: Problem, solution: Solution) -> Carried:
    """`Groups(groups, p, 0)` is an l_{1/p} ball over the sums of kernels of each group, its weights up to d_l^{-p}."""
    groups, solution = _left(problem, solution, reg.Groups)
    if groups.q != 0.0:
        raise NotApplicable(f"this map leads from Groups(groups, p, 0); this is {groups}.")
    members = np.array([np.isin(np.arange(problem.n_kernels), group) for group in groups.groups], dtype=float)
    sums = np.stack([problem.kernels.combine(row) for row in members])
    right = _right(problem, kernels=sums, regularizer=reg.WeightedLp(reciprocal(groups.p), groups.sizes**-groups.p))
    return Carried(right, solution.dual_coef, members @ solution.weights / groups.sizes, solution.intercept)


NONE = "none"
"""No parameter changes, or there is no condition."""

NONZERO = "f != 0"
"""The condition of a map that depends on the block norms of the solution."""

ORDINARY = "c_b = 0: not the nu one-class machine"
"""The condition of a map that rescales C, because the term c_b b is not rescaled with it."""


def always(regularizer: reg.Regularizer) -> bool:
    """C' differs from C whatever the regulariser: its degree differs on the two sides."""
    return True


def below_two(regularizer: reg.Lp | reg.Power) -> bool:
    """C' differs from C for q < 2: at q = 2, p = inf, squared and plain norms are the same."""
    return regularizer.block_exponent < 2.0


@dataclass(frozen=True)
class Equivalence:
    """One edge: the problem on the left has the solutions of the problem on the right."""

    name: str
    left: str
    right: str
    parameters: str = NONE
    """What changes from left to right."""
    condition: str = NONE
    source: str = ""
    """Paper and equation."""
    kind: type = reg.Regularizer
    """The regulariser on the left."""
    carry: Carry = unchanged
    formulations: tuple[str, str] = ("mixed_norm", "dual")
    """Formulations in which the left and the right side are stated."""
    rescales: Callable[[Any], bool] = lambda regularizer: False
    """Whether C' differs from C at the same functions for this regulariser, which asks for c_b = 0."""
    where: Callable[[Any, Problem], bool] = lambda regularizer, problem: True
    """Whether the condition holds, as far as it does not depend on the solution."""

    def applies(self, problem: Problem) -> bool:
        """Whether the problem is one of those on the left."""
        if not is_one_machine(problem) or not isinstance(problem.regularizer, self.kind):
            return False
        ordinary = problem.intercept_cost == 0.0 or not self.rescales(problem.regularizer)
        return ordinary and self.where(problem.regularizer, problem)

    def __call__(self, problem: Problem, solution: Solution) -> Carried:
        """Take a solution of a problem on the left to the right.

        Raises
        ------
        NotApplicable
            If the problem is of another kind, the solution does not meet the condition, or float64 does not hold the
            problem on the right.
        InvalidType, InvalidInput
            Not a `Solution`, or one of another number of samples or kernels.
        """
        if not self.applies(problem):
            raise NotApplicable(
                f"equivalence {self.name!r} leads from {self.left}, condition: {self.condition}; this is "
                f"{_said(problem)}. "
                "mklref.equivalences.leaving(problem) holds those that apply."
            )
        return self.carry(problem, solution)
