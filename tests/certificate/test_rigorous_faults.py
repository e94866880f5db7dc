"""Planted faults in the parts of a rigorous certificate: each one makes the check of its part fail.

An end-to-end fuzz misses most of them, because a bound that is too sharp by one rounding error is seldom wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from certificate import arithmetic_parts as arithmetic, term_parts as terms

from mklref.certificate import (
    definite,
    exact,
    feasible,
    loss_terms,
    penalty_terms,
    products,
    rigorous,
    rounding,
)
from mklref.certificate.rounding import Interval


def nothing(x: Any, *_: Any) -> Any:
    return x


@dataclass(frozen=True)
class Fault:
    """What is replaced, and the check that has to notice."""

    module: Any
    name: str
    planted: Any
    check: Any

    def __str__(self) -> str:
        return f"{getattr(self.module, '__name__', self.module).split('.')[-1]}.{self.name}"


FAULTS = (
    Fault(rounding, "above", nothing, arithmetic.outward_rounding),
    Fault(rounding, "below", nothing, arithmetic.outward_rounding),
    Fault(rounding, "above", lambda x: np.nextafter(x, np.inf), arithmetic.outward_rounding),
    Fault(rounding, "TINY", 0.0, arithmetic.outward_rounding),
    Fault(rounding, "gamma", lambda k: 0.0, arithmetic.constants_of_sums),
    Fault(rounding, "gamma", lambda k: k * 2.0**-53, arithmetic.constants_of_sums),
    Fault(rounding, "gamma", lambda k: k * 2.0**-52, arithmetic.constants_of_sums),
    Fault(rounding, "inflate", nothing, arithmetic.constants_of_sums),
    Fault(rounding, "gamma", lambda k: 0.0, arithmetic.sums_over_kernels),
    Fault(exact, "LOG2", Interval.point(np.nextafter(exact._LOG2, 1.0)), arithmetic.elementary_functions),
    Fault(exact, "_TERMS", 12, arithmetic.elementary_functions),
    Fault(exact, "_ODD_TERMS", 4, arithmetic.elementary_functions),
    Fault(Interval, "__add__", lambda x, y: Interval(x.lower + y, x.upper + y), arithmetic.outward_rounding),
    Fault(exact, "round_up", float, arithmetic.rational_arithmetic),
    Fault(exact, "_SAFETY", 0, arithmetic.rational_arithmetic),
    Fault(exact, "root_up", lambda x: Fraction(float(x) ** 0.5), arithmetic.rational_arithmetic),
    Fault(exact, "total", lambda x: Fraction(float(x.sum())), arithmetic.rational_arithmetic),
    Fault(exact, "dot", lambda x, y: Fraction(float(x @ y)), arithmetic.rational_arithmetic),
    Fault(loss_terms, "_times", lambda factor, costs: factor * costs, terms.exact_feasibility),
    Fault(feasible, "exactly_feasible", lambda beta, low, high, _: np.clip(beta, low, high), terms.exact_feasibility),
    Fault(feasible, "exactly_feasible", lambda beta, *_: beta - beta.mean(), terms.exact_feasibility),
    Fault(products, "gamma", lambda k: 0.0, arithmetic.fast_products),
    Fault(products, "gamma", lambda k: 2.0**-52, arithmetic.fast_products),
    Fault(products, "TINY", 0.0, arithmetic.fast_products),
    Fault(products, "gamma", lambda k: 0.0, arithmetic.inner_products),
    Fault(products, "_lengths", lambda diagonal, _: np.sqrt(np.abs(diagonal)), arithmetic.lengths_bound_entries),
    Fault(products, "_slices", lambda x, bits: (cut(x, bits), 0.0), arithmetic.sliced_products),
    Fault(products, "_slices", lambda x, bits: (cut(x, bits), 0.0), arithmetic.slices_are_exact),
    Fault(products, "_slices", lambda x, bits: cut(x, bits + 6, 1.0), arithmetic.slices_are_exact),
    Fault(products, "above", nothing, arithmetic.sliced_products),
    Fault(products, "round_up", float, arithmetic.exact_products),
    Fault(products, "round_down", float, arithmetic.exact_products),
    Fault(definite, "reduction", lambda K, shift: 0.0, arithmetic.proofs_of_definiteness),
    Fault(definite, "reduction", lambda K, shift: len(K) * 2.0**-52 * np.trace(K), arithmetic.proofs_of_definiteness),
    Fault(
        definite,
        "proven_by_residual",
        lambda K, shift: definite.proven_semidefinite(K, shift),
        arithmetic.proofs_of_definiteness,
    ),
    Fault(definite, "proven_by_residual", lambda K, shift: shift > 0.0, arithmetic.proofs_of_definiteness),
    Fault(definite, "_lowered", lambda K, shift, c: K + shift * np.eye(len(K)), arithmetic.proofs_of_definiteness),
    Fault(definite, "proven_semidefinite", lambda K, shift=0.0: shift > 0.0, arithmetic.proofs_of_definiteness),
    Fault(loss_terms, "above", nothing, terms.losses_from_above),
    Fault(loss_terms, "above", nothing, terms.dual_terms_from_below),
    Fault(
        loss_terms,
        "_share",
        lambda x, rest, c: -x.upper * np.log(np.maximum(x.upper, 1e-300) / c),
        terms.dual_terms_from_below,
    ),
    Fault(loss_terms, "_excess", lambda loss, t, y: np.maximum(0.0, 1.0 - y * t.upper), terms.losses_from_above),
    Fault(loss_terms, "_residual", lambda t, y: np.abs(y - t.lower), terms.slopes_from_above),
    Fault(
        loss_terms, "_half_squares", lambda b, c: Fraction(float(np.sum(b * b / c) / 2)), terms.dual_terms_from_below
    ),
    Fault(loss_terms, "_half_squares", lambda b, c: Fraction(float(np.sum(b * b / c))), terms.dual_terms_from_below),
    Fault(penalty_terms, "_reciprocal", lambda p: Fraction(1.0 / p), terms.penalties_from_above),
    Fault(penalty_terms, "_inverse", lambda x: Fraction(float(1 / x)) if x else None, terms.penalties_from_above),
    Fault(penalty_terms, "_sum_of_exponents", lambda g: Fraction(g.p + g.q), terms.penalties_from_above),
    Fault(exact, "_SAFETY", -exact._SAFETY, terms.penalties_from_above),
    Fault(rigorous, "slopes", lambda loss, t, y: np.zeros(len(y)), terms.worst_matrices_within_delta),
    Fault(rigorous, "dot", lambda x, y: Fraction(0), terms.worst_matrices_within_delta),
    Fault(rigorous, "root_up", lambda x: Fraction(0), terms.worst_matrices_within_delta),
    Fault(rigorous, "root_up", lambda x: exact.root_up(x) / 2, terms.worst_matrices_within_delta),
)


def cut(x, bits, rest=None):
    """The true slices, or slices with the true rest for another number of bits."""
    parts_, _ = SLICES(x, bits)
    return parts_ if rest is None else (parts_, float(np.abs(x - sum(parts_)).max()))


SLICES = products._slices


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_planted_fault_is_noticed(fault, monkeypatch):
    monkeypatch.setattr(fault.module, fault.name, fault.planted)
    for module in (products, loss_terms, exact, rigorous, penalty_terms, definite):
        if fault.module in (rounding, exact) and hasattr(module, fault.name) and module is not fault.module:
            monkeypatch.setattr(module, fault.name, fault.planted)
    with pytest.raises(AssertionError):
        run(fault.check)


def run(check):
    for seed in (0, 1):
        check(np.random.default_rng(seed))
