"""Other kernels, targets, samples or costs than those of the problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mklref.exceptions import MKLError
from mklref.kernels import ArrayStack, normalize
from mklref.problem import Problem
from validation.planted import (
    Answer,
    gram,
    labelled,
    other,
    plant,
    real,
    scaled,
)

# Other kernels.


for _what, _scale in (
    ("2 K: a missing 1/2", lambda P: 2.0),
    ("K/2", lambda P: 0.5),
    ("K/n", lambda P: 1.0 / P.n_samples),
    ("K over the trace of the sum", lambda P: 1.0 / float(P.kernels.traces().sum() or 1.0)),
    ("1.7 K", lambda P: 1.7),
):

    @plant("scaled kernels", _what)
    def _(problem: Problem, scale: Callable[[Problem], float] = _scale) -> Answer | None:
        return scaled(problem, scale(problem))


def one_factor(kernels: Any, others: Any) -> bool:
    """Whether some kernels are one multiple of others, all of them."""
    size = np.vdot(kernels, kernels)
    return bool(size and np.allclose(others, np.vdot(kernels, others) / size * kernels, rtol=1e-9))


for _method in ("trace", "spherical", "multiplicative"):
    for _name, _one in (("normalised kernels", False), ("scaled kernels", True)):

        @plant(_name, f"{_method} normalisation inside{', one factor for all' * _one}")
        def _(problem: Problem, method: Any = _method, one: bool = _one) -> Answer | None:
            K = gram(problem)
            try:
                kernels = np.array(normalize(ArrayStack.trusted(list(K)), method).dense())
            except MKLError:
                return None
            return other(problem, kernels=ArrayStack.trusted(list(kernels))) if one_factor(K, kernels) is one else None


@plant("centred kernels", "kernels centred inside")
def _(problem: Problem) -> Answer | None:
    K = gram(problem)
    H = np.eye(problem.n_samples) - 1.0 / problem.n_samples
    centred = H @ K @ H
    return other(problem, kernels=ArrayStack.trusted(list(0.5 * (centred + centred.transpose(0, 2, 1)))))


@plant("ridge on the kernels", "1e-3 added to the diagonals")
def _(problem: Problem) -> Answer | None:
    return other(problem, kernels=ArrayStack.trusted(list(gram(problem) + 1e-3 * np.eye(problem.n_samples))))


@plant("ridge on the kernels", "1 % of the mean diagonal added")
def _(problem: Problem) -> Answer | None:
    size = 0.01 * problem.kernels.traces() / problem.n_samples
    return other(problem, kernels=gram(problem) + size[:, None, None] * np.eye(problem.n_samples))


# Other targets, samples and costs.


@plant("centred targets", "mean of y subtracted, and not added")
def _(problem: Problem) -> Answer | None:
    return other(problem, y=problem.y - problem.y.mean()) if real(problem) else None


@plant("standardised targets", "y over its deviation")
def _(problem: Problem) -> Answer | None:
    deviation = float(problem.y.std())
    return other(problem, y=(problem.y - problem.y.mean()) / deviation) if real(problem) and deviation else None


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


@plant("class weights", "costs 1 and 3 of the classes")
def _(problem: Problem) -> Answer | None:
    weight = np.where(problem.y > 0.0, 3.0, 1.0) * problem.costs / problem.C
    return other(problem, sample_weight=weight) if labelled(problem) else None


@plant("sample weights misused", "sample weights ignored")
def _(problem: Problem) -> Answer | None:
    return None if problem.sample_weight is None else other(problem, sample_weight=None)


@plant("sample weights misused", "sample weights used twice")
def _(problem: Problem) -> Answer | None:
    return None if problem.sample_weight is None else other(problem, sample_weight=problem.sample_weight**2)
