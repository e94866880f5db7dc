"""The report: a self-contained HTML page, and a page of the docs, from the same sections."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import matplotlib as mpl

from mklref._files import write_text
from validation.reproduce import pictures
from validation.reproduce.base import Experiment, Picture, Result
from validation.reproduce.expected import Comparison, Entry, compare, missing
from validation.reproduce.run import duration

MOST = 12
"""Lists that are longer are not printed."""

LEGEND = """
Every number is our mean ± standard deviation, with the paper's in brackets. ✓ and ✗: it fits or does not, by the rule
of its column, and every ✗ has a paragraph. The rules: *deviation*, our mean lies within the paper's standard deviation;
*error*, within two standard errors of the difference of both means; *within x* and *factor x*, at most that far away;
*shown*, no verdict. A ? is undecided: fewer than five repetitions, outside by less than two standard errors, an error
larger than what is allowed, or a test that finds neither the sentence nor its opposite; it counts as not agreeing. A
row without brackets is not in the paper. Bounds that decide a claim and are ours are printed with it. Every repetition
has a test set of its own. Seconds are those of the processor: numbers of seconds have no verdict, and claims about time
compare methods that ran in turn on the same machine, in the same cell unless the protocol says otherwise. Figures in
the paragraphs are computed from results unless they say "once".
"""
"""How the tables are read, in Markdown."""

PAGE, TITLE = "report.html", "<title>mklref: the papers' tables and figures, computed again</title>"
"""The file of a report, and how it is known for one."""

MARKS = {"matches": "✓", "differs": "✗", "undecided": "?", "": ""}


@dataclass(frozen=True)
class Section:
    """One experiment as it is shown."""

    experiment: Experiment
    results: list[Result]
    cells: int
    """How many there are in all."""
    left: float
    """Estimated seconds of those that are missing."""
    comparison: Comparison
    pictures: dict[str, Picture]
    command: str
    """Which continues it."""
    again: str
    """Which begins it anew, and overwrites nothing that is in the repository."""
    front: Mapping[str, str] = field(default_factory=dict)
    """Figures of the first page of the docs."""

    @cached_property
    def drawings(self) -> dict[str, str]:
        """The pictures as SVG, drawn once: the page of the docs and the report show the same ones."""
        return {name: pictures.svg(picture.figure) for name, picture in self.pictures.items()}

    @property
    def complete(self) -> bool:
        """Whether every cell is finished."""
        return len(self.results) == self.cells

    @property
    def progress(self) -> str:
        """How much of the protocol was run."""
        spent = duration(sum(result.seconds for result in self.results))
        done = f"{len(self.results)} of {self.cells} cells, {spent}"
        return done if self.complete else f"{done}; the rest takes about {duration(self.left)}: {self.command}"

    @property
    def verdict(self) -> str:
        """Counts of verdicts."""
        lacking = len(self.comparison.unexplained)
        undecided = self.comparison.count("undecided")
        parts = [f"{self.counts('paper')[0]} match", f"{self.counts('paper')[1] - undecided} differ"]
        parts += [f"{undecided} undecided"] if undecided else []
        parts += [f"{lacking} of them not explained"] if lacking else []
        for origin, title in (("construction", "by construction"), ("besides", "besides")):
            yes, no = self.counts(origin)
            parts += [f"{title} {yes} of {yes + no}"] if yes + no else []
        return ", ".join(parts)

    def counts(self, origin: str) -> tuple[int, int]:
        """How many agree and how many do not; undecided ones do not."""
        no = sum(self.comparison.count(verdict, origin) for verdict in ("differs", "undecided"))
        return self.comparison.count("matches", origin), no

    @property
    def line(self) -> str:
        """For the terminal."""
        return f"{self.experiment.name}: {self.verdict}; {self.progress}"

    @property
    def circumstances(self) -> list[str]:
        """Dates, versions and machines of the cells."""
        if not self.results:
            return []
        facts = [result.facts for result in self.results]
        dates = sorted(fact["date"][:10] for fact in facts)
        span = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
        loads = sorted(fact["load"] for fact in facts if fact["load"] is not None)
        names = "mklref", "python", "numpy", "scipy", "scikit-learn"
        versions = [" or ".join(sorted({str(fact[name]) for fact in facts})) for name in names]
        machines = sorted({f"{fact['machine']}, {fact['cores']} cores" for fact in facts})
        commits = sorted({fact["commit"] for fact in facts if fact.get("commit")})
        unknown = sum(not fact.get("commit") for fact in facts)
        code = [f"commit {', '.join(commits)}"] if commits else []
        code += [f"{unknown} cells from before commits were recorded"] if unknown else []
        busy = f"load {loads[0]:.1f} to {loads[-1]:.1f}" if loads else "load unknown"
        return [
            span,
            ", ".join(code),
            ", ".join(f"{name} {found}" for name, found in zip(names, versions, strict=True)),
            f"{'; '.join(machines)}, {busy}",
        ]

    def cell_command(self, cell_id: str) -> str:
        """The command that runs one cell again, into the folder of the reader's own results."""
        return f"{self.again} --cell {cell_id} --force"


