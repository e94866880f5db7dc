r"""Problems as conic solvers find them easy: costs and kernels of comparable size, and Gram matrices as factors.

For a regulariser of degree d, R(t rho) = t^d R(rho), substitute f = sigma f' with sigma = kappa^{1/d}:

    P(K, C) = kappa P(sigma^2 K, C/kappa)        for every kappa > 0

A point of the scaled problem goes back by

    beta = kappa beta',     theta = (sigma^2 / kappa) theta',     b = b',     objective = kappa objective'.

With k the mean diagonal entry of the kernels, or of the combined kernel where its trace is given, kappa = C if C k <= 1
(which makes the costs 1), and else sqrt(C/k), which at d = 2 makes costs and kernels equal in size. Measured on breast
cancer (13 kernels of unit trace, n = 150, C = 100): SCS needs 0.4 s instead of 80 s, Clarabel and ECOS reach full
accuracy instead of stopping short of it. Made equal at d = 1 as well, kernels of 1e6 take ten times the cutting planes.
Targets in a unit S of their own are divided by it first: of losses with V(S t, S y) = S^k V'(t, y), where V' is V, or V
with its tube in that unit, f = S f' gives P(y, V, C) = S^d P(y/S, V', S^{k-d} C). S is a power of two, and 1 where
targets are of order one. Without it prices, targets of 1e4, are beyond Clarabel and ECOS. Huber's loss is linear beyond
its delta, which is its unit where targets are larger: S^2 V' would be next to nothing. With an intercept their median
is taken off before: these losses are functions of y - t.

Each regulariser says its own law, R(a rho) = s R'(rho) (`Regularizer.in_unit`), with s = a^d and R' = R where it has a
degree: a stands for sigma, or S, or both, and s for kappa, or S^d, or both. A constant of its own, such as mu, may go
into s, so that R' has a slope of order one at 1. One without a law stays as it is.

The nu one-class machine has an intercept with a cost of its own. With f = S f', b = S b' and norms rho = a rho' its
program has the kernels (a/S)^2 K and, if S = s, the regulariser R'. Its beta sums to 1, so that a cost above 1 is as
good as any, and the beta of equal entries bounds the value by its -R*. There the norms are those that attain R*, with
the largest of them as a they are 1 in the program: at a degree d and a slope r of R at 1, a = (g/r)^{1/(d-1)}. Where R*
ends, as of a smoothed root, they are those at half of its end at most. Where R* is steep, of degree d/(d-1), norms of
the optimum are small beside those, but with kernels of mean diagonal 1, or g = 1, they were next to nothing, or next to
infinite where the slope is far from 1.

Gram matrices enter through factors of numerical rank, K_m = L_m L_m' with L_m (n, r_m), so that

    f_m(x_i) = (L_m v_m)_i,     ||f_m|| = ||v_m||,     g_m = sqrt(beta'K_m beta) = ||L_m'beta||.

A plain quadratic form of a low-rank Gram matrix is refused by cvxpy or takes minutes to compile.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from mklref._conic.signed import SignedPoint
from mklref._threads import cached_property
from mklref._typing import Array
from mklref._untrusted import free_memory
from mklref.exceptions import SolverFailure
from mklref.kernels.stack import KernelStack
from mklref.losses import EpsilonInsensitive, Huber, Loss, OneClass, Pinball, Squared, SquaredEpsilonInsensitive
from mklref.problem import Point, dual_norms
from mklref.regularizers import Regularizer
from mklref.regularizers.base import FARTHEST, law_in_unit

P = TypeVar("P", Point, SignedPoint)


@dataclass(frozen=True)
class Scaling:
    """Divides the costs by `cost`, multiplies the factors by `factor`, and divides scores and intercept by `scores`.

    The losses are of the `order` k in the unit of the scores: so much is V(S t, S y)/V'(t, y). The `centre` is taken
    off targets and intercept before. Costs beyond `most` are `most`. The `regularizer` is R', None where that is R.
    """

    cost: float = 1.0
    factor: float = 1.0
    scores: float = 1.0
    order: int = 1
    centre: float = 0.0
    most: float = math.inf
    regularizer: Regularizer | None = None

    @property
    def value(self) -> float:
        """P/P' of the optimal values."""
        return self.cost * self.scores**self.order

    def stated(self, problem: Any) -> Any:
        """The problem with targets, loss and regulariser in the units of the program."""
        changes: dict[str, Any] = {} if self.regularizer is None else {"regularizer": self.regularizer}
        if problem.loss.targets == "real" and (self.centre, self.scores) != (0.0, 1.0):
            name = _UNITS[type(problem.loss)][1]
            tube = {name: getattr(problem.loss, name) / self.scores} if name else {}
            y, C = (problem.y - self.centre) / self.scores, problem.C / self.cost  # C V(0, y') may be beyond 1e308
            changes |= {"y": y, "C": C, "loss": replace(problem.loss, **tube)}
        return problem.replace(**changes) if changes else problem

    def costs(self, costs: Array) -> Array:
        """c / C, up to `most`."""
        return np.minimum(costs / self.cost, self.most)

    def restore(self, point: P) -> P:
        """The point of the original problem."""
        norm, unit = self.factor * self.scores, self.value / self.scores
        weights = norm * (norm / self.value) * point.weights
        b = self.centre + self.scores * point.intercept
        restored = point._replace(dual_coef=unit * point.dual_coef, weights=weights, intercept=b)
        if isinstance(point, SignedPoint):  # the slack is of the unit of beta beta'
            return restored._replace(slack=unit**2 * point.slack)
        return restored


