"""Several machines go the way of one: certified, saved, judged and cross-checked by the same functions."""

from __future__ import annotations

import dataclasses
from itertools import combinations

import numpy as np
import pytest
from certificate.points import changed

import mklref
from mklref import verify
from mklref._files import read_arrays, write_arrays
from mklref.evidence import EvidenceProblem
from mklref.exceptions import InvalidInput, InvalidType, UnsafeFile
from mklref.multiclass import STRATEGIES, MulticlassProblem, MulticlassSolution, random_part, votes
from mklref.problem import Point, Problem, dual_norms, in_a_smaller_box
from mklref.signed import SignedProblem, SignedSolution
from mklref.solution import Solution
from mklref.synthesis import SynthesisProblem
from mklref.testing import assert_optimal
from mklref.testing.weight_suspects import permuted_samples


@pytest.fixture(scope="module", params=STRATEGIES)
def solved(request, data):
    problem = MulticlassProblem(*data, C=2.0, strategy=request.param)
    return problem, mklref.solve(problem, tol=1e-8)


def test_one_machine_is_its_own_problem(data):
    kernels, y = data
    binary = Problem(kernels, np.where(y > 0, 1.0, -1.0))
    ((own, samples, *_),) = binary.machines
    assert own is binary
    np.testing.assert_array_equal(samples, np.arange(27))
    beta = np.arange(27.0)
    np.testing.assert_array_equal(binary.join(binary.split(beta)), beta)
    for wrong in (None, "beta", beta[1:], beta[None]):
        with pytest.raises(InvalidInput, match=r"dual_coef has shape .*; expected \(27,\)"):
            binary.split(wrong)


@pytest.fixture(scope="module")
def pair(data):
    """Two classes one against one, the same as one machine, and a point of that."""
    kernels, y = data
    two = MulticlassProblem(kernels, y > 0, C=2.0, strategy="one_vs_one")
    binary = Problem(kernels, np.where(y > 0, -1.0, 1.0), C=2.0)
    return two, binary, 0.1 * binary.y * np.random.default_rng(0).uniform(size=27)


@pytest.mark.parametrize("rigorous", [False, True])
def test_what_is_violated_says_in_which_machine(solved, rigorous):
    problem, solution = solved
    beta = solution.dual_coef.copy()
    beta[1] *= 100.0
    violations = mklref.certify(problem, beta, rigorous=rigorous).violations
    assert violations[0].startswith("machine 1: dual_coef[")
    assert all(text.startswith("machine 1: ") for text in violations)


def test_the_certificate_is_that_of_one_machine_where_there_is_one(pair):
    """The same numbers, in rows."""
    two, binary, beta = pair
    one, row = mklref.certify(binary, beta, intercept=0.1), mklref.certify(two, beta[None], intercept=[0.1])
    for name in ("lower", "upper", "rounding", "objective", "fitting_upper", "better_upper", "worst_kernel"):
        assert getattr(row, name) == getattr(one, name), name
    assert (row.intercept, row.better_intercept) == ((0.1,), (one.better_intercept,))
    assert row.worst_sample == (0, one.worst_sample)


def test_the_certificate_names_machine_and_sample(solved):
    problem, solution = solved
    b = solution.intercept + np.array([0.0, 1.5, 0.0])
    found = mklref.certify(problem, solution.dual_coef, weights=solution.weights, intercept=b)
    assert f"The intercept {b[1]:.6g} of machine 1 is not the best" in found.explain()
    beta, p = solution.dual_coef.copy(), 2
    i = problem.machines[p].samples[4]
    beta[p, i] = problem.costs[i] * problem.machines[p].problem.y[4] - beta[p, i]
    found = mklref.certify(problem, beta, weights=solution.weights, intercept=solution.intercept)
    assert found.worst_sample == (p, i)


def test_saved_and_loaded(solved, data, tmp_path):
    problem, solution = solved
    kept = dataclasses.replace(solution, value=1.0, claimed="optimal", raw=solution)
    kept.save(tmp_path / "several.npz")
    loaded = MulticlassSolution.load(tmp_path / "several.npz")
    for one in (loaded, loaded.raw):
        np.testing.assert_array_equal(one.dual_coef, solution.dual_coef)
        np.testing.assert_array_equal(one.intercept, solution.intercept)
        assert one.certificate == solution.certificate
    again = mklref.certify(problem, loaded.dual_coef, weights=loaded.weights, intercept=loaded.intercept)
    assert again == solution.certificate
    scores = loaded.decision_function(data[0])
    assert scores.shape == (27, 3)
    sizes = np.einsum("m,mij,pj->ip", solution.weights, np.abs(data[0]), np.abs(solution.dual_coef))
    error = np.abs(loaded.decision_function(problem.kernels) - scores)  # the same sums in another order
    assert np.all(error <= 1e-14 * (sizes + np.abs(solution.intercept)))
    assert np.mean(problem.assign(scores) == problem.y) > 0.6


