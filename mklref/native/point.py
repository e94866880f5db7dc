"""What the outer loop knows of a point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mklref._typing import Array
from mklref.native.steps import Cut


@dataclass(frozen=True)
class Point:
    """One evaluated point: weights (M,), the machine's answer to them, and the bounds of the optimum that it gives."""

    weights: Array
    beta: Array
    squares: Array
    intercept: Any
    merit: float
    upper: float
    lower: float
    inner_gap: float
    value: float
    working_gap: float
    """The gap as it would be if the kernels that are not watched were not there."""
    images: list[Array] | None = None
    """K_m beta of each machine, (M, n_p), kept where kernels lie on disk, which can be lost."""

    def cut(self) -> Cut:
        """The lower bound of J that this dual point gives."""
        return Cut(self.beta, self.squares, self.value + 0.5 * float(self.weights @ self.squares))

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower
