"""The page of the docs: what held and what did not, in words; numbers are in the report, which keeps everything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mklref._files import write_text
from validation.reproduce.expected import FOLDER, Entry, Table, missing
from validation.reproduce.report import LEGEND, MARKS, Section, heading, ours, paper, picture_file
from validation.reproduce.run import duration
from validation.reproduce.store import traceable

FIRST = FOLDER / "first_page.md"
"""What everybody reads. `{match}` and the like are counted, `![](experiment/picture)` are drawn."""

COMMANDS = """
The first command takes a minute and needs no data; the second runs what is missing, with the data sets in the
directory `MKLREF_DATA`; the last writes this page. <a href="report.html">The report</a> has every number, all
evidence, the causes in full, and the command of every cell: `mklref reproduce EXPERIMENT --cell NAME` runs one and
says what differs from the stored result, of which commit, day and processor that is, and the ratio of times. Numbers
within 1e-9 of their size differ in their last digits alone, as from processor to processor. Exit code 1: something else
differs, such as a count of steps or a solution; 2: bad input.
"""


def write_docs(docs: Path, sections: Sequence[Section], command: str) -> None:
    """Write docs/reproduction.md, whose pictures are drawn when the docs are built."""
    lines = ["# The papers' tables and figures, computed again", "", *_first(sections)]
    lines += ["", "## How it is read, and run again", "", *LEGEND.strip().splitlines(), ""]
    lines += ["```sh", "mklref reproduce all --quick", command, f"{command} --render --docs", "```", ""]
    lines += [*COMMANDS.strip().splitlines(), "", "| experiment | verdict | run |", "|---|---|---|"]
    for s in sections:
        state = "complete" if s.complete else f"{len(s.results)} of {s.cells} cells"
        clean = _clean(s)
        state += "" if clean == len(s.results) else f", {clean or 'none'} from a clean commit"
        lines.append(f"| [{s.experiment.title}](#{s.experiment.name}) | {s.verdict} | {state} |")
    cited = {s.experiment.module.partition("_")[0]: s for s in reversed(sections)}.values()  # a paper once
    for s in sections:
        cite = f" *{s.comparison.paper}*" if any(s is first for first in cited) else ""
        lines += ["", f"({s.experiment.name})=", "", f"## {s.experiment.title}", "", f"{s.comparison.about}{cite}"]
        lines += ["", *_section(s)]
    lacking = missing()
    if lacking:
        lines += ["", "## What cannot be computed again", "", "| experiment | what would be needed |", "|---|---|"]
        lines += [f"| {row['source']} | {row['needed']} |" for row in lacking]
    write_text(docs / "reproduction.md", "\n".join(lines) + "\n")


def _first(sections: Sequence[Section]) -> Iterator[str]:
    """The first page, with its counts and pictures filled in."""
    counts = {origin: [s.counts(origin) for s in sections] for origin in ("paper", "construction", "besides")}
    figures: dict[str, Any] = {
        "experiments": sum(bool(s.results) for s in sections),
        **{f"{origin}-match": sum(yes for yes, _ in found) for origin, found in counts.items()},
        **{f"{origin}-all": sum(yes + no for yes, no in found) for origin, found in counts.items()},
        "cells-clean": sum(map(_clean, sections)),
        "cells-all": sum(len(s.results) for s in sections),
    }
    figures["paper-undecided"] = sum(s.comparison.count("undecided") for s in sections)
    own = [s.counts("paper") for s in sections if s.comparison.generated]
    figures |= {"generated-match": sum(yes for yes, _ in own), "generated-all": sum(yes + no for yes, no in own)}
    figures |= {f"{s.experiment.name}/{name}": text for s in sections for name, text in s.front.items()}
    by_name = {s.experiment.name: s for s in sections}
    for line in FIRST.read_text(encoding="utf-8").format_map(figures).splitlines():
        drawn = re.fullmatch(r"!\[(.*)\]\((.*)/(.*)\)", line)
        if drawn is None:
            yield line
        elif drawn[2] in by_name:
            yield f"![{drawn[1]}](_static/{picture_file(by_name[drawn[2]], drawn[3])})"


def _clean(s: Section) -> int:
    """How many of the results name a commit that made them."""
    return sum(map(traceable, s.results))


def _section(s: Section) -> Iterator[str]:
    yield f'Run: {s.progress.partition(";")[0]}. <a href="report.html#{s.experiment.name}">All numbers</a>.'
    yield ""
    if not s.complete:
        yield from [f"The rest takes about {duration(s.left)}:", "", "```sh", s.command, "```", ""]
    for title, claims in s.comparison.claims_by_origin:
        yield from [f"| {title} | |", "|---|---|"]
        yield from (f"| {claim.label} | {MARKS[claim.verdict]} |" for claim in claims)
        yield ""
    for cause in s.comparison.causes:
        place = f"report.html#{s.experiment.name}-{cause.anchor}"
        yield from [f'{MARKS[cause.verdict]} <a href="{place}">{_keys(cause.keys)}</a>: {cause.brief}', ""]
    for table in s.comparison.tables:
        if table.printed:
            yield from _table(table)


def _keys(keys: Sequence[str], most: int = 2) -> str:
    return ", ".join(keys[:most]) + (f" and {len(keys) - most} more" if len(keys) > most else "")


def _table(table: Table) -> Iterator[str]:
    """The printed rows that were run, folded: columns with a number of the paper and a verdict, or all without one."""
    there = [j for j, _ in enumerate(table.columns) if any(row[j].paper for row in table.printed.values())]
    kept = [j for j in there if table.rules[table.columns[j]] != "shown"] or there
    columns = [heading(table.columns[j], table.units) for j in kept]
    yield from [f"<details><summary>{table.source}</summary>", ""]
    yield from ["|  | " + " | ".join(columns) + " |", "|---" * (1 + len(kept)) + "|"]
    for name, row in table.printed.items():
        if not any(row[j].ours for j in kept):
            continue
        yield f"| {name} | " + " | ".join(_markdown(row[j]) for j in kept) + " |"
    yield from ["", "</details>", ""]


def _markdown(entry: Entry) -> str:
    beside = f" ({paper(entry)}) {MARKS[entry.verdict]}" if entry.paper else ""
    return f"{ours(entry)}{beside}".rstrip()
