"""Solvers that learn weights, each asked for a tolerance of its own: what `validation.peers.gaps` compares.

A solver is a function of a problem and a tolerance that returns (dual_coef, weights, intercept), or raises
NotApplicable. What it calls its tolerance does not matter: the certified gap of the answer is measured.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import mklref
from mklref import reference
from mklref.algorithms import ALGORITHMS
from mklref.exceptions import NotApplicable
from mklref.problem import Problem
from mklref.regularizers import Lp
from mklref.testing.vectors import read_answer, write_record
from mklref.testing.vectors.schema import record_of_problem

Answer = tuple[Any, Any, Any]
Solver = Callable[[Problem, float], Answer]

CONIC, ENTRIES = 400, 10_000_000
"""Samples, and entries of all kernels, up to which conic solvers are asked: their time grows with n^3 and more."""
LONGEST = 10.0
"""Seconds of the processor after which the papers' algorithms return the best point so far, whatever the tolerance."""
STEPS = 1000
"""Changes of the weights in the loop around SVC."""


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
    from sklearn.svm import SVC

    own = problem.regularizer
    hinge = problem.loss.name == "hinge" and problem.intercept and problem.sample_weight is None
    if not (hinge and isinstance(own, Lp) and 1.0 < own.p < np.inf):
        raise NotApplicable("hinge loss with an intercept and 1 < p < inf")
    theta = np.full(problem.n_kernels, problem.n_kernels ** (-1.0 / own.p))
    for _ in range(STEPS):
        machine = SVC(C=problem.C, kernel="precomputed", tol=tol).fit(problem.kernels.combine(theta), problem.y)
        beta = np.zeros(problem.n_samples)
        beta[machine.support_] = machine.dual_coef_[0]
        found = own.weights_from_norms(theta * problem.kernels.norms(beta))
        if np.abs(found - theta).max() <= tol * theta.max():
            break
        theta = found
    return beta, theta, float(machine.intercept_[0])


def mean_kernel_svc(problem: Problem, tol: float) -> Answer:
    """SVC on the mean of the kernels: what learning the weights is worth."""
    from sklearn.svm import SVC

    if problem.loss.name != "hinge" or not problem.intercept or problem.sample_weight is not None:
        raise NotApplicable("hinge loss with an intercept")
    theta = problem.regularizer.weights_from_norms(np.ones(problem.n_kernels))
    machine = SVC(C=problem.C, kernel="precomputed", tol=tol).fit(problem.kernels.combine(theta), problem.y)
    beta = np.zeros(problem.n_samples)
    beta[machine.support_] = machine.dual_coef_[0]
    return beta, theta, float(machine.intercept_[0])


def of_the_papers(name: str, problem: Problem, tol: float) -> Answer:
    """One of `mklref.algorithms`, for at most `LONGEST` seconds."""
    end = time.process_time() + LONGEST
    return answered(ALGORITHMS[name](problem, tol=tol, callback=lambda _: time.process_time() > end))


def command(template: str, problem: Problem, tol: float) -> Answer:
    """A program that reads {problem}, a MAT file of `mklref vectors`, and writes {solution}, for instance in Octave.

    Raises
    ------
    NotApplicable
        It ends with an error, or writes nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = {"problem": Path(folder, "problem.mat"), "solution": Path(folder, "solution.mat")}
        write_record(files["problem"], record_of_problem(problem, name="problem"))
        words = [word.format(tolerance=repr(tol), **files) for word in shlex.split(template)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode or not files["solution"].exists():
            raise NotApplicable(f"{words[0]} ended with {done.returncode}: {done.stderr.strip()[-200:]}")
        answer = read_answer(files["solution"])
        return answer.dual_coef, answer.weights, answer.intercept


SOLVERS: dict[str, Solver] = {
    "native": native,
    "reference, dual": conic,
    **{f"{name}, the paper's": partial(of_the_papers, name) for name in ALGORITHMS},
    "loop around scikit-learn's SVC": loop_around_svc,
    "scikit-learn's SVC, mean kernel": mean_kernel_svc,
}
"""Those that need nothing but this package and scikit-learn."""
