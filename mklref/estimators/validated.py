"""What scikit-learn checks of samples, targets and their weights, in errors of this package."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from mklref.exceptions import InvalidInput, InvalidType, MKLError


@contextmanager
def own_errors() -> Iterator[None]:
    """A ValueError or TypeError of scikit-learn as the one of this package, in the same words."""
    try:
        yield
    except MKLError:
        raise
    except ValueError as invalid:
        raise InvalidInput(str(invalid)) from invalid
    except TypeError as invalid:
        raise InvalidType(str(invalid)) from invalid


def require_unmasked(**given: Any) -> None:
    """Raise `InvalidType` for a masked array, of which scikit-learn takes what is under the mask."""
    for name, data in given.items():
        if isinstance(data, np.ma.MaskedArray):
            raise InvalidType(
                f"{name} is a masked array; its mask would be lost. Fill or drop the masked entries first."
            )


def validated(model: Any, X: Any, *y: Any, known: bool = False, **checks: Any) -> Any:
    """What scikit-learn makes of X, numbers; anything else among them is refused with the names of its columns.

    Of a table whose columns are `known` to be those of the model it need not ask.
    """
    try:
        if known:
            return check_array(X, dtype=np.float64, estimator=model, input_name="X", accept_sparse=True)
        return validate_data(model, X, *y, dtype=np.float64, **checks)
    except (TypeError, ValueError) as invalid:
        columns = [str(name) for name in X.columns if not _is_numeric(X[name])] if hasattr(X, "dtypes") else []
        if not columns and "could not convert string" not in str(invalid):
            with own_errors():
                raise
        where = f" in {', '.join(columns)}" if columns else ""
        first = f" ({invalid})" if isinstance(invalid, ValueError) else ""
        raise InvalidInput(
            f"X holds texts or dates among its numbers{where}{first}: encode texts, for instance by OneHotEncoder in a "
            "ColumnTransformer, turn dates into numbers, or leave the columns out. Texts alone go to spectrum kernels."
        ) from invalid


def _is_numeric(column: Any) -> bool:
    """Whether the cells of a column of a data frame are numbers, or missing."""
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
