"""Losses and regularisers of somebody's own: what they are instances of, and what their methods may return."""

from __future__ import annotations

from dataclasses import fields
from inspect import getattr_static, isabstract
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.exceptions import InvalidParameter


def own_class(thing: Any) -> bool:
    """Whether somebody else wrote the class of an object."""
    return thing is not None and _own(type(thing))


def _own(kind: type) -> bool:
    return kind.__module__.partition(".")[0] != "mklref"


class Stated:
    """A base of losses and regularisers, beside `ABC`: `isinstance` holds only where the formulas of the class do.

    A class of somebody's own may inherit the code of one of ours. If it changes anything that the parent says, it is
    no subclass of it: as if it derived from `Loss` or `Regularizer`, so that nobody applies the parent's formulas. A
    hook of `ABCMeta` says so; a metaclass of our own would conflict with every other one, as that of protocols.
    """

    @classmethod
    def __subclasshook__(cls, kind: type) -> Any:
        return False if _own(kind) and _changes(kind, cls) else NotImplemented


def _changes(kind: type, ours: type) -> bool:
    """Whether a class has something else than a concrete one of ours has, but its name and its parameters."""
    if isabstract(ours) or not ours.__module__.startswith("mklref."):
        return False
    stated = set(dir(ours)) - {"name", "_abc_impl", *(field.name for field in fields(ours))}
    own = (name for name in stated if not name.startswith("__"))
    # A class that is registered only has nothing of ours; a field without a default is in no class.
    return any(getattr_static(kind, name, None) is not getattr_static(ours, name) for name in own) or any(
        field.name in stated for field in fields(kind)
    )


def shaped(label: str, values: Any, shape: tuple[int, ...]) -> Array:
    """What a method of such a class returned: a number, or an array of float64 of this shape; -1 is any length."""
    found = np.shape(values)
    if len(found) != len(shape) or any(n not in (-1, m) for n, m in zip(shape, found, strict=True)):
        raise InvalidParameter(f"{label} has shape {found}; expected {str(shape).replace('-1', 'k')}.")
    if shape and getattr(values, "dtype", None) != np.float64:  # compiled loops take nothing else
        kind = getattr(values, "dtype", type(values).__name__)
        raise InvalidParameter(f"{label} is of type {kind}; return an array of float64, np.asarray(..., dtype=float).")
    return np.asarray(values, dtype=np.float64)
