"""The folds of a search: certificates, starts, interruption, threads, progress."""

from __future__ import annotations

import io
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from mklref import MKLClassifier, MKLClassifierCV, Problem, certify, solve
from mklref._progress import Steps
from mklref._threads import at_most, threads
from mklref.certificate import certify_each
from mklref.estimators import folds, workers
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType
from mklref.kernels import lazy, parse
from mklref.solution import Status

SPECIFICATION = "linear, rbf(1..4, 2)"


def test_solutions_are_certified_together_and_not_taken_at_their_word(samples):
    """One that is not what it claims to be is solved afresh; one that claims nothing is left as it is."""
    X, y, _ = samples
    problem = Problem(parse(SPECIFICATION).fit(X, normalize="trace"), np.where(y == "yes", 1.0, -1.0))
    problems = [problem, problem.replace(C=30.0, regularizer="l2"), problem, problem]
    solutions = [solve(one, tol=1e-7) for one in problems]
    for k, status in ((2, Status.OPTIMAL), (3, Status.STALLED)):
        solutions[k] = replace(solutions[k], dual_coef=0.9 * solutions[k].dual_coef, status=status)
    found = folds._certified(problems, solutions, (1e-7, 500, None, None))
    assert [own.status for own in found] == [Status.OPTIMAL] * 3 + [Status.STALLED]
    assert np.array_equal(found[3].dual_coef, solutions[3].dual_coef)
    assert found[2].objective == pytest.approx(solutions[0].objective, rel=1e-7)
    for one, own in zip(problems, found, strict=True):
        expected = certify(one, own.dual_coef, weights=own.weights, intercept=own.intercept)
        assert own.certificate.lower == pytest.approx(expected.lower, rel=1e-12)
        assert own.objective == own.certificate.objective == pytest.approx(expected.objective, rel=1e-12)
    other = Problem(parse(SPECIFICATION).fit(X, normalize="trace"), problem.y)
    with pytest.raises(InvalidInput, match=r"points\[1\] has another kernel stack"):
        certify_each([(one, solutions[0].dual_coef, None, None) for one in (problem, other)])


def test_a_search_reports_certificates_and_not_claims(samples, monkeypatch):
    """The gaps of the table are those that the kernels themselves confirm."""
    X, y, _ = samples
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
    [({"tol": 0.0}, "tol = 0"), ({"tol": "1e-3"}, "tol is '1e-3'"), ({"max_iter": 2.5}, "max_iter is 2.5")],
)
def test_options_of_the_solver_are_checked_before_the_search(samples, monkeypatch, wrong, says):
    monkeypatch.setattr(folds, "run_from", None)
    with pytest.raises((InvalidParameter, InvalidType), match=says):
        MKLClassifierCV(SPECIFICATION, Cs=[1.0], norms=[1.0], cv=3, **wrong).fit(*samples[:2])


def test_an_interrupted_search_waits_for_its_folds(samples, monkeypatch):
    """A fold that fails, as one that Ctrl-C ends, ends the others before the exception leaves the search."""
    X, y, _ = samples
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


def test_a_start_that_leads_nowhere_is_dropped(samples, monkeypatch):
    X, y, _ = samples
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
def test_a_solution_that_no_bound_holds_back_is_not_computed_again(samples, monkeypatch, multiclass):
    """Where all |beta_i| < C, a larger C changes nothing: the solution there bounds the problem here as well."""
    X, y, t = samples
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


@pytest.mark.parametrize(
    ("limit", "says", "status"),
    [
        ({"max_iter": 1}, "Raise max_iter, or leave", Status.ITERATION_LIMIT),
        ({"max_time": 1e-9}, "Raise max_iter or max_time, or leave", Status.TIME_LIMIT),
    ],
)
def test_fits_that_miss_the_tolerance_are_counted(samples, limit, says, status):
    X, y, _ = samples
    model = MKLClassifierCV(
        "rbf(0.5..4, 6), per_variable(rbf(1))", Cs=[1.0, 50.0], norms=[1.0], cv=3, tol=1e-10, **limit
    )
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    assert "6 of 6 fits in the folds did not reach tol = 1e-10; the largest relative gap is" in str(caught[0].message)
    assert says in str(caught[0].message)
    assert limit.items() <= model.best_estimator_.get_params().items()
    assert status.value in str(caught[1].message)


