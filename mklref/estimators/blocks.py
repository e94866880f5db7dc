"""Several blocks of variables on the same samples, such as modalities, as one table whose columns know their block.

    [A, B]                        0:x0, 0:x1, ..., 1:x0, ...
    {"rna": A, "protein": B}      rna:x0, ..., or rna:NAME from the names of a data frame
    a frame with two levels       rna:NAME

`per_group(":", family)` is then the family on each block, on blocks named alike up to a colon together, and
on("rna", "rna:*", family) on one of them.

Sparse samples, of SciPy or as a data frame, serve kernels of the products x'z, linear and polynomial ones and what is
composed of them. The products are those of sparse matrices; they and the kernels are dense, as training matrices are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from mklref._files import ending
from mklref._names import require_one_order
from mklref._typing import Array, FloatArray
from mklref._untrusted import require_room
from mklref._validate import as_array, checked_flag, is_sparse, require_read, require_unmasked, required
from mklref.exceptions import InvalidInput, InvalidType, UnsafeFile
from mklref.kernels.base import Composite, Kernel
from mklref.kernels.evaluation import Block, Samples
from mklref.kernels.fitted import FittedFamily, holds_times


class Joined:
    """A matrix with names of columns, as a data frame has them; it needs no pandas."""

    def __init__(self, X: Any, columns: tuple[str, ...], index: Any = None) -> None:
        self._X, self.columns, self.index = X, columns, index
        self.shape = X.shape

    def __len__(self) -> int:
        return len(self._X)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._X, dtype=dtype)

    def __getitem__(self, rows: Any) -> Joined:
        return Joined(self._X[rows], self.columns)


def joined(X: Any) -> Any:
    """Blocks of variables as one table; anything else as it is.

    Raises
    ------
    InvalidInput
        Blocks whose names are the same as texts, with different numbers of samples, or data frames that have these
        in different orders.
    InvalidType
        A sparse or masked block, one of times, an AnnData or MuData, or a table that is not read yet.
    """
    if hasattr(type(X), "to_df") or isinstance(getattr(X, "mod", None), Mapping):
        raise InvalidType(f"X is {type(X).__name__}; give its blocks, mklref.estimators.from_annotated(X).")
    require_read(X, "X")
    if getattr(getattr(X, "columns", None), "nlevels", 1) > 1:
        names = tuple(":".join(map(str, one)) for one in X.columns)
        _require_names(dict.fromkeys(one[0] for one in X.columns))
        return Joined(_matrix(X, "X"), names, X.index)
    if isinstance(X, Mapping) and not is_sparse(X):  # a dok_array is a dict
        _require_names(X)
        given: Mapping[Any, Any] = X
    elif isinstance(X, list | tuple) and X and all(len(getattr(one, "shape", ())) == 2 for one in X):
        given = dict(enumerate(X))
    else:
        return X
    for name, block in given.items():
        (as_array if isinstance(block, list | tuple) else require_read)(block, f"X[{name!r}]")
    blocks = {str(name): block for name, block in given.items()}
    lengths = {name: np.shape(block)[:1] for name, block in blocks.items()}
    if len(set(lengths.values())) != 1 or any(len(np.shape(block)) != 2 for block in blocks.values()):
        shown = ", ".join(f"{name}: {np.shape(block)}" for name, block in blocks.items())
        raise InvalidInput(f"X holds the blocks {shown}; give matrices with a row for each of the same samples.")
    for name, block in blocks.items():
        if is_sparse(block):
            raise InvalidType(
                f"the block {name!r} of X is sparse; give it as a dense array, .toarray(), or for kernels of products "
                "all blocks as one matrix, scipy.sparse.hstack."
            )
    labelled = {f"the block {name!r} of X": block for name, block in blocks.items()}
    require_unmasked(**labelled)
    index = require_one_order(labelled)
    names = tuple(f"{name}:{column}" for name, block in blocks.items() for column in _columns(block))
    return Joined(np.concatenate([_matrix(block, label) for label, block in labelled.items()], axis=1), names, index)


def _matrix(block: Any, label: str) -> Any:
    """A block as an array, NaN where pandas calls a cell missing; `InvalidType` for times, which join nothing else."""
    if holds_times(block, label):
        raise InvalidType(f"{label} holds dates or times; turn them into numbers, or leave the columns out.")
    array = np.asarray(block)
    return block.to_numpy(na_value=np.nan) if array.dtype.kind == "O" and hasattr(block, "iloc") else array


def _require_names(given: Iterable[Any]) -> None:
    names = list(given)
    if len(set(map(str, names))) < len(names):
        raise InvalidInput(f"blocks of X have one name as texts: {', '.join(map(repr, names))}; rename one of them.")


def different(names: Iterable[str]) -> list[str]:
    """Names as keys: functions may share one, or specifications say a kernel twice."""
    keys: dict[str, None] = {}
    for name in names:
        again = (f"{name} ({k})" for k in count(2))
        keys[next(key for key in chain([name], again) if key not in keys)] = None
    return list(keys)


def from_annotated(data: Any, *, obsm: bool = True) -> dict[str, Any]:
    """The blocks of a `MuData`, one for each modality, or of an `AnnData`: X, and what `obsm` holds.

    Parameters
    ----------
    data : mudata.MuData, anndata.AnnData, str or path
        Or a file .h5mu or .h5ad, which their packages read (the extra `annotated`); of data in memory neither is
        imported. Samples are in `obs_names`, and a MuData gives those that all modalities have: the targets of these
        are data.obs["..."].loc[blocks[NAME].index].
    obsm : bool
        Whether the arrays of `obsm` are blocks as well.

    Returns
    -------
    dict of str to data frame
        For `fit` and `predict`, by `joined`.

    Raises
    ------
    InvalidInput
        Something else, no matrix, samples of one name in a modality, or modalities without a common sample.
    MissingExtra
        A file, and the package that reads it is not installed.
    UnsafeFile
        A damaged file, or a block for which there is no memory.
    """
    if isinstance(data, str | PathLike):
        data = _annotated_file(Path(data))
    if isinstance(getattr(data, "mod", None), Mapping):
        frames = {name: _frame(one, name) for name, one in data.mod.items()}
        for name, frame in frames.items():
            if not frame.index.is_unique:  # which rows belong together nobody can say
                raise InvalidInput(f"samples of {name!r} share a name; give each one its own: obs_names_make_unique().")
        shared = [name for name in data.obs_names if all(name in frame.index for frame in frames.values())]
        if not shared:
            raise InvalidInput("the modalities have no sample in common.")
        return {name: frame.loc[shared] for name, frame in frames.items()}
    if not hasattr(data, "to_df"):
        raise InvalidInput(f"{type(data).__name__} is neither an AnnData nor a MuData.")
    blocks = {"X": _frame(data, "X")}
    if checked_flag("obsm", obsm):
        blocks |= {name: _dense(block, name) for name, block in data.obsm.items() if np.ndim(block) == 2}
    return blocks


def _annotated_file(path: Path) -> Any:
    reader = {".h5ad": ("anndata", "read_h5ad"), ".h5mu": ("mudata", "read_h5mu")}.get(ending(path))
    if reader is None:
        raise InvalidInput(f"{path} ends in neither .h5ad nor .h5mu, the files of AnnData and MuData.")
    module, function = reader
    says = f"{ending(path)} files are read by {module}, which is not installed: pip install 'mklref[annotated]'."
    read = getattr(required(module, says), function)
    try:
        return read(path)
    except (FileNotFoundError, PermissionError):
        raise
    except Exception as damaged:  # whatever the packages raise, and those that they call
        raise UnsafeFile(f"{path} is not a readable {ending(path)} file: {damaged}.") from damaged


def _frame(data: Any, name: str) -> Any:
    """The data frame of a modality, for which there has to be room: a file holds it packed or sparse."""
    if getattr(data, "X", data) is None:
        raise InvalidInput(f"the block {name!r} holds no matrix: its X is None. Set X, such as to one of `layers`.")
    require_room(f"the block {name!r}", 8 * prod(getattr(data, "shape", ())), sys.maxsize)
    return data.to_df()


def _dense(block: Any, name: str) -> Any:
    if not is_sparse(block):
        return block
    require_room(f"the block {name!r}", 8 * prod(block.shape), sys.maxsize)
    return block.toarray()


def _columns(block: Any) -> list[str]:
    return [str(name) for name in getattr(block, "columns", (f"x{j}" for j in range(np.shape(block)[1])))]


def holds_sparse(X: Any) -> bool:
    """Whether scikit-learn makes a sparse matrix of X: one, or a data frame of pandas whose columns all are sparse."""
    return is_sparse(X) or hasattr(getattr(X, "sparse", None), "to_coo")


def of_products(kernels: Sequence[Kernel]) -> bool:
    """Whether all kernels are functions of the products of whole samples."""
    return all(
        of_products(kernel.kernels) if isinstance(kernel, Composite) else kernel.shares == "products"
        and kernel.on_columns()[1] is None
        for kernel in kernels
    )  # fmt: skip


def rows_as_bytes(X: Any) -> Any:
    """Each row by its entries, for comparing them: equal rows are equal, and the order is one of bytes."""
    csr = X.tocsr(copy=True)
    csr.eliminate_zeros()
    csr.sort_indices()
    bounds = zip(csr.indptr[:-1], csr.indptr[1:], strict=True)
    texts = [csr.indices[a:b].astype(np.int64).tobytes() + csr.data[a:b].tobytes() for a, b in bounds]
    return np.array([*texts, None], dtype=object)[:-1]


class SparseFamily(FittedFamily):
    """The kernels of sparse samples, in CSR format."""

    def grams(self) -> Iterator[FloatArray]:
        """The training matrices as they are before normalisation, (n, n) each."""
        products = (self.samples @ self.samples.T).toarray()
        block = _block(0.5 * products + 0.5 * products.T)  # no sum overflows
        return (self._cross(block, m) for m in range(len(self.kernels)))

    def rows(self, X_new: Any, which: Iterable[int]) -> Iterator[FloatArray]:
        """The chosen kernels of new samples with the training samples, (k, n) each."""
        block, own = _block((X_new @ self.samples.T).toarray()), _block(X_new.power(2).sum(axis=1).reshape(-1, 1))
        for m in which:
            yield self.transforms[m].new(self._cross(block, m), self._cross(own, m)[:, 0])


def _block(products: Array) -> Block:
    """That of these products, of which kernels are functions, and of nothing else of the samples."""
    block = Block(Samples(products))
    block.know("products", None, products)
    return block
