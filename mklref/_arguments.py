"""Checks of arguments that several solvers share: numbers, counts, switches and limits."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from mklref.exceptions import InvalidParameter, InvalidType
from mklref.regularizers.norms import checked_number


def checked_positive(label: str, value: Any, remedy: str = "give a positive finite number.") -> float:
    """`value` as a float if it is positive and finite, else `InvalidParameter`."""
    return checked_number(label, value, "(0, inf)", lambda x: 0.0 < x < np.inf, remedy)


def checked_count(label: str, value: Any, least: int, remedy: str) -> int:
    """`value` as an int if it is an integer of at least `least` that float64 can hold, else `InvalidParameter`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not least <= int(value) < 2**1000:
        raise InvalidParameter(f"{label} = {value!r} must be an integer of at least {least}: {remedy}")
    return int(value)


def checked_flag(label: str, value: Any) -> bool:
    """`value` as a bool if it is one, else `InvalidType`."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidType(f"{label} is {value!r} ({type(value).__name__}); give True or False.")
    return bool(value)


def check_callback(callback: Any, argument: str) -> None:
    """Raise `InvalidType` unless `callback` is None or can be called."""
    if callback is not None and not callable(callback):
        raise InvalidType(f"callback is {callback!r}; give a function of one {argument}, or None.")


def check_limits(tol: Any, meaning: str, max_iter: Any, max_time: Any) -> None:
    """Raise `InvalidParameter` unless a solver can stop at these; `meaning` says what `tol` is."""
    checked_positive("tol", tol, f"{meaning}, for instance 1e-6.")
    checked_count("max_iter", max_iter, 1, "the largest number of iterations.")
    check_time(max_time)


def check_time(max_time: Any) -> None:
    """Raise `InvalidParameter` unless `max_time` is None or positive."""
    if max_time is not None:
        checked_number(
            "max_time", max_time, "(0, inf]", lambda seconds: seconds > 0.0, "seconds, or None for no limit."
        )
