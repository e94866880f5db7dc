"""Searches: the results of refitting every fold, kernels of folds from their definition, rules, what is refused."""

from __future__ import annotations

import io
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, PredefinedSplit
from sklearn.utils.estimator_checks import check_estimator

from mklref import ElasticNet, MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV, Problem, certify, solve
from mklref.certificate import certify_each
from mklref.estimators import folds, search
from mklref.estimators.gram import part
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidParameter, InvalidTarget, UnsafeFile
from mklref.kernels import parse
from mklref.native.loops import at_most, threads
from mklref.progress import Steps
from mklref.solution import Status

SPECIFICATION = "linear, rbf(1..4, 2)"
NAMES = ("linear", "rbf:1", "rbf:4")
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "as for MKLClassifier; and folds of copies are other folds"
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(66, 4)) * [1.0, 0.5, 2.0, 1.0] + 0.3
    t = np.sin(X[:, 0]) + 0.4 * X[:, 2] + 0.8 * rng.normal(size=66)
    return X, np.where(t > 0.3, "yes", "no"), t


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("method", [None, "trace", "multiplicative", "spherical"])
def test_kernels_of_a_fold_know_nothing_of_its_test_samples(data, method, center):
    """They are those of a family that has seen the training samples alone."""
    X, _, _ = data
    train, test = np.arange(0, 66, 2), np.array([1, 7, 33])
    grams, rows = part(parse(SPECIFICATION).fit(X).dense(), NAMES, train, test, method, center)
    alone = parse(SPECIFICATION).fit(X[train], normalize=method, center=center)
    np.testing.assert_allclose(grams.dense(), alone.dense(), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(rows, alone.new(X[test]), rtol=1e-12, atol=1e-13)


GRID = {"C": [0.05, 0.5, 5.0], "norm": [1.0, 2.0, ElasticNet(0.5)]}


@pytest.mark.parametrize(
    ("options", "scoring"),
    [
        ({}, "roc_auc"),
        ({"normalize": "spherical", "center": True}, "roc_auc"),
        ({"loss": "logistic", "class_weight": "balanced", "normalize": None}, "average_precision"),
        ({}, None),
    ],
)
def test_the_results_of_refitting_every_fold(data, options, scoring):
    X, y, _ = data
    target = y == "yes" if scoring else y
    options = {"kernels": SPECIFICATION, "tol": 1e-7, **options}
    expected = GridSearchCV(MKLClassifier(**options), GRID, cv=3, scoring=scoring).fit(X, target)
    found = MKLClassifierCV(Cs=GRID["C"][::-1], norms=GRID["norm"], cv=3, scoring=scoring, **options).fit(X, target)
    for name in ("mean_test_score", "std_test_score", "split1_test_score"):
        np.testing.assert_allclose(found.cv_results_[name], expected.cv_results_[name], atol=1e-12)
    assert list(found.cv_results_["param_C"]) == list(expected.cv_results_["param_C"])
    np.testing.assert_array_equal(found.cv_results_["rank_test_score"], expected.cv_results_["rank_test_score"])
    assert found.cv_results_["params"] == [
        {"C": row["C"], "norm": row["norm"]} for row in expected.cv_results_["params"]
    ]
    assert {"C": found.C_, "norm": found.norm_} == expected.best_params_
    assert found.best_score_ == pytest.approx(expected.best_score_)
    np.testing.assert_allclose(
        found.decision_function(X), expected.best_estimator_.decision_function(X), rtol=0, atol=1e-10
    )
    np.testing.assert_array_equal(found.weights_, found.best_estimator_.weights_)
    assert len(set(found.cv_results_["mean_test_score"])) > 2
    assert found.cv_results_["relative_gap"].max() <= 1e-7


@pytest.mark.parametrize("multiclass", ["joint", "independent"])
def test_several_classes(multiclass):
    X, y = load_iris(return_X_y=True)
    X, names = X[::2] + 0.4 * np.random.default_rng(0).normal(size=(75, 4)), np.array(["a", "b", "c"])[y[::2]]
    options = {"kernels": "linear, rbf(2)", "tol": 1e-8, "multiclass": multiclass, "strategy": "one_vs_one"}
    expected = GridSearchCV(MKLClassifier(**options), {"C": [0.01, 1.0]}, cv=3).fit(X, names)
    found = MKLClassifierCV(Cs=[0.01, 1.0], norms=1.0, cv=3, n_jobs=2, **options).fit(X, names)
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_regression(data):
    X, _, t = data
    options = {"kernels": SPECIFICATION, "tol": 1e-9, "loss": "squared"}
    expected = GridSearchCV(MKLRegressor(**options), {"C": [0.1, 1.0], "norm": [1.0, 2.0]}, cv=KFold(3)).fit(X, t)
    found = MKLRegressorCV(Cs=[0.1, 1.0], norms=[1.0, 2.0], cv=KFold(3), **options).fit(X, t)
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], atol=1e-4)
    assert {"C": found.C_, "norm": found.norm_} == expected.best_params_
    np.testing.assert_allclose(found.predict(X), expected.predict(X), atol=1e-10)


