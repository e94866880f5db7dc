"""Other kernels, targets, samples or costs than those of the problem."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mklref.exceptions import MKLError
from mklref.kernels import ArrayStack, normalize
from mklref.problem import Problem
from validation.planted import Answer, gram, labelled, other, plant, real, restated, unchecked

# Other kernels.

restated("scaled kernels", "2 K: a missing 1/2", lambda P: unchecked(2.0 * gram(P)))
restated("scaled kernels", "K/2", lambda P: unchecked(0.5 * gram(P)))
restated("scaled kernels", "K/n", lambda P: unchecked(1.0 / P.n_samples * gram(P)))
restated(
    "scaled kernels",
    "K over the trace of the sum",
    lambda P: unchecked(1.0 / float(P.kernels.traces().sum() or 1.0) * gram(P)),
)
restated("scaled kernels", "1.7 K", lambda P: unchecked(1.7 * gram(P)))


def one_factor(kernels: Any, others: Any) -> bool:
    """Whether some kernels are one multiple of others, all of them."""
    size = np.vdot(kernels, kernels)
    return bool(size and np.allclose(others, np.vdot(kernels, others) / size * kernels, rtol=1e-9))


def normalized(problem: Problem, method: Any, one: bool) -> dict[str, Any] | None:
    """Normalised kernels, where that is one factor for all of them, or where it is not."""
    K = gram(problem)
    try:
        kernels = np.array(normalize(ArrayStack.trusted(list(K)), method).dense())
    except MKLError:
        return None
    return unchecked(kernels) if one_factor(K, kernels) is one else None


for _method in ("trace", "spherical", "multiplicative"):
    _what = f"{_method} normalisation inside"
    restated("normalised kernels", _what, partial(normalized, method=_method, one=False))
    restated("scaled kernels", f"{_what}, one factor for all", partial(normalized, method=_method, one=True))


def centred(K: Any) -> Any:
    """H K H, symmetric to the last bit."""
    H = np.eye(K.shape[1]) - 1.0 / K.shape[1]
    found = H @ K @ H
    return 0.5 * (found + found.transpose(0, 2, 1))


def ridged(problem: Problem, sizes: Any) -> Any:
    """Kernels with something added to each diagonal."""
    return gram(problem) + np.reshape(sizes, (-1, 1, 1)) * np.eye(problem.n_samples)


restated("centred kernels", "kernels centred inside", lambda P: unchecked(centred(gram(P))))
restated("ridge on the kernels", "1e-3 added to the diagonals", lambda P: unchecked(ridged(P, 1e-3)))
restated(
    "ridge on the kernels",
    "1 % of the mean diagonal added",
    lambda P: {"kernels": ridged(P, 0.01 * P.kernels.traces() / P.n_samples)},
)

# Other targets, samples and costs.

restated(
    "centred targets", "mean of y subtracted, and not added", lambda P: {"y": P.y - P.y.mean()} if real(P) else None
)
restated(
    "standardised targets",
    "y over its deviation",
    lambda P: {"y": (P.y - P.y.mean()) / float(P.y.std())} if real(P) and P.y.std() else None,
)


@plant("labels 0 and 1", "labels 0 and 1 in y f(x)")
def _(problem: Problem) -> Answer | None:
    """The loss of the samples of class 0 is constant."""
    if not labelled(problem) or problem.intercept:
        return None
    return other(problem, sample_weight=np.where(problem.y > 0.0, problem.costs / problem.C, 1e-12))


@plant("relabelled samples", "mask error: two labels flipped")
def _(problem: Problem) -> Answer | None:
    flipped = problem.y.copy()
    flipped[[1, -1]] *= -1.0
    return other(problem, y=flipped) if labelled(problem) and problem.n_samples > 8 else None


@plant("dropped samples", "the last samples never read")
def _(problem: Problem) -> Answer | None:
    n = problem.n_samples
    kept = np.arange(n - max(1, n // 8))
    weight = None if problem.sample_weight is None else problem.sample_weight[kept]
    kernels = gram(problem)[:, kept][:, :, kept]
    found = other(problem, kernels=kernels, y=problem.y[kept], sample_weight=weight)
    return None if found is None else (np.append(found[0], np.zeros(n - len(kept))), found[1], found[2])


@plant("duplicated samples", "three samples read twice")
def _(problem: Problem) -> Answer | None:
    weight = problem.costs / problem.C
    weight[:3] *= 2.0
    return other(problem, sample_weight=weight) if problem.n_samples > 6 else None


@plant("class weights", "balanced class weights")
def _(problem: Problem) -> Answer | None:
    if not labelled(problem):
        return None
    sizes = np.array([np.mean(problem.y == label) for label in problem.y])
    return other(problem, sample_weight=0.5 / sizes * problem.costs / problem.C)


restated(
    "class weights",
    "costs 1 and 3 of the classes",
    lambda P: {"sample_weight": np.where(P.y > 0.0, 3.0, 1.0) * P.costs / P.C} if labelled(P) else None,
)
restated(
    "sample weights misused",
    "sample weights ignored",
    lambda P: None if P.sample_weight is None else {"sample_weight": None},
)
restated(
    "sample weights misused",
    "sample weights used twice",
    lambda P: None if P.sample_weight is None else {"sample_weight": P.sample_weight**2},
)
