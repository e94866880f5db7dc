"""The optimal value of a small problem in 80 digits: Newton's method on the active set of a float64 solution.

`enclosure` returns decimals D <= P* <= P, the dual objective at a feasible dual point and the primal objective at its
weights, evaluated in 80 digits from formulas that are written out here once more. Where the active set is degenerate
and Newton's method fails, the enclosure is that of the float64 point, and wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

import mklref
from mklref.regularizers import Fixed, Groups, Lp, Tikhonov

CONTEXT = Context(prec=80, Emax=MAX_EMAX, Emin=MIN_EMIN)
Vector = list[Decimal]
_INSIDE = 1e-9
"""Share of the cost by which a dual variable must keep away from its bounds to count as free."""
_ACTIVE = 1e-7
_STEPS = 8
_STEP = Decimal("1e-25")


def enclosure(problem: mklref.Problem, solution: mklref.Solution) -> tuple[Decimal, Decimal]:
    """D <= P* <= P in 80 digits, as narrow as Newton's method makes it."""
    with localcontext(CONTEXT):
        machine = Machine(problem)
        start = ([Decimal(x) for x in solution.dual_coef.tolist()], [Decimal(x) for x in solution.weights.tolist()])
        found = [machine.bounds(*start, Decimal(solution.intercept))]
        refined = machine.newton(*start, Decimal(solution.intercept))
        if refined is not None:
            found.append(machine.bounds(*refined))
        return max(lower for lower, _ in found), min(upper for _, upper in found)


class Formulas:
    """V, V* and the box of a loss, in decimals or in fractions, in which all but the logistic one are exact."""

    def __init__(self, loss: Any, number: Any = Decimal) -> None:
        self.name = loss.name
        parameters = {"epsilon": 0.0, "delta": 1.0, "tau": 0.5, **vars(loss)}
        self.epsilon, self.delta, self.tau = (number(parameters[key]) for key in ("epsilon", "delta", "tau"))
        self.zero = number(0)
        self.curvature = int(self.name in ("squared", "squared_hinge", "huber", "squared_epsilon_insensitive"))

    def interval(self, y: Any, c: Any) -> tuple[Any, Any]:
        """Between which bounds beta is."""
        infinite = float("inf")
        if self.name in ("squared", "squared_epsilon_insensitive"):
            return -infinite, infinite
        if self.name in ("epsilon_insensitive", "huber"):
            return -self.delta * c, self.delta * c
        if self.name == "pinball":
            return (self.tau - 1) * c, self.tau * c
        bound = infinite if self.name == "squared_hinge" else c
        return (self.zero, bound) if y > 0 else (-bound, self.zero)

    def loss(self, t: Any, y: Any) -> Any:
        """V(t, y)."""
        z, r, zero = 1 - y * t, abs(y - t), self.zero
        match self.name:
            case "hinge" | "density_level_set":
                return max(zero, z)
            case "squared_hinge":
                return max(zero, z) ** 2 / 2
            case "one_class":
                return max(zero, -t)
            case "logistic":
                margin = ratio(y * t)
                return max(Decimal(0), -margin) + log1p(max(-abs(margin), Decimal(-1000)).exp())
            case "pinball":
                return max(self.tau * (y - t), (1 - self.tau) * (t - y))
            case "huber":
                return r * r / 2 if r <= self.delta else self.delta * (r - self.delta / 2)
            case "squared" | "squared_epsilon_insensitive":
                return max(zero, r - self.epsilon) ** 2 / 2
        return max(zero, r - self.epsilon)

    def dual(self, b: Any, y: Any, c: Any) -> Any:
        """-c V*(-b/c, y) inside the box."""
        if self.name == "one_class":
            return self.zero
        if self.name == "logistic":
            small, large, c = map(ratio, (*sorted((abs(b), max(c - abs(b), self.zero))), c))
            return -(small * (small / c).ln() + large * log1p(-small / c)) if small else Decimal(0)
        return y * b - self.epsilon * abs(b) - self.curvature / c * b * b / 2


