"""Where the figures of the docs come from: what is found on the pages, and what measured.toml says of it.

`python docs/provenance.py --check` names what measured.toml and validation/results call commits and the history lacks.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = ROOT / "validation" / "results"
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
        for path in sorted(RESULTS.glob(pattern)):
            found += commits_of(path)
    return found


def commits_of(path: Path) -> Iterator[str | None]:
    """The commits of a file of results."""
    text = path.read_text(encoding="utf-8")
    yield from commits(json.loads(text) if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()])


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


def named() -> dict[str, set[str]]:
    """The clean commits of the ledger and of every file of results, by file; what is not clean the table says."""
    files = {"docs/measured.toml": {commit for entry in LEDGER["figures"] for commit in entry.get("commits", ())}}
    for path in sorted([*RESULTS.rglob("*.json"), *RESULTS.rglob("*.jsonl")]):
        files[path.relative_to(ROOT).as_posix()] = {commit for commit in commits_of(path) if commit and clean(commit)}
    return files


def history() -> list[str] | str:
    """The commits up to the one that is checked out, or why nobody can say here which ones there are."""
    try:
        if Path(_git("rev-parse", "--show-toplevel")).resolve() != ROOT.resolve():
            return "these files are a copy inside of another repository"
        if _git("rev-parse", "--is-shallow-repository") == "true":
            return "the clone is shallow; git fetch --unshallow gets the rest"
        return _git("rev-list", "HEAD").splitlines()
    except (OSError, subprocess.CalledProcessError):
        return "these files are no git checkout"


def unknown(known: list[str]) -> list[str]:
    """One line for each commit that is named and not in the history."""
    return [
        f"{file}: {commit} is no commit of this history; measure again, or say what is open"
        for file, found in named().items()
        for commit in sorted(found)
        if not any(each.startswith(commit) for each in known)
    ]


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main() -> int:
    """Check the history, where there is one; exit code 1 if it lacks a commit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="name commits that the history lacks, not the table")
    if not parser.parse_args().check:
        print("\n".join(table()))
        return 0
    known = history()
    if isinstance(known, str):
        print(f"not checked: {known}")
        return 0
    lines = unknown(known)
    print("\n".join(lines) or "every commit that is named is in the history")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
