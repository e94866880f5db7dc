"""Hypothesis strategies: kernels, problems, and points of them, from generic to degenerate; needs hypothesis.

    @given(problems(losses=["hinge"]))
    def test_my_solver(problem):
        beta, theta, b = my_solver(problem)
        assert_optimal(problem, beta, weights=theta, intercept=b)

Examples shrink towards few samples, few kernels, generic data and C = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.certificate import repair
from mklref.exceptions import InvalidParameter, MissingExtra
from mklref.losses import LOSSES, Loss, as_loss
from mklref.problem import Problem
from mklref.regularizers import ElasticNet, Fixed, Lp, Power, Regularizer, Tikhonov, as_regularizer
from mklref.testing.answer import Answer
from mklref.testing.cases.data import kernels as gaussians, samples, targets

try:
    from hypothesis import strategies as st
except ImportError as missing:  # pragma: no cover
    raise MissingExtra("mklref.testing.strategies needs hypothesis: pip install hypothesis.") from missing

CONDITIONS = (
    "generic",
    "low rank",
    "duplicated kernel",
    "zero kernel",
    "constant kernel",
    "duplicated samples",
    "mixed scales",
)
"""How the kernels may be degenerate."""


@st.composite
def gram_matrices(
    draw: Any,
    n: int,
    *,
    min_kernels: int = 1,
    max_kernels: int = 5,
    conditions: Sequence[str] = CONDITIONS,
    scales: Sequence[float] = (1.0,),
) -> Array:
    """Stacks (M, n, n) of positive semidefinite matrices.

    Parameters
    ----------
    n : int
        Order of the matrices.
    min_kernels, max_kernels : int
        Fewest and most of them.
    conditions : sequence of str
        Of `CONDITIONS`, else `InvalidParameter`.
    scales : sequence of float
        Factors for the whole stack, such as (1.0, 1e8, 1e-8).
    """
    unknown = sorted(set(conditions) - set(CONDITIONS))
    if unknown or not conditions:
        raise InvalidParameter(f"conditions {unknown} are unknown; known ones: {', '.join(CONDITIONS)}.")
    M = draw(st.integers(min_kernels, max_kernels))
    condition = draw(st.sampled_from(tuple(conditions)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = samples(rng, n)
    if condition == "duplicated samples":
        X[1::2] = X[: 2 * (n // 2) : 2]
    K = gaussians(rng, X, M)
    if condition == "low rank":
        factors = rng.normal(size=(M, n, 2))
        K = factors @ factors.transpose(0, 2, 1)
    elif condition == "duplicated kernel":
        K[-1] = K[0]
    elif condition == "zero kernel":
        K[-1] = 0.0
    elif condition == "constant kernel":
        K[-1] = 0.8
    elif condition == "mixed scales":
        K *= 10.0 ** rng.integers(-3, 4, size=M)[:, None, None]
    return np.asarray(draw(st.sampled_from(tuple(scales))) * K)


def regularizers(n_kernels: int) -> st.SearchStrategy[Regularizer]:
    """Regularisers for a number of kernels: lp balls above all, fixed weights, powers, Tikhonov, elastic nets."""
    exponents = st.sampled_from((1.0, 4.0 / 3.0, 2.0, 4.0, float("inf")))
    return st.one_of(
        exponents.map(Lp),
        st.sampled_from((1.0, 2.0)).map(Power),
        st.sampled_from((1.0, 2.0)).map(lambda p: Tikhonov(p, 0.3)),
        st.sampled_from(("tikhonov", "ivanov")).map(lambda form: ElasticNet(0.4, form)),
        st.lists(st.sampled_from((0.5, 1.0, 2.0)), min_size=n_kernels, max_size=n_kernels).map(
            lambda weights: Fixed(np.array(weights))
        ),
    )


@st.composite
def problems(
    draw: Any,
    *,
    losses: str | Loss | Sequence[str | Loss] | None = None,
    regularizers: str | Regularizer | Sequence[str | Regularizer] | None = None,
    min_samples: int = 2,
    max_samples: int = 16,
    max_kernels: int = 5,
    conditions: Sequence[str] = CONDITIONS,
    scales: Sequence[float] = (1.0,),
) -> Problem:
    """Small problems of every kind.

    Parameters
    ----------
    losses : str, Loss or sequence of them, optional
        By default all losses.
    regularizers : str, Regularizer or sequence of them, optional
        By default those of `mklref.testing.strategies.regularizers`. With one that is made for a number of kernels,
        such as `Groups`, problems have so many.
    min_samples, max_samples, max_kernels : int
        Sizes.
    conditions, scales
        As for `gram_matrices`.
    """
    if losses is not None and not isinstance(losses, str | Loss) and not len(losses):
        raise InvalidParameter("losses is empty; give one at least, or leave it out.")
    loss = as_loss(draw(st.sampled_from(tuple([losses] if isinstance(losses, str | Loss) else losses or LOSSES))))
    n = draw(st.integers(min_samples, max_samples))
    if regularizers is None:
        M = draw(st.integers(1, max_kernels))
        kinds = _any_regularizer(M).map(lambda kind: (kind, M))
    else:
        given = [regularizers] if isinstance(regularizers, str | Regularizer) else regularizers
        if not len(given):
            raise InvalidParameter("regularizers is empty; give one at least, or leave it out.")
        sizes = range(1, max_kernels + 1)
        fitting = [(kind, size) for kind in map(as_regularizer, given) for size in sizes if _fits(kind, size)]
        if not fitting:
            raise InvalidParameter(f"no regularizer fits max_kernels = {max_kernels} kernels or fewer; raise it.")
        kinds = st.sampled_from(fitting)
    regularizer, M = draw(kinds.filter(lambda drawn: not (loss.intercept_cost and drawn[0].degree == 1.0)))
    K = draw(gram_matrices(n, min_kernels=M, max_kernels=M, conditions=conditions, scales=scales))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    C = draw(st.sampled_from((1.0, 0.01, 100.0)))
    free = loss.intercept == "required" or (loss.intercept == "optional" and draw(st.booleans()))
    weights = draw(st.sampled_from((None, 1.0))) and rng.uniform(0.3, 3.0, size=n)
    least = 1.0 / (0.9 * (n if weights is None else weights.sum()))  # what the costs of one class have to sum to
    return Problem(
        K,
        targets(rng, samples(rng, n), loss),
        C=max(C, least) if loss.intercept_cost else C,
        loss=loss,
        regularizer=regularizer,
        intercept=free,
        sample_weight=weights,
    )


@st.composite
def answers(draw: Any, problem: Problem, *, feasible: bool = True) -> Answer:
    """Points of a problem: random ones, not optimal, with weights and an intercept.

    Parameters
    ----------
    problem : Problem
    feasible : bool
        Whether beta lies in its box with the right sum and the weights are allowed.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    beta = problem.C * draw(st.sampled_from((1.0, 0.0, 1e-3, 10.0))) * rng.normal(size=problem.n_samples)
    rho = rng.exponential(size=problem.n_kernels) * (rng.uniform(size=problem.n_kernels) < 0.8)
    theta = problem.regularizer.weights_from_norms(rho)
    if feasible:
        beta = repair(problem, beta)[0]
    else:
        theta = draw(st.sampled_from((0.5, 2.0))) * theta
    b = float(rng.normal()) if problem.intercept else 0.0
    return Answer(beta, theta, draw(st.sampled_from((b, None))) if problem.intercept else 0.0)


def _fits(regularizer: Regularizer, kernels: int) -> bool:
    """Whether a regulariser takes so many kernels; Groups, fixed weights and others are made for a number."""
    try:
        regularizer.check(kernels)
    except InvalidParameter:
        return False
    return True


_any_regularizer = regularizers
"""The function above, whose name an argument of `problems` hides."""
