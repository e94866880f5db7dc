r"""The kernels as one linear map K, and restrictions of it to few columns, with every read counted.

    K A = sum_t K_t A_t,        (K'beta)_t = K_t'beta

A column is k_t(., x_i) on the samples, and one read of all tau N columns is a pass. A restriction holds the
coefficients of its columns as rows u (groups, members), padded with zeros, which is the form in which the proximity
operators take them. For P = blockdiag(scale_g I + factor_g v_g v_g') it offers the curvature K P K', whole or as a
root.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mklref._typing import Array
from mklref.synthesis.proximity import Jacobian, MixedNorm

_STRIDE = 8
"""Numbers of a cache line: fewer columns of a kernel than one in so many are fetched one by one."""


class Dictionary:
    """All columns of kernels (tau, n, N); `reads` counts passes."""

    def __init__(self, kernels: Array) -> None:
        self.kernels = kernels
        self.shape: tuple[int, int] = (kernels.shape[0], kernels.shape[2])
        self.size = self.shape[0] * self.shape[1]
        self.reads = 0.0

    def count(self, columns: int) -> None:
        """Note that so many columns were read."""
        self.reads += columns / self.size

    def scores(self, A: Array) -> Array:
        """K A, (n,); kernels without coefficients are not read."""
        t = np.zeros(self.kernels.shape[1])
        for K, a in zip(self.kernels, A, strict=True):
            if a.any():
                t += K @ a
                self.count(len(a))
        return t

    def correlations(self, beta: Array, wanted: NDArray[np.bool_]) -> Array:
        """K'beta (tau, N) on the wanted columns, 0 elsewhere."""
        Z = np.zeros(self.shape)
        for K, z, columns in zip(self.kernels, Z, wanted, strict=True):
            chosen = int(np.count_nonzero(columns))
            if chosen * _STRIDE > len(columns):
                z[:] = beta @ K
                self.count(len(columns))
            elif chosen:
                z[columns] = beta @ K[:, columns]
                self.count(chosen)
        Z[~wanted] = 0.0
        return Z

    def column_norms(self) -> Array:
        """Euclidean norms of the columns, (tau, N): one pass."""
        self.count(self.size)
        return np.asarray(np.sqrt([np.einsum("ni,ni->i", K, K) for K in self.kernels]))


class Columns:
    """Any columns, copied into one matrix to which more can be added."""

    def __init__(self, dictionary: Dictionary, norm: MixedNorm) -> None:
        self._all, self._norm = dictionary, norm
        self._chosen = np.empty((2, 0), dtype=np.intp)  # (kernel, expansion point) of each column
        self._X = np.empty((0, dictionary.kernels.shape[1]))

    def __len__(self) -> int:
        return len(self._X)

    def add(self, wanted: NDArray[np.bool_]) -> None:
        """Add the wanted columns (tau, N) that are not there yet."""
        new = wanted.copy()
        new[tuple(self._chosen)] = False
        added = np.array(np.nonzero(new))
        parts = [K[:, columns].T for K, columns in zip(self._all.kernels, new, strict=True) if columns.any()]
        self._X = np.concatenate([self._X, *parts])
        self._chosen = np.hstack([self._chosen, added])
        self._all.count(added.shape[1])
        groups = np.zeros_like(self._chosen[0]) if self._norm.separable else self._chosen[2 - self._norm.r]
        _, row, counts = np.unique(groups, return_inverse=True, return_counts=True)
        order = np.argsort(row, kind="stable")
        rank = np.empty_like(row)
        rank[order] = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        self._row, self._place, self._rows = row, (row, rank), (len(counts), int(counts.max(initial=0)))

    def compress(self, A: Array) -> Array:
        """Rows of coefficients."""
        u = np.zeros(self._rows)
        u[self._place] = A[tuple(self._chosen)]
        return u

    def expand(self, u: Array) -> Array:
        """Coefficients of rows."""
        A = np.zeros(self._all.shape)
        A[tuple(self._chosen)] = u[self._place]
        return A

    def scores(self, u: Array) -> Array:
        """K A, from the columns whose coefficients are not 0."""
        a = u[self._place]
        support = np.flatnonzero(a)
        self._all.count(len(support))
        return np.asarray(a[support] @ self._X[support])

    def correlations(self, beta: Array) -> Array:
        """K'beta."""
        self._all.count(len(self))
        z = np.zeros(self._rows)
        z[self._place] = self._X @ beta
        return z

    def curvature(self, P: Jacobian) -> tuple[Array, bool]:
        """The root, with rows sqrt(scale_g) k_j + kappa_g v_j sum_l v_l k_l over the columns of a group.

        (sqrt(scale) I + kappa vv')^2 = scale I + factor vv' for kappa = sqrt(scale + factor) - sqrt(scale), |v| = 1.
        Of more than n columns K P K' itself is smaller, and as quickly formed.
        """
        support = np.flatnonzero(P.support[self._place])
        row, X = self._row[support], self._X[support]
        self._all.count(len(support))
        v = csr_array((P.direction[self._place][support], (row, np.arange(len(row)))), (len(P.scale), len(row)))
        sums = v @ X
        X *= np.sqrt(P.scale)[row][:, None]
        if len(X) > X.shape[1]:
            return X.T @ X + (sums.T * P.factor) @ sums, False
        kappa = np.sqrt(np.maximum(P.scale + P.factor, 0.0)) - np.sqrt(P.scale)
        X += v.T @ (kappa[:, None] * sums)
        return X, True


