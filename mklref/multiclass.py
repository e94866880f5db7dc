r"""Several classes: a `Problem` with a binary machine for each class against the rest, or for each pair of classes.

SimpleMKL 4.2, J = sum_p J_p. It is one problem whose m-th space is the product of those of the machines, so that all
that holds for one machine holds here: f_{m,p} = theta_m sum_i beta_{i,p} k_m(x_i, .), and any (beta, theta, b) bounds
the optimal value from both sides. The gradient (22) of J with respect to theta_m is -g_m^2/2; the paper prints y_i y_j
in it where the labels of the machine p belong, y_{i,p} y_{j,p} (erratum R6).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mklref._typing import Array
from mklref._validate import as_one_kind, checked_array, checked_choice, is_sparse, read_only
from mklref.certificate import Certificate, certify
from mklref.exceptions import InvalidParameter, InvalidTarget, InvalidType
from mklref.losses import Loss
from mklref.problem import Machine, Problem, on_samples
from mklref.regularizers import Regularizer
from mklref.solution import Solution

STRATEGIES = ("one_vs_rest", "one_vs_one")

MulticlassSolution = Solution
"""A point of several machines is a `Solution` with dual_coef (P, n) and intercept (P,)."""


class MulticlassProblem(Problem):
    """A `Problem` with a machine for each class or pair of classes, which share their kernel weights.

    Parameters
    ----------
    kernels : array (M, n, n), sequence of (n, n) arrays, or KernelStack
        As for `Problem`.
    y : array_like (n,)
        Classes: numbers, texts, dates, anything that sorts; at least two different ones. Copied.
    C, loss, regularizer, intercept, sample_weight
        As for `Problem`; the loss takes labels. A sample has the same weight in every machine.
    strategy : {"one_vs_rest", "one_vs_one"}
        A machine for each class, or for each pair of classes, in sorted order; the class, or the first of the pair, has
        the label +1.

    Raises
    ------
    InvalidTarget
        Fewer than two classes, not one for each sample, NaN, or classes such as 1 and "1" that one array merges.
    InvalidParameter
        An unknown strategy, a loss without labels, and what `Problem` refuses.
    InvalidType, InvalidKernel
        As for `Problem`; classes without an order.
    """

    __slots__ = ("classes", "machines", "strategy")
    _ARGUMENTS = (*Problem._ARGUMENTS, "strategy")
    several = True

    classes: NDArray[Any]
    """The different classes in sorted order."""
    strategy: str
    machines: tuple[Machine, ...]

    def __init__(
        self,
        kernels: Any,
        y: Any,
        *,
        C: float = 1.0,
        loss: str | Loss = "hinge",
        regularizer: str | Regularizer = "l1",
        intercept: bool = True,
        sample_weight: Any = None,
        strategy: str = "one_vs_rest",
    ) -> None:
        self._put("strategy", checked_choice("strategy", strategy, STRATEGIES))
        super().__init__(
            kernels, y, C=C, loss=loss, regularizer=regularizer, intercept=intercept, sample_weight=sample_weight
        )
        members, k = np.searchsorted(self.classes, self.y), len(self.classes)
        pairs = combinations(range(k), 2) if strategy == "one_vs_one" else ((positive, None) for positive in range(k))
        self._put("machines", tuple(self._machine(members, *pair) for pair in pairs))

    def _checked_targets(self, y: Any) -> NDArray[Any]:
        if self.loss.targets != "labels":
            raise InvalidParameter(f"loss {self.loss} takes no labels; use 'hinge', 'squared_hinge' or 'logistic'.")
        targets, classes = encode_classes(y, self.n_samples)
        self._put("classes", classes)
        return targets

    def _machine(self, members: NDArray[np.intp], positive: int, negative: int | None) -> Machine:
        seen = np.ones(len(members), dtype=bool) if negative is None else np.isin(members, (positive, negative))
        samples = read_only(np.flatnonzero(seen))
        kernels = self.kernels if negative is None else self.kernels.part(samples)
        y = np.where(members[samples] == positive, 1.0, -1.0)
        weight = None if self.sample_weight is None else self.sample_weight[samples]
        common = {name: getattr(self, name) for name in ("C", "loss", "regularizer", "intercept")}
        problem = Problem(kernels, y, sample_weight=weight, **common)
        return Machine(problem, samples, positive, negative)

    def certify(self, dual_coef: Any, weights: Any = None, intercepts: Any = None) -> Certificate:
        """Bounds on the optimal value from beta (P, n), theta (M,) and b (P,): those of `mklref.certify`."""
        return certify(self, dual_coef, weights=weights, intercept=intercepts)

    def assign(self, scores: Any) -> Any:
        """The class of each sample from finite scores (k, P): the largest one, or the winner of most pairs.

        Equal numbers of won pairs are decided by how clearly they were won. Other scores are `InvalidParameter`.
        """
        scores = checked_array(scores, "scores", ("k", len(self.machines)))
        if self.strategy == "one_vs_one":
            scores = votes(scores, len(self.classes))
        return self.classes[scores.argmax(axis=1)]

    def __repr__(self) -> str:
        return (
            f"MulticlassProblem(M={self.n_kernels}, n={self.n_samples}, classes={len(self.classes)}, "
            f"strategy={self.strategy}, C={self.C:g}, loss={self.loss}, regularizer={self.regularizer})"
        )


def restricted(problem: MulticlassProblem, samples: Sequence[Any], kernels: Sequence[Any]) -> MulticlassProblem:
    """The problem with each machine on some of its samples alone, index arrays into them, all other beta_ip = 0.

    The kernels are those of each machine's samples. Its optimum is a lower bound of that of the whole.
    """
    made, machines = problem.replace(), []
    for machine, index, stack in zip(problem.machines, samples, kernels, strict=True):
        part = on_samples(machine.problem, index, stack)
        machines.append(machine._replace(problem=part, samples=machine.samples[index]))
    object.__setattr__(made, "machines", tuple(machines))
    return made


def random_part(problem: Problem | MulticlassProblem, k: int) -> Any:
    """k of the samples, ascending, and one of each class that would have none; None where all have one target.

    Without a sample of every class the part would have fewer machines than the whole.
    """
    chosen = np.sort(np.random.default_rng(0).permutation(problem.n_samples)[:k])
    targets, first = np.unique(problem.y, return_index=True)
    if isinstance(problem, MulticlassProblem):
        chosen = np.union1d(chosen, first[~np.isin(targets, problem.y[chosen])])
    return None if len(np.unique(problem.y[chosen])) < min(2, len(targets)) else chosen


def votes(scores: Array, n_classes: int) -> Array:
    """Pairs that each class has won, (k, classes), from the scores (k, P) of all pairs in lexicographic order.

    To each class is added what decides between equal numbers of won pairs, less than half a pair in all.
    """
    won = np.zeros((len(scores), n_classes))
    pairs = list(combinations(range(n_classes), 2))
    for column, (positive, negative) in zip(scores.T, pairs, strict=True):
        strength = np.tanh(column) / (3.0 * len(pairs))  # all of them together weigh less than a vote
        won[:, positive] += (column > 0.0) + strength
        won[:, negative] += (column <= 0.0) - strength
    return won


_SORTED = "biufUSMm"
"""Kinds of NumPy arrays whose entries have an order: truth values, numbers, texts, bytes and times."""


def encode_classes(y: Any, n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The classes y of n samples, and the different ones in sorted order; read-only copies.

    `InvalidTarget` or `InvalidType` for what is no array of at least two classes that have an order and stay apart.
    """
    if is_sparse(y):
        raise InvalidType(f"y is a {type(y).__name__}; give a plain array with one class for each sample.")
    given = as_one_kind(y)
    if given.shape != (n,):
        raise InvalidTarget(f"y has shape {given.shape}, kernels are of order {n}; expected one class for each sample.")
    if given.dtype.kind not in _SORTED:
        raise InvalidType(f"y holds {given.dtype} data, which have no order; give numbers or texts as classes.")
    require_known(given)
    classes = read_only(np.unique(given))
    if len(classes) < 2:
        raise InvalidTarget(f"y holds only the class {classes.tolist()[0]!r}; give samples of at least two classes.")
    return read_only(given.copy()), classes


def require_known(given: NDArray[Any]) -> None:
    """Raise `InvalidTarget` where a class is NaN, infinite or no date: such a sample has none."""
    lost = np.isnat(given) if given.dtype.kind in "Mm" else None
    if given.dtype.kind == "f":
        lost = ~np.isfinite(given)
    if lost is not None and lost.any():
        first = int(lost.argmax())
        raise InvalidTarget(f"y[{first}] is {given[first]}, which is no class; drop the sample.")
