"""What a file of results says of its run: when, of which code, with which versions, on which machine, and how busy."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mklref
from mklref import native
from mklref._files import write_text
from mklref._threads import threads

ROOT = Path(__file__).parents[1]
CODE = ("mklref", "validation")
RESULTS = "validation/results"
PACKAGES = ("numpy", "scipy", "scikit-learn")


def results_file(text: str) -> Path:
    """The type of an option --json: a file whose directory is there, before hours are spent on what goes into it."""
    path = Path(text)
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} cannot be written: it is a directory, or in none")
    return path


def facts() -> dict[str, Any]:
    """Of this process, now."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "mklref": mklref.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "machine": processor(),
        "cores": os.cpu_count(),
        "threads": threads(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def stored_rows(path: Path | None) -> list[dict[str, Any]]:
    """The rows of a file, if it is there."""
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"] if path and path.exists() else []
    return found


def store_rows(path: Path | None, rows: list[dict[str, Any]]) -> None:
    """Write rows with the facts of the run, one a line, if there is a file to write them to."""
    if path:
        lines = ",\n".join(map(json.dumps, rows))
        write_text(path, f'{{"facts": {json.dumps(facts())},\n"rows": [\n{lines}\n]}}\n')


def require_core() -> None:
    """Refuse to time the NumPy twin of the compiled loops.

    Raises
    ------
    SystemExit
        With the reason why the loops are missing, and what to do.
    """
    if not native.AVAILABLE:
        raise SystemExit(f"Nothing is timed without the compiled core. {native.WHY}")


@cache
def commit(root: Path = ROOT) -> str | None:
    """The commit that is checked out, with a + if the code was changed since; None outside of a checkout."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        head = git("rev-parse", "--short=8", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", *CODE, f":(exclude){RESULTS}")
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head}+" if changed else head


def processor() -> str:
    """Its name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
