r"""Ground truth for mixed-norm synthesis by convex modelling, in two forms.

primal, over A (tau, N) and t (n,):    minimise  C sum V(t_j, y_j) + (lambda/q) ||A||_{pq;r}^q
                                       subject to  t = sum_t K_t A_t
dual, over beta (n,) and Z (tau, N):   maximise  -C sum V*(-beta_j/C, y_j) - lambda Omega*(Z/lambda)
                                       subject to  Z_t = K_t'beta    for every t

Each form yields the variables of the other as multipliers: beta belongs to t = K A, and A to Z = K'beta. Nothing but
the problem, its losses and the certificate is shared with the solvers. Importing this module does not import cvxpy.

Source: Kowalski, Szafranski and Ralaivola (2); the dual is ours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_choice, checked_positive
from mklref.exceptions import SolverFailure
from mklref.formulations.dual import V_star
from mklref.losses.base import Costs, cp
from mklref.reference import Engine, first_confirmed
from mklref.solution import History, Status
from mklref.synthesis.certificate import certify
from mklref.synthesis.problem import SynthesisProblem, checked_problem
from mklref.synthesis.solution import SynthesisSolution

FORMS = ("primal", "dual")


def solve(
    problem: SynthesisProblem,
    form: str = "primal",
    *,
    solver: str | None = None,
    tol: float = 1e-6,
    **solver_options: Any,
) -> SynthesisSolution:
    """Solve a mixed-norm synthesis problem with cvxpy.

    Parameters
    ----------
    problem : SynthesisProblem
    form : {"primal", "dual"}
    solver : str, optional
        "CLARABEL", "ECOS" or "SCS"; by default the first of them that reaches `tol`.
    tol : float
        Certified relative gap, as in `mklref.synthesis.solve`, from which on the solution counts as optimal.
    **solver_options
        Passed to the solver by cvxpy.

    Returns
    -------
    SynthesisSolution
        `solver` names form and solver, for instance "primal/CLARABEL"; `status` is OPTIMAL if the certificate confirms
        `tol`, whatever the solver said, and INACCURATE otherwise.

    Raises
    ------
    InvalidType
        Not a `SynthesisProblem`.
    InvalidParameter
        Unknown names; the message lists the known ones. A tol outside (0, inf). Options that no solver takes.
    SolverFailure
        No solver returned a point; the message lists what each one said.
    """
    checked_problem(problem)
    tol = checked_positive("tol", tol, "a relative duality gap, for instance 1e-6.")
    checked_choice("form", form, FORMS)
    build = _primal if form == "primal" else _dual

    def solved(name: str) -> SynthesisSolution:
        engine = Engine(name, solver_options)
        A, beta = build(problem, engine)
        certificate = max((certify(problem, A, dual) for dual in (None, beta)), key=lambda bounds: bounds.lower)
        status = Status.OPTIMAL if certificate.is_optimal(tol) else Status.INACCURATE
        history = History(counters=engine.counters)
        return SynthesisSolution(
            A,
            beta,
            certificate.objective,
            certificate,
            status,
            history,
            problem.constant,
            f"{form}/{name}",
            problem.point_names,
            problem.kernel_names,
        )

    best, failures = first_confirmed(solver, solved)
    if best is None:
        raise SolverFailure(f"no solver solved the {form} form: {'; '.join(map(str, failures))}. Try the other form.")
    found: SynthesisSolution = best
    return found


def _primal(problem: SynthesisProblem, engine: Engine) -> tuple[Array, Array]:
    A = [cp.Variable(problem.shape[1]) for _ in problem.kernels]
    t = cp.Variable(problem.n_samples)
    scores = t == sum(K @ a for K, a in zip(problem.kernels, A, strict=True))
    losses = problem.C * cp.sum(problem.loss.atom(t, problem.y))
    stacked = cp.vstack(A)
    groups = stacked.T if problem.norm.r == 1 else stacked
    norms = cp.norm(groups, problem.norm.p, axis=1)
    penalty = cp.sum(norms) if problem.norm.q == 1 else cp.sum_squares(norms) / 2
    engine(cp.Problem(cp.Minimize(losses + problem.lam * penalty), [scores]))
    return np.array([a.value for a in A]), np.asarray(scores.dual_value, dtype=np.float64)


def _dual(problem: SynthesisProblem, engine: Engine) -> tuple[Array, Array]:
    beta = cp.Variable(problem.n_samples)
    Z = [cp.Variable(problem.shape[1]) for _ in problem.kernels]
    links = [z == K.T @ beta for K, z in zip(problem.kernels, Z, strict=True)]
    losses, domain = V_star(problem.loss, beta, problem.y, Costs(problem.costs, 1.0 / problem.costs))
    stacked = cp.vstack(Z)
    groups = stacked.T if problem.norm.r == 1 else stacked
    norms = cp.norm(groups, "inf" if problem.norm.p == 1 else 2, axis=1)
    ball = [norms <= problem.lam] if problem.norm.q == 1 else []
    penalty = cp.sum_squares(norms) / (2 * problem.lam) if problem.norm.q == 2 else 0
    engine(cp.Problem(cp.Minimize(losses + penalty), [*links, *domain, *ball]))
    # The multipliers of Z = K'beta in a minimisation are the coefficients, up to the sign that cvxpy gives equalities.
    return -np.array([link.dual_value for link in links]), np.asarray(beta.value, dtype=np.float64)