def test_one_standard_error(data):
    X, y, _ = data
    common = {"kernels": SPECIFICATION, "Cs": 6, "norms": [1.0, 2.0], "cv": 4}
    best = MKLClassifierCV(**common).fit(X, y)
    table = pd.DataFrame(best.cv_results_)
    scores = table[[f"split{f}_test_score" for f in range(4)]].to_numpy()
    np.testing.assert_allclose(table["standard_error"], scores.std(axis=1, ddof=1) / 2.0)
    near = table[
        table["mean_test_score"]
        >= table["mean_test_score"][best.best_index_] - table["standard_error"][best.best_index_]
    ]
    expected = near.sort_values(["param_C", "n_kernels"], kind="stable").iloc[0]
    simple = MKLClassifierCV(rule="one_standard_error", **common).fit(X, y)
    assert (simple.C_, simple.norm_) == (expected["param_C"], expected["param_norm"])
    assert simple.C_ < best.C_
    assert best.best_score_ == table["mean_test_score"].max()
    assert table["n_kernels"].between(1, 3).all()
    assert list(table["param_C"].unique()) == pytest.approx(list(np.geomspace(0.01, 100, 6)))


def test_of_equal_C_the_fewest_kernels(data):
    X, y, _ = data
    found = MKLClassifierCV(SPECIFICATION, Cs=[0.4, 2.5], norms=[2.0, 1.0], cv=4, rule="one_standard_error").fit(X, y)
    scores, kernels = found.cv_results_["mean_test_score"], found.cv_results_["n_kernels"]
    assert scores[0] == scores.max()
    assert scores[0] > scores[1] > scores[0] - found.cv_results_["standard_error"][0]
    assert kernels[0] > kernels[1]
    assert (found.C_, found.norm_) == (0.4, 1.0)


def test_weights_of_samples(data):
    """Samples of weight 0 are in no fold; the others weigh in the scores as in the fits."""
    X, y, _ = data
    weight = np.random.default_rng(2).integers(0, 3, size=66).astype(float)
    kept = np.flatnonzero(weight)
    fold = np.arange(66) % 3
    common = {"kernels": SPECIFICATION, "Cs": [0.1, 1.0], "norms": [2.0], "tol": 1e-9}
    found = MKLClassifierCV(cv=PredefinedSplit(fold), **common).fit(X, y, weight)
    train, test = (kept[fold[kept] != 0], kept[fold[kept] == 0])
    for c, C in enumerate([0.1, 1.0]):
        model = MKLClassifier(SPECIFICATION, C=C, norm=2.0, tol=1e-9).fit(X[train], y[train], weight[train])
        assert found.cv_results_["split0_test_score"][c] == pytest.approx(model.score(X[test], y[test], weight[test]))
    assert set(found.support_) <= set(kept)
    with pytest.raises(InvalidParameter, match=r"fold 0 has \d+ training and 0 test samples of positive weight"):
        MKLClassifierCV(cv=PredefinedSplit(fold), **common).fit(X, y, np.where(fold == 0, 0.0, 1.0))


