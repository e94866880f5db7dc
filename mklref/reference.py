"""Ground truth by convex modelling: any formulation, several conic solvers, one certificate.

    solution = reference.solve(problem, "dual")              the first solver whose point the certificate confirms
    compiled = reference.compile(problem, "mixed_norm")      compiled once, then
    compiled.solve(C=10.0)                                   solved for many C

This module is the only caller of cvxpy's solvers. What a solver claims is kept for comparison
(`history.counters["claimed"]`); what is believed is the certificate at exactly the returned point.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from mklref.certificate import Bounds
from mklref.exceptions import InvalidParameter, NotApplicable, SolverFailure
from mklref.formulations import FORMULATIONS, Factors, Formulation, Model, Point, as_formulation, factorize
from mklref.multiclass import MulticlassProblem, MulticlassSolution
from mklref.problem import Problem
from mklref.signed import SignedProblem, SignedSolution
from mklref.solution import History, Solution, Status

if TYPE_CHECKING:
    import cvxpy as cp

TOLERANCES = (1e-9, 1e-7)
"""What a solver is asked for first, and what if it breaks down there: the polish and the certificate do the rest."""

SOLVERS: dict[str, Callable[[float], dict[str, Any]]] = {
    # Measured: with the quadratic objective as cones Clarabel solves every form, otherwise some fail.
    "CLARABEL": lambda eps: {"use_quad_obj": False, "tol_gap_abs": eps, "tol_gap_rel": eps, "tol_feas": eps},
    "ECOS": lambda eps: {"abstol": eps, "reltol": eps, "feastol": eps, "max_iters": 300},
    "SCS": lambda eps: {"eps_abs": 100 * eps, "eps_rel": 100 * eps, "max_iters": 20_000},
}
"""The solvers in the order in which they are tried, and their options for a tolerance."""


@overload
def solve(problem: Problem, formulation: str = ..., **options: Any) -> Solution: ...
@overload
def solve(problem: MulticlassProblem, formulation: str, **options: Any) -> MulticlassSolution: ...
@overload
def solve(problem: SignedProblem, formulation: str, **options: Any) -> SignedSolution: ...
def solve(
    problem: Any,
    formulation: str = "dual",
    *,
    solver: str | None = None,
    tol: float = 1e-6,
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
    **solver_options
        Passed to the solver by cvxpy, on top of the options in `SOLVERS`.

    Returns
    -------
    Solution, MulticlassSolution or SignedSolution
        `solver` names formulation and solver, for instance "dual/CLARABEL"; `status` is OPTIMAL if the
        certificate confirms `tol`, whatever the solver said, and INACCURATE otherwise. The counters of the
        history hold the solver's own optimal value ("claimed") and the seconds to compile and to solve.

    Raises
    ------
    InvalidParameter
        Unknown names; the message lists the known ones.
    NotApplicable
        The formulation does not cover the problem; the message says why and what does.
    SolverFailure
        No solver returned a point; the message lists what each one said.
    """
    return compile(problem, formulation).solve(solver=solver, tol=tol, **solver_options)


def formulations(problem: Any = None) -> tuple[str, ...]:
    """The names of all formulations, or of those that apply to the problem."""
    if problem is None:
        return tuple(FORMULATIONS)
    return tuple(name for name, reason in explain(problem).items() if reason is None)


def explain(problem: Any) -> dict[str, str | None]:
    """For every formulation None if it applies to the problem, else the reason why it does not."""
    return {name: formulation.explain(problem) for name, formulation in FORMULATIONS.items()}


def compile(problem: Any, formulation: str = "dual", *, factors: Factors | None = None) -> Compiled:  # noqa: A001
    """Prepare a formulation of a problem for repeated solves with other solvers or another C.

    Parameters
    ----------
    problem : Problem
    formulation : str
        One of `formulations(problem)`.
    factors : Factors, optional
        `formulations.factorize(problem.kernels)`, where several formulations of one problem share it.

    Returns
    -------
    Compiled

    Raises
    ------
    InvalidParameter, NotApplicable
        As for `solve`.
    """
    form = as_formulation(formulation)
    reason = form.explain(problem)
    if reason is not None:
        raise NotApplicable(f"{reason} These apply here: {', '.join(formulations(problem))}.")
    return Compiled(problem, form, factors or factorize(problem.kernels))


