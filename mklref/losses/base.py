"""What a loss is: a convex function of the score and the faces that everybody else needs of it.

    V(t, y)              convex in the score t;  C multiplies the sum of losses, never the regulariser
    V*(s, y)             = sup_t s t - V(t, y),  the conjugate in t, +inf outside `domain(y)`
    dual term            -sum_i c_i V*(-beta_i / c_i, y_i)   with costs c_i = C * sample_weight_i

All quadratics carry 1/2. `beta` is signed, as `dual_coef` everywhere: beta_i = alpha_i y_i in classification.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mklref._own import Stated, own_class, shaped
from mklref._typing import Array, FloatArray
from mklref.exceptions import InvalidParameter, InvalidTarget, NotApplicable

ROUNDING = 4.0 * float(np.finfo(float).eps)
"""Relative rounding error that one or two formulas may have."""
LAWS = 1e-6
"""Relative violation of a law that rounding does not explain."""


class OnDemand(ModuleType):
    """A module that is imported when something of it is first asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


cp: Any = OnDemand("cvxpy")
"""cvxpy, which takes a second to import and is for the reference side alone."""


class Costs(NamedTuple):
    """The costs c_i > 0 and their reciprocals, (n,) each; both cvxpy parameters in a compiled formulation."""

    value: Any
    inverse: Any


@dataclass(frozen=True)
class QuadraticDual:
    """The dual term of a piecewise linear-quadratic loss, for unit cost, as a box-constrained quadratic.

        c V*(-b/c, y) = -linear * b + absolute * |b| + curvature * b^2 / (2 c)    on  c lower <= b <= c upper

    `linear`, `lower`, `upper` are (n,), infinite bounds allowed; `absolute` and `curvature`, 1/V'' where that is
    not 0, are at least 0.
    """

    linear: Array
    lower: Array
    upper: Array
    absolute: float = 0.0
    curvature: float = 0.0


