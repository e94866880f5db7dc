"""SILP and SIP within chunking (Sonnenburg et al. 2006, Algorithm 2; Kloft et al. 2011, 4.4.1).

Weights follow by cutting planes after every few dual variables, where `silp` and `sip` solve a machine for every cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import linprog

import mklref
from mklref._typing import Array
from mklref.algorithms.base import Run
from mklref.algorithms.cuts import Master, mixture
from mklref.algorithms.lp_interleaved import SHARE, most_violating, moved
from mklref.algorithms.point import Point
from mklref.algorithms.sip import lp_master
from mklref.machines.smo import SMOMachine

CHUNK = 40
_VIOLATED = 0.3
"""A cut that cuts off less than this share of the gap that is left is no cut: the chunks go on."""


def interleaved_cuts(
    problem: mklref.Problem,
    tol: float = 1e-3,
    max_iter: int = 20000,
    callback: Callable[[Any], object] | None = None,
    chunk: int = CHUNK,
) -> mklref.Solution:
    """lp-norm MKL (hinge-like losses): a linear program for p = 1, the semi-infinite program's masters for p > 1."""
    run = Run("interleaved_cuts", problem, tol, max_iter, None, callback)
    run.guaranteed = False
    return run.follow(_turns(run, chunk))


def _turns(run: Run, chunk: int) -> Iterator[Point]:
    (machine,) = run.machines
    assert isinstance(machine, SMOMachine)
    theta, cuts, master = run.start, [], None  # type: Array, list[Point], Master | None
    while True:
        # 1. beta maximises the dual of the machine over the variables that violate its conditions most.
        machine.move(theta)
        chosen, violation = most_violating(machine, chunk)
        beta = moved(run, machine, chosen, SHARE * violation)
        stuck = np.array_equal(beta, machine.beta)
        point = run.assess(theta, (beta,))
        yield point
        # 2. A cut where beta says enough that the master does not know yet.
        known = -np.inf if master is None else master.value
        left = run.best.upper - max(known, run.best.lower)
        if not (stuck or point.value > known + _VIOLATED * left):
            continue
        if stuck and point.value <= known:
            return
        cuts.append(point)
        master = _master(run, cuts, theta)
        # 3. The mixture of the cuts proves what the last chunk alone cannot.
        if run.best.upper - master.value <= run.tol * abs(run.best.upper):
            proof = mixture(run, cuts, master)
            if run.reached(proof):
                yield proof
        theta = master.weights
        cuts = [cut for cut, share in zip(cuts, master.shares, strict=True) if share > 0.0]


def _master(run: Run, cuts: list[Point], theta: Array) -> Master:
    """Minimise t over weights, t >= S_k - 1/2 q_k'theta for every cut; here S_k are no values of machines."""
    p = run.regularizer.p  # type: ignore[attr-defined]
    height = max(cut.cut(theta) for cut in cuts)
    if p > 1.0:
        unit = min(max(run.best.upper - height, 0.1 * run.tol * abs(height)), abs(height)) or 1.0
        return lp_master(cuts, theta, p, height, unit)
    M, unit = len(theta), abs(height) or 1.0
    slopes = np.array([-0.5 * cut.squares / unit for cut in cuts])
    constants = np.array([cut.dual_term / unit for cut in cuts])
    program = linprog(
        np.append(np.zeros(M), 1.0),
        A_ub=np.column_stack([slopes, -np.ones(len(cuts))]),
        b_ub=-constants,
        A_eq=[np.append(np.ones(M), 0.0)],
        b_eq=[1.0],
        bounds=[(0.0, None)] * M + [(None, None)],
    )
    if program.status != 0:
        raise np.linalg.LinAlgError(f"the linear program of {len(cuts)} cuts has no solution: {program.message}")
    shares = np.maximum(-program.ineqlin.marginals, 0.0)
    weights = np.maximum(program.x[:M], 0.0)
    return Master(unit * float(program.fun), weights / weights.sum(), shares / shares.sum())
