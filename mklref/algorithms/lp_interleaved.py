"""Interleaved lp-norm MKL: chunking with analytic weights after every chunk (Kloft et al. 2011, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_count
from mklref.algorithms.base import Run, algorithm, require
from mklref.algorithms.lp_wrapper import closed_form
from mklref.algorithms.point import Point
from mklref.machines.smo import Part, SMOMachine
from mklref.problem import is_one_machine
from mklref.regularizers import BlockNorm, Lp

SHARE = 0.01
"""A chunk is solved until its violation is this share of what it was when it was chosen."""
_MADE_FOR = "one machine with Lp(p) or BlockNorm(q) and a loss with bounds or kinks in the dual, such as the hinge"
_REMEDY = "For other losses and several classes: lp_wrapper; for other regularizers: mklref.solve."


@algorithm(
    lambda problem: is_one_machine(problem) and isinstance(problem.regularizer, Lp | BlockNorm),
    _MADE_FOR,
    remedy=_REMEDY,
    max_iter=20000,
)
def lp_interleaved(run: Run, *, chunk: int = 40) -> Iterator[Point]:
    """lp-norm MKL that changes the weights after every few dual variables, and never solves a whole machine.

    Two turns alternate: beta maximises the dual (21) of the machine over the `chunk` variables that violate its
    optimality conditions most, and theta takes the closed form (17). Of the kernels only the rows of those variables
    are read, for the gradients g_m = K_m beta and the quadratic terms S_m = 1/2 beta'g_m.

    Theorem 4 covers p > 1 with turns of beta that are solved exactly. Chunks are not, and neither bound needs to be
    monotone; an uncertified end has the status NO_GUARANTEE. For block norms q > 2 the dual objective never falls,
    as in `lp_wrapper`, whatever the chunk. Line 8 of the paper compares the machine's objective with that of the last
    chunk; its first pass is -inf over -inf, and a small change proves nothing. The certified gap stands in its place.

    Parameters
    ----------
    chunk : int
        Q, how many dual variables move together, at least 2. The price of a turn is Q rows of each kernel.
    """
    size = checked_count("chunk", chunk, 2, "one variable cannot keep 1'beta.")
    (machine,), run.guaranteed = run.machines, False
    require(isinstance(machine, SMOMachine), "lp_interleaved", run.problem, _MADE_FOR, _REMEDY)
    assert isinstance(machine, SMOMachine)
    theta = run.start  # 1: with beta = 0, theta = M^{-1/p}
    while True:  # 2
        machine.move(theta)  # 13: gradient of (21), negated, at these weights
        chosen, violation = most_violating(machine, size)  # 3
        beta = moved(run, machine, chosen, SHARE * violation)  # 4
        stuck = np.array_equal(beta, machine.beta)
        point = run.assess(theta, (beta,))  # 5: g_m by the rows that moved;  6, 7: S_m, L and S
        yield point  # 8
        theta = closed_form(run, point)  # 9
        if stuck and np.array_equal(theta, point.weights):
            return


def most_violating(machine: SMOMachine, size: int) -> tuple[Any, float]:
    """Variables along the steepest feasible direction of at most `size` of them (Joachims 1999), and the violation.

    With 1'beta fixed half of them rise and half of them fall. Kinks at 0 have one derivative to each side.
    """
    right, left = machine.derivatives()
    if not machine.problem.intercept:
        gain = np.maximum(left, -right)
        return np.argsort(-gain)[:size], float(gain.max())
    rising, falling = np.argsort(right)[: size // 2], np.argsort(-left)[: size // 2]
    return np.union1d(rising, falling), float(left.max() - right.min())


def moved(run: Run, machine: SMOMachine, chosen: Any, tol: float) -> Array:
    """beta after maximising (21) over the chosen variables, with one kernel: that of their rows at these weights."""
    block = np.tensordot(machine.weights, machine.problem.kernels.block(chosen, chosen), 1)
    beta, chunk = machine.beta.copy(), Part(machine, chosen, block)
    chunk.maximise(max(tol, 0.0))
    run.inner_steps += chunk.steps
    beta[chosen] = chunk.beta
    return machine.balanced(beta)
