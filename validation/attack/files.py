"""Files of strangers: each valid file that this package reads, with something wrong, and what comes of it.

A file is read as it stands or refused: an error of the package's tree, or of the operating system; on the command line
one line and exit code 2, within a minute and without a traceback. What is read means what a plain reader of the format
finds: `np.load`, `json`, `loadmat`, `h5py`, `csv`. A certificate that is confirmed holds for the problem it states.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from mklref import EpsilonInsensitive, Lp, MKLClassifier, MKLOneClass, MKLRegressor, Problem, Solution, certify, solve
from mklref.cli import main
from mklref.cli.model import TableModel
from mklref.exceptions import MKLError, MKLWarning
from mklref.synthesis import SynthesisProblem, SynthesisSolution, solve as synthesise
from mklref.testing.vectors import record_of_problem, write_record
from validation.attack import Finding, _mutations as change, at_most, each
from validation.attack._holds import (
    answer_as_stated,
    certificate_is_true,
    data_are_certified,
    problem_as_stated,
    problem_beside,
    saves_the_same,
    set_as_listed,
    table_as_stated,
)

SECONDS = 60
"""After which a case hangs."""
LIMIT = 2**26
"""MKLREF_MAX_BYTES of the attack: what a case may unpack."""


@dataclass(frozen=True)
class Target:
    """A file that is changed, how, and what has to hold then."""

    file: str
    mutations: tuple[change.Mutation, ...]
    check: Callable[[Path], str | None]
    """What is wrong with the reading of a changed file, or None; may raise what readers may raise."""
    command: tuple[str, ...] = ()
    """Arguments of `mklref` that read the file."""


def attack(cases: int, rng: np.random.Generator) -> list[Finding]:
    """Change `cases` files, chosen in turn, and return what was not read as it stands and not refused either."""
    before = os.environ.get("MKLREF_MAX_BYTES")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["MKLREF_MAX_BYTES"] = str(LIMIT)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                targets = _write_all(Path("valid"))
            return each("files", lambda own: _case(targets[own.integers(len(targets))], own), cases, rng)
        finally:
            os.environ.pop("MKLREF_MAX_BYTES")
            if before is not None:
                os.environ["MKLREF_MAX_BYTES"] = before


def _case(target: Target, rng: np.random.Generator) -> Iterator[str]:
    shutil.rmtree("case", ignore_errors=True)
    shutil.copytree("valid", "case")
    path = Path("case") / target.file
    mutation = target.mutations[rng.integers(len(target.mutations))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mutation(path, rng)
    where = f"{target.file} after {mutation.__name__}"
    for what in (lambda: _reading(target.check, path), lambda: _command(target.command, rng)):
        try:
            with at_most(SECONDS), warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", MKLWarning)
                wrong = what()
        except Exception as error:  # noqa: BLE001 - any other error is what is looked for
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            yield f"{where}: {wrong}"[:500]


def _reading(check: Callable[[Path], str | None], path: Path) -> str | None:
    try:
        return check(path)
    except (MKLError, OSError):
        return None


def _command(arguments: tuple[str, ...], rng: np.random.Generator) -> str | None:
    """Run a command in one of four cases."""
    if not arguments or rng.random() > 0.25:
        return None
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    errors = [line for line in err.getvalue().splitlines() if line.startswith("mklref: error")]
    if code not in (0, 1, 2) or len(errors) != (code == 2):
        return f"exit code {code} of {' '.join(arguments)}, {len(errors)} lines: {err.getvalue()}"
    return None


# --- valid files ---------------------------------------------------------------------------------------------------


def _write_all(folder: Path) -> list[Target]:
    """Small valid files of every kind, and what to do with them."""
    folder.mkdir()
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(8, 2)), np.repeat([1.0, -1.0], 4)
    K = np.stack([X @ X.T + 0.1 * np.eye(8), np.exp(-((X[:, None] - X) ** 2).sum(-1))])
    tube = EpsilonInsensitive(0.125)
    problem = Problem(K, X[:, 0] + 0.5 * y, C=2.0, loss=tube, regularizer=Lp(2.0), sample_weight=1.0 + (y > 0))
    solution = solve(problem)
    answer = {"dual_coef": solution.dual_coef, "weights": solution.weights, "intercept": solution.intercept}
    targets = []
    for ending, own in (
        ("npz", (change.members_of, change.members_of)),
        ("mat", (change.variables_of, change.packed_of)),
        ("h5", (change.datasets_of, change.datasets_of)),
        ("json", (change.json_of, change.json_of)),
    ):
        write_record(folder / f"p.{ending}", record_of_problem(problem, name="p", lower=0.0, upper=9.0))
        write_record(folder / f"s.{ending}", answer)
        certifying = ("certify", f"case/p.{ending}", f"case/s.{ending}")
        targets += [
            Target(f"p.{ending}", (change.bytes_of, *own), problem_as_stated, certifying),
            Target(f"s.{ending}", (change.bytes_of, *own), answer_as_stated, certifying),
        ]
    _write_matlab_7_3(folder / "p73.mat", problem)
    targets.append(Target("p73.mat", (change.bytes_of, change.datasets_of, change.datasets_of), problem_as_stated))
    targets.append(Target("p.kernels.csv", (change.bytes_of, change.cells_of), problem_beside))
    archive = (change.bytes_of, change.members_of, change.members_of)
    solution.save(folder / "solution.npz")
    targets.append(Target("solution.npz", archive, saves_the_same(Solution)))
    synthesise(SynthesisProblem(K, y, lam=0.1, p=2, q=1, r=1)).save(folder / "synthesis.npz")
    targets.append(Target("synthesis.npz", archive, saves_the_same(SynthesisSolution)))
    np.savez(folder / "kernels.npz", kernels=K, y=y)
    targets.append(Target("kernels.npz", archive, lambda path: None, ("solve", "--data", "case/kernels.npz")))
    rows = [",".join(map(repr, [*x.tolist(), "ab"[int(t > 0)]])).replace("'", "") for x, t in zip(X, y, strict=True)]
    for name in ("t.csv", "t.csv.gz"):
        text = "\n".join(["age,dose,class", *rows, ""]).encode()
        (folder / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
        solving = ("solve", "--data", f"case/{name}", "--kernels", "linear")
        targets.append(Target(name, (change.bytes_of, change.cells_of), table_as_stated, solving))
    digest = hashlib.sha256((folder / "t.csv.gz").read_bytes()).hexdigest()
    sets = [{"name": "mine", "files": [{"path": "t.csv.gz", "sha256": digest}]}]
    (folder / "MANIFEST.json").write_text(json.dumps({"data_sets": sets}))
    targets.append(Target("MANIFEST.json", (change.bytes_of, change.json_of), set_as_listed))
    kernels = "linear,rbf:0.5..2:2"
    three = np.array(["a", "b", "c", "a"] * 2)
    for model, labels in (
        (MKLClassifier(kernels, norm=Lp(2), class_weight={"a": 2.0}, center=True), three),
        (MKLRegressor(kernels, loss=tube, normalize="spherical"), X[:, 0]),
        (MKLOneClass(kernels, nu=0.5, normalize=None), None),
    ):
        name = f"{type(model).__name__}.npz"
        model.fit(X, labels).save(folder / name) if labels is not None else model.fit(X).save(folder / name)
        targets.append(Target(name, archive, saves_the_same(type(model))))
    with contextlib.redirect_stdout(io.StringIO()):
        fit = ["fit", str(folder / "t.csv"), "--kernels", kernels, "--folds", "2", "--save", str(folder / "table.npz")]
        if main(fit):
            raise RuntimeError("the table was not learned")
    archive = (*archive, change.inner_of, change.inner_of)
    targets.append(
        Target("table.npz", archive, saves_the_same(TableModel), ("predict", "case/table.npz", "case/t.csv"))
    )
    point = certify(problem, solution.dual_coef, weights=solution.weights, intercept=solution.intercept, rigorous=True)
    point.save(folder / "c.json", data=folder / "c.npz")
    targets.append(Target("c.json", (change.bytes_of, change.json_of, change.json_of), certificate_is_true))
    targets.append(Target("c.npz", archive[:3], data_are_certified))
    return targets


def _write_matlab_7_3(path: Path, problem: Problem) -> None:
    """HDF5 with the axes in reverse, as MATLAB writes it."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in record_of_problem(problem).items():
            text = isinstance(value, str)
            codes = np.array([[ord(letter)] for letter in value], dtype=np.uint16) if text else value
            file[name] = codes if text or name == "kernels" else np.atleast_2d(value)
            file[name].attrs["MATLAB_class"] = np.bytes_(b"char" if text else b"double")
        file.create_group("#refs#")
