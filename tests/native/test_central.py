"""The central path: its Newton system against the equations as they stand, and where it leads."""

from __future__ import annotations

import numpy as np
import pytest
from makers import SCALE, agree, make_problem
from native.solving import loop_on

from mklref import Problem, Status, certify, solve
from mklref.losses import Pinball
from mklref.machines import machine_for
from mklref.native import tuning
from mklref.native.central import CentralPath, Direction, _System
from mklref.native.large_q import LargeQ
from mklref.native.loop import Loop
from mklref.native.point import equal_weights
from mklref.native.rescue import Ladder
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Groups,
    HalfPower,
    Lp,
    Power,
    PowerRoot,
    RootPlusLinear,
    Tikhonov,
    WeightedL1,
)

LOSSES = ("hinge", "squared_hinge", "epsilon_insensitive", "squared_epsilon_insensitive", "pinball", "one_class")
GROUPS = [[0, 2], [1], [3]]
PENALTIES = (
    Lp(1),
    Tikhonov(1, 0.7),
    Power(1),
    Groups(GROUPS, 0.5, 0.5),
    Groups(GROUPS, 0.8, 0.2),
    Groups(GROUPS, 1, 0),
    BlockNorm(3),
    BlockNorm(np.inf),
    ElasticNet(0.3, "ivanov"),
    ElasticNet(0.3, "tikhonov"),
    Lp(2),
)


def start(problem):
    """The central path from a machine solved roughly at equal weights."""
    machine = machine_for(problem)
    weights = equal_weights(machine)
    machine.move(weights)
    machine.solve(0.1 * problem.C * problem.n_samples)
    large = isinstance(problem.regularizer, BlockNorm)
    return CentralPath(machine, weights, r=LargeQ(problem.regularizer).r if large else None)


