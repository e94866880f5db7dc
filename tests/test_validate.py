"""One error for one kind of mistake, whoever is asked.

The recorder: why a run ends, in which order, and what Ctrl-C leaves.
"""

from __future__ import annotations

import importlib
import inspect
import io
import itertools
import math
import pickle
import re
import sys
from contextlib import nullcontext, suppress
from fractions import Fraction
from functools import partial
from typing import NamedTuple
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from makers import make_problem
from rich.console import Console
from sklearn.kernel_approximation import Nystroem

import mklref
from mklref import kernels
from mklref._run import Best, Recorder
from mklref._validate import checked_count, checked_limits, checked_number, checked_positive, checked_tolerance
from mklref.estimators import table_pipeline
from mklref.exceptions import Interrupted, InvalidParameter, InvalidType, MKLError
from mklref.model_selection import evaluate, stability
from mklref.regularizers import BlockNorm, HalfPower, Tikhonov, WeightedLp
from mklref.signed import SignedProblem
from mklref.solution import Status

PROBLEM = make_problem(n=12, M=3)
KINDS = ["2", True, 1j, [1.0], np.ones(1), b"2"]


class OnDevice:
    """An array as CuPy and Torch have them on a device, which NumPy cannot read."""

    shape, ndim, dtype = (12, 2), 2, np.dtype(float)

    def __len__(self):
        return len(PROBLEM.y)

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


NONSENSE = [
    np.array([]),
    np.array(2.5),
    np.full((2, 2), np.nan),
    object(),
    1j,
    10**400,
    10**5000,
    [10**5000],
    np.timedelta64(2, "s"),
    np.ma.masked_array([1.0, 2.0], [False, True]),
    b"x",
    [[1], [2, 3]],
    {"a": None},
    OnDevice(),
]
X = np.random.default_rng(1).normal(size=(12, 2))
K = np.array(PROBLEM.kernels.dense())
FRAME = pd.DataFrame(X, columns=["a", "b"])
FAMILY = kernels.gaussian([1.0, 2.0])

