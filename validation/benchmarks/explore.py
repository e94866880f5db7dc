"""What a change in `mklref explore` takes: the panels of its page, each in milliseconds of the processor.

    python -m validation.benchmarks.explore [--samples 200]

A page is opened, and one control after another is moved and moved back. What is measured is what its panels compute,
without the conic solvers, which work in the background. The exit code is 1 if a change takes more than 300 ms. The
last column is what comes later: the end of a long solve, and the rest of the paths.

    python -m validation.benchmarks.explore --browser

does it as a user would, in Chromium, on the clock: from the command to the first interval, and from the touch of a
control to the interval that follows it. A clock says as much about the machine as about the page, so the first line is
what ten million additions take in Python: about half a second on a core that nobody shares.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import time
import timeit
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from mklref.explore import app, work
from mklref.explore.state import REGULARIZERS, State
from mklref.losses import LOSSES

MOST = 300.0
"""Milliseconds that a change may take: what follows the hand."""
CHANGES: tuple[dict[str, Any], ...] = (
    {"C": 0.01},
    {"C": 1000.0},
    {"p": "1"},
    {"p": "2"},
    {"p": "inf"},
    *({"loss": loss} for loss in LOSSES if loss != "hinge"),
    *({"regularizer": name} for name in REGULARIZERS if name != State.regularizer),
    {"regularizer": "groups", "C": 1000.0, "data": "toy"},
    {"regularizer": "groups", "C": 1000.0, "loss": "squared_hinge"},
    {"regularizer": "block norm", "p": "inf", "C": 1000.0, "loss": "pinball"},
    {"samples": 60},
    {"noise": 0.4},
    {"data": "rings"},
    {"data": "toy"},
    {"data": "breast_cancer"},
    {"kernels": "rbf(0.1..10, 21)"},
    {"kernels": "rbf(0.1..10, 21)", "p": "1"},
    {"walk": "ivanov to tikhonov|tikhonov to ivanov|lp: weights and norms"},
)
COLUMNS = ("again", "optimum", "statement", "primer", "decision", "walk", "code", "paths")
"""Panels that take time; the first one follows the solve."""


def opened(state: State, memory: dict[str, Any]) -> tuple[dict[str, float], float]:
    """Milliseconds until every panel of this state is there after the one before, and of what the background adds."""
    begun, spent = time.process_time(), dict.fromkeys(COLUMNS, 0.0)
    for name, html in app.panels(state, memory, lambda: False):
        assert name != "again" or not html, html
        now = time.process_time()
        if name in spent:
            spent[name], begun = spent[name] + 1e3 * (now - begun), now
        if name == COLUMNS[-1]:
            break
    shown = memory["shown"]
    work.finish(shown, memory, lambda: False)
    for _ in work.further(shown, lambda: False):
        pass
    return spent, 1e3 * (time.process_time() - begun)


INTERVAL = "(document.body.innerText.match(/.* ≤ P\\* ≤ .*/) || [''])[0]"
CHANGED = f"""before => new Promise(shown => {{
    const look = () => {INTERVAL} !== before ? shown(performance.now()) : requestAnimationFrame(look);
    look();
}})"""
RESTS = "document.getElementById('results').getAttribute('aria-busy') === 'false'"
"""Whether everything is shown, what the background computes as well."""
TOUCHES: tuple[tuple[str, str], ...] = (
    ("p (or q of a block norm)", "1"),
    ("p (or q of a block norm)", "2"),
    ("C", "ArrowRight"),
    ("loss", "squared"),
    ("loss", "hinge"),
    ("regulariser", "elastic net (Ivanov)"),
    ("regulariser", "groups"),
    ("data", "rings"),
    ("data", "toy"),
)
"""Controls, and what is chosen there or the key that is pressed."""


def in_a_browser(start: State) -> float:
    """Print the milliseconds from a touch to what is shown, and return the longest."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    command = [sys.executable, "-m", "mklref", "explore", "--no-browser", "--port", "0"]
    additions = min(timeit.repeat("for i in range(10_000_000): s += i", "s = 0", number=1, repeat=2))
    print(f"{'ten million additions':50}{1e3 * additions:8.0f} ms", flush=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        begun, slowest = time.perf_counter(), 0.0
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            address = re.search(r"http\S+", process.stdout.readline())
            assert address
            tab.goto(f"{address.group()}&{urlencode(start.query())}")
            tab.evaluate(CHANGED, "")
            tab.evaluate("addEventListener('input', () => { window.touched = performance.now(); }, true)")
            waited = 1e3 * (time.perf_counter() - begun)
            print(f"{'from the command to the first interval':50}{waited:8.0f} ms", flush=True)
            for label, value in TOUCHES:
                tab.wait_for_function(RESTS, timeout=120_000)
                control = tab.get_by_role("complementary").get_by_label(label, exact=True).last  # of a slider its thumb
                before = tab.evaluate(INTERVAL)
                if value.startswith("Arrow"):
                    control.press(value)
                else:
                    control.select_option(value)
                waited = tab.evaluate(CHANGED, before) - tab.evaluate("touched")
                slowest = max(slowest, waited)
                print(f"{label + ': ' + value:50}{waited:8.0f} ms", flush=True)
            process.send_signal(signal.SIGINT)
        browser.close()
    return slowest


def main() -> int:
    """Print the table; the slowest change decides about the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--browser", action="store_true", help="in Chromium, on the clock")
    arguments = parser.parse_args()
    start = State(samples=arguments.samples)
    if arguments.browser:
        return int(in_a_browser(start) > MOST)
    print(f"{'change':64}" + "".join(f"{name:>11}" for name in ("solve", *COLUMNS[1:], "together", "later")))
    work.prepare()  # as the page does behind its first pictures
    slowest = 0.0
    for change in ({}, *CHANGES):
        work.forget()
        memory: dict[str, Any] = {}
        spent, later = opened(start, memory)
        if change:
            spent, later = opened(replace(start, **change), memory)
            slowest = max(slowest, sum(spent.values()))
        words = ", ".join(f"{name} = {value}" for name, value in change.items()) or "opened"
        print(
            f"{words:64}" + "".join(f"{ms:11.0f}" for ms in (*spent.values(), sum(spent.values()), later)), flush=True
        )
    print(f"the slowest change takes {slowest:.0f} ms; at most {MOST:.0f} are wanted")
    return int(slowest > MOST)


if __name__ == "__main__":
    raise SystemExit(main())
