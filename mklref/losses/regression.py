"""Losses on the residual y - t, for real targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mklref._typing import Array
from mklref._validate import check_field
from mklref.losses.base import PiecewiseQuadratic, cp


@dataclass(frozen=True)
class Squared(PiecewiseQuadratic):
    """Half squared residual (Kloft 3.4; Tomioka sections 2 and 4 at another C).

    V(t, y)  = 1/2 (y - t)^2
    V*(s, y) = s y + s^2 / 2
    dual     = sum y_i beta_i - beta_i^2 / (2 c_i)

    Tomioka prints two quadratic losses, a factor 2 apart (erratum T6): with C_TS on the regulariser, C is
    2/(sigma^2 C_TS) for that of section 2 and 1/(sigma^2 C_TS) for that of section 4.
    """

    name: ClassVar[str] = "squared"
    targets: ClassVar[str] = "real"
    smoothness: ClassVar[float] = 1.0

    def value(self, t: Array, y: Array) -> Array:
        return 0.5 * (y - t) ** 2

    def subgradient(self, t: Array, y: Array) -> Array:
        return t - y

    def kinks(self, y: Array) -> Array:
        return np.empty((0, len(y)))

    def atom(self, t: Any, y: Array) -> Any:
        return 0.5 * cp.square(y - t)

    def domain(self, y: Array) -> tuple[Array, Array]:
        return np.full(len(y), -np.inf), np.full(len(y), np.inf)


@dataclass(frozen=True)
class _Tube(PiecewiseQuadratic):
    """max(0, |y - t| - epsilon): how far a score is outside of the tube around its target."""

    epsilon: float = 0.1
    targets: ClassVar[str] = "real"

    def __post_init__(self) -> None:
        check_field(self, "epsilon", "[0, inf)", "the half-width of the tube, in units of y.")

    @property
    def absolute(self) -> float:
        return self.epsilon

    def value(self, t: Array, y: Array) -> Array:
        return np.maximum(0.0, np.abs(y - t) - self.epsilon)

    def kinks(self, y: Array) -> Array:
        """The walls of the tube, y - epsilon and y + epsilon."""
        return np.stack([y - self.epsilon, y + self.epsilon])

    def atom(self, t: Any, y: Array) -> Any:
        return cp.pos(cp.abs(y - t) - self.epsilon)


@dataclass(frozen=True)
class EpsilonInsensitive(_Tube):
    """Epsilon-insensitive loss of support vector regression, epsilon in [0, inf) (SimpleMKL (16), (18)).

    V(t, y)  = max(0, |y - t| - epsilon)
    V*(s, y) = s y + epsilon |s|   on  |s| <= 1
    dual     = sum y_i beta_i - epsilon |beta_i|   on  |beta_i| <= c_i

    SimpleMKL has two multipliers for each sample: beta_i is that of y_i - f(x_i) - b <= epsilon + xi_i less that of
    f(x_i) + b - y_i <= epsilon + xi*_i. Its (16) prints xi* <= 0, which should read xi* >= 0 (erratum R3).
    """

    name: ClassVar[str] = "epsilon_insensitive"

    def subgradient(self, t: Array, y: Array) -> Array:
        """sign(t - y) outside the tube, 0 inside."""
        return np.where(np.abs(y - t) > self.epsilon, np.sign(t - y), 0.0)

    def domain(self, y: Array) -> tuple[Array, Array]:
        return np.full(len(y), -1.0), np.full(len(y), 1.0)


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(_Tube):
    """Squared epsilon-insensitive loss, with 1/2, epsilon in [0, inf) (SimpleMKL 4.1, remark).

    V(t, y)  = 1/2 max(0, |y - t| - epsilon)^2
    V*(s, y) = s y + epsilon |s| + s^2 / 2
    dual     = sum y_i beta_i - epsilon |beta_i| - beta_i^2 / (2 c_i)
    """

    name: ClassVar[str] = "squared_epsilon_insensitive"
    smoothness: ClassVar[float] = 1.0

    def value(self, t: Array, y: Array) -> Array:
        return 0.5 * super().value(t, y) ** 2

    def subgradient(self, t: Array, y: Array) -> Array:
        """sign(t - y) max(0, |y - t| - epsilon)."""
        return np.sign(t - y) * super().value(t, y)

    def atom(self, t: Any, y: Array) -> Any:
        return 0.5 * cp.square(super().atom(t, y))

    def domain(self, y: Array) -> tuple[Array, Array]:
        return np.full(len(y), -np.inf), np.full(len(y), np.inf)


@dataclass(frozen=True)
class Huber(PiecewiseQuadratic):
    """Huber's loss: quadratic near the target, linear beyond delta in (0, inf).

    V(t, y)  = 1/2 r^2 for |r| <= delta, delta |r| - delta^2/2 beyond,   r = y - t
    V*(s, y) = s y + s^2 / 2   on  |s| <= delta
    dual     = sum y_i beta_i - beta_i^2 / (2 c_i)   on  |beta_i| <= delta c_i
    """

    delta: float = 1.0
    name: ClassVar[str] = "huber"
    targets: ClassVar[str] = "real"
    smoothness: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_field(self, "delta", "(0, inf)", "the residual beyond which the loss is linear.")

    def value(self, t: Array, y: Array) -> Array:
        r = np.abs(y - t)
        near = np.minimum(r, self.delta)
        return near * (r - 0.5 * near)

    def subgradient(self, t: Array, y: Array) -> Array:
        """The residual t - y, clipped at delta."""
        return np.clip(t - y, -self.delta, self.delta)

    def kinks(self, y: Array) -> Array:
        """Where the loss turns linear, y - delta and y + delta."""
        return np.stack([y - self.delta, y + self.delta])

    def atom(self, t: Any, y: Array) -> Any:
        """huber(y - t, delta)/2: cvxpy's atom is twice ours."""
        return 0.5 * cp.huber(y - t, self.delta)

    def domain(self, y: Array) -> tuple[Array, Array]:
        return np.full(len(y), -self.delta), np.full(len(y), self.delta)


@dataclass(frozen=True)
class Pinball(PiecewiseQuadratic):
    """Pinball loss of quantile regression at level tau in (0, 1).

    V(t, y)  = max(tau (y - t), (tau - 1) (y - t))
    V*(s, y) = s y   on  -tau <= s <= 1 - tau
    dual     = sum y_i beta_i   on  (tau - 1) c_i <= beta_i <= tau c_i
    """

    tau: float = 0.5
    name: ClassVar[str] = "pinball"
    targets: ClassVar[str] = "real"

    def __post_init__(self) -> None:
        check_field(self, "tau", "(0, 1)", "the level of the quantile.")

    def value(self, t: Array, y: Array) -> Array:
        r = y - t
        return np.maximum(self.tau * r, (self.tau - 1.0) * r)

    def subgradient(self, t: Array, y: Array) -> Array:
        """-tau below the target, 1 - tau above, 0 on it."""
        return np.where(t < y, -self.tau, np.where(t > y, 1.0 - self.tau, 0.0))

    def kinks(self, y: Array) -> Array:
        """The target."""
        return y[None, :]

    def atom(self, t: Any, y: Array) -> Any:
        return cp.maximum(self.tau * (y - t), (self.tau - 1.0) * (y - t))

    def domain(self, y: Array) -> tuple[Array, Array]:
        return np.full(len(y), -self.tau), np.full(len(y), 1.0 - self.tau)
