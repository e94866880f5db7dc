"""Which problems of the papers have the same solutions, and how their parameters translate: a table and a test.

An edge of the table leads from one problem to another. Its map takes a solved problem on the left to the problem on
the right, and to a point of it that has the same functions, up to a scale in the one-class edges:

    for edge in leaving(problem):
        carried = edge(problem, solution)
        certify(carried.problem, carried.dual_coef, weights=carried.weights, intercept=carried.intercept)

Where a parameter on the right depends on the solution, through its block norms rho_m = ||f_m||, the two problems have
the same path of solutions, but not the same solution at the same C. rho, theta, beta and C below are those on the
left, primes mark the right; q = 2p/(p+1) throughout.
"""

from __future__ import annotations

from dataclasses import fields

from mklref.equivalences.edges import EQUIVALENCES
from mklref.equivalences.maps import (
    NONE,
    Carried,
    Equivalence,
    absorb_omega,
    block_norms,
    elastic_net_to_ivanov,
    elastic_net_to_tikhonov,
    fixed_margin_to_nu,
    freeze_weights,
    half_power_to_lp,
    ivanov_to_tikhonov,
    lp_to_half_power,
    lp_to_power,
    nu_to_fixed_margin,
    power_to_lp,
    scale_kernels,
    sum_groups,
    tikhonov_to_ivanov,
)
from mklref.exceptions import InvalidType
from mklref.problem import Problem


def leaving(problem: Problem) -> tuple[Equivalence, ...]:
    """The edges whose left side is this problem; `InvalidType` for what is none."""
    if not isinstance(problem, Problem):
        raise InvalidType(f"problem is {type(problem).__name__}; give a mklref.Problem.")
    return tuple(edge for edge in EQUIVALENCES if edge.applies(problem))


def table() -> list[dict[str, str]]:
    """Every edge in words: name, left, right, parameters, condition, source."""
    words = [field.name for field in fields(Equivalence) if field.type == "str"]
    return [{word: getattr(edge, word) for word in words} for edge in EQUIVALENCES]


__all__ = [
    "EQUIVALENCES",
    "NONE",
    "Carried",
    "Equivalence",
    "absorb_omega",
    "block_norms",
    "elastic_net_to_ivanov",
    "elastic_net_to_tikhonov",
    "fixed_margin_to_nu",
    "freeze_weights",
    "half_power_to_lp",
    "ivanov_to_tikhonov",
    "leaving",
    "lp_to_half_power",
    "lp_to_power",
    "nu_to_fixed_margin",
    "power_to_lp",
    "scale_kernels",
    "sum_groups",
    "table",
    "tikhonov_to_ivanov",
]