OPTIONS = {
    "polish": lambda value: mklref.solve(PROBLEM, tol=1e-2, polish=value),
    "progress": lambda value: mklref.solve(PROBLEM, tol=1e-2, progress=value),
    "progress of an algorithm": lambda value: mklref.algorithms.simplemkl(PROBLEM, tol=1e-2, progress=value),
    "centered": lambda value: kernels.alignment(K, centered=value),
    "keep": lambda value: kernels.cholesky(FAMILY, X, keep=value),
    "keep of factors": lambda value: kernels.factors({"a": X}, keep=value),
    "keep of groups": lambda value: kernels.column_groups(X, [[0], [1]], keep=value),
    "dtype": lambda value: kernels.column_groups(X, [[0], [1]], keep=True, dtype=value),
    "normalize": lambda value: kernels.column_groups(X, [[0], [1]], normalize=value),
    "groups": lambda value: kernels.column_groups(X, [[0], value]),
    "single_variables": lambda value: kernels.simplemkl_recipe(X, single_variables=value),
    "storage": lambda value: FAMILY.fit(X, storage=value),
    "precision": lambda value: FAMILY.fit(X, storage="lazy", precision=value),
    "degrees": lambda value: kernels.polynomial(value).fit(X),
    "widths": lambda value: kernels.gaussian(value).fit(X),
    "lengths": kernels.spectrum,
    "levels": lambda value: kernels.wavelet(levels=value),
    "kind": lambda value: kernels.wavelet(kind=value),
    "mother": lambda value: kernels.wavelet(mother=value),
    "columns": lambda value: kernels.on("g", value, FAMILY).fit(X),
    "names": lambda value: kernels.DiskStack(K, names=value),
    "names of factors": lambda value: kernels.FactorStack([X, X, X], names=value),
    "matrices": lambda value: kernels.stack(kernels.ArrayStack(value)),
    "factors": kernels.FactorStack,
    "K_new": lambda value: kernels.center(K, value),
    "K_new of one": lambda value: kernels.center(K[0], value),
    "diagonal_new": lambda value: kernels.normalize(K, "spherical", K[:, :2], value),
    "form": lambda value: mklref.ElasticNet(0.5, value),
    "method": lambda value: mklref.algorithms.simplemkl(PROBLEM, stop=value),
    "formulations": lambda value: mklref.crosscheck(PROBLEM, formulations=value),
    "solvers": lambda value: mklref.crosscheck(PROBLEM, solvers=value),
    "Cs": lambda value: mklref.MKLClassifierCV("linear", Cs=value).fit(X, PROBLEM.y),
    "norm": lambda value: mklref.MKLClassifier("linear", norm=value).fit(X, PROBLEM.y),
    "strategy": lambda value: mklref.MKLClassifier("linear", strategy=value).fit(X, PROBLEM.y),
    "sample_weight": lambda value: mklref.MKLClassifier("linear").fit(X, PROBLEM.y, sample_weight=value),
    "verbose": lambda value: mklref.MKLClassifier("linear", verbose=value).fit(X, PROBLEM.y),
    "samples": lambda value: mklref.MKLClassifier("linear").fit(value, PROBLEM.y),
    "samples as a module": lambda value: mklref.MKLClassifier("linear").fit(np, PROBLEM.y),
    "fits": lambda value: mklref.model_selection.stability(mklref.MKLClassifier("linear"), X, PROBLEM.y, fits=value),
    "missing": lambda value: table_pipeline(missing=value).fit(FRAME, PROBLEM.y),
    "folds": lambda value: mklref.MKLClassifierCV("linear", cv=value).fit(X, PROBLEM.y),
    "scoring": lambda value: mklref.MKLClassifierCV("linear", scoring=value).fit(X, PROBLEM.y),
    "test": lambda value: evaluate(mklref.MKLClassifier("linear"), X, PROBLEM.y, test=value),
    "targets": lambda value: mklref.MKLRegressor("linear").fit(X, value),
    "numbers of groups": lambda value: mklref.Groups([[0, value], [2]], 0.5, 0.5),
    "solver": lambda value: mklref.reference.solve(PROBLEM, solver=value),
    "positive": lambda value: mklref.datasets.encode(PROBLEM.y, value),
    "tol of a certificate": lambda value: mklref.certify(PROBLEM, np.zeros(12), tol=value),
    "problem": lambda value: mklref.equivalences.block_norms(value, None),
    "columns of a table": lambda value: table_pipeline(columns=value).fit(FRAME, PROBLEM.y),
    "model": lambda value: table_pipeline(value),
}


@pytest.mark.parametrize("make", OPTIONS.values(), ids=OPTIONS)
def test_nonsense_is_refused_by_an_error_of_this_package(make):
    refused = 0
    for value in NONSENSE:
        try:
            make(value)
        except MKLError:
            refused += 1
    assert refused >= len(NONSENSE) - 2  # 2.5 is a width, 10**400 a width or a column that kernels are not on


INTERVALS = {"Lp": r"p is .*\[1, inf\]", "Problem": r"C is .*\(0, inf\)", "Huber": r"delta is .*\(0, inf\)"}
"""What the error names beside the value."""