class Compiled:
    """A formulation of a problem, compiled by cvxpy at the first solve and reused afterwards."""

    def __init__(self, problem: Any, formulation: Formulation, factors: Factors) -> None:
        self.problem = problem
        self.formulation = formulation
        self.scaling = formulation.scaling(problem)
        self.factors = factors.scaled(self.scaling.factor)
        self._models: dict[bool, Model] = {}

    def model(self, second_order: bool) -> Model:
        """The cvxpy model, with exact power cones or with second-order cones in their place."""
        if second_order not in self._models:
            model = self.formulation.build(self.problem, self.factors)
            if second_order:
                model.avoid_power_cones()
            self._models[second_order] = model
        return self._models[second_order]

    def solve(
        self, *, C: float | None = None, solver: str | None = None, tol: float = 1e-6, **solver_options: Any
    ) -> Any:
        """Solve, at another C if one is given; otherwise as `reference.solve`."""
        problem = self.problem if C is None else self.problem.replace(C=C)
        best: Any = None
        said: list[str] = []
        for name in _chain(solver):
            try:
                solution = self._solve_with(name, problem, tol, solver_options)
            except SolverFailure as failure:
                said.append(str(failure))
                continue
            if best is None or solution.certificate.gap < best.certificate.gap:
                best = solution
            if best.status is Status.OPTIMAL:
                break
        if best is None:
            raise SolverFailure(
                f"no solver solved formulation {self.formulation.name!r}: {'; '.join(said)}. "
                f"Try another formulation ({', '.join(formulations(problem))}) or normalise the kernels."
            )
        return best

    def _solve_with(self, solver: str, problem: Any, tol: float, options: dict[str, Any]) -> Any:
        started = time.perf_counter()
        engine = Engine(solver, options)
        point, model = self._point(engine, problem)
        facts = self.formulation.finish(problem, self.scaling.restore(point), model)
        certificate: Bounds = facts["certificate"]
        counters = {**engine.counters, "total_seconds": time.perf_counter() - started}
        counters["claimed"] *= self.scaling.cost
        return self.formulation.solution(
            **facts,
            objective=certificate.objective,
            status=Status.OPTIMAL if certificate.is_optimal(tol) else Status.INACCURATE,
            history=History(counters=counters),
            solver=f"{self.formulation.name}/{solver}",
        )

    def _point(self, engine: Engine, problem: Any) -> tuple[Point, Model]:
        """What the formulation recovers; ECOS has no power cones, and those of others may break down."""
        for second_order in (True,) if engine.solver == "ECOS" else (False, True):
            model = self.model(second_order)
            model.set_costs(self.scaling.costs(problem.costs))
            try:
                point = model.run(engine)
            except SolverFailure as error:
                failure = error
                continue
            if all(np.all(np.isfinite(part)) for part in point):
                return point, model
            failure = SolverFailure(f"{engine.solver}: a point that is not finite")
        raise failure


class Engine:
    """Solves cvxpy programs with one solver and keeps count."""

    def __init__(self, solver: str, options: dict[str, Any] | None = None) -> None:
        self.solver = solver
        self.options = options or {}
        self.counters: dict[str, float] = {"compile_seconds": 0.0, "solve_seconds": 0.0, "programs": 0.0}

    def __call__(self, program: cp.Problem) -> None:
        """Solve in place; raises `SolverFailure` unless there is a point, accurate or not."""
        import cvxpy as cp

        started = time.perf_counter()
        self._attempt(program)
        elapsed = time.perf_counter() - started
        stats = program.solver_stats
        solving = float(stats.solve_time or 0.0) + float(stats.setup_time or 0.0)
        self.counters["solve_seconds"] += solving
        self.counters["compile_seconds"] += max(0.0, elapsed - solving)
        self.counters["programs"] += 1
        # The solver's own optimum: cvxpy's `value` is evaluated at the point, where ||v||^2/theta may be infinite.
        self.counters["claimed"] = float(program.solution.opt_val)
        self.counters["claimed_accurate"] = float(program.status == cp.OPTIMAL)

    def _attempt(self, program: cp.Problem) -> None:
        """Each tolerance in turn until the solver returns a point."""
        import cvxpy as cp

        said = ""
        for tolerance in TOLERANCES:
            try:
                with _quiet():
                    program.solve(solver=self.solver, **{**SOLVERS[self.solver](tolerance), **self.options})
            except (cp.error.SolverError, ArithmeticError, ValueError) as error:
                said = str(error) or type(error).__name__
                continue
            if program.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
                return
            said = f"claims that the program is {program.status}"
        raise SolverFailure(f"{self.solver}: {said}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what cvxpy says about accuracy, and its divisions by weights of 0: the certificate says it better."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", FutureWarning)
        yield


def _chain(solver: str | None) -> tuple[str, ...]:
    """The solvers to try, in order."""
    if solver is None:
        return tuple(SOLVERS)
    return (solver_name(solver),)


def solver_name(solver: object) -> str:
    """The name as it stands in `SOLVERS`, in whatever case it is given.

    Raises
    ------
    InvalidParameter
        Another solver; the known ones are listed.
    """
    if not isinstance(solver, str) or solver.upper() not in SOLVERS:
        raise InvalidParameter(f"solver = {solver!r} is unknown; known names: {', '.join(SOLVERS)}.")
    return solver.upper()
