"""Gram matrices that lie on disk, in `np.memmap`, HDF5 or zarr arrays, and are read by rows when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mklref._typing import FloatArray
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidType
from mklref.kernels.stack import KernelStack


class DiskStack(KernelStack):
    """Matrices of which rows are read when they are needed; the cache is that of the operating system.

    Parameters
    ----------
    matrices : array-like (M, n, n), or sequence of array-likes (n, n)
        Anything with `shape`, `dtype` (float32 or float64) and slices of rows: `np.memmap`, `h5py.Dataset`,
        `zarr.Array`. They are taken to be symmetric and positive semidefinite, which certificates say they assume.
    names : sequence of str, optional
        One name for each kernel.

    Raises
    ------
    InvalidType
        Entries that are no float32 or float64.
    InvalidKernel
        Not square, or of different orders.
    """

    costly = True

    def __init__(self, matrices: Any, names: Sequence[str] | None = None) -> None:
        self._whole = None if isinstance(matrices, list | tuple) else matrices
        self._matrices = list(matrices) if self._whole is None else []
        shapes = {tuple(part.shape) for part in self._matrices} if self._whole is None else {tuple(matrices.shape[1:])}
        M = len(self._matrices) if self._whole is None else matrices.shape[0]
        n = max(max(shapes, default=(0,)), default=0)
        if not M or shapes != {(n, n)}:
            raise InvalidKernel(f"matrices have the shapes {sorted(shapes)}; expected M of (n, n), or one (M, n, n).")
        self._shape = M, n, n
        parts = self._matrices if self._whole is None else [matrices]
        self._dtype = np.result_type(*(part.dtype for part in parts))
        if self._dtype not in (np.float32, np.float64):
            raise InvalidType(f"matrices are {self._dtype}; give float32 or float64.")
        self.names = tuple(names) if names is not None else tuple(f"K{m}" for m in range(M))
        if len(self.names) != M:
            raise InvalidKernel(f"{len(self.names)} names for {M} kernels; give one for each.")
        self._files = {path: _state(path) for path in filter(None, map(_path_of, parts))}

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, n, n)."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the arrays."""
        return self._dtype

    def block(self, rows: Any, columns: Any = None, kernels: Any = None) -> FloatArray:
        """Entries K_m[rows, columns] of some kernels, (k, len(rows), len(columns)).

        Raises
        ------
        InvalidInput
            A file changed or vanished since the stack was made, or an entry is not finite; with file or entry.
        """
        M, n, _ = self.shape
        for path, state in self._files.items():
            if _state(path) != state:
                raise InvalidInput(
                    f"{path} {'changed' if path.exists() else 'vanished'} while its kernels were in use, so that what "
                    "was computed with them belongs to other kernels: make the stack again."
                )
        index = np.arange(n)[slice(None) if rows is None else rows]
        some = np.arange(M)[slice(None) if kernels is None else kernels]
        ordered, back = np.unique(index, return_inverse=True)  # HDF5 takes rising indices alone
        where: Any = ordered
        if len(ordered) and ordered[-1] - ordered[0] + 1 == len(ordered):
            where = slice(int(ordered[0]), int(ordered[-1]) + 1)
        chosen = slice(None) if columns is None else columns
        out = np.empty((len(some), len(index), len(np.arange(n)[chosen])), self.dtype)
        for k, m in enumerate(some):
            read = self._matrices[m][where] if self._whole is None else self._whole[int(m), where]
            out[k] = np.asarray(read)[back][:, chosen]
            if not np.isfinite(out[k].sum()) and not np.isfinite(out[k]).all():
                i, j = np.argwhere(~np.isfinite(out[k]))[0]
                column = int(np.arange(n)[chosen][j])
                raise InvalidInput(f"kernel {self.names[m]!r} is {out[k, i, j]} at [{index[i]}, {column}].")
        return out


def _path_of(array: Any) -> Path | None:
    """The file of an array: of a memory map, or of an HDF5 data set."""
    name = getattr(array, "filename", None) or getattr(getattr(array, "file", None), "filename", None)
    return None if name is None else Path(name)


def _state(path: Path) -> tuple[int, int] | None:
    """What changes when a file is written to."""
    if not path.is_file():
        return None
    found = path.stat()
    return found.st_size, found.st_mtime_ns
