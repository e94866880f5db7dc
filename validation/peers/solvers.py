"""Solvers that learn weights, each asked for a tolerance of its own: what `validation.peers.gaps` compares.

A solver is a function of a problem and a tolerance that returns (dual_coef, weights, intercept), or raises
NotApplicable. What it calls its tolerance does not matter: the certified gap of the answer is measured.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import SVC

import mklref
from mklref import reference
from mklref._typing import Array
from mklref.algorithms import ALGORITHMS
from mklref.exceptions import MKLError, NotApplicable
from mklref.problem import Problem
from mklref.regularizers import Lp
from mklref.testing.vectors import read_answer, write_record
from mklref.testing.vectors.schema import record_of_problem

try:  # here, so that the import is in nobody's seconds
    import MKLpy.algorithms as mklpy
    import torch
except ImportError:
    mklpy = None

Answer = tuple[Any, Any, Any]
Solver = Callable[[Problem, float], Answer]

CONIC, ENTRIES = 400, 10_000_000
"""Samples, and entries of all kernels, up to which conic solvers are asked: their time grows with n^3 and more."""
LONGEST = 10.0
"""Seconds of the processor after which the papers' algorithms return the best point so far, whatever the tolerance."""
STEPS = 1000
"""Changes of the weights in the loop around SVC."""
OCTAVE_ENDS = re.compile(r"^error: (?:called from|ignoring const execution_exception)", re.MULTILINE)
"""What Octave says after the error that matters."""


def answered(solution: Any) -> Answer:
    """The parts of a solution."""
    return solution.dual_coef, solution.weights, solution.intercept


def native(problem: Problem, tol: float) -> Answer:
    """The solver of this library."""
    return answered(mklref.solve(problem, tol=tol))


def conic(problem: Problem, tol: float) -> Answer:
    """The dual formulation by a conic solver."""
    if problem.n_samples > CONIC or problem.n_kernels * problem.n_samples**2 > ENTRIES:
        raise NotApplicable(f"more than {CONIC} samples, or {ENTRIES} entries")
    return answered(reference.solve(problem, "dual", tol=tol))


def loop_around_svc(problem: Problem, tol: float) -> Answer:
    """What users of scikit-learn write for p > 1: SVC, the closed form of the weights, until these settle.

    theta_m ~ (theta_m g_m)^(2/(p + 1)) with ||theta||_p = 1, g_m^2 = beta'K_m beta; `tol` is that of SVC and of the
    weights.
    """
    own = problem.regularizer
    if not (isinstance(own, Lp) and 1.0 < own.p < np.inf):
        raise NotApplicable("needs 1 < p < inf")
    theta = np.full(problem.n_kernels, problem.n_kernels ** (-1.0 / own.p))
    for _ in range(STEPS):
        beta, _, b = svc(problem, theta, tol)
        found = own.weights_from_norms(theta * problem.kernels.norms(beta))
        if np.abs(found - theta).max() <= tol * theta.max():
            break
        theta = found
    return beta, theta, b


def mean_kernel_svc(problem: Problem, tol: float) -> Answer:
    """SVC on the mean of the kernels: what learning the weights is worth."""
    return svc(problem, problem.regularizer.weights_from_norms(np.ones(problem.n_kernels)), tol)


def weights_of_mklpy(algorithm: str, problem: Problem, tol: float) -> Answer:
    """The weights of an algorithm of MKLpy, scaled onto ||theta||_p = 1, and SVC on them.

    AverageMKL is the mean. EasyMKL's objective is another one, the margin between distributions: its gap says what its
    weights are worth for ours. R-MKL and GRAM have radius and margin in theirs, and CKA weights below 0.
    """
    if mklpy is None or not isinstance(problem.regularizer, Lp):
        raise NotApplicable("needs MKLpy, and an lp ball")
    model = getattr(mklpy, algorithm)(learner=SVC(), tolerance=tol)
    found = model.combine_kernels([torch.tensor(K, dtype=torch.float64) for K in problem.kernels.dense()], problem.y)
    theta = np.asarray(found.weights, dtype=np.float64)
    return svc(problem, theta / np.linalg.norm(theta, problem.regularizer.p), tol)


