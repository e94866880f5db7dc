"""The pytest plugin: `pytest --mklref-solver module:function` makes one test of each case of the catalogue.

Without the option it does nothing and imports nothing but pytest and two light modules.

A run that its solver ends is not one that passed. Whoever looks at the exit code of a run sees that of the process that
was started. A solver that ends this process from C or Fortran, as STOP does, or by an `os._exit` of its own, chooses
that code. So the tests run in a child, which says when they are over, and the process that was started does nothing but
wait for it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from mklref.testing.case import Case


def pytest_addoption(parser: pytest.Parser) -> None:
    add = parser.getgroup("mklref", "conformance of a solver of multiple kernel learning").addoption
    add("--mklref-solver", metavar="MODULE:FUNCTION", help="run the catalogue of mklref on this solver")
    add("--mklref-supports", metavar="MODULE:NAME", help="what it is meant for (FUNCTION.supports, or everything)")
    add("--mklref-tol", type=float, default=1e-6, metavar="TOL", help="largest certified relative gap (1e-6)")
    add("--mklref-upto", metavar="X.Y", help="only cases of this version of mklref and earlier ones")
    add("--mklref-include", action="append", metavar="WORD,...", help="only cases with these flags or names, * allowed")
    add("--mklref-exclude", action="append", metavar="WORD,...", help="no cases with these flags or names, * allowed")


def pytest_configure(config: pytest.Config) -> None:
    """With the option and without paths, only the catalogue runs."""
    if config.getoption("--mklref-solver"):
        watch(config)
        config.pluginmanager.register(Tally(), "mklref-tally")
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args = []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--mklref-solver"):
        catalogue = Catalogue.from_parent(session, name="mklref", nodeid="mklref", path=config.rootpath)
        items.extend(catalogue.collect())


class Tally:
    """Counts outcomes: a solver that declines every case has shown nothing, and the run does not pass."""

    def __init__(self) -> None:
        self.ran = self.excluded = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.nodeid.startswith("mklref::"):
            self.excluded += report.skipped
            self.ran += not report.skipped

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.OK and self._empty:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._empty:
            terminalreporter.write_line(
                f"mklref: all {self.excluded} cases were excluded, which shows nothing", red=True
            )

    @property
    def _empty(self) -> bool:
        return self.excluded > 0 == self.ran


class Catalogue(pytest.Collector):
    """The cases that the options select."""

    def collect(self) -> list[CaseItem]:
        from mklref._validate import checked_tolerance
        from mklref.exceptions import MKLError
        from mklref.testing.answer import as_declaration
        from mklref.testing.case import select

        option = self.config.getoption
        if (here := str(self.config.invocation_params.dir)) not in sys.path:  # `python -m pytest` has it already
            sys.path.insert(0, here)
        solver = _named("--mklref-solver", option("--mklref-solver"))
        supports = option("--mklref-supports") and _named("--mklref-supports", option("--mklref-supports"))
        try:
            declaration = as_declaration(supports or None, solver)
            checked_tolerance("--mklref-tol", option("--mklref-tol"))
            cases = select(
                _version(option("--mklref-upto")),
                _words(option("--mklref-include")),
                _words(option("--mklref-exclude")),
            )
        except MKLError as error:
            raise pytest.UsageError(str(error)) from None
        tol = option("--mklref-tol")
        return [
            CaseItem.from_parent(self, name=case.name, case=case, solver=solver, declaration=declaration, tol=tol)
            for case in cases
        ]


class CaseItem(pytest.Item):
    """One case as a test."""

    def __init__(self, *, case: Case, solver: Any, declaration: Any, tol: float, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.case, self.solver, self.declaration, self.tol = case, solver, declaration, tol
        self.extra_keyword_matches.update(case.flags)

    def runtest(self) -> None:
        from mklref.testing.conformance import run_case
        from mklref.testing.result import Outcome

        row = run_case(self.case, self.solver, tol=self.tol, declaration=self.declaration)
        self.user_properties += [("relative_gap", row.relative_gap), ("flags", " ".join(sorted(self.case.flags)))]
        if row.outcome is Outcome.EXCLUDED:
            pytest.skip(row.reason)
        if row.outcome is Outcome.FAILED:
            raise NotConforming(f"{'; '.join(row.faults)}\n{row.message}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The findings, without a traceback through this package."""
        found = isinstance(excinfo.value, NotConforming)
        return str(excinfo.value) if found else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, f"mklref::{self.case.name}"


class NotConforming(AssertionError):
    """A case that failed, with its findings."""


def _named(option: str, text: str) -> Any:
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise pytest.UsageError(f"{option} {text}: give module:name.")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise pytest.UsageError(f"{option} {text}: {error}.") from None
    return found


def _words(options: list[str] | None) -> list[str] | None:
    return None if options is None else [word.strip() for option in options for word in option.split(",")]


def _version(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(".")[:2])
    except ValueError:
        raise pytest.UsageError(f"--mklref-upto {text}: give a version such as 0.1.") from None


def watch(config: pytest.Config) -> None:
    """Go on in a child, where pytest is the program, runs its tests by itself, and the system can fork."""
    started_here = Path(sys.argv[0]).name in ("pytest", "py.test", "__main__.py")
    alone = tuple(sys.argv[1:]) == tuple(config.invocation_params.args) and threading.active_count() == 1
    serial = not config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if not (hasattr(os, "fork") and started_here and alone and serial):
        return
    over, say_over = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads in libraries, none of which holds a lock here
        child = os.fork()
    if child:
        _wait(child, over, config)
    os.close(over)
    config.add_cleanup(lambda: _say(say_over))


def _say(pipe: int) -> None:
    os.write(pipe, b"over")
    os.close(pipe)


def _wait(child: int, over: int, config: pytest.Config) -> NoReturn:
    """End as the child ends, but for a success before the tests were over."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child gets it, too
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(child, number))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.set_blocking(over, False)
    try:
        said = os.read(over, 4)
    except BlockingIOError:  # a process that the solver has left behind holds the other end
        said = b""
    if not said and code == 0:
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=True)
        sys.stderr.write("mklref: the solver ended the process with exit code 0 before the tests were over.\n")
        sys.stderr.flush()
        code = int(pytest.ExitCode.INTERNAL_ERROR)
    os._exit(code if code >= 0 else 128 - code)
