"""The parts of a rigorous certificate keep their promises, each against exact arithmetic.

Planted faults in the parts of a rigorous certificate: each one makes the check of its part fail.

An end-to-end fuzz misses most of them, because a bound that is too sharp by one rounding error is seldom wrong.

How much a kernel is shifted before it is proven semidefinite: what rounding needs, and no more.
"""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from certificate import arithmetic_parts as arithmetic, term_parts as terms
from certificate.points import PRECISE, inside

from mklref.certificate import definite, exact, feasible, loss_terms, penalty_terms, products, rigorous, rounding
from mklref.certificate.definite import fingerprint, proven_by_residual, proven_semidefinite, proven_shifts, reduction
from mklref.certificate.rounding import Interval
from mklref.kernels import ArrayStack, DiskStack

CHECKS = (
    arithmetic.outward_rounding,
    arithmetic.constants_of_sums,
    arithmetic.sums_over_kernels,
    arithmetic.elementary_functions,
    arithmetic.rational_arithmetic,
    terms.exact_feasibility,
    arithmetic.fast_products,
    arithmetic.evaluated_products,
    arithmetic.sliced_products,
    arithmetic.sliced_factors,
    arithmetic.slices_are_exact,
    arithmetic.lengths_bound_entries,
    arithmetic.inner_products,
    arithmetic.exact_products,
    arithmetic.proofs_of_definiteness,
    arithmetic.what_is_missing,
    arithmetic.what_is_left_beside_a_factor,
    terms.losses_from_above,
    terms.slopes_from_above,
    terms.dual_terms_from_below,
    terms.penalties_from_above,
    terms.worst_matrices_within_delta,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_part(check):
    check(np.random.default_rng(0))


def test_remainders_enclose_series_of_few_terms(monkeypatch):
    """Those of all terms are less than rounding."""
    monkeypatch.setattr(exact, "_TERMS", 4)
    monkeypatch.setattr(exact, "_ODD_TERMS", 2)
    x = -np.linspace(0.0, 3.0, 200)
    with localcontext(PRECISE):
        powers = [Decimal(float(a)).exp() for a in x]
        assert inside(exact.exp(x), [Fraction(e) for e in powers])
        monkeypatch.setattr(exact, "_TERMS", 15)
        assert inside(exact.softplus(Interval.point(x)), [Fraction((1 + e).ln()) for e in powers])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_change_changes_the_fingerprint(dtype, rng):
    K = rng.normal(size=(2, 7, 7)).astype(dtype)
    seen = {fingerprint(ArrayStack(list(K)))}
    for index in [(0, 0, 0), (1, 6, 6), (0, 3, 4)]:
        changed = K.copy()
        changed[index] = np.nextafter(changed[index], dtype(9.0))
        seen.add(fingerprint(ArrayStack(list(changed))))
    exchanged = K[:, :, [0, 2, 1, *range(3, 7)]]
    seen |= {fingerprint(ArrayStack(list(other))) for other in (K[::-1], -K, exchanged)}
    assert len(seen) == 7


def test_pieces_of_rows_are_summed_whatever_n(monkeypatch, rng):
    monkeypatch.setattr(products, "_ROWS", 4)
    for n in (2, 4, 5, 8, 11):
        K = rng.normal(size=(n, n))
        image, _ = products.fast(K @ K.T, np.ones(n), 0.0)
        np.testing.assert_allclose(image.lower, (K @ K.T).sum(axis=1), rtol=1e-10)


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
    Fault(products, "gamma", lambda k: 2.0**-52, arithmetic.fast_products),
    Fault(products, "TINY", 0.0, arithmetic.fast_products),
    Fault(products, "gamma", lambda k: 0.0, arithmetic.inner_products),
    Fault(products, "_lengths", lambda diagonal, _: np.sqrt(np.abs(diagonal)), arithmetic.lengths_bound_entries),
    Fault(products, "_slices", lambda x, bits: (cut(x, bits), 0.0 * x), arithmetic.sliced_products),
    Fault(products, "_slices", lambda x, bits: (cut(x, bits), 0.0 * x), arithmetic.slices_are_exact),
    Fault(products, "_slices", lambda x, bits: cut(x, bits + 6, 1.0), arithmetic.slices_are_exact),
    Fault(products, "gamma", lambda k: 0.0, arithmetic.sliced_products),
    Fault(products, "round_up", float, arithmetic.exact_products),
    Fault(products, "round_down", float, arithmetic.exact_products),
    Fault(definite, "reduction", lambda K, shift: len(K) * 2.0**-52 * np.trace(K), arithmetic.proofs_of_definiteness),
    Fault(definite, "proven_by_residual", proven_semidefinite, arithmetic.proofs_of_definiteness),
    Fault(definite, "proven_by_residual", lambda K, shift: shift > 0.0, arithmetic.proofs_of_definiteness),
    Fault(definite, "_lowered", lambda K, shift, c: K.diagonal() + shift, arithmetic.proofs_of_definiteness),
    Fault(definite, "proven_semidefinite", lambda K, shift=0.0: shift > 0.0, arithmetic.proofs_of_definiteness),
    Fault(definite, "least_shift", lambda E, *_: 0.999 * LEAST_SHIFT(E, np.inf), arithmetic.what_is_missing),
    Fault(definite, "inflate", lambda x, k: 0.0 * x, arithmetic.what_is_left_beside_a_factor),
    Fault(exact, "short_bits", lambda terms: 30, arithmetic.what_is_left_beside_a_factor),
    Fault(loss_terms, "above", nothing, terms.losses_from_above),
    Fault(loss_terms, "above", nothing, terms.dual_terms_from_below),
    Fault(
        loss_terms,
        "_share",
        lambda x, rest, c: -x.upper * np.log(np.maximum(x.upper, 1e-300) / c),
        terms.dual_terms_from_below,
    ),
    Fault(loss_terms, "_distance", lambda _, t, y: np.maximum(0.0, 1.0 - y * t.upper), terms.losses_from_above),
    Fault(loss_terms, "_distance", lambda _, t, y: np.abs(y - t.lower), terms.slopes_from_above),
    Fault(loss_terms, "_half_squares", lambda b, c: Fraction(float(np.sum(b**2 / c) / 2)), terms.dual_terms_from_below),
    Fault(loss_terms, "_half_squares", lambda b, c: Fraction(float(np.sum(b * b / c))), terms.dual_terms_from_below),
    Fault(penalty_terms, "_reciprocal", lambda p: Fraction(1.0 / p), terms.penalties_from_above),
    Fault(penalty_terms, "_inverse", lambda x: Fraction(float(1 / x)) if x else None, terms.penalties_from_above),
    Fault(penalty_terms, "_sum_of_exponents", lambda g: Fraction(g.p + g.q), terms.penalties_from_above),
    Fault(exact, "_SAFETY", -exact._SAFETY, terms.penalties_from_above),
    Fault(rigorous, "slopes", lambda loss, t, y: np.zeros(len(y)), terms.worst_matrices_within_delta),
    Fault(rigorous, "dot", lambda x, y: Fraction(0), terms.worst_matrices_within_delta),
    Fault(rigorous, "root_up", lambda x: exact.root_up(x) / 2, terms.worst_matrices_within_delta),
)