def test_precomputed_kernels_functions_and_groups(data):
    X, y, _ = data
    common = {"Cs": [0.1, 1.0], "norms": [1.0, 2.0], "cv": 3, "tol": 1e-8}
    expected = MKLClassifierCV("linear, poly(2)", **common).fit(X, y)
    K = np.stack([X @ X.T, (X @ X.T + 1.0) ** 2])
    untouched = K.copy()
    for X_like, kernels in (
        (K, "precomputed"),
        (np.moveaxis(K, 0, -1), "precomputed"),
        (X, [lambda A, B: A @ B.T, "poly(2)"]),
    ):
        found = MKLClassifierCV(kernels, **common).fit(X_like, y)
        np.testing.assert_array_equal(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])
        np.testing.assert_allclose(found.decision_function(X_like), expected.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(K, untouched)
    grouped = MKLClassifierCV("per_group(x, per_variable(linear))", Cs=[1.0], norms=["groups", "uniform"], cv=3)
    assert grouped.fit(X, y).norm_ in ("groups", "uniform")
    with pytest.raises(InvalidParameter, match="'spherical' needs k"):
        MKLClassifierCV("precomputed", normalize="spherical").fit(K, y)


def test_saved_as_the_chosen_model(data, tmp_path):
    X, y, _ = data
    found = MKLClassifierCV(SPECIFICATION, Cs=[0.1, 1.0], norms=[1.0], cv=3).fit(X, y)
    found.save(tmp_path / "model.npz")
    loaded = MKLClassifier.load(tmp_path / "model.npz")
    assert (loaded.C, loaded.norm) == (found.C_, found.norm_)
    np.testing.assert_array_equal(loaded.decision_function(X), found.decision_function(X))
    with pytest.raises(UnsafeFile, match=r"load it with MKLClassifier\.load"):
        MKLClassifierCV.load(tmp_path / "model.npz")


def test_solutions_are_certified_together_and_not_taken_at_their_word(data):
    """One that is not what it claims to be is solved afresh; one that claims nothing is left as it is."""
    X, y, _ = data
    problem = Problem(parse(SPECIFICATION).fit(X, normalize="trace"), np.where(y == "yes", 1.0, -1.0))
    problems = [problem, problem.replace(C=30.0, regularizer="l2"), problem, problem]
    solutions = [solve(one, tol=1e-7) for one in problems]
    for k, status in ((2, Status.OPTIMAL), (3, Status.STALLED)):
        solutions[k] = replace(solutions[k], dual_coef=0.9 * solutions[k].dual_coef, status=status)
    found = folds._certified(problems, solutions, (1e-7, 500))
    assert [own.status for own in found] == [Status.OPTIMAL] * 3 + [Status.STALLED]
    assert np.array_equal(found[3].dual_coef, solutions[3].dual_coef)
    assert found[2].objective == pytest.approx(solutions[0].objective, rel=1e-7)
    for one, own in zip(problems, found, strict=True):
        expected = certify(one, own.dual_coef, weights=own.weights, intercept=own.intercept)
        assert own.certificate.lower == pytest.approx(expected.lower, rel=1e-12)
        assert own.objective == own.certificate.upper == pytest.approx(expected.upper, rel=1e-12)
    other = Problem(parse(SPECIFICATION).fit(X, normalize="trace"), problem.y)
    with pytest.raises(InvalidInput, match=r"points\[1\] has another kernel stack"):
        certify_each([(one, solutions[0].dual_coef, None, None) for one in (problem, other)])


def test_a_search_reports_certificates_and_not_claims(data, monkeypatch):
    """The gaps of the table are those that the kernels themselves confirm."""
    X, y, _ = data
    seen = []

    def observed(points):
        seen.extend(certify_each(points))
        return seen[-len(points) :]

    monkeypatch.setattr(folds, "certify_each", observed)
    found = MKLClassifierCV(SPECIFICATION, Cs=[0.01, 1.0], norms=[1.0, 2.0], cv=3).fit(X, y)
    assert len(seen) == 12
    assert found.cv_results_["relative_gap"].max() == max(own.relative_gap for own in seen)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"tol": 0.0}, "tol = 0"), ({"tol": "1e-3"}, "tol = '1e-3'"), ({"max_iter": 2.5}, "max_iter = 2.5")],
)
def test_options_of_the_solver_are_checked_before_the_search(data, monkeypatch, wrong, says):
    monkeypatch.setattr(folds, "run_from", None)
    with pytest.raises(InvalidParameter, match=says):
        MKLClassifierCV(SPECIFICATION, Cs=[1.0], norms=[1.0], cv=3, **wrong).fit(*data[:2])


