"""Losses on the margin z = y t, for labels y in {-1, +1}; and of one class, which has no labels: y is all ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mklref._typing import Array
from mklref.losses.base import Loss, PiecewiseQuadratic, cp


@dataclass(frozen=True)
class _Margin(PiecewiseQuadratic):
    """max(0, m - y t): what a score lacks of the margin m."""

    def value(self, t: Array, y: Array) -> Array:
        return np.maximum(0.0, self.margin - y * t)

    def subgradient(self, t: Array, y: Array) -> Array:
        return np.where(y * t < self.margin, -y, 0.0)

    def kinks(self, y: Array) -> Array:
        """The margin: t = m y."""
        return self.margin * y[None, :]

    def atom(self, t: Any, y: Array) -> Any:
        return cp.pos(self.margin - cp.multiply(y, t))

    def domain(self, y: Array) -> tuple[Array, Array]:
        return np.minimum(-y, 0.0), np.maximum(-y, 0.0)


@dataclass(frozen=True)
class Hinge(_Margin):
    """Hinge loss of the support vector machine (SimpleMKL (2); Kloft 3.1).

    V(t, y)  = max(0, 1 - y t)
    V*(s, y) = s y   on  -1 <= s y <= 0
    dual     = sum y_i beta_i   on  0 <= y_i beta_i <= c_i
    """

    name: ClassVar[str] = "hinge"
    targets: ClassVar[str] = "labels"


@dataclass(frozen=True)
class SquaredHinge(_Margin):
    """Squared hinge loss, with 1/2 (Kowalski (2) is this one with C = 2).

    V(t, y)  = 1/2 max(0, 1 - y t)^2
    V*(s, y) = s y + s^2 / 2   on  s y <= 0
    dual     = sum y_i beta_i - beta_i^2 / (2 c_i)   on  y_i beta_i >= 0
    """

    name: ClassVar[str] = "squared_hinge"
    targets: ClassVar[str] = "labels"
    smoothness: ClassVar[float] = 1.0

    def value(self, t: Array, y: Array) -> Array:
        return 0.5 * super().value(t, y) ** 2

    def subgradient(self, t: Array, y: Array) -> Array:
        return -y * super().value(t, y)

    def atom(self, t: Any, y: Array) -> Any:
        return 0.5 * cp.square(super().atom(t, y))

    def domain(self, y: Array) -> tuple[Array, Array]:
        return np.where(y > 0, -np.inf, 0.0), np.where(y > 0, 0.0, np.inf)


@dataclass(frozen=True)
class Logistic(Loss):
    """Logistic loss (SimpleMKL 4.3).

    V(t, y)  = log(1 + exp(-y t))
    V*(s, y) = u log u + (1 - u) log(1 - u),  u = -s y,   on  0 <= u <= 1
    dual     = sum c_i H(y_i beta_i / c_i),  H the binary entropy in nats
    """

    name: ClassVar[str] = "logistic"
    targets: ClassVar[str] = "labels"
    smoothness: ClassVar[float] = 0.25

    def value(self, t: Array, y: Array) -> Array:
        """log(1 + exp(-y t)), without overflow."""
        return np.logaddexp(0.0, -y * t)

    def subgradient(self, t: Array, y: Array) -> Array:
        return -y * np.exp(-np.logaddexp(0.0, y * t))

    def curvature(self, t: Array, y: Array) -> Array:
        """u (1 - u) with u = |V'(t, y)|."""
        u = np.abs(self.subgradient(t, y))
        return u * (1.0 - u)

    def conjugate(self, s: Array, y: Array) -> Array:
        u = -s * y
        inside = (u >= 0.0) & (u <= 1.0)
        u = np.where(inside, u, 0.0)
        positive, below_one = np.where(u > 0.0, u, 1.0), np.where(u < 1.0, u, 0.0)  # 0 log 0 = 0
        return np.where(inside, u * np.log(positive) + (1.0 - u) * np.log1p(-below_one), np.inf)

    def domain(self, y: Array) -> tuple[Array, Array]:
        return np.minimum(-y, 0.0), np.maximum(-y, 0.0)

    def kinks(self, y: Array) -> Array:
        return np.empty((0, len(y)))

    def atom(self, t: Any, y: Array) -> Any:
        return cp.logistic(-cp.multiply(y, t))


@dataclass(frozen=True)
class OneClass(_Margin):
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
    margin: ClassVar[float] = 0.0


@dataclass(frozen=True)
class DensityLevelSet(_Margin):
    """One-class loss with fixed margin 1 and no intercept (Kloft 3.5, whose primal prints max(0, f), erratum L6).

    V(t, y)  = max(0, 1 - t)
    V*(s, y) = s   on  -1 <= s <= 0
    dual     = sum beta_i   on  0 <= beta_i <= c_i
    """

    name: ClassVar[str] = "density_level_set"
    targets: ClassVar[str] = "ones"
    intercept: ClassVar[str] = "forbidden"
