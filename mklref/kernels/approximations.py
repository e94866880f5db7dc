"""Factors that are made: by transformers of scikit-learn, of groups of columns, by pivoted Cholesky factorisation.

    factors({"rbf": Nystroem(...), "text": counts}, X)      one kernel for each transformer or array
    column_groups(X, {"blood": [0, 3], ...})                 linear kernels on groups of columns, gene sets for instance
    cholesky(family, X, rank=200)                            K_m >= L_m L_m', and how much is missing

Pivoted Cholesky takes the sample that is approximated worst, d_j = K_jj - ||L_j||^2, again and again, until what is
missing is small: the trace of K - L L' is the sum of d, and K - L L' is semidefinite (Fine and Scheinberg 2001).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import numpy as np

from mklref._files import checked_path
from mklref._names import index_along, names_in, require_one_order
from mklref._typing import Array
from mklref._untrusted import lines_of, require_no_pipe
from mklref._validate import (
    as_array,
    checked_choice,
    checked_count,
    checked_flag,
    checked_members,
    checked_number,
    require_unmasked,
    shown,
)
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType, UnsafeFile
from mklref.kernels.base import Kernel, KernelFamily
from mklref.kernels.evaluation import Block, Samples
from mklref.kernels.factor_sources import Columns, Source, apart, rows_of, source_of
from mklref.kernels.factor_stack import FactorStack
from mklref.kernels.fitted import FittedFamily, checked_samples
from mklref.kernels.transforms import Normalization

_LEAST = 1e-12
"""Share of the largest K_jj below which what is missing is rounding."""
_STATISTICS = 1 << 20
"""Entries of X that are read at a time for its statistics."""


def factors(parts: Mapping[str, Any], X: Any = None, *, keep: bool = True, dtype: Any = None) -> FactorStack:
    """Kernels from named factors: arrays, or transformers that make them of X.

    Parameters
    ----------
    parts : dict of name to array (n, r) or transformer
        Transformers of scikit-learn (Nystroem, RBFSampler, PolynomialCountSketch, AdditiveChi2Sampler, pipelines) or
        anything with `fit` and `transform` that works row by row. Those that are not fitted yet are cloned and fitted
        to X.
    X : array, sparse matrix or data frame (n, d), optional
        What transformers take; a pair of a name in `parts` and its own data in a dict {name: X} where they differ.
    keep : bool
        Make the rows once and keep them in memory, n r numbers or sparse; else they are made block by block whenever
        they are read, some thirty times in a solve.
    dtype : float32 or float64, optional
        Of the rows that are kept; by default what the transformers give.

    Returns
    -------
    FactorStack
        Its `transform(X_new)` gives the rows of new samples.

    Raises
    ------
    InvalidInput
        What `FactorStack` refuses; transformers without X.
    InvalidType
        Not a dict, or parts that are neither arrays nor transformers.
    """
    if not isinstance(parts, Mapping) or not parts:
        raise InvalidType(
            f"parts is {type(parts).__name__}; give a dict such as {{'rbf': Nystroem(n_components=100)}}."
        )
    checked_flag("keep", keep)
    sources: list[Any] = []
    for name, part in parts.items():
        if not hasattr(part, "transform") or hasattr(part, "shape"):  # data frames have a `transform` of their own
            sources.append(part)
            continue
        if isinstance(part, type):
            raise InvalidType(f"factor {name!r} is the class {part.__name__}; give an instance: {part.__name__}().")
        own = X[name] if isinstance(X, Mapping) and name in X else X
        if own is None:
            raise InvalidInput(f"factor {name!r} is a transformer; give X, the data that it takes.")
        sources.append(Source(_sliceable(own), f"factor {name!r}", _fitted(part, own)))
    stack = TransformedStack(sources, list(parts))
    labelled = {f"factor {name!r}": part for name, part in parts.items()}
    stack.sample_names = names_in(require_one_order({"X": X, **labelled}))
    made = any(maker is not None for maker in stack.makers)
    return _kept(stack, dtype) if keep and (made or dtype is not None) else stack


T = TypeVar("T", bound=FactorStack)


class TransformedStack(FactorStack):
    """Factors that remember how new samples get theirs."""

    def transform(self, X_new: Any) -> FactorStack:
        """The factors of new samples, whose products with the coefficients are scores.

        Parameters
        ----------
        X_new : array, sparse matrix or data frame (k, d), or a dict of these by name
            As X was; a dict has the rows themselves of the kernels that were given as arrays.
        """
        rows: list[Any] = []
        for name, maker in zip(self.names, self.makers, strict=True):
            own = X_new[name] if isinstance(X_new, Mapping) and name in X_new else X_new
            if maker is None and not isinstance(X_new, Mapping):
                raise InvalidInput(
                    f"factor {name!r} was given as an array; give its new rows: transform({{{name!r}: L}})."
                )
            rows.append(own if maker is None else Source(_sliceable(own), f"factor {name!r}", maker))
        return FactorStack(rows, self.names)


def _kept(stack: T, dtype: Any) -> T:
    """The same stack with its rows in memory, side by side, or sparse."""
    try:
        kind = stack.dtype if dtype is None else np.dtype(dtype)
    except (TypeError, ValueError):
        kind = np.dtype(object)
    if kind not in (np.float32, np.float64):
        raise InvalidParameter(f"dtype = {shown(dtype)}; factors are float32 or float64.")
    n = stack.shape[1]
    if stack.sparse:
        rows = stack.read(0, n).astype(kind)
    else:
        rows = np.empty((n, stack.rank), dtype=kind)
        for start, stop in stack.blocks():
            rows[start:stop] = stack.read(start, stop)
    kept = type(stack)(apart(rows, stack.ranks), stack.names)
    kept.makers, kept.sample_names = stack.makers, stack.sample_names
    return kept


def column_groups(
    X: Any,
    groups: Mapping[str, Any] | Sequence[Any],
    *,
    normalize: Normalization | None = None,
    keep: bool = False,
    dtype: Any = None,
) -> FactorStack:
    """Linear kernels on groups of columns, which may overlap: K_m = s_m X_m X_m'.

    Parameters
    ----------
    X : array, sparse matrix or data frame (n, d)
    groups : dict or sequence
        The columns of each group, by its name: numbers, or names where X is a data frame; names that X does not have
        are left out, as genes of a set that were not measured, and a group of which nothing is left is refused.
    normalize : {None, "trace", "multiplicative"}
        s_m: 1, or so that the trace or the variance of the features is 1, or a large group would have the weight of
        its size.
    keep : bool
        Lay the columns of all groups side by side, n r numbers; reads are then several times as fast. Else the
        columns are taken out of X whenever they are read. Sparse columns stay sparse.
    dtype : float32 or float64, optional
        Of the rows that are kept; by default that of X.

    Raises
    ------
    InvalidType, InvalidInput
        An empty group, columns that X does not have or has twice, a group that cannot be normalised because its
        columns are constant, or what `FactorStack` refuses.
    """
    if normalize is not None:
        checked_choice("normalize", normalize, ("trace", "multiplicative"))
    checked_flag("keep", keep)
    if dtype is not None and not keep:
        raise InvalidParameter(f"dtype = {shown(dtype)} is of rows that are kept; give keep=True, or X in that dtype.")
    says = "give a dict of names and columns, or a list of columns."
    if not isinstance(groups, Mapping):
        groups = {f"K{m}": group for m, group in enumerate(checked_members("groups", groups, says))}
    named = {str(name): checked_members(f"group {name!r}", own, "give its columns.") for name, own in groups.items()}
    if len(named) < len(groups):
        raise InvalidInput(f"groups = {shown(list(groups))} have the same name as texts; rename one of them.")
    places = {name: j for j, name in enumerate(X.columns)} if hasattr(X, "columns") else {}
    there = Counter(X.columns) if len(places) < len(getattr(X, "columns", ())) else {}
    whole = source_of(X, "X")
    factor = _factors(whole) if normalize else None
    parts: list[Any] = []
    for name, group in named.items():
        if not all(isinstance(one, Hashable) for one in group):
            raise InvalidInput(f"group {name!r} = {shown(group)}; give the names or the numbers of its columns.")
        twice = next((one for one in group if there.get(one, 0) > 1), None)
        if twice is not None:
            raise InvalidInput(f"group {name!r}: X has {there[twice]} columns {twice!r}; rename or drop all but one.")
        columns = [places.get(one, one) for one in group]
        columns = [j for j in columns if isinstance(j, int | np.integer)]
        if not columns:
            raise InvalidInput(f"group {name!r} has no column that X has; drop it.")
        if not all(0 <= j < whole.shape[1] and not isinstance(j, bool) for j in columns):
            raise InvalidInput(
                f"group {name!r} = {shown(group)}: X has the columns 0 to {whole.shape[1] - 1}; of a mask give "
                "np.flatnonzero(mask)."
            )
        first, last = int(columns[0]), int(columns[-1]) + 1
        if factor is None and not whole.sparse and columns == list(range(first, last)):
            parts.append(whole.data[:, first:last])
        else:
            scale = 1.0 if factor is None else factor(columns, normalize == "trace", f"group {name!r}")
            parts.append(Source(whole, f"group {name!r}", Columns(columns, scale)))
    stack = FactorStack(parts, list(named))
    stack.sample_names = names_in(index_along(X, "index"))
    return _kept(stack, dtype) if keep else stack


def _factors(whole: Source) -> Callable[[Any, bool, str], float]:
    """What normalises groups of columns, by one read of them: s_m^{1/2} of columns, for the trace or the variance."""
    n, d = whole.shape
    sums, squares = np.zeros(d), np.zeros(d)
    step = max(64, _STATISTICS // max(1, d))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # what is not finite is refused by the stack
        for start in range(0, n, step):
            rows: Any = whole.read(start, min(n, start + step)).astype(np.float64)
            sums += np.asarray(rows.sum(axis=0)).ravel()
            squares += np.asarray((rows.multiply(rows) if whole.sparse else rows * rows).sum(axis=0)).ravel()
        variances = squares / n - (sums / n) ** 2

    def factor(columns: Any, trace: bool, label: str) -> float:
        total = float(squares[columns].sum() if trace else variances[columns].sum())
        if total <= (0.0 if trace else _LEAST * float(squares[columns].sum()) / n):
            constant = "0" if trace else "constant"
            raise InvalidInput(f"{label} cannot be normalised: its columns are {constant}; drop it.")
        return float(total**-0.5)

    return factor


def gene_sets(path: str | os.PathLike[str], *, smallest: int = 1) -> dict[str, list[str]]:
    """The sets of a GMT file: name, description and genes, tab separated, a line for each set.

    Parameters
    ----------
    path : path
    smallest : int
        Sets with fewer genes are left out.

    Returns
    -------
    dict of name to genes
        What `column_groups` takes with a data frame whose columns are genes.

    Raises
    ------
    UnsafeFile
        Not such a file, a named pipe, or a name twice.
    """
    sets: dict[str, list[str]] = {}
    checked_count("smallest", smallest, 0, "the fewest genes of a set that is kept.")
    require_no_pipe(checked_path(path))
    try:
        with open(path, encoding="utf-8-sig") as file:  # noqa: PTH123
            for number, line in enumerate(lines_of(file, path), start=1):
                fields = line.rstrip("\r\n").split("\t")
                if not line.strip():
                    continue
                if len(fields) < 3 or not fields[0]:
                    raise UnsafeFile(f"{path}, line {number}: expected a name, a description, genes; tabs between.")
                if fields[0] in sets:
                    raise UnsafeFile(f"{path}, line {number}: the set {fields[0]!r} is there twice.")
                sets[fields[0]] = list(dict.fromkeys(gene for gene in fields[2:] if gene))
    except UnicodeDecodeError as damaged:
        raise UnsafeFile(f"{path} is no text in UTF-8: {damaged}.") from damaged
    return {name: genes for name, genes in sets.items() if len(genes) >= smallest}


class CholeskyFactor:
    """A transformer that makes the rows L = k(x, pivots) T^-1' of one kernel, with T T' = k(pivots, pivots)."""

    def __init__(self, kernel: Kernel, rank: int, tol: float) -> None:
        self.kernel, self.rank, self.tol = kernel, rank, tol

    @np.errstate(under="ignore")
    def fit(self, X: Any, y: None = None) -> CholeskyFactor:
        """Choose the pivots: at most `rank`, and fewer where the trace of what is missing falls below tol trace(K)."""
        samples = checked_samples(X, "X")
        left = np.array(self.kernel.diagonal(samples), dtype=np.float64)
        with np.errstate(over="ignore"):
            self.trace_, least = float(left.sum()), _LEAST * float(left.max())
        if not np.isfinite(self.trace_):
            raise InvalidInput(f"kernel {self.kernel!r} overflows float64 on these samples; standardise the variables.")
        columns = np.empty((min(self.rank, len(left)), len(left)))
        pivots: list[int] = []
        known = Samples(samples)
        for k in range(len(columns)):
            j = int(left.argmax())
            if left[j] <= least or left.sum() <= self.tol * self.trace_:
                break
            column = Block(known, columns=[j]).values(self.kernel)[:, 0] - columns[:k].T @ columns[:k, j]
            columns[k] = column / np.sqrt(left[j])
            left = np.maximum(left - columns[k] ** 2, 0.0)
            left[j] = 0.0
            pivots.append(j)
        self.pivots_, self.residual_trace_ = np.array(pivots, dtype=np.intp), float(left.sum())
        self.points_ = samples[self.pivots_]
        self.triangle_ = np.tril(columns[: len(pivots), self.pivots_].T)
        return self

    @np.errstate(under="ignore")
    def transform(self, X: Any) -> Array:
        """Rows of L, (k, rank); of a kernel that is 0 on the samples a column of zeros."""
        from scipy.linalg import solve_triangular

        samples = checked_samples(X, "X")
        if not len(self.pivots_):
            return np.zeros((len(samples), 1))
        cross = self.kernel.checked_cross(samples, self.points_)
        return np.asarray(solve_triangular(self.triangle_, cross.T, lower=True).T)


class CholeskyStack(TransformedStack):
    """Pivoted Cholesky factors of a family: K_m - L_m L_m' is semidefinite, with the trace in `residual_traces`."""

    @property
    def residual_traces(self) -> Array:
        """The traces (M,) of what the factors leave out."""
        return np.array([maker.residual_trace_ for maker in self.makers])


