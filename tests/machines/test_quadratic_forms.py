"""Images K_m beta: exact for the kernels that are watched, upper bounds of beta'K_m beta for the others."""

from __future__ import annotations

import numpy as np
import pytest

from mklref._threads import threads
from mklref.exceptions import InvalidParameter
from mklref.kernels import stack
from mklref.machines.quadratic_forms import QuadraticForms

N, M = 30, 6


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def kernels(request, rng):
    """Different ranks and scales, one zero, one constant."""
    features = [rng.normal(size=(N, rank)) * scale for rank, scale in ((30, 1), (2, 3), (5, 0.1), (1, 10))]
    grams = [f @ f.T for f in features] + [np.zeros((N, N)), np.full((N, N), 0.7)]
    return stack(np.stack([0.5 * (K + K.T) for K in grams]).astype(request.param))


@pytest.fixture
def begun(kernels, rng):
    """The forms after one update, and its point."""
    forms, beta = QuadraticForms(kernels), rng.normal(size=N)
    forms.update(beta)
    return forms, beta


def images_of(kernels, beta):
    """K_m beta in float64, by definition."""
    return np.stack([K.astype(np.float64) @ beta for K in kernels.matrices])


def squares_of(kernels, beta):
    """beta'K_m beta in float64, by definition."""
    return images_of(kernels, beta) @ beta


def test_watched_kernels_are_exact_whatever_the_steps(kernels, rng):
    forms = QuadraticForms(kernels)
    beta = np.zeros(N)
    for _ in range(5):
        changed = rng.permutation(N)[:7]
        beta[changed] += rng.normal(size=7)
        forms.update(beta)
        expected = images_of(kernels, beta)
        np.testing.assert_allclose(forms.images, expected, rtol=0.0, atol=1e-12 * np.abs(expected).max())
        np.testing.assert_allclose(forms.squares, squares_of(kernels, beta), rtol=1e-10, atol=1e-12)
    assert forms.squares[4] == 0.0


def test_the_given_point_may_change_afterwards(begun):
    forms, beta = begun
    before = forms.images.copy()
    beta[:] = 7.0
    np.testing.assert_array_equal(forms.images, before)
    forms.update(np.zeros(N))
    np.testing.assert_allclose(forms.images, 0.0, atol=1e-12 * np.abs(before).max())


