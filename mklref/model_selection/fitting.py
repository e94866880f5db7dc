"""One of the fits of an evaluation or of resampling, and what Ctrl-C leaves of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params

from mklref.estimators.blocks import joined
from mklref.exceptions import Interrupted, InterruptedWarning


def blocks_joined(X: Any) -> Any:
    """Blocks of variables as one table, whose rows can be chosen; anything else as it is."""
    return X if hasattr(X, "columns") else joined(X)


def fitted_to(model: Any, X: Any, y: Any, train: Any, params: Mapping[str, Any] | None) -> Any:
    """A clone that is fitted to these rows, with the entries of `params` that belong to them."""
    own = clone(model)
    return own.fit(*_safe_split(own, X, y, train), **_check_method_params(X, dict(params or {}), indices=train))


def was_interrupted(model: Any) -> bool:
    """Whether a fit, or that of the last step of a pipeline, is what Ctrl-C has left of a search."""
    last = model[-1] if isinstance(model, Pipeline) else model
    return bool(getattr(last, "interrupted_", False))


def require_some(label: str, finished: int, asked: int, interrupted: bool) -> None:
    """Raise `Interrupted` if Ctrl-C has left nothing, and warn if it has not left all."""
    if not finished:
        raise Interrupted
    if interrupted:
        warnings.warn(
            f"{label} was interrupted: {finished} of {asked} fits are what it tells.", InterruptedWarning, stacklevel=3
        )
