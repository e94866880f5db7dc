"""Empirical Bayes on kernels of any rank, scale and precision, with any noise: phi against rational arithmetic.

What is promised: phi within `MarginalLikelihood.rounding` of its exact value; no step that increases phi by more than
1e-9 of 1 + |phi|, those that seem to being judged in rational arithmetic; a status that says what holds; errors of the
package alone, and no warning.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import flint
import numpy as np

from mklref.evidence import (
    METHODS,
    EvidenceProblem,
    EvidenceRecord,
    EvidenceStatus,
    MarginalLikelihood,
    solve,
    stationarity,
)
from mklref.exceptions import InvalidParameter
from validation.attack import Finding, each

_EXACT = 7
"""Samples up to which every phi is computed in rational numbers."""
_LEVEL = 1e-9
"""Share of 1 + |phi| by which it may rise."""


def attack(cases: int, rng: np.random.Generator) -> list[Finding]:
    """`cases` problems, one method each."""
    return each("evidence", _case, cases, rng)


def _case(rng: np.random.Generator) -> Iterator[str]:
    problem = _problem(rng)
    method = str(rng.choice(list(METHODS), p=[0.1 if name == "reweighted" else 0.3 for name in METHODS]))
    weights = problem.default_weights() * 10.0 ** rng.uniform(-2, 2, size=problem.n_kernels)
    words = f"{problem}, {method}, start {weights.tolist()}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            point = MarginalLikelihood(problem, weights)
        except InvalidParameter:  # singular in float64, which the message says
            return
        solution = solve(problem, method, start=weights, max_iter=25, max_time=5.0)
        found = stationarity(problem, solution.weights, solution.noise_variance)
    if problem.n_samples <= _EXACT:
        error = abs(point.value - exact_objective(problem, weights, problem.noise_variance))
        if not error <= point.rounding:
            yield f"{words}: phi is off by {error:.3g}, of which rounding = {point.rounding:.3g} is said"
    values = np.array([record.objective for record in solution.history])
    for k in np.flatnonzero(np.diff(values) > _LEVEL * (1.0 + np.abs(values[:-1]))):
        before, after = (_exactly_known(problem, record) for record in solution.history[k : k + 2])
        if not after - before <= _LEVEL * (1.0 + abs(before)):
            yield f"{words}: phi rises in iteration {k} by {after - before:.3g}: {values.tolist()}"
    if (solution.status is EvidenceStatus.STATIONARY) != found.is_stationary():
        yield f"{words}: {solution.status.name} with a residual of {found.residual:.3g}, rounding {found.rounding:.3g}"


def _problem(rng: np.random.Generator) -> EvidenceProblem:
    """Kernels of low or full rank, duplicated or zero, float32 or float64, beside noise of 1e-12 to 1e2."""
    n, M = int(rng.integers(2, 16)), int(rng.integers(1, 5))
    dtype = np.float32 if rng.random() < 0.5 else np.float64
    kernels = []
    for _ in range(M):
        root = rng.normal(size=(n, rng.integers(1, n + 1))) * 10.0 ** rng.uniform(-3, 3)
        gram = (root @ root.T).astype(dtype)
        kernels.append((gram + gram.T) / 2)
    if rng.random() < 0.2:
        kernels[-1] = kernels[0] * np.array(rng.integers(2), dtype=dtype)
    y = rng.normal(size=n) * 10.0 ** rng.uniform(-2, 2) * (rng.random() < 0.95)
    return EvidenceProblem(kernels, y, 10.0 ** rng.uniform(-12, 2), learn_noise=bool(rng.integers(2)))


def _exactly_known(problem: EvidenceProblem, record: EvidenceRecord) -> float:
    """The exact phi of a record; NaN if what it says is further from that than rounding explains."""
    exact = exact_objective(problem, record.weights, record.noise_variance)
    point = MarginalLikelihood(problem, record.weights, record.noise_variance)
    return exact if abs(record.objective - exact) <= point.rounding else math.nan


def rational(matrix: np.ndarray) -> flint.fmpq_mat:
    """The matrix as it is."""
    entries = [flint.fmpq(*float(x).as_integer_ratio()) for x in matrix.flat]
    return flint.fmpq_mat(*matrix.shape, entries)


def exact_covariance(problem: EvidenceProblem, weights: np.ndarray, noise: float) -> flint.fmpq_mat:
    """Kbar in rational numbers."""
    total = rational(noise * np.eye(problem.n_samples))
    for weight, K in zip(weights.tolist(), problem.kernels.matrices, strict=True):
        total += rational(K) * flint.fmpq(*weight.as_integer_ratio())
    return total


def exact_objective(problem: EvidenceProblem, weights: np.ndarray, noise: float) -> float:
    """1/2 log |Kbar| + 1/2 y'Kbar^{-1} y in rational numbers, and the logarithm in 200 bits."""
    total, y = exact_covariance(problem, weights, noise), rational(problem.y[:, None])
    with flint.ctx.workprec(200):
        return 0.5 * float(flint.arb(total.det()).log() + flint.arb((y.transpose() * total.solve(y))[0, 0]))


def exact_gradient(problem: EvidenceProblem, weights: np.ndarray, noise: float) -> list[float]:
    """1/2 (tr(X K_m) - (X y)'K_m (X y)), X = Kbar^{-1}, in rational numbers."""
    X, n = exact_covariance(problem, weights, noise).inv(), problem.n_samples
    alpha, slopes = X * rational(problem.y[:, None]), []
    for matrix in (*problem.kernels.matrices, *([np.eye(n)] if problem.learn_noise else [])):
        K = rational(matrix)
        product = X * K
        trace = sum((product[i, i] for i in range(n)), flint.fmpq(0))
        with flint.ctx.workprec(200):
            slopes.append(0.5 * float(flint.arb(trace - (alpha.transpose() * K * alpha)[0, 0])))
    return slopes