_FINEST = 2**40
"""Norms are sought between 2^-500 and 2^500, between 2^-1000 and 2^1000 where R has a degree, exponents to 2^-40."""


@np.errstate(over="ignore", under="ignore")  # what leaves the range of double precision is no unit
def balanced(problem: Any) -> Scaling:
    """The scaling for this C and these kernels, or none where the problem does not allow it."""
    trace = problem.trace if problem.signed else float(problem.kernels.traces().mean())
    diagonal = trace / problem.n_samples
    if problem.intercept_cost:
        return _of_one_class(problem, diagonal)
    centre, S, order = _unit_of_targets(problem)
    unit = (law_in_unit(problem.regularizer, S) or (0.0,))[0]
    found = _least_norm(
        problem, lambda a, s: s / S**order * max(1.0, s / unit * diagonal if unit else 0.0) >= problem.C
    )
    if found is None:
        return Scaling(centre=centre)
    a, s, regularizer = found
    return Scaling(s / S**order, a / S, S, order, centre, regularizer=regularizer)


def _of_one_class(problem: Any, diagonal: float) -> Scaling:
    """The unit a in which norms of beta of equal entries are 1 at most, if there is one; and costs up to 2."""
    R, most = problem.regularizer, 2.0 if isinstance(problem.loss, OneClass) else math.inf
    equal = np.full(problem.n_samples, problem.intercept_cost / problem.n_samples)
    g = np.full(1, math.sqrt(diagonal)) if problem.signed else dual_norms(problem, equal)
    g = R.dual_scale(2.0 * g) * g
    a = float((R.weights_from_dual(g) * g).max()) or 1.0  # f = 0 is optimal, and any unit as good
    s, other = law_in_unit(R, a) or (math.nan, R)
    if not (diagonal > 0.0 and 0.0 < s < math.inf and 0.0 < a / s < math.inf):
        return Scaling(most=most)
    return Scaling(factor=a / s, scores=s, most=most, regularizer=None if other is R else other)


def _least_norm(problem: Any, enough: Callable[[float, float], bool]) -> Any:
    """The least a with R(a rho) = s R'(rho) that is `enough(a, s)`, as are all above; s, and R' if not R. Or None."""
    R = problem.regularizer

    def law(exponent: int) -> tuple[float, float, Regularizer]:
        a = 2.0 ** (exponent / _FINEST)
        return a, *(law_in_unit(R, a) or (math.nan, R))

    def reached(exponent: int) -> bool:  # beyond the last law, too
        a, s, _ = law(exponent)
        return enough(a, s) or (a > 1.0 and math.isnan(s))

    least = -(FARTHEST if R.degree is None else 2 * FARTHEST) * _FINEST
    a, s, other = law(least + bisect_left(range(least, -least), True, key=reached))
    return (a, s, None if other is R else other) if enough(a, s) else None


_UNITS: dict[type[Loss], tuple[int, str]] = {
    Squared: (2, ""),
    SquaredEpsilonInsensitive: (2, "epsilon"),
    Huber: (2, "delta"),
    EpsilonInsensitive: (1, "epsilon"),
    Pinball: (1, ""),
}
"""The order k of a loss in the unit of its targets, and which of its parameters is in that unit, too."""
_OF_ORDER_ONE, _LARGEST = 3.0, 300.0
"""Exponents of 2: up to the first the unit is 1, and up to the second its powers, and tubes in it, are numbers."""
_LAST_BITS = 16 * float(np.finfo(float).eps)
"""Of the largest target: targets that differ by less are constant, and have no unit."""


