"""Spectrum kernels of texts: counts of words, normalisation, what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mklref.exceptions import InvalidInput, InvalidParameter
from mklref.kernels import from_specification, linear, on, spectrum

TEXTS = ["ACGTACG", "ACG", "TTTT", "GATTACA", "C"]
NEW = ["TACGT", "XYZ", ""]


def count(text, word):
    return sum(text[i : i + len(word)] == word for i in range(len(text)))


def by_definition(length, x, z):
    return sum(count(x, w) * count(z, w) for w in {x[i : i + length] for i in range(len(x) - length + 1)})


def test_counts_of_words():
    K = spectrum([1, 2, 3]).fit(TEXTS)
    assert K.names == ("spectrum:1", "spectrum:2", "spectrum:3")
    for length, matrix, rows in zip([1, 2, 3], K.matrices, K.new(NEW), strict=True):
        np.testing.assert_array_equal(matrix, [[by_definition(length, x, z) for z in TEXTS] for x in TEXTS])
        np.testing.assert_array_equal(rows, [[by_definition(length, x, z) for z in TEXTS] for x in NEW])
    np.testing.assert_array_equal(K.diagonals(TEXTS), np.diagonal(K.dense(), axis1=1, axis2=2))
    assert K.matrices[1][0, 3] == 2 * 1 + 1 * 1  # AC twice and once, TA once each
    assert K.matrices[0][2, 2] == 16


def test_normalised_texts():
    K = spectrum([1, 2]).fit(TEXTS, normalize="spherical")
    np.testing.assert_allclose(K.matrices[0][0, 3], (2 * 3 + 2 * 1 + 2 * 1 + 1 * 2) / np.sqrt(13 * 15))
    np.testing.assert_allclose(K.new(TEXTS), K.dense(), atol=1e-14)
    assert K.matrices[1][4, 4] == 0.0  # no word of two letters: it stays at the origin


@pytest.mark.parametrize(
    "X", [TEXTS, np.array(TEXTS), np.array(TEXTS)[:, None], np.array(TEXTS, dtype=object), pd.DataFrame({"dna": TEXTS})]
)
def test_forms_of_text(X):
    np.testing.assert_array_equal(from_specification("spectrum(1..2)", X).dense(), spectrum([1, 2]).fit(TEXTS).dense())


def test_two_columns_of_text():
    frame = pd.DataFrame({"dna": TEXTS, "rna": TEXTS[::-1]})
    K = (on("first", "dna", spectrum(2)) + on("second", "rna", spectrum(2))).fit(frame)
    np.testing.assert_array_equal(K.matrices[1], K.matrices[0][::-1, ::-1])
    with pytest.raises(InvalidInput, match=r"take one column of text, X has 2: write on\(NAME, COLUMN"):
        spectrum(2).fit(frame)


def test_what_is_refused():
    with pytest.raises(InvalidInput, match="kernel 'spectrum:2' takes texts, X holds numbers: give a list of strings"):
        spectrum(2).fit(np.ones((3, 1)))
    with pytest.raises(InvalidInput, match="kernel 'linear' takes numbers, X holds texts: encode them"):
        linear().fit(TEXTS)
    with pytest.raises(InvalidInput, match="both numbers or both texts"):
        spectrum(2).fit(TEXTS).new(np.ones((3, 1)))
    for length in (0, 13, 2.0, True, "2"):
        with pytest.raises(InvalidParameter, match=r"of words must be an integer in \[1, 12\]"):
            spectrum([length])
