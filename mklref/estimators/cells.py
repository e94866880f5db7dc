"""What the cells of one column are: numbers in some notation, dates, truth values, categories, or names of the rows.

A reading is found from the cells, never from the file around them; where the cells allow two, the column is listed with
the option that decides. Cells that are read as missing: empty ones and those of `MISSING`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from numbers import Number
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_words
from mklref.estimators.notations import DATES, FALSE, TRUE, Written, dates, flags, numbers, unit_of, whole
from mklref.exceptions import InvalidParameter

KINDS = ("number", "category", "date", "flag", "leave")
MISSING = frozenset(
    {"", "na", "n/a", "n.a.", "nan", "nat", "null", "none", "<na>", "#n/a", "#na", "#null!", "#value!", "#div/0!"}
    | {"(null)", "(blank)", "\\n", "?", "-", "--", ".", "missing", "unknown", "not available"}
    | {"k.a.", "keine angabe", "unbekannt", "inconnu"}
)
"""Without regard to capitals."""
ENOUGH = 0.9
"""The share of a column's cells that a reading has to explain; the others are missing, and listed."""
MANY = 10
"""Cells that go up or down by chance in one of n!/2 = 2 million tables; with fewer ones a doubt loses no column."""
MOST_LEVELS = 30
"""Of a category; rarer ones are taken together."""
FOLDED = "fold"
"""The detail of a category whose levels are the same in capitals and small letters."""


@dataclass(frozen=True)
class Reading:
    """What a column is, and how its cells are read."""

    kind: str
    """One of KINDS."""
    detail: str = ""
    """The decimal mark and the unit of numbers, the order of dates, the true word of flags."""
    note: str = ""
    """What a user should know of it."""
    option: str = ""
    """What to say where the column is something else, such as "category" or "date:mdy"."""


_EMPTY = Reading("leave", note="it has no cells")


def cells_of(column: Any, missing: Collection[str] = ()) -> Any:
    """A column of a data frame as texts, None where a cell is missing; 2.0, which pandas makes of 2, as 2.

    Durations are numbers of days, as dates are.
    """
    absent = MISSING | {whole(token.strip().casefold()) for token in checked_words("missing", missing)}

    def text(cell: Any) -> str | None:
        cell = cell / timedelta(days=1) if isinstance(cell, timedelta) else cell
        own = str(cell).strip()
        if whole(own.casefold()) in absent:
            return None
        return Written(whole(own)) if not isinstance(cell, bool) and isinstance(cell, Number) else own

    raw, known = np.asarray(column.astype(object), dtype=object), np.asarray(column.notna())
    return np.array([text(cell) if there else None for cell, there in zip(raw, known, strict=True)], dtype=object)


def read(cells: Any, given: str | None = None) -> Reading:
    """How the cells of a column, texts or None, are read, or `InvalidParameter` where they are not what is `given`.

    That is what the user says of it: a kind, with its detail after a colon, such as "number:," or "date:mdy".
    """
    known = [cell for cell in cells if cell is not None]
    if given is not None:
        return _as_given(known, given)
    if not known:
        return _EMPTY
    words = {cell.casefold() for cell in known}
    if words <= TRUE | FALSE and words & TRUE and words & FALSE and not all(word[0].isdigit() for word in words):
        return Reading("flag", min(words & TRUE, key=lambda word: (word[0].isdigit(), word)))
    return _compact_date(known) or _number(known) or _date(known) or _category(known)


def _as_given(known: Sequence[str], given: str) -> Reading:
    kind, _, detail = str(given).partition(":")
    if kind not in KINDS:
        known = (*KINDS, "number:", "category:fold", "date:dmy")
        raise InvalidParameter(f"{given!r} is no kind of column; known are {', '.join(known)}.")
    if not known:
        return _EMPTY
    if kind == "number":
        notation = detail or _notation(known)[0]
        _require_read(given, known, numbers(known, notation), kind)
        return Reading("number", notation)
    if kind == "date":
        found = _date(known, orders=[detail] if detail in DATES else list(DATES))
        _require_read(given, known, np.full(1, np.nan if found is None else 0.0), kind)
        return Reading("date", "" if found is None else found.detail)
    if kind == "flag":
        words = (cell.casefold() for cell in known if cell.casefold() in TRUE)
        true = detail or str(next(words, known[0]))
        _require_read(given, known, flags(known, true), kind)
        return Reading("flag", true)
    return Reading(kind, FOLDED if given == f"category:{FOLDED}" else "")


def _require_read(given: str, known: Sequence[str], values: Array, kind: str) -> None:
    """Raise `InvalidParameter` if not one cell is what the user says of the column."""
    if np.isnan(values).all():
        raise InvalidParameter(f"{given!r}: its cells, such as {known[0]!r}, are no such {kind}s.")


