"""Samples as a fit sees them: checked, equal ones once with their weights added up, and not too many for the memory.

    sum_i c_i V(f(x_i), y_i) = sum over different (x, y) of (sum of the c_i of its copies) V(f(x), y)

so that a weight of 2 is the same as a second copy, to the last digit, and the order of the samples is none of the data.

What it takes of the memory is said before it begins:

8 n^2 (M + 5)                        the kernels, and what one of them takes while it is evaluated and normalised
8 n^2 M w ((f - 1)/f)                beside it in a search of f folds, w at a time: K[train, train] and K[test, train]

What scikit-learn checks of samples, targets and weights is said in errors of this package.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from mklref._typing import Array
from mklref._untrusted import free_memory
from mklref._validate import as_array, checked_number, is_sparse, require_read, require_unmasked, shown
from mklref.estimators.blocks import rows_as_bytes
from mklref.exceptions import (
    ConstantKernelWarning,
    InvalidInput,
    InvalidParameter,
    InvalidTarget,
    InvalidType,
    MKLError,
    ScaleWarning,
    warn,
)
from mklref.kernels.base import Composite, Kernel
from mklref.kernels.families import Function
from mklref.kernels.fitted import holds_times
from mklref.kernels.storage import bytes_in_memory

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


def merged(weight: Array | None, *keys: Any) -> Kept:
    """The samples of positive weight, those with equal keys once, in the order of the keys (n,).

    Equal samples agree in their rows, their targets, their folds; keys are numbers if none is equal to another.
    """
    n = len(keys[0])
    kept = np.arange(n) if weight is None else np.flatnonzero(weight)
    table = np.stack([np.unique(key[kept], return_inverse=True)[1] for key in keys])
    _, first, inverse = np.unique(table, axis=1, return_index=True, return_inverse=True)
    inverse = inverse.ravel()  # NumPy 2.0.0 alone gives it the shape (1, n)
    sums = np.bincount(inverse, weights=None if weight is None else weight[kept]).astype(np.float64)
    places = np.full(n, -1)
    places[kept] = inverse
    return Kept(kept[first], None if np.all(sums == 1.0) else sums, places)


def rows_of(X: Any) -> Any:
    """The rows as one item each, which compare as bytes: an order that is quick, and that nothing else depends on."""
    if is_sparse(X):
        return rows_as_bytes(X)
    rows = np.ascontiguousarray(X + 0.0 if X.dtype.kind == "f" else X)  # -0.0 becomes 0.0
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()


def warn_of_scales(kernels: Sequence[Kernel], X: Any, variables: Sequence[str]) -> None:
    """Warn where a kernel mixes variables of very different standard deviations; not of those with two values."""
    if is_sparse(X) or X.dtype.kind != "f":
        return
    low, high = X.min(axis=0), X.max(axis=0)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        deviation = X.std(axis=0)
    scaled = (deviation > 0.0) & np.isfinite(deviation) & ~np.all((low == X) | (high == X), axis=0)
    for columns in dict.fromkeys(kernel.on_columns()[1] for kernel in kernels if not _foreign(kernel)):
        chosen = np.flatnonzero(scaled) if columns is None else np.array([j for j in columns if scaled[j]], dtype=int)
        if len(chosen) < 2:
            continue
        small, large = (chosen[pick(deviation[chosen])] for pick in (np.argmin, np.argmax))
        if deviation[large] > _RATIO * deviation[small]:
            warn(
                f"the variables have very different scales: {variables[large]!r} has a standard deviation of "
                f"{deviation[large]:.3g}, {variables[small]!r} one of {deviation[small]:.3g}, which a kernel of both "
                "hardly sees. Standardise them: make_pipeline(StandardScaler(), ...) of scikit-learn.",
                ScaleWarning,
            )
            return


def _foreign(kernel: Kernel) -> bool:
    """Whether a kernel is a function of the user's, which may scale its variables, or holds one."""
    if isinstance(kernel, Composite):
        return True  # its parts stand elsewhere, or on columns of their own
    return isinstance(kernel.on_columns()[0], Function) or kernel.takes_text


def needed(n: int, M: int, folds: int = 0, workers: int = 1) -> float:
    """Bytes of a fit to n samples with M kernels; of a search with that many folds, so many at a time."""
    slices = workers * (folds - 1) / folds if folds > 1 else 0.0
    return bytes_in_memory(M * (1.0 + slices), n)


