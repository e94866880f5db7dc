"""`certify(..., rigorous=True)` end to end: tiers, backends, bad points, and extreme scales."""

from __future__ import annotations

import dataclasses
import itertools
import math
from unittest.mock import Mock

import numpy as np
import pytest
from certificate.points import REGULARIZERS, proven
from makers import LOSSES, agree, make_kernels, make_problem, make_samples

from mklref import certify, solve
from mklref.certificate import RigorousCertificate, rigorous
from mklref.certificate.loss_terms import Scores, stretch
from mklref.certificate.rounding import Interval
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidParameter, InvalidType, NotApplicable
from mklref.kernels import ArrayStack, FactorStack
from mklref.losses import Hinge
from mklref.problem import Problem
from mklref.regularizers import BlockNorm, ElasticNet, Fixed, Lp, Power
from mklref.solution import Status

BACKENDS = ("fast", "sliced", "exact")


def definite(seed=0, n=20, M=4, ridge=1e-6, **arguments):
    """A problem whose kernels are far from singular."""
    rng = np.random.default_rng(seed)
    X = make_samples(rng, n)
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > X[:, 0].mean(), 1.0, -1.0)
    if arguments.get("loss") in ("one_class", "density_level_set"):
        y = np.ones(n)
    return Problem(make_kernels(rng, X, M) + ridge * np.eye(n), y, **{"regularizer": Lp(2), **arguments})


@pytest.mark.sampled(6)
@pytest.mark.parametrize("regularizer", [*REGULARIZERS, Lp(1.5)], ids=str)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_bounds_enclose_those_of_float64_and_cost_little(loss, regularizer):
    problem = make_problem(loss=loss, regularizer=regularizer, seed=3, n=20)
    solution = solve(problem, tol=1e-7)
    assert solution.status is Status.OPTIMAL
    plain = certify(problem, solution.dual_coef, weights=solution.weights, intercept=solution.intercept)
    rounding = 1e-13 * plain.size
    slacks = []
    for backend in BACKENDS:
        found = proven(problem, solution, backend=backend)
        assert isinstance(found, RigorousCertificate)
        assert found.backend == backend
        assert found.lower <= plain.lower + plain.rounding
        certified = certify(problem, found.dual_coef, weights=found.weights, intercept=found.intercept)
        assert found.upper >= certified.objective - rounding
        assert found.gap <= plain.gap + 1e-10 * plain.size
        assert found.violations == ()
        slacks.append(found.slack)
    assert slacks[2] <= slacks[0] + rounding


def test_a_proof_is_saved_under_no_name_of_another_format(tmp_path):
    found = proven(problem := definite(), solve(problem))
    for names in ({"path": "c.npz"}, {"path": "c.json", "data": "d.json"}):
        with pytest.raises(InvalidParameter, match=r"path = .*, and this writes (JSON|NPZ); end it in"):
            found.save(**{option: tmp_path / name for option, name in names.items()})
    assert not list(tmp_path.iterdir())


def test_definite_kernels_are_tier_1_and_sharp():
    problem = definite()
    solution = solve(problem, polish=True)
    found = {
        backend: certify(problem, solution.dual_coef, weights=solution.weights, rigorous=True, backend=backend)
        for backend in BACKENDS
    }
    assert all(certificate.tier == 1 and not certificate.delta.any() for certificate in found.values())
    assert found["exact"].relative_gap < 1e-13
    assert found["sliced"].relative_gap < 1e-13
    assert found["exact"].relative_gap <= found["fast"].relative_gap < 1e-11
    assert "each of which is proven positive semidefinite (tier 1)" in found["fast"].explain()
    assert "Backend 'fast': rounding makes the interval" in found["fast"].explain()


def test_singular_kernels_are_tier_2():
    problem = make_problem(degenerate="low_rank", regularizer=Lp(2))
    found = certify(problem, 0.1 * problem.y, rigorous=True)
    assert found.tier == 2
    assert np.all(found.delta > 0.0)
    assert np.all(found.delta <= 1e-13 * problem.kernels.traces())
    text = found.explain()
    assert "every family of positive semidefinite matrices within delta of the kernels in the spectral norm" in text
    assert f"delta is at most {found.delta.max():.2g}" in text
    assert "rounding and delta make the interval" in text


