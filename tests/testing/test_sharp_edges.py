"""What random mutants of the package survived at first: conditions that are what they say, readings with a ratio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from testing.planted import problem_of, solved

from mklref import certify
from mklref.exceptions import UnsafeFile
from mklref.regularizers import Lp
from mklref.testing import diagnosis
from mklref.testing.faults import Point
from mklref.testing.strategies import gram_matrices
from mklref.testing.vectors import check, check_directory, export_vectors
from mklref.testing.weight_suspects import other_weights

FEW = settings(max_examples=10, deadline=None, derandomize=True)


@FEW
@given(gram_matrices(5, scales=(1.0,), conditions=["duplicated kernel"]))
def test_a_duplicated_kernel_is_the_first_one_again(K):
    assert np.array_equal(K[-1], K[0])


@FEW
@given(gram_matrices(5, scales=(1.0,), conditions=["zero kernel"]))
def test_a_zero_kernel_is_the_last_one_and_zero(K):
    assert not K[-1].any()
    assert all(matrix.any() for matrix in K[:-1])


@FEW
@given(gram_matrices(5, scales=(1.0,), conditions=["constant kernel"]))
def test_a_constant_kernel_has_one_value(K):
    assert np.ptp(K[-1]) == 0.0 < K[-1, 0, 0]


@pytest.mark.parametrize("regularizer", [Lp(4 / 3), Lp(2)], ids=str)
def test_weights_are_cleaned_up_where_all_that_are_kept_agree_up_to_a_factor(regularizer):
    """Of three unequal weights the least is dropped; spoilt ones that do not agree are no such thing."""
    problem, (beta, theta, b) = solved(regularizer=regularizer)
    assert np.ptp(theta) > 0.1 * theta.max()
    cleaned = np.where(theta == theta.min(), 0.0, theta)
    assert "weights cleaned up" in faults(problem, Point(beta, 0.7 * cleaned, b))
    spoilt = cleaned * np.where(cleaned == cleaned.max(), 1.1, 1.0)
    assert "weights cleaned up" not in faults(problem, Point(beta, spoilt, b))


def faults(problem, point):
    return {reading.fault for reading in other_weights(problem, point)}


def test_a_lower_bound_above_the_upper_one_is_the_only_finding():
    problem = problem_of()
    zero = np.zeros(problem.n_samples)
    certificate = certify(problem, zero)
    wrong = replace(certificate, lower=certificate.upper + 1.0)
    point, tol = Point(zero, None, None), 1e-6
    for gap, contradictory in ((-2e-6, True), (-tol, False), (2e-6, False)):
        (found,) = diagnosis._why_not_optimal(problem, point, wrong, gap, tol)
        assert (found.fault == "negative gap") is contradictory


def test_an_index_beyond_the_limit_is_refused_with_its_size(tmp_path, monkeypatch):
    export_vectors(tmp_path, include=["two-samples"], formats=["json"])
    size = (tmp_path / "index.json").stat().st_size
    monkeypatch.setattr(check, "_MAX_INDEX", size)
    check_directory(tmp_path, tmp_path)
    monkeypatch.setattr(check, "_MAX_INDEX", size - 1)
    with pytest.raises(UnsafeFile, match=rf"is {size} bytes long; write it anew by: mklref vectors"):
        check_directory(tmp_path, tmp_path)