def test_the_most_pairs_win_however_clearly_others_were_won_and_a_score_of_0_is_for_the_second(data):
    problem = MulticlassProblem(*data, strategy="one_vs_one")
    assert problem.assign([[1e-3, 1e-3, 50.0], [0.0, 0.0, 0.0], [-2.0, 3.0, -1.0]]).tolist() == [0, 2, 1]
    scores, expected = np.random.default_rng(0).normal(size=(50, 6)), np.zeros((50, 4))
    for i, row in enumerate(scores):
        for (positive, negative), score in zip(combinations(range(4), 2), row, strict=True):
            expected[i, positive if score > 0.0 else negative] += 1.0
            expected[i, [positive, negative]] += np.array([1.0, -1.0]) * np.tanh(score) / 18.0  # 1/3 in all
    np.testing.assert_allclose(votes(scores, 4), expected, atol=1e-14)


def test_norms_and_the_room_of_several_machines_are_those_of_all(solved):
    problem, beta = solved[0], solved[1].dual_coef
    squares = np.einsum("pi,mij,pj->m", beta, problem.kernels.dense(), beta)
    np.testing.assert_allclose(dual_norms(problem, beta) ** 2, squares, rtol=1e-12)
    small = beta * np.array([[1e-6], [1e-4], [1e-5]])
    smaller = in_a_smaller_box(problem, small)
    assert pytest.approx(100.0 * np.abs(small).max()) == smaller.C


def test_a_part_of_the_samples_is_in_order_and_has_every_class_or_none_is_made():
    K, y = np.eye(40)[None], np.where(np.arange(40) < 2, 1.0, -1.0)
    several = MulticlassProblem(K, np.where(y > 0.0, "rare", np.where(np.arange(40) % 2, "a", "b")))
    one_class = Problem(K, np.ones(40), loss="one_class", regularizer="uniform")
    drawn = random_part(one_class, 5)
    assert len(drawn) == len(set(drawn)) == 5
    assert np.array_equal(drawn, np.sort(drawn))
    assert abs(y[drawn].sum()) == 5.0  # one class alone
    assert random_part(Problem(K, y), 5) is None
    np.testing.assert_array_equal(random_part(Problem(K, y), 40), np.arange(40))
    assert set(several.y[random_part(several, 5)]) == {"a", "b", "rare"}


@pytest.mark.parametrize("intercept", [0.0, [0.0], [0.0, 0.0, "x"], [0.0, 0.0, np.nan], None])
def test_intercepts_that_do_not_fit_the_rows_are_refused(solved, tmp_path, intercept):
    solved[1].save(tmp_path / "s.npz")
    arrays, facts = read_arrays(tmp_path / "s.npz")
    assert facts["format"] == "mklref-solution-2"
    write_arrays(tmp_path / "s.npz", arrays, {**facts, "intercept": intercept})
    with pytest.raises(UnsafeFile):
        Solution.load(tmp_path / "s.npz")


def test_assert_optimal_passes_the_optimum_with_and_without_its_weights(solved):
    problem, solution = solved
    assert_optimal(problem, solution.dual_coef, weights=solution.weights, intercept=solution.intercept)
    assert_optimal(problem, solution.dual_coef, rtol=1e-4)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda beta, theta, b: (-beta, theta, b), "negated dual_coef: Machine 0, 1, 2 of 3"),
        (lambda beta, theta, b: (beta, theta, b + np.array([0, 0, 1])), "wrong intercept: Machine 2 of 3"),
        (lambda beta, theta, b: (beta, np.ones(3) / 3, b), "weights of another iterate: dual_coef is optimal with"),
        (lambda beta, theta, b: (0 * beta, theta, b), "zero answer"),
        (lambda beta, theta, b: (beta[:2], theta, b), r"malformed answer: dual_coef has shape \(2, 27\)"),
    ],
)
def test_assert_optimal_names_the_fault_and_the_machine_that_has_it(solved, spoil, says):
    problem, solution = solved
    beta, theta, b = spoil(solution.dual_coef, solution.weights, solution.intercept)
    with pytest.raises(AssertionError, match=says):
        assert_optimal(problem, beta, weights=theta, intercept=b)


