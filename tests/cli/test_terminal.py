"""The commands in a terminal: warnings, interruption, processes and their exit codes, bars and narrow tables."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import wait as futures_wait
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from makers import make_problem
from rich.console import Console

import mklref
from mklref import native, reference
from mklref._conic import SOLVERS
from mklref._crosscheck import chosen_job
from mklref._crosscheck.rows import _conic_row, _process
from mklref.cli import main, render
from mklref.exceptions import Interrupted, SlowWarning

SMALL = ["--samples", "30", "--kernels", "linear,rbf:1..4:2"]
ONE_ROW = ["--formulations", "dual", "--solvers", "CLARABEL"]


def test_warnings_are_one_line(monkeypatch, npz, run):
    import warnings

    path, problem = npz
    solution = native.solve(problem)

    def slow(problem, **options):
        warnings.warn("no compiler\nwas found.", SlowWarning, stacklevel=1)
        return solution

    monkeypatch.setattr(native, "solve", slow)
    assert run(["solve", "--data", path]).err == "mklref: warning: no compiler was found.\n"


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), Interrupted(None)])
def test_interrupt_in_a_row_ends_everything_with_130(monkeypatch, interrupt, run):
    monkeypatch.setattr(native, "solve", Mock(side_effect=interrupt))
    err = run(["crosscheck", *SMALL], 130).err
    assert err.count("\n") == 1
    assert err.startswith("mklref: interrupted")


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Python with these arguments in a process of its own, with the package that this process tests."""
    path = str(Path(mklref.__file__).parent.parent)
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", **environment},
        # A shell's background process starts out deaf to Ctrl-C, and so would its children.
        preexec_fn=None if sys.platform == "win32" else lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        start_new_session=True,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals to a process group")
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("whom", "how"), [("all", "SIGINT"), ("all", "SIGKILL"), ("parent", "SIGTERM"), ("parent", "SIGKILL")]
)
def test_the_processes_of_the_rows_end_with_the_one_that_started_them(how, whom):
    """Ctrl-C reaches a whole group, `kill` one process: either way nobody is left, and nothing but a line is said."""
    arguments = ["-m", "mklref", "crosscheck", "--samples", "200", "--formulations", "dual", "--p", "2", "--jobs", "2"]
    with start(*arguments, PYTHONUNBUFFERED="1") as process:
        assert process.stdout is not None
        while "native" not in process.stdout.readline():  # the other rows are being solved
            pass
        time.sleep(0.2)
        (os.killpg if whom == "all" else os.kill)(process.pid, getattr(signal, how))
        _, err = process.communicate(timeout=60)  # until none of them has the pipes
    if how == "SIGINT":
        assert process.returncode == 130
        assert err.strip().startswith("mklref: interrupted")
        assert err.count("\n") == 1


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_ctrl_c_that_meets_a_fork_does_not_run_the_caller_twice():
    """The copy of the caller's stack in a worker belongs to nobody: no exception may unwind it."""
    code = f"""
import ctypes, os, signal, sys
from functools import partial
import joblib, mklref._crosscheck.rows, mklref.cli  # whose hooks come before ours
signal.signal(signal.SIGINT, signal.default_int_handler)
os.register_at_fork(after_in_child=partial(ctypes.CDLL(None)["raise"], int(signal.SIGINT)))
code = mklref.cli.main({["crosscheck", *SMALL, *ONE_ROW, "--p", "2", "--jobs", "2"]})
print("main returned", code)
"""
    with start("-c", code) as process:
        out, err = process.communicate(timeout=120)
    assert (out.count("main returned 0"), out.count("main returned"), err) == (1, 1, "")


