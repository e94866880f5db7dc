"""Matrices as pictures: alignments of kernels, the coefficients of synthesis, cross-checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mklref._crosscheck.result import CrossCheck
from mklref._crosscheck.row import NATIVE, Row
from mklref.exceptions import InvalidInput, InvalidType
from mklref.kernels.diagnostics import KernelReport, alignment as alignment_of
from mklref.plotting.style import as_text, axes, colour, named, numbers

LEGIBLE = 12
"""Up to so many kernels the numbers are written into the picture."""
NAMED = 40
"""Up to so many kernels their names are written."""
_SHORT = 18
"""Characters of names that are written along both axes."""


def alignment(kernels: Any, names: Sequence[str] | None = None, *, ax: Any = None) -> Any:
    """Pairwise alignments of centred kernels as a heat map (Kloft Fig. 4-5).

    Parameters
    ----------
    kernels : KernelReport, or what `mklref.kernels.alignment` takes
        A square matrix is taken for the alignments themselves, which lie in [-1, 1]; negative ones are red.
    names : sequence of str, optional
    """
    if isinstance(kernels, KernelReport):
        matrix = kernels.alignment
    else:
        stated = _is_matrix(kernels)
        matrix = numbers(kernels, "kernels") if stated else alignment_of(kernels)
        if stated and (not len(matrix) or matrix.shape != matrix.T.shape):
            raise InvalidInput(f"kernels has shape {matrix.shape}; give alignments (M, M), or kernels (M, n, n).")
        if np.abs(matrix).max() > 1.0 + 1e-8:
            raise InvalidInput(
                f"kernels holds {matrix.flat[np.abs(matrix).argmax()]:g}; alignments lie in [-1, 1]. Give kernels as "
                "(M, n, n)."
            )
    M = len(matrix)
    names = named(getattr(kernels, "names", None) if names is None else names, M)
    side = 2.0 + min(0.32 * M, 5.0)
    ax = axes(ax, side + 0.8, side)
    signed = matrix.min() < -1e-8
    ax.set_facecolor("0.6")  # where a kernel without variance has no alignment
    image = ax.imshow(matrix, vmin=-float(signed), vmax=1.0, cmap="RdBu" if signed else "Blues")
    if M <= LEGIBLE:
        for m, row in enumerate(matrix):
            for other, value in enumerate(row):
                ax.text(
                    other, m, f"{value:.2f}", ha="center", va="center", color="w" if abs(value) > 0.6 else "k", size=7
                )
    if M <= NAMED:
        shown = [as_text(name, _SHORT) for name in names]
        size = "medium" if M <= LEGIBLE else "x-small"
        ax.set_xticks(range(M), shown, rotation=90, fontsize=size)
        ax.set_yticks(range(M), shown, fontsize=size)
    ax.spines[:].set_visible(True)
    ax.figure.colorbar(image, ax=ax, label="alignment", shrink=0.8)
    return ax


def _is_matrix(kernels: Any) -> bool:
    try:
        return np.ndim(kernels) == 2
    except ValueError:  # ragged, which `alignment` says
        return False


def sparsity(coef: Any, names: Sequence[str] | None = None, *, title: str | None = None, ax: Any = None) -> Any:
    """Which coefficients a mixed norm leaves: |A| / max |A|, one row a kernel, one column a sample (Kowalski Fig. 1-2).

    Parameters
    ----------
    coef : SynthesisSolution, or array (tau, N)
    names : sequence of str, optional
        Of the kernels.
    title : str, optional
        By default the number of coefficients that are left.
    """
    A = np.abs(numbers(getattr(coef, "coef", coef), "coef"))
    if A.ndim != 2 or not A.size:
        raise InvalidInput(f"coef has shape {A.shape}; give coefficients (tau, N), one row for each kernel.")
    names = named(names, len(A))
    ax = axes(ax, 6.0, 0.9 + 0.22 * len(A))
    ax.imshow(A / (A.max() or 1.0), aspect="auto", cmap="Greys", vmin=0.0, vmax=1.0, interpolation="none")
    ax.set_yticks(range(len(A)), [as_text(name) for name in names])
    ax.spines[:].set_visible(True)
    ax.set_xlabel("sample")
    ax.set_title(title if title is not None else f"{np.count_nonzero(A)} of {A.size} coefficients", loc="left")
    return ax


BELOW = 1e-16
"""Distances below this are drawn here: the axis is logarithmic."""


def intervals(check: CrossCheck, *, ax: Any = None) -> Any:
    """Values and certified intervals of all rows of a cross-check, relative to where they together place the optimum.

        to the left    (common upper bound - lower bound of the row) / |optimum|
        to the right   (upper bound of the row - common lower bound) / |optimum|

    on logarithmic axes that meet in the middle: a thick line for the polished point, a thin one for the solver's own,
    and a diamond for the value that the solver states. A row is as good as its line is short. All intervals contain
    the optimum and overlap; a row that contradicts that is drawn in red.

    Parameters
    ----------
    check : CrossCheck
        What `mklref.crosscheck` returns.
    """
    if not isinstance(check, CrossCheck):
        raise InvalidType(f"check is {type(check).__name__}; give what mklref.crosscheck returns.")
    ax = axes(ax, 6.4, 0.9 + 0.22 * len(check.rows))
    draw_intervals(ax, check, lambda row: colour(0 if row.formulation == NATIVE else 7), "#c00000")
    return ax


def draw_intervals(ax: Any, check: CrossCheck, shade: Callable[[Row], str], wrong: str) -> None:
    """What `intervals` shows, in these colours."""
    low, high = check.interval
    middle, scale = 0.5 * (low + high), check.size or 1.0
    rows = [row for row in check.rows if row.solution is not None]
    for place, row in enumerate(rows):
        assert row.raw is not None
        assert row.solution is not None
        look = {"color": wrong if check.contradiction(row) else shade(row), "solid_capstyle": "butt"}
        for point, width in ((row.raw, 0.8), (row.solution, 2.5)):
            bounds = point.certificate
            ends = -_place((high - bounds.lower) / scale), _place((bounds.upper - low) / scale)
            ax.plot(ends, [place, place], linewidth=width, **look)
            ax.plot(ends, [place, place], "|", markersize=4 + 2 * width, markeredgewidth=width, color=look["color"])
        off = (row.value - middle) / scale
        ax.plot([np.sign(off) * _place(abs(off))], [place], "D", markersize=4, color=look["color"], mfc="none")
    ax.axvline(0.0, color="0.5", linewidth=0.8)
    ax.set_yticks(range(len(rows)), [row.label for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    _decades(ax)
    ax.set_xlabel(f"lower bound - P*   |   upper bound - P*,  relative\nP* = {middle:.9g}")


def _place(distance: float) -> float:
    """Decades above `BELOW`."""
    return float(np.log10(max(distance, BELOW) / BELOW))


def _decades(ax: Any) -> None:
    """Ticks at powers of ten, to both sides."""
    reach = max(abs(limit) for limit in ax.get_xlim())
    exponents = np.arange(-14, np.ceil(np.log10(BELOW) + reach) + 1, 4)
    places = exponents - np.log10(BELOW)
    labels = [f"$10^{{{int(e)}}}$" for e in exponents]
    ax.set_xticks([*-places[::-1], 0.0, *places], [*(f"-{label}" for label in labels[::-1]), "0", *labels])
    ax.set_xlim(-1.03 * reach, 1.03 * reach)
