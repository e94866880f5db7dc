"""Problems survive pickle and copies; solutions are saved without pickle and loaded with suspicion."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from makers import rewrite
from synthesis.cases import make_problem

from mklref import Solution
from mklref.exceptions import UnsafeFile
from mklref.synthesis import SynthesisSolution, solve

COPIES = {"pickle": lambda thing: pickle.loads(pickle.dumps(thing)), "copy": copy.copy, "deepcopy": copy.deepcopy}


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("constant", [False, True])
def test_copies_of_a_problem(name, constant):
    problem = make_problem((2, 1, 2), loss="logistic", kind="rectangular", constant=constant, C=0.7)
    other = COPIES[name](problem)
    assert repr(other) == repr(problem)
    assert (other.norm, other.loss, other.constant) == (problem.norm, problem.loss, constant)
    np.testing.assert_array_equal(other.kernels, problem.kernels)
    np.testing.assert_array_equal(other.y, problem.y)
    assert np.shares_memory(other.kernels, problem.kernels) is (name == "copy" and not constant)
    with pytest.raises(ValueError, match="read-only"):
        other.kernels[0, 0, 0] = 1.0
    with pytest.raises(AttributeError, match="frozen"):
        other.lam = 2.0
    with pytest.raises(AttributeError, match="frozen"):
        del other.lam


@pytest.fixture(scope="module")
def solution():
    return solve(make_problem((2, 1, 2), kind="rectangular", constant=True, lam=0.5), tol=1e-4)


@pytest.fixture
def saved(solution, tmp_path):
    path = tmp_path / "saved.npz"
    solution.save(path)
    return path


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_a_solution(solution, name):
    other = COPIES[name](solution)
    np.testing.assert_array_equal(other.coef, solution.coef)
    assert (other.certificate, other.status) == (solution.certificate, solution.status)


@pytest.mark.parametrize("name", ["model.npz", "model"])
def test_round_trip(solution, tmp_path, name, rng):
    solution.save(tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    loaded = SynthesisSolution.load(str(tmp_path / name))
    for field in ("coef", "dual_coef"):
        np.testing.assert_array_equal(getattr(loaded, field), getattr(solution, field))
    for field in ("objective", "certificate", "status", "constant", "solver", "bias"):
        assert getattr(loaded, field) == getattr(solution, field)
    assert len(loaded.history) == 0
    new = rng.normal(size=(3, 4, 9))
    np.testing.assert_array_equal(loaded.decision_function(new), solution.decision_function(new))
    problem = make_problem((2, 1, 2), kind="rectangular", constant=True, lam=0.5)
    assert len(solve(problem, start=loaded, tol=1e-4).history) == 1


def test_files_are_json_and_plain_arrays(saved):
    with np.load(saved, allow_pickle=False) as archive:
        assert sorted(archive.files) == ["coef", "dual_coef", "facts"]
        assert json.loads(archive["facts"].tobytes())["format"] == "mklref-synthesis-1"


@pytest.mark.parametrize(
    ("arrays", "facts", "says"),
    [
        ({}, {"format": "mklref-synthesis-9"}, "has format 'mklref-synthesis-9'; this version reads 'mklref-synth"),
        ({}, {"format": None}, r"is not a saved SynthesisSolution: KeyError\('format'\)"),
        ({}, {"status": "FINE"}, r"is not a saved SynthesisSolution: KeyError\('FINE'\)"),
        ({}, {"objective": "much"}, "is not a saved SynthesisSolution"),
        ({}, {"objective": 10**400}, "is beyond float64"),
        ({}, {"constant": 1}, "constant = 1 is no bool"),
        ({}, {"certificate": {"lower": 1.0}}, "the fields of Bounds are lower, upper"),
        ({"coef": np.ones(9)}, {}, r"coef: expected a float64 matrix, found float64 of shape \(9,\)"),
        ({"coef": np.ones((1, 9))}, {}, r"coef \(1, 9\) does not go with constant = True"),
        ({"coef": np.ones((3, 0))}, {}, r"coef \(3, 0\) does not go with"),
        ({"coef": np.ones((4, 9), dtype=np.float32)}, {}, "found float32"),
        ({"coef": np.full((4, 9), np.nan)}, {}, r"coef\[0, 0\] is nan"),
        ({"dual_coef": np.ones((2, 2))}, {}, r"dual_coef: expected a float64 vector, found float64 of shape \(2, 2\)"),
        ({"dual_coef": None}, {}, "its arrays are coef; expected coef, dual_coef"),
        ({"weights": np.ones(3)}, {}, "its arrays are coef, dual_coef, weights; expected coef, dual_coef"),
        ({}, {"optimal": True}, "its facts are .*optimal.*; expected"),
    ],
)
def test_foreign_files_are_refused(saved, arrays, facts, says):
    rewrite(saved, arrays, facts)
    with pytest.raises(UnsafeFile, match=says):
        SynthesisSolution.load(saved)


def test_solutions_of_another_type_are_named(saved):
    with pytest.raises(UnsafeFile, match=r"holds a SynthesisSolution: load it with mklref\.synthesis\.SynthesisSol"):
        Solution.load(saved)
    rewrite(saved, facts={"format": "mklref-solution-1"})
    with pytest.raises(UnsafeFile, match=r"holds a Solution: load it with mklref\.Solution\.load"):
        SynthesisSolution.load(saved)
