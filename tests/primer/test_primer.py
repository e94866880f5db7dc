"""The primers against the general side, by the value of the program and by the certificate of its point.

The primers whose problem is no `Problem`, or is one only at another C, and the laws that a paper states of one.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from primer.rows import PAIRS, ROWS, C, Point, Row, dual, lp, norms_of
from primer.sources import VALUE, alone, data, gram, real

import mklref
from mklref import primer, reference
from mklref._conic.scaling import factorize
from mklref.multiclass import MulticlassProblem
from mklref.regularizers import BlockNorm, Fixed, Groups, Lp, PowerRoot, RootPlusLinear
from mklref.signed import SignedProblem
from mklref.synthesis import SynthesisProblem

POINT = 1e-4
"""Relative distance of the bounds from its variables, which a solver finds to fewer digits."""


@cache
def optimum(statement: tuple[str, ...], source: str) -> float:
    """The optimal value that rows of one statement share, from a narrow certified interval of the native solver."""
    row = next(row for row in ROWS if row.statement == statement)
    bounds = mklref.solve(row.problem(*data(source, row.loss)), tol=VALUE / 10).certificate
    assert bounds.relative_gap <= VALUE / 10
    return bounds.upper


def check_value(row: Row, value: float, source: str) -> None:
    """The value of the primer is the optimal value of the problem of the library."""
    distance = abs(row.value(value) / optimum(row.statement, source) - 1)
    assert distance < VALUE, "relative distance from the certified value"


@pytest.mark.sampled(7)
@pytest.mark.parametrize("source", ["random1", "random4", "real"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_primer_has_the_value_of_its_problem(row, source):
    L, y = data(source, row.loss)
    value, *variables = row.call(alone(row.primer), L, y)
    check_value(row, value, source)
    point, problem = row.point(y, *variables), row.problem(L, y)
    check_point(row, point, problem, row.value(value))
    functions = next((variable for variable in variables if isinstance(variable, list)), None)
    if functions is not None and row.primer != "kloft_3":  # whose w~ are not w, and have a test below
        t = sum(L_m @ v_m for L_m, v_m in zip(L, functions, strict=True)) + point.b
        losses = problem.costs @ problem.loss.value(t, problem.y) + problem.intercept_cost * point.b
        rho = norms_of(functions)
        assert losses + problem.regularizer.value(rho) == pytest.approx(row.value(value), rel=POINT)
        if point.theta is not None:
            weights = problem.regularizer.weights_from_norms(rho)
            np.testing.assert_allclose(point.theta, weights, rtol=0.0, atol=POINT * weights.max())


def check_point(row: Row, point: Point, problem: mklref.Problem, value: float) -> None:
    """The certificate of what the primer found: its dual point bounds the value from below, its weights from above."""
    theta = None if point.theta is None else np.maximum(point.theta, 0.0)
    b = None if point.b is None else float(point.b)
    beta = point.beta
    if beta is None:  # that of the machine with these weights
        beta = mklref.solve(problem.replace(regularizer=Fixed(theta)), tol=1e-7).dual_coef
    bounds = mklref.certify(problem, beta, weights=theta, intercept=b)
    if point.beta is not None:
        assert bounds.lower == pytest.approx(value, rel=POINT)
    if theta is not None:
        assert bounds.upper == pytest.approx(value, rel=POINT)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_primer_has_the_value_of_the_general_formulations_on_real_data(row):
    L, y = data("real", row.loss)
    value = row.value(row.call(alone(row.primer), L, y)[0])
    for name in row.formulations.split():
        bounds = reference.solve(row.problem(L, y), name).certificate
        assert value == pytest.approx(0.5 * (bounds.lower + bounds.upper), rel=VALUE), name


PENALTY = (("1 / 2 *", "1.001 / 2 *"), ("C / 2 *", "1.001 * C / 2 *"), ("C / q *", "1.001 * C / q *"))
PENALTY += (("+ C *", "+ 1.001 * C *"), ("lam / 2 *", "1.001 * lam / 2 *"), ("- lam)", "- 1.001 * lam)"))
"""What stands before the penalty in a primer, and what makes it too large by a thousandth: the first that occurs."""


def too_large(source: str) -> str:
    """The source of a primer whose penalty is multiplied by 1.001."""
    head, quotes, body = source.rpartition('"""')
    before, after = next(pair for pair in PENALTY if pair[0] in body)
    return head + quotes + body.replace(before, after)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_penalty_that_is_too_large_by_a_thousandth_is_seen(row):
    L, y = data("real", row.loss)
    with pytest.raises(AssertionError, match="relative"):
        check_value(row, row.call(alone(row.primer, too_large), L, y)[0], "real")


