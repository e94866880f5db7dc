"""Kernels that are costly to read: the whole problem on the samples that matter, and one look at all the others.

    1. A: the samples that the scores so far put into the support, or near it.
    2. The outer loop on the problem of A alone, with the same C and all other beta_i = 0, from the weights and beta so
       far. Its dual objective is that of the whole problem at (beta_A, 0), a lower bound of the same optimum.
    3. The scores of all samples, by one pass over the rows of the support: what the others lose is the gap that is
       left. Those that are in or near the support now are the next A.

Machines are solved for many weights, all of them on A; the others are read once in a round, of which there are few.
It is chunking (Vapnik 1982; Osuna, Freund and Girosi 1997), of the problem in beta and theta at once. Several machines
that share their weights have samples of their own, A_p, which are few even where most samples matter to some machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mklref._run import Recorder
from mklref._typing import Array
from mklref.machines import machine_for
from mklref.machines.joint import JointMachine
from mklref.machines.lazy import LazyForms, LazyMachine, kernels_of
from mklref.machines.machine import Machine
from mklref.machines.quadratic_forms import QuadraticForms
from mklref.multiclass import MulticlassProblem, restricted
from mklref.native.loop import Loop
from mklref.native.point import Point
from mklref.problem import Problem, on_samples
from mklref.solution import Record

_NEAR = 0.05, 0.03
"""Scores, in deviations of y, from which a sample is near the support: at first, when they are those of a part of the
samples, and later."""
_INSIDE = 0.3
"""Share of the wanted gap to which the problem of A is solved: what is left of the gap is due to the other samples."""
_AHEAD = 0.03
"""Share of the present gap that is enough instead, as most of that gap is due to the other samples."""
_FIRST_GAP = 0.02
"""The gap that the first round is expected to leave."""
_MOST_ROUNDS = 20
_SLOW = 0.7
"""A round that leaves more than this of the gap is the last: all samples are read from then on."""
_ALMOST_ALL = 0.8


def on_active_samples(loop: Loop, weights: Array) -> Point | None:
    """The best point that rounds on active samples reach, noted and recorded; None where they are of no use."""
    machine, problem = loop.machine, loop.problem
    machines = [own for own in machine.machines if isinstance(own, LazyMachine)]
    known = len(machines) == len(machine.machines) and all(m.likely is not None or m.beta.any() for m in machines)
    if problem.intercept_cost or not known:
        return None
    warm, gap = bool(machine.beta.any()), np.inf
    point: Point | None = None
    if warm and loop.first is not None:
        gap = loop.first.gap / max(abs(loop.first.upper), loop.zero)
        if gap <= loop.tol:
            return loop.first
    samples = _near(machines, _NEAR[warm])
    for _ in range(_MOST_ROUNDS):
        if _too_many_or_alike(machines, samples):
            return point
        tol = max(_INSIDE * loop.tol, _AHEAD * min(gap, _FIRST_GAP))
        weights, beta = _solved_on(loop, machines, samples, weights, warm, tol)
        warm = True
        for own in machines:
            own.likely = None
        machine.move(weights)
        machine.set_dual(_on_all(machines, samples, beta))
        point = loop.best.note(loop.assess(weights))
        last, gap = gap, point.gap / max(abs(point.upper), loop.zero)
        if loop.record(point) or gap <= loop.tol or gap > _SLOW * last:
            return point
        samples = _near(machines, _NEAR[1])
    return point


def _near(machines: Sequence[LazyMachine], distance: float) -> list[Any]:
    """The samples of each machine that are in the support or near it; Q of all of them has room together."""
    return [machine.near(distance, machine.most_of(len(machines))) for machine in machines]


def _too_many_or_alike(machines: Sequence[LazyMachine], samples: Sequence[Any]) -> bool:
    """Whether these samples are nearly all, or those of some machine have one target alone.

    Machines on the same kernels share Q of all samples where there is room for it: then theirs have to be smaller.
    """
    n, counts = len(machines[0].beta), np.array([len(index) for index in samples])
    if counts.sum() > _ALMOST_ALL * sum(len(machine.beta) for machine in machines):
        return True
    shared = len(machines) > 1 and all(machine.held is machines[0].held for machine in machines)
    if shared and n <= machines[0].most_of(1) and int((counts**2).sum()) > n * n:
        return True
    each = zip(machines, samples, strict=True)
    return any(len(np.unique(machine.problem.y[index])) < 2 for machine, index in each)


def _solved_on(
    loop: Loop, machines: Sequence[LazyMachine], samples: Sequence[Any], weights: Array, warm: bool, tol: float
) -> tuple[Array, Array]:
    """The problem of these samples alone, from these weights to that gap: weights (M,), and beta of all machines.

    If `warm`, from the beta that the machines have as well.
    """
    each = list(zip(machines, samples, strict=True))
    kernels = [kernels_of(machine.problem.kernels, index, len(machines)) for machine, index in each]
    small: Machine | JointMachine
    if isinstance(loop.problem, MulticlassProblem):
        problem = restricted(loop.problem, samples, kernels)
        parts = [part.problem for part in problem.machines]
        own = [_begun(*one, part, warm) for one, part in zip(each, parts, strict=True)]
        small = JointMachine(problem, own)
    else:
        small = _begun(*each[0], on_samples(loop.problem, samples[0], kernels[0]), warm)
    small.warm = True
    outer = loop.recorder
    recorder: Recorder[Record] = Recorder("active samples", tol=tol, max_iter=outer.max_iter, max_time=outer.left)
    inner = Loop(small, tol, recorder, cold=False)
    try:
        inner.iterate(inner.begin(weights))
    except KeyboardInterrupt:
        found = inner.best.point
        if found is not None and found.lower > loop.best.lower:  # what is returned is certified from scratch
            loop.best.point = replace(found, beta=_on_all(machines, samples, found.beta))
        raise
    finally:
        loop.spend(_costs(inner, loop.problem))
    best = inner.best.point
    assert best is not None
    return best.weights, best.beta


def _costs(inner: Loop, whole: Problem | MulticlassProblem) -> dict[str, float]:
    """The counters of the inner loop, its reads and the matrices of A, if they are held, as passes over all kernels."""
    (M, n, _), entries = whole.kernels.shape, 0.0
    for own in inner.machine.machines:
        held = 0 if own.problem.kernels.costly else M * len(own.beta)
        entries += len(own.beta) * (held + own.rows_read + own.forms.rows_read)
    return {**inner.counters(), "passes": float(entries) / (M * n * n)}


def _begun(machine: LazyMachine, samples: Any, part: Problem, warm: bool) -> Machine:
    """The machine of the part that these samples are, from the beta and images of the whole if `warm`."""
    kernels, beta = part.kernels, machine.beta[samples] if warm else None
    forms = LazyForms(kernels) if kernels.costly else QuadraticForms(kernels)
    if beta is not None:
        forms.adopt(machine.forms.images[:, samples], beta)
    begun = machine_for(part, beta, forms)
    assert isinstance(begun, Machine)
    return begun


def _on_all(machines: Sequence[LazyMachine], samples: Sequence[Any], beta: Array) -> Array:
    """beta of all machines, one after the other, 0 for all other samples."""
    whole = [np.zeros_like(machine.beta) for machine in machines]
    parts = np.split(beta, np.cumsum([len(index) for index in samples])[:-1])
    for row, index, part in zip(whole, samples, parts, strict=True):
        row[index] = part
    return np.concatenate(whole)
