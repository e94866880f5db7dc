"""One multiple kernel learning problem: validated once, then trusted by everybody."""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import as_float_array, checked_positive, require_finite
from mklref.exceptions import InvalidParameter, InvalidTarget, InvalidType
from mklref.kernels.stack import ArrayStack, KernelStack, stack
from mklref.losses import Loss, as_loss
from mklref.regularizers import Regularizer, as_regularizer

_SMALLEST_COST = float(np.finfo(float).tiny)


class Problem:
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
        y of the wrong length, not finite, with labels other than -1 and +1, or with one class only.
    InvalidParameter
        C outside (0, inf), bad sample weights, products of both that leave double precision, or a loss and an
        intercept that do not go together.

    Notes
    -----
    The convention (C on the summed loss, all quadratics with 1/2, signed dual variables) is that of SimpleMKL
    (2), Szafranski (7) and Kloft (P); Tomioka's C multiplies the regulariser instead.
    """

    __slots__ = ("C", "costs", "intercept", "kernels", "loss", "regularizer", "sample_weight", "y")

    kernels: KernelStack
    y: Array
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
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("kernels", stack(kernels))
        put("loss", as_loss(loss))
        put("regularizer", as_regularizer(regularizer))
        put("C", _checked_cost(C))
        put("intercept", _checked_intercept(intercept, self.loss))
        put("y", _checked_targets(y, self.n_samples, self.loss))
        put("sample_weight", checked_sample_weight(sample_weight, self.n_samples))
        weight = np.ones(self.n_samples) if self.sample_weight is None else self.sample_weight
        put("costs", _checked_costs(self.C, weight))
        self.regularizer.check(self.n_kernels)
        if isinstance(self.kernels, ArrayStack):
            self.kernels.require_psd()
        _require_attainable(self.costs, self.loss, self.regularizer)

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

    def replace(self, **changes: Any) -> Problem:
        """A new problem that differs in the named arguments and shares everything else."""
        arguments = {name: getattr(self, name) for name in self.__slots__ if name != "costs"}
        return Problem(**{**arguments, **changes})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Problem is frozen; use problem.replace({name}=...) for a changed one.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Problem is frozen.")

    def __reduce__(self) -> Any:
        arguments = {name: getattr(self, name) for name in self.__slots__ if name != "costs"}
        return _rebuild, (arguments,)

    def __repr__(self) -> str:
        return (
            f"Problem(M={self.n_kernels}, n={self.n_samples}, C={self.C:g}, loss={self.loss}, "
            f"regularizer={self.regularizer}, intercept={self.intercept})"
        )


def _rebuild(arguments: dict[str, Any]) -> Problem:
    return Problem(**arguments)


def _read_only(array: Array) -> Array:
    """A copy that nobody can write to: what the caller does to his own array later changes no problem."""
    own = array.copy()
    own.flags.writeable = False
    return own


def _checked_cost(C: Any) -> float:
    return checked_positive("C", C, "it weighs the summed loss. For a hard margin use a large finite value.")


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
    return _read_only(costs)


def _checked_intercept(intercept: Any, loss: Loss) -> bool:
    if not isinstance(intercept, bool | np.bool_):
        raise InvalidType(f"intercept is {intercept!r} ({type(intercept).__name__}); give True or False.")
    if intercept and loss.intercept == "forbidden":
        raise InvalidParameter(
            f"loss {loss} goes without an intercept (a free one would make the problem trivial); give intercept=False."
        )
    if not intercept and loss.intercept == "required":
        raise InvalidParameter(
            f"loss {loss} needs an intercept (without one, f = 0 is optimal); give intercept=True, "
            "or use the loss 'density_level_set'."
        )
    return bool(intercept)


def _checked_targets(y: Any, n: int, loss: Loss) -> Array:
    array = as_float_array(y, "y", InvalidTarget)
    if array.ndim != 1 or len(array) != n:
        raise InvalidTarget(f"y has shape {array.shape}, kernels are of order {n}; expected y of shape ({n},).")
    if n < 2:
        raise InvalidTarget(f"n = {n} sample; give at least two.")
    require_finite(array, "y", InvalidTarget)
    targets = array.astype(np.float64, copy=False)
    found = np.unique(targets)
    shown = ", ".join(f"{value:g}" for value in found[:6]) + (", ..." if len(found) > 6 else "")
    if loss.targets == "labels":
        if not np.all(np.isin(found, (-1.0, 1.0))):
            raise InvalidTarget(
                f"y holds the values {shown}; loss {loss} takes the labels -1 and +1. "
                "Encode the classes first, for instance y = np.where(classes == positive, 1, -1)."
            )
        if len(found) < 2:
            raise InvalidTarget(f"y holds only the class {shown}; loss {loss} needs samples of both -1 and +1.")
    if loss.targets == "ones" and not np.array_equal(found, [1.0]):
        raise InvalidTarget(f"y holds the values {shown}; loss {loss} has one class: give y = np.ones(n).")
    return _read_only(targets)


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
    return _read_only(array.astype(np.float64, copy=False))


def _require_attainable(costs: Array, loss: Loss, regularizer: Regularizer) -> None:
    """1'beta = c_b must be possible within the box and the domain of R*, else the primal is unbounded below."""
    if loss.intercept_cost and regularizer.degree == 1.0:
        raise InvalidParameter(
            f"loss {loss} and regularizer {regularizer} are both homogeneous of degree 1, so that the optimum is 0 or "
            "-inf; use a squared norm such as Lp(1), or the loss 'density_level_set'."
        )
    rounding = len(costs) * float(np.finfo(float).eps)  # C = 1/n may sum to just below 1
    if loss.intercept_cost and costs.sum() < loss.intercept_cost * (1.0 - rounding):
        raise InvalidParameter(
            f"C = {costs.max():g} is too small for loss {loss}: the costs sum to {costs.sum():g} and must reach "
            f"{loss.intercept_cost:g}, that is C = 1/(nu n) with nu <= 1."
        )
