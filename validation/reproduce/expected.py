"""What the papers print, and how our figures are compared with it.

A file `expected/<paper>.toml`, one part for each experiment, named after its module:

    [kloft_toy]
    paper = "Author et al. 2008"
    about = "Three sentences for the page of the docs."
    [[kloft_toy.table]]
    id = "table1"
    source = "Table 1"
    runs = 20                                     # repetitions behind the paper's means
    medians = ["seconds"]                         # optional: columns of which our median is compared, not our mean
    rules = { accuracy = "deviation", kernels = "within 2", seconds = "shown" }      # the columns, in order
    units = { accuracy = "%", seconds = "s" }     # optional
    [kloft_toy.table.rows]
    "pima, simplemkl" = [[76.5, 2.6], [14.7, 1.4], [79.0, 13]]       # [mean] or [mean, deviation]; [] if not printed
    [[kloft_toy.claim]]
    source = "section 5.1"
    says.fewer-gradients = "SimpleMKL needs fewer gradients than SILP."        # each sentence under its id
    [[kloft_toy.cause]]
    of = ["table1/pima, */kernels", "fewer-gradients"]               # patterns
    undecided = true                              # optional: it says why keys are undecided, not why they differ
    brief = "Why it differs, in at most 60 words, for the docs."
    text = "One paragraph: why it differs, with {name} for a figure that the summary measures."

A claim whose source is "besides" is our own question, not the paper's: it is counted and shown apart. So is a claim or
a table with `construction = true`, whose truth is built in: an identity, a theorem, or an agreement by which a
parameter was chosen. A sentence that two experiments test is counted in one: in the other it has `decided_by`, the
name of the first. A part of what was computed on data of our making has `generated = true` at its top. `[[missing]]`
says at the end of a file what cannot be computed again for lack of data, and what would be needed.

Rules, with our mean a of k repetitions with deviation s (t if k = 1), and the paper's b with deviation t:

    deviation    |a - b| <= t                e = s / sqrt(k)
    error        |a - b| <= 2 e              e = sqrt(s^2 / k + t^2 / runs)
    within x     |a - b| <= x                e as for error
    factor x     b / x <= a <= b x           e as for error
    shown        no verdict

What fits by its rule matches, unless e is more than the rule allows, so that it is chance; what misses it by more than
2 e differs; the rest is undecided, and so is everything with fewer than `FEWEST` repetitions, but in a table that is so
by construction. Undecided is not counted as agreeing. The rule `error` has its errors in it: there, what misses it
differs, unless all repetitions of the paper share something (one test set). With u for the deviation of that, what is
within 2 sqrt(e^2 + u^2) is undecided: such luck never makes a match.
"""

from __future__ import annotations

import math
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mklref.exceptions import InvalidInput
from validation.reproduce.base import Experiment, Summary
from validation.reproduce.experiments import NAMES

FOLDER = Path(__file__).parent / "expected"
RULES = ("deviation", "error", "within", "factor", "shown")
FEWEST = 5
"""Repetitions below which nothing is decided."""
UNEXPLAINED = "Not investigated yet."
UNDECIDED = "Undecided: no finding."
OTHER_PROBLEMS = "The quick form computes smaller problems than the paper's; only the full one can be compared."
NOT_MEASURED = "(not measured yet)"
BESIDES = "besides"
ORIGINS = {
    "paper": "the paper says",
    "elsewhere": "decided by another run, and not counted here",
    "construction": "true by construction",
    "besides": "looked into besides",
}
"""Whose a claim is, and the title under which it is shown."""


@cache
def bounds() -> dict[str, dict[str, float]]:
    """All bounds that are ours, by experiment."""
    return _file(FOLDER, "bounds")


def bound(module: str, name: str) -> float:
    """A bound of expected/bounds.toml, fixed there before the run that it decides."""
    return bounds()[module][name]


