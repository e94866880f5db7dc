"""Names of samples: what data frames, series and stacks call their rows, and which of it goes together.

An index names its rows, unless it counts them from 0, as pandas does where nobody names them.

Two namings go together if they are equal. They also do if they share no name: they may be two kinds of names for the
same samples. Namings that share some names and differ somewhere are of other samples, or in another order: refused.

Numbers are an exception, since they may count the rows of another table, as after a fold or a split. Numbers that
ascend, or do so in the order of the other naming, are refused only beside the same numbers in another order.

Nothing is put into another order: which of two is meant, only the caller knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain, pairwise, product
from typing import Any, TypeAlias

from mklref.exceptions import InvalidInput

Naming: TypeAlias = tuple[str, ...]
NAMES = ("sample_names", "kernel_names")
"""What stacks, solutions and files call their namings of samples and of kernels."""

_SMALL = 1000
"""Numbers below it count the rows of any part, those above it of a tenth at least: identifiers have more digits."""


def require_one_order(
    parts: Mapping[str, Any], error: type[InvalidInput] = InvalidInput, known: Iterable[Naming] = ()
) -> Any:
    """The names of the rows of the first data frame or series that has some; those of rows counted from 0 come last.

    The error where two parts, or one and the names that are `known` of the samples of kernels, do not go together. Of a
    list of data frames each one is compared; series in a list are rows.
    """
    found = _different(_indices(parts, "index", dimensions=(2,)))
    if found:
        _require_alike([*found, *(("the kernels", names) for names in known)], error)
    return min((index for _, index in found), key=counts_rows, default=None)


def require_same_samples(
    training: Mapping[str, Any], new: Mapping[str, Any] | None = None, known: Iterable[Naming] = ()
) -> None:
    """Raise `InvalidInput` where the names of data frames of kernels do not go together.

    Both axes of `training` are of the training samples, and the columns of `new`, whose names are among the `known`
    ones if there are any; its rows are of new samples.
    """
    columns = list(_indices(new or {}, "columns"))
    trained = list(known)
    for label, index in columns if trained else ():
        for own in names_in(index):
            other = next((names for names in trained if not set(names).isdisjoint(own)), trained[0])
            differs = (i for i, (a, b) in enumerate(zip(own, other, strict=False)) if a != b)
            if own not in trained and (i := next(differs, -1)) >= 0:  # else there are too few, or too many
                raise InvalidInput(
                    f"column {i} of {label} is {own[i]!r}, training sample {i} is {other[i]!r}. Give the training "
                    "samples in their order, K_new[names], or, if they are the same ones by other names, "
                    "K_new.to_numpy()."
                )
    both = [
        (f"the {what} of {label}", index)
        for axis, what in (("index", "rows"), ("columns", "columns"))
        for label, index in _indices(training, axis)
    ]
    _require_alike([*both, *((f"the columns of {label}", index) for label, index in columns)])
    _require_alike([(f"the rows of {label}", index) for label, index in _indices(new or {}, "index")])


def require_named(label: str, own: Iterable[Naming], known: Iterable[Naming], what: str = "samples") -> None:
    """Raise `InvalidInput` unless the names that something has go together with those that are `known`."""
    if given := [(label, names) for names in own]:
        _require_alike([("the kernels", names) for names in known] + given, what=what)


def require_trained(label: str, kernels: Any, samples: Iterable[Naming], of_kernels: Iterable[Naming]) -> None:
    """Raise `InvalidInput` unless kernels of new samples, or the training stack, have the names known from training."""
    if not isinstance(named := getattr(kernels, "sample_names", None), tuple):  # no stack
        require_same_samples({}, {label: kernels}, samples)
        return
    require_named(label, named, samples)
    for trained, own in product(of_kernels, kernel_names(kernels)):
        if (m := next((m for m, (a, b) in enumerate(zip(own, trained, strict=False)) if a != b), -1)) >= 0:
            raise InvalidInput(
                f"kernel {m} of {label} is {own[m]!r}, that of training {trained[m]!r}. Give the kernels of training "
                "in their order, or, if they are the same ones by other names, the matrices alone, .dense()."
            )


def kernel_names(kernels: Any) -> tuple[Naming, ...]:
    """The names of the kernels of a stack, anybody's, where it has some; those that it says of another number count."""
    names = getattr(kernels, "names", None)
    return given_names(names) if isinstance(names, list | tuple) and len(names) == len(kernels) else ()


def given_names(names: Iterable[Any]) -> tuple[Naming, ...]:
    """The names of kernels, where somebody gave them: K0, K1, ... count."""
    own = tuple(map(str, names))
    return () if all(name == f"K{m}" for m, name in enumerate(own)) else (own,)


def names_of_both(kernels: Any) -> dict[str, Any]:
    """The names that a stack has of samples and of kernels, as solutions keep them."""
    return dict(zip(NAMES, (kernels.sample_names, kernel_names(kernels)), strict=True))


def namings(given: Any) -> tuple[Naming, ...]:
    """Each way in which data frames of Gram matrices, a series or a stack of kernels name the training samples."""
    return each_naming(given, "index", "columns")


