"""What a regulariser is: one convex object with five faces.

With rho_m = ||f_m|| the block norms, g_m = sqrt(beta'K_m beta) their duals, theta the kernel weights:

    value              R(rho), convex and non-decreasing on rho >= 0
    conjugate          R*(g) = sup_{rho >= 0} g'rho - R(rho)
    weight_penalty     psi(theta) with R(rho) = min_{theta >= 0} 1/2 sum_m rho_m^2/theta_m + psi(theta)   (0/0 = 0)
    weights_from_norms theta_m = rho_m / (dR/drho_m)      the minimiser above
    weights_from_dual  theta_m = (dR*/dg_m) / g_m         the maximiser of 1/2 sum_m theta_m g_m^2 - psi(theta)

At an optimum all of them meet: rho_m = theta_m g_m and R(rho) + R*(g) = rho'g.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from mklref._names import Naming
from mklref._own import Stated, own_class, shaped
from mklref._typing import Array
from mklref._validate import written
from mklref.exceptions import InvalidParameter, NotApplicable
from mklref.regularizers.norms import LowRank, Parts, Polyhedral

_LAWS = 1e-6
"""Relative violation of a law that rounding does not explain."""
_LARGEST_JACOBIAN = 200
"""Kernels up to which the Jacobian (M, M) is formed to be checked."""
FARTHEST = 500
"""Exponent of 2 of the largest norm at which laws are asked for where R has no degree, and of the reciprocal least."""
_STEP = 1e-4
"""Relative change of q in the differences that a Jacobian is compared with."""


@dataclass(frozen=True, eq=False)
class Regularizer(Stated, ABC):
    """A convex penalty on the block norms, seen from the primal, the dual and the kernel weights.

    A regulariser is a frozen dataclass whose fields are its parameters (p, mu, lam, groups, E, omega, a concave g).

    - Ivanov members (`Lp`, `BlockNorm` up to q = 2, `WeightedLp`, `Fixed`, `Groups`, `Mahalanobis`, `ElasticNet` in
      Ivanov form): psi is the indicator of a convex set of weights. Tikhonov members (`Tikhonov`, `Power`, `HalfPower`,
      `WeightedL1`, `ConcaveBlock`, `ElasticNet` in Tikhonov form): psi is finite.
    - Where R(sqrt(.)) is not concave (block norms with q > 2) there is no psi: `weight_form` is "max", because
      R(rho) = max_vartheta 1/2 sum vartheta_m rho_m^2 - phi(vartheta) with theta = 1/vartheta, and
      `weight_penalty` and `weight_atom` raise `NotApplicable`. Such a member is solved through rho and g, and
      its two closed forms of the weights still hold. Weights are never minimised over there: Tomioka prints a minimum
      in 3.1 and after (8), which is a maximum, and a concave g in row 4 of Table 1, which is convex (errata T3 to T5).
    - Where R* has kinks (l1 and its kin) psi is `polyhedral`, or a neighbour in the family is `smoothed`.
    - Where R* is an indicator (`Power(1)`, weighted l1), `dual_scale` says how far a dual point has to shrink.
    - Parameters tied to the number of kernels (weights, scale, groups, E, omega) are checked in `check`.

    Where a parameter is given by a series or a data frame, `kernel_names` has its names, which `Problem` compares.
    Regularisers whose parameters are numbers are equal if these are; one with arrays equals itself alone.

    Weights are nonnegative. R is non-decreasing, so R* is the conjugate of R extended by R(|rho|).

    Raises
    ------
    InvalidType, InvalidParameter
        A parameter of another kind or size than its class says, or (in `Problem`) not one for each kernel.
    """

    kernel_names: ClassVar[tuple[Naming, ...]] = ()

    @property
    def name(self) -> str:
        """The class with its parameters, as tables print it: Lp(4/3), Tikhonov(2, mu=0.5), Groups(3, p=0.5, q=0.5).

        Arrays and groups are told by their length, and numbers but the first by their name.
        """
        texts: list[str] = []
        for parameter in (entry.name for entry in fields(self) if entry.init):
            value = getattr(self, parameter)
            if isinstance(value, float):
                texts.append(f"{parameter}={written(value)}" if texts else written(value))
            elif isinstance(value, str) or not hasattr(value, "__len__"):
                texts.append(str(value))
            else:
                texts.append(str(len(value)))
        return f"{type(self).__name__}({', '.join(texts)})"

    @property
    def weight_form(self) -> str:
        """Either "min": psi exists, or "max": R is a maximum over inverse weights."""
        return "min"

    @property
    def degree(self) -> float | None:
        """d with R(t rho) = t^d R(rho) for t > 0, or None if R is not homogeneous."""
        return None

    @property
    def supercoercive(self) -> bool:
        """Whether R(rho)/|rho| grows without bound, so that R* is finite everywhere.

        A homogeneous R is if its degree exceeds 1; another one unless its class has a `dual_scale`, which leads back to
        where R* is finite.
        """
        return type(self).dual_scale is Regularizer.dual_scale if self.degree is None else self.degree > 1.0

    @abstractmethod
    def value(self, rho: Array) -> float:
        """R(rho) for block norms rho >= 0, (M,)."""

    @abstractmethod
    def conjugate(self, g: Array) -> float:
        """R*(g) for dual norms g >= 0, (M,); +inf outside its domain."""

    def weight_penalty(self, theta: Array) -> float:
        """psi(theta) for weights (M,); +inf outside its domain.

        Raises
        ------
        NotApplicable
            If `weight_form` is not "min".
        """
        raise NotApplicable(self._no_weight_form())

    @abstractmethod
    def weights_from_norms(self, rho: Array) -> Array:
        """The weights theta (M,) that attain R(rho)."""

    @abstractmethod
    def weights_from_dual(self, g: Array) -> Array:
        """Weights theta (M,) that attain R*(g); one point of the face where they are not unique."""

    def weights_at(self, rho: Array, g: Array) -> Array:
        """The weights theta (M,) at an optimum, from rho or from g: whichever they depend on less steeply."""
        return self.weights_from_norms(rho)

    def low_rank_jacobian(self, g: Array) -> LowRank | None:
        """`weights_jacobian` as a diagonal and few rows, or None: where it is neither, or there is none."""
        return None

    def weights_jacobian(self, g: Array) -> Array:
        """d theta_m / d q_l of `weights_from_dual` as a function of q = g^2, a symmetric matrix (M, M).

        theta is twice the gradient of R* in q, so this is twice its Hessian: positive semidefinite where psi
        exists, negative semidefinite where `weight_form` is "max". It enters products with K_m beta only, which
        vanish with g_m: where g_m = 0 an infinite entry is given as 0. At the kinks of a piecewise smooth map
        (the thresholds of the elastic net) it is the Jacobian of one side.

        Raises
        ------
        NotApplicable
            If R* has kinks in q, so that the weights are no function of the dual point.
        """
        if (terms := self.low_rank_jacobian(g)) is not None:
            return terms.dense()
        raise NotApplicable(
            f"the weights of {self.name} are no differentiable function of the dual norms; use a smooth relative "
            "(for Lp(1): Lp(p) with p > 1), or a method that needs only weights_from_dual. A class of your own defines "
            "weights_jacobian; where R* has kinks, it says by smoothed what its smooth relatives are, or by polyhedral "
            "what psi is."
        )

    def jacobian_product(self, g: Array, V: Array, r: Array | float = 1.0, own: Array | float = 0.0) -> Array:
        """V (r T r + diag(own)) V', (k, k), for rows V (k, M) and T = weights_jacobian(g), which need not be formed."""
        terms = self.low_rank_jacobian(g)
        if terms is None:
            return np.asarray((V * r) @ self.weights_jacobian(g) @ (V * r).T + (V * own) @ V.T)
        return terms._replace(diagonal=terms.diagonal * r**2 + own, rows=terms.rows * r).product(V)

    def value_atom(self, rho: Any) -> tuple[Any, list[Any]]:
        """R as a convex cvxpy scalar of a nonnegative expression rho (M,), and constraints.

        This and the next two are for a class of your own: those of the library stand where they are read, in
        `formulations.mixed_norm` (R), `formulations.dual` (R*) and `formulations.weighted_primal` (psi).
        `NotApplicable` where a class does not define them.
        """
        raise NotApplicable(self._no_atom("value_atom(rho)"))

    def conjugate_atom(self, components: list[Any]) -> tuple[Any, list[Any]]:
        """R* as a convex cvxpy scalar of affine vectors whose norms are g_m, and constraints, or `NotApplicable`."""
        raise NotApplicable(self._no_atom("conjugate_atom(components)"))

    def weight_atom(self, theta: Any) -> tuple[Any, list[Any]]:
        """psi as a convex cvxpy scalar of nonnegative theta (M,), and constraints; `NotApplicable` without it."""
        raise NotApplicable(
            self._no_atom("weight_atom(theta)") if self.weight_form == "min" else self._no_weight_form()
        )

    def dual_scale(self, g: Array) -> float:
        """The largest t in (0, 1] for which R*(t g) is finite; 1 unless R* is an indicator."""
        return 1.0

    def smoothed(self, epsilon: float) -> Regularizer:
        """The member of the family nearest to this one that is as smooth as p = 1 + epsilon; itself if it is."""
        return self

    @np.errstate(over="ignore", under="ignore")
    def in_unit(self, norm: float) -> tuple[float, Regularizer] | None:
        """s and R' with R(norm rho) = s R'(rho), R*(g) = s R'*(norm g / s), for conic solvers to see R'. Or None."""
        return None if self.degree is None else (float(np.power(norm, self.degree)), self)

    def sharpened(self) -> Regularizer | None:
        """The regulariser with kinks that this one barely smooths, so that their optima nearly agree; or None."""
        return None

    def polyhedral(self, kernels: int) -> Polyhedral | None:
        """psi as a linear or quadratic function on a polyhedron, which gives R* kinks, or None if it is curved."""
        return None

    def in_shares(self, kernels: int) -> Polyhedral | None:
        """psi as a polyhedral function of shares s, if not of theta itself; theta is concave in s. Or None."""
        return self.polyhedral(kernels)

    def parts(self, g: Array) -> Parts | None:
        """R* as a maximum of smooth functions of q = g^2, at this g, or None; where psi is not `polyhedral`."""
        return None

    def check(self, kernels: int) -> None:
        """Raise `InvalidParameter` if the parameters do not fit this number of kernels."""

    def _no_weight_form(self) -> str:
        if self.weight_form == "min":
            return (
                f"{self.name} has no psi; give its class the method weight_penalty(theta), or weight_form = 'max' if R "
                "is no minimum over weights."
            )
        return (
            f"{self.name} has no penalty on the weights that is minimised (weight_form = {self.weight_form!r}); "
            "use value(rho) and conjugate(g), or mklref.reference.solve(problem, 'dual')."
        )

    def _no_atom(self, method: str) -> str:
        return f"{self.name} has no cvxpy expression; give its class the method {method}."

    def __str__(self) -> str:
        return self.name