@dataclass(frozen=True)
class Entry:
    """One number of a table: the paper's and ours."""

    key: str
    paper: tuple[float, ...]
    """Mean, or mean and deviation; empty if not printed."""
    ours: tuple[float, ...]
    """Repetitions."""
    rule: str
    runs: int
    shared: float = 0.0
    """Deviation of what all repetitions of the paper share, and ours do not."""
    fewest: int = FEWEST
    """Repetitions below which it is undecided."""
    median: bool = False
    """Whether the median of our repetitions is taken for their mean."""

    @property
    def mean(self) -> float:
        """Of our repetitions."""
        return float(np.median(self.ours) if self.median else np.mean(self.ours))

    @property
    def deviation(self) -> float:
        """Of our repetitions, with k - 1; 0 for one repetition."""
        return float(np.std(self.ours, ddof=1)) if len(self.ours) > 1 else 0.0

    @property
    def error(self) -> float:
        """Standard error of the difference of both means; one repetition is taken to spread as the paper's do."""
        spread = self.paper[1] if len(self.paper) > 1 else 0.0
        return math.sqrt(self.own_error**2 + spread**2 / self.runs)

    @property
    def own_error(self) -> float:
        """Standard error of our mean alone, or of our median, as if the repetitions were normal."""
        spread = self.paper[1] if len(self.paper) > 1 else 0.0
        own = self.deviation if len(self.ours) > 1 else spread
        own *= math.sqrt(math.pi / 2.0) if self.median and len(self.ours) > 2 else 1.0
        return own / math.sqrt(max(len(self.ours), 1))

    @property
    def verdict(self) -> str:
        """`matches`, `differs`, `undecided`, or nothing where there is nothing to compare."""
        name, _, number = self.rule.partition(" ")
        if not self.paper or not self.ours or name == "shown":
            return ""
        if len(self.ours) < self.fewest:
            return "undecided"
        a, b = self.mean, self.paper[0]
        error = self.own_error if name == "deviation" else self.error
        if name == "factor":
            low, high = b / float(number), b * float(number)
            missed, allowed = max(low - a, a - high), high - low
        else:
            spread = self.paper[-1] if name == "deviation" else 2.0 * error
            allowed = float(number) if name == "within" else spread
            missed = abs(a - b) - allowed
        if missed <= 1e-12:
            return "matches" if error <= allowed else "undecided"
        noise = 2.0 * (math.hypot(error, self.shared) - error if name == "error" else error)
        return "differs" if missed > noise else "undecided"


@dataclass(frozen=True)
class Table:
    """A table of a paper beside ours."""

    id: str
    source: str
    columns: tuple[str, ...]
    units: dict[str, str]
    rules: dict[str, str]
    rows: dict[str, tuple[Entry, ...]]
    construction: bool = False
    """Whether a parameter was chosen by the agreement."""

    @property
    def printed(self) -> dict[str, tuple[Entry, ...]]:
        """The rows that the paper has."""
        return {name: row for name, row in self.rows.items() if any(entry.paper for entry in row)}


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper with our evidence."""

    key: str
    source: str
    text: str
    evidence: str
    verdict: str
    construction: bool = False
    """Whether its truth is built in."""
    decided_by: str = ""
    """The experiment whose run decides it, if that is another one."""

    @property
    def origin(self) -> str:
        """A key of `ORIGINS`."""
        if self.decided_by:
            return "elsewhere"
        return "construction" if self.construction else BESIDES if self.source == BESIDES else "paper"

    @property
    def label(self) -> str:
        """The sentence with its place."""
        decided = f"; {self.decided_by} decides" if self.decided_by else ""
        return self.text if self.source == BESIDES else f"{self.text} ({self.source}{decided})"


class Cause(NamedTuple):
    """Why something differs."""

    text: str
    keys: tuple[str, ...]
    brief: str
    """The same in at most 60 words."""
    verdict: str = "differs"
    """That of all its keys: `differs` or `undecided`."""
    anchor: str = ""
    """Of its paragraph in the report, after the name of the experiment."""


@dataclass(frozen=True)
class Comparison:
    """Everything that one experiment compares."""

    paper: str
    tables: tuple[Table, ...]
    claims: tuple[Claim, ...]
    causes: tuple[Cause, ...]
    about: str = ""
    """Three sentences."""
    generated: bool = False
    """Whether data of our making stand for the paper's."""

    @property
    def verdicts(self) -> dict[str, str]:
        """`matches`, `differs` or `undecided` by key."""
        entries = {e.key: e.verdict for table in self.tables for row in table.rows.values() for e in row}
        found = entries | {claim.key: claim.verdict for claim in self.claims}
        return {key: verdict for key, verdict in found.items() if verdict}

    def count(self, verdict: str, origin: str = "paper") -> int:
        """How many of the paper's numbers and sentences, or of our own questions, have this verdict."""
        origins = {claim.key: claim.origin for claim in self.claims}
        built = [row for table in self.tables if table.construction for row in table.rows.values()]
        origins |= {entry.key: "construction" for row in built for entry in row}
        return sum(found == verdict and origins.get(key, "paper") == origin for key, found in self.verdicts.items())

    @property
    def claims_by_origin(self) -> list[tuple[str, list[Claim]]]:
        """Those of each origin, under its title."""
        parts = {title: [c for c in self.claims if c.origin == origin] for origin, title in ORIGINS.items()}
        return [(title, claims) for title, claims in parts.items() if claims]

    @property
    def unexplained(self) -> tuple[str, ...]:
        """Keys that differ without a cause."""
        return next((cause.keys for cause in self.causes if cause.text == UNEXPLAINED), ())


