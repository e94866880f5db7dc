"""Every edge that is offered for a random problem, walked from its solution: the point on the right is as good.

The certificate of the point on the right is the proof: it knows nothing of the edge. What an edge promises on top is
that it is offered for its problems, and that `NotApplicable` is the only way in which it fails.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import mklref
from mklref.certificate.bounds import relative
from mklref.equivalences import leaving
from mklref.exceptions import InvalidParameter, NotApplicable
from mklref.losses import (
    DensityLevelSet,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    OneClass,
    Pinball,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Fixed,
    Groups,
    HalfPower,
    Lp,
    Mahalanobis,
    Power,
    PowerRoot,
    Regularizer,
    RootPlusLinear,
    SmoothedRoot,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)
from validation.attack import Finding, each

_LOST = 1e-9
"""Relative gap that the map may add on the right, beside what its certificate allows for rounding."""
_SMALL = 1e-6
"""Share of the objective up to which a gap is small."""


def attack(cases: int, rng: np.random.Generator) -> list[Finding]:
    """Walk the edges that leave `cases` random problems."""
    return each("equivalences", _walk, cases, rng)


def _walk(rng: np.random.Generator) -> Iterator[str]:
    problem = _problem(rng)
    if problem is None:
        return
    try:
        solution = mklref.solve(problem, tol=1e-8, max_iter=200)
    except InvalidParameter:  # its optimum is -inf, or out of range
        return
    left = solution.certificate
    if not abs(left.relative_gap) <= 1e-7:
        return  # what the solver does not reach is the business of another part
    # Where the optimum is nearly 0, the unit of a gap may be another on the right: the same gap is a larger share then.
    share = abs(relative(left.gap, abs(left.upper) + problem.intercept_cost * abs(solution.intercept)))
    known = max(abs(left.relative_gap), share if share <= _SMALL else 0.0)
    for edge in leaving(problem):
        try:
            right = edge(problem, solution)
        except NotApplicable:
            continue
        bounds = mklref.certify(right.problem, right.dual_coef, weights=right.weights, intercept=right.intercept)
        size = bounds.size + right.problem.intercept_cost * abs(right.intercept)  # b cancels all but R of the objective
        if not abs(bounds.gap) <= (3.0 * known + _LOST) * size + bounds.rounding:
            yield f"{edge.name}: {problem}, {left}; on the right {right.problem}, {bounds}"


def _problem(rng: np.random.Generator) -> mklref.Problem | None:
    """Loss, regulariser, intercept and kernels at random; None where `Problem` refuses the combination."""
    n, M = int(rng.integers(4, 16)), int(rng.integers(1, 6))
    kernels = []
    for _ in range(M):
        features = rng.normal(size=(n, rng.integers(1, n + 1))) * 10.0 ** rng.uniform(-1.5, 1.5)
        kernels.append(features @ features.T)
    if M > 1 and rng.random() < 0.2:
        kernels[-1] = kernels[0] * (rng.random() < 0.5)  # a duplicate, or nothing
    loss = _loss(rng)
    y = {"labels": np.where(np.arange(n) < rng.integers(1, n), 1.0, -1.0), "ones": np.ones(n)}.get(
        loss.targets, rng.normal(size=n) * 10.0 ** rng.uniform(-1, 1)
    )
    C = 10.0 ** rng.uniform(-3, 2)
    if loss.intercept_cost:
        C = 1.0 / (rng.uniform(0.1, 1.0) * n)
    try:
        intercept = bool(rng.integers(2)) if loss.intercept == "optional" else loss.intercept == "required"
        return mklref.Problem(
            kernels, rng.permutation(y), C=C, loss=loss, regularizer=_regularizer(rng, M), intercept=intercept
        )
    except InvalidParameter:
        return None


def _loss(rng: np.random.Generator) -> Loss:
    size = 10.0 ** rng.uniform(-2, 0)
    losses: tuple[Loss, ...] = (
        Hinge(),
        SquaredHinge(),
        Logistic(),
        Squared(),
        EpsilonInsensitive(size),
        SquaredEpsilonInsensitive(size),
        Huber(size),
        Pinball(float(rng.uniform(0.1, 0.9))),
        OneClass(),
        DensityLevelSet(),
    )
    return losses[rng.integers(len(losses))]


def _regularizer(rng: np.random.Generator, M: int) -> Regularizer:
    p = float(rng.choice([1.0, 1.01, 4 / 3, 2.0, rng.uniform(1, 8), 1e6, np.inf]))
    lam, size = float(rng.uniform(0.02, 0.98)), float(10.0 ** rng.uniform(-2, 2))
    scale = 10.0 ** rng.uniform(-1, 1, size=M)
    order, cuts = rng.permutation(M), np.sort(rng.integers(1, M, size=rng.integers(0, 3))) if M > 1 else []
    groups = tuple(tuple(map(int, group)) for group in np.split(order, cuts) if len(group))
    first, second = rng.dirichlet(np.ones(3))[:2]
    root = rng.normal(size=(M, M))
    choices: tuple[Regularizer, ...] = (
        Lp(p),
        Lp(1),
        Tikhonov(p, size),
        Power(p),
        HalfPower(float(rng.uniform(1, 2))),
        BlockNorm(float(rng.choice([1.0, 1.5, 2.0, rng.uniform(2, 8), np.inf]))),
        ElasticNet(lam),
        ElasticNet(lam, "ivanov"),
        WeightedLp(p, scale),
        WeightedL1(scale),
        Groups(groups, float(first), float(second)),
        Groups(groups, *[(0.0, 1.0), (1.0, 0.0), (0.0, float(second))][rng.integers(3)]),
        Mahalanobis(root @ root.T + np.eye(M)),
        Mahalanobis(np.diag(scale)),
        ConcaveBlock([PowerRoot(p), RootPlusLinear(lam), SmoothedRoot(size)][rng.integers(3)]),
        Fixed(scale),
    )
    return choices[rng.integers(len(choices))]
