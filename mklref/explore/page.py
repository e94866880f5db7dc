"""What the cells of the explorer show: each function takes what was solved and returns Markdown or HTML."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from mklref import _display, primer as primers, reference
from mklref._latex import PRIMERS, problem_statement, statement as latex
from mklref._ranges import weight_ranges
from mklref._typing import Array
from mklref.certificate import Certificate
from mklref.exceptions import MKLError, NotApplicable
from mklref.explore import state as states, views, work
from mklref.explore.state import State
from mklref.explore.work import Shown
from mklref.regularizers import BlockNorm, Groups, Lp, Regularizer

HINT = (
    "<small><code>rbf(0.2..4, 5)</code>, in short <code>rbf:0.2..4:5</code>, is five Gaussians with widths from 0.2 to "
    "4, <code>poly(2)</code> a polynomial, <code>linear</code> without any; commas between them.</small>"
)
STYLE = """<style>
#App > div { padding-inline: 0.5rem; }
#App svg { margin-block: 0; }
#App .marimo-cell p { margin-block: 0.5rem; }
@media (min-width: 1024px) { #App > div { padding-right: 3.5rem; } }
@media print { .marimo-cell { break-inside: avoid; } }
.beside { display: grid; gap: 0 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
.beside > * { min-width: 0; overflow-x: auto; }
@media (min-width: 1024px) { .narrow { display: none; } }
.beside pre { font-size: 0.8rem; line-height: 1.35; white-space: pre-wrap; overflow-wrap: anywhere; }
.report { font-size: 0.75rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.complaint { border-left: 4px solid #c62828; padding: 0.2rem 0 0.2rem 0.6rem; font-size: 0.9rem;
  overflow-wrap: anywhere; }
</style>"""
FADED = """<style>
.marimo-cell:not(:has(h1)) .output, .faded { opacity: 0.4; filter: grayscale(1); }
</style>"""
"""While what is shown belongs to other settings than the controls."""
OVER_DUAL_VARIABLES = ("dual", "qcqp", "silp", "semi_infinite")


def one_of(value: str, names: Collection[str], default: str) -> str:
    """A value from an address, or what the page begins with."""
    return value if value in names else default


def read(state: State) -> str:
    """How a file was read, folded below its name; nothing for data without a report, or that cannot be read."""
    try:
        report = states.sample_of(state).report
    except (MKLError, OSError):  # said beside the control
        return ""
    folded = f'<details><summary>How it was read</summary><pre class="report">{escape(report)}</pre></details>'
    return folded if report else ""


def groups(shown: Shown) -> str:
    """The groups of kernels that are shown, in the notation of their control."""
    regularizer = shown.problem.regularizer
    if not isinstance(regularizer, Groups):
        return ""
    kernels = "; ".join(f"{m} {escape(name)}" for m, name in enumerate(shown.names))
    now = states.written(regularizer.groups)
    return f"<small>The groups are <code>{now}</code>, every kernel in one of them: {kernels}.</small>"


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
        f"**The problem**\n\n$$\n{_in_lines(problem_statement(problem))}\n$$\n\n**As `{formulation}`**\n\n"
        f"$$\n{_in_lines(latex(formulation, problem))}\n$$\n\n"
        f"**Its {side}**\n\n$$\n{_in_lines(latex(other, problem))}\n$$"
    )


def _in_lines(formula: str) -> str:
    """What belongs to a formula below it, where there is room for half a page."""
    if r"\begin" in formula:
        return formula
    return r"\begin{gathered} " + r" \\ ".join(part.strip() for part in formula.split(r"\qquad")) + r" \end{gathered}"


def primer(formulation: str, loss: str = State.loss) -> str:
    """The equation as a paper prints it, in ten lines of cvxpy."""
    differs = f"The paper has its own loss; the loss {loss} is in what stands on the left.\n\n"
    own = "" if loss == State.loss else differs
    return f"**As its paper prints it**\n\n{own}```python\n{_printed()[PRIMERS[formulation][0]]}\n```"


@lru_cache(maxsize=1)
def _printed() -> dict[str, str]:
    """The sources of the primer by name; read, not imported, since they ask for cvxpy."""
    texts = [path.read_text(encoding="utf-8") for path in Path(primers.__file__).parent.glob("*.py")]
    functions = [(node, text) for text in texts for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.get_source_segment(text, node) or "" for node, text in functions}


def beside(*columns: str) -> str:
    """Blocks beside one another where there is room; what is too wide for its own scrolls."""
    return f'<div class="beside">{"".join(f"<div>{column}</div>" for column in columns)}</div>'


def again(complaint: dict[str, str], shown: Shown) -> str:
    """What is wrong, and whose results stand below until it is mended; where the controls are on a narrow screen."""
    if not complaint:
        return '<p class="narrow"><small>The controls are behind ☰.</small></p>'
    said = " ".join(map(escape, complaint.values()))
    return (
        f'{FADED}<div class="complaint" role="alert"><p>{said}</p><p>What is grey below belongs to other settings: '
        f"{escape(settings(shown))}.</p></div>"
    )


def complained(text: str) -> str:
    """A complaint beside its control."""
    return f'<div class="complaint" role="alert">{escape(text)}</div>'


def settings(shown: Shown) -> str:
    """The data and the problem of what is shown, in a line."""
    state, problem = shown.state, shown.problem
    return (
        f"{state.data}, {problem.n_samples} samples, kernels {state.kernels}, loss {problem.loss}, "
        f"regulariser {problem.regularizer}, C = {problem.C:g}"
    )


def optimum(shown: Shown) -> str:
    """The interval, how it closed, and the weights with their ranges."""
    bounds, steps = shown.solution.certificate, len(shown.solution.history)
    ranges = None
    try:
        found = weight_ranges(shown.problem, shown.solution)
        ranges, note = (found.low, found.high), f"Lines: weights that are as good within {found.slack:g}."
    except NotApplicable:
        note = _how_unique(shown.problem.regularizer)
    status = shown.solution.status.value if shown.finished else "The solver goes on; this is proved so far."
    count = f"{steps} iteration{'s' * (steps != 1)} in {shown.seconds * 1e3:.0f} ms"
    facts = f"<p>{escape(settings(shown))}.<br>{count}. {status}</p>"
    closed = _display.interval(bounds.lower, bounds.upper, bounds.relative_gap)
    weights = _display.weights(shown.solution.weights, shown.names, ranges)
    closing = views.bounds(shown.solution) + views.gaps(shown.solution)
    return facts + views.flex(
        f"{closed}<p>The weights of the kernels</p>{weights}<p><small>{note}</small></p>", closing
    )


def _how_unique(regularizer: Regularizer) -> str:
    """What is known of other weights that are as good, where no ranges are computed."""
    if (isinstance(regularizer, Lp) and regularizer.p > 1.0) or (
        isinstance(regularizer, BlockNorm) and 1.0 < regularizer.q <= 2.0
    ):
        return "For p above 1 no other weights attain the optimum."
    return "Whether other weights are as good is computed for p = 1 of an lp ball and q = 1 of a block norm alone."


def decision(shown: Shown) -> str:
    """The decision function and its parts for two variables, else how many support vectors there are."""
    data = states.sample_of(shown.state)
    if data.X.shape[1] == 2:
        rings = (
            "<p><small>Dots: white is +1, black −1; a yellow ring is as wide as the dual variable is large. "
            "The function: orange above 0, blue below, white at 0.</small></p>"
        )
        blocks = _blocks(shown.state.kernels, states.arguments(shown.state))
        return views.decision(data.X, shown.problem.y, blocks, shown.names, shown.solution) + rings
    beta = np.abs(shown.solution.dual_coef)
    support = int((beta > 1e-6 * beta.max()).sum())
    return f"<p>{data.X.shape[1]} variables: no picture. {support} of {len(beta)} samples have a dual variable.</p>"


@lru_cache(maxsize=1)
def _blocks(kernels: str, data: tuple[Any, ...]) -> Array:
    """The kernels between the grid of a picture and the samples, (M, GRID^2, n): they stay when C or p moves."""
    points, *_ = views.grid_of(states.sample(*data).X)
    return states.stack(kernels, data).new(points)


def paths(shown: Shown) -> str:
    """Weights over C for this regulariser, and over p of an lp ball at this C, as far as they are known."""
    pictures, unknown = [], 0
    for (path, now), what in zip(work.paths_of(shown), ("C", "p of an lp ball"), strict=True):
        pictures.append(views.paths(path.values, path.weights, shown.names, now, what))
        unknown += len(path.values) - len(path.found)
    more = f" {unknown} more follow …" if unknown else ""
    note = f"<p><small>Dots are solutions, certified to {work.PATH_TOL:g}.{more}</small></p>"
    return views.legend(shown.names) + views.flex(*pictures) + note


def values(shown: Shown, stopped: Callable[[], bool]) -> Iterator[tuple[str, bool]]:
    """Tables that grow by a row for each formulation as it is solved, and whether the last one is there."""
    bounds = shown.solution.certificate
    rows = [("native", f"{bounds.lower:.9g} … {bounds.upper:.9g}", f"{shown.seconds:.3f}", "the certified interval")]
    names = formulations(shown)
    for k, (name, stated) in enumerate(work.conic(shown, stopped)):
        value = "" if stated.value is None else f"{stated.value:.9g}"
        rows.append((name, value, f"{stated.seconds:.2f}", _judged(stated, bounds)))
        waiting = [(other, "…", "", "") for other in names[k + 1 :]]
        yield _display.table(("formulation", "value", "seconds", ""), [*rows, *waiting]), k == len(names) - 1


def _judged(stated: work.Stated, bounds: Certificate) -> str:
    """Where the value of a formulation lies, beside the certified interval."""
    if stated.value is None:
        return stated.says
    below, above = bounds.lower - stated.value, stated.value - bounds.upper
    away, solver = max(below, above), stated.says.rpartition("/")[2]
    if away <= 0.0:
        return f"{solver}: inside the interval"
    where = f"{away:.0e} {'below' if below > above else 'above'} it, relative {away / bounds.size:.0e}"
    at = "at" if away <= work.TOL * bounds.size else "off"
    return f"{solver}: {at} the interval: {where} ({work.TOL:.0e} is allowed)"


def code(shown: Shown, formulation: str) -> str:
    """Python that makes what is shown, as Markdown with a button that copies it."""
    return f"```python\n{states.code(replace(shown.state, formulation=formulation), shown.problem)}```"