class Kernels:
    """Whole kernels, never copied; the Gram matrices K_t K_t' are formed when they are first needed.

    For the norms with p = 2 whose groups are kernels, or that have none: scale_g is then a weight of K_t K_t', and the
    curvature at another point is a combination of matrices (n, n) that are known.
    """

    def __init__(self, dictionary: Dictionary, norm: MixedNorm) -> None:
        self._all, self._norm = dictionary, norm
        self._chosen: list[int] = []
        self._grams: dict[int, Array] = {}
        self._total: Array | None = None

    def __len__(self) -> int:
        return len(self._chosen) * self._all.shape[1]

    def add(self, wanted: NDArray[np.bool_]) -> None:
        """Add the kernels with wanted columns (tau, N) that are not there yet."""
        self._chosen += [int(t) for t in np.flatnonzero(wanted.any(axis=1)) if t not in self._chosen]

    def compress(self, A: Array) -> Array:
        """Rows of coefficients."""
        return A[self._chosen]

    def expand(self, u: Array) -> Array:
        """Coefficients of rows."""
        A = np.zeros(self._all.shape)
        A[self._chosen] = u
        return A

    def scores(self, u: Array) -> Array:
        """K A, from the kernels whose coefficients are not 0."""
        return self._all.scores(self.expand(u))

    def correlations(self, beta: Array) -> Array:
        """K'beta."""
        self._all.count(len(self))
        return np.array([beta @ self._all.kernels[t] for t in self._chosen])

    def curvature(self, P: Jacobian) -> tuple[Array, bool]:
        """sum_t scale_t K_t K_t' + factor_t (K_t v_t)(K_t v_t)'."""
        if self._norm.q == 2:
            if self._total is None:
                self._total = sum((self._gram(t) for t in self._chosen[1:]), self._gram(self._chosen[0]))
            return P.scale[0] * self._total, False
        n = self._all.kernels.shape[1]
        curvature = np.zeros((n, n))
        for t, scale, factor, v in zip(self._chosen, P.scale, P.factor, P.direction, strict=True):
            if factor == 0.0:
                continue
            if t not in self._grams:
                self._grams[t] = self._gram(t)
            curvature += scale * self._grams[t]
            image = self._all.kernels[t] @ v
            self._all.count(len(v))
            curvature += np.outer(factor * image, image)
        return curvature, False

    def _gram(self, t: int) -> Array:
        K = self._all.kernels[t]
        self._all.count(K.shape[1])
        return np.asarray(K @ K.T)


Restriction: TypeAlias = Columns | Kernels
"""What the proximal point method needs of a restricted problem."""


def restriction(dictionary: Dictionary, norm: MixedNorm) -> Restriction:
    """An empty restriction of the kind that suits the norm and the shape of the kernels."""
    _, n, N = dictionary.kernels.shape
    whole = norm.p == 2 and (norm.r == 2 or norm.q == 2) and n <= 2 * N
    return Kernels(dictionary, norm) if whole else Columns(dictionary, norm)
