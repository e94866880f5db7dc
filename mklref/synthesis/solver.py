r"""`solve`: working sets around the proximal point method, stopped by the duality gap.

    1. beta of step 3, first -C V'(0, y);  Z = K'beta, one pass;  bounds;  stop if they meet
    2. screening: drop the columns of which the gap proves that their coefficients are zero
    3. add the columns of largest |Z| to the working set, and solve on it alone to a tenth of the gap

Screening: C V* is 1/(C L) strongly convex, L the Lipschitz constant of V', so that the optimal beta lies within
r = sqrt(2 C L gap) of the dual point of the lower bound, and Z_ti within r ||k_ti|| of its optimum. Therefore

    q = 1           a group with ||Z_g||_{p'} + r ||K_g||_F < lambda is zero
    p = 1, q = 2    an entry with |Z_gj| + r ||k_gj|| < max_l (|Z_gl| - r ||k_gl||) is zero

Such columns are never read again: without them the optimum is the same.

`solve_path` solves along a path of lambda, each time from the last solution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mklref._run import along
from mklref._threads import blas_threads
from mklref._typing import Array
from mklref._validate import check_callback, checked_array, checked_count, checked_number, checked_values
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.solution import Record, Status
from mklref.synthesis.certificate import primal_value, residual
from mklref.synthesis.dictionary import restriction
from mklref.synthesis.problem import SynthesisProblem, checked_problem, lambda_max
from mklref.synthesis.proximal_point import ProximalPoint
from mklref.synthesis.proximity import MixedNorm, row_norms
from mklref.synthesis.solution import Run, SynthesisSolution

_FIRST_COLUMNS, _FIRST_GROUPS = 100, 10
"""Working set to begin with; later it holds at least twice what is active."""
_INNER = 0.1
"""Share of the gap to which the working set is solved, and of the tolerance at the end."""
_PATIENCE = 6
"""Rounds without a smaller gap after which rounding is held responsible."""


def solve(
    problem: SynthesisProblem,
    *,
    tol: float = 1e-6,
    max_iter: int = 100,
    max_time: float | None = None,
    callback: Callable[[Record], object] | None = None,
    progress: bool = False,
    start: SynthesisSolution | None = None,
) -> SynthesisSolution:
    """Solve a mixed-norm synthesis problem to a certified relative duality gap.

    Parameters
    ----------
    problem : SynthesisProblem
    tol : float
        Certified relative gap (upper - lower)/|upper| at which to stop, positive; it has no unit. An optimal value that
        is tiny beside the objective of A = 0 may be beyond the reach of rounding: then the status is STALLED.
    max_iter : int
        Largest number of working sets.
    max_time : float, optional
        Seconds after which the best point so far is returned.
    callback : callable, optional
        Called with the `Record` of every working set, whose `weights` are the norms ||A_t||_2; a true return value
        stops the solver.
    progress : bool
        Show a progress line.
    start : SynthesisSolution, optional
        A solution of a problem with the same kernels, to start from (for instance with another lam).

    Returns
    -------
    SynthesisSolution
        `status` is OPTIMAL exactly if the certificate, recomputed at the returned point, confirms `tol`. The counters
        of the history hold the "passes" over the kernels (columns read / all columns, the certificate included), the
        "newton_steps" and the share of columns that were "screened".

    Raises
    ------
    InvalidParameter
        tol, max_iter or max_time out of range; a start of another shape.
    InvalidType
        Not a `SynthesisProblem`, a start that is no solution, or a callback that cannot be called.
    Interrupted
        On Ctrl-C; a KeyboardInterrupt whose `solution` is the best certified point so far.
    """
    run = Run(problem, tol, max_iter, max_time, callback, progress)
    A = np.zeros(problem.shape)
    if start is not None:
        if not isinstance(start, SynthesisSolution):
            raise InvalidType(f"start is {type(start).__name__}; give a SynthesisSolution, or None.")
        A = checked_array(start.coef, "start.coef", problem.shape)
    with run.running("newton"), blas_threads():
        return run.solution(_iterate(run, A), "newton")


def _iterate(run: Run, A: Array) -> Status:
    problem, norm, dictionary = run.problem, run.problem.norm, run.dictionary
    lengths = dictionary.column_norms()
    method = ProximalPoint(problem, float(lengths.max()), lambda: run.recorder.late)
    columns = restriction(dictionary, norm)
    alive = np.ones(problem.shape, dtype=bool)
    working = np.zeros(problem.shape, dtype=bool)
    nothing = np.zeros(problem.n_samples)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        t = dictionary.scores(A)
        if not primal_value(problem, A, t) <= primal_value(problem, np.zeros_like(A), nothing):
            A, t = np.zeros_like(A), nothing  # a start that is worse than none, or leaves float64
    steps, smallest, since_better = 0, np.inf, 0
    beta = residual(problem, t)
    while True:
        Z = dictionary.correlations(beta, alive)
        previous = run.lower
        scale = run.observe(A, t, beta, Z)
        status = run.record(A, method.newton_steps - steps)
        run.counters = {"newton_steps": method.newton_steps, "screened": 1.0 - float(alive.mean())}
        if status is not None:
            return status
        since_better = 0 if run.gap < 0.9 * smallest else since_better + 1
        smallest = min(smallest, run.gap)
        if since_better > _PATIENCE:
            return Status.STALLED
        if run.lower > previous:
            radius = np.sqrt(2.0 * problem.C * problem.loss.smoothness * max(run.gap, 0.0))
            alive &= survivors(norm, scale * Z, radius * lengths, problem.lam) | (run.coef != 0.0)
        steps = method.newton_steps
        working |= (_largest(norm, Z, A) & alive) | (A != 0.0)
        columns.add(working)
        A, beta = method.solve(columns, A, beta, max(_INNER * run.gap, 0.3 * run.target))
        t = dictionary.scores(A)


def survivors(norm: MixedNorm, Z: Array, slack: Array, lam: float) -> NDArray[np.bool_]:
    """Columns (tau, N) that may be active if the optimal Z is within `slack` of Z, entry by entry."""
    if norm.separable and norm.q == 2:
        return np.ones(Z.shape, dtype=bool)
    size, room = (norm.groups(np.abs(X)) for X in (Z, slack))
    least = lam if norm.q == 1 else (size - room).max(axis=1, keepdims=True)
    if norm.p == 2:  # a group as a whole
        size, room = (row_norms(X, 2)[:, None] for X in (size, room))
    return norm.groups(np.broadcast_to(size + room >= least, norm.groups(Z).shape))


def _largest(norm: MixedNorm, Z: Array, A: Array) -> NDArray[np.bool_]:
    """The columns that a working set should hold: largest |Z|, for q = 2 relative to the largest of the group."""
    if norm.separable and norm.q == 2:
        return np.ones(Z.shape, dtype=bool)
    if norm.p == 2:
        sizes = norm.dual_group_norms(Z)
        chosen = np.zeros(len(sizes), dtype=bool)
        chosen[np.argsort(-sizes)[: max(_FIRST_GROUPS, 2 * np.count_nonzero(norm.group_norms(A)))]] = True
        return norm.groups(np.broadcast_to(chosen[:, None], norm.groups(Z).shape))
    sizes, count = np.abs(Z), max(_FIRST_COLUMNS, 2 * np.count_nonzero(A))
    if norm.q == 2:
        largest = norm.dual_group_norms(Z)
        count = max(count, 2 * len(largest))
        sizes = norm.groups(norm.groups(sizes) / np.where(largest > 0.0, largest, 1.0)[:, None])
    chosen = np.zeros(Z.size, dtype=bool)
    chosen[np.argsort(-sizes, axis=None)[:count]] = True
    return chosen.reshape(Z.shape)


def solve_path(
    problem: SynthesisProblem,
    lam: Sequence[float] | None = None,
    *,
    count: int = 20,
    ratio: float = 0.01,
    tol: float = 1e-6,
    callback: Callable[[SynthesisSolution], object] | None = None,
    **options: Any,
) -> list[SynthesisSolution]:
    """Solve a problem for several lambda, in the order given, with warm starts.

    Parameters
    ----------
    problem : SynthesisProblem
        Everything but lambda.
    lam : sequence of float, optional
        By default `count` values in geometric progression from `lambda_max(problem)` down to `ratio` times it, which
        exist for q = 1 only.
    count : int
        Number of values, at least 2.
    ratio : float
        The last value over the first, in (0, 1).
    tol : float
        Certified relative gap of every point.
    callback : callable, optional
        Called with each solution; a true return value ends the path early.
    **options
        Passed to `solve`; a `start` is that of the first point.

    Returns
    -------
    list of SynthesisSolution
        One for each value, each with its own certificate.

    Raises
    ------
    InvalidParameter
        No values, or one outside (0, inf); lambda_max 0 or infinite where none are given; count or ratio out of range.
    InvalidType
        Not a `SynthesisProblem`; values that are no numbers; a callback that cannot be called.
    Interrupted
        On Ctrl-C; its `path` has the points that were finished, its `solution` the one that was not.
    """
    checked_problem(problem)
    check_callback(callback, "SynthesisSolution")
    count = checked_count("count", count, 2, "the number of values.")
    ratio = checked_number("ratio", ratio, "(0, 1)", "the last lambda over the first.")
    some = "at least one number, such as [10.0, 3.0, 1.0]."
    values = _grid(problem, count, ratio) if lam is None else checked_values("lam", lam, some)
    if not values:
        raise InvalidParameter(f"lam = {lam!r} must be a sequence of {some}")
    problems = [problem.replace(lam=value) for value in values]  # every value is checked before work starts

    def solved(member: SynthesisProblem, last: SynthesisSolution | None) -> SynthesisSolution:
        return solve(member, tol=tol, **(options if last is None else {**options, "start": last}))

    solutions: list[SynthesisSolution] = along(problems, solved, callback)
    return solutions


def _grid(problem: SynthesisProblem, count: int, ratio: float) -> list[float]:
    largest = lambda_max(problem)
    if not 0.0 < largest < np.inf:
        raise InvalidParameter(f"lambda_max = {largest:g}: give lam, the values of the path.")
    return [float(value) for value in largest * np.geomspace(1.0, ratio, count)]
