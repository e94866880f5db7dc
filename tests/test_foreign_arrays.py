"""Arrays of other libraries are taken, or refused with the call that makes them arrays of NumPy, wherever one is given.

Those of libraries that are not installed are played by classes that do what theirs do.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import dask.array
import numpy as np
import pytest
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler

import mklref
from mklref import datasets, evidence, kernels, synthesis
from mklref.estimators import MKLClassifier, MKLRegressor
from mklref.exceptions import MKLError
from mklref.model_selection import evaluate
from mklref.multiclass import MulticlassProblem
from mklref.problem import Problem
from mklref.regularizers import Fixed, Mahalanobis
from mklref.testing import judge


class Foreign:
    """An array that NumPy takes, as those of JAX and xarray."""

    says = ""

    def __init__(self, array: Any) -> None:
        self._array = np.asarray(array)
        self.shape, self.ndim, self.dtype = self._array.shape, self._array.ndim, self._array.dtype

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, where: Any) -> Any:
        return type(self)(self._array[where])

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._array, dtype=dtype)


class WithGradient(Foreign):
    """A tensor of PyTorch that asks for gradients."""

    says = "Use tensor.detach().numpy() instead."

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError(f"Can't call numpy() on Tensor that requires grad. {self.says}")


class OnDevice(Foreign):
    """An array of CuPy."""

    says = "Please use `.get()` to construct a NumPy array"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(f"Implicit conversion to a NumPy array is not allowed. {self.says} explicitly.")


class Ragged(Foreign):
    """An array of Awkward Array whose rows have different lengths."""

    says = "cannot convert to RegularArray"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise ValueError("cannot convert to RegularArray because subarray lengths are not regular")


class Unread:
    """A LazyFrame of Polars."""

    says = ".collect()"

    def __init__(self, array: Any) -> None:
        self.columns = ["a"]

    def collect(self) -> None:
        """What nobody but the user calls."""


RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2))
Y = np.where(np.arange(12) % 2, 1.0, -1.0)
K = np.stack([X @ X.T, np.exp(-((X[:, None] - X) ** 2).sum(axis=2))])
PROBLEM = Problem(K, Y)
FOUND = mklref.solve(PROBLEM)
FAMILY = kernels.gaussian([1.0])
FITTED = FAMILY.fit(X)
CLASSIFIER, REGRESSOR = MKLClassifier(FAMILY).fit(X, Y), MKLRegressor(FAMILY).fit(X, X[:, 1])
NORM = {"lam": 0.1, "p": 1, "q": 1, "r": 2}

ENTRIES: dict[str, Any] = {
    "Problem(kernels)": (Problem, K, Y),
    "Problem([K])": (lambda one, y: Problem([one], y), K[0], Y),
    "Problem(y)": (lambda y: Problem(K, y), Y),
    "Problem(sample_weight)": (lambda weight: Problem(K, Y, sample_weight=weight), np.ones(12)),
    "MulticlassProblem(y)": (lambda y: MulticlassProblem(K, y), Y),
    "SynthesisProblem(kernels)": (lambda one: synthesis.SynthesisProblem(one, Y, **NORM), K),
    "SynthesisProblem(y)": (lambda y: synthesis.SynthesisProblem(K, y, **NORM), Y),
    "EvidenceProblem(kernels)": (lambda one: evidence.EvidenceProblem(one, Y, 0.1), K),
    "EvidenceProblem(y)": (lambda y: evidence.EvidenceProblem(K, y, 0.1), Y),
    "Fixed": (Fixed, np.ones(2)),
    "Mahalanobis": (Mahalanobis, np.eye(2)),
    "certify(dual_coef)": (lambda beta: mklref.certify(PROBLEM, beta), FOUND.dual_coef),
    "certify(weights)": (lambda theta: mklref.certify(PROBLEM, FOUND.dual_coef, weights=theta), FOUND.weights),
    "decision_function": (FOUND.decision_function, K),
    "apply": (PROBLEM.kernels.apply, Y),
    "gaussian": (kernels.gaussian, np.array([1.0, 2.0])),
    "polynomial": (kernels.polynomial, np.array([1, 2])),
    "KernelFamily.fit": (FAMILY.fit, X),
    "new": (FITTED.new, X),
    "FactorStack": (lambda factor: kernels.FactorStack([factor]), X),
    "column_groups": (lambda rows: kernels.column_groups(rows, [[0], [1]]), X),
    "factors": (lambda rows: kernels.factors({"a": StandardScaler()}, rows), X),
    "cholesky": (lambda rows: kernels.cholesky(FAMILY, rows), X),
    "normalize": (lambda one: kernels.normalize(one, "trace"), K),
    "check_psd": (kernels.check_psd, K[0]),
    "diagnose(y)": (lambda y: kernels.diagnose(K, y), Y),
    "encode": (datasets.encode, Y),
    "fit(X)": (lambda rows: MKLClassifier(FAMILY).fit(rows, Y), X),
    "fit(y)": (lambda y: MKLClassifier(FAMILY).fit(X, y), Y),
    "fit(sample_weight)": (lambda weight: MKLClassifier(FAMILY).fit(X, Y, sample_weight=weight), np.ones(12)),
    "fit(precomputed)": (lambda one: MKLClassifier("precomputed").fit(one, Y), K),
    "fit(real y)": (lambda y: MKLRegressor(FAMILY).fit(X, y), X[:, 1]),
    "predict": (CLASSIFIER.predict, X),
    "score": (lambda y: CLASSIFIER.score(X, y), Y),
    "score(real y)": (lambda y: REGRESSOR.score(X, y), X[:, 1]),
    "score(sample_weight)": (lambda weight: CLASSIFIER.score(X, Y, weight), np.ones(12)),
    "score(real y, sample_weight)": (lambda weight: REGRESSOR.score(X, X[:, 1], weight), np.ones(12)),
    "evaluate(X)": (lambda rows: evaluate(MKLClassifier(FAMILY), rows, Y), X),
    "evaluate(y)": (lambda y: evaluate(MKLClassifier(FAMILY), X, y), Y),
    "evaluate(real y)": (lambda y: evaluate(MKLRegressor(FAMILY), X, y), X[:, 1]),
    "evaluate(groups)": (
        lambda groups: evaluate(MKLClassifier(FAMILY), X, Y, test=GroupKFold(3), groups=groups),
        np.arange(12) % 3,
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [Foreign, dask.array.from_array], ids=["an array of NumPy's kind", "Dask"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_what_numpy_reads_is_taken(entry, kind):
    function, data, *others = ENTRIES[entry]
    function(kind(data), *others)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [WithGradient, OnDevice, Ragged])
@pytest.mark.parametrize("entry", ENTRIES)
def test_what_numpy_does_not_read_is_refused_in_the_words_of_its_library(entry, kind):
    function, data, *others = ENTRIES[entry]
    with pytest.raises(MKLError) as refused:
        function(kind(data), *others)
    assert kind.says in str(refused.value)


@pytest.mark.parametrize(
    "entry",
    [
        "Problem(kernels)", "Problem(y)", "certify(weights)", "KernelFamily.fit", "fit(y)", "score(sample_weight)",
        "score(real y, sample_weight)", "evaluate(groups)", "evaluate(real y)",
    ],
)  # fmt: skip
def test_a_table_that_is_not_read_yet_is_refused_with_the_call_that_reads_it(entry):
    function, data, *others = ENTRIES[entry]
    with pytest.raises(MKLError, match=r"is Unread, no table of numbers yet; give \w+\.collect\(\)"):
        function(Unread(data), *others)


def test_answers_of_other_libraries_are_malformed_where_they_cannot_be_read():
    finding = judge(PROBLEM, (OnDevice(FOUND.dual_coef), None, None)).findings[0]
    assert (finding.fault, WithGradient.says in finding.text) == ("malformed answer", False)
    assert OnDevice.says in finding.text


def test_samples_are_those_that_were_given_whatever_their_owner_does_to_them():
    """An array that is no one of NumPy may hand out the memory that its owner goes on writing to."""
    own = X.copy()
    for given in (own, Foreign(own), dask.array.from_array(own)):
        stack = FAMILY.fit(given)
        before = stack.new(X)
        own += 1.0
        np.testing.assert_array_equal(stack.new(X), before)
        own -= 1.0


def test_texts_of_numpy_are_texts():
    """As drawn by a Generator, or out of an array: h5py wrote no problem with one."""
    assert type(mklref.ElasticNet(0.5, np.str_("ivanov")).form) is str
    assert type(mklref.MulticlassProblem([np.eye(3)], [0, 1, 2], strategy=np.str_("one_vs_one")).strategy) is str


def test_matrices_are_read_while_another_thread_imports_what_knows_sparse_ones(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.sparse", types.ModuleType("scipy.sparse"))  # as it is at first
    assert mklref.MulticlassProblem(np.eye(3)[None], [0, 1, 2]).n_samples == 3
