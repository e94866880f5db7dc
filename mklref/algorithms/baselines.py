"""Baselines that people compare multiple kernel learning with. None of them is an MKL formulation.

Each chooses kernel weights by a rule of its own and then trains one kernel machine with these weights fixed. What it
returns is a solution of that machine, problem.replace(regularizer=Fixed(weights)), and so is the certificate: it says
that the machine is solved, and nothing about the weights. Judge them as MKL by
`mklref.certify(problem, solution.dual_coef, weights=solution.weights)`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import nnls

from mklref._run import ABSURD
from mklref._typing import Array
from mklref._validate import checked_integer, checked_number, checked_rng, shown
from mklref.algorithms.base import Algorithm, Callback, Run, presented, require
from mklref.exceptions import InvalidParameter
from mklref.kernels import center
from mklref.problem import Problem, on_samples, require_problem
from mklref.regularizers import Fixed
from mklref.solution import Solution

_PARAMETERS = """
Parameters
----------
problem : Problem
    Its regularizer is not used.
tol, max_iter, max_time, callback, progress
    As for every algorithm, `mklref.algorithms.silp`, and for each machine; a machine is one iteration.
{own}
Returns
-------
Solution
    Of the machine, problem.replace(regularizer=Fixed(weights)), with its certificate.

Raises
------
NotApplicable
    For problems, and folds, in which the rule finds no weights; the message says why, and what to use.
InvalidType, InvalidParameter, InvalidInput
    No problem, a bad option, a start of another size.
Interrupted
    On Ctrl-C; its `solution` is the best certified point so far.
