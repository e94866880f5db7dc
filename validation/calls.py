"""A plugin for pytest, `-p validation.calls`: which tests call which function of mklref, as JSON in $MKLREF_CALLS.

Functions are named by file and first line, `mklref/verify.py:120`, decorators included. What a shared fixture calls,
all tests of its scope call; what is called while tests are collected is listed under `everywhere`, and tests that start
programs, which may call anything, under `programs`. The tests of a function are listed from the fastest to the slowest;
what fails is listed under `failed` alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

_active: list[set[CodeType]] = []
_of_tests: dict[str, set[CodeType]] = {}
_seconds: dict[str, float] = {}
_failed: set[str] = set()
_of_nodes: dict[str, set[CodeType]] = {"": set()}
"""What shared fixtures call, by the node of their scope; "" is the collection."""


def _trace(frame: FrameType, event: str, _: object) -> None:
    if frame.f_code.co_name != "<module>":
        for codes in _active:
            codes.add(frame.f_code)


@contextmanager
def _recorded(codes: set[CodeType]) -> Iterator[None]:
    _active.append(codes)
    sys.settrace(_trace)
    threading.settrace(_trace)
    try:
        yield
    finally:
        _active.remove(codes)
        if not _active:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Record what modules of tests call when they are imported."""
    with _recorded(_of_nodes[""]):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Generator[None, object, object]:
    """Record what a fixture calls that several tests share."""
    if fixturedef.scope == "function":
        return (yield)
    with _recorded(_of_nodes.setdefault(request.node.nodeid, set())):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Record the functions that are called while a test and its fixtures run."""
    started = time.perf_counter()
    try:
        with _recorded(_of_tests.setdefault(item.nodeid, set())):
            return (yield)
    finally:
        _seconds[item.nodeid] = time.perf_counter() - started


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember what fails."""
    if report.failed:
        _failed.add(report.nodeid)


def write() -> None:
    """Write the table of what was recorded so far."""
    package = str(Path.cwd() / "mklref") + os.sep
    table: dict[str, list[str]] = {}
    programs: list[str] = []
    collected = _of_nodes[""]
    for test in sorted(_of_tests.keys() - _failed, key=_seconds.__getitem__):
        shared = [codes for node, codes in _of_nodes.items() if node and test.startswith(node)]
        for code in _of_tests[test].union(*shared):
            if code.co_filename.startswith(package):
                table.setdefault(_name(code), []).append(test.removeprefix("tests/"))
        if subprocess.Popen.__init__.__code__ in _of_tests[test]:
            programs.append(test.removeprefix("tests/"))
    table["programs"] = programs
    table["failed"] = sorted(_failed)
    table["everywhere"] = [_name(code) for code in collected if code.co_filename.startswith(package)]
    Path(os.environ["MKLREF_CALLS"]).write_text(json.dumps(table), encoding="utf-8")


pytest_sessionfinish = write


def _name(code: CodeType) -> str:
    return f"{Path(code.co_filename).relative_to(Path.cwd()).as_posix()}:{code.co_firstlineno}"