def test_an_interrupted_search_waits_for_its_folds(data, monkeypatch):
    """A fold that fails, as one that Ctrl-C ends, ends the others before the exception leaves the search."""
    X, y, _ = data
    honest, begun, ended = folds.run_from, [], []

    def observed(problem, start, images, tol, max_iter, deadline, poll):
        begun.append(problem)
        if len(begun) == 2:
            raise KeyboardInterrupt
        try:
            for _ in range(500):  # a long solve, as far as the search can tell
                time.sleep(0.01)
                poll(None)
        except KeyboardInterrupt:
            ended.append(problem)
            raise
        raise AssertionError("nobody ended this fold")

    monkeypatch.setattr(folds, "run_from", observed)
    with pytest.raises(KeyboardInterrupt):
        MKLClassifierCV("linear", Cs=[1.0], norms=[1.0], cv=2, n_jobs=2).fit(X, y)
    assert len(begun) == 2
    assert len(ended) == 1
    monkeypatch.setattr(folds, "run_from", honest)
    MKLClassifierCV("linear", Cs=[1.0], norms=[1.0], cv=2, n_jobs=2).fit(X, y)


def test_a_start_that_leads_nowhere_is_dropped(data, monkeypatch):
    X, y, _ = data
    common = {"kernels": SPECIFICATION, "Cs": [0.1, 1.0], "norms": [1.0], "cv": 3, "tol": 1e-7}
    expected = MKLClassifierCV(**common).fit(X, y)
    honest, starts = folds.run_from, []

    def stuck(problem, start, images, tol, max_iter, *others):
        starts.append(start)
        return honest(problem, start, images, tol, max_iter if start is None else 1, *others)

    monkeypatch.setattr(folds, "run_from", stuck)
    found = MKLClassifierCV(**common).fit(X, y)
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])
    assert any(start is not None for start in starts)
    assert found.cv_results_["relative_gap"].max() <= 1e-7


