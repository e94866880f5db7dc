"""Tables as they are: each column of a data frame becomes numbers, as its cells say and in a way that is reported.

    number    (x - mean) / deviation, 0 where it is missing, and a column name=missing if cells were missing
    date      as a number, days since 1970
    flag      0 or 1, and name=missing
    category  name=level, 0 or 1 for each level; missing cells are a level of their own

The inner product of the columns of a category is the matching kernel: 1 for the same level, 0 for another. Columns of
kernels are named as those of the table: on(who, [sex, age], rbf(1)) takes all that sex and age became, and
per_group(=, rbf(1)) is a kernel for each column of the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mklref._names import require_one_order
from mklref._typing import Array
from mklref._validate import shown
from mklref.datasets.record import mean_and_deviation
from mklref.estimators import cells as reading
from mklref.estimators.cells import ENOUGH, FOLDED, KINDS, MOST_LEVELS, SPELLED, Reading
from mklref.estimators.classifier import MKLClassifier
from mklref.estimators.notations import DECODERS, whole
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidTarget, InvalidType, MKLWarning, warn

_SAID = "Correct them, or say of the column in `columns` that it is a category."
OTHER, ABSENT = "(other)", "missing"
"""Levels of a category, and endings of the names of their columns."""


@dataclass(frozen=True)
class Column(Reading):
    """How one column of a table becomes numbers."""

    name: str = field(kw_only=True)
    levels: tuple[str, ...] = ()
    mean: float = 0.0
    deviation: float = 1.0
    absent: int = 0
    """Missing cells of the table that it was fitted to."""

    @classmethod
    def of(cls, name: str, cells: Any, found: Reading) -> Column:
        """Levels, mean and deviation of these cells."""
        absent = sum(cell is None for cell in cells)
        made = cls(**vars(found), name=name, absent=absent)
        if made.kind == "leave":
            return made
        if made.kind == "category":
            counts = Counter(cell for cell in made._levels_of(cells) if cell is not None)
            counts.pop(OTHER, None)  # which is no level of its own
            frequent = sorted(sorted(counts, key=lambda level: (-counts[level], level))[:MOST_LEVELS])
            levels = (*frequent, *([OTHER] if len(frequent) < len(counts) else []), *([ABSENT] if absent else []))
            if len(levels) < 2:
                return replace(made, kind="leave", note="it is the same in all rows")
            return replace(made, levels=levels)
        values = DECODERS[made.kind](cells, made.detail)
        there = values[np.isfinite(values)]
        made = replace(made, absent=int(np.isnan(values).sum()))
        if not len(there) or (there.min() == there.max() and not made.absent):
            return replace(made, kind="leave", note="it is the same in all rows", option="")
        if made.kind == "flag":
            return made
        mean, deviation = map(float, mean_and_deviation(there))
        return replace(made, mean=mean, deviation=deviation)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns of numbers."""
        if self.kind == "leave":
            return ()
        if self.kind == "category":
            return tuple(f"{self.name}={level}" for level in self.levels)
        return (self.name, f"{self.name}={ABSENT}") if self.absent else (self.name,)

    def numbers(self, cells: Any, remedy: str = "Write them as in the table that the model was fitted to.") -> Array:
        """Its columns of numbers, (n, len(names)); a level that was not fitted is 0 everywhere."""
        if self.kind == "category":
            known = {whole(level): level for level in self.levels} | {level: level for level in self.levels}
            levels = self._levels_of(cells)
            found = [ABSENT if cell is None else known.get(cell) or known.get(whole(cell), OTHER) for cell in levels]
            strange = (level == OTHER and OTHER not in known for level in found)
            self._warn_of_strange(cells, strange, 0.0, remedy)
            return np.array([[float(cell == level) for level in self.levels] for cell in found]).reshape(len(found), -1)
        values = DECODERS[self.kind](cells, self.detail)
        lacking = np.isnan(values)
        self._warn_of_strange(cells, lacking, ENOUGH, remedy)
        with np.errstate(over="ignore"):
            standard = np.where(lacking, 0.0, (values - self.mean) / self.deviation)
        if not np.isfinite(standard).all():
            row = int(np.argmin(np.isfinite(standard)))
            raise InvalidInput(
                f"row {row + 1}: {self.name!r} is {values[row]:g}, too far from the table that the model was fitted "
                "to. Correct the cell, or drop the row."
            )
        return np.stack([standard, lacking.astype(float)], axis=1) if self.absent else standard[:, None]

    def _levels_of(self, cells: Any) -> Any:
        return [cell and (cell.casefold() if self.detail == FOLDED else str(cell)) for cell in cells]

    def _warn_of_strange(self, cells: Any, strange: Iterable[bool], enough: float, remedy: str) -> None:
        """Warn where of the cells that are there none is read, or a share that is not enough."""
        known = [(cell, odd) for cell, odd in zip(cells, strange, strict=True) if cell is not None]
        lost = [cell for cell, odd in known if odd]
        if lost and len(known) - len(lost) < max(1.0, enough * len(known)):
            what = "hold no known level" if self.kind == "category" else f"are no {self.kind} and count as missing"
            warn(
                f"column {self.name!r}: {len(lost)} of {len(known)} cells, such as {lost[0]!r}, {what}. {remedy}",
                MKLWarning,
            )

    @property
    def told(self) -> str:
        """What was done, in a few words."""
        done = {
            "leave": "left out",
            "category": f"{len(self.levels)} columns of 0 and 1",
            "flag": f"1 for {self.detail!r}",
            "date": f"days, standardised ({SPELLED.get(self.detail, self.detail)})",
            "number": "standardised" + (", decimal comma" if self.detail[:1] == "," else ""),
        }[self.kind]
        missing = f"; {self.absent} missing, marked" if self.absent and self.kind != "leave" else ""
        return f"{done}{missing}{f'; {self.note}' if self.note else ''}"


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Columns of a data frame as standardised numbers; see the module.

    Parameters
    ----------
    columns : dict of str to str, optional
        What columns are, where their cells do not say it: "number", "number:," with a decimal comma, "category",
        "category:fold" without regard to capitals, "date:dmy", "date:mdy", "date:ymd", "flag:yes", or "leave" to leave
        a column out.
    missing : sequence of str
        Cells that are missing values beside the usual ones, such as "-999".

    Attributes
    ----------
    columns_ : tuple of Column
        What was found.
    feature_names_in_ : array of str
    n_features_in_ : int

    Notes
    -----
    `report` says what was done, and `ambiguous` which columns could be something else, with the word that decides.
    """

    columns_: tuple[Column, ...]

    def __init__(self, columns: Mapping[str, str] | None = None, missing: Sequence[str] = ()) -> None:
        self.columns = columns
        self.missing = missing

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find out what the columns of a data frame are.

        Raises
        ------
        InvalidInput, InvalidParameter, InvalidType
            No data frame, columns of one name, columns that are not there, nothing to learn from, or targets in another
            order than their rows.
        """
        if not isinstance(self.columns, Mapping | None):
            raise InvalidType(f"columns is {type(self.columns).__name__}; give a dict such as {{'age': 'number'}}.")
        given, names = {str(name): kind for name, kind in (self.columns or {}).items()}, _by_name(X)
        for unknown in (name for name in given if name not in names):
            raise InvalidParameter(
                f"columns names {unknown!r}, which is not there; there are {', '.join(list(names)[:8])}."
            )
        require_one_order({"X": X, "y": y}, InvalidTarget)
        found: list[Column] = []
        seen: dict[bytes, str] = {}
        for name, own in names.items():
            cells = reading.cells_of(own, self.missing)
            try:
                column = Column.of(name, cells, reading.read(cells, given.get(name)))
            except InvalidParameter as refused:
                raise InvalidParameter(f"column {name!r}: {refused}") from None
            if column.kind != "leave":
                content = np.ascontiguousarray(column.numbers(cells, _SAID)).tobytes()
                first = seen.setdefault(content, column.name)
                if first != column.name:
                    column = replace(column, kind="leave", note=f"it repeats {first!r}", option="")
            found.append(column)
        if not any(column.names for column in found):
            raise InvalidInput("no column says anything: all are constant, names of rows, or left out. See `columns`.")
        _require_different(
            [name for column in found for name in column.names],
            lambda name: f"several columns become {name}; rename the one that is called so, or leave it out.",
        )
        return self._take(found)

    def _take(self, columns: Iterable[Column]) -> Self:
        self.columns_ = tuple(columns)
        self.feature_names_in_ = np.array([column.name for column in self.columns_], dtype=object)
        self.n_features_in_ = len(self.columns_)
        return self

    def transform(self, X: Any) -> Any:
        """A data frame of numbers, by the names of its columns; others are ignored.

        Raises
        ------
        InvalidInput
            A column is not there, or a number is so far away that its distance overflows.

        Warns
        -----
        MKLWarning
            Cells of a column are written otherwise than in the fitted table: too many are no number or date and count
            as missing, or none is a known level.
        """
        import pandas as pd

        check_is_fitted(self)
        used = [column for column in self.columns_ if column.names]
        names = _by_name(X)
        lacking = [column.name for column in used if column.name not in names]
        if lacking:
            there = ", ".join(list(names)[:8])
            raise InvalidInput(
                f"the table lacks the column {lacking[0]!r} that the model reads ({len(lacking)} of {len(used)} are "
                f"not there); its columns: {there}. Name them as in the table that the model was fitted to."
            )
        parts = [column.numbers(reading.cells_of(names[column.name], self.missing)) for column in used]
        return pd.DataFrame(np.concatenate(parts, axis=1), columns=list(self.get_feature_names_out()), index=X.index)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the columns of numbers."""
        check_is_fitted(self)
        return np.array([name for column in self.columns_ for name in column.names], dtype=object)

    def report(self) -> str:
        """What was done to each column, one line a column."""
        check_is_fitted(self)
        width = max(len(column.name) for column in self.columns_)
        return "\n".join(f"{column.name:<{width}}  {column.kind:<8}  {column.told}" for column in self.columns_)

    def ambiguous(self) -> dict[str, tuple[str, str]]:
        """Columns that could be something else: what was made of each one, and the word in `columns` for the other."""
        check_is_fitted(self)
        return {
            column.name: (f"{'left out' if column.kind == 'leave' else column.kind}, {column.note}", column.option)
            for column in self.columns_
            if column.option
        }

    def to_plain(self) -> dict[str, Any]:
        """What JSON can hold of a fitted encoder."""
        check_is_fitted(self)
        return {"missing": list(self.missing), "columns": [asdict(column) for column in self.columns_]}

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """The inverse of `to_plain`; `KeyError`, `TypeError` or `ValueError` where that has not made it."""
        if set(plain) != {"missing", "columns"} or not all(isinstance(token, str) for token in plain["missing"]):
            raise ValueError("its table is none")
        columns = (_column(**{**one, "levels": tuple(one["levels"])}) for one in plain["columns"])
        made = cls(missing=tuple(plain["missing"]))._take(columns)
        if len(set(made.feature_names_in_)) < made.n_features_in_:
            raise ValueError("a column is there twice")
        return made


def table_pipeline(
    model: Any = None, *, columns: Mapping[str, str] | None = None, missing: Sequence[str] = ()
) -> Pipeline:
    """A pipeline for data frames as they are: mixed columns, missing cells, texts, dates.

    Parameters
    ----------
    model : estimator, optional
        What learns from the numbers; `MKLClassifier()` by default.
    columns, missing
        As for `TableEncoder`, which is the step "table": `pipeline["table"].report()` says what it did.

    Returns
    -------
    sklearn.pipeline.Pipeline
        The steps "table" and "model". In a cross-validation the whole of it is fitted to the training rows.
    """
    if isinstance(model, type) or (model is not None and not hasattr(model, "fit")):
        raise InvalidType(f"model is {shown(model)} ({type(model).__name__}); give an estimator, or None.")
    return Pipeline([("table", TableEncoder(columns, missing)), ("model", MKLClassifier() if model is None else model)])


def _column(**given: Any) -> Column:
    made = Column(**given)
    texts = (made.name, made.kind, made.detail, made.note, made.option, *made.levels)
    whole = isinstance(made.absent, int) and made.kind in KINDS and all(isinstance(text, str) for text in texts)
    if not whole or not np.isfinite([made.mean, made.deviation]).all() or not made.deviation > 0.0:
        raise ValueError(f"the column {made.name!r} does not fit together")
    return made


def _require_different(names: Iterable[str], says: Callable[[str], str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidInput(says(repr(twice[0])))


def _by_name(X: Any) -> dict[str, Any]:
    """The columns of a data frame by their names as texts; pandas counts those without names from 0."""
    if not hasattr(X, "columns") or not hasattr(X, "index"):
        raise InvalidType(f"X is {type(X).__module__}.{type(X).__name__}; give a pandas data frame, .to_pandas().")
    if not len(X):
        raise InvalidInput("X has no rows.")
    _require_different(map(str, X.columns), lambda name: f"several columns are named {name}; rename them.")
    return {str(name): X[name] for name in X.columns}