@pytest.mark.skipif(sys.platform != "linux", reason="processes that are not forked see no fault that is planted here")
def test_a_solver_that_kills_its_process_takes_no_other_row_with_it(monkeypatch):
    genuine = reference.Engine._attempt

    def attempt(self, program):
        if self.solver == "ECOS":
            os.kill(os.getpid(), signal.SIGKILL)
        return genuine(self, program)

    monkeypatch.setattr(reference.Engine, "_attempt", attempt)
    check = mklref.crosscheck(make_problem(n=20, M=3), formulations=["dual", "mixed_norm", "ivanov"], processes=2)
    assert check.passed
    assert [(row.label, row.solution is None) for row in check.rows[1:]] == [
        (f"{form}/{solver}", solver == "ECOS") for form in ("dual", "mixed_norm", "ivanov") for solver in SOLVERS
    ]
    assert all("ECOS: its process ended without an answer" in row.note for row in check.rows if row.solution is None)


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="processes that are not forked see no fault that is planted here")
def test_a_solver_that_hangs_is_a_failed_row_and_holds_up_no_other(monkeypatch, calls_of):
    genuine = reference.Engine._attempt

    def attempt(self, program):
        if self.solver == "SCS":
            time.sleep(600.0)
        return genuine(self, program)

    monkeypatch.setattr(reference.Engine, "_attempt", attempt)
    waited = calls_of(
        sys.modules["mklref._crosscheck.rows"], "wait", lambda futures, timeout, **_: (futures[0], timeout)
    )
    before = set(multiprocessing.active_children())
    options = {"formulations": ["dual"], "solvers": ["SCS", "CLARABEL"], "processes": 2, "max_time": 2.0}
    check = mklref.crosscheck(make_problem(n=20, M=3), **options)
    assert check.passed
    late = time.monotonic() + 10.0
    while not set(multiprocessing.active_children()) <= before and time.monotonic() < late:
        time.sleep(0.01)  # it was ended, and the thread of its pool that was told so may not have said it yet
    assert set(multiprocessing.active_children()) <= before  # an earlier test's may be gone by now
    assert [row.status for row in check.rows] == ["optimal", "failed", "optimal"]
    assert "SCS: no answer within max_time = 2 seconds" in check.rows[1].note
    assert check.rows[1].seconds == 2.0
    left = [timeout for future, timeout in waited if future is waited[0][0]]
    assert left == sorted(left, reverse=True)  # another row that is done gives it no more time


def test_a_row_that_was_late_while_nobody_looked_has_failed(monkeypatch):
    monkeypatch.setattr(sys.modules["mklref._crosscheck.rows"], "wait", lambda futures, **limits: futures_wait(futures))
    options = {"formulations": ["dual"], "solvers": ["CLARABEL"], "max_time": 1e-6}
    row = mklref.crosscheck(make_problem(n=20, M=3), **options).rows[1]
    assert row.status == "failed"
    assert "CLARABEL: no answer within max_time = 1e-06 seconds" in row.note
    assert row.seconds > 1e-6


@pytest.mark.thorough
def test_a_process_that_is_not_forked_loads_cvxpy_before_its_first_row(monkeypatch):
    """It takes seconds, within which rows with a limit of time failed."""
    spawn = multiprocessing.get_context("spawn")
    monkeypatch.setattr(multiprocessing, "get_context", lambda method: spawn)
    job = chosen_job(make_problem(n=20, M=3), ["dual"], ["CLARABEL"], 1e-6, 1e-3, 1e-6)
    with _process([job]) as pool:
        assert pool.submit(eval, "'cvxpy' in __import__('sys').modules").result()
        assert pool.submit(_conic_row, 0, "dual", "CLARABEL").result().solution is not None


def test_the_native_row_has_as_much_time_as_the_others(run):
    said = run(["crosscheck", *SMALL, *ONE_ROW, "--p", "2", "--jobs", "1", "--max-time", "1e-9"], code=1).out
    assert "time limit" in said
    assert "no answer within max_time = 1e-09 seconds" in " ".join(said.split())


def test_children_that_are_none_of_its_own_are_left_alone():
    child = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))

    def begin(done, total, label):
        if done == 1:  # while its own are at work
            child.start()

    try:
        problem = make_problem(n=20, M=3)
        mklref.crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"], processes=2, progress=begin)
        assert child.is_alive()
    finally:
        child.kill()
        child.join()


def test_bars():
    assert render._bar(1.0, False) == "█" * 8
    assert render._bar(0.0, False) == " " * 8
    assert render._bar(0.5, False) == "████    "
    assert render._bar(1 / 64, False) == "▏       "
    assert render._bar(0.5, True) == "####    "
    assert {len(render._bar(share, False)) for share in np.linspace(0, 1, 200)} == {8}


