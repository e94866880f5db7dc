"""Ctrl-C, a real signal at a chosen moment, and limits: searches, evaluations and resampling return what there is."""

from __future__ import annotations

import sys
from concurrent.futures import CancelledError, Future
from unittest.mock import Mock

import joblib
import numpy as np
import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from mklref import Interrupted, MKLClassifier, MKLClassifierCV, MKLOneClass, MKLRegressorCV
from mklref.estimators import base, cross_validation, folds, workers
from mklref.exceptions import InterruptedWarning, InvalidParameter, SolverFailure
from mklref.model_selection import evaluate, stability

GRID = {"kernels": "linear, rbf(2)", "Cs": [0.1, 1.0, 10.0], "norms": [1.0, 2.0], "cv": KFold(3)}


@pytest.fixture(scope="module")
def whole(samples):
    return MKLClassifierCV(**GRID).fit(*samples[:2])


@pytest.mark.parametrize(("n_jobs", "solves"), [(1, 9), (1, 15), (2, 13)])
def test_a_search_chooses_by_the_folds_that_are_finished(samples, whole, interrupt, tmp_path, n_jobs, solves):
    X, y, _ = samples
    interrupt(folds, "run_from", solves)
    with pytest.warns(InterruptedWarning, match=r"after \d+ of 18 fits in the folds.* are the best of what [12] of 3"):
        found = MKLClassifierCV(**GRID, n_jobs=n_jobs).fit(X, y)
    assert found.interrupted_
    assert not whole.interrupted_
    scores, expected = (np.array([own.cv_results_[f"split{f}_test_score"] for f in range(3)]) for own in (found, whole))
    there = np.isfinite(scores)
    np.testing.assert_array_equal(scores[there], expected[there])
    assert 6 <= there.sum() < 18
    finished = there.all(axis=1)
    means = expected[finished].mean(axis=0)
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], means)
    assert found.best_score_ == pytest.approx(means.max())
    plain = MKLClassifier(GRID["kernels"], C=found.C_, norm=found.norm_, tol=1e-3).fit(X, y)
    np.testing.assert_array_equal(found.decision_function(X), plain.decision_function(X))
    found.set_params(cv=3).save(tmp_path / "m.npz")
    assert MKLClassifierCV.load(tmp_path / "m.npz").interrupted_


def test_without_a_finished_fold_the_candidates_of_the_first_are_compared(samples, whole, interrupt):
    X, y, _ = samples
    interrupt(folds, "run_from", 4)
    with pytest.warns(InterruptedWarning, match=r"after \d of 18 fits in the folds.* are the best of what 1 of 3"):
        found = MKLClassifierCV(**GRID).fit(X, y)
    scored = np.isfinite(found.cv_results_["mean_test_score"])
    assert 1 <= scored.sum() < 6
    assert scored[found.best_index_]
    np.testing.assert_array_equal(
        found.cv_results_["split0_test_score"][scored], whole.cv_results_["split0_test_score"][scored]
    )
    assert np.isnan(found.cv_results_["split1_test_score"]).all()


def test_the_last_fit_is_taken_as_it_is_by_then(samples, monkeypatch, interrupt):
    """Its certificate says how good it is."""
    X, _, t = samples
    monkeypatch.setattr(base, "poll", lambda record: None)
    interrupt(base, "poll", 2)
    honest = base.solve
    monkeypatch.setattr(base, "solve", lambda problem, **options: honest(problem, **{**options, "tol": 1e-13}))
    with pytest.warns(match="did not reach tol"):
        found = MKLRegressorCV("rbf(0.5..4, 6)", Cs=[1.0], norms=[1.0], cv=2).fit(X, t)
    assert found.interrupted_
    assert found.certificate_.relative_gap < 1.0


@pytest.mark.parametrize("stage", ["normalized", "solve"])
def test_a_search_that_is_done_is_not_lost_before_its_last_fit(samples, whole, interrupt, stage):
    X, y, _ = samples
    interrupt(base, stage, 1)
    found = MKLClassifierCV(**GRID).fit(X, y)
    assert found.interrupted_
    np.testing.assert_array_equal(found.decision_function(X), whole.decision_function(X))