def svc(problem: Problem, theta: Array, tol: float) -> Answer:
    """scikit-learn's machine at fixed weights."""
    if problem.loss.name != "hinge" or not problem.intercept or problem.sample_weight is not None:
        raise NotApplicable("needs the hinge loss with an intercept")
    machine = SVC(C=problem.C, kernel="precomputed", tol=tol).fit(problem.kernels.combine(theta), problem.y)
    beta = np.zeros(problem.n_samples)
    beta[machine.support_] = machine.dual_coef_[0]
    return beta, theta, float(machine.intercept_[0])


def of_the_papers(name: str, problem: Problem, tol: float) -> Answer:
    """One of `mklref.algorithms`, for at most `LONGEST` seconds."""
    end = time.process_time() + LONGEST
    return answered(ALGORITHMS[name](problem, tol=tol, callback=lambda _: time.process_time() > end))


class Failed(RuntimeError):
    """A program did not answer: its exit code and the last line of what it said, or what is wrong with the answer."""


def command(template: str, problem: Problem, tol: float) -> Answer:
    """A program that reads {problem}, a MAT file of `mklref vectors`, and writes {solution}, for instance in Octave.

    Raises
    ------
    Failed
        It cannot be started, ends with an error, or writes no answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = {"problem": Path(folder, "problem.mat"), "solution": Path(folder, "solution.mat")}
        write_record(files["problem"], record_of_problem(problem, name="problem"))
        words = [word.format(tolerance=repr(tol), **files) for word in shlex.split(template)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except OSError as reason:
            raise Failed(f"{words[0]} cannot be started: {reason.strerror}") from reason
        said = "".join(f": {line.strip()}" for line in OCTAVE_ENDS.split(done.stderr)[0].strip().splitlines()[-1:])
        if done.returncode:
            raise Failed(f"{words[0]} ended with exit code {done.returncode}{said}")
        if not files["solution"].exists():
            raise Failed(f"{words[0]} ended with exit code 0, but wrote no answer{said}")
        try:
            answer = read_answer(files["solution"])
        except MKLError as reason:
            raise Failed(f"the answer of {words[0]} cannot be read: {reason}") from reason
        return answer.dual_coef, answer.weights, answer.intercept


SOLVERS: dict[str, Solver] = {
    "native": native,
    "reference-dual": conic,
    **{name.replace("_", "-"): partial(of_the_papers, name) for name in ALGORITHMS},
    "svc-loop": loop_around_svc,
    "svc-mean": mean_kernel_svc,
    "mklpy-average": partial(weights_of_mklpy, "AverageMKL"),
    "mklpy-easy": partial(weights_of_mklpy, "EasyMKL"),
}
"""Those of this package and scikit-learn, and of MKLpy where it is installed, by names that need no quotes."""

LABELS = {
    "reference-dual": "reference, dual",
    **{name.replace("_", "-"): f"{name}, the paper's" for name in ALGORITHMS},
    "svc-loop": "loop around scikit-learn's SVC",
    "svc-mean": "scikit-learn's SVC, mean kernel",
    "mklpy-average": "MKLpy's AverageMKL",
    "mklpy-easy": "MKLpy's EasyMKL",
}
"""What they are called in files, tables and pictures, where that is not their name."""


def commands(texts: Iterable[str]) -> dict[str, Solver]:
    """Solvers of texts NAME=TEMPLATE.

    Raises
    ------
    ValueError
        A text is something else, has the name of one of `SOLVERS`, or braces around what a program does not get.
    """
    found: dict[str, Solver] = {}
    for text in texts:
        name, equals, template = (part.strip() for part in text.partition("="))
        if not (name and equals and template):
            raise ValueError(f"a command is NAME=TEMPLATE, not {text!r}")
        if name in {*SOLVERS, *LABELS.values(), *found}:
            raise ValueError(f"there is a solver {name!r} already")
        try:
            _ = [word.format(problem="", solution="", tolerance="") for word in shlex.split(template)]
        except (IndexError, KeyError, ValueError) as reason:
            known = "{problem}, {solution} and {tolerance}, other braces twice"
            raise ValueError(f"the template of {name!r} may have {known}: {reason}") from reason
        found[name] = partial(command, template)
    return found