def test_assert_optimal_tells_weights_that_are_not_the_best(solved):
    """Every machine is solved, for weights that are another problem's."""
    problem, _ = solved
    theta = np.array([0.2, 0.2, 0.6])
    fixed = mklref.solve(problem.replace(regularizer=mklref.Fixed(theta)), tol=1e-9)
    with pytest.raises(AssertionError, match="weights not optimal: Every machine is solved for these weights"):
        assert_optimal(problem, fixed.dual_coef, weights=theta, intercept=fixed.intercept)


def test_starts_of_other_shapes_are_refused(solved):
    problem, solution = solved
    one = dataclasses.replace(solution, dual_coef=solution.dual_coef[0], intercept=0.0)
    with pytest.raises(InvalidInput, match=r"start has dual variables of shape \(27,\) .* this problem has \(3, 27\)"):
        mklref.solve(problem, start=one)


@pytest.mark.parametrize("use", [mklref.solve, lambda problem: assert_optimal(problem, np.zeros(27)), mklref.certify])
def test_problems_with_a_certificate_of_their_own_are_refused_and_say_which(data, use):
    kernels, y = data[0], np.where(data[1] > 0, 1.0, -1.0)
    synthesis = SynthesisProblem(kernels, y, lam=1.0, p=1, q=1, r=1)
    for problem, own in (
        (SignedProblem(kernels, y), "certificate of its own, problem.certify, and is solved by mklref.reference.solve"),
        (synthesis, "certificate of its own, mklref.synthesis.certify, and is solved by mklref.synthesis.solve"),
        (EvidenceProblem(kernels, y, 0.1), "no certificate, and is solved by mklref.evidence.solve"),
    ):
        with pytest.raises(InvalidType, match=f"problem is {type(problem).__name__}.*{own}"):
            use(problem) if use is not mklref.certify else mklref.certify(problem, np.zeros(27))


def test_a_signed_problem_is_frozen_and_its_solution_is_saved(data, tmp_path):
    signed = SignedProblem(data[0], np.where(data[1] > 0, 1.0, -1.0), C=2.0)
    with pytest.raises(AttributeError, match="this SignedProblem is frozen"):
        signed.trace = 3.0
    assert signed.replace(trace=3.0).trace == 3.0
    solution = mklref.reference.solve(signed, "sdp")
    solution.save(tmp_path / "signed.npz")
    loaded = SignedSolution.load(tmp_path / "signed.npz")
    np.testing.assert_array_equal(loaded.slack, solution.slack)
    assert loaded.certificate == solution.certificate
    with pytest.raises(UnsafeFile, match=r"holds a SignedSolution: load it with mklref\.signed\.SignedSolution\.load"):
        Solution.load(tmp_path / "signed.npz")


@pytest.fixture(scope="module", params=["squared_hinge", "logistic", "hinge"])
def proven(request, data):
    """A certificate of pairs, with classes that are no numbers and a radius that no kernel needs, and its data."""
    strategy = "one_vs_rest" if request.param == "logistic" else "one_vs_one"
    y = np.array(["a", "b", "c"])[data[1]]
    problem = MulticlassProblem(data[0], y, C=2.0, loss=request.param, regularizer=mklref.Lp(1.5), strategy=strategy)
    point = mklref.solve(problem, tol=1e-9)
    delta = 1e-7 if request.param == "squared_hinge" else None
    own = {"weights": point.weights, "intercept": point.intercept}
    certificate = mklref.certify(problem, point.dual_coef, **own, rigorous=True, delta=delta)
    return point, certificate, data[1].astype(float)


def test_a_proof_for_several_machines_encloses_the_numerical_bounds_and_is_verified(proven):
    point, certificate, y = proven
    assert abs(certificate.relative_gap) < 1e-6
    assert certificate.lower <= point.certificate.objective
    assert certificate.upper >= point.certificate.lower
    assert certificate.dual_coef.shape == (3, 27)
    lines = verify.verify(certificate.to_dict(), certificate.problem.kernels.dense(), y)
    assert "n = 27 samples, 3 machines" in lines[0]
    assert len(lines) == 6


def test_documents_of_several_machines_are_written_and_read(proven, tmp_path):
    proven[1].save(tmp_path / "c.json", data=tmp_path / "c.npz")
    assert verify.main([str(tmp_path / "c.json")]) == 0


