r"""The mixed norms and proximity operators of Kowalski, Szafranski and Ralaivola, (4) and (5).

Coefficients A are (tau, N): kernel t, expansion point i. r = 1 groups them by expansion point, r = 2 by kernel.

    Omega(A)  = (1/q) ||A||_{pq;r}^q,       ||A||_{pq;r} = ( sum_g ||A_g||_p^q )^{1/q}
    Omega*(Z) = 0 where ||Z||_{p'inf;r} <= 1, else inf      for q = 1
              = 1/2 ||Z||_{p'2;r}^2                         for q = 2          1/p + 1/p' = 1

Proximity operators are those of mixed norms, on one group in each row, and of losses:

    prox_s(u) = argmin over z of 1/2 ||u - z||^2 + (s/q) ||z||_{pq}^q,      ||z||_{pq}^q = sum_g (sum_j |z_gj|^p)^{q/p}

(Kowalski, Szafranski and Ralaivola, Definition 2 and Proposition 3). The factor 1/q is that of their definition, not
of the name that they give to the operator. Rows may be padded with zeros, which stay zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, wrightomega

from mklref._typing import Array
from mklref._validate import as_float_array, checked_number
from mklref.exceptions import InvalidInput
from mklref.losses import Logistic, Loss, Squared

Entry = TypeVar("Entry", bound=np.generic)

_DUAL = {1: np.inf, 2: 2}
_SQUARABLE = 1e-100


@dataclass(frozen=True)
class MixedNorm:
    """||.||_{pq;r} for p, q, r in {1, 2}, else `InvalidParameter`."""

    p: int
    q: int
    r: int

    def __post_init__(self) -> None:
        for name in ("p", "q", "r"):
            value = getattr(self, name)
            meaning = "1 groups by sample, 2 by kernel." if name == "r" else "the norm ||.||_{pq;r}."
            object.__setattr__(self, name, int(checked_number(name, value, "{1, 2}", meaning, lambda x: x in (1, 2))))

    def groups(self, A: NDArray[Entry]) -> NDArray[Entry]:
        """A with one group in each row: (N, tau) for r = 1, (tau, N) for r = 2; its own inverse."""
        return A.T if self.r == 1 else A

    def group_norms(self, A: Any) -> Array:
        """||A_g||_p, (G,)."""
        return row_norms(self._rows("A", A), self.p)

    def norm(self, A: Any) -> float:
        """||A||_{pq;r}."""
        return float(row_norms(self.group_norms(A)[None], self.q)[0])

    def value(self, A: Any) -> float:
        """Omega(A) = (1/q) ||A||_{pq;r}^q."""
        norms = self.group_norms(A)
        return float(norms.sum()) if self.q == 1 else 0.5 * float(norms @ norms)

    def dual_group_norms(self, Z: Any) -> Array:
        """||Z_g||_{p'}, (G,)."""
        return row_norms(self._rows("Z", Z), _DUAL[self.p])

    def dual_norm(self, Z: Any) -> float:
        """||Z||_{p'q';r}, so that sum(A * Z) <= norm(A) dual_norm(Z) with equality for some A (Hoelder, Theorem 3)."""
        return float(row_norms(self.dual_group_norms(Z)[None], _DUAL[self.q])[0])

    def prox(self, U: Any, s: float) -> Array:
        """Argmin of 1/2 ||U - A||^2 + s Omega(A), (tau, N), for s in [0, inf] (Proposition 3)."""
        step = checked_number("s", s, "[0, inf]", "the weight of Omega.")
        return self.groups(PROX[self.p, self.q](self._rows("U", U), step))

    def _rows(self, label: str, A: Any) -> Array:
        """Anybody's coefficients as groups, or `InvalidInput` and `InvalidType`."""
        array = as_float_array(A, label, InvalidInput)
        if array.ndim != 2:
            raise InvalidInput(f"{label} has shape {array.shape}; expected (tau, N): kernels, expansion points.")
        return self.groups(array.astype(np.float64, copy=False))

    @property
    def separable(self) -> bool:
        """Whether the norm has no groups: p = q."""
        return self.p == self.q

    def __str__(self) -> str:
        return "l1" if self.p == self.q == 1 else "l2" if self.p == self.q else f"l{self.p}{self.q};{self.r}"


def row_norms(rows: Array, order: float) -> Array:
    """||.||_order of each row; squares that would leave float64 are taken in another unit, which changes no digit."""
    unit = 1.0
    if order == 2:
        top = float(np.abs(rows).max(initial=0.0))
        if 0.0 < top < np.inf and not _SQUARABLE < top < 1.0 / _SQUARABLE:
            unit = 2.0 ** (np.frexp(top)[1] - 1)
    return np.asarray(unit * np.linalg.norm(rows / unit if unit != 1.0 else rows, ord=order, axis=1))


_NEWTON_STEPS = 5
"""Of the logistic loss: their errors are log(2) at most, and then at most their squares."""


def soft(u: Array, threshold: Array | float) -> Array:
    """sign(u) max(|u| - threshold, 0), which for p = q = 1 is the operator."""
    return np.asarray(u - np.clip(u, -threshold, threshold))


def prox_l2(u: Array, s: float) -> Array:
    """p = q = 2: u/(1 + s)."""
    return np.asarray(u / (1.0 + s))


def prox_l21(u: Array, s: float) -> Array:
    """p = 2, q = 1: every group is shrunk to max(1 - s/||u_g||, 0) u_g, by its own norm (erratum K8)."""
    norms = row_norms(u, 2)
    lost = np.divide(s, norms, out=np.ones_like(norms), where=norms > s)
    return np.asarray((1.0 - lost)[:, None] * u)


def prox_l12(u: Array, s: float) -> Array:
    """p = 1, q = 2: in every group entries are soft-thresholded at (s/(1 + s M)) sum of its M largest |u_gj|.

    With |u_g| sorted downwards as v_1 >= v_2 >= ..., M is the largest m with v_m > s sum_{j <= m} (v_j - v_m), that is
    (1 + s m) v_m > s (v_1 + ... + v_m). The paper divides the threshold by ||u|| besides (erratum K7).
    """
    return soft(u, elitist_threshold(u, s)[:, None])


def elitist_threshold(u: Array, s: float) -> Array:
    """The threshold of `prox_l12` for each group: sorting costs O(n log n)."""
    one, s = 1.0 / max(1.0, s), min(1.0, s)  # both divided by the larger, which may be beyond float64
    ordered = -np.sort(-np.abs(u), axis=1)
    sums = np.cumsum(ordered, axis=1)
    counts = np.arange(1, u.shape[1] + 1)
    # The test holds exactly for m <= M, and for m = 1 also where rounding hides the 1 beside s.
    M = np.maximum(np.sum((one + s * counts) * ordered > s * sums, axis=1), 1)
    largest = np.take_along_axis(sums, M[:, None] - 1, axis=1)[:, 0]
    return np.asarray(s / (one + s * M) * largest)


PROX: dict[tuple[int, int], Callable[[Array, float], Array]] = {
    (1, 1): soft,
    (2, 2): prox_l2,
    (2, 1): prox_l21,
    (1, 2): prox_l12,
}
"""The operators by (p, q)."""


class Jacobian(NamedTuple):
    """One element of the generalised Jacobian of a proximity operator: P = blockdiag(scale_g I + factor_g v_g v_g').

    It acts on the entries of `support`; all others have zero rows and columns. v_g has norm 1, or 0 where factor_g = 0.
    """

    support: NDArray[np.bool_]
    """Entries that P does not annihilate, (G, members)."""
    scale: Array
    """For each group, (G,)."""
    factor: Array
    """For each group, (G,); negative for p = 1, q = 2, where P is semidefinite nevertheless."""
    direction: Array
    """v, (G, members)."""


def jacobian(u: Array, s: float, p: int, q: int) -> Jacobian:
    """The Jacobian of the operator at u; where it has kinks, one limit of Jacobians.

    l1    I on the entries with |u| > s
    l2    I/(1 + s)
    l21   (1 - s/||u_g||) I + (s/||u_g||) v_g v_g' on groups with ||u_g|| > s,      v_g = u_g/||u_g||
    l12   I - (s M/(1 + s M)) v_g v_g' on the M entries above the threshold,        v_g = sign(u_g)/sqrt(M)
    """
    one, none = np.ones(len(u)), np.zeros(len(u))
    if (p, q) == (1, 1):
        return Jacobian(np.abs(u) > s, one, none, np.zeros_like(u))
    if (p, q) == (2, 2):
        return Jacobian(np.ones(u.shape, dtype=bool), one / (1.0 + s), none, np.zeros_like(u))
    if (p, q) == (2, 1):
        norms = row_norms(u, 2)
        kept = norms > s
        length = np.where(kept, norms, 1.0)
        factor = np.where(kept, s / length, 0.0)
        support = np.broadcast_to(kept[:, None], u.shape)
        return Jacobian(support, np.where(kept, 1.0 - factor, 0.0), factor, (kept / length)[:, None] * u)
    support = np.abs(u) > elitist_threshold(u, s)[:, None]
    M = support.sum(axis=1)
    direction = np.where(support, np.sign(u), 0.0) / np.sqrt(np.maximum(M, 1))[:, None]
    return Jacobian(support, one, -s * M / (1.0 + s * M), direction)


def prox_loss(loss: Loss, v: Array, y: Array, step: float) -> tuple[Array, Array]:
    """The proximity operator of step * V(., y), and its derivative, elementwise.

    squared         (v + step y)/(1 + step)
    squared hinge   the same where y v < 1, and v where y v >= 1
    logistic        y m with m - step/(1 + exp(m)) = y v
    """
    if isinstance(loss, Logistic):
        return _prox_logistic(v, y, step)
    pulled = np.ones(len(v), dtype=bool) if isinstance(loss, Squared) else y * v < 1.0
    moved = np.where(pulled, (v + step * y) / (1.0 + step), v)
    return moved, np.where(pulled, 1.0 / (1.0 + step), 1.0)


def _prox_logistic(v: Array, y: Array, step: float) -> tuple[Array, Array]:
    """m with w = y v and (m - w) (1 + exp(m)) = step, to the last digits for every step: Newton's method.

    m(w) = -m(-w - step), so that w >= -step/2 and m >= 0 are enough: 1/(1 + exp(m)) keeps its digits there. Without
    the 1 the solution is closed, by Wright's omega function, and larger by log(2) at most.
    """
    w = y * v
    mirrored = w < -0.5 * step
    w = np.where(mirrored, -w - step, w)
    excess = wrightomega(np.log(step) - w)
    with np.errstate(divide="ignore"):  # where w is large, and m = w + excess
        m = np.where(w < 0.0, np.log(step) - np.log(excess), w + excess)
    for _ in range(_NEWTON_STEPS):
        share = expit(-m)
        m = m - (m - step * share - w) / (1.0 + step * share * (1.0 - share))
    share = expit(-m)
    return y * np.where(mirrored, -m, m), 1.0 / (1.0 + step * share * (1.0 - share))
