"""Kernels of texts.

    spectrum(k)     k(x, z) = sum over words w of length k of (count of w in x) (count of w in z)

Several lengths are several kernels. The samples are texts: X is a list of strings, or an array of them of one column.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.exceptions import InvalidInput, InvalidParameter
from mklref.kernels.base import Kernel, KernelFamily
from mklref.kernels.families import on_all_variables

_LONGEST = 12


def spectrum(lengths: int | Iterable[int]) -> KernelFamily:
    """Spectrum kernels (Leslie, Eskin and Noble 2002), without mismatches, one for each length of words.

    Parameters
    ----------
    lengths : int or iterable of int
        From 1 to 12.

    Raises
    ------
    InvalidParameter
        Another length.
    """
    given = [lengths] if not isinstance(lengths, Iterable) else list(lengths)
    return on_all_variables([Spectrum(_checked_length(length)) for length in given], "lengths")


@dataclass(frozen=True)
class Spectrum(Kernel):
    """k(x, z) = sum_w count_w(x) count_w(z) over the words w of one length; each position begins a word."""

    length: int

    takes_text = definite = True

    def cross(self, X: Array, Z: Array) -> Array:
        """Inner products of the counts of words that both sides have."""
        counts = self._counts([*_texts(X), *_texts(Z)])
        return np.asarray((counts[: len(X)] @ counts[len(X) :].T).toarray(), dtype=float)

    def gram(self, X: Array) -> Array:
        """Inner products of the counts of words."""
        counts = self._counts(_texts(X))
        return np.asarray((counts @ counts.T).toarray(), dtype=float)

    def diagonal(self, X: Array) -> Array:
        """Squared lengths of the counts."""
        counts = self._counts(_texts(X))
        return np.asarray(counts.multiply(counts).sum(axis=1), dtype=float).ravel()

    def name(self, variables: Sequence[str]) -> str:
        """spectrum:length."""
        return f"spectrum:{self.length}"

    def _counts(self, texts: list[str]) -> Any:
        """How often each word is in each text, sparse (k, number of words)."""
        from scipy.sparse import csr_array

        columns: dict[str, int] = {}
        rows, found = [], []
        for i, text in enumerate(texts):
            for start in range(len(text) - self.length + 1):
                rows.append(i)
                found.append(columns.setdefault(text[start : start + self.length], len(columns)))
        # Entries of one place are added up.
        return csr_array((np.ones(len(rows)), (rows, found)), shape=(len(texts), max(len(columns), 1)))


def _texts(X: Array) -> list[str]:
    if X.shape[1] != 1:
        raise InvalidInput(
            f"spectrum kernels take one column of text, X has {X.shape[1]}: write on(NAME, COLUMN, ...)."
        )
    return [str(text) for text in X[:, 0]]


def _checked_length(length: Any) -> int:
    try:
        checked = operator.index(length)
    except TypeError:
        checked = 0
    if isinstance(length, bool) or not 1 <= checked <= _LONGEST:
        raise InvalidParameter(f"length {length!r} of words must be an integer in [1, {_LONGEST}].")
    return checked
