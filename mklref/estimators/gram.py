"""From what a user calls kernels to training matrices, and to the rows of new samples with the training statistics.

And from what a user calls a norm to the regulariser.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, cast

import numpy as np

from mklref._names import kernel_names, require_one_order, require_same_samples
from mklref._typing import Array, FloatArray
from mklref._validate import as_float_array, checked_number, is_sparse, require_finite, shown
from mklref.estimators.blocks import Joined, SparseFamily
from mklref.estimators.factors import FactorFamily
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidParameter, InvalidType
from mklref.kernels import (
    ArrayStack,
    FamilyStack,
    FittedFamily,
    KernelFamily,
    KernelStack,
    LazyStack,
    function,
    parse,
    stack,
)
from mklref.kernels.fitted import Training
from mklref.kernels.transforms import VANISHING, Normalizer, Transform, slacks
from mklref.kernels.validation import rounding_of
from mklref.regularizers import NAMED, Groups, Lp, Regularizer, as_regularizer

PRECOMPUTED = "precomputed"


def family_of(kernels: Any) -> KernelFamily:
    """The family that a specification, a family, a function, or a list of these describes."""
    if isinstance(kernels, KernelFamily):
        return kernels
    if isinstance(kernels, str):
        return parse(kernels)
    if isinstance(kernels, type):
        raise InvalidType(f"kernels is the class {kernels.__name__}; give an object of it, {kernels.__name__}(...).")
    if isinstance(kernels, list | tuple):
        if not kernels:
            raise InvalidParameter("kernels is empty; give at least one kernel, for instance 'linear,rbf:0.5..20:8'.")
        return reduce(add, map(family_of, kernels))
    if callable(kernels):
        return function(kernels)
    raise InvalidType(
        f"kernels is {type(kernels).__name__}; give a specification such as 'linear,rbf:0.5..20:8', a family such as "
        "kernels.gaussian([1, 2]), a function k(X, Z), a list of these, or 'precomputed' and the matrices as X."
    )


def regularizer_of(norm: Any, groups: Mapping[str, Sequence[int]] | None) -> Regularizer:
    """The regulariser that `norm` means: p of the norm of the weights, a name, or an instance.

    The kernels have these groups; precomputed ones do not tell theirs.
    """
    if isinstance(norm, str) and norm == "groups":
        if groups is None:
            raise InvalidParameter(
                "norm = 'groups' takes the groups of variables of the kernels, which precomputed ones do not tell: "
                "give mklref.Groups([[0, 1], [2], ...], 0.5, 0.5)."
            )
        return Groups(list(groups.values()), 0.5, 0.5)
    if not isinstance(norm, bool) and isinstance(norm, numbers.Real):
        remedy = "p of the norm of the weights, 1 is sparse, inf the plain sum."
        return Lp(checked_number("norm", norm, "[1, inf]", remedy))
    if isinstance(norm, str) and norm not in NAMED:
        raise InvalidParameter(
            f"norm = {shown(norm)} is unknown; give p as a number in [1, inf], one of the names "
            f"{', '.join(NAMED)} and groups, or a regulariser such as mklref.ElasticNet(0.5)."
        )
    if not isinstance(norm, str | Regularizer):
        raise InvalidType(
            f"norm is {shown(norm)} ({type(norm).__name__}); give p in [1, inf], a name such as 'uniform', "
            "or a regulariser such as mklref.ElasticNet(0.5)."
        )
    return as_regularizer(norm)


def raw_family(
    kernels: Any, X: Any, names: Any, storage: str, how: Normalizer, progress: bool = False
) -> tuple[KernelStack, FittedFamily]:
    """The kernels on samples X (n, d) whose columns have these names, and those of new samples.

    Kernels that are positive semidefinite by a theorem need no check; functions and kernels of the user's get one.
    Those of sparse samples are in memory, and as they are before normalisation.
    """
    if is_sparse(X):
        variables = [f"x{j}" for j in range(X.shape[1])] if names is None else list(names)
        own = family_of(kernels).expand(variables)
        named = tuple(kernel.name(variables) for kernel in own)
        fitted = SparseFamily(X, own, (Transform(),) * len(own), named)
        return ArrayStack.trusted(list(fitted.grams()), named), fitted
    labelled = X if names is None else Joined(X, tuple(names))
    given = family_of(kernels).fit_normalized(labelled, how, storage, progress=progress)
    if isinstance(given, FamilyStack):
        given.require_psd()
    return given, given.fitted


@dataclass(frozen=True)
class Precomputed(Training):
    """Kernels of new samples that the user gives, (M, k, n) or (k, n, M) as the training kernels were.

    `samples` are the numbers of the training samples that were used, and `kernels` those of the kernels that are read.
    """

    n_training: int
    """Training samples that the user knows of."""
    last: bool
    """Whether the kernels are stacked along the last axis."""
    n_kernels: int
    """How many the user gives."""

    def checked(self, X_new: Any) -> FloatArray:
        """New samples along the first axis and training samples along the second, (k, n, M)."""
        array = _stacked(X_new, new=True)
        M, n = self.n_kernels, self.n_training
        fits = {True: array.shape[1:] == (n, M), False: (array.shape[0], array.shape[2]) == (M, n)}
        last = self.last if fits[self.last] else not self.last
        if not fits[last]:
            raise InvalidInput(
                f"X has shape {array.shape}; expected kernels of new samples with the {n} training samples, "
                f"(k, {n}, {M}) or ({M}, k, {n})."
            )
        require_finite(array, "X", InvalidInput)
        return array if last else np.moveaxis(array, 0, -1)

    def rows(self, X_new: FloatArray, which: Iterable[int]) -> Iterator[FloatArray]:
        """The chosen ones of the kernels that are read, of new samples with the training samples, (k, n) each."""
        for m in which:
            block = X_new[:, self.samples, self.kernels[m]]
            yield self.transforms[m].new(block, np.zeros(len(block)))  # the diagonal is read by 'spherical' alone


NewKernels = FittedFamily | Precomputed | FactorFamily
"""What a fitted estimator keeps of its kernels."""


def raw_precomputed(X: Any, kept: Any) -> tuple[ArrayStack, Precomputed]:
    """Training matrices from an array of Gram matrices, (M, n, n) or (n, n, M), restricted to the samples kept."""
    array = _stacked(X)
    last = kernels_last(array)
    n = array.shape[1]
    grams = cast(ArrayStack, stack(list(np.moveaxis(array, -1, 0) if last else array)))
    given = ArrayStack([matrix if len(kept) == n else matrix[np.ix_(kept, kept)] for matrix in grams.matrices])
    given.require_psd()  # with the allowance of their own dtype
    matrices = [np.ascontiguousarray(matrix, dtype=np.float64) for matrix in given.matrices]
    lost, slack = given.lost, given.slack.copy()
    for m in np.flatnonzero(lost.any(axis=1)).tolist():  # by rounding: semidefinite again
        matrices[m] = matrices[m] + np.diag(lost[m])
        slack[m] = rounding_of(matrices[m].diagonal())
    made, M = ArrayStack.trusted(matrices, next(iter(kernel_names(X)), None), slack), len(matrices)
    return made, Precomputed(kept, tuple(range(M)), (Transform(),) * M, made.names, n, last, M)


def unexplained(raw: KernelStack) -> Array:
    """Slack (M, n) beyond one rounding of each entry: of kernels that somebody else evaluated."""
    return np.maximum(raw.slack - rounding_of(raw.own_diagonals), 0.0) if isinstance(raw, ArrayStack) else raw.slack


def normalized(raw: KernelStack, new: NewKernels, how: Normalizer) -> tuple[KernelStack, NewKernels]:
    """The kernels with the normalisation, and those of new samples with the statistics of the training samples.

    Matrices that this module made are overwritten, those of the user are not.
    """
    if isinstance(raw, LazyStack):
        lazy = raw.normalized(how)
        return lazy, replace(new, transforms=lazy.fitted.transforms)
    assert isinstance(raw, ArrayStack)
    matrices, transforms, before = [], [], unexplained(raw)
    for gram, name in zip(raw.matrices, raw.names, strict=True):
        transforms.append(how.fit(gram, f"kernel {name!r}"))
        if isinstance(raw, FamilyStack):
            transforms[-1].train_in_place(gram)
            matrices.append(gram)
        else:
            matrices.append(transforms[-1].train(gram))
    made = ArrayStack.trusted(matrices, raw.names, slacks(transforms, matrices, before))
    return made, replace(new, transforms=tuple(transforms))


def vanished(transforms: Sequence[Transform]) -> list[int]:
    """The numbers of the kernels that are constant on the training samples."""
    return [m for m, transform in enumerate(transforms) if transform is VANISHING]


def part(
    raw: Array, names: Sequence[str], train: Any, test: Any, how: Normalizer, before: Array
) -> tuple[ArrayStack, Array, list[int]]:
    """Kernels (M, k, k) of the training and (M, t, k) of the test samples of a fold, slices of all (M, n, n).

    Of all of them the slack `before` (M, n) is `unexplained`.

    With them the numbers of the kernels that are constant on the training samples, whose statistics normalise both.
    """
    transforms, matrices, rows = [], [], np.empty((len(raw), len(test), len(train)))
    for m, (gram, name) in enumerate(zip(raw, names, strict=True)):
        inner = gram.take(train, axis=0).take(train, axis=1)  # three times as fast as both at once
        fitted = how.fit(inner, f"in a fold kernel {name!r}")
        transforms.append(fitted)
        matrices.append(fitted.train(inner))
        rows[m] = fitted.new(gram.take(test, axis=0).take(train, axis=1), gram[test, test])
    slack = slacks(transforms, matrices, before[:, train])
    return ArrayStack.trusted(matrices, names, slack), rows, vanished(transforms)


def samples_first(X: Any) -> FloatArray:
    """Precomputed kernels of training samples with their axes of samples first, (n, n, M)."""
    array = _stacked(X)
    return array if kernels_last(array) else np.moveaxis(array, 0, -1)


def kernels_last(array: FloatArray) -> bool:
    """Whether kernels are stacked along the last axis, (n, n, M), and not along the first, (M, n, n).

    Where M = n symmetry decides; an array that is symmetric both ways is the same in both.
    """
    first, last = array.shape[1] == array.shape[2], array.shape[0] == array.shape[1]
    if not (first or last):
        raise InvalidKernel(
            f"X has shape {array.shape}; with kernels='precomputed' it holds M Gram matrices of the n training "
            "samples, (M, n, n) or (n, n, M). For cross-validation use (n, n, M)."
        )
    allowed = 1e-8 * np.abs(array[np.isfinite(array)]).max(initial=0.0)
    return last and not (first and np.allclose(array, np.swapaxes(array, 1, 2), 1e-6, allowed, equal_nan=True))


def _stacked(X: Any, *, new: bool = False) -> FloatArray:
    """Three axes; one matrix is one kernel, stacked along the last axis. Rows are new samples, or those of training."""
    labelled = {f"X[{m}]": matrix for m, matrix in enumerate(X)} if isinstance(X, list | tuple) else {"X": X}
    require_one_order(labelled)
    if len(shapes := {matrix.shape for matrix in labelled.values() if hasattr(matrix, "shape")}) > 1:
        raise InvalidKernel(
            f"X holds matrices of different shapes, {', '.join(map(str, sorted(shapes)))}; give the rows and "
            "columns of the samples that all of them have, K[np.ix_(own, own)]."
        )
    require_same_samples({} if new else {"X": X}, {"X": X} if new else None)
    array = as_float_array(X.dense() if isinstance(X, KernelStack) else X, "X")
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3:
        raise InvalidKernel(
            f"X has shape {array.shape}; with kernels='precomputed' it holds Gram matrices, (M, n, n) or (n, n, M)."
        )
    return array
