"""Ground truth by convex modelling: any formulation, several conic solvers, one certificate.

    solution = reference.solve(problem, "dual")              the first solver whose point the certificate confirms
    compiled = reference.compile(problem, "mixed_norm")      compiled once, then
    compiled.solve(C=10.0)                                   solved for many C

This module is the only caller of cvxpy's solvers. What a solver says is kept as it says it: `value`, the optimal value
of the model as stated, `claimed`, and `raw`, the solver's own point with its own certificate. The solution itself is
the polished point, and what is believed of it is the certificate at exactly that point.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, overload

import numpy as np

from mklref._conic.cones import cp, use_second_order_cones
from mklref._conic.model import Model, doubt, gap
from mklref._conic.polish import certified, polished
from mklref._conic.scaling import Factors, balanced, factorize, left_out
from mklref._names import names_of_both
from mklref._threads import filtering
from mklref._validate import checked_flag, checked_number, shown
from mklref.certificate.bounds import unit_of
from mklref.exceptions import FalseClaim, InvalidParameter, InvalidType, NotApplicable, SolverFailure
from mklref.formulations import FORMULATIONS, Formulation, as_formulation
from mklref.problem import Problem, in_a_smaller_box
from mklref.signed import SignedProblem, SignedSolution
from mklref.solution import History, Solution, Status

TOLERANCES = ((1e-9, 1e-6), (1e-8, 1e-6), (1e-7, 1e-4))
"""What a solver is asked for, and what it may settle for where it breaks down before; the next pair if it has neither.

