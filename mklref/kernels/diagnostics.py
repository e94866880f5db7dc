"""What can be said of kernels before anything is learned: which repeat others, which cannot help, which are ill scaled.

With H = I - 11'/n, so that HKH are inner products around the mean of the samples:

    alignment        A_ml = <HK_mH, HK_lH>_F / (||HK_mH||_F ||HK_lH||_F)         Kloft 5.3, 5.4, Fig. 4-5; in [0, 1]
    target           <HK_mH, yy'>_F / (||HK_mH||_F ||Hy||^2)                     Cristianini et al. (2002), centred
    effective rank   (tr HK_mH)^2 / ||HK_mH||_F^2 = (sum of eigenvalues)^2 / sum of their squares, in [1, rank]
    variance         tr(HK_mH) / n, the mean squared distance from the mean      Kloft (25)
    dominated        H(K_m - K_l)H is positive semidefinite: beta'K_l beta <= beta'K_m beta whenever 1'beta = 0

Around the mean because an intercept makes everything else invisible to the machine: all but that of nu one-class
learning, where 1'beta = 1, and a constant kernel competes with the others for weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._names import require_one_order
from mklref._typing import Array
from mklref._validate import as_array, checked_flag, checked_names, require_unmasked
from mklref.exceptions import InvalidTarget
from mklref.kernels.factorisation import factorises
from mklref.kernels.stack import KernelStack, stack

SAME, NEARLY = 1.0 - 1e-10, 0.999
"""Alignments from which two kernels are called multiples, and near multiples, of one another."""
SPREAD = 10.0
"""Ratio of variances from which kernels are called badly scaled."""
MEMORY = 0.9
"""The share of n in the effective rank from which a kernel is called one that memorises."""
_BLOCK = 1 << 22
"""Entries of the stack that are read at a time."""


@dataclass(frozen=True)
class Relation:
    """Two kernels of which one repeats or dominates the other."""

    first: int
    second: int
    alignment: float
    factor: float
    """K_second is about factor K_first, by their norms."""


@dataclass(frozen=True)
class KernelReport:
    """The numbers of each kernel, the relations between them, and what they mean in words."""

    names: tuple[str, ...]
    n_samples: int
    alignment: Array
    """A, (M, M), nonnegative; nan for a kernel that is constant on the samples."""
    target_alignment: Array | None
    """(M,), or None without targets."""
    effective_rank: Array
    """(M,), in [1, n]; nan for a constant kernel."""
    variance: Array
    """(M,)."""
    constant: tuple[int, ...]
    """Kernels that are constant on the samples: with an intercept they change nothing where 1'beta = 0."""
    duplicates: tuple[Relation, ...]
    """Pairs of multiples."""
    near_duplicates: tuple[Relation, ...]
    """Pairs that are aligned to more than 0.999."""
    dominated: tuple[Relation, ...]
    """`second` is dominated by `first`; only pairs that are no equal copies."""

    @property
    def findings(self) -> tuple[str, ...]:
        """What deserves attention, each with what to do about it; empty if nothing does."""
        repeated = {r.second for r in self.duplicates}  # of which the first copy says it all
        found = [
            *(
                f"{self.names[m]} is constant on the samples: with an intercept it changes nothing, but for one class, "
                "where it takes the weight of others. Drop it."
                for m in self.constant
            ),
            *(
                f"{self.names[r.second]} is {_times(r.factor, 1e-6)}{self.names[r.first]}: only a combination of their "
                "two weights can be learned. Drop one."
                for r in self.duplicates
                if r.first not in repeated
            ),
            *(
                f"{self.names[r.second]} is nearly {_times(r.factor, 0.05)}{self.names[r.first]} (alignment "
                f"{r.alignment:.4f}): their weights can be exchanged at little cost. Do not read much into either."
                for r in self.near_duplicates
                if not {r.first, r.second} & repeated
            ),
            *(
                f"{self.names[r.second]} is dominated by {self.names[r.first]}: at p = 1 it never needs a weight "
                "beside an intercept. Normalise the kernels, or drop it."
                for r in self.dominated
                if not {r.first, r.second} & repeated
            ),
            *self._scales(),
            *(
                f"{self.names[m]} has effective rank {self.effective_rank[m]:.0f} of {self.n_samples - 1}: each sample "
                "is alike to itself only, so it can memorise and hardly predict. Take a larger width."
                for m in np.flatnonzero(self.effective_rank > MEMORY * (self.n_samples - 1))
            ),
        ]
        return tuple(found)

    def _scales(self) -> list[str]:
        varying = np.delete(np.arange(len(self.names)), self.constant)
        if len(varying) < 2:
            return []
        small, large = (varying[pick(self.variance[varying])] for pick in (np.argmin, np.argmax))
        ratio = self.variance[large] / self.variance[small]
        if ratio <= SPREAD:
            return []
        return [
            f"the variance of {self.names[large]} is {ratio:.3g} times that of {self.names[small]}: a function costs "
            "less there, whatever the data say. Normalise with 'multiplicative'."
        ]

    def __str__(self) -> str:
        width = max(map(len, self.names))
        target = "" if self.target_alignment is None else "  target"
        lines = [f"{'kernel':<{width}}  variance  eff. rank{target}  closest"]
        others = np.where(np.eye(len(self.names), dtype=bool) | np.isnan(self.alignment), -1.0, self.alignment)
        for m, name in enumerate(self.names):
            near = int(others[m].argmax())
            closest = f"{others[m, near]:.3f} {self.names[near]}" if others[m, near] >= 0.0 else "-"
            own = "" if self.target_alignment is None else f"  {self.target_alignment[m]:6.3f}"
            lines.append(f"{name:<{width}}  {self.variance[m]:8.3g}  {self.effective_rank[m]:9.1f}{own}  {closest}")
        return "\n".join([*lines, *(f"- {finding}" for finding in self.findings)])


