"""The certificate as data."""

from __future__ import annotations

import numpy as np
import pytest

from mklref.certificate import Certificate
from mklref.exceptions import InvalidParameter, InvalidType


def certificate(**changes):
    facts = {
        "lower": 1.0,
        "upper": 1.5,
        "infeasibility": 0.0,
        "violations": [],
        "unit": 0.0,
        "rounding": 0.0,
        "objective": 1.5,
        "definiteness": "proved",
        "intercept": 0.0,
        "better_intercept": 0.0,
        "better_upper": 1.5,
        "fitting_upper": 1.5,
        "worst_sample": 3,
        "worst_kernel": 1,
        "regularizer_gap": 0.1,
    }
    return Certificate.from_dict({**facts, **changes})


def test_gap_and_relative_gap():
    assert certificate().gap == 0.5
    assert certificate().relative_gap == 0.5 / 1.5
    assert certificate(lower=0.1, upper=0.2).relative_gap == pytest.approx(0.5)  # also below 1
    assert certificate(lower=-1e-9, upper=0.0).relative_gap == np.inf
    assert certificate(lower=-1e-9, upper=1e-9, unit=1e-3).relative_gap == 2e-6
    assert certificate(lower=0.0, upper=0.0).relative_gap == 0.0
    assert certificate(lower=-30.0, upper=-20.0).relative_gap == 0.5
    assert certificate(lower=-np.inf).relative_gap == np.inf
    assert str(certificate()) == "1 <= P* <= 1.5, relative gap 3.3e-01"


def test_is_optimal():
    assert certificate().is_optimal(0.34)
    assert not certificate().is_optimal(0.33)
    assert not certificate().is_optimal()
    assert certificate(lower=1.5).is_optimal(0.0)
    assert not certificate(lower=2.5).is_optimal(1e-3)  # a contradiction is no optimum
    for tol in (-1e-9, np.nan):
        with pytest.raises(InvalidParameter, match=r"tol = .* must lie in \[0, inf\]"):
            certificate().is_optimal(tol)
    for tol in ("a", None):
        with pytest.raises(InvalidType, match="tol is "):
            certificate().is_optimal(tol)


def test_a_negative_gap_is_a_contradiction():
    assert "The gap is negative, which is impossible" in certificate(lower=2.0).explain()


def test_dictionary_round_trip():
    one = certificate(violations=["a", "b"], upper=np.inf)
    assert Certificate.from_dict(one.to_dict()) == one