NUMBERS = {
    "Lp": lambda value: mklref.Lp(value),
    "Power": lambda value: mklref.Power(value),
    "HalfPower": lambda value: HalfPower(value),
    "BlockNorm": lambda value: BlockNorm(value),
    "Tikhonov": lambda value: Tikhonov(2.0, value),
    "WeightedLp": lambda value: WeightedLp(value, np.ones(3)),
    "ElasticNet": lambda value: mklref.ElasticNet(value),
    "EpsilonInsensitive": lambda value: mklref.EpsilonInsensitive(value),
    "SquaredEpsilonInsensitive": lambda value: mklref.SquaredEpsilonInsensitive(value),
    "Huber": lambda value: mklref.Huber(value),
    "Pinball": lambda value: mklref.Pinball(value),
    "Problem": lambda value: mklref.Problem(PROBLEM.kernels, PROBLEM.y, C=value),
    "solve, tol": lambda value: mklref.solve(PROBLEM, tol=value),
    "solve, max_iter": lambda value: mklref.solve(PROBLEM, max_iter=value),
    "crosscheck": lambda value: mklref.crosscheck(PROBLEM, tol=value),
    "is_optimal": lambda value: mklref.certify(PROBLEM, np.zeros(12)).is_optimal(value),
    "certify": lambda value: mklref.certify(PROBLEM, np.zeros(12), intercept=value),
    "signed": lambda value: SignedProblem(PROBLEM.kernels, PROBLEM.y, trace=value),
    "simplemkl": lambda value: mklref.algorithms.simplemkl(PROBLEM, tol=value),
    "level": lambda value: mklref.algorithms.level(PROBLEM, position=value),
}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: mklref.testing.select(include=3),
        lambda: mklref.testing.select(include=np.array("*")),
        lambda: mklref.testing.select(exclude=np.ones(3)),
        lambda: mklref.testing.Supports(losses=3),
        lambda: mklref.kernels.stack(PROBLEM.kernels.dense(), names=3),
        lambda: mklref.kernels.check_psd(np.eye(2), tolerance="small"),
        lambda: mklref.testing.judge(PROBLEM, np.zeros(12)),
        lambda: mklref.testing.judge(PROBLEM, (np.zeros(12), None, None), tol="small"),
    ],
)
def test_arguments_of_another_kind_are_refused_in_words(wrong):
    with pytest.raises(InvalidType, match=r"give a|expected"):
        wrong()


def test_what_is_no_path_closes_no_file(tmp_path):
    """open(3) is the file that happens to have this number, and the end of `with` closes it."""
    with (tmp_path / "own").open("w") as own, pytest.raises(TypeError):
        mklref.kernels.gene_sets(own.fileno())


USUAL = {"problem": PROBLEM, "kernels": PROBLEM.kernels, "y": PROBLEM.y, "X": np.eye(3), "path": "nowhere"}


def documented(function):
    """The names in the first lines of what the section Raises lists, of a class perhaps that of its base; or none."""
    texts = "\n\n".join(inspect.getdoc(one) or "" for one in getattr(function, "__mro__", [function]))
    raises = re.search(r"Raises\n-+\n(.*?)(?:\n\n|\Z)", texts, re.DOTALL)
    return set(re.findall(r"\w+", " ".join(re.findall(r"^\S.*$", raises[1], re.MULTILINE)))) if raises else set()


@pytest.mark.parametrize("module", ["", ".kernels", ".losses", ".regularizers", ".testing", ".bounds", ".datasets"])
def test_docstrings_name_every_error_of_an_argument_that_makes_no_sense(module):
    """Where a docstring lists errors: None, a text, no number, a negative one, nothing, for each argument in turn."""
    module = importlib.import_module(f"mklref{module}")
    undocumented = set()
    for name in module.__all__:
        function = getattr(module, name)
        if not callable(function) or not (listed := documented(function)):
            continue
        parameters = inspect.signature(function).parameters.values()
        needed = [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
        usual = {argument: USUAL.get(argument, 1.0) for argument in needed}
        for argument, wrong in itertools.product(usual, (None, "abc", np.nan, -1.0, [])):
            given = usual | {argument: wrong}
            first = [given.pop(p.name) for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)]
            try:
                function(*first, **given)
            except Exception as error:  # noqa: BLE001 - of whatever kind
                of_a_path = "path" in usual and isinstance(error, OSError | TypeError)
                if not of_a_path and not listed & {kind.__name__ for kind in type(error).__mro__}:
                    undocumented.add(f"{name}({argument}={wrong!r}): {type(error).__name__}")
    assert not undocumented


@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_no_number_is_a_wrong_type(name):
    for kind in KINDS if name in ("certify", "signed") else [None, *KINDS]:
        if name == "certify" and isinstance(kind, np.ndarray):  # scikit-learn's `intercept_`
            continue
        with pytest.raises(InvalidType, match=r"is .*; give a") as caught:
            NUMBERS[name](kind)
        assert re.match(INTERVALS.get(name, ""), str(caught.value))


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_outside_of_its_interval_is_a_wrong_parameter(name):
    with pytest.raises(InvalidParameter if name != "solve, max_iter" else InvalidType):
        NUMBERS[name](np.nan)


