"""Generated stand-ins for the data of Kloft 5.2 to 5.4: kernels with the properties that the paper publishes.

What is set are numbers and families of kernels, who carries which information, and how well each kernel does by itself
(5.3 and Table 2 print it) or how hard the problem is (Table 1). Which norm is best is left to the data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mklref._typing import Array

Generator = np.random.Generator


class Sample(NamedTuple):
    """Kernels between all samples (M, N, N), their targets, and how many samples, the first ones, are for training."""

    kernels: Array
    y: Array
    trained: int


def gaussian(X: Array) -> Array:
    """exp(-||x - z||^2 / (2 s)), s the median squared distance."""
    norms = np.sum(X**2, axis=1)
    squares = np.maximum(norms[:, None] + norms - 2.0 * X @ X.T, 0.0)
    return np.asarray(np.exp(-squares / (2.0 * np.median(squares))))


def multiplicative(K: Array, n: int) -> Array:
    """Unit variance in the feature space, on the first n samples (4.4.2)."""
    part = K[:n, :n]
    return np.asarray(K / (np.trace(part) / n - part.mean()))


def spherical(K: Array) -> Array:
    """Every sample on the unit sphere (4.4.2)."""
    lengths = np.sqrt(np.diag(K))
    return np.asarray(K / np.outer(lengths, lengths))


FAMILIES, MEMBERS, SINGLES = 4, 16, 5
"""Of the 69 kernels of 5.2: four sets of 16 that differ in the gaps of their substrings, and five others."""


def localisation(rng: Generator, n: int, tested: int, classes: int, signal: float, overlap: float) -> Sample:
    """5.2: proteins of some classes, four families of near-duplicate kernels and five kernels of their own.

    The classes are points in eight dimensions. A family sees them through one noisy map, whose members add a little
    noise of their own (`overlap` times the first); the other five through a map each, the first two of them clearly.
    """
    y = rng.integers(classes, size=n + tested)
    centres = rng.normal(size=(classes, 8))
    kernels = []
    for _ in range(FAMILIES):
        seen = signal * centres[y] + rng.normal(size=(n + tested, 8))
        kernels += [gaussian(seen + overlap * rng.normal(size=seen.shape)) for _ in range(MEMBERS)]
    for k in range(SINGLES):
        strength = 1.7 * signal if k < 2 else 0.5 * signal
        kernels.append(gaussian(strength * centres[y] + rng.normal(size=(n + tested, 8))))
    return Sample(np.stack([multiplicative(K, n) for K in kernels]), y, n)


LENGTH, BEFORE = 80, 40
"""Bases of a window, and of them before the start."""
MOTIF = np.array([3, 0, 3, 0, 0, 0, 1, 2, 2, 1])
"""Planted around the start."""
ORDER = 6
"""Of the weighted degree kernel."""
MERS = 3


class Strengths(NamedTuple):
    """How clearly each of the five kernels of 5.3 shows a start."""

    signal: float
    promoter: float
    exon: float
    angles: float
    energies: float


def starts(rng: Generator, n: int, others: int, strengths: Strengths) -> Sample:
    """5.3: windows of bases, half of them around a start of transcription, and five kernels.

    A start has a motif of ten bases at its place, each base kept with probability `signal`; before and after it, bases
    are replaced by three-letter words of a promoter and of an exon with a rate of its own. Rates vary from window to
    window. Angles are three variables, energies ten, whose means are shifted.
    """
    N = n + others
    y = np.where(rng.random(N) < 0.5, 1.0, -1.0)
    bases = rng.integers(4, size=(N, LENGTH))
    for place, rate in ((0, strengths.promoter), (BEFORE + len(MOTIF), strengths.exon)):
        words = rng.integers(4, size=(6, MERS))
        for i in np.flatnonzero(y > 0.0):
            for at in range(place, place + LENGTH - BEFORE - len(MOTIF) - MERS, MERS):
                if rng.random() < rate * rng.gamma(2.0, 0.5):
                    bases[i, at : at + MERS] = words[rng.integers(len(words))]
    kept = (y[:, None] > 0.0) & (rng.random((N, len(MOTIF))) < strengths.signal)
    window = slice(BEFORE, BEFORE + len(MOTIF))
    bases[:, window] = np.where(kept, MOTIF, bases[:, window])
    angles = rng.normal(size=(N, 3)) + strengths.angles * (y[:, None] > 0.0)
    energies = rng.normal(size=(N, 10)) + strengths.energies * (y[:, None] > 0.0)
    before, after = spectrum(bases[:, :BEFORE]), spectrum(bases[:, BEFORE + len(MOTIF) :])
    flat = [F - F[:n].mean(axis=0) for F in (before, after, angles, energies)]
    stack = [weighted_degree(bases[:, BEFORE - 5 : BEFORE + len(MOTIF) + 5]), *(F @ F.T for F in flat)]
    return Sample(np.stack([spherical(K) for K in stack]), y, n)


def spectrum(bases: Array) -> Array:
    """Counts of all words of three letters, (N, 64)."""
    codes = sum(bases[:, k : bases.shape[1] - MERS + 1 + k] * 4 ** (MERS - 1 - k) for k in range(MERS))
    return np.stack([np.bincount(row, minlength=4**MERS) for row in codes]).astype(float)


def weighted_degree(bases: Array, order: int = ORDER) -> Array:
    """K(x, z) = sum over k <= order and places l of b_k [x and z agree on l - k + 1, ..., l], b_k ~ order - k + 1.

    The run of agreements that ends at l has all its suffixes, so that its length says what the place adds.
    """
    weights = 2.0 * (order - np.arange(order)) / (order * (order + 1.0))
    added = np.concatenate([[0.0], np.cumsum(weights)])
    K = np.zeros((len(bases), len(bases)))
    run = np.zeros(K.shape, dtype=np.int8)
    for column in bases.T:
        run = np.minimum(run + 1, order) * (column[:, None] == column)
        K += added[run]
    return K


DEGREE = 2.0 * 2782 / 668
"""Relationships of an enzyme in 5.4, on average."""
LATENT = 6


def network(rng: Generator, enzymes: int, noise: tuple[float, float, float]) -> tuple[Array, Array]:
    """5.4: a graph whose nearest pairs of latent positions are edges, and three noisy views of the positions.

    Returns the kernels (3, N, N) of expression, localisation and phylogeny, and the adjacency (N, N).
    """
    places = rng.normal(size=(enzymes, LATENT))
    norms = np.sum(places**2, axis=1)
    distances = norms[:, None] + norms - 2.0 * places @ places.T
    upper = np.triu_indices(enzymes, 1)
    nearest = np.argsort(distances[upper], kind="stable")[: round(enzymes * DEGREE / 2.0)]
    graph = np.zeros((enzymes, enzymes), dtype=bool)
    graph[upper[0][nearest], upper[1][nearest]] = True
    views = [gaussian(places + level * rng.normal(size=places.shape)) for level in noise]
    return np.stack([multiplicative(K, enzymes) for K in views]), graph | graph.T
