"""What the explorer computes, and when: at once what follows the hand, the rest once the hand rests.

A change is answered within AT_ONCE: the native solver gets a share of it, and what it has certified by then is shown;
the paths over C and p get what is left, from the present value outwards. What is missing is computed in the background
and shown as it comes: the rest of the solution and of the paths, and the values of formulations by conic solvers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from threading import Lock
from time import perf_counter, sleep
from typing import Any, NamedTuple

import numpy as np

from mklref import reference
from mklref._threads import filtering
from mklref._typing import Array
from mklref.exceptions import InvalidTarget, MKLError
from mklref.explore import state as states
from mklref.explore.state import State
from mklref.kernels.fitted import FamilyStack
from mklref.native import solve
from mklref.problem import Problem
from mklref.regularizers import Lp, Power, Tikhonov
from mklref.solution import Solution, Status

TOL = 1e-6
PATH_TOL = 1e-3
PATH_C = tuple(float(C) for C in np.geomspace(0.01, 1000.0, 11))
PATH_P = (1.0, 1.1, 4 / 3, 1.5, 2.0, 3.0, 5.0, 10.0, np.inf)
SOLVING, AT_ONCE = 0.12, 0.15
"""Seconds after a change: until the first solution is shown, finished or not, and until paths are left to later."""
REST, PAUSE = 0.5, 0.6
"""Seconds without a change after which the background begins, and conic solvers: they slow down whoever moves on."""
LONGEST = 30.0
AT_WORK = Lock()
"""Held by the one conic solver at work: nobody can interrupt it, so whoever moves on must not start another."""


@dataclass(frozen=True)
class Shown:
    """A state, its problem and its solution."""

    state: State
    problem: Problem
    kernels: FamilyStack
    solution: Solution
    seconds: float
    finished: bool = True
    """Whether the solver ended by itself."""
    begun: float = -np.inf
    """When the change came that is shown."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the kernels."""
        return tuple(self.kernels.names)


def solved(state: State, memory: dict[str, Any]) -> tuple[Shown, dict[str, str]]:
    """What to show, and complaints by the control that they belong to; with one, the last good picture stays."""
    place, begun = "data", perf_counter()
    try:
        states.sample_of(state)
        place = "kernels"
        states.kernels_of(state)
        place = "problem"
        problem, kernels = states.problem_of(state)
        known, solved_on, solution, seconds = memory.get("finished", (None, None, None, 0.0))
        finished = known == same_problem(state) and solved_on is kernels  # a file may be read anew, and differ
        if not finished:
            before = perf_counter()
            solution = solve(problem, tol=TOL, max_time=SOLVING)
            seconds, finished = perf_counter() - before, solution.status is not Status.TIME_LIMIT
    except (MKLError, OSError) as wrong:
        last = memory.get("shown") or solved(State(), memory)[0]
        return last, {"data" if isinstance(wrong, InvalidTarget) else place: _said(wrong)}
    shown = Shown(state, problem, kernels, solution, seconds, finished, begun)
    memory["shown"] = shown
    if finished:
        memory["finished"] = (same_problem(state), kernels, solution, seconds)
    return shown, {}


def _said(wrong: MKLError | OSError) -> str:
    if isinstance(wrong, OSError) and wrong.strerror:
        return f"{wrong.filename or 'the file'}: {wrong.strerror}."
    return str(wrong)


def finish(shown: Shown, memory: dict[str, Any], stopped: Callable[[], bool]) -> Shown | None:
    """Solve to the end what was shown before it; what there is to show then, if somebody waits for it."""
    if shown.finished or not rested(REST, stopped):
        return None
    begun = perf_counter()
    solution = solve(shown.problem, tol=TOL, max_time=LONGEST, callback=lambda _: stopped())
    if stopped():
        return None
    last = replace(shown, solution=solution, seconds=perf_counter() - begun, finished=True)
    memory["shown"] = last
    memory["finished"] = (same_problem(shown.state), shown.kernels, solution, last.seconds)
    return last


def rested(seconds: float, stopped: Callable[[], bool]) -> bool:
    """Wait; whether nothing has changed by then."""
    begun = perf_counter()
    while perf_counter() < begun + seconds:
        if stopped():
            return False
        sleep(0.05)
    return True


def forget() -> None:
    """Read files afresh: what was made of them may have changed when a page is opened."""
    for remembered in (states.sample, states.stack, over_costs, over_norms, _stated):
        remembered.cache_clear()


def same_problem(state: State, **changes: Any) -> State:
    """A state for what depends on its problem alone: what else it says is as in the beginning, or as given."""
    return replace(state, formulation=State.formulation, walk=State.walk, **changes)


def prepare() -> None:
    """Import what tables and ranges of weights need, while nobody waits: scikit-learn takes a second."""
    for module in ("mklref.estimators.tabular", "scipy.optimize"):
        import_module(module)


# --- paths ----------------------------------------------------------------------------------------------------


