"""The machine of `smo.py` on kernels that are not in memory: a working set at a time, and no matrix of order n.

    1. A working set A: the samples off their bounds, and those whose optimality conditions are violated most.
    2. The machine on A, all other beta_i fixed, is one of order |A| in memory: Q_AA is evaluated, SMO and Newton steps
       solve it.
    3. The images K_m beta follow over the samples that changed, one pass over their rows; with them the gradient of
       all samples, and who violates now.

A grows with the support, up to the square root of the memory that the cache may take. Rounds end when no sample
violates its conditions by more than the tolerance, as everywhere (Joachims 1999; Vapnik's chunking where A is large).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._threads import threads
from mklref._typing import Array
from mklref.kernels import ArrayStack, KernelStack, LazyStack
from mklref.kernels.reader import Reader
from mklref.kernels.storage import checked_cache
from mklref.machines.loops import loops
from mklref.machines.quadratic_forms import QuadraticForms
from mklref.machines.smo import Part, SMOMachine

_FEWEST = 512
"""Samples of a working set, if there are as many."""
_GROWTH = 2
"""Size of the working set over that of the support: which samples belong to the support is not known yet."""
_WITHIN = 0.5
"""A working set is solved to this share of the tolerance, so that the other samples decide about the violation."""
_MOST_SETS = 200
_DEEPER = tuple(-0.05 * step for step in range(1, 20))
_LEAST = 1 << 25
"""Bytes of a working set, however small the cache: those of a block, of which several are held."""


def room_of(stack: KernelStack) -> int:
    """Bytes that matrices may take beside a stack: its cache, or what a lazy stack has by default."""
    cache = stack.cache if isinstance(stack, LazyStack) else checked_cache(None, stack.shape[1])
    return max(cache, _LEAST)


def kernels_of(stack: KernelStack, samples: Any, parts: int = 1) -> KernelStack:
    """The kernels of some of the samples; of a stack that is costly in memory, if there is room for so many parts.

    Nothing certifies those of an `ArrayStack`: they have no slack.
    """
    if isinstance(stack, ArrayStack):
        matrices = np.empty((len(stack), len(samples), len(samples)), stack.dtype)
        loops.gather(loops.Stack(list(stack.matrices)), samples, matrices, threads())
        return ArrayStack.trusted(list(matrices))
    reader = getattr(stack, "reader", None) or Reader(stack)
    if not stack.costly or reader.itemsize * len(stack) * len(samples) ** 2 > room_of(stack) / parts:
        return stack.part(samples)
    return ArrayStack.trusted(list(reader.dense(samples)))


class LazyForms(QuadraticForms):
    """Images K_m beta that are updated by passes over rows of changed samples, which are evaluated or cached."""

    def __init__(self, stack: KernelStack) -> None:
        self.reader: Reader = getattr(stack, "reader", None) or Reader(stack)
        self.room = room_of(stack)
        super().__init__(stack)

    def _hold(self, stack: KernelStack) -> Any:
        return None

    def _add(self, kernels: Any, changed: Any, step: Array) -> None:
        if len(changed) and len(kernels):
            self.reader.add(kernels, changed, step, self.images)

    def _reads(self, step: Array) -> float:
        return float(np.count_nonzero(step))


@dataclass(slots=True, eq=False)
class Held:
    """Weights, and Q of all samples at them, where there is room for it."""

    weights: Array
    Q: Array | None = None


class LazyMachine(SMOMachine):
    """Solved by working sets, each of them by the machine in memory."""

    forms: LazyForms
    held: Held
    """Shared by all machines on the same kernels."""

    def _new_forms(self) -> LazyForms:
        return LazyForms(self.problem.kernels)

    def _new_rows(self, n: int) -> Array:
        self.held = Held(np.empty(0))
        return np.empty((0, 0))

    def form(self, index: Any) -> None:
        """Nothing: Q is evaluated on working sets alone."""

    def begin(self, samples: Any, beta: Array, intercept: float) -> None:
        """Know from a solution for some of the samples who will be in the support, and begin with them."""
        part, images = np.zeros_like(self.beta), np.zeros_like(self.forms.images)
        part[samples] = beta
        used = np.flatnonzero(part)
        kernels = np.flatnonzero(self.weights)
        self.forms.reader.add(kernels, used, part[used], images)
        self.rows_read += len(used) * len(kernels)
        self.likely = self.weights @ images + intercept

    likely: Array | None = None
    """Scores (n,) of all samples from a solution for some of them, until better ones are known."""

    def near(self, distance: float, most: int | None = None) -> Any:
        """The samples that are in the support, or would be if their scores changed by this many deviations of y.

        If they are more than `most`, those that stay in the support whichever way their scores change, by the least
        change for which they are few enough.
        """
        if self.likely is None:
            scores, intercept, _ = self.scores()
            scores = scores + intercept
        else:
            scores = self.likely
        for share in (distance, 0.0, *_DEEPER):
            reach = share * float(np.std(self.problem.y))
            slopes = [self.problem.loss.subgradient(scores + move, self.problem.y) != 0.0 for move in (-reach, reach)]
            chosen = (self.beta != 0.0) | (np.any(slopes, axis=0) if share >= 0.0 else np.all(slopes, axis=0))
            if most is None or np.count_nonzero(chosen) <= most:
                break
        return np.flatnonzero(chosen)

    def _pair_steps(self, tol: float, enough: float) -> float:
        """Working sets until no sample violates its conditions by more than `tol`; returns the violation left.

        A working set that comes again, having left more than half of the violation, meets the rounding of K beta.
        """
        last: tuple[Any, float] = (None, np.inf)
        for _ in range(_MOST_SETS):
            low, high = self._multipliers()
            violation = high - low
            if violation <= tol or self._above(enough) or time.perf_counter() > self.deadline:
                return violation
            chosen = self._working_set(low, high)
            if violation > 0.5 * last[1] and np.array_equal(chosen, last[0]):
                return violation
            last, before = (chosen, violation), self.beta[chosen].copy()
            self._solve_on(chosen, _WITHIN * tol)
            if np.array_equal(before, self.beta[chosen]):
                return violation
            self.forms.update(self.beta)
            self.gradient = self.weights @ self.forms.images + self.shift * self.beta - self.linear
        return violation

    def _follow(self) -> None:
        """Nothing: working sets have Newton steps of their own."""

    def _newton(self) -> bool:
        """None on all samples: working sets have theirs."""
        return False

    def most_of(self, machines: int) -> int:
        """Samples of the largest working set, if there is room for those of so many machines at a time."""
        return max(_FEWEST, int(np.sqrt(self.forms.room / (16.0 * machines))))

    def _working_set(self, low: float, high: float) -> Any:
        """The samples to be solved for together: off their bounds, or violating the most, ascending."""
        n, most = len(self.beta), self.most_of(1)
        if n <= most:
            return np.arange(n)
        middle = 0.5 * (low + high) if np.isfinite(low + high) else 0.0
        right, left = self.derivatives()
        score = np.maximum(middle - right, left - middle)
        score = score + 1e-9 * np.ptp(score[np.isfinite(score)]) * np.random.default_rng(len(self.beta)).random(n)
        free, inside = self.free(), np.zeros(n, dtype=bool)
        inside[free] = True
        if self.likely is not None:
            near, self.likely = self.near(0.0), None
            score[near] += high - low
            count = len(near)
        else:
            count = int(np.count_nonzero(inside | (score > 0.0)))
            count = min(count, max(_FEWEST, _GROWTH * int(np.count_nonzero(self.beta))))
        count = min(most, max(count, _FEWEST))
        # Samples off their bounds come first, but fill at most half of the set if they are too many: nothing would move
        # without the samples that violate the most.
        most_violating = free[np.argsort(-score[free], kind="stable")]
        score[most_violating[: count if 2 * len(free) <= count else count // 2]] += 2.0 * (high - low)
        return np.sort(np.argpartition(-score, count - 1)[:count])

    def _square(self, samples: Any) -> Array:
        """Q of some of the samples; that of all is held until the weights change."""
        n = len(self.beta)
        if self.held.Q is not None and np.array_equal(self.held.weights, self.weights):
            return self.held.Q if len(samples) == n else self.held.Q[np.ix_(samples, samples)]
        self.held.Q = None  # before the next one is made
        Q = self.forms.reader.square(self.weights, samples)
        self.rows_read += 0.5 * np.count_nonzero(self.weights) * len(samples) * len(samples) / n
        if len(samples) == n:
            self.held.weights, self.held.Q = self.weights, Q
        return Q

    def whole(self) -> Array:
        return self._square(np.arange(len(self.beta)))

    def _solve_on(self, chosen: Any, tol: float) -> None:
        """The machine on some of the samples, all others fixed."""
        inner = Part(self, chosen, self._square(chosen))
        inner.maximise(tol)
        self.beta = self.beta.copy()
        self.beta[chosen] = inner.beta
        self.steps += inner.steps
