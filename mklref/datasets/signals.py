"""Signals of one variable on [0, 1] that wavelets are tried on (SimpleMKL 5.2, Fig. 6).

    LinChirp   sin(pi l x^2 / 8)  with l = 512, the length of the signals: its frequency grows to l / 8
    Wave       1/2 + cos(4 pi x) / 5 + cos(24 pi x) / 10
    Blocks     sum_j h_j (1 + sign(x - t_j)) / 2
    Spikes     15.6676 sum_j c_j exp(-w_j (x - t_j)^2)

SimpleMKL refers to A. Antoniadis and J. Fan (2001) for them; the formulas are those of D. Donoho and I. Johnstone
(1994) for Blocks, of the WaveLab collection for LinChirp, and of A. Antoniadis, J. Bigot and T. Sapatinas (2001) for
Wave and Spikes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import as_float_array, checked_choice
from mklref.exceptions import InvalidParameter

LENGTH = 512

_STEPS = (0.10, 0.13, 0.15, 0.23, 0.25, 0.40, 0.44, 0.65, 0.76, 0.78, 0.81)
_HEIGHTS = (4.0, -5.0, 3.0, -4.0, 5.0, -4.2, 2.1, 4.3, -3.1, 2.1, -4.2)
_PEAKS = ((1.0, 500.0, 0.23), (2.0, 2000.0, 0.33), (4.0, 8000.0, 0.47), (3.0, 16000.0, 0.69), (1.0, 32000.0, 0.83))


SIGNALS: Mapping[str, Callable[[Array], Any]] = MappingProxyType(
    {
        "LinChirp": lambda x: np.sin(np.pi * LENGTH * x**2 / 8.0),
        "Wave": lambda x: 0.5 + 0.2 * np.cos(4.0 * np.pi * x) + 0.1 * np.cos(24.0 * np.pi * x),
        "Blocks": lambda x: sum(h * (1.0 + np.sign(x - t)) / 2.0 for h, t in zip(_HEIGHTS, _STEPS, strict=True)),
        "Spikes": lambda x: 15.6676 * sum(c * np.exp(-w * (x - t) ** 2) for c, w, t in _PEAKS),
    }
)
"""The signals by name, each a function of positions in [0, 1]."""


def signal(name: str, x: Any) -> Array:
    """The true signal at positions x in [0, 1], of the shape of x.

    Raises
    ------
    InvalidType, InvalidParameter
        Unknown name, or a position outside of [0, 1].
    """
    x = as_float_array(x, "x", InvalidParameter)
    if not ((x >= 0.0) & (x <= 1.0)).all():
        raise InvalidParameter("x holds positions outside of [0, 1], where the signals live; rescale them.")
    return np.asarray(SIGNALS[checked_choice("name", name, SIGNALS)](x))
