"""Where the figures of the docs come from: what is found on the pages, and what measured.toml says of it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
LEDGER = tomllib.loads((HERE / "measured.toml").read_text(encoding="utf-8"))
CLEAN = re.compile(r"[0-9a-f]{7,40}")

QUANTITY = re.compile(
    r"(?<![\w.^$\\])(?:\d[\d,.]*|two|three|four|five|six|seven|eight|nine|ten) "
    r"(?:(?:CPU |processor )?seconds?|s|ms|minutes?|hours?|[GMk]i?B|passes|times (?:as|the|faster))\b"
)
"""Seconds, bytes, passes, ratios in a text."""
NUMBER = re.compile(r"\|\s*[~(<]?-?\d[\d.,e+ %±-]*\S{0,4}\s*(?=\|)")
"""A cell of a table that is a number."""
PICTURE = re.compile(r"!\[.*\]\((?:\.\./)?_static/(.*)\)")


def lines(text: str) -> Iterator[tuple[str, str]]:
    """The lines of a page outside of its code, each with the heading above it."""
    heading, code = "", False
    for line in text.splitlines():
        if line.startswith("```"):
            code = not code
        elif not code:
            found = re.match(r"#+ (.*)", line)
            heading = found[1].strip() if found else heading
            yield heading, line


def measured(text: str) -> set[str]:
    """The sections of a page that have a table of numbers, or quantities in their text."""
    return {
        heading
        for heading, line in lines(text)
        if (len(NUMBER.findall(line)) >= 2 if line.startswith("|") else QUANTITY.search(line))
    }


def pictures(text: str) -> set[str]:
    """The pictures of a page."""
    return {found[1] for _, line in lines(text) if (found := PICTURE.match(line))}


def commits(value: Any, known: str | None = None) -> Iterator[str | None]:
    """The commit of each row of a file of results: its own, that of its facts, or that of what it is in."""
    if isinstance(value, list):
        for row in value:
            yield from commits(row, known)
        return
    known = value.get("commit") or value.get("facts", {}).get("commit") or known
    parts = [part for part in value.values() if isinstance(part, dict) and isinstance(part.get("rows"), list)]
    parts += [value["rows"]] if isinstance(value.get("rows"), list) else []
    for part in parts:
        yield from commits(part, known)
    if not parts:
        yield known


def made(entry: dict[str, Any]) -> list[str | None]:
    """The commits of an entry; None, or one that ends in +, where nobody can have the same code again."""
    found: list[str | None] = list(entry.get("commits", ()))
    for pattern in entry.get("results", ()):
        for path in sorted((ROOT / "validation" / "results").glob(pattern)):
            text = path.read_text(encoding="utf-8")
            whole = path.suffix == ".json"
            found += commits(json.loads(text) if whole else [json.loads(line) for line in text.splitlines()])
    return found


def clean(commit: str | None) -> bool:
    """Whether anybody can run the same code again."""
    return commit is not None and CLEAN.fullmatch(commit) is not None


def table() -> list[str]:
    """Every entry with its command and its commits, for the docs."""
    entries = LEDGER["figures"]
    whole = [all(map(clean, made(entry))) and "open" not in entry for entry in entries]
    rows = [
        f"Of {len(entries)} commands {sum(whole)} were run from clean commits alone; the others say what lacks.",
        "",
        "| figures | command | commits | open |",
        "|---|---|---|---|",
    ]
    for entry in entries:
        found = made(entry)
        named = sorted({commit[:8] for commit in found if clean(commit)})
        lacking = sum(not clean(commit) for commit in found)
        left = [f"{lacking} of {len(found)} results have no clean commit"] * bool(lacking) + [entry.get("open", "")]
        page = entry["page"] if entry["page"] == "README.md" else f"[{entry['page']}]({entry['page']})"
        where = f"{page}: {', '.join(entry['sections'])}"
        cells = [where, f"`{entry['command']}`", ", ".join(named), "; ".join(filter(None, left))]
        rows.append("| " + " | ".join(cells) + " |")
    return rows
