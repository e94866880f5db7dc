"""The names in a file, what they mean, and the way from a problem to its record and back.

    kernels (M, n, n)   y (n,)   C   loss, loss_*   regularizer, regularizer_*   intercept   sample_weight (n,)
    kernels_dtype       float32 where the entries were rounded to that
    strategy            of several classes, whose numbers y holds
    sample_names, kernel_names    a text, JSON: [["a", "b", ...]], each way in which they are named
    lower, upper        certified bounds of the optimal value

Parameters of loss and regulariser follow under their own names: loss_epsilon, regularizer_p. Groups are written as
the number of the group of each kernel, counted from 1; a concave function as regularizer_g with its own parameters.
A name that is not in the schema is refused, since a misspelt one would leave a default in its place; what belongs to
neither problem nor solution goes under a name that begins with info_.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from difflib import get_close_matches
from functools import partial
from typing import Any

import numpy as np

from mklref._names import NAMES, Naming, kernel_names, names_of_both, require_named
from mklref._own import own_class
from mklref._typing import Array
from mklref._untrusted import parse_json
from mklref._validate import as_float_array, checked_choice, shown
from mklref.exceptions import InvalidInput, InvalidParameter, NotApplicable, UnsafeFile
from mklref.kernels import KernelStack, stack
from mklref.losses import LOSSES, Loss
from mklref.multiclass import MulticlassProblem
from mklref.problem import Problem, require_problem
from mklref.regularizers import NAMED, ConcaveFunction, Regularizer
from mklref.regularizers.groups import group_owners
from mklref.solution import saved_names
from mklref.testing.answer import REGULARIZERS, Answer, kinds_of

Record = dict[str, Any]

PROBLEM, SOLUTIONS = ("mklref-problem-1",), ("mklref-solution-1", "mklref-solution-2")
"""The formats; the second one of solutions is that of several machines."""

_PROBLEM_FIELDS = (
    "format", "name", "kernels", "kernels_dtype", "y", "strategy", "C", "sample_weight", "intercept", "loss",
    "regularizer", "lower", "upper", *NAMES,
)  # fmt: skip
_SOLUTION_FIELDS = (
    "dual_coef", "weights", "intercept", "objective", "lower", "converged", "format", "name", "status", "solver",
    *NAMES,
    "certificate",  # of a saved `Solution`, whose entries are claims that are checked
    "value", "claimed", "raw", "raw_dual_coef", "raw_weights",  # and others, which are not
)  # fmt: skip
_FREE = "info_"
_LETTERS = {"theta": "weights", "b": "intercept"}
"""Of the notation, for what may be missing without a word."""
_VECTORS = ("weights", "scale", "omega")

CONCAVE = kinds_of(ConcaveFunction)


def record_of_problem(problem: Problem, **more: Any) -> Record:
    """The record of a problem; further entries (name, lower, upper) are added as they are.

    `NotApplicable` for a loss or a regulariser of a class of one's own, and for classes that are no numbers.
    """
    require_problem(problem)
    for part in (problem.loss, problem.regularizer, getattr(problem.regularizer, "g", None)):
        if own_class(part):
            raise NotApplicable(
                f"{part} ({type(part).__name__}) is of a class of your own; files name those of the library. Pickle "
                "the problem, or write its kernels and y, and state it again where they are read."
            )
    if problem.y.dtype.kind not in "biuf":
        raise NotApplicable(
            f"y holds classes of {problem.y.dtype}; files hold numbers. The same problem, machine by machine, is "
            "problem.replace(y=np.searchsorted(problem.classes, problem.y)); keep problem.classes."
        )
    kernels = np.asarray(problem.kernels.dense())
    record: Record = {
        "format": PROBLEM[0],
        **more,
        "kernels": kernels,
        **({"kernels_dtype": "float32"} if kernels.dtype == np.float32 else {}),
        "y": as_float_array(problem.y + 0, "y"),  # of truth values the numbers
        **({"strategy": problem.strategy} if isinstance(problem, MulticlassProblem) else {}),
        "C": problem.C,
        "loss": problem.loss.name,
        **parameters("loss", problem.loss),
        "regularizer": type(problem.regularizer).__name__,
        **parameters("regularizer", problem.regularizer),
        "intercept": float(problem.intercept),
    }
    if problem.sample_weight is not None:
        record["sample_weight"] = problem.sample_weight
    return record | names_of(**names_of_both(problem.kernels))


def names_of(**given: tuple[Naming, ...]) -> Record:
    """Names of samples and kernels as texts, which all formats hold."""
    return {name: json.dumps(own) for name, own in given.items() if own}


def problem_from_record(record: Mapping[str, Any]) -> Problem:
    """The problem of a record; what is missing has the defaults of `Problem`: C = 1, hinge, Lp(1), an intercept.

    `InvalidInput` or `InvalidType` for an unknown name, loss or regulariser, and without kernels or y.
    """
    require(record, "kernels", "y")
    loss: Loss = _component(record, "loss", "hinge", LOSSES, {})
    regularizer: Regularizer = _component(record, "regularizer", "l1", REGULARIZERS, NAMED)
    named = _text(record, "regularizer", "l1") in NAMED
    own = [*parameters("loss", loss), *({} if named else parameters("regularizer", regularizer))]
    _require_known(record, PROBLEM, [*_PROBLEM_FIELDS, *own])
    for name in ("lower", "upper"):
        _number(record.get(name, 0.0), name)
    weight = record.get("sample_weight")
    several = "strategy" in record
    kind: Any = partial(MulticlassProblem, strategy=_text(record, "strategy", "")) if several else Problem
    made: Problem = kind(
        stack_of(record),
        _vector(record["y"], "y"),
        C=_number(record.get("C", 1.0), "C"),
        loss=loss,
        regularizer=regularizer,
        intercept=_flag(record.get("intercept", 1.0), "intercept"),
        sample_weight=None if weight is None else _vector(weight, "sample_weight"),
    )
    return made


def answer_from_record(record: Mapping[str, Any]) -> Answer:
    """The answer of a record, or `InvalidInput`: dual_coef, perhaps weights, intercept, objective, lower, converged."""
    require(record, "dual_coef")
    _require_known(record, SOLUTIONS, _SOLUTION_FIELDS)
    weights, b, beta = record.get("weights"), record.get("intercept"), _array(record["dual_coef"], "dual_coef")
    rows = beta.ndim == 2 and min(beta.shape) > 1 and beta.dtype.kind in "iuf"
    numbers = {name: _number(record[name], name) for name in ("objective", "lower") if name in record}
    converged = record.get("converged")
    return Answer(
        as_float_array(beta, "dual_coef", InvalidParameter) if rows else _vector(beta, "dual_coef"),
        None if weights is None else _vector(weights, "weights"),
        b if b is None else _vector(b, "intercept") if _array(b, "intercept").size > 1 else _number(b, "intercept"),
        numbers.get("objective"),
        numbers.get("lower"),
        None if converged is None else _flag(converged, "converged"),
        **{name: _namings(record, name) for name in NAMES},
    )


def require(record: Mapping[str, Any], *names: str) -> None:
    """Raise `InvalidInput` that says what is there unless all names are."""
    missing = [name for name in names if name not in record]
    if missing:
        found = ", ".join(record) or "nothing"
        raise InvalidInput(f"{' and '.join(missing)} missing; the file holds {found}.")


def _require_known(record: Mapping[str, Any], kinds: Sequence[str], known: Sequence[str]) -> None:
    """Raise `InvalidInput` that names what the schema does not have, and what was probably meant."""
    if (found := _text(record, "format", kinds[0])) not in kinds:
        raise InvalidInput(f"format = {found!r}; expected {' or '.join(map(repr, kinds))}, or no format at all.")
    unknown = [name for name in record if name not in known and not name.startswith(_FREE)]
    if unknown:
        raise InvalidInput(
            f"not in the schema: {', '.join(_described(name, record, known) for name in unknown)}; known here: "
            f"{', '.join(known)}, and {_FREE}* for what is yours."
        )


def _described(name: str, record: Mapping[str, Any], known: Sequence[str]) -> str:
    owner, _, parameter = name.partition("_")
    if parameter and owner in ("loss", "regularizer"):
        return (
            f"{name} (no parameter of {owner} = {str(record[owner])!r})" if owner in record else f"{name} (no {owner})"
        )
    meant = get_close_matches(name.lower(), [entry.lower() for entry in known], n=1)
    entries = [entry for entry in known if [entry.lower()] == meant or entry == _LETTERS.get(name)] or [
        f"{owner}_{name}"
        for owner, kinds in (("regularizer", REGULARIZERS), ("loss", LOSSES))
        if "kernels" in known and any(name == field.name for kind in kinds.values() for field in fields(kind))
    ]
    return f"{name} (is {entries[0]} meant?)" if entries else name


def parameters(prefix: str, thing: Any) -> Record:
    """The fields of a frozen class as prefix_name, nested ones with longer prefixes."""
    record: Record = {}
    for field in fields(thing):
        if not field.init:
            continue
        value = getattr(thing, field.name)
        name = f"{prefix}_{field.name}"
        if field.name == "groups":
            record[name] = group_owners(value) + 1.0
        elif type(value).__name__ in CONCAVE:
            record |= {name: type(value).__name__, **parameters(name, value)}
        else:
            record[name] = value if isinstance(value, str) else np.asarray(value, dtype=float)[()]
    return record


def _component(
    record: Mapping[str, Any], prefix: str, default: str, kinds: Mapping[str, type], named: Mapping[str, Any]
) -> Any:
    """The loss or the regulariser of a record: one that has a name of its own, or a class with its parameters."""
    name = _text(record, prefix, default)
    if name in named:
        return named[name]
    return _made(record, prefix, kinds[checked_choice(prefix, name, [*named, *kinds])])


def _made(record: Mapping[str, Any], prefix: str, kind: type) -> Any:
    arguments: dict[str, Any] = {}
    for field in fields(kind):
        name = f"{prefix}_{field.name}"
        if not field.init or name not in record:
            continue
        value = record[name]
        if field.name == "groups":
            arguments["groups"] = _groups_of_numbers(_vector(value, name), name)
        elif isinstance(value, str) and value in CONCAVE:
            arguments[field.name] = _made(record, name, CONCAVE[value])
        elif isinstance(value, str) and field.name == "form":
            arguments[field.name] = value
        elif field.name == "E":
            arguments[field.name] = _array(value, name)
        elif field.name in _VECTORS:
            arguments[field.name] = _vector(value, name)
        else:
            arguments[field.name] = _number(value, name)
    needed = [field for field in fields(kind) if field.init and field.default is field.default_factory is MISSING]
    if missing := [f"{prefix}_{field.name}" for field in needed if field.name not in arguments]:
        raise InvalidParameter(f"{kind.__name__} needs {', '.join(missing)}.")
    return kind(**arguments)


def stack_of(record: Mapping[str, Any]) -> KernelStack:
    """The stack, with the names that the record has; those that a stack in the record has itself are compared."""
    given = kernels_of(record)
    names = _namings(record, "kernel_names", len(given))
    kernels = stack(given, *names[:1])
    samples = _namings(record, "sample_names", kernels.shape[1])
    if kernels is given:
        require_named("kernel_names", names, kernel_names(kernels), "kernels")
        require_named("sample_names", samples, kernels.sample_names)
    kernels.sample_names = kernels.sample_names or samples
    return kernels


def kernels_of(record: Mapping[str, Any]) -> Any:
    """The stack, or the matrices in the type whose rounding they carry: it says how much of indefiniteness is that."""
    if isinstance(record["kernels"], KernelStack):
        return record["kernels"]
    matrices = _array(record["kernels"], "kernels")
    if not matrices.ndim:
        raise InvalidInput(f"kernels = {shown(matrices.item())}; expected (M, n, n).")
    if "kernels_dtype" not in record:
        return matrices
    given = as_float_array(matrices, "kernels")
    with np.errstate(over="ignore"):
        kernels = given.astype(checked_choice("kernels_dtype", record["kernels_dtype"], ("float32", "float64")))
    if not np.array_equal(kernels, given, equal_nan=True):
        raise InvalidInput(
            "kernels_dtype = 'float32', and kernels holds numbers that float32 does not; leave kernels_dtype out."
        )
    return kernels


def flattened(name: str, array: Any) -> Any:
    """A matrix of MATLAB, in which everything is one, as the vector or the number that it is."""
    if name in ("X", "regularizer_E") or min(array.shape) > 1:
        return array
    return array.ravel()[0] if array.size == 1 else array.ravel()


def _groups_of_numbers(numbers: Array, name: str) -> tuple[tuple[int, ...], ...]:
    if not np.array_equal(numbers, np.round(numbers)):  # which refuses NaN too
        raise InvalidParameter(f"{name} = {numbers}; give the number of the group of each kernel, counted from 1.")
    return tuple(tuple(int(m) for m in np.flatnonzero(numbers == number)) for number in np.unique(numbers))


def _text(record: Mapping[str, Any], name: str, default: str) -> str:
    value = record.get(name, default)
    if not isinstance(value, str):
        raise InvalidParameter(f"{name} = {shown(value)} is no text.")
    return value


def _vector(value: Any, name: str) -> Array:
    """Numbers along one axis, row or column; converted to float64 by the class that takes them."""
    array = _array(value, name)
    if array.dtype.kind not in "iuf" or array.size != max(array.shape, default=1):
        given = f"of shape {array.shape}" if array.ndim > 1 else f"= {shown(value)}"
        raise InvalidInput(f"{name} {given} is no vector of numbers.")
    return as_float_array(array, name, InvalidParameter).ravel().astype(np.float64)


def _number(value: Any, name: str) -> float:
    array = _array(value, name)
    if array.size != 1 or array.dtype.kind not in "iuf":
        raise InvalidParameter(f"{name} = {shown(value)} is no number.")
    return float(as_float_array(array, name, InvalidParameter).ravel()[0])


def _namings(record: Mapping[str, Any], name: str, n: int | None = None) -> tuple[Naming, ...]:
    """Names of n samples or kernels, as a text of JSON, or as a saved `Solution` has them."""
    given = record.get(name, ())
    try:
        return saved_names({name: parse_json(given.encode(), name) if isinstance(given, str) else given}, name, n)
    except (TypeError, ValueError, UnsafeFile) as other:
        raise InvalidInput(f'{name} is no JSON of names, such as [["a", "b"]] of two: {other}.') from other


def _flag(value: Any, name: str) -> bool:
    array = _array(value, name)
    if array.size != 1 or array.dtype.kind not in "biuf" or array.ravel()[0] not in (0, 1):
        raise InvalidParameter(f"{name} = {shown(value)}; give true or false, 1 or 0.")
    return bool(array.ravel()[0])


def _array(value: Any, name: str) -> Any:
    try:
        return np.asarray(value)
    except ValueError as ragged:
        raise InvalidInput(f"{name} = {shown(value)} is ragged; give rows of one length.") from ragged