def test_a_fit_in_a_fold_has_its_time_once(monkeypatch):
    """Its machines share it, and one that a start has led to its end is not followed by a fresh one."""
    X, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 3
    honest, seen = folds.run_from, []

    def observed(problem, start, forms, tol, max_iter, deadline, callback):
        seen.append((start is None, deadline - time.perf_counter()))
        return honest(problem, start, forms, tol, max_iter, 0.0, callback)

    monkeypatch.setattr(folds, "run_from", observed)
    given = {"Cs": [1.0, 2.0], "norms": [1.0], "tol": 1e-12, "multiclass": "independent"}
    model = MKLClassifierCV(SPECIFICATION, cv=2, max_time=3e6, **given)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert [fresh for fresh, _ in seen] == 2 * [True, True, True, False, False, False]
    assert all(0.9e6 < left <= 1e6 for _, left in seen)


def test_workers_share_the_threads(samples, monkeypatch, calls_of):
    X, y, _ = samples
    monkeypatch.setenv("MKLREF_NUM_THREADS", "5")
    seen = calls_of(folds, "run_from", lambda *_: threads())
    MKLClassifierCV("linear", Cs=[1.0], norms=[1.0], cv=3, n_jobs=2).fit(X, y)
    assert seen == [2, 2, 2]
    with at_most(9):
        assert threads() == 5
    assert threads() == 5


def test_progress_is_shown_and_removed(samples, monkeypatch):
    X, y, _ = samples
    seen = []

    class Bar:
        def __init__(self, shown, label, total):
            seen.append((shown, label, total))

        def advance(self):
            seen.append("done")

        def close(self):
            seen.append("closed")

    monkeypatch.setattr(workers, "Steps", Bar)
    MKLClassifierCV("linear", Cs=[1.0], norms=[1.0], cv=3, verbose=True).fit(X, y)
    assert seen == [(True, "MKLClassifierCV", 3), "done", "done", "done", "closed"]


@pytest.mark.parametrize("kernels", [SPECIFICATION, [lambda X, Z: X @ Z.T]], ids=["definite", "checked"])
@pytest.mark.parametrize("verbose", [False, True])
def test_the_means_of_kernels_that_are_not_kept_have_a_progress_line(samples, monkeypatch, kernels, verbose):
    """They cost an evaluation of all entries, before the line of the solver begins."""
    seen = []

    class Bar(Steps):
        def __init__(self, shown, label, total):
            seen.append(shown)
            super().__init__(False, label, total)

    monkeypatch.setattr(lazy, "Steps", Bar)
    monkeypatch.setattr(lazy, "rows_at_once", lambda rows, width: 8)
    X, y, _ = samples
    MKLClassifier(kernels, storage="lazy", verbose=verbose).fit(X, y)
    assert seen[0] is verbose


@pytest.mark.parametrize("place", ["terminal", "dumb", "pipe", "nowhere"])
def test_the_bar_of_steps(place, monkeypatch):
    """On a terminal it counts; without one that moves its cursor, and if it is not shown, nothing is written."""
    import rich.console

    monkeypatch.setenv("TERM", "dumb" if place == "dumb" else "xterm")
    terminal, console = io.StringIO(), rich.console.Console
    kind = {"file": terminal, "force_terminal": place != "pipe", "width": 80}
    monkeypatch.setattr(rich.console, "Console", lambda stderr: console(**kind))
    bar = Steps(place != "nowhere", "folds", 2)
    bar.advance()
    bar.close()
    if place == "terminal":
        assert "folds" in terminal.getvalue()
        assert "1/2" in terminal.getvalue()
    else:
        assert terminal.getvalue() == ""