def require_regularizer(regularizer: Regularizer, kernels: int) -> None:
    """Raise `InvalidParameter` unless the faces of a class that is not ours belong together, at some norms.

    R(rho) + R*(g) >= rho'g is what certificates rest on; their bounds meet where rho = theta g for the weights of the
    dual point, and psi decides about steps.
    """
    if not (own_class(regularizer) or own_class(getattr(regularizer, "g", None))):
        return
    rng, of = np.random.default_rng(0), f"of the regularizer {regularizer}"

    def face(method: str, norms: Array, *shape: int) -> Array:
        values = shaped(f"{method} {of}", getattr(regularizer, method)(norms), shape)
        if not np.all(values > -np.inf) or (not shape and norms[0] == 0.0 and values == np.inf):
            where = f"{method} {of} is {np.min(values):g} at {norms[0]:g}"
            raise InvalidParameter(f"{where}; give the limit there, such as 0 for 0/0.")
        return values

    for scale in (0.0, 0.1, 1.0, 10.0):
        rho, g = scale * rng.uniform(0.5, 1.5, size=(2, kernels))
        with np.errstate(all="ignore"):
            g = g * regularizer.dual_scale(g) * (1.0 - 1e-9)
            R_star, R = float(face("conjugate", g)), float(face("value", rho))
            theta, touched = face("weights_from_dual", g, kernels), face("weights_from_norms", rho, kernels)
            if not scale:  # rounding errors of 0 obey no law
                continue
            if kernels <= _LARGEST_JACOBIAN:
                with suppress(NotApplicable):
                    inside = g * (1.0 - 10.0 * _STEP)
                    _require_derivative(regularizer, inside, face("weights_jacobian", inside, kernels, kernels), of)
            law = f"value, conjugate and weights_from_dual {of} contradict R(theta g) + R*(g) = sum theta_m g_m^2"
            _require_equal(law, regularizer.value(theta * g) + R_star, float(theta @ g**2))
            law = f"value and conjugate {of} contradict R(rho) + R*(g) >= rho'g"
            _require_equal(law, R + R_star, max(R + R_star, float(rho @ g)))
            for norm in (2.0, 0.125):
                _require_unit(regularizer, norm, rho, of)
            if regularizer.weight_form == "min":
                theta = touched * (1.0 - 1e-9)
                law = f"value, weight_penalty and weights_from_norms {of} contradict R = 1/2 sum rho_m^2/theta_m + psi"
                _require_equal(law, R, 0.5 * float(np.sum(rho**2 / theta)) + regularizer.weight_penalty(theta))