def lines(n=80, M=30, C=10.0, seed=0, regularizer=None, loss="hinge"):
    """One kernel of rank one for each variable: every combination of fewer than n is singular."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, M))
    y = X.sum(axis=1) + 2.0 * rng.standard_normal(n)
    y = np.sign(y) if loss.endswith("hinge") else y
    kernels = np.stack([np.outer(x, x) for x in X.T])
    return Problem(kernels, y, C=C, regularizer=regularizer or Lp(1), loss=loss)


def parts(regularizer, q):
    """N_l and dN_l/dq: q itself, ||q||_2, or N_l = d_l^-p ||q_l||_a with a = 1/(1-q), group by group."""
    if isinstance(regularizer, Lp) and regularizer.p == 2:
        return np.array([np.sqrt(q @ q)]), q[None] / np.sqrt(q @ q)
    if not isinstance(regularizer, Groups):
        return q, np.eye(len(q))
    a, N, slopes = 1.0 / (1.0 - regularizer.q), [], np.zeros((len(GROUPS), len(q)))
    for k, group in enumerate(GROUPS):
        size = len(group) ** -regularizer.p
        N.append(size * np.sum(q[group] ** a) ** (1.0 / a))
        slopes[k, group] = size * q[group] ** (a - 1.0) * np.sum(q[group] ** a) ** (1.0 / a - 1.0)
    return np.array(N), slopes


def equations(path):
    """What is left of every equation, from their definitions."""
    machine, problem, psi = path.machine, path.problem, path.psi
    beta, sigma, n = machine.beta, path.sigma, len(machine.beta)
    N, slopes = parts(problem.regularizer, np.array([beta @ K @ beta for K in problem.kernels.dense()]))
    theta, normal = sigma @ slopes, psi.normal
    if path.r is not None:
        theta, normal, N = 1.0 / sigma, sigma ** (path.r - 1.0), (N + 4.0 * machine.weights_error()) / sigma**2
    if isinstance(problem.regularizer, ElasticNet):  # d theta_m/d sigma_m = 0.7/(0.7 + 0.3 sigma_m)^2
        theta, N = sigma / (0.7 + 0.3 * sigma), 0.7 / (0.7 + 0.3 * sigma) ** 2 * N
    Q = np.tensordot(theta, problem.kernels.dense(), 1)
    gradient = Q @ beta + machine.shift * beta - machine.linear + path.b
    sign = np.broadcast_to(path.sign, path.u.shape)
    room = np.where(np.isfinite(path.w), path.w - path.u, np.inf)
    u = np.array([[sign[k, i] * gradient[i] + machine.absolute for i in range(n)] for k in range(len(sign))])
    return Direction(
        u=u - path.s + path.t,
        s=path.u * path.s,
        t=np.where(np.isfinite(room), np.where(np.isfinite(room), room, 0.0) * path.t, 0.0),
        sigma=psi.gradient(sigma) + (0.0 if psi.normal is None else path.nu * normal) - 0.5 * N - path.z,
        z=sigma * path.z,
        b=beta.sum() - problem.intercept_cost if problem.intercept else 0.0,
        nu=0.0 if psi.normal is None else (normal @ sigma - 1.0) / (path.r or 1.0),
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("regularizer", PENALTIES, ids=str)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_newton_step_solves_the_linearised_equations(loss, regularizer, intercept):
    """A short step along the direction removes its share of every residual, up to terms of second order."""
    problem = make_problem(loss=loss, regularizer=regularizer, n=12, seed=2, intercept=intercept)
    path = start(problem)
    path.step()
    before = equations(path)
    direction = _System(path).solve(before)
    machine, short = path.machine, 1e-5
    path.u, path.s, path.t = path.u + short * direction.u, path.s + short * direction.s, path.t + short * direction.t
    path.z, path.b, path.nu = path.z + short * direction.z, path.b + short * direction.b, path.nu + short * direction.nu
    machine.beta = path.base + (path.sign * path.u).sum(axis=0)
    path.sigma = path.sigma + short * direction.sigma
    for name, old, new in zip(Direction._fields, before, equations(path), strict=True):
        scale = max(float(np.abs(old).max()), 1e-3)
        np.testing.assert_allclose(new, (1.0 - short) * np.asarray(old), atol=1e-2 * short * scale, err_msg=name)
    if not intercept:
        assert direction.b == 0.0
    if path.psi.normal is None:
        assert direction.nu == 0.0


@pytest.mark.sampled(8)
@pytest.mark.parametrize("regularizer", PENALTIES, ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_path_ends_at_the_optimum(loss, regularizer):
    if loss == "one_class" and regularizer.degree == 1.0:
        pytest.skip("unbounded")
    problem = make_problem(loss=loss, regularizer=regularizer, n=25, seed=4)
    path = start(problem)
    gaps = []
    for _ in range(30):
        path.step()
        assert min(path.u.min(), path.s.min(), path.z.min(), path.sigma.min()) > 0.0
        found = certify(problem, path.machine.beta, weights=path.machine.weights)
        assert found.infeasibility == 0.0
        gaps.append(found.relative_gap)
        if gaps[-1] <= 1e-9:
            break
    assert gaps[-1] <= 1e-9
    assert len(gaps) <= 25
    known = solve(problem, tol=1e-8).certificate
    assert found.lower <= known.upper + 1e-8 * abs(known.upper)
    assert known.lower <= found.upper + 1e-8 * abs(found.upper)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "epsilon_insensitive", "one_class"])
def test_what_vanishes_is_exactly_zero_or_at_its_bound_and_the_rest_stays(loss):
    problem = make_problem(loss=loss, regularizer=Lp(1), n=25, seed=4)
    path = start(problem)
    while certify(problem, path.machine.beta, weights=path.machine.weights).relative_gap > 1e-10:
        path.step()
    weights, beta = path.limit()
    exact = solve(problem, tol=1e-10)
    assert np.array_equal(weights > 0.0, exact.weights > 0.0)
    assert 0 < np.count_nonzero(weights) < problem.n_kernels
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    lower, upper = problem.loss.box(problem.y, problem.costs)
    for bound in (lower, upper, np.zeros_like(lower)):
        assert np.array_equal(beta == bound, exact.dual_coef == bound)
    assert np.any(beta == 0.0)
    assert certify(problem, beta, weights=weights).relative_gap <= 1e-8  # 1'beta = c_b costs what was rounded away


@pytest.mark.parametrize(
    ("loss", "C"), [("hinge", 1.0), ("hinge", 300.0), ("epsilon_insensitive", 0.3), ("epsilon_insensitive", 3.0)]
)
def test_many_kernels_of_rank_one_are_no_obstacle(loss, C, monkeypatch, calls_of):
    """A kernel for each variable: the central path finds the optimum where as many machines of the bundle have not."""
    problem, followed = lines(C=C, loss=loss), calls_of(CentralPath, "step")
    solution = solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.relative_gap <= 1e-6
    assert followed
    assert 0 < np.count_nonzero(solution.dual_coef) < problem.n_samples
    monkeypatch.setattr(tuning, "FACTORISED", 0)
    alone = solve(problem, max_iter=len(solution.history))
    assert alone.certificate.gap > solution.certificate.gap
    assert alone.certificate.lower <= solution.objective


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("regularizer", "n", "M", "C", "seed"),
    [
        # Kinks of J, and slopes of R* that have kinks themselves or are steep: the bundle ends at gaps up to 0.4.
        *((ElasticNet(0.1, form), *size, 1.0, 0) for form in ("ivanov", "tikhonov") for size in ((40, 40), (30, 60))),
        (ConcaveBlock(RootPlusLinear(1e-4)), 30, 60, 1.0, 0),
        *((Power(p), *size, 1.0, 0) for p in (1.0 + 1e-9, 1.0 + 1e-7) for size in ((40, 40), (30, 60))),
        # Next to p = 1 every family goes by its member with kinks: path and bundle alone end at gaps of 4e-6 to 0.1.
        (HalfPower(1.0 + 4e-9), 40, 40, 1.0, 0),
        (ConcaveBlock(PowerRoot(1.0 + 7e-9)), 40, 40, 1.0, 0),
        (Tikhonov(1.0 + 1e-9, 1.0), 40, 40, 1.0, 0),
        (Lp(1.0008), 40, 40, 100.0, 1),
        (BlockNorm(1.0 + 1e-9), 40, 40, 1.0, 0),
        (BlockNorm(1.0004), 40, 40, 100.0, 1),
        # A box that is wide, and R* with kinks between the groups: Newton's method on smooth relatives gets nowhere.
        *((Groups(np.arange(30).reshape(6, 5).tolist(), p, q), 66, 30, 100.0, 0) for p, q in ((0.5, 0.5), (1, 0))),
    ],
    ids=str,
)
def test_kernels_of_rank_one_are_no_obstacle_to_other_penalties(regularizer, n, M, C, seed):
    solution = solve(lines(n, M, C, seed, regularizer))
    assert solution.status is Status.OPTIMAL
    assert not isinstance(regularizer, Groups) or len(solution.history) <= 60


@pytest.mark.parametrize(("loss", "C", "seed", "most"), [("hinge", 0.1, 31, 90), ("epsilon_insensitive", 10, 16, 250)])
def test_weights_far_below_the_first_ones_take_no_rescue_again_and_again(loss, C, seed, most):
    """On kernels of scale 1e9, for decreases at rounding, or as steps were of the order of the first weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 6))
    columns, noise = X.T[:, :, None], rng.normal(size=30)
    rows = columns.swapaxes(1, 2)
    stack = 1e9 * np.concatenate([np.exp(-((columns - rows) ** 2)), columns * rows])
    y = np.where(X[:, 0] + 0.5 * noise > 0.0, 1.0, -1.0) if loss == "hinge" else X[:, 0] ** 2 + noise
    solution = solve(Problem(stack, y, C=C, loss=loss, regularizer=WeightedL1(rng.uniform(0.3, 2, size=12))))
    assert solution.status is Status.OPTIMAL
    assert len(solution.history) <= most


