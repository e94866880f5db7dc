r"""Several binary problems that share their kernel weights.

With a binary problem p for each class against the rest, or for each pair of classes (SimpleMKL 4.2, with J = sum J_p):

    minimise over f_{m,p}, b_p    sum_p sum_i c_i V(t_{i,p}, y_{i,p}) + R(rho),    rho_m = (sum_p ||f_{m,p}||^2)^{1/2}
    maximise over beta_p          sum_p [ -sum_i c_i V*(-beta_{i,p}/c_i, y_{i,p}) ] - R*(g),    1'beta_p = 0
                                  g_m = (sum_p beta_p'K_m beta_p)^{1/2}

It is one problem whose m-th space is the product of those of the machines, so that all that holds for `Problem`
holds here: f_{m,p} = theta_m sum_i beta_{i,p} k_m(x_i, .), and any (beta, theta, b) bounds the optimal value from
both sides. The gradient (22) of J with respect to theta_m is -g_m^2/2; the paper prints y_i y_j in it where the
labels of the machine p belong, y_{i,p} y_{j,p} (erratum R6).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mklref._classes import encode_classes
from mklref._typing import Array
from mklref.certificate import Bounds
from mklref.certificate.joint import certify_machines
from mklref.exceptions import InvalidParameter
from mklref.kernels.stack import KernelStack, stack
from mklref.losses import Loss, as_loss
from mklref.problem import Problem, checked_sample_weight
from mklref.regularizers import Regularizer, as_regularizer
from mklref.solution import History, Status

STRATEGIES = ("one_vs_rest", "one_vs_one")


class Machine(NamedTuple):
    """One binary problem: which classes it tells apart, on which samples."""

    positive: int
    """Index of the class with label +1."""
    negative: int | None
    """Index of the class with label -1; None for the rest."""
    samples: NDArray[np.intp]
    """Indices of its samples, (n_p,)."""
    problem: Problem
    """Its kernels restricted to them, its labels, the common C and loss."""


class MulticlassProblem:
    """A multiclass kernel machine with one set of kernel weights. It is frozen, and its arrays are its own.

    Parameters
    ----------
    kernels : array (M, n, n), sequence of (n, n) arrays, or KernelStack
        As for `Problem`.
    y : array_like (n,)
        Classes: numbers, texts, dates, anything that sorts; at least two different ones. Copied.
    C, loss, regularizer, intercept, sample_weight
        As for `Problem`; the loss takes labels. A sample has the same weight in every machine.
    strategy : {"one_vs_rest", "one_vs_one"}
        A machine for each class, or for each pair of classes.

    Raises
    ------
    InvalidTarget
        Fewer than two classes, not one for each sample, NaN, or classes such as 1 and "1" that one array merges.
    InvalidParameter
        An unknown strategy, a loss without labels, and what `Problem` refuses.
    InvalidType, InvalidKernel
        As for `Problem`; classes without an order.
    """

    __slots__ = (
        "C",
        "classes",
        "intercept",
        "kernels",
        "loss",
        "machines",
        "regularizer",
        "sample_weight",
        "strategy",
        "y",
    )

    kernels: KernelStack
    y: NDArray[Any]
    """The class of each sample, (n,)."""
    classes: NDArray[Any]
    """The different classes in sorted order."""
    C: float
    loss: Loss
    regularizer: Regularizer
    intercept: bool
    sample_weight: Array | None
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
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("kernels", stack(kernels))
        put("loss", as_loss(loss))
        put("regularizer", as_regularizer(regularizer))
        if self.loss.targets != "labels":
            raise InvalidParameter(f"loss {self.loss} takes no labels; use 'hinge', 'squared_hinge' or 'logistic'.")
        if not isinstance(strategy, str) or strategy not in STRATEGIES:
            raise InvalidParameter(f"strategy = {strategy!r} is unknown; known names: {', '.join(STRATEGIES)}.")
        put("strategy", strategy)
        targets, classes, members = encode_classes(y, self.n_samples)
        put("y", targets)
        put("classes", classes)
        put("sample_weight", checked_sample_weight(sample_weight, self.n_samples))
        machines = tuple(self._machines(members, C=C, intercept=intercept))
        put("machines", machines)
        put("C", machines[0].problem.C)
        put("intercept", machines[0].problem.intercept)

    @property
    def n_samples(self) -> int:
        """The number n of training samples."""
        return self.kernels.shape[1]

    @property
    def n_kernels(self) -> int:
        """The number M of kernels."""
        return self.kernels.shape[0]

    @property
    def costs(self) -> Array:
        """C, (1,): the costs of samples are C * sample_weight."""
        return np.array([self.C])

    @property
    def intercept_cost(self) -> float:
        """0: losses with labels have free intercepts."""
        return self.loss.intercept_cost

    def replace(self, **changes: Any) -> MulticlassProblem:
        """A new problem that differs in the named arguments and shares the kernels."""
        return MulticlassProblem(**{**self._arguments(), **changes})

    def _arguments(self) -> dict[str, Any]:
        """What it was built from."""
        return {name: getattr(self, name) for name in self.__slots__ if name not in ("classes", "machines")}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a MulticlassProblem is frozen; use problem.replace({name}=...) for a changed one.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a MulticlassProblem is frozen.")

    def __reduce__(self) -> Any:
        return _rebuild, (self._arguments(),)

    def _machines(self, members: Any, **own: Any) -> Iterator[Machine]:
        """The binary problem of each class or pair; `own` are C and intercept, which `Problem` checks."""
        common = {"loss": self.loss, "regularizer": self.regularizer, **own}
        weight = self.sample_weight
        if self.strategy == "one_vs_rest":
            everybody = np.arange(self.n_samples)
            everybody.flags.writeable = False
            for positive in range(len(self.classes)):
                y = np.where(members == positive, 1.0, -1.0)
                yield Machine(positive, None, everybody, Problem(self.kernels, y, sample_weight=weight, **common))
            return
        for positive, negative in combinations(range(len(self.classes)), 2):
            samples = np.flatnonzero((members == positive) | (members == negative))
            samples.flags.writeable = False
            y = np.where(members[samples] == positive, 1.0, -1.0)
            pair = None if weight is None else weight[samples]
            yield Machine(
                positive, negative, samples, Problem(self.kernels.part(samples), y, sample_weight=pair, **common)
            )

    def certify(self, dual_coef: Any, weights: Any, intercepts: Any = None) -> Bounds:
        """Bounds on the optimal value from beta (P, n), theta (M,) and b (P,), by default the best b.

        See `mklref.certificate.joint.certify_machines`, also for the errors.
        """
        return certify_machines(self.machines, self.n_samples, dual_coef, weights, intercepts)

    def assign(self, scores: Any) -> Any:
        """The class of each sample from the scores (k, P): the largest one, or the winner of most pairs.

        Equal numbers of won pairs are decided by how clearly they were won.
        """
        scores = np.asarray(scores, dtype=float)
        if self.strategy == "one_vs_one":
            scores = votes(scores, len(self.classes))
        return self.classes[scores.argmax(axis=1)]

    def __repr__(self) -> str:
        return (
            f"MulticlassProblem(M={self.n_kernels}, n={self.n_samples}, classes={len(self.classes)}, "
            f"strategy={self.strategy}, C={self.C:g}, loss={self.loss}, regularizer={self.regularizer})"
        )


def _rebuild(arguments: dict[str, Any]) -> MulticlassProblem:
    return MulticlassProblem(**arguments)


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


@dataclass(frozen=True)
class MulticlassSolution:
    """A point of a multiclass problem with its bounds: f_p(x) = sum_m theta_m sum_i beta_{p,i} k_m(x_i, x) + b_p."""

    dual_coef: Array
    """beta (P, n), with 0 for the samples that a machine does not see."""
    weights: Array
    """theta (M,), shared."""
    intercept: Array
    """b (P,)."""
    objective: float
    """The primal objective at exactly this point."""
    certificate: Bounds
    status: Status
    history: History = field(default_factory=History)
    solver: str = "multiclass"
    value: float = np.nan
    """The optimal value of the model as its solver states it."""
    claimed: str = ""
    """What the solver says of that value, "optimal" or "optimal_inaccurate"."""
    raw: MulticlassSolution | None = None
    """The solver's own point with its own certificate; None where this point is not polished."""

    def decision_function(self, kernels_new: Any) -> Array:
        """Scores (k, P) of new samples from k_m(new, training), (M, k, n); see `MulticlassProblem.assign`."""
        weighted = np.tensordot(self.weights, np.asarray(kernels_new, dtype=float), axes=1)
        return np.asarray(weighted @ self.dual_coef.T + self.intercept)