def compare(experiment: Experiment, summary: Summary, quick: bool = False, folder: Path = FOLDER) -> Comparison:
    """The paper's numbers beside those of a summary; a quick one is of other problems, and has the claims only."""
    document = read(experiment.module, folder)
    if quick:
        for table in document.get("table", ()):
            table["rows"] = {}
    tables = tuple(
        _table(table, summary.tables.get(table["id"], {}), summary.shared) for table in document.get("table", ())
    )
    claims = tuple(_claim(*sentence, summary) for sentence in sentences(document))
    unknown = set(summary.tables) - {table.id for table in tables} | set(summary.claims) - {c.key for c in claims}
    if unknown:
        raise InvalidInput(f"{experiment.module} has no table or claim {', '.join(sorted(unknown))}; add it.")
    generated = document.get("generated", False)
    compared = Comparison(document["paper"], tables, claims, (), document.get("about", ""), generated)
    open_keys = {key: verdict for key, verdict in compared.verdicts.items() if verdict != "matches"}
    causes = [{"of": ["*"], "text": OTHER_PROBLEMS}] if quick else document.get("cause", ())
    return replace(compared, causes=_causes(causes, open_keys, summary.measured))


def read(module: str, folder: Path = FOLDER) -> dict[str, Any]:
    """The expected numbers of one experiment, from the file of its paper.

    Raises
    ------
    InvalidInput
        An unknown rule, or a row with another number of entries than columns; names experiment and row.
    """
    document: dict[str, Any] = _file(folder, module.partition("_")[0])[module]
    for table in document.get("table", ()):
        for column, rule in table["rules"].items():
            if rule.partition(" ")[0] not in RULES:
                raise InvalidInput(f"{module}: rule {rule!r} of {column} is unknown; known: {', '.join(RULES)}.")
        for row, entries in table.get("rows", {}).items():
            if len(entries) != len(table["rules"]):
                raise InvalidInput(f"{module}: row {row!r} has {len(entries)} entries, not {len(table['rules'])}.")
    return document


def sentences(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The id of each claim, its text, and what it shares with others of its source."""
    for claim in document.get("claim", ()):
        yield from ((name, text, claim) for name, text in claim["says"].items())


def missing() -> list[dict[str, str]]:
    """What cannot be computed again for lack of data, and what would be needed, paper by paper."""
    papers = dict.fromkeys(name.partition("-")[0] for name in NAMES)
    return [row for paper in papers for row in _file(FOLDER, paper).get("missing", ())]


def _file(folder: Path, paper: str) -> dict[str, Any]:
    return tomllib.loads((folder / f"{paper}.toml").read_text(encoding="utf-8"))


def _table(table: dict[str, Any], ours: Any, shared: Mapping[str, float]) -> Table:
    columns = tuple(table["rules"])
    printed = table.get("rows", {})
    names = [*printed, *(row for row in ours if row not in printed)]
    rows = {
        name: tuple(
            Entry(
                key=f"{table['id']}/{name}/{column}",
                paper=tuple(printed[name][j]) if name in printed else (),
                ours=tuple(ours.get(name, {}).get(column, ())),
                rule=table["rules"][column],
                runs=table.get("runs", 1),
                shared=shared.get(f"{table['id']}/{name}/{column}", 0.0),
                fewest=1 if "construction" in table else FEWEST,
                median=column in table.get("medians", ()),
            )
            for j, column in enumerate(columns)
        )
        for name in names
    }
    return Table(
        table["id"], table["source"], columns, table.get("units", {}), table["rules"], rows, "construction" in table
    )


def _claim(name: str, text: str, shared: dict[str, Any], summary: Summary) -> Claim:
    found = summary.claims.get(name)
    missed = "differs" if found is None or found.decided else "undecided"
    verdict = "" if found is None else "matches" if found.holds else missed
    evidence = found.text if found else "not measured"
    built, elsewhere = "construction" in shared, shared.get("decided_by", "")
    return Claim(name, shared["source"], text, evidence, verdict, built, elsewhere)


def _causes(
    causes: Sequence[dict[str, Any]], open_keys: Mapping[str, str], measured: Mapping[str, str]
) -> tuple[Cause, ...]:
    """The first cause whose patterns fit a key explains it; those without one come last.

    What is undecided is explained by a cause that says so, never by one of what differs.
    """
    figures = defaultdict(lambda: NOT_MEASURED, measured)
    rest: dict[str, dict[str, Any]] = {
        "differs": {"text": UNEXPLAINED},
        "undecided": {"text": UNDECIDED, "undecided": True},
    }
    explained: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for key, verdict in open_keys.items():
        fitting = [c for c in causes if c.get("undecided", False) == (verdict == "undecided")]
        cause = next((c for c in fitting if any(fnmatchcase(key, p) for p in c["of"])), rest[verdict])
        explained.setdefault(cause["text"], (cause, []))[1].append(key)

    def filled(text: str) -> str:
        return " ".join(text.format_map(figures).split())

    ordered = sorted(explained.values(), key=lambda item: any(item[0] is each for each in rest.values()))
    return tuple(
        Cause(
            filled(cause["text"]),
            tuple(keys),
            filled(cause.get("brief", cause["text"])),
            "undecided" if cause.get("undecided") else "differs",
            f"cause-{number}",
        )
        for number, (cause, keys) in enumerate(ordered, start=1)
    )