def test_only_the_singular_kernel_gets_a_delta():
    problem = definite()
    K = problem.kernels.dense().copy()
    K[1], K[2] = 0.8, 0.0
    found = certify(Problem(K, problem.y, regularizer=Lp(2)), 0.1 * problem.y, rigorous=True)
    np.testing.assert_array_equal(found.delta > 0.0, [False, True, False, False])
    assert "and 0 for 3 of 4 kernels" in found.explain()


def test_a_delta_of_ones_own():
    problem = definite()
    wide = certify(problem, 0.1 * problem.y, rigorous=True, delta=1e-3)
    np.testing.assert_array_equal(wide.delta, 1e-3)
    exact = certify(problem, 0.1 * problem.y, rigorous=True)
    assert wide.tier == 2
    assert wide.lower < exact.lower - 1e-5
    assert wide.upper > exact.upper + 1e-5
    nearby = Problem(problem.kernels.dense() + 1e-3 * np.eye(20), problem.y, regularizer=Lp(2))
    agree(wide, solve(nearby, polish=True).certificate)


def test_a_delta_that_cannot_be_proven_is_refused():
    problem = make_problem(degenerate="constant_kernel")
    problem = Problem([np.diag(np.minimum(1.0, np.arange(problem.n_samples)))], problem.y)
    with pytest.raises(InvalidKernel, match=r"kernels\[0\] \+ 0 I is not proven .*smallest eigenvalue about 0;"):
        certify(problem, 0.1 * problem.y, rigorous=True, delta=0.0)


def test_a_proof_belongs_to_the_bytes_of_the_kernels(tmp_path):
    """Kernels that are written to after a certificate are proven anew, and the old certificate is not written."""
    problem = definite()
    K = [np.array(matrix) for matrix in problem.kernels.dense()]
    problem = problem.replace(kernels=K)
    old = certify(problem, 0.1 * problem.y, rigorous=True)
    assert old.to_dict()["claim"]["tier"] == old.tier == 1
    assert problem.kernels.matrices[0] is K[0]  # never copied
    K[0][:] = np.diag(np.where(np.arange(len(K[0])) == 3, -0.01, 1.0))
    with pytest.raises(InvalidKernel, match=r"kernels\[0\] is not positive semidefinite"):
        certify(problem, 0.1 * problem.y, rigorous=True)
    for write in (old.to_dict, lambda: old.save(tmp_path / "c.json", data=tmp_path / "d.npz")):
        with pytest.raises(InvalidInput, match="written to since they were certified"):
            write()
    assert not list(tmp_path.iterdir())


def test_a_proof_for_factors_has_the_rounding_of_their_rows_as_they_are(rng):
    """Its radii were those of the rows that the stack was made of, 1e16 times as small."""
    L, y = rng.normal(size=(20, 3)), np.where(np.arange(20) % 2, 1.0, -1.0)
    problem = Problem(FactorStack([L]), y)
    L += 1e8
    now = problem.replace(kernels=FactorStack([L.copy()]))
    one, other = (certify(own, 0.1 * y, rigorous=True, backend="fast") for own in (problem, now))
    assert (one.lower, one.upper) == (other.lower, other.upper)


def indefinite(smallest):
    """A problem with a kernel that slipped through: an ArrayStack that nobody checked."""
    problem = definite()
    K = list(problem.kernels.dense().copy())
    values, vectors = np.linalg.eigh(K[2])
    values[0] = smallest
    repaired = (vectors * values) @ vectors.T
    K[2] = 0.5 * (repaired + repaired.T)
    return Problem(ArrayStack.trusted(K), problem.y, regularizer=Lp(2)), vectors[:, 0]


def test_an_indefinite_kernel_is_refused_with_a_witness():
    problem, _ = indefinite(-1e-6)
    with pytest.raises(InvalidKernel, match=r"kernels\[2\] is not positive semidefinite, nor .* v'K v = -1e-06 .*exac"):
        certify(problem, 0.1 * problem.y, rigorous=True)
    found = certify(problem, 0.1 * problem.y, rigorous=True, delta=2e-6)
    assert found.tier == 2


def test_a_dual_point_can_be_the_witness(monkeypatch):
    problem, v = indefinite(-1e-2)
    problem = problem.replace(intercept=False, loss="squared")
    monkeypatch.setattr(rigorous, "proven_shifts", lambda *_: (np.zeros(4), np.full(4, 0.011)))
    with pytest.raises(InvalidKernel, match=r"kernels\[2\] .*: beta'K beta <= -0.01 < 0 for this dual point, proven"):
        certify(problem, v, rigorous=True)


