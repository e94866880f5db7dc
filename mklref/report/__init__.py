"""A cross-check as one self-contained HTML page: verdict, tables, weights, convergence, gap against time."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from importlib.util import find_spec
from typing import TYPE_CHECKING

from mklref.exceptions import MissingExtra

if TYPE_CHECKING:
    from mklref._crosscheck import CrossCheck


def require_extra() -> None:
    """Raise `MissingExtra` if jinja2 or matplotlib is not installed."""
    missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"a report needs {' and '.join(missing)}; install them by: pip install 'mklref[report]'.")


def render(checks: Mapping[str, CrossCheck], facts: Mapping[str, str] | None = None) -> str:
    """The page for several cross-checks by their titles, readable in light and dark, without links to anything outside.

    Facts are lines about data, versions and circumstances. `MissingExtra` where jinja2 or matplotlib is not installed.
    """
    require_extra()
    from jinja2 import Environment

    from mklref._crosscheck.result import COLUMNS, NUMERIC
    from mklref.report import figures

    page = resources.files(__name__).joinpath("page.html").read_text(encoding="utf-8")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(page)
    sections = [
        {
            "title": title,
            "check": check,
            "figures": (
                (
                    "Values and intervals",
                    "Diamonds: the values that the solvers state. Lines: the interval that a point certifies, thin for "
                    "the solver's own, thick after polishing. Relative distances from P*, in decades to both sides.",
                    figures.values(check),
                ),
                (
                    "Kernel weights",
                    "Bars: native solver. Marks: the best row of each formulation.",
                    figures.weights(check),
                ),
                ("Convergence of the native solver", "Certified relative gap.", figures.convergence(check)),
                (
                    "Gap against time",
                    "Line: the native solver. One mark for each row: CLARABEL open, ECOS filled, SCS half filled.",
                    figures.gap_against_time(check),
                ),
            ),
        }
        for title, check in checks.items()
    ]
    passed = bool(checks) and all(check.passed for check in checks.values())
    failed = any(check.contradictions for check in checks.values())
    outcome = "Passed" if passed else "Failed" if failed else "Undecided"
    return str(
        template.render(sections=sections, facts=facts or {}, outcome=outcome, columns=COLUMNS, numeric=list(NUMERIC))
    )
