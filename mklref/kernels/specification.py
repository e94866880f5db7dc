"""Kernel families written as text, for the command line and for models that are saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import mul
from typing import Any, overload

import numpy as np

from mklref._typing import Array
from mklref._validate import shown
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.kernels.base import KernelFamily, Union, total
from mklref.kernels.columns import on, per_group, per_variable
from mklref.kernels.families import gaussian, linear, matching, polynomial, simplemkl_family, spectrum
from mklref.kernels.fitted import FamilyStack
from mklref.kernels.transforms import Normalization
from mklref.kernels.wavelets import wavelet

_MOST = 1000
"""Kernels of one item: a text may come from a file that nobody has read."""
_DEEPEST = 50
"""Brackets within one another: each pair has its content read once more."""
_QUOTES = "\"'"
_BRACKETS = {"(": ")", "[": "]"}


def parse(text: str) -> KernelFamily:
    """The family that a specification describes, items separated by commas.

        linear                            x'z
        matching                          share of equal variables, for coded categories
        poly(2)  poly(1..3)  poly(1, 3)   (x'z + 1)^D, one kernel for each degree
        rbf(S)   rbf(S, T)                exp(-||x - z||^2 / (2 S^2)), one kernel for each width
        rbf(LOW..HIGH, COUNT)             COUNT widths from LOW to HIGH, both included, in equal ratios
        simplemkl                         rbf of the ten widths of SimpleMKL 5.1, then poly(1..3)
        spectrum(3)  spectrum(1..3)       common words of this length, on texts
        wavelet(KIND, LOW..HIGH, ...)     dil, dil_trans or all of the scales LOW..HIGH; then, in any order,
                                          mother=sym6, sets=10, domain=0..1
        per_variable(ITEMS)               the items on each single variable
        on(GROUP, COLUMNS, ITEMS)         the items on some variables: a name, a number, a prefix such as blood_*, or
                                          several of these in brackets, [age, blood_*, 7]
        per_group(SEPARATOR, ITEMS)       the items on each group of variables, named alike up to the separator
        total(ITEMS)                      the sum of the items as one kernel
        ITEM * ITEM    FACTOR * ITEM      products of every kernel with every other, and multiples

    Names with commas, brackets or spaces at the ends are put into quotes. A short form, which needs no quotes in a
    shell, is poly:2 for poly(2), rbf:0.1..10:8 for rbf(0.1..10, 8), and per-variable for all items before it once
    more, on each single variable.

    Parameters
    ----------
    text : str
        For instance "linear, poly(2), rbf(0.1..10, 8), per_variable(rbf(1))".

    Raises
    ------
    InvalidParameter
        An item that is not understood; the message quotes it and says what was expected.
    InvalidType
        Not a string.
    """
    if not isinstance(text, str):
        raise InvalidType(f"kernels is {type(text).__name__}; give a specification such as 'linear, rbf(0.1..10, 8)'.")
    return _union(_split(text, text))


@overload
def from_specification(
    text: str, X: Any, X_new: None = None, *, normalize: Normalization | None = None, center: bool = False
) -> FamilyStack: ...
@overload
def from_specification(
    text: str, X: Any, X_new: Any, *, normalize: Normalization | None = None, center: bool = False
) -> tuple[FamilyStack, Array]: ...
def from_specification(
    text: str, X: Any, X_new: Any = None, *, normalize: Normalization | None = None, center: bool = False
) -> FamilyStack | tuple[FamilyStack, Array]:
    """Kernels of training samples, and of new samples, from a specification such as "linear, rbf(0.1..10, 8)".

    Parameters
    ----------
    text : str
        As in `parse`.
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
    InvalidType, InvalidParameter
        An item that is not understood, or an unknown normalisation.
    InvalidInput
        X or X_new is not a finite matrix, or they differ in their number of columns.
    """
    train = parse(text).fit(X, normalize=normalize, center=center)
    return train if X_new is None else (train, train.new(X_new))


def _union(items: Sequence[str]) -> KernelFamily:
    families: list[KernelFamily] = []
    for position, item in enumerate(items):
        if item == "per-variable":
            if not families or "per-variable" in items[:position]:
                raise _misread(item, "it repeats the items before it on each variable: put it once, after them")
            families.append(per_variable(Union(tuple(families))))
        else:
            families.append(_item(item))
    return Union(tuple(families))


def _item(item: str) -> KernelFamily:
    """One item, a product of items, or a multiple."""
    product = reduce(mul, map(_factor, _split(item, item, "*")))
    if not isinstance(product, KernelFamily):
        raise _misread(item, _KNOWN)
    return product


def _factor(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return _single(text)


def _single(item: str) -> KernelFamily:
    """One item: a name, name(argument, ...), or in the short form name:argument:..."""
    name, parenthesis, rest = item.partition("(")
    short, colon, argument = item.partition(":")
    if parenthesis and ":" not in name:
        if not rest.endswith(")"):
            raise _misread(item, "after its closing parenthesis a comma or the end is expected")
        arguments = _split(rest[:-1], item) if rest[:-1].strip() else []
    elif colon:
        name, arguments = short, argument.split(":")
    else:
        name, arguments = item, []
    if name.strip() not in _BUILDERS:
        raise _misread(item, _KNOWN)
    build, expected = _BUILDERS[name.strip()]
    try:
        _require(bool(expected) or not arguments, "it takes no arguments")
        return build(arguments) if expected else build()
    except _Unexpected as found:
        raise _misread(item, str(found) or f"expected {expected}") from None


class _Unexpected(Exception):
    """Arguments of an item that are not those that are expected, or with what is wrong with them."""


def _require(condition: bool, reason: str = "") -> None:
    if not condition:
        raise _Unexpected(reason)


def _items(arguments: list[str]) -> KernelFamily:
    _require(bool(arguments))
    return _union(arguments)


def _poly(arguments: list[str]) -> KernelFamily:
    degrees = _integers(arguments)
    _require(min(degrees) >= 1, "degrees are positive integers")
    return polynomial(degrees)


def _rbf(arguments: list[str]) -> KernelFamily:
    """S, S, ..., or LOW..HIGH and COUNT."""
    _require(bool(arguments))
    if ".." in arguments[0]:
        low, high = _ends(arguments[0], float)
        _require(len(arguments) == 2)
        count = _number(arguments[1], int)
        fits = 0.0 < low < high < np.inf and 2 <= count <= _MOST
        _require(fits, f"it needs 0 < LOW < HIGH and COUNT from 2 to {_MOST}")
        return gaussian(np.geomspace(low, high, count))
    widths = [_number(argument, float) for argument in arguments]
    _require(all(0.0 < width < np.inf for width in widths), "a width lies in (0, inf)")
    return gaussian(widths)


def _wavelet(arguments: list[str]) -> KernelFamily:
    options: dict[str, Any] = {}
    for position, argument in enumerate(arguments):
        key, equals, value = (part.strip() for part in argument.partition("="))
        if not equals and position < 2:
            key, value = ("kind", "levels")[position], argument
        _require(key in ("kind", "mother", "levels", "domain", "sets"))
        if key == "levels":
            low, high = _ends(value, int)
            options[key] = range(low, high + 1)
        elif key == "domain":
            options[key] = _ends(value, float)
        else:
            options[key] = _number(value, int) if key == "sets" else _unquoted(value)
    return wavelet(**options)


def _on(arguments: list[str]) -> KernelFamily:
    _require(len(arguments) >= 3)
    group, columns, *items = arguments
    inner = _split(columns[1:-1], columns) if columns.startswith("[") and columns.endswith("]") else [columns]
    chosen: list[str | int] = [
        int(column) if column.isdecimal() and len(column) < 10 else _unquoted(column) for column in inner if column
    ]
    return on(_unquoted(group), chosen, _union(items))


def _per_group(arguments: list[str]) -> KernelFamily:
    _require(len(arguments) >= 2)
    return per_group(_unquoted(arguments[0]), _union(arguments[1:]))


_BUILDERS: dict[str, tuple[Callable[..., KernelFamily], str]] = {
    "linear": (linear, ""),
    "poly": (_poly, "poly(D) or poly(LOW..HIGH) with positive integers"),
    "rbf": (_rbf, "rbf(S) or rbf(LOW..HIGH, COUNT), for instance rbf(0.1..10, 8)"),
    "simplemkl": (simplemkl_family, ""),
    "spectrum": (
        lambda arguments: spectrum(_integers(arguments)),
        "spectrum(K) or spectrum(LOW..HIGH) with integers from 1 to 12",
    ),
    "wavelet": (_wavelet, "wavelet(KIND, LOW..HIGH, mother=sym6, sets=10, domain=0..1), all of which may be left out"),
    "per_variable": (
        lambda arguments: per_variable(_items(arguments)),
        "per_variable(ITEMS), for instance per_variable(linear, rbf(1))",
    ),
    "on": (_on, "on(GROUP, COLUMNS, ITEMS), for instance on(blood, [iron, blood_*], rbf(1))"),
    "per_group": (_per_group, "per_group(SEPARATOR, ITEMS), for instance per_group(_, linear)"),
    "total": (lambda arguments: total(_items(arguments)), "total(ITEMS), for instance total(linear, rbf(1))"),
    "matching": (matching, ""),
}
"""How each item is made of its arguments, and what they should be; of none where that is not said."""
_KNOWN = f"known are {', '.join(_BUILDERS)}, for instance rbf(0.1..10, 8)"


def _split(text: str, item: str, separator: str = ",") -> list[str]:
    """The parts between the separators that lie outside brackets and quotes."""
    parts, part, closing, quote = [], "", "", ""
    for symbol in text:
        if quote:
            quote = "" if symbol == quote else quote
        elif symbol in _QUOTES:
            quote = symbol
        elif symbol in _BRACKETS:
            closing += _BRACKETS[symbol]
            if len(closing) > _DEEPEST:
                raise InvalidParameter(f"kernels: {text[:40]!r}... is nested too deeply; write fewer brackets.")
        elif symbol in _BRACKETS.values():
            if not closing.endswith(symbol):
                raise _misread(item, f"{symbol!r} closes nothing")
            closing = closing[:-1]
        elif symbol == separator and not closing:
            parts.append(part.strip())
            part = ""
            continue
        part += symbol
    if closing or quote:
        raise _misread(item, f"{(quote or closing[-1])!r} is missing at the end")
    return [*parts, part.strip()]


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) >= 2 and text[0] in _QUOTES and text[-1] == text[0] else text


def _integers(arguments: list[str]) -> list[int]:
    """Integers and ranges LOW..HIGH, both ends included."""
    _require(bool(arguments))
    found: list[int] = []
    for argument in arguments:
        low, high = _ends(argument, int) if ".." in argument else 2 * (_number(argument, int),)
        _require(high - low < _MOST, f"one item has at most {_MOST} kernels")
        found += range(low, high + 1)
    return found


def _ends(text: str, kind: type) -> tuple[Any, Any]:
    low, _, high = text.partition("..")
    ends = _number(low, kind), _number(high, kind)
    _require(ends[0] <= ends[1], "the lower end comes first")
    return ends


def _number(text: str, kind: type) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise _Unexpected from None


def _misread(item: str, reason: str) -> InvalidParameter:
    return InvalidParameter(f"kernels: {shown(item)} is not understood: {reason}.")