def _notation(known: Sequence[str]) -> tuple[str, Array]:
    """The notation that explains most cells, and their values: a mark, and a unit where there is none without."""
    by_notation = {mark: numbers(known, mark) for mark in ".,"}
    if max(_explained(values) for values in by_notation.values()) < ENOUGH and (unit := unit_of(known)):
        by_notation |= {mark + unit: numbers(known, mark + unit) for mark in ".,"}
    return max(by_notation.items(), key=lambda pair: _explained(pair[1]))


def _explained(values: Array) -> float:
    return float(np.isfinite(values).mean())


def _strange(known: Sequence[str], values: Array, what: str) -> str:
    cells = [cell for cell, value in zip(known, values, strict=True) if np.isnan(value)]
    shown = ", ".join(repr(cell[:20]) for cell in dict.fromkeys(cells))
    said = "1 cell is no {} and counts" if len(cells) == 1 else f"{len(cells)} cells are no {{}}s and count"
    return f"{said.format(what)} as missing: {shown[:80]}" if cells else ""


def _number(known: Sequence[str]) -> Reading | None:
    """Numbers in the notation that explains more cells; listed where both do and say different things."""
    notation, found = _notation(known)
    if _explained(found) < ENOUGH:
        return None
    values = found[np.isfinite(found)]
    if strange := _strange(known, found, "number"):
        return Reading("number", notation, strange, "category")
    if notation[1:]:
        return Reading("number", notation, f"all end in {notation[1:]!r}, taken for a unit", "category")
    by_comma = numbers(known, ",")
    if notation == "." and np.isfinite(by_comma).all() and not np.array_equal(values, by_comma):
        example = next(cell for cell in known if "," in cell or "." in cell)
        if "," in example:
            return Reading("number", notation, f"{example!r} is read as {numbers([example], '.')[0]:g}", "number:,")
    codes = [cell for cell in known if cell[0] == "0" and len(cell) > 1]
    if codes and all(cell.isdecimal() for cell in known):
        return Reading(_category(known).kind, "", f"codes such as {codes[0]!r} and no numbers", "number")
    different = np.unique(values)
    whole = bool(np.all(values == np.round(values)))
    if whole and len(values) > 2 and _counts(values):
        if len(values) < MANY:
            return Reading("number", notation, "it may count the rows", "leave")
        return Reading("leave", note="it counts the rows", option="number")
    if whole and 3 <= len(different) <= 10 and 5 * len(different) <= len(values):
        return Reading("number", notation, f"whole numbers of {len(different)} values, taken by their size", "category")
    return Reading("number", notation)


def _counts(values: Array) -> bool:
    """Whether whole numbers go up or down row by row and leave out few, as numbers of rows do."""
    before, after = values[:-1], values[1:]
    one_way = np.all(before < after) or np.all(before > after)
    return bool(one_way and values.max() <= values.min() + 2.0 * len(values))


def _compact_date(known: Sequence[str]) -> Reading | None:
    if not all(len(cell) == 8 and cell.isdecimal() and cell[:2] in ("19", "20") for cell in known):
        return None
    if np.isnan(dates(known, "%Y%m%d")).any():
        return None
    return Reading("date", "ymd", f"{known[0]!r} is read as year, month and day", "number")


def _date(known: Sequence[str], orders: Sequence[str] = tuple(DATES)) -> Reading | None:
    """Dates in the order that explains most cells; listed where another order of day and month does too."""
    if not known or not any(symbol.isdigit() for symbol in known[0]):
        return None
    found = {order: dates(known, order) for order in orders if _explained(dates(known[:50], order)) >= ENOUGH}
    if not found:
        return None
    order = max(found, key=lambda order: _explained(found[order]))
    if _explained(found[order]) < ENOUGH:
        return None
    others = [other for other, values in found.items() if not np.array_equal(values, found[order], equal_nan=True)]
    others = [other for other in others if _explained(found[other]) == _explained(found[order])]
    notes = [_strange(known, found[order], "date")]
    if others:
        notes.append(f"{known[0]!r} is read as {SPELLED[order]}")
    option = f"date:{others[0]}" if others else "category" if notes[0] else ""
    return Reading("date", order, "; ".join(filter(None, notes)), option)


SPELLED = {"ymd": "year, month, day", "dmy": "day, month, year", "mdy": "month, day, year", "time": "hours, minutes"}


def _category(known: Sequence[str]) -> Reading:
    different = len(set(known))
    if 2 * different > len(known) and different > 2:
        return Reading("leave", note=f"texts of which {different} of {len(known)} are different", option="category")
    if len({cell.casefold() for cell in known}) < different:
        by_letters = Counter(cell.casefold() for cell in set(known))
        twice = next(cell for cell in known if by_letters[cell.casefold()] > 1)
        note = f"levels differ in capitals alone, such as {twice!r}"
        return Reading("category", note=note, option=f"category:{FOLDED}")
    if different > MOST_LEVELS:
        return Reading(
            "category", note=f"{different} texts, of which the {MOST_LEVELS} most frequent count", option="leave"
        )
    return Reading("category")
