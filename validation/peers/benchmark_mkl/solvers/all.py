"""benchopt: the solvers of `validation.peers.solvers`."""

from __future__ import annotations

from typing import Any

from benchopt import BaseSolver

from mklref.exceptions import NotApplicable
from validation.peers.solvers import SOLVERS


class Solver(BaseSolver):
    """One of them, asked for a tolerance."""

    name = "solver"
    sampling_strategy = "tolerance"
    parameters = {"which": list(SOLVERS)}  # noqa: RUF012

    def set_objective(self, problem: Any) -> None:
        """The problem."""
        self.problem = problem

    def skip(self, problem: Any) -> tuple[bool, str | None]:
        """Whether the solver refuses it."""
        try:
            SOLVERS[self.which](problem.replace(C=1e-6 * problem.C), 0.1)
        except NotApplicable as refused:
            return True, str(refused)
        return False, None

    def run(self, tolerance: float) -> None:
        """To a tolerance, whatever the solver takes it for."""
        self.answer = SOLVERS[self.which](self.problem, max(tolerance, 1e-10))

    def get_result(self) -> dict[str, Any]:
        """What is certified."""
        return dict(zip(("dual_coef", "weights", "intercept"), self.answer, strict=True))
