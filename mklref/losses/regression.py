"""Losses on the residual y - t, for real targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_number
from mklref.losses.base import Loss, QuadraticDual


def _number(name: str, value: Any, interval: str, meaning: str) -> float:
    """A parameter of a loss, if it is a number in the interval "[0, inf)", "(0, inf)" or "(0, 1)"."""
    high = 1.0 if interval.endswith("1)") else np.inf
    closed = interval.startswith("[")
    return checked_number(name, value, interval, lambda x: 0.0 < x < high or (closed and x == 0.0), f"{meaning}.")


@dataclass(frozen=True)
class Squared(Loss):
    """Half squared residual (Kloft 3.4; Tomioka with the C-map of `equivalences`).

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
        """1/2 (y - t)^2."""
        return 0.5 * (y - t) ** 2

    def subgradient(self, t: Array, y: Array) -> Array:
        """t - y."""
        return t - y

    def conjugate(self, s: Array, y: Array) -> Array:
        """s y + s^2/2."""
        return s * y + 0.5 * s**2

    def domain(self, y: Array) -> tuple[Array, Array]:
        """The whole line."""
        return np.full(len(y), -np.inf), np.full(len(y), np.inf)

    def kinks(self, y: Array) -> Array:
        """None."""
        return np.empty((0, len(y)))

    def atom(self, t: Any, y: Array) -> Any:
        """1/2 square(y - t)."""
        import cvxpy as cp

        return 0.5 * cp.square(y - t)

    def quadratic_dual(self, y: Array) -> QuadraticDual:
        """Linear term y, no box, unit curvature."""
        free = np.full(len(y), np.inf)
        return QuadraticDual(linear=y, lower=-free, upper=free, curvature=1.0)


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    """Epsilon-insensitive loss of support vector regression (SimpleMKL (16), (18)).

    V(t, y)  = max(0, |y - t| - epsilon)
    V*(s, y) = s y + epsilon |s|   on  |s| <= 1
    dual     = sum y_i beta_i - epsilon |beta_i|   on  |beta_i| <= c_i

    SimpleMKL's two multipliers per sample are beta = (multiplier of y - f <= eps + xi) - (the other one);
    its (16) prints xi* <= 0, which should read xi* >= 0 (erratum R3).
    """

    epsilon: float = 0.1
    name: ClassVar[str] = "epsilon_insensitive"
    targets: ClassVar[str] = "real"

    def __post_init__(self) -> None:
        meaning = "the half-width of the tube, in units of y"
        object.__setattr__(self, "epsilon", _number("epsilon", self.epsilon, "[0, inf)", meaning))

    def value(self, t: Array, y: Array) -> Array:
        """max(0, |y - t| - epsilon)."""
        return np.maximum(0.0, np.abs(y - t) - self.epsilon)

    def subgradient(self, t: Array, y: Array) -> Array:
        """sign(t - y) outside the tube, 0 inside."""
        return np.where(np.abs(y - t) > self.epsilon, np.sign(t - y), 0.0)

    def conjugate(self, s: Array, y: Array) -> Array:
        """s y + epsilon |s| on |s| <= 1, else +inf."""
        return np.where(np.abs(s) <= 1.0, s * y + self.epsilon * np.abs(s), np.inf)

    def domain(self, y: Array) -> tuple[Array, Array]:
        """|s| <= 1."""
        return np.full(len(y), -1.0), np.full(len(y), 1.0)

    def kinks(self, y: Array) -> Array:
        """The walls of the tube, y - epsilon and y + epsilon."""
        return np.stack([y - self.epsilon, y + self.epsilon])

    def atom(self, t: Any, y: Array) -> Any:
        """pos(|y - t| - epsilon)."""
        import cvxpy as cp

        return cp.pos(cp.abs(y - t) - self.epsilon)

    def quadratic_dual(self, y: Array) -> QuadraticDual:
        """Linear term y, box [-1, 1], absolute term epsilon."""
        one = np.ones(len(y))
        return QuadraticDual(linear=y, lower=-one, upper=one, absolute=self.epsilon)


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(Loss):
    """Squared epsilon-insensitive loss, with 1/2 (SimpleMKL 4.1, remark).

    V(t, y)  = 1/2 max(0, |y - t| - epsilon)^2
    V*(s, y) = s y + epsilon |s| + s^2 / 2
    dual     = sum y_i beta_i - epsilon |beta_i| - beta_i^2 / (2 c_i)
    """

    epsilon: float = 0.1
    name: ClassVar[str] = "squared_epsilon_insensitive"
    targets: ClassVar[str] = "real"
    smoothness: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        meaning = "the half-width of the tube, in units of y"
        object.__setattr__(self, "epsilon", _number("epsilon", self.epsilon, "[0, inf)", meaning))

    def value(self, t: Array, y: Array) -> Array:
        """1/2 max(0, |y - t| - epsilon)^2."""
        return 0.5 * np.maximum(0.0, np.abs(y - t) - self.epsilon) ** 2

    def subgradient(self, t: Array, y: Array) -> Array:
        """sign(t - y) max(0, |y - t| - epsilon)."""
        return np.sign(t - y) * np.maximum(0.0, np.abs(y - t) - self.epsilon)

    def conjugate(self, s: Array, y: Array) -> Array:
        """s y + epsilon |s| + s^2/2."""
        return s * y + self.epsilon * np.abs(s) + 0.5 * s**2

    def domain(self, y: Array) -> tuple[Array, Array]:
        """The whole line."""
        return np.full(len(y), -np.inf), np.full(len(y), np.inf)

    def kinks(self, y: Array) -> Array:
        """The walls of the tube, y - epsilon and y + epsilon."""
        return np.stack([y - self.epsilon, y + self.epsilon])

    def atom(self, t: Any, y: Array) -> Any:
        """1/2 square(pos(|y - t| - epsilon))."""
        import cvxpy as cp

        return 0.5 * cp.square(cp.pos(cp.abs(y - t) - self.epsilon))

    def quadratic_dual(self, y: Array) -> QuadraticDual:
        """Linear term y, no box, absolute term epsilon, unit curvature."""
        free = np.full(len(y), np.inf)
        return QuadraticDual(linear=y, lower=-free, upper=free, absolute=self.epsilon, curvature=1.0)


