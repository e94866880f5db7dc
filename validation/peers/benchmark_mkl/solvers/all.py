"""benchopt: the solvers of `validation.peers.solvers`, and programs in other languages.

MKLREF_PEERS in the environment names programs, one NAME=TEMPLATE a line, as --command of `validation.peers.gaps` does.
"""

from __future__ import annotations

import os
from typing import Any

from benchopt import BaseSolver

from mklref.exceptions import NotApplicable
from validation.peers.gaps import TOLERANCES
from validation.peers.solvers import SOLVERS, commands

PROGRAMS = commands(filter(str.strip, os.environ.get("MKLREF_PEERS", "").splitlines()))


class Solver(BaseSolver):
    """One of them, asked for a tolerance."""

    name = "solver"
    sampling_strategy = "tolerance"
    parameters = {"which": [*SOLVERS, *PROGRAMS]}  # noqa: RUF012

    def set_objective(self, problem: Any) -> None:
        """The problem."""
        self.problem = problem
        self.solve = {**SOLVERS, **PROGRAMS}[self.which]

    def skip(self, problem: Any) -> tuple[bool, str | None]:
        """Whether the solver refuses it; a program is not asked, since it would be run."""
        try:
            if self.which in SOLVERS:
                SOLVERS[self.which](problem.replace(C=1e-6 * problem.C), 0.1)
        except NotApplicable as refused:
            return True, str(refused)
        return False, None

    def get_next(self, tolerance: float) -> float:
        """The tolerances of `validation.peers.gaps`: benchopt's own are so close together that it sees no progress."""
        return next((tol for tol in TOLERANCES if tol < tolerance), TOLERANCES[-1])

    def run(self, tolerance: float) -> None:
        """To a tolerance, whatever the solver takes it for; the first one is infinite."""
        self.answer = self.solve(self.problem, min(tolerance, TOLERANCES[0]))

    def get_result(self) -> dict[str, Any]:
        """What is certified."""
        return dict(zip(("dual_coef", "weights", "intercept"), self.answer, strict=True))
