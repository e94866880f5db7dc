"""Data whose truth is known, drawn with a generator of random numbers that the caller seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import (
    as_float_array,
    checked_choice,
    checked_flag,
    checked_integer,
    checked_number,
    checked_rng,
    shown,
)
from mklref.datasets.record import Cells, Generated
from mklref.exceptions import InvalidParameter

SOURCE = "generated"
_MOST = 10**9
"""Of each number: beyond, NumPy has no words but of its own for arrays that no memory holds."""


def kloft_toy(rng: np.random.Generator, n: int, *, relevant: int, d: int = 50, separation: float = 1.75) -> Generated:
    """Two Gaussian classes that differ in the first `relevant` of d variables (Kloft et al. 5.1, Fig. 1-2).

        x | y  ~  N(y mu, I),    mu = separation theta / ||theta||_2,    theta_m = 1 for m <= relevant, else 0

    The fraction of noise is nu = 1 - relevant / d, and the error of Bayes is Phi(-separation) = 4.0 % whatever nu
    is. The paper takes n = 50 and 800, and one linear kernel, multiplicatively normalised, for each variable.

    Parameters
    ----------
    rng : numpy.random.Generator
    n : int
        Number of samples, even: the classes are balanced.
    relevant : int
        Number of variables that matter, in [1, d].
    d : int
        Number of variables.
    separation : float
        Half the distance of the means, rho in the paper.

    Returns
    -------
    Generated
        y in {-1, +1}, and theta as `truth`.

    Raises
    ------
    InvalidType, InvalidParameter
        n is odd, or a number is out of its range.
    """
    _check(rng, n=(n, 2), d=(d, 1), relevant=(relevant, 1, d))
    separation = _finite("separation", separation)
    if n % 2:
        raise InvalidParameter(f"n = {n} is odd; the classes are balanced, take {n + 1}.")
    theta = (np.arange(d) < relevant).astype(float)
    y = rng.permutation(np.repeat([-1.0, 1.0], n // 2))
    X = rng.normal(size=(n, d)) + np.outer(y, separation * theta / np.linalg.norm(theta))
    return Generated(f"toy[{relevant}/{d}]", X, y, _numbered(d), SOURCE, truth=theta)


def two_norm(rng: np.random.Generator, n: int, *, d: int = 20) -> Generated:
    """Two Gaussian classes N(+-a 1, I) with a = 2 / sqrt(d); y in {-1, +1}, each with probability 1/2.

    Every variable says equally much, and the error of Bayes is Phi(-2) = 2.3 %. L. Breiman (1996), d = 20.
    """
    _check(rng, n=(n, 2), d=(d, 1))
    y = rng.choice([-1.0, 1.0], size=n)
    X = rng.normal(size=(n, d)) + 2.0 / np.sqrt(d) * y[:, None]
    return Generated("two-norm", X, y, _numbered(d), SOURCE, truth=np.ones(d))


def waveform(rng: np.random.Generator, n: int) -> Generated:
    """Three classes of mixtures of two triangular waves, 21 variables; y in {0, 1, 2}.

        x_i = u h_a(i) + (1 - u) h_b(i) + e_i,   h_c(i) = max(6 - |i - c|, 0),   u ~ U(0, 1),   e_i ~ N(0, 1)

    with the peaks (a, b) = (7, 15), (7, 11) and (11, 15) for the classes 0, 1 and 2. L. Breiman et al. (1984), in the
    numbering of the classes of UCI's waveform. `truth` is the standard deviation of the class means.
    """
    _check(rng, n=(n, 3))
    a, b = np.array([7.0, 7.0, 11.0]), np.array([15.0, 11.0, 15.0])
    y = rng.integers(3, size=n)
    u = rng.uniform(size=(n, 1))
    X = u * _triangle(a[y]) + (1.0 - u) * _triangle(b[y]) + rng.normal(size=(n, 21))
    means = (_triangle(a) + _triangle(b)) / 2.0
    return Generated("waveform", X, y.astype(float), _numbered(21), SOURCE, truth=means.std(axis=0))


LENGTH = 512
_STEPS = (0.10, 0.13, 0.15, 0.23, 0.25, 0.40, 0.44, 0.65, 0.76, 0.78, 0.81)
_HEIGHTS = (4.0, -5.0, 3.0, -4.0, 5.0, -4.2, 2.1, 4.3, -3.1, 2.1, -4.2)
_PEAKS = ((1.0, 500.0, 0.23), (2.0, 2000.0, 0.33), (4.0, 8000.0, 0.47), (3.0, 16000.0, 0.69), (1.0, 32000.0, 0.83))

SIGNALS: Mapping[str, Callable[[Array], Any]] = MappingProxyType(
    {
        "LinChirp": lambda x: np.sin(np.pi * LENGTH * x**2 / 8.0),
        "Wave": lambda x: 0.5 + 0.2 * np.cos(4.0 * np.pi * x) + 0.1 * np.cos(24.0 * np.pi * x),
        "Blocks": lambda x: sum(h * (1.0 + np.sign(x - t)) / 2.0 for h, t in zip(_HEIGHTS, _STEPS, strict=True)),
        "Spikes": lambda x: 15.6676 * sum(c * np.exp(-w * (x - t) ** 2) for c, w, t in _PEAKS),
    }
)
"""The signals by name, each a function of positions in [0, 1]."""


def signal(name: str, x: Any) -> Array:
    """The true signal at positions x in [0, 1], of the shape of x (SimpleMKL 5.2, Fig. 6).

        LinChirp   sin(pi l x^2 / 8)  with l = 512, the length of the signals: its frequency grows to l / 8
        Wave       1/2 + cos(4 pi x) / 5 + cos(24 pi x) / 10
        Blocks     sum_j h_j (1 + sign(x - t_j)) / 2
        Spikes     15.6676 sum_j c_j exp(-w_j (x - t_j)^2)

    SimpleMKL refers to A. Antoniadis and J. Fan (2001) for them; the formulas are those of D. Donoho and I. Johnstone
    (1994) for Blocks, of the WaveLab collection for LinChirp, and of A. Antoniadis, J. Bigot and T. Sapatinas (2001)
    for Wave and Spikes.

    Raises
    ------
    InvalidType, InvalidParameter
        Unknown name, or a position outside of [0, 1].
    """
    x = as_float_array(x, "x", InvalidParameter)
    if not ((x >= 0.0) & (x <= 1.0)).all():
        raise InvalidParameter("x holds positions outside of [0, 1], where the signals live; rescale them.")
    return np.asarray(SIGNALS[checked_choice("name", name, SIGNALS)](x))


def noisy_signal(
    rng: np.random.Generator, name: str, n: int = LENGTH, *, snr: float = 5.0, regular: bool = False
) -> Generated:
    """A signal of `SIGNALS` at n positions of [0, 1], with Gaussian noise (SimpleMKL 5.2, Fig. 6).

        y_i = f(x_i) + e_i,    standard deviation of e = (standard deviation of f over the positions) / snr

    Parameters
    ----------
    rng : numpy.random.Generator
    name : str
        LinChirp, Wave, Blocks or Spikes.
    n : int
        Number of positions; the paper takes 512.
    snr : float
        Signal-to-noise ratio, of standard deviations; the paper takes 5 and does not define it.
    regular : bool
        Positions i / n instead of sorted uniform draws.

    Raises
    ------
    InvalidType, InvalidParameter
        Unknown signal, or a number is out of its range.
    """
    _check(rng, n=(n, 2))
    snr = checked_number("snr", snr, "[1e-100, inf]", "inf means no noise.")
    x = np.arange(1, n + 1) / n if checked_flag("regular", regular) else np.sort(rng.uniform(size=n))
    f = signal(name, x)
    y = f + rng.normal(scale=f.std() / snr, size=n)
    return Generated(name, x[:, None], y, ("x",), SOURCE)


def p300(
    rng: np.random.Generator,
    n: int = 567,
    *,
    channels: int = 64,
    frames: int = 14,
    relevant: int = 8,
    amplitude: float = 0.5,
    correlation: float = 0.6,
) -> Generated:
    """Signals of `channels` electrodes in `frames` time frames, some of which respond to a stimulus (Szafranski 6.2).

        x_ct = amplitude [y = 1] s_c b_t + e_ct,    b_t = exp(-(t - peak)^2 / 2) at peak = 0.45 (frames - 1)

    One stimulus in six is answered (y = +1), as in the P300 speller, where two of twelve rows and columns hold the
    letter. The sensitivities s_c of the `relevant` channels, drawn at random, lie in [1/2, 1], those of the others
    are 0. The noise e has variance 1 and correlation^|t - t'| along a channel, so frames near the peak repeat one
    another. The variables, channel by channel, form one group for each channel, like the kernels of the paper: 64
    channels of 14 frames, 567 samples for training. This is a stand-in of our own for the recordings, and nothing
    about it is fitted to them.

    Returns
    -------
    Generated
        y in {-1, +1}; `groups` numbers the channel of each variable; `truth` is amplitude s_c b_t.

    Raises
    ------
    InvalidType, InvalidParameter
        A number is out of its range.
    """
    _check(rng, n=(n, 6), channels=(channels, 1), frames=(frames, 1), relevant=(relevant, 0, channels))
    amplitude = _finite("amplitude", amplitude)
    correlation = checked_number("correlation", correlation, "[0, 1)", "that of noise one frame apart.")
    y = rng.permutation(np.where(np.arange(n) < round(n / 6), 1.0, -1.0))
    sensitivity = np.zeros(channels)
    sensitivity[rng.permutation(channels)[:relevant]] = rng.uniform(0.5, 1.0, size=relevant)
    t = np.arange(frames)
    bump = np.exp(-((t - 0.45 * (frames - 1)) ** 2) / 2.0)
    response = amplitude * np.outer(sensitivity, bump)
    root = np.linalg.cholesky(correlation ** np.abs(t[:, None] - t))
    noise = rng.normal(size=(n, channels, frames)) @ root.T
    X = np.where(y > 0.0, 1.0, 0.0)[:, None, None] * response + noise
    names = tuple(f"channel {c + 1}[{frame + 1}]" for c in range(channels) for frame in t)
    groups = np.repeat(np.arange(channels), frames)
    return Generated("P300-like", X.reshape(n, -1), y, names, SOURCE, truth=response.ravel(), groups=groups)


def single_cells(
    rng: np.random.Generator,
    n: int,
    *,
    sets: tuple[int, int, int] = (200, 80, 20),
    relevant: tuple[int, int, int] = (3, 2, 1),
    sizes: tuple[int, int] = (4, 12),
    noise: float = 1.0,
) -> Cells:
    """Cells of which genes, peaks and proteins are counted, in sets that are active together; y is made of a few sets.

        activity   a_ik = 0.6 u_{i,q(k)} + 0.8 e_ik     of set k in cell i, with one programme q for ten sets
        genes      log(1 + 10^4 g_ij / sum_j g_ij),     g ~ Poisson(d_i exp(b_j + s_ij / 2)), depth d and level b
        peaks      0 or 1, open with the odds exp(s_ij - 1.5)
        proteins   log(1 + g_ij),                       g ~ Poisson(d_i exp(3 + b_j / 3 + s_ij / 2))
        label      the sign of sum_k sigma_k a_ik + noise e_i over the relevant sets, around its median

    where s_ij is the sum of the activities of the sets that feature j is in. The features of a set are of one
    modality, drawn from six for each of its sets, so that sets overlap. Nothing about it is fitted to recordings.

    Parameters
    ----------
    rng : numpy.random.Generator
    n : int
        Number of cells.
    sets, relevant : tuple of int
        Sets of genes, of peaks and of proteins, and how many of each y is made of.
    sizes : tuple of int
        Features of the smallest and of the largest set.
    noise : float
        Standard deviation of what y has of its own, beside 1 for each relevant set.

    Returns
    -------
    Cells
        y in {-1, +1}; `sets` has the features of each set, `relevant` the sets that matter, and `truth` of how many of
        these each feature is a part.

    Raises
    ------
    InvalidType, InvalidParameter
        A number is out of its range.
    """
    _check(rng, n=(n, 4))
    noise = _finite("noise", noise)
    for name, given, length in (("sets", sets, 3), ("relevant", relevant, 3), ("sizes", sizes, 2)):
        if not isinstance(given, Sequence) or len(given) != length:
            raise InvalidParameter(f"{name} = {shown(given)} must be {length} integers.")
    for kind, count, few in zip(_MODALITIES, sets, relevant, strict=True):
        _check(rng, **{f"sets of {kind}": (count, 2), f"relevant sets of {kind}": (few, 0, count)})
    _check(rng, **{"sizes[0]": (sizes[0], 1), "sizes[1]": (sizes[1], sizes[0], 6 * min(sets))})
    first, total = np.cumsum([0, *sets]), sum(sets)
    programmes = rng.normal(size=(n, -(-total // 10)))
    activity = 0.6 * programmes[:, rng.integers(programmes.shape[1], size=total)] + 0.8 * rng.normal(size=(n, total))
    depth = np.exp(0.3 * rng.normal(size=(n, 1)))
    chosen = np.concatenate(
        [start + rng.permutation(k)[:few] for start, k, few in zip(first[:-1], sets, relevant, strict=True)]
    )
    score = activity[:, chosen] @ rng.choice([-1.0, 1.0], size=len(chosen)) + noise * rng.normal(size=n)
    values, members, names = [], {}, []
    for kind, start, count in zip(_MODALITIES, first[:-1], sets, strict=True):
        own = [f"{kind[:-1]} {j + 1}" for j in range(6 * count)]
        inside = np.zeros((count, len(own)))
        for k in range(count):
            picked = np.sort(rng.permutation(len(own))[: rng.integers(sizes[0], sizes[1] + 1)])
            inside[k, picked] = 1.0
            members[f"{kind} set {k + 1}"] = tuple(own[j] for j in picked)
        values.append(_counted(rng, kind, activity[:, start : start + count] @ inside, depth))
        names += own
    every = list(members)
    matters = tuple(every[k] for k in sorted(chosen.tolist()))
    truth = np.array([sum(name in members[one] for one in matters) for name in names], dtype=float)
    y, X = np.where(score > np.median(score), 1.0, -1.0), np.hstack(values)
    return Cells("single cells", X, y, tuple(names), SOURCE, truth=truth, sets=members, relevant=matters)


_MODALITIES = ("genes", "peaks", "proteins")


def _counted(rng: np.random.Generator, kind: str, s: Array, depth: Array) -> Array:
    level = rng.normal(size=s.shape[1])
    if kind == "peaks":
        return (rng.random(s.shape) < 1.0 / (1.0 + np.exp(1.5 - s))).astype(float)
    if kind == "proteins":
        return np.asarray(np.log1p(rng.poisson(depth * np.exp(3.0 + level / 3.0 + s / 2.0))))
    counts = rng.poisson(depth * np.exp(level + s / 2.0))
    return np.asarray(np.log1p(1e4 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)))


def _numbered(d: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(1, d + 1))


def _triangle(peak: Array) -> Array:
    return np.maximum(6.0 - np.abs(np.arange(1.0, 22.0) - peak[:, None]), 0.0)


def _finite(name: str, value: float) -> float:
    return checked_number(name, value, "[-1e100, 1e100]", "a number of a usual size.")


def _check(rng: np.random.Generator, **counts: tuple[int, ...]) -> None:
    """Refuse what is no generator, and integers outside of their bounds: value, least and, if there is one, most."""
    checked_rng(rng)
    for name, (value, low, *high) in counts.items():
        most = min(*high, _MOST) if high else _MOST
        checked_integer(value, low, most, f"{name} = {shown(value)} must be an integer in [{low}, {most}].")
