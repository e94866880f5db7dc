"""What the docs take from the package: one page for each formulation, the options of the command line, docstrings.

Docstrings are plain text: prose, formulas as indented blocks, code in single backticks, NumPy sections. In
reStructuredText a formula such as R*(g) would start an emphasis, and an indented block would be a quotation.
"""

from __future__ import annotations

import ast
import inspect
import json
import multiprocessing
import os
import re
import runpy
import sys
import tomllib
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import groupby
from pathlib import Path

HEADING = re.compile(r"^-{3,}\s*$")
EQUATION = re.compile(r"^(\S.{0,24}?\s*=\s|\s)")
"""A line of a block of aligned equations, or the continuation of one."""

FIGURES = {
    "algorithms": "algorithm-silp.svg",
    "bounds": "bounds-complexity.svg",
    "evidence": "evidence-paths.svg",
    "factors": "factors-rank.svg",
    "formulations": "formulation-sdp.svg",
    "gallery": "gallery-weights.svg",
    "results": "native-benchmark.svg",
    "synthesis": "synthesis-convergence.svg",
    "touch": "touch-gap.svg",
}
"""The scripts of figures/, which need nothing but the package and the results in the repository, each with one of its
pictures."""

PROSE_SECTIONS = ("Notes", "Examples", "References")


RESULTS = Path(__file__).parents[1] / "validation" / "results"

STATEMENTS = Path(__file__).with_name("statements.toml")
"""The picture of each formulation in words."""

OVER_DUAL_VARIABLES = ("dual", "qcqp", "silp", "semi_infinite")
"""What stands beside these is the primal."""

OTHER_SIDES = {
    **dict.fromkeys(
        ("qcqp", "silp"),
        r"\min_{v,\, b}\quad \sum_{i=1}^n c_i\, V(t_i, y_i) + \frac12 \Big(\sum_m \lVert v_m\rVert\Big)^2 + c_b\, b",
    ),
    "sdp": r"\max_{\beta}\; \min_{\mu}\quad -\sum_{i=1}^n c_i\, V^*\!\Big({-\frac{\beta_i}{c_i}},\, y_i\Big)"
    r" - \frac12\, \beta^\top K(\mu)\, \beta \qquad\text{subject to}\quad \mathbf 1^\top\beta = c_b,\quad"
    r" K(\mu) \succeq 0,\quad \operatorname{tr} K(\mu) = c",
    "multiclass": r"\max_{\beta}\quad -\sum_p \sum_i c_i\, V^*\!\Big({-\frac{\beta_{i,p}}{c_i}},\, y_{i,p}\Big)"
    r" - R^*(g_1, \dots, g_M) \qquad\text{subject to}\quad \mathbf 1^\top\beta_p = 0, \qquad"
    r" g_m = \Big(\sum_p \beta_p^\top K_m\, \beta_p\Big)^{1/2}",
}
"""Of what is stated for p = 1 alone, and of what is no `Problem`."""


def formulation_pages(directory: Path) -> None:
    """One page for each formulation: its equation, its primers, and the docstring of its module beside the source."""
    from mklref._latex import PRIMERS, statement as latex
    from mklref.formulations import FORMULATIONS

    statements = tomllib.loads(STATEMENTS.read_text(encoding="utf-8"))
    for name, formulation in FORMULATIONS.items():
        module = inspect.getmodule(formulation)
        source = Path(module.__file__)
        title, _, statement = inspect.getdoc(module).partition("\n")
        text = "\n".join(prose(statement.strip().splitlines()))
        for other in FORMULATIONS:
            if other != name:
                text = text.replace(f"`{other}`", f":doc:`{other}`")
        write(
            directory / f"{name}.rst",
            [
                ":hide-toc:",
                "",
                name,
                "=" * len(name),
                "",
                *prose([title]),
                "",
                *display(latex(name)),
                *other_side(name),
                f".. figure:: ../_static/formulation-{name}.svg",
                f"   :alt: {statements[name]['picture']}",
                "",
                f"   {statements[name]['picture']}",
                "",
                *heading("As the papers print it"),
                *(line for primer in PRIMERS[name] for line in primer_source(primer, directory)),
                *heading("The general form"),
                ".. container:: beside",
                "",
                "   .. container:: statement",
                "",
                *indent(text.splitlines(), 6),
                "",
                f"   .. literalinclude:: {os.path.relpath(source, directory)}",
                "      :language: python",
                f"      :lines: {code_starts(source)}-",
            ],
        )


def other_side(name: str) -> list[str]:
    """The dual of a primal, or the primal of a dual; nothing where the statement has both."""
    from mklref._latex import statement as latex

    if name == "group_lasso":
        return []
    side, general = ("primal", "mixed_norm") if name in OVER_DUAL_VARIABLES else ("dual", "dual")
    return [f"Its {side}, of the same value:", "", *display(OTHER_SIDES.get(name) or latex(general))]