def cholesky(family: KernelFamily, X: Any, *, rank: int = 200, tol: float = 1e-3, keep: bool = True) -> CholeskyStack:
    """Factors of a family of kernels by pivoted Cholesky factorisation.

    Parameters
    ----------
    family : KernelFamily
    X : array (n, d)
    rank : int
        Largest number of columns of each factor.
    tol : float
        Share of the trace that may be missing, in [0, 1): a kernel ends with fewer columns where it is reached.
    keep : bool
        As in `factors`.

    Returns
    -------
    CholeskyStack
        With `residual_traces`.

    Raises
    ------
    InvalidType, InvalidInput, InvalidParameter
        No family, samples that are no finite matrix, or a rank or tol outside of its interval.
    """
    if not isinstance(family, KernelFamily):
        raise InvalidType(f"family is {type(family).__name__}; give for instance kernels.gaussian([1.0, 2.0]).")
    checked_flag("keep", keep)
    rank = checked_count("rank", rank, 1, "columns of each factor.")
    tol = checked_number("tol", tol, "[0, 1)", "the share of the trace that may be missing.")
    raw = FittedFamily.of(family, X)
    makers = [CholeskyFactor(kernel, rank, tol).fit(raw.samples) for kernel in raw.kernels]
    sources = [Source(raw.samples, f"factor {name!r}", maker) for maker, name in zip(makers, raw.names, strict=True)]
    stack = CholeskyStack(sources, raw.names)
    stack.sample_names = names_in(index_along(X, "index"))
    return _kept(stack, None) if keep else stack


def _fitted(transformer: Any, X: Any) -> Any:
    """The transformer if it is fitted, else a clone that is fitted to X."""
    from sklearn.base import BaseEstimator, clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if not hasattr(transformer, "fit"):
        return transformer
    if not isinstance(transformer, BaseEstimator):  # as scikit-learn tells
        fitted = any(name.endswith("_") and not name.startswith("_") for name in vars(transformer))
        own = transformer if fitted else deepcopy(transformer)
        return own if fitted else own.fit(X) or own
    try:
        check_is_fitted(transformer)
    except NotFittedError:
        return clone(transformer).fit(X)
    return transformer


def _sliceable(X: Any) -> Any:
    """X with rows for a slice."""
    require_unmasked(X=X)
    if hasattr(X, "tocsr"):
        return X.tocsr()
    try:
        rows = np.asarray(X) if isinstance(X, list | tuple) else X
        first = rows_of(rows, slice(0, 1))
    except (TypeError, ValueError, LookupError, NotImplementedError):
        raise InvalidType(f"X is {shown(X)} ({type(X).__name__}); give one sample a row.") from None
    as_array(first, "X")
    return rows
