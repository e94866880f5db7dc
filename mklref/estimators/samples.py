"""Which samples a fit sees, and in which order: equal ones once, with their weights added up.

    sum_i c_i V(f(x_i), y_i) = sum over different (x, y) of (sum of the c_i of its copies) V(f(x), y)

so that a weight of 2 is the same as a second copy, to the last digit, and the order of the samples is none of the data.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.estimators.sparse import is_sparse, rows_as_bytes
from mklref.exceptions import ScaleWarning
from mklref.kernels.base import Composite, Kernel
from mklref.kernels.functions import Function

_RATIO = 100.0
"""Of standard deviations in one kernel, from which on the smaller variable counts for 1e-4 of a squared distance."""


@dataclass(frozen=True)
class Kept:
    """The samples of a fit."""

    indices: Any
    """Of each different sample of positive weight the first copy, in the order of the fit, (n,)."""
    weight: Array | None
    """The sums of the weights of its copies, (n,); None if all are 1."""
    places: Any
    """For each sample that was given its number in `indices`, -1 without weight."""


def merged(X: Any, weight: Array | None, *keys: Any) -> Kept:
    """The samples of positive weight, equal ones once and in an order that does not depend on theirs.

    Parameters
    ----------
    X : array (n, d)
        Numbers or texts.
    weight : array (n,), optional
        Not negative.
    *keys : array (n,)
        What equal samples have to agree in as well: their targets, their folds.
    """
    kept = np.arange(X.shape[0]) if weight is None else np.flatnonzero(weight)
    of_rows = np.unique(rows_as_bytes(X[kept]) if is_sparse(X) else _as_bytes(X[kept]), return_inverse=True)[1]
    table = np.stack([of_rows, *(np.unique(key[kept], return_inverse=True)[1] for key in keys)])
    _, first, inverse = np.unique(table, axis=1, return_index=True, return_inverse=True)
    inverse = inverse.ravel()  # NumPy 2.0.0 alone gives it the shape (1, n)
    sums = np.bincount(inverse, weights=None if weight is None else weight[kept]).astype(np.float64)
    places = np.full(X.shape[0], -1)
    places[kept] = inverse
    return Kept(kept[first], None if np.all(sums == 1.0) else sums, places)


def as_given(n: int, weight: Array | None) -> Kept:
    """The samples of positive weight as they come, for kernels that were computed elsewhere."""
    chosen = np.arange(n) if weight is None else np.flatnonzero(weight)
    places = np.full(n, -1)
    places[chosen] = np.arange(len(chosen))
    return Kept(chosen, None if weight is None else weight[chosen], places)


def _as_bytes(X: Any) -> Any:
    """The rows as one item each, which compare as bytes: an order that is quick, and that nothing else depends on."""
    rows = np.ascontiguousarray(X + 0.0 if X.dtype.kind == "f" else X)  # -0.0 becomes 0.0
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()


def warn_of_scales(kernels: Sequence[Kernel], X: Any, variables: Sequence[str]) -> None:
    """Warn where a kernel mixes variables of very different standard deviations; not of those with two values."""
    if is_sparse(X) or X.dtype.kind != "f":
        return
    low, high = X.min(axis=0), X.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = X.std(axis=0)
    scaled = (deviation > 0.0) & np.isfinite(deviation) & ~np.all((low == X) | (high == X), axis=0)
    for columns in dict.fromkeys(_mixed(kernel) for kernel in kernels if not _foreign(kernel)):
        chosen = np.flatnonzero(scaled) if columns is None else np.array([j for j in columns if scaled[j]], dtype=int)
        if len(chosen) < 2:
            continue
        small, large = (chosen[pick(deviation[chosen])] for pick in (np.argmin, np.argmax))
        if deviation[large] > _RATIO * deviation[small]:
            warnings.warn(
                f"the variables have very different scales: {variables[large]!r} has a standard deviation of "
                f"{deviation[large]:.3g}, {variables[small]!r} one of {deviation[small]:.3g}, which a kernel of both "
                "hardly sees. Standardise them: make_pipeline(StandardScaler(), ...) of scikit-learn.",
                ScaleWarning,
                stacklevel=4,
            )
            return


def _mixed(kernel: Kernel) -> tuple[int, ...] | None:
    """The columns that a kernel puts together; None for all of them."""
    return kernel.on_columns()[1]


def _foreign(kernel: Kernel) -> bool:
    """Whether a kernel is a function of the user's, which may scale its variables, or holds one."""
    if isinstance(kernel, Composite):
        return True  # its parts stand elsewhere, or on columns of their own
    return isinstance(kernel.on_columns()[0], Function) or kernel.takes_text
