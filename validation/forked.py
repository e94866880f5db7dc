"""A plugin for pytest, `-p validation.forked`: mutants, each in a fork of one process that has collected the tests.

NumPy, the package and the tests are imported once. A first fork runs all tests and says which of them call which
function (`validation.calls`); those that fail judge nothing. Then each mutant gets a fork of its own, which puts the
fault into the functions that are there, by their code objects, and runs the tests that call the function around it, the
fastest first, until one fails. Meanwhile the fault is also in the file, for programs that tests start. A new process
judges what a fork cannot: faults outside of bodies, which importing executes, and survivors in functions that no test
calls, or that a module of tests calls when it is imported. With a budget for the first fork, tests that it does not
reach are not asked: of each module it runs one case of every test first.

$MKLREF_MUTANTS is a file of JSON, the mutants, the tests of their part and the budget in seconds of a processor;
$MKLREF_RESULTS the number of a pipe to which a line goes for each: its number, how it ended, and seconds.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from validation import calls
from validation.mutants import KILLED, LIMIT, SURVIVED, outcome
from validation.random_mutants import Mutant


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Judge the mutants, in place of running the tests."""
    gc.unfreeze()  # functions that the tests have frozen are not among the objects of the collector
    facts = json.loads(Path(os.environ["MKLREF_MUTANTS"]).read_text(encoding="utf-8"))

    def healthy() -> int:
        _run_within(session, facts["budget"])
        calls.write()
        return 0

    known = Path(os.environ["MKLREF_CALLS"])
    if not known.is_file() and (code := in_a_fork(healthy, resource.RLIM_INFINITY)):
        raise pytest.UsageError(f"the tests without a fault end with exit code {code}")
    items = {item.nodeid.removeprefix("tests/"): item for item in session.items}
    table = json.loads(known.read_text(encoding="utf-8"))
    session.config.pluginmanager.unregister(calls)
    with os.fdopen(int(os.environ["MKLREF_RESULTS"]), "w") as results:
        for number, row in enumerate(facts["mutants"]):
            started = time.perf_counter()
            found = _judged(session, items, Mutant(**row), table, tuple(facts["tests"]))
            print(json.dumps([number, found, time.perf_counter() - started]), file=results, flush=True)
    return True


def _judged(
    session: pytest.Session,
    items: dict[str, pytest.Item],
    mutant: Mutant,
    table: dict[str, list[str]],
    tests: tuple[str, ...],
) -> str:
    path = Path.cwd() / mutant.file
    healthy = path.read_bytes()
    calling = list(dict.fromkeys(table.get(mutant.function, []) + table["programs"]))
    changes = planted(mutant, path) if mutant.inside else []
    path.write_bytes(mutant.applied(healthy))
    try:
        if mutant.function in table and changes:

            def run() -> int:
                for function, code in changes:
                    function.__code__ = code
                return _run(session, [items[test] for test in calling if test in items], until_one_fails=True)

            found = ended(in_a_fork(run))
            if found != SURVIVED or mutant.function not in table["everywhere"]:
                return found
        file = [test for name, own in table.items() if name.startswith(f"{mutant.file}:") for test in own]
        return outcome(Path.cwd(), tuple(dict.fromkeys(calling + file)) or tests)
    finally:
        path.write_bytes(healthy)


def planted(mutant: Mutant, path: Path) -> list[tuple[FunctionType, CodeType]]:
    """The functions of this process that hold the fault, with the code that they get; none if that cannot be done."""
    program = compile(mutant.applied(path.read_bytes()), str(path), "exec", dont_inherit=True)
    new = {(code.co_qualname, code.co_firstlineno): code for code in _codes(program)}
    found = []
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename == str(path):
            old = function.__code__
            lines = [line for code in _codes(old) for *_, line in code.co_lines() if line]
            if old.co_firstlineno <= mutant.line <= max(lines):
                code = new[old.co_qualname, old.co_firstlineno]
                if code.co_freevars != old.co_freevars:
                    return []
                found.append((function, code))
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and all that are in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _run(session: pytest.Session, items: list[pytest.Item], *, until_one_fails: bool = False) -> int:
    """Whether a test fails."""
    for item, following in zip(items, [*items, None][1:], strict=True):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if until_one_fails and session.testsfailed:
            break
    return int(session.testsfailed > 0)


def _run_within(session: pytest.Session, budget: float) -> None:
    """Run as many tests as so many seconds of a processor allow, of which each module has the same share."""
    modules: dict[str, list[pytest.Item]] = {}
    for item in session.items:
        modules.setdefault(item.nodeid.partition("::")[0], []).append(item)
    end = _processor() + budget
    for k, own in enumerate(modules.values()):
        last = _processor() + (end - _processor()) / (len(modules) - k)
        for item, following in pairwise([*in_turn(own), None]):
            if _processor() > last:
                break
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        session._setupstate.teardown_exact(None)


def in_turn(items: list[pytest.Item]) -> list[pytest.Item]:
    """The first case of each test, then the second one of each, and so on."""
    seen: Counter[str] = Counter()
    turns = []
    for item in items:
        test = item.nodeid.partition("[")[0]
        turns.append(seen[test])
        seen[test] += 1
    return [items[k] for k in sorted(range(len(items)), key=turns.__getitem__)]


def _processor() -> float:
    """Seconds of a processor of this process and of its children."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def in_a_fork(run: Callable[[], int], seconds: int = LIMIT) -> int:
    """The exit code of a function in a fork with so many seconds of a processor; -k if signal k ended it."""
    pid = os.fork()
    if not pid:
        code = 70  # an error of the fork itself
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
            code = run()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def ended(code: int) -> str:
    """What an exit code says of a mutant."""
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"no verdict within {LIMIT} s"
    return {0: SURVIVED, 1: KILLED}.get(code, f"exit code {code}")
