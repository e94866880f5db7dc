"""Where the matrices of a family are: in memory, or nowhere; and how much memory rows may take."""

from __future__ import annotations

import re
from typing import Any

from mklref._untrusted import free_memory
from mklref.exceptions import InvalidParameter, InvalidType

STORAGES = ("memory", "lazy", "auto")
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_DEFAULT, _SHARE = 2 * 10**9, 0.25
"""The default cache: 2 GB, or this share of the free memory if that is less."""
_MEMORY = 0.5
"""Share of the free memory that matrices may take under storage="auto"."""
_BESIDE = 5
"""Matrices of order n beside the stack while it is evaluated."""


def checked_storage(storage: Any) -> str:
    """One of `STORAGES`, or `InvalidParameter`."""
    if storage not in STORAGES:
        raise InvalidParameter(f"storage = {storage!r} is unknown; give {', '.join(map(repr, STORAGES))}.")
    return str(storage)


def chosen(kernels: int, n: int) -> tuple[str, str]:
    """Where M matrices of order n go by the memory that is free, "memory" or "lazy", and why in a sentence."""
    size, free = 8.0 * n * n * (kernels + _BESIDE), free_memory()
    kept = "memory" if size <= _MEMORY * free else "lazy"
    return kept, (
        f"storage='auto' chose {kept!r}: {kernels} matrices of order {n} take {_shown(size)} with what is beside them, "
        f"and {_shown(free)} are free."
    )


def checked_cache(cache: Any) -> int:
    """Bytes from a number or a text such as "500MB"; by default 2 GB, or a quarter of the free memory if that is less.

    Raises
    ------
    InvalidParameter
        Not such a text, negative, or more than there is memory.
    InvalidType
        Something else.
    """
    free = free_memory()
    if cache is None:
        return int(min(_DEFAULT, _SHARE * free))
    size = _bytes(cache)
    if not 0 <= size <= free:
        raise InvalidParameter(
            f"cache = {cache!r} must lie in [0, {_shown(free)}], the memory that is free: "
            f"cache='{_shown(_SHARE * free)}' would fit. With less, rows are evaluated more often."
        )
    return size


def _bytes(cache: Any) -> int:
    if isinstance(cache, bool) or not isinstance(cache, int | float | str):
        raise InvalidType(f"cache is {type(cache).__name__}; give bytes, or a text such as '2GB'.")
    if not isinstance(cache, str):
        if cache != cache or cache in (float("inf"), -float("inf")):
            raise InvalidParameter(f"cache = {cache!r} must be a finite number of bytes, or a text such as '2GB'.")
        return int(cache)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)B?\s*", cache.upper())
    if found is None:
        raise InvalidParameter(f"cache = {cache!r} is not understood; give bytes, or a text such as '500MB' or '2GB'.")
    return int(float(found[1]) * _UNITS[found[2]])


def checked_precision(precision: Any) -> str:
    """The name of a type, or `InvalidParameter`."""
    if precision not in ("float64", "float32"):
        raise InvalidParameter(f"precision = {precision!r} is unknown; give 'float64' or 'float32'.")
    return str(precision)


def _shown(size: float) -> str:
    unit = next(unit for unit in ("G", "M", "K", "") if size >= _UNITS[unit] or not unit)
    return f"{size / _UNITS[unit]:.0f}{unit}B"