@pytest.mark.parametrize("multiclass", [False, True])
def test_a_solution_that_no_bound_holds_back_is_not_computed_again(data, monkeypatch, multiclass):
    """Where all |beta_i| < C, a larger C changes nothing: the solution there bounds the problem here as well."""
    X, y, t = data
    y = np.digitize(t, [-0.5, 1.0]) if multiclass else y
    honest, solved = folds.run_from, []

    def observed(problem, *others):
        run, status = honest(problem, *others)
        solved.append((problem, run.solution(status)))
        return run, status

    monkeypatch.setattr(folds, "run_from", observed)
    common = {"kernels": "rbf(0.3..1, 3)", "norms": [1.0], "cv": 3, "tol": 1e-6, "strategy": "one_vs_one"}
    found = MKLClassifierCV(Cs=[0.01, 2.0, 50.0, 100.0], **common).fit(X, y)
    assert [problem.C for problem, _ in solved].count(100.0) == 3
    assert not any(problem.C == 50.0 for problem, _ in solved)
    gaps = found.cv_results_["relative_gap"]
    assert gaps.max() <= 1e-6
    at_the_top = [(problem, solution) for problem, solution in solved if problem.C == 100.0]
    again = [solve(problem.replace(C=50.0), tol=1e-9) for problem, _ in at_the_top]
    for (problem, solution), other in zip(at_the_top, again, strict=True):
        here = problem.replace(C=50.0)
        certificate = (
            here.certify(solution.dual_coef, solution.weights, solution.intercept)
            if multiclass
            else certify(here, solution.dual_coef, weights=solution.weights, intercept=solution.intercept)
        )
        assert certificate.relative_gap <= gaps[2]
        assert other.objective == pytest.approx(solution.objective, rel=1e-5)
    squared = MKLClassifierCV(Cs=[50.0, 100.0], loss="squared_hinge", **common)
    solved.clear()
    squared.fit(X, y)
    assert [problem.C for problem, _ in solved] == [100.0, 50.0] * 3


def test_fits_that_miss_the_tolerance_are_counted(data):
    X, y, _ = data
    model = MKLClassifierCV(
        "rbf(0.5..4, 6), per_variable(rbf(1))", Cs=[1.0, 50.0], norms=[1.0], cv=3, tol=1e-10, max_iter=1
    )
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    assert "6 of 6 fits in the folds did not reach tol = 1e-10; the largest relative gap is" in str(caught[0].message)
    assert model.best_estimator_.max_iter == 1
    assert Status.ITERATION_LIMIT.value in str(caught[1].message)


def test_workers_share_the_threads(data, monkeypatch):
    X, y, _ = data
    monkeypatch.setenv("MKLREF_NUM_THREADS", "5")
    honest, seen = folds.run_from, []

    def observed(*arguments):
        seen.append(threads())
        return honest(*arguments)

    monkeypatch.setattr(folds, "run_from", observed)
    MKLClassifierCV("linear", Cs=[1.0], norms=[1.0], cv=3, n_jobs=2).fit(X, y)
    assert seen == [2, 2, 2]
    with at_most(9):
        assert threads() == 5
    assert threads() == 5


def test_progress_is_shown_and_removed(data, monkeypatch):
    X, y, _ = data
    seen = []

    class Bar:
        def __init__(self, shown, label, total):
            seen.append((shown, label, total))

        def advance(self):
            seen.append("done")

        def close(self):
            seen.append("closed")

    monkeypatch.setattr(search, "Steps", Bar)
    MKLClassifierCV("linear", Cs=[1.0], norms=[1.0], cv=3, verbose=True).fit(X, y)
    assert seen == [(True, "MKLClassifierCV", 3), "done", "done", "done", "closed"]


def test_the_bar_of_steps(monkeypatch):
    """On a terminal it counts; without one, and if it is not shown, nothing is written."""
    import rich.console

    terminal = io.StringIO()
    console = rich.console.Console
    monkeypatch.setattr(rich.console, "Console", lambda stderr: console(file=terminal, force_terminal=True, width=80))
    bar = Steps(True, "folds", 2)
    bar.advance()
    bar.close()
    assert "folds" in terminal.getvalue()
    assert "1/2" in terminal.getvalue()
    silent = Steps(False, "folds", 2)
    silent.advance()
    silent.close()


