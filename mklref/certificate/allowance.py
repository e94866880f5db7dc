"""How far rounding may have moved the bounds of a numerical certificate: an estimate in O(M n), and no proof.

A computed sum of k products differs from the exact one by at most k u of the sum of their magnitudes, u = 2^-53, in
whatever order a library adds them up; where all are equal, by a third of that. Only the products in K_m beta are much
larger than their sum: certificates add them sqrt(n) rows at a time, so that each goes through g roundings at most,
hardly more than sqrt(n) for matrices in memory (`KernelStack.roundings`), and through k = #{beta_i != 0} if these are
fewer. Of a semidefinite matrix |K_ij| <= d_i d_j, d_i = sqrt(K_ii), so that with v_m = K_m beta

    |K_m||beta| <= (d_m'|beta|) d_m                                            magnitudes in v_m
    eps_m = g u (d_m'|beta|)                                           errors of v_m, for each unit of d_m
    e_i   = sum_m theta_m eps_m d_mi + M' u sum_m theta_m |v_mi| + u (|t_i| + |y_i - t_i|)
    dq_m  = eps_m (d_m'|beta|) + k u |beta|'|v_m|

bound the errors of the score t_i, M' = #{theta_m != 0}, and of q_m = beta'K_m beta. Losses are convex, so they are
largest at t_i - e_i or t_i + e_i; R and R* rise with q. A product that underflows errs by up to 2^-1075 besides, which
theta_m magnifies if it is as large as beta is small. Sums of losses and of penalties add n u and M u of themselves.
Where 1'beta misses c_b by r, moving one sample by r changes the dual by the intercept times r at most, which is of the
size of targets and scores. Several machines add their losses, dual terms and squares, and so the errors of them.

Of factors K_m = L_m L_m' eps_m bounds the error of w_m = L_m'beta in the norm: with g for the sums over the rows L_mi,
since || |L_m|'|beta| || <= sum_i |beta_i| ||L_mi|| = d_m'|beta|, or less where w_m is known better. It moves scores by
d_mi eps_m and squares by (2 ||w_m|| + eps_m) eps_m. M' is the number of columns of all kernels with theta_m != 0, which
one product adds up in any order, or less (`FactorImages.roundings`), and d_mi ||w_m|| >= sum_c |L_mic w_mc| is there
for |v_mi|.

Where rounding left K_m indefinite, the bounds hold for the semidefinite K_m + diag(s_m) (`KernelStack.slack`, or less
where it is known in twice the digits) and all matrices between the two: q_m grows by up to sum_i s_mi beta_i^2, and t_i
moves by up to sum_m theta_m s_mi beta_i, mostly to less loss. Without it bounds from one point may exclude those from
another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from mklref._typing import Array
from mklref.certificate.loss_terms import STRETCHED
from mklref.kernels.factor_sources import FactorImages
from mklref.kernels.factor_stack import FactorStack
from mklref.kernels.stack import ArrayStack, KernelStack
from mklref.losses import EpsilonInsensitive, OneClass

if TYPE_CHECKING:
    from mklref.problem import Problem
    from mklref.regularizers import Regularizer

UNIT = 2.0**-53
UNDERFLOW = 2.0**-1074
"""Twice the largest error of a product that underflows."""
ELEMENTWISE = 4.0
"""Roundings of the operations on each term of a sum of losses or penalties."""
OFF_TUBES = 16.0
"""Multiple of E by which scores stay off the walls of tubes, where q rounds as well: at 1 gaps are a third larger."""
OF_MACHINES = 1.0 / 64.0
"""Multiple of E where certificates cut products into slices: what machines round is left, of both signs. Of 60
problems with q > 2 four ended STALLED at 1, two at 1/64 and four at 1/1024."""
_FEW, _FEW_OFTEN = 1 << 26, 1 << 22
"""Entries of all matrices up to which a certificate has these cut into slices, at 20 to 60 times the cost of a product,
a second in all; and where it is done often, or entries have lost more than float64 explains, which stays so."""


class AnyOrder:
    """K_m v (M, n) whose k products were added up in any order: one after the other, each goes through k sums."""

    __array_ufunc__ = None  # an array on the left leaves the product to the class

    def __init__(self, images: Array) -> None:
        self.images = images

    def __rmatmul__(self, weights: Array) -> Array:
        return np.asarray(weights @ self.images)

    def __matmul__(self, u: Array) -> Array:
        return np.asarray(self.images @ u)

    def __abs__(self) -> AnyOrder:
        return AnyOrder(np.abs(self.images))


class Enclosed(AnyOrder):
    """K_m v (M, n), each within eps_m d_mi of these numbers, of kernels with this slack (M, n)."""

    def __init__(self, images: Array, eps: Array, slack: Array) -> None:
        super().__init__(images)
        self.eps, self.slack = eps, slack


def squares_error(problem: Problem, beta: Array, images: Any) -> Array:
    """dq (M,): how far beta'K_m beta may be from what was computed, for K_m beta = images."""
    (reach, missed), k = _reach(problem, beta, images), _support(beta)
    if isinstance(images, FactorImages):  # three for the terms of a move
        rounding = (2.0 * reach + missed) * missed + (images.stack.ranks + 3.0) * UNIT * reach * reach
    else:
        unit = float(np.abs(beta).max()) or 1.0  # beta_i^2 alone may leave float64 where beta'K beta does not
        rounding = missed * reach + UNIT * k * (abs(images) @ np.abs(beta))
        rounding = rounding + (unit * _slack(problem, images)) @ (beta / unit) ** 2 * unit
    return np.asarray(rounding + k * UNDERFLOW * (1.0 + float(np.abs(beta).sum())))


