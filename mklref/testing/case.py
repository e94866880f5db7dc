"""A case of the catalogue: problems, and a law that their optimal values obey."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from inspect import getdoc
from typing import NamedTuple
from zlib import crc32

import numpy as np

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

    def __mul__(self, factor: object) -> Interval:
        if not isinstance(factor, int | float):
            return NotImplemented
        return Interval(self.lower * factor, self.upper * factor)

    def __add__(self, other: object) -> Interval:
        if not isinstance(other, Interval):
            return NotImplemented
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

    def selected(self, upto: Version | None, include: Iterable[str] | None, exclude: Iterable[str] | None) -> bool:
        """Whether version, flags and name match."""
        if upto is not None and self.since > upto:
            return False
        return (include is None or self._matches(include)) and not (exclude is not None and self._matches(exclude))

    def _matches(self, words: Iterable[str]) -> bool:
        return any(word in self.flags or fnmatchcase(self.name, word) for word in words)


CATALOGUE: dict[str, Case] = {}
"""All cases by name, in order."""


def case(
    since: Version, *flags: str, name: str | None = None, law: Law | None = None
) -> Callable[[Callable[[np.random.Generator], object]], Callable[[np.random.Generator], object]]:
    """Enter a function of a seeded generator that returns one problem, or several for a law, into the catalogue."""

    def enter(
        function: Callable[[np.random.Generator], object],
    ) -> Callable[[np.random.Generator], object]:
        title = name or function.__name__.replace("_", "-")
        assert title not in CATALOGUE, title
        assert set(flags) <= set(FLAGS), flags

        def build() -> tuple[Problem, ...]:
            made = function(np.random.default_rng(crc32(title.encode())))
            return made if isinstance(made, tuple) else (made,)

        CATALOGUE[title] = Case(title, since, frozenset(flags), getdoc(function) or "", build, law)
        return function

    return enter


def select(upto: object = None, include: object = None, exclude: object = None) -> tuple[Case, ...]:
    """The cases of a version and earlier ones, with the flags or names (also patterns) that are asked for.

    Raises
    ------
    InvalidParameter
        A word that is neither a flag nor matches a name; a version that is no pair of integers.
    """
    import_module("mklref.testing.cases")
    version = _version(upto)
    wanted, unwanted = _words("include", include), _words("exclude", exclude)
    return tuple(case for case in CATALOGUE.values() if case.selected(version, wanted, unwanted))


def _version(upto: object) -> Version | None:
    if upto is None:
        return None
    if isinstance(upto, tuple | list) and len(upto) == 2 and all(isinstance(part, int) for part in upto):
        return upto[0], upto[1]
    raise InvalidParameter(f"upto = {upto!r}; give the first two numbers of a version, such as (0, 1).")


def _words(argument: str, words: object) -> tuple[str, ...] | None:
    if words is None:
        return None
    given = (words,) if isinstance(words, str) else tuple(words)  # type: ignore[arg-type]
    for word in given:
        if word not in FLAGS and not any(fnmatchcase(name, str(word)) for name in CATALOGUE):
            raise InvalidParameter(
                f"{argument}: {word!r} is neither a flag nor the name of a case (patterns with * are allowed); "
                f"flags: {', '.join(FLAGS)}."
            )
    return given
