"""Kernels of one variable that are spanned by wavelets (SimpleMKL 5.2).

    psi_js(x) = 2^(j/2) psi(2^j u - s),    u = (x - low)/(high - low)

    all          k(x, z)    = sum_j sum_s 2^-j psi_js(x) psi_js(z)
    dil          k_J(x, z)  = sum_s 2^-J psi_Js(x) psi_Js(z)               one kernel a scale, K_Dil of the paper
    dil_trans    k_JS(x, z) = sum_{s in S} 2^-J psi_Js(x) psi_Js(z)        contiguous sets S of s, K_Dil-Trans

Large j is fine: the factor 2^-j damps fine scales, and cancels the 2^(j/2) of both wavelets, so that all scales have
entries of one size. s runs over all translations whose support meets [low, high]. The kernels of `dil_trans` on a scale
sum to its kernel of `dil`, and these sum to that of `all`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_array, checked_choice, checked_integer, checked_members, required, shown
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType
from mklref.kernels.base import Kernel, KernelFamily
from mklref.kernels.families import on_all_variables

KINDS = ("dil", "dil_trans", "all")

_REFINEMENT = 12
"""The mother wavelet is tabulated at multiples of 2^-12, and linear between."""

_LARGEST_LEVEL = 20


def wavelet(
    kind: str = "dil",
    levels: Iterable[int] = range(-3, 7),
    *,
    mother: str = "sym6",
    sets: int = 10,
    domain: tuple[float, float] = (0.0, 1.0),
) -> KernelFamily:
    """Wavelet kernels of SimpleMKL 5.2, on one variable; on several with `per_variable` or `on`.

    Parameters
    ----------
    kind : {"dil", "dil_trans", "all"}
        One kernel a scale; one for each set of translations of each scale; or one kernel.
    levels : iterable of int
        The scales j, from -20 to 20. The paper has -3, ..., 6.
    mother : str
        Name of an orthogonal wavelet of PyWavelets; the paper has the symmlet with 6 vanishing moments.
    sets : int
        "dil_trans" splits the translations of scale j into min(2^j, sets) sets, at least one, of equal size up to one.
        The paper says only that it has 48 kernels; with 10 sets the scales -3, ..., 6 have 48.
    domain : pair of float
        The interval of the training samples.

    Raises
    ------
    InvalidType, InvalidParameter
        An unknown kind or wavelet, a scale that is no integer in [-20, 20], sets < 1, or an empty domain.
    MissingExtra
        PyWavelets is not installed.
    """
    checked_choice("kind", kind, KINDS)
    if not isinstance(mother, str):
        raise InvalidType(f"mother is {shown(mother)} ({type(mother).__name__}); give a name, such as 'sym6'.")
    given = checked_members("levels", levels, "give the scales, for instance range(-3, 7).")
    says, most = f"must be an integer in [-{_LARGEST_LEVEL}, {_LARGEST_LEVEL}].", _LARGEST_LEVEL
    scales = tuple(checked_integer(level, -most, most, f"level {shown(level)} {says}") for level in given)
    if not scales or len(set(scales)) < len(scales):
        raise InvalidParameter(f"levels = {scales} must hold at least one scale, and each one once.")
    sets = checked_integer(sets, 1, np.inf, f"sets = {shown(sets)} must be a positive integer.")
    low, high = checked_array(domain, "domain", (2,)).tolist()
    if not low < high:
        raise InvalidParameter(f"domain = {domain!r} must be (low, high) with finite low < high.")
    support = round(float(_tabulated(mother)[0][-1]))
    atoms = []
    for j in scales:
        most = max(1, int(2.0**j))
        meeting = np.arange(1 - support, most)  # the interval (s, s + support) meets (0, 2^j)
        parts = min(most, sets) if kind == "dil_trans" else 1
        atoms += [(j, int(part[0]), int(part[-1])) for part in np.array_split(meeting, parts)]
    chosen = [tuple(atoms)] if kind == "all" else [(atom,) for atom in atoms]
    return on_all_variables([Wavelet(mother, own, kind, low, high) for own in chosen], "levels")


@dataclass(frozen=True)
class Wavelet(Kernel):
    """k(x, z) = sum over the given scales j and translations first <= s <= last of 2^-j psi_js(x) psi_js(z)."""

    definite = True

    mother: str
    atoms: tuple[tuple[int, int, int], ...]
    """(j, first, last)."""
    kind: str
    low: float
    high: float

    def features(self, X: Array) -> Array:
        """2^(-j/2) psi_js(x) = psi(2^j u - s), (k, number of wavelets)."""
        if X.shape[1] != 1:
            raise InvalidInput(
                f"wavelet kernels take one variable, X has {X.shape[1]}: write per_variable(wavelet(...)), or "
                "on(NAME, COLUMN, wavelet(...)) for one of them."
            )
        u = (X - self.low) / (self.high - self.low)
        grid, psi = _tabulated(self.mother)
        parts = [2.0**j * u - np.arange(first, last + 1) for j, first, last in self.atoms]
        return np.interp(np.concatenate(parts, axis=1), grid, psi, left=0.0, right=0.0)

    def cross(self, X: Array, Z: Array) -> Array:
        return np.asarray(self.features(X) @ self.features(Z).T)

    def gram(self, X: Array) -> Array:
        """Inner products of the features of samples that lie in the domain."""
        outside = np.flatnonzero(np.any(np.clip(X, self.low, self.high) != X, axis=1))
        if X.shape[1] == 1 and outside.size:
            x = float(X[outside[0], 0])
            raise InvalidInput(
                f"training sample {outside[0]} is {x:g}, outside the domain [{self.low:g}, {self.high:g}] of the "
                f"wavelets: give domain=({X.min():g}, {X.max():g}), as text domain={X.min():g}..{X.max():g}, or scale "
                "the variable, for instance with MinMaxScaler."
            )
        F = self.features(X)
        return np.asarray(F @ F.T)

    def diagonal(self, X: Array) -> Array:
        return np.asarray(np.square(self.features(X)).sum(axis=1))

    def name(self, variables: Sequence[str]) -> str:
        (j, first, last), kind = self.atoms[0], self.kind
        detail = {"dil": f":j={j}", "dil_trans": f":j={j}:s={first}..{last}", "all": ""}
        return f"{self.mother}{detail[kind]}"

    def group(self, variables: Sequence[str]) -> str:
        return f"{self.mother} all scales" if self.kind == "all" else f"{self.mother}:j={self.atoms[0][0]}"


@lru_cache(maxsize=16)
def _tabulated(mother: str) -> tuple[Array, Array]:
    """The mother wavelet at the multiples of 2^-12 of its support [0, L].

    phi(x) = sum_m h_m phi(2x - m) fixes phi at the integers up to its sum there, which is 1, and hence at the halves,
    the quarters, ...; psi(x) = sum_m g_m phi(2x - m). Exact but for rounding; PyWavelets' own table is off by 7e-3.
    """
    low_pass, high_pass = _filters(mother)
    length = len(low_pass) - 1
    i, j = np.indices((length + 1, length + 1))
    m = 2 * i - j
    step = np.where(m == np.clip(m, 0, length), low_pass[np.clip(m, 0, length)], 0.0)
    equations = np.vstack([step - np.eye(length + 1), np.ones(length + 1)])
    phi = np.linalg.lstsq(equations, np.eye(length + 2)[-1])[0]
    for _ in range(_REFINEMENT - 1):
        phi = _refined(phi, low_pass)
    return np.linspace(0.0, length, length * 2**_REFINEMENT + 1), _refined(phi, high_pass)


def _refined(phi: Array, taps: Array) -> Array:
    """sum_m taps_m phi(2x - m) on a grid twice as fine as that of phi, where 2x - m are points of phi's own grid."""
    length, points = len(taps) - 1, len(phi) - 1
    fine = np.zeros(2 * points + 1)
    for m, tap in enumerate(taps):
        shift = m * points // length
        fine[shift : shift + points + 1] += tap * phi
    return fine


def _filters(mother: str) -> tuple[Array, Array]:
    """Low and high pass of the refinement equations, (L + 1,) each."""
    pywt = required("pywt", "wavelet kernels need PyWavelets: pip install 'mklref[wavelets]'.")
    if mother not in pywt.wavelist(kind="discrete") or not pywt.Wavelet(mother).orthogonal:
        raise InvalidParameter(
            f"wavelet {mother!r} is not an orthogonal wavelet of PyWavelets: haar, db2 to db38, sym2 to sym20 or "
            "coif1 to coif17, for instance."
        )
    own = pywt.Wavelet(mother)
    return np.sqrt(2.0) * np.array(own.rec_lo), np.sqrt(2.0) * np.array(own.rec_hi)