def _unit_of_targets(problem: Any) -> tuple[float, float, int]:
    """Their centre, S, and the order of the loss; 0, 1 and 1 for labels, and for losses of somebody's own."""
    if type(problem.loss) not in _UNITS:
        return 0.0, 1.0, 1
    order, name = _UNITS[type(problem.loss)]
    tube = getattr(problem.loss, name) if name else 0.0
    centre = float(np.sort(problem.y)[problem.n_samples // 2]) if problem.intercept else 0.0
    size = float(np.abs(problem.y - centre).max())
    if size == math.inf:
        return 0.0, 1.0, order
    rounding = _LAST_BITS * float(np.abs(problem.y).max())
    if isinstance(problem.loss, Huber):
        size = min(size, tube)
    exponent = round(math.log2(size)) if size > rounding else 0
    known = not tube or abs(math.log2(tube)) < _LARGEST
    return centre, 2.0**exponent if known and _OF_ORDER_ONE < abs(exponent) < _LARGEST else 1.0, order


@dataclass(frozen=True)
class Factors:
    """L_m (n, r_m) with K_m = L_m L_m' for every kernel; r_m is the numerical rank, at least 1."""

    matrices: tuple[Array, ...]

    @cached_property
    def stacked(self) -> Array:
        """[L_1 ... L_M], (n, r_1 + ... + r_M)."""
        return np.hstack(self.matrices)

    @property
    def slices(self) -> list[slice]:
        """Where each kernel's columns lie in `stacked`."""
        ends = np.cumsum([matrix.shape[1] for matrix in self.matrices])
        return [slice(int(end) - matrix.shape[1], int(end)) for end, matrix in zip(ends, self.matrices, strict=True)]

    def scaled(self, factor: float) -> Factors:
        """factor L_m, the factors of factor^2 K_m."""
        return self if factor == 1.0 else Factors(tuple(factor * L for L in self.matrices))

    def split(self, v: Any) -> list[Any]:
        """The blocks v_m of a stacked vector or cvxpy expression."""
        return [v[part] for part in self.slices]

    def norms(self, v: Array) -> Array:
        """(||v_m||)_m, (M,)."""
        return np.array([np.linalg.norm(block) for block in self.split(v)])

    def squares(self, beta: Array) -> Array:
        """(beta'K_m beta)_m, (M,)."""
        return self.norms(self.stacked.T @ beta) ** 2


def left_out(problem: Any, point: Any, L: Factors, factor: float) -> float:
    """1/2 sum_m theta_m |beta'K_m beta - ||L_m'beta||^2|: by so much may the optimum of these factors be another.

    L were multiplied by this `factor`. Of kernels less positive semidefinite it is larger; and what decides about it
    may be rounding of eigenvalues.
    """
    apart = dual_norms(problem, point.dual_coef) ** 2 - L.squares(point.dual_coef.T / factor)
    return 0.5 * float(np.abs(point.weights) @ np.abs(apart))


_BYTES = 140.0
"""Of a conic solver, for each entry of the factors: measured 120 to 150, of Clarabel and ECOS, at n = 200 and 400."""


def factorize(kernels: KernelStack) -> Factors:
    """Factors of numerical rank, lower trapezoidal, from one eigendecomposition for each kernel.

    `SolverFailure` where there is no memory for them, or for what conic solvers do with them.
    """
    M, n, _ = kernels.shape
    _require_memory(kernels, 8.0 * n * n * (M + 4))
    factors = Factors(tuple(_factor(kernels.matrix(m).astype(np.float64, copy=False)) for m in range(M)))
    _require_memory(kernels, _BYTES * sum(matrix.size for matrix in factors.matrices))
    return factors


def _require_memory(kernels: KernelStack, size: float) -> None:
    free, (M, n, _) = free_memory(), kernels.shape
    if size > free:
        raise SolverFailure(
            f"conic solvers take about {size / 1e9:.3g} GB for {M} kernels of {n} samples, and {free / 1e9:.3g} GB are "
            "free: give fewer samples; mklref.solve needs less, and its certificate none of them."
        )


def _factor(K: Array) -> Array:
    values, vectors = np.linalg.eigh(K)
    # All that is no rounding: at a large C, or small norms, the least eigenvalues decide about the optimal value. Of
    # five wide Gaussians of 200 samples 484 columns are above 1e-10 of the largest, and 720 above rounding: with the
    # first alone solvers take 0.6 to 1 times as long, and at C = 100 a hinge loss is off in its eighth digit.
    kept = values > len(K) * float(np.finfo(float).eps) * values[-1]
    if not kept.any():  # the zero kernel keeps one column, of zeros
        return np.zeros((len(K), 1))
    # L W has the same product for every orthogonal W. The one that makes it lower trapezoidal halves its entries, and
    # a solver's factorisation with them: measured 2 to 4 times faster, by Clarabel and by ECOS, in every formulation.
    root = vectors[:, kept] * np.sqrt(values[kept])
    return np.ascontiguousarray(np.transpose(np.linalg.qr(root.T, mode="r")))
