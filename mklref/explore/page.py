"""What the cells of the explorer show: each function takes what was solved and returns Markdown or HTML."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from mklref import _display, primer as primers, reference
from mklref._latex import PRIMERS, problem_statement, statement as latex
from mklref._path import solve_path
from mklref._ranges import weight_ranges
from mklref._typing import Array
from mklref.exceptions import MKLError, NotApplicable
from mklref.explore import state as states, views
from mklref.explore.state import State
from mklref.kernels.fitted import FamilyStack
from mklref.native import solve
from mklref.problem import Problem
from mklref.solution import Solution

TOL = 1e-6
PATH_TOL = 1e-3
PATH_C = tuple(np.geomspace(0.01, 1000.0, 11))
PATH_P = (1.0, 1.1, 4 / 3, 1.5, 2.0, 3.0, 5.0, 10.0, np.inf)
PAUSE = 0.6
"""Seconds without a change after which conic solvers begin: they would slow down whoever is moving a slider."""
HINT = (
    "<small><code>rbf:0.2..4:5</code> is five Gaussians with widths from 0.2 to 4, <code>poly:2</code> a polynomial, "
    "<code>linear</code> without any; commas between them.</small>"
)
STYLE = """<style>
#App > div { padding-inline: 0.5rem; }
.beside { display: grid; gap: 0 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
.beside > * { min-width: 0; overflow-x: auto; }
@media (min-width: 1024px) { .narrow { display: none; } }
.beside pre { font-size: 0.8rem; line-height: 1.35; }
</style>"""
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


def idle(data: str, regularizer: str) -> set[str]:
    """Controls that change nothing for these data and this regulariser."""
    toy, moved = data == "toy", data in ("moons", "rings")
    used = {
        "noise": moved,
        "share": toy,
        "positive": not (toy or moved),
        "p": regularizer not in ("groups", "elastic net (Ivanov)", "elastic net (Tikhonov)"),
        "lam": regularizer.startswith("elastic net"),
        "groups": regularizer == "groups",
    }
    return {name for name, use in used.items() if not use}


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


def forget() -> None:
    """Read files afresh: what was made of them may have changed when a page is opened."""
    for remembered in (states.sample, states.stack, _over_costs, _over_norms, _stated):
        remembered.cache_clear()


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


def same_problem(state: State, **changes: Any) -> State:
    """A state for what depends on its problem alone: what else it says is as in the beginning, or as given."""
    return replace(state, formulation=State.formulation, walk=State.walk, **changes)


def statement(shown: Shown, formulation: str) -> str:
    """The equation of the formulation with loss and regulariser written out, and the other side of duality."""
    problem = shown.problem
    other = "mixed_norm" if formulation in OVER_DUAL_VARIABLES else "dual"
    side = "primal" if other == "mixed_norm" else "dual"
    return (
        f"**The problem**\n\n$$\n{_in_lines(problem_statement(problem))}\n$$\n\n**As `{formulation}`**\n\n"
        f"$$\n{_in_lines(latex(formulation, problem))}\n$$\n\n"
        f"**Its {side}**\n\n$$\n{_in_lines(latex(other, problem))}\n$$"
    )


def _in_lines(formula: str) -> str:
    """What belongs to a formula below it, where there is room for half a page."""
    if r"\begin" in formula:
        return formula
    return r"\begin{gathered} " + r" \\ ".join(part.strip() for part in formula.split(r"\qquad")) + r" \end{gathered}"


def primer(formulation: str) -> str:
    """The equation as a paper prints it, in ten lines of cvxpy."""
    return f"**As its paper prints it**\n\n```python\n{_printed()[PRIMERS[formulation][0]]}\n```"


@lru_cache(maxsize=1)
def _printed() -> dict[str, str]:
    """The sources of the primer by name; read, not imported, since they ask for cvxpy."""
    texts = [path.read_text(encoding="utf-8") for path in Path(primers.__file__).parent.glob("*.py")]
    functions = [(node, text) for text in texts for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.get_source_segment(text, node) or "" for node, text in functions}


def beside(*columns: str) -> str:
    """Blocks beside one another where there is room; what is too wide for its own scrolls."""
    return f'<div class="beside">{"".join(f"<div>{column}</div>" for column in columns)}</div>'


def again(complaint: dict[str, str]) -> str:
    """Complaints, for a narrow screen, where the controls are behind a button."""
    said = "".join(f"<p><strong>{escape(place)}</strong>: {escape(text)}</p>" for place, text in complaint.items())
    return f'<div class="narrow"><p><small>The controls are behind ☰.</small></p>{said}</div>'


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
        f"<p>{shown.problem.n_samples} samples, {shown.problem.n_kernels} kernels; {len(shown.solution.history)} "
        f"iterations in {shown.seconds * 1e3:.0f} ms. {shown.solution.status.value}</p>"
    )
    closed = _display.interval(bounds.lower, bounds.upper, bounds.relative_gap)
    weights = _display.weights(shown.solution.weights, shown.names, ranges)
    closing = views.bounds(shown.solution) + views.gaps(shown.solution)
    return facts + views.flex(closed + weights + note, closing)


def decision(shown: Shown) -> str:
    """The decision function and its parts for two variables, else how many support vectors there are."""
    data = states.sample_of(shown.state)
    if data.X.shape[1] == 2:
        rings = (
            "<p><small>Dots: white is +1, black −1; a yellow ring is as wide as the dual variable is large. "
            "The function: orange above 0, blue below, white at 0.</small></p>"
        )
        return views.decision(shown.problem, data.X, shown.kernels, shown.solution) + rings
    beta = np.abs(shown.solution.dual_coef)
    support = int((beta > 1e-6 * beta.max()).sum())
    return f"<p>{data.X.shape[1]} variables: no picture. {support} of {len(beta)} samples have a dual variable.</p>"


def paths(shown: Shown) -> str:
    """Weights over C for this regulariser, and over p of an lp ball at this C."""
    problem, p = shown.problem, getattr(shown.problem.regularizer, "p", 1.0)
    start = State()
    costs, over_c = _over_costs(same_problem(shown.state, C=start.C))
    over_p = _over_norms(
        same_problem(shown.state, regularizer=start.regularizer, p=start.p, lam=start.lam, groups=start.groups)
    )
    return views.legend(shown.names) + views.flex(
        views.paths(costs, over_c, shown.names, problem.C, "C"),
        views.paths(PATH_P, over_p, shown.names, p, "p of an lp ball"),
    )


@lru_cache(maxsize=32)
def _over_costs(state: State) -> tuple[tuple[float, ...], Array]:
    """Costs and weights along them; a slider of C moves along this path."""
    problem, _ = states.problem_of(state)
    costs = tuple(c for c in PATH_C if not problem.intercept_cost or c * problem.n_samples >= 1.0)
    return costs, np.stack([s.weights for s in solve_path(problem, C=costs, tol=PATH_TOL, max_time=5.0)])


@lru_cache(maxsize=32)
def _over_norms(state: State) -> Array:
    """Weights along p, whatever the regulariser."""
    problem, _ = states.problem_of(state)
    return np.stack([s.weights for s in solve_path(problem, p=PATH_P, tol=PATH_TOL, max_time=5.0)])


def conic(shown: Shown, stopped: Callable[[], bool]) -> Iterator[tuple[str, bool]]:
    """Tables that grow by a row for each formulation as it is solved, and whether the last one is there."""
    certificate = shown.solution.certificate
    rows = [("native", f"{certificate.lower:.9g} … {certificate.upper:.9g}", f"{shown.seconds:.3f}", "certified")]
    names = formulations(shown)
    begun = perf_counter()
    while perf_counter() < begun + PAUSE:
        if stopped():
            return
        sleep(0.05)
    for k, name in enumerate(names):
        value, seconds, says = _stated(same_problem(shown.state), name)
        if stopped():  # it may have taken a while
            return
        if value is not None:
            inside = abs(value - certificate.upper) <= TOL * certificate.size
            says += "inside the interval" if inside else f"off by {value - certificate.upper:.1e}"
        rows.append((name, "" if value is None else f"{value:.9g}", f"{seconds:.2f}", says))
        waiting = [(other, "…", "", "") for other in names[k + 1 :]]
        yield _display.table(("formulation", "value", "seconds", ""), [*rows, *waiting]), k == len(names) - 1


@lru_cache(maxsize=64)
def _stated(state: State, formulation: str) -> tuple[float | None, float, str]:
    """The value of a formulation by a conic solver, its seconds, and who said it; or why there is none."""
    begun = perf_counter()
    try:
        answer = reference.solve(states.problem_of(state)[0], formulation)
    except MKLError as wrong:
        return None, perf_counter() - begun, str(wrong).splitlines()[0]
    return answer.value, perf_counter() - begun, f"{answer.solver}: "


def code(shown: Shown, formulation: str) -> str:
    """Python that makes what is shown, as Markdown with a button that copies it."""
    return f"```python\n{states.code(replace(shown.state, formulation=formulation), shown.problem)}```"