def test_numbers_of_any_kind_are_taken():
    assert checked_positive("x", np.float32(0.5)) == 0.5
    assert checked_positive("x", np.int64(3)) == 3.0
    assert checked_count("x", np.int8(3), 1, "some.") == 3
    assert checked_number("x", np.inf, "[1, inf]", "any.") == np.inf


@pytest.mark.parametrize("interval", ["[0, 1]", "(0, 1]", "[0, 1)", "(0, 1)"])
def test_an_end_is_inside_where_its_bracket_is_square(interval):
    for end, bracket in ((0.0, interval[0]), (1.0, interval[-1])):
        with nullcontext() if bracket in "[]" else pytest.raises(InvalidParameter, match="must lie in"):
            checked_number("x", end, interval, "any.")


@pytest.mark.parametrize("tol", [0.0, 1.0])
def test_with_neither_0_nor_1_is_anything_checked(tol):
    with pytest.raises(InvalidParameter, match=rf"tol = {tol} must lie in \(0, 1\)"):
        checked_tolerance("tol", tol)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, Fraction])
def test_tolerances_and_limits_of_any_kind_are_those_of_python(kind):
    problem = PROBLEM.replace(C=1e9)  # the optimum is beyond float16
    tol, seconds = kind(0.0078125), kind(512.0)
    expected = mklref.solve(problem, tol=float(tol))
    found = mklref.solve(problem, tol=tol, max_time=seconds, max_iter=np.int8(100))
    assert found.status is expected.status is Status.OPTIMAL
    assert found.certificate == expected.certificate
    check = mklref.crosscheck(PROBLEM, formulations=["dual"], solvers=["CLARABEL"], tol=tol, max_time=seconds)
    assert check.passed
    assert [type(x) for x in checked_limits(tol, "a gap", np.int8(100), seconds, False)] == [float, int, float]


@pytest.mark.parametrize("huge", [10**400, -(10**400)])
def test_an_integer_beyond_float64_is_outside_and_is_not_printed(huge):
    with pytest.raises(InvalidParameter, match=r"x = an integer beyond 1e\+30 must lie in \[1, inf\]") as caught:
        checked_number("x", huge, "[1, inf]", "any.")
    assert len(str(caught.value)) < 100


def recorder(**options) -> Recorder:
    return Recorder("testing", **{"tol": 1e-6, "max_iter": 100, **options})


def test_max_iter_may_be_the_largest_integer():
    assert mklref.solve(PROBLEM, max_iter=sys.maxsize).status is mklref.Status.OPTIMAL
    with pytest.raises(InvalidParameter, match=r"max_iter = \d+ must be below 2\^63"):
        mklref.solve(PROBLEM, max_iter=sys.maxsize + 1)


def test_max_iter_is_the_number_of_records():
    run = recorder(max_iter=3)
    assert [run.add(k, 1.0) for k in range(3)] == [None, None, Status.ITERATION_LIMIT]
    assert run.records == [0, 1, 2]


def test_each_start_has_as_many_records():
    run = recorder(max_iter=2)
    ends = []
    for _ in range(3):
        run.again()
        ends.append([run.add(0, 1.0), run.add(1, 1.0)])
    assert ends == [[None, Status.ITERATION_LIMIT]] * 3


LABELS, HIDDEN = np.tile([-1.0, 1.0], 6), np.arange(12) == 3
CLASSIFIER, REGRESSOR = mklref.MKLClassifier("linear"), mklref.MKLRegressor("linear")