@dataclass(frozen=True)
class Loss(Stated, ABC):
    """A convex loss V(t, y) with its conjugate. Every array is elementwise and float64.

    A loss is a frozen dataclass whose fields are its parameters (epsilon, delta, tau). Its methods have four users.

    - Everybody: `value`, `subgradient`, `conjugate`, `domain`. Together they satisfy Fenchel-Young,
      V(t) + V*(s) >= s t, with equality for s = subgradient(t).
    - The certificate: `domain` (to repair a dual point), `kinks` (to find the best intercept), `smoothness`.
    - cvxpy: `atom`, the primal loss; its conjugate stands in the formulation `dual`.
    - The native solver: `quadratic_dual`, which is None for a loss whose conjugate is not piecewise
      linear-quadratic (logistic); such a loss is solved by Newton's method, through its `curvature`.

    Two class variables say how the loss meets the rest of the problem. `targets` names the labels it accepts:
    "labels" (-1 and +1), "real" or "ones" (one class: y is all ones). `intercept_cost` is the coefficient c_b
    of the intercept in the primal objective, and so the right-hand side of 1'beta = c_b in the dual: 0 for an
    ordinary free intercept, 1 for the nu one-class machine. `intercept` restricts `Problem.intercept`:
    "optional", "required" or "forbidden".

    Raises
    ------
    InvalidType, InvalidParameter
        A parameter that is no number, or outside of the interval that its class says.
    """

    name: ClassVar[str]
    targets: ClassVar[str]
    intercept: ClassVar[str] = "optional"
    intercept_cost: ClassVar[float] = 0.0
    smoothness: ClassVar[float] = np.inf
    """Lipschitz constant of V'(., y); inf where V has kinks."""

    @abstractmethod
    def value(self, t: Array, y: Array) -> Array:
        """V(t, y), elementwise."""

    @abstractmethod
    def subgradient(self, t: Array, y: Array) -> Array:
        """One element of the subdifferential of V(., y) at t: the derivative where it exists."""

    def curvature(self, t: Array, y: Array) -> Array:
        """V''(t, y), elementwise, of a twice differentiable loss.

        Raises
        ------
        NotApplicable
            A loss that does not define it.
        """
        raise NotApplicable(
            f"the loss {self.name} does not define curvature, the second derivative of V in the score, which the "
            "native solver needs where quadratic_dual is None; define it, or use mklref.reference.solve."
        )

    @abstractmethod
    def conjugate(self, s: Array, y: Array) -> Array:
        """V*(s, y) = sup_t s t - V(t, y); +inf outside the domain."""

    @abstractmethod
    def domain(self, y: Array) -> tuple[Array, Array]:
        """Bounds (lower, upper), (n,) each, of the interval on which V*(., y) is finite."""

    @abstractmethod
    def kinks(self, y: Array) -> Array:
        """Scores at which V'(., y) jumps or changes its formula, (k, n); k = 0 for an analytic loss."""

    @abstractmethod
    def atom(self, t: Any, y: Array) -> Any:
        """V(t, y) as an elementwise convex cvxpy expression (n,)."""

    def dual_atom(self, beta: Any, y: Array, costs: Costs) -> tuple[Any, list[Any]]:
        """sum_i c_i V*(-beta_i/c_i, y_i) as a convex cvxpy scalar, and its constraints; DPP in the costs.

        For a loss of your own: those of the library stand where they are read, in `formulations.dual`.

        Raises
        ------
        NotApplicable
            A class that does not define it.
        """
        kind = type(self).__name__
        raise NotApplicable(f"the loss {self} has no cvxpy dual; give its class {kind} dual_atom(beta, y, costs).")

    def quadratic_dual(self, y: Array) -> QuadraticDual | None:
        """The dual term as a box-constrained quadratic, or None if it is not one."""
        return None

    def box(self, y: Array, costs: Array) -> tuple[Array, Array]:
        """Bounds on beta, (n,) each: the domain of the dual term, -c_i upper <= beta_i <= -c_i lower."""
        lower, upper = self.domain(y)
        return -costs * upper, -costs * lower

    def dual_terms(self, beta: Array, y: Array, costs: Array) -> Array:
        """-c_i V*(-beta_i/c_i, y_i), elementwise, -inf outside the box."""
        lower, upper = self.domain(y)
        s = -beta / costs
        # c * bound / c may miss the bound by a rounding error: such a point is on the boundary, not outside.
        nearest = np.minimum(np.maximum(s, lower), upper)
        s = np.where(np.abs(s - nearest) <= ROUNDING * np.abs(s), nearest, s)
        return -costs * self.conjugate(s, y)

    def dual_value(self, beta: Array, y: Array, costs: Array) -> float:
        """The loss part of the dual objective, the sum of `dual_terms`."""
        return float(self.dual_terms(beta, y, costs).sum())

    def __str__(self) -> str:
        """As `as_loss` reads it: the name, and the parameter after a colon."""
        values = (getattr(self, entry.name) for entry in fields(self))
        return ":".join([self.name, *(str(x).removesuffix(".0") for x in values)])


@dataclass(frozen=True)
class PiecewiseQuadratic(Loss):
    """A loss whose conjugate is a quadratic and an absolute value on its domain, and so its dual term on the box.

    V*(s, y) = m y s + epsilon |s| + s^2/(2 L)   on  `domain`, with L the `smoothness` of V
    """

    margin: ClassVar[float] = 1.0
    """m."""

    @property
    def absolute(self) -> float:
        """Epsilon: 0 but for tubes."""
        return 0.0

    def conjugate(self, s: Array, y: Array) -> Array:
        lower, upper = self.domain(y)
        inside = (lower <= s) & (s <= upper)
        s = np.where(inside, s, 0.0)
        value = self.margin * y * s
        if self.absolute:
            value = value + self.absolute * np.abs(s)
        if self.smoothness < np.inf:
            value = value + 0.5 * s**2 / self.smoothness
        return np.where(inside, value, np.inf)

    def quadratic_dual(self, y: Array) -> QuadraticDual | None:
        """Linear, absolute and quadratic term of V* on the box."""
        lower, upper = self.domain(y)
        return QuadraticDual(self.margin * y, -upper, -lower, self.absolute, 1.0 / self.smoothness)