class Machine(Formulas):
    """A problem in decimals."""

    def __init__(self, problem: mklref.Problem) -> None:
        super().__init__(problem.loss)
        self.problem = problem
        self.K = [[[Decimal(x) for x in row] for row in K.tolist()] for K in problem.kernels.dense()]
        self.y = [Decimal(x) for x in problem.y.tolist()]
        self.costs = [Decimal(x) for x in problem.costs.tolist()]
        self.total = Decimal(problem.intercept_cost)
        self.box = [tuple(map(Decimal, self.interval(y, c))) for y, c in zip(self.y, self.costs, strict=True)]

    # --- objectives

    def bounds(self, beta: Vector, theta: Vector, b: Decimal) -> tuple[Decimal, Decimal]:
        """Dual and primal objective at the feasible point next to this one."""
        beta = self._feasible(beta)
        theta = [max(weight, Decimal(0)) for weight in theta]
        images = self.images(beta)
        q = [max(dot(beta, image), Decimal(0)) for image in images]
        scores = [sum((w * f[i] for w, f in zip(theta, images, strict=True)), b) for i in range(len(beta))]
        dual = sum(map(self.dual, beta, self.y, self.costs), Decimal(0)) - conjugate(self.problem.regularizer, q)
        losses = sum((c * self.loss(t, y) for t, y, c in zip(scores, self.y, self.costs, strict=True)), Decimal(0))
        squares = [w * w * x for w, x in zip(theta, q, strict=True)]
        imbalance = abs(sum(beta, Decimal(0)) - self.total)
        if self.problem.intercept and imbalance > Decimal("1e-70") * sum(map(abs, beta), self.total):
            dual = Decimal("-Infinity")
        return dual, losses + value(self.problem.regularizer, squares) + self.total * b

    def images(self, beta: Vector) -> list[Vector]:
        """K_m beta."""
        return [[dot(row, beta) for row in K] for K in self.K]

    def _feasible(self, beta: Vector) -> Vector:
        """Inside the box, with the imbalance put on the variable that has most room."""
        inside = [min(max(x, low), high) for x, (low, high) in zip(beta, self.box, strict=True)]
        if self.problem.intercept:
            room = [min(x - low, high - x) for x, (low, high) in zip(inside, self.box, strict=True)]
            i = room.index(max(room))
            rest = sum(inside[:i] + inside[i + 1 :], Decimal(0))
            inside[i] = min(max(self.total - rest, self.box[i][0]), self.box[i][1])
        return inside

    # --- Newton's method

    def newton(self, beta: Vector, theta: Vector, b: Decimal) -> tuple[Vector, Vector, Decimal] | None:
        """The stationary point of the active set, or None."""
        n, M = len(beta), len(theta)
        slack = [Decimal(_INSIDE) * c for c in self.costs]
        beta = [
            low if x - low <= s else high if high - x <= s else Decimal(0) if self.epsilon and abs(x) <= s else x
            for x, (low, high), s in zip(beta, self.box, slack, strict=True)
        ]
        F = [i for i in range(n) if self.box[i][0] < beta[i] < self.box[i][1] and not (self.epsilon and not beta[i])]
        regularizer = self.problem.regularizer
        kinked = isinstance(regularizer, Lp | Tikhonov) and regularizer.p == 1.0
        S = [m for m in range(M) if theta[m] > Decimal(_ACTIVE) * max(theta)] if kinked else []
        if not kinked and isinstance(regularizer, Groups) and regularizer.p + regularizer.q > 1.0 - 1e-9:
            return None
        try:
            for _ in range(_STEPS):
                images = self.images(beta)
                q = [dot(beta, image) for image in images]
                if not kinked:
                    theta = weights(regularizer, q)
                slopes = [self._slope(i, beta[i]) for i in range(n)]
                rows = [[sum((theta[m] * self.K[m][i][j] for m in range(M)), Decimal(0)) for j in F] for i in F]
                for k, i in enumerate(F):
                    rows[k][k] += slopes[i][1]
                if not kinked:
                    T = jacobian(regularizer, q)
                    for k, i in enumerate(F):
                        left = [sum((images[m][i] * T[m][o] for m in range(M)), Decimal(0)) for o in range(M)]
                        for c, j in enumerate(F):
                            rows[k][c] += 2 * sum((left[o] * images[o][j] for o in range(M)), Decimal(0))
                residual = [-(sum((theta[m] * images[m][i] for m in range(M)), b) + slopes[i][0]) for i in F]
                extra = int(self.problem.intercept)
                if extra:
                    rows = [[*row, Decimal(1)] for row in rows] + [[Decimal(1)] * len(F) + [Decimal(0)]]
                    residual.append(self.total - sum(beta))
                if S:
                    level = sum((q[m] for m in S), Decimal(0)) / len(S)
                    rows = [
                        [*row, *(images[m][F[k]] if k < len(F) else Decimal(0) for m in S), Decimal(0)]
                        for k, row in enumerate(rows)
                    ]
                    for m in S:
                        zeros = [Decimal(0)] * (extra + len(S))
                        rows.append([*(images[m][j] for j in F), *zeros, Decimal("-0.5")])
                        residual.append((level - q[m]) / 2)
                    factor = -4 * Decimal(regularizer.mu) if isinstance(regularizer, Tikhonov) else Decimal(1)
                    held = Decimal(int(isinstance(regularizer, Tikhonov)))
                    rows.append([*([Decimal(0)] * (len(F) + extra)), *([factor] * len(S)), held])
                    weight = sum((theta[m] for m in S), Decimal(0))
                    residual.append((1 - held) - held * level - factor * weight)
                step = solve(rows, residual)
                for k, i in enumerate(F):
                    beta[i] += step[k]
                b += step[len(F)] if extra else 0
                theta = list(theta)
                for k, m in enumerate(S):
                    theta[m] += step[len(F) + extra + k]
                if max(map(abs, step), default=Decimal(0)) <= Decimal("1e-60"):
                    break
            if not kinked:
                theta = weights(regularizer, [dot(beta, image) for image in self.images(beta)])
            else:
                theta = [theta[m] if m in S else Decimal(0) for m in range(M)]
        except ArithmeticError:
            return None
        return beta, theta, b

    def _slope(self, i: int, x: Decimal) -> tuple[Decimal, Decimal]:
        """The derivative of c V*(-x/c, y) in x, and its derivative."""
        y, c = self.y[i], self.costs[i]
        if self.name == "one_class":
            return Decimal(0), Decimal(0)
        if self.name == "logistic":
            return y * (abs(x) / (c - abs(x))).ln(), c / (abs(x) * (c - abs(x)))
        sign = Decimal(0).copy_sign(x) + (1 if x > 0 else -1 if x < 0 else 0)
        return self.curvature / c * x + self.epsilon * sign - y, self.curvature / c


