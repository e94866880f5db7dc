"""The parts of a rigorous certificate keep their promises, each against exact arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from certificate import parts

CHECKS = (
    parts.outward_rounding,
    parts.constants_of_sums,
    parts.sums_over_kernels,
    parts.elementary_functions,
    parts.rational_arithmetic,
    parts.exact_feasibility,
    parts.fast_products,
    parts.sliced_products,
    parts.slices_are_exact,
    parts.lengths_bound_entries,
    parts.inner_products,
    parts.exact_products,
    parts.proofs_of_definiteness,
    parts.losses_from_above,
    parts.slopes_from_above,
    parts.dual_terms_from_below,
    parts.penalties_from_above,
    parts.worst_matrices_within_delta,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_part(check):
    for seed in (0, 1):
        check(np.random.default_rng(seed))
