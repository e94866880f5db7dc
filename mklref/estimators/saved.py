"""What a file has to hold to be a saved estimator: names, types, sizes and indices, before anything is made of them.

Files that earlier versions wrote are first made what this version writes:

mklref-estimator-1    all training samples and all kernels; regressors learn the targets as they come
mklref-estimator-2    support vectors and kernels of positive weight; all samples of centred kernels
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mklref._validate import checked_choice
from mklref.certificate.verdict import saved
from mklref.estimators.gram import PRECOMPUTED
from mklref.kernels.transforms import METHODS
from mklref.multiclass import STRATEGIES
from mklref.solution import require_names

_FACTS = ("format", "estimator", "parameters", "n_features_in", "n_iter", "kernel_names", "certificates")
_ARRAYS = ("weights", "dual_coef", "intercept", "support", "columns")


def require_model(parameters: Sequence[str], classifies: bool, arrays: dict[str, Any], facts: dict[str, Any]) -> None:
    """Raise what `well_formed` takes unless these are one fitted model, with such parameters and perhaps classes."""
    given = saved(facts, "parameters", dict)
    require_names(given, parameters, "parameters")
    precomputed = given["kernels"] == PRECOMPUTED
    named = {"feature_names_in", "labels"} & set(facts)
    regresses = "scale_y" in parameters
    more = [*(("n_training", "last") if precomputed else ()), *(("y_mean", "y_scale") if regresses else ())]
    require_names(facts, [*_FACTS, *more, *named], "facts")
    statistics = _statistics(given)
    own = ["kept" if precomputed else "samples", *(["classes"] if classifies else [])]
    shares = {"shares"} & set(arrays) if "means" in statistics else set()
    require_names(arrays, [*_ARRAYS, *own, *statistics, *shares], "arrays")
    d, M = saved(facts, "n_features_in", int), len(saved(facts, "kernel_names", tuple))
    n = _n_samples(arrays, facts, d)
    _require(M >= 1 and saved(facts, "n_iter", int) >= 0, "it has kernels, and a number of iterations")
    if "feature_names_in" in named:
        names = saved(facts, "feature_names_in", tuple)
        _require(len(names) == len(set(names)) == d, f"feature_names_in are {d} different names")
    if "labels" in named:
        names = saved(facts, "labels", tuple)
        _require(
            len(names) == d or (precomputed and 0 < d < len(names) and len(names) % d == 0), f"labels are {d} names"
        )
    if regresses:
        mean, scale = saved(facts, "y_mean", float), saved(facts, "y_scale", float)
        _require(bool(np.isfinite([mean, scale]).all()) and scale > 0.0, "y_mean is finite and y_scale positive")
    P = _require_machines(arrays, facts, M, n, "means" in statistics)
    active = int(np.atleast_2d(arrays["weights"]).any(axis=0).sum())
    if classifies:
        _require_classes(arrays["classes"], saved(given, "strategy", str), P)
    else:
        _require(P == 1, "it is one machine")
    for name, positive in {**statistics, **dict.fromkeys(shares, True)}.items():
        shape = {"means": (active, n), "norms": (active, n), "shares": (n,)}.get(name, (active,))
        array = (
            np.where(arrays[name] == np.inf, 1.0, arrays[name]) if name == "norms" else arrays[name]
        )  # at the origin
        _require_numbers(array, name, shape)
        _require(not positive or bool(np.all(array > 0.0)), f"{name} is positive")


def _statistics(parameters: dict[str, Any]) -> dict[str, bool]:
    """The arrays of statistics that go with these parameters, and whether their entries are positive."""
    center, method = saved(parameters, "center", bool), parameters["normalize"]
    found = {"means": False, "totals": False} if center else {}
    if method is None:
        return found
    spherical = checked_choice("normalize", method, METHODS) == "spherical"
    return found | ({"norms": True} if spherical else {"factors": True})


def _n_samples(arrays: dict[str, Any], facts: dict[str, Any], d: int) -> int:
    """The number n of training samples that are kept; d is that of variables, or of precomputed training samples."""
    if "kept" in arrays:
        kept = arrays["kept"]
        saved(facts, "last", bool)
        _require(saved(facts, "n_training", int) == d, "n_training is n_features_in")
        _require_indices(kept, "kept", d, increasing=False)
        return len(kept)
    samples = arrays["samples"]
    texts = samples.dtype.kind == "U"
    _require(samples.ndim == 2 and samples.shape[1] == d >= 1, "samples is a matrix of n_features_in columns")
    if not texts:
        _require_numbers(samples, "samples", samples.shape)
    return len(samples)


def _require_machines(arrays: dict[str, Any], facts: dict[str, Any], M: int, n: int, centred: bool) -> int:
    """The number P of machines, whose arrays fit M kernels and the n samples that are kept: all, or support vectors."""
    dual, weights = arrays["dual_coef"], arrays["weights"]
    _require(dual.ndim == 2 and len(dual) >= 1, "dual_coef has a row for each machine")
    P, s = map(int, dual.shape)
    _require_numbers(dual, "dual_coef", (P, s))
    _require_numbers(arrays["intercept"], "intercept", (P,))
    _require_numbers(weights, "weights", (M,) if weights.ndim == 1 else (P, M))
    _require(bool(np.all(weights >= 0.0)), "no entry of weights is negative")
    _require_indices(arrays["columns"], "columns", n, s, increasing=False)
    _require(centred or bool(np.array_equal(arrays["columns"], np.arange(n))), "all samples are support vectors")
    _require_indices(arrays["support"], "support", np.inf, s)
    if "kept" in arrays:
        _require(bool(np.all(arrays["support"] == arrays["kept"][arrays["columns"]])), "support is kept[columns]")
    certificates = saved(facts, "certificates", list)
    _require(len(certificates) == (1 if weights.ndim == 1 else P), "there is one certificate for each problem")
    return P


def _require_classes(classes: Any, strategy: str, P: int) -> None:
    fits = classes.ndim == 1 and len(classes) >= 2 and classes.dtype.kind in "biufU"
    _require(fits and bool(np.all(classes[:-1] < classes[1:])), "classes are different names or numbers, sorted")
    _require(classes.dtype.kind != "f" or bool(np.isfinite(classes).all()), "classes are finite")
    _require(strategy in STRATEGIES, f"strategy is one of {', '.join(STRATEGIES)}")
    K = len(classes)
    expected = 1 if K == 2 else K if strategy == "one_vs_rest" else K * (K - 1) // 2
    _require(expected == P, f"{K} classes are told apart by {expected} machines")


def _require_numbers(array: Any, name: str, shape: tuple[int, ...]) -> None:
    fits = array.dtype == np.float64 and array.shape == shape and np.isfinite(array).all()
    _require(bool(fits), f"{name} has finite float64 numbers, of shape {shape}")


def _require_indices(
    array: Any, name: str, below: float, length: int | None = None, *, increasing: bool = True
) -> None:
    fits = array.dtype.kind in "iu" and array.ndim == 1 and length in (None, len(array))
    order = np.sort(array) if fits and not increasing else array
    fits = fits and (not len(array) or (order[0] >= 0 and order[-1] < below and bool(np.all(order[:-1] < order[1:]))))
    _require(fits, f"{name} has {'increasing' if increasing else 'different'} indices")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"its arrays do not fit together: not so that {what}")


FIRST = "mklref-estimator-1"
LATER: dict[str, Any] = {"storage": "memory", "n_jobs": None, "approximation": None, "max_time": None}
"""Parameters that came after the first files, and what a file without them means."""


def completed(facts: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The facts with those of the named parameters that came after the file was written."""
    later = {name: LATER[name] for name in names if name in LATER}
    return {**facts, "parameters": later | saved(facts, "parameters", dict)}


def upgraded(arrays: dict[str, Any], facts: dict[str, Any], now: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays and facts of the first format in the present one; what is wrong with them is found when they are read."""
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
