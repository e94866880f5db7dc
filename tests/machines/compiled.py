"""The compiled loops, which some tests need, and random Gram matrices for them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from mklref.native import AVAILABLE, WHY

REQUIRED = os.environ.get("MKLREF_REQUIRE_NATIVE", "false") not in ("", "0", "false")
needs_the_loops = pytest.mark.skipif(not AVAILABLE and not REQUIRED, reason=WHY)

N = 37
"""Neither a multiple of a vector register nor of a cache block."""


def gram_matrices(rng, n=N, M=5, dtype=np.float64, rank=None, duplicate=False):
    """M positive semidefinite matrices of different scales, the second one zero."""
    features = rng.normal(size=(M, n, rank or n)) * 10.0 ** rng.uniform(-0.5, 0.5, size=(M, 1, 1)) / np.sqrt(n)
    features[1] = 0.0
    if duplicate:
        features[:, 1::2] = features[:, 0 : n - 1 : 2]
    return [np.ascontiguousarray((f @ f.T + f @ f.T).astype(dtype)) for f in features]
