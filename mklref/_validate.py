"""Every check of a scalar, an array or an option, and one error for one kind of mistake.

    a text, a bool, None or a complex number where a number belongs     InvalidType
    a number outside of its interval                                    InvalidParameter, with the interval
    data without a faithful conversion to float64                       InvalidType
    data of the wrong shape, or not finite                              InvalidInput, or the kind that the caller names

Gram matrices have checks of their own in `kernels.validation`.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mklref._typing import Array, FloatArray
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidParameter, InvalidTarget, InvalidType, MissingExtra

NO_NUMBERS = bool | np.bool_ | np.timedelta64  # which Python or NumPy counts among them


def checked_real(label: str, value: Any, remedy: str) -> float:
    """`value` as a float if it is a real number, infinite or NaN included; an integer beyond float64 is infinite."""
    if isinstance(value, NO_NUMBERS) or not isinstance(value, numbers.Real):
        raise InvalidType(f"{label} is {shown(value)} ({type(value).__name__}); {remedy}")
    number: Any = value
    try:
        return float(number)
    except OverflowError:
        return np.inf if number > 0 else -np.inf


def checked_number(
    label: str, value: Any, interval: str, remedy: str, inside: Callable[[float], bool] | None = None
) -> float:
    """`value` as a float if it is a number in the interval that float64 can hold.

    The interval is written as in mathematics, such as "(0, inf]"; `inside` is for one that is written otherwise.
    """
    number = checked_real(label, value, f"give a number in {interval}: {remedy}")
    within = holds(interval, number) if inside is None else inside(number)
    if not within or (np.isinf(number) and not isinstance(value, float | np.floating)):
        raise InvalidParameter(f"{label} = {shown(value)} must lie in {interval}: {remedy}")
    return number


def holds(interval: str, x: float) -> bool:
    """Whether a number lies in an interval that is written as in mathematics."""
    low, high = map(float, interval[1:-1].split(","))
    return (low < x if interval[0] == "(" else low <= x) and (x < high if interval[-1] == ")" else x <= high)


def check_field(thing: Any, name: str, interval: str, remedy: str) -> None:
    """Make a field of a frozen dataclass a float, `checked_number` in the interval."""
    object.__setattr__(thing, name, checked_number(name, getattr(thing, name), interval, remedy))


def shown(value: Any) -> str:
    """How a message prints a value: on one line, and shortened, however long it is."""
    try:
        text = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "an integer beyond 1e+30"
    except ValueError:  # Python writes no integer of more than 4300 digits
        text = f"{type(value).__name__} of an integer beyond 1e+30"
    return text if len(text := " ".join(map(str.strip, text.splitlines()))) <= 60 else f"{text[:57]}..."


def counted(count: int, noun: str) -> str:
    """A number of things, whose plural is regular: 1 sample, 2 samples."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def written(x: float) -> str:
    """A parameter as its reader would write it, no two of them alike: 2, inf, 0.05, 4/3, 1.000000001."""
    text = repr(float(x)).removesuffix(".0")
    quotients = ((round(d * x), d) for d in range(3, 13) if len(text) > 12 and abs(x) < 100.0)
    return next((f"{k}/{d}" for k, d in quotients if k / d == x), text)


def checked_positive(label: str, value: Any, remedy: str = "give a positive finite number.") -> float:
    """`value` as a float if it is positive and finite, else `InvalidParameter`."""
    return checked_number(label, value, "(0, inf)", remedy)


def checked_tolerance(label: str, value: Any, meaning: str = "a relative duality gap, for instance 1e-6.") -> float:
    """`value` as a float if it lies in (0, 1), else `InvalidParameter`: with a gap of 1 anything is optimal."""
    return checked_number(label, value, "(0, 1)", meaning)


def checked_count(label: str, value: Any, least: int, remedy: str) -> int:
    """`value` as an int; `InvalidType` if it is none, `InvalidParameter` below `least` or from 2^63 on."""
    if isinstance(value, NO_NUMBERS) or not isinstance(value, numbers.Integral):
        raise InvalidType(f"{label} is {shown(value)} ({type(value).__name__}); give an integer: {remedy}")
    if int(value) >= 2**63:
        raise InvalidParameter(f"{label} = {shown(value)} must be below 2^63: {remedy}")
    if int(value) < least:
        raise InvalidParameter(f"{label} = {shown(value)} must be an integer of at least {least}: {remedy}")
    return int(value)