def require_labels(y: FloatArray, loss: Loss) -> None:
    """Raise `InvalidTarget` unless all targets are -1 or +1, as the loss has them."""
    if not np.all(np.abs(y) == 1.0):
        raise InvalidTarget(
            f"y holds the values {some_values(y)}; loss {loss} takes the labels -1 and +1. "
            "Encode the classes first, for instance y = np.where(classes == positive, 1, -1)."
        )


def some_values(y: FloatArray) -> str:
    """The different entries of an array as text, six at most."""
    found = np.unique(y)
    return ", ".join(f"{value:g}" for value in found[:6]) + (", ..." if len(found) > 6 else "")


class _Sampled(NamedTuple):
    """A loss at k of its targets: V at scores t, (a, k), and V* at slopes s, (b, k), of which the first a are V'(t)."""

    y: Array
    t: Array
    V: Array
    s: Array
    V_star: Array
    which: Any
    """The indices of the targets, (k,)."""


def require_finite_loss(loss: Loss, y: Array, costs: Array) -> None:
    """Raise `InvalidTarget` where f = 0, with which solvers compare, has a loss beyond double precision.

    That of somebody's own class may be infinite at 0 whatever the targets are, as that of a logarithm.
    """
    with np.errstate(all="ignore"):
        total = 0.0 if own_class(loss) else costs @ loss.value(np.zeros(len(y)), y)
    if not np.isfinite(total):
        raise InvalidTarget(
            f"the loss of f = 0 is beyond double precision: C * sample_weight is up to {costs.max():g}, |y| up to "
            f"{np.abs(y).max():g}. Divide y by its unit, and with it the parameter of the loss if it has one; or "
            "choose a smaller C."
        )


def require_loss(loss: Loss, y: Array) -> None:
    """Raise `InvalidParameter` unless V, V' and V* of a class that is not ours belong together, at some scores.

    V(t) + V*(s) >= s t, with equality at s = V'(t), is all that certificates ask of a loss; and their bounds are wrong
    without it.
    """
    if own_class(loss):
        with np.errstate(all="ignore"):
            at = _sampled(loss, y)
            # Rounding of log(1 + x) is absolute; values far away, as of exp(100), say nothing of it.
            floor = ROUNDING * np.median(np.abs(at.V[:7]), axis=0)
            floor = np.where(floor < np.inf, floor, 0.0)
            _require_fenchel_young(loss, at, floor)
            _require_quadratic(loss, y, at, floor)


