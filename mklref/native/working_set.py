"""The working set: which kernels a problem with sparse weights reads, and when it looks at the others again.

Kernels that are not watched have bounds of their squares in place of them (machines/quadratic_forms.py), so that the
lower bound of the optimum stays valid; one that could matter by its bound comes back. Squares are compared in `units`.
"""

from __future__ import annotations

import numpy as np

from mklref._typing import Array
from mklref.machines.joint import JointMachine
from mklref.machines.machine import Machine
from mklref.native import tuning
from mklref.native.point import Point


def watch_the_largest(machine: Machine | JointMachine, point: Point, units: Array) -> None:
    """Watch only the kernels that are or are likely to be active, once the weights are sparse."""
    forms, kernels = machine.forms, len(point.weights)
    count = max(tuning.WATCHED, kernels // 10)
    if forms.watched.all() and np.count_nonzero(point.weights) < count < kernels:
        forms.watched[:] = point.weights > 0.0
        forms.watched[np.argsort(point.squares / units)[-count:]] = True


def widened(machine: Machine | JointMachine, point: Point, units: Array) -> bool:
    """Read the kernels again whose bounds show that they could matter, and watch those that nearly do; whether any."""
    forms = machine.forms
    if forms.watched.all():
        return False
    known, squares = forms.watched.copy(), point.squares / units
    inside = squares[known].max()
    forms.watched |= squares > inside
    if np.array_equal(known, forms.watched):
        return False
    machine.set_dual(point.beta)
    forms.watched &= known | (machine.squares / units > tuning.NEARLY * inside)
    return True
