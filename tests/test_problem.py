"""A Problem is validated once: every row of the table of bad input that concerns it, with type and wording."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from makers import DEGENERATE, LOSSES, Frame, make_kernels, make_problem, make_samples

from mklref.exceptions import InvalidKernel, InvalidParameter, InvalidTarget, InvalidType
from mklref.kernels import ArrayStack, stack
from mklref.losses import EpsilonInsensitive, Hinge, Loss
from mklref.problem import Problem, on_samples
from mklref.regularizers import Fixed, Lp, Power

N = 8
LABELS = np.array([1.0, -1.0] * 4)


@pytest.fixture
def K(rng):
    return make_kernels(rng, make_samples(rng, N), M=3)


def test_what_is_left_out_has_its_default(K):
    problem = Problem(K, LABELS)
    assert (problem.n_kernels, problem.n_samples) == (3, N)
    assert (problem.C, problem.intercept, problem.loss, problem.sample_weight) == (1.0, True, Hinge(), None)
    assert problem.regularizer.name == Lp(1).name
    assert problem.intercept_cost == 0.0
    np.testing.assert_array_equal(problem.costs, np.ones(N))
    assert repr(problem) == "Problem(M=3, n=8, C=1, loss=hinge, regularizer=Lp(1), intercept=True)"


@pytest.mark.parametrize(("C", "weight"), [(1e-200, 1e-300), (1e-200, 1e-110), (1e200, 1e200)])
def test_costs_that_leave_double_precision_are_refused(K, C, weight):
    with pytest.raises(InvalidParameter, match=r"C \* sample_weight\[2\] = .* leaves the range of double precision"):
        Problem(K, LABELS, C=C, sample_weight=np.where(np.arange(N) == 2, weight, 1.0))


def test_a_stack_that_nobody_checked_is_checked(K):
    for index, value, says in (((1, 2), np.nan, r"kernels\[1\]\[1, 2\] is nan"), ((1, 2), 0.5, "exactly symmetric")):
        matrices = [np.array(matrix, dtype=float) for matrix in K]
        matrices[1][index] = value
        with pytest.raises(InvalidKernel, match=says):
            Problem(ArrayStack(matrices), LABELS)
    with pytest.raises(InvalidKernel, match=r"kernels\[1\] has shape \(2, 2\)"):
        Problem(ArrayStack([np.eye(N), np.eye(2)]), LABELS)
    others = (np.eye(N, dtype=complex), np.full((N, N), "x"), np.eye(N, dtype=object), np.eye(N).tolist(), np.eye(0))
    for no_matrix in (*others, 1.0):
        with pytest.raises(InvalidKernel, match=r"kernels\[0\] is .*, no float64 or float32 array"):
            Problem(ArrayStack([no_matrix]), LABELS)
    with pytest.raises(InvalidKernel, match="kernels is empty"):
        Problem(ArrayStack([]), LABELS)


def test_costs_are_C_times_the_sample_weights(K):
    weight = np.linspace(0.5, 2.0, N)
    np.testing.assert_array_equal(Problem(K, LABELS, C=3.0, sample_weight=weight).costs, 3.0 * weight)


def test_samples_keep_their_targets_and_weights(K):
    chosen = np.array([3, 0, 4])
    problem = make_problem(n=len(K[0])).replace(sample_weight=np.arange(1.0, len(K[0]) + 1.0))
    part = on_samples(problem, chosen, problem.kernels.dense()[:, chosen][:, :, chosen], C=7.0)
    np.testing.assert_array_equal(part.costs, 7.0 * (chosen + 1.0))
    np.testing.assert_array_equal(part.y, problem.y[chosen])


def test_instances_and_names_are_the_same(K):
    by_name = Problem(K, LABELS, loss="squared", regularizer="uniform")
    assert by_name.loss.name == "squared"
    assert by_name.regularizer.p == np.inf
    problem = Problem(K, LABELS, loss=EpsilonInsensitive(0.3), regularizer=Lp(2))
    assert problem.loss == EpsilonInsensitive(0.3)
    assert problem.regularizer.p == 2.0


@pytest.mark.parametrize("y", [[1, -1] * 4, tuple([1, -1] * 4), LABELS.astype(np.int8), LABELS.astype(np.float32)])
def test_labels_may_be_integers_and_lists(K, y):
    problem = Problem(K, y)
    assert problem.y.dtype == np.float64
    np.testing.assert_array_equal(problem.y, LABELS)


def test_a_column_of_a_frame_is_a_target(K):
    class Series:
        def __array__(self, dtype=None, copy=None):
            return np.array(LABELS, dtype=dtype, copy=copy)

    np.testing.assert_array_equal(Problem([Frame(k) for k in K], Series()).y, LABELS)


def test_single_kernel_and_two_samples_are_valid():
    problem = Problem([np.array([[2.0, 0.5], [0.5, 1.0]])], [1, -1])
    assert (problem.n_kernels, problem.n_samples) == (1, 2)


@pytest.mark.parametrize("degenerate", DEGENERATE)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_degenerate_kernels_are_valid(loss, degenerate):
    assert make_problem(loss=loss, degenerate=degenerate).n_kernels == 4


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_extreme_scales_are_valid(K, scale):
    assert Problem(scale * K, LABELS).n_samples == N


def test_kernels_are_not_copied_and_nothing_is_written_to(K):
    y, weight = LABELS.copy(), np.ones(N)
    problem = Problem(K, y, sample_weight=weight)
    assert np.shares_memory(problem.kernels.dense(), K)
    for array in (problem.y, problem.costs, problem.sample_weight):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5.0
    y[:], weight[:] = -y, 5.0  # the vectors are the problem's own
    np.testing.assert_array_equal(problem.y, LABELS)
    np.testing.assert_array_equal(problem.costs, np.ones(N))
    assert K.flags.writeable


def test_a_problem_is_frozen(K):
    problem = Problem(K, LABELS)
    with pytest.raises(AttributeError, match=r"this Problem is frozen; use problem\.replace\(C=\.\.\.\)"):
        problem.C = 2.0
    with pytest.raises(AttributeError, match="frozen"):
        del problem.y
    with pytest.raises(AttributeError, match="frozen"):
        problem.extra = 1


def test_replace_shares_the_rest(K):
    problem = Problem(K, LABELS, sample_weight=np.linspace(1, 2, N))
    other = problem.replace(C=5.0, regularizer=Lp(2))
    assert (other.C, problem.C) == (5.0, 1.0)
    assert other.kernels is problem.kernels
    np.testing.assert_array_equal(other.costs, 5.0 * problem.costs)
    with pytest.raises(InvalidParameter, match="C = -1"):
        problem.replace(C=-1)
    with pytest.raises(TypeError, match="unexpected keyword"):
        problem.replace(c=1.0)


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_problems_can_be_sent_to_other_processes(K, clone):
    problem = Problem(K, LABELS, C=2.0, regularizer=Lp(4 / 3), sample_weight=np.linspace(1, 2, N))
    other = clone(problem)
    assert repr(other) == repr(problem)
    np.testing.assert_array_equal(other.costs, problem.costs)
    np.testing.assert_array_equal(other.kernels.dense(), K)


def test_indefinite_kernels_are_refused_with_the_remedy(K):
    K[1] -= 3.0 * np.eye(N)
    with pytest.raises(InvalidKernel, match=r"kernels\[1\].* is negative\..*check its sign"):
        Problem(K, LABELS)
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(N, N)))[0]
    K[1] = (basis * [-0.05, *np.ones(N - 1)]) @ basis.T
    K[1] = 0.5 * (K[1] + K[1].T)
    with pytest.raises(InvalidKernel, match=r"smallest eigenvalue -0\.05, allowed .*clip its negative eigenvalues"):
        Problem(K, LABELS)


def test_definiteness_is_proved_once_for_a_stack(K, monkeypatch):
    S = stack(K)
    Problem(S, LABELS)
    monkeypatch.setattr(np.linalg, "cholesky", None)  # would fail if it were called
    Problem(S, -LABELS, C=2.0)


def but(i, value):
    """The labels with another value at one place."""
    return np.where(np.arange(N) == i, value, LABELS)


ONE_CLASS = {"y": np.ones(N), "loss": "one_class"}


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"y": LABELS[:-1]}, InvalidTarget, r"y has shape \(7,\), kernels are of order 8; expected y of shape \(8,\)"),
        ({"y": LABELS[:, None]}, InvalidTarget, r"y has shape \(8, 1\), kernels are of order 8"),
        ({"y": np.float64(1.0)}, InvalidTarget, r"y has shape \(\), kernels are of order 8"),
        ({"y": []}, InvalidTarget, r"y has shape \(0,\), kernels are of order 8"),
        ({"y": but(5, np.nan)}, InvalidTarget, r"y\[5\] is nan; every entry must be finite"),
        ({"y": but(5, np.inf)}, InvalidTarget, r"y\[5\] is inf; every entry must be finite"),
        ({"y": np.arange(N) % 2}, InvalidTarget, r"y holds the values 0, 1; loss hinge .* -1 and \+1\. Encode"),
        ({"y": np.arange(N)}, InvalidTarget, r"y holds the values 0, 1, 2, 3, 4, 5, \.\.\.; loss hinge takes"),
        ({"y": np.ones(N)}, InvalidTarget, r"y holds only the class 1; loss hinge needs samples of both"),
        ({"y": -np.ones(N)}, InvalidTarget, r"y holds only the class -1; loss hinge needs samples of both"),
        ({"y": [[1, -1], [1]]}, InvalidTarget, r"y is ragged; give rows of one length: .*[^.]\.$"),
        ({"loss": "one_class"}, InvalidTarget, r"y holds the values -1, 1; loss one_class .*np\.ones\(n\)"),
        (
            {"y": ["a", "b"] * 4},
            InvalidType,
            r"y is <U1 data; give numbers: .* -1 and 1, mklref\.datasets\.encode\(y\)\[0\]",
        ),
        ({"y": LABELS > 0}, InvalidType, r"y is boolean data; give numbers: of two classes the labels"),
        ({"y": LABELS.astype(object)}, InvalidType, r"y is object data"),
        ({"y": LABELS + 0j}, InvalidType, r"y is complex data"),
        ({"y": np.ma.masked_less(LABELS, 0)}, InvalidType, r"y is a masked array; its mask would be lost"),
        ({"sample_weight": np.ones(N - 1)}, InvalidParameter, r"sample_weight has shape \(7,\), y has shape \(8,\)"),
        ({"sample_weight": np.arange(N)}, InvalidParameter, r"sample_weight\[0\] = 0 must be positive; drop a sample"),
        ({"sample_weight": np.where(np.arange(N) == 2, -2.5, 1.0)}, InvalidParameter, r"\[2\] = -2\.5 .* positive"),
        ({"sample_weight": but(2, np.nan)}, InvalidParameter, r"sample_weight\[2\] is nan"),
        ({"sample_weight": ["a"] * N}, InvalidType, r"sample_weight is <U1 data"),
        ({**ONE_CLASS, "intercept": False}, InvalidParameter, r"needs an .*intercept=True, or .*density_level_set"),
        ({**ONE_CLASS, "loss": "density_level_set"}, InvalidParameter, r"goes without an intercept .*intercept=False"),
        ({**ONE_CLASS, "regularizer": Power(1)}, InvalidParameter, r"Power\(1\) are both homogeneous of degree 1"),
        ({"regularizer": Fixed([1.0, 2.0])}, InvalidParameter, r"Fixed\(2\) has 2 weights for 3 kernels; give one"),
        ({"regularizer": "l3"}, InvalidParameter, r"regularizer = 'l3' is unknown; known names: l1,"),
        ({"regularizer": 1.5}, InvalidType, r"regularizer is float; give a name or an instance such as Lp\(4/3\)"),
    ],
)
def test_targets_weights_and_parts_that_do_not_fit_are_refused(K, arguments, error, says):
    with pytest.raises(error, match=says):
        Problem(K, **{"y": LABELS, **arguments})


def test_one_sample_is_not_enough():
    with pytest.raises(InvalidTarget, match=r"n = 1 sample; give at least two"):
        Problem([[[1.0]]], [1.0])


@pytest.mark.parametrize("C", [0, 0.0, -1.0, np.nan, np.inf, -np.inf])
def test_C_outside_its_interval(K, C):
    """libsvm would hang at C = inf."""
    with pytest.raises(InvalidParameter, match=rf"C = {C!r} must lie in .0, inf.*hard margin"):
        Problem(K, LABELS, C=C)


@pytest.mark.parametrize("C", [1, np.float32(0.5), np.int64(3), 1e-300, 1e300])
def test_any_positive_number_is_a_C(K, C):
    problem = Problem(K, LABELS, C=C)
    assert type(problem.C) is float
    assert float(C) == problem.C


@pytest.mark.parametrize("intercept", ["yes", None, 1, 0.0])
def test_intercept_is_a_truth_value(K, intercept):
    with pytest.raises(InvalidType, match=r"intercept is .*; give True or False"):
        Problem(K, LABELS, intercept=intercept)


def test_nu_above_one_is_refused(K):
    for n in range(2, 60):  # n (1/n) rounds below 1 for some of these
        Problem([np.eye(n)], np.ones(n), loss="one_class", C=1.0 / n)
    assert Problem(K, **ONE_CLASS, regularizer=Power(2)).C == 1.0
    with pytest.raises(InvalidParameter, match=r"C = 0\.1 is too small for loss one_class: .*sum to 0\.8 .*1/\(nu n\)"):
        Problem(K, np.ones(N), loss="one_class", C=0.1)


@dataclass(frozen=True)
class Ratio(Loss):
    """t/y - 1 - log(t/y) for t > 0, and infinite elsewhere, at 0 too."""

    name = "ratio"
    targets = "real"

    def value(self, t, y):
        return np.where(t > 0.0, t / y - 1.0 - np.log(np.maximum(t, 1e-300) / y), np.inf)

    def subgradient(self, t, y):
        return 1.0 / y - 1.0 / np.maximum(t, 1e-9 * y)

    def conjugate(self, s, y):
        return np.where(s * y < 1.0, -np.log(np.maximum(1.0 - s * y, 1e-300)), np.inf)

    def domain(self, y):
        return np.full(len(y), -np.inf), 1.0 / y

    def kinks(self, y):
        return np.empty((0, len(y)))

    def atom(self, t, y):
        raise NotImplementedError


def test_a_loss_of_ones_own_may_be_infinite_at_0(K):
    assert Problem(K, np.arange(1.0, N + 1.0), loss=Ratio()).loss.value(0.0, 1.0) == np.inf
