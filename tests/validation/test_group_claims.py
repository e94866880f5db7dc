"""What decides the claims of Szafranski's and Tomioka's experiments: each holds where it should, and can fail."""

from __future__ import annotations

import numpy as np
import pytest

import mklref
from mklref.kernels import ArrayStack
from validation.reproduce.base import Result
from validation.reproduce.experiments import (
    spambase_causes,
    spambase_claims,
    spambase_parts,
    szafranski_channels,
    szafranski_spambase,
    tomioka_evidence,
)


def _spambase(count=10, **changed):
    """Splits on which every sentence of 6.1 holds, but for what is changed: name -> quantity -> values."""
    rng = np.random.default_rng(0)
    bases = {"SVM": (93.0, 244, 0.1), "GKL": (93.0, 230, 6.0), "MKL": (90.0, 130, 9.0)}  # accuracy, kernels, seconds
    splits = []
    for k in range(count):
        values = {"n": 322}
        for name, (accuracy, kernels, seconds) in bases.items():
            row = {
                "accuracy": accuracy + rng.normal(scale=0.1),
                "kernels": kernels + k % (3 if name == "GKL" else 2),
                "by group": [172, 28, 28, 16],
                "shares": [0.4, 0.1, 0.2, 0.3],
                "pulls": [1.0, 1.0, 1.0, 1.0],
                "C": 1000.0,
                "seconds": seconds,
                "gap": 1e-4,
            }
            for named in (name, {"MKL": spambase_parts.SIMPLEMKL, "GKL": spambase_parts.WRAPPER}.get(name, name)):
                values[named] = {**row, **{q: v[k] for q, v in changed.get(named, {}).items()}}
        config = {"part": 0, "seed": k, "data": spambase_parts.SPAM}
        splits.append(Result(f"split-{k:02d}", config, values, 1.0, {}))
    return splits


def test_sentences_of_spambase_hold_where_they_should():
    found = spambase_claims.claims(_spambase())
    assert [name for name, evidence in found.items() if not (evidence.holds and evidence.decided)] == []


@pytest.mark.parametrize(
    ("claim", "changed"),
    [
        ("mkl-worse", {"GKL": {"accuracy": 90.1 + np.arange(10) % 2}, "MKL": {"accuracy": 90.9 - np.arange(10) % 2}}),
        ("svm-gkl", {"GKL": {"accuracy": 92.0 + 0.01 * np.arange(10)}}),
        ("svm-gkl", {"GKL": {"accuracy": 94.0 + 0.01 * np.arange(10)}}),
        ("mkl-sparser", {"MKL": {"kernels": 231 + (-1) ** np.arange(10)}}),
        ("all-groups", {"GKL": {"by group": [[172, 28 * (k != 3), 28, 16] for k in range(10)]}}),
        ("gkl-faster", {"MKL, SimpleMKL": {"seconds": [60.0] * 10, "gap": [0.01] * 10}}),
        ("gkl-faster", {"MKL, SimpleMKL": {"seconds": [5.0] * 10}}),
        ("svm-fastest", {"SVM": {"seconds": [0.1] * 9 + [3.0]}}),
        ("simplemkl-finishes", {"MKL, SimpleMKL": {"gap": [1e-4] * 9 + [0.01]}}),
    ],
)
def test_sentences_of_spambase_fail_where_they_should(claim, changed):
    found = spambase_claims.claims(_spambase(**changed))
    assert not found[claim].holds


def test_few_splits_decide_no_test_and_a_counterexample_does():
    slow = {"MKL, SimpleMKL": {"seconds": [500.0] * 10, "gap": [0.01] * 10}}
    found = spambase_claims.claims(_spambase(4, **slow))
    assert not found["gkl-faster"].holds
    assert not found["gkl-faster"].decided
    gone = {"GKL": {"by group": [[172, 0, 28, 16]] * 10}, **slow}
    few = spambase_claims.claims(_spambase(4, **gone))
    assert all(few[name].decided for name in ("all-groups", "simplemkl-finishes"))
    assert all(evidence.decided for evidence in spambase_claims.claims(_spambase(**gone)).values())


