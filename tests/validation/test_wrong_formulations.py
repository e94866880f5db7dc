"""Every planted wrong formulation fails the cross-check, and the right ones pass it on the same problems."""

from __future__ import annotations

from collections import Counter

import pytest

from mklref.formulations import FORMULATIONS
from validation.wrong_formulations import COUNTS, Mutant, healthy, mutants, planted, run

MUTANTS = mutants()


def test_every_formulation_has_at_least_five():
    counts = Counter(mutant.formulation for mutant in MUTANTS)
    assert set(counts) == set(FORMULATIONS)
    assert min(counts.values()) >= 5
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.sampled(18)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_wrong_formulation_fails_the_cross_check(mutant):
    outcome = run(mutant)
    assert outcome.killed or mutant.same, str(outcome.check)
    assert (outcome.change <= COUNTS) == bool(mutant.same)


@pytest.mark.parametrize(
    "case", sorted({(mutant.formulation, mutant.regularizer, mutant.loss) for mutant in MUTANTS}), ids=" ".join
)
def test_the_right_formulation_passes(case):
    check = healthy(*case)
    assert check.passed, str(check)
    assert check.decided


def test_a_mutant_that_no_longer_fits_its_file_is_an_error():
    with (
        pytest.raises(ValueError, match=r"dual\.py holds no 'sum of squares'"),
        planted(Mutant("dual", "", "sum of squares", "")),
    ):
        pass
