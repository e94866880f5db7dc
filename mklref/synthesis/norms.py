r"""The mixed norms of Kowalski, Szafranski and Ralaivola, (4) and (5), with what convex analysis asks of them.

Coefficients A are (tau, N): kernel t, expansion point i. r = 1 groups them by expansion point, r = 2 by kernel.

    Omega(A)  = (1/q) ||A||_{pq;r}^q,       ||A||_{pq;r} = ( sum_g ||A_g||_p^q )^{1/q}
    Omega*(Z) = 0 where ||Z||_{p'inf;r} <= 1, else inf      for q = 1
              = 1/2 ||Z||_{p'2;r}^2                         for q = 2          1/p + 1/p' = 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mklref._typing import Array
from mklref._validate import checked_number
from mklref.synthesis.proximity import PROX

Entry = TypeVar("Entry", bound=np.generic)

_DUAL = {1: np.inf, 2: 2}
_SQUARABLE = 1e-100


@dataclass(frozen=True)
class MixedNorm:
    """||.||_{pq;r} for p, q, r in {1, 2}.

    Raises
    ------
    InvalidParameter
        p, q or r outside {1, 2}.
    """

    p: int
    q: int
    r: int

    def __post_init__(self) -> None:
        for name in ("p", "q", "r"):
            value = getattr(self, name)
            meaning = "1 groups by sample, 2 by kernel." if name == "r" else "the norm ||.||_{pq;r}."
            object.__setattr__(self, name, int(checked_number(name, value, "{1, 2}", lambda x: x in (1, 2), meaning)))

    def groups(self, A: NDArray[Entry]) -> NDArray[Entry]:
        """A with one group in each row: (N, tau) for r = 1, (tau, N) for r = 2; its own inverse."""
        return A.T if self.r == 1 else A

    def group_norms(self, A: Array) -> Array:
        """||A_g||_p, (G,)."""
        return row_norms(self.groups(A), self.p)

    def norm(self, A: Array) -> float:
        """||A||_{pq;r}."""
        return float(row_norms(self.group_norms(A)[None], self.q)[0])

    def value(self, A: Array) -> float:
        """Omega(A) = (1/q) ||A||_{pq;r}^q."""
        norms = self.group_norms(A)
        return float(norms.sum()) if self.q == 1 else 0.5 * float(norms @ norms)

    def dual_group_norms(self, Z: Array) -> Array:
        """||Z_g||_{p'}, (G,)."""
        return row_norms(self.groups(Z), _DUAL[self.p])

    def dual_norm(self, Z: Array) -> float:
        """||Z||_{p'q';r}, so that sum(A * Z) <= norm(A) dual_norm(Z) with equality for some A (Hoelder, Theorem 3)."""
        return float(row_norms(self.dual_group_norms(Z)[None], _DUAL[self.q])[0])

    def prox(self, U: Array, s: float) -> Array:
        """Argmin of 1/2 ||U - A||^2 + s Omega(A), (tau, N) (Proposition 3)."""
        return self.groups(PROX[self.p, self.q](self.groups(U), s))

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