class Path(NamedTuple):
    """Problems along a parameter, and the solutions that were found so far: None where there is no optimum."""

    values: tuple[float, ...]
    problems: tuple[Problem, ...]
    found: dict[int, Solution | None]

    @property
    def weights(self) -> Array:
        """Kernel weights, (values, M); NaN where they are not known."""
        unknown = np.full(self.problems[0].n_kernels, np.nan)
        each = [self.found.get(k) for k in range(len(self.values))]
        return np.stack([unknown if solution is None else solution.weights for solution in each])

    def extend(self, here: float, start: Solution, deadline: float, stopped: Callable[[], bool]) -> bool:
        """Solve from the value nearest to `here` outwards, each from its neighbour; whether all are found."""
        distances = np.abs(np.arctan(self.values) - np.arctan(here))
        nearest = int(distances.argmin())
        for k in sorted(range(len(self.values)), key=lambda k: abs(k - nearest)):
            left = deadline - perf_counter()
            if k in self.found:
                continue
            if left <= 0.0 or stopped():
                return False
            known = {abs(j - k): solution for j, solution in list(self.found.items()) if solution is not None}
            warm = known[min(known)] if known else start
            try:
                solution = solve(
                    self.problems[k],
                    tol=PATH_TOL,
                    max_time=min(left, LONGEST),
                    start=warm,
                    callback=lambda _: stopped(),
                )
            except MKLError:  # no optimum at this value, which the page would say of it
                self.found[k] = None
                continue
            if stopped() or (solution.status is Status.TIME_LIMIT and left < LONGEST):
                return False
            self.found[k] = solution
        return True


def paths_of(shown: Shown) -> tuple[tuple[Path, float], tuple[Path, float | None]]:
    """The paths over C for this regulariser and over p of an lp ball at this C, each with its value now, if it has."""
    start, regularizer = State(), shown.problem.regularizer
    p = regularizer.p if isinstance(regularizer, Lp | Power | Tikhonov) else None  # that of Groups is another
    over_c = over_costs(same_problem(shown.state, C=start.C))
    ball = {"regularizer": start.regularizer, "p": start.p, "lam": start.lam, "groups": start.groups}
    return (over_c, shown.problem.C), (over_norms(same_problem(shown.state, **ball)), p)


def extend(shown: Shown, deadline: float = np.inf, stopped: Callable[[], bool] = lambda: False) -> bool:
    """Extend both paths, each with half of the time; whether nothing is missing."""
    (over_c, cost), (over_p, p) = paths_of(shown)
    half = 0.5 * (perf_counter() + deadline)
    done = over_c.extend(cost, shown.solution, half, stopped)
    return over_p.extend(1.0 if p is None else p, shown.solution, deadline, stopped) and done


def further(shown: Shown, stopped: Callable[[], bool]) -> Iterator[None]:
    """Extend both paths in the background, in spells that grow; after each there is more to show."""
    spell, going_on = AT_ONCE, rested(REST, stopped)
    while going_on:
        done = extend(shown, perf_counter() + spell, stopped)
        if stopped():
            return
        yield
        spell, going_on = 2.0 * spell, not done


@lru_cache(maxsize=32)
def over_costs(state: State) -> Path:
    """The path over C; a slider of C moves along it."""
    problem, _ = states.problem_of(state)
    least = 1.0 / problem.n_samples if problem.intercept_cost else 0.0  # as `problem_of` has it
    costs = tuple(dict.fromkeys(max(C, least) for C in PATH_C))
    return Path(costs, tuple(problem.replace(C=C) for C in costs), {})


@lru_cache(maxsize=32)
def over_norms(state: State) -> Path:
    """The path over p, whatever the regulariser."""
    problem, _ = states.problem_of(state)
    return Path(PATH_P, tuple(problem.replace(regularizer=Lp(p)) for p in PATH_P), {})


# --- formulations ---------------------------------------------------------------------------------------------


class Stated(NamedTuple):
    """What a formulation states by a conic solver."""

    value: float | None
    seconds: float
    says: str
    """Who said it, or why there is no value."""


def conic(shown: Shown, stopped: Callable[[], bool]) -> Iterator[tuple[str, Stated]]:
    """The formulations that cover the problem, each as it is solved, once the hand rests."""
    if not rested(PAUSE, stopped):
        return
    for name in reference.formulations(shown.problem):
        while not AT_WORK.acquire(timeout=0.05):
            if stopped():
                return
        try:
            stated = None if stopped() else _stated(same_problem(shown.state), name)
        finally:
            AT_WORK.release()
        if stated is None or stopped():  # it may have taken a while
            return
        yield name, stated


@lru_cache(maxsize=64)
def _stated(state: State, formulation: str) -> Stated:
    begun = perf_counter()
    try:
        with filtering("ignore", Warning):  # of an inaccurate solution: where it lies is said beside it
            answer = reference.solve(states.problem_of(state)[0], formulation)
    except MKLError as wrong:
        return Stated(None, perf_counter() - begun, str(wrong).splitlines()[0])
    return Stated(answer.value, perf_counter() - begun, answer.solver)
