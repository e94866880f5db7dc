"""What notebooks show: facts in a table, the certified interval as a bar, kernel weights as bars. Plain HTML and SVG.

No scripts and no style sheet, so that it looks the same wherever a notebook is read, and colours that can be read on
light and on dark pages. Every text is escaped.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from mklref._typing import Array

MOST = 20
"""Weights that are shown; the largest ones if there are more."""
WIDTH, BAR = 320, 12
BLUE, ORANGE = "#3b7dd8", "#c8621b"


def outwards(lower: float, upper: float, digits: int = 9) -> tuple[str, str]:
    """Bounds in so many digits, rounded away from each other: what is printed is as true as what it stands for."""
    sides = ((lower, decimal.ROUND_FLOOR), (upper, decimal.ROUND_CEILING))
    rounded = [float(decimal.Context(digits, side).create_decimal(repr(float(end)))) for end, side in sides]
    return f"{rounded[0]:.{digits}g}", f"{rounded[1]:.{digits}g}"


def page(title: str, facts: Mapping[str, str], *parts: str) -> str:
    """A title, facts as two columns, and what comes below."""
    rows = "".join(
        f'<tr><th style="text-align:left;font-weight:normal;opacity:.75">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(fact)}</td></tr>'
        for name, fact in facts.items()
    )
    table = f"<table>{rows}</table>" if rows else ""
    return f"<div><strong>{escape(title)}</strong>{table}{''.join(parts)}</div>"


def interval(lower: float, upper: float, relative_gap: float) -> str:
    """The interval [lower, upper], and a bar as long as digits are proved."""
    said = "{} ≤ P* ≤ {}".format(*outwards(lower, upper))
    if not (math.isfinite(lower) and math.isfinite(upper)):
        return f"<p>{said}</p>"
    digits = 16.0 if relative_gap <= 0.0 else min(16.0, max(0.0, -math.log10(relative_gap)))
    end = WIDTH * digits / 16.0
    ticks = "".join(
        f'<text x="{WIDTH * k / 16}" y="34" font-size="10" text-anchor="middle" fill="currentColor">{k}</text>'
        for k in (0, 4, 8, 12, 16)
    )
    label = f"The optimum is proved to {digits:.1f} digits"
    return (
        f'<p>{said}, <span style="white-space:nowrap">relative gap {relative_gap:.1e}</span></p>'
        f'<svg class="mklref-interval" role="img" aria-label="{label}" width="{WIDTH + 24}" height="40"'
        f' viewBox="-12 0 {WIDTH + 24} 40"><title>{label}</title>'
        f'<rect width="{WIDTH}" height="18" fill="none" stroke="currentColor" stroke-opacity=".5"/>'
        f'<rect width="{end:.1f}" height="18" fill="{BLUE}"/>{ticks}</svg><br><small>{label}</small>'
    )


def weights(theta: Array, names: Sequence[str] | None = None, ranges: tuple[Array, Array] | None = None) -> str:
    """Kernel weights as horizontal bars, in the order of the kernels; ranges (low, high) as lines across them."""
    theta = np.asarray(theta, dtype=float)
    labels = list(names) if names is not None else [f"kernel {m}" for m in range(len(theta))]
    shown = sorted(np.argsort(-np.abs(theta), kind="stable")[:MOST])
    largest = max(float(np.abs(theta).max(initial=0.0)), float(ranges[1].max()) if ranges else 0.0, 1e-300)
    step = BAR + 6
    bars = "".join(
        f'<text x="150" y="{k * step + BAR - 2}" font-size="11" text-anchor="end" fill="currentColor">'
        f"{escape(shortened(labels[m]))}</text>"
        f'<rect x="158" y="{k * step}" width="{160 * abs(theta[m]) / largest:.1f}" height="{BAR}" '
        f'fill="{BLUE if theta[m] >= 0.0 else ORANGE}"/>'
        f'<text x="{164 + 160 * abs(theta[m]) / largest:.1f}" y="{k * step + BAR - 2}" font-size="11" '
        f'fill="currentColor">{theta[m]:.4g}</text>'
        for k, m in enumerate(shown)
    )
    if ranges:
        bars += "".join(
            f'<line x1="{158 + 160 * ranges[0][m] / largest:.1f}" x2="{158 + 160 * ranges[1][m] / largest:.1f}" '
            f'y1="{k * step + BAR / 2}" y2="{k * step + BAR / 2}" stroke="currentColor" stroke-width="3"/>'
            for k, m in enumerate(shown)
        )
    rest = f"<small>the {len(shown)} largest of {len(theta)} weights</small>" if len(shown) < len(theta) else ""
    height = max(1, len(shown)) * step
    said = escape("; ".join(f"{labels[m]} {theta[m]:.4g}" for m in shown))  # to a screen reader a picture has no texts
    return (
        f'<svg class="mklref-weights" role="img" aria-label="Kernel weights: {said}" width="380" height="{height}"'
        f' viewBox="0 0 380 {height}">{bars}</svg><br>{rest}'
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Texts in columns."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    style = "border-collapse:separate;border-spacing:.8em .2em;text-align:left"
    return (
        f'<div style="overflow-x:auto"><table style="{style}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def bullets(texts: Iterable[str]) -> str:
    """A list."""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else ""


def formula(latex: str) -> str:
    """Display mathematics, which notebooks typeset."""
    return f"<div>$$ {escape(latex)} $$</div>"


def shortened(text: str, longest: int = 24) -> str:
    """So many characters at most, from both ends: names such as rbf:1[mean concavity] differ in either."""
    return text if len(text) <= longest else f"{text[: longest // 2]}…{text[longest // 2 + 1 - longest :]}"


def problem(shown: Any, statement: str) -> str:
    """A `Problem`: what it is made of, and its statement."""
    facts = {
        "samples": str(shown.n_samples),
        "kernels": str(shown.n_kernels),
        "loss": str(shown.loss),
        "regularizer": str(shown.regularizer),
        "C": f"{shown.C:g}" + (", with sample weights" if shown.sample_weight is not None else ""),
        "intercept": "free" if shown.intercept else "none",
    }
    return page("Problem", facts, formula(statement))


def certificate(shown: Any) -> str:
    """A `Certificate`: the interval, and what it says of the point in words."""
    return page("Certificate", {}, *_proved(shown))


def solution(shown: Any) -> str:
    """A `Solution`: how it ended, the interval and the weights."""
    facts = {"solver": shown.solver, "status": shown.status.value, "objective": f"{shown.objective:.9g}"}
    return page("Solution", facts, *_proved(shown.certificate), weights(shown.weights))


def crosscheck(shown: Any, columns: Sequence[str]) -> str:
    """A `CrossCheck`: the verdict, the common interval, a table of the rows and their notes."""
    lower, upper = shown.interval
    drawn = interval(lower, upper, (upper - lower) / shown.size if shown.size else math.inf)
    rows = table(columns, map(shown.cells, shown.rows))
    return page("Cross-check", {"verdict": shown.verdict}, drawn, rows, bullets(shown.notes))


def family(shown: Any) -> str:
    """A `KernelFamily`: its kernels on samples of two variables, by name."""
    variables = ("a", "b")
    names = [kernel.name(variables) for kernel in shown.expand(variables)]
    more = [f"and {len(names) - MOST} more"] if len(names) > MOST else []
    facts = {"kernels": f"{len(names)} on two variables, {' and '.join(variables)}"}
    return page(repr(shown) if len(repr(shown)) < 100 else type(shown).__name__, facts, bullets([*names[:MOST], *more]))


def _proved(bounds: Any) -> tuple[str, str]:
    """The interval of a certificate, and what it says beyond it."""
    return interval(bounds.lower, bounds.upper, bounds.relative_gap), bullets(bounds.explain().splitlines()[1:])
