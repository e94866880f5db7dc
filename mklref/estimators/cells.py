"""What the cells of one column are: numbers in some notation, dates, truth values, categories, or names of the rows.

A reading is found from the cells, never from the file around them; where the cells allow two, the column is listed with
the option that decides. Cells that are read as missing: empty ones, NA, N/A, NaN, null, None, ?, -, and a point.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.exceptions import InvalidParameter

KINDS = ("number", "category", "date", "flag", "leave")
MISSING = frozenset({"", "na", "n/a", "nan", "nat", "null", "none", "<na>", "?", "-", "--", "."})
ENOUGH = 0.9
"""The share of a column's cells that a reading has to explain; the others are missing, and listed."""
MOST_LEVELS = 30
"""Of a category; rarer ones are taken together."""
OTHER = "(other)"
ABSENT = "missing"

_WORDS = ("true false", "yes no", "y n", "t f", "ja nein", "oui non", "wahr falsch", "vrai faux", "si no")
FLAGS = {frozenset(words.split()): words.split()[0] for words in _WORDS}
"""Pairs of words that are truth values, with the true one."""
DATES = {
    "ymd": ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"),
    "dmy": ("%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%d %b %Y", "%d %B %Y", "%d.%m.%y", "%d/%m/%y"),
    "mdy": ("%m/%d/%Y", "%m-%d-%Y", "%b %d, %Y", "%B %d, %Y", "%m/%d/%y"),
}
_AFFIXES = str.maketrans("", "", "€$£¥%")
_SPACES = re.compile("[ '\u2019\u00a0\u202f](?=[0-9]{3}(?:[^0-9]|$))")
_GROUPED = {mark: re.compile(rf"[+-]?[0-9]{{1,3}}(?:\{mark}[0-9]{{3}})+") for mark in ",."}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Reading:
    """What a column is, and how its cells are read."""

    kind: str
    """One of KINDS."""
    detail: str = ""
    """The decimal mark of numbers, the order and format of dates, the true word of flags."""
    note: str = ""
    """What a user should know of it."""
    option: str = ""
    """What to say where the column is something else, such as "category" or "date:mdy"."""


def cells_of(column: Any, missing: Collection[str] = ()) -> Any:
    """A column of a data frame as texts, None where a cell is missing."""
    absent = MISSING | {token.strip().casefold() for token in missing}
    raw = np.asarray(column.astype(object), dtype=object)
    known = np.asarray(column.notna())
    texts = [str(cell).strip() if there else "" for cell, there in zip(raw, known, strict=True)]
    return np.array([None if text.casefold() in absent else text for text in texts], dtype=object)