def checked_integer(value: Any, least: float, most: float, says: str) -> int:
    """`value` as an int between these ends; else `InvalidType`, as for a float or a bool, or `InvalidParameter`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidType(says) from None
    if isinstance(value, bool):
        raise InvalidType(says)
    if not least <= number <= most:
        raise InvalidParameter(says)
    return number


def several(value: Any) -> bool:
    """Whether something is a collection: a text is none, nor an array of no dimension, which only seems to be one."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes) and getattr(value, "ndim", 1) != 0


def checked_members(label: str, value: Any, remedy: str) -> list[Any]:
    """What a sequence, or anything else that can be looped over, has; else, as of a text, `InvalidType`."""
    if not several(value):
        raise InvalidType(f"{label} is {shown(value)} ({type(value).__name__}); {remedy}")
    return list(value)


def checked_words(label: str, value: Any) -> tuple[str, ...]:
    """A sequence of texts, or one by itself, as a tuple; else `InvalidType`."""
    remedy = "give a name, or a sequence of names."
    words = (value,) if isinstance(value, str) else tuple(checked_members(label, value, remedy))
    if not all(isinstance(word, str) for word in words):
        raise InvalidType(f"{label} is {shown(value)} ({type(value).__name__}); {remedy}")
    return words


def checked_values(label: str, given: Any, what: str) -> list[Any]:
    """The entries of an ordered collection as a list, whatever they are; else `InvalidParameter` says of what."""
    if not several(given) or isinstance(given, Mapping | set | frozenset):
        raise InvalidParameter(f"{label} = {shown(given)} must be a sequence of {what}")
    return list(given)


def checked_names(names: Any, kernels: int) -> tuple[str, ...]:
    """One name for each kernel, K0, K1, ... for None; else `InvalidKernel`, or `InvalidType` for no texts."""
    found = tuple(f"K{m}" for m in range(kernels)) if names is None else checked_words("names", names)
    if len(found) != kernels:
        raise InvalidKernel(f"{len(found)} names for {kernels} kernels; give one for each.")
    return found


def checked_choice(label: str, value: Any, known: Iterable[str]) -> str:
    """`value` if it is one of the known texts, else `InvalidParameter` with these."""
    if not isinstance(value, str) or value not in known:
        raise InvalidParameter(f"{label} = {shown(value)} is unknown; known names: {', '.join(known)}.")
    return str(value)  # also of a text of NumPy


def checked_flag(label: str, value: Any) -> bool:
    """`value` as a bool if it is one, else `InvalidType`."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidType(f"{label} is {shown(value)} ({type(value).__name__}); give True or False.")
    return bool(value)


def checked_verbosity(value: Any) -> bool:
    """Whether `verbose` asks for a progress line, by a bool or, as in scikit-learn, a number; else `InvalidType`."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return checked_count("verbose", value, 0, "or True or False, whether progress is shown.") > 0


def checked_rng(rng: Any) -> np.random.Generator:
    """`rng` if it is a Generator, else `InvalidType`."""
    if isinstance(rng, np.random.Generator):
        return rng
    raise InvalidType(f"rng is {shown(rng)}; give a numpy Generator, for instance np.random.default_rng(0).")


def check_callback(callback: Any, argument: str) -> None:
    """Raise `InvalidType` unless `callback` is None or can be called."""
    if callback is not None and not callable(callback):
        raise InvalidType(f"callback is {shown(callback)}; give a function of one {argument}, or None.")


def asks_to_stop(callback: Any, argument: Any) -> bool:
    """Call a callback, if there is one; says whether it asks to stop."""
    if callback is None:
        return False
    answer = callback(argument)
    try:
        return bool(answer)
    except (TypeError, ValueError) as refused:
        raise InvalidType(
            f"callback returned {type(answer).__name__}, which is neither true nor false; return True to stop, or None."
        ) from refused


def checked_limits(
    tol: Any, meaning: str, max_iter: Any, max_time: Any, progress: Any
) -> tuple[float, int, float | None]:
    """`tol`, `max_iter` and `max_time` as Python's numbers: in float16 or float32 products and deadlines lose digits.

    `InvalidType` or `InvalidParameter` unless a solver can run with these; `meaning` says what `tol` is.
    """
    checked_flag("progress", progress)
    wanted = checked_positive("tol", tol, f"{meaning}, for instance 1e-6.")
    return wanted, checked_count("max_iter", max_iter, 1, "the largest number of iterations."), checked_time(max_time)


def checked_time(max_time: Any) -> float | None:
    """`max_time` as a float, or None; `InvalidParameter` unless it is positive."""
    return None if max_time is None else checked_number("max_time", max_time, "(0, inf]", "seconds; None for no limit.")