def _sampled(loss: Loss, y: Array) -> _Sampled:
    """The values around the targets, at kinks and at the ends of the domain; an error where one is no number."""
    of = f"of the loss {loss}"
    unit = max(1.0, float(np.abs(y).max()))
    steps = unit * np.append(0.0, np.outer(np.geomspace(1e-2, 1e2, 5), [-1.0, 1.0]))

    def at(method: str, points: Array) -> Array:
        """A method at each of the points (k, n)."""
        return np.stack([shaped(f"{method} {of}", getattr(loss, method)(x, y), y.shape) for x in points])

    kinks = shaped(f"kinks {of}", loss.kinks(y), (-1, len(y)))
    lower, upper = (shaped(f"domain {of}", bound, y.shape) for bound in loss.domain(y))
    if not np.all(lower <= upper):
        raise InvalidParameter(f"domain {of} ends before it begins; return lower and upper bounds, (n,) each.")
    t = np.concatenate([y + steps[:, None], kinks])
    s = np.minimum(np.maximum(at("subgradient", t), lower), upper)
    ends = np.stack([lower, np.clip(0.0, lower, upper), upper])  # where 0 log 0 is 0
    margins = 1e-3 * np.minimum(upper - lower, np.maximum(1.0, np.abs(ends[::2])))
    ends = np.concatenate([ends, ends[::2] + margins * [[1.0], [-1.0]]])
    s = np.concatenate([s, np.where(np.isfinite(ends), ends, s[: len(ends)])])
    which = np.unique(y, return_index=True)[1]
    which = which[np.unique(np.linspace(0, len(which) - 1, 8).astype(int))]
    t, V, s, V_star = (values[:, which] for values in (t, at("value", t), s, at("conjugate", s)))
    near = np.abs(t - y[which]) <= unit  # values far away may overflow
    there = np.concatenate([near, np.isfinite(ends[:, which])]) & np.isfinite(s)
    inner = there & (np.arange(len(s)) >= len(s) - 2)[:, None]  # points of the domain, where V* is finite
    for method, points, values, lost in (
        ("value", t, V, near & (np.isnan(V) | np.isneginf(V))),
        ("subgradient", t, s[: len(t)], near & np.isnan(s[: len(t)])),
        ("conjugate", s, V_star, there & (np.isnan(V_star) | np.isneginf(V_star)) | inner & np.isposinf(V_star)),
    ):
        if lost.any():
            i, k = np.argwhere(lost)[0]
            where = f"{method}({points[i, k]:g}) {of} at y = {y[which[k]]:g} is {values[i, k]:g}"
            raise InvalidParameter(f"{where}; give the limit there, such as 0 for 0 log 0, or a smaller domain.")
    return _Sampled(y[which], t, V, s, V_star, which)


def _require_fenchel_young(loss: Loss, at: _Sampled, floor: Array) -> None:
    """V(t_i) + V*(s_j) >= s_j t_i for all i and j, with equality for i = j."""
    y, t, V, s, V_star, _ = at
    slack = V[:, None] + V_star - s * t[:, None]
    size = np.abs(V[:, None]) + np.abs(V_star) + np.abs(s * t[:, None])
    same = np.eye(len(t), len(s), dtype=bool)[:, :, None]
    wrong = np.argwhere(np.where(same, np.abs(slack), -slack) > LAWS * size + floor)
    if len(wrong):
        i, j, k = wrong[0]
        slope = f" = subgradient({t[j, k]:g})" if j < len(t) else ""
        raise InvalidParameter(
            f"the loss {loss} contradicts itself at y = {y[k]:g}: value({t[i, k]:g}) = {V[i, k]:.6g}, "
            f"conjugate({s[j, k]:g}) = {V_star[j, k]:.6g} with s = {s[j, k]:g}{slope}. V(t) + V*(s) >= s t has to "
            "hold, with equality at s = V'(t); derive value, subgradient, conjugate and domain again."
        )


def _require_quadratic(loss: Loss, y: Array, at: _Sampled, floor: Array) -> None:
    """`quadratic_dual`, if there is one, is V*(-b, y) on the domain."""
    if (form := loss.quadratic_dual(y)) is None:
        return
    for name in ("linear", "lower", "upper"):
        shaped(f"{name} of quadratic_dual of the loss {loss}", getattr(form, name), y.shape)
    b, linear, (lower, upper) = -at.s, form.linear[at.which], loss.domain(y)
    dual = -linear * b + form.absolute * np.abs(b) + 0.5 * form.curvature * b**2
    alike = np.allclose(form.lower, -upper, LAWS, 0.0) and np.allclose(form.upper, -lower, LAWS, 0.0)
    size = np.abs(dual) + np.abs(linear * b) + np.abs(at.V_star)
    if not alike or np.any(np.abs(dual - at.V_star) > LAWS * size + floor):
        raise InvalidParameter(
            f"quadratic_dual of the loss {loss} is not V*(-b, y) as conjugate(s, y) has it, on its domain; derive "
            "linear, absolute, curvature and bounds again, or return None and define curvature(t, y)."
        )