def test_nothing_to_return_is_an_exception_that_says_so(samples, interrupt):
    X, y, _ = samples
    interrupt(folds, "run_from", 1)
    with pytest.raises(Interrupted, match="no point yet"):
        MKLClassifierCV(**GRID).fit(X, y)
    for ask in (evaluate, stability):
        interrupt(base, "solve", 1)
        with pytest.raises(KeyboardInterrupt):
            ask(MKLClassifier("linear"), X, y)


ASKS = {evaluate: "test", stability: "fits"}
MODEL = MKLClassifier("linear, rbf(2)", tol=1e-3)


@pytest.fixture(scope="module")
def expected(samples):
    return {ask: ask(MODEL, *samples[:2], **{name: 12}) for ask, name in ASKS.items()}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_fits_that_are_finished_are_what_an_evaluation_and_resampling_tell(samples, expected, interrupt, n_jobs):
    X, y, _ = samples
    for ask, name in ASKS.items():
        interrupt(base, "solve", 4)  # threads may finish some more before it arrives
        with pytest.warns(InterruptedWarning, match=rf"{ask.__name__} was interrupted: \d+ of 12 fits"):
            found = ask(MODEL, X, y, **{name: 12}, n_jobs=n_jobs)
        assert found.interrupted
        assert not expected[ask].interrupted
        if ask is stability:
            assert 2 <= len(found.weights) <= (3 if n_jobs == 1 else 12)
            assert all(any(np.array_equal(row, own) for own in expected[ask].weights) for row in found.weights)
        else:
            assert 0 < len(found.rows) <= (18 if n_jobs == 1 else 66)
            places = [int(np.flatnonzero(expected[ask].rows == row)[0]) for row in found.rows]
            np.testing.assert_array_equal(found.scores, expected[ask].scores[places])


def test_a_search_that_is_interrupted_inside_an_evaluation_ends_it(samples, interrupt):
    X, y, _ = samples
    interrupt(folds, "run_from", 4)
    with pytest.warns(InterruptedWarning) as told:
        found = evaluate(MKLClassifierCV(**GRID), X, y, test=3)
    assert "evaluate was interrupted: 1 of 3 fits" in str(told[-1].message)
    assert found.interrupted
    assert len(found.rows) == 22


def test_the_number_of_jobs_changes_nothing(samples):
    X, _, t = samples
    y = np.digitize(t, [-0.5, 1.0])
    model = MKLClassifier("linear, rbf(2)", multiclass="independent", strategy="one_vs_one")
    one, two = (model.set_params(n_jobs=n_jobs).fit(X, y).decision_function(X) for n_jobs in (None, 2))
    np.testing.assert_array_equal(one, two)
    search = MKLClassifierCV("linear, rbf(2)", Cs=[0.1, 1.0], norms=[1.0], cv=3)
    one, two = (evaluate(search.set_params(n_jobs=n_jobs), X, y, test=3, n_jobs=n_jobs).scores for n_jobs in (None, 2))
    np.testing.assert_array_equal(one, two)


def test_a_process_that_is_killed_and_a_backend_without_generators_are_said_so(samples, monkeypatch):
    X, y, _ = samples
    search = MKLClassifierCV(**GRID, n_jobs=2)
    words = "joblib.parallel_config: .*give the backend 'threading' or 'loky'"
    with joblib.parallel_config(backend="multiprocessing"), pytest.raises(InvalidParameter, match=words):
        search.fit(X, y)

    class KilledWorker(Exception):
        """Dask's, of which that of a lost scheduler derives from the one of concurrent.futures."""

    for raised, says in (  # by joblib, where the system has killed a process of loky, and by Dask
        (TerminatedWorkerError("A worker process was unexpectedly terminated."), "a process was killed"),
        (KilledWorker("attempted to run task on 4 different workers"), "a worker of the cluster died at a task"),
        (CancelledError("scheduler-connection-lost"), "the connection to its scheduler, was lost; connect again"),
    ):
        monkeypatch.setattr(workers, "Parallel", Mock(return_value=Mock(side_effect=raised)))
        with pytest.raises(SolverFailure, match=f"n_jobs = 2: .*{says}"):
            search.fit(X, y)


