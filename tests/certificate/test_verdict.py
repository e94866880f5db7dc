"""The certificate as data.

One relative gap: what is small is not optimal, in whatever unit, and what is 0 has a unit.
"""

from __future__ import annotations

import numpy as np
import pytest
from makers import LOSSES, make_problem
from sklearn.datasets import load_breast_cancer

from mklref import Lp, Problem, Status, certify, solve, verify
from mklref.certificate import Certificate
from mklref.certificate.bounds import unit_of
from mklref.certificate.verdict import Bounds, apart
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.regularizers import ElasticNet, HalfPower, Power, Tikhonov


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


def test_a_relative_gap_is_a_share_of_the_upper_bound_or_of_the_unit():
    assert certificate().gap == 0.5
    assert certificate().relative_gap == 0.5 / 1.5
    assert certificate(lower=0.1, upper=0.2).relative_gap == pytest.approx(0.5)  # also below 1
    assert certificate(lower=-1e-9, upper=0.0).relative_gap == np.inf
    assert certificate(lower=-1e-9, upper=1e-9, unit=1e-3).relative_gap == 2e-6
    assert certificate(lower=0.0, upper=0.0).relative_gap == 0.0
    assert certificate(lower=-30.0, upper=-20.0).relative_gap == 0.5
    assert certificate(lower=-np.inf).relative_gap == np.inf
    assert str(certificate()) == "1 <= P* <= 1.5, relative gap 3.3e-01"


@pytest.mark.parametrize(
    ("lower", "upper", "said"),
    [
        (8.595534653594, 8.595534653595, "8.59553465 <= P* <= 8.59553466"),
        (-8.595534653595, -8.595534653594, "-8.59553466 <= P* <= -8.59553465"),
        (9.99999999999, 10.0005, "9.99999999 <= P* <= 10.0005"),
        (-1e-300 / 3.0, np.inf, "-3.33333334e-301 <= P* <= inf"),
    ],
)
def test_what_is_printed_of_an_interval_holds_as_well(lower, upper, said):
    assert str(certificate(lower=lower, upper=upper)).startswith(f"{said}, ")


def test_optimal_is_a_gap_within_the_tolerance_and_no_contradiction():
    assert certificate().is_optimal(0.34)
    assert not certificate().is_optimal(0.33)
    assert not certificate().is_optimal()
    assert certificate(lower=1.5).is_optimal(0.0)
    assert not certificate(lower=2.5).is_optimal(1e-3)  # a contradiction is no optimum
    assert certificate(lower=1.5 + 1e-6).is_optimal(1e-3)
    assert not certificate(lower=1.5 + 2e-6).is_optimal(1e-3)  # however loose the tolerance
    for tol in (-1e-9, np.nan):
        with pytest.raises(InvalidParameter, match=r"tol = .* must lie in \[0, inf\]"):
            certificate().is_optimal(tol)
    for tol in ("a", None):
        with pytest.raises(InvalidType, match="tol is "):
            certificate().is_optimal(tol)


@pytest.mark.parametrize(
    ("sentence", "changes", "threshold"),
    [
        ("The gap is negative", lambda x: {"lower": 1.5 * (1.0 + x)}, 1e-9),
        ("is not the best", lambda x: {"lower": 1.5, "better_upper": 1.5 * (1.0 - x)}, 1e-9),
        ("is not the best", lambda x: {"better_upper": 1.5 - 0.5 * x}, 1e-3),
        ("Most of the gap", lambda x: {"lower": 1.5 * (1.0 - x)}, 1e-6),
        ("Most of the gap", lambda x: {"rounding": 0.5 - 1.5 * x}, 1e-6),
        ("Rounding may amount to", lambda x: {"rounding": 1.5 * x}, 1e-6),
    ],
)
def test_sentences_are_said_from_their_thresholds_on(sentence, changes, threshold):
    assert sentence in certificate(**changes(1.1 * threshold)).explain()
    assert sentence not in certificate(**changes(0.9 * threshold)).explain()


def test_dictionary_round_trip():
    one = certificate(violations=["a", "b"], upper=np.inf)
    assert Certificate.from_dict(one.to_dict()) == one


REAL = [loss for loss in LOSSES if loss.targets == "real"]
OPPOSITE = np.array([[4.0, -4.0], [-4.0, 4.0]])
"""Two features that are opposite: one class has f = 0, and a dual point without a norm."""


def test_zero_is_not_optimal_for_small_targets():
    """Squared loss with targets of 1e-5: the gap of beta = 0 is far below 1e-6, and no share of P* at all."""
    problem = make_problem(loss="squared", seed=3, n=24)
    problem = problem.replace(y=1e-5 * np.where(np.arange(24) % 2, 1.0, -1.0), kernels=[np.eye(24)], C=600.0)
    nothing = certify(problem, np.zeros(24))
    assert nothing.gap < 1e-6
    assert not nothing.is_optimal()
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.objective < nothing.upper / 300