def most_losses(problem: Problem, beta: Array, theta: Array, images: Any, b: float) -> float:
    """sum_i c_i V(t_i, y_i) + c_b b at (beta, theta, b), K_m beta = images, and what rounding may have taken off."""
    loss, y = problem.loss, problem.y
    low, high = score_bounds(problem, beta, theta, images, b)
    losses = float(problem.costs @ np.maximum(loss.value(low, y), loss.value(high, y)))
    cost = problem.intercept_cost * b
    return losses + cost + UNIT * ((problem.n_samples + ELEMENTWISE) * losses + abs(cost))


def score_bounds(problem: Problem, beta: Array, theta: Array, images: Any, b: float) -> tuple[Array, Array]:
    """t_i - e_i and t_i + e_i, (n,) each; wider on one side by what the slack of kernels may move t_i."""
    stack = problem.kernels
    (_, missed), t = _reach(problem, beta, images), theta @ images + b
    size = np.abs(theta)  # of a signed problem some are negative
    shifts: Any = np.zeros((2, 1))
    if isinstance(images, FactorImages):
        error = stack.lengths(size * (missed + images.roundings(theta) * UNIT * images.norms()))
    else:
        error = stack.lengths(size * missed) + UNIT * _support(theta) * (size @ abs(images))
        shifts = np.stack([np.maximum(theta, 0.0), np.minimum(theta, 0.0)]) @ _slack(problem, images) * beta
    error += _support(beta) * UNDERFLOW * float(size.sum())
    error += UNIT * (np.abs(t) + np.abs(_targets(problem) - t))
    return t + np.minimum(shifts, 0.0).sum(axis=0) - error, t + np.maximum(shifts, 0.0).sum(axis=0) + error


def most_penalty(regularizer: Regularizer, theta: Array, squares: Array) -> float:
    """R at the norms theta_m q_m^{1/2}, for the largest squares q that rounding leaves, and its own rounding."""
    penalty = regularizer.value(theta * np.sqrt(squares))
    return penalty + penalty_error(regularizer, penalty, len(theta))


def penalty_error(regularizer: Regularizer, penalty: float, kernels: int) -> float:
    """Rounding errors of R or R* themselves: of a sum over kernels, and of exponents where the scale enters a power.

    An exponent that is wrong by u r makes x^r wrong by u |ln x^r| x^r. Sums of norms have no exponent, and squared
    norms are taken of ratios.
    """
    scaled = regularizer.degree not in (1.0, 2.0) and 0.0 < penalty < math.inf
    roundings = ELEMENTWISE * (1.0 + abs(math.log(penalty)) if scaled else 1.0)
    return (kernels + roundings) * UNIT * penalty


def weights_error(problem: Problem, beta: Array, kinks: bool = True) -> Array:
    """E (M,): what rounding adds to the primal objective for each unit of theta_m, through the error e of the scores.

    E_m = g u (d_m'|beta|) d_m's, with the slopes s_i of c_i V where beta_i fits: |beta_i|, or, where V has
    `kinks`, on one of which the score may be, the steepest, the largest |beta_i| in the box. It is where a solver aims,
    and of factors an estimate for errors of both signs: a certificate that has to be narrower knows w_m better.
    """
    k = _support(beta)
    g = math.sqrt(k) + 1.0 if isinstance(problem.kernels, FactorStack) else problem.kernels.roundings(k)
    slopes, against = np.abs(beta), problem.kernels.lengths_against
    if kinks and np.isinf(problem.loss.smoothness):
        steepest = np.maximum(*np.abs(problem.loss.box(problem.y, problem.costs)))
        slopes = np.where((beta != 0.0) & np.isfinite(steepest), steepest, slopes)
    return np.asarray(g * UNIT * against(np.abs(beta)) * against(slopes))


