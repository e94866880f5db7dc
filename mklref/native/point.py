"""One evaluated point of the loop, and how long points may go without becoming better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.native.step import Cut


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One evaluated point: weights (M,), the machine's answer to them, and the bounds of the optimum that it gives."""

    weights: Array
    beta: Array
    squares: Array
    intercept: Any
    merit: float
    """J + psi, or -J* where there is no psi."""
    upper: float
    lower: float
    inner_gap: float
    """The gap of the machine itself."""
    value: float
    working_gap: float
    """The gap as it would be if the kernels that are not watched were not there."""
    images: list[Array] | None = None
    """K_m beta of each machine, (M, n_p), kept where kernels lie on disk, which can be lost."""

    @property
    def cut(self) -> Cut:
        """The lower bound of J that this dual point gives."""
        return Cut(self.beta, self.squares, self.value + 0.5 * float(self.weights @ self.squares))

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower


class Patience:
    """How long no centre has become better: no smaller gap, no lower objective, no lower merit. Rounding is then it."""

    def __init__(self) -> None:
        self.smallest = self.lowest = self.highest = np.inf
        self.waited = 0

    def look(self, centre: Point, above: float, target: float) -> None:
        """Compare with what was before, at a centre whose merit is so far above the best lower bound."""
        better = centre.working_gap < 0.9 * self.smallest or centre.upper < self.lowest - target
        self.waited = 0 if better or target < above < 0.9 * self.highest else self.waited + 1
        self.smallest, self.lowest = min(self.smallest, centre.working_gap), min(self.lowest, centre.upper)
        self.highest = min(self.highest, above)
