"""`solve_factored`: the door to the solver for kernels as factors; options and errors are those of `mklref.solve`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from mklref._names import names_of_both
from mklref._run import Recorder, check_range, is_of_problem
from mklref._threads import blas_threads
from mklref._typing import Array
from mklref.certificate import Certificate, certify
from mklref.exceptions import Interrupted
from mklref.factored.approach import approached, finished
from mklref.factored.bounds import only_rounding, settled, towards, unloaded
from mklref.factored.cluster import ClusterLost
from mklref.factored.path import Path, Point, Start
from mklref.factored.remote import DistributedStack, Remote
from mklref.factored.rounds import Rounds, opened, targets_between
from mklref.kernels.factor_stack import FactorStack
from mklref.multiclass import random_part
from mklref.problem import Problem, on_samples
from mklref.regularizers import Fixed
from mklref.solution import History, Record, Solution, Status

SHARE = 8
"""The small problem has one of so many samples."""
_FEWEST, _FOR_EACH, _WORTH = 2000, 20, 1e8
"""Samples of the small problem, so many for each column of L, and multiplications of L'DL of all below which it costs
more than it saves: an eighth of the reads, but all of what a step has of order r^3, and of calls."""
_ROUGHLY, _STEPS = 3e-2, 30
"""Relative gap of the small problem, and the steps that it may take."""
_ROWS = 250
"""Rows for each column of L from which on tau of the start is smaller: what it adds to L'beta grows with the rows."""
_AGAIN = 0.1
"""tau of a start from a solution, as a share of that of a start from nothing."""
_ALONE = 1e10
"""Multiplications of L'DL below which threads of the linear algebra library wait longer than they work."""
_FAR = 1e-2
"""Relative gap of a path that stalled above which it begins once more, where it had no start."""
_AROUND = 10.0
"""tau of a start from where a path stalled, with weights that fit its v, in its relative gap there."""
_EQUAL = 0.9
"""Relative gap of the solution for equal weights."""
_NEARBY = 1e-6
"""Relative difference from its objective up to which a start is asked whether it is a solution."""
_MARGIN, _SHARPER = 0.7, 0.2
"""Share of `tol` at which the path is left, and what it is multiplied by if the certificate does not confirm it."""
_CONFIRMED, _WAIT = 1.1, 2.0
"""A run that has to end has what it has shown once a certificate's gap is at most so many times that of the path, or of
f = 0; where somebody waits it takes at most so many times what it took until then, and the time of a certificate."""


