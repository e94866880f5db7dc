"""Matrices as pictures: alignments of kernels, and the coefficients of mixed-norm synthesis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mklref.exceptions import InvalidInput
from mklref.kernels.diagnostics import KernelReport, alignment as alignment_of
from mklref.plotting.style import axes

LEGIBLE = 12
"""Up to so many kernels the numbers are written into the picture."""
NAMED = 40
"""Up to so many kernels their names are written."""


def alignment(kernels: Any, names: Sequence[str] | None = None, *, ax: Any = None) -> Any:
    """Pairwise alignments of centred kernels as a heat map (Kloft Fig. 4-5).

    Parameters
    ----------
    kernels : KernelReport, or what `mklref.kernels.alignment` takes
        A square matrix is taken for the alignments themselves.
    names : sequence of str, optional
    ax : Axes, optional

    Returns
    -------
    Axes
    """
    if isinstance(kernels, KernelReport):
        matrix, known = kernels.alignment, kernels.names
    else:
        matrix = np.asarray(kernels) if np.ndim(kernels) == 2 else alignment_of(kernels)
        known = getattr(kernels, "names", tuple(f"K{m}" for m in range(len(matrix))))
    M = len(matrix)
    names = known if names is None else names
    if len(names) != M:
        raise InvalidInput(f"{len(names)} names for {M} kernels; give one for each.")
    side = 2.0 + min(0.32 * M, 5.0)
    ax = axes(ax, side + 0.8, side)
    image = ax.imshow(matrix, vmin=0.0, vmax=1.0, cmap="Blues")
    if M <= LEGIBLE:
        for m, row in enumerate(matrix):
            for other, value in enumerate(row):
                ax.text(other, m, f"{value:.2f}", ha="center", va="center", color="w" if value > 0.6 else "k", size=7)
    if M <= NAMED:
        ax.set_xticks(range(M), names, rotation=90)
        ax.set_yticks(range(M), names)
    ax.spines[:].set_visible(True)
    ax.figure.colorbar(image, ax=ax, label="alignment", shrink=0.8)
    return ax


def sparsity(coef: Any, names: Sequence[str] | None = None, *, title: str | None = None, ax: Any = None) -> Any:
    """Which coefficients a mixed norm leaves: |A| / max |A|, one row a kernel, one column a sample (Kowalski Fig. 1-2).

    Parameters
    ----------
    coef : SynthesisSolution, or array (tau, N)
    names : sequence of str, optional
        Of the kernels.
    title : str, optional
        By default the number of coefficients that are left.
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    InvalidInput
        Not a matrix, or another number of names.
    """
    A = np.abs(np.asarray(getattr(coef, "coef", coef), dtype=float))
    if A.ndim != 2:
        raise InvalidInput(f"coef has shape {A.shape}; give coefficients (tau, N), one row for each kernel.")
    if names is not None and len(names) != len(A):
        raise InvalidInput(f"{len(names)} names for {len(A)} kernels; give one for each.")
    ax = axes(ax, 6.0, 0.9 + 0.22 * len(A))
    ax.imshow(A / (A.max() or 1.0), aspect="auto", cmap="Greys", vmin=0.0, vmax=1.0, interpolation="none")
    ax.set_yticks(range(len(A)), [f"K{t}" for t in range(len(A))] if names is None else names)
    ax.spines[:].set_visible(True)
    ax.set_xlabel("sample")
    ax.set_title(title if title is not None else f"{np.count_nonzero(A)} of {A.size} coefficients", loc="left")
    return ax
