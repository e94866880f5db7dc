"""What the cells of the explorer show: each function takes what was solved and returns Markdown or HTML."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from mklref import _display, primer as primers, reference
from mklref._latex import PRIMERS, problem_statement, statement as latex
from mklref._path import solve_path
from mklref._ranges import weight_ranges
from mklref.certificate import certify
from mklref.equivalences import EQUIVALENCES, NONE, leaving
from mklref.exceptions import MKLError, NotApplicable
from mklref.explore import graph, state as states, views
from mklref.explore.state import State
from mklref.kernels.fitted import FamilyStack
from mklref.native import solve
from mklref.problem import Problem
from mklref.solution import Solution

TOL = 1e-6
WALK_TOL = 1e-9
PATH_TOL = 1e-3
PATH_C = tuple(np.geomspace(0.01, 1000.0, 11))
PATH_P = (1.0, 1.1, 4 / 3, 1.5, 2.0, 3.0, 5.0, 10.0, np.inf)
OVER_DUAL_VARIABLES = ("dual", "qcqp", "silp", "semi_infinite")


@dataclass(frozen=True)
class Shown:
    """A state, its problem and its solution."""

    state: State
    problem: Problem
    kernels: FamilyStack
    solution: Solution
    seconds: float

    @property
    def names(self) -> tuple[str, ...]:
        """Of the kernels."""
        return tuple(self.kernels.names)


def one_of(value: str, names: Collection[str]) -> str:
    """A value from an address, or the first that there is."""
    return value if value in names else next(iter(names))


def solved(state: State, memory: dict[str, Any]) -> tuple[Shown, dict[str, str]]:
    """What to show, and complaints by the control that they belong to; with one, the last good picture stays."""
    place = "data"
    try:
        states.sample_of(state)
        place = "kernels"
        states.kernels_of(state)
        place = "problem"
        problem, kernels = states.problem_of(state)
        begun = perf_counter()
        solution = solve(problem, tol=TOL, max_time=30.0)
        memory["shown"] = Shown(state, problem, kernels, solution, perf_counter() - begun)
        return memory["shown"], {}
    except (MKLError, OSError) as wrong:
        if "shown" not in memory:
            memory["shown"], _ = solved(State(), memory)
        said = f"{wrong.filename}: {wrong.strerror}." if isinstance(wrong, OSError) else str(wrong)
        return memory["shown"], {place: said}


def formulations(shown: Shown) -> list[str]:
    """Those that cover the problem."""
    return list(reference.formulations(shown.problem))


def remember(query: Any, state: State, formulation: str) -> None:
    """Write the state into the address of the page."""
    wanted = replace(state, formulation=formulation).query()
    for name in State().__dict__:
        if name in wanted:
            if query[name] != wanted[name]:
                query[name] = wanted[name]
        elif name in query:
            query.remove(name)


def statement(shown: Shown, formulation: str) -> str:
    """The equation of the formulation with loss and regulariser written out, and the other side of duality."""
    problem = shown.problem
    other = "mixed_norm" if formulation in OVER_DUAL_VARIABLES else "dual"
    side = "primal" if other == "mixed_norm" else "dual"
    return (
        f"**The problem**\n\n$$\n{problem_statement(problem)}\n$$\n\n**As `{formulation}`**\n\n"
        f"$$\n{latex(formulation, problem)}\n$$\n\n**Its {side}**\n\n$$\n{latex(other, problem)}\n$$"
    )


def primer(formulation: str) -> str:
    """The equation as a paper prints it, in ten lines of cvxpy."""
    sources = [inspect.getsource(getattr(primers, name)) for name in PRIMERS[formulation][:1]]
    return "**As its paper prints it**\n\n" + "\n".join(f"```python\n{source}```" for source in sources)


def optimum(shown: Shown) -> str:
    """The interval, how it closed, and the weights with their ranges."""
    bounds = shown.solution.certificate
    ranges, note = None, ""
    try:
        found = weight_ranges(shown.problem, shown.solution)
        ranges, note = (found.low, found.high), "<small>Lines: weights that are as good within 1e-4.</small>"
    except NotApplicable:
        note = "<small>These weights are the only ones, or ranges are not computed for this regulariser.</small>"
    facts = (
        f"<p>{shown.problem.n_samples} samples, {shown.problem.n_kernels} kernels, {shown.seconds * 1e3:.0f} ms, "
        f"{len(shown.solution.history)} iterations, {shown.solution.status.value}</p>"
    )
    closed = _display.interval(bounds.lower, bounds.upper, bounds.relative_gap)
    weights = _display.weights(shown.solution.weights, shown.names, ranges)
    return facts + views.flex(closed, views.bounds(shown.solution), weights + note)


def decision(shown: Shown) -> str:
    """The decision function and its parts for two variables, else how many support vectors there are."""
    data = states.sample_of(shown.state)
    if data.X.shape[1] == 2:
        rings = "<p><small>White: +1, black: −1; a ring is as wide as the dual variable is large.</small></p>"
        return views.decision(shown.problem, data.X, shown.kernels, shown.solution) + rings
    beta = np.abs(shown.solution.dual_coef)
    support = int((beta > 1e-6 * beta.max()).sum())
    return f"<p>{data.X.shape[1]} variables: no picture. {support} of {len(beta)} samples have a dual variable.</p>"


def paths(shown: Shown) -> str:
    """Weights over C for this regulariser, and over p of an lp ball at this C."""
    problem, p = shown.problem, getattr(shown.problem.regularizer, "p", 1.0)
    costs = [c for c in PATH_C if not problem.intercept_cost or c * problem.n_samples >= 1.0]
    over_c = solve_path(problem, C=costs, tol=PATH_TOL, max_time=5.0)
    over_p = solve_path(problem, p=PATH_P, tol=PATH_TOL, max_time=5.0)
    return views.flex(
        views.paths(costs, np.stack([s.weights for s in over_c]), shown.names, problem.C, "C"),
        views.paths(PATH_P, np.stack([s.weights for s in over_p]), shown.names, p, "p of an lp ball"),
    )


def conic(shown: Shown, stopped: Callable[[], bool]) -> Iterator[tuple[str, bool]]:
    """Tables that grow by a row for each formulation as it is solved, and whether the last one is there."""
    certificate = shown.solution.certificate
    rows = [("native", f"{certificate.lower:.9g} … {certificate.upper:.9g}", f"{shown.seconds:.3f}", "certified")]
    names = formulations(shown)
    for k, name in enumerate(names):
        if stopped():
            return
        begun = perf_counter()
        try:
            answer = reference.solve(shown.problem, name)
            inside = abs(answer.value - certificate.upper) <= TOL * certificate.size
            says = "inside the interval" if inside else f"off by {answer.value - certificate.upper:.1e}"
            row = (name, f"{answer.value:.9g}", f"{perf_counter() - begun:.2f}", f"{answer.solver}: {says}")
        except MKLError as wrong:
            row = (name, "", f"{perf_counter() - begun:.2f}", str(wrong).splitlines()[0])
        rows.append(row)
        waiting = [(other, "…", "", "") for other in names[k + 1 :]]
        yield _display.table(("formulation", "value", "seconds", ""), [*rows, *waiting]), k == len(names) - 1


class Walk(NamedTuple):
    """A walk along equivalences: its picture, a row for each problem, and where the last one leads."""

    picture: str
    table: str
    leaving: tuple[tuple[str, str], ...]


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
    ahead = leaving(problem)
    columns = ("step", "problem", "C", "optimum, computed again", "parameters", "gap of the point carried here")
    start = type(shown.problem.regularizer).__name__
    picture = graph.walk(start, walked, ahead)
    return Walk(picture, _display.table(columns, rows), tuple((edge.name, edge.right) for edge in ahead))


def _stop(step: str, problem: Problem, solution: Solution, parameters: str, gap: str) -> tuple[str, ...]:
    value = f"{solution.certificate.lower:.7g} … {solution.certificate.upper:.7g}"
    return step, str(problem.regularizer), f"{problem.C:.6g}", value, parameters, gap


def code(shown: Shown, formulation: str) -> str:
    """Python that makes what is shown."""
    return states.code(replace(shown.state, formulation=formulation), shown.problem)