def dot(x: Sequence[Decimal], y: Sequence[Decimal]) -> Decimal:
    """x'y."""
    return sum((a * b for a, b in zip(x, y, strict=True)), Decimal(0))


def log1p(x: Decimal) -> Decimal:
    """ln(1 + x), to the relative precision of the context however small x is."""
    if not x:
        return x
    with localcontext(prec=CONTEXT.prec + max(0, -x.adjusted())):
        found = (1 + x).ln()
    return +found


def solve(rows: list[Vector], residual: Vector) -> Vector:
    """Gaussian elimination with row pivoting; ArithmeticError if the matrix is singular."""
    A = [[*row, r] for row, r in zip(rows, residual, strict=True)]
    size = len(A)
    for k in range(size):
        scale = [max(map(abs, row[k:-1])) for row in A[k:]]
        pivot = k + max(range(size - k), key=lambda i: abs(A[k + i][k]) / scale[i] if scale[i] else Decimal(0))
        A[k], A[pivot] = A[pivot], A[k]
        if abs(A[k][k]) <= Decimal("1e-40") * max(map(abs, A[k][:-1])):
            raise ArithmeticError("singular")
        for i in range(k + 1, size):
            factor = A[i][k] / A[k][k]
            A[i] = [x - factor * z for x, z in zip(A[i], A[k], strict=True)]
    x = [Decimal(0)] * size
    for k in reversed(range(size)):
        x[k] = (A[k][-1] - dot(A[k][k + 1 : -1], x[k + 1 :])) / A[k][k]
    return x


# --- regularisers as functions of squared norms


def ratio(x: Any) -> Decimal:
    """A rational number in the digits of the context."""
    return x if isinstance(x, Decimal) else Decimal(x.numerator) / Decimal(x.denominator)


def norm(x: Sequence[Decimal], inverse: Decimal) -> Decimal:
    """(sum x^r)^{1/r} with r = 1/inverse; the largest entry for inverse = 0."""
    top = max(x)
    if not top or not inverse:
        return top
    powers = [((a / top).ln() / inverse).exp() for a in x if a and (a / top).ln() / inverse > -3000]
    return top * (sum(powers, Decimal(0)).ln() * inverse).exp()


