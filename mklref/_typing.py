"""Array aliases. Shapes are given in docstrings: M kernels, n training samples, k new samples."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
"""A float64 array."""

FloatArray: TypeAlias = NDArray[np.floating[Any]]
"""A float32 or float64 array: what a kernel stack may hold."""