def test_an_asymmetric_stack_proves_nothing():
    problem = definite()
    K = list(problem.kernels.dense().copy())
    K[0][0, 1] += 1e-15
    stack = ArrayStack.trusted(K)
    with pytest.raises(InvalidKernel, match=r"kernels\[0\] is not exactly symmetric"):
        certify(Problem(stack, problem.y), 0.1 * problem.y, rigorous=True)


@pytest.mark.parametrize("regularizer", [Power(2), ElasticNet(0.5), BlockNorm(3)], ids=str)
def test_other_regularizers_are_refused(regularizer):
    problem = make_problem(regularizer=regularizer)
    with pytest.raises(NotApplicable, match="has no rigorous certificate; those that have are Lp, Fixed, Tikhonov, Gr"):
        certify(problem, 0.1 * problem.y, rigorous=True)


def test_a_loss_or_ball_of_ones_own_is_refused():
    """A subclass may have another value than the formulas that are proven."""

    class MyHinge(Hinge):
        pass

    class MyBall(Lp):
        pass

    problem = make_problem(loss=MyHinge(), regularizer=Lp(2))
    with pytest.raises(NotApplicable, match=r"loss hinge \(MyHinge\) has no rigorous certificate; those that have are"):
        certify(problem, 0.1 * problem.y, rigorous=True)
    problem = make_problem(regularizer=MyBall(2))
    with pytest.raises(NotApplicable, match=r"regularizer MyBall\(2\) has no rigorous certificate"):
        certify(problem, 0.1 * problem.y, rigorous=True)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"delta": -1.0}, InvalidParameter, r"delta = -1\.0 must be nonnegative"),
        ({"delta": [0.0, 1.0]}, InvalidParameter, r"delta has shape \(2,\); give one number, or one for each of 4"),
        ({"delta": math.nan}, InvalidParameter, "delta is nan"),
        ({"delta": [0.0, 0.0, math.nan, 0.0]}, InvalidParameter, r"delta\[2\] is nan"),
        ({"backend": "quick"}, InvalidParameter, "backend = 'quick' is unknown; known names: fast, sliced, exact"),
        ({"backend": ["fast"]}, InvalidParameter, r"backend = \['fast'\] is unknown"),
        # They were ignored: who asked for a delta was told bounds that hold for none.
        ({"rigorous": False, "backend": "exact"}, InvalidParameter, "goes with rigorous=True"),
        ({"rigorous": False, "delta": 1e-3}, InvalidParameter, "goes with rigorous=True"),
        ({"rigorous": "yes"}, InvalidType, "rigorous is 'yes'"),
        ({"tol": -1.0}, InvalidParameter, "tol"),
        ({"tol": np.nan}, InvalidParameter, "tol"),
        ({"tol": "small"}, InvalidType, "tol"),
    ],
)
def test_options_that_are_refused(options, error, says):
    problem = make_problem()
    with pytest.raises(error, match=says):
        certify(problem, 0.1 * problem.y, **{"rigorous": True, **options})


def test_the_sliced_backend_takes_over_where_rounding_costs_too_much():
    problem = definite(n=30)
    solution = solve(problem, polish=True)
    loose = certify(problem, solution.dual_coef, weights=solution.weights, rigorous=True, tol=1e-6)
    sharp = certify(problem, solution.dual_coef, weights=solution.weights, rigorous=True, tol=1e-12)
    assert loose.backend == "fast"
    assert sharp.backend == "sliced"
    assert sharp.slack < 0.1 * loose.slack


def test_slices_keep_the_digits_of_small_entries_of_beta_that_meet_large_rows(rng):
    """Slices are as long as the largest of each: what they leave was bounded, and wider than the fast product."""
    sizes = 10.0 ** np.linspace(-12.0, 12.0, 30)
    problem = Problem(
        FactorStack([sizes[:, None] * rng.normal(size=(30, 3))]), 1.0 / sizes, loss="squared", intercept=False
    )
    beta = rng.normal(size=30) / sizes
    fast, sliced = (certify(problem, beta, rigorous=True, backend=name) for name in ("fast", "sliced"))
    assert sliced.slack < 0.5 * fast.slack
    assert certify(problem, beta, rigorous=True, tol=0.0).backend == "sliced"