def test_bars_of_all_columns_have_one_scale(capsys):
    render.show_weights(render.console(), ["K"], {"native": np.array([1.0]), "dual": np.array([0.5])})
    assert [cell.count("█") for cell in capsys.readouterr().out.splitlines()[1].split()[2::2]] == [8, 4]


def test_many_kernels_are_cut_to_the_largest(capsys):
    weights = np.linspace(0.0, 1.0, 100)
    render.show_weights(render.console(), [f"K{m}" for m in range(100)], {"native": weights})
    out = capsys.readouterr().out
    assert "60 kernels of smaller weight, not shown" in out
    assert "K99" in out
    assert "K59 " not in out


@pytest.mark.parametrize(("width", "bars", "columns"), [(92, 40, 5), (80, 0, 5), (45, 0, 3), (16, 0, 1)])
def test_weights_side_by_side_keep_names_of_kernels_and_digits_in_a_narrow_terminal(capsys, width, bars, columns):
    answers = ["native", "qcqp", "dual", "weighted_primal", "mixed_norm"]
    render.show_weights(Console(width=width), ["rbf:0.5", "poly:1"], {name: np.ones(2) for name in answers})
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[1:] == answers[:columns]
    assert [row.split()[0] for row in rows] == ["rbf:0.5", "poly:1"]
    assert [(row.count("1.0000"), row.count("█")) for row in rows] == [(columns, bars)] * 2


def test_the_name_of_a_kernel_is_cut_before_its_weight(capsys):
    render.show_weights(Console(width=30), ["linear[a long name of a column]"], {"weight": np.ones(1)})
    assert capsys.readouterr().out.splitlines()[1].split()[-1] == "1.0000"


@pytest.mark.parametrize(("width", "hidden"), [(80, ["raw lower", "upper"]), (100, [" lower"]), (130, [])])
def test_rows_keep_their_names_and_values_in_a_narrow_terminal(capsys, width, hidden):
    check = mklref.crosscheck(make_problem(n=20, M=2, C=100.0), formulations=["weighted_primal"], solvers=["CLARABEL"])
    out = Console(width=width, highlight=False)
    render.show_head(out, "title")
    for row in check.rows:
        render.show_row(out, check, row)
    lines = capsys.readouterr().out.splitlines()[2:]
    assert max(map(len, lines)) <= width
    assert lines[-1].startswith("weighted_primal  CLARABEL")
    assert f"{check.rows[1].value:.9g}" in lines[-1]
    assert lines[-1].endswith("optimal")
    assert lines[0].split()[:3] == ["formulation", "solver", "value"]
    for name in hidden:
        assert name not in lines[0].replace("raw lower", "" if name == " lower" else "raw lower")
    assert ("raw lower" in lines[0]) == (width > 80)


@pytest.mark.parametrize(("contradicts", "open_", "colour"), [("x", "", "31"), ("", "x", "33"), ("", "", "")])
def test_rows_and_verdicts_have_the_colour_of_what_they_say(capsys, contradicts, open_, colour):
    """Red, yellow or none; red or green."""
    out = Console(force_terminal=True, color_system="standard", width=130, highlight=False)
    answers = {"native": Mock(solution=Mock(weights=np.ones(2))), "dual": Mock(solution=None)}
    check = Mock(notes=["a note"], best_rows=answers, passed=not contradicts, verdict="said")
    check.contradiction.return_value, check.undecided.return_value = contradicts, open_
    check.cells.return_value, check.problem = render.COLUMNS, make_problem(n=4, M=2)
    render.show_row(out, check, Mock())
    render.show_result(out, check)
    row, note, _, head, *weights, verdict = capsys.readouterr().out.splitlines()
    assert row.startswith(f"\x1b[{colour}m" if colour else "formulation")
    assert "a note" in note
    assert ("native" in head, "dual" in head) == (True, False)
    assert ["1.0000" in line for line in weights] == [True, True]
    assert verdict == f"\x1b[{31 if contradicts else 32}msaid\x1b[0m"


def test_a_terminal_keeps_its_width_and_numbers_stand_below_each_other(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "50")
    assert render.console().width == render.PIPE_WIDTH
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert render.console().width == 50
    table = render.grid("C", "kernels")
    table.add_row("0.1", "2")
    Console(width=50, color_system=None).print(table)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == ["  C  kernels", "0.1        2"]


