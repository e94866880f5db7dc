"""Attacks: random and hostile input against what the package promises, in parts, each with a count and a seed.

Every module here whose name does not begin with an underscore is a part. It defines

    attack(cases: int, rng: np.random.Generator) -> list[Finding]

which runs that many cases and returns what broke: a bound that excludes the truth, a claim that is false, an error that
is not of the package's tree. An empty list is the promise. `each` does the loop for parts whose cases are independent.
"""

from __future__ import annotations

import pkgutil
import signal
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Finding:
    """One broken promise."""

    part: str
    case: int
    """Number of the case; with the seed of the run it determines the input."""
    words: str
    """What was asked, what came back, and what is true."""

    def __str__(self) -> str:
        return f"{self.part}, case {self.case}: {self.words}"


class Attack(Protocol):
    """What a part defines."""

    def __call__(self, cases: int, rng: np.random.Generator) -> list[Finding]:
        """Run `cases` cases."""


def parts() -> dict[str, Attack]:
    """The attack of every module that is here, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return {name: import_module(f"{__name__}.{name}").attack for name in names}


def generator(seed: int, part: str) -> np.random.Generator:
    """The generator of a part: it does not depend on which other parts there are."""
    return np.random.default_rng([seed, zlib.crc32(part.encode())])


def each(
    part: str, case: Callable[[np.random.Generator], Iterable[str]], cases: int, rng: np.random.Generator
) -> list[Finding]:
    """The findings of one function, called with a generator of its own for each case.

    What it yields is what broke, in words. An exception that it lets through is a finding too: a case has to catch the
    errors that the package promises for its input.
    """
    found = []
    for number, own in enumerate(rng.spawn(cases)):
        try:
            found += [Finding(part, number, words) for words in case(own)]
        except Exception as error:  # noqa: BLE001 - any error is what an attack looks for
            found.append(Finding(part, number, f"{type(error).__name__}: {error}"))
    return found


class Hang(Exception):
    """Something took longer than it may."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `Hang` in a block that takes longer."""

    def ring(*_: Any) -> None:
        raise Hang(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
