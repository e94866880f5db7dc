"""Mixed-norm synthesis of any scale and penalty: solved to the gap in time, with bounds that nobody contradicts.

Both bounds of every point hold for the optimum, so those of random points must not contradict those of the solution;
`forward_backward` is the second solver, and shares no step with the first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from mklref.synthesis import SynthesisProblem, certify, forward_backward, lambda_max, solve
from mklref.synthesis.certificate import residual
from mklref.synthesis.problem import correlations
from validation.attack import Finding, each

_SECONDS = 10.0
"""What a problem of at most 13 x 36 may take on a busy machine; mostly it takes milliseconds."""


def attack(cases: int, rng: np.random.Generator) -> list[Finding]:
    """`cases` problems."""
    return each("synthesis", _case, cases, rng)


def _case(rng: np.random.Generator) -> Iterator[str]:
    problem = _problem(rng)
    if problem is None:
        return
    words = f"{problem}, largest entry {np.abs(problem.kernels).max():.3g}"
    started = time.perf_counter()
    solution = solve(problem, max_time=2.0 * _SECONDS)
    seconds = time.perf_counter() - started
    if solution.status.name != "OPTIMAL" or seconds > _SECONDS:
        yield f"{words}: {solution.status.name} at {solution.certificate} after {seconds:.1f} s"
    other = forward_backward(problem, max_iter=20, accelerated=True)
    points = [certify(problem, rng.normal(size=problem.shape) * 10.0 ** rng.uniform(-6, 2)) for _ in range(3)]
    points += [certify(problem, (1.0 + 1e-3 * rng.normal()) * solution.coef), other.certificate, solution.certificate]
    lower, upper = max(bounds.lower for bounds in points), min(bounds.upper for bounds in points)
    if lower > upper:
        yield f"{words}: a lower bound {lower!r} above an upper bound {upper!r}"
    if problem.norm.q == 1 and problem.lam > lambda_max(problem) * (1.0 + 1e-9) and solution.coef.any():
        yield f"{words}: coefficients above lambda_max = {lambda_max(problem):.6g}"


def _problem(rng: np.random.Generator) -> SynthesisProblem | None:
    """Indefinite, rank one, repeated or constant kernels of scale 1e-4 to 1e4, lambda from 1e-8 of the largest on.

    None where the largest useful lambda is rounding: a constant kernel and balanced labels.
    """
    tau, n, N = int(rng.integers(1, 4)), int(rng.integers(2, 14)), int(rng.integers(2, 12))
    K = rng.normal(size=(tau, n, N))
    kind = rng.integers(5)
    if kind == 1:
        K = K[:, :, :1] * rng.normal(size=(tau, 1, N))
    if kind == 2:
        K[-1] = K[0]
    if kind == 3:
        K[-1] = 1.0
    K *= 10.0 ** rng.uniform(-4, 4)
    loss = str(rng.choice(["squared_hinge", "squared", "logistic"]))
    y = rng.normal(size=n) if loss == "squared" else np.where(rng.normal(size=n) > 0.0, 1.0, -1.0)
    p, q, r = (int(value) for value in rng.integers(1, 3, size=3))
    problem = SynthesisProblem(K, y, lam=1.0, p=p, q=q, r=r, C=10.0 ** rng.uniform(-2, 2), loss=loss)
    beta = residual(problem, np.zeros(n))
    size = problem.norm.dual_norm(correlations(problem.kernels, beta))
    if size <= 1e-12 * float(np.abs(beta).sum() * np.abs(K).max()):
        return None
    lam = size * 10.0 ** rng.uniform(-8, 0.2) if q == 1 else size**2 / problem.C * 10.0 ** rng.uniform(-8, 1)
    return problem.replace(lam=float(lam))