def test_kernels_of_rank_one_are_no_obstacle_where_every_derivative_is_smooth():
    """The bundle alone ends at a gap of 0.03."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100, 20))
    y = np.sign(X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.normal(size=100))
    y[:2] = 1.0, -1.0
    solution = solve(Problem(np.einsum("im,jm->mij", X, X), y, C=100.0, regularizer=Lp(2)))
    assert solution.status is Status.OPTIMAL


@pytest.mark.parametrize("ending", [0.0, FloatingPointError("singular")])
def test_a_path_that_leads_nowhere_leaves_the_point_as_it_was(ending, monkeypatch):
    """Steps of no length, or none at all: the outer loop goes on from where it was, to the same optimum."""
    tried = []

    def step(path):
        tried.append(path)
        if isinstance(ending, Exception):
            raise ending
        return ending

    problem = lines(C=100.0, n=40, M=20)
    optimum = solve(problem).certificate
    monkeypatch.setattr(CentralPath, "step", step)
    monkeypatch.setattr(tuning, "FEW_FAILURES", 1)
    solution = solve(problem)
    assert len(tried) == 1
    assert solution.status is Status.OPTIMAL
    agree(solution, optimum)


def test_one_kernel_keeps_its_weight_however_far_the_path_is_from_its_end():
    problem = make_problem(regularizer=Lp(1), n=12).replace(kernels=make_problem(n=12).kernels.dense()[:1])
    path = start(problem)
    path.z[:] = 1e6 * path.machine.forms.squares.max()
    assert np.array_equal(path.limit()[0], [1.0])


@pytest.mark.filterwarnings("error")
def test_a_limit_that_is_no_number_is_not_taken(monkeypatch):
    monkeypatch.setattr(CentralPath, "limit", lambda path: (np.full(path.psi.cost.shape, np.nan), path.machine.beta))
    with np.errstate(all="ignore"):
        solution = solve(lines(C=100.0))
    assert solution.status is Status.OPTIMAL
    assert np.isfinite(solution.weights).all()


@pytest.mark.parametrize(
    "problem", [lines(C=100.0), make_problem(seed=2, C=0.03, regularizer=Lp(1.000001))], ids=["lines", "barely smooth"]
)
def test_a_callback_stops_the_run_on_the_path(problem, calls_of):
    """No machine more is solved once it has said so, and the best point so far is returned."""
    steps = calls_of(CentralPath, "step")
    solves = calls_of(Loop, "evaluate", lambda *_: len(steps))
    solution = solve(problem, callback=lambda record: len(steps) == 2)
    assert solution.status is Status.STOPPED
    assert len(steps) == 2
    assert max(solves) == 0
    assert solution.certificate.gap < np.inf


def test_the_machine_is_back_at_the_point_where_the_path_leads_nowhere(monkeypatch):
    problem = lines(C=100.0, n=40, M=10)
    run = loop_on(problem)
    point = run.evaluate(equal_weights(run.machine))
    monkeypatch.setattr(CentralPath, "step", lambda path: 0.0)
    assert Ladder(run, None).central_path(point) is None
    assert np.array_equal(run.machine.weights, point.weights)
    assert np.array_equal(run.machine.beta, point.beta)
    gradient = np.tensordot(point.weights, problem.kernels.dense(), 1) @ point.beta - run.machine.linear
    np.testing.assert_allclose(run.machine.gradient, gradient, rtol=0.0, atol=1e-9 * np.abs(gradient).max())


def test_numbers_beyond_double_precision_are_told():
    path = start(make_problem(regularizer=Lp(1), n=10))
    path.z[:] = np.nan
    with pytest.raises(FloatingPointError, match="central path"):
        _System(path)


def test_a_path_that_rounding_ends_is_not_followed_again(calls_of):
    """It would lead to where it led before, again and again until rounding is blamed for something else."""
    followed = calls_of(CentralPath, "__init__")
    for seed in range(4):
        solve(lines(n=40, M=8, C=1.0, seed=seed), tol=1e-17)
    assert 0 < len(followed) <= 4


@pytest.mark.parametrize(("seed", "regularizer", "C"), [(9, Power(1), 0.25), (7, WeightedL1(SCALE), 0.1)], ids=str)
def test_from_weights_next_to_0_the_path_begins_at_the_first_ones(seed, regularizer, C):
    """At weights of 1e-14 it has no room, and ends at gaps of 0.05 and more."""
    problem = make_problem(loss=Pinball(0.3), seed=seed, n=30, regularizer=regularizer, C=C, intercept=False)
    loop = loop_on(problem, tol=1e-10)
    first = loop.begin(np.ones(problem.n_kernels))
    loop.record(first)
    loop.unit = tuning.UNIT * float((first.weights * loop.units).max())
    small = loop.evaluate(1e-14 * first.weights)
    loop.record(small)
    found = Ladder(loop, None).central_path(small)
    assert found.gap < 1e-10 * found.upper
