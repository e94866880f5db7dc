r"""Forward-backward splitting, the algorithm of Kowalski, Szafranski and Ralaivola (Algorithms 1 and 2), corrected.

    A <- prox_{gamma lambda Omega}( A + gamma K'beta ),       beta = -C V'(K A, y)

a gradient step of the loss, then the proximity operator of the penalty: the paper exchanges the roles in Algorithm 1
(erratum K6). The gradient -K'beta is Lipschitz with the constant C L ||K||^2, L that of V', so that 0 < gamma <
2/(C L ||K||^2) is admissible. For the squared hinge of the paper, C = 2 and L = 1, that is 1/||K||^2, half of what is
printed, and the gradient has the factor 2 that is missing there (erratum K9).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_flag, checked_number
from mklref.solution import Record, Status
from mklref.synthesis.certificate import residual
from mklref.synthesis.dictionary import Dictionary
from mklref.synthesis.problem import SynthesisProblem
from mklref.synthesis.solution import Run, SynthesisSolution

_SAFE = 1.9
"""Share of 1/(C L ||K||^2) that is the step by default: below 2 by more than the error of `operator_norm`."""
_LANCZOS_STEPS = 50
_INVARIANT = 1e-6
"""Share of ||K||^2 below which a step adds nothing to the Krylov space."""


def forward_backward(
    problem: SynthesisProblem,
    *,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    max_time: float | None = None,
    step: float | None = None,
    accelerated: bool = False,
    callback: Callable[[Record], object] | None = None,
    progress: bool = False,
) -> SynthesisSolution:
    """Solve a mixed-norm synthesis problem by proximal gradient steps, each of which costs two passes.

    Parameters
    ----------
    problem : SynthesisProblem
    tol, max_iter, max_time, callback, progress
        As for `solve`; an iteration is a step.
    step : float, optional
        gamma, in (0, 2/(C L ||K||^2)); by default 1.9/(C L ||K||^2), or 0.95/(C L ||K||^2) if accelerated. ||K|| is
        that of Lanczos' method, which errs from below, if at all.
    accelerated : bool
        Whether to add Nesterov's momentum, which is dropped whenever it points uphill (O'Donoghue and Candes).

    Returns
    -------
    SynthesisSolution
        The counters of its history hold the "passes" over the kernels, those of Lanczos' method included.

    Raises
    ------
    InvalidParameter
        An option out of range; a step that is too long, with the bound.
    InvalidType
        Not a `SynthesisProblem`, or a callback that cannot be called.
    Interrupted
        On Ctrl-C; a KeyboardInterrupt whose `solution` is the best certified point so far.
    """
    run = Run(problem, tol, max_iter, max_time, callback, progress)
    checked_flag("accelerated", accelerated)
    with run.running("forward_backward"):
        status = _iterate(run, _step(run, step, accelerated), accelerated)
        return run.solution(status, "forward_backward")


def _iterate(run: Run, gamma: float, accelerated: bool) -> Status:
    problem, dictionary = run.problem, run.dictionary
    everything = np.ones(problem.shape, dtype=bool)
    A = point = np.zeros(problem.shape)
    momentum = 1.0
    while True:
        t = dictionary.scores(point)
        beta = residual(problem, t)
        Z = dictionary.correlations(beta, everything)
        run.observe(point, t, beta, Z)
        status = run.record(point, 1)
        if status is not None:
            return status
        following = problem.norm.prox(point + gamma * Z, gamma * problem.lam)
        if not accelerated:
            A = point = following
            continue
        if np.vdot(point - following, following - A) > 0.0:
            momentum = 1.0
        grown = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
        point = following + (momentum - 1.0) / grown * (following - A)
        A, momentum = following, grown


def operator_norm(dictionary: Dictionary, late: Callable[[], bool] = lambda: False) -> float:
    """||K|| of the map from (tau, N) to (n,), from below, by Lanczos' method on K K': two passes a step.

    From a random start k steps miss a share e of ||K||^2 with a probability below 1.65 sqrt(n) exp(-sqrt(e) (2k - 1)),
    whatever the spectrum (Kuczynski and Wozniakowski 1992): 3e-8 for e = 1/20 and n = 3000. The power method pauses
    where many eigenvalues lie below a single one, and cannot tell. Once `late` says so, it is what is known by then.
    """
    n = dictionary.kernels.shape[1]
    everything = np.ones(dictionary.shape, dtype=bool)
    basis, images = np.empty((0, n)), np.empty((0, n))
    v: Array = np.asarray(np.random.default_rng(0).normal(size=n))
    size = 0.0
    for _ in range(min(n, _LANCZOS_STEPS)):
        if late():
            break
        basis = np.vstack([basis, v / np.linalg.norm(v)])
        v = dictionary.scores(dictionary.correlations(basis[-1], everything))
        images = np.vstack([images, v])
        size = max(float(np.linalg.eigvalsh(basis @ images.T)[-1]), 0.0)
        for _ in range(2):  # what rounding leaves of the first time goes with the second
            v = v - (basis @ v) @ basis
        if np.linalg.norm(v) <= _INVARIANT * size:
            break
    return math.sqrt(size)


def _step(run: Run, step: Any, accelerated: bool) -> float:
    """gamma. Where no time was left for the norm it goes unused, because the first record ends the run."""
    norm = operator_norm(run.dictionary, lambda: run.recorder.late)
    lipschitz = run.problem.C * run.problem.loss.smoothness * norm**2
    if step is not None:
        largest = 2.0 / lipschitz if lipschitz > 0.0 else np.inf
        interval = f"(0, 2/(C L ||K||^2)) = (0, {largest:g})"
        remedy = "the admissible steps. Leave it out for a safe one."
        return checked_number("step", step, interval, remedy, lambda gamma: 0.0 < gamma < largest)
    # Momentum needs gamma <= 1/lipschitz, and the norm errs from below by less than a twentieth.
    return (0.95 if accelerated else _SAFE) / lipschitz if lipschitz > 0.0 else 1.0