def require_memory(n: int, M: int, folds: int = 0, workers: int = 1) -> None:
    """Raise `InvalidInput` if a fit takes more than is free, and say what would fit."""
    size, free = needed(n, M, folds, workers), free_memory()
    if size <= free:
        return
    samples = math.isqrt(int(free / (size / n / n)))
    one = needed(n, 1, folds, workers) - needed(n, 0, folds, workers)
    kernels = max(0, int((free - needed(n, 0, folds, workers)) / one))
    or_kernels = f", or {kernels} kernels" if kernels else ""
    fewer_jobs = ", or n_jobs=1" if workers > 1 else ""
    raise InvalidInput(
        f"{n} samples and {M} kernels take {size / 1e9:.3g} GB of memory{' in a search' if folds else ''}, and "
        f"{free / 1e9:.3g} GB are free. These would fit: {samples} samples (--samples {samples} in a shell)"
        f"{or_kernels}{fewer_jobs}; mklref.solve takes kernels in float32, which are half as large."
    )


@contextmanager
def own_errors() -> Iterator[None]:
    """A ValueError or TypeError of scikit-learn as the one of this package, in the same words."""
    try:
        yield
    except MKLError:
        raise
    except (ValueError, OverflowError) as invalid:
        raise InvalidInput(str(invalid)) from invalid
    except TypeError as invalid:
        raise InvalidType(str(invalid)) from invalid


def readable(data: Any, label: str) -> Any:
    """An array of another library as one of NumPy, or an error that says how; all else as scikit-learn knows it."""
    require_read(data, label)
    foreign = any(hasattr(type(data), name) for name in ("__array__", "collect")) and not hasattr(data, "iloc")
    return as_array(data, label) if foreign else data


