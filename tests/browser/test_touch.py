"""The page that needs no server: its numbers are those of `mklref.certify`, and it works by keyboard and on a phone."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from makers import contrast

import mklref

LESSON = Path(__file__).parents[2] / "docs" / "lessons" / "proof.md"
X, Y = np.array([-1.0, 0.5, 1.5]), np.array([1.0, -1.0, 1.0])
KERNELS = np.stack([np.outer(X, X), np.outer(X, X) ** 2, np.exp(-2 * (X[:, None] - X) ** 2)])
SETS = {
    "simplex": lambda p: mklref.Lp(1),
    "ball": mklref.Lp,
    "net": lambda p: mklref.ElasticNet(0.5, form="ivanov"),
    "groups": lambda p: mklref.Groups([[0, 1], [2]], p=0.25, q=0.5),
}


def problem(n_kernels, C, regularizer):
    return mklref.Problem(KERNELS[:n_kernels], Y, C=C, regularizer=regularizer)


VISIT = """([panel, visits]) => visits.map(([controls, pressed]) => {
  for (const [name, step] of Object.entries(controls)) {
    const control = document.getElementById(name);
    if (control.type === "checkbox") control.checked = step; else control.value = String(step);
    control.dispatchEvent(new Event(control.type === "range" ? "input" : "change"));
  }
  pressed.forEach((name) => document.getElementById(name).click());
  const place = document.getElementById(`panel-${panel}`), seen = JSON.parse(place.dataset.state);
  const outputs = [...place.querySelectorAll("[data-number]")];
  seen.numbers = outputs.map((output) => [output.dataset.number, output.dataset.value, output.textContent]);
  seen.words = [...place.querySelectorAll(".verdict")].map((words) => words.textContent).join(" ");
  return seen;
})"""
"""Sets controls, presses buttons, and reads the panel, many times."""


def visit(tab, panel, *visits):
    """What the panel shows after each visit (controls, buttons); printed numbers are those behind them, rounded."""
    shown = tab.evaluate(VISIT, [panel, [(controls, list(pressed)) for controls, *pressed in visits]])
    for seen in shown:
        for name, value, text in seen["numbers"]:
            seen[name] = float(value)
            assert float(text) == pytest.approx(seen[name], rel=1e-5, abs=1e-9)
    return shown


def exponent(text):
    return math.inf if text == "Infinity" else float(text)


def close(value):
    return pytest.approx(value, rel=1e-9, abs=1e-9)


def certified(seen):
    """The certificate of what the first panel shows, whose bounds are those of the page."""
    this = problem(2, seen["C"], mklref.Lp(exponent(seen["norm"])))
    certificate = mklref.certify(this, seen["beta"], weights=seen["theta"])
    assert certificate.infeasibility < 1e-12
    assert (seen["lower"], seen["upper"]) == (close(certificate.lower), close(certificate.upper))
    return this, certificate


def test_the_bounds_of_the_first_panel_are_those_of_the_certificate(tab, panels):
    """Every norm and cost at random points, by hand and with the weights that follow."""
    tab.goto(panels)
    rng = np.random.default_rng(0)
    most = {"gap-C": 6, "gap-1": 60, "gap-3": 60, "gap-share": 60, "gap-follow": 1}
    visits = [
        ({"gap-p": p, **{k: int(rng.integers(m + 1)) for k, m in most.items()}},) for p in range(8) for _ in range(6)
    ]
    for (controls,), seen in zip(visits, visit(tab, "gap", *visits), strict=True):
        this, _ = certified(seen)
        if controls["gap-follow"] and controls["gap-p"]:  # at p = 1 the weights are no function of the dual point
            g = np.sqrt(np.maximum(this.kernels.quadratic(np.array(seen["beta"])), 0.0))
            np.testing.assert_allclose(seen["theta"], this.regularizer.weights_from_dual(g), atol=1e-12)


def test_the_gap_closes_by_hand_and_the_page_says_what_that_proves(tab, panels):
    tab.goto(panels)
    start, first, third, end = visit(tab, "gap", ({},), ({"gap-1": 32},), ({"gap-3": 8},), ({"gap-share": 20},))
    stated = [f"${seen['lower']:.6g} \\le P^* \\le {seen['upper']:.6g}$" for seen in (start, first, third, end)]
    lesson = LESSON.read_text(encoding="utf-8")
    assert [interval for interval in stated if interval not in lesson] == []  # 1.6, 0.4 and 1/3, as it says
    assert "move on" in start["words"]
    assert certified(end)[1].upper == pytest.approx(2.0, abs=1e-12)
    assert "strong duality" in end["words"]
    assert "Both kernels attain" in end["words"]
    assert end["words"].count("y (f + b) = 1") == 3


def test_the_optimum_that_the_page_shows_is_one(tab, panels):
    tab.goto(panels)
    visits = [({"gap-p": p, "gap-C": C}, "gap-solve") for p in range(8) for C in (0, 4)]
    for seen in visit(tab, "gap", *visits):
        this, certificate = certified(seen)
        assert certificate.relative_gap < 1e-6
        best = mklref.solve(this, tol=1e-9).certificate
        assert best.lower - 1e-9 <= certificate.upper
        assert certificate.lower <= best.upper + 1e-9
        assert "strong duality" in seen["words"]


def test_a_multiplier_stops_at_the_bound_and_start_again_starts_again(tab, panels):
    tab.goto(panels)
    start, stopped, again = visit(tab, "gap", ({},), ({"gap-p": 7, "gap-C": 6, "gap-1": 60},), ({}, "gap-reset"))
    assert stopped["beta"] == [4.0, -6.0, 2.0]  # the third share stays, the first goes as far as C lets it
    assert "α₁ stops here" in stopped["words"]
    assert stopped["lower"] < 0.0
    assert again == start


def test_what_stands_beside_the_sliders_is_the_point(tab, panels):
    tab.goto(panels)
    for controls, pressed in (({}, "gap-solve"), ({"gap-p": 4, "gap-follow": 1}, "gap-1"), ({"gap-p": 7}, "gap-solve")):
        (seen,) = visit(tab, "gap", (controls, pressed))
        theta = seen["theta"]
        shown = (seen["beta"][0], seen["beta"][2], theta[0] / sum(theta))
        for name, value in zip(("1", "3", "share"), shown, strict=True):
            assert float(tab.locator(f"output[for=gap-{name}]").text_content()) == pytest.approx(value, rel=1e-5)
    assert "At p = ∞ every weight is 1" in seen["words"]


def test_the_bar_of_the_interval_holds_both_bounds(tab, panels):
    tab.goto(panels)
    visit(tab, "gap", ({"gap-C": 6, "gap-1": 40},))
    bar, line = "#panel-gap .verdict rect.gap", "#panel-gap .verdict polyline.axis"
    low, high = (tab.locator(name).first.bounding_box() for name in (bar, line))
    assert high["x"] < low["x"] < low["x"] + low["width"] <= high["x"] + high["width"]
    assert "−" in tab.locator("#panel-gap .verdict svg").text_content().replace("-", "−")


@pytest.mark.parametrize("kind", SETS)
def test_a_machine_over_a_set_of_weights_has_the_value_and_the_bound_that_are_certified(tab, panels, kind):
    """Along steps that close the gap, from random weights."""
    tab.goto(panels)
    tab.select_option("#set-kind", kind)
    rng = np.random.default_rng(1)
    for p in range(8) if kind == "ball" else [4]:
        start = {"set-p": p, **{f"set-{m}": int(rng.integers(1, 61)) for m in (1, 2, 3)}}
        path = visit(tab, "set", (start,), *[({}, "set-step")] * 8)
        for seen in path:
            regularizer = SETS[kind](exponent(seen["p"]))
            fixed = mklref.certify(problem(3, seen["C"], mklref.Fixed(seen["theta"])), seen["beta"])
            assert seen["upper"] == close(fixed.upper)
            assert fixed.relative_gap < 1e-9
            free = mklref.certify(problem(3, seen["C"], regularizer), seen["beta"], weights=seen["theta"])
            assert free.infeasibility < 1e-9
            assert seen["lower"] == close(free.lower)
        assert path[-1]["gap"] < 0.1 * path[0]["gap"] + 1e-3


def test_the_cuts_prove_what_is_certified_and_close(tab, panels):
    tab.goto(panels)
    for C in (1, 4, 6):
        start = ({"cut-C": C, "cut-share": 55}, "cut-here")
        for seen in visit(tab, "cut", start, *[({}, "cut-lowest")] * 9):
            this = problem(2, seen["C"], mklref.Lp(1))
            assert seen["lower"] == close(mklref.certify(this, seen["beta"]).lower)
            weights = [seen["share"], 1 - seen["share"]]
            here = mklref.certify(this.replace(regularizer=mklref.Fixed(weights)), seen["dual"])
            assert seen["here"] == close(here.upper)
        assert seen["upper"] == pytest.approx(mklref.solve(this, tol=1e-9).objective, rel=1e-4)  # what it calls closed
        assert "Closed after" in seen["words"]
    seen = list(visit(tab, "cut", ({"cut-C": 4, "cut-share": 20}, "cut-here")))[-1]
    assert "Closed after 1 cut: one machine" in seen["words"]
    assert seen["lower"] == close(2.0)


def test_the_keyboard_reaches_every_control(tab, panels):
    tab.goto(panels)
    wanted = set(
        tab.eval_on_selector_all(".panel :is(input, button, select):not(:disabled)", "all => all.map(e => e.id)")
    )
    reached = set()
    for _ in range(len(wanted) + 2):
        tab.keyboard.press("Tab")
        reached.add(tab.evaluate("document.activeElement.id"))
    assert wanted <= reached
    assert all(tab.locator(f"label[for={name}]").count() for name in wanted if tab.locator(f"input#{name}").count())
    tab.focus("#gap-1")
    before = visit(tab, "gap", ({},))[0]["lower"]
    tab.keyboard.press("ArrowRight")
    assert visit(tab, "gap", ({},))[0]["lower"] != before


@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_is_wider_than_the_screen(tab, panels, width):
    tab.set_viewport_size({"width": width, "height": 800})
    tab.goto(panels)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_have_the_contrast_that_guidelines_ask_for(tab, panels, theme):
    """3 to 1 for graphical objects and 4.5 to 1 for text, after WCAG 2.1."""
    tab.goto(panels)
    background = {"light": "#ffffff", "dark": "#131416"}[theme]
    tab.evaluate("theme => { document.body.dataset.theme = theme; }", theme)
    read = "name => getComputedStyle(document.querySelector('.panel')).getPropertyValue(name).trim()"
    for name in ("--tone-brand", "--tone-warm", "--tone-good"):
        assert contrast(tab.evaluate(read, name), background) >= 4.5


def test_without_scripts_the_pictures_stand_still(chromium, panels):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(panels)
    assert page.locator(".panel img").count() == 3
    assert page.locator(".panel input").count() == 0
    context.close()