def require_unmasked(**given: Any) -> None:
    """Raise `InvalidType` for a masked array, or a list that holds one: what is under the mask would be taken."""
    for label, data in given.items():
        parts = data if isinstance(data, list | tuple) else ()
        if isinstance(data, np.ma.MaskedArray) or any(isinstance(one, np.ma.MaskedArray) for one in parts):
            held = f"{label} is" if not parts else f"{label} holds"
            raise InvalidType(f"{held} a masked array; its mask would be lost. Fill or drop the masked entries first.")


_UNREAD = {"collect": "collect()", "column_names": "to_pandas()", "to_native": "to_native()"}
"""What lazy frames of polars have, tables of pyarrow and frames of narwhals, and what makes data frames of them."""
_ENTRIES = ("__getitem__", "__array__", "__array_interface__", "__array_struct__", "__dlpack__", "shape")
"""One of which every array and every list has: no generator, set, path or model."""


def require_read(X: Any, label: str) -> None:
    """Raise `InvalidType` for a table that is not read yet, has other words for its columns, or no entries at all."""
    for mark, remedy in _UNREAD.items():
        if hasattr(type(X), mark):
            raise InvalidType(f"{label} is {type(X).__name__}, no table of numbers yet; give {label}.{remedy}.")
    if X is not None and not isinstance(X, numbers.Number) and not any(hasattr(X, name) for name in _ENTRIES):
        raise InvalidType(f"{label} is {type(X).__name__}, no array or list; give an array, a frame or list({label}).")


def is_sparse(data: Any) -> bool:
    """Whether this is a sparse matrix or array of SciPy, whose import takes time."""
    return hasattr(type(data), "tocsr")


def as_array(data: Any, label: str, error: type[InvalidInput] = InvalidInput) -> NDArray[Any]:
    """What NumPy makes of an array of another library, or of anything; where that refuses, an error with its words."""
    require_read(data, label)
    try:
        array = np.asarray(data)
    except ValueError as ragged:
        raise error(f"{label} is ragged; give rows of one length: {str(ragged).rstrip('.')}.") from ragged
    except (OSError, RuntimeError) as lost:
        raise error(f"{label} is {shown(data)}, which cannot be read, as where its file was closed: {lost}.") from lost
    except TypeError as no:  # as on another device
        raise InvalidType(f"{label} is {type(data).__name__}, no array of NumPy: {str(no).rstrip('.')}.") from no
    return array


def as_float_array(
    data: Any,
    label: str,
    error: type[InvalidInput] = InvalidKernel,
    remedy: str = "give real numbers (float64 or float32).",
) -> FloatArray:
    """`data` as a float64 or float32 array, a view wherever possible; integers become float64.

    Refused is what a conversion would silently change: complex, boolean, object, sparse and masked data, numbers that
    float64 cannot hold; and, with the given error, a ragged sequence.
    """
    if is_sparse(data):
        raise InvalidType(f"{label} is a sparse matrix; give a dense array, for instance {label}.toarray().")
    require_unmasked(**{label: data})
    array = as_array(data, label, error)
    kind = array.dtype.kind
    if kind not in "iuf":
        names = {"c": "complex", "b": "boolean", "O": "object"}
        what = f"{names.get(kind, str(array.dtype))} data" if array.ndim else shown(data)
        raise InvalidType(f"{label} is {what}; {remedy}")
    native = array.dtype.newbyteorder("=")
    if native in (np.float32, np.float64):
        return array.astype(native, copy=False)
    with np.errstate(over="ignore"):
        converted = array.astype(np.float64)
    if kind == "f" and not np.array_equal(converted.astype(array.dtype), array, equal_nan=True):
        raise InvalidType(f"{label} is {array.dtype} data that does not fit float64; round it to float64 yourself.")
    if kind in "iu":
        large = np.abs(converted) >= 2.0**53
        for exact, rounded in zip(array[large].tolist(), converted[large].tolist(), strict=True):
            if exact != int(rounded):
                raise InvalidType(
                    f"{label} holds integers beyond 2^53 that do not fit float64, such as {exact}; round them yourself."
                )
    return converted


def require_finite(
    array: FloatArray,
    label: str,
    error: type[InvalidInput] = InvalidKernel,
    remedy: str = " Impute or drop the sample.",
) -> None:
    """Raise an error that names the first entry that is NaN or infinite."""
    if not np.isfinite(array).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        place = f"{label}[{', '.join(map(str, index))}]" if index else label  # of a number by itself there is none
        raise error(f"{place} is {array[index]}; every entry must be finite.{remedy}")


