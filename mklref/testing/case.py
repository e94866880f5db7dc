"""A case of the catalogue: problems, and a law that their optimal values obey."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from inspect import getdoc
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from mklref._validate import checked_words, shown
from mklref.exceptions import InvalidParameter
from mklref.problem import Problem

Version = tuple[int, int]

FLAGS: dict[str, str] = {
    "ordinary": "generic data, moderate C",
    "sparse": "p = 1: the weights are no function of the dual point",
    "smooth": "weights are a function of the dual point",
    "no-intercept": "the problem has no intercept",
    "sample-weight": "samples have weights of their own",
    "regression": "real targets",
    "one-class": "y is all ones",
    "degenerate": "an optimum that is not unique, or a matrix that is singular",
    "non-unique-weights": "different weights are optimal; only the optimal value is compared",
    "rank-one": "kernels of rank one",
    "low-rank": "kernels of rank less than n",
    "ties": "several kernels or samples are exactly as good as one another",
    "duplicated-kernel": "a kernel occurs twice",
    "zero-kernel": "a kernel is 0",
    "constant-kernel": "a kernel is constant, as an intercept that is penalised",
    "duplicated-samples": "samples occur twice, perhaps with opposite labels",
    "unbalanced": "one class is nearly absent",
    "separable": "the classes can be separated: large C makes no difference",
    "C-small": "C so small that every sample is at its bound",
    "C-large": "C so large that the machine is ill-conditioned",
    "p-near-1": "p just above 1",
    "p-huge": "p so large that the ball is nearly a cube",
    "huge-scale": "kernels of huge numbers",
    "tiny-scale": "kernels of tiny numbers",
    "mixed-scales": "kernels of very different numbers",
    "n-2": "two samples",
    "one-kernel": "M = 1: an ordinary kernel machine",
    "many-kernels": "more kernels than samples",
    "float32": "kernels in single precision",
    "zero-weights": "all weights are 0 at the optimum",
    "zero-optimum": "the optimal value is 0",
    "other-regularizer": "a regulariser other than an lp ball",
    "grid": "a structure of data met by a narrow solver: 16 samples, few kernels",
    "invariant": "several related problems, whose optimal values obey a law",
}
"""What the flags of the cases mean."""


class Interval(NamedTuple):
    """lower <= P* <= upper."""

    lower: float
    upper: float

    def __mul__(self, factor: float) -> Interval:  # type: ignore[override]
        return Interval(self.lower * factor, self.upper * factor)

    def __add__(self, other: Interval) -> Interval:  # type: ignore[override]
        return Interval(self.lower + other.lower, self.upper + other.upper)

    def may_be_at_most(self, other: Interval) -> bool:
        """Whether a value in here can be at most one in there, up to rounding."""
        rounding = 1e-9 * max(abs(self.lower), abs(other.upper))
        return self.lower <= other.upper + rounding

    def meets(self, other: Interval) -> bool:
        """Whether the two may hold the same value, up to rounding."""
        return self.may_be_at_most(other) and other.may_be_at_most(self)


Law = Callable[..., bool]
"""Takes one interval for each problem; whether they can be true together."""


@dataclass(frozen=True)
class Case:
    """One entry of the catalogue."""

    name: str
    since: Version
    """The version of the package that brought it."""
    flags: frozenset[str]
    statement: str
    """What is special, or the law."""
    build: Callable[[], tuple[Problem, ...]]
    """The problems, made anew at every call, always the same ones."""
    law: Law | None = None

    def matches(self, word: object) -> bool:
        """Whether a word is one of its flags or its name, * allowed."""
        return word in self.flags or fnmatchcase(self.name, str(word))


CATALOGUE: dict[str, Case] = {}
"""All cases by name, in order."""


Make = Callable[[np.random.Generator], object]
"""From a seeded generator to one problem, or to several for a law."""


def enter(name: str, since: Version, flags: Iterable[str], statement: str, make: Make, law: Law | None = None) -> None:
    """Enter what a function makes into the catalogue."""
    flags = frozenset(flags)
    assert name not in CATALOGUE, name
    assert flags <= set(FLAGS), flags

    def build() -> tuple[Problem, ...]:
        made = make(np.random.default_rng(crc32(name.encode())))
        return made if isinstance(made, tuple) else (made,)

    CATALOGUE[name] = Case(name, since, flags, statement, build, law)


def case(since: Version, *flags: str, law: Law | None = None) -> Callable[[Make], Make]:
    """Enter a function, whose name and docstring are those of the case."""

    def entered(make: Make) -> Make:
        enter(make.__name__.replace("_", "-"), since, flags, getdoc(make) or "", make, law)
        return make

    return entered


def select(upto: object = None, include: object = None, exclude: object = None) -> tuple[Case, ...]:
    """The cases of a version and earlier ones, with the flags or names (also patterns) that are asked for."""
    import_module("mklref.testing.cases")
    unknown = f"neither a flag nor the name of a case (patterns with * are allowed); flags: {', '.join(FLAGS)}."
    chosen = matching(CATALOGUE.values(), include, exclude, f"{{}}: {{!r}} is {unknown}")
    if upto is None:
        return chosen
    if isinstance(upto, tuple | list) and len(upto) == 2 and all(isinstance(part, int) for part in upto):
        return tuple(case for case in chosen if case.since <= tuple(upto))
    raise InvalidParameter(f"upto = {shown(upto)}; give the first two numbers of a version, such as (0, 1).")


def matching(cases: Iterable[Case], include: Any, exclude: Any, unknown: str) -> tuple[Case, ...]:
    """The cases that match a word of `include`, by default all of them, and none of `exclude`.

    `InvalidParameter` for a word that no case matches, by the sentence `unknown` about argument and word.
    """
    left = tuple(cases)
    nothing = exclude is None or (isinstance(exclude, str) and not exclude)
    given = {"include": "*" if include is None else include, "exclude": () if nothing else exclude}
    words = {argument: checked_words(argument, own) for argument, own in given.items()}
    for argument, own in words.items():
        for word in own:
            if not any(case.matches(word) for case in left):
                raise InvalidParameter(unknown.format(argument, word))
    wanted, unwanted = words.values()
    return tuple(case for case in left if any(map(case.matches, wanted)) and not any(map(case.matches, unwanted)))