def solve_factored(
    problem: Problem,
    *,
    tol: float,
    max_iter: int,
    max_time: float | None,
    callback: Callable[[Record], object] | None,
    progress: bool,
    start: Solution | None,
    client: Any = None,
) -> Solution:
    """Solve a problem with a `FactorStack`, on the workers of a client if there is one; see `mklref.solve`.

    With several shards, here or elsewhere, and with few rows the linear algebra library has one thread, and the bits of
    the solution depend on the rows of the shards alone.
    """
    given, stack = problem, problem.kernels
    assert isinstance(stack, FactorStack)
    recorder: Recorder[Record] = Recorder(
        "solving", tol=tol, max_iter=max_iter, max_time=max_time, callback=callback, progress=progress
    )
    path: Any = None
    best: Solution | None = None
    saved: Callable[..., Solution] | None = None

    def save() -> None:
        """Fetch a point from the workers, and judge it as it is while its rows can be reached."""
        nonlocal saved
        saved = partial(_solution, given, path, path.best, path.rounds.kept(), Status.INTERRUPTED, tol)
        if isinstance(given.kernels, DistributedStack):
            judged = saved(as_it_is=True)
            saved = lambda: judged  # noqa: E731 - it is what it was

    def interrupted() -> Solution | None:
        if path is None or path.best is None:
            return None
        try:
            last = _solution(given, path, path.best, path.rounds.kept(), Status.INTERRUPTED, tol)
            if best is not None and best.certificate.gap < last.certificate.gap:
                last = replace(best, status=last.status, history=last.history)
            return _or_earlier(given, path, last, tol)
        except ClusterLost:
            return None if saved is None else saved()

    quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore")
    with ExitStack() as around, recorder.running(interrupted), quiet:  # what has ended may still be asked for beta
        stack = stack.side_by_side() if client is None else DistributedStack.of(stack, client)
        problem = problem if stack is problem.kernels else problem.replace(kernels=stack)
        given = problem if client is None else given
        if len(stack.edges) > 2 or stack.shape[1] * stack.rank**2 < _ALONE:
            around.enter_context(blas_threads())
        try:
            check_range(problem.C, float(stack.largest_diagonals().max()))
            before: dict[str, float] = {}
            first = _from_solution(stack, start) if start is not None else _from_a_part(problem, recorder, before)
            rounds = around.enter_context(closing(_rounds(problem)))
            path = Path(problem, rounds, recorder, save if rounds.remote else None)
            if client is not None:
                around.enter_context(closing(path.rounds.cluster))  # or rows stay there until memory is short here
            for name, cost in before.items():
                path.counters[name] += cost / SHARE if name != "steps" else 0.0
            _begin(path, first)
            if start is not None and (solved := _solved_before(given, path, start, tol)) is not None:
                return solved
            going_on = {Status.STALLED, Status.OPTIMAL} if path.kinked else {Status.STALLED}
            target, others = _MARGIN * tol, _other_ends(path, cold=first is None)
            follow: Any = path.follow
            while True:
                status = follow(target)
                status = recorder.limit or status  # a goal that the certificate does not confirm is none
                may_go_on = path.fits or (follow == path.follow and target >= 1e-3 * tol)
                going = status is Status.OPTIMAL and may_go_on
                solution = _solution(given, path, path.best, path.rounds.kept(), status, tol, few=going)
                if best is not None and best.certificate.gap < solution.certificate.gap:
                    # The bounds of the path are no certificate, by which a point before may have been better.
                    solution = replace(best, status=solution.status, history=solution.history)
                best = solution
                if solution.status is Status.OPTIMAL or only_rounding(
                    path, solution.certificate, np.atleast_2d(solution.dual_coef), tol
                ):
                    return solution
                if going and path.fits:
                    path.trusted = False
                elif going:
                    target *= _SHARPER
                    path.anew()
                elif status not in going_on or (follow := next(others, None)) is None:
                    return _or_earlier(given, path, solution, tol)
        except ClusterLost as lost:
            raise Interrupted(None if saved is None else saved(), because=str(lost)) from lost


def _other_ends(path: Path, cold: bool) -> Iterator[Callable[[float], Status]]:
    """What may follow a path that stalled: its last digits, then the same for another one, with weights that fit its v.

    A last one begins afar.
    """
    best, far = path.best, path.relative_gap() > _FAR
    share = 1.0 if best is None else min(1.0, _AROUND * best.gap / path.scale())
    if path.kinked:
        yield partial(finished, path)
        path.forget()
    if path.psi.fixed is None and best is not None:
        path.begin(Start(best.v, best.b, _fitting(path, best), share))
        yield path.follow
        far = path.relative_gap() > _FAR
        if path.kinked:
            yield partial(finished, path)
            path.forget()
    if not cold or far:
        path.begin(None)
        yield path.follow


def _fitting(path: Path, point: Point) -> Array:
    """The weights (M,) that fit the norms of v."""
    return path.problem.regularizer.weights_from_norms(path.norms(point.v))


def _rounds(problem: Problem) -> Rounds | Remote:
    """The shards of a problem, here or on workers."""
    stack, n = problem.kernels, problem.n_samples
    assert isinstance(stack, FactorStack)
    shards = [(first, last, targets_between(problem, first, last)) for first, last in pairwise(stack.edges)]
    if isinstance(stack, DistributedStack):
        return Remote(stack, [targets for *_, targets in shards])
    return Rounds(stack, [opened(stack, targets, first, last, n) for first, last, targets in shards])


def _from_solution(stack: FactorStack, start: Solution) -> Start:
    v = stack.coefficients(np.atleast_2d(start.dual_coef), start.weights).T
    return Start(
        np.ascontiguousarray(v), np.atleast_1d(np.asarray(start.intercept, dtype=float)), start.weights, _AGAIN
    )


