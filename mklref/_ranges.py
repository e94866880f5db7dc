"""How far sparse weights are determined: for each kernel, the weights that are certified as good.

At p = 1 the weights need not be unique: whoever moves weight between kernels that fit the dual point equally well, and
leaves the scores where they have to be, has another optimum. With the dual point beta held, the certified gap of
(theta', b') on the simplex is at most

    sum_i r_i(t'_i) + 1/2 sum_m theta'_m (max_l q_l - q_m),    t'_i = sum_m theta'_m (K_m beta)_i + b',

with the residual of Fenchel and Young, r_i(t) = c_i V(t, y_i) + c_i V*(-beta_i/c_i, y_i) + beta_i t >= 0. Half of an
allowance goes to the second term, and to each r_i its share of the other half, which confines t'_i to an interval: the
smallest and the largest theta'_m under these constraints are linear programs. So every weight in a range belongs to a
point whose certified gap is at most that of the solution plus the allowance. Every optimum lies within the ranges too,
if the gap of the solution is at most slack / (2 n): of an optimum both terms are no more than that gap. Other weights
as good within the slack may lie outside: they have another dual point.

Weights for p > 1 are unique: R* is smooth there, and its gradient at the optimal norms is the only maximiser.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mklref._run import check_start
from mklref._typing import Array
from mklref._validate import checked_names, checked_number
from mklref.certificate import certify
from mklref.certificate.feasible import repair
from mklref.certificate.intercept import middle_intercept
from mklref.exceptions import InvalidInput, InvalidType, NotApplicable, SolverFailure
from mklref.problem import Problem, is_one_machine, on_the_simplex
from mklref.solution import Solution

_WORTH_A_PROGRAM = 1e-3
"""Kernels that can reach no larger weight are not optimised over: the bound of the second term alone will do."""
_EXACTLY = {"primal_feasibility_tolerance": 1e-10}
"""The least that HiGHS knows: a score outside its interval costs its loss, beyond any allowance."""
_ROUNDING = 1e-8
"""Singular values below this, relative to the largest one, are taken for 0."""


@dataclass(frozen=True)
class WeightRanges:
    """For each kernel the interval of its weight, and the kernels that can be exchanged."""

    names: tuple[str, ...]
    weights: Array
    """Those of the solution, (M,)."""
    low: Array
    """Smallest weight found to be as good, (M,)."""
    high: Array
    """Largest weight found to be as good, (M,); where none above 1e-3 is possible, a bound of it."""
    slack: float
    """The allowance, relative to the objective."""
    exchangeable: tuple[tuple[int, ...], ...]
    """Groups of kernels whose functions are linearly dependent at the optimum: weight moves between them free."""

    def determined(self, width: float = 0.01) -> Array:
        """Whether each range is at most `width` wide, (M,) bool: the weight at the optimum is known up to that."""
        return np.asarray(self.high - self.low <= width)

    def __str__(self) -> str:
        shown = np.flatnonzero((self.high > 0.01) | (self.weights > 0.0))
        width = max([6, *(len(self.names[m]) for m in shown)])
        lines = [f"{'kernel':<{width}}  weight  as good within {self.slack:.0e}"]
        known = self.determined()
        for m in shown:
            what = "determined" if known[m] else "free" if self.low[m] <= 0.0 else "between"
            lines.append(
                f"{self.names[m]:<{width}}  {self.weights[m]:6.4f}  {self.low[m]:6.4f} .. {self.high[m]:6.4f}  {what}"
            )
        groups = (", ".join(self.names[m] for m in group) for group in self.exchangeable)
        return "\n".join([*lines, *(f"exchangeable at no cost: {group}" for group in groups)])


def weight_ranges(problem: Problem, solution: Solution, *, slack: float = 1e-4) -> WeightRanges:
    """The weights of a sparse solution that could be others.

    Parameters
    ----------
    problem : Problem
        With the regulariser Lp(1).
    solution : Solution
        A good solution of it: its own gap, once beta is feasible, is added to the allowance.
    slack : float
        Allowance, relative to the objective, or to the unit of the problem where that is 0. A small one asks what the
        optimum determines; a larger one shows what, at least, the data leave open.

    Raises
    ------
    InvalidType
        No problem of two classes, numbers or one class, or no solution.
    InvalidInput
        A solution of a problem with other samples or kernels, or numbers that are no weights or not finite.
    NotApplicable
        Another regulariser: for Lp(p) with p > 1 the weights are unique.
    InvalidParameter
        slack is not positive, or below what the linear programs resolve.
    SolverFailure
        A linear program was not solved.
    """
    if not is_one_machine(problem) or not isinstance(solution, Solution):
        raise InvalidType(
            f"problem is {type(problem).__name__} and solution {type(solution).__name__}; give a mklref.Problem and "
            "the mklref.Solution of it. For several classes with common weights ranges are not computed."
        )
    if not on_the_simplex(problem):
        raise NotApplicable(
            f"ranges are those of sparse weights, Lp(1), and the regulariser is {problem.regularizer}: weights of "
            "Lp(p) with p > 1 are unique, and for other regularisers ranges are not computed."
        )
    slack = checked_number("slack", slack, "[1e-8, inf)", "rounding errors are above less.")
    check_start(problem, solution, "solution")
    if not solution.weights.any():
        raise InvalidInput(
            "solution has weights that are all 0, and ranges are those of weights that sum to 1. Where f = 0 is best "
            "any such weights will do, and each range is [0, 1]."
        )
    size = certify(problem, solution).size  # for another C, say, the solution has another one
    beta, _ = repair(problem, solution.dual_coef)  # the residuals of others may be negative, or infinite
    images = problem.kernels.apply(beta)
    q = images @ beta
    missing = 0.5 * (q.max() - q)
    allowance = 0.5 * slack * size
    # A solution whose weights sum to less than one by rounding is put onto the simplex.
    theta = solution.weights / solution.weights.sum()
    budget = float(missing @ theta) + allowance
    low, high = np.zeros(len(q)), np.ones(len(q))
    np.divide(budget, missing, out=high, where=missing > budget)  # both are 0 where nothing is to be learned
    chosen = np.flatnonzero((high > _WORTH_A_PROGRAM) | (theta > 0.0))
    scores = theta @ images
    scores += middle_intercept(problem, scores)
    room = _score_intervals(problem, beta, scores, allowance / problem.n_samples)
    spend = missing[chosen] / (budget or 1.0)
    low[chosen], high[chosen] = _extremes(images[chosen], spend, theta[chosen], room, problem.intercept)
    names = checked_names(problem.kernels.names or None, len(q))
    # The solution itself satisfies every constraint, up to the tolerance of the linear programs.
    low, high = np.clip(low, 0.0, theta), np.maximum(high, theta)
    face = np.flatnonzero((missing <= budget) & (high - low > _WORTH_A_PROGRAM))
    groups = _exchangeable(images[face], problem.intercept)
    return WeightRanges(names, solution.weights, low, high, slack, tuple(tuple(face[list(g)].tolist()) for g in groups))


def _score_intervals(problem: Problem, beta: Array, scores: Array, share: float) -> tuple[Array, Array]:
    """The ends of {t : r_i(t_i + t) <= r_i(t_i) + share} below and above 0, by bisection of the convex r_i."""

    def residual(t: Array) -> Array:  # but for the term of V*, in which there is no t
        return problem.costs * problem.loss.value(t, problem.y) + beta * t

    allowed = residual(scores) + share
    ends = []
    for sign in (-1.0, 1.0):
        inside, outside = np.zeros(len(beta)), np.ones(len(beta))
        for _ in range(60):
            grows = residual(scores + sign * outside) <= allowed
            inside, outside = np.where(grows, outside, inside), np.where(grows, 2.0 * outside, outside)
        bounded = residual(scores + sign * outside) > allowed
        for _ in range(60):
            middle = 0.5 * (inside + outside)
            good = residual(scores + sign * middle) <= allowed
            inside, outside = np.where(good, middle, inside), np.where(good, outside, middle)
        ends.append(np.where(bounded, sign * inside, sign * np.inf))
    return ends[0], ends[1]


def _extremes(
    images: Array, spend: Array, theta: Array, room: tuple[Array, Array], intercept: bool
) -> tuple[Array, Array]:
    """min and max of each theta_m + d_m subject to lower <= images'd + b <= upper, spend'(theta + d) <= 1, the simplex.

    In what is changed, of which nothing is allowed, and in the unit of the scores: tolerances of linear programs are
    absolute, and targets may be of 1e-9. `SolverFailure` where a program was not solved.
    """
    from scipy.optimize import linprog

    M = len(images)
    lower, upper = room
    offset = np.ones((images.shape[1], 1)) if intercept else np.zeros((images.shape[1], 1))
    unit = float(np.abs(images).max()) or 1.0
    rows = np.hstack([images.T / unit, offset])
    above, below = np.isfinite(upper), np.isfinite(lower)
    A = np.vstack([rows[above], -rows[below], np.append(spend, 0.0)])
    right = np.concatenate([upper[above] / unit, -lower[below] / unit, [max(0.0, 1.0 - float(spend @ theta))]])
    total = np.append(np.ones(M), 0.0)[None, :]
    ranges = [*zip(-theta, 1.0 - theta, strict=True), (None, None)]
    ends = np.empty((2, M))
    for m in range(M):
        for end, sign in enumerate((1.0, -1.0)):
            objective = np.zeros(M + 1)
            objective[m] = sign
            found = linprog(objective, A, right, total, [0.0], ranges, method="highs", options=_EXACTLY)
            if found.status != 0:
                raise SolverFailure(
                    f"the linear program of the range of kernel {m} was not solved: {found.message} Give a larger "
                    "slack, or normalise the kernels."
                )
            ends[end, m] = theta[m] + found.x[m]
    return ends[0], ends[1]


def _exchangeable(images: Array, intercept: bool) -> list[list[int]]:
    """Connected kernels in the null space of d -> (sum_m d_m K_m beta + b, sum_m d_m)."""
    from scipy.sparse.csgraph import connected_components

    if len(images) < 2:
        return []
    columns = images - images.mean(axis=1, keepdims=True) if intercept else images
    scale = np.linalg.norm(columns, axis=1).max() or 1.0
    rows = np.vstack([columns.T / scale, np.ones(len(images))])
    _, values, right = np.linalg.svd(rows, full_matrices=len(rows) < len(images))  # else `right` is square anyhow
    rank = int((values > _ROUNDING * values[0]).sum())
    projector = right[rank:].T @ right[rank:]
    linked = np.abs(projector) > np.sqrt(_ROUNDING)
    count, component = connected_components(linked, directed=False)
    groups = [np.flatnonzero(component == k) for k in range(count)]
    return [group.tolist() for group in groups if linked.diagonal()[group].any()]
