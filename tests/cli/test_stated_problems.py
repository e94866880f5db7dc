"""`mklref solve` on a file that states a whole problem: its loss, C, regulariser and weights, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from mklref import Problem, certify
from mklref.cli import main
from mklref.losses import EpsilonInsensitive
from mklref.regularizers import Lp, Tikhonov
from mklref.solution import Solution
from mklref.testing import vectors
from mklref.testing.vectors.schema import record_of_problem


@pytest.fixture
def stated(tmp_path):
    """A problem that differs from every default, and its file."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(15, 2))
    K = np.stack([X @ X.T, (1.0 + X @ X.T) ** 2])
    problem = Problem(
        K, X[:, 0] + 0.3 * rng.normal(size=15), C=2.5, loss=EpsilonInsensitive(0.2), regularizer=Lp(1.5),
        intercept=False, sample_weight=rng.uniform(0.5, 2.0, size=15),
    )  # fmt: skip
    return problem, tmp_path


@pytest.mark.parametrize("suffix", [".npz", ".json", ".mat"])
def test_the_problem_of_the_file_is_solved(stated, suffix, capsys):
    problem, folder = stated
    vectors.write_record(folder / f"problem{suffix}", record_of_problem(problem))
    assert main(["solve", "--data", str(folder / f"problem{suffix}"), "--save", str(folder / "found.npz")]) == 0
    assert "epsilon_insensitive:0.2, Lp(1.5), C = 2.5" in capsys.readouterr().out
    found = Solution.load(folder / "found.npz")
    assert certify(problem, found.dual_coef, weights=found.weights, intercept=found.intercept).is_optimal(1e-6)


def test_a_regularizer_that_is_no_ball_is_solved_too(stated, capsys):
    problem, folder = stated
    vectors.write_record(folder / "problem.npz", record_of_problem(problem.replace(regularizer=Tikhonov(1, 0.3))))
    assert main(["solve", "--data", str(folder / "problem.npz"), "--C", "2.5"]) == 0
    assert "Tikhonov" in capsys.readouterr().out
    assert main(["solve", "--data", str(folder / "problem.npz"), "--p", "2"]) == 2
    assert "--p 2.0 contradicts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--C", "100"], "--C 100.0 contradicts {file}, which has 2.5"),
        (["--p", "1"], "--p 1.0 contradicts {file}, which has 1.5"),
        (["--loss", "hinge"], "--loss hinge contradicts {file}, which has epsilon_insensitive"),
        (["--samples", "10"], "--samples does not go with {file}, which states a whole problem"),
        (["--seed", "0"], "--seed does not go with {file}"),
        (["--normalize", "trace"], "--normalize does not go with {file}"),
    ],
)
def test_options_that_contradict_the_file_are_named(stated, options, said, capsys):
    problem, folder = stated
    file = folder / "problem.npz"
    vectors.write_record(file, record_of_problem(problem))
    assert main(["solve", "--data", str(file), *options]) == 2
    assert said.format(file=file) in capsys.readouterr().err


def test_a_name_that_is_not_in_the_schema_is_refused_with_the_file(stated, capsys):
    problem, folder = stated
    vectors.write_record(folder / "problem.npz", {**record_of_problem(problem), "wieghts": np.ones(2)})
    assert main(["solve", "--data", str(folder / "problem.npz")]) == 2
    assert "wieghts" in capsys.readouterr().err


def test_other_commands_do_not_take_a_part_of_a_stated_problem(stated, capsys):
    problem, folder = stated
    vectors.write_record(folder / "problem.npz", record_of_problem(problem))
    assert main(["crosscheck", "--data", str(folder / "problem.npz")]) == 2
    assert "states a problem of its own (" in capsys.readouterr().err