def test_an_interval_that_spans_three_decades_is_not_optimal():
    """Breast cancer with a raw cubic kernel: entries of 1e20, an optimum of 1e-9."""
    X, target = load_breast_cancer(return_X_y=True)
    X, y = X[:150], np.where(target[:150] == 1, 1.0, -1.0)
    K = (X @ X.T + 1.0) ** 3
    solution = solve(Problem([0.5 * (K + K.T)], y, C=1.0), max_iter=20, max_time=20.0)
    certificate = solution.certificate
    assert certificate.gap - certificate.rounding < 1e-6  # which is more of it on some processors
    assert (solution.status is Status.OPTIMAL) is (certificate.gap <= 1e-6 * certificate.upper)


@pytest.mark.parametrize("loss", REAL, ids=str)
@pytest.mark.parametrize("scale", [1e-18, 1e-8, 1.0, 1e8])
def test_constant_targets_have_a_unit_and_other_targets_none(loss, scale):
    problem = make_problem(loss=loss, seed=3, n=24)
    constant = problem.replace(y=np.full(24, 0.3 * scale))
    assert unit_of(constant) > 0.0
    assert certify(constant, np.zeros(24)).is_optimal(1e-12)
    spread = problem.replace(y=scale * np.linspace(-1.0, 1.0, 24))
    tube = getattr(loss, "epsilon", 0.0)
    assert (unit_of(spread) > 0.0) is (scale <= tube)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_checker_states_the_same_relative_gap(loss):
    problem = make_problem(loss=loss, regularizer=Lp(1.5), seed=3, n=12)
    solution = solve(problem, tol=1e-9)
    for y in (problem.y, np.full(12, 0.25)) if loss.targets == "real" else (problem.y,):
        own = problem.replace(y=y)
        beta = solution.dual_coef if y is problem.y else 1e-6 * np.tile([1.0, -1.0], 6)
        certificate = certify(own, beta, rigorous=True)
        lines = verify.verify(certificate.to_dict(), own.kernels.dense(), own.y)
        (stated,) = (float(line.split(":")[1]) for line in lines if line.startswith("relative gap"))
        assert stated == pytest.approx(certificate.relative_gap, rel=0.06, abs=1e-300)


def test_solutions_and_their_records_agree():
    problem = make_problem(loss="one_class", seed=3, n=24)
    solution = solve(problem)
    assert solution.history.records[-1].unit == solution.certificate.unit == unit_of(problem) > 0.0


@pytest.mark.parametrize("regularizer", [Power(1.01), HalfPower(1.05), Tikhonov(2.0, 1.0), Lp(2)], ids=str)
def test_no_steep_conjugate_excuses_a_gap(regularizer):
    """R* of one sample is of degree 202 for Power(1.01): 1e-7 of it would exceed every other value of the problem."""
    problem = make_problem(loss="one_class", regularizer=regularizer, seed=3, n=12)
    problem = problem.replace(kernels=list(30.0 * problem.kernels.dense()))
    certificate = solve(problem).certificate
    assert certificate.is_optimal()
    assert certificate.gap <= 1e-6 * abs(certificate.upper)


def test_the_unit_of_one_class_machines_is_a_share_of_the_conjugate_or_of_squared_norms():
    """g^2 = 4 on one sample: R* is 2, 1 and 2.25, and half the squares are 2."""
    problem = Problem([OPPOSITE], np.ones(2), loss="one_class")
    for regularizer, unit in ((Lp(2), 2e-7), (Tikhonov(2.0, 1.0), 1e-7), (ElasticNet(0.5), 2e-7)):
        assert unit_of(problem.replace(regularizer=regularizer)) == pytest.approx(unit, rel=1e-12, abs=0.0)
    assert unit_of(problem.replace(kernels=[2.0**-40 * OPPOSITE])) == pytest.approx(
        2.0**-40 * unit_of(problem), rel=1e-12, abs=0.0
    )


@pytest.mark.parametrize(("regularizer", "gap"), [(Lp(2), 40.0), (Tikhonov(2.0, 1.0), 1.6e-4)], ids=str)
def test_the_checker_has_the_same_unit_where_the_optimum_is_zero(regularizer, gap):
    """beta = (1/2 + e, 1/2 - e) and f = 0: R* of 16 e^2 over 1e-7 R* of 4."""
    problem = Problem([OPPOSITE], np.ones(2), loss="one_class", regularizer=regularizer)
    certificate = certify(problem, [0.501, 0.499], weights=np.zeros(1), intercept=0.0, rigorous=True)
    assert certificate.relative_gap == pytest.approx(gap, rel=1e-3)
    assert f"relative gap: {gap:.1e}" in verify.verify(certificate.to_dict(), problem.kernels.dense(), problem.y)


def test_bounds_have_no_unit_and_no_rounding_unless_they_are_told():
    bounds = Bounds(1e-9, 2e-9, 0.0, ())
    assert bounds.relative_gap == pytest.approx(0.5, rel=1e-12)
    assert (bounds.unit, bounds.rounding, bounds.objective) == (0.0, 0.0, 2e-9)


@pytest.mark.parametrize(("one", "other"), [(1.03128, 1.031281), (2.0, 3.0), (1.0, 1.0 + 1e-15), (0.5, 0.5)])
def test_two_numbers_in_a_sentence_are_told_apart(one, other):
    texts = apart(one, other)
    assert (texts[0] != texts[1]) == (one != other)
    assert all(len(text) <= 18 for text in texts)
