"""Every problem that can be stated is in every format the same problem, with the same certificate."""

from __future__ import annotations

from functools import cache
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from makers import make_problem
from scipy.io import savemat

from mklref import certify, solve
from mklref.cli import main
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType, NotApplicable
from mklref.kernels import center, column_groups, gaussian, linear, normalize, stack
from mklref.multiclass import STRATEGIES, MulticlassProblem
from mklref.problem import Problem
from mklref.signed import SignedProblem
from mklref.testing.vectors import problem_from_record, read_problem, read_record, record_of_problem, write_record
from mklref.testing.vectors.check import check_directory, read_answer

FORMATS = ("npz", "mat", "json", "h5")


@cache
def single() -> tuple[Any, ...]:
    """Gaussian kernels of nearly one point, whose rounding to float32 leaves eigenvalues of -1e-7."""
    X = np.random.default_rng(0).normal(size=(24, 3))
    t = ((X[:, None] - X) ** 2).sum(axis=2)
    return tuple(np.exp(-width * t).astype(np.float32) for width in (1e-3, 2e-3))


Y = np.where(np.random.default_rng(1).normal(size=24) > 0.0, 1.0, -1.0)
CLASSES = np.arange(24) % 3
STATED = {
    "float32": lambda: Problem(single(), Y),
    "float32, one on one": lambda: MulticlassProblem(single(), CLASSES, strategy="one_vs_one", C=3.0),
    "float32, a part": lambda: Problem(stack(single()).part(np.arange(0, 24, 2)), Y[::2]),
    **{f"float32, {how}": lambda how=how: Problem(normalize(single(), how), Y) for how in ("trace", "spherical")},
    "float32, centred": lambda: Problem(center(single()), Y),
    "of samples": lambda: make_problem(n=24, loss="logistic", sample_weight=np.linspace(0.5, 2.0, 24)),
    "evaluated": lambda: Problem((gaussian([0.5, 2.0]) + linear()).fit(CLASSES[:, None] + 1.0, storage="lazy"), Y),
    "factors": lambda: Problem(column_groups(np.random.default_rng(2).normal(size=(24, 4)), [[0, 1], [2, 3]]), Y),
    "classes": lambda: MulticlassProblem(make_problem(n=24).kernels, CLASSES, intercept=False),
    "two classes": lambda: MulticlassProblem(make_problem(n=24).kernels, Y > 0.0, strategy="one_vs_one"),
}


@cache
def solved(name: str) -> tuple[Problem, Any]:
    problem = STATED[name]()
    return problem, solve(problem)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("name", STATED)
def test_problem_and_answer_come_back(name, ending, tmp_path):
    problem, found = solved(name)
    write_record(tmp_path / f"p.{ending}", record_of_problem(problem))
    answer = {"dual_coef": found.dual_coef, "weights": found.weights, "intercept": found.intercept}
    write_record(tmp_path / f"s.{ending}", answer)
    back = read_problem(tmp_path / f"p.{ending}")
    kernels = problem.kernels.dense()
    assert (type(back), back.kernels.dtype) == (type(problem), kernels.dtype)
    np.testing.assert_array_equal(back.kernels.dense(), kernels)
    np.testing.assert_array_equal(back.y, problem.y)
    for one, own in zip(back.machines, problem.machines, strict=True):
        np.testing.assert_array_equal(one.problem.y, own.problem.y)
        np.testing.assert_array_equal(one.samples, own.samples)
    read = read_answer(tmp_path / f"s.{ending}", back)
    dense = problem.replace(kernels=np.array(kernels))  # what a file does not have is how its kernels came about
    given = {"weights": found.weights, "intercept": found.intercept}
    assert certify(back, read.dual_coef, weights=read.weights, intercept=read.intercept) == certify(
        dense, found.dual_coef, **given
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("saved", ["npz", "mat", "json"])
@pytest.mark.parametrize("name", ["classes", "two classes"])
def test_several_machines_go_from_file_to_file(name, saved, tmp_path, run):
    problem, _ = solved(name)
    (tmp_path / "p").mkdir()
    (tmp_path / "s").mkdir()
    stated, answer = str(tmp_path / "p" / "one.json"), str(tmp_path / "s" / f"one.{saved}")
    write_record(stated, record_of_problem(problem))
    assert f"{len(problem.machines)} machine" in run(["solve", "--data", stated, "--save", answer]).out
    for more in ([], ["--rigorous"]):
        assert main(["certify", stated, answer, *more]) == 0
    assert check_directory(tmp_path / "p", tmp_path / "s", rigorous=True).passed
    wrong = {**read_record(stated), "C": 7.0}
    write_record(stated, wrong)
    assert main(["certify", stated, answer]) == 1


def test_matrices_of_matlab_7_3_lie_on_their_side(tmp_path):
    """As those that `h5py` sees of `save -v7.3`; so do samples, which the older format did not keep as a matrix."""
    problem, found = solved("classes")
    X = np.random.default_rng(0).normal(size=(24, 2))
    for name, values in {"s": {"dual_coef": found.dual_coef, "weights": found.weights[None]}, "x": {"X": X}}.items():
        path = tmp_path / f"{name}.mat"
        with h5py.File(path, "w", userblock_size=512) as file:
            for entry, value in values.items():
                file[entry] = value.T
        path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(512, b" ") + path.read_bytes()[512:])
    np.testing.assert_array_equal(read_answer(tmp_path / "s.mat", problem).dual_coef, found.dual_coef)
    np.testing.assert_array_equal(read_record(tmp_path / "x.mat")["X"], X)