def test_every_primer_is_tested():
    others = re.findall(r"alone\(\"(\w+)\"\)", Path(__file__).read_text(encoding="utf-8"))
    named = {row.primer for row in ROWS} | set(others)
    assert named == set(primer.__all__)


@pytest.mark.parametrize("name", primer.__all__)
def test_a_primer_is_short(name):
    """About ten lines below the docstring, without the semi-infinite programs that are two programs in a loop."""
    lines = inspect.getsource(getattr(primer, name)).rpartition('"""')[2].strip().splitlines()
    assert len(lines) <= (20 if name.endswith(("silp", "sip")) else 14)


def test_a_primer_loads_cvxpy_and_nothing_of_the_library_but_itself(tmp_path):
    """With an empty cvxpy, as what that loads takes a second."""
    (tmp_path / "cvxpy.py").write_text("def __getattr__(name): return object")
    code = "import sys, mklref.primer as p; light = 'cvxpy' not in sys.modules; p.kloft_P; print(light, *sys.modules)"
    paths = os.pathsep.join([str(tmp_path), str(Path(mklref.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    light, *loaded = done.stdout.split()
    assert light == "True"
    assert "cvxpy" in loaded
    assert {name for name in loaded if name.startswith("mklref")} == {"mklref", "mklref.primer", "mklref.primer.kloft"}


def test_an_unknown_primer_is_an_attribute_error():
    with pytest.raises(AttributeError, match="kloft_Q"):
        primer.kloft_Q  # noqa: B018
    assert set(dir(primer)) == set(primer.__all__)


SOURCES = pytest.mark.parametrize("source", ["random1", "real"])


def certified(problem: mklref.Problem) -> float:
    """The optimal value, from a narrow certified interval."""
    bounds = mklref.solve(problem, tol=VALUE / 10).certificate
    assert bounds.relative_gap <= VALUE / 10
    return bounds.upper


def grams(L):
    return np.array([L_m @ L_m.T for L_m in L])


def test_the_other_variables_of_the_primers_are_those_of_their_solutions():
    """Lambda or xi is the largest 1/2 alpha'K_m alpha, slacks are what lacks, beta is (11), and w~ attains (3)."""

    def halves(L, alpha):
        return np.array([0.5 * np.sum((L_m.T @ alpha) ** 2) for L_m in L])

    def scores(L, v, b=0.0):
        return sum(L_m @ v_m for L_m, v_m in zip(L, v, strict=True)) + b

    (L, y), (wide, targets), (one, _) = (data("random1", loss) for loss in ("hinge", "squared", "one_class"))
    for name in ("kloft_13", "simplemkl_8"):
        _, alpha, lam, _ = alone(name)(L, y, C)
        assert lam == pytest.approx(halves(L, y * alpha).max(), rel=POINT)
    _, alpha, xi, _ = alone("kloft_16")(wide, targets, C)
    assert xi == pytest.approx(halves(wide, alpha).max(), rel=POINT)
    _, alpha, beta, lam, _ = alone("simplemkl_18")(wide, targets, C, 0.1)
    assert lam == pytest.approx(halves(wide, beta - alpha).max(), rel=POINT)
    _, alpha, lam, _ = alone("simplemkl_19")(one, 0.3)
    assert lam == pytest.approx(halves(one, alpha).max(), rel=POINT)
    _, alpha, beta = alone("kloft_10")(L, y, C, dual(4 / 3))
    assert beta == pytest.approx(np.linalg.norm(halves(L, alpha), 4), rel=POINT)
    for name in ("simplemkl_2", "simplemkl_3", "szafranski_7"):
        _, v, b, xi, _ = alone(name)(L, y, C)
        np.testing.assert_allclose(xi, np.maximum(0, 1 - y * scores(L, v, b)), atol=POINT)
    _, v, b, *slacks, _ = alone("simplemkl_16")(wide, targets, C, 0.1)
    residual = targets - scores(wide, v, b)
    np.testing.assert_allclose(slacks, np.maximum(0, [residual - 0.1, -residual - 0.1]), atol=POINT)
    _, v, b, xi, _ = alone("simplemkl_17")(one, 0.3)
    np.testing.assert_allclose(xi, np.maximum(0, b - scores(one, v)), atol=POINT)
    value, w, b, theta = alone("kloft_3")(L, y, 0.2, 0.1, lp(2))
    t = scores(L, [np.sqrt(theta_m) * w_m for theta_m, w_m in zip(theta, w, strict=True)], b)
    penalty = 0.1 * np.sum(norms_of(w) ** 2) + 0.1 * theta @ theta
    assert value == pytest.approx(np.mean(np.maximum(0, 1 - y * t)) + penalty, rel=POINT)


@SOURCES
def test_kloft_8_is_a_saddle_point(source, rng):
    """The Lagrangian falls if the multipliers move, and rises if w, t or theta do; 1'alpha = 0 (9a), and (9b), (11)."""
    L, y = data(source, "hinge")
    value, alpha, beta, w, b, t, theta = alone("kloft_8")(L, y, C, lp(2))

    def lagrangian(alpha, beta, w, t, theta):
        f = sum(L_m @ w_m for L_m, w_m in zip(L, w, strict=True))
        penalty = 0.5 * sum(w_m @ w_m / theta_m for w_m, theta_m in zip(w, theta, strict=True))
        loss = C * np.maximum(0, 1 - y * t).sum()
        return loss + penalty - alpha @ (f + b - t) + beta * (0.5 * theta @ theta - 0.5)

    assert lagrangian(alpha, beta, w, t, theta) == pytest.approx(value, rel=1e-9)
    for _ in range(20):
        other = alpha + 0.3 * rng.normal(size=len(y)), beta * rng.uniform(0.3, 2)
        assert lagrangian(*other, w, t, theta) < value * (1 + VALUE)
        nearby = [w_m + 0.3 * rng.normal(size=len(w_m)) for w_m in w]
        moved = nearby, t + rng.normal(size=len(y)), theta * rng.uniform(0.3, 2, size=4)
        assert lagrangian(alpha, beta, *moved) > value * (1 - VALUE)
    assert alpha.sum() == pytest.approx(0, abs=1e-6)
    for m in range(4):
        np.testing.assert_allclose(w[m], theta[m] * L[m].T @ alpha, atol=1e-4)
    assert beta == pytest.approx(0.5 * np.linalg.norm([np.sum((L_m.T @ alpha) ** 2) for L_m in L]), rel=1e-4)


@SOURCES
def test_kloft_14_is_the_form_with_weights_at_twice_c_times_the_sum_of_norms(source):
    """Erratum L4: the values belong together through the loss, which is that of the same functions."""
    L, y = data(source, "squared")
    value, w = alone("kloft_14")(L, y, C)
    S = norms_of(w).sum()
    with_weights = mklref.Problem(grams(L), y, C=2 * C * S, loss="squared", intercept=False, regularizer="l1")
    assert certified(with_weights) == pytest.approx(2 * S * (value - 0.5 * S) + 0.5 * S**2, rel=VALUE)
    assert certified(with_weights.replace(C=C / (2 * S))) != pytest.approx(value, rel=0.01)


@SOURCES
def test_kloft_28_is_27_at_the_constant_of_proposition_5(source):
    """Erratum L10: C~ = q/2 zeta C, not zeta C."""
    L, y = data(source, "hinge")
    c = 0.1  # the data are separable at large C, which then has no say
    rho = norms_of(alone("kloft_27")(L, y, c, 2)[1])
    zeta = np.sum(rho ** (4 / 3)) ** (-1 / 2)
    right = norms_of(alone("kloft_28")(L, y, 2 / 3 * zeta * c, 4 / 3)[1])
    printed = norms_of(alone("kloft_28")(L, y, zeta * c, 4 / 3)[1])
    np.testing.assert_allclose(right, rho, atol=1e-3 * rho.max())
    assert np.abs(printed - rho).max() > 0.02 * rho.max()


@SOURCES
def test_tomioka_8_is_a_maximum_over_the_weights(source):
    """It has the solution of the block norm at another C: loss + C/q sum rho^q, with the rho of 1/2 ||rho||_q^2."""
    L, y = data(source, "hinge")
    q, c = 2.5, 0.6  # at q = 3 the exponents q/(q-2) and q are one
    value, alpha, d = alone("tomioka_8")(L, y, c, q)
    rho = np.array([d_m / c * np.linalg.norm(L_m.T @ (y * alpha)) for d_m, L_m in zip(d, L, strict=True)])
    size = np.sum(rho**q) ** (1 / q)
    problem = mklref.Problem(grams(L), y, C=size ** (2 - q) / c, regularizer=BlockNorm(q))
    loss = (certified(problem) - 0.5 * size**2) / problem.C
    assert value == pytest.approx(loss + c / q * np.sum(rho**q), rel=VALUE)
    beta = problem.C * y * alpha
    bounds = mklref.certify(problem, beta, weights=d * size ** (q - 2))
    assert bounds.relative_gap < 1e-3
    np.testing.assert_allclose(d, rho ** (2 - q), rtol=1e-3)


@pytest.mark.parametrize("d", [0.2, 0.7, 1.6])
@pytest.mark.parametrize(
    ("g", "general"),
    [(lambda x: 3 / 4 * cp.power(x, 2 / 3), PowerRoot(2)), (lambda x: primer.tomioka_12(x, 0.4), RootPlusLinear(0.4))],
    ids=["Table 1, row 2", "elastic net"],
)
def test_tomioka_10_and_11_give_the_rows_of_table_1(g, general, d):
    """Mu h(d) = -2 g*(1/(2d)) is twice the penalty on the weights of the library, and (10) its conjugate."""
    expected = {"PowerRoot": d**2 / 2, "RootPlusLinear": 0.36 * d / (1 - 0.4 * d)}[type(general).__name__]
    value, x = alone("tomioka_11")(g, d)
    assert value == pytest.approx(expected, rel=VALUE)
    assert 2 * mklref.ConcaveBlock(general).weight_penalty(np.array([d])) == pytest.approx(expected)
    conjugate, same = alone("tomioka_10")(g, 1 / (2 * d))
    assert conjugate == pytest.approx(-value / 2, rel=VALUE)
    assert same == pytest.approx(x, rel=1e-3)
    assert alone("tomioka_12")(2.0, 0.4).value == pytest.approx(0.6 * np.sqrt(2) + 0.4)


@pytest.mark.parametrize("source", ["random", "real"])
def test_szafranski_6_is_hierarchical_penalisation(source, rng):
    X, y = (rng.normal(size=(30, 4)), rng.normal(size=30)) if source == "random" else real("real")
    X, lam = X[:, :4], 0.7
    problem = mklref.Problem(
        [np.outer(x, x) for x in X.T],
        y,
        C=1 / (2 * lam),
        loss="squared",
        intercept=False,
        regularizer=Groups(PAIRS, 1 / 2, 1 / 2),
    )
    value, beta, sigma1, sigma2 = alone("szafranski_6")(X, y, lam, PAIRS)
    reduced, same = alone("szafranski_6_cap")(X, y, lam, PAIRS)
    expected = certified(problem)
    assert value / (2 * lam) == pytest.approx(expected, rel=VALUE)
    assert reduced / (2 * lam) == pytest.approx(expected, rel=VALUE)
    form = reference.solve(problem, "hierarchical")
    assert form.certificate.upper == pytest.approx(expected, rel=VALUE)
    np.testing.assert_allclose(beta, same, atol=1e-4)
    theta = np.sqrt(sigma1[[0, 1, 0, 1]] * sigma2).clip(0)
    bounds = mklref.certify(problem, problem.C * (y - X @ beta), weights=theta, intercept=0.0)
    assert bounds.relative_gap < 1e-3


@pytest.mark.parametrize(("p", "q"), [(0, 1), (1, 0), (1 / 2, 1 / 2), (0.3, 0.4)])
def test_szafranski_10_and_11_minimise_over_the_weights(p, q, rng):
    norms = rng.uniform(0.2, 2.0, size=4)
    value, sigma1, sigma2 = alone("szafranski_10_11")(norms, PAIRS, p, q)
    assert value == pytest.approx(Groups(PAIRS, p, q).value(norms))
    assert 2 * sigma1.sum() == pytest.approx(1.0)
    assert sigma2.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("strategy", ["one_vs_rest", "one_vs_one"])
def test_simplemkl_22_is_the_multiclass_machine(strategy):
    """By the value, and by differences of J in d: -1/2 sum_p alpha'Y_p K_m Y_p alpha, the same on the support of d."""
    X, y = real("classes")
    problem = MulticlassProblem(gram(X), y, C=C, strategy=strategy)
    L = list(factorize(problem.kernels).matrices)
    Y = np.zeros((len(y), len(problem.machines)))
    for p, machine in enumerate(problem.machines):
        Y[machine.samples, p] = machine.problem.y
    value, alpha, b, d, gradient = alone("simplemkl_22")(L, Y, C)
    bounds = reference.solve(problem, "multiclass").certificate
    assert bounds.relative_gap < VALUE
    assert value == pytest.approx(bounds.upper, rel=VALUE)
    own = problem.certify((alpha * Y).T, d.clip(0), b)
    assert own.upper == pytest.approx(value, rel=1e-3)
    assert own.lower == pytest.approx(value, rel=1e-3)
    signed = alpha * Y
    np.testing.assert_allclose(gradient, -0.5 * np.einsum("ip,mij,jp->m", signed, problem.kernels.dense(), signed))
    np.testing.assert_allclose(gradient[d > 1e-2], gradient.min(), rtol=1e-4)
    assert gradient.min() <= gradient[d <= 1e-2].min(initial=np.inf)


@SOURCES
def test_lanckriet_sdp_is_twice_the_signed_machine(source):
    L, y = data(source, "hinge")
    kept = np.r_[np.flatnonzero(y == 1)[:8], np.flatnonzero(y == -1)[:8]]
    L, y = [L_m[kept] for L_m in L], y[kept]
    problem = SignedProblem(grams(L), y, C=C, trace=float(len(y)))
    value, mu, lam, nu, delta = alone("lanckriet_sdp")(L, y, C, float(len(y)))
    general = reference.solve(problem, "sdp")
    bounds = general.certificate
    assert value / 2 == pytest.approx(general.value, rel=VALUE)
    assert bounds.lower * (1.0 - VALUE) <= value / 2 <= bounds.upper * (1.0 + VALUE)
    assert bounds.relative_gap < 10 * VALUE
    assert mu @ problem.traces == pytest.approx(len(y), rel=VALUE)
    weights = problem.feasible(mu)
    side = 1 + nu - delta + lam * y
    alpha = np.linalg.lstsq(np.outer(y, y) * problem.kernels.combine(weights), side, rcond=1e-6)[0]
    assert side @ alpha + 2 * C * delta.sum() == pytest.approx(value, rel=1e-3)
    G, corner = np.outer(y, y) * problem.kernels.combine(mu), value - 2 * C * delta.sum()
    assert np.linalg.eigvalsh(np.block([[G, side[:, None]], [side, corner]]))[0] > -1e-7  # lower at another lambda
    machine = mklref.Problem([problem.kernels.combine(weights)], y, C=C, regularizer=Lp(1))
    assert certified(machine) == pytest.approx(value / 2, rel=1e-4)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("p", "q", "r"), [(1, 1, 1), (2, 2, 1), (1, 2, 1), (2, 1, 1), (1, 2, 2), (2, 1, 2)])
@pytest.mark.parametrize("source", ["random", "real"])
def test_kowalski_2_and_its_dual_are_mixed_norm_synthesis(source, p, q, r, rng):
    """Kernels that are neither symmetric nor definite tell k(x_j, x_i) from k(x_i, x_j), erratum K1."""
    X, y = real("labels", 25)
    K = (
        [rng.normal(size=(25, 25)) for _ in range(3)]
        if source == "random"
        else [np.tanh(X @ X.T / 10 - 1), X @ X.T / 30]
    )
    problem = SynthesisProblem(np.array(K), y, lam=0.8, p=p, q=q, r=r, C=2.0)
    certificate = mklref.synthesis.solve(problem, tol=VALUE / 10).certificate
    primal, alpha = alone("kowalski_2")(K, y, 0.8, p, q, r)
    dual, beta = alone("kowalski_2_dual")(K, y, 0.8, p, q, r)
    assert primal == pytest.approx(certificate.upper, rel=VALUE)
    assert dual == pytest.approx(certificate.upper, rel=VALUE)
    own = mklref.synthesis.certify(problem, alpha.T, y * beta)
    assert own.upper == pytest.approx(certificate.upper, rel=1e-4)
    assert own.lower == pytest.approx(certificate.upper, rel=1e-4)