def test_a_task_of_dask_whose_worker_died_ends_the_waiting():
    class Backend:
        """joblib's: it sets the exception of a future, and calls nobody."""

        def submit(self, batch, callback):
            return batch

    backend, told, good, bad = Backend(), [], Future(), Future()
    for _ in range(2):
        workers.answering(backend)
    assert [backend.submit(future, told.append) for future in (good, bad)] == [good, bad]
    good.set_result(1)
    assert not told
    bad.set_exception(ZeroDivisionError("of a worker"))
    (out,) = told
    assert out is bad.exception()  # which joblib raises, as any exception that it is told


def test_folds_that_ctrl_c_left_out_of_a_candidate_count_for_what_there_is():
    """The first two folds decide, as every candidate has them; kernels and gaps are those of all fits."""

    def row(*numbers):
        return [None if one is None else folds.Point(*one, optimal=True, constant=()) for one in numbers]

    rows = [row((0.5, 1.0, 1e-3), (0.7, 3.0, 1e-4), None), row((0.8, 2.0, 1e-5), (0.6, 2.0, 1e-4), (0.0, 5.0, 1e-2))]
    found = cross_validation.chosen([(1.0, 1.0), (2.0, 1.0)], rows, "best", None)
    assert (found.best, found.scored, found.missed, found.folds) == (1, 5, 0, 2)
    np.testing.assert_allclose(found.results["mean_test_score"], [0.6, 0.7])
    np.testing.assert_allclose(found.results["n_kernels"], [2.0, 3.0])
    np.testing.assert_allclose(found.results["relative_gap"], [1e-3, 1e-2])


def test_a_second_ctrl_c_leaves_the_model_as_it_was_too(monkeypatch):
    """While the first one was dealt with: an estimator without parameters was left."""
    model = MKLClassifier("linear")
    before = dict(vars(model))

    def second(frame, event, called):
        if event == "c_return" and frame.f_code.co_name == "_fitting":
            raise KeyboardInterrupt

    def first(*_, **options):
        sys.setprofile(second)
        raise KeyboardInterrupt

    monkeypatch.setattr(base, "solve", first)
    try:
        with pytest.raises(KeyboardInterrupt):
            model.fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    finally:
        sys.setprofile(None)
    assert vars(model) == before


def test_iteration_limit_is_said():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    model = MKLClassifier("rbf:0.5..4:6,per-variable", norm=1.0, C=50.0, tol=1e-9, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="did not reach tol = 1e-09: The iteration limit came first"):
        model.fit(X, X[:, 0] * X[:, 1] > 0)
    assert not model.certificate_.is_optimal(1e-9)


@pytest.mark.parametrize("multiclass", ["one class", "joint", "independent"])
def test_time_limit_is_said(three_classes, multiclass):
    X, y, _ = three_classes
    given = {"tol": 1e-12, "max_time": 1e-9}
    one, kernels = multiclass == "one class", "rbf(0.5..4, 6), per_variable(rbf(1))"
    model = MKLOneClass(kernels, **given) if one else MKLClassifier(kernels, C=50.0, multiclass=multiclass, **given)
    with pytest.warns(ConvergenceWarning, match=r"tol = 1e-12: The time limit came first: .* relative gap") as caught:
        model.fit(X, y)
    certificates = np.atleast_1d(np.array(model.certificate_, dtype=object))
    assert len(caught) == len(certificates) == (3 if multiclass == "independent" else 1)
    assert not any(certificate.is_optimal(1e-12) for certificate in certificates)


@pytest.mark.parametrize(("n_jobs", "rounds"), [(None, 3), (2, 2), (3, 1)])
def test_machines_that_are_solved_one_after_the_other_share_the_time(three_classes, calls_of, n_jobs, rounds):
    X, y, _ = three_classes
    limits = calls_of(base, "solve", lambda problem, **given: given["max_time"])
    MKLClassifier("linear", multiclass="independent", n_jobs=n_jobs, max_time=3e6).fit(X, y)
    assert limits == [limits[0]] * 3
    assert 0.0 < limits[0] < 3e6 / rounds
    MKLClassifier("linear", multiclass="independent", n_jobs=n_jobs).fit(X, y)
    assert limits[3:] == [np.inf] * 3
