"""A real browser: Debian's or anybody's Chromium, driven by playwright, without a network.

Where there is none the tests are skipped; MKLREF_REQUIRE_BROWSER, which .ci/run sets, makes that a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="session")
def chromium():
    """The browser."""
    missing = pytest.fail if os.environ.get("MKLREF_REQUIRE_BROWSER") else pytest.skip
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed: pip install playwright")
    where = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if where is None:
        missing("there is no Chromium on this machine: apt install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=where, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium):
    """A tab that fails the test for any error on its console, and for any request that leaves the machine."""
    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(60_000)
    page = context.new_page()
    complaints = []
    page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    local = re.compile(r"^(file:|data:|blob:|https?://127\.0\.0\.1[:/]|ws://127\.0\.0\.1[:/])")
    page.on("request", lambda request: local.match(request.url) or complaints.append(f"asks for {request.url}"))
    yield page
    context.close()
    assert complaints == []


@pytest.fixture(scope="session")
def panels(tmp_path_factory):
    """The page with the panels, without what Sphinx puts around it, and without the stills that a build draws."""
    site = tmp_path_factory.mktemp("site")
    (site / "_static").symlink_to(DOCS / "_static")
    blocks = re.findall(r":::\{raw\} html\n(.*?):::", (DOCS / "touch.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    head = '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    style = '<link rel="stylesheet" href="_static/pages.css"><link rel="icon" href="data:,"><body>'
    page = re.sub(r'src="_static/[\w-]+\.svg"', 'src="data:image/svg+xml,"', "\n".join(blocks))
    (site / "touch.html").write_text(head + style + page, encoding="utf-8")
    return (site / "touch.html").as_uri()


@pytest.fixture(scope="module")
def explorer():
    """The address of a running explorer, with its token."""
    missing = pytest.fail if os.environ.get("MKLREF_REQUIRE_BROWSER") else pytest.skip
    if find_spec("math_core") is None:
        missing("math-core is not installed: pip install 'mklref[explore]'")
    command = [sys.executable, "-P", "-m", "mklref", "explore", "--no-browser", "--port", "0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # What runs in the background of a shell may ignore it.
        preexec_fn=None if sys.platform == "win32" else lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        yield re.search(r"http\S+", process.stdout.readline()).group()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0  # Ctrl-C ends it well
    assert "Traceback" not in out + err
