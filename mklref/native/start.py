"""The first weights: those of a start, of a part of the samples, or of equal block norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._run import Recorder, is_of_problem
from mklref._typing import Array
from mklref.machines import machine_for
from mklref.machines.joint import JointMachine
from mklref.machines.lazy import LazyMachine, kernels_of
from mklref.machines.smo import SMOMachine
from mklref.multiclass import random_part
from mklref.native import tuning
from mklref.native.loop import Loop
from mklref.native.point import Point, equal_weights
from mklref.problem import on_samples
from mklref.regularizers import BlockNorm, Lp
from mklref.regularizers.norms import block_exponent


def first_weights(loop: Loop, start: Any) -> Array:
    """Weights (M,) from `start`, fitted to the present problem, or from a part of the samples, or equal ones."""
    machine, regularizer = loop.machine, loop.problem.regularizer
    if start is not None:
        machine.warm, loop.doubted = True, loop.large_q is None
        squares = machine.squares
        if loop.large_q is None:
            own = regularizer.weights_from_norms(start.weights * np.sqrt(squares))
        else:
            own = loop.large_q.weights(squares, loop.errors(squares))
        said = own.any() and np.isfinite(own).all()  # weights of f = 0 say nothing
        return own if said else equal_weights(loop.machine)
    weights = weights_of_a_part(loop)
    machine.warm = weights is not None
    return equal_weights(loop.machine) if weights is None else weights


def solved_before(loop: Loop, start: Any) -> Point | None:
    """The point of a start, with its own weights, if it is a solution: a machine that is solved coarsely leaves it."""
    regularizer = loop.problem.regularizer
    if regularizer.weight_form == "min" and not np.isfinite(regularizer.weight_penalty(start.weights)):
        return None
    point = loop.assess(start.weights)
    return loop.best.note(point) if is_of_problem(start, point.upper) and loop.reached(point) else None


def weights_of_a_part(loop: Loop) -> Array | None:
    """The weights (M,) of a quarter of the samples, roughly solved and so started itself; None where they are too few.

        sum_{i in S} (n/|S|) C V(t_i, y_i)  estimates  C sum_i V(t_i, y_i)      for a random choice S of the samples,

    so that they are near those of the whole. The kernels of S are a sixteenth of the stack, and it saves the machines
    at equal weights, the only ones that may need every kernel and every row. The costs are counted: a read of the
    part is (k/n)^2 of one of the whole, and to gather it k/n: of its k rows every cache line is touched.
    """
    machine, problem = loop.machine, loop.problem
    n = problem.n_samples
    k = n // tuning.SHARE
    if k < tuning.FEWEST or _equal_ones_are_near(loop):
        return None
    chosen = random_part(problem, k)
    if chosen is None:
        return None
    k = len(chosen)
    small = machine_for(on_samples(problem, chosen, kernels_of(problem.kernels, chosen), C=problem.C * n / k))
    rough, left = tuning.ACCURACY, loop.recorder.left
    of_part = Loop(small, rough, Recorder("a part", tol=rough, max_iter=tuning.MOST_MACHINES, max_time=left))
    of_part.iterate(of_part.begin(first_weights(of_part, None)))
    best, share, costs = of_part.best.point, k / n, of_part.counters()
    loop.spend({**costs, "passes": share**2 * costs["passes"] + share})
    if best is not None and isinstance(machine, LazyMachine | JointMachine):
        machine.move(best.weights)
        machine.begin(chosen, best.beta, best.intercept)
    return None if best is None else best.weights


def _equal_ones_are_near(loop: Loop) -> bool:
    """Whether as few machines lead from equal weights to the solution, the first of which costs no more than others.

    It does where Q is factorised, kernels are evaluated, several machines share the weights, or samples are many.
    """
    regularizer = loop.problem.regularizer
    pairs = isinstance(loop.machine, SMOMachine) and not isinstance(loop.machine, LazyMachine)
    if not (pairs and loop.problem.n_samples <= tuning.FEW_SAMPLES and isinstance(regularizer, Lp | BlockNorm)):
        return False
    q = regularizer.q if isinstance(regularizer, BlockNorm) else block_exponent(regularizer.p)
    least, most = map(block_exponent, tuning.EVEN)
    return least <= q <= most
