"""Names of samples and of kernels stay with stacks, solutions and files, and are compared wherever they meet others."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

from mklref import Fixed, MulticlassProblem, Problem, Solution, certify, reference, solve
from mklref._names import _may_count, given_names, names_in, require_one_order
from mklref.algorithms import lp_wrapper
from mklref.bounds import margin_risk
from mklref.estimators import MKLClassifier
from mklref.evidence import EvidenceProblem, solve as learn
from mklref.exceptions import InvalidInput, InvalidTarget, UnsafeFile
from mklref.kernels import FactorStack, center, cholesky, column_groups, factors, normalize, parse, stack
from mklref.regularizers import Mahalanobis, WeightedL1, WeightedLp
from mklref.signed import SignedProblem
from mklref.synthesis import SynthesisProblem, SynthesisSolution, solve as synthesise
from mklref.testing.vectors import read_answer

N = 16
IDS = [f"s{i}" for i in range(N)]
TURNED = IDS[::-1]
LAGGED = [*IDS[1:], "t"]  # each stands elsewhere, but in the same order
SOLVERS = {"native": solve, "factored": solve, "lp_wrapper": lp_wrapper, "reference": reference.solve}


@pytest.fixture(scope="module")
def X():
    return pd.DataFrame(np.random.default_rng(5).normal(size=(N, 3)), IDS, list("abc"))


@pytest.fixture(scope="module")
def y(X):
    return pd.Series(np.where(X["a"] > X["a"].median(), 1.0, -1.0), IDS)


@pytest.fixture(scope="module")
def grams(X):
    return [pd.DataFrame(np.outer(X[one], X[one]) + np.eye(N), IDS, IDS) for one in X]


def stacks(X, grams):
    """Stacks of named samples, in every way in which they come by their names."""
    family = parse("linear,rbf:1")
    yield "frames", stack(grams)
    yield "columns alone", stack([K.reset_index(drop=True) for K in grams])
    yield "normalised", normalize(grams, "trace")
    yield "centred", center(grams)
    yield "family", family.fit(X)
    yield "lazy", family.fit(X, storage="lazy")
    yield "lazy, normalised", family.fit(X, storage="lazy", normalize="trace")
    yield "factors", FactorStack([X[["a"]], X[["b", "c"]]])
    yield "sharded", FactorStack([X[["a"]], X[["b", "c"]]]).sharded(2)
    yield "groups of columns", column_groups(X, [["a"], ["b", "c"]])
    yield "kept groups", column_groups(X, [["a"], ["b", "c"]], normalize="trace", keep=True)
    yield "Cholesky factors", cholesky(family, X, keep=False)
    yield "kept Cholesky factors", cholesky(family, X)
    yield "named factors", factors({"a": X[["a"]], "b": X[["b"]]})
    yield "as matrices", FactorStack([X[["a"]], X[["b", "c"]]]).dense_stack()


def test_stacks_keep_the_names_of_their_samples_and_problems_compare_them(X, y, grams):
    order = np.array([3, 1, 5, 8, 2, 15])
    for label, given in stacks(X, grams):
        for own, rows in ((given, np.arange(N)), (given.part(order), order), (pickle.loads(pickle.dumps(given)), None)):
            names = [IDS[i] for i in (range(N) if rows is None else rows)]
            assert own.sample_names == (tuple(names),), label
            assert own.names == given.names, label
            targets, weight = y[names], pd.Series(1.0, names)
            Problem(own, targets, sample_weight=weight)
            for wrong in ({"y": targets[::-1]}, {"y": targets.to_numpy(), "sample_weight": weight[::-1]}):
                with pytest.raises(InvalidInput, match="and the kernels have their samples in different orders"):
                    Problem(own, **wrong)
            with pytest.raises(InvalidInput, match=r"y and the kernels are of different samples: number \d+ is"):
                Problem(own, targets.set_axis([*names[:-2], names[-1], "t"]))
    for kind, targets in ((MulticlassProblem, y.map(str)), (lambda *given: EvidenceProblem(*given, 1.0), y)):
        with pytest.raises(InvalidInput, match="y and the kernels have their samples in different orders"):
            kind(stack(grams), targets[::-1])


def test_names_that_are_partly_the_same_are_not_paired_by_their_places(y, grams):
    for names in (TURNED, LAGGED, ["s0", *IDS[:-1]], ["t", *IDS[2:], "u"]):  # another order, a lag, one twice, others
        for weighted in (False, True):
            other = y.set_axis(names)
            parts = {"y": y, "sample_weight": other.abs()} if weighted else {"y": other}
            with pytest.raises(InvalidInput, match=r"have their samples in|are of different samples: number \d+ is"):
                Problem(grams, **parts)
    for names in (range(N), range(3, N + 3), [f"{name}-RNA" for name in IDS]):  # counted, or of another kind
        Problem(grams, y.set_axis(names))


def test_rows_that_are_counted_are_named_by_nobody_but_those_of_a_shuffled_table_are(y, grams):
    order = np.random.default_rng(0).permutation(2 * N)
    counted, (train, whole) = pd.RangeIndex(N), (order[:N], np.argsort(order[:N]))
    for index in (train, whole):
        named = [K.set_axis(index).set_axis(index, axis=1) for K in grams]
        Problem(named, y.set_axis(index))
        with pytest.raises(InvalidInput, match="number 0 is"):
            Problem(named, y.set_axis(index[::-1]))
    Problem([K.set_axis(train).set_axis(train, axis=1) for K in grams], y.set_axis(counted))  # a fresh column
    with pytest.raises(InvalidInput, match=r"in different orders: number 0 is '\d+' in the first, '0' in the second"):
        Problem([K.set_axis(whole).set_axis(whole, axis=1) for K in grams], y.set_axis(counted))  # fresh, or of before?


def test_numbers_that_are_no_count_are_names(y, grams):
    """Partly other samples: identifiers of six digits or from 001, a part of a shuffled table, numbers among texts."""
    shuffled = [7, 3, *range(20, 18 + N)]
    for names in ([k + 10**5 for k in range(N)], [f"{k:03}" for k in range(N)], shuffled, ["x", *range(1, N)]):
        named = [K.set_axis(names).set_axis(names, axis=1) for K in grams]
        with pytest.raises(InvalidInput, match=rf"are of different samples: number {N - 1} is"):
            Problem(named, y.set_axis([*names[:-1], 999_999]))


def test_remedies_of_the_error_are_remedies(y, grams):
    shuffled = np.random.default_rng(0).permutation(N)
    named, fresh = [K.set_axis(shuffled).set_axis(shuffled, axis=1) for K in grams], y.reset_index(drop=True)
    with pytest.raises(InvalidInput, match=r"drop the names of one, \.to_numpy\(\), or of both, \.reset_index"):
        Problem(named, fresh)
    Problem(named, fresh.to_numpy())
    Problem([K.reset_index(drop=True).set_axis(range(N), axis=1) for K in named], fresh)


def test_a_moment_has_one_name_in_all_zones(y, grams):
    moments = pd.date_range("2020-03-25", periods=N, freq="D", tz="UTC")  # summer time begins among them
    named = [K.set_axis(moments).set_axis(moments, axis=1) for K in grams]
    local = y.set_axis(moments.tz_convert("Europe/London"))
    paired = [pd.MultiIndex.from_arrays([IDS, own]) for own in (moments, local.index)]
    several = [K.set_axis(paired[0]).set_axis(paired[0], axis=1) for K in grams]
    for kernels, targets in ((named, local), (several, local.set_axis(paired[1]))):
        Problem(kernels, targets)
        with pytest.raises(InvalidInput, match="in different orders"):
            Problem(kernels, targets[::-1])


@pytest.mark.parametrize("end", [(9999, 12, 31, 23), (1, 1, 1, 1)])
def test_moments_at_the_ends_of_the_calendar_have_one_name_in_all_zones(y, grams, end):
    hours = [-5, -6] if end[0] > 1 else [5, 6]
    ends = [datetime(*end, tzinfo=timezone(timedelta(hours=hours[0])))]
    ends.append(ends[0].replace(hour=end[3] + hours[1] - hours[0], tzinfo=timezone(timedelta(hours=hours[1]))))
    own, other = ([datetime(2020, 1, 1 + i, tzinfo=UTC) for i in range(N - 1)] + [last] for last in ends)
    named = [K.set_axis(own).set_axis(own, axis=1) for K in grams]
    targets = y.set_axis(pd.Index(other, dtype=object))
    Problem(named, targets)
    with pytest.raises(InvalidInput, match="in different orders"):
        Problem(named, targets[::-1])


def test_weights_and_vectors_for_a_stack_are_compared_by_names(X, grams):
    named = [stack(grams, list("abc")), factors({one: X[[one]] for one in X})]
    for own in (*named, *(parse("linear").fit(X, storage=where) for where in ("memory", "lazy"))):
        v = pd.Series(1.0, IDS)
        vectors = pd.DataFrame([v, v])
        for given, method in ((v, own.apply), (v, own.quadratic), (v, own.norms), (vectors, own.apply_each)):
            np.testing.assert_allclose(method(given), method(given.to_numpy()), rtol=1e-12, atol=1e-12)
            with pytest.raises(
                InvalidInput, match=r"the kernels and v(ectors)? have their samples in different orders"
            ):
                method(given[TURNED])
    theta = pd.Series([1.0, 2.0, 3.0], list("abc"))
    for own in named:
        for method in (own.combine, lambda weights, own=own: own.combine_rows(weights, [0, 1])):
            np.testing.assert_allclose(method(theta), method(theta.to_numpy()), rtol=1e-12, atol=1e-12)
            with pytest.raises(InvalidInput, match="the kernels and weights have their kernels in different orders"):
                method(theta[::-1])


def test_new_samples_of_a_stack_are_normalised_with_its_samples(grams):
    new = [K.iloc[:4] for K in grams]
    for method in (center, lambda K, K_new: normalize(K, "trace", K_new)):
        own = stack(grams)
        np.testing.assert_allclose(
            method(own, new)[1], method(own, [K.to_numpy() for K in new])[1], rtol=1e-12, atol=1e-12
        )
        with pytest.raises(InvalidInput, match=r"column 0 of K_new\[0\] is 's15', training sample 0 is 's0'"):
            method(own, [K[TURNED] for K in new])


def test_too_few_and_too_many_are_told_how_many_there_are_not_a_name(y, grams):
    for new in ([K.iloc[:, :-1] for K in grams], [K.assign(more=0.0) for K in grams]):
        with pytest.raises(InvalidInput, match=rf"has shape \({N}, {new[0].shape[1]}\); expected \(k, {N}\)"):
            solve(Problem(grams, y)).decision_function(new)
    fewer, named = (stack(np.array(grams[:k]), list("abc")[:k]) for k in (2, 3))
    with pytest.raises(InvalidInput, match="kernels_new holds 2 kernels, the solution has 3 weights"):
        learn(EvidenceProblem(named, y, 1.0)).decision_function(fewer)


def test_what_has_a_name_and_which_one(X, y):
    assert given_names(["K0", "b"]) == (("K0", "b"),)
    assert names_in(pd.Index([1.0, np.nan, 2.5])) == (("1", "nan", "2.5"),)
    assert require_one_order({"X": X.reset_index(drop=True), "y": y}) is y.index
    assert not _may_count(("1", "1", "2"), ("1", "3", "2"))  # of two rows with one name nobody has counted any


def test_what_a_changed_problem_shares_stays_with_its_samples(y, grams):
    turned = stack([K.loc[TURNED, TURNED] for K in grams])
    problem = Problem(stack(grams), y, sample_weight=np.ones(N))
    for changes in ({}, {"y": y[TURNED]}, {"sample_weight": np.ones(N)}):
        with pytest.raises(
            InvalidInput, match=r"the kernels and (y|sample_weight) have their samples in different orders"
        ):
            problem.replace(kernels=turned, **changes)
    problem.replace(kernels=turned, y=y[TURNED], sample_weight=np.ones(N))
    problem.replace(kernels=[K.to_numpy() for K in grams])


@pytest.mark.parametrize("kind", ["evidence", "synthesis"])
def test_what_another_changed_problem_shares_stays_with_its_samples(y, grams, kind):
    turned = [K.loc[TURNED, TURNED] for K in grams]
    synthesis = kind == "synthesis"
    problem = SynthesisProblem(grams, y, lam=0.1, p=1, q=1, r=1) if synthesis else EvidenceProblem(grams, y, 1.0)
    for own in (problem, problem.replace(y=-y), pickle.loads(pickle.dumps(problem))):
        for wrong in ({"kernels": turned}, {"y": y[TURNED]}):
            with pytest.raises(InvalidInput, match="have their samples in different orders"):
                own.replace(**wrong)
        own.replace(kernels=turned, y=y[TURNED])
        own.replace(kernels=[K.to_numpy() for K in grams])


@pytest.mark.parametrize("solver", SOLVERS)
def test_solutions_know_the_kernels_of_their_weights(X, y, solver, tmp_path):
    family, turned = (parse(text).fit(X) for text in ("rbf:1,linear,rbf:2", "linear,rbf:1,rbf:2"))
    if solver == "factored":
        family, turned = (factors({one: X[[one]] for one in names}) for names in ("abc", "bac"))
    problem = Problem(family, y)
    solution = SOLVERS[solver](problem)
    solution.save(tmp_path / "solution.npz")
    for own in (solution, Solution.load(tmp_path / "solution.npz")):
        own.decision_function(family.part(np.arange(N)))
        certify(problem, own)
        unnamed = stack(list(turned.dense()))
        own.decision_function(unnamed)
        for names in (turned.names, (family.names[0], "z", family.names[2])):
            other = stack(list(turned.dense()), names)
            with pytest.raises(InvalidInput, match=r"kernel [01] of kernels_new is '[a-z:1]*', that of training '"):
                own.decision_function(other)
            with pytest.raises(InvalidInput, match=r"in different orders: number 0 is|different kernels: number 1 is"):
                certify(Problem(other, y), own)
        with pytest.raises(InvalidInput, match="kernel 0 of kernels_new is 'x', that of training"):
            own.decision_function(stack(list(turned.dense()), list("xyz")))


def test_scores_of_other_models_are_of_their_kernels(y, grams, tmp_path):
    kernels, turned = (stack([grams[names.index(one)] for one in names], names) for names in (list("abc"), list("bac")))
    synthesis = synthesise(SynthesisProblem(kernels, y, lam=0.1, p=1, q=1, r=1, constant=True).replace(lam=0.2))
    synthesis.save(tmp_path / "synthesis.npz")
    model = MKLClassifier("precomputed").fit(kernels, y)
    assert model.kernel_names_ == kernels.names
    model.save(tmp_path / "model.npz")
    samples = stack([K.loc[TURNED, TURNED] for K in grams], list("abc"))
    for score in (
        learn(EvidenceProblem(kernels, y, 1.0)).decision_function,
        synthesis.decision_function,
        SynthesisSolution.load(tmp_path / "synthesis.npz").decision_function,
        model.predict,
        MKLClassifier.load(tmp_path / "model.npz").predict,
    ):
        np.testing.assert_array_equal(score(kernels), score(kernels.dense()))
        with pytest.raises(InvalidInput, match=r"kernel 0 of (X|kernels_new) is 'b', that of training 'a'"):
            score(turned)
        with pytest.raises(InvalidInput, match="have their samples in different orders: number 0 is 's0' in the first"):
            score(samples)


@pytest.mark.parametrize("solver", SOLVERS)
def test_solutions_know_their_training_samples(X, y, grams, solver, tmp_path):
    problem = Problem(FactorStack([X[["a"]], X[["b", "c"]]]) if solver == "factored" else stack(grams), y)
    solution = SOLVERS[solver](problem)
    new = [pd.DataFrame(K, IDS, IDS).iloc[:4] for K in problem.kernels.dense()]
    turned = Problem([pd.DataFrame(K, TURNED, TURNED) for K in problem.kernels.dense()], y.to_numpy())
    solution.save(tmp_path / "solution.npz")
    loaded = Solution.load(tmp_path / "solution.npz")
    assert loaded.sample_names == solution.sample_names == (tuple(IDS),)
    assert (loaded.raw is None) == (solver != "reference")
    assert loaded.raw is None or loaded.raw.sample_names == solution.raw.sample_names == loaded.sample_names
    np.testing.assert_array_equal(read_answer(tmp_path / "solution.npz").dual_coef, solution.dual_coef)
    for own in (solution, loaded, pickle.loads(pickle.dumps(solution))):
        expected = own.decision_function([K.to_numpy() for K in new])
        np.testing.assert_allclose(own.decision_function(new), expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            own.decision_function([K.set_axis(range(N), axis=1) for K in new]), expected, rtol=1e-12, atol=1e-12
        )
        for names in (TURNED, LAGGED, [f"{name}-RNA" for name in IDS]):
            with pytest.raises(InvalidInput, match=rf"column 0 of kernels_new\[0\] is '{names[0]}', training sample"):
                own.decision_function([K.set_axis(names, axis=1) for K in new])
        with pytest.raises(InvalidInput, match="the kernels and kernels_new have their samples in different orders"):
            own.decision_function(turned.kernels)
        for rigorous in (False, True):
            with pytest.raises(InvalidInput, match="kernels and the solution have their samples in different orders"):
                certify(turned, own, rigorous=rigorous)
            certify(problem, own, rigorous=rigorous)


def test_points_are_certified_by_the_names_of_samples_and_kernels(y, grams):
    names = list("abc")
    problem = Problem(stack(grams, names), y)
    solution = solve(problem)
    beta, theta = pd.Series(solution.dual_coef, IDS), pd.Series(solution.weights, names)
    expected = certify(problem, solution.dual_coef, weights=solution.weights)
    assert certify(problem, beta, weights=theta) == expected
    for rigorous in (False, True):
        with pytest.raises(InvalidInput, match="the kernels and dual_coef have their samples in different orders"):
            certify(problem, beta[::-1], weights=theta, rigorous=rigorous)
        with pytest.raises(InvalidInput, match="weights have their kernels in different orders: number 0 is 'a' in"):
            certify(problem, beta, weights=theta[::-1], rigorous=rigorous)
    several = MulticlassProblem(stack(grams), y.map(str))
    duals = pd.DataFrame(solve(several).dual_coef, columns=IDS)
    certify(several, duals)
    with pytest.raises(InvalidInput, match="the kernels and dual_coef have their samples in different orders"):
        certify(several, duals[TURNED])


@pytest.mark.parametrize("regularizer", [Fixed, WeightedL1, lambda w: WeightedLp(2, w), Mahalanobis])
def test_parameters_for_each_kernel_are_compared_by_its_name(y, grams, regularizer):
    names, kernels = list("abc"), stack(grams, list("abc"))
    values = pd.Series([1.0, 2.0, 3.0], names)
    given = pd.DataFrame(np.diag(values), names, names) if regularizer is Mahalanobis else values
    if regularizer is not Mahalanobis:  # a name that pandas takes for an attribute
        odd = ["a", "b", "sample_names"]
        Problem(stack(grams, odd), y, regularizer=regularizer(given.set_axis(odd)))
    for own in (given, given.set_axis(range(3)), given.to_numpy()):
        if regularizer is Mahalanobis and hasattr(own, "columns"):
            own = own.set_axis(own.index, axis=1)
        Problem(kernels, y, regularizer=regularizer(own))
    turned = given.loc[names[::-1], names[::-1]] if regularizer is Mahalanobis else given[::-1]
    with pytest.raises(InvalidInput, match="the kernels and the regularizer have their kernels in different orders"):
        Problem(kernels, y, regularizer=regularizer(turned))


def test_posterior_means_and_mixed_norm_scores_compare_names(y, grams, tmp_path):
    new = [K.iloc[:4] for K in grams]
    turned = [K[TURNED] for K in new]
    evidence = learn(EvidenceProblem(stack(grams), y, 1.0))
    problem = SynthesisProblem(grams, y, lam=0.1, p=1, q=1, r=1).replace(lam=0.2)
    with pytest.raises(InvalidInput, match="y and the kernels have their samples in different orders"):
        SynthesisProblem(stack(grams), y[::-1], lam=0.1, p=1, q=1, r=1)
    with pytest.raises(InvalidInput, match="the kernels and start have their kernels in different orders"):
        learn(EvidenceProblem(stack(grams, list("abc")), y, 1.0), start=pd.Series(1.0, list("cba")))
    synthesis = synthesise(pickle.loads(pickle.dumps(problem)))
    synthesis.save(tmp_path / "synthesis.npz")
    for own in (evidence, synthesis, SynthesisSolution.load(tmp_path / "synthesis.npz")):
        own.decision_function(new)
        with pytest.raises(InvalidInput, match=r"column 0 of kernels_new\[0\] is 's15', training sample 0 is 's0'"):
            own.decision_function(turned)
    squares = pd.DataFrame(np.ones((3, 4)), columns=IDS[:4])
    evidence.posterior(new, squares)
    for wrong in (squares[IDS[3::-1]], [row[::-1] for _, row in squares.iterrows()]):
        with pytest.raises(InvalidInput, match="diagonals have their samples in different orders"):
            evidence.posterior(new, wrong)


def test_scores_of_a_margin_are_those_of_the_targets(y):
    assert margin_risk(0.5 * y, y, 1.0) == 0.5
    with pytest.raises(InvalidTarget, match="scores and y have their samples in different orders"):
        margin_risk(0.5 * y, y[::-1], 1.0)


def test_signed_points_are_compared_by_names(y, grams):
    problem = SignedProblem(stack(grams, list("abc")), y)
    beta, theta = pd.Series(0.1 * y, IDS), pd.Series(problem.trace / problem.traces / 3, list("abc"))
    assert problem.certify(beta, theta) == problem.certify(beta.to_numpy(), theta.to_numpy())
    for wrong in ((beta[::-1], theta), (beta, theta[::-1])):
        with pytest.raises(InvalidInput, match=r"have their (samples|kernels) in different orders"):
            problem.certify(*wrong)


@pytest.mark.parametrize("names", [[["s0"]], [IDS[:-1]], "s0", 3, [[*IDS[:-1], 3]]])
def test_names_in_a_file_that_are_none_of_its_samples_are_refused(y, grams, names, tmp_path):
    solution = solve(Problem(stack(grams), y))
    object.__setattr__(solution, "sample_names", names)
    solution.save(tmp_path / "solution.npz")
    with pytest.raises(UnsafeFile, match="is not a saved Solution"):
        Solution.load(tmp_path / "solution.npz")


@pytest.mark.parametrize(
    ("first", "last", "counts"),
    [(970, 1000, True), (971, 1001, False), (909, 1010, True), (910, 1011, False), (0, 16, True)],
)
def test_numbers_count_rows_below_1000_or_ten_times_as_many_as_there_are(first, last, counts):
    assert _may_count(tuple(map(str, range(first, last)))) is counts
