"""The native solver on kernels that are not in memory: the same outer loop, certificate and answers."""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np
import pytest
from native.solving import overlap

from mklref import Lp, MulticlassProblem, Problem, certify, solve
from mklref.algorithms import silp
from mklref.exceptions import Interrupted, InvalidInput, InvalidType, KernelsLost, NotApplicable
from mklref.kernels import (
    ArrayStack,
    DiskStack,
    FactorStack,
    KernelStack,
    LazyStack,
    gaussian,
    linear,
    per_variable,
    polynomial,
    storage,
)
from mklref.kernels.reader import CachedReader
from mklref.machines import lazy as lazy_machine, machine_for
from mklref.machines.lazy import LazyMachine
from mklref.machines.smo import SMOMachine
from mklref.solution import Status

FAMILY = gaussian([0.5, 1.0, 2.0, 5.0]) + linear() + polynomial(2) + per_variable(gaussian(1.0))


@pytest.fixture(autouse=True)
def working_sets_as_small_as_caches(monkeypatch):
    monkeypatch.setattr(lazy_machine, "_LEAST", 0)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 10))
    y = np.where(X[:, 0] * X[:, 1] + X[:, 2] + 0.4 * rng.normal(size=300) > 0.0, 1.0, -1.0)
    return X, y, X[:, 0] + 0.1 * rng.normal(size=300)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "options",
    [
        {"regularizer": "l1"},
        {"regularizer": "uniform", "C": 100.0},
        {"regularizer": "l4/3", "loss": "squared_hinge"},
        {"regularizer": "l2", "loss": "epsilon_insensitive"},
        {"regularizer": "l2", "loss": "one_class", "C": 0.02},
        {"regularizer": "l2", "intercept": False},
    ],
    ids=lambda options: "-".join(str(value) for value in options.values()),
)
@pytest.mark.parametrize("cache", ["50KB", "20MB"])
def test_lazy_kernels_have_the_answers_of_those_in_memory(data, options, cache):
    X, labels, values = data
    options = dict(options)
    name = options.pop("regularizer")
    regularizer = Lp({"l4/3": 4 / 3, "l2": 2.0}[name]) if name[1:] in ("4/3", "2") else name
    y = {"epsilon_insensitive": values, "one_class": np.ones(300)}.get(options.get("loss"), labels)
    held, lazy = (
        Problem(FAMILY.fit(X, normalize="trace", storage=storage, **more), y, regularizer=regularizer, **options)
        for storage, more in (("memory", {}), ("lazy", {"cache": cache}))
    )
    found, expected = solve(lazy, tol=1e-7), solve(held, tol=1e-7)
    assert found.status is Status.OPTIMAL
    overlap(found, expected)
    if cache == "50KB":  # the answer of the one has the same certificate with the other
        crossed = certify(held, found.dual_coef, weights=found.weights, intercept=found.intercept)
        assert crossed.upper == pytest.approx(found.certificate.upper, rel=1e-9)


def test_rows_in_single_precision_are_enough_for_coarse_tolerances(data):
    X, y, _ = data
    lazy = FAMILY.fit(X, normalize="trace", storage="lazy", precision="float32")
    solution = solve(Problem(lazy, y, C=10.0, regularizer="uniform"), tol=1e-3)
    assert solution.status is Status.OPTIMAL


def test_more_kernels_than_samples_have_the_central_path_where_the_bundle_goes_in_circles():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 200))
    lazy = per_variable(linear()).fit(X, storage="lazy")
    problem = Problem(lazy, np.where(X[:, :8].sum(axis=1) > 0.0, 1.0, -1.0), regularizer="l1")
    assert solve(problem, tol=1e-4, max_iter=60).status is Status.OPTIMAL


class Blocks(KernelStack):
    """A stack of anybody's: it has blocks, and nothing else."""

    dtype = np.dtype(float)

    def __init__(self, K):
        self.K, self.broken = K, False

    shape = property(lambda self: self.K.shape)

    def block(self, rows, columns=None, kernels=None):
        if self.broken:
            raise InvalidInput("kernels.h5 changed while it was read")
        i, j = (np.arange(self.shape[1])[slice(None) if index is None else index] for index in (rows, columns))
        return self.K[slice(None) if kernels is None else kernels][:, i][:, :, j]

    def dense(self):
        raise AssertionError("all matrices at a time")


