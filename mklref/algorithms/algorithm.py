"""From the loop of a paper to a solver: what every algorithm takes, promises and refuses, said once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from mklref.algorithms.base import Callback, Run, require
from mklref.algorithms.point import Point, regularizer_of
from mklref.problem import Problem
from mklref.solution import Solution

_PARAMETERS = """
Parameters
----------
problem : Problem
    Made for {made_for}.
tol : float
    Certified relative gap at which to stop.
max_iter : int
    Largest number of iterations, as the paper counts them.
max_time : float, optional
    Seconds after which no further machine is started.
callback : callable, optional
    Called with the `Iteration` of every iteration; a true return value stops the run.
progress : bool
    Show a progress line.
start : Solution, optional
    Solution of a problem with the same kernels: its dual variables and its weights, scaled into the feasible set, are
    where the run starts.
{own}
Returns
-------
Solution
    The best point, certified afresh; its status is OPTIMAL exactly if the certificate confirms tol.

Raises
------
NotApplicable
    For problems that it is not made for. {remedy}
InvalidType, InvalidParameter, InvalidInput
    No problem, a bad option, a start of another size.
Interrupted
    On Ctrl-C; its `solution` is the best certified point so far.
"""


class Algorithm(Protocol):
    """What an algorithm is to its user."""

    __name__: str

    def __call__(
        self,
        problem: Problem,
        *,
        tol: float = ...,
        max_iter: int = ...,
        max_time: float | None = ...,
        callback: Callback | None = ...,
        progress: bool = ...,
        start: Solution | None = ...,
        **own: Any,
    ) -> Solution:
        """Solve the problem; `own` are the parameters that this algorithm alone has."""


def algorithm(
    fits: Callable[[Any], bool], made_for: str, *, remedy: str, max_iter: int = 1000
) -> Callable[[Callable[..., Iterator[Point]]], Algorithm]:
    """Make a solver of the loop of a paper, a generator of points that asks its `Run` for kernel machines.

    `fits` says whether it is made for a problem, and `made_for` the same in words, for the documentation and for who
    brings another problem; `remedy` what takes others. The keyword parameters of the generator and their section
    "Parameters" are added to those that every algorithm has.
    """

    def solver_of(steps: Callable[..., Iterator[Point]]) -> Algorithm:
        def solve(
            problem: Problem,
            *,
            tol: float = 1e-4,
            max_iter: int = max_iter,
            max_time: float | None = None,
            callback: Callback | None = None,
            progress: bool = False,
            start: Solution | None = None,
            **own: Any,
        ) -> Solution:
            regularizer_of(problem)
            require(fits(problem), steps.__name__, problem, made_for, remedy)
            run = Run(steps.__name__, problem, tol, max_iter, max_time, callback, progress, start)
            return run.follow(steps(run, **own))

        made: Algorithm = presented(solve, steps, _PARAMETERS, made_for=made_for, remedy=remedy)
        return made

    return solver_of


def presented(solve: Any, loop: Callable[..., Any], text: str, **words: str) -> Any:
    """A solver by the name and the statement of a loop, with the keyword parameters of both, described in a text."""
    common = list(inspect.signature(solve).parameters.values())[:-1]
    own = [one for one in inspect.signature(loop).parameters.values() if one.kind is one.KEYWORD_ONLY]
    functools.update_wrapper(solve, loop, assigned=("__module__", "__name__", "__qualname__"))
    del solve.__wrapped__
    statement, _, described = inspect.cleandoc(loop.__doc__ or "").partition("\n\nParameters\n----------\n")
    solve.__doc__ = f"{statement}\n" + text.format(own=f"{described}\n" if described else "", **words)
    returned = inspect.signature(solve).return_annotation
    solve.__signature__ = inspect.Signature([*common, *own], return_annotation=returned)
    return solve