def display(latex: str) -> list[str]:
    """A formula by itself."""
    return [".. math::", "", *indent(latex.splitlines(), 3), ""]


def heading(text: str) -> list[str]:
    """A section of a page."""
    return [text, "-" * len(text), ""]


def primer_source(name: str, directory: Path) -> list[str]:
    """The source of a primer, as a block of a page in that directory."""
    from mklref import primer

    source = inspect.getsourcefile(getattr(primer, name))
    return [
        f".. literalinclude:: {os.path.relpath(source, directory)}",
        "   :language: python",
        f"   :pyobject: {name}",
        "",
    ]


def command_line_help(directory: Path) -> None:
    """What --help prints, one file for each command."""
    from mklref.cli.options import parser

    os.environ["COLUMNS"] = "96"
    root = parser()
    commands = next(action for action in root._actions if action.dest == "command").choices
    directory.mkdir(exist_ok=True)
    for name, command in commands.items():
        write(directory / f"{name}.txt", command.format_help().splitlines())


def pictures(static: Path, report: Path) -> None:
    """Draw what is missing or older than its script, and the report, in two processes that import everything once.

    Delete a picture to have it drawn again.
    """
    missing = [name for name, picture in FIGURES.items() if not _newer(static / picture, _script(name))]
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork" if sys.platform == "linux" else None)) as pool:
        tasks = [pool.submit(reproduction_report, report, static), *(pool.submit(figure, name) for name in missing)]
        for task in tasks:
            task.result()


def figure(name: str) -> None:
    """Run a script of figures/, as `python docs/figures/NAME.py` does."""
    import matplotlib as mpl

    sys.argv = [name]
    with redirect_stdout(None), mpl.rc_context():
        mpl.use("agg")
        runpy.run_path(str(_script(name)), run_name="__main__")


def _script(name: str) -> Path:
    return Path(__file__).with_name("figures") / f"{name}.py"


def _newer(picture: Path, script: Path) -> bool:
    return picture.exists() and picture.stat().st_mtime >= script.stat().st_mtime


def reproduction_report(directory: Path, static: Path) -> None:
    """The report on the papers' experiments in HTML, where every cell has the command that runs it again.

    Its pictures go to `static` as well, for the page that shows them.
    """
    from validation.reproduce import report
    from validation.reproduce.experiments import experiments
    from validation.reproduce.run import finished

    out = Path("validation") / "results" / "reproduce"
    results = Path(__file__).parents[1] / out
    sections = [report.section(e, finished(results, e, quick=False), False, out) for e in experiments(["all"])]
    report.write_pictures(static, sections)
    report.write_page(directory, sections, f"python -m validation.reproduce all --out {out}")


def equivalence_table(directory: Path) -> None:
    """The table of equivalences as Markdown, to be included in a page."""
    from mklref.equivalences import table

    lines = ["# | from | to | parameters | source", "--- | --- | --- | --- | ---"]
    for number, edge in enumerate(table(), start=1):
        condition = "" if edge["condition"] == "none" else f"; if {edge['condition']}"
        cells = edge["left"], edge["right"], edge["parameters"] + condition, edge["source"]
        anchor = f'<span id="edge-{number}">{number}</span>'
        lines.append(" | ".join([anchor, *(re.sub(r"([|*_])", r"\\\1", cell) for cell in cells)]))
    directory.mkdir(exist_ok=True)
    write(directory / "equivalences.md", lines)


def problem_tables(directory: Path) -> None:
    """The real problems with their bounds, and what programs say their values are, to be included in one page."""
    from mklref.testing import real
    from validation import checked, proven
    from validation.facts import stored_rows

    confirmed = [row for row in stored_rows(checked.STORED) if row["said"] == "CONFIRMED"]
    seconds = {row["problem"]: f"{row['seconds']:g}" for row in confirmed}
    lines = [
        "| problem | n | M | loss | regulariser | C | P* | hash | checked in |",
        "|---|--:|--:|---|---|--:|---|---|--:|",
    ]
    for name, entry in real.published().items():
        cells = [name, entry["samples"], entry["kernels"], entry["loss"].replace("_", " ")]
        cells += [f"`{entry['regularizer']}`", entry["C"]]
        cells += [shared_digits(entry["lower"], entry["upper"]), f"`{entry['sha256'][:8]}`"]
        cells.append(f"{seconds[name]} s" if name in seconds else "")
        lines.append("| " + " | ".join(cells) + " |")
    directory.mkdir(exist_ok=True)
    write(directory / "problems.md", lines)
    write(directory / "proven.md", proven.table_lines(stored_rows(proven.STORED)))


