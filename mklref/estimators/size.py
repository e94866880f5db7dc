"""What a fit takes of the memory, said before it begins.

8 n^2 (M + 5)                        the kernels, and what one of them takes while it is evaluated and normalised
8 n^2 M w ((f - 1)/f)                beside it in a search of f folds, w at a time: K[train, train] and K[test, train]
"""

from __future__ import annotations

import math

from mklref._untrusted import free_memory
from mklref.exceptions import InvalidInput

_BESIDE = 5
"""Matrices of order n beside the stack; see `FamilyStack`."""


def needed(n: int, M: int, folds: int = 0, workers: int = 1) -> float:
    """Bytes of a fit to n samples with M kernels; of a search with that many folds, so many at a time."""
    slices = workers * (folds - 1) / folds if folds > 1 else 0.0
    return 8.0 * n * n * (M * (1.0 + slices) + _BESIDE)


def require_memory(n: int, M: int, folds: int = 0, workers: int = 1) -> None:
    """Raise `InvalidInput` if a fit takes more than is free, and say what would fit."""
    size, free = needed(n, M, folds, workers), free_memory()
    if size <= free:
        return
    samples = math.isqrt(int(free / (size / n / n)))
    one = needed(n, 1, folds, workers) - needed(n, 0, folds, workers)
    kernels = max(0, int((free - needed(n, 0, folds, workers)) / one))
    or_kernels = f", or {kernels} kernels" if kernels else ""
    fewer_jobs = ", or n_jobs=1" if workers > 1 else ""
    raise InvalidInput(
        f"{n} samples and {M} kernels take {size / 1e9:.3g} GB of memory{' in a search' if folds else ''}, and "
        f"{free / 1e9:.3g} GB are free. These would fit: {samples} samples (--samples {samples} in a shell)"
        f"{or_kernels}{fewer_jobs}; mklref.solve takes kernels in float32, which are half as large."
    )
