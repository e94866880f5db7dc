"""The first weights: those of a quarter of the samples, roughly solved, and so on down to a few hundred.

    sum_{i in S} (n/|S|) C V(t_i, y_i)  estimates  C sum_i V(t_i, y_i)      for a random choice S of the samples,

so that the weights of the small problem are near those of the whole. Its kernels are a sixteenth of the stack, and
it saves the machines at equal weights, the only ones that may need every kernel and every row.
"""

from __future__ import annotations

import time

import numpy as np

from mklref._run import Recorder
from mklref._typing import Array
from mklref.machines import machine_for
from mklref.machines.joint import JointMachine
from mklref.machines.lazy import LazyMachine
from mklref.machines.machine import Machine
from mklref.machines.newton import NewtonMachine
from mklref.multiclass import MulticlassProblem
from mklref.native.outer import Outer
from mklref.problem import Problem

SHARE = 4
"""The small problem has one of so many samples."""
_FEWEST = 64
"""Samples of the small problem below which it costs more than it saves."""
_ACCURACY = 1e-2
_MOST_MACHINES = 15
"""A small problem with a huge C may be nearly degenerate: its weights are then not worth much more than these."""


def equal_weights(problem: Problem | MulticlassProblem) -> Array:
    """The weights (M,) of equal block norms."""
    return problem.regularizer.weights_from_norms(np.ones(problem.n_kernels))


def subsample_weights(machine: Machine | JointMachine) -> Array | None:
    """Approximate weights (M,), or None where there are too few samples or classes to tell.

    The machine notes the costs. A read of the part is (k/n)^2 of one of the whole, and to gather it k/n: of its k rows
    every cache line is touched.
    """
    problem = machine.problem
    n = problem.n_samples
    k = n // SHARE
    chosen = np.sort(np.random.default_rng(0).permutation(n)[:k])
    if k < _FEWEST or len(np.unique(problem.y[chosen])) < min(2, len(np.unique(problem.y))):
        return None
    small = machine_for(
        problem.replace(
            kernels=machine.forms.part(chosen),
            y=problem.y[chosen],
            C=problem.C * n / k,
            sample_weight=None if problem.sample_weight is None else problem.sample_weight[chosen],
        )
    )
    left = machine.deadline - time.perf_counter()
    run = Outer(small, _ACCURACY, Recorder("a part", tol=_ACCURACY, max_iter=_MOST_MACHINES, max_time=left))
    start = subsample_weights(small)
    small.warm = start is not None
    run.iterate(equal_weights(problem) if start is None else start)
    best, share = run.best.point, k / n
    machine.before = {name: share**2 * cost if name == "passes" else cost for name, cost in run.counters().items()}
    machine.before["passes"] += share
    if best is not None and isinstance(machine, NewtonMachine | LazyMachine):
        machine.move(best.weights)
        machine.begin(chosen, best.beta, best.intercept)
    return None if best is None else best.weights