def _times(factor: float, room: float) -> str:
    return "the same as " if abs(factor - 1.0) < room else f"{factor:.3g} times "


def alignment(kernels: Any, *, centered: bool = True) -> Array:
    """Pairwise alignments of kernels, cosines with respect to the Frobenius inner product (Kloft Fig. 4-5).

    Parameters
    ----------
    kernels : array (M, n, n), sequence of (n, n) arrays, or KernelStack
    centered : bool
        Of HKH, as Kloft takes them; otherwise of the matrices as they are.

    Returns
    -------
    array (M, M)
        Symmetric with unit diagonal and entries in [0, 1]; nan for a kernel that is (constant or) zero.

    Raises
    ------
    InvalidKernel, InvalidType
        As `stack` does; a `centered` that is no bool.
    """
    return _cosines(_moments(stack(kernels), checked_flag("centered", centered))[0])


def diagnose(kernels: Any, y: Any = None) -> KernelReport:
    """Look at kernels before anything is learned from them; costs M^2 n^2 / 2 operations.

    Where one kernel may dominate another, n^3 / 3 more for the pair, and two matrices of order n at a time.

    A kernel is called constant where "multiplicative" refuses it: the variance is below 8 n rounding errors of k(x, x).

    Parameters
    ----------
    kernels : array (M, n, n), sequence of (n, n) arrays, or KernelStack
    y : array (n,), optional
        Targets, for the alignment with them: labels or numbers.

    Returns
    -------
    KernelReport
        `print` shows a table with one line for each kernel, and the findings.

    Raises
    ------
    InvalidKernel, InvalidType
        As `stack` does; a masked y.
    InvalidTarget
        y is not a finite vector with one entry for each sample, in the order of the kernels, or constant.
    """
    given = stack(kernels)
    require_unmasked(y=y)
    require_one_order({"kernels": kernels, "y": y}, InvalidTarget, given.sample_names)
    n = given.shape[1]
    products, sums, units = _moments(given, centered=True)
    traces = given.traces() - sums.sum(axis=1) / n
    norms = units * np.sqrt(np.diagonal(products))
    rounding = 8.0 * n * float(np.finfo(given.rows([0]).dtype).eps)
    flat = traces <= rounding * np.maximum(given.traces(), np.finfo(float).tiny)
    products[flat] = products[:, flat] = np.nan
    cosines = _cosines(products)
    with np.errstate(divide="ignore", invalid="ignore"):
        ranks = np.where(flat, np.nan, (traces / norms) ** 2)
    pairs = [
        (m, int(other)) for m in range(len(given)) for other in m + 1 + np.flatnonzero(cosines[m, m + 1 :] > NEARLY)
    ]
    relations = [Relation(m, other, cosines[m, other], norms[other] / norms[m]) for m, other in pairs]
    return KernelReport(
        names=checked_names(given.names or None, len(given)),
        n_samples=n,
        alignment=cosines,
        target_alignment=None if y is None else _target_alignment(given, norms, flat, y),
        effective_rank=ranks,
        variance=traces / n,
        constant=tuple(int(m) for m in np.flatnonzero(flat)),
        duplicates=tuple(r for r in relations if r.alignment >= SAME),
        near_duplicates=tuple(r for r in relations if r.alignment < SAME),
        dominated=_dominated(given, cosines, norms, sums, flat),
    )


