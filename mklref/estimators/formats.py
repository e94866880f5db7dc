"""Files of models that earlier versions wrote, as this version writes them.

mklref-estimator-1    all training samples and all kernels; regressors learn the targets as they come
mklref-estimator-2    support vectors and kernels of positive weight; all samples of centred kernels
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mklref.certificate.verdict import saved

FIRST = "mklref-estimator-1"
LATER: dict[str, Any] = {"storage": "memory", "n_jobs": None, "approximation": None}
"""Parameters that came after the first files, and what a file without them means."""


def completed(facts: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The facts with those of the named parameters that came after the file was written."""
    later = {name: LATER[name] for name in names if name in LATER}
    return {**facts, "parameters": later | saved(facts, "parameters", dict)}


def upgraded(arrays: dict[str, Any], facts: dict[str, Any], now: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays and facts of the first format in the present one; what is wrong with them is found where those are read.

    Raises
    ------
    KeyError, TypeError, ValueError, IndexError
        Something is missing, or does not fit the rest.
    """
    given = facts["parameters"]
    facts = {**facts, "format": now}
    if facts["estimator"].startswith("MKLRegressor"):
        facts |= {"parameters": {**given, "scale_y": False}, "y_mean": 0.0, "y_scale": 1.0}
    active = np.flatnonzero(np.atleast_2d(arrays["weights"]).any(axis=0))
    columns = arrays["columns"]
    if columns.dtype.kind not in "iu" or columns.ndim != 1:
        raise ValueError("columns has no indices")
    samples = slice(None) if given["center"] else columns
    cut: dict[str, Any] = {name: arrays[name][samples] for name in ("samples", "kept") if name in arrays}
    cut |= {name: arrays[name][active] for name in ("factors", "totals") if name in arrays}
    cut |= {name: arrays[name][active][:, samples] for name in ("means", "norms") if name in arrays}
    if not given["center"]:
        cut["columns"] = np.arange(len(columns))
    return {**arrays, **cut}, facts