def each_naming(given: Any, *axes: str) -> tuple[Naming, ...]:
    """Each way in which data frames, or those in a list, name what is along these axes, "index" or "columns".

    Those of a stack are of samples.
    """
    own = getattr(given, "sample_names", None)
    if isinstance(own, tuple):  # a column of that name is none
        return own
    found = _different(chain.from_iterable(_indices({"": given}, axis) for axis in axes))
    return tuple(dict.fromkeys(chain.from_iterable(names_in(index) for _, index in found)))


def last_names(values: Any) -> tuple[Naming, ...]:
    """The names along the last axis of a data frame or a series, or of those in a list."""
    return each_naming(values, "columns" if hasattr(values, "columns") else "index")


def names_in(index: Any) -> tuple[Naming, ...]:
    """The names that an index gives, as texts, in a tuple; an empty one if there is none, or it counts."""
    return () if index is None or counts_rows(index) else (_texts(index),)


def index_along(part: Any, axis: str) -> Any:
    """The index of pandas along an axis; None where there is none."""
    index = getattr(part, axis, None)
    return index if hasattr(index, "equals") else None


def counts_rows(index: Any) -> bool:
    """Whether pandas has counted the rows from 0, as it does where nobody names them."""
    return type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)


def _indices(parts: Mapping[str, Any], axis: str, dimensions: tuple[int, ...] = (1, 2)) -> Iterator[tuple[str, Any]]:
    """The indices of pandas along an axis of the parts, and of the data frames and series in a list or mapping."""
    for label, part in parts.items():
        inner: Any = [(label, part)]
        if isinstance(part, list | tuple | Mapping):
            own = part.items() if isinstance(part, Mapping) else enumerate(part)
            inner = ((f"{label}[{key!r}]", one) for key, one in own if hasattr(one, "iloc") and one.ndim in dimensions)
        for name, one in inner:
            if (index := index_along(one, axis)) is not None:
                yield name, index


def _different(given: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The indices that are not equal to one before: to compare them is faster than to read their names."""
    found: list[tuple[str, Any]] = []
    for label, index in given:
        equal = getattr(index, "equals", index.__eq__)
        if not any(index is other or equal(other) is True for _, other in found):
            found.append((label, index))
    return found


def _require_alike(
    given: list[tuple[str, Any]], error: type[InvalidInput] = InvalidInput, what: str = "samples"
) -> None:
    """The error where two of these indices, or namings, do not go together."""
    given = _different(given)
    if len(given) < 2:
        return
    known: list[tuple[str, Naming]] = []
    for label, index in given:
        names = _texts(index)
        for first, others in known:
            if len(names) != len(others) or names == others or (shared := set(names)).isdisjoint(others):
                continue
            same = shared == set(others)
            if not same and _may_count(names, others):
                continue
            i = next(i for i, name in enumerate(names) if name != others[i])
            how = f"have their {what} in different orders" if same else f"are of different {what}"
            raise error(
                f"{first} and {label} {how}: number {i} is {others[i]!r} in the first, {names[i]!r} in the second. "
                f"Give the {what} that both have, in one order, .loc[names], or, if those side by side belong "
                "together, drop the names of one, .to_numpy(), or of both, .reset_index(drop=True); of a stack "
                "give .dense()."
            )
        known.append((label, names))


def _may_count(*both: Naming) -> bool:
    """Whether one of two namings may count the rows that both are of.

    Its numbers ascend, or both are numbers that do so in one order: those of a table without some of its rows and of a
    column that was made afterwards, which were split together.
    """
    counts = [numbers for names in both if (numbers := _counted(names))]
    if any(all(a < b for a, b in pairwise(numbers)) for numbers in counts):
        return True
    return len(counts) == 2 and all(
        (a < b) == (c < d) and (a == b) == (c == d) for (a, c), (b, d) in pairwise(sorted(zip(*counts, strict=True)))
    )


def _counted(names: Naming) -> list[int]:
    """The numbers that names are; none where nobody who counts rows, and leaves few of them out, has such names."""
    numbers = [int(name) for name in names if name.isdecimal() and len(name) < 16]
    few = tuple(map(str, numbers)) == names and max(numbers, default=0) < max(_SMALL, 10 * len(numbers))
    return numbers if few else []  # nobody counts in words, or from 001


def _texts(index: Any) -> Naming:
    """Names as texts: a file has 1 for "1", pandas 1.0 where a name is missing, and a moment one name in each zone."""
    return tuple(str(_plain(name)) for name in (index if isinstance(index, tuple) else index.tolist()))


def _plain(name: Any) -> Any:
    if isinstance(name, tuple):
        return tuple(map(_plain, name))
    if isinstance(name, float):
        return int(name) if name.is_integer() else float(name)
    if not (isinstance(name, datetime) and name.tzinfo):
        return name
    try:
        return name.astimezone(UTC)
    except OverflowError:  # in a zone that ends the calendar some hours after or before UTC
        return name - datetime.min.replace(tzinfo=UTC)
