"""The names in a file, what they mean, and the way from a problem to its record and back.

    kernels (M, n, n)   y (n,)   C   loss, loss_*   regularizer, regularizer_*   intercept   sample_weight (n,)
    lower, upper        certified bounds of the optimal value

Parameters of loss and regulariser follow under their own names: loss_epsilon, regularizer_p. Groups are written as
the number of the group of each kernel, counted from 1; a concave function as regularizer_g with its own parameters.
A name that is not in the schema is refused, since a misspelt one would leave a default in its place; what belongs to
neither problem nor solution goes under a name that begins with info_.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.exceptions import InvalidInput, InvalidParameter
from mklref.losses import LOSSES, Loss
from mklref.problem import Problem
from mklref.regularizers import (
    NAMED,
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Fixed,
    Groups,
    HalfPower,
    Lp,
    Mahalanobis,
    Power,
    PowerRoot,
    Regularizer,
    RootPlusLinear,
    SmoothedRoot,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)
from mklref.testing.answer import Answer

Record = dict[str, Any]

PROBLEM, SOLUTION = "mklref-problem-1", "mklref-solution-1"

_PROBLEM_FIELDS = (
    "format", "name", "kernels", "y", "C", "sample_weight", "intercept", "loss", "regularizer", "lower", "upper",
)  # fmt: skip
_SOLUTION_FIELDS = (
    "dual_coef", "weights", "intercept", "objective", "lower", "converged", "format", "name", "status", "solver",
)  # fmt: skip
_FREE = "info_"

REGULARIZERS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Lp, Fixed, WeightedLp, WeightedL1, Power, HalfPower, Tikhonov, ElasticNet, BlockNorm, Groups, Mahalanobis,
        ConcaveBlock,
    )
}  # fmt: skip
CONCAVE: dict[str, type] = {kind.__name__: kind for kind in (PowerRoot, RootPlusLinear, SmoothedRoot)}


def record_of_problem(problem: Problem, **more: Any) -> Record:
    """The record of a problem; further entries (name, lower, upper) are added as they are."""
    record: Record = {
        "format": PROBLEM,
        **more,
        "kernels": np.asarray(problem.kernels.dense()),
        "y": problem.y,
        "C": problem.C,
        "loss": problem.loss.name,
        **_parameters("loss", problem.loss),
        "regularizer": type(problem.regularizer).__name__,
        **_parameters("regularizer", problem.regularizer),
        "intercept": float(problem.intercept),
    }
    if problem.sample_weight is not None:
        record["sample_weight"] = problem.sample_weight
    return record


def problem_from_record(record: Mapping[str, Any]) -> Problem:
    """The problem of a record; what is missing has the defaults of `Problem`: C = 1, hinge, Lp(1), an intercept.

    Raises
    ------
    InvalidInput, InvalidType
        kernels or y are missing, an unknown name, loss or regulariser, parameters that do not fit.
    """
    require(record, "kernels", "y")
    loss, regularizer = _loss(record), _regularizer(record)
    named = record.get("regularizer", "l1") in NAMED
    parameters = [*_parameters("loss", loss), *({} if named else _parameters("regularizer", regularizer))]
    _require_known(record, PROBLEM, [*_PROBLEM_FIELDS, *parameters])
    intercept = _number(record.get("intercept", 1.0), "intercept")
    if intercept not in (0.0, 1.0):
        raise InvalidParameter(f"intercept = {intercept:g}; give 1 or 0.")
    weight = record.get("sample_weight")
    return Problem(
        np.asarray(record["kernels"]),
        np.ravel(record["y"]),
        C=_number(record.get("C", 1.0), "C"),
        loss=loss,
        regularizer=regularizer,
        intercept=bool(intercept),
        sample_weight=None if weight is None else np.ravel(weight),
    )


def answer_from_record(record: Mapping[str, Any]) -> Answer:
    """The answer of a record: dual_coef, perhaps weights, intercept, objective, lower, converged.

    Raises
    ------
    InvalidInput
        dual_coef is missing; an unknown name.
    """
    require(record, "dual_coef")
    _require_known(record, SOLUTION, _SOLUTION_FIELDS)
    weights = record.get("weights")
    numbers = {name: _number(record[name], name) for name in ("intercept", "objective", "lower") if name in record}
    converged = record.get("converged")
    return Answer(
        np.ravel(record["dual_coef"]),
        None if weights is None else np.ravel(weights),
        numbers.get("intercept"),
        numbers.get("objective"),
        numbers.get("lower"),
        None if converged is None else bool(_number(converged, "converged")),
    )


def require(record: Mapping[str, Any], *names: str) -> None:
    """Raise `InvalidInput` that says what is there unless all names are."""
    missing = [name for name in names if name not in record]
    if missing:
        found = ", ".join(record) or "nothing"
        raise InvalidInput(f"{' and '.join(missing)} missing; the file holds {found}.")


def _require_known(record: Mapping[str, Any], kind: str, known: Sequence[str]) -> None:
    """Raise `InvalidInput` that names what the schema does not have, and what was probably meant."""
    if (found := record.get("format", kind)) != kind:
        raise InvalidInput(f"format = {found!r}; expected {kind!r}, or no format at all.")
    unknown = [name for name in record if name not in known and not name.startswith(_FREE)]
    if unknown:
        raise InvalidInput(
            f"not in the schema: {', '.join(_described(name, record, known) for name in unknown)}; known here: "
            f"{', '.join(known)}, and {_FREE}* for what is yours."
        )


def _described(name: str, record: Mapping[str, Any], known: Sequence[str]) -> str:
    """An unknown name, and what was probably meant."""
    owner, _, parameter = name.partition("_")
    if parameter and owner in ("loss", "regularizer"):
        return (
            f"{name} (no parameter of {owner} = {str(record[owner])!r})" if owner in record else f"{name} (no {owner})"
        )
    meant = get_close_matches(name.lower(), [entry.lower() for entry in known], n=1)
    entries = [entry for entry in known if [entry.lower()] == meant]
    return f"{name} (is {entries[0]} meant?)" if entries else name


def _parameters(prefix: str, thing: Any) -> Record:
    """The fields of a frozen class as prefix_name, nested ones with longer prefixes."""
    record: Record = {}
    for field in fields(thing):
        if not field.init:
            continue
        value = getattr(thing, field.name)
        name = f"{prefix}_{field.name}"
        if field.name == "groups":
            record[name] = _numbers_of_groups(value)
        elif type(value).__name__ in CONCAVE:
            record |= {name: type(value).__name__, **_parameters(name, value)}
        else:
            record[name] = value if isinstance(value, str) else np.asarray(value, dtype=float)[()]
    return record


def _loss(record: Mapping[str, Any]) -> Loss:
    name = str(record.get("loss", "hinge"))
    if name not in LOSSES:
        raise InvalidParameter(f"loss = {name!r} is unknown; known names: {', '.join(LOSSES)}.")
    return LOSSES[name](**_arguments(record, "loss", LOSSES[name]))


def _regularizer(record: Mapping[str, Any]) -> Regularizer:
    name = str(record.get("regularizer", "l1"))
    if name in NAMED:
        return NAMED[name]
    if name not in REGULARIZERS:
        known = ", ".join([*NAMED, *REGULARIZERS])
        raise InvalidParameter(f"regularizer = {name!r} is unknown; known names: {known}.")
    made: Regularizer = REGULARIZERS[name](**_arguments(record, "regularizer", REGULARIZERS[name]))
    return made


def _arguments(record: Mapping[str, Any], prefix: str, kind: type) -> dict[str, Any]:
    """What the record says about the fields of a class."""
    arguments: dict[str, Any] = {}
    for field in fields(kind):
        name = f"{prefix}_{field.name}"
        if not field.init or name not in record:
            continue
        value = record[name]
        if field.name == "groups":
            arguments["groups"] = _groups_of_numbers(np.ravel(value))
        elif isinstance(value, str) and value in CONCAVE:
            arguments[field.name] = CONCAVE[value](**_arguments(record, name, CONCAVE[value]))
        elif isinstance(value, str) and field.name == "form":
            arguments[field.name] = value
        elif np.size(value) == 1 and field.name not in ("weights", "scale", "omega", "E"):
            arguments[field.name] = _number(value, name)
        else:
            arguments[field.name] = np.asarray(value) if field.name == "E" else np.ravel(value)
    try:
        kind(**arguments)
    except TypeError as error:
        missing = ", ".join(f"{prefix}_{field.name}" for field in fields(kind) if field.init)
        raise InvalidParameter(f"{kind.__name__} needs {missing}: {error}.") from None
    return arguments


def _numbers_of_groups(groups: Any) -> Array:
    numbers = np.zeros(sum(len(group) for group in groups))
    for number, group in enumerate(groups, start=1):
        numbers[list(group)] = number
    return numbers


def _groups_of_numbers(numbers: Array) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(m) for m in np.flatnonzero(numbers == number)) for number in np.unique(numbers))


def _number(value: Any, name: str) -> float:
    if np.size(value) == 1:
        try:
            return float(np.ravel(value)[0])
        except (TypeError, ValueError):
            pass
    raise InvalidParameter(f"{name} = {value!r} is no number.")