def peers_table(directory: Path) -> None:
    """Of each solver the seconds to a certified gap of 1e-5, or the gap that it reaches, and when."""
    from validation.peers.gaps import STORED, stored

    rows = stored(STORED)
    days = sorted({row["facts"]["date"][:10] for row in rows})
    machines = sorted({row["facts"]["machine"] for row in rows})
    columns = sorted({(row["problem"], row["n"], row["M"], row["p"]) for row in rows})
    cells = {(row["solver"], row["problem"], row["n"], row["M"], row["p"]): reached(row["points"]) for row in rows}
    heads = [f"{name}, n = {n}, M = {M}, p = {p:g}" for name, n, M, p in columns]
    when = " to ".join(dict.fromkeys([days[0], days[-1]]))
    lines = [f"Measured {when} on {' and '.join(machines)}: seconds to a certified gap of 1e-5, or in brackets the"]
    lines += ["smallest gap that was reached, and the seconds it took.", ""]
    lines += ["| solver | " + " | ".join(heads) + " |", "|---|" + "--:|" * len(columns)]
    for solver in dict.fromkeys(row["solver"] for row in rows):
        line = [solver, *(cells.get((solver, *column), "–") for column in columns)]
        lines.append("| " + " | ".join(line) + " |")
    directory.mkdir(exist_ok=True)
    write(directory / "peers.md", lines)


def native_tables(directory: Path) -> None:
    """The benchmark of the native solver, to be included in one page."""
    from validation.benchmarks.native import tables

    parts = json.loads((RESULTS / "native.json").read_text(encoding="utf-8"))
    directory.mkdir(exist_ok=True)
    for name, lines in tables(parts).items():
        write(directory / f"native-{name}.md", lines)


def provenance_table(directory: Path) -> None:
    """Where the figures of the docs come from, to be included in one page."""
    from provenance import table

    directory.mkdir(exist_ok=True)
    write(directory / "provenance.md", table())


def reached(points: list[dict[str, float]], gap: float = 1e-5) -> str:
    """The seconds of the first run that reaches the gap; the gap of the best one in brackets if none does."""
    near = [point for point in points if point["gap"] <= gap]
    if near:
        return f"{min(point['seconds'] for point in near):.2g}"
    best = min(points, key=lambda point: point["gap"])
    return f"({best['gap']:.0e}, {best['seconds']:.2g})"


def shared_digits(lower: float, upper: float) -> str:
    """Both bounds as one decimal, rounded outwards to the second digit in which they differ: 8.46(12…35)."""
    step = Decimal(1).scaleb(Decimal(upper - lower).adjusted() - 1)
    low = str(Decimal(lower).quantize(step, ROUND_FLOOR))
    high = str(Decimal(upper).quantize(step, ROUND_CEILING))
    same = next(k for k, (a, b) in enumerate(zip(low, high, strict=True)) if a != b)
    return f"{low[:same]}({low[same:]}…{high[same:]})"


def equivalence_graph(directory: Path) -> None:
    """The same table as a picture, to be included in the same page."""
    from graph import picture

    from mklref.equivalences import table

    directory.mkdir(exist_ok=True)
    write(directory / "equivalences.svg", picture(table()).splitlines())


def plain_docstring(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Rewrite a docstring in place, before napoleon reads its sections."""
    lines[:] = prose(lines)


def prose(lines: list[str]) -> list[str]:
    """Plain text as reStructuredText: formulas become literal blocks, special characters are escaped.

    Below the heading of a NumPy section indentation belongs to the syntax of the section, and is kept.
    """
    result: list[str] = []
    in_section = False
    for block in blocks(lines):
        if len(block) > 1 and HEADING.match(block[1]):
            in_section = block[0].strip() not in PROSE_SECTIONS
            result += block[:2]
            block = block[2:]
        if in_section:
            result += [escape(line) if line.startswith(" ") else line for line in block]
        elif all(line.startswith("    ") for line in block) or (len(block) > 1 and all(map(EQUATION.match, block))):
            result += ["::", "", *indent(block, 0 if block[0].startswith(" ") else 4)]
        else:
            result += [escape(line) for line in block]
        result.append("")
    return result


def blocks(lines: list[str]) -> list[list[str]]:
    """Runs of lines between blank ones."""
    return [list(run) for blank, run in groupby(lines, key=lambda line: not line.strip()) if not blank]


def escape(line: str) -> str:
    """Escape what reStructuredText would read as markup, outside of backticks."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(part if part.startswith("`") else re.sub(r"([*|]|_(?=\W|$))", r"\\\1", part) for part in parts)


def code_starts(source: Path) -> int:
    """The line after the docstring of a module."""
    docstring = ast.parse(source.read_text(encoding="utf-8")).body[0]
    return docstring.end_lineno + 2


def indent(lines: list[str], width: int) -> list[str]:
    return [" " * width + line if line else line for line in lines]


def write(path: Path, lines: list[str]) -> None:
    """Write a generated file, only if it changed: Sphinx rebuilds by date."""
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
