"""Cells as numbers, in whatever notation: decimal comma or point, units, dates in any order, times, truth values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from mklref._typing import Array

TRUE = frozenset({"true", "yes", "y", "t", "ja", "oui", "wahr", "vrai", "si", "sí", "on", "1", "1.0"})
FALSE = frozenset({"false", "no", "n", "f", "nein", "non", "falsch", "faux", "off", "0", "0.0"})

DATES = {
    "ymd": ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%Y-%m", "%Y/%m", "%m/%Y", "%b %Y", "%B %Y"),
    "dmy": (
        *(f"%d{mark}%m{mark}{year}" for mark, year in product("./-", ("%Y", "%y"))),
        *(f"%d{mark}{month} %Y" for mark, month in product((" ", ". "), ("%b", "%B"))),
        "%d-%b-%Y",
        "%d-%b-%y",
    ),
    "mdy": (
        *(f"%m{mark}%d{mark}{year}" for mark, year in product("/-", ("%Y", "%y"))),
        *(f"{month} %d{mark} %Y" for month, mark in product(("%b", "%B"), (",", ""))),
    ),
    "time": (),
}
"""The patterns of each order of year, month and day; those of ymd, which nothing else is, go with each of them."""

_MONTHS = {
    "Jan": "januar janvier janv", "Feb": "februar février févr fév", "Mar": "märz mär mars", "Apr": "avril avr",
    "May": "mai", "Jun": "juni juin", "Jul": "juli juillet juil", "Aug": "août", "Sep": "septembre sept",
    "Oct": "oktober okt octobre", "Nov": "novembre", "Dec": "dezember dez décembre déc",
}  # fmt: skip
_ENGLISH = {word: month for month, words in _MONTHS.items() for word in words.split()}
_WORD = re.compile(r"[^\W\d_]{3,}\.?")
_TIME = re.compile(
    r"(?:^|[T ,]\s*)([0-9]{1,4}):([0-9]{2})(?::([0-9]{2}(?:[.,][0-9]+)?))?\s*(?:([ap])\.?m\.?)?"
    r"\s*(?:Z|UTC|GMT|([+-])([0-9]{2}):?([0-9]{2}))?$",
    re.IGNORECASE,
)

_SYMBOLS = str.maketrans({**dict.fromkeys("€$£¥%"), "−": "-", "–": "-"})
_CURRENCY = re.compile(r"(?:EUR|USD|GBP|CHF|US|Fr\.|kr)\s*(?=[-+0-9.,(])")
_UNIT = re.compile(r"(?<=[0-9.,])\s*([^\W\d_][^\d]{0,11}|[°\u00b5\u2030][^\d]{0,11})$")
_SPACES = re.compile("[ '\u2019\u00a0\u202f](?=[0-9]{3}(?:[^0-9]|$))")
_GROUPED = {mark: re.compile(rf"[+-]?[1-9][0-9]{{0,2}}(?:\{mark}[0-9]{{3}})+") for mark in ",."}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


_WHOLE = re.compile(r"([+-]?[0-9]+)\.0+")


class Written(str):
    """A cell that was a number before it was written as a text, in the notation of Python."""


def whole(text: str) -> str:
    """A whole number without the zeros of a float, 1 for 1.0; anything else as it is."""
    found = _WHOLE.fullmatch(text)
    return found[1] if found else text


def numbers(cells: Any, notation: str) -> Array:
    """Texts as numbers, NaN for a missing cell and for what is no finite number.

    The notation is the decimal mark, followed by the unit that the cells end in, if there is one: "." or ",kg". Signs
    of currencies and per cent go without saying; amounts in parentheses are negative.
    """
    mark, unit = notation[:1], notation[1:]
    other = "." if mark == "," else ","

    def value(cell: str | None) -> float:
        if cell is None:
            return np.nan
        if isinstance(cell, Written):
            return float(cell) if _NUMBER.fullmatch(cell) else np.nan
        text = _CURRENCY.sub("", cell.translate(_SYMBOLS).strip(), count=1)
        if unit:
            if not text.endswith(unit):
                return np.nan
            text = text[: -len(unit)].rstrip()
        if text[:1] == "(" and text[-1:] == ")":
            text = f"-{text[1:-1]}"
        text = _SPACES.sub("", text)
        whole = text.partition(mark)[0]
        if other in whole:
            if not _GROUPED[other].fullmatch(whole):
                return np.nan
            text = text.replace(other, "")
        text = text.replace(mark, ".")
        return float(text) if _NUMBER.fullmatch(text) else np.nan

    values = np.array([value(cell) for cell in cells], dtype=np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def unit_of(cells: Sequence[str]) -> str:
    """What most numbers among these texts end in, or nothing."""
    found = Counter(match.group(1) for cell in cells if (match := _UNIT.search(cell.translate(_SYMBOLS).strip())))
    return max(found, key=lambda unit: (found[unit], unit), default="")


def dates(cells: Any, order: str) -> Array:
    """Texts as days since 1970, with the time of the day as a fraction, NaN for a missing cell and for what is no date.

    The order is one of `DATES`, or a pattern of `strptime`. Of times alone the days are those since midnight.
    """
    import pandas as pd

    split = [(None, 0.0) if cell is None else _without_time(cell) for cell in cells]
    hours = np.array([hour for _, hour in split])
    if order == "time":
        return np.where([text == "" for text, _ in split], hours / 24.0, np.nan)
    texts = pd.Series([text for text, _ in split], dtype=object)
    days = np.full(len(texts), np.nan)
    for pattern in (order,) if "%" in order else dict.fromkeys((*DATES[order], *DATES["ymd"])):
        left = np.flatnonzero(np.isnan(days))
        read = pd.to_datetime(texts.iloc[left], format=pattern, errors="coerce")
        days[left] = np.asarray((read - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1), dtype=np.float64)
    return days + hours / 24.0


def _without_time(cell: str) -> tuple[str, float]:
    """The date, with the names of its month in English, and the hours since midnight UTC."""
    found, hours = _TIME.search(cell), 0.0
    if found:
        hour, minute, second, half, sign, *zone = found.groups()
        of_day = int(hour) % 12 + 12 * (half in "pP") if half else int(hour)
        hours = of_day + int(minute) / 60.0 + float((second or "0").replace(",", ".")) / 3600.0
        if sign:
            hours -= int(f"{sign}1") * (int(zone[0]) + int(zone[1]) / 60.0)
        cell = cell[: found.start()].rstrip(" ,T")
    return _WORD.sub(lambda word: _ENGLISH.get(word[0].rstrip(".").casefold(), word[0].rstrip(".")), cell), hours


def flags(cells: Any, true: str) -> Array:
    """1 for the true word and NaN for a missing cell; 0 for others, or, of a word in `TRUE`, for those in `FALSE`."""
    known = true in TRUE

    def value(cell: str | None) -> float:
        if cell is None:
            return np.nan
        word = cell.casefold()
        if known and word not in FALSE:
            return 1.0 if word in TRUE else np.nan
        return float(not known and whole(word) == whole(true.casefold()))

    return np.array([value(cell) for cell in cells], dtype=np.float64)


DECODERS: dict[str, Callable[[Any, str], Array]] = {"number": numbers, "date": dates, "flag": flags}
"""From the cells of a column to numbers."""
