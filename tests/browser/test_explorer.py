"""`mklref explore` in a browser: it shows what is certified, follows its controls, says what is wrong beside them."""

from __future__ import annotations

import json
import os
import re
import socket
from dataclasses import asdict, replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

import mklref
from mklref.explore import State, state as states, views

PATIENCE = 120_000
AGREES = re.compile(r"CLARABEL: (inside|at) the interval")
SMALL = State(samples=20, kernels="rbf:0.5..2:2,linear", p="2")


def open_page(tab, address, state):
    tab.set_default_timeout(PATIENCE)
    tab.goto(f"{address}&{urlencode(asdict(state))}")
    finished(tab)


def finished(tab):
    """Wait for the picture of a solve that has ended: on a busy machine there is one before it."""
    tab.get_by_text(re.compile("≤ P\\*")).first.wait_for()
    tab.get_by_text("The solver goes on").wait_for(state="detached")


def control(tab, label):
    """A control, which stands in the column that stays in view."""
    return tab.get_by_role("complementary").get_by_label(label, exact=True)


def picture(tab, name, heading):
    """A picture of the page from a heading on, into the folder MKLREF_SCREENS if there is one."""
    tab.get_by_role("heading", name=heading).evaluate("heading => heading.scrollIntoView()")
    if folder := os.environ.get("MKLREF_SCREENS"):
        tab.wait_for_timeout(1000)  # until pictures stand still
        tab.screenshot(path=Path(folder) / f"explorer-{name}.png")


def interval(tab):
    text = tab.get_by_text(re.compile("≤ P\\*")).first.text_content()
    return tuple(float(number) for number in re.match(r"(\S+) ≤ P\* ≤ (\S+),", text).groups())


def test_the_page_shows_what_is_certified_and_follows_its_controls(tab, explorer):
    open_page(tab, explorer, SMALL)
    lower, upper = interval(tab)
    problem, _ = states.problem_of(SMALL)
    certificate = mklref.solve(problem).certificate
    assert (lower, upper) == pytest.approx((certificate.lower, certificate.upper), rel=1e-8)
    control(tab, "p (or q of a block norm)").select_option("inf")
    tab.wait_for_function("before => !document.body.innerText.includes(before)", arg=f"{lower:.9g} ≤ P*")
    finished(tab)
    assert interval(tab)[1] < lower
    tab.wait_for_function("location.search.includes('p=inf')")  # written once the walk is known, too
    tab.locator("pre").filter(has_text="mklref.Lp(p=float('inf'))").first.wait_for()
    tab.get_by_text(AGREES).first.wait_for()
    assert tab.locator("math, .katex").count() > 0
    tab.get_by_role("button", name=re.compile("ivanov to tikhonov")).click()
    tab.get_by_label("1 step from Ivanov: lp ball, now at Tikhonov").wait_for()
    tab.wait_for_function("location.search.includes('walk=ivanov')")


def test_the_pictures_of_the_documentation_show_the_page(tab, explorer):
    """`MKLREF_SCREENS=docs/_static pytest tests/browser -k pictures_of_the_documentation` writes them."""
    tab.set_viewport_size({"width": 1280, "height": 900})
    open_page(
        tab, explorer, replace(SMALL, samples=60, walk="ivanov to tikhonov|tikhonov to ivanov|lp: weights and norms")
    )
    tab.get_by_label("3 steps from Ivanov: lp ball, now at block norms").wait_for()
    tab.get_by_text(AGREES).nth(3).wait_for()
    picture(tab, "walk", "Walk along equivalences")
    picture(tab, "optimum", "Explore a formulation")


def test_bad_input_is_said_and_the_last_picture_stays(tab, explorer):
    open_page(tab, explorer, SMALL)
    before = interval(tab)
    box = control(tab, "kernels")
    box.fill("rbf:")
    box.press("Enter")
    said = tab.get_by_role("complementary").get_by_text("is not understood")
    said.wait_for()
    assert said.evaluate("text => text.scrollWidth <= text.clientWidth")
    tab.get_by_text("belongs to other settings: moons, 20 samples, kernels rbf:0.5..2:2,linear").wait_for()
    assert interval(tab) == before
    grey = "text => { for (let e = text; e; e = e.parentElement) if (getComputedStyle(e).opacity < 0.5) return true; }"
    for heading in ("Paths over C and p", "The code of what is shown"):
        assert tab.get_by_role("heading", name=heading).evaluate(grey)
    assert tab.get_by_text(re.compile("≤ P\\*")).first.evaluate(grey)
    box.fill(SMALL.kernels)
    box.press("Enter")
    said.wait_for(state="detached")
    assert not tab.get_by_role("heading", name="Paths over C and p").evaluate(grey)


