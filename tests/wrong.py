"""Values that are wrong for nearly every argument, and the check that each one is refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mklref.exceptions import InvalidInput, InvalidType

WRONG: dict[str, Any] = {
    "None": None,
    "text": "x",
    "bytes": b"x",
    "nan": np.nan,
    "inf": np.inf,
    "-1": -1,
    "0": 0,
    "True": True,
    "1.5": 1.5,
    "5": 5,
    "int64": np.int64(5),
    "1e400": 10**400,
    "1j": 1j,
    "[]": [],
    "[[]]": [[]],
    "texts": ["a"],
    "ragged": [[1.0], [1.0, 2.0]],
    "matrix": np.zeros((2, 2)),
    "scalar array": np.array(3.0),
    "NaNs": np.full(6, np.nan),
    "NaN stack": np.full((2, 6, 6), np.nan),
    "complex array": np.ones(6) + 0j,
    "dict": {},
    "set": {1.0},
    "function": lambda *_: None,
    "object": object(),
}

NUMBER = {"1.5", "5", "int64"}
"""What a positive number may be."""
COUNT = {"5", "int64"}
EXPONENT = NUMBER | {"inf"}
OPTION = {"None"}
FLAG = (False, {"True"})
LIMITS = {
    "tol": (1e-1, NUMBER),
    "max_iter": (2, COUNT),
    "max_time": (1.0, NUMBER | OPTION | {"inf"}),
    "callback": (None, OPTION | {"function"}),
    "progress": FLAG,
}

Arguments = dict[str, tuple[Any, set[str]]]
"""For each argument a good value and the labels of `WRONG` that it takes as well."""


def only(**good: Any) -> Arguments:
    """Arguments that take nothing of `WRONG`."""
    return {argument: (value, set()) for argument, value in good.items()}


def cases(*table: tuple[Callable[..., Any], Arguments]) -> Any:
    """One test for each argument of each function."""
    rows = [
        pytest.param(function, {a: value for a, (value, _) in own.items()}, argument, fine)
        for function, own in table
        for argument, (_, fine) in own.items()
    ]
    names = [f"{function.__name__}({argument})" for function, own in table for argument in own]
    return pytest.mark.parametrize(("function", "good", "argument", "fine"), rows, ids=names)


def check_argument(function: Callable[..., Any], good: dict[str, Any], argument: str, fine: set[str]) -> None:
    """The good values work, and so do those in `fine`; every other wrong one is refused by the name of the argument."""
    function(**good)
    for label, value in WRONG.items():
        if label in fine:
            function(**{**good, argument: value})
            continue
        with pytest.raises((InvalidInput, InvalidType), match=rf"\b{re.escape(argument)}\b") as caught:
            function(**{**good, argument: value})
        text = str(caught.value)
        assert len(text.split()) > 4, f"{argument} = {label}: {text!r} says neither what is wrong nor what is right"
