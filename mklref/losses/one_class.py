"""One-class losses, which have no labels: y is all ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mklref._typing import Array
from mklref.losses.base import Loss, QuadraticDual


@dataclass(frozen=True)
class OneClass(Loss):
    """Loss of the nu one-class machine (SimpleMKL (17), (19)): C = 1/(nu n), and the intercept costs 1.

    V(t, y)  = max(0, -t)
    V*(s, y) = 0   on  -1 <= s <= 0
    dual     = 0   on  0 <= beta_i <= c_i,  1'beta = 1

    The intercept is minus the margin r of the paper: f(x) + b >= 0 for the samples inside.
    The optimal value is negative, which SimpleMKL's Algorithm 1 does not foresee where it starts at 0 (erratum R4).
    With sum c_i < 1 the dual is infeasible and the primal unbounded, so `Problem` refuses it.
    """

    name: ClassVar[str] = "one_class"
    targets: ClassVar[str] = "ones"
    intercept: ClassVar[str] = "required"
    intercept_cost: ClassVar[float] = 1.0

    def value(self, t: Array, y: Array) -> Array:
        """max(0, -t)."""
        return np.maximum(0.0, -t)

    def subgradient(self, t: Array, y: Array) -> Array:
        """-1 where t < 0, else 0."""
        return np.where(t < 0.0, -1.0, 0.0)

    def conjugate(self, s: Array, y: Array) -> Array:
        """0 on -1 <= s <= 0, else +inf."""
        return np.where((s >= -1.0) & (s <= 0.0), 0.0, np.inf)

    def domain(self, y: Array) -> tuple[Array, Array]:
        """-1 <= s <= 0."""
        return np.full(len(y), -1.0), np.zeros(len(y))

    def kinks(self, y: Array) -> Array:
        """The boundary: t = 0."""
        return np.zeros((1, len(y)))

    def atom(self, t: Any, y: Array) -> Any:
        """pos(-t)."""
        import cvxpy as cp

        return cp.pos(-t)

    def quadratic_dual(self, y: Array) -> QuadraticDual:
        """No linear term, box [0, 1]."""
        return QuadraticDual(linear=np.zeros(len(y)), lower=np.zeros(len(y)), upper=np.ones(len(y)))


@dataclass(frozen=True)
class DensityLevelSet(Loss):
    """One-class loss with fixed margin 1 and no intercept (Kloft 3.5, whose primal prints max(0, f), erratum L6).

    V(t, y)  = max(0, 1 - t)
    V*(s, y) = s   on  -1 <= s <= 0
    dual     = sum beta_i   on  0 <= beta_i <= c_i
    """

    name: ClassVar[str] = "density_level_set"
    targets: ClassVar[str] = "ones"
    intercept: ClassVar[str] = "forbidden"

    def value(self, t: Array, y: Array) -> Array:
        """max(0, 1 - t)."""
        return np.maximum(0.0, 1.0 - t)

    def subgradient(self, t: Array, y: Array) -> Array:
        """-1 where t < 1, else 0."""
        return np.where(t < 1.0, -1.0, 0.0)

    def conjugate(self, s: Array, y: Array) -> Array:
        """s on -1 <= s <= 0, else +inf."""
        return np.where((s >= -1.0) & (s <= 0.0), s, np.inf)

    def domain(self, y: Array) -> tuple[Array, Array]:
        """-1 <= s <= 0."""
        return np.full(len(y), -1.0), np.zeros(len(y))

    def kinks(self, y: Array) -> Array:
        """The margin: t = 1."""
        return np.ones((1, len(y)))

    def atom(self, t: Any, y: Array) -> Any:
        """pos(1 - t)."""
        import cvxpy as cp

        return cp.pos(1 - t)

    def quadratic_dual(self, y: Array) -> QuadraticDual:
        """Linear term 1, box [0, 1]."""
        one = np.ones(len(y))
        return QuadraticDual(linear=one, lower=np.zeros(len(y)), upper=one)