def test_a_slider_is_followed_as_it_moves_and_the_keyboard_keeps_its_place(tab, explorer):
    open_page(tab, explorer, SMALL)
    slider = control(tab, "C")
    slider.focus()
    for _ in range(8):  # faster than answers come: the last one counts
        slider.press("ArrowLeft")
    moved = states.COSTS[states.COSTS.index(SMALL.C) - 8]
    tab.get_by_text(f"C = {moved:g}.").wait_for()
    finished(tab)
    assert slider.get_attribute("aria-valuetext") == str(moved)
    certificate = mklref.solve(states.problem_of(replace(SMALL, C=moved))[0]).certificate
    assert interval(tab) == pytest.approx((certificate.lower, certificate.upper), rel=1e-8)
    choice = tab.get_by_label("formulation", exact=True)
    choice.focus()
    choice.select_option("ivanov")
    tab.wait_for_function("location.search.includes('formulation=ivanov')")
    tab.get_by_text("As ivanov").wait_for()
    assert tab.evaluate("document.activeElement.name") == "formulation"
    assert slider.evaluate("slider => slider.checkVisibility()")
    assert not control(tab, "noise").evaluate("slider => slider.disabled")


def test_what_fails_or_breaks_off_is_said_on_the_page_and_the_next_touch_mends_it(tab, explorer):
    open_page(tab, explorer, SMALL)
    for body, says in (('["again", ""]\n', "loss=logistic&p=2"), ('["fault", "SomeError: x"]\n', "SomeError: x")):
        tab.route("**/panels?**", lambda route, _, body=body: route.fulfill(status=200, body=body))
        control(tab, "loss").select_option("logistic")
        tab.get_by_role("alert").get_by_text(says).wait_for()
        tab.unroute("**/panels?**")
        control(tab, "loss").select_option("hinge")
        tab.get_by_role("alert").wait_for(state="detached")


def test_what_takes_long_is_said_and_does_not_hold_up_the_next_touch(tab, explorer):
    open_page(tab, explorer, SMALL)
    held = []
    tab.route("**/panels?**loss=logistic**", lambda route: held.append(route))  # no answer comes
    control(tab, "loss").select_option("logistic")
    tab.get_by_text("Computing what the controls say").wait_for()
    assert tab.locator("#results").evaluate("results => getComputedStyle(results).opacity") == "0.4"
    control(tab, "loss").select_option("squared")
    tab.get_by_text("loss squared").first.wait_for()
    tab.get_by_text("Computing what the controls say").wait_for(state="hidden")
    assert len(held) == 1


def test_a_walk_by_keyboard_goes_on(tab, explorer):
    open_page(tab, explorer, SMALL)
    tab.get_by_role("button", name=re.compile("^ivanov to tikhonov")).press("Enter")
    tab.get_by_label("1 step from Ivanov: lp ball, now at Tikhonov").wait_for()
    assert tab.evaluate("document.activeElement.textContent") not in ("back", "")
    tab.get_by_role("button", name="back").press("Enter")
    tab.get_by_label("0 steps from Ivanov").wait_for()
    assert tab.evaluate("document.activeElement.name") == "walk"


def test_the_code_is_copied(tab, explorer):
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_page(tab, explorer, SMALL)
    tab.locator("pre").filter(has_text="mklref.solve(problem)").wait_for()
    tab.get_by_role("button", name="Copy").click()
    tab.get_by_text("copied", exact=True).wait_for()
    copied = tab.evaluate("navigator.clipboard.readText()")
    compile(copied, "copied", "exec")
    assert copied.startswith("import mklref\n")


CONTRASTS = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = channels(colour).slice(0, 3).map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if ((channels(colour)[3] ?? 1) > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = [...document.querySelectorAll("body *:not(svg *, script, style, option, [aria-hidden])")].filter(
    (e) => e.checkVisibility() && !e.disabled && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()));
  return texts.map((e) => {
    const [high, low] = [light(getComputedStyle(e).color), light(behind(e))].sort((a, b) => b - a);
    return [(high + 0.05) / (low + 0.05), e.className || e.tagName, e.textContent.slice(0, 40)];
  });
}"""
"""The contrast of every text that can be seen with what is behind it."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_the_contrast_that_guidelines_ask_for(tab, explorer, scheme):
    tab.emulate_media(color_scheme=scheme)
    open_page(tab, explorer, SMALL)
    tab.locator("#code pre").wait_for()
    seen = tab.evaluate(CONTRASTS)
    assert len(seen) > 100
    assert [text for text in seen if text[0] < 4.5] == []