def numbers(cells: Any, mark: str) -> Array:
    """Texts as numbers with this decimal mark, NaN for a missing cell and for what is no finite number."""
    other = "." if mark == "," else ","

    def value(cell: str | None) -> float:
        if cell is None:
            return np.nan
        text = _SPACES.sub("", cell.translate(_AFFIXES).strip())
        whole = text.partition(mark)[0]
        if other in whole:
            if not _GROUPED[other].fullmatch(whole):
                return np.nan
            text = text.replace(other, "")
        text = text.replace(mark, ".")
        return float(text) if _NUMBER.fullmatch(text) else np.nan

    values = np.array([value(cell) for cell in cells], dtype=np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def dates(cells: Any, pattern: str) -> Array:
    """Texts as days since 1970, NaN for a missing cell and for what is no date of this pattern."""
    import pandas as pd

    read = pd.to_datetime(pd.Series(cells, dtype=object), format=pattern, errors="coerce")
    days = (read - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    return np.asarray(days, dtype=np.float64)


def flags(cells: Any, true: str) -> Array:
    """1 for the true word and for no other, NaN for a missing cell."""
    return np.array([np.nan if cell is None else float(cell.casefold() in (true, "1", "1.0")) for cell in cells])


def read(cells: Any, given: str | None = None) -> Reading:
    """How the cells of a column are read.

    Parameters
    ----------
    cells : array (n,) of str or None
    given : str, optional
        What the user says of it: a kind, with its detail after a colon, such as "number:," or "date:mdy".

    Raises
    ------
    InvalidParameter
        An unknown kind, or one that the cells are not.
    """
    known = [cell for cell in cells if cell is not None]
    if given is not None:
        return _as_given(known, given)
    if not known:
        return Reading("leave", note="it has no cells")
    words = frozenset(cell.casefold() for cell in known)
    for pair, true in FLAGS.items():
        if words <= pair and len(words) == 2:
            return Reading("flag", true)
    return _number(known) or _date(known) or _category(known)


def _as_given(known: Sequence[str], given: str) -> Reading:
    kind, _, detail = given.partition(":")
    if kind not in KINDS:
        raise InvalidParameter(f"{given!r} is no kind of column; known are {', '.join(KINDS)}, number:, and date:dmy.")
    if kind == "number":
        return Reading("number", detail or (_number(known) or Reading("number", ".")).detail)
    if kind == "date":
        found = _date(known, orders=[detail] if detail in DATES else list(DATES))
        if found is None:
            raise InvalidParameter(f"{given!r}: its cells, such as {known[0] if known else ''!r}, are no such dates.")
        return Reading("date", found.detail)
    if kind == "flag":
        return Reading("flag", detail or next((FLAGS[pair] for pair in FLAGS if known[0].casefold() in pair), known[0]))
    return Reading(kind)


def _number(known: Sequence[str]) -> Reading | None:
    """Numbers in the notation that explains more cells; listed where both do and say different things."""
    by_mark = {mark: numbers(known, mark) for mark in ".,"}
    explained = {mark: float(np.isfinite(values).mean()) for mark, values in by_mark.items()}
    mark = "," if explained[","] > explained["."] else "."
    if explained[mark] < ENOUGH:
        return None
    values = by_mark[mark][np.isfinite(by_mark[mark])]
    strange = [cell for cell, value in zip(known, by_mark[mark], strict=True) if np.isnan(value)]
    if strange:
        shown = ", ".join(repr(cell[:20]) for cell in dict.fromkeys(strange))
        return Reading(
            "number", mark, f"{len(strange)} cells are no numbers and count as missing: {shown[:80]}", "category"
        )
    if explained["."] == explained[","] == 1.0 and not np.array_equal(by_mark["."], by_mark[","]):
        example = next(cell for cell in known if "," in cell or "." in cell)
        if "," in example:
            return Reading("number", mark, f"{example!r} is read as {numbers([example], mark)[0]:g}", "number:,")
    different = np.unique(values)
    whole = bool(np.all(values == np.round(values)))
    if whole and len(values) > 2 and _counts(values):
        return Reading("leave", note="it counts the rows", option="number")
    if whole and 3 <= len(different) <= 10 and 5 * len(different) <= len(values):
        return Reading("number", mark, f"whole numbers of {len(different)} values, taken by their size", "category")
    return Reading("number", mark)


def _counts(values: Array) -> bool:
    """Whether whole numbers go up or down row by row and leave out few, as numbers of rows do."""
    steps = np.diff(values)
    return bool((np.all(steps > 0.0) or np.all(steps < 0.0)) and np.ptp(values) <= 2.0 * len(values))


def _date(known: Sequence[str], orders: Sequence[str] = tuple(DATES)) -> Reading | None:
    """Dates in the first pattern that explains the cells; listed where another order of day and month does too."""
    if not any(symbol.isdigit() for symbol in known[0]):
        return None
    fitting = [
        f"{order}:{pattern}"
        for order in orders
        for pattern in DATES[order]
        if float(np.isfinite(dates(known[:50], pattern)).mean()) >= ENOUGH
        and float(np.isfinite(dates(known, pattern)).mean()) >= ENOUGH
    ]
    if not fitting:
        return None
    order, _, pattern = fitting[0].partition(":")
    others = [other.partition(":")[0] for other in fitting[1:] if not other.startswith(order)]
    if others:
        return Reading("date", pattern, f"{known[0]!r} is read as {pattern}", f"date:{others[0]}")
    return Reading("date", pattern)


def _category(known: Sequence[str]) -> Reading:
    different = len(set(known))
    if 2 * different > len(known) and different > 2:
        return Reading("leave", note=f"texts of which {different} of {len(known)} are different", option="category")
    if different > MOST_LEVELS:
        return Reading(
            "category", note=f"{different} texts, of which the {MOST_LEVELS} most frequent count", option="leave"
        )
    return Reading("category")


DECODERS: dict[str, Callable[[Any, str], Array]] = {"number": numbers, "date": dates, "flag": flags}
"""From the cells of a column to numbers."""
