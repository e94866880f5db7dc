"""The parts of a rigorous certificate keep their promises, each against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from certificate import arithmetic_parts as arithmetic, term_parts as terms

from mklref.certificate import loss_terms
from mklref.certificate.penalty_terms import conjugate, penalty
from mklref.certificate.rounding import Interval
from mklref.exceptions import NotApplicable
from mklref.regularizers import ElasticNet

CHECKS = (
    arithmetic.outward_rounding,
    arithmetic.constants_of_sums,
    arithmetic.sums_over_kernels,
    arithmetic.elementary_functions,
    arithmetic.rational_arithmetic,
    terms.exact_feasibility,
    arithmetic.fast_products,
    arithmetic.sliced_products,
    arithmetic.slices_are_exact,
    arithmetic.lengths_bound_entries,
    arithmetic.inner_products,
    arithmetic.exact_products,
    arithmetic.proofs_of_definiteness,
    terms.losses_from_above,
    terms.slopes_from_above,
    terms.dual_terms_from_below,
    terms.penalties_from_above,
    terms.worst_matrices_within_delta,
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_part(check):
    for seed in (0, 1):
        check(np.random.default_rng(seed))


@pytest.mark.parametrize("bound", [penalty, conjugate])
def test_a_regularizer_without_a_formula_has_no_bound(bound):
    with pytest.raises(NotApplicable, match="ElasticNet"):
        bound(ElasticNet(0.5), [Fraction(1), Fraction(2)])


@pytest.mark.parametrize(
    "bound", [loss_terms.exact_box, loss_terms.dual_term, loss_terms.primal_losses, loss_terms.slopes]
)
def test_a_loss_without_a_formula_has_no_bound(bound):
    ones = np.ones(2)
    values = {loss_terms.exact_box: (ones, ones), loss_terms.dual_term: (ones, ones, ones)}
    with pytest.raises(NotApplicable, match="has no rigorous certificate"):
        bound(object(), *values.get(bound, (Interval.point(ones), ones)))
