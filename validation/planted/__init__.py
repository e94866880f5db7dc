"""Faults that real solvers have, each planted in a healthy one: what `validation.confusion` and tests run.

A fault is a function of a problem that returns what a solver with it returns, or None where the problem leaves it no
room (sample weights that are ignored where there are none). Apart from the fault the answers are exact: the native
solver finds them at 1e-10, so that nothing else is wrong with them.
"""

from validation.planted import answers, data, statements  # noqa: F401  (each one enters its faults)
from validation.planted.base import FAULTS, exact

__all__ = ["FAULTS", "exact"]
