"""Every algorithm has its section with source and picture, and its rows in the tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mklref.algorithms import ALGORITHMS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "algorithms"


def section(name):
    """From the label of the algorithm to the next label."""
    label = f"(algorithm-{name.replace('_', '-')})="
    (page,) = (text for text in (path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")) if label in text)
    return page.partition(label)[2].partition("\n(algorithm-")[0]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_section_with_its_source_pseudo_code_and_picture(name):
    page = section(name)
    assert f"`mklref.algorithms.{name}`" in page
    sources = re.findall(r"```\{literalinclude\} (\S+)\n((?::.*\n)*)", page)
    assert any(source.startswith("../../mklref/algorithms/") for source, _ in sources)
    for source, options in sources:
        code = (DOCS / source).read_text(encoding="utf-8")
        for wanted in re.findall(r":(?:pyobject: |start-at: (?:def |class ))(\w+)", options):
            assert re.search(rf"^(?:def|class) {wanted}\b", code, flags=re.MULTILINE), wanted
    assert "```text" in page, "the pseudo-code"
    pictures = re.findall(r"!\[.+\]\((\S+)\)", page)
    assert f"../_static/algorithm-{name}.svg" in pictures


def rows():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (.+) \|$", text, flags=re.MULTILINE)
    return [line.split(" | ") for line in lines if not line.startswith("regulariser")]


def test_tables_name_every_algorithm_and_a_gap_for_each():
    named = {re.search(r"`(\w+)`", row[1]).group(1) for row in rows() if "mklref.solve" not in row[1]}
    assert named == set(ALGORITHMS)
    for row in rows():
        assert float(row[6].split()[0]) <= 1.05e-2, row
        assert "(" not in row[6], row


def test_what_the_page_says_of_table_1_is_in_the_table():
    """Fewer gradients and more SVMs than SILP; plain descent far behind."""
    last = {re.search(r"`(.+)`", row[1]).group(1): row for row in rows()}  # the second table comes last
    svm, gradients = ({name: int(last[name][k]) for name in ("silp", "simplemkl", "gradient_descent")} for k in (3, 4))
    assert gradients["simplemkl"] < gradients["silp"] < gradients["gradient_descent"]
    assert svm["silp"] < svm["simplemkl"] < svm["gradient_descent"]