def off_kinks_error(machines: Iterable[tuple[Problem, Array]], polished: bool, sharp: bool = True) -> Array:
    """`weights_error` (M,) of machines at their beta, once the scores are off a kink of the loss.

    Off others than those of `STRETCHED` only the last Newton steps lead, if they follow (`polished`). A slack in more
    digits (`sharp`) takes seconds, once for each stack.
    """
    parts = list(machines)
    loss = parts[0][0].loss
    kinks = not (polished or isinstance(loss, STRETCHED))
    errors = np.sum([_of_machines(*part, weights_error(*part, kinks), sharp) for part in parts], axis=0)
    return np.asarray(OFF_TUBES * errors if polished and isinstance(loss, EpsilonInsensitive) else errors)


def _of_machines(problem: Problem, beta: Array, errors: Array, sharp: bool) -> Array:
    """E (M,) where slices of the matrices enclose products: `OF_MACHINES` times it, and what the slack adds."""
    kernels = problem.kernels
    if not isinstance(kernels, ArrayStack) or not may_be_sliced(kernels) or kernels.lost.any():
        return errors
    slack = kernels.slack
    unbounded = getattr(problem.regularizer, "q", None) == math.inf  # weights; bounded ones are as good with the slack
    if sharp and unbounded and slack.any():
        from mklref.certificate.products import sharp_slack

        slack = sharp_slack(kernels)
    return np.minimum(errors, OF_MACHINES * errors + slack @ (beta * beta))


def may_be_sliced(stack: KernelStack, often: bool = False) -> bool:
    """Whether products of these matrices may be enclosed by slices of them (`products`), for what that costs."""
    if not isinstance(stack, ArrayStack):
        return False
    return math.prod(stack.shape) <= (_FEW_OFTEN if often or stack.lost.any() else _FEW)


def dual_loss_error(problem: Problem, beta: Array, scores: Array, b: float) -> float:
    """Rounding errors of -sum_i c_i V*(-beta_i/c_i, y_i) for beta in the box, and what 1'beta != c_b costs.

    V* has the slope t_i where beta_i fits the score t_i: the scores at beta, without b, and b say how large that is.
    """
    t, y = np.abs(scores + b), np.abs(_targets(problem))
    terms = problem.loss.dual_terms(beta, problem.y, problem.costs)
    sizes = float(np.abs(beta) @ (y + t) + np.abs(terms).sum())
    error = (problem.n_samples + ELEMENTWISE) * UNIT * sizes
    if not problem.intercept:
        return error
    try:
        missed = abs(math.fsum([*beta.tolist(), -problem.intercept_cost]))
    except OverflowError:  # of a partial sum: nothing is known of such a point
        return math.inf
    return error + missed * (abs(b) + float(y.max()) + float(t.max()))


def entries_error(problem: Problem, beta: Array, theta: Array) -> float:
    """What the rounding of kernels to their dtype does to sum_m theta_m q_m: eps sum_m theta_m (d_m'|beta|)^2.

    A kernel that was semidefinite before may have become indefinite by as much.
    """
    reach = problem.kernels.lengths_against(np.abs(beta))
    return float(np.finfo(problem.kernels.dtype).eps) * float(np.abs(theta) @ (reach * reach))


def _reach(problem: Problem, beta: Array, images: Any) -> tuple[Array, Array]:
    """d_m'|beta| of each kernel, or ||w_m|| of factors, and eps_m; also for a point beside that of the images."""
    against = problem.kernels.lengths_against
    if not isinstance(images, FactorImages):
        reach = against(np.abs(beta))
        if isinstance(images, Enclosed):
            return reach, images.eps
        k = _support(beta)
        g = float(k) if isinstance(images, AnyOrder) else problem.kernels.roundings(k)
        return reach, g * UNIT * reach
    moved = np.abs(beta - images.v)
    step = against(moved) if moved.any() else np.zeros(problem.n_kernels)
    g = images.stack.roundings_over_rows(int(np.count_nonzero((beta != 0.0) | (images.v != 0.0))))
    errors = g * UNIT * images.reach if images.errors is None else images.errors
    return images.norms() + step, errors + g * UNIT * step


def _slack(problem: Problem, images: Any) -> Array:
    return images.slack if isinstance(images, Enclosed) else problem.kernels.slack


def _targets(problem: Problem) -> Array:
    """The numbers that scores are compared with: y, and 0 for a machine whose margin -b is free."""
    return np.zeros(problem.n_samples) if isinstance(problem.loss, OneClass) else problem.y


def _support(x: Array) -> int:
    return int(np.count_nonzero(x))
