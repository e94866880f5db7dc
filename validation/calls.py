"""A plugin for pytest, `-p validation.calls`: which tests call which function of mklref, as JSON in $MKLREF_CALLS.

Functions are named by file and first line, `mklref/verify.py:120`, decorators included.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from types import FrameType

import pytest

_calls: dict[str, set[str]] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Record the functions that are called while a test and its fixtures run."""
    codes = set()

    def trace(frame: FrameType, event: str, _: object) -> None:
        codes.add(frame.f_code)

    sys.settrace(trace)
    threading.settrace(trace)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        package = str(Path.cwd() / "mklref") + os.sep
        for code in codes:
            if code.co_filename.startswith(package):
                file = Path(code.co_filename).relative_to(Path.cwd()).as_posix()
                _calls.setdefault(f"{file}:{code.co_firstlineno}", set()).add(item.nodeid.removeprefix("tests/"))


def pytest_sessionfinish() -> None:
    """Write the table."""
    table = {function: sorted(tests) for function, tests in sorted(_calls.items())}
    Path(os.environ["MKLREF_CALLS"]).write_text(json.dumps(table), encoding="utf-8")
