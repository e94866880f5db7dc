from __future__ import annotations

import gc
import itertools
import os
import signal
import sys
import threading
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from makers import make_kernels, make_samples

import mklref

sys.path.append(str(Path(__file__).parents[1]))  # `validation` is no part of the package; behind what is installed
collect_ignore = ["validation"] if sys.platform == "win32" else []  # which forks, and measures memory as POSIX does
gc.disable()  # thousands of tests are made, and none is garbage: looking for it would take half of the time


def pytest_report_header() -> str:
    """Which package is tested: with importlib's import mode and plain `pytest` it is the installed one."""
    core = "compiled" if mklref.native.AVAILABLE else mklref.native.WHY
    return f"mklref {mklref.__version__} from {mklref.__path__[0]}, native core: {core}"


def pytest_addoption(parser):
    group = parser.getgroup("mklref's own tests")
    group.addoption("--all", action="store_true", help="the whole of every grid, and what is marked thorough")
    group.addoption("--draw", type=int, default=0, metavar="K", help="another sample of the grids (default 0)")
    group.addoption("--rest", action="store_true", help="what is left out without it, if no test is named")
    group.addoption("--share", default="0/1", metavar="I/K", help="of these, part I of K: 0/K to (K-1)/K are all")


def pytest_configure(config):
    """Each of several processes has one thread of BLAS, unless told otherwise: idle threads spin.

    A signal that ends the tests, as `timeout` sends it, is none to the commands that they run in this process: these
    would end with 130, and the tests go on.
    """
    for name in ("SIGTERM", "SIGHUP"):
        if signal.getsignal(number := getattr(signal, name, signal.SIGTERM)) is signal.SIG_DFL:
            signal.signal(number, _end)
    if getattr(config.option, "numprocesses", None):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _end(number, frame):
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def pytest_collection_modifyitems(config, items):
    """One case in k of a grid that is marked `sampled(k)`, at least one, and nothing that is marked `thorough`.

    Which cases: first those with a value of a parameter that none before them has, then any, by the hashes of name and
    draw: the same ones on every machine and in every process.
    """
    if config.getoption("--all") or any("::" in argument for argument in config.args):  # what is named runs
        return
    kept = {item for item in items if not any(map(item.get_closest_marker, ("sampled", "thorough")))}
    grids = [item for item in items if item.get_closest_marker("sampled")]
    for _, grid in itertools.groupby(grids, lambda item: item.nodeid.partition("[")[0]):
        cases = sorted(grid, key=lambda item: zlib.crc32(f"{item.nodeid} {config.getoption('--draw')}".encode()))
        firsts, seen = [], set()
        for case in cases:
            values = set(enumerate(case.nodeid.partition("[")[2].rstrip("]").split("-")))
            firsts += [case] * (not values <= seen)
            seen |= values
        size = -(-len(cases) // cases[0].get_closest_marker("sampled").args[0])
        kept.update(list(dict.fromkeys([*firsts, *cases]))[:size])
    if config.getoption("--rest"):
        kept = set(items) - kept
    number, parts = map(int, config.getoption("--share").split("/"))
    kept = {item for item in kept if zlib.crc32(item.nodeid.encode()) % parts == number}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def pytest_collection_finish():
    """From here on garbage is looked for among what tests make, and seldom: a quarter less time, and one more."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def _nothing_waits_for_the_disk():
    """No loss of power has to spare what tests write, and a small file waits for the disk longer than for all else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: os.fstat(descriptor) and None)
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed, fresh for each test."""
    return np.random.default_rng(20080417)


@pytest.fixture(scope="module")
def data():
    """Three kernels of 27 samples and their three classes, where a file has no data of its own."""
    rng = np.random.default_rng(3)
    X = make_samples(rng, 27)
    return make_kernels(rng, X, M=3), np.digitize(X[:, 0] + 0.4 * rng.normal(size=27), [-0.5, 0.5])


@pytest.fixture(scope="module")
def client():
    """Two workers of a Dask cluster in this process."""
    with mklref.local_client(2, processes=False) as made:
        yield made


@pytest.fixture
def run(capsys):
    """A function: what a command prints, after it has ended with this exit code."""
    from mklref.cli import main

    def ended(arguments: list[str], code: int = 0):
        capsys.readouterr()
        assert main(arguments) == code
        return capsys.readouterr()

    return ended


@pytest.fixture
def refused(run):
    """A function: the line on standard error with which a command refuses these arguments."""

    def line(arguments: list[str]) -> str:
        captured = run(arguments, 2)
        assert captured.err.count("\n") == 1, captured.err
        assert "Traceback" not in captured.out + captured.err
        assert captured.err.startswith("mklref: error: ")
        return captured.err

    return line


@pytest.fixture
def calls_of(monkeypatch):
    """calls_of(home, name, note): from now on the list of note(*arguments) of its calls; else of their arguments."""

    def at(home, name, note=lambda *arguments, **options: arguments):
        honest, calls = getattr(home, name), []

        def observed(*arguments, **options):
            calls.append(note(*arguments, **options))
            return honest(*arguments, **options)

        monkeypatch.setattr(home, name, observed)
        return calls

    return at


@pytest.fixture
def interrupt(monkeypatch):
    """interrupt(home, name, k): the k-th call of a function sends SIGINT to this process, as Ctrl-C does.

    A signal is handled by the main thread, when its turn comes: a task of another thread waits until it has to stop,
    or on a busy machine the others would all be finished by then.
    """
    from mklref.estimators.workers import poll  # after scikit-learn, which one who hands out tests need not wait for

    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def at(home, name, k):
        honest, calls = getattr(home, name), []

        def observed(*arguments, **options):
            calls.append(1)
            if len(calls) == k:
                os.kill(os.getpid(), signal.SIGINT)
                while threading.current_thread() is not threading.main_thread():
                    time.sleep(1e-3)
                    poll()
            return honest(*arguments, **options)

        monkeypatch.setattr(home, name, observed)

    yield at
    signal.signal(signal.SIGINT, before)