Settling for 1e-6 still counts as optimal: the solver stands by that much. Settling for less is `optimal_inaccurate`.
"""

FIRM = 1e-6
"""The loosest tolerance that a solver may settle for and still stand by its value."""

SOLVERS: dict[str, Callable[[float, float], dict[str, Any]]] = {
    # Measured: with the quadratic objective as cones Clarabel solves every form, otherwise some fail.
    "CLARABEL": lambda eps, reduced: {
        "use_quad_obj": False,
        # Half the time of the default, and a fork of this process later on finds no threads that it lacks.
        "direct_solve_method": "faer",
        "max_threads": 1,
        **dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), eps),
        **dict.fromkeys(("reduced_tol_gap_abs", "reduced_tol_gap_rel", "reduced_tol_feas"), reduced),
    },
    "ECOS": lambda eps, reduced: {
        **dict.fromkeys(("abstol", "reltol", "feastol"), eps),
        **dict.fromkeys(("abstol_inacc", "reltol_inacc", "feastol_inacc"), reduced),
        "max_iters": 300,
    },
    "SCS": lambda eps, reduced: {"eps_abs": 100 * eps, "eps_rel": 100 * eps, "max_iters": 20_000},
}
"""The solvers in the order in which they are tried, and their options for a pair of tolerances."""

LARGEST_DOUBT = 1e-6
"""Relative `doubt`, and share `left_out` by factors, up to which a solver that calls its value optimal stands by it."""

KEEPS_ITS_WORD = ("CLARABEL", "ECOS")
"""Solvers that call a point inaccurate only if it satisfies the second of the two tolerances; SCS whatever it is."""


@overload
def solve(problem: SignedProblem, formulation: str, **options: Any) -> SignedSolution: ...
@overload
def solve(problem: Problem, formulation: str = ..., **options: Any) -> Solution: ...
def solve(
    problem: Any,
    formulation: str = "dual",
    *,
    solver: str | None = None,
    tol: float = 1e-6,
    polish: bool = True,
    **solver_options: Any,
) -> Any:
    """Solve a problem in one formulation with cvxpy.

    Parameters
    ----------
    problem : Problem, MulticlassProblem or SignedProblem
    formulation : str
        One of `formulations(problem)`; "multiclass" and "sdp" for the last two.
    solver : str, optional
        "CLARABEL", "ECOS" or "SCS"; by default the first of them that reaches `tol`.
    tol : float
        Certified relative gap from which on the solution counts as optimal.
    polish : bool
        Whether the solution is the solver's point with its last digits mended; False gives the raw point.
    **solver_options
        Passed to the solver by cvxpy, on top of the options in `SOLVERS`.

    Returns
    -------
    Solution, of a SignedProblem a SignedSolution
        `solver` names formulation and solver, for instance "dual/CLARABEL"; `status` is OPTIMAL if the
        certificate confirms `tol`, whatever the solver said, and INACCURATE otherwise. `value` and `claimed` are what
        the solver said, `raw` is its own point. The counters of the history hold the seconds to compile and to solve.

    Raises
    ------
    InvalidParameter
        Unknown names; the message lists the known ones. Options that no solver takes; a solver that does not take
        them is passed over for one that does.
    NotApplicable
        The formulation does not cover the problem; the message says why and what does.
    SolverFailure
        No solver returned a point; the message lists what each one said. `FalseClaim` where the last word of each was
        that the program is infeasible or unbounded.
    """
    return compile(problem, formulation).solve(solver=solver, tol=tol, polish=polish, **solver_options)


def formulations(problem: Any = None) -> tuple[str, ...]:
    """The names of all formulations, or of those that apply to the problem."""
    if problem is None:
        return tuple(FORMULATIONS)
    return tuple(name for name, reason in explain(problem).items() if reason is None)


def explain(problem: Any) -> dict[str, str | None]:
    """For every formulation None if it applies to the problem, else the reason why it does not."""
    if not isinstance(problem, Problem):
        raise InvalidType(f"problem is {type(problem).__name__}; give a mklref.Problem, or another kind of it.")
    return {name: formulation.explain(problem) for name, formulation in FORMULATIONS.items()}


@np.errstate(all="ignore")  # what leaves the range of double precision is for the certificate to judge
def compile(problem: Any, formulation: str = "dual", *, factors: Factors | None = None) -> Compiled:  # noqa: A001
    """Prepare a formulation of a problem for repeated solves with other solvers or another C.

    Parameters
    ----------
    problem : Problem
    formulation : str
        One of `formulations(problem)`.
    factors : Factors, optional
        `_conic.scaling.factorize(problem.kernels)`, where several formulations of one problem share it.

    Raises
    ------
    InvalidParameter, NotApplicable
        As for `solve`.
    InvalidType
        Factors of another kind.
    """
    form = as_formulation(formulation)
    if factors is not None and not isinstance(factors, Factors):
        raise InvalidType(
            f"factors is {type(factors).__name__}; give what _conic.scaling.factorize made of the kernels, or None."
        )
    reason = form.explain(problem)
    if reason is not None:
        raise NotApplicable(f"{reason} These apply here: {', '.join(formulations(problem))}.")
    return Compiled(problem, form, factorize(problem.kernels) if factors is None else factors)


_PARSING = "Error parsing inputs"
"""What older versions of SCS say of an option that they do not know."""


class UnknownOptions(InvalidParameter):
    """A solver does not take the options that it was given."""


def first_confirmed(solver: str | None, solve: Callable[[str], Any]) -> tuple[Any, list[Exception]]:
    """The first solution of the solvers, or of one, that is OPTIMAL, else that of the smallest gap; and what failed.

    None if each one failed, and `UnknownOptions` if each did so for its options.
    """
    best: Any = None
    failures: list[Exception] = []
    for name in SOLVERS if solver is None else [solver_name(solver)]:
        try:
            solution = solve(name)
        except (SolverFailure, UnknownOptions) as failure:
            failures.append(failure)
            continue
        if best is None or solution.certificate.gap < best.certificate.gap:
            best = solution
        if best.status is Status.OPTIMAL:
            break
    if best is None and all(isinstance(failure, UnknownOptions) for failure in failures):
        raise UnknownOptions(" ".join(map(str, failures)))
    return best, failures


class Compiled:
    """A formulation of a problem, compiled by cvxpy at the first solve and reused afterwards."""

    def __init__(self, problem: Any, formulation: Formulation, factors: Factors) -> None:
        self.problem = problem
        self.formulation = formulation
        self.scaling = balanced(problem)
        self.factors = factors.scaled(self.scaling.factor)
        self._models: dict[bool, Model] = {}

    def model(self, second_order: bool) -> Model:
        """The cvxpy model, to be solved with exact power cones or with second-order cones in their place."""
        if second_order not in self._models:
            self._models[second_order] = self.formulation.build(self.scaling.stated(self.problem), self.factors)
        return self._models[second_order]

    @np.errstate(all="ignore")
    def solve(
        self,
        *,
        C: float | None = None,
        solver: str | None = None,
        tol: float = 1e-6,
        polish: bool = True,
        **solver_options: Any,
    ) -> Any:
        """Solve, at another C if one is given; otherwise as `reference.solve`."""
        problem = self.problem if C is None else self.problem.replace(C=C)
        checked_flag("polish", polish)
        tol = checked_number("tol", tol, "[0, inf]", "a relative duality gap.")
        best, failures = first_confirmed(
            solver, lambda name: self._solve_with(name, problem, tol, polish, solver_options)
        )
        if best is None:
            raise self._failure(failures, solver_options)
        return best

    def _failure(self, failures: Sequence[Exception], options: Mapping[str, Any]) -> SolverFailure:
        """What all solvers said; a claim of infeasibility or unboundedness if none said anything else."""
        less = f", or leave out the options {', '.join(options)}" if options else ""
        others = ", ".join(name for name in formulations(self.problem) if name != self.formulation.name)
        text = (
            f"no solver solved formulation {self.formulation.name!r}: {'; '.join(map(str, failures))}. "
            f"Try another {f'formulation ({others})' if others else 'solver'}, normalise the kernels{less}."
        )
        claims = [failure.claim for failure in failures if isinstance(failure, FalseClaim)]
        return FalseClaim(text, claims[0]) if len(claims) == len(failures) else SolverFailure(text)

    def _solve_with(self, solver: str, problem: Any, tol: float, polish: bool, options: dict[str, Any]) -> Any:
        started = time.perf_counter()
        unit = sum(unit_of(machine.problem) for machine in problem.machines)
        engine = Engine(solver, options, unit / self.scaling.value)
        point = self.scaling.restore(self._point(engine, problem))
        value = engine.value * self.scaling.value
        lacking = left_out(problem, point, self.factors, self.scaling.factor) > LARGEST_DOUBT * max(abs(value), unit)
        said = {"value": value, "claimed": cp.OPTIMAL_INACCURATE if lacking else engine.claimed}

        def solution(facts: dict[str, Any], raw: Any = None) -> Any:
            bounds = facts["certificate"]
            counters = {**engine.counters, "total_seconds": time.perf_counter() - started}
            return self.formulation.solution(
                **facts,
                **said,
                objective=bounds.objective,
                status=Status.OPTIMAL if bounds.is_optimal(tol) else Status.INACCURATE,
                history=History(counters=counters),
                solver=f"{self.formulation.name}/{solver}",
                raw=raw,
                **names_of_both(problem.kernels),
            )

        raw = solution(certified(problem, point))
        if not polish:
            return raw
        found = solution(polished(problem, point), raw)
        if found.status is not Status.OPTIMAL:
            with suppress(SolverFailure, InvalidParameter):  # where solvers do not break down, and there is such a C
                if (smaller := in_a_smaller_box(problem, found.dual_coef)) is not None:
                    other = Compiled(smaller, self.formulation, self.factors.scaled(1.0 / self.scaling.factor))
                    point = other.scaling.restore(other._point(engine, smaller))
                    near = polished(smaller, point)  # there its active set can be told
                    del near["certificate"]
                    facts = polished(problem, point._replace(**near))
                    found = min(found, solution(facts, raw), key=lambda either: either.certificate.gap)
        return found

    def _point(self, engine: Engine, problem: Any) -> Any:
        """What the formulation recovers; ECOS has no power cones, and those of others may break down."""
        for second_order in (True,) if engine.solver == "ECOS" else (False, True):
            model, engine.second_order = self.model(second_order), second_order
            model.set_costs(self.scaling.costs(problem.costs))
            try:
                point = model.run(engine)
            except SolverFailure as error:
                failure = error
                continue
            if all(np.all(np.isfinite(part)) for part in point):
                return point
            failure = SolverFailure(f"{engine.solver}: a point that is not finite")
        raise failure


class Engine:
    """Solves cvxpy programs with one solver and keeps count."""

    def __init__(self, solver: str, options: dict[str, Any] | None = None, unit: float = 0.0) -> None:
        self.solver, self.options = solver, options or {}
        self.unit = unit  # with which values are compared where the optimum is 0
        self.second_order = False
        """Whether second-order cones take the place of power cones in every program."""
        self.counters: dict[str, float] = {"compile_seconds": 0.0, "solve_seconds": 0.0, "programs": 0.0}
        self.value = np.nan
        """The optimal value of the last program, as the solver states it."""
        self.claimed = ""
        """What the solver says of it: "optimal", or "optimal_inaccurate" if it says so of any program, or its point of
        the optimal value (`doubt`)."""

    def __call__(self, program: Any) -> None:
        """Solve in place; raises `SolverFailure` unless there is a point, accurate or not."""
        started = time.perf_counter()
        if self.second_order:
            use_second_order_cones(program)
        claimed = self._attempt(program)
        elapsed = time.perf_counter() - started
        stats = program.solver_stats
        solving = float(stats.solve_time or 0.0) + float(stats.setup_time or 0.0)
        self.counters["solve_seconds"] += solving
        self.counters["compile_seconds"] += max(0.0, elapsed - solving)
        self.counters["programs"] += 1
        # The solver's own optimum: cvxpy's `value` is evaluated at the point, where ||v||^2/theta may be infinite.
        self.value = float(program.solution.opt_val)
        if claimed == cp.OPTIMAL and doubt(program, self.unit, self._gap) > LARGEST_DOUBT:
            claimed = cp.OPTIMAL_INACCURATE
        self.claimed = self.claimed if self.claimed == cp.OPTIMAL_INACCURATE else claimed

    def _attempt(self, program: Any) -> str:
        """Each tolerance in turn until the solver returns a point; what it says of it."""
        failure = SolverFailure(self.solver)
        for tolerance, reduced in TOLERANCES:
            try:
                with _quiet():
                    options = {**SOLVERS[self.solver](tolerance, reduced), **self.options}
                    self._gap = solved(program, self.solver, options)
            except BaseException as error:
                if _of_solver(error) and not (self.options and _PARSING in str(error)):
                    said = str(error).partition(" Try another solver")[0].strip().rstrip(".")  # remedies are ours
                    failure = SolverFailure(f"{self.solver}: {said or type(error).__name__}")
                    continue
                if not (self.options and isinstance(error, Exception)):
                    raise
                given = ", ".join(f"{name} = {shown(value)}" for name, value in self.options.items())
                said = str(error).strip().rstrip(".")
                raise UnknownOptions(
                    f"{self.solver} does not take the options {given}: {said}. cvxpy's documentation lists those of "
                    "each solver."
                ) from error
            if program.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
                firm = reduced <= FIRM and self.solver in KEEPS_ITS_WORD
                return cp.OPTIMAL if firm else str(program.status)
            text = f"{self.solver}: claims that the program is {program.status}"
            claim = program.status in (cp.INFEASIBLE, cp.UNBOUNDED)
            failure = FalseClaim(text, program.status) if claim else SolverFailure(text)
        raise failure


def _of_solver(error: BaseException) -> bool:
    """Whether a solver gave up, is short of memory, or panicked, as one in Rust does by no `Exception`."""
    own = isinstance(error, cp.error.SolverError | ArithmeticError | ValueError | MemoryError)
    return own or type(error).__name__ == "PanicException"  # of pyo3, which has no name to import


def solved(program: Any, solver: str, options: dict[str, Any]) -> float:
    """Solve in place, with the options of `program.solve`; the gap that the solver's own point has."""
    rest = dict(options)
    verbose, warm = rest.pop("verbose", False), rest.pop("warm_start", True)
    compiling = {name: rest.pop(name) for name in ("canon_backend", "enforce_dpp", "ignore_dpp") if name in rest}
    data, chain, inverse = program.get_problem_data(solver, verbose=verbose, solver_opts=rest, **compiling)
    raw = chain.solve_via_data(program, data, warm, verbose, rest)
    program.unpack_results(raw, chain, inverse)
    return gap(solver, data, raw)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what cvxpy says about accuracy, and its divisions by weights of 0: the certificate says it better."""
    with filtering("ignore", UserWarning, FutureWarning), np.errstate(all="ignore"):
        yield


def solver_name(solver: object) -> str:
    """The name as it stands in `SOLVERS`, in whatever case it is given; `InvalidParameter` lists the known ones."""
    if not isinstance(solver, str) or solver.upper() not in SOLVERS:
        raise InvalidParameter(f"solver = {shown(solver)} is unknown; known names: {', '.join(SOLVERS)}.")
    return solver.upper()
