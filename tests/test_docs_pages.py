"""The picture of the equivalences: each row of the table is an arrow with number and source, and nothing overlaps.

Every algorithm has its section with source, pseudo-code and picture, and its rows in the tables. A solve goes the way
from file to file that the page on the architecture says.
"""

from __future__ import annotations

import re
import sys
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from makers import make_problem

import mklref
from mklref.algorithms import ALGORITHMS
from mklref.equivalences import table

DOCS = Path(__file__).parent.parent / "docs"
SVG = "{http://www.w3.org/2000/svg}"
TABLE = table()


@pytest.fixture(scope="module")
def generate():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        import generate

        yield generate


@pytest.fixture(scope="module")
def picture(generate, tmp_path_factory):
    folder = tmp_path_factory.mktemp("picture")
    generate.equivalence_graph(folder)
    return ElementTree.parse(folder / "equivalences.svg").getroot()


def edges(picture):
    return {link.get("href"): link.find(f"{SVG}g") for link in picture.iter(f"{SVG}a")}


def boxes(picture):
    """Problem -> (left, top, right, bottom)."""
    groups = [group for group in picture.iter(f"{SVG}g") if group.get("class") == "problem"]
    result = {}
    for group in groups:
        x, y, width, height = (float(group.find(f"{SVG}rect").get(key)) for key in ("x", "y", "width", "height"))
        result[group.find(f"{SVG}title").text] = np.array([x, y, x + width, y + height])
    assert len(result) == len(groups)
    return result


def test_every_edge_has_its_number_and_source(picture):
    drawn = edges(picture)
    assert list(drawn) == [f"#edge-{number}" for number in range(1, len(TABLE) + 1)]
    for number, (edge, row) in enumerate(zip(drawn.values(), TABLE, strict=True), start=1):
        assert edge.find(f"{SVG}text").text == str(number)
        first, *facts = edge.find(f"{SVG}title").text.splitlines()
        assert first == f"{number}. {row['left']} → {row['right']}"
        assert facts[-1] == f"source: {row['source']}"
        assert (f"parameters: {row['parameters']}" in facts) == (row["parameters"] != "none")
        assert (f"condition: {row['condition']}" in facts) == (row["condition"] != "none")


def test_numbers_lead_to_rows_of_the_table(generate, picture, tmp_path):
    generate.equivalence_table(tmp_path)
    rows = (tmp_path / "equivalences.md").read_text(encoding="utf-8").splitlines()[2:]
    for link, line, row in zip(edges(picture), rows, TABLE, strict=True):
        assert line.startswith(f'<span id="{link[1:]}">{link.removeprefix("#edge-")}</span> | ')
        assert line.replace("\\", "").endswith(row["source"])


def test_arrows_lead_from_left_to_right_problem(picture):
    problems = boxes(picture)
    assert set(problems) == {edge[side] for edge in TABLE for side in ("left", "right")}
    for edge, row in zip(edges(picture).values(), TABLE, strict=True):
        _, path, head = (np.array(re.findall(r"-?[\d.]+", part.get("d")), float) for part in edge.iter(f"{SVG}path"))
        for point, box in ((path[:2], problems[row["left"]]), (head[:2], problems[row["right"]])):
            assert np.abs(box[[0, 2]] - point[0]).min() <= 0.11  # coordinates have one decimal
            assert box[1] < point[1] < box[3]


def test_nothing_overlaps_and_all_is_inside(picture):
    problems = list(boxes(picture).values())
    for one, other in combinations(problems, 2):
        assert (one[:2] > other[2:]).any() or (other[:2] > one[2:]).any()
    circles = [edge.find(f"{SVG}circle") for edge in edges(picture).values()]
    discs = np.array([[float(circle.get(key)) for key in ("cx", "cy", "r")] for circle in circles])
    for one, other in combinations(discs, 2):
        assert np.linalg.norm(one[:2] - other[:2]) > one[2] + other[2]
    for x, y, radius in discs:
        for box in problems:
            assert np.linalg.norm([x - np.clip(x, box[0], box[2]), y - np.clip(y, box[1], box[3])]) > radius
    width, height = map(float, picture.get("viewBox").split()[2:])
    corners = np.vstack([*problems, *np.hstack([discs[:, :2] - discs[:, 2:], discs[:, :2] + discs[:, 2:]])])
    assert corners.min() >= 0
    assert (corners[:, 2:] <= [width, height]).all()


def test_words_fit_into_their_boxes(picture):
    """A character of 12 px is about 6.3 px wide on average in a wide sans-serif font."""
    for group in picture.iter(f"{SVG}g"):
        if group.get("class") == "problem":
            lines = [text.text for text in group.iter(f"{SVG}text")]
            assert " ".join(lines) == group.find(f"{SVG}title").text
            assert max(map(len, lines)) * 6.5 + 20 <= float(group.find(f"{SVG}rect").get("width"))


def test_a_new_family_finds_its_place(generate):
    import graph

    row = {"left": "New(p)", "right": "Lp(p)", "parameters": "none", "condition": "none", "source": "nobody (1)"}
    drawn = ElementTree.fromstring(graph.picture([*TABLE, row]))
    assert len(edges(drawn)) == len(TABLE) + 1
    assert "New(p)" in boxes(drawn)


# --- algorithms ------------------------------------------------------------------------------------------------------


PAGES = DOCS / "algorithms"


def section(name):
    """From the label of the algorithm to the next label."""
    label = f"(algorithm-{name.replace('_', '-')})="
    (page,) = (text for text in (path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")) if label in text)
    return page.partition(label)[2].partition("\n(algorithm-")[0]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_section_with_its_source_pseudo_code_and_picture(name):
    page = section(name)
    assert f"`mklref.algorithms.{name}`" in page
    sources = re.findall(r"```\{literalinclude\} (\S+)\n((?::.*\n)*)", page)
    assert any(source.startswith("../../mklref/algorithms/") for source, _ in sources)
    for source, options in sources:
        code = (PAGES / source).read_text(encoding="utf-8")
        for wanted in re.findall(r":(?:pyobject: |start-at: (?:def |class ))(\w+)", options):
            assert re.search(rf"^(?:def|class) {wanted}\b", code, flags=re.MULTILINE), wanted
    assert "```text" in page, "the pseudo-code"
    pictures = re.findall(r"!\[.+\]\((\S+)\)", page)
    assert f"../_static/algorithm-{name}.svg" in pictures


def rows():
    text = (PAGES / "index.md").read_text(encoding="utf-8")
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


def test_every_page_is_in_the_navigation_once():
    trees = re.findall(r"```{toctree}(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    listed = re.findall(r"^[^:\n].*$", "".join(trees), flags=re.MULTILINE)
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    assert sorted(listed) == sorted({*pages, "api/index", "algorithms/index", "formulations/index"})


def test_one_solve_enters_the_files_in_the_order_of_the_page():
    section = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("## One solve, file by file\n")[2]
    section, home = section.partition("\n## ")[0], Path(mklref.__file__).parent
    walk = re.findall(r"^\| `(\S+)` \| `(\S+)` \|", section, flags=re.MULTILINE)
    assert len(walk) > 10
    assert all((DOCS.parent / "mklref" / path).exists() for path in re.findall(r"`([a-z_/]+/[\w.]*)`", section))
    problem, entered, before = make_problem(n=30, M=3), [], sys.getprofile()

    def note(frame, event, _):
        if event == "call":
            entered.append((Path(frame.f_code.co_filename), frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        mklref.solve(problem)
    finally:
        sys.setprofile(before)
    places = [entered.index((home / file, function)) for file, function in walk]
    assert places == sorted(places)
