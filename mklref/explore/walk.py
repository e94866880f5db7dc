"""The walk along equivalences: the same optimum at every problem on the way."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from mklref import _display
from mklref.certificate import certify
from mklref.equivalences import EQUIVALENCES, NONE, Equivalence, leaving
from mklref.exceptions import MKLError
from mklref.explore import graph, state as states, work
from mklref.explore.state import State
from mklref.explore.work import Shown
from mklref.native import solve
from mklref.problem import Problem
from mklref.solution import Solution

WALK_TOL = 1e-9
LONGEST = 2.0
"""Seconds for each problem on the way."""
NOTE = (
    "<p><small>The interval, the pictures and the paths of this page stay with the problem where the walk starts; the "
    "table below and the code that is copied walk along.</small></p>"
)


class Walk(NamedTuple):
    """A walk along equivalences."""

    picture: str
    table: str
    """A row for each problem."""
    leaving: tuple[tuple[str, str], ...]
    """The steps from where it ends: words, and the walk with that step."""
    taken: str
    """The walk without steps that do not apply any more."""
    before: str
    """The walk without its last step."""


class Reached(NamedTuple):
    """Where a walk has come to."""

    problem: Problem
    solution: Solution
    walked: tuple[Equivalence, ...]
    rows: tuple[tuple[str, ...], ...]
    ended: bool = False
    """Whether a step could not be taken."""


def walk(shown: Shown) -> Walk:
    """Carry the solution along the edges of the state; each problem on the way is solved again, from nothing."""
    problem = shown.problem
    if shown.state.walked:
        problem, _, walked, rows, _ = reached(work.same_problem(shown.state), shown.state.walked)
    else:
        walked, rows = (), (_stop("", problem, shown.solution, "", ""),)
    taken = replace(shown.state, walk="|".join(edge.name for edge in walked))  # others do not apply here any more
    ahead = [edge for edge in leaving(problem) if not (edge.parameters == NONE and edge in walked)]  # said already
    columns = ("step", "problem", "C", "optimum, computed again", "parameters", "gap of the point carried here")
    start = type(shown.problem.regularizer).__name__
    picture = graph.walk(start, walked, ahead)
    here = graph.end(start, walked)
    steps = tuple((f"{e.name} → {graph.PLACES[graph.ends(e, here)[1]][2]}", taken.after(e.name)) for e in ahead)
    return Walk(picture, _display.table(columns, rows), steps, taken.walk, taken.before())


@lru_cache(maxsize=64)
def reached(state: State, names: tuple[str, ...]) -> Reached:
    """The end of a walk; the way to it is remembered, so that a further step is one problem more.

    Parameters are carried by the block norms, which are known to the root of the gap: hence to the last digits.
    """
    if not names:
        problem, _ = states.problem_of(state)
        solution = solve(problem, tol=WALK_TOL, max_time=LONGEST, polish=True)
        return Reached(problem, solution, (), (_stop("", problem, solution, "", ""),))
    before = reached(state, names[:-1])
    name, edge = names[-1], {edge.name: edge for edge in EQUIVALENCES}.get(names[-1])
    if before.ended or edge is None or not edge.applies(before.problem):
        return before._replace(ended=True)
    try:
        carried = edge(before.problem, before.solution)
    except MKLError as wrong:
        return before._replace(rows=(*before.rows, (name, "", "", "", "", str(wrong))), ended=True)
    bounds = certify(carried.problem, carried.dual_coef, weights=carried.weights, intercept=carried.intercept)
    solution = solve(carried.problem, tol=WALK_TOL, max_time=LONGEST, polish=True)
    changed = "nothing changes" if edge.parameters == NONE else edge.parameters
    step = f"{len(before.walked) + 1}. {name}"
    row = _stop(step, carried.problem, solution, changed, f"{bounds.relative_gap:.1e}")
    return Reached(carried.problem, solution, (*before.walked, edge), (*before.rows, row))


def _stop(step: str, problem: Problem, solution: Solution, parameters: str, gap: str) -> tuple[str, ...]:
    value = f"{solution.certificate.lower:.7g} … {solution.certificate.upper:.7g}"
    return step, str(problem.regularizer), f"{problem.C:.6g}", value, parameters, gap