"""


Train = Callable[..., Solution]
"""Trains a machine for a problem at given weights, from a start if there is one, in the name of the baseline."""


def baseline(rule: Callable[..., Solution]) -> Algorithm:
    """Make a baseline of a rule that takes a problem, `Train`, and parameters of its own, as `algorithm` has them."""

    @ABSURD
    def solve(
        problem: Problem,
        *,
        tol: float = 1e-4,
        max_iter: int = 500,
        max_time: float | None = None,
        callback: Callback | None = None,
        progress: bool = False,
        **own: Any,
    ) -> Solution:
        require_problem(problem)
        options: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "max_time": max_time}
        options |= {"callback": callback, "progress": progress, "name": rule.__name__}
        return rule(problem, partial(_trained, **options), **own)

    made: Algorithm = presented(solve, rule, _PARAMETERS)
    return made


@baseline
def average_kernel(problem: Problem, train: Train, *, start: Solution | None = None) -> Solution:
    """Baseline, not an MKL formulation: the kernel machine on the average kernel, theta = 1/M.

    Its kernel has the size of one kernel, as with weights on the simplex. The plain sum, which is MKL with the weights
    in the ball of the maximum norm, is `Lp(inf)`.

    Parameters
    ----------
    start : Solution, optional
        As for every algorithm.
    """
    return train(problem, np.full(problem.n_kernels, 1.0 / problem.n_kernels), start)


@baseline
def best_single_kernel(
    problem: Problem, train: Train, *, folds: int | None = None, rng: np.random.Generator | None = None
) -> Solution:
    """Baseline, not an MKL formulation: a kernel machine for each kernel, of which the best is kept.

    Without `folds` the best one has the lowest objective J(e_m): the best corner of the simplex, so that the optimum of
    l1-MKL is no higher. That favours kernels of large trace; normalise them, or let held-out losses decide: with
    `folds` the best one has the lowest sum of the costs times the losses of samples that were left out of training.
    Neither a loss of one class nor several classes can have folds.

    Parameters
    ----------
    folds : int, optional
        Number of parts, each left out once, at least 2 and such that every class remains in training.
    rng : numpy Generator
        Deals the samples out, evenly over the values of y; needed with `folds`.
    """
    corners = np.eye(problem.n_kernels)
    if folds is None:
        if rng is not None:
            checked_rng(rng)
        return min((train(problem, corner) for corner in corners), key=lambda solution: solution.objective)
    _require_one_machine("best_single_kernel with folds", problem)
    parts = _parts(problem, folds, rng)
    losses = [sum(_held_out_loss(problem, m, part, train) for part in parts) for m in range(problem.n_kernels)]
    return train(problem, corners[int(np.argmin(losses))])


@baseline
def kernel_alignment(problem: Problem, train: Train, *, start: Solution | None = None) -> Solution:
    """Baseline, not an MKL formulation: the weights whose kernel is best aligned with the targets (Cortes et al. 2012).

    maximise over theta >= 0   <K_theta, yy'> / ||K_theta||,     K_theta = sum_m theta_m H K_m H,   H = I - 11'/n,

    in the Frobenius product. The maximiser is, up to its length, the solution of the quadratic program

    minimise over v >= 0   1/2 v'A v - a'v,     A_ml = <H K_m H, H K_l H>,   a_m = <H K_m H, yy'> = (Hy)'K_m Hy.

    The alignment leaves the length free; weights that sum to 1 give the kernel the size of one kernel. The targets are
    labels or real numbers, not one class, and the loss is that of the machine only.

    Parameters
    ----------
    start : Solution, optional
        As for every algorithm.
    """
    return train(problem, alignment_weights(problem), start)


def alignment_weights(problem: Problem) -> Array:
    """The weights of `kernel_alignment`, (M,), with sum 1.

    The program is a nonnegative least squares problem: with A = R'R, minimise ||R v - R'^+ a|| over v >= 0. It is
    solved on kernels of unit norm, which only rescales v.
    """
    _require_one_machine("kernel_alignment", problem)
    remedy = "With one class, y = 1 has no alignment with any centred kernel; use average_kernel."
    require(problem.loss.targets != "ones", "kernel_alignment", problem, "labels or real targets", remedy)
    centred = center(problem.kernels).dense().reshape(problem.n_kernels, -1).astype(np.float64, copy=False)
    sizes = np.abs(centred).max(axis=1)
    present = np.flatnonzero(sizes > 0.0)
    units = centred[present] / sizes[present, None]
    lengths = np.linalg.norm(units, axis=1)
    units /= lengths[:, None]
    target = problem.y - problem.y.mean()
    a = units @ np.outer(target, target).ravel()
    values, vectors = np.linalg.eigh(units @ units.T)
    kept = values > len(values) * np.finfo(float).eps * values.max(initial=0.0)
    root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    scale = float(np.abs(a).max(initial=0.0)) or 1.0
    v, _ = nnls(root, vectors[:, kept].T @ (a / scale) / np.sqrt(values[kept])) if len(present) else (a, 0.0)
    weights = np.zeros(problem.n_kernels)
    smallest = sizes[present].min(initial=np.inf)
    weights[present] = v / lengths * (smallest / sizes[present])
    made_for = "kernels of which one tells the targets apart"
    require(bool(weights.any()), "kernel_alignment", problem, made_for, "Add a kernel.")
    return np.asarray(weights / weights.sum())


@baseline
def easymkl(problem: Problem, train: Train, *, lam: float = 0.5) -> Solution:
    """Baseline, not an MKL formulation of this library: EasyMKL (Aiolli and Donini 2015), a margin problem of its own.

    With gamma >= 0 summing to 1 over each class, D = diag(y), and weights eta >= 0 with ||eta||_2 = 1, the margin of a
    kernel is the value of the inner problem in

    max over eta   min over gamma   (1-lam) gamma'D (sum_m eta_m K_m) D gamma + lam ||gamma||^2.

    As its authors do, gamma comes from the plain sum of the kernels, eta_m is proportional to gamma'D K_m D gamma, and
    then one machine is trained with eta: two machines in all, and no optimum of the problem over both.

    The inner problem is, up to the length of beta = D gamma, the dual of the squared hinge with C = (1-lam)/lam, since
    min 1/2 beta'(Q + I/C)beta - y'beta has its minimum along the same ray. That machine is what is returned, with an
    intercept that is optimal for it; EasyMKL's is the midpoint between the classes. So of the problem only kernels and
    labels are used, and the solution is that of problem.replace(loss="squared_hinge", C=(1-lam)/lam, intercept=True,
    sample_weight=None, regularizer=Fixed(weights)).

    Parameters
    ----------
    lam : float
        In (0, 1): towards 0 the hard margin, towards 1 the distance of the class means.
    """
    _require_one_machine("easymkl", problem)
    require(problem.loss.targets == "labels", "easymkl", problem, "labels", "For real targets use kernel_alignment.")
    remedy = "it is the share of ||gamma||^2; for the hard margin take it small, for the class means close to 1."
    lam = checked_number("lam", lam, "(0, 1)", remedy)
    margin = problem.replace(loss="squared_hinge", C=(1.0 - lam) / lam, intercept=True, sample_weight=None)
    gamma = train(margin, np.ones(problem.n_kernels)).dual_coef
    squares = np.maximum(problem.kernels.quadratic(gamma), 0.0)
    require(bool(squares.any()), "easymkl", problem, "kernels of which one tells the classes apart", "Add a kernel.")
    return train(margin, squares / np.linalg.norm(squares))


def _require_one_machine(name: str, problem: Problem) -> None:
    remedy = "For several classes use mklref.solve with regularizer Fixed(weights)."
    require(not problem.several, name, problem, "one machine", remedy)


def _trained(problem: Problem, weights: Array, start: Solution | None = None, *, name: str, **options: Any) -> Solution:
    run = Run(f"baseline/{name}", problem.replace(regularizer=Fixed(weights)), start=start, **options)
    return run.follow(run.svm(weights) for _ in range(1))


def _parts(problem: Problem, folds: Any, rng: Any) -> list[Any]:
    name, made_for = "best_single_kernel with folds", "labels or real targets"
    require(problem.loss.targets != "ones", name, problem, made_for, "Omit folds.")
    n = problem.n_samples
    count = checked_integer(folds, 2, n, f"folds = {shown(folds)} must be an integer in [2, {n}].")
    classes, counts = np.unique(problem.y, return_counts=True)
    if problem.loss.targets == "labels" and counts.min() == 1:
        raise InvalidParameter(
            f"folds = {folds} leaves training once without class {classes[counts.argmin()]:g}, which has one sample; "
            "omit folds, or add another."
        )
    shuffled = checked_rng(rng).permutation(n)
    dealt = shuffled[np.argsort(problem.y[shuffled], kind="stable")]
    return [dealt[fold::count] for fold in range(count)]


def _held_out_loss(problem: Problem, m: int, left_out: Any, train: Train) -> float:
    kept = np.setdiff1d(np.arange(problem.n_samples), left_out)
    K = problem.kernels.dense()[m]
    alone = on_samples(problem, kept, [K[np.ix_(kept, kept)]], regularizer="l1")
    scores = train(alone, np.ones(1)).decision_function([K[np.ix_(left_out, kept)]])
    return float(problem.costs[left_out] @ problem.loss.value(scores, problem.y[left_out]))
