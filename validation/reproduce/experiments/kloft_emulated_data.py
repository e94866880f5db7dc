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
    """Kernels between all samples, and those for training, the first ones: (M, N, N) or (M, N, n); targets; and n."""

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


SIDE, AROUND = 300, 40
"""Bases of a window before the start and after it; bases to each side that the weighted degree kernel reads."""
MOTIF = np.array([3, 0, 3, 0, 0, 0, 1, 2, 2, 1])
"""Planted behind the start."""
ISLAND = np.array([[1, 2, 1], [2, 1, 2], [1, 2, 2], [1, 1, 2]])
"""Words of islands, of C (1) and G (2)."""
ORDER, SHIFT = 6, 6
"""Of the weighted degree kernel: the longest substring, and by how many bases a pair of them may be apart."""
MERS = 3


class Strengths(NamedTuple):
    """How clearly each of the five kernels of 5.3 shows a start, beside what the kernels share."""

    signal: float
    promoter: float
    exon: float
    angles: float
    energies: float


class Shared(NamedTuple):
    """What several kernels of 5.3 see of a window, whether it is a start or not: without it none are aligned."""

    composition: float
    """Deviation, over windows, of the log odds of G and C."""
    islands: float
    """Rate of the words of an island, all over the window of a start, on average."""
    inside: float
    """That of other windows relative to it."""
    angles: float
    """How much of the composition each angle sees, where its own noise is 1."""


def starts(rng: Generator, n: int, others: int, strengths: Strengths, shared: Shared) -> Sample:
    """5.3: windows of bases, half of them around a start of transcription, and five kernels (5, N, n).

    The share of G and C varies from window to window, whatever its class, as along a genome, and so does the rate of an
    island's words, which starts have more of; both are seen before, around and after the start. By itself a start has a
    motif of ten bases at its place, each base kept with probability `signal`, and words of a promoter before it and of
    an exon after it, at rates that vary from window to window. Angles are three variables, which see the share of G and
    C, energies ten, which see nothing else; the means of both are shifted.
    """
    N = n + others
    start = rng.random(N) < 0.5
    odds = rng.normal(size=N)
    strong = rng.random((N, 2 * SIDE)) < 1.0 / (1.0 + np.exp(-shared.composition * odds))[:, None]
    coin = rng.integers(2, size=strong.shape)
    bases = np.where(strong, 1 + coin, 3 * coin)
    before, after = slice(0, SIDE), slice(SIDE, 2 * SIDE)
    for place, words, rate in (
        (before, rng.integers(4, size=(6, MERS)), strengths.promoter * start),
        (after, rng.integers(4, size=(6, MERS)), strengths.exon * start),
        (slice(0, 2 * SIDE), ISLAND, shared.islands * np.where(start, 1.0, shared.inside)),
    ):
        _plant(rng, bases[:, place], words, rate * rng.gamma(2.0, 0.5, size=N))
    kept = start[:, None] & (rng.random((N, len(MOTIF))) < strengths.signal)
    window = slice(SIDE, SIDE + len(MOTIF))
    bases[:, window] = np.where(kept, MOTIF, bases[:, window])
    angles = rng.normal(size=(N, 3)) + strengths.angles * start[:, None] + shared.angles * odds[:, None]
    energies = rng.normal(size=(N, 10)) + strengths.energies * start[:, None]
    near = bases[:, SIDE - AROUND : SIDE + AROUND]
    signal = centred_sphere(weighted_degree(near[:, None], near[None, :n]), weighted_degree(near, near))
    flat = [spectrum(bases[:, before]), spectrum(bases[:, after]), angles, energies]
    stack = [signal, *(centred_sphere(F @ F[:n].T, np.sum(F**2, axis=1)) for F in flat)]
    return Sample(np.stack(stack), np.where(start, 1.0, -1.0), n)


def _plant(rng: Generator, bases: Array, words: Array, rate: Array) -> None:
    """Replace words of the bases, in place, each with the probability of its sample."""
    for at in range(0, bases.shape[1] - MERS + 1, MERS):
        hit = np.flatnonzero(rng.random(len(bases)) < rate)
        bases[hit, at : at + MERS] = words[rng.integers(len(words), size=len(hit))]


def centred_sphere(K: Array, diagonal: Array) -> Array:
    """Every sample on the unit sphere around the mean of the first n: from K (N, n) and k(x, x) of all N (4.4.2)."""
    n = K.shape[1]
    means = K.mean(axis=1)
    centre = means[:n].mean()
    lengths = np.sqrt(diagonal - 2.0 * means + centre)
    return np.asarray((K - means[:, None] - means[:n] + centre) / np.outer(lengths, lengths[:n]))


def spectrum(bases: Array) -> Array:
    """Counts of all words of three letters, (N, 64)."""
    codes = sum(bases[:, k : bases.shape[1] - MERS + 1 + k] * 4 ** (MERS - 1 - k) for k in range(MERS))
    return np.stack([np.bincount(row, minlength=4**MERS) for row in codes]).astype(float)


def weighted_degree(x: Array, z: Array, order: int = ORDER, shift: int = SHIFT) -> Array:
    """K(x, z) = sum over k <= order, places l, |s| <= shift of b_k d_s [x at l - k + 1, ..., l is z s places further].

    b_k ~ order - k + 1; d_s = 1 / (2 (|s| + 1)), but 1 at s = 0. Bases are on the last axis, the others are broadcast.
    The run of agreements that ends at l has all its suffixes, so that its length says what the place adds.
    """
    weights = 2.0 * (order - np.arange(order)) / (order * (order + 1.0))
    added = np.concatenate([[0.0], np.cumsum(weights)])
    length = x.shape[-1]
    K = np.zeros(np.broadcast_shapes(x.shape[:-1], z.shape[:-1]))
    for s in range(-shift, shift + 1):
        run = np.zeros(K.shape, dtype=np.int8)
        near = added / (2.0 * (abs(s) + 1.0)) if s else added
        for place in range(max(0, -s), min(length, length - s)):
            run = np.minimum(run + 1, order) * (x[..., place] == z[..., place + s])
            K += near[run]
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