@pytest.mark.parametrize("estimator", [MKLClassifierCV, MKLRegressorCV])
def test_passes_the_checks(estimator):
    model = estimator("linear, rbf(2)", Cs=[0.1, 1.0], norms=[1.0], cv=2)
    results = check_estimator(model, expected_failed_checks=EXPECTED, on_skip=None, on_fail=None)
    assert len(results) > 45
    failed = {
        result["check_name"]: result["exception"] for result in results if result["status"] in ("xfail", "failed")
    }
    assert set(failed) == set(EXPECTED), failed


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"Cs": 0}, InvalidParameter, "Cs = 0 must be a positive number of values, or the values"),
        ({"Cs": []}, InvalidParameter, r"Cs = \[\] must hold values in \(0, inf\)"),
        ({"Cs": [1.0, -1.0]}, InvalidParameter, r"must hold values in \(0, inf\)"),
        ({"Cs": "1..10"}, InvalidParameter, r"Cs = '1\.\.10' must hold values"),
        ({"scoring": ["accuracy"]}, InvalidParameter, r"scoring = \['accuracy'\] holds several measures; give the one"),
        ({"scoring": "neg_log_loss"}, InvalidParameter, "'neg_log_loss' needs probabilities.*such as 'roc_auc'"),
        ({"cv": GroupKFold(3)}, InvalidParameter, r"needs groups, .* cv=list\(GroupKFold\(...\).split\(X, y, groups"),
        ({"norms": []}, InvalidParameter, "norms is empty; give at least one"),
        ({"norms": [0.5]}, InvalidParameter, r"p = 0.5 must be a number in \[1, inf\]"),
        ({"rule": "1se"}, InvalidParameter, "rule = '1se' is unknown; known are best, one_standard_error"),
        ({"cv": 1}, ValueError, "k-fold cross-validation requires at least one"),
        ({"scoring": "acuracy"}, ValueError, "acuracy"),
        ({"kernels": "rfb(1)"}, InvalidParameter, "'rfb"),
    ],
)
def test_what_is_refused(data, parameters, error, message):
    X, y, _ = data
    with pytest.raises(error, match=message):
        MKLClassifierCV(**{"kernels": "linear", **parameters}).fit(X, y)


def test_data_that_is_refused(data):
    X, y, _ = data
    with pytest.raises(InvalidTarget, match="y holds one class"):
        MKLClassifierCV("linear").fit(X, np.full(66, "yes"))
    a_class_at_a_time = MKLClassifierCV("linear", cv=PredefinedSplit(np.where(y == "yes", 0, 1)))
    with pytest.raises(InvalidTarget, match="fold 0: its training samples are all of the class 'no'"):
        a_class_at_a_time.fit(X, y)


def test_nothing_is_left_of_an_earlier_search(data):
    X, y, _ = data
    model = MKLClassifierCV("linear", Cs=[1.0], norms=np.array(1.0), cv=3)
    assert model.fit(pd.DataFrame(X, columns=list("abcd")), y).kernel_groups_ == {"all variables": (0,)}
    model.fit(X, y).predict(X)  # without a warning about names
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(model.set_params(kernels="precomputed").fit(X @ X.T, y), "kernel_groups_")


def test_a_kernel_that_is_constant_in_a_fold_is_named(data):
    X, y, _ = data
    rare = np.c_[X[:, 0], np.arange(66) == 3]
    with pytest.raises(InvalidKernel, match=r"in a fold kernel 'linear\[x1\]' is constant .* Drop it, standardise"):
        MKLClassifierCV("per_variable(linear)", Cs=[1.0], norms=1.0, cv=KFold(3)).fit(rare, y)


def test_scores_that_are_no_numbers(data):
    X, y, _ = data
    calls = []

    def sometimes(model, X, y):
        calls.append(float(np.mean(model.predict(X) == y)))
        return np.nan if len(calls) == 1 else calls[-1]

    found = MKLClassifierCV("linear", Cs=[0.001, 1.0], norms=[1.0], cv=3, scoring=sometimes).fit(X, y)
    assert found.cv_results_["rank_test_score"].tolist() == [1, 2]
    assert found.C_ == 0.001
    with pytest.raises(InvalidParameter, match=r"gives nan in fold 0: give stratified or fewer folds"):
        MKLClassifierCV("linear", Cs=[1.0], norms=[1.0], cv=3, scoring=lambda model, X, y: np.nan).fit(X, y)
