"""The experiments of Kloft, Szafranski, Kowalski and Tomioka: their parts against definitions, and small cells."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import mklref
from mklref.datasets import PUBLISHED, Dataset, kloft_toy
from mklref.kernels import ArrayStack, linear, per_variable

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from validation.reproduce import report  # noqa: E402
from validation.reproduce.base import Result  # noqa: E402
from validation.reproduce.experiments import (  # noqa: E402
    experiments,
    kloft_examples,
    kowalski_titanic,
    szafranski_channels,
    szafranski_spambase,
    tomioka_evidence,
    tomioka_table1,
)
from validation.reproduce.experiments import kloft_toy as toy  # noqa: E402
from validation.reproduce.experiments.paired import holm  # noqa: E402
from validation.reproduce.experiments.single_variables import SingleVariables  # noqa: E402


@pytest.fixture
def Z():
    return np.random.default_rng(0).normal(size=(12, 4))


def test_single_variables_are_the_kernels_of_rank_one(Z):
    thin, dense = SingleVariables(Z), ArrayStack([np.outer(z, z) for z in Z.T])
    theta, v, index = np.array([0.5, 0.0, 2.0, 1.0]), np.arange(12.0), np.array([3, 7])
    assert thin.shape == dense.shape
    for name, arguments in {"combine": (theta,), "apply": (v,), "quadratic": (v,), "rows": (index,)}.items():
        np.testing.assert_allclose(getattr(thin, name)(*arguments), getattr(dense, name)(*arguments), atol=1e-12)
    np.testing.assert_allclose(thin.dense(), dense.dense())
    np.testing.assert_allclose(thin.traces(), dense.traces())
    factors = thin.factors().stacked
    np.testing.assert_allclose(factors @ factors.T, dense.combine(np.ones(4)), atol=1e-12)


def test_a_cell_of_the_toy_problem_is_that_of_the_native_solver():
    C, relevant = 0.1, 9
    found = toy.cell({"n": 50, "seed": 3, "relevant": [relevant], "costs": [C]})[str(relevant)]
    rng = np.random.default_rng([50, relevant, 3])
    train, _, test = (kloft_toy(rng, size, relevant=relevant) for size in (50, toy.HELD_OUT, toy.HELD_OUT))
    stack = per_variable(linear()).fit(train.X, normalize="multiplicative")
    for name, p in (("4/3", 4 / 3), ("4", 4.0), ("inf", np.inf)):
        solution = mklref.solve(mklref.Problem(stack, train.y, C=C, regularizer=mklref.Lp(p)), tol=1e-9)
        slope = solution.weights * (solution.dual_coef @ (train.X / train.X.var(axis=0)))
        wrong = np.where(test.X @ slope + solution.intercept >= 0.0, 1.0, -1.0) != test.y
        assert found[name]["error"] == pytest.approx(100.0 * wrong.mean(), abs=0.05)
        direction = solution.weights / np.linalg.norm(solution.weights)
        assert found[name]["model error"] == pytest.approx(np.linalg.norm(direction - train.truth / 3.0), abs=1e-3)
        assert found[name]["gap"] <= 1e-3


def test_holm_is_its_definition():
    np.testing.assert_allclose(holm([0.04, 0.001, 0.03]), [0.06, 0.003, 0.06])
    assert holm([0.9, 0.8]).max() == 1.0


def test_the_lowest_error_is_found_and_a_tie_is_not_significant():
    rng = np.random.default_rng(1)
    errors = rng.normal(size=(40, 1)) + 0.1 * rng.normal(size=(40, 5)) + np.array([0.0, 1.0, 1.0, 1.0, 1.0])
    assert toy._wins(errors, 0).holds
    assert not toy._wins(errors, 1).holds
    errors[:, 1] = errors[:, 0]
    assert not toy._wins(errors, 0).holds


def test_radii_and_bounds_of_the_examples():
    values = kloft_examples.cell({"M": 6, "draws": 20, "seed": 0})
    for k, share in enumerate(kloft_examples.SHARES):  # M^((p+1)/(2p)), and (p+1)/p = 2 - share
        assert values["even"]["radius"][k] == pytest.approx(6.0 ** ((2.0 - share) / 2.0))
    assert np.ptp(values["even"]["bound"]) < 1e-12
    assert values["sparse"]["radius"] == pytest.approx(np.ones(len(kloft_examples.SHARES)))


def test_groups_of_spambase_are_those_of_the_paper():
    features = PUBLISHED["spambase"].features
    groups = szafranski_spambase.groups_of(Dataset("spambase", np.zeros((1, 57)), np.zeros(1), features, ""))
    assert [len(group) for group in groups] == [42, 6, 6, 3]
    assert sorted(j for group in groups for j in group) == list(range(57))
    assert sum(len(szafranski_spambase.WIDTHS) * (1 + len(group)) for group in groups) == 244


def test_a_cell_of_spambase_on_bundled_data():
    (first, _) = szafranski_spambase.cells(True)
    config = {**first.config, "costs": [100.0], "train": 40}
    values = szafranski_spambase.cell(config)
    assert values["M"] == 66
    for name in ("MKL", "GKL"):
        assert values[name]["gap"] <= 1e-3
        assert values[name]["accuracy"] == pytest.approx(values[f"{name}, native"]["accuracy"], abs=3.0)
    assert values["SVM"]["kernels"] == 66


def test_titanic_on_generated_data():
    (only,) = kowalski_titanic.cells(True)
    values = kowalski_titanic.cell(dict(only.config))
    for name, found in values["norms"].items():
        assert found["gap"] <= 1e-6
        assert np.array(found["relevance"]).shape == (4, 80)
        assert found["errors"][0] in found["path"], name
    dense, sparse = (values["norms"][name]["shapes"][-1]["exactly zero"] for name in ("2", "21;1"))
    assert dense < 0.01 < sparse


def test_correspondences_of_table_1():
    for name in tomioka_table1.ROWS:
        values = tomioka_table1.cell({"row": name})
        assert values["value"] < 1e-10
        assert values["weight"] < 1e-6


def test_evidence_and_convex_mkl_on_a_small_problem():
    values = tomioka_evidence.cell({"kind": "sparse", "seed": 0, "n": 30, "M": 4, "relevant": 1})
    objectives = [values[name]["objective"] for name in tomioka_evidence.METHODS]
    assert np.ptp(objectives) < 1e-3
    assert all(values[name]["largest increase"] < 1e-9 for name in ("reweighted", "mackay"))
    assert all(0.0 < values[name]["error"] < 1.0 for name in (*tomioka_evidence.METHODS, *tomioka_evidence.CONVEX))


@pytest.mark.parametrize("name", ["kloft-times", "szafranski-channels"])
def test_first_quick_cell_is_summarised_and_drawn(name, tmp_path):
    (experiment,) = experiments([name])
    cell = experiment.cells(True)[0]
    values = experiment.cell(dict(cell.config))
    facts = dict.fromkeys(("date", "mklref", "python", "numpy", "scipy", "scikit-learn", "machine", "cores"), "")
    result = Result(cell.id, dict(cell.config), values, 1.0, {**facts, "load": None})
    shown = report.section(experiment, [result], True, tmp_path)
    assert shown.pictures
    assert any(entry.ours for table in shown.comparison.tables for row in table.rows.values() for entry in row)
    if name == "szafranski-channels":
        assert values["GKL"]["channels"] <= values["MKL"]["channels"] <= 12
        assert max(values[method]["AUC"] for method in szafranski_channels.METHODS) > 60.0
    else:
        assert all(row["finished"] for row in values.values() if isinstance(row, dict))
