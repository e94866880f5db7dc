"""From the limit of the solver to that of double precision: Newton's method (`_polish`) where the machines end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from mklref._polish import improved, newton
from mklref.certificate import Certificate
from mklref.machines.blas import blas_threads
from mklref.machines.joint import JointMachine
from mklref.machines.machine import Machine
from mklref.problem import Point
from mklref.solution import Solution, Status

_ROUNDS = 4
_ENOUGH = 1e-14
"""Relative gap at which there is nothing left to improve."""


def polished(machine: Machine | JointMachine, solution: Solution, tol: float) -> Solution:
    """The solution, or a better one from Newton's method on its active set, by certified gap.

    `status` is OPTIMAL if the certificate of the better one confirms `tol`, and unchanged otherwise.
    """
    problem = machine.problem
    best, certificate = Point(solution.dual_coef, solution.weights, solution.intercept), solution.certificate
    machine.forms.watched[:] = True
    with blas_threads(problem.n_samples), np.errstate(all="ignore"):
        for _ in range(_ROUNDS):
            before = certificate
            candidates = _refinements(machine, best, _ENOUGH * abs(before.upper))
            best, certificate = improved(problem, best, candidates, _at_the_limit, certificate)
            if certificate is before:
                break
    if certificate is solution.certificate:
        return solution
    return replace(
        solution,
        **best._asdict(),
        objective=certificate.objective,
        certificate=certificate,
        status=Status.OPTIMAL if certificate.is_optimal(tol) else solution.status,
    )


def _at_the_limit(certificate: Certificate) -> bool:
    return bool(certificate.gap - certificate.rounding <= _ENOUGH * abs(certificate.upper))


def _refinements(machine: Machine | JointMachine, point: Point, gap: float) -> Iterator[Point]:
    """The solution of the machines at these weights, and feasible points after each Newton step from there.

    They find the samples at their bounds. At extreme scales a factorisation breaks down: then there are no more points.
    """
    problem = machine.problem
    parts = problem.split(point.dual_coef)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    with suppress(FloatingPointError, np.linalg.LinAlgError):
        machine.set_dual(np.concatenate(parts))
        machine.move(point.weights)
        machine.solve(gap)
        dual_coef = problem.join(np.split(machine.beta, ends))
        found = Point(dual_coef, point.weights, machine.scores()[1])
        yield found
        yield from newton(problem, problem.regularizer, found)
