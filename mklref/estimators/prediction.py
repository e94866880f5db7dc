"""The scores of new samples, a block of rows at a time, from support vectors and kernels of positive weight alone.

    f_mp(x) = theta_pm sum_i beta_pi k_m(x_i, x)         t_p(x) = sum_m f_mp(x) + b_p

However many new samples there are, what is held beside them and their scores is a few matrices of `BLOCK` entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mklref._progress import Steps
from mklref._typing import Array
from mklref.estimators.factors import FactorFamily
from mklref.estimators.gram import NewKernels
from mklref.exceptions import InvalidInput

BLOCK = 2**20
"""Entries of a kernel between a block of new samples and the support vectors: 8 MB."""
_FEWEST = 64
"""Rows of a block, however many support vectors there are."""


def held(new: NewKernels, support: Any, active: Any) -> tuple[NewKernels, Any]:
    """What predictions need of the kernels, and where the support vectors are among the samples that it keeps.

    A centred kernel of a new sample has a mean over all training samples, which therefore are kept.
    """
    if new.centred:
        return new.reduced(slice(None), active), support
    return new.reduced(support, active), np.arange(len(support))


def blocks(X: Any, support: int) -> Iterator[slice]:
    """The rows of X (k, ...), so many at a time that a kernel between them and the support vectors is small."""
    size = max(_FEWEST, BLOCK // max(1, support))
    return (slice(start, start + size) for start in range(0, X.shape[0], size))


def scores(new: Any, X: Any, weights: Array, dual: Array, intercept: Array, *, shown: bool = False) -> Array:
    """t_p(x) of new samples, (k, P).

    Parameters
    ----------
    new : NewKernels
        The kernels of positive weight, M of them, and n training samples.
    X : array
        New samples, or their precomputed kernels with new samples along the first axis.
    weights : array (P, M) or (1, M)
        theta.
    dual : array (P, n)
        beta.
    intercept : array (P,)
    shown : bool
        Whether a progress line counts the blocks.

    Raises
    ------
    InvalidInput
        A score is beyond float64.
    """
    found = np.empty((X.shape[0], len(dual)))
    found[:] = intercept
    parts = list(blocks(X, dual.shape[1])) if dual.size else []
    progress = Steps(shown and len(parts) > 1, "predict", len(parts))
    try:
        for rows in parts:
            for m, values in enumerate(_values(new, X[rows], weights.shape[1], dual)):
                with np.errstate(over="ignore", invalid="ignore"):
                    found[rows] += weights[:, m] * values
            progress.advance()
    finally:
        progress.close()
    return _within_float64(found)


def contributions(new: Any, X: Any, weights: Array, dual: Array) -> Array:
    """f_mp(x) of new samples, (k, M, P); parameters and errors as for `scores`."""
    found = np.zeros((X.shape[0], weights.shape[1], len(dual)))
    for rows in blocks(X, dual.shape[1]) if dual.size else ():
        for m, values in enumerate(_values(new, X[rows], weights.shape[1], dual)):
            with np.errstate(over="ignore", invalid="ignore"):
                found[rows, m] = weights[:, m] * values
    return _within_float64(found)


def _within_float64(found: Array) -> Array:
    """What was found, unless it decides nothing: an infinite score has a sign by chance, and NaN has none."""
    finite = np.isfinite(found)
    if not finite.all():
        row = int(np.argwhere(~finite)[0, 0])
        raise InvalidInput(
            f"the score of sample {row} is beyond float64: its kernels or the coefficients of the model are too large. "
            "Scale its variables, or fit the model again."
        )
    return found


def _values(new: Any, X: Any, count: int, dual: Array) -> Iterator[Array]:
    """sum_i beta_pi k_m(x_i, x) of each kernel, (k, P)."""
    if isinstance(new, FactorFamily):
        return (_product(own(X), image) for own, image in zip(new.features, new.images, strict=True))
    return (_product(kernel, dual.T) for kernel in new.rows(X, range(count)))


def _product(kernel: Array, coefficients: Array) -> Array:
    """The scores say what overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(kernel @ coefficients)
