"""The scores of new samples, a block of rows at a time, and what they are made of.

    f_mp(x) = theta_pm sum_i beta_pi k_m(x_i, x)         t_p(x) = sum_m f_mp(x) + b_p

However many new samples there are, what is held beside them and their scores is a few matrices of 8 MB.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mklref._progress import Steps
from mklref._typing import Array
from mklref._validate import checked_choice, checked_verbosity
from mklref.estimators.blocks import different
from mklref.estimators.factors import FactorFamily, row_blocks
from mklref.exceptions import InvalidInput, InvalidParameter


class Predicting(BaseEstimator):  # type: ignore[misc]
    """Scores of new samples, for an estimator that has `_checked_new`, and what its kernels contribute to them."""

    def _scores(self, X: Any) -> Array:
        """t_p(x) of new samples, (k, P); `InvalidInput` where one is beyond float64."""
        check_is_fitted(self)
        X = self._checked_new(X)
        found = np.empty((X.shape[0], len(self.dual_coef_)))
        found[:] = self.intercept_
        for rows, _, term in self._terms(X, shown=checked_verbosity(self.verbose)):
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                found[rows] += term
        return _within_float64(found)

    def _terms(self, X: Any, *, shown: bool) -> Iterator[tuple[slice, int, Array]]:
        """f_mp(x) of each block of rows and each kernel of positive weight, (k, P); what overflows is not finite."""
        new, weights, dual = self._new_kernels, np.atleast_2d(self.weights_)[:, self._active], self.dual_coef_
        if new.centred:
            dual = np.zeros((len(dual), new.n_samples))
            dual[:, self._columns] = self.dual_coef_
        parts = row_blocks(X.shape[0], dual.shape[1]) if dual.size else []
        with closing(Steps(shown and len(parts) > 1, "predict", len(parts))) as progress:
            for rows in parts:
                if isinstance(new, FactorFamily):
                    kernels, coefficients = (own(X[rows]) for own in new.features), new.images
                else:
                    kernels, coefficients = new.rows(X[rows], range(weights.shape[1])), (dual.T,) * weights.shape[1]
                for m in range(weights.shape[1]):
                    kernel = next(kernels)
                    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                        term = weights[:, m] * np.asarray(kernel @ coefficients[m])
                    del kernel  # before there is another one
                    yield rows, m, term
                progress.advance()

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
        if checked_choice("by", by, ("kernel", "group")) == "group" and not hasattr(self, "kernel_groups_"):
            raise InvalidParameter("by = 'group' takes the groups of the kernels, which precomputed ones do not tell.")
        X, active = self._checked_new(X), self._active
        found = np.zeros((X.shape[0], len(self.kernel_names_), len(self.dual_coef_)))
        for rows, m, term in self._terms(X, shown=False):
            found[rows, active[m]] = term
        found = _within_float64(found)
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
            The second kernel of the same name is NAME (2).
        """
        found = self.contributions(X, by)
        parts = found[:, :, None] if found.ndim == 2 else found
        centred = parts - parts.mean(axis=0)
        shares = np.einsum("kmp,kp->m", centred, centred.sum(axis=1))
        total = float(shares.sum())
        names = different(self.kernel_names_ if by == "kernel" else self.kernel_groups_)
        return dict(zip(names, (shares / total if total > 0.0 else 0.0 * shares).tolist(), strict=True))


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
