"""Random small problems for the native solver: `python -m validation.robustness [--problems N] [--regularizer NAME]`.

Each problem has at most 40 samples and 7 kernels (Gaussian, polynomial, rank one, duplicated, zero, constant; some
of unit trace), one of ten losses, C over six decades, with and without intercept. A problem passes if it ends
OPTIMAL at a certified relative gap of 1e-6 or says truthfully why not: another status, and a certificate that an
evaluation from the returned arrays repeats. What does not end OPTIMAL is listed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable

import numpy as np

import mklref
from mklref import losses, regularizers as reg
from mklref.solution import Status

TOL = 1e-6


def lp(M: int, rng: np.random.Generator) -> reg.Regularizer:
    """Lp of p in {1, 4/3, 2, 3, inf}, a little above 1, or up to a million; p = 1 most often."""
    exponents = (1, 1, 1, 4 / 3, 2, 3, np.inf, 1 + 10 ** rng.uniform(-9, -1), 10 ** rng.uniform(0, 6))
    return reg.Lp(exponents[rng.integers(len(exponents))])


def groups(M: int, rng: np.random.Generator) -> reg.Regularizer:
    """Groups of random members with p + q <= 1."""
    label = rng.integers(0, max(1, M // 2) + 1, size=M)
    p = rng.random()
    q = (1 - p) * (1 if rng.random() < 0.5 else rng.random())
    return reg.Groups([list(np.flatnonzero(label == k)) for k in np.unique(label)], p, q)


def mahalanobis(M: int, rng: np.random.Generator) -> reg.Regularizer:
    """A well-conditioned metric."""
    A = rng.normal(size=(M, M))
    return reg.Mahalanobis(A @ A.T + 0.3 * np.eye(M))


REGULARIZERS: dict[str, Callable[[int, np.random.Generator], reg.Regularizer]] = {
    "lp": lp,
    "tikhonov": lambda M, rng: reg.Tikhonov(rng.choice([1, 4 / 3, 2, 5]), 10 ** rng.uniform(-2, 1)),
    "power": lambda M, rng: reg.Power(rng.choice([1, 4 / 3, 2, 5])),
    "half_power": lambda M, rng: reg.HalfPower(rng.choice([1, 1.2, 1.5, 1.9])),
    "elastic_net": lambda M, rng: reg.ElasticNet(rng.uniform(0.05, 0.95), rng.choice(["tikhonov", "ivanov"])),
    "block_norm": lambda M, rng: reg.BlockNorm(rng.choice([1, 1.5, 2])),
    "large_block_norm": lambda M, rng: reg.BlockNorm(rng.choice([2.5, 3, 4, 8, 32, np.inf])),
    "groups": groups,
    "mahalanobis": mahalanobis,
    "weighted_l1": lambda M, rng: reg.WeightedL1(rng.uniform(0.3, 2, size=M)),
    "weighted_lp": lambda M, rng: reg.WeightedLp(rng.choice([1, 1.5, 3]), rng.uniform(0.3, 2, size=M)),
    "fixed": lambda M, rng: reg.Fixed(rng.uniform(0, 1, size=M) + 1e-3),
}


def kernels(X: np.ndarray, M: int, rng: np.random.Generator) -> np.ndarray:
    """M Gram matrices (M, n, n), many of them degenerate."""
    n = len(X)
    D = ((X[:, None] - X) ** 2).sum(-1)
    stack: list[np.ndarray] = []
    for _ in range(M):
        kind = rng.integers(0, 6)
        if kind <= 1:
            K = np.exp(-D / (2 * 10 ** rng.uniform(-1, 1.5)))
        elif kind == 2:
            K = (X @ X.T + 1) ** int(rng.integers(1, 4))
        elif kind == 3:
            v = rng.normal(size=n)
            K = np.outer(v, v)
        elif kind == 4:
            K = stack[0].copy() if stack else np.eye(n)
        else:
            K = np.zeros((n, n)) if rng.random() < 0.3 else np.ones((n, n))
        K = (K + K.T) / 2
        if rng.random() < 0.5 and np.trace(K) > 0:
            K *= n / np.trace(K)
        stack.append(K)
    return np.stack(stack)


def random_problem(seed: int, regularizer: str = "lp") -> mklref.Problem | None:
    """The problem of this seed; None if what was drawn has no optimum and `Problem` says so."""
    rng = np.random.default_rng(seed)
    n, M = int(rng.integers(2, 40)), int(rng.integers(1, 8))
    X = rng.normal(size=(n, int(rng.integers(1, 6))))
    if rng.random() < 0.2:
        X = np.round(X)  # duplicated samples
    stack = kernels(X, M, rng)
    loss = losses.as_loss(list(losses.LOSSES)[rng.integers(len(losses.LOSSES))])
    if loss.targets == "labels":
        y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
        y[:2] = 1.0, -1.0
    else:
        y = X[:, 0] ** 2 + rng.normal(size=n) if loss.targets == "real" else np.ones(n)
    C, intercept = 10 ** rng.uniform(-3, 3.5), bool(rng.random() < 0.7)
    if loss.intercept == "required":
        C, intercept = 1 / (n * rng.uniform(0.05, 1)), True
    if loss.intercept == "forbidden":
        intercept = False
    penalty = REGULARIZERS[regularizer](M, rng)
    if loss.intercept_cost and penalty.degree == 1.0:
        return None
    return mklref.Problem(stack, y, C=C, loss=loss, regularizer=penalty, intercept=intercept)


def verdict(problem: mklref.Problem) -> tuple[mklref.Solution, bool]:
    """The solution, and whether its certificate is what its arrays say and its status what the certificate says."""
    solution = mklref.solve(problem, tol=TOL, max_iter=100)
    again = mklref.certify(problem, solution.dual_coef, weights=solution.weights, intercept=solution.intercept)
    return solution, again == solution.certificate and (solution.status is Status.OPTIMAL) == again.is_optimal(TOL)


def main(arguments: list[str] | None = None) -> int:
    """Solve them all; exit code 1 if one was not told the truth about."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=1000, help="seeds 0, 1, ... of each regulariser")
    parser.add_argument("--regularizer", choices=[*REGULARIZERS, "all"], default="lp")
    options = parser.parse_args(arguments)
    false = 0
    for name in REGULARIZERS if options.regularizer == "all" else [options.regularizer]:
        ends: Counter[str] = Counter()
        for seed in range(options.problems):
            problem = random_problem(seed, name)
            if problem is None:
                continue
            solution, true = verdict(problem)
            ends[solution.status.name] += 1
            false += not true
            if solution.status is not Status.OPTIMAL or not true:
                gap = solution.certificate.relative_gap
                print(f"  seed {seed}: {problem} {solution.status.name}, gap {gap:.1e}{'' if true else ', UNTRUE'}")
        print(f"{name}: {dict(ends)}", flush=True)
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
