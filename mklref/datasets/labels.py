"""Two classes as the labels -1 and +1."""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.exceptions import InvalidTarget


def class_names(values: Any) -> list[str]:
    """Classes as texts, numbers with all their digits: 20230101 and 2.5."""
    return [str(value).removesuffix(".0") if values.dtype.kind in "iuf" else str(value) for value in values]


def encode(y: Any, positive: str | None = None) -> tuple[Array, tuple[str, str]]:
    """Two classes as labels -1 and +1.

    Parameters
    ----------
    y : array (n,)
        Numbers or strings with two different values; any number of values >= 2 if `positive` is given.
    positive : str, optional
        The class that becomes +1, all others being -1. By default the second one in sorted order.

    Returns
    -------
    labels : array (n,)
        -1.0 and +1.0.
    classes : (str, str)
        What -1 and +1 stand for.

    Raises
    ------
    InvalidTarget
        Not two classes, an entry that is not finite, or `positive` is none of them; the message lists what was found.
    """
    y = np.asarray(y)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        first = int(np.argmin(np.isfinite(y)))
        raise InvalidTarget(f"target {first} is {y[first]}; every entry must be finite. Drop the sample.")
    values, index = np.unique(y, return_inverse=True)
    names = class_names(values)
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    if len(names) < 2:
        raise InvalidTarget(f"the target holds only the class {shown}; a classifier needs two. Take more samples.")
    if positive is None:
        if len(names) > 2:
            raise InvalidTarget(
                f"the target has {len(names)} classes ({shown}); name the one to tell from the others "
                "(the positive class, --positive CLASS), or use a loss for real targets such as 'squared'."
            )
        positive = names[1]
    if positive not in names:
        raise InvalidTarget(f"positive = {positive!r} is no class of the target; found {shown}.")
    others = [name for name in names if name != positive]
    labels = np.where(index.ravel() == names.index(positive), 1.0, -1.0)
    return labels, (others[0] if len(others) == 1 else f"not {positive}", positive)
