"""From options to a problem: data, labels, kernels, and one line about each for the reader."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from mklref import datasets
from mklref._files import SUFFIXES, ending
from mklref._names import NAMES
from mklref._typing import Array
from mklref._validate import counted
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidTarget
from mklref.kernels import ArrayStack, KernelStack, normalize, parse
from mklref.losses import Hinge, Loss
from mklref.problem import Problem
from mklref.regularizers import Lp
from mklref.testing.vectors.formats import read_as, read_record
from mklref.testing.vectors.schema import problem_from_record, stack_of

TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")
RECIPE = "simplemkl"
READING = ("columns", "missing", "encoding", "separator")
"""Options that say how a table is read."""


@dataclass(frozen=True)
class Input:
    """What the options describe, before p and C are chosen."""

    kernels: KernelStack
    y: Array
    loss: Loss
    facts: dict[str, str]
    """Lines for the reader: what was read, and what was done to it."""

    def problem(self, p: float, C: float) -> Problem:
        """The problem with an lp ball of weights."""
        intercept = self.loss.intercept != "forbidden"
        return Problem(self.kernels, self.y, C=C, loss=self.loss, regularizer=Lp(p), intercept=intercept)

    def title(self, p: float, C: float) -> str:
        """The problem in a few words; p as a fraction where it is one."""
        fraction = Fraction(p).limit_denominator(99) if p < float("inf") else None
        shown = str(fraction) if fraction is not None and float(fraction) == p else f"{p:.6g}"
        return f"{self.loss}, p = {shown}, C = {C:g}"


def read_stated(arguments: Any) -> Problem | None:
    """The problem that a file states, with its C, loss, regulariser and weights; None for data alone.

    An option that contradicts it, or that a stated problem has no use for, is refused.
    """
    if ending(arguments.data) not in SUFFIXES:
        return None
    problem = read_as(arguments.data, lambda record: problem_from_record(record) if _states(record) else None)
    if problem is None:
        return None
    for option in (*READING, "target", "positive", "samples", "seed", "kernels", "normalize"):
        given = getattr(arguments, option)
        if given or (option == "seed" and given is not None):  # 0 is a seed
            raise InvalidParameter(f"--{option} does not go with {arguments.data}, which states a whole problem.")
    regularizer, loss = problem.regularizer, problem.loss
    given = {"C": arguments.C, "loss": arguments.loss, "p": arguments.p}
    stated = {"C": problem.C, "loss": loss, "p": regularizer.p if isinstance(regularizer, Lp) else str(regularizer)}
    for option, value in given.items():
        if value is not None and value not in (stated[option], [stated[option]]):  # crosscheck takes several
            raise InvalidParameter(
                f"--{option} {value} contradicts {arguments.data}, which has {stated[option]}; leave the option out, "
                "or write another problem."
            )
    return problem


def words_of(problem: Problem, file: str) -> tuple[str, dict[str, str]]:
    """The title of a problem that a file states, and lines for the reader."""
    shape = f"{counted(problem.n_kernels, 'kernel')}, {problem.n_samples} samples, as the file states it"
    machines = f", {counted(len(problem.machines), 'machine')}" if problem.several else ""
    title = f"{problem.loss}, {problem.regularizer}, C = {problem.C:g}{machines}"
    return title, {"data": file, "problem": shape}


def _states(record: dict[str, Any]) -> bool:
    """Whether a record is more than data."""
    data = {"kernels", "kernels_dtype", "y", "name", *NAMES}
    return {"kernels", "y"} <= record.keys() and any(not name.startswith("info_") for name in record.keys() - data)


def is_table(data: str) -> bool:
    """Whether this is a file, or a pipe, and no name of a data set, which a directory may have too."""
    return data.lower().endswith(TABLES) or (Path(data).exists() and not Path(data).is_dir())


def read(arguments: Any, default_samples: int | None = None) -> Input:
    """Read the data that the options name, encode its target, and compute its kernels."""
    if ending(arguments.data) in SUFFIXES:
        return _from_kernels(arguments)
    return _from_table(arguments, arguments.samples or default_samples)


def _from_table(arguments: Any, samples: int | None) -> Input:
    published, untargeted, columns = _dataset(arguments)
    whole = published.complete()
    left = {"with missing cells": len(published.y) - len(whole.y), "without a target": untargeted}
    data = whole if samples is None else whole.subset(samples, arguments.seed or 0)
    y, meaning = targets_for_loss(data.y, arguments)
    specification = RECIPE if arguments.kernels is None else arguments.kernels
    method: Any = arguments.normalize or "trace"
    kernels = parse(specification).fit(data.standardized(), normalize=None if method == "none" else method)
    return Input(
        kernels,
        y,
        arguments.loss or Hinge(),
        {
            "data": f"{whole.name} ({whole.source})" if whole.name != whole.source else whole.name,
            "samples": _drawn(len(data.y), len(whole.y), arguments.seed)
            + "".join(f"; {count} {what} left out" for what, count in left.items() if count),
            "target": meaning,
            "kernels": f"{len(kernels)}: {specification} on {len(data.features)} standardised variables, "
            f"normalisation: {method}",
            **columns,
        },
    )


def _dataset(arguments: Any) -> tuple[datasets.Dataset, int, dict[str, str]]:
    """The table, how many rows had no target, and lines on how it was read, if it is not one of numbers."""
    name, given = arguments.data, {option: getattr(arguments, option) for option in READING}
    if is_table(name):
        from mklref.estimators.tabular import alternatives, columns_used, read_any  # scikit-learn takes its time

        data, encoder, left = read_any(name, arguments.target, **{**given, "columns": dict(given["columns"])})
        return data, left, {} if encoder is None else {"columns": columns_used(encoder), **alternatives(encoder)}
    for option, value in {"target": arguments.target, **given}.items():
        if value:
            raise InvalidParameter(f"--{option} is for CSV files; data sets that have a name have their columns.")
    return datasets.load(name), 0, {}


def _from_kernels(arguments: Any) -> Input:
    for option in (*READING, "kernels", "target"):
        if getattr(arguments, option):
            raise InvalidParameter(f"--{option} does not go with {arguments.data}, which holds kernels and y.")
    arrays = read_record(arguments.data)
    missing = [name for name in ("kernels", "y") if name not in arrays]
    if missing:
        found = ", ".join(arrays) or "nothing"
        raise InvalidInput(
            f"{arguments.data} holds {found} and lacks {' and '.join(missing)}; "
            "write it by np.savez(FILE, kernels=K, y=y) with K of shape (M, n, n)."
        )
    kernels, y = stack_of(arrays), np.asarray(arrays["y"])
    n = kernels.shape[1]
    if arguments.samples is not None and arguments.samples < n and y.shape == (n,):
        rows = np.sort(np.random.default_rng(arguments.seed or 0).permutation(n)[: arguments.samples])
        kernels = ArrayStack([np.ascontiguousarray(K[np.ix_(rows, rows)]) for K in kernels.dense()], kernels.names)
        y = y[rows]
    method: Any = arguments.normalize or "none"
    if method != "none":
        kernels = normalize(kernels, method)
    y, meaning = targets_for_loss(y, arguments)
    facts = {
        "data": arguments.data,
        "samples": _drawn(kernels.shape[1], n, arguments.seed),
        "target": meaning,
        "kernels": f"{len(kernels)} as given, normalisation: {method}",
    }
    return Input(kernels, y, arguments.loss or Hinge(), facts)


def targets_for_loss(y: Any, arguments: Any) -> tuple[Any, str]:
    """y as the loss wants it, and what was done: classes are encoded, numbers are kept, one class is all ones."""
    loss = arguments.loss or Hinge()
    if loss.targets == "ones":
        return np.ones(len(y)), "ignored: one class"
    if loss.targets == "real" and y.dtype.kind in "iuf" and arguments.positive is None:
        return y, "numbers, as given"
    if y.ndim != 1:
        return y, "as given"
    if loss.targets == "real" and arguments.positive is None and len(np.unique(y)) > 2:
        raise InvalidTarget(f"the loss {loss} is for numbers, and the target holds classes; name one by --positive.")
    labels, (negative, positive) = datasets.encode(y, arguments.positive)
    counts = int(np.sum(labels < 0)), int(np.sum(labels > 0))
    return labels, f"{negative} = -1 ({counted(counts[0], 'sample')}), {positive} = +1 ({counted(counts[1], 'sample')})"


def _drawn(taken: int, available: int, seed: int | None) -> str:
    return f"all {available}" if taken == available else f"{taken} of {available}, drawn with seed {seed or 0}"
