"""Group kernel learning by a gradient wrapper on two weight vectors (Szafranski et al. 2008, section 5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, overload

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_count
from mklref.algorithms.base import Callback, Run, require
from mklref.algorithms.group_weights import GroupPoint, GroupWeights, descend
from mklref.algorithms.point import regularizer_of
from mklref.algorithms.stationary import StationaryPoint, settle
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.problem import Problem
from mklref.regularizers import Groups
from mklref.solution import Solution


@overload
def group_wrapper(
    problem: Problem,
    *,
    tol: float = 1e-4,
    max_iter: int = 500,
    max_time: float | None = None,
    callback: Callback | None = None,
    progress: bool = False,
    start: Solution | None = None,
    warm_start: int = 5,
    metric: str = "weights",
    exponents: None = None,
) -> Solution: ...


@overload
def group_wrapper(
    problem: Problem,
    *,
    tol: float = 1e-4,
    max_iter: int = 500,
    max_time: float | None = None,
    callback: Callback | None = None,
    progress: bool = False,
    start: Solution | None = None,
    warm_start: int = 5,
    metric: str = "weights",
    exponents: tuple[float, float],
    restarts: int = 0,
    rng: np.random.Generator | None = None,
) -> StationaryPoint: ...


def group_wrapper(
    problem: Any,
    *,
    tol: float = 1e-4,
    max_iter: int = 500,
    max_time: float | None = None,
    callback: Callback | None = None,
    progress: bool = False,
    start: Any = None,
    warm_start: int = 5,
    metric: str = "weights",
    exponents: tuple[float, float] | None = None,
    restarts: int = 0,
    rng: np.random.Generator | None = None,
) -> Solution | StationaryPoint:
    """Weights for groups of kernels and within them, by projected gradient descent on both.

    minimise J(sigma1, sigma2), the value of the kernel machine with theta_m = sigma1_l^p sigma2_m^q for m in group l,
    subject to sigma >= 0, sum_l d_l sigma1_l = 1, sum_m sigma2_m = 1                                       (8), (12)

    After `warm_start` steps by the closed forms (10) and (11), which alone have no guarantee, the gradient follows from
    the dual of the machine and is projected onto the two simplices. Below exponent 1 it is infinite at 0, and steps
    measured in the Euclidean metric hardly move. Measured in that of the weights, sum (change)^2/sigma, and never to
    less than 1% of a weight, they do; weights with such an exponent stay 1e-8 of an even weight above 0.

    The problem is jointly convex for p + q <= 1, and `problem` with regularizer Groups(groups, p, q) states it: the
    result is a certified Solution. Beyond, it is not convex, and no `Problem` states it: give `exponents`, and the
    result is a StationaryPoint, without a gap. There a group and its kernels that are all 0 may stay 0, and which end
    is reached depends on the start.

    Parameters
    ----------
    problem : Problem
        With regularizer Groups, any loss. For `exponents` a Problem, of whose regulariser only the groups are used.
    tol : float
        Certified relative gap at which to stop; with `exponents` the residual of stationarity.
    max_iter : int
        Largest number of iterations, of each start.
    max_time, callback, progress, start
        As for every algorithm: `mklref.algorithms.silp`.
    warm_start : int
        Steps in closed form before the descent.
    metric : str
        "weights", or "euclidean" as the paper has it.
    exponents : (p, q), optional
        Nonnegative with p + q > 1.
    restarts : int
        With `exponents`: further starts from random points of the two simplices.
    rng : numpy Generator
        For the restarts.

    Returns
    -------
    Solution or StationaryPoint

    Raises
    ------
    NotApplicable
        For other regularisers; for several classes with `exponents`.
    InvalidParameter
        A bad option, or exponents of a convex problem.
    InvalidType
        Restarts without a Generator.
    """
    require(
        isinstance(regularizer_of(problem), Groups) and (exponents is None or not problem.several),
        "group_wrapper",
        problem,
        "Groups(groups, p, q), and with exponents for one machine",
        "For Lp(p): lp_wrapper; for elastic nets and other penalties: iterated_reweighting; else mklref.solve.",
    )
    if metric not in ("weights", "euclidean"):
        raise InvalidParameter(f"metric = {metric!r} must be 'weights' or 'euclidean'.")
    count = checked_count("warm_start", warm_start, 0, "steps by the closed forms first.")
    further = checked_count("restarts", restarts, 0, "starts beside the given one.")
    run = Run("group_wrapper", problem, tol, max_iter, max_time, callback, progress, start)
    scaled, regularizer = metric == "weights", problem.regularizer
    if exponents is None:
        if further:
            raise InvalidParameter("restarts are for non-convex problems; a convex one has no other minimum.")
        shape = GroupWeights(regularizer.groups, regularizer.p, regularizer.q)
        steps = descend(run, shape, _first(run, shape, start), count, scaled)
        return run.follow(current.point for current in steps)
    shape = GroupWeights(regularizer.groups, *_checked_exponents(exponents))
    if further and not isinstance(rng, np.random.Generator):
        raise InvalidType(f"rng is {type(rng).__name__}; restarts need a numpy.random.Generator.")

    def starts() -> Iterator[Iterator[GroupPoint]]:
        yield descend(run, shape, _first(run, shape, start), count, scaled)
        for _ in range(further):
            assert rng is not None
            yield descend(run, shape, _random(shape, rng), count, scaled)

    return settle(run, problem, starts())


def _first(run: Run, shape: GroupWeights, start: Solution | None) -> Array:
    """The best sigma for the block norms of `start`, or for equal ones."""
    squares = np.sum([machine.forms.squares for machine in run.machines], axis=0)
    return shape.closed_form(np.ones(len(squares)) if start is None else start.weights * np.sqrt(squares))


def _random(shape: GroupWeights, rng: np.random.Generator) -> Array:
    """A point drawn evenly from each of the two simplices."""
    drawn = [rng.dirichlet(np.ones(part.stop - part.start)) / shape.prices[part] for part in shape.simplices]
    return np.concatenate(drawn)


def _checked_exponents(exponents: Any) -> tuple[float, float]:
    try:
        p, q = (float(exponent) for exponent in exponents)
    except (TypeError, ValueError) as wrong:
        raise InvalidParameter(f"exponents = {exponents!r} must be two numbers (p, q).") from wrong
    if not (p >= 0.0 and q >= 0.0 and 1.0 < p + q < np.inf):
        raise InvalidParameter(
            f"exponents = ({p:g}, {q:g}) must be nonnegative with p + q > 1; up to 1 the problem is convex: put "
            "Groups(groups, p, q) into the problem and leave them out."
        )
    return p, q