def _from_a_part(problem: Problem, recorder: Recorder[Record], costs: dict[str, float]) -> Start | None:
    """The solution of an eighth of the samples, roughly, with C as much larger; None where that is too few.

    It costs an eighth for each step, and begins in the same way. tau of the start is hardly smaller than that of a cold
    one: a much smaller one stalls at the boundary.
    """
    n, stack = problem.n_samples, problem.kernels
    assert isinstance(stack, FactorStack)
    k = n // SHARE
    few = k < max(_FEWEST, _FOR_EACH * stack.rank) or n * stack.rank**2 < _WORTH
    if few or (chosen := random_part(problem, k)) is None:
        return None
    small = on_samples(problem, chosen, stack.part(chosen), C=problem.C * n / len(chosen))
    own: Recorder[Record] = Recorder("a part", tol=_ROUGHLY, max_iter=_STEPS, max_time=recorder.left)
    with closing(_rounds(small)) as rounds:
        path = Path(small, rounds, own)
        _begin(path, _from_a_part(small, own, costs))
        if path.away_from:  # of which v, b and theta are enough
            approached(path, _ROUGHLY)
        else:
            path.follow(_ROUGHLY)
    for name, cost in path.counters.items():
        costs[name] = costs.get(name, 0.0) / SHARE + cost
    best, share = path.best, min(1.0, float(np.sqrt(_ROWS * stack.rank / n)))
    return None if best is None else Start(best.v, best.b, path.psi.weights(best.s)[path.psi.member], share)


def _begin(path: Path, start: Start | None) -> None:
    """From a start, or roughly from the solution for equal weights, with the weights that fit it, or from nothing.

    Without two ends of the loss for beta to settle at, L'beta of nothing is too large by far for a large C, and would
    take all weights to 0 in a step. Where no weights move, a full step leaves nothing of it. beta goes on from there:
    made anew of the scores it would again be too large.
    """
    problem = path.problem
    if start is not None or path.psi.fixed is not None or path.away_from or path.bounded:
        path.begin(start)
        return
    fixed = problem.replace(regularizer=Fixed(problem.regularizer.weights_from_norms(np.ones(problem.n_kernels))))
    own: Recorder[Record] = Recorder("equal weights", tol=_EQUAL, max_iter=_STEPS, max_time=path.recorder.left)
    equal = Path(fixed, path.rounds, own)
    equal.choosy = equal.trusted = False
    equal.begin(None)
    equal.follow(_EQUAL)
    for name, cost in equal.counters.items():
        path.counters[name] += cost
    if equal.v.any() and np.isfinite(equal.gap):
        weights = problem.regularizer.weights_from_norms(path.norms(equal.v))
        path.begin(Start(equal.v, equal.b, weights, _AGAIN), equal.tau)
    else:
        path.begin(None)


def _solution(
    problem: Problem, path: Path, point: Point, beta: Array, status: Status, tol: float, *,
    as_it_is: bool = False, few: bool = False,
) -> Solution:  # fmt: skip
    """A point with a certificate computed from scratch, without what vanishes if it allows that."""
    judged: list[tuple[Array, Array, Certificate]] = []
    recorder, limited = path.recorder, path.costly and status not in (Status.OPTIMAL, Status.STALLED)
    waits = limited and status in (Status.TIME_LIMIT, Status.INTERRUPTED)
    until = _WAIT * recorder.seconds if waits else np.inf
    for dual, weights in _candidates(problem, path, point, beta, as_it_is, few):
        own = dual.reshape(problem.dual_shape)
        if any(np.array_equal(own, before) and np.array_equal(weights, theta) for before, theta, _ in judged):
            continue
        found = certify(problem, own, weights=weights)
        judged.append((own, weights, found))
        shown = limited and found.gap <= _CONFIRMED * min(point.gap, path.scale())  # the largest of f = 0
        if shown or found.is_optimal(tol) or only_rounding(path, found, dual, tol) or recorder.seconds > until:
            break
    own, weights, certificate = min(judged, key=lambda one: one[2].gap)
    return _certified(problem, path, own, weights, certificate, status.confirmed(certificate.is_optimal(tol)))