def test_any_stack_that_has_blocks_is_solved(data):
    X, y, _ = data
    K = gaussian([1.0, 3.0]).fit(X).dense()
    solution = solve(Problem(Blocks(K), y, regularizer="uniform"), tol=1e-6)
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.definiteness == "assumed"


def test_a_stack_without_entries_is_refused():
    empty = type("Empty", (KernelStack,), {"shape": (2, 3, 3), "dtype": np.dtype(float)})()
    with pytest.raises(InvalidType, match=r"Empty is a KernelStack without entries; define its method block, or rows"):
        solve(Problem(empty, [1, -1, 1]))


@pytest.mark.parametrize("change", ["vanishes", "is written to"])
def test_kernels_that_are_lost_leave_the_best_point(data, tmp_path, change):
    X, y, _ = data
    path = tmp_path / "K.npy"
    np.save(path, gaussian([1.0, 3.0]).fit(X).dense())
    kernels = np.load(path, mmap_mode="r")
    problem = Problem(DiskStack(kernels), y, C=100.0, regularizer="uniform")

    def lose(record):
        if record.iteration == 0:
            path.rename(tmp_path / "elsewhere") if change == "vanishes" else path.write_bytes(path.read_bytes())

    with pytest.raises(KernelsLost, match=r"K\.npy (vanished|changed) while .*make the stack again") as lost:
        solve(problem, tol=1e-9, callback=lose)
    found = lost.value.solution
    assert found.status is Status.INTERRUPTED
    again = certify(problem.replace(kernels=DiskStack(kernels)), found)
    assert found.certificate.upper == pytest.approx(again.upper, rel=1e-9)
    assert found.certificate.lower == pytest.approx(again.lower, rel=1e-9)
    assert found.certificate.relative_gap < 0.2
    assert str(found.certificate) in str(lost.value)


@pytest.mark.parametrize("free", [1e6, 20e9])
@pytest.mark.parametrize("n", [300, 12000])
def test_beside_matrices_on_disk_a_solver_has_the_room_of_lazy_ones(monkeypatch, free, n):
    monkeypatch.setattr(storage, "free_memory", lambda: free)
    one = np.broadcast_to(np.ones(1), (1, n, n))
    lazy = gaussian([1.0]).fit(np.arange(n)[:, None], storage="lazy")
    assert lazy_machine.room_of(DiskStack(one)) == lazy_machine.room_of(lazy) == lazy.cache


