"""Thirty real problems of 50 to 1797 samples whose optima are proven: `mklref vectors DIRECTORY --suite real`.

The data come with scikit-learn. Variables are standardised; the kernels are Gaussians of four widths and a linear one
on all variables, and for few variables a Gaussian on each. Everybody has the same matrices to the last bit, on any
processor and with any BLAS: standardised variables are multiples of 2^-10, so that every inner product is exact in
whatever order it is summed; the exponential is a polynomial and squares, each operation rounded as IEEE 754 says;
and entries are rounded to multiples of 2^-30. To the diagonal 2^-20 is added, more than the n 2^-31 by which rounding
moves an eigenvalue: every matrix is positive definite, and its bounds need no other assumption.

`PUBLISHED` has bounds of every optimal value, and the hash of the matrices for which they are proven.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.losses import EpsilonInsensitive, Loss, Pinball
from mklref.problem import Problem
from mklref.regularizers import Lp, Regularizer, Tikhonov
from mklref.testing.case import Case, matching

WIDTHS = (0.1, 0.5, 2.0, 10.0)
"""Of the Gaussians, in units of the root of twice the number of variables."""
FEW = 13
"""Variables up to which each one has a kernel of its own."""
GRID, RIDGE = 2.0**30, 2.0**-20
STEP = 2.0**10
"""Steps of the standardised variables in one unit."""
FARTHEST, HALVINGS = 64.0, 12
"""exp(-64) is 0 on the grid; its argument is halved as often before the polynomial."""
PUBLISHED = Path(__file__).with_name("real.csv")
"""A line for each problem, with what `mklref vectors DIRECTORY --suite real` wrote into its index; bounds are exact."""
SINCE = (0, 2)
"""The release that brings them; docs/problems.md says how that is cited before it is there."""

Recipe = tuple[str, int, str | Loss, Regularizer, float]
"""Data, samples, loss, regulariser, C."""

RECIPES: tuple[Recipe, ...] = (
    *[("iris", n, "hinge", Lp(p), C) for n, p, C in ((50, 1.0, 10.0), (100, 2.0, 1.0), (150, 4 / 3, 100.0))],
    *[("wine", 178, loss, Lp(p), 10.0) for loss in ("hinge", "logistic", "squared_hinge") for p in (1.0, 2.0)],
    ("wine", 100, "hinge", Tikhonov(2.0, 0.5), 10.0),
    *[("breast_cancer", n, "hinge", Lp(p), C)
      for n, p, C in ((200, 1.0, 1.0), (400, 4 / 3, 10.0), (569, 1.0, 100.0), (569, 2.0, 100.0), (569, np.inf, 1.0))],
    ("breast_cancer", 569, "logistic", Lp(1.0), 1.0),
    ("breast_cancer", 569, "squared", Lp(2.0), 1.0),
    *[("diabetes", n, "squared", Lp(p), C) for n, p, C in ((200, 1.0, 0.1), (442, 1.0, 1.0), (442, 2.0, 1.0))],
    *[("diabetes", 442, EpsilonInsensitive(0.2), Lp(p), 1.0) for p in (1.0, 2.0)],
    ("diabetes", 442, "huber", Lp(4 / 3), 1.0),
    ("diabetes", 300, Pinball(0.8), Lp(1.0), 1.0),
    *[("digits", n, "hinge", Lp(p), C)
      for n, p, C in ((500, 1.0, 10.0), (1000, 1.0, 1.0), (1000, 2.0, 1.0), (1797, 1.0, 1.0), (1797, 2.0, 10.0))],
    ("digits", 1797, "squared_hinge", Lp(1.0), 1.0),
)  # fmt: skip


def select(include: Iterable[str] | None = None, exclude: Iterable[str] | None = None) -> tuple[Case, ...]:
    """The problems by name, with patterns; `InvalidParameter` for a word that matches none."""
    cases = [_case(recipe) for recipe in RECIPES]
    known = ", ".join(case.name for case in cases)
    return matching(cases, include, exclude, f"{{1!r}} matches no real problem; known: {known}.")


def _case(recipe: Recipe) -> Case:
    data, n, loss, regularizer, C = recipe
    loss_name = loss if isinstance(loss, str) else loss.name
    kind = type(regularizer).__name__.lower()
    if isinstance(regularizer, Lp):
        p = regularizer.p
        kind = "p-" + (str(Fraction(p).limit_denominator(9)).replace("/", "-over-") if np.isfinite(p) else "inf")
    name = "-".join([data, str(n), loss_name, kind]).replace("_", "-")
    build: Callable[[], tuple[Problem, ...]] = partial(_build, recipe)
    return Case(name, SINCE, frozenset(), f"{n} samples of {data}, C = {C:g}.", build)


def _build(recipe: Recipe) -> tuple[Problem, ...]:
    from mklref.datasets import load

    name, n, loss, regularizer, C = recipe
    data = load(name)
    rows = np.random.default_rng(0).permutation(len(data.y))[:n]
    X = np.asarray(data.X[rows], dtype=float)
    return (Problem(kernels(X), _targets(name, data.y[rows]), C=C, loss=loss, regularizer=regularizer),)


def kernels(X: Array) -> Array:
    """(M, n, n), positive definite, with entries that are multiples of 2^-30; the same bits everywhere."""
    n, d = X.shape
    Z = standardized(X)
    squares = _squares(Z)
    stack = [gaussian(squares / (2.0 * width**2 * d)) for width in WIDTHS]
    stack += [Z @ Z.T / d, *(gaussian(0.5 * _squares(Z[:, [j]])) for j in range(d) if d <= FEW)]
    return np.stack([np.round(K * GRID) / GRID + RIDGE * np.eye(n) for K in stack])


def standardized(X: Array) -> Array:
    """Every variable with mean 0 and variance 1, as multiples of 2^-10."""
    spread = X.std(axis=0)
    return np.asarray(np.round((X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0) * STEP) / STEP)


def gaussian(exponent: Array) -> Array:
    """exp(-t) for t >= 0, to 1e-12, by sums and products alone: (1 - x + x^2/2! - ...)^(2^12) with x = t / 2^12."""
    x = -np.minimum(exponent, FARTHEST) / 2.0**HALVINGS
    value = np.ones_like(x)
    for k in range(6, 0, -1):
        value = 1.0 + x * value / k
    for _ in range(HALVINGS):
        value = value * value
    return np.asarray(value)


def _squares(Z: Array) -> Array:
    """||z_i - z_j||^2, without rounding."""
    norms = np.sum(Z**2, axis=1)
    return np.asarray(norms[:, None] + norms - 2.0 * (Z @ Z.T))


@cache
def published() -> dict[str, dict[str, Any]]:
    """What is published of each problem, by name: texts, and its bounds as numbers; of one that is added, nothing."""
    with PUBLISHED.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    bounds = [{side: float.fromhex(row[side]) for side in ("lower", "upper")} for row in rows]
    return {row["name"]: {**row, **found} for row, found in zip(rows, bounds, strict=True)}


def _targets(name: str, y: Array) -> Array:
    """Standardised like the variables; or the last class against the others, odd against even digits."""
    if name == "diabetes":
        values = np.asarray(y, dtype=float)
        return standardized(values)
    if name == "digits":
        return np.where(np.asarray(y, dtype=int) % 2 == 1, 1.0, -1.0)
    return np.where(y == np.unique(y)[-1], 1.0, -1.0)
