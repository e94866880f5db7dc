"""Every primer beside the problem of the library that it states: one row for each, with the map between their scales.

A row is a function of the data (L, y), which gives the arguments of the primer, the problem, and what to read off the
primer's answer: its value in units of the problem, and a point (beta, theta, b) with None for what it does not say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
from primer.sources import SAMPLES

from mklref import Problem
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Groups,
    HalfPower,
    Lp,
    Mahalanobis,
    Power,
    Regularizer,
    RootPlusLinear,
    Tikhonov,
)

C = 0.3
"""So small that no machine separates the samples: the loss would be 0, whatever multiplies it."""


@dataclass(frozen=True)
class Point:
    """What a primer says of the solution; the rest is looked for."""

    beta: Any = None
    theta: Any = None
    b: float | None = None


@dataclass(frozen=True, eq=False)
class Row:
    """A primer, its arguments after L and y, and the problem of the library."""

    primer: str
    arguments: tuple[Any, ...]
    regularizer: Regularizer
    point: Callable[..., Point]
    """From y and what the primer returns after its value."""
    C: float = C
    loss: str = "hinge"
    intercept: bool = True
    value: Callable[[float], float] = lambda value: value
    """The optimal value of the problem from that of the primer."""
    formulations: str = "dual"
    """Their names, with blanks between."""
    targets: bool = True
    """Whether the primer takes y."""

    def problem(self, L: list[np.ndarray], y: np.ndarray) -> Problem:
        K = np.array([L_m @ L_m.T for L_m in L])
        C = 1 / (self.C * len(y)) if self.loss == "one_class" else self.C
        return Problem(K, y, C=C, loss=self.loss, regularizer=self.regularizer, intercept=self.intercept)

    @property
    def statement(self) -> tuple[str, ...]:
        """What tells its problem from those of other rows on the same data."""
        return str(self.regularizer), f"{self.C}", self.loss, f"{self.intercept}"

    def call(self, primer: Callable[..., Any], L: list[np.ndarray], y: np.ndarray) -> tuple[Any, ...]:
        return primer(L, y, *self.arguments) if self.targets else primer(L, *self.arguments)

    def __str__(self) -> str:
        return f"{self.primer}-{self.regularizer}"


PAIRS = [[0, 2], [1, 3]]
EXPONENTS = ((0, 1), (1, 0), (1 / 2, 1 / 2), (1 / 4, 1 / 2))
ROOT = np.array([[1.0, 0.0, 0.0, 0.0], [0.2, 1.0, 0.0, 0.0], [0.1, 0.4, 0.9, 0.0], [0.3, 0.0, 0.2, 1.1]])
E, INVERSE_ROOT = ROOT @ ROOT.T, np.linalg.inv(ROOT)


def lp(p: float) -> Callable[[Any], Any]:
    return lambda x: cp.pnorm(x, p)


def dual(p: float) -> Callable[[Any], Any]:
    return cp.norm_inf if p == 1 else lp(p / (p - 1))


def times(factor: float) -> Callable[[float], float]:
    return lambda value: factor * value


def norms_of(functions) -> np.ndarray:
    return np.array([np.linalg.norm(v_m) for v_m in functions])


def weighted(y, v, b, *rest):
    """(2) and its kin: functions, intercept, ..., weights last."""
    return Point(theta=rest[-1], b=b)


def functions(q: float, factor: float = 1.0) -> Callable[..., Point]:
    """No weights among the variables: they are proportional to ||f_m||^(2-q), which is what the closed form says."""
    return lambda y, v, b, *rest: Point(theta=factor * norms_of(v) ** (2 - q), b=b)


def signed(y, alpha, *rest):
    return Point(beta=alpha)


def labelled(y, alpha, *rest):
    return Point(beta=y * alpha)


def quadratic(sign: Callable[..., Point]) -> Callable[..., Point]:
    """Multipliers of the quadratic constraints, which are the weights, come last."""
    return lambda y, alpha, *rest: Point(beta=sign(y, alpha).beta, theta=rest[-1])


def normalised(q: float) -> Callable[..., Point]:
    """The weights of 1/2 ||rho||_q^2 from the functions."""

    def point(y, v, b, *rest):
        rho = norms_of(v)
        return Point(theta=rho ** (2 - q) * np.sum(rho**q) ** ((q - 2) / q), b=b)

    return point


def cap(p: float, q: float) -> Callable[..., Point]:
    return lambda y, v, b: Point(theta=Groups(PAIRS, p, q).weights_from_norms(norms_of(v)), b=b)


def products(p: float, q: float) -> Callable[..., Point]:
    def point(y, v, b, sigma1, sigma2):
        return Point(theta=sigma1.clip(0)[[0, 1, 0, 1]] ** p * sigma2.clip(0) ** q, b=b)

    return point


def elastic(lam: float) -> Callable[[Any], Any]:
    """h(d) = (1-lambda) d / (1 - lambda d), convex on d < 1/lambda."""
    return lambda d: (1 - lam) / lam * (cp.inv_pos(1 - lam * d) - 1)


tomioka = partial(Row, value=times(C))
lasso = partial(Row, loss="squared", intercept=False, formulations="group_lasso")

ROWS = (
    Row("simplemkl_2", (C,), Lp(1), weighted, formulations="weighted_primal ivanov"),
    Row("simplemkl_3", (C,), Lp(1), weighted, formulations="mixed_norm"),
    Row("simplemkl_8", (C,), Lp(1), quadratic(labelled), formulations="qcqp"),
    Row("simplemkl_silp", (C,), Lp(1), lambda y, d: Point(theta=d), formulations="silp"),
    Row("simplemkl_16", (C, 0.1), Lp(1), weighted, loss="epsilon_insensitive", formulations="weighted_primal"),
    Row("simplemkl_17", (0.3,), Lp(1), lambda y, v, b, xi, d: Point(theta=d, b=-b), 0.3, "one_class", targets=False),
    Row(
        "simplemkl_18",
        (C, 0.1),
        Lp(1),
        lambda y, alpha, beta, lam, d: Point(beta=beta - alpha, theta=d),
        loss="epsilon_insensitive",
        formulations="qcqp",
    ),
    Row("simplemkl_19", (0.3,), Lp(1), quadratic(signed), 0.3, "one_class", formulations="qcqp", targets=False),
    *(Row("kloft_P", (C, lp(p)), Lp(p), weighted, formulations="weighted_primal ivanov") for p in (1, 4 / 3, 2)),
    Row("kloft_P", (C, lambda x: cp.norm(INVERSE_ROOT @ x)), Mahalanobis(E), weighted, formulations="ivanov"),
    *(Row("kloft_D", (C, dual(p)), Lp(p), signed) for p in (1, 4 / 3, 2)),
    Row("kloft_D", (C, lambda q: cp.norm(ROOT.T @ q)), Mahalanobis(E), signed),
    Row(
        "kloft_3",
        (1 / (SAMPLES * C), 0.3 / (SAMPLES * C), lp(2)),
        Tikhonov(2, 0.3),
        weighted,
        value=times(SAMPLES * C),
        formulations="tikhonov",
    ),
    Row("kloft_4", (C, 0.3, lp(4 / 3)), Tikhonov(4 / 3, 0.3), weighted, formulations="tikhonov"),
    Row(
        "kloft_8",
        (C, lp(4 / 3)),
        Lp(4 / 3),
        lambda y, alpha, beta, w, b, t, theta: Point(alpha, theta, b),
        formulations="weighted_primal",
    ),
    Row("kloft_10", (C, dual(4 / 3)), Lp(4 / 3), signed),
    Row("kloft_12", (C, dual(4 / 3)), Lp(4 / 3), labelled),
    Row("kloft_13", (C,), Lp(1), quadratic(labelled), formulations="qcqp"),
    lasso("kloft_14", (C,), HalfPower(1), lambda y, w: Point(theta=2 * norms_of(w), b=0.0)),
    lasso("kloft_15", (C,), Lp(1), signed),
    lasso("kloft_15", (C, dual(3)), Lp(3), signed),
    lasso("kloft_16", (C,), Lp(1), quadratic(signed)),
    Row(
        "kloft_3_5",
        (0.1, lp(2)),
        Lp(2),
        lambda y, w, theta: Point(theta=theta, b=0.0),
        0.1,
        loss="density_level_set",
        intercept=False,
        targets=False,
    ),
    Row("kloft_17", (C, 4 / 3), Lp(4 / 3), weighted, formulations="block_norm mixed_norm"),
    Row("kloft_sip", (C, lp(2)), Lp(2), lambda y, theta: Point(theta=theta), formulations="semi_infinite"),
    Row("kloft_27", (C, 2), Lp(2), weighted, formulations="weighted_primal"),
    Row("kloft_28", (C, 1.5), HalfPower(1.5), functions(1.5, 2 / 1.5), formulations="block_norm"),
    Row(
        "kloft_30",
        (C, 2.5),
        BlockNorm(2.5),
        lambda y, alpha, theta: Point(beta=alpha, theta=1 / theta),
        formulations="sup_block_norm",
    ),
    Row("kloft_31", (C, 2.5), BlockNorm(2.5), weighted, formulations="sup_block_norm"),
    Row("szafranski_7", (C,), Lp(1), weighted, formulations="weighted_primal"),
    *(
        Row("szafranski_8", (C, PAIRS, p, q), Groups(PAIRS, p, q), products(p, q), formulations="groups")
        for p, q in EXPONENTS
    ),
    *(Row("szafranski_9", (C, PAIRS, p, q), Groups(PAIRS, p, q), cap(p, q), formulations="cap") for p, q in EXPONENTS),
    tomioka("tomioka_3", (1 / C, lambda d: d), Lp(1), weighted, formulations="ivanov"),
    tomioka("tomioka_3", (1 / C, elastic(0.4)), ElasticNet(0.4, "ivanov"), weighted, formulations="elastic_net"),
    tomioka("tomioka_4", (1 / C,), Lp(1), weighted, formulations="block_norm"),
    tomioka("tomioka_5", (1 / C, 4 / 3), Lp(2), normalised(4 / 3), formulations="block_norm"),
    tomioka("tomioka_5", (1 / C, 3), BlockNorm(3), normalised(3), formulations="sup_block_norm"),
    tomioka("tomioka_6", (1 / C, 1 / 2, lambda d: cp.power(d, 2)), Power(2), weighted, formulations="tikhonov"),
    tomioka("tomioka_6", (1 / C, 0.6, elastic(0.4)), ElasticNet(0.4), weighted, formulations="elastic_net"),
    tomioka("tomioka_7", (1 / C, 4 / 3), Power(2), weighted, formulations="block_norm"),
    tomioka(
        "tomioka_9",
        (1 / C, lambda x: 0.6 * x + 0.2 * cp.square(x)),
        ConcaveBlock(RootPlusLinear(0.4)),
        lambda y, v, b: Point(theta=(lambda r: r / (0.6 + 0.4 * r))(norms_of(v)), b=b),
        formulations="generalized_block_norm",
    ),
    tomioka("tomioka_13", (1 / C, 0.4), ElasticNet(0.4), weighted, formulations="elastic_net"),
)
"""All primers whose problem is a `Problem` with the same solution; the others have tests of their own."""
