"""Spectrum kernels of texts: counts of words, normalisation, what is refused.

Wavelet kernels: the mother wavelet, the kernels from their definition, the three families, what is refused.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
import pywt

from mklref import MKLClassifier
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType, MissingExtra
from mklref.kernels import from_specification, gaussian, linear, on, per_variable, spectrum, wavelet, wavelets
from mklref.kernels.wavelets import _tabulated

TEXTS = ["ACGTACG", "ACG", "TTTT", "GATTACA", "C"]
NEW = ["TACGT", "XYZ", ""]


def count(text, word):
    return sum(text[i : i + len(word)] == word for i in range(len(text)))


def words_by_definition(length, x, z):
    return sum(count(x, w) * count(z, w) for w in {x[i : i + length] for i in range(len(x) - length + 1)})


def test_counts_of_words():
    K = spectrum([1, 2, 3]).fit(TEXTS)
    assert K.names == ("spectrum:1", "spectrum:2", "spectrum:3")
    for length, matrix, rows in zip([1, 2, 3], K.matrices, K.new(NEW), strict=True):
        np.testing.assert_array_equal(matrix, [[words_by_definition(length, x, z) for z in TEXTS] for x in TEXTS])
        np.testing.assert_array_equal(rows, [[words_by_definition(length, x, z) for z in TEXTS] for x in NEW])
    np.testing.assert_array_equal(K.diagonals(TEXTS), np.diagonal(K.dense(), axis1=1, axis2=2))
    assert K.matrices[1][0, 3] == 2 * 1 + 1 * 1  # AC twice and once, TA once each
    assert K.matrices[0][2, 2] == 16


def test_normalised_texts():
    K = spectrum([1, 2]).fit(TEXTS, normalize="spherical")
    np.testing.assert_allclose(K.matrices[0][0, 3], (2 * 3 + 2 * 1 + 2 * 1 + 1 * 2) / np.sqrt(13 * 15))
    np.testing.assert_allclose(K.new(TEXTS), K.dense(), rtol=1e-12, atol=1e-14)
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


def test_what_is_no_text_is_refused():
    for column in (["abc", None, "abd"], np.array(["abc", None, "abd"], dtype=object)):
        with pytest.raises(InvalidInput, match=r"X\[1\] is None among texts; give texts alone"):
            spectrum(2).fit(column)
        with pytest.raises(InvalidInput, match=r"X\[1\] is None among texts; give texts alone"):
            MKLClassifier("spectrum:2").fit(column, [0, 1, 1])
    with pytest.raises(InvalidInput, match="kernel 'spectrum:2' takes texts, X holds numbers: give a list of strings"):
        spectrum(2).fit(np.ones((3, 1)))
    with pytest.raises(InvalidInput, match=r"kernel 'linear' takes numbers, X holds texts: .* takes_text = True"):
        linear().fit(TEXTS)
    with pytest.raises(InvalidInput, match="both numbers or both texts"):
        spectrum(2).fit(TEXTS).new(np.ones((3, 1)))
    for length, error in ((0, InvalidParameter), (13, InvalidParameter), *((x, InvalidType) for x in (2.0, True, "2"))):
        with pytest.raises(error, match=r"of words must be an integer in \[1, 12\]"):
            spectrum([length])


@pytest.fixture
def X(rng):
    return 1.0 + 3.0 * rng.random((40, 1))


DOMAIN = (1.0, 4.0)


@pytest.mark.parametrize("mother", ["sym6", "db8", "coif3"])
def test_the_mother_wavelet(mother):
    """It satisfies the refinement equations at points of a grid, has unit norm and its vanishing moments."""
    grid, psi = _tabulated(mother)
    own = pywt.Wavelet(mother)
    length = own.dec_len - 1
    assert grid[0] == 0.0
    assert grid[-1] == length
    step = grid[1]
    np.testing.assert_allclose(np.sum(psi**2) * step, 1.0, rtol=1e-9, atol=1e-9)
    for k in range(own.vanishing_moments_psi):
        assert abs(np.sum((grid - length / 2) ** k * psi)) * step < 1e-7
    assert abs(np.sum((grid - length / 2) ** own.vanishing_moments_psi * psi)) * step > 1e-2
    # Orthogonal to its translations and to itself one scale finer.
    assert abs(np.sum(psi[4096:] * psi[:-4096])) * step < 1e-9
    assert abs(np.sum(psi * np.interp(2 * grid, grid, psi, right=0.0))) * step < 1e-5


def test_pywavelets_table_is_the_same_function_on_a_coarser_view():
    """PyWavelets iterates the filter, which converges to the exact values slowly, within one step of the grid."""
    grid, psi = _tabulated("sym6")
    _, theirs, points = pywt.Wavelet("sym6").wavefun(level=10)
    np.testing.assert_allclose(np.interp(points, grid, psi), theirs, atol=0.03)


def test_haar_kernels_count_cells():
    """psi = 1 on [0, 1/2), -1 on [1/2, 1): k_j is 1 in the same half of the same cell, -1 in the other half."""
    X = np.array([[0.05], [0.1], [0.2], [0.45], [0.7], [0.9]])
    K = wavelet("dil", [0, 1, 2], mother="haar").fit(X)
    halves = [np.floor(2.0 ** (j + 1) * X[:, 0]).astype(int) for j in range(3)]
    for matrix, half in zip(K.matrices, halves, strict=True):
        same_cell = half[:, None] // 2 == half // 2
        np.testing.assert_allclose(matrix, np.where(same_cell, np.where(half[:, None] == half, 1, -1), 0), atol=1e-12)


def by_definition(j, translations, x, z):
    """sum_s 2^-j psi_js(x) psi_js(z), psi_js(x) = 2^(j/2) psi(2^j u - s), for all pairs."""
    grid, psi = _tabulated("sym6")

    def psi_js(s, x):
        return 2 ** (j / 2) * np.interp(2.0**j * (x - 1.0) / 3.0 - s, grid, psi, left=0.0, right=0.0)

    return sum(2.0**-j * np.outer(psi_js(s, x), psi_js(s, z)) for s in translations)


def test_kernels_by_their_definition(X):
    K = wavelet("dil", [-2, 0, 3], domain=DOMAIN).fit(X)
    new = np.array([[0.5], [2.0], [4.2]])
    far = range(-50, 50)  # all translations, whether their support meets the domain or not
    for j, matrix, rows in zip([-2, 0, 3], K.matrices, K.new(new), strict=True):
        np.testing.assert_allclose(matrix, by_definition(j, far, X[:, 0], X[:, 0]), rtol=1e-12, atol=1e-12)
        # Outside the domain as well: a pair with a sample inside it has no other wavelets in common.
        np.testing.assert_allclose(rows, by_definition(j, far, new[:, 0], X[:, 0]), rtol=1e-12, atol=1e-12)


def test_the_families_of_the_paper(X):
    """10 and 48 kernels; the finer ones sum to the coarser ones, and the whole scales weigh about the same."""
    whole = wavelet("all", domain=DOMAIN).fit(X)
    dil = wavelet("dil", domain=DOMAIN).fit(X)
    dil_trans = wavelet("dil_trans", domain=DOMAIN).fit(X)
    assert (len(whole), len(dil), len(dil_trans)) == (1, 10, 48)
    assert dil.names[:2] == ("sym6:j=-3", "sym6:j=-2")
    assert dil_trans.names[4:6] == ("sym6:j=1:s=-10..-5", "sym6:j=1:s=-4..1")
    np.testing.assert_allclose(dil.dense().sum(axis=0), whole.matrices[0], rtol=1e-10, atol=1e-10)
    assert dil_trans.names[-1] == "sym6:j=6:s=57..63"  # 2^6 translations begin in the domain, 10 before it
    assert list(dil_trans.groups) == list(dil.names)
    for members, matrix in zip(dil_trans.groups.values(), dil.matrices, strict=True):
        np.testing.assert_allclose(dil_trans.dense()[list(members)].sum(axis=0), matrix, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(dil.traces() / 40, 1.0, atol=0.5)


def test_on_one_of_several_variables(X, rng):
    Z = np.column_stack([rng.normal(size=40), X[:, 0]])
    expected = wavelet("dil", [0, 1], domain=DOMAIN).fit(X)
    K = (gaussian(1.0) + on("time", 1, wavelet("dil", [0, 1], domain=DOMAIN))).fit(Z)
    assert K.names == ("rbf:1", "sym6:j=0[time]", "sym6:j=1[time]")
    np.testing.assert_array_equal(K.dense()[1:], expected.dense())
    both = per_variable(wavelet("all", [0], domain=(-9.0, 9.0))).fit(Z)
    assert both.names == ("sym6[x0]", "sym6[x1]")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "dilation"}, "kind = 'dilation' is unknown; known names: dil, dil_trans, all"),
        ({"levels": []}, r"levels = \(\) must hold at least one scale"),
        ({"levels": [1, 1]}, r"levels = \(1, 1\) must hold"),
        ({"levels": [21]}, r"level 21 must be an integer in \[-20, 20\]"),
        ({"sets": 0}, "sets = 0 must be a positive integer"),
        ({"domain": (1.0, 1.0)}, r"domain = \(1.0, 1.0\) must be \(low, high\)"),
        ({"domain": (0.0, np.inf)}, "must be"),
        ({"mother": "bior2.2"}, "'bior2.2' is not an orthogonal wavelet of PyWavelets: haar"),
        ({"mother": "symmlet"}, "'symmlet' is not"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(InvalidParameter, match=message):
        wavelet(**arguments)
    for wrong in ({"levels": [0.5]}, {"sets": "2"}):
        with pytest.raises(InvalidType, match=r"(level 0\.5|sets = '2') must be"):
            wavelet(**wrong)


def test_samples_that_are_refused(X):
    with pytest.raises(InvalidInput, match=r"outside the domain \[0, 1\] of the wavelets: give domain=\(1\.0"):
        wavelet().fit(X)
    with pytest.raises(InvalidInput, match=r"take one variable, X has 2: write per_variable\(wavelet"):
        wavelet().fit(np.column_stack([X, X]) / 9.0)


def test_without_pywavelets(monkeypatch):
    monkeypatch.setitem(sys.modules, "pywt", None)
    monkeypatch.setattr(wavelets, "_tabulated", _tabulated.__wrapped__)
    with pytest.raises(MissingExtra, match=r"pip install 'mklref\[wavelets\]'"):
        wavelet()