def cut(x, bits, rest=None):
    """The true slices, or slices with the true rest for another number of bits."""
    parts_, _ = SLICES(x, bits)
    return parts_ if rest is None else (parts_, x - sum(parts_))


SLICES, LEAST_SHIFT = products._slices, definite.least_shift


@pytest.mark.sampled(4)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_planted_fault_is_noticed(fault, monkeypatch):
    monkeypatch.setattr(fault.module, fault.name, fault.planted)
    for module in (products, loss_terms, exact, rigorous, penalty_terms, definite):
        if fault.module in (rounding, exact) and hasattr(module, fault.name) and module is not fault.module:
            monkeypatch.setattr(module, fault.name, fault.planted)
    with pytest.raises(AssertionError):
        test_part(fault.check)


@pytest.mark.parametrize("n", [1, 2, 60])
def test_the_diagonal_is_lowered_by_the_bound_of_rump(n):
    """alpha trace(K), alpha = g/(1 - g), g = k eps/(1 - k eps) with k = n + 3, eps = 2^-52 (Rump 2006, twice over)."""
    g = Fraction(n + 3, 2**52 - (n + 3))
    trace = Fraction(3 * n, 4)
    needed = g / (1 - g) * trace
    found = Fraction(reduction(0.75 * np.eye(n), 0.0))
    assert needed <= found <= needed * (1 + Fraction(1, 2**50)) + Fraction(1, 2**1000)


def test_a_kernel_of_low_rank_is_shifted_by_less_than_one_factorisation_needs_in_every_unit(rng):
    """300 samples, rank 3: the smallest eigenvalue is 0, and rounding has its sign."""
    X = rng.normal(size=(300, 3))
    low_rank = X @ X.T
    shifts, proven = proven_shifts(ArrayStack(low_rank[None]))
    assert not proven_semidefinite(low_rank)
    assert 0.0 < proven[0] == shifts[0] < reduction(low_rank, 0.0)
    assert proven_by_residual(low_rank, proven[0])
    for exponent in (-60, 60):
        _, other = proven_shifts(ArrayStack(np.ldexp(low_rank, exponent)[None]))
        assert other == pytest.approx(np.ldexp(proven, exponent), rel=1e-12, abs=0.0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_proof_holds_one_matrix_at_a_time(rng, dtype):
    X = rng.normal(size=(1100, 3))
    K = (X @ X.T).astype(dtype)
    stack, given = DiskStack([K, K]), K.copy()
    tracemalloc.start()
    try:
        shifts, _ = proven_shifts(stack)
        for backend in ("fast", "sliced"):
            products.products(stack, X[:, 0], shifts, backend)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(K, given)
    assert 0.0 < shifts[0] == shifts[1] < definite.psd_tolerance(K)
    assert peak < 3.5 * 8 * K.size  # pieces of a matrix are beside it, which are less of a larger one


@pytest.mark.parametrize("unit", [1.0, 2.0**530])
def test_shifts_of_large_matrices_follow_their_smallest_eigenvalue(unit):
    """From order 500 on it is a Ritz value; squares of entries of the second leave float64."""
    A = np.random.default_rng(0).normal(size=(510, 3))
    K = unit * (A @ A.T - 1e-6 * np.eye(510))
    _, (shift,) = proven_shifts(ArrayStack.trusted([0.5 * (K + K.T)]), 1e-5 * unit)
    assert 1e-6 < shift / unit < 1.01e-6


@pytest.mark.sampled(2)
@pytest.mark.parametrize("t", [1.0, 1.5, 2.0, 3.0])
def test_shifts_that_no_ritz_value_foretells_are_hardly_larger_than_they_have_to_be(t, monkeypatch):
    """Of a kernel of full rank 60 products may find no direction in which rounding to float32 left it indefinite."""
    monkeypatch.setattr(definite, "smallest_ritz", lambda *_: 0.0)
    A = np.random.default_rng(0).normal(size=(510, 3))
    K = A @ A.T - 1e-6 * t * np.eye(510)
    _, (shift,) = proven_shifts(ArrayStack.trusted([0.5 * (K + K.T)]), 1e-4)
    assert 1e-6 * t < shift < 1.6e-6 * t
