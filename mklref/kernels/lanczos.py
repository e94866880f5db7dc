"""A search for negative eigenvalues of matrices that are too large to be factorised.

Lanczos' method (Golub and Van Loan, Matrix Computations, 10.1) with full reorthogonalisation: after k products K q its
smallest Ritz value is the minimum of x'K x / x'x over the Krylov space of a random vector. A Ritz vector with
x'K x < 0 disproves that K is semidefinite; that none is found proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mklref._typing import Array

_LAST = 1e-12
"""Share of the largest coefficient below which the Krylov space is exhausted."""


def smallest_ritz(product: Callable[[Array], Array], n: int, steps: int) -> float:
    """The smallest value of x'K x / x'x that `steps` products find, an upper bound of the smallest eigenvalue."""
    q = np.random.default_rng(0).normal(size=n)
    basis, images = np.zeros((0, n)), np.zeros((0, n))
    largest = 0.0
    for _ in range(min(steps, n)):
        basis = np.vstack([basis, q / np.linalg.norm(q)])
        images = np.vstack([images, product(basis[-1])])
        q = images[-1].copy()
        largest = max(largest, float(np.linalg.norm(q)))
        for _again in range(2):
            q -= basis.T @ (basis @ q)
        if float(np.linalg.norm(q)) <= _LAST * largest:
            break
    projected = basis @ images.T
    _, vectors = np.linalg.eigh(0.5 * (projected + projected.T))
    x, image = vectors[:, 0] @ basis, vectors[:, 0] @ images
    return float(x @ image) / float(x @ x)
