"""SynthesisProblem: what it refuses and how it says so, and that it is frozen.

The map K, its adjoint, its restrictions and Newton's method on them, and the count of what is read.
Every public function of mixed-norm synthesis with wrong arguments: our errors, by the name of the argument.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from makers import pressed
from synthesis.cases import NORMS, make_kernels, make_problem
from wrong import COUNT, FLAG, LIMITS, NUMBER, OPTION, cases, check_argument, only

from mklref.exceptions import Interrupted, InvalidInput, InvalidKernel, InvalidParameter, InvalidTarget, InvalidType
from mklref.solution import Status
from mklref.synthesis import (
    MixedNorm,
    SynthesisProblem,
    certify,
    forward_backward,
    lambda_max,
    reference,
    solve,
    solve_path,
)
from mklref.synthesis.dictionary import Columns, Dictionary, Kernels, restriction
from mklref.synthesis.generalization import clipped_loss, massart, proposition_2, rademacher_complexity, theorem_2
from mklref.synthesis.problem import correlations, scores
from mklref.synthesis.proximal_point import ProximalPoint
from mklref.synthesis.proximity import jacobian

KERNELS = np.arange(24.0).reshape(2, 3, 4)
Y = np.array([1.0, -1.0, 1.0])


def build(**changes):
    arguments = {"kernels": KERNELS, "y": Y, "lam": 1.0, "p": 1, "q": 1, "r": 1, **changes}
    return SynthesisProblem(arguments.pop("kernels"), arguments.pop("y"), **arguments)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"kernels": KERNELS[0]}, InvalidKernel, r"shape \(3, 4\); expected \(tau, n, N\).*kernels\[None\]"),
        ({"kernels": KERNELS[:0]}, InvalidKernel, "every group is empty"),
        ({"kernels": KERNELS[:, :, :0]}, InvalidKernel, r"shape \(2, 3, 0\).* every group is empty"),
        ({"kernels": np.where(KERNELS == 23.0, -np.inf, KERNELS)}, InvalidKernel, r"kernels\[1, 2, 3\] is -inf"),
        ({"y": Y[:2]}, InvalidTarget, r"y has shape \(2,\).*n = 3 samples in their rows"),
        ({"y": np.r_[Y, 1.0]}, InvalidTarget, r"are the axes of K_t\[j, i\] = k_t\(x_i, x_j\) swapped"),
        ({"y": [1.0, 0.0, 1.0]}, InvalidTarget, "y holds the values 0, 1; loss squared_hinge takes the labels"),
        ({"y": [1.0, np.nan, 1.0]}, InvalidTarget, r"y\[1\] is nan"),
        ({"lam": 0.0}, InvalidParameter, r"lam = 0.0 must lie in \(0, inf\): it weighs the penalty"),
        ({"p": 3}, InvalidParameter, "p = 3 must lie in {1, 2}"),
        ({"r": 0}, InvalidParameter, "r = 0 must lie in {1, 2}: 1 groups by sample"),
        ({"loss": "hinge"}, InvalidParameter, "loss hinge is not among.*squared_hinge, squared, logistic"),
    ],
)
def test_what_is_no_problem_of_synthesis_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        build(**changes)


def test_it_is_frozen_and_never_writes(rng):
    kernels = rng.normal(size=(2, 3, 4))
    problem = build(kernels=kernels)
    with pytest.raises(AttributeError, match=r"use problem.replace\(lam=...\)"):
        problem.lam = 2.0
    with pytest.raises(ValueError, match="read-only"):
        problem.kernels[0, 0, 0] = 1.0
    assert np.shares_memory(problem.kernels, kernels)
    assert kernels.flags.writeable


def test_replace_changes_one_thing():
    problem = make_problem((2, 1, 2), constant=True, C=0.4, loss="logistic")
    other = problem.replace(lam=3.0, r=1)
    assert (other.lam, other.norm.r) == (3.0, 1)
    assert (other.C, other.loss, other.constant, other.norm.p) == (0.4, problem.loss, True, 2)
    np.testing.assert_array_equal(other.kernels, problem.kernels)
    assert problem.replace(constant=False).shape == (3, 14)
    assert repr(problem) == "SynthesisProblem(tau=4, n=14, N=14, lam=2, norm=l21;2, C=0.4, loss=logistic)"
    assert [str(MixedNorm(p, q, 1)) for p in (1, 2) for q in (1, 2)] == ["l1", "l12;1", "l21;1", "l2"]


def test_constant_kernel_is_the_last():
    problem = build(constant=True)
    assert problem.shape == (3, 4)
    np.testing.assert_array_equal(problem.kernels[:-1], KERNELS)
    np.testing.assert_array_equal(problem.kernels[-1], np.ones((3, 4)))


@pytest.fixture
def K(rng):
    return make_kernels(rng, "rectangular", tau=4, n=14)


def test_scores_and_correlations_by_loops(K, rng):
    """f_j = sum_t sum_i A_ti K_t[j, i], and the adjoint."""
    tau, n, N = K.shape
    A, beta = rng.normal(size=(tau, N)), rng.normal(size=n)
    f = [sum(A[t, i] * K[t, j, i] for t in range(tau) for i in range(N)) for j in range(n)]
    np.testing.assert_allclose(scores(K, A), f)
    Z = [[sum(K[t, j, i] * beta[j] for j in range(n)) for i in range(N)] for t in range(tau)]
    np.testing.assert_allclose(correlations(K, beta), Z)
    assert beta @ scores(K, A) == pytest.approx(np.vdot(correlations(K, beta), A))


def test_every_read_is_counted(K, rng):
    dictionary = Dictionary(K)
    tau, n, N = K.shape
    beta = rng.normal(size=n)
    Z = dictionary.correlations(beta, np.ones((tau, N), dtype=bool))
    np.testing.assert_allclose(Z, correlations(K, beta))
    assert dictionary.reads == pytest.approx(1.0)
    wanted = np.zeros((tau, N), dtype=bool)
    wanted[0, 3] = True  # one column: fetched alone
    wanted[2, :5] = True  # many columns of one kernel: all of it is read
    np.testing.assert_allclose(dictionary.correlations(beta, wanted), np.where(wanted, Z, 0.0))
    assert dictionary.reads == pytest.approx(1.0 + (1 + N) / (tau * N))
    A = np.zeros((tau, N))
    A[1, 2] = 2.0
    np.testing.assert_allclose(dictionary.scores(A), 2 * K[1, :, 2])
    assert dictionary.reads == pytest.approx(1.0 + (1 + N) / (tau * N) + 1 / tau)
    np.testing.assert_allclose(dictionary.column_norms(), np.linalg.norm(K, axis=1))
    assert dictionary.reads == pytest.approx(2.0 + (1 + N) / (tau * N) + 1 / tau)


WHOLE = [norm for norm in NORMS if norm.p == 2 and (norm.r == 2 or norm.q == 2)]


@pytest.mark.parametrize(("kind", "norm"), [(Columns, norm) for norm in NORMS] + [(Kernels, norm) for norm in WHOLE])
def test_a_restriction_is_the_map_on_its_columns(kind, norm, K, rng):
    dictionary = Dictionary(K)
    part = kind(dictionary, norm)
    mask = np.zeros(dictionary.shape, dtype=bool)
    if kind is Columns:
        part.add(rng.uniform(size=mask.shape) < 0.3)
        mask |= part.expand(np.ones_like(part.compress(np.zeros(mask.shape)))) != 0.0
        more = rng.uniform(size=mask.shape) < 0.3
        part.add(mask | more)  # it grows, in any order of columns
        mask |= more
    else:
        for t in (2, 0) if norm.q == 1 else (0, 1, 2, 3):
            mask[t] = True
            part.add(mask)
    assert len(part) == mask.sum()
    A = np.where(mask, rng.normal(size=mask.shape), 0.0)
    A[2, :4] = 0.0
    u = part.compress(A)
    np.testing.assert_array_equal(part.expand(u), A)
    np.testing.assert_allclose(part.scores(u), scores(K, A))
    beta = rng.normal(size=K.shape[1])
    np.testing.assert_allclose(part.expand(part.correlations(beta)), np.where(mask, correlations(K, beta), 0.0))

    s, h = 0.3, 1e-6
    P = jacobian(u, s, norm.p, norm.q)
    found, is_root = part.curvature(P)
    curvature = found.T @ found if is_root else found
    v = rng.normal(size=K.shape[1])

    def image(a: float) -> np.ndarray:
        """K prox(A + a K'v) on the restriction."""
        moved = norm.prox(A + a * np.where(mask, correlations(K, v), 0.0), s)
        return scores(K, np.where(mask, moved, 0.0))

    np.testing.assert_allclose(curvature @ v, (image(h) - image(-h)) / (2 * h), rtol=1e-5, atol=1e-5)
    D, sigma = rng.uniform(1.0, 2.0, size=len(v)), 0.7
    d = ProximalPoint._direction(SimpleNamespace(sigma=sigma), part, P, D, v)
    np.testing.assert_allclose(D * d + sigma * (curvature @ d), -v)


def test_columns_count_what_they_copy_and_touch(K, rng):
    dictionary = Dictionary(K)
    part = Columns(dictionary, NORMS[0])
    wanted = np.zeros(dictionary.shape, dtype=bool)
    wanted[1, :6] = True
    part.add(wanted)
    assert dictionary.reads == pytest.approx(6 / 36)  # copied once
    part.correlations(rng.normal(size=14))
    assert dictionary.reads == pytest.approx(12 / 36)
    u = part.compress(np.where(wanted, np.arange(9) % 2, 0.0))
    part.scores(u)
    assert dictionary.reads == pytest.approx(15 / 36)  # three coefficients are not zero
    part.curvature(jacobian(u, 0.5, 1, 1))
    assert dictionary.reads == pytest.approx(18 / 36)


def test_which_restriction(rng):
    square, tall = Dictionary(rng.normal(size=(3, 8, 8))), Dictionary(rng.normal(size=(3, 30, 4)))
    for norm in NORMS:
        assert isinstance(restriction(square, norm), Kernels if norm in WHOLE else Columns)
        assert isinstance(restriction(tall, norm), Columns)


PROBLEM = make_problem((1, 1, 1), tau=2, n=6, loss="squared")
SOLUTION = solve(PROBLEM)
GIVEN, NORM, SIZE = only(problem=PROBLEM), only(p=1, q=1, r=1), {"lam": (1.0, NUMBER), "C": (2.0, NUMBER)}
DATA = only(kernels=PROBLEM.kernels, y=PROBLEM.y, loss="squared")
GRID = {"count": (2, COUNT), **only(ratio=0.5)}
DRAWS = {"radius": (1.0, NUMBER), "draws": (2, COUNT), "seed": (0, COUNT | {"0"})}
SHAPE = {"n": (9, COUNT), "tau": (2, COUNT), "largest": (1.0, NUMBER)}
MARGINS = {"margins": (np.ones(3), {"-1", "0", "[]", "[[]]", "matrix", "scalar array"} | NUMBER)}


@cases(
    (SynthesisProblem, {**DATA, **NORM, **SIZE, "constant": FLAG}),
    (PROBLEM.replace, SIZE),
    (MixedNorm, NORM),
    (solve, {**GIVEN, **LIMITS, "start": (SOLUTION, OPTION)}),
    (forward_backward, {**GIVEN, **LIMITS, "step": (1e-9, OPTION), "accelerated": (True, {"True"})}),
    (lambda_max, GIVEN),
    (certify, {**only(problem=PROBLEM, coef=SOLUTION.coef), "dual_coef": (SOLUTION.dual_coef, OPTION)}),
    (solve_path, {**GIVEN, **GRID, "lam": ([2.0, 1.0], OPTION), "tol": LIMITS["tol"], "callback": LIMITS["callback"]}),
    (solve_path, {**GIVEN, **GRID}),
    (SOLUTION.decision_function, only(kernels_new=PROBLEM.kernels)),
    (reference.solve, {**only(problem=PROBLEM, form="dual"), "solver": ("CLARABEL", OPTION), "tol": (1e-3, NUMBER)}),
    (rademacher_complexity, {**only(kernels=PROBLEM.kernels), **NORM, **DRAWS}),
    (clipped_loss, MARGINS),
    (massart, {"length": (1.0, NUMBER), "vectors": (3, COUNT)}),
    (proposition_2, {**SHAPE, **NORM}),
    (theorem_2, {**only(margins=np.ones(3), delta=0.1), "complexity": (0.1, NUMBER | {"0"})}),
)
def test_wrong_arguments(function, good, argument, fine):
    check_argument(function, good, argument, fine)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: solve(PROBLEM, start=3), InvalidType, "start is int; give a SynthesisSolution, or None"),
        (
            lambda: solve(PROBLEM.replace(kernels=np.ones((3, 6, 6))), start=SOLUTION),
            InvalidParameter,
            r"start.coef has shape \(2, 6\); expected \(3, 6\)",
        ),
        (lambda: certify(PROBLEM, np.ones((6, 2))), InvalidParameter, r"coef has shape \(6, 2\); expected \(2, 6\)"),
        (lambda: certify(PROBLEM, SOLUTION.coef, np.zeros(3)), InvalidParameter, r"has shape \(3,\); expected \(6,\)"),
        (lambda: solve_path(PROBLEM, []), InvalidParameter, r"lam = \[\] must be a sequence of at least one number"),
        (lambda: solve_path(PROBLEM, ratio=1.0), InvalidParameter, r"ratio = 1.0 must lie in \(0, 1\): the last"),
        (lambda: MixedNorm(2, 1, 1).prox("x", 1.0), InvalidType, r"U is 'x'; give real numbers"),
        (
            lambda: MixedNorm(2, 1, 1).norm([3.0, 4.0]),
            InvalidInput,
            r"A has shape \(2,\); expected \(tau, N\): kernels",
        ),
        (lambda: MixedNorm(2, 1, 1).dual_norm(np.ones(3)), InvalidInput, r"Z has shape \(3,\); expected \(tau, N\)"),
        (
            lambda: PROBLEM.replace(y=np.full(6, 1e200)),
            InvalidTarget,
            r"y has values up to 1e\+200, outside \[1e-40, 1e\+40\], where squares leave float64. Scale y",
        ),
        (
            lambda: PROBLEM.replace(kernels=1e-200 * PROBLEM.kernels),
            InvalidKernel,
            r"kernels have entries up to .*e-200, outside .*\(kernels/s, lam/s\^q\) is the same problem",
        ),
        (lambda: PROBLEM.replace(kernels=-1e90 * np.abs(PROBLEM.kernels)), InvalidKernel, r"have entries up to \d"),
        (
            lambda: PROBLEM.replace(C=1e300),
            InvalidParameter,
            r"C is 1e\+300, outside .*\(s C, s lam\) is the same problem as \(C, lam\): rescale both",
        ),
    ],
)
def test_what_the_messages_say(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_ctrl_c_in_the_callback_of_a_path_keeps_its_points():
    problem, values = make_problem((1, 1, 1)), [10.0, 3.0, 1.0]
    with pytest.raises(Interrupted, match="no point yet; 2 points of the path are finished") as caught:
        solve_path(problem, values, callback=pressed(2))
    assert caught.value.solution is None
    assert [len(caught.value.path), *(point.status for point in caught.value.path)] == [2, *2 * [Status.OPTIMAL]]
    expected = [point.objective for point in solve_path(problem, values)]
    assert [point.objective for point in caught.value.path] == expected[:2]


def test_ctrl_c_inside_a_point_of_a_path_keeps_the_finished_ones(monkeypatch):
    problem, calls = make_problem((1, 1, 1)), []

    def interrupted(member, **options):
        calls.append(member.lam)
        return solve(member, **options, callback=pressed(2) if len(calls) == 3 else None)

    monkeypatch.setattr("mklref.synthesis.solver.solve", interrupted)
    with pytest.raises(Interrupted) as caught:
        solve_path(problem, [10.0, 3.0, 0.3])
    assert calls == [10.0, 3.0, 0.3]
    assert len(caught.value.path) == 2
    assert caught.value.solution.status is Status.INTERRUPTED
    assert np.isfinite(caught.value.solution.certificate.upper)


def test_a_path_may_start_somewhere():
    problem = make_problem((1, 1, 1))
    known = solve(problem)
    assert len(solve_path(problem, [problem.lam], start=known)[0].history) == 1
    assert len(solve_path(problem, (value for value in (problem.lam, 1.0)), start=known)) == 2
