"""How stable kernel weights are when the rows are drawn again (Meinshausen and Buehlmann 2010).

chosen_m = the share of fits to half of the rows, drawn without replacement, in which theta_m > 0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags, indexable  # the first is documented, and exported for others
from sklearn.utils.validation import column_or_1d

from mklref._names import namings, require_one_order
from mklref._typing import Array
from mklref._validate import as_one_kind, checked_count, checked_number, checked_verbosity, require_unmasked
from mklref.datasets import Dataset
from mklref.estimators.base import BaseMKL
from mklref.estimators.blocks import Joined, joined
from mklref.estimators.folds import splits_of
from mklref.estimators.gram import samples_first
from mklref.estimators.samples import own_errors, readable, real_targets
from mklref.estimators.workers import gathered
from mklref.exceptions import (
    Interrupted,
    InterruptedWarning,
    InvalidInput,
    InvalidParameter,
    InvalidTarget,
    InvalidType,
    warn,
)


def samples_of(
    model: Any, X: Any, y: Any, params: Mapping[str, Any] | None, groups: Any = None
) -> tuple[Any, Any, Any]:
    """Samples whose rows can be chosen, blocks of variables as one table; targets (n,) of a model, and groups."""
    if X is None:
        raise InvalidType("X is None; give one sample a row.")
    require_unmasked(X=X, y=y, groups=groups)
    with own_errors():
        if isinstance(model, BaseMKL) and model._is_precomputed():
            rows: Any = X
            table: Any = samples_first(X)
            known = namings(X)
        else:
            table = Joined(X.X, X.features) if isinstance(X, Dataset) else X if hasattr(X, "columns") else joined(X)
            rows, shape, known = table, np.shape(table), ()
            if get_tags(model).input_tags.pairwise:
                if shape[:1] != shape[1:2]:
                    says = f"X has shape {shape}; a precomputed kernel has a row and a column for each sample."
                    raise InvalidInput(says)
                table = np.asarray(table)  # of which rows and columns can be chosen at once
        require_one_order({"X": rows, "y": y}, InvalidTarget, known)
        require_one_order({"X": rows, "y": y, "groups": groups, **(params or {})}, known=known)
        targets = column_or_1d(as_one_kind(y) if is_classifier(model) else np.asarray(readable(y, "y")), warn=True)
        targets = real_targets(targets) if is_regressor(model) else targets
        found = indexable(table, targets, readable(groups, "groups"))
    for name, own in (params or {}).items():
        require_unmasked(**{f"params[{name!r}]": own})
        if str(name).rpartition("__")[2] in ("sample_weight", "groups") and np.ndim(own) and len(own) != len(targets):
            raise InvalidInput(
                f"params[{name!r}] has {len(own)} entries for {len(targets)} samples; give one for each."
            )
        if not _takes(model, name):
            raise InvalidParameter(f"params names {name!r}, which fit of {type(model).__name__} does not take.")
    return tuple(found)


def _takes(model: Any, name: Any) -> bool:
    """Whether `fit` takes a parameter of this name beside X and y; of a pipeline that of the step, STEP__NAME."""
    if not isinstance(name, str) or not hasattr(model, "fit"):
        return False
    if isinstance(model, Pipeline) and not get_config()["enable_metadata_routing"]:
        step, _, own = name.partition("__")
        return _takes(model.named_steps.get(step), own)
    _, _, *others = signature(model.fit).parameters.values()
    return any(other.name == name or other.kind is other.VAR_KEYWORD for other in others)


def fitted_to(model: Any, X: Any, y: Any, train: Any, params: Mapping[str, Any] | None) -> Any:
    """A clone that is fitted to these rows, with the entries of `params` that belong to them."""
    given = {name: _entries(value, train, len(y)) for name, value in (params or {}).items()}
    return clone(model).fit(part_of(model, X, train, train), y[train], **given)


def _entries(value: Any, rows: Any, n: int) -> Any:
    """Those of these rows of what has one for each of n samples; anything else as it is."""
    length = len(value) if isinstance(value, list | tuple) else next(iter(np.shape(value)), None)
    return _safe_indexing(value, rows) if length == n else value


def part_of(model: Any, X: Any, rows: Any, train: Any) -> Any:
    """These rows of the samples; of Gram matrices those columns that belong to the training samples."""
    return X[np.ix_(rows, train)] if get_tags(model).input_tags.pairwise else _safe_indexing(X, rows)


def checked_params(params: Any) -> None:
    """Raise `InvalidType` unless they are a mapping, or None."""
    if params is not None and not isinstance(params, Mapping):
        raise InvalidType(f"params is {type(params).__name__}; give a mapping such as {{'sample_weight': w}}, or None.")


def was_interrupted(model: Any) -> bool:
    """Whether a fit, or that of the last step of a pipeline, is what Ctrl-C has left of a search."""
    last = model[-1] if isinstance(model, Pipeline) else model
    return bool(getattr(last, "interrupted_", False))


def require_some(label: str, finished: int, asked: int, interrupted: bool) -> None:
    """Raise `Interrupted` if Ctrl-C has left nothing, and warn if it has not left all."""
    if not finished:
        raise Interrupted
    if interrupted:
        warn(f"{label} was interrupted: {finished} of {asked} fits are what it tells.", InterruptedWarning)


_NOTHING = 1e-6
"""A weight below this part of the largest one is none."""


@dataclass(frozen=True)
class Stability:
    """The weights of many fits to a part of the rows."""

    names: tuple[str, ...]
    weights: Array
    """(fits, M); of several machines their mean."""
    groups: dict[str, tuple[int, ...]]
    interrupted: bool = False
    """Whether Ctrl-C came before all fits."""

    @property
    def chosen(self) -> Array:
        """The share of fits in which each kernel has a weight, (M,)."""
        return np.asarray(np.mean(self.weights > _NOTHING * self.weights.max(axis=1, keepdims=True), axis=0))

    def quantiles(self, levels: Any = (0.05, 0.5, 0.95)) -> Array:
        """Of each kernel's weights, (levels, M)."""
        return np.asarray(np.quantile(self.weights, levels, axis=0))

    def by_group(self) -> Stability:
        """The same for groups of kernels: of a variable, of `on` or `per_group`; weights are added up."""
        sums = np.stack([self.weights[:, list(members)].sum(axis=1) for members in self.groups.values()], axis=1)
        names = tuple(self.groups)
        return replace(self, names=names, weights=sums, groups={name: (g,) for g, name in enumerate(names)})

    def plot(self, ax: Any = None, *, most: int = 30) -> Any:
        """Draw the share of fits and the middle 90 % of the weights of the kernels that are chosen most often.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from mklref.plotting import stability

        return stability(self, most=most, ax=ax)

    def __str__(self) -> str:
        low, middle, high = self.quantiles()
        order = np.lexsort((-middle, -self.chosen))
        width = max(len("kernel"), *map(len, self.names))
        lines = [f"{'kernel':<{width}}  chosen  weight [5 %, 95 %] of {len(self.weights)} fits"]
        for m in order:
            lines.append(
                f"{self.names[m]:<{width}}  {self.chosen[m]:6.2f}  {middle[m]:.4f} [{low[m]:.4f}, {high[m]:.4f}]"
            )
        return "\n".join(lines)


def stability(
    model: Any,
    X: Any,
    y: Any,
    *,
    fits: int = 50,
    share: float = 0.5,
    params: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    verbose: bool = False,
) -> Stability:
    """Fit a model to many random parts of the rows, and see which kernels it chooses.

    Parameters
    ----------
    model : MKLClassifier, MKLRegressor, a search, or a pipeline that ends in one
        Cloned for each fit. What comes before it in a pipeline is fitted once, so that all fits have the same kernels.
    X, y
        Samples and targets.
    fits : int
        At least 2.
    share : float
        Of the rows in each fit, in (0, 1); classes keep their shares.
    params : mapping of str, optional
        What `fit` takes beside X and y, as for `evaluate`; without the name of a step.
    n_jobs, random_state, verbose
        As for `evaluate`.

    Returns
    -------
    Stability
        After Ctrl-C of the fits that were finished, and marked as interrupted.

    Raises
    ------
    InvalidInput, InvalidParameter, InvalidType
        fits or share is out of range; the model, or the targets, are none; params that `fit` does not take, or weights
        of another number of samples.
    Interrupted
        Ctrl-C came before the first fit was finished.

    Warns
    -----
    InterruptedWarning
        Ctrl-C came before the last one was.
    """
    fits, shown = checked_count("fits", fits, 2, "the more, the finer the shares."), checked_verbosity(verbose)
    share = checked_number("share", share, "(0, 1)", "the part of the rows in each fit.")
    checked_params(params)
    if isinstance(model, Pipeline) and len(model):
        before = clone(model[:-1]) if len(model) > 1 else None
        X, model = (X if before is None else before.fit_transform(X, y)), model[-1]
    if not isinstance(model, BaseMKL):
        raise InvalidType(
            f"model is {type(model).__name__}, which learns no kernel weights; give MKLClassifier, MKLRegressor, a "
            "search, or a pipeline that ends in one."
        )
    X, y, _ = samples_of(model, X, y, params)
    cut: Any = StratifiedShuffleSplit if is_classifier(model) else ShuffleSplit
    parts = cut(fits, train_size=share, random_state=random_state)
    splits = splits_of(parts, y, None, f"share = {share}", classifies=is_classifier(model))
    tasks = [(model, X, y, train, params) for train, _ in splits]
    found, interrupted = gathered(fitted_to, tasks, n_jobs=n_jobs, label="stability", shown=shown)
    fitted = [one for one in found.values() if not was_interrupted(one)]
    require_some("stability", len(fitted), fits, interrupted)
    names = fitted[0].kernel_names_
    groups = getattr(fitted[0], "kernel_groups_", {name: (m,) for m, name in enumerate(names)})
    weights = np.stack([np.atleast_2d(one.weights_).mean(axis=0) for one in fitted])
    return Stability(names, weights, groups, interrupted)