@pytest.mark.parametrize("width", [400, 800])
def test_narrow_screens_show_it_without_a_sideways_scroll_and_what_is_wrong_below_its_control(tab, explorer, width):
    tab.set_viewport_size({"width": width, "height": 800})
    open_page(tab, explorer, replace(SMALL, kernels="rbf:"))
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    box, said = (part.bounding_box() for part in (control(tab, "kernels"), tab.locator("#complaint-kernels")))
    assert box["x"] == said["x"]
    assert 0 <= said["y"] - (box["y"] + box["height"]) < 40
    assert control(tab, "kernels").get_attribute("aria-invalid") == "true"


def test_a_page_that_one_comes_back_to_shows_what_its_controls_say(tab, explorer):
    open_page(tab, explorer, SMALL)
    tab.route("**/panels?**loss=logistic**", lambda route: None)  # no answer comes, and the address stays
    control(tab, "loss").select_option("logistic")
    tab.goto("about:blank")
    tab.go_back()
    finished(tab)
    assert control(tab, "loss").input_value() == "hinge"  # browsers put back what was chosen last
    tab.get_by_text("loss hinge").first.wait_for()


def test_without_scripts_the_page_says_so_and_promises_nothing(chromium, explorer):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(explorer)
    assert page.inner_text("body").split("\n\n")[1:] == [
        "The page asks for its panels by a script, and scripts are off: allow them for this address."
    ]
    context.close()


def test_long_numbers_beside_an_axis_are_not_cut(tab):
    axes = views.Axes((0.0, 1.0), (0.0, 1.0), "a picture")
    axes.ticks([], [(0.5, "-1.888e-18")])
    tab.set_content(f"<body style='font-family: sans-serif'>{axes.svg()}")
    text, whole = (tab.locator(name).bounding_box() for name in ("text", "svg"))
    assert text["x"] >= whole["x"]


def test_the_server_answers_this_machine_and_whoever_has_the_token(explorer):
    address, token = explorer.split("?access_token=")
    assert address.startswith("http://127.0.0.1:")
    with urlopen(f"{address}?access_token={token}&C=1000", timeout=60) as answer:
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        text = answer.read().decode()
    assert "<option selected>moons</option>" in text
    state = json.loads(re.search(r'id="state">(.*?)</script>', text)[1].replace(r"\u003c", "<"))
    assert state["C"] == ["1000.0", "10.0"]
    with urlopen(f"{address}panels?access_token={token}&samples=20", timeout=60) as answer:
        panels = [json.loads(line) for line in answer]
    assert panels[-1] == ["end", ""]
    with urlopen(f"{address}?access_token={token}&data=/own.csv", timeout=60) as answer:
        assert "<option selected>/own.csv</option>" in answer.read().decode()
    astray = [
        (address, {}, 403),
        (f"{address}?access_token={token}x", {}, 403),
        (f"{address}panels?access_token=", {}, 403),
        (f"{address}?access_token={token}", {"Host": "elsewhere.example"}, 403),
        (f"{address}nothing?access_token={token}", {}, 404),
    ]
    for url, headers, status in astray:
        with pytest.raises(HTTPError) as refused, urlopen(Request(url, headers=headers), timeout=60):
            pass
        assert refused.value.code == status
        assert token not in refused.value.read().decode()


def test_a_request_for_no_address_is_refused_in_words(explorer):
    address = explorer.partition("?")[0]
    host = address.removeprefix("http://").rstrip("/")
    name, _, port = host.partition(":")
    for target in ("http://[", "http://a]b/"):
        with socket.create_connection((name, int(port)), timeout=60) as connection:
            connection.sendall(f"GET {target} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            assert b" 403 " in connection.recv(64)
    with pytest.raises(HTTPError) as refused:
        urlopen(f"{address}panels?kernels={'linear,' * 10000}", timeout=60)
    with refused.value as answer:
        assert (answer.code, b"<" in answer.read()) == (414, False)  # which the page shows as it is
