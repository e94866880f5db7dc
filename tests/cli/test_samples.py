"""`mklref certify --data`: an answer of any solver on samples, for kernels that are evaluated when they are read."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mklref import Lp, Problem, solve
from mklref.cli import main
from mklref.kernels import parse

SPEC = "rbf(1, 3), linear, per_variable(rbf(1))"


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=60) > 0.0, 1.0, -1.0)
    problem = Problem(parse(SPEC).fit(X, normalize="trace"), y, C=50.0, regularizer=Lp(2))
    answer = solve(problem, tol=1e-8)
    np.savez(tmp_path / "x.npz", X=X, y=y, C=50.0)
    np.savez(tmp_path / "answer.npz", dual_coef=answer.dual_coef, weights=answer.weights, intercept=answer.intercept)
    return tmp_path


def certify(files, *options):
    return main(["certify", "--data", str(files / "x.npz"), str(files / "answer.npz"), *options])


def test_an_answer_on_samples_is_certified(files, capsys):
    options = ["--kernels", SPEC, "--normalize", "trace", "--p", "2"]
    assert certify(files, *options) == 0
    assert "CERTIFIED" in capsys.readouterr().out
    assert certify(files, *options, "--rigorous", "--save", str(files / "c.json")) == 0
    assert "by a theorem positive semidefinite (tier 1). The rounding errors of" in capsys.readouterr().out
    assert "recipe" in json.loads((files / "c.json").read_text())["data"]["kernels"]
    assert certify(files, "--kernels", SPEC, "--p", "2") == 1
    assert "NOT OPTIMAL" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "--data FILE goes with --kernels SPEC"),
        (["--kernels", SPEC, "--C", "3"], "both say C"),
        (["--kernels", "spectrum(2)"], "takes texts, X holds numbers"),
    ],
)
def test_options_that_do_not_fit(files, capsys, options, says):
    assert certify(files, *options) == 2
    assert says in capsys.readouterr().err
    assert main(["certify", str(files / "answer.npz")]) == 2
    assert main(["certify", str(files / "x.npz"), str(files / "answer.npz"), "--p", "2"]) == 2


def test_samples_without_targets_are_named(files, capsys):
    with np.load(files / "x.npz") as held:
        X = held["X"]
    np.savez(files / "x.npz", X=X)
    assert certify(files, "--kernels", SPEC) == 2
    assert "needs X (n, d) and y, and no kernels; it has X." in capsys.readouterr().err
