"""What the scores of a fitted model are made of: a part of each kernel, or of each group of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mklref._typing import Array
from mklref.estimators import prediction
from mklref.exceptions import InvalidParameter


class Explained:
    """Contributions of kernels to scores, for an estimator that has `_machines`."""

    kernel_names_: tuple[str, ...]
    kernel_groups_: dict[str, tuple[int, ...]]
    _new_kernels: Any
    _active: Any
    _machines: Any
    _checked_new: Any

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
        groups = self._groups_by(by)
        weights, dual = self._machines()
        active = prediction.contributions(self._new_kernels, self._checked_new(X), weights, dual)
        found = np.zeros((len(active), len(self.kernel_names_), len(dual)))
        found[:, self._active] = active
        if groups is not None:
            found = np.stack([found[:, list(members)].sum(axis=1) for members in groups.values()], axis=1)
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

    def _groups_by(self, by: str) -> dict[str, tuple[int, ...]] | None:
        if by not in ("kernel", "group"):
            raise InvalidParameter(f"by = {by!r} is unknown; known are kernel and group.")
        if by == "group" and not hasattr(self, "kernel_groups_"):
            raise InvalidParameter("by = 'group' takes the groups of the kernels, which precomputed ones do not tell.")
        return self.kernel_groups_ if by == "group" else None
