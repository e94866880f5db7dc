"""Classes as the targets of several machines: nothing may be merged by a conversion, and every class has an order."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mklref.exceptions import InvalidTarget, InvalidType

_SORTED = "biufUSMm"
"""Kinds of NumPy arrays whose entries have an order: truth values, numbers, texts, bytes and times."""


def encode_classes(y: Any, n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The classes y of n samples, and the different ones in sorted order; read-only copies.

    `InvalidTarget` for another shape, fewer than two classes, NaN, infinity or no date among them, and what
    `as_one_kind` refuses; `InvalidType` for masked, sparse or complex data, or objects that are neither numbers nor
    texts nor dates.
    """
    sparse = sys.modules.get("scipy.sparse")
    if isinstance(y, np.ma.MaskedArray) or (sparse is not None and sparse.issparse(y)):
        raise InvalidType(f"y is a {type(y).__name__}; give a plain array with one class for each sample.")
    given = as_one_kind(y)
    if given.shape != (n,):
        raise InvalidTarget(f"y has shape {given.shape}, kernels are of order {n}; expected one class for each sample.")
    if given.dtype.kind not in _SORTED:
        raise InvalidType(f"y holds {given.dtype} data, which have no order; give numbers or texts as classes.")
    require_known(given)
    targets = given.copy()
    classes = np.unique(targets)
    if len(classes) < 2:
        raise InvalidTarget(f"y holds only the class {classes.tolist()[0]!r}; give samples of at least two classes.")
    for array in (targets, classes):
        array.flags.writeable = False
    return targets, classes


def require_known(given: NDArray[Any]) -> None:
    """Raise `InvalidTarget` where a class is NaN, infinite or no date: such a sample has none."""
    lost = np.isnat(given) if given.dtype.kind in "Mm" else None
    if given.dtype.kind == "f":
        lost = ~np.isfinite(given)
    if lost is not None and lost.any():
        first = int(lost.argmax())
        raise InvalidTarget(f"y[{first}] is {given[first]}, which is no class; drop the sample.")


def as_one_kind(y: Any) -> NDArray[Any]:
    """`y` as an array in which classes that differ stay different.

    `InvalidTarget` for ragged data; for classes that are equal in the array only, as 1 and "1" are, True and 1, or
    2**53 and 2**53 + 1 beside 0.5; for classes without an order, such as None beside texts.
    """
    if not isinstance(y, list | tuple) and np.asarray(y).dtype.kind != "O":
        return np.asarray(y)
    entries = y if isinstance(y, list | tuple) else np.asarray(y).tolist()
    try:
        array = np.array(entries)
        together = np.unique(array)
    except ValueError as ragged:
        raise InvalidTarget(f"y is ragged: {ragged}.") from ragged
    except TypeError as unordered:
        raise InvalidTarget(f"y holds {_kinds(entries)}, which have no order; give all as texts.") from unordered
    if array.ndim != 1:
        return array
    texts = {"U": str, "S": bytes}.get(array.dtype.kind)
    changed = texts is not None and not all(isinstance(entry, texts) for entry in entries)
    truths = sum(isinstance(entry, bool | np.bool_) for entry in entries)
    changed |= 0 < truths < len(entries)  # True == 1, in a set as well
    nan = array.dtype.kind == "f" and bool(np.isnan(array).any())  # for the caller to refuse: NaN is not even itself
    if changed or (array.dtype.kind != "O" and not nan and len(together) < len(set(entries))):
        raise InvalidTarget(
            f"y holds {_kinds(entries)}, which an array of {array.dtype} does not keep apart; give all classes in one "
            "type, for instance as texts."
        )
    return array


def _kinds(entries: Any) -> str:
    return "classes of the types " + ", ".join(sorted({type(entry).__name__ for entry in entries}))