@np.errstate(all="ignore")
def law_in_unit(regularizer: Regularizer, norm: float) -> tuple[float, Regularizer] | None:
    """`in_unit`, of a class that may be somebody's own: None, or s >= 0 and a regulariser, or `InvalidParameter`."""
    if regularizer.degree is None and not 2.0**-FARTHEST <= norm <= 2.0**FARTHEST:
        return None
    expected = "return a number s > 0 and a Regularizer R' with R(norm rho) = s R'(rho), or None"
    try:
        unit = regularizer.in_unit(np.float64(norm))  # whose powers are infinite where those of a float raise
    except Exception as error:
        what = f"in_unit({norm:g}) of the regularizer {regularizer} raises {type(error).__name__}: {error}"
        raise InvalidParameter(f"{what}; {expected}.") from error
    match unit:
        case None | (float() | int() | np.floating(), Regularizer()) if unit is None or unit[0] >= 0.0:
            return unit
    raise InvalidParameter(f"in_unit({norm:g}) of the regularizer {regularizer} is {unit}; {expected}.")


def _require_unit(regularizer: Regularizer, norm: float, rho: Array, of: str) -> None:
    """Raise unless `in_unit` is nothing or a law that holds at these norms."""
    if (unit := law_in_unit(regularizer, norm)) is not None:
        law = f"value and {'in_unit' if regularizer.degree is None else 'degree'} {of} contradict "
        law += f"R({norm:g} rho) = {unit[0]:g} R'(rho) with R' = {unit[1]}"
        _require_equal(law, regularizer.value(norm * rho), unit[0] * unit[1].value(rho))


