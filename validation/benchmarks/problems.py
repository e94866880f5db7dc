"""The benchmark problems: all kernels precomputed, hinge loss, fixed legacy seeds so that figures compare over years.

digits   odd against even digits, n = 1000, 50 Gaussian kernels, C = 1
cancer   breast cancer, n = 398, 403 kernels by SimpleMKL's recipe, C = 100
blobs    20 Gaussian blobs in 50 dimensions with 5 % label noise, n = 3000, 20 Gaussian kernels, C = 1
mnist    odd against even, n = 8000, 12 Gaussian kernels in float32, C = 1 (needs MKLREF_DATA)
lines    Kloft's toy problem, n = 200, a kernel of rank one for each of 50 variables, C = 1
subsets  two classes in 30 variables, hundreds of Gaussian kernels on random thirds of them, C = 1
views    two classes, SimpleMKL's recipe on all variables and on each, hundreds of kernels, C = 100
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np

from mklref.datasets import kloft_toy


def squared_distances(X: np.ndarray) -> np.ndarray:
    """All ||x_i - x_j||^2, exactly symmetric with a zero diagonal."""
    norms = (X**2).sum(axis=1)
    D = norms[:, None] + norms - 2.0 * (X @ X.T)
    np.fill_diagonal(D, 0.0)
    return np.maximum(0.5 * (D + D.T), 0.0)


def gaussian_family(X: np.ndarray, M: int, dtype: type = np.float64) -> np.ndarray:
    """M Gaussian kernels (M, n, n) of widths 1.2^w around the median distance, multiplicatively normalised."""
    D = squared_distances(X)
    D *= 1.2**24.5 / np.median(D[np.triu_indices_from(D, 1)])
    stack = np.empty((M, *D.shape), dtype=dtype)
    for m in range(M):
        K = np.exp(-D / 1.2 ** (49.0 * m / (M - 1)))
        stack[m] = K / (np.mean(np.diag(K)) - K.mean())
    return stack


def images(n: int) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits, (n, 64) in [0, 1], odd (+1) against even."""
    from sklearn.datasets import load_digits

    X, target = load_digits(return_X_y=True)
    order = np.random.RandomState(1).permutation(len(X))[:n]
    return X[order] / 16.0, np.where(target[order] % 2 == 1, 1.0, -1.0)


def digits(n: int = 1000, M: int = 50) -> tuple[np.ndarray, np.ndarray, float]:
    """Gaussian kernels of these images."""
    X, y = images(n)
    return gaussian_family(X, M), y, 1.0


def blobs(n: int = 3000, M: int = 20) -> tuple[np.ndarray, np.ndarray, float]:
    """Twenty blobs with alternating labels, 5 % of them flipped."""
    rng = np.random.RandomState(2)
    centres = rng.randn(20, 50)
    blob = rng.randint(20, size=n)
    X = centres[blob] + 1.5 * rng.randn(n, 50)
    y = np.where(blob % 2 == 0, 1.0, -1.0)
    flipped = rng.rand(n) < 0.05
    y[flipped] *= -1.0
    return gaussian_family(X, M), y, 1.0


def cancer(n: int = 398) -> tuple[np.ndarray, np.ndarray, float]:
    """Breast cancer with the 13 (d + 1) kernels of SimpleMKL's recipe."""
    from sklearn.datasets import load_breast_cancer

    X, target = load_breast_cancer(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(X))[:n]
    X = X[order]
    return simplemkl_family((X - X.mean(axis=0)) / X.std(axis=0)), np.where(target[order] == 1, 1.0, -1.0), 100.0


def simplemkl_family(X: np.ndarray) -> np.ndarray:
    """Ten Gaussian and three polynomial kernels of unit trace (13 (d + 1), n, n) on all variables and on each."""
    n = len(X)
    views = [X, *(X[:, [j]] for j in range(X.shape[1]))]
    stack = np.empty((13 * len(views), n, n))
    m = 0
    for view in views:
        D, G = squared_distances(view), view @ view.T
        G = 0.5 * (G + G.T)
        for width in (0.5, 1, 2, 5, 7, 10, 12, 15, 17, 20):
            stack[m] = np.exp(-D / (2.0 * width**2))
            m += 1
        for degree in (1, 2, 3):
            stack[m] = (G + 1.0) ** degree
            m += 1
    for K in stack:
        K /= np.trace(K)
    return stack


def mnist(n: int = 8000, M: int = 12) -> tuple[np.ndarray, np.ndarray, float]:
    """Odd (+1) against even, first training images, float32.

    Raises
    ------
    FileNotFoundError
        If the environment variable MKLREF_DATA does not name a directory with mnist/train-*.gz.
    """
    folder = Path(os.environ.get("MKLREF_DATA", "")) / "mnist"
    with gzip.open(folder / "train-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(16 + n * 784), dtype=np.uint8, offset=16).reshape(n, 784)
    with gzip.open(folder / "train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(8 + n), dtype=np.uint8, offset=8)
    return gaussian_family(images / 255.0, M, np.float32), np.where(labels % 2 == 1, 1.0, -1.0), 1.0


def lines(n: int = 200, relevant: int = 5) -> tuple[np.ndarray, np.ndarray, float]:
    """Kloft's two Gaussian classes that differ in the first variables of 50; multiplicatively normalised."""
    toy = kloft_toy(np.random.default_rng(0), n, relevant=relevant)
    stack = np.stack([np.outer(x, x) for x in toy.X.T])
    for x, K in zip(toy.X.T, stack, strict=True):
        K /= np.var(x)
    return stack, toy.y, 1.0


def two_classes(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Standardised samples (n, d) of which a tenth of the variables tell the classes; 5 % of the labels are flipped."""
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    X = rng.normal(size=(n, d))
    relevant = max(3, d // 10)
    X[:, :relevant] += y[:, None] * rng.normal(size=relevant) * 1.5 / np.sqrt(relevant)
    return (X - X.mean(axis=0)) / X.std(axis=0), np.where(rng.random(n) < 0.05, -y, y)


def subsets(n: int, M: int) -> tuple[np.ndarray, np.ndarray, float]:
    """M Gaussian kernels on random thirds of 30 variables, of widths over two decades, multiplicatively normalised."""
    rng = np.random.default_rng([n, M])
    X, y = two_classes(rng, n, 30)
    stack = np.empty((M, n, n))
    for m in range(M):
        D = squared_distances(X[:, rng.choice(30, size=10, replace=False)])
        K = np.exp(-D / np.median(D) * 2.0 ** rng.uniform(-3.0, 3.0))
        stack[m] = K / (1.0 - K.mean())
    return stack, y, 1.0


def views(n: int, M: int) -> tuple[np.ndarray, np.ndarray, float]:
    """SimpleMKL's recipe on M/13 - 1 variables; the first M of its kernels."""
    X, y = two_classes(np.random.default_rng([n, M, 1]), n, -(-M // 13) - 1)
    return simplemkl_family(X)[:M], y, 100.0


PROBLEMS = {"digits": digits, "blobs": blobs, "cancer": cancer, "mnist": mnist}
