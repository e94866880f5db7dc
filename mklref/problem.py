"""One multiple kernel learning problem: validated once, then trusted by everybody.

It has P machines with common kernel weights, f_p = sum_m f_{m,p} + b_p on the samples i of machine p:

    minimise over f, b    sum_p [ sum_i c_i V(t_{i,p}, y_{i,p}) + c_b b_p ] + R(rho),    rho_m^2 = sum_p ||f_{m,p}||^2
    maximise over beta    sum_p [ -sum_i c_i V*(-beta_{i,p}/c_i, y_{i,p}) ] - R*(g),     g_m^2 = sum_p beta_p'K_m beta_p

with 1'beta_p = c_b where there are intercepts. A `Problem` states one machine; `mklref.multiclass` states several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mklref import _display
from mklref._names import require_named, require_one_order
from mklref._typing import Array
from mklref._validate import (
    as_float_array,
    checked_flag,
    checked_positive,
    checked_targets,
    read_only,
    require_finite,
)
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidTarget, InvalidType
from mklref.kernels.stack import ArrayStack, KernelStack, stack
from mklref.losses import Loss, as_loss
from mklref.losses.base import require_finite_loss, require_labels, require_loss, some_values
from mklref.regularizers import BlockNorm, Lp, Regularizer, as_regularizer
from mklref.regularizers.base import require_regularizer

_SMALLEST_COST = float(np.finfo(float).tiny)
_ROOM = 100.0
"""Ratio of costs to dual variables that is room enough; some solvers break down where it is far larger."""
P = TypeVar("P", bound="Problem")


class Machine(NamedTuple):
    """One machine of a problem, as a problem of its own, and which samples it sees."""

    problem: Problem
    """Its kernels, targets and costs, and the common loss and regulariser."""
    samples: NDArray[np.intp]
    """Indices of its samples, (n_p,)."""
    positive: int | None = None
    """Index of the class with label +1; None if there are no classes."""
    negative: int | None = None
    """Index of the class with label -1; None for the rest."""


class Point(NamedTuple):
    """A point of a problem: beta (n,), theta (M,) and b; of several machines (P, n), (M,) and (P,)."""

    dual_coef: Array
    weights: Array
    intercept: Any


class Frozen:
    """Built from arguments that are kept under their names, validated once, and never written to again."""

    __slots__ = ()
    _ARGUMENTS: ClassVar[tuple[str, ...]]

    def _put(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def replace(self, **changes: Any) -> Self:
        """A new problem that differs in the named arguments and shares everything else."""
        return type(self)(**{**self._arguments(), **changes})

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._ARGUMENTS}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"this {type(self).__name__} is frozen; use problem.replace({name}=...) for another one.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"this {type(self).__name__} is frozen.")

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self._arguments())


def _rebuild(kind: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    return kind(**arguments)


class Problem(Frozen):
    """A kernel machine whose kernel is learned.

    Minimise over functions f_m in H_m and the intercept b

        sum_i c_i V(t_i, y_i) + R(||f_1||, ..., ||f_M||) + c_b b,      t_i = sum_m f_m(x_i) + b

    with costs c_i = C * sample_weight_i. Its dual, over beta with 1'beta = c_b if there is an intercept, is

        maximise  -sum_i c_i V*(-beta_i/c_i, y_i) - R*(g_1, ..., g_M),      g_m = sqrt(beta'K_m beta).

    A Problem is frozen, and neither it nor the arrays behind it are ever written to.

    Parameters
    ----------
    kernels : array (M, n, n), sequence of (n, n) arrays, or KernelStack
        Symmetric positive semidefinite Gram matrices, float64 or float32; never copied if they are contiguous.
        Definiteness is proved by Cholesky factorisation while that takes under a second (M n^3 <= 6e10); beyond, 2x2
        minors and a search for a negative eigenvalue have to do, and certificates say that definiteness is assumed.
    y : array (n,)
        Labels -1 and +1, real targets, or all ones, as the loss requires.
    C : float
        Weight of the summed loss, in (0, inf).
    loss : str or Loss
        For instance "hinge", "squared" or EpsilonInsensitive(0.1).
    regularizer : str or Regularizer
        For instance "l1", "uniform", Lp(4/3) or Fixed(weights).
    intercept : bool
        Whether the decision function has a free intercept b.
    sample_weight : array (n,), optional
        Positive factors of C for each sample.

    Raises
    ------
    InvalidType
        Data without a faithful conversion to float64; C or intercept of the wrong type.
    InvalidKernel
        Gram matrices that are not square, finite, symmetric and positive semidefinite.
    InvalidTarget
        y of the wrong length, not finite, so large that the loss of f = 0 is beyond double precision, with labels other
        than -1 and +1, or with one class only.
    InvalidInput
        Kernels, y and sample_weight that name their samples, as those of pandas do, in different orders.
    InvalidParameter
        C outside (0, inf), bad sample weights, products of both that leave double precision, a loss and an
        intercept that do not go together, or a class of your own that contradicts itself.

    Notes
    -----
    The convention (C on the summed loss, all quadratics with 1/2, signed dual variables) is that of SimpleMKL
    (2), Szafranski (7) and Kloft (P); Tomioka's C multiplies the regulariser instead.
    """

    __slots__ = ("C", "costs", "intercept", "kernels", "loss", "regularizer", "sample_weight", "y")
    _ARGUMENTS: ClassVar[tuple[str, ...]] = tuple(name for name in __slots__ if name != "costs")
    several: ClassVar[bool] = False
    """Whether a solution has a row of dual variables for each machine, (P, n), and intercepts (P,)."""
    signed: ClassVar[bool] = False
    """Whether kernel weights may have any sign (`mklref.signed`)."""

    kernels: KernelStack
    y: NDArray[Any]
    C: float
    loss: Loss
    regularizer: Regularizer
    intercept: bool
    sample_weight: Array | None
    costs: Array

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
    ) -> None:
        put = self._put
        put("kernels", stack(kernels))
        given = {"kernels": kernels, "y": y, "sample_weight": sample_weight}
        require_one_order(given, known=self.kernels.sample_names)
        put("loss", as_loss(loss))
        put("regularizer", as_regularizer(regularizer))
        remedy = "it weighs the summed loss. For a hard margin use a large finite value."
        put("C", checked_positive("C", C, remedy))
        put("intercept", _checked_intercept(intercept, self.loss))
        put("y", self._checked_targets(y))
        put("sample_weight", checked_sample_weight(sample_weight, self.n_samples))
        weight = np.ones(self.n_samples) if self.sample_weight is None else self.sample_weight
        put("costs", _checked_costs(self.C, weight))
        self.regularizer.check(self.n_kernels)
        require_named("the regularizer", self.regularizer.kernel_names, [self.kernels.names], "kernels")
        if not self.several:  # its machines are checked
            require_loss(self.loss, self.y)
            require_finite_loss(self.loss, self.y, self.costs)
        require_regularizer(self.regularizer, self.n_kernels)
        if isinstance(self.kernels, ArrayStack):
            self.kernels.require_psd()
        _require_attainable(self.costs, self.loss, self.regularizer)

    def replace(self, **changes: Any) -> Self:
        """A new problem that differs in the named arguments and shares the others, whose samples are the same."""
        made = super().replace(**changes)
        for name in ("y", "sample_weight"):
            if name not in changes and getattr(self, name) is not None:
                require_named(name, self.kernels.sample_names, made.kernels.sample_names)
        return made

    def _checked_targets(self, y: Any) -> NDArray[Any]:
        loss, targets = self.loss, checked_targets(y, self.n_samples)
        if loss.targets == "labels":
            require_labels(targets, loss)
            if targets.min() == targets.max():
                only = f"y holds only the class {targets[0]:g}"
                raise InvalidTarget(f"{only}; loss {loss} needs samples of both -1 and +1.")
        if loss.targets == "ones" and not np.all(targets == 1.0):
            shown = some_values(targets)
            raise InvalidTarget(f"y holds the values {shown}; loss {loss} has one class: give y = np.ones(n).")
        return read_only(targets.copy())

    @property
    def n_kernels(self) -> int:
        """The number M of kernels."""
        return self.kernels.shape[0]

    @property
    def n_samples(self) -> int:
        """The number n of training samples."""
        return self.kernels.shape[1]

    @property
    def intercept_cost(self) -> float:
        """c_b, the coefficient of b in the objective and the right-hand side of 1'beta = c_b."""
        return self.loss.intercept_cost

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines that share their kernel weights: this problem itself, on all samples."""
        return (Machine(self, np.arange(self.n_samples)),)

    @property
    def dual_shape(self) -> tuple[int, ...]:
        """The shape of dual variables: (n,), or (P, n)."""
        return (len(self.machines), self.n_samples) if self.several else (self.n_samples,)

    def split(self, dual_coef: Array) -> list[Array]:
        """The dual variables of each machine, (n_p,), from those of all."""
        if np.shape(dual_coef) != self.dual_shape:
            raise InvalidInput(f"dual_coef has shape {np.shape(dual_coef)}; expected {self.dual_shape}.")
        rows = np.reshape(dual_coef, (-1, self.n_samples))
        return [row[machine.samples] for row, machine in zip(rows, self.machines, strict=True)]

    def join(self, dual_coefs: Sequence[Array]) -> Array:
        """The inverse of `split`, with 0 for samples that a machine does not see."""
        rows = np.zeros((len(dual_coefs), self.n_samples))
        for row, machine, own in zip(rows, self.machines, dual_coefs, strict=True):
            row[machine.samples] = own
        return rows.reshape(self.dual_shape)

    def intercepts(self, values: float | Sequence[float]) -> Any:
        """Intercepts as a solution has them, from those that a certificate has: a float, or an array (P,)."""
        each = np.atleast_1d(np.array(values, dtype=float))
        return each if self.several else float(each[0])

    def to_latex(self, formulation: str | None = None) -> str:
        """The problem, or its statement in a formulation, as LaTeX without delimiters.

        Parameters
        ----------
        formulation : str, optional
            For instance "dual" or "qcqp": one of `mklref.reference.formulations(problem)`. By default the problem
            itself, over functions.

        Raises
        ------
        InvalidParameter
            An unknown name.
        NotApplicable
            A formulation that does not cover this problem; the message says why.
        """
        from mklref._latex import problem_statement, statement

        return problem_statement(self) if formulation is None else statement(formulation, self)

    def _repr_latex_(self) -> str:
        return f"$$ {self.to_latex()} $$"

    def _repr_html_(self) -> str:
        return _display.problem(self, self.to_latex())

    def __repr__(self) -> str:
        return (
            f"Problem(M={self.n_kernels}, n={self.n_samples}, C={self.C:g}, loss={self.loss}, "
            f"regularizer={self.regularizer}, intercept={self.intercept})"
        )


def in_a_smaller_box(problem: P, dual_coef: Array, far: float = 1.0) -> P | None:
    """The problem at a C that has room for these dual variables, if its own C is more than `far` times that; else None.

    It has the same solutions where the loss has kinks; of a smooth one they are others.
    """
    if np.isfinite(problem.loss.smoothness):
        return None
    betas = zip(problem.machines, problem.split(dual_coef), strict=True)
    share = max(float(np.max(np.abs(beta) / own.costs, initial=0.0)) for (own, *_), beta in betas)
    return problem.replace(C=_ROOM * share * problem.C) if 0.0 < share < 1.0 / _ROOM / far else None


def on_samples(problem: P, samples: Any, kernels: Any, **changes: Any) -> P:
    """The problem on some of its samples, whose kernels these are, with further changes."""
    weight = problem.sample_weight
    part = {"kernels": kernels, "y": problem.y[samples], "sample_weight": None if weight is None else weight[samples]}
    return problem.replace(**part, **changes)


def is_one_machine(problem: Any) -> bool:
    """Whether this is a `Problem` of one machine with nonnegative weights."""
    return isinstance(problem, Problem) and not problem.several and not problem.signed


def on_the_simplex(problem: Problem) -> bool:
    """Whether the weights live on the simplex, theta >= 0 and 1'theta = 1: l1-MKL under its two names."""
    regularizer = problem.regularizer
    if isinstance(regularizer, BlockNorm):
        return regularizer.q == 1.0
    return isinstance(regularizer, Lp) and regularizer.p == 1.0


def dual_norms(problem: Problem, dual_coef: Array) -> Array:
    """g (M,) of dual variables, g_m^2 = sum_p beta_p'K_m beta_p."""
    parts = zip(problem.machines, problem.split(dual_coef), strict=True)
    squares = np.sum([machine.problem.kernels.quadratic(beta) for machine, beta in parts], axis=0)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def require_problem(problem: Any) -> None:
    """Raise `InvalidType` for what is no `Problem` with nonnegative weights."""
    if not isinstance(problem, Problem) or problem.signed:
        told = f"problem is {type(problem).__name__}; give a mklref.Problem(kernels, y, ...). "
        raise InvalidType((told + getattr(problem, "elsewhere", "")).rstrip())


def _checked_costs(C: float, weight: Array) -> Array:
    """C * sample_weight, where every product has all its digits."""
    with np.errstate(over="ignore", under="ignore"):
        costs = C * weight
    bad = np.flatnonzero(~((costs >= _SMALLEST_COST) & np.isfinite(costs)))
    if len(bad):
        i = int(bad[0])
        raise InvalidParameter(
            f"C * sample_weight[{i}] = {C:g} * {weight[i]:g} leaves the range of double precision, "
            f"[{_SMALLEST_COST:.3g}, {np.finfo(float).max:.3g}]. Rescale C or the weights; drop a sample that should "
            "not count."
        )
    return read_only(costs)


def _checked_intercept(intercept: Any, loss: Loss) -> bool:
    free = checked_flag("intercept", intercept)
    if free and loss.intercept == "forbidden":
        raise InvalidParameter(
            f"loss {loss} goes without an intercept (a free one would make the problem trivial); give intercept=False."
        )
    if not free and loss.intercept == "required":
        raise InvalidParameter(
            f"loss {loss} needs an intercept (without one, f = 0 is optimal); give intercept=True, "
            "or use the loss 'density_level_set'."
        )
    return free


def checked_sample_weight(sample_weight: Any, n: int) -> Array | None:
    """Positive finite weights (n,), read-only, or None; else `InvalidParameter` or `InvalidType`."""
    if sample_weight is None:
        return None
    array = as_float_array(sample_weight, "sample_weight", InvalidParameter)
    if array.shape != (n,):
        raise InvalidParameter(f"sample_weight has shape {array.shape}, y has shape ({n},); expected ({n},).")
    require_finite(array, "sample_weight", InvalidParameter)
    if array.min() <= 0.0:
        i = int(array.argmin())
        raise InvalidParameter(
            f"sample_weight[{i}] = {array[i]:g} must be positive; drop a sample that should not count."
        )
    return read_only(array.astype(np.float64))


def _require_attainable(costs: Array, loss: Loss, regularizer: Regularizer) -> None:
    """1'beta = c_b must be possible within the box and the domain of R*, else the primal is unbounded below."""
    if loss.intercept_cost and regularizer.degree == 1.0:
        raise InvalidParameter(
            f"loss {loss} and regularizer {regularizer} are both homogeneous of degree 1, so that the optimum is 0 or "
            "-inf; use a squared norm such as Lp(1), or the loss 'density_level_set'."
        )
    rounding = len(costs) * float(np.finfo(float).eps)  # C = 1/n may sum to just below 1
    with np.errstate(over="ignore"):
        total = float(costs.sum())
    if loss.intercept_cost and total < loss.intercept_cost * (1.0 - rounding):
        raise InvalidParameter(
            f"C = {costs.max():g} is too small for loss {loss}: the costs sum to {total:g} and must reach "
            f"{loss.intercept_cost:g}, that is C = 1/(nu n) with nu <= 1."
        )