@dataclass(frozen=True)
class Huber(Loss):
    """Huber's loss: quadratic near the target, linear beyond delta.

    V(t, y)  = 1/2 r^2 for |r| <= delta, delta |r| - delta^2/2 beyond,   r = y - t
    V*(s, y) = s y + s^2 / 2   on  |s| <= delta
    dual     = sum y_i beta_i - beta_i^2 / (2 c_i)   on  |beta_i| <= delta c_i
    """

    delta: float = 1.0
    name: ClassVar[str] = "huber"
    targets: ClassVar[str] = "real"
    smoothness: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        meaning = "the residual beyond which the loss is linear"
        object.__setattr__(self, "delta", _number("delta", self.delta, "(0, inf)", meaning))

    def value(self, t: Array, y: Array) -> Array:
        """1/2 r^2 within delta, delta |r| - delta^2/2 beyond."""
        r = np.abs(y - t)
        near = np.minimum(r, self.delta)
        return near * (r - 0.5 * near)

    def subgradient(self, t: Array, y: Array) -> Array:
        """The residual t - y, clipped at delta."""
        return np.clip(t - y, -self.delta, self.delta)

    def conjugate(self, s: Array, y: Array) -> Array:
        """s y + s^2/2 on |s| <= delta, else +inf."""
        return np.where(np.abs(s) <= self.delta, s * y + 0.5 * s**2, np.inf)

    def domain(self, y: Array) -> tuple[Array, Array]:
        """|s| <= delta."""
        return np.full(len(y), -self.delta), np.full(len(y), self.delta)

    def kinks(self, y: Array) -> Array:
        """Where the loss turns linear, y - delta and y + delta."""
        return np.stack([y - self.delta, y + self.delta])

    def atom(self, t: Any, y: Array) -> Any:
        """huber(y - t, delta)/2: cvxpy's atom is twice ours."""
        import cvxpy as cp

        return 0.5 * cp.huber(y - t, self.delta)

    def quadratic_dual(self, y: Array) -> QuadraticDual:
        """Linear term y, box [-delta, delta], unit curvature."""
        bound = np.full(len(y), self.delta)
        return QuadraticDual(linear=y, lower=-bound, upper=bound, curvature=1.0)


@dataclass(frozen=True)
class Pinball(Loss):
    """Pinball loss of quantile regression at level tau.

    V(t, y)  = max(tau (y - t), (tau - 1) (y - t))
    V*(s, y) = s y   on  -tau <= s <= 1 - tau
    dual     = sum y_i beta_i   on  (tau - 1) c_i <= beta_i <= tau c_i
    """

    tau: float = 0.5
    name: ClassVar[str] = "pinball"
    targets: ClassVar[str] = "real"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", _number("tau", self.tau, "(0, 1)", "the level of the quantile"))

    def value(self, t: Array, y: Array) -> Array:
        """max(tau r, (tau - 1) r), r = y - t."""
        r = y - t
        return np.maximum(self.tau * r, (self.tau - 1.0) * r)

    def subgradient(self, t: Array, y: Array) -> Array:
        """-tau below the target, 1 - tau above, 0 on it."""
        return np.where(t < y, -self.tau, np.where(t > y, 1.0 - self.tau, 0.0))

    def conjugate(self, s: Array, y: Array) -> Array:
        """s y on -tau <= s <= 1 - tau, else +inf."""
        return np.where((s >= -self.tau) & (s <= 1.0 - self.tau), s * y, np.inf)

    def domain(self, y: Array) -> tuple[Array, Array]:
        """-tau <= s <= 1 - tau."""
        return np.full(len(y), -self.tau), np.full(len(y), 1.0 - self.tau)

    def kinks(self, y: Array) -> Array:
        """The target."""
        return y[None, :]

    def atom(self, t: Any, y: Array) -> Any:
        """max(tau (y - t), (tau - 1) (y - t))."""
        import cvxpy as cp

        return cp.maximum(self.tau * (y - t), (self.tau - 1.0) * (y - t))

    def quadratic_dual(self, y: Array) -> QuadraticDual:
        """Linear term y, box [tau - 1, tau]."""
        one = np.ones(len(y))
        return QuadraticDual(linear=y, lower=(self.tau - 1.0) * one, upper=self.tau * one)
