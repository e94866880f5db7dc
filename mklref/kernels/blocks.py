"""Kernels between new and training samples, as users hand them over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mklref._typing import Array, FloatArray
from mklref._validate import as_float_array, require_finite
from mklref.exceptions import InvalidInput
from mklref.kernels.stack import KernelStack


def checked_blocks(kernels_new: Any, n_kernels: int, n_samples: int) -> Iterator[Array]:
    """The blocks k_m(new sample, training sample) of an array (M, k, n), a sequence or a stack, each float64 (k, n).

    `InvalidInput` for another number of kernels or of training samples, with both numbers, or entries that are not
    finite; `InvalidType` for complex, sparse, masked, object or bool data.
    """
    matrices = kernels_new
    if not isinstance(kernels_new, list | tuple):
        given = kernels_new.dense() if isinstance(kernels_new, KernelStack) else kernels_new
        matrices = as_float_array(given, "kernels_new", InvalidInput)
        if matrices.ndim != 3:
            raise InvalidInput(f"kernels_new has shape {matrices.shape}; expected (M, k, n).")
    if len(matrices) != n_kernels:
        raise InvalidInput(f"kernels_new holds {len(matrices)} kernels, the solution has {n_kernels} weights.")
    rows = 0
    for m, raw in enumerate(matrices):
        block = checked_block(raw, f"kernels_new[{m}]", n_samples)
        rows = rows if m else len(block)
        if len(block) != rows:
            raise InvalidInput(f"kernels_new[{m}] has {len(block)} rows, kernels_new[0] has {rows}.")
        yield block.astype(np.float64, copy=False)


def checked_block(rows: Any, label: str, n_samples: int) -> FloatArray:
    """A finite float32 or float64 array (k, n), or the errors of `checked_blocks`."""
    block = as_float_array(rows, label, InvalidInput)
    if block.ndim != 2 or block.shape[1] != n_samples:
        raise InvalidInput(
            f"{label} has shape {block.shape}; expected (k, {n_samples}): "
            "rows are new samples, columns are the training samples."
        )
    require_finite(block, label, InvalidInput)
    return block