@pytest.mark.parametrize("variables", [1, 2])
def test_samples_in_a_mat_file_are_certified(variables, tmp_path):
    X = np.random.default_rng(0).normal(size=(24, variables))
    found = solve(Problem(linear().fit(X), Y))
    savemat(tmp_path / "x.mat", {"X": X, "y": Y})
    found.save(tmp_path / "s.npz")
    assert main(["certify", "--data", str(tmp_path / "x.mat"), "--kernels", "linear", str(tmp_path / "s.npz")]) == 0


def test_data_without_a_problem_have_their_dtype_too(tmp_path, run):
    record = {"kernels": np.array(single()), "y": Y, "kernels_dtype": "float32"}
    write_record(tmp_path / "data.json", record)
    assert "C = 2" in run(["solve", "--data", str(tmp_path / "data.json"), "--C", "2", "--p", "2"]).out


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"kernels_dtype": "float16"}, InvalidParameter, "kernels_dtype = 'float16' is unknown; known names: float32"),
        ({"kernels_dtype": "float32"}, InvalidInput, "kernels holds numbers that float32 does not; leave kernels_dt"),
        ({"kernels_dtype": 4.0}, InvalidParameter, "kernels_dtype = 4.0 is unknown"),
        ({"strategy": "all"}, InvalidParameter, "strategy = 'all' is unknown; known names: one_vs_rest, one_vs_one"),
        ({"strategy": 1.0}, InvalidParameter, "strategy = 1.0 is no text"),
        ({"strategy": STRATEGIES[0], "loss": "squared"}, InvalidParameter, "takes no labels"),
    ],
)
def test_what_is_wrong_with_types_and_classes_is_said(changes, error, said):
    record = {"kernels": np.array([[[0.1, 0.0], [0.0, 0.3]]]), "y": [1.0, -1.0]}
    problem_from_record(record)
    with pytest.raises(error, match=said):
        problem_from_record({**record, **changes})


def test_what_no_file_states_is_refused():
    """A problem with weights of any sign was written as one whose weights are nonnegative."""
    K = make_problem(n=6).kernels.dense()
    with pytest.raises(InvalidType, match=r"problem is SignedProblem.*certificate of its own"):
        record_of_problem(SignedProblem(K, np.array([1.0, -1.0] * 3)))
    named = MulticlassProblem(K, list("abcabc"), strategy="one_vs_one")
    with pytest.raises(NotApplicable, match=r"y holds classes of <U1; .* problem.replace\(y=np.searchsorted"):
        record_of_problem(named)
    back = problem_from_record(record_of_problem(named.replace(y=np.searchsorted(named.classes, named.y))))
    for one, own in zip(back.machines, named.machines, strict=True):
        np.testing.assert_array_equal(one.problem.y, own.problem.y)
        np.testing.assert_array_equal(one.samples, own.samples)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ending", FORMATS)
def test_names_come_back_and_are_compared_by_file(ending, tmp_path):
    ids, names = [f"naïve {i}" for i in range(24)], ["a, b", 'c"']
    grams = [pd.DataFrame(K, ids, ids) for K in single()]
    y = pd.Series(Y, ids)
    problem = Problem(stack(grams, names), y)
    path, answer = tmp_path / f"problem.{ending}", tmp_path / f"answer.{ending}"
    write_record(path, record_of_problem(problem))
    back = read_problem(path)
    assert back.kernels.sample_names == (tuple(ids),)
    assert back.kernels.names == tuple(names)
    with pytest.raises(InvalidInput, match="y and the kernels have their samples in different orders"):
        Problem(back.kernels, y[::-1])
    assert main(["solve", "--data", str(path), "--save", str(answer)]) == 0
    assert main(["certify", str(path), str(answer)]) == 0
    turned = [K.iloc[::-1, ::-1] for K in grams]
    for other in (Problem(stack(turned, names), y[::-1]), Problem(stack(grams[::-1], names[::-1]), y)):
        write_record(path, record_of_problem(other))
        with pytest.raises(InvalidInput, match=r"answer\.\w+ have their (samples|kernels) in different orders"):
            read_answer(answer, read_problem(path))


def test_names_of_a_stack_in_a_record_are_its_own():
    ids = [f"s{i}" for i in range(24)]
    record = record_of_problem(Problem(stack([pd.DataFrame(K, ids, ids) for K in single()], ["a", "b"]), Y))
    own = stack([pd.DataFrame(K, ids, ids) for K in single()], ["a", "b"])
    assert problem_from_record({**record, "kernels": own}).kernels is own
    plain = stack(single())
    assert problem_from_record({**record, "kernels": plain}).kernels.sample_names == (tuple(ids),)
    turned = stack([pd.DataFrame(K, ids[::-1], ids[::-1]) for K in single()])
    for other, what in ((turned, "samples"), (stack(single(), ["b", "a"]), "kernels")):
        with pytest.raises(InvalidInput, match=f"have their {what} in different orders"):
            problem_from_record({**record, "kernels": other})
    assert turned.sample_names == (tuple(ids[::-1]),)


@pytest.mark.parametrize("names", ["[", "3", '[["a"]]', '["a", "b"]', 4.0, np.ones(2), '[["a", 1]]', '[{"a": "b"}]'])
@pytest.mark.parametrize("which", ["sample_names", "kernel_names"])
def test_what_are_no_names_is_refused(names, which):
    record = record_of_problem(Problem(single(), Y))
    with pytest.raises(InvalidInput, match=rf"^{which} is no JSON of names, such as \[\[\"a\", \"b\"\]\] of two: "):
        problem_from_record({**record, which: names})