def test_functions_of_factors_that_pass_through_the_targets_are_certified_as_sharply_as_their_numbers_allow(rng):
    """|L|'|beta| is 1e5 times L'beta, and each of 30 residuals at the edge of the tube costs C = 1e8 for an error."""
    L = rng.normal(size=(30, 50)) * 10.0 ** (-6.0 * np.arange(50) / 50)
    problem = Problem(FactorStack([L]), rng.normal(size=30), C=1e8, loss="epsilon_insensitive", intercept=False)
    solution = solve(problem)
    assert certify(problem, solution, rigorous=True, backend="fast").relative_gap > 1e-5
    found = certify(problem, solution, rigorous=True)
    assert (found.backend, found.tier) == ("sliced", 1)
    assert found.slack <= 1e-12 * found.upper
    assert found.relative_gap <= solution.certificate.relative_gap
    with pytest.raises(NotApplicable, match="backend = 'exact' reads matrices; factors have 'fast' and 'sliced'"):
        certify(problem, solution, rigorous=True, backend="exact")


def test_infeasible_points_are_repaired_exactly_and_named():
    problem = definite(C=0.5)
    beta = 0.1 * problem.y
    beta[7] = 0.9 * problem.y[7]
    found = certify(problem, beta, weights=[0.5, 0.5, 0.5, -0.25], rigorous=True)
    assert math.fsum(found.dual_coef) == 0.0
    assert np.abs(found.dual_coef).max() <= 0.5
    assert found.infeasibility > 0.1
    assert "Repaired before it was certified: weights[3] = -0.25 is negative." in found.explain()
    assert f"Repaired before it was certified: dual_coef[7] = {beta[7]:g} lies outside" in found.explain()


def test_a_feasible_point_is_certified_as_it_is():
    problem = definite(intercept=False)
    beta = 0.1 * problem.y
    found = certify(problem, beta, weights=[0.1, 0.2, 0.3, 0.0], rigorous=True)
    np.testing.assert_array_equal(found.dual_coef, beta)
    np.testing.assert_array_equal(found.weights, [0.1, 0.2, 0.3, 0.0])


def test_one_class_with_costs_that_miss_1_by_rounding_has_no_lower_bound():
    """10 times the float nearest to 0.1 exceeds 1, 49 times the one nearest to 1/49 does not reach it."""
    for n, finite in ((10, True), (49, False)):
        problem = make_problem(loss="one_class", n=n, C=1.0 / n, regularizer=Lp(2))
        found = certify(problem, np.full(n, 1.0 / n), rigorous=True)
        assert math.isfinite(found.lower) == finite
        assert math.isfinite(found.upper)
        assert ("no point of the box sums to 1 exactly" in found.explain()) == (not finite)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_extreme_scales(scale):
    problem = definite()
    scaled = Problem(scale * problem.kernels.dense(), problem.y, C=1.0 / scale, regularizer=Lp(2))
    solution = solve(problem, polish=True)
    for backend in BACKENDS:
        found = certify(scaled, solution.dual_coef / scale, weights=solution.weights, rigorous=True, backend=backend)
        assert found.gap < 1e-9 * found.upper
        assert scale * found.lower <= solution.certificate.upper * (1 + 1e-10)
        assert scale * found.upper >= solution.certificate.lower * (1 - 1e-10)


@pytest.mark.parametrize(
    ("backend", "of_factors"), [*((name, False) for name in BACKENDS), ("fast", True), ("sliced", True)]
)
def test_overflow_gives_infinite_bounds(backend, of_factors):
    L = 1e120 * np.array([[1.0, -1.0], [1.0, 1.0], [-1.0, 2.0]])
    kernels = FactorStack([L]) if of_factors else [L @ L.T]
    problem = Problem(kernels, [1.0, -1.0, 1.0], loss="squared", intercept=False)
    for size, weights in itertools.product((1e68, 1e150), (None, [1.0])):
        found = certify(problem, size * np.ones(3), weights=weights, rigorous=True, backend=backend)
        assert (found.lower, found.upper, found.relative_gap) == (-math.inf, math.inf, math.inf)
        assert not found.is_optimal(1e300)
        assert found.explain()