def checked_array(
    data: Any, label: str, shape: tuple[int | str, ...], remedy: str = "", error: type[InvalidInput] = InvalidParameter
) -> Array:
    """A float64 array of this shape, if `data` is a finite one; else an error that names it. A letter is any length."""
    array = as_float_array(data, label, error)
    if array.ndim != len(shape) or any(n != m and isinstance(n, int) for n, m in zip(shape, array.shape, strict=True)):
        expected = str(shape).replace("'", "")
        turned = "; it is its transpose" if array.shape[::-1] == shape else ""
        raise error(f"{label} has shape {array.shape}; expected {expected}{turned or remedy}.")
    require_finite(array, label, error, remedy="")  # of what a solver returned there is no sample to drop
    return array.astype(np.float64, copy=False)


def checked_targets(y: Any, n: int) -> Array:
    """Targets (n,) in float64, n >= 2, if `y` is an array of such finite numbers; else `InvalidTarget`."""
    remedy = "give numbers: of two classes the labels -1 and 1, mklref.datasets.encode(y)[0]."
    array = as_float_array(y, "y", InvalidTarget, remedy)
    if array.ndim != 1 or len(array) != n:
        raise InvalidTarget(f"y has shape {array.shape}, kernels are of order {n}; expected y of shape ({n},).")
    if n < 2:
        raise InvalidTarget(f"n = {n} sample; give at least two.")
    require_finite(array, "y", InvalidTarget)
    return array.astype(np.float64, copy=False)


def positive_vector(label: str, value: Any, remedy: str) -> Array:
    """A read-only float64 copy of a vector of positive finite numbers, else `InvalidParameter` with the remedy."""
    vector = np.array(as_float_array(value, label, InvalidParameter), dtype=float)
    if vector.ndim != 1 or not len(vector):
        raise InvalidParameter(f"{label} has shape {vector.shape}; give one number for each kernel, (M,).")
    if not np.all(np.isfinite(vector)) or vector.min() <= 0.0:
        raise InvalidParameter(f"{label} = {vector} must be finite and positive: {remedy}")
    return read_only(vector)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The array, to which nobody writes any more."""
    array.flags.writeable = False
    return array


def check_length(owner: str, label: str, length: int, kernels: int) -> None:
    """Raise `InvalidParameter` unless a parameter of this length fits the number of kernels."""
    if length != kernels:
        raise InvalidParameter(f"regularizer {owner} has {length} {label} for {kernels} kernels; give one for each.")


def required(module: str, says: str) -> Any:
    """The module, or `MissingExtra` in these words."""
    try:
        return import_module(module)
    except ImportError as absent:
        raise MissingExtra(says) from absent


def as_one_kind(y: Any) -> Any:
    """`y` as an array in which classes that differ stay different.

    `InvalidTarget` for ragged data; for classes that are equal in the array only, as 1 and "1" are, True and 1, or
    2**53 and 2**53 + 1 beside 0.5; for classes without an order, such as None beside texts. `InvalidType` for a mask.
    """
    require_unmasked(y=y)
    given = None if isinstance(y, list | tuple) else as_array(y, "y", InvalidTarget)
    if given is not None and given.dtype.kind != "O":
        return given
    entries = y if given is None else given.tolist()
    try:
        array = np.array(entries)
        together = np.unique(array)
    except ValueError as ragged:
        raise InvalidTarget(f"y is ragged: {ragged}.") from ragged
    except TypeError as unordered:
        raise InvalidTarget(f"y holds {_kinds(entries)}, which have no order; give all as texts.") from unordered
    if array.ndim != 1:
        return array
    texts = {"U": str, "S": bytes}.get(array.dtype.kind)
    changed = texts is not None and not all(isinstance(entry, texts) for entry in entries)
    changed |= 0 < sum(isinstance(entry, bool | np.bool_) for entry in entries) < len(entries)  # True == 1, in sets too
    nan = array.dtype.kind == "f" and bool(np.isnan(array).any())  # for the caller to refuse: NaN is not even itself
    if changed or (array.dtype.kind != "O" and not nan and len(together) < len(set(entries))):
        raise InvalidTarget(
            f"y holds {_kinds(entries)}, which an array of {array.dtype} does not keep apart; give all classes in one "
            "type, for instance as texts."
        )
    return array


def _kinds(entries: Any) -> str:
    return "classes of the types " + ", ".join(sorted({type(entry).__name__ for entry in entries}))
