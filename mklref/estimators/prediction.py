"""The scores of new samples, a block of rows at a time, and what they are made of.

    f_mp(x) = theta_pm sum_i beta_pi k_m(x_i, x)         t_p(x) = sum_m f_mp(x) + b_p

However many new samples there are, what is held beside them and their scores is a few matrices of 8 MB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mklref._progress import Steps
from mklref._typing import Array
from mklref.estimators.factors import FactorFamily, row_blocks
from mklref.estimators.gram import NewKernels
from mklref.exceptions import InvalidInput, InvalidParameter


def held(new: NewKernels, support: Any, active: Any) -> tuple[NewKernels, Any]:
    """What predictions need of the kernels, and where the support vectors are among the samples that it keeps.

    A centred kernel of a new sample has a mean over all training samples, which therefore are kept.
    """
    if new.centred:
        return new.reduced(slice(None), active), support
    return new.reduced(support, active), np.arange(len(support))


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
    for rows, _, term in _terms(new, X, weights, dual, shown):
        with np.errstate(over="ignore", invalid="ignore"):
            found[rows] += term
    return _within_float64(found)


def contributions(new: Any, X: Any, weights: Array, dual: Array) -> Array:
    """f_mp(x) of new samples, (k, M, P); parameters and errors as for `scores`."""
    found = np.zeros((X.shape[0], weights.shape[1], len(dual)))
    for rows, m, term in _terms(new, X, weights, dual, shown=False):
        found[rows, m] = term
    return _within_float64(found)


def _terms(new: Any, X: Any, weights: Array, dual: Array, shown: bool) -> Iterator[tuple[slice, int, Array]]:
    """f_mp(x) of each block of rows and each kernel, (k, P); of what overflows the scores say that it does."""
    parts = row_blocks(X.shape[0], dual.shape[1]) if dual.size else []
    progress = Steps(shown and len(parts) > 1, "predict", len(parts))
    try:
        for rows in parts:
            if isinstance(new, FactorFamily):
                kernels, coefficients = (own(X[rows]) for own in new.features), new.images
            else:
                kernels, coefficients = new.rows(X[rows], range(weights.shape[1])), (dual.T,) * weights.shape[1]
            for m in range(weights.shape[1]):
                kernel = next(kernels)
                with np.errstate(over="ignore", invalid="ignore"):
                    term = weights[:, m] * np.asarray(kernel @ coefficients[m])
                del kernel  # before there is another one
                yield rows, m, term
            progress.advance()
    finally:
        progress.close()


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


class Explained(BaseEstimator):  # type: ignore[misc]
    """Contributions of kernels to scores, for an estimator that has `_machines`."""

    def contributions(self, X: Any, by: str = "kernel") -> Array:
        """f_m(x) = theta_m sum_i beta_i k_m(x_i, x): what each kernel, or group of kernels, adds to the score.

        Parameters
        ----------
        X
            New samples, as for `predict`.
        by : {"kernel", "group"}
            The kernels in the order of `kernel_names_`, or the groups in that of `kernel_groups_`.

        Returns
        -------
        array (k, M), or (k, M, P) for several machines
            Their sum over m, plus `intercept_`, is what `decision_function` or `predict` says; of one-vs-one machines
            the score of each pair.

        Raises
        ------
        InvalidParameter
            An unknown `by`, or groups of precomputed kernels.
        """
        check_is_fitted(self)
        if by not in ("kernel", "group"):
            raise InvalidParameter(f"by = {by!r} is unknown; known are kernel and group.")
        if by == "group" and not hasattr(self, "kernel_groups_"):
            raise InvalidParameter("by = 'group' takes the groups of the kernels, which precomputed ones do not tell.")
        weights, dual = self._machines()
        active = contributions(self._new_kernels, self._checked_new(X), weights, dual)
        found = np.zeros((len(active), len(self.kernel_names_), len(dual)))
        found[:, self._active] = active
        if by == "group":
            sums = [found[:, list(members)].sum(axis=1) for members in self.kernel_groups_.values()]
            found = np.stack(sums, axis=1)
        return found[:, :, 0] if found.shape[2] == 1 else found

    def contribution_shares(self, X: Any, by: str = "kernel") -> dict[str, float]:
        """How much of the variance of the score over samples comes from each kernel or group.

            share_m = sum_p cov(f_mp, t_p) / sum_p var(t_p),    t_p = sum_m f_mp

        Returns
        -------
        dict of str to float
            They sum to 1; one is negative where a kernel takes back what others say. All are 0 for a constant score.

        Raises
        ------
        InvalidParameter
            As `contributions`.
        """
        found = self.contributions(X, by)
        parts = found[:, :, None] if found.ndim == 2 else found
        centred = parts - parts.mean(axis=0)
        shares = np.einsum("kmp,kp->m", centred, centred.sum(axis=1))
        total = float(shares.sum())
        names = self.kernel_names_ if by == "kernel" else tuple(self.kernel_groups_)
        return dict(zip(names, (shares / total if total > 0.0 else 0.0 * shares).tolist(), strict=True))