def test_a_fixed_weight_of_zero_that_is_used_has_no_upper_bound():
    problem = definite(regularizer=Fixed([1.0, 0.0, 1.0, 1.0]))
    found = certify(problem, 0.1 * problem.y, weights=[0.5, 0.5, 0.5, 0.5], rigorous=True)
    assert found.upper == math.inf
    assert "There is no finite upper bound" in found.explain()


def test_float32_kernels_are_certified_as_they_are():
    problem = definite(ridge=1e-3)
    single = Problem(problem.kernels.dense().astype(np.float32), problem.y, regularizer=Lp(2))
    double = Problem(single.kernels.dense().astype(np.float64), problem.y, regularizer=Lp(2))
    first, second = (certify(case, 0.1 * problem.y, rigorous=True) for case in (single, double))
    assert (first.lower, first.upper, first.tier) == (second.lower, second.upper, 1)
    assert first.to_dict()["data"]["kernels"]["dtype"] == "float32"


def test_the_proof_is_made_once_for_a_stack(monkeypatch):
    problem = definite()
    certify(problem, 0.1 * problem.y, rigorous=True)
    again = AssertionError("the definiteness was proven again")
    monkeypatch.setattr("mklref.certificate.definite.proven_semidefinite", Mock(side_effect=again))
    assert certify(problem, 0.2 * problem.y, rigorous=True).tier == 1
    assert certify(problem.replace(C=2.0), 0.2 * problem.y, rigorous=True).tier == 1
    assert certify(problem, 0.2 * problem.y, rigorous=True, delta=1e-9).tier == 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("C", [1.0, 1e4, 1e8])
@pytest.mark.parametrize(("loss", "intercept"), [("hinge", True), ("hinge", False), ("density_level_set", False)])
def test_the_slack_does_not_grow_with_C(C, loss, intercept):
    """Free samples sit on the kink of the loss, where an error of their scores costs C and not |beta_i|.

    With 20 samples and C = 1e4 the last bits of the scores would make it 1e-10 of the optimum and more.
    """
    problem = definite(loss=loss, C=C, intercept=intercept)
    solution = solve(problem, polish=True)
    found = proven(problem, solution, backend="fast")
    assert 0.0 <= found.slack <= 1e-12 * found.upper
    np.testing.assert_allclose(found.weights, solution.weights, rtol=1e-10)
    assert found.intercept == pytest.approx(solution.intercept, rel=1e-10)


def test_neither_does_the_share_of_delta_which_moves_no_point_by_more_than_rounding():
    """Matrices within delta move the scores of free samples over the kink as well."""
    slacks = []
    for C in (1.0, 1e4):
        problem = definite(C=C)
        solution = solve(problem, polish=True)
        found = proven(problem, solution, delta=1e-12)
        assert found.tier == 2
        slacks.append(found.slack / found.upper)
    assert slacks[1] < 30.0 * slacks[0]
    np.testing.assert_allclose(proven(problem, solution, delta=1e-3).weights, solution.weights, rtol=1e-6)


@pytest.mark.parametrize(("r", "moved", "bits"), [(1e-9, 0.0, 0.0), (1e-9, 1e-3, 0.0), (2.0**-50, 0.0, 2.0**-50)])
def test_a_function_is_stretched_over_what_errors_of_scores_near_the_kink_reach(r, moved, bits):
    """7 errors away is near, and may be 8 away; at 12 it has its loss already. The stretch for delta is too far."""
    problem = make_problem(n=4, C=1e6)
    t = problem.y * (1.0 - r * np.array([0.0, 7.0, 12.0, -12.0]))
    found = stretch(problem, [Scores(problem, Interval(t - r, t + r), 0.0, moved)], np.ones(4), 1e-9 * np.ones(4))
    assert found == pytest.approx(1.1 * 8.0 * r + bits, rel=0.04, abs=0.0)


def test_one_class_machines_move_their_intercept_off_the_kink():
    """Three samples are free, of 1.5 in all: what each misses is more than what moving the intercept by it costs."""
    problem = definite(loss="one_class", C=0.5)
    solution = solve(problem, polish=True)
    solution = dataclasses.replace(solution, intercept=solution.intercept - 1e-13)
    found = proven(problem, solution, backend="fast")
    assert np.array_equal(found.weights, solution.weights)
    assert 5e-14 < found.intercept - solution.intercept < 1e-11
    assert 0.0 <= found.slack <= 1e-12
