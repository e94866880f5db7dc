"""The documentation as it was built, in the folder MKLREF_HTML: offline, typeset, no page too long or too wide."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mklref.formulations import FORMULATIONS

SCREEN, SCREENS = 900, 15
REPORTS = {"reproduction.html"}
"""Pages that are reports, and as long as they are."""


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


def test_no_page_is_longer_than_fifteen_screens_or_wider_than_a_phone_and_all_formulas_are_typeset(tab, html):
    wrong = []
    for page in own_pages(html):
        tab.goto(page.as_uri(), wait_until="domcontentloaded")
        tab.set_viewport_size({"width": 1440, "height": SCREEN})
        screens = tab.evaluate("document.body.scrollHeight") / SCREEN
        tab.set_viewport_size({"width": 400, "height": SCREEN})
        wide = tab.evaluate("document.documentElement.scrollWidth")
        raw = tab.evaluate("document.body.innerText.includes('\\\\(') || document.body.innerText.includes('\\\\[')")
        read = page.name not in REPORTS and page.parent.name != "api"  # pages to look things up in may be long
        if (read and screens > SCREENS) or wide > 400 or raw:
            wrong.append(f"{page.relative_to(html)}: {screens:.1f} screens, {wide} wide on a phone, raw TeX: {raw}")
    assert wrong == []


def test_the_first_page_is_one_screen_with_four_doors(tab, html):
    tab.set_viewport_size({"width": 1440, "height": SCREEN})
    tab.goto((html / "index.html").as_uri())
    assert tab.locator(".door").count() == 4
    bottom = max(tab.locator(".door").evaluate_all("doors => doors.map(d => d.getBoundingClientRect().bottom)"))
    assert bottom <= SCREEN
    assert tab.locator(".opening img").count() == 1


def test_each_formulation_has_statement_dual_primer_and_picture(tab, html):
    for name in FORMULATIONS:
        tab.goto((html / "formulations" / f"{name}.html").as_uri(), wait_until="domcontentloaded")
        assert tab.locator("math[display=block]").count() >= 2, name
        assert tab.locator("img").count() >= 1, name
        assert "def " in tab.locator(".highlight").first.text_content(), name


def test_answers_of_lessons_are_hidden_and_open(tab, html):
    for page in sorted((html / "lessons").glob("*.html")):
        tab.goto(page.as_uri())
        answers = tab.locator("details")
        assert answers.count() == (0 if page.name == "index.html" else 2)
        if answers.count():
            inside = answers.first.locator("p").first
            assert not inside.is_visible()
            answers.first.locator("summary").click()
            assert inside.is_visible()


def test_the_page_with_panels_works_where_it_is_built(tab, html):
    tab.goto((html / "touch.html").as_uri())
    tab.click("#gap-solve")
    assert "strong duality" in tab.locator("#panel-gap .verdict").text_content()
