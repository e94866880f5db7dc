"""Convex programs as oracles: solved as well as a conic solver can, with a bound of what it misses.

How far an interior-point solver gets depends on the CPU; "almost solved" says nothing about our code. What counts is
the bound, and a test adds it to its own tolerance:

    assert ours == optimum(program, rel=1e-6)
"""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

TOLERANCES = (1e-9, 1e-8, 1e-7)
"""What Clarabel is asked for: near the limit of float64 less may bring more."""


def solve(program: cp.Problem, **options: Any) -> float:
    """Solve in place by Clarabel and bound the error of the value; 0 for a program that is infeasible or unbounded.

    min 1/2 x'Px + c'x over Ax + s = b, s in K, has the dual max -1/2 x'Px - b'z over Px + A'z + c = 0, z in K*. With
    the residuals r = Ax + s - b and d = Px + A'z + c of what the solver returned, weak duality gives

        |1/2 x'Px + c'x - P*|  <=  |x'Px + c'x + b'z| + |d'x*| + |r'z*|

    up to second order; ||d|| ||x|| and ||r|| ||z|| stand for the last two.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # what cvxpy says of accuracy and of its own future differs between versions
        data, chain, inverse = program.get_problem_data("CLARABEL", solver_opts=options)
        attempts = []
        for tolerance in TOLERANCES:
            asked = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tolerance)
            raw = chain.solve_via_data(program, data, False, False, {**options, **asked})
            attempts.append((_error(data, raw), tolerance, raw))
            if str(raw.status) == "Solved":
                break  # less would stop the same iterations earlier
        error, _, best = min(attempts, key=lambda attempt: attempt[:2])
        program.unpack_results(best, chain, inverse)
    return error if program.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE) else 0.0


def optimum(program: cp.Problem, *, rel: float = 0.0, abs: float = 0.0, **options: Any) -> Any:  # noqa: A002
    """The optimal value for a comparison: within the tolerances of the test and what the solver may have missed."""
    error = solve(program, **options)
    return pytest.approx(program.value, rel=0.0, abs=error + abs + rel * np.abs(program.value))


def _error(data: dict[str, Any], raw: Any) -> float:
    x, z, s = (np.asarray(part) for part in (raw.x, raw.z, raw.s))
    Px = data["P"] @ x if data.get("P") is not None else np.zeros_like(x)
    gap = x @ (Px + data["c"]) + data["b"] @ z
    primal, dual = data["A"] @ x + s - data["b"], Px + data["A"].T @ z + data["c"]
    error = np.abs(gap) + np.linalg.norm(dual) * np.linalg.norm(x) + np.linalg.norm(primal) * np.linalg.norm(z)
    return float(error) if np.isfinite(error) else np.inf