def section(experiment: Experiment, results: list[Result], quick: bool, out: Path) -> Section:
    """What there is to show of an experiment."""
    cells = experiment.cells(quick)
    with mpl.rc_context(pictures.SETTINGS):
        summary = experiment.summary(results)
    done = {result.id for result in results}
    left = sum(cell.seconds for cell in cells if cell.id not in done)
    again = f"python -m validation.reproduce {experiment.name}{' --quick' if quick else ''}"
    comparison = compare(experiment, summary, quick)
    drawn = dict(summary.pictures)
    return Section(
        experiment, results, len(cells), left, comparison, drawn, f"{again} --out {out}", again, summary.front
    )


def numbers(mean: float, deviation: float | None) -> str:
    """`mean ± deviation` with as many decimals, three figures for the mean; both as powers of ten below 1e-4."""
    size = max(abs(mean), deviation or 0.0)
    if 0.0 < size < 1e-4:
        return f"{mean:.1e} ± {deviation:.1e}" if deviation else f"{mean:.1e}"
    decimals = 0 if size >= 100.0 or not size else 2 - math.floor(math.log10(size))
    shown = f"{mean:.{decimals}f}"
    return f"{shown} ± {deviation:.{decimals}f}" if deviation else shown


def ours(entry: Entry) -> str:
    """Our side of an entry."""
    return numbers(entry.mean, entry.deviation) if entry.ours else "–"


def paper(entry: Entry) -> str:
    """The paper's side, empty if it prints nothing."""
    return numbers(entry.paper[0], entry.paper[1] if len(entry.paper) > 1 else None) if entry.paper else ""


def distance(entry: Entry) -> str:
    """The difference in standard errors, where there is a verdict."""
    if not entry.verdict or not entry.error:
        return ""
    return f"{(entry.mean - entry.paper[0]) / entry.error:+.1f} se"


def heading(name: str, units: dict[str, str]) -> str:
    """A column with its unit."""
    return f"{name} ({units[name]})" if name in units else name


def anchor(experiment: str, key: str) -> str:
    """Where a number or a claim stands in the report."""
    return f"{experiment}-{re.sub(r'[^A-Za-z0-9]+', '-', key).strip('-')}"


def values_of(result: Result) -> str:
    """One cell for the terminal, without its curves."""
    return json.dumps(_without_curves(result.values), indent=1)


def _without_curves(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: _without_curves(value) for name, value in values.items()}
    curve = isinstance(values, list) and (len(values) > MOST or any(isinstance(value, list) for value in values))
    return f"{len(values)} values" if curve else values


def write_page(out: Path, sections: Sequence[Section], command: str) -> Path:
    """Write DIR/report.html and return its path."""
    from jinja2 import Environment

    page = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(page)
    drawings = {
        s.experiment.name: [
            (base64.b64encode(s.drawings[name].encode()).decode(), picture.caption)
            for name, picture in s.pictures.items()
        ]
        for s in sections
    }
    helpers = {"legend": LEGEND, "ours": ours, "paper": paper, "distance": distance, "heading": heading, "marks": MARKS}
    helpers["anchor"] = anchor
    text = template.render(sections=sections, command=command, drawings=drawings, missing=missing(), **helpers)
    path = out / PAGE
    out.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path


def write_pictures(directory: Path, sections: Sequence[Section]) -> None:
    """One SVG file for each picture."""
    for s in sections:
        for name, drawing in s.drawings.items():
            write_text(directory / picture_file(s, name), drawing)


def picture_file(s: Section, name: str) -> str:
    """The file of a picture in the docs."""
    return f"reproduce-{s.experiment.name}-{name}.svg"