def _moments(kernels: KernelStack, centered: bool) -> tuple[Array, Array, Array]:
    """(<K_m, K_l>_F/(u_m u_l))_ml of the matrices or of their centred forms, (M, M), the row sums K_m 1, (M, n), and u.

    In units u_m, powers of two near the largest entries: squares of what is far from 1 leave float64. Centred by blocks
    of rows: what <K, L> and (K1)'(L1) have in common would leave few digits of their difference.
    """
    M, n, _ = kernels.shape
    units = np.ldexp(1.0, np.frexp(kernels.own_diagonals.max(axis=1))[1] - 1)
    sums = kernels.apply(np.ones(n))
    means = sums / n if centered else np.zeros((M, n))
    products = np.zeros((M, M))
    step = max(1, _BLOCK // (M * n))
    for start in range(0, n, step):
        index = np.arange(start, min(start + step, n))
        rows = kernels.rows(index) - (means[:, index] - means.mean(axis=1, keepdims=True))[:, :, None]
        rows -= means[:, None, :]
        rows /= units[:, None, None]
        block = rows.reshape(M, -1)
        products += block @ block.T
    return products, sums, units


def _cosines(products: Array) -> Array:
    norms = np.sqrt(np.maximum(np.diagonal(products), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = products / norms / norms[:, None]
    np.fill_diagonal(cosines, np.where(norms > 0.0, 1.0, np.nan))
    return np.clip(cosines, 0.0, 1.0)


def _target_alignment(kernels: KernelStack, norms: Array, flat: Any, y: Any) -> Array:
    given = as_array(y, "y", InvalidTarget)
    try:
        targets = np.asarray([] if np.iscomplexobj(given) else given, dtype=float)
    except (TypeError, ValueError, OverflowError):  # names of classes, no numbers
        targets = np.empty(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        targets = targets / np.abs(targets).max(initial=0.0)  # a cosine has no unit, and squares leave float64
    if targets.shape != (kernels.shape[1],) or not np.isfinite(targets).all() or np.ptp(targets) == 0.0:
        raise InvalidTarget(
            f"y has shape {given.shape}; give one finite number for each of the "
            f"{kernels.shape[1]} samples, not all the same. Classes become numbers by mklref.datasets.encode."
        )
    centred = targets - targets.mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = kernels.quadratic(centred) / (norms * (centred @ centred))
    return np.where(flat, np.nan, cosines)


def _dominated(kernels: KernelStack, cosines: Array, norms: Array, sums: Array, flat: Any) -> tuple[Relation, ...]:
    """Pairs with H(K_m - K_l)H >= 0, among those whose diagonals, norms and traces allow it."""
    M, n, _ = kernels.shape
    diagonals = kernels.own_diagonals - 2.0 / n * sums
    diagonals += sums.sum(axis=1, keepdims=True) / n**2
    found = []
    for m in np.flatnonzero(~flat):
        room = 1e-12 * n * diagonals[m].max()
        smaller = (diagonals <= diagonals[m] + room).all(axis=1) & (norms <= norms[m] * (1.0 + 1e-12)) & ~flat
        for other in np.flatnonzero(smaller):
            if other == m or (cosines[m, other] >= SAME and norms[other] >= norms[m] * (1.0 - 1e-10)):
                continue
            weights = np.zeros(M)
            weights[[m, other]] = 1.0, -1.0
            difference = kernels.combine(weights)
            difference -= difference.mean(axis=1, keepdims=True)
            difference -= difference.mean(axis=0)
            if factorises(difference, room):
                factor = norms[other] / norms[m]
                found.append(Relation(int(m), int(other), float(cosines[m, other]), float(factor)))
    return tuple(found)