def test_images_that_shrink_leave_no_rounding_errors_behind(kernels, rng):
    """From dual points ten orders larger, in few samples at a time, so that a difference would be the shorter way."""
    forms = QuadraticForms(kernels)
    beta = rng.normal(size=N)
    forms.update(1e10 * beta)
    beta[:3] = 0.0
    forms.update(1e10 * beta)
    small = beta.copy()
    small[: N // 2] *= 1e-10
    twice = 10.0 ** -np.repeat([0.0, 7.0, 14.0], [1, 1, N - 2])  # and small for the second time after that
    steps = [np.where(np.arange(N) < k, 0.0, twice) for k in range(3)]
    for point in (np.where(np.arange(N) < N // 2, small, 1e10 * beta), 1e-4 * rng.normal(size=N), *steps):
        forms.update(point)
        expected = images_of(kernels, point)
        np.testing.assert_allclose(forms.images, expected, rtol=0.0, atol=1e-12 * np.abs(expected).max())


def test_what_costs_no_more_reads_is_computed_anew(kernels, rng):
    """Two nonzero entries after two others: four would change."""
    forms = QuadraticForms(kernels)
    one, other = np.zeros(N), np.zeros(N)
    one[:2], other[5:7] = rng.normal(size=2), rng.normal(size=2)
    forms.update(one)
    before = forms.rows_read
    forms.update(other)
    assert forms.rows_read - before == 2 * M


@pytest.mark.parametrize("spread", [1, 3, N], ids=lambda k: f"{k} samples a step")
def test_others_are_bounded_from_above_and_not_read(kernels, rng, begun, spread):
    """Also after many steps, also when kernels leave and return at different times."""
    forms, beta = begun
    for step in range(12):
        forms.watched = rng.uniform(size=M) < 0.5
        read = forms.rows_read
        changed = rng.permutation(N)[:spread]
        beta[changed] += 0.3 * rng.normal(size=spread)
        outside = ~forms.watched
        old = forms.images[outside].copy()
        forms.update(beta)
        true = squares_of(kernels, beta)
        # Rounded to its dtype a matrix of low rank is definite only up to this.
        rounding = np.finfo(kernels.dtype).eps * kernels.traces() * (beta @ beta)
        assert np.all(forms.squares[outside] >= (true - rounding)[outside]), step
        np.testing.assert_allclose(forms.squares[~outside], true[~outside], rtol=1e-9, atol=1e-11)
        np.testing.assert_array_equal(forms.images[outside], old)
        assert forms.rows_read - read <= N * np.count_nonzero(forms.watched)
    forms.watched[:] = True
    forms.update(beta)
    np.testing.assert_allclose(forms.squares, squares_of(kernels, beta), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("factor", [0.3, 1.0, 1e-160])
def test_a_machine_that_begins_at_a_multiple_reads_nothing(kernels, begun, factor):
    """Kernels that were not watched are brought up to date; another point is read for."""
    forms, beta = begun
    forms.watched[2] = False
    beta[3] += 0.5
    forms.update(beta)
    forms.begin(factor * beta)
    assert forms.watched.all()
    assert forms.rows_read == 1.0
    expected = factor * images_of(kernels, beta)
    np.testing.assert_allclose(forms.images, expected, rtol=0.0, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_allclose(forms.squares, squares_of(kernels, factor * beta), rtol=1e-10, atol=1e-12 * factor)
    other = np.where(np.arange(N) == 7, 0.9, factor) * beta
    forms.begin(other)
    assert forms.rows_read > 0.0
    np.testing.assert_allclose(forms.squares, squares_of(kernels, other), rtol=1e-10, atol=1e-12)
    forms.begin(np.zeros(N))
    np.testing.assert_array_equal(forms.squares, 0.0)


def test_nearly_a_multiple_is_read_for(kernels, rng, begun):
    forms, beta = begun
    near = 2.0 * beta + 1e-9 * rng.normal(size=N)
    forms.begin(near)
    assert forms.rows_read > 0.0
    expected = images_of(kernels, near)
    np.testing.assert_allclose(forms.images, expected, rtol=0.0, atol=1e-13 * np.abs(expected).max())


def test_bounds_are_not_vacuous(kernels, begun):
    """A kernel at rest is known exactly; after one small step its bound is close."""
    forms, beta = begun
    true = squares_of(kernels, beta)
    forms.watched[:] = False
    forms.update(beta)
    np.testing.assert_allclose(forms.squares, true, rtol=1e-9, atol=1e-11)
    beta[3] += 1e-6
    forms.update(beta)
    np.testing.assert_allclose(np.sqrt(forms.squares), np.sqrt(true), atol=1e-5)


def test_the_bound_takes_the_better_of_two():
    """One coordinate: sum |d_i| sqrt(K_ii) is exact. Many coordinates: ||d|| sqrt(tr K) is the smaller one."""
    forms = QuadraticForms(stack(np.eye(N)[None]))
    forms.watched[:] = False
    forms.update(3.0 * np.eye(N)[5])
    assert forms.squares[0] == pytest.approx(9.0)
    forms.update(np.ones(N))
    assert forms.squares[0] == pytest.approx(N * N)  # Cauchy and Schwarz give the same for both sums here
    uneven = QuadraticForms(stack(np.diag(np.arange(N) + 1.0)[None]))
    uneven.watched[:] = False
    uneven.update(np.ones(N))
    assert uneven.squares[0] == pytest.approx(min(np.sqrt(np.arange(N) + 1.0).sum() ** 2, N * N * (N + 1) / 2))


@pytest.mark.parametrize("asked", ["0", "-1", "two", "1.5", ""])
def test_a_bad_number_of_threads_is_refused(monkeypatch, asked):
    monkeypatch.setenv("MKLREF_NUM_THREADS", asked)
    with pytest.raises(InvalidParameter, match=r"MKLREF_NUM_THREADS = .* must be a positive integer"):
        threads()


def test_the_number_of_threads(monkeypatch):
    monkeypatch.setenv("MKLREF_NUM_THREADS", "3")
    assert threads() == 3
    monkeypatch.delenv("MKLREF_NUM_THREADS")
    assert threads() >= 1
