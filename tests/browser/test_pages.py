"""The documentation as it was built, in the folder MKLREF_HTML: offline, typeset, no page too long or too wide."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mklref.formulations import FORMULATIONS

DOCS = Path(__file__).parents[2] / "docs"
SCREEN, SCREENS = 900, 15
REPORT = "reproduction.html"
"""The page that is a report, and as long as it is."""
LOOK = """() => ({
  high: document.body.scrollHeight,
  raw: /\\\\[([]/.test(document.body.textContent),
  formulas: document.querySelectorAll("math[display=block]").length,
  pictures: [...document.images].filter((image) => image.complete && image.naturalWidth).length,
  missing: [...document.images].filter((image) => image.complete && !image.naturalWidth).map((image) => image.src),
  code: document.querySelector(".highlight")?.textContent ?? "",
  answers: [...document.querySelectorAll("details")].map((d) => d.querySelector("p")?.checkVisibility() ?? false),
})"""
"""What is asked of every page, at once."""
CUT = """() => [...document.querySelectorAll("article :is(math, pre, table, img)")].some((part) => {
  const right = (element) => element.getBoundingClientRect().right;
  const scrolls = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
  if (right(part) <= innerWidth + 1) return false;
  for (let around = part; around; around = around.parentElement)
    if (scrolls(around) && right(around) <= innerWidth + 1) return false;
  return true;
})"""
"""Whether something reaches beyond the screen where no scrolling shows it."""


@pytest.fixture(scope="module")
def html():
    """The folder with the pages."""
    folder = os.environ.get("MKLREF_HTML")
    if not folder:
        (pytest.fail if os.environ.get("MKLREF_REQUIRE_BROWSER") else pytest.skip)(
            "MKLREF_HTML is not set: build the documentation, and name the folder"
        )
    return Path(folder)


def own_pages(html):
    """The pages that somebody wrote: not the index, the search, nor the sources."""
    others = {"genindex.html", "search.html", "py-modindex.html", "report.html"}
    return sorted(page for page in html.rglob("*.html") if "_modules" not in page.parts and page.name not in others)


@pytest.fixture(scope="module")
def seen(chromium, html):
    """What every page shows, and whether it is wider than phone, tablet or laptop; each is loaded once for all."""
    context = chromium.new_context(viewport={"width": 1440, "height": SCREEN})
    page, found = context.new_page(), {}
    for path in own_pages(html):
        page.set_viewport_size({"width": 1440, "height": SCREEN})
        page.goto(path.as_uri())
        name = path.relative_to(html).as_posix()
        found[name] = page.evaluate(LOOK)
        found[name]["too wide"] = {}
        for width in (400, 1024, 1280):
            page.set_viewport_size({"width": width, "height": SCREEN})
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > width or page.evaluate(CUT):
                found[name]["too wide"][width] = wide
    context.close()
    return found


def test_no_page_is_longer_than_fifteen_screens_or_wider_than_a_screen_and_all_formulas_are_typeset(seen):
    wrong = []
    for name, page in seen.items():
        screens = page["high"] / SCREEN
        if (screens > SCREENS and name != REPORT) or page["too wide"] or page["raw"] or page["missing"]:
            facts = f"screens and widths: {page['too wide']}, raw TeX: {page['raw']}, missing: {page['missing']}"
            wrong.append(f"{name}: {screens:.1f} screens, {facts}")
    assert wrong == []


def test_the_first_page_is_one_screen_with_four_doors(tab, html):
    tab.set_viewport_size({"width": 1440, "height": SCREEN})
    tab.goto((html / "index.html").as_uri())
    assert tab.locator(".door").count() == 4
    bottom = max(tab.locator(".door").evaluate_all("doors => doors.map(d => d.getBoundingClientRect().bottom)"))
    assert bottom <= SCREEN
    assert tab.locator(".opening img").count() == 1


@pytest.mark.parametrize("name", FORMULATIONS)
def test_each_formulation_has_statement_dual_primer_and_picture(seen, name):
    page = seen[f"formulations/{name}.html"]
    assert page["formulas"] >= (1 if name == "group_lasso" else 2)  # whose statement has both sides
    assert page["pictures"] >= 1
    assert "def " in page["code"]


def test_lessons_are_short_and_have_two_answers_that_are_hidden_and_open(tab, html, seen):
    lessons = [name for name in seen if name.startswith("lessons/")]
    assert len(lessons) == 5
    for name in lessons:
        assert seen[name]["answers"] == [False, False], name
        words = (DOCS / name).with_suffix(".md").read_text(encoding="utf-8").split()
        assert len(words) < 800, name
    tab.goto((html / lessons[0]).as_uri())
    answer = tab.locator("details").first
    answer.locator("summary").click()
    assert answer.locator("p").first.is_visible()


def test_the_page_with_panels_works_where_it_is_built(tab, html):
    tab.goto((html / "touch.html").as_uri())
    tab.click("#gap-solve")
    assert "strong duality" in tab.locator("#panel-gap .verdict").last.text_content()
