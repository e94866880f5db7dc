"""Bounds of several machines from random points, against one machine in exact arithmetic, and hostile arguments.

Points that nobody optimised bound the optimum from both sides: a lower bound of one point above an upper bound of
another is a wrong bound, whichever it is. With kernels of zero the optimum is known: each machine has the best constant
function, or f = 0 without an intercept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations
from typing import Any

import numpy as np

import mklref
from mklref.exceptions import MKLError
from mklref.multiclass import STRATEGIES, MulticlassProblem
from mklref.regularizers import Lp
from mklref.solution import Status
from validation.attack import Finding, each

_ROUNDING = 1e-9
"""Share of the larger bound within which two bounds may contradict each other."""


def attack(cases: int, rng: np.random.Generator) -> list[Finding]:
    """`cases` problems, with some points each."""
    return each("multiclass", _case, cases, rng)


def _case(rng: np.random.Generator) -> Iterator[str]:
    n, M, classes = int(rng.integers(4, 20)), int(rng.integers(1, 5)), int(rng.integers(2, 5))
    scale = 10.0 ** rng.uniform(-6, 6)
    kernels = np.array([root @ root.T for root in scale * rng.normal(size=(M, n, rng.integers(1, n + 1)))])
    if rng.random() < 0.3:
        kernels[:] = 0.0
    members = rng.integers(classes, size=n)
    members[:2] = 0, 1
    names = [np.array(list("dcba")), np.array([3, -1, 2, 9]), np.array([0.5, -2.0, 7.0, 1e9])][rng.integers(3)]
    problem = MulticlassProblem(
        kernels,
        names[members],
        C=10.0 ** rng.uniform(-3, 3),
        loss=str(rng.choice(["hinge", "squared_hinge", "logistic"])),
        regularizer=Lp(float(rng.choice([1.0, 4 / 3, 2.0, np.inf]))),
        intercept=bool(rng.integers(2)),
        strategy=str(rng.choice(STRATEGIES)),
        sample_weight=rng.uniform(0.1, 3.0, size=n) if rng.random() < 0.3 else None,
    )
    yield from _contradictions(problem, rng)
    yield from _hostile(problem, rng)


def _contradictions(problem: MulticlassProblem, rng: np.random.Generator) -> Iterator[str]:
    """Bounds of a solution and of random points that contradict each other, or the value that is known."""
    P, n, M = len(problem.machines), problem.n_samples, problem.n_kernels
    solution = mklref.solve(problem, tol=1e-6, max_time=5.0)
    found = [solution.certificate]
    for _ in range(4):
        beta = problem.C * rng.normal(size=(P, n)) * 10.0 ** rng.uniform(-3, 1)
        theta = rng.normal(size=M) if rng.random() < 0.5 else rng.exponential(size=M)
        b = None if rng.random() < 0.5 else np.where(problem.intercept, rng.normal(size=P), 0.0)
        found.append(problem.certify(solution.dual_coef if rng.random() < 0.3 else beta, theta, b))
    found.append(problem.certify(-solution.dual_coef, -solution.weights, solution.intercept))  # the same scores
    lower, upper = max(bounds.lower for bounds in found), min(bounds.upper for bounds in found)
    if lower > upper + _ROUNDING * abs(upper):
        yield f"{problem}: a lower bound {lower!r} above an upper bound {upper!r}: {found}"
    if (solution.status is Status.OPTIMAL) != solution.certificate.is_optimal(1e-6):
        yield f"{problem}: {solution.status.name} at {solution.certificate}"
    if not any(kernel.any() for kernel in problem.kernels.dense()):
        value = sum(_best_constant(machine.problem) for machine in problem.machines)
        if not lower - _ROUNDING * value <= value <= upper + _ROUNDING * value:
            yield f"{problem}: [{lower!r}, {upper!r}] excludes P* = {value!r} of kernels that are zero"


def _best_constant(problem: mklref.Problem) -> float:
    """min over b of sum_i c_i V(b, y_i) for labels: the sums of the costs of both classes say all."""
    up, down = (float(problem.costs[problem.y == label].sum()) for label in (1.0, -1.0))
    if not problem.intercept:
        return float(problem.costs @ problem.loss.value(np.zeros(len(problem.y)), problem.y))
    if problem.loss.name == "hinge":
        return 2.0 * min(up, down)
    share = up / (up + down)
    if problem.loss.name == "squared_hinge":  # b = (up - down)/(up + down)
        return 2.0 * (up * (1.0 - share) ** 2 + down * share**2)
    return -up * float(np.log(share)) - down * float(np.log1p(-share))  # the entropy of the classes


def _hostile(problem: MulticlassProblem, rng: np.random.Generator) -> Iterator[str]:
    """Arguments that are refused with an error of the package, and attributes that cannot be changed."""
    P, n, M = len(problem.machines), problem.n_samples, problem.n_kernels
    beta, theta = np.zeros((P, n)), np.full(M, 1.0 / M)
    bad: list[tuple[Any, Any, Any]] = [
        (beta[:, 1:], theta, None),
        (np.full((P, n), np.nan), theta, None),
        (beta.astype(str), theta, None),
        (beta, np.append(theta, 1.0), None),
        (beta, theta * np.inf, None),
        (beta, theta, np.zeros(P + 1)),
        (beta, theta, np.full(P, np.inf)),
        *([] if problem.intercept else [(beta, theta, np.ones(P))]),
    ]
    yield from _accepted(f"certify of {problem}", bad[rng.integers(len(bad))], problem.certify)
    y: list[Any] = list(problem.y.tolist())
    i, j = rng.permutation(n)[:2]
    y[i], y[j] = [(1, "1"), (float("nan"), y[0]), (None, y[0]), ("a\0", "a"), (1j, 2.0)][rng.integers(5)]
    yield from _accepted(f"y = {y}", (problem.kernels, y), MulticlassProblem)
    try:
        setattr(problem, str(rng.choice(["C", "y", "machines", "loss", "kernels"])), 1.0)
        yield f"{problem} can be changed"
    except AttributeError:
        pass
    for first, second in combinations(problem.machines, 2):
        if first.problem.C != second.problem.C or first.samples.flags.writeable:
            yield f"{problem}: machines differ in C, or can be written to"


def _accepted(what: str, arguments: tuple[Any, ...], function: Any) -> Iterator[str]:
    with suppress(MKLError):
        yield f"{what}: {arguments} is accepted: {function(*arguments)}"
