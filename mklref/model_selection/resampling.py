"""How stable kernel weights are when the rows are drawn again (Meinshausen and Buehlmann 2010).

chosen_m = the share of fits to half of the rows, drawn without replacement, in which theta_m > 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import Pipeline
from sklearn.utils import indexable
from sklearn.utils.metaestimators import _safe_split

from mklref._progress import Steps
from mklref._typing import Array
from mklref._validate import checked_number
from mklref.exceptions import Interrupted, InvalidParameter

_NOTHING = 1e-6
"""A weight below this part of the largest one is none."""


@dataclass(frozen=True)
class Stability:
    """The weights of many fits to a part of the rows."""

    names: tuple[str, ...]
    weights: Array
    """(fits, M); of several machines their mean."""
    groups: dict[str, tuple[int, ...]]

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
        return Stability(names, sums, {name: (g,) for g, name in enumerate(names)})

    def plot(self, ax: Any = None, *, most: int = 30) -> Any:
        """Draw the share of fits and the middle 90 % of the weights of the kernels that are chosen most often.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from mklref.plotting import stability

        return stability(self, ax, most=most)

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
    n_jobs : int, optional
        Fits at a time, in threads, by joblib.
    random_state : int
    verbose : bool
        Show a progress line.

    Returns
    -------
    Stability

    Raises
    ------
    InvalidParameter, InvalidType
        fits or share is out of range.
    Interrupted
        Ctrl-C; `path` has the weights of the fits that were finished.
    """
    if isinstance(fits, bool) or not isinstance(fits, int | np.integer) or fits < 2:
        raise InvalidParameter(f"fits = {fits!r} must be an integer of at least 2.")
    checked_number("share", share, "(0, 1)", lambda x: 0.0 < x < 1.0, "the part of the rows in each fit.")
    if isinstance(model, Pipeline):
        before = clone(model[:-1]) if len(model) > 1 else None
        X, model = (X if before is None else before.fit_transform(X, y)), model[-1]
    X, y = indexable(X, np.asarray(y))
    cut: Any = StratifiedShuffleSplit if is_classifier(model) else ShuffleSplit
    splits = cut(fits, train_size=share, random_state=random_state).split(np.empty((len(y), 1)), y)
    progress = Steps(verbose, "stability", fits)
    fitted: list[Any] = []
    try:
        for one in Parallel(n_jobs=n_jobs, return_as="generator", prefer="threads")(
            delayed(_fitted)(model, X, y, train) for train, _ in splits
        ):
            fitted.append(one)
            progress.advance()
    except KeyboardInterrupt as interrupt:
        raise Interrupted(path=[_weights(one) for one in fitted]) from interrupt  # type: ignore[arg-type]
    finally:
        progress.close()
    names = fitted[0].kernel_names_
    groups = getattr(fitted[0], "kernel_groups_", {name: (m,) for m, name in enumerate(names)})
    return Stability(names, np.stack([_weights(one) for one in fitted]), groups)


def _fitted(model: Any, X: Any, y: Any, train: Any) -> Any:
    own = clone(model)
    return own.fit(*_safe_split(own, X, y, train))


def _weights(model: Any) -> Array:
    return np.asarray(np.atleast_2d(model.weights_).mean(axis=0))
