"""Everything that writes a file, killed at random times and on a full disk: `python tests/writers.py FOLDER SEED`.

Each writer saves one of two versions of its content; whoever reads finds the old or the new one. The children are
forked in a process of their own, which has one thread. Exits with 0, and prints what was found for each writer.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from makers import make_problem

import mklref
from mklref._files import read_arrays, write_arrays, write_text
from mklref.cli.model import TableModel
from mklref.cli.table import save_picture
from mklref.datasets import Dataset
from mklref.estimators.table import TableEncoder
from mklref.synthesis import SynthesisProblem, SynthesisSolution, solve as synthesise
from mklref.testing.vectors.formats import read_record, write_record

KILLS = 3
"""Of each writer."""
ORDER = 40
"""Of the arrays that are written: as many as take longer than a fork."""

Writer = tuple[str, Callable[[Path, int], None], Callable[[Path], Any]]
"""A suffix, a function that writes version 0 or 1 to a path, and one that reads something that tells them apart."""


def writers(rng: np.random.Generator) -> dict[str, Writer]:
    """Of each kind of file one."""
    kernels = np.stack([np.cov(rng.normal(size=(ORDER, 2 * ORDER)), bias=True)] * 8)
    X = rng.normal(size=(ORDER, 3))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    problems = [make_problem(n=12, C=C) for C in (1.0, 2.0)]
    solutions = [mklref.solve(problem) for problem in problems]
    proofs = [
        mklref.certify(p, s.dual_coef, weights=s.weights, intercept=s.intercept, rigorous=True)
        for p, s in zip(problems, solutions, strict=True)
    ]
    signed = [synthesise(SynthesisProblem(kernels[:2], y, lam=lam, p=1, q=1, r=1)) for lam in (0.1, 0.2)]
    samples = Dataset("", X, y, ("a", "b", "c"), "")
    models = [mklref.MKLClassifier("linear, rbf(1)", C=C).fit(samples, y) for C in (1.0, 2.0)]
    encoder = TableEncoder().fit(pandas.DataFrame(X, columns=list(samples.features)))
    tables = [TableModel(model, encoder, "y") for model in models]
    texts = ["".join(f"{value!r}\n" for value in rng.normal(size=20_000)) for _ in range(2)]

    def record(path: Path, k: int) -> None:
        write_record(path, {"kernels": kernels, "y": y, "C": float(k), "loss": "hinge"})

    def picture(path: Path, k: int) -> None:
        from matplotlib.figure import Figure

        def draw() -> Figure:
            return Figure(figsize=(1.0 + k, 1.0))  # without axes, which take longer to draw than the file to write

        save_picture(draw, str(path))

    def certificate(path: Path, k: int) -> None:
        proofs[k].save(path, data=path.with_suffix(".npz"))

    def of_record(path: Path) -> float:
        return float(read_record(path)["C"])

    def facts(path: Path) -> Any:
        return read_arrays(path)[1]

    def plain_solution(path: Path) -> Any:
        return mklref.Solution.load(path).objective

    def synthesis(path: Path) -> Any:
        return SynthesisSolution.load(path).objective

    def model(path: Path) -> Any:
        return mklref.MKLClassifier.load(path).C

    def table(path: Path) -> Any:
        return TableModel.load(str(path)).estimator.C

    return {
        "arrays": (".npz", lambda path, k: write_arrays(path, {"K": kernels}, {"k": k}), facts),
        "text": (".csv", lambda path, k: write_text(path, texts[k]), Path.read_bytes),
        "solution": (".npz", lambda path, k: solutions[k].save(path), plain_solution),
        "synthesis": (".npz", lambda path, k: signed[k].save(path), synthesis),
        "model": (".npz", lambda path, k: models[k].save(path), model),
        "model of a table": (".npz", lambda path, k: tables[k].save(str(path)), table),
        "certificate": (".json", certificate, Path.read_bytes),
        "picture": (".png", picture, Path.read_bytes),
        "NPZ": (".npz", record, of_record),
        "MAT": (".mat", record, of_record),
        "HDF5": (".h5", record, of_record),
        "JSON": (".json", record, of_record),
    }


def child(fault: Callable[[], None]) -> int:
    """The number of a forked process that does something; its exit code is 0 if there was no error."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            fault()
            code = 0
        except BaseException:  # noqa: BLE001  (the process ends here, whatever it is)
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def unchanged(path: Path, before: os.stat_result) -> bool:
    """Whether a file is the one that it was."""
    now = path.stat()
    return (now.st_ino, now.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def killed(path: Path, writer: Writer, rng: np.random.Generator) -> list[int]:
    """Which version was found after each kill."""
    _, write, read = writer
    versions = []
    for k in (0, 1):
        write(path, k)
        versions.append(read(path))
    assert versions[0] != versions[1]
    began = time.perf_counter()
    for k in (0, 1):
        write(path, k)
    pace = time.perf_counter() - began
    found = []
    for _ in range(KILLS):
        before = path.stat()

        def forever() -> None:
            while True:
                write(path, 0)
                write(path, 1)

        pid = child(forever)
        while unchanged(path, before) and os.waitpid(pid, os.WNOHANG) == (0, 0):
            time.sleep(0.001)  # until it has written once
        time.sleep(rng.uniform(0.0, 1.5 * pace))
        os.kill(pid, signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
        found.append(versions.index(read(path)))
    return found


def filled(path: Path, writer: Writer) -> None:
    """No file may grow beyond some bytes, as on a full disk: an error with a name, the old file, and nothing beside."""
    _, write, read = writer
    for part in path.parent.glob(".mklref-*.part"):
        part.unlink()  # of those that were killed
    write(path, 1)
    size = path.stat().st_size  # of what will not fit
    write(path, 0)
    old, beside = read(path), sorted(path.parent.iterdir())

    def full() -> None:
        for limit in (0, size // 2, 9 * size // 10):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            with pytest.raises(OSError, match="too large") as full_disk:
                write(path, 1)
            assert path.stem in str(full_disk.value.filename)

    assert os.waitpid(child(full), 0)[1] == 0
    assert read(path) == old
    assert sorted(path.parent.iterdir()) == beside


if __name__ == "__main__":
    folder, rng = Path(sys.argv[1]), np.random.default_rng(int(sys.argv[2]))
    for name, writer in writers(rng).items():
        home = folder / name.replace(" ", "-")
        home.mkdir()
        path = home / f"file{writer[0]}"
        print(name, killed(path, writer, rng), flush=True)  # noqa: T201
        filled(path, writer)
