"""SILP: the semi-infinite linear program of Sonnenburg et al. (2006), by column generation (SimpleMKL 3.4)."""

from __future__ import annotations

from collections.abc import Iterator

from mklref.algorithms.base import Run, algorithm
from mklref.algorithms.cuts import linear_master, proof
from mklref.algorithms.point import Point
from mklref.problem import on_the_simplex


@algorithm(on_the_simplex, "weights on the simplex, Lp(1)", remedy="For Lp(p), p > 1: sip.", max_iter=2000)
def silp(run: Run) -> Iterator[Point]:
    """l1-MKL by cutting planes on the weights.

    minimise t  subject to  t >= S(beta) - 1/2 sum_m theta_m beta'K_m beta  for all feasible beta,
                            theta >= 0,  1'theta = 1

    Each kernel machine adds the cut that its solution violates most, and a linear program finds the next weights. Its
    value is a lower bound that never falls; the machines are upper bounds that oscillate while cuts are few. Cutting
    planes converge, without a rate: SimpleMKL's Table 1 counts from 100 to 900 machines at a gap of 0.01.
    """
    theta = run.start
    cuts: list[Point] = []
    master = None
    while True:
        # 1. Separation: the machine at theta gives the most violated constraint.
        point = run.svm(theta)
        run.gradient(point)
        cuts.append(point)
        yield point
        # 2. Master: a linear program over all constraints found so far.
        master = linear_master(cuts, master)
        if master is None:
            return
        # 3. The paper stops when the best machine and the master meet. That is proved by the mixture of the cuts, and
        #    where J is smooth by the last machine itself, a few iterations later.
        yield from proof(run, cuts, master, master.value, run.best.upper)
        theta = master.weights
