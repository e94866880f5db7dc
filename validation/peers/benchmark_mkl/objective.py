"""benchopt: the certified relative gap of `mklref.certify`, whoever computed the answer.

Run from the checkout, with its root on PYTHONPATH: `benchopt run validation/peers/benchmark_mkl`. The installation has
to be the editable one of CONTRIBUTING.md: beside any other the checkout is found without its compiled core.
"""

from __future__ import annotations

from typing import Any

from benchopt import BaseObjective

import mklref
from validation.facts import require_core


class Objective(BaseObjective):
    """Multiple kernel learning with the hinge loss and an lp ball."""

    name = "Multiple kernel learning"
    parameters = {"p": [1.0, 2.0]}  # noqa: RUF012
    sampling_strategy = "tolerance"

    def set_data(self, kernels: Any, y: Any, C: float) -> None:
        """One data set; nothing is timed without the compiled core."""
        require_core()
        self.problem = mklref.Problem(kernels, y, C=C, regularizer=mklref.Lp(self.p))

    def get_objective(self) -> dict[str, Any]:
        """What solvers get."""
        return {"problem": self.problem}

    def evaluate_result(self, dual_coef: Any, weights: Any, intercept: Any) -> dict[str, float]:
        """The gap, its bounds, and how many kernels have a weight."""
        found = mklref.certify(self.problem, dual_coef, weights=weights, intercept=intercept)
        return {"value": found.relative_gap, "lower": found.lower, "upper": found.upper}

    def get_one_result(self) -> dict[str, Any]:
        """A point that is feasible."""
        return {"dual_coef": 0.0 * self.problem.y, "weights": None, "intercept": 0.0}