@pytest.mark.parametrize(
    ("argument", "hidden", "use"),
    [
        ("y", LABELS, lambda y: CLASSIFIER.fit(X, LABELS).score(X, y)),
        ("sample_weight", np.ones(12), lambda weight: CLASSIFIER.fit(X, LABELS).score(X, LABELS, weight)),
        ("y", LABELS, lambda y: REGRESSOR.fit(X, LABELS).score(X, y)),
        ("y", LABELS, lambda y: evaluate(CLASSIFIER, X, y)),
        ("y", LABELS, lambda y: evaluate(REGRESSOR, X, y)),
        ("params['sample_weight']", np.ones(12), lambda w: evaluate(REGRESSOR, X, LABELS, params={"sample_weight": w})),
        ("y", LABELS, lambda y: stability(CLASSIFIER, X, y, fits=2)),
        ("y", LABELS, mklref.datasets.encode),
        ("y", LABELS, lambda y: kernels.diagnose([X @ X.T], y)),
        ("X", X.T[0], lambda x: kernels.factors({"some": Nystroem(n_components=2)}, x[:, None])),
        ("matrices holds", X.T[0], lambda x: kernels.DiskStack([x[:, None] * x])),
    ],
)
def test_no_mask_is_lost(argument, hidden, use):
    use(hidden)
    with pytest.raises(InvalidType, match=rf"{re.escape(argument)}( is)? a masked array; its mask would be lost"):
        use(np.ma.array(hidden, mask=HIDDEN))


def test_reached_comes_before_a_stop_and_both_before_the_limits():
    run = recorder(max_iter=1, max_time=0.0, callback=lambda record: True)
    assert run.late
    assert run.add(0, 1.0, Status.STATIONARY) is Status.STATIONARY
    assert run.add(1, 1.0) is Status.STOPPED
    run.callback = None
    assert run.add(2, 1.0) is Status.TIME_LIMIT
    run.deadline = math.inf
    assert run.add(3, 1.0) is Status.ITERATION_LIMIT


@pytest.mark.parametrize("best", ["the best so far", None])
def test_an_interrupt_carries_the_best_point_and_closes_the_line(best, monkeypatch):
    closed = []
    run = recorder()
    monkeypatch.setattr(run._line, "close", lambda: closed.append(True))
    with pytest.raises(Interrupted) as caught, run.running(lambda: best):
        raise KeyboardInterrupt
    assert caught.value.solution == best
    with pytest.raises(ZeroDivisionError), run.running(lambda: best):
        raise ZeroDivisionError
    assert closed == [True, True]


class Point(NamedTuple):
    lower: float
    upper: float

    @property
    def gap(self) -> float:
        return self.upper - self.lower


def test_a_copy_of_an_interrupt_says_the_same():
    """As from another process: the message was taken for the solution, and stood in itself."""
    told = Interrupted(mklref.solve(PROBLEM, tol=1e-2), [], "the cluster was lost")
    copied = pickle.loads(pickle.dumps(told))
    assert (str(copied), copied.path, copied.because) == (str(told), [], "the cluster was lost")
    assert copied.solution.objective == told.solution.objective


def test_a_line_that_ctrl_c_has_cut_off_leaves_the_place_to_the_next_one(monkeypatch):
    """Interrupted while it was made, before anybody could close it: no other line was ever shown."""
    monkeypatch.setattr("rich.console.Console", partial(Console, file=io.StringIO(), force_interactive=True))
    with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
        patched.setattr("rich.progress.Progress.start", Mock(side_effect=KeyboardInterrupt))
        Recorder("test", tol=1e-6, max_iter=1, progress=True)
    assert Recorder("test", tol=1e-6, max_iter=1, progress=True)._line._bar, "and this one was not closed, either"
    line = Recorder("test", tol=1e-6, max_iter=1, progress=True)._line
    assert line._bar
    assert not Recorder("test", tol=1e-6, max_iter=1, progress=True)._line._bar, "one at a time"
    line.close()


def test_the_end_of_a_line_that_is_not_shown_runs_nothing_in_which_ctrl_c_would_be_lost():
    """Python ignores what is raised while an object ends: a solve went on after Ctrl-C."""
    assert not hasattr(Recorder("test", tol=1e-6, max_iter=1)._line, "__del__")


def test_the_best_bounds_may_be_those_of_different_points():
    best: Best[Point] = Best()
    points = [Point(0.0, 9.0), Point(4.0, 7.0), Point(5.0, 10.0), Point(-1.0, 6.0)]
    assert [best.note(point) for point in points] == points
    assert best.point == Point(4.0, 7.0)
    assert (best.lower, best.upper) == (5.0, 6.0)