@pytest.fixture
def separable():
    """1,200 samples of which less than half matter, and the samples of each machine that is solved on them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 10))
    y = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 > 0.5, 1.0, -1.0)
    lazy = gaussian([2.0, 4.0, 8.0]).fit(X, storage="lazy", cache="1MB")
    return Problem(lazy, y, C=10.0, regularizer="uniform"), X


def machines_of(monkeypatch, after=10**9):
    """Orders of the machines from now on; Ctrl-C comes after so many on more than the quarter that is solved first."""
    orders, solve_on = [], LazyMachine._solve_on

    def watched(machine, chosen, tol):
        orders.append(len(machine.beta))
        if sum(order > 300 for order in orders) > after:
            raise KeyboardInterrupt
        return solve_on(machine, chosen, tol)

    monkeypatch.setattr(LazyMachine, "_solve_on", watched)
    return orders


def test_the_others_are_read_once_in_a_round(separable, monkeypatch, calls_of):
    """All machines are those of the samples that matter, and it is certified on all of them."""
    problem, X = separable
    orders, solved = machines_of(monkeypatch), calls_of(SMOMachine, "solve", lambda machine, *_: machine)
    found = solve(problem, tol=1e-5)
    counters = found.history.counters
    assert counters["machines"] == len(solved)
    assert counters["inner_steps"] == sum(machine.steps for machine in set(solved))
    assert counters["inner_steps"] == found.history.column("inner_steps").sum()
    assert 0.86 < counters["passes"] / (problem.kernels.evaluated / 3 / 1200**2) < 0.92
    held = problem.replace(kernels=gaussian([2.0, 4.0, 8.0]).fit(X, storage="lazy", cache="1GB"))
    passes = solve(held, tol=1e-5).history.counters["passes"]
    assert 1.3 < passes / (held.kernels.evaluated / 3 / 1200**2) < 1.42, "matrices are evaluated, and then read"
    assert found.status is Status.OPTIMAL
    assert max(orders) < 0.5 * 1200, "no machine has all samples"
    expected = solve(problem.replace(kernels=gaussian([2.0, 4.0, 8.0]).fit(X)), tol=1e-5)
    overlap(found, expected)
    orders.clear()
    assert solve(problem, tol=1e-5, start=found).status is Status.OPTIMAL
    assert not orders, "what is optimal is not solved again"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("cache", "cuts", "largest", "entries"),
    [("32MB", [-0.5, 0.5, 1.5], 800, 13.0), ("400MB", [-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0], 1200, 9.0)],
    ids=["own samples", "one matrix"],
)
def test_several_machines_have_samples_of_their_own_or_one_matrix(
    separable, monkeypatch, cache, cuts, largest, entries
):
    """Each machine has those that matter to it, unless one Q of all samples, which serves all machines, costs less."""
    X, orders = separable[1], machines_of(monkeypatch)
    lazy = gaussian([2.0, 4.0, 8.0]).fit(X, storage="lazy", cache=cache)
    problem = MulticlassProblem(lazy, np.digitize(X[:, 0] + 0.5 * X[:, 1] ** 2, cuts), C=10.0)
    found = solve(problem, tol=1e-3)
    assert max(orders, default=0) <= largest
    assert lazy.evaluated < entries * lazy.shape[0] * 1200**2
    expected = solve(problem.replace(kernels=gaussian([2.0, 4.0, 8.0]).fit(X)), tol=1e-3)
    assert found.status is Status.OPTIMAL
    overlap(found, expected)


def test_ctrl_c_within_a_round_returns_what_was_found_in_it(separable, monkeypatch, calls_of):
    problem, _ = separable
    orders, solved = machines_of(monkeypatch, after=1), calls_of(SMOMachine, "solve", lambda machine, *_: machine)
    with pytest.raises(Interrupted) as stopped:
        solve(problem, tol=1e-5)
    assert 0.0 < stopped.value.solution.certificate.relative_gap < 0.9, orders
    assert stopped.value.solution.history.counters["machines"] == len(solved) - 1 > 3


def test_a_loss_without_bounds_says_why_it_needs_memory(data):
    X, y, _ = data
    lazy = gaussian(1.0).fit(X, storage="lazy")
    with pytest.raises(NotApplicable, match=r"every sample is a support vector.*storage='memory'"):
        solve(Problem(lazy, y, loss="logistic"))
    with pytest.raises(NotApplicable, match=r"not FactorStack: mklref\.solve alone takes them as factors"):
        silp(Problem(FactorStack([X]), y))


def test_more_samples_off_their_bounds_than_there_is_room_for_still_let_others_in():
    """Working sets of 512 where some 700 samples are off their bounds at the optimum."""
    X = np.random.default_rng(0).normal(size=(1000, 12))
    y = np.where(X[:, 0] * X[:, 1] + X[:, 2] > 0.0, 1.0, -1.0)
    lazy = gaussian([1.0, 3.0]).fit(X, storage="lazy", cache=0)
    found = solve(Problem(lazy, y, C=10.0, regularizer="uniform"), tol=1e-3)
    assert np.count_nonzero((found.dual_coef != 0.0) & (np.abs(found.dual_coef) < 10.0)) > 512
    assert found.status is Status.OPTIMAL


def test_working_sets_end_where_rounding_hides_what_violates(data, monkeypatch):
    X, y, _ = data
    lazy = (gaussian(3.0) + linear()).fit(X[:100, :3], storage="lazy")
    machine = machine_for(Problem(lazy, y[:100], C=1e5))
    orders = machines_of(monkeypatch)
    machine.move(np.ones(2))
    for _ in range(3):
        machine.solve(1e-12)
    assert 3 <= len(orders) < 30


@pytest.mark.parametrize(
    "options",
    [{}, {"loss": "squared_hinge"}, {"loss": "epsilon_insensitive"}, {"intercept": False}, {"loss": "one_class"}],
    ids=str,
)
def test_rounds_of_small_working_sets_end_where_one_machine_does(data, monkeypatch, calls_of, options):
    """Their gradient, too, is that of all samples: it follows from the images, and says who comes in next."""
    monkeypatch.setattr(lazy_machine, "_FEWEST", 40)
    sizes = calls_of(LazyMachine, "_solve_on", lambda machine, chosen, tol: len(chosen))
    X, labels, values = (part[:150] for part in data)
    y = {"epsilon_insensitive": values, "one_class": np.ones(150)}.get(options.get("loss"), labels)
    lazy, held = (gaussian([1.0, 3.0]).fit(X, storage=storage) for storage in ("lazy", "memory"))
    lazy.cache = 0
    machines = [machine_for(Problem(kernels, y, **options)) for kernels in (lazy, held)]
    Q = np.tensordot([0.7, 0.3], held.dense(), 1)
    for machine in machines:
        machine.move(np.array([0.7, 0.3]))
        machine.solve(1e-8)
        np.testing.assert_allclose(
            machine.gradient, Q @ machine.beta + machine.shift * machine.beta - machine.linear, atol=1e-12
        )
    assert set(sizes) == {40}
    assert len(sizes) < 100
    assert machines[0].value() == pytest.approx(machines[1].value(), rel=1e-8)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_block_of_a_working_set_has_room_beside_no_cache(loss, rng, monkeypatch):
    """There are more samples off their bounds than a working set had, and rounds without an end."""
    monkeypatch.undo()
    X = rng.normal(size=(700, 12))
    y = np.where(X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=700) > 0.0, 1.0, -1.0)
    lazy = gaussian([1.0, 3.0, 9.0]).fit(X, storage="lazy", cache=0)
    solve(Problem(lazy, y, C=10.0, regularizer=Lp(2), loss=loss), tol=1e-4)
    assert isinstance(lazy, LazyStack)
    assert lazy.evaluated < 10 * 3 * 700**2


def test_no_matrix_of_order_n_is_held(monkeypatch):
    """n = 4,000, a cache of a hundredth of the stack: the samples, the cache, a working set, and a few blocks.

    Blocks are a sixteenth of what they are, 2 MB, or they would hide a cache of 5 MB that has grown.
    """
    for owner, name in ((CachedReader, "_AT_ONCE"), (ArrayStack, "_BLOCK"), (KernelStack, "_HELD")):
        monkeypatch.setattr(sys.modules[owner.__module__], name, 2**18)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 12))
    y = np.where(X[:, 0] + X[:, 1] > 0.0, 1.0, -1.0)
    cache = 4 * 4000 * 4000 * 8 // 100
    small = gaussian([1.0, 2.0]).fit(X[:200], storage="lazy", cache=0)
    solve(Problem(small, y[:200]), tol=1e-2)  # imports
    tracemalloc.start()
    try:
        lazy = gaussian([2.0, 4.0, 6.0, 8.0]).fit(X, storage="lazy", cache=cache)
        problem = Problem(lazy, y, regularizer="uniform")
        assert isinstance(machine_for(problem), LazyMachine)
        assert solve(problem, tol=3e-2).status is Status.OPTIMAL
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(lazy, LazyStack)
    assert peak < 2 * cache + 5 * 8 * 2**18 < 0.05 * 100 * cache


@pytest.mark.thorough
@pytest.mark.parametrize("problem", [Problem, MulticlassProblem])
@pytest.mark.parametrize("storage", ["memory", "lazy"])
def test_a_machine_ends_where_its_value_is_enough(data, monkeypatch, storage, problem):
    """Any dual point bounds J from below; one that stays below what is asked of it is solved as ever."""
    monkeypatch.setattr(lazy_machine, "_FEWEST", 16)
    X, y, values = data
    targets = y if problem is Problem else np.digitize(values, [-0.3, 0.3])
    targets = np.random.default_rng(0).permutation(targets)  # which takes many steps to learn
    kernels = gaussian([1.0, 3.0]).fit(X[:150], storage=storage, **({"cache": 0} if storage == "lazy" else {}))
    values, steps = [], []
    for share in (None, 2.0, 0.5):
        machine = machine_for(problem(kernels, targets[:150], C=1e5))
        machine.move(np.array([0.4, 0.6]))
        for _ in range(2):  # the first is a loose one
            machine.solve(1e-6, *(() if share is None else (share * values[0],)))
        values.append(machine.value())
        steps.append(machine.counters()["inner_steps"])
    assert values[1] == pytest.approx(values[0], rel=1e-6)
    assert 0.5 * values[0] < values[2] <= values[0]
    assert steps[2] < 0.6 * steps[0]
