"""Kernel families written as text, for the command line.

    linear                   x'z
    poly:D                   (x'z + 1)^D                             poly:1..3 is three kernels, of degree 1, 2, 3
    rbf:S                    exp(-||x - z||^2 / (2 S^2))
    rbf:LOW..HIGH:COUNT      COUNT widths from LOW to HIGH, both included, in equal ratios
    simplemkl                rbf of the ten widths of SimpleMKL 5.1, then poly:1..3
    per-variable             all items before it once more, on each single variable

Items are separated by commas. Example: "linear,poly:2,rbf:0.1..10:8,per-variable" is 10 (d + 1) kernels.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from mklref._typing import Array
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.kernels.families import KernelFamily, Union, gaussian, linear, per_variable, polynomial
from mklref.kernels.fitted import FamilyStack
from mklref.kernels.recipes import simplemkl_family
from mklref.kernels.transforms import Normalization


def parse(text: str) -> KernelFamily:
    """The family that a specification describes.

    Raises
    ------
    InvalidParameter
        An item that is not understood; the message quotes it and says what was expected.
    InvalidType
        Not a string.
    """
    if not isinstance(text, str):
        raise InvalidType(f"kernels is {type(text).__name__}; give a specification such as 'linear,rbf:0.1..10:8'.")
    families: list[KernelFamily] = []
    items = [item.strip() for item in text.split(",")]
    for position, item in enumerate(items):
        if item == "per-variable":
            if not families or "per-variable" in items[:position]:
                raise _misread(item, "it repeats the items before it on each variable: put it once, after them")
            families.append(per_variable(Union(tuple(families))))
        else:
            families.append(_parse_item(item))
    return Union(tuple(families))


@overload
def from_specification(
    text: str, X: Any, X_new: None = None, *, normalize: Normalization | None = None, center: bool = False
) -> FamilyStack: ...
@overload
def from_specification(
    text: str, X: Any, X_new: Any, *, normalize: Normalization | None = None, center: bool = False
) -> tuple[FamilyStack, Array]: ...
def from_specification(
    text: str,
    X: Any,
    X_new: Any = None,
    *,
    normalize: Normalization | None = None,
    center: bool = False,
) -> FamilyStack | tuple[FamilyStack, Array]:
    """Kernels of training samples, and of new samples, from a specification such as "linear,rbf:0.1..10:8".

    Parameters
    ----------
    text : str
        Items separated by commas: linear, poly:D, poly:LOW..HIGH, rbf:S, rbf:LOW..HIGH:COUNT, simplemkl, and
        per-variable, which repeats all items before it on each single variable.
    X : array (n, d)
        Training samples.
    X_new : array (k, d), optional
        New samples.
    normalize, center
        As in `KernelFamily.fit`.

    Returns
    -------
    FamilyStack
        The training kernels, (M, n, n). With X_new the pair of them and the matching array (M, k, n).

    Raises
    ------
    InvalidParameter
        An item that is not understood, or an unknown normalisation.
    InvalidInput
        X or X_new is not a finite matrix, or they differ in their number of columns.
    """
    train = parse(text).fit(X, normalize=normalize, center=center)
    return train if X_new is None else (train, train.new(X_new))


def _parse_item(item: str) -> KernelFamily:
    kind, _, argument = item.partition(":")
    if item == "linear":
        return linear()
    if item == "simplemkl":
        return simplemkl_family()
    if kind == "poly":
        low, dots, high = argument.partition("..")
        first = _number(item, low, int, "poly:D or poly:LOW..HIGH with positive integers")
        last = _number(item, high, int, "poly:LOW..HIGH with positive integers") if dots else first
        if not 1 <= first <= last:
            raise _misread(item, "degrees are positive integers, the lower one first")
        return polynomial(range(first, last + 1))
    if kind == "rbf":
        return gaussian(_widths(item, argument))
    raise _misread(item, "known are linear, poly:D, rbf:S, rbf:LOW..HIGH:COUNT, simplemkl and per-variable")


def _widths(item: str, argument: str) -> Array:
    """S, or LOW..HIGH:COUNT."""
    low, dots, rest = argument.partition("..")
    expected = "rbf:S or rbf:LOW..HIGH:COUNT, for instance rbf:0.1..10:8"
    if not dots:
        widths = np.array([_number(item, low, float, expected)])
    else:
        high, _, count = rest.partition(":")
        ends = _number(item, low, float, expected), _number(item, high, float, expected)
        number = _number(item, count, int, expected)
        if not (0.0 < ends[0] < ends[1] < np.inf and number >= 2):
            raise _misread(item, "it needs 0 < LOW < HIGH and COUNT >= 2")
        widths = np.geomspace(*ends, number)
    if not 0.0 < widths[0] < np.inf:
        raise _misread(item, "a width lies in (0, inf)")
    return widths


def _number(item: str, text: str, kind: type, expected: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise _misread(item, f"expected {expected}") from None


def _misread(item: str, reason: str) -> InvalidParameter:
    return InvalidParameter(f"kernels: {item!r} is not understood: {reason}.")
