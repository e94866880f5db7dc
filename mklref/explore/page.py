"""What the panels of the explorer show: each function takes what was solved and returns HTML."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from html import escape
from pathlib import Path

import numpy as np
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from mklref import _display, primer as primers, reference
from mklref._latex import PRIMERS, mathml, problem_statement, statement as latex
from mklref._ranges import WeightRanges, weight_ranges
from mklref._typing import Array
from mklref._validate import counted
from mklref.certificate import Certificate
from mklref.exceptions import MKLError, NotApplicable
from mklref.explore import state as states, views, walk as walks, work
from mklref.explore.state import State
from mklref.explore.work import Shown
from mklref.kernels.fitted import FamilyStack
from mklref.regularizers import BlockNorm, Groups, Lp, Regularizer

HINT = (
    "<small><code>rbf(0.2..4, 5)</code>, in short <code>rbf:0.2..4:5</code>, is five Gaussians with widths from 0.2 to "
    "4, <code>poly(2)</code> a polynomial, <code>linear</code> without any; commas between them.</small>"
)
OVER_DUAL_VARIABLES = ("dual", "qcqp", "silp", "semi_infinite")


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


def statement(shown: Shown, formulation: str) -> str:
    """The equation of the formulation with loss and regulariser written out, and the other side of duality."""
    problem = shown.problem
    other = "mixed_norm" if formulation in OVER_DUAL_VARIABLES else "dual"
    stated = {
        "The problem": problem_statement(problem),
        f"As <code>{formulation}</code>": latex(formulation, problem),
        f"Its {'primal' if other == 'mixed_norm' else 'dual'}": latex(other, problem),
    }
    return "".join(f"<h3>{words}</h3>{_typeset(_in_lines(formula))}" for words, formula in stated.items())


def _typeset(formula: str) -> str:
    """A formula by itself; a wide one scrolls within its box, which the keyboard reaches."""
    return f'<div class="formula" tabindex="0" role="group" aria-label="formula">{mathml(formula, block=True)}</div>'


def _in_lines(formula: str) -> str:
    """What belongs to a formula below it, where there is room for half a page."""
    if r"\begin" in formula:
        return formula
    return r"\begin{gathered} " + r" \\ ".join(part.strip() for part in formula.split(r"\qquad")) + r" \end{gathered}"


def primer(formulation: str) -> str:
    """The equation as a paper prints it, in ten lines of cvxpy."""
    own = "<p>The paper has its own loss and regulariser; those of this page are in the formulas.</p>"
    return f"<h3>As its paper prints it</h3>{own}{_python(_printed()[PRIMERS[formulation][0]])}"


def _python(source: str) -> str:
    return str(highlight(source, PythonLexer(), HtmlFormatter(cssclass="python", wrapcode=True)))


def coloured() -> str:
    """The colours of source, on light and on dark pages, as a style sheet."""
    light, dark = (HtmlFormatter(style=style).get_style_defs(".python") for style in ("default", "github-dark"))
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


@lru_cache(maxsize=1)
def _printed() -> dict[str, str]:
    """The sources of the primer by name; read, not imported, since they ask for cvxpy."""
    texts = [path.read_text(encoding="utf-8") for path in Path(primers.__file__).parent.glob("*.py")]
    functions = [(node, text) for text in texts for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.get_source_segment(text, node) or "" for node, text in functions}


def again(complaint: dict[str, str], shown: Shown) -> str:
    """What is wrong, and whose results stand below until it is mended."""
    if not complaint:
        return ""
    said = " ".join(map(escape, complaint.values()))
    return (
        f'<div class="complaint" role="alert"><p>{said}</p><p>What is grey below belongs to other settings: '
        f"{escape(settings(shown))}.</p></div>"
    )


def settings(shown: Shown) -> str:
    """The data and the problem of what is shown, in a line."""
    state, problem = shown.state, shown.problem
    return (
        f"{state.data}, {problem.n_samples} samples, kernels {state.kernels}, loss {problem.loss}, "
        f"regulariser {problem.regularizer}, C = {problem.C:g}"
    )


def optimum(shown: Shown, ranges: WeightRanges | str = "") -> str:
    """The interval, how it closed, and the weights, with their ranges once they are known."""
    bounds, steps = shown.solution.certificate, len(shown.solution.history)
    if isinstance(ranges, WeightRanges):
        note, lines = f"Lines: weights that are as good within {ranges.slack:g}.", (ranges.low, ranges.high)
    else:
        note, lines = ranges or _how_unique(shown.problem.regularizer), None
    status = shown.solution.status.value if shown.finished else "The solver goes on; this is proved so far."
    count = f"{counted(steps, 'iteration')} in {shown.seconds * 1e3:.0f} ms"
    facts = f"<p>{escape(settings(shown))}.<br>{count}. {status}</p>"
    closed = _display.interval(bounds.lower, bounds.upper, bounds.relative_gap)
    weights = _display.weights(shown.solution.weights, shown.names, lines)
    closing = views.bounds(shown.solution) + views.gaps(shown.solution)
    return facts + views.flex(
        f"{closed}<p>The weights of the kernels</p>{weights}<p><small>{escape(note)}</small></p>", closing
    )


def ranges(shown: Shown) -> WeightRanges | str:
    """Weights that are as good, which takes two linear programs for each kernel, or why they are not known."""
    try:
        return weight_ranges(shown.problem, shown.solution)
    except NotApplicable:
        return _how_unique(shown.problem.regularizer)
    except MKLError as wrong:
        return f"Ranges of the weights are not known: {wrong}"


def _how_unique(regularizer: Regularizer) -> str:
    """What is known of other weights that are as good, where no ranges are computed."""
    if (isinstance(regularizer, Lp) and regularizer.p > 1.0) or (
        isinstance(regularizer, BlockNorm) and 1.0 < regularizer.q <= 2.0
    ):
        return "For p above 1 no other weights of kernels with a part in f attain the optimum."
    if isinstance(regularizer, Lp) or (isinstance(regularizer, BlockNorm) and regularizer.q == 1.0):
        return "Other weights may be as good: their ranges are computed."
    return "Whether other weights are as good is computed for p = 1 of an lp ball and q = 1 of a block norm alone."


def decision(shown: Shown) -> str:
    """The decision function and its parts for two variables, else how many support vectors there are."""
    X = shown.kernels.fitted.samples
    if X.shape[1] == 2:
        white, black = ("+1", "−1") if shown.problem.loss.targets == "labels" else ("y &gt; 0", "y ≤ 0")
        right, up = map(escape, states.sample_of(shown.state).names)
        rings = (
            f"<p><small>{right} to the right, {up} upwards; f, and its largest parts, five at most. "
            f"Dots: white is {white}, black {black}; a yellow ring is as wide as the dual variable is large. "
            "The function: orange above 0, blue below, white at 0.</small></p>"
        )
        return views.decision(X, shown.problem.y, _blocks(shown.kernels), shown.names, shown.solution) + rings
    beta = np.abs(shown.solution.dual_coef)
    support = int((beta > 1e-6 * beta.max()).sum())
    count = counted(X.shape[1], "variable")
    return f"<p>{count}: no picture. {support} of {len(beta)} samples have a dual variable.</p>"


@lru_cache(maxsize=1)
def _blocks(kernels: FamilyStack) -> Array:
    """The kernels between the grid of a picture and the samples, (M, GRID^2, n): they stay when C or p moves."""
    points, *_ = views.grid_of(kernels.fitted.samples)
    return kernels.new(points)


def walk(steps: walks.Walk) -> str:
    """The graph, buttons for the steps that leave from where the walk ends and for the way back, and the problems."""
    back = ("back", steps.before, " data-back" + " disabled" * (not steps.taken))
    buttons = "".join(
        f'<button type="button" name="walk" value="{escape(way)}"{kind}>{escape(words)}</button>'
        for words, way, kind in (back, *((*step, "") for step in steps.leaving))
    )
    return f'{steps.picture}<div class="steps">{buttons}</div>{walks.NOTE}{steps.table}'


def paths(shown: Shown) -> str:
    """Weights over C for this regulariser, and over p of an lp ball at this C, as far as they are known."""
    pictures, unknown = [], 0
    for (path, now), what in zip(work.paths_of(shown), ("C", "p of an lp ball"), strict=True):
        pictures.append(views.paths(path.values, path.weights, shown.names, now, what))
        unknown += len(path.values) - len(path.found)
    more = f" {unknown} more follow …" if unknown else ""
    note = f"<p><small>Dots are solutions, certified to {work.PATH_TOL:g}.{more}</small></p>"
    return views.legend(shown.names) + views.flex(*pictures) + note


def values(shown: Shown, stopped: Callable[[], bool]) -> Iterator[str]:
    """Tables that grow by a row for each formulation as it is solved."""
    bounds = shown.solution.certificate
    certified = " … ".join(_display.outwards(bounds.lower, bounds.upper))
    rows = [("native", certified, f"{shown.seconds:.3f}", "the certified interval")]
    names = formulations(shown)
    for k, (name, stated) in enumerate(work.conic(shown, stopped)):
        value = "" if stated.value is None else f"{stated.value:.9g}"
        rows.append((name, value, f"{stated.seconds:.2f}", _judged(stated, bounds)))
        waiting = [(other, "…", "", "") for other in names[k + 1 :]]
        yield _display.table(("formulation", "value", "seconds", ""), [*rows, *waiting])


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


def code(shown: Shown, formulation: str, walked: str) -> str:
    """Python that makes what is shown, and the walk so far."""
    return _python(states.code(replace(shown.state, formulation=formulation, walk=walked), shown.problem))