def gradient(x: Sequence[Decimal], inverse: Decimal) -> Vector:
    """Of `norm`: (x/norm)^{r - 1}."""
    total, r = norm(x, inverse), 1 / inverse
    if r == 1:
        return [Decimal(1)] * len(x)
    if not total:
        return [Decimal(0)] * len(x)
    return [(max((a / total).ln() * (r - 1), Decimal(-3000))).exp() if a > 0 else Decimal(0) for a in x]


def exponents(regularizer: Any) -> tuple[Decimal, Decimal, Decimal]:
    """1/p of a ball, or p, q and p + q of groups."""
    if isinstance(regularizer, Groups):
        p, q = Fraction(regularizer.p), Fraction(regularizer.q)
        total = Fraction(1) if abs(p + q - 1) <= Fraction(1, 10**9) else p + q
        return ratio(p), ratio(q), ratio(total)
    inverse = Fraction(0) if np.isinf(regularizer.p) else 1 / Fraction(regularizer.p)
    return ratio(inverse), Decimal(0), Decimal(0)


def across(groups: Groups, x: Sequence[Decimal], sign: int) -> Decimal:
    """The mixed norm of the squares: sign = 1 for R, -1 for R*."""
    p, q, total = exponents(groups)
    blocks = [
        (sign * p * Decimal(len(group)).ln()).exp() * norm([x[m] for m in group], 1 + sign * q)
        for group in groups.groups
    ]
    return norm(blocks, 1 + sign * total)


def conjugate(regularizer: Any, q: Sequence[Decimal]) -> Decimal:
    """R*(g) with q = g^2."""
    if isinstance(regularizer, Fixed):
        return dot([Decimal(w) for w in regularizer.weights.tolist()], q) / 2
    if isinstance(regularizer, Groups):
        return across(regularizer, q, -1) / 2
    ball = norm(q, 1 - exponents(regularizer)[0])
    return ball**2 / (16 * Decimal(regularizer.mu)) if isinstance(regularizer, Tikhonov) else ball / 2


def value(regularizer: Any, squares: Sequence[Decimal]) -> Decimal:
    """R(rho) with squares = rho^2."""
    if isinstance(regularizer, Fixed):
        return (
            sum((x / Decimal(w) for x, w in zip(squares, regularizer.weights.tolist(), strict=True) if x), Decimal(0))
            / 2
        )
    if isinstance(regularizer, Groups):
        return across(regularizer, squares, 1) / 2
    ball = norm(squares, 1 + exponents(regularizer)[0])
    if isinstance(regularizer, Tikhonov):
        return 3 * ((Decimal(regularizer.mu) * ball**2 / 16).ln() / 3).exp() if ball else Decimal(0)
    return ball / 2


def weights(regularizer: Any, q: Sequence[Decimal]) -> Vector:
    """theta = twice the gradient of R* in q."""
    if isinstance(regularizer, Fixed):
        return [Decimal(w) for w in regularizer.weights.tolist()]
    if isinstance(regularizer, Groups):
        return group_weights(regularizer, q)
    inverse = 1 - exponents(regularizer)[0]
    found = gradient(q, inverse)
    if not isinstance(regularizer, Tikhonov):
        return found
    return [norm(q, inverse) / (4 * Decimal(regularizer.mu)) * part for part in found]


def group_weights(groups: Groups, q: Sequence[Decimal]) -> Vector:
    """The gradient of the mixed norm in R*, by the chain rule."""
    p, within, total = exponents(groups)
    factors = [(-p * Decimal(len(group)).ln()).exp() for group in groups.groups]
    parts = [[q[m] for m in group] for group in groups.groups]
    blocks = [factor * norm(part, 1 - within) for factor, part in zip(factors, parts, strict=True)]
    theta = [Decimal(0)] * len(q)
    for outer, factor, group, part in zip(gradient(blocks, 1 - total), factors, groups.groups, parts, strict=True):
        for m, inner in zip(group, gradient(part, 1 - within), strict=True):
            theta[m] = outer * factor * inner
    return theta


def jacobian(regularizer: Any, q: Sequence[Decimal]) -> list[Vector]:
    """d theta / d q_l, by central differences with steps of 1e-25 q_l; symmetric, and 0 where q_l is 0."""
    rows = []
    for m, x in enumerate(q):
        h = _STEP * x
        ends = [weights(regularizer, [*q[:m], x + sign * h, *q[m + 1 :]]) for sign in (1, -1)]
        rows.append([(a - b) / (2 * h) if h else Decimal(0) for a, b in zip(*ends, strict=True)])
    return rows
