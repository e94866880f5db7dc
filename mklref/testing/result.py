"""What `check_solver` returns: one row for each case, as a table, as a page, and as JUnit XML."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from html import escape
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree  # builds a document, parses none

import mklref
from mklref.testing.case import Case
from mklref.testing.faults import FAULTS, Finding

if TYPE_CHECKING:
    from rich.table import Table

NO_SOLUTION = "no solution"
COLUMNS = ("case", "outcome", "relative gap", "seconds", "what is wrong")


class Outcome(Enum):
    """How a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    EXCLUDED = "excluded"


def printable(text: str) -> str:
    """Text with everything that no terminal or XML file takes (control characters, lone surrogates) escaped."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


@dataclass(frozen=True)
class Row:
    """The outcome of one case."""

    case: Case
    outcome: Outcome
    reason: str
    """Why the case was excluded; empty if it was not."""
    findings: tuple[Finding, ...]
    relative_gap: float
    """The largest one of its problems; NaN if none was solved."""
    seconds: float

    @property
    def faults(self) -> tuple[str, ...]:
        """Fault classes, without repetition."""
        return tuple(dict.fromkeys(finding.fault for finding in self.findings))

    @property
    def message(self) -> str:
        """Statement of the case and every finding, or why it was excluded."""
        if self.outcome is Outcome.EXCLUDED:
            return printable(self.reason)
        return printable("\n".join([f"{self.case.name}: {self.case.statement}", *map(str, self.findings)]))

    def cells(self) -> tuple[str, ...]:
        """The row as text, in the order of `COLUMNS`."""
        gap = "" if self.relative_gap != self.relative_gap else f"{self.relative_gap:.1e}"
        wrong = printable(self.reason) or "; ".join(self.faults)
        return printable(self.case.name), self.outcome.value, gap, f"{self.seconds:.2f}", wrong


@dataclass(frozen=True)
class Report:
    """All rows of one solver."""

    solver: str
    tol: float
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "solver", printable(self.solver))

    def count(self, outcome: Outcome) -> int:
        """Rows with this outcome."""
        return sum(row.outcome is outcome for row in self.rows)

    @property
    def passed(self) -> bool:
        """No case failed, and one passed at least: a solver that declines everything has shown nothing."""
        return self.count(Outcome.FAILED) == 0 < self.count(Outcome.PASSED)

    @property
    def failures(self) -> tuple[Row, ...]:
        """The rows that failed."""
        return tuple(row for row in self.rows if row.outcome is Outcome.FAILED)

    @property
    def faults(self) -> dict[str, int]:
        """How often each fault class was found, most frequent first; of equals, what explains more of the cases."""
        found = [fault for row in self.rows for fault in row.faults]
        fits = [fault for row in self.rows for finding in row.findings for fault in (finding.fault, *finding.others)]
        counts = {fault: found.count(fault) for fault in dict.fromkeys(found)}
        return dict(sorted(counts.items(), key=lambda item: (item[1], fits.count(item[0])), reverse=True))

    @property
    def verdict(self) -> str:
        """One line."""
        counts = ", ".join(f"{self.count(outcome)} {outcome.value}" for outcome in Outcome)
        faults = f": {', '.join(f'{fault} ({count})' for fault, count in self.faults.items())}" if self.faults else ""
        return f"{'PASSED' if self.passed else 'FAILED'} {self.solver}, tol = {self.tol:g}: {counts}{faults}"

    @property
    def _lines(self) -> list[tuple[Outcome, tuple[str, ...]]]:
        """The rows as text; where most were excluded, as of a narrow solver, one line for each reason of several."""
        excluded = Counter(row.reason for row in self.rows if row.outcome is Outcome.EXCLUDED)
        many = 2 * excluded.total() > len(self.rows)
        folded = {reason: count for reason, count in excluded.most_common() if many and count > 1}
        shown = [(row.outcome, row.cells()) for row in self.rows if row.reason not in folded]
        others = ((f"{count} others", "excluded", "", "", printable(reason)) for reason, count in folded.items())
        return [*shown, *((Outcome.EXCLUDED, cells) for cells in others)]

    @property
    def table(self) -> str:
        """The rows as aligned text."""
        lines = [COLUMNS, *(cells for _, cells in self._lines)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
        text = ["  ".join(line).rstrip() for line in padded]
        return "\n".join([text[0], "-" * len(text[0]), *text[1:]])

    def __str__(self) -> str:
        return "\n".join([self.verdict, "", self.table, "", *(row.message + "\n" for row in self.failures)]).rstrip()

    def __rich__(self) -> Table:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold", caption=self.verdict, caption_justify="left")
        table.min_width = len(self.verdict)  # on one line, where there is room
        for name in COLUMNS:
            table.add_column(name, no_wrap=name == "case")
        styles = {Outcome.PASSED: "", Outcome.FAILED: "red", Outcome.EXCLUDED: "dim"}
        for outcome, cells in self._lines:
            table.add_row(*cells, style=styles[outcome])
        return table

    def to_html(self) -> str:
        """A self-contained page: verdict, table, the message of every failure."""
        head = "".join(f"<th>{escape(name)}</th>" for name in COLUMNS)
        body = "\n".join(
            f'<tr class="{row.outcome.value}">' + "".join(f"<td>{escape(cell)}</td>" for cell in row.cells()) + "</tr>"
            for row in self.rows
        )
        messages = "\n".join(f"<pre>{escape(row.message)}</pre>" for row in self.failures)
        title = f"mklref {mklref.__version__}: {self.solver}"
        return _PAGE.format(title=escape(title), verdict=escape(self.verdict), head=head, body=body, messages=messages)

    def to_junit(self) -> str:
        """JUnit XML, one test case for each row; its properties are the flags."""
        failed, excluded = self.count(Outcome.FAILED), self.count(Outcome.EXCLUDED)
        suite = ElementTree.Element(
            "testsuite",
            name=f"mklref {mklref.__version__} {self.solver}",
            tests=str(len(self.rows)),
            failures=str(failed),
            errors="0",
            skipped=str(excluded),
            time=f"{sum(row.seconds for row in self.rows):.3f}",
        )
        for row in self.rows:
            test = ElementTree.SubElement(
                suite,
                "testcase",
                classname=f"mklref.{self.solver}",
                name=printable(row.case.name),
                time=f"{row.seconds:.3f}",
            )
            if row.outcome is Outcome.FAILED:
                failure = ElementTree.SubElement(test, "failure", message="; ".join(row.faults))
                failure.text = row.message
            elif row.outcome is Outcome.EXCLUDED:
                ElementTree.SubElement(test, "skipped", message=row.message)
        suites = ElementTree.Element("testsuites")
        suites.append(suite)
        ElementTree.indent(suites)
        return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Verdict and rows, for JSON."""
        return {
            "mklref": mklref.__version__,
            "solver": self.solver,
            "tol": self.tol,
            "passed": self.passed,
            "verdict": self.verdict,
            "rows": [
                {
                    "case": printable(row.case.name),
                    "flags": sorted(row.case.flags),
                    "outcome": row.outcome.value,
                    "relative_gap": row.relative_gap if abs(row.relative_gap) < float("inf") else None,
                    "seconds": row.seconds,
                    "faults": list(row.faults),
                    "message": row.message,
                }
                for row in self.rows
            ],
            "faults": {fault: FAULTS[fault] for fault in self.faults},
        }


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; padding: 0.15rem 0.8rem 0.15rem 0; border-bottom: 1px solid #8883; }}
td:nth-child(3), td:nth-child(4) {{ font-variant-numeric: tabular-nums; white-space: nowrap; }}
.failed td:nth-child(2) {{ color: #c22; font-weight: 600; }}
.excluded {{ opacity: 0.6; }}
pre {{ white-space: pre-wrap; border-left: 3px solid #c22; padding-left: 0.8rem; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{verdict}</p>
<table>
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table>
{messages}
</body>
</html>
"""