def _certified(
    problem: Problem, path: Path, dual_coef: Array, weights: Array, certificate: Certificate, status: Status
) -> Solution:
    history = History(tuple(path.recorder.records), path.counters)
    facts = (certificate.objective, certificate, status, history, "factored")
    intercepts = problem.intercepts(certificate.intercept)
    return Solution(dual_coef, weights, intercepts, *facts, **names_of_both(problem.kernels))


def _solved_before(problem: Problem, path: Path, start: Solution, tol: float) -> Solution | None:
    """The start, if it is a solution: the path begins inside of the boxes, at a distance from it."""
    if not abs(path.objective - start.objective) <= _NEARBY * abs(start.objective):  # which costs no read
        return None
    certificate = certify(problem, start.dual_coef, weights=start.weights)
    if not (is_of_problem(start, certificate.objective) and certificate.is_optimal(tol)):
        return None
    clock, bounds = path.recorder.seconds, (certificate.lower, certificate.upper)
    path.recorder.add(Record(0, clock, *bounds, 1, start.weights, unit=path.unit), certificate.relative_gap)
    return _certified(problem, path, start.dual_coef, start.weights, certificate, Status.OPTIMAL)


def _or_earlier(problem: Problem, path: Path, solution: Solution, tol: float) -> Solution:
    """A solution, or, while there is time, that of an earlier point with a better certificate: bounds are none."""
    for point, beta in path.points[:-1]:
        if path.recorder.late:
            break
        other = _solution(problem, path, point, beta, solution.status, tol)
        solution = other if other.certificate.gap < solution.certificate.gap else solution
    return solution


def _candidates(
    problem: Problem, path: Path, point: Point, beta: Array, as_it_is: bool, few: bool
) -> Iterator[tuple[Array, Array]]:
    """beta (P, n) and weights (M,) of a point, each if those before were not enough: first what vanishes is 0.

    The bounds of the path know v and beta alone, and where the penalty is a small share of the objective they meet
    before its weights are right: those that fit v are, and of a loss without kinks far from its end, too. The last
    weights are those that fit beta, and right where R* is smooth: f = 0 may be the solution, and v with it, long before
    theta is 0. Where f = 0 costs nothing no number is small: beta = 0 is exact, or if beta has to sum to c_b,
    theta = 0. Where the path can go on `few` are enough: the others confirmed nothing that these had not, and cost more
    than a step.
    """
    psi = path.psi
    each, fitting = [psi.weights(psi.inside(point.s))[psi.member]], _fitting(path, point)
    if as_it_is:
        yield beta, each[0]
        return
    if not point.kept.all() and point.kept.any():
        each.insert(0, psi.weights(psi.inside(point.kept))[psi.member])
    if path.unit == 0.0 and path.first.loss.targets == "real" and not path.lower > 0.0:
        yield np.zeros_like(beta), each[0]
    first = path.fits or (path.recorder.limit is not None and not path.kinked)
    if first:
        yield towards(problem, point, beta, fitting), fitting
    ended = settled(problem, beta)
    yield ended, each[0]
    if not (point.gap < path.scale() or path.first.intercept_cost):  # f = 0 has no larger gap
        yield np.zeros_like(beta), each[0]
    yield settled(problem, towards(problem, point, ended, each[0])), each[0]
    yield from ((beta, weights) for weights in each)
    closer = towards(problem, point, beta, each[-1])
    yield closer, each[-1]
    short = unloaded(problem, ended)
    if path.kinked:
        yield towards(problem, point, short, each[-1]), each[-1]
    if psi.fixed is None and not first:
        yield towards(problem, point, beta, fitting), fitting
    if few:
        return
    yield closer, each[0]
    if path.kinked:
        yield towards(problem, point, short, each[-1], ended), each[-1]
    if path.first.intercept_cost:
        yield beta, np.zeros_like(each[0])
    if psi.fixed is None:
        squares = np.sum([problem.kernels.norms(row) ** 2 for row in beta], axis=0)
        yield beta, problem.regularizer.weights_from_dual(np.sqrt(squares))
    if not path.first.intercept_cost:  # the path may have ended far from anything
        yield np.zeros_like(beta), each[0]
