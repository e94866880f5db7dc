"""The options of the commands that learn from tables, fit, predict and path, and how values of options are read."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from mklref._validate import holds
from mklref.cli.files import Input, Name, Output, add_force
from mklref.exceptions import MKLError
from mklref.losses import Loss, as_loss

T = TypeVar("T")

NORMALIZATIONS = ("trace", "multiplicative", "spherical", "none")
TASKS = ("auto", "classify", "regress")
RULES = {"best": "best", "one-standard-error": "one_standard_error"}

_DIGITS = 1000
"""Of an integer, at most."""
_MOST_COSTS = 1000
"""Of a range."""


def add_commands(commands: Any) -> None:
    """Add the three commands."""
    fit = commands.add_parser(
        "fit",
        help="learn a model from a CSV file, with cross-validation, and save it",
        description="Learn kernel weights and a model from a table; choose C and p by cross-validation.",
        epilog="Exit code 0: the model is certified within --tol; 1: not so; 2: bad input.",
    )
    _add_table(fit)
    add = fit.add_argument
    add("--save", type=Output, metavar="MODEL.npz", help="write the model, for mklref predict")
    add("--p", type=exponents, default=[1.0, 4 / 3, 2.0], metavar="P,...", help="norms to choose from (1,4/3,2)")
    add("--C", type=costs, default=costs("0.01..100:10"), metavar="C,...", help="values, or LOW..HIGH:COUNT in "
        "equal ratios (0.01..100:10)")  # fmt: skip
    add("--rule", choices=tuple(RULES), default="best", help="how to choose (best)")
    add("--tol", type=tolerance, default=1e-3, help="certified relative gap (1e-3)")
    add("--plot", type=Output, metavar="FILE", help="draw the kernel weights: PNG, SVG or PDF")
    add("--id", type=names, default=[], metavar="COLUMN,...", help="columns that are no variables and that predictions "
        "repeat")  # fmt: skip
    add("--test", type=held_out, default=0.25, metavar="SHARE|nested|none", help="held-out part of the rows for the "
        "error, or nested cross-validation (0.25)")  # fmt: skip
    add(
        "--scoring",
        type=Name,
        metavar="NAME",
        help="of scikit-learn, by which to choose, such as balanced_accuracy or roc_auc",
    )
    add("--class-weight", type=class_weight, metavar="balanced|CLASS=W,...", help="factors of C")
    add("--verbose", action="store_true", help="show progress also where standard error is no terminal")
    add_force(fit)
    predict = commands.add_parser(
        "predict",
        help="predict the rows of a CSV file by a saved model",
        description="Predict the rows of a table that has the columns of the model, by name; others are ignored. Rows "
        "are read, predicted and written some thousand at a time, so that a table of any length fits.",
        epilog="Exit code 0: done; 2: bad input.",
    )
    predict.add_argument("model", type=Input, metavar="MODEL.npz", help="what mklref fit wrote")
    predict.add_argument("data", type=Input, metavar="NEW.csv", help="a CSV file with a header")
    add = predict.add_argument
    add("--out", type=Output, metavar="FILE.csv", help="write the predictions there instead of printing them")
    add(
        "--proba", action="store_true", help="add a probability for each class; the predicted one has the largest score"
    )
    add("--keep", type=names, default=[], metavar="COLUMN,...", help="columns to repeat beside those of fit --id")
    _add_format(add)
    add_force(predict)
    path = commands.add_parser(
        "path",
        help="kernels, weights and validation error along a path of C",
        description="Follow the kernel weights along C, with the validation error of each value.",
        epilog="Exit code 0: every point is certified within --tol; 1: not so; 2: bad input.",
    )
    _add_table(path)
    # It predicts nothing that could have a name, and chooses no model.
    path.set_defaults(id=[], scoring=None, class_weight=None, rule="best", verbose=False)
    add = path.add_argument
    add("--p", type=exponents, default=[1.0], metavar="P", help="one norm (1)")
    add("--C", type=costs, default=costs("0.001..100:16"), metavar="C,...", help="values, or LOW..HIGH:COUNT "
        "(0.001..100:16)")  # fmt: skip
    add("--tol", type=tolerance, default=1e-3, help="certified relative gap (1e-3)")
    add("--out", type=Output, metavar="FILE.csv", help="write a row for each C, with all weights")
    add("--plot", type=Output, metavar="FILE", help="draw weights, number of kernels and error: PNG, SVG or PDF")
    add_force(path)


def add_reading(add: Any) -> None:
    """What the cells of a table mean, where it is not as found."""
    add("--columns", type=kinds, default=[], metavar="NAME=KIND,...", help="what columns are, where not as found: "
        "number, number:, (a decimal comma), category, category:fold, date:dmy, date:mdy, flag, leave")  # fmt: skip
    add("--missing", type=names, default=[], metavar="CELL,...", help="cells that are missing values, such as -999")
    _add_format(add)


def _add_format(add: Any) -> None:
    add("--encoding", type=Name, metavar="NAME", help="of the file, such as cp1252 (UTF-8, or else cp1252)")
    add("--separator", type=Name, metavar="MARK", help="of the file (the most frequent of , ; tab | in the header)")


def _add_table(command: Any) -> None:
    add = command.add_argument
    add("data", type=Input, metavar="DATA.csv", help="a CSV file with a header, or a data set by name, see mklref list")
    add("--target", type=Name, metavar="COLUMN", help="column to predict (the last one)")
    add("--ignore", type=names, default=[], metavar="COLUMN,...", help="columns that are no variables")
    add_reading(add)
    add("--report", action="store_true", help="say for each column what was made of it")
    add("--task", choices=TASKS, default="auto", help="classes or numbers (by the look of the target)")
    add(
        "--kernels", type=Name, default="simplemkl", metavar="SPEC", help="such as 'linear, rbf(0.5..8, 5)' (simplemkl)"
    )
    add("--normalize", choices=NORMALIZATIONS, default="multiplicative", help="of each kernel (multiplicative)")
    add("--loss", type=loss, metavar="NAME[:VALUE]", help="hinge or epsilon_insensitive:0.1 by default")
    add("--folds", type=folds, default=5, metavar="K", help="of the cross-validation, stratified for classes (5)")
    add("--samples", type=sample_count, metavar="N|all", help="how many, drawn by the seed (all)")
    add("--seed", type=short_seed, default=0, help="seed of draw and folds, below 2^32 (0)")
    add("--jobs", type=positive_count, default=1, metavar="N", help="folds at a time (1)")
    add("--max-time", type=seconds, metavar="SECONDS", help="of each fit, in a fold and to all rows; it ends then "
        "with what it has certified")  # fmt: skip


def several(kind: Callable[[str], T]) -> Callable[[str], list[T]]:
    """A comma-separated list of what `kind` reads, with one item at least."""

    def read(text: str) -> list[T]:
        items = [item.strip() for item in text.split(",")]
        if not all(items):
            raise argparse.ArgumentTypeError(f"{text!r} has an empty item; separate values by single commas")
        return [kind(item) for item in items]

    return read


names = several(str)
"""Of columns, or cells."""


def number(text: str) -> float:
    """A number, also as a fraction: 1e-6, 4/3, inf."""
    try:
        value = float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ArithmeticError):
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not a number") from None
    if np.isinf(value) and "inf" not in text.lower():
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is beyond {sys.float_info.max:.2g}, the largest number")
    return value


def within(interval: str, says: str) -> Callable[[str], float]:
    """What reads a number in an interval, which the error names."""

    def read(text: str) -> float:
        value = number(text)
        if not holds(interval, value):
            raise argparse.ArgumentTypeError(says.format(text, interval))
        return value

    return read


exponent = within("[1, inf]", "p = {} must lie in {}; 1 is sparse, inf the plain sum")
exponents = several(exponent)
positive = within("(0, inf)", "{} must lie in {}")
seconds = within("(0, inf]", "{} must lie in {}")
tolerance = within("(0, 1)", "{} must lie in {}, such as 1e-6: with a relative gap of 1 anything passes")
share = within("(0, 1)", "{} must be a share in {}, nested, or none")


def integer(least: int, says: str) -> Callable[[str], int]:
    """What reads an integer of at least so much; the error says that a text is none."""

    def read(text: str) -> int:
        if not text.isdecimal() or len(text) > _DIGITS or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text[:80]!r} is {says}")
        return int(text)

    return read


seed = integer(0, "not a nonnegative integer")
positive_count = integer(1, "not a positive integer")
folds = integer(2, "not an integer of at least 2")
_samples = integer(2, "neither 'all' nor an integer of at least 2")


def sample_count(text: str) -> int:
    """A number of samples, or "all"."""
    return sys.maxsize if text == "all" else _samples(text)


def loss(text: str) -> Loss:
    """A loss by name, with its parameter after a colon, also as a fraction: epsilon_insensitive:0.1, pinball:1/3."""
    name, colon, value = text.partition(":")
    try:
        return as_loss(f"{name}{colon}{number(value)!r}" if value else name)
    except MKLError as invalid:
        raise argparse.ArgumentTypeError(str(invalid)) from None


def costs(text: str) -> list[float]:
    """Values of C: 1,10,100, or LOW..HIGH:COUNT in equal ratios."""
    low, dots, rest = text.partition("..")
    if not dots:
        values = several(positive)(text)
    else:
        high, colon, count = rest.partition(":")
        if not colon or not count.isdecimal() or len(count) > 4 or not 2 <= int(count) <= _MOST_COSTS:
            raise argparse.ArgumentTypeError(
                f"{text[:80]!r} is no range; write LOW..HIGH:COUNT, such as 0.01..100:10, COUNT from 2 to {_MOST_COSTS}"
            )
        ends = number(low), number(high)
        if not 0.0 < ends[0] < ends[1] < np.inf:
            raise argparse.ArgumentTypeError(f"{text!r}: LOW and HIGH must be positive, finite and in this order")
        values = np.geomspace(*ends, int(count)).tolist()
    return sorted(set(values))


def short_seed(text: str) -> int:
    """A seed as scikit-learn takes it."""
    if (value := seed(text)) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text[:80]} must be below 2^32 = {2**32}")
    return value


def pairs(items: list[str], says: str) -> list[tuple[str, str]]:
    """Texts NAME=VALUE; the error says what one is not."""
    found = []
    for item in items:
        name, _, value = map(str.strip, item.rpartition("="))
        if not name or not value:
            raise argparse.ArgumentTypeError(f"{item!r} is no {says}")
        found.append((name, value))
    if twice := [name for name, count in Counter(name for name, _ in found).items() if count > 1]:
        raise argparse.ArgumentTypeError(f"{twice[0]!r} is there twice; say it once")
    return found


def kinds(text: str) -> list[tuple[str, str]]:
    """NAME=KIND, several separated by commas; the comma of number:, belongs to its kind."""
    return pairs(re.split(r",(?=[^,=]+=)", text), "NAME=KIND, such as zip=category or visit=date:dmy")


def held_out(text: str) -> float | str | None:
    """A share in (0, 1), nested, or none."""
    if text in ("none", "nested"):
        return None if text == "none" else text
    return share(text)


def class_weight(text: str) -> Any:
    """Balanced, or CLASS=WEIGHT, several separated by commas."""
    if text == "balanced":
        return text
    found = pairs(text.split(","), "CLASS=WEIGHT; or write balanced")
    return {name: positive(value) for name, value in found}