@pytest.mark.parametrize(("ahead", "decided"), [(0.0, False), (-1.0, True)])
def test_methods_that_no_test_tells_apart_leave_mkl_undecided(ahead, decided):
    """As long as GKL is not behind it, either."""
    luck = np.random.default_rng(1).normal(size=10)
    found = spambase_claims.claims(_spambase(GKL={"accuracy": 90.0 + ahead + 0.3 * luck}))["mkl-worse"]
    assert (found.holds, found.decided) == (False, decided)


def test_the_table_has_the_luck_of_a_test_set():
    splits = _spambase(15)
    summary = szafranski_spambase.summary(splits)
    for name in spambase_parts.METHODS:
        accuracy = [r.values[name]["accuracy"] for r in splits]
        assert summary.tables["table1"][name]["accuracy"] == accuracy
        assert summary.shared[f"table1/{name}/accuracy"] == pytest.approx(np.std(accuracy, ddof=1))
    assert szafranski_spambase.summary(splits[:1]).shared == {}


def test_weights_of_the_wrapper_do_not_decide_which_groups_are_left():
    wrapped = {"by group": [[172, 0, 28, 16]] * 10, "kernels": np.arange(10)}
    found = spambase_claims.claims(_spambase(**{spambase_parts.WRAPPER: wrapped}))
    assert found["all-groups"].holds
    assert found["mkl-sparser"].holds


def test_a_group_without_the_largest_pull_has_no_weight():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 6))
    y = np.where(X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=40) > 0.0, 1.0, -1.0)
    train, groups = np.array([np.outer(x, x) for x in X.T]), [[0, 1], [2, 3], [4, 5]]
    problem = mklref.Problem(ArrayStack(list(train)), y, C=1.0, regularizer=mklref.Groups(groups, 0.5, 0.5))
    solution = mklref.solve(problem, tol=1e-6)
    pulls = spambase_parts.pulls(solution.dual_coef, train, groups)
    shares = [float(solution.weights[group].sum()) for group in groups]
    assert [share > 0.0 for share in shares] == [True, True, False]
    for pull, share in zip(pulls, shares, strict=True):
        assert (pull > 0.999) == (share > 0.0)


@pytest.mark.thorough
def test_looks_at_the_causes_of_spambase_on_bundled_data(monkeypatch):
    monkeypatch.setattr(spambase_causes, "STEPS", (2, 6))
    first = dict(szafranski_spambase.cells(True)[0].config)
    shared = {**first, "group": "cause", "costs": [1.0, 100.0]}
    readings = szafranski_spambase.cell({**shared, "look": "readings", "parts": [0, 1]})
    assert all(len(found) == 2 and min(found) > 70.0 for found in readings.values())
    joined = szafranski_spambase.cell({**shared, "look": "groups", "parts": [0, 1]})
    assert joined["n"] == 2 * first["train"]
    for solution in joined["solutions"]:
        assert solution["gap"] <= 1e-6
        assert all(
            (pull > 0.999) == (count > 0) for pull, count in zip(solution["pulls"], solution["by group"], strict=True)
        )
    closed = szafranski_spambase.cell({**shared, "look": "closed form", "parts": [0], "C": 100.0})
    gaps = [closed[str(steps)]["gap"] for steps in spambase_causes.STEPS]
    assert gaps == sorted(gaps, reverse=True)
    assert closed["simplemkl from there"]["gap"] < gaps[0]


def test_a_tolerance_that_the_start_meets_is_seen():
    config = {**szafranski_channels.cells(True)[0].config, "n": 60, "C": 10.0, "tols": [1e3, 1e-4]}
    start, end = szafranski_channels.cell(config)["tolerances"]
    assert not start["moved"]
    assert start["kernels"] == 72
    assert end["moved"]
    assert end["kernels"] < 72


