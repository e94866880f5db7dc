"""What an experiment is made of; and paired comparisons: one-sided tests, and Holm's correction of several."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import binomtest, ttest_rel

from mklref._typing import Array

T = TypeVar("T")

CAUSE = "cause"
"""The group of cells that look into causes."""


@dataclass(frozen=True)
class Cell:
    """One unit of work: small enough to be repeated alone."""

    id: str
    """Name of its file."""
    config: Mapping[str, Any]
    """What the function is called with, seed included; JSON."""
    seconds: float
    """Estimated, on one core."""


@dataclass(frozen=True)
class Result:
    """A finished cell."""

    id: str
    config: dict[str, Any]
    values: dict[str, Any]
    seconds: float
    facts: dict[str, Any]
    """Date, versions, machine, load."""


class Evidence(NamedTuple):
    """Whether a sentence of a paper holds here, and the numbers that say so."""

    holds: bool
    text: str
    decided: bool = True
    """False: the repetitions say neither yes nor no, and it counts as not agreeing."""


class Picture(NamedTuple):
    """A drawing with its caption."""

    figure: Figure
    caption: str


Tables = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]
"""Repetitions by table, row and column."""


@dataclass(frozen=True)
class Summary:
    """What the finished cells say."""

    tables: Tables = field(default_factory=dict)
    claims: Mapping[str, Evidence] = field(default_factory=dict)
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    measured: Mapping[str, str] = field(default_factory=dict)
    """Figures that the causes cite as {name}, so that no cause outlives the results that it is about."""
    shared: Mapping[str, float] = field(default_factory=dict)
    """Standard deviation of what all repetitions of the paper share, such as one test set, by the key of the entry."""
    front: Mapping[str, str] = field(default_factory=dict)
    """Figures that the first page of the docs cites as {experiment/name}."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper, or several with the same runs."""

    name: str
    title: str
    protocol: str
    """The paper's protocol, and what is done otherwise here; paragraphs of plain text."""
    cells: Callable[[bool], list[Cell]]
    cell: Callable[[dict[str, Any]], dict[str, Any]]
    summary: Callable[[list[Result]], Summary]
    data: tuple[str, ...] = ()
    """Sets of MKLREF_DATA that the full run reads."""
    module: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "module", self.name.replace("-", "_"))


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds of the processor, in all threads, and what was made: a busy machine makes the clock meaningless."""
    began = time.process_time()
    made = work()
    return time.process_time() - began, made


def table_of(entries: Iterable[tuple[str, str, float]]) -> dict[str, dict[str, list[float]]]:
    """One table of row, column and value: the repetitions of an entry in the order in which they come."""
    table: dict[str, dict[str, list[float]]] = {}
    for row, column, value in entries:
        table.setdefault(row, {}).setdefault(column, []).append(value)
    return table


def of(results: Iterable[Result], name: str, quantity: str) -> Array:
    """One value of a method, by repetition."""
    return np.array([r.values[name][quantity] for r in results], dtype=float)


def apart(results: Iterable[Result]) -> tuple[list[Result], list[Result]]:
    """Those of the paper's protocol, and those that look into causes."""
    found: tuple[list[Result], list[Result]] = ([], [])
    for result in results:
        found[result.config.get("group") == CAUSE].append(result)
    return found


LEVEL = 0.05
"""At which everything is tested."""


def one_sided(differences: Array) -> float:
    """The p-value of a mean below 0; differences that are all the same have no test."""
    if np.ptp(differences) == 0.0:
        return 0.5
    return float(ttest_rel(differences, np.zeros_like(differences), alternative="less").pvalue)


def holm(values: Sequence[float]) -> Array:
    """Holm's adjusted p-values."""
    order = np.argsort(values)
    factors = len(values) - np.arange(len(values))
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(np.asarray(values)[order] * factors))
    return adjusted


def sign_test(ratios: Iterable[float]) -> float:
    """The one-sided p-value of a median above 1; ratios of exactly 1 decide nothing."""
    decided = [ratio > 1.0 for ratio in ratios if ratio != 1.0]
    return float(binomtest(sum(decided), len(decided), alternative="greater").pvalue) if decided else 1.0