def _require_derivative(regularizer: Regularizer, g: Array, jacobian: Array, of: str) -> None:
    """Raise unless T v lies between the differences of theta on both sides, of q = g^2 by v, up to a hundredth."""
    v = g**2 * np.linspace(0.5, 1.5, len(g)) * (-1.0) ** np.arange(len(g))
    behind, at, ahead = (regularizer.weights_from_dual(np.sqrt(g**2 + s * _STEP * v)) for s in (-1.0, 0.0, 1.0))
    slopes, found = np.sort([at - behind, ahead - at], axis=0) / _STEP, jacobian @ v
    allowed = 1e-2 * np.abs(slopes).max() + _STEP * np.abs(at).max()
    m = int(np.argmax(np.maximum(slopes[0] - found, found - slopes[1])))
    if found[m] < slopes[0][m] - allowed or found[m] > slopes[1][m] + allowed:
        raise InvalidParameter(
            f"weights_jacobian {of} contradicts weights_from_dual: along a change of q = g^2, theta_{m} changes by "
            f"{found[m]:.6g}, and in truth by {slopes[0][m]:.6g}. Derive it again, in q and not in g."
        )


def _require_equal(law: str, left: float, right: float) -> None:
    """Raise unless both sides agree; where both are infinite, or one is nan, as by overflow, nothing is said."""
    apart = abs(left - right)
    if apart == np.inf or apart > _LAWS * (abs(left) + abs(right)):
        raise InvalidParameter(f"{law}: {left:.6g} on the left, {right:.6g} on the right. Derive them again.")
