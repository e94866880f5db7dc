"""Kernels that are costly to read: the whole problem on the samples that matter, and one look at all the others.

    1. A: the samples that the scores so far put into the support, or near it.
    2. The outer loop on the problem of A alone, with the same C and all other beta_i = 0, from the weights and beta so
       far. Its dual objective is that of the whole problem at (beta_A, 0), a lower bound of the same optimum.
    3. The scores of all samples, by one pass over the rows of the support: what the others lose is the gap that is
       left. Those that are in or near the support now are the next A.

Machines are solved for many weights, all of them on A; the others are read once in a round, of which there are few.
It is chunking (Vapnik 1982; Osuna, Freund and Girosi 1997), of the problem in beta and theta at once.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from mklref._run import Recorder
from mklref._typing import Array
from mklref.machines import machine_for
from mklref.machines.lazy import LazyForms, LazyMachine
from mklref.machines.quadratic_forms import QuadraticForms
from mklref.native.loop import Loop, Point
from mklref.solution import Record

_NEAR = 0.05, 0.03
"""Scores, in deviations of y, from which a sample is near the support: at first, when they are those of a part of the
samples, and later."""
_INSIDE = 0.3
"""Share of the wanted gap to which the problem of A is solved, so that it is not A that the gap is left on."""
_AHEAD = 0.03
"""Or this share of the present gap, of which the others have most."""
_FIRST_GAP = 0.02
"""The gap that the first round is expected to leave."""
_MOST_ROUNDS = 20
_SLOW = 0.7
"""A round that leaves more than this of the gap is the last: all samples are read from then on."""
_ALMOST_ALL = 0.8


def on_active_samples(loop: Loop, weights: Array) -> Point | None:
    """The best point that rounds on active samples reach, noted and recorded; None where they are no use."""
    machine, problem = loop.machine, loop.problem
    known = isinstance(machine, LazyMachine) and (machine.likely is not None or machine.beta.any())
    if not known or problem.intercept_cost:
        return None
    assert isinstance(machine, LazyMachine)
    warm, gap = bool(machine.beta.any()), np.inf
    point: Point | None = None
    if warm and loop.first is not None:
        gap = loop.first.gap / max(abs(loop.first.upper), loop.zero)
        if gap <= loop.tol:
            return loop.first
    samples = machine.near(_NEAR[warm], machine.most)
    for _ in range(_MOST_ROUNDS):
        if len(samples) > _ALMOST_ALL * len(machine.beta) or len(np.unique(problem.y[samples])) < 2:
            return point
        tol = max(_INSIDE * loop.tol, _AHEAD * min(gap, _FIRST_GAP))
        weights, beta = _solved_on(loop, machine, samples, weights, warm, tol)
        machine.likely, warm = None, True
        machine.move(weights)
        machine.set_dual(_on_all(machine, samples, beta))
        point = loop.best.note(loop.assess(weights))
        last, gap = gap, point.gap / max(abs(point.upper), loop.zero)
        if loop.record(point) or gap <= loop.tol or gap > _SLOW * last:
            return point
        samples = machine.near(_NEAR[1], machine.most)
    return point


def _solved_on(
    loop: Loop, machine: LazyMachine, samples: Array, weights: Array, warm: bool, tol: float
) -> tuple[Array, Array]:
    """The problem of these samples alone, from these weights to that gap: weights (M,) and beta (k,).

    If `warm`, from the beta that the machine has as well.
    """
    problem, beta = machine.problem, machine.beta[samples] if warm else None
    kernels = machine.forms.part(samples)
    part = problem.replace(
        kernels=kernels,
        y=problem.y[samples],
        sample_weight=None if problem.sample_weight is None else problem.sample_weight[samples],
    )
    forms = LazyForms(kernels) if kernels.costly else QuadraticForms(kernels)
    if beta is not None:
        forms.adopt(machine.forms.images[:, samples], beta)
    small = machine_for(part, beta, forms)
    small.warm = True
    left = loop.recorder.deadline - time.perf_counter()
    recorder: Recorder[Record] = Recorder("active samples", tol=tol, max_iter=loop.recorder.max_iter, max_time=left)
    inner = Loop(small, tol, recorder, cold=False)
    try:
        inner.iterate(inner.begin(weights))
    except KeyboardInterrupt:
        found = inner.best.point
        if found is not None and found.lower > loop.best.lower:  # what is returned is certified from scratch
            loop.best.point = replace(found, beta=_on_all(machine, samples, found.beta))
        raise
    best = inner.best.point
    assert best is not None
    return best.weights, best.beta


def _on_all(machine: LazyMachine, samples: Array, beta: Array) -> Array:
    """beta (n,), 0 for all other samples."""
    whole = np.zeros_like(machine.beta)
    whole[samples] = beta
    return whole
