"""Small seeded synthesis problems: kernels of every kind, all norms, all losses."""

from __future__ import annotations

from itertools import product

import numpy as np

from mklref.synthesis import MixedNorm, SynthesisProblem

PQR = tuple(product((1, 2), repeat=3))
NORMS = tuple(MixedNorm(*pqr) for pqr in PQR)
LOSSES = ("squared_hinge", "squared", "logistic")
KINDS = ("symmetric", "indefinite", "nonsymmetric", "rectangular")


def make_kernels(rng: np.random.Generator, kind: str = "nonsymmetric", tau: int = 3, n: int = 14) -> np.ndarray:
    """Kernels (tau, n, N): positive definite, symmetric, of no symmetry, or with N < n expansion points."""
    if kind == "rectangular":
        return rng.normal(size=(tau, n, n - 5))
    K = rng.normal(size=(tau, n, n))
    if kind == "indefinite":
        return K + K.transpose(0, 2, 1)
    return K if kind == "nonsymmetric" else K @ K.transpose(0, 2, 1) / n


def make_problem(
    pqr: tuple[int, int, int] = (1, 1, 1),
    *,
    loss: str = "squared_hinge",
    kind: str = "nonsymmetric",
    seed: int = 0,
    tau: int = 3,
    n: int = 14,
    lam: float = 2.0,
    **arguments,
) -> SynthesisProblem:
    rng = np.random.default_rng(seed)
    K = make_kernels(rng, kind, tau, n)
    noisy = K[0] @ rng.normal(size=K.shape[2]) + rng.normal(size=n)
    y = noisy if loss == "squared" else np.where(noisy > 0.0, 1.0, -1.0)
    p, q, r = pqr
    return SynthesisProblem(K, y, lam=lam, p=p, q=q, r=r, loss=loss, **arguments)
