"""The walk along equivalences: the same optimum at every problem on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from mklref import _display
from mklref.certificate import certify
from mklref.equivalences import EQUIVALENCES, NONE, leaving
from mklref.exceptions import MKLError
from mklref.explore import graph
from mklref.explore.page import Shown
from mklref.native import solve
from mklref.problem import Problem
from mklref.solution import Solution

WALK_TOL = 1e-9


class Walk(NamedTuple):
    """A walk along equivalences."""

    picture: str
    table: str
    """A row for each problem."""
    leaving: tuple[tuple[str, str], ...]
    """The steps from where it ends: words, and the walk with that step."""
    before: str
    """The walk without its last step."""


def walk(shown: Shown) -> Walk:
    """Carry the solution along the edges of the state; each problem on the way is solved again, from nothing."""
    problem, solution = shown.problem, shown.solution
    if shown.state.walked:  # parameters are carried by the block norms, which are known to the root of the gap
        solution = solve(problem, tol=WALK_TOL, max_time=30.0)
    rows, walked = [_stop("", problem, solution, "", "")], []
    known = {edge.name: edge for edge in EQUIVALENCES}
    for name in shown.state.walked:
        edge = known.get(name)
        if edge is None or not edge.applies(problem):
            break
        try:
            carried = edge(problem, solution)
        except MKLError as wrong:
            rows.append((name, "", "", "", "", str(wrong)))
            break
        bounds = certify(carried.problem, carried.dual_coef, weights=carried.weights, intercept=carried.intercept)
        problem, solution = carried.problem, solve(carried.problem, tol=WALK_TOL, max_time=30.0)
        walked.append(edge)
        changed = "nothing changes" if edge.parameters == NONE else edge.parameters
        rows.append(_stop(f"{len(walked)}. {name}", problem, solution, changed, f"{bounds.relative_gap:.1e}"))
    taken = replace(shown.state, walk="|".join(edge.name for edge in walked))  # others do not apply here any more
    ahead = leaving(problem)
    columns = ("step", "problem", "C", "optimum, computed again", "parameters", "gap of the point carried here")
    start = type(shown.problem.regularizer).__name__
    picture = graph.walk(start, walked, ahead)
    here = graph.end(start, walked)
    steps = tuple((f"{e.name} → {graph.PLACES[graph.ends(e, here)[1]][2]}", taken.after(e.name)) for e in ahead)
    return Walk(picture, _display.table(columns, rows), steps, taken.before())


def _stop(step: str, problem: Problem, solution: Solution, parameters: str, gap: str) -> tuple[str, ...]:
    value = f"{solution.certificate.lower:.7g} … {solution.certificate.upper:.7g}"
    return step, str(problem.regularizer), f"{problem.C:.6g}", value, parameters, gap