@pytest.mark.parametrize("backend", ["fast", "sliced", "exact"])
def test_the_proof_is_that_of_one_machine_where_there_is_one(pair, backend):
    two, binary, beta = pair
    one = mklref.certify(binary, beta, rigorous=True, backend=backend)
    row = mklref.certify(two, beta[None], rigorous=True, backend=backend)
    assert (row.lower, row.upper, row.slack) == (one.lower, one.upper, one.slack)
    assert verify.verify(row.to_dict(), two.kernels.dense(), (binary.y < 0.0).astype(float))


@pytest.mark.parametrize(
    ("path", "to", "error", "says"),
    [
        (("claim", "lower"), lambda x: (float.fromhex(x) * 1.001).hex(), verify.Refuted, "lower = "),
        (("claim", "upper"), lambda x: (float.fromhex(x) * 0.999).hex(), verify.Refuted, "upper = "),
        (("point", "dual_coef"), lambda rows: rows[::-1], verify.Unreadable, "that it does not see|outside its box"),
        (("point", "dual_coef"), lambda rows: rows[:2], verify.Unreadable, "3 machines have 2 rows"),
        (("point", "dual_coef", 1), lambda row: row[1:], verify.Unreadable, "lengths of the vectors"),
        (("point", "intercept"), lambda b: b[:2], verify.Unreadable, "2 intercepts"),
        (("point", "intercept"), lambda b: b[0], verify.Unreadable, "is no list"),
        (("point", "intercept", 1), lambda b: (float.fromhex(b) + 0.1).hex(), verify.Refuted, "upper = "),
        (("problem", "strategy"), lambda _: "pairs", verify.Unreadable, "unknown strategy 'pairs'"),
        (("problem", "loss", "name"), lambda _: "squared", verify.Unreadable, "loss squared takes no classes"),
        (("format",), lambda _: "mklref-rigorous-1", verify.Unreadable, "certificate.problem consists of"),
    ],
)
def test_a_document_of_several_machines_that_was_changed_is_refused(proven, path, to, error, says):
    _, certificate, y = proven
    with pytest.raises(error if "box" not in says else (verify.Refuted, verify.Unreadable), match=says):
        verify.verify(changed(certificate.to_dict(), *path, to=to), certificate.problem.kernels.dense(), y)


@pytest.mark.parametrize("classes", [[0.0, 2.0], [0.5, 1.0], [1.0, 1.0]])
def test_classes_that_are_not_numbered_are_refused(proven, classes):
    _, certificate, y = proven
    with pytest.raises(verify.Unreadable, match="the classes are not numbered"):
        verify.verify(certificate.to_dict(), certificate.problem.kernels.dense(), np.resize(classes, len(y)))


def test_a_dual_variable_beside_its_machine_counts_nothing_and_is_refused_in_a_document(data):
    problem = MulticlassProblem(*data, C=2.0, strategy="one_vs_one")
    beta = np.ones((3, 27))
    certificate = mklref.certify(problem, beta, rigorous=True)
    assert not certificate.dual_coef[0, np.setdiff1d(np.arange(27), problem.machines[0].samples)].any()
    facts = certificate.to_dict()
    outside = int(np.flatnonzero(data[1] == 2)[0])
    facts["point"]["dual_coef"][0][outside] = (1.0).hex()
    with pytest.raises(verify.Unreadable, match="a sample that it does not see"):
        verify.verify(facts, problem.kernels.dense(), data[1].astype(float))


def test_kernels_that_rounding_left_indefinite_are_no_less_so_for_a_pair_of_classes():
    """Where the samples of a pair have next to nothing of a kernel, what rounding has left of the whole is much."""
    kernels = [np.eye(3), np.diag([1.0, 1e-16, -1.3e-16])]
    problem = MulticlassProblem(kernels, [0, 1, 2], strategy="one_vs_one", intercept=False)
    assert mklref.solve(problem).status is mklref.Status.OPTIMAL


def test_an_order_of_the_samples_is_not_looked_for_at_weights_beyond_all_scales(data):
    problem = MulticlassProblem(*data, regularizer="l2", strategy="one_vs_one")
    found = mklref.solve(problem)
    for scale, count in ((1.0, 1), (1e200, 0)):
        point = Point(found.dual_coef[:, ::-1], scale * found.weights, None)
        assert len(list(permuted_samples(problem, point))) == count
