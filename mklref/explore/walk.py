"""The walk along equivalences: the same optimum at every problem on the way, and the graph on which one walks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from mklref import _display
from mklref._display import BLUE, ORANGE
from mklref._typing import Array
from mklref._validate import counted
from mklref.certificate import certify
from mklref.equivalences import EQUIVALENCES, NONE, Equivalence, leaving
from mklref.exceptions import MKLError
from mklref.explore import state as states, work
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
    way = list(pairwise(accumulate(walked, lambda here, edge: ends(edge, here)[1], initial=start)))
    picture, here = graph(start, way, ahead), way[-1][1] if way else start
    steps = tuple((f"{e.name} → {PLACES[ends(e, here)[1]][2]}", taken.after(e.name)) for e in ahead)
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
    value = " … ".join(_display.outwards(solution.certificate.lower, solution.certificate.upper, 7))
    return step, str(problem.regularizer), f"{problem.C:.6g}", value, parameters, gap


# --- the graph: families of problems, and the edges between them -----------------------------------------------------


PLACES = {
    "Tikhonov": (100, 30, "Tikhonov"),
    "Power": (100, 88, "powers of the weights"),
    "HalfPower": (100, 146, "powers of the norms"),
    "ConcaveBlock": (100, 204, "concave functions"),
    "WeightedL1": (100, 262, "weighted, l1"),
    "Fixed": (330, 162, "one machine"),
    "Lp": (330, 100, "Ivanov: lp ball"),
    "ElasticNet": (330, 222, "elastic net"),
    "Mahalanobis": (330, 280, "ellipsoid"),
    "block norms": (560, 30, "block norms"),
    "dual": (560, 88, "dual, all kernels at once"),
    "BlockNorm": (560, 146, "block norm q"),
    "Groups": (560, 204, "groups"),
    "WeightedLp": (560, 262, "weighted lp"),
}
"""Where the families of problems stand in the graph of equivalences, and what they are called."""
BOX = (172, 30)


def ends(edge: Equivalence, here: str = "Lp") -> tuple[str, str]:
    """The families on both sides of an equivalence; what holds of any problem, or stays within one, begins `here`."""

    def family(words: str, other: str) -> str:
        statement = words.partition(",")[2] + words.partition("),")[2]
        if "dual" in statement or "semi-infinite" in statement:
            return "dual"
        if "block norms" in statement or "composite absolute" in statement:
            return "block norms"
        known = re.match(r"\w*", words).group()  # type: ignore[union-attr]
        return known if known in PLACES else other

    left = family(edge.left, edge.kind.__name__ if edge.kind.__name__ in PLACES else here)
    return left, family(edge.right, "HalfPower" if edge.right.startswith("group lasso") else left)


def graph(start: str, way: Sequence[tuple[str, str]], ahead: Sequence[Equivalence]) -> str:
    """The graph of equivalences: the way so far, numbered; the problem where it ends; and the edges that leave it."""
    here = way[-1][1] if way else start
    steps = {(here, ends(edge, here)[1]) for edge in ahead} - {(here, here)}
    known = {ends(edge) for edge in EQUIVALENCES if edge.kind.__name__ in PLACES} - steps - set(way)
    faint = {(left, right) for left, right in known if (right, left) not in steps}  # there and back would be one line
    drawn = [_arrow(*pair, "#888888", 1.0, "3 3", "") for pair in sorted(faint) if pair[0] != pair[1]]
    drawn += [_arrow(*pair, BLUE, 2.0, "", "") for pair in sorted(steps)]
    drawn += [_arrow(*pair, ORANGE, 3.0, "", str(k)) for k, pair in enumerate(way, start=1) if pair[0] != pair[1]]
    reached = {name for _, name in steps}
    width, height = BOX
    for name, (x, y, words) in PLACES.items():
        colour, opacity = (ORANGE, 0.35) if name == here else (BLUE, 0.2) if name in reached else ("#888888", 0.08)
        at = f'x="{x - width / 2}" y="{y - height / 2}" width="{width}" height="{height}" rx="6"'
        drawn.append(
            f'<rect {at} fill="var(--background, #ffffff)"/>'
            f'<rect {at} fill="{colour}" fill-opacity="{opacity}" stroke="currentColor" '
            f'stroke-width="{2 if name == here else 0.7}"/>'
            f'<text x="{x}" y="{y + 4}" font-size="12" text-anchor="middle" fill="currentColor">{words}</text>'
        )
    label = f"The graph of equivalences: {counted(len(way), 'step')} from {PLACES[start][2]}, now at {PLACES[here][2]}"
    return (
        f'<div style="overflow-x:auto"><svg role="img" aria-label="{label}" viewBox="0 0 660 305" '
        f'style="min-width:540px;width:100%;max-width:760px">{"".join(drawn)}</svg></div>'
    )


def _arrow(left: str, right: str, colour: str, width: float, dash: str, number: str) -> str:
    """An arrow from box to box, bent to its left, so that there and back are apart; with the number of a step."""
    (x0, y0, _), (x1, y1, _) = PLACES[left], PLACES[right]
    start, end = np.array([x0, y0], dtype=float), np.array([x1, y1], dtype=float)
    along = end - start
    length = float(np.hypot(*along))
    middle = 0.5 * (start + end) + 14.0 * np.array([along[1], -along[0]]) / length
    half = 0.5 * np.array(BOX) + 2.0

    def rim(centre: Array, towards: Array) -> Array:
        away = towards - centre
        return np.asarray(centre + away * np.min(half / np.maximum(np.abs(away), 1e-9)))

    start, end = rim(start, middle), rim(end, middle)
    along = (end - middle) / np.hypot(*(end - middle))
    across = np.array([-along[1], along[0]])
    head = " ".join("{:.1f},{:.1f}".format(*point) for point in (end, *(end - 8 * along + s * across for s in (-4, 4))))
    path = "M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}".format(*start, *middle, *end)
    at = 0.25 * start + 0.5 * middle + 0.25 * end
    mark = (
        f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="9" fill="{colour}"/><text x="{at[0]:.1f}" y="{at[1] + 4:.1f}" '
        f'font-size="11" text-anchor="middle" fill="#ffffff">{number}</text>'
    )
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dash}"/>'
        f'<polygon points="{head}" fill="{colour}"/>{mark if number else ""}'
    )