def _channels(**changed):
    """Ten repetitions on which every sentence of 6.2 holds, but for what is changed."""
    rng = np.random.default_rng(0)
    results = []
    for k in range(10):
        values = {"truth": [1, 0]}
        for name, auc, channels, kernels in (("SVM", 83.0, 64, 896), ("MKL", 82.0, 50, 100), ("GKL", 84.0, 24, 130)):
            row = {"AUC": auc + 0.1 * rng.normal(), "channels": channels, "kernels": kernels, "answering": 8, "C": 1.0}
            row |= {"by channel": [1.0, 0.0], "residual": 1e-4, "status": "STATIONARY"}
            values[name] = {**row, **{q: v[k] for q, v in changed.get(name, {}).items()}}
        results.append(Result(f"p300-{k:02d}", {"channels": 64}, values, 1.0, {}))
    return szafranski_channels.summary(results).claims


@pytest.mark.parametrize(
    ("claim", "changed"),
    [
        (None, {}),
        ("similar", {"SVM": {"AUC": [75.0] * 10}}),
        ("gkl-best", {"MKL": {"AUC": 83.9 + np.arange(10) % 3 / 10}}),
        ("fewer-channels", {"GKL": {"channels": [50 + (-1) ** k for k in range(10)]}}),
        ("more-kernels", {"GKL": {"kernels": [99] * 9 + [896]}}),
        ("stationary", {"GKL": {"status": ["STATIONARY"] * 9 + ["TIME_LIMIT"]}}),
    ],
)
def test_sentences_of_the_channels_fail_where_they_should(claim, changed):
    assert [name for name, found in _channels(**changed).items() if not found.holds] == ([claim] if claim else [])


def _evidence(**changed):
    """Eight repetitions on which every sentence about evidence holds, but for what is changed in MacKay's or others."""
    results = []
    for kind in tomioka_evidence.KINDS:
        for k in range(tomioka_evidence.FEWEST):
            values = {}
            for name in (*tomioka_evidence.METHODS, *tomioka_evidence.CONVEX, tomioka_evidence.TRUE):
                convex, plain = name in tomioka_evidence.CONVEX, name == "sum of kernels"
                values[name] = {
                    "error": (0.1 if plain and kind == "dense" else 0.3 if convex else 0.2)
                    + 0.001 * (k % (2 + convex)),
                    "kernels": 9 - k % 2 if convex else 3,
                    "weights": [0.7, 0.3],
                    "seconds": 0.1,
                    "iterations": 20,
                    "objective": -10.0,
                    "status": "STATIONARY",
                    "largest increase": -1e-12,
                    "iterations until near": 10,
                    "slowest": {"factor": 0.9, "share": 1e-6},
                }
                values[name] |= {q: v[k] for q, v in changed.get(name, {}).items()}
            results.append(Result(f"{kind}-{k}", {"kind": kind, "M": 20, "relevant": 3}, values, 1.0, {}))
    return tomioka_evidence.summary(results).claims


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("claims", "changed"),
    [
        ([], {}),
        (["bound"], {"reweighted": {"largest increase": [-1.0] * 7 + [1e-6]}}),
        (["bound"], {"reweighted": {"status": ["STATIONARY"] * 7 + ["STALLED"]}}),
        (["mackay-converges"], {"mackay": {"iterations until near": [10] * 3 + [200] * 5}}),
        (["mackay-monotone"], {"mackay": {"largest increase": [-1.0] * 7 + [1e-6]}}),
        (["mackay-stationary"], {"mackay": {"status": ["STATIONARY"] * 7 + ["ITERATION_LIMIT"]}}),
        (["same-ends"], {"mackay": {"objective": [-10.0] * 3 + [-9.0] * 5}}),
        (["sparser"], {"reweighted": {"kernels": [1] * 7 + [90]}}),
        (["dense-sum"], {"sum of kernels": {"error": [0.1] * 4 + [0.35] * 4}}),
    ],
)
def test_sentences_about_evidence_fail_where_they_should(claims, changed):
    assert [name for name, found in _evidence(**changed).items() if not found.holds] == claims