INTERRUPTED_IMPORT = """
import os, runpy, signal, sys
class Interrupting:
    def find_spec(self, name, *others):
        if name == "mklref.cli.options":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
runpy.run_module("mklref", run_name="__main__")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends the process there")
def test_ctrl_c_while_the_command_line_is_imported_leaves_no_traceback():
    with start("-c", INTERRUPTED_IMPORT) as process:
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (-signal.SIGINT, "")


LATE_INTERRUPTS = {
    "in a destructor": """
class Held:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
def run(arguments):
    Held()
    time.sleep(60.0)
cli._run = run
""",
    "after the work": "atexit.register(os.kill, os.getpid(), signal.SIGINT)",
}
MAIN = """
import atexit, os, runpy, signal, sys, time
from mklref import cli
{}
runpy.run_module("mklref", run_name="__main__")
"""


@pytest.mark.sampled(2)
@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends the process there")
@pytest.mark.parametrize(
    ("where", "ends"), [("in a destructor", (130, "mklref: interrupted\n")), ("after the work", (0, ""))]
)
def test_ctrl_c_where_python_drops_exceptions_leaves_no_traceback_and_is_not_lost(where, ends):
    with start("-c", MAIN.format(LATE_INTERRUPTS[where]), "list") as process:
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == ends


class Held:
    """What Ctrl-C meets as it is destroyed."""

    def __del__(self):
        raise KeyboardInterrupt


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="it does not come again there")
def test_ctrl_c_that_comes_again_comes_to_nothing_but_the_command(monkeypatch):
    monkeypatch.setattr("mklref.cli._run", lambda arguments: Held() is not None)
    assert main(["list"]) in (0, 130)  # 130 if the command took as long
    assert not any(isinstance(thread, threading.Timer) for thread in threading.enumerate())


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="it does not come again there")
def test_ctrl_c_that_comes_again_at_the_end_leaves_the_signals_as_they_were(monkeypatch):
    monkeypatch.setattr("mklref.cli._run", lambda arguments: Held() is not None)
    monkeypatch.setattr("mklref.cli._again", lambda: Mock(join=Mock(side_effect=KeyboardInterrupt)))
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        assert main(["list"]) == 130
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_else_python_drops_goes_where_it_went_and_interrupts_nothing(monkeypatch):
    class Broken:
        def __del__(self):
            raise ValueError

    dropped = Mock()
    monkeypatch.setattr(sys, "unraisablehook", lambda what: dropped(what.exc_type))
    monkeypatch.setattr("mklref.cli._run", lambda arguments: Broken() is not None)
    assert main(["list"]) == 0
    dropped.assert_called_once_with(ValueError)


def test_a_signal_that_ends_the_tests_is_none_to_a_command(monkeypatch):
    """Else a run that `timeout` ends goes on, and has failed where the command returned 130."""
    handlers = []
    monkeypatch.setattr("mklref.cli._run", lambda arguments: handlers.append(signal.getsignal(signal.SIGTERM)))
    main(["list"])
    assert handlers != [signal.default_int_handler]


@pytest.mark.skipif(sys.platform == "win32", reason="no code of a closed pipe there")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("writes", ["pass", "cli._run = lambda given: print('much' * 9**6)", "cli._run = print"])
def test_a_reader_that_is_gone_is_no_verdict_and_no_error(writes):
    with start("-c", MAIN.format(writes), "list") as process:
        process.stdout.close()
        err = process.stderr.read()
    assert (process.returncode, err) == (141, "")


def test_a_broken_pipe_to_another_process_is_an_error(monkeypatch, refused):
    monkeypatch.setattr("mklref.cli._run", Mock(side_effect=BrokenPipeError(32, "Broken pipe")))
    assert "Broken pipe" in refused(["list"])


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_standard_streams_may_be_closed(monkeypatch, closed):
    monkeypatch.setattr(f"sys.{closed}", None)
    monkeypatch.setattr("mklref.cli._run", lambda arguments: getattr(sys, closed).write("a line"))
    assert main(["list"]) == 0
    assert main(["list", "--nothing"]) == 2
    getattr(sys, closed).close()