def checked_weights(sample_weight: Any, n: int) -> Array | None:
    """Nonnegative weights (n,), of which two are positive, from one for each sample or for all; None for none."""
    if sample_weight is None:
        return None
    require_unmasked(sample_weight=sample_weight)
    if isinstance(sample_weight, str):
        raise InvalidType(
            f"sample_weight is {shown(sample_weight)}; give a number for each sample, or a classifier class_weight."
        )
    if isinstance(sample_weight, numbers.Number):
        remedy = "one number is the weight of every sample."
        sample_weight = np.full(n, checked_number("sample_weight", sample_weight, "[0, inf)", remedy))
    given = (as_array if isinstance(sample_weight, list | tuple) else readable)(sample_weight, "sample_weight")
    if getattr(getattr(given, "dtype", None), "kind", "f") in "USmM":  # which scikit-learn would convert
        raise InvalidType(f"sample_weight holds {given.dtype}, no numbers; give a number for each sample.")
    with own_errors():
        weight = check_array(given, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weight.shape != (n,):
        raise InvalidInput(f"sample_weight has shape {weight.shape}; give one number for each of {n} samples.")
    if weight.min() < 0.0:
        i = int(weight.argmin())
        raise InvalidParameter(f"sample_weight[{i}] = {weight[i]:g} is negative; give 0 to leave a sample out.")
    if weight.max() > sys.float_info.max / n:
        raise InvalidParameter(f"sample_weight is up to {weight.max():g}, too large for sums; divide by that.")
    if (zeros := n - np.count_nonzero(weight)) > n - 2:
        raise InvalidParameter(f"{zeros} of {n} sample weights are zero; at least two have to be positive.")
    return np.asarray(weight)


def require_present(y: Any) -> None:
    """Raise `InvalidTarget` where an entry of a column of pandas is missing, of which NumPy has no word for texts."""
    if hasattr(y, "isna") and np.size(y) == len(y) and (missing := np.ravel(y.isna())).any():
        some = f"({missing.sum()} of {len(missing)})"
        raise InvalidTarget(f"y[{int(missing.argmax())}] is missing; drop the samples without a target {some}.")


def real_targets(y: Any) -> Array:
    """Targets as float64; `InvalidTarget` for what is no real number."""
    try:
        if y.dtype.kind in "mMc":
            raise TypeError(f"{y.dtype} is no real number")
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as other:
        raise InvalidTarget(f"y holds no numbers ({other}); encode them, or take MKLClassifier.") from other


def validated(model: Any, X: Any, *y: Any, known: bool = False, **checks: Any) -> Any:
    """What scikit-learn makes of X, numbers; anything else among them is refused with the names of its columns.

    Of a table whose columns are `known` to be those of the model it need not ask.
    """
    times = False
    try:
        times = holds_times(X)
        if times:
            raise TypeError("times are no numbers")  # scikit-learn takes nanoseconds, and a missing one for -2^63
        if known:
            return check_array(X, dtype=np.float64, estimator=model, input_name="X", accept_sparse=True)
        with np.errstate(invalid="ignore"):  # it sums entries, of which large ones of both signs have none
            return validate_data(model, X, *y, dtype=np.float64, **checks)
    except (TypeError, ValueError, OverflowError) as invalid:
        if "Input X contains NaN" in str(invalid):
            raise InvalidInput(
                "Input X contains NaN, a missing value: mklref.estimators.table_pipeline() takes data frames with "
                "missing cells; else fill them in, by SimpleImputer in a pipeline, or drop their samples."
            ) from invalid
        if "Sparse data was passed" in str(invalid):
            raise InvalidType(
                "X is sparse, which kernels of products alone can read, linear and poly: give X.toarray(), of a data "
                "frame X.sparse.to_dense(); in a pipeline ColumnTransformer(..., sparse_threshold=0) makes dense ones."
            ) from invalid
        columns = [str(name) for name, cells in _columns(X) if not _is_numeric(cells)]
        if not (columns or times or "could not convert string" in str(invalid)):
            with own_errors():
                raise
        where = f" in {', '.join(columns)}" if columns else ""
        first = f" ({invalid})" if isinstance(invalid, ValueError) else ""
        raise InvalidInput(
            f"X holds texts or dates among its numbers{where}{first}: encode texts, for instance by OneHotEncoder in a "
            "ColumnTransformer, turn dates into numbers, or leave the columns out; of data frames "
            "mklref.estimators.table_pipeline(model) does all that. Texts alone go to spectrum kernels."
        ) from invalid


def _columns(X: Any) -> Iterable[tuple[Any, Any]]:
    """Name and cells of each column of a data frame, or of another table that knows its columns."""
    if not hasattr(X, "columns") or hasattr(X, "items"):
        return X.items() if hasattr(X, "columns") else ()
    return zip(X.columns, X.get_columns() if hasattr(X, "get_columns") else np.asarray(X).T, strict=True)


def _is_numeric(column: Any) -> bool:
    cells = np.asarray(column)
    if cells.dtype.kind != "O":
        return cells.dtype.kind in "biuf"
    return all(isinstance(cell, numbers.Real) or cell is None for cell in cells)


def named(X: Any) -> Any:
    """Names of the columns of a table that is no data frame for scikit-learn, such as `mklref.datasets.Dataset`."""
    columns = getattr(X, "columns", None)
    if not isinstance(columns, tuple) or not all(isinstance(name, str) for name in columns):
        return None
    return np.array(columns, dtype=object)


def labels_of(X: Any) -> list[str] | None:
    """The names of the columns of a data frame as texts, where none is one, so that scikit-learn compares them not."""
    if not (hasattr(X, "columns") and hasattr(X, "index")) or any(isinstance(name, str) for name in X.columns):
        return None
    return [str(name) for name in X.columns]


def require_columns(own: Sequence[str] | None, known: Sequence[str] | None) -> None:
    """Raise `InvalidInput` where both are known and differ."""
    if own is not None and known is not None and list(own) != list(known):
        raise InvalidInput(
            f"X has the columns {', '.join(own[:8])}, the model was fitted to {', '.join(known[:8])}; give the same "
            "columns in the same order."
        )


def warn_of_constant(names: list[str], where: str) -> None:
    """Name the kernels that have weight 0 because they are constant."""
    if names:
        few = ", ".join(names[:5]) + (f", ... ({len(names)} in all)" if len(names) > 5 else "")
        warn(
            f"constant on {where}, and so without a say and with weight 0: {few}. Leave out variables that never "
            "change, and standardise those that change by too little for float64.",
            ConstantKernelWarning,
        )
