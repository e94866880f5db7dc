"""What the estimators have in common: kernels, weights of samples, the fit, scores, and the parameters' meaning."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import TransformerTags
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from mklref._names import Naming, given_names, namings, require_one_order, require_trained
from mklref._typing import Array
from mklref._validate import checked_choice, checked_limits, checked_verbosity, is_sparse, require_unmasked
from mklref.certificate import Bounds
from mklref.estimators.blocks import SparseFamily, holds_sparse, joined, of_products
from mklref.estimators.factors import FactorFamily, WithFeatures, approximated, checked_approximation
from mklref.estimators.gram import (
    PRECOMPUTED,
    NewKernels,
    family_of,
    normalized,
    raw_family,
    raw_precomputed,
    regularizer_of,
    samples_first,
    vanished,
)
from mklref.estimators.persistence import Persistent, variables_of
from mklref.estimators.prediction import Predicting
from mklref.estimators.samples import (
    Kept,
    checked_weights,
    labels_of,
    merged,
    named,
    own_errors,
    readable,
    require_columns,
    require_memory,
    require_present,
    rows_of,
    validated,
    warn_of_constant,
    warn_of_scales,
)
from mklref.estimators.workers import gathered, poll, workers_of
from mklref.exceptions import Interrupted, InvalidInput, InvalidParameter, InvalidTarget, MKLError, warn
from mklref.kernels import Kernel, KernelStack, LazyStack
from mklref.kernels.fitted import as_texts, grouped, holds_times
from mklref.kernels.storage import STORAGES
from mklref.kernels.transforms import Normalizer
from mklref.multiclass import MulticlassProblem
from mklref.native import solve
from mklref.problem import Problem
from mklref.regularizers import Regularizer
from mklref.solution import Status

_AS_THEY_ARE = Normalizer()
_A_MOMENT = 1e-9
"""Seconds for the first point of a machine where no time is left."""


class Part(NamedTuple):
    """One of the problems that a fit solves."""

    problem: Problem | MulticlassProblem
    samples: Any
    """Indices of its samples among those that were kept."""


class BaseMKL(Predicting, WithFeatures, Persistent):
    """Fit of kernels and of the machine on them; see the classes for users."""

    center: bool
    tol: float
    max_iter: int
    max_time: float | None = None
    verbose: bool
    storage = "memory"  # of a search, which slices matrices
    approximation: Any = None
    n_jobs: int | None = None

    weights_: Array
    dual_coef_: Array
    intercept_: Array
    certificate_: Bounds | tuple[Bounds, ...]
    n_iter_: int
    storage_: str
    kernel_names_: tuple[str, ...]
    kernel_groups_: dict[str, tuple[int, ...]]
    _labels: list[str] | None = None
    """Names of columns that are no texts, as texts; of matrices the `namings` of the training samples."""
    _new_kernels: NewKernels
    """Those of positive weight, for new samples."""
    _folds_at_a_time: tuple[int, int] = (0, 1)
    """Folds of the search that this fit belongs to, and how many of them share the memory."""
    _factor_stack: Any
    """Kernels as factors, during a fit."""
    _columns: Any
    """Where the support vectors are among the samples that a fitted model keeps."""

    def _take_parameters(self, given: dict[str, Any]) -> None:
        """Each local variable of a constructor as the attribute of its name, as scikit-learn wants them."""
        self.__dict__.update((name, value) for name, value in given.items() if name != "self")

    def _regularizer(self) -> Regularizer:
        return regularizer_of(self.norm, None if self._is_precomputed() else self.kernel_groups_)

    def _checked(self, X: Any, *y: Any) -> Any:
        """X, and y if it is given, as scikit-learn validates them; texts and precomputed kernels it does not know."""
        require_unmasked(X=X, **dict(zip("y", y, strict=False)))
        if y:
            require_present(y[0])
        if self._is_precomputed():
            for name in ("feature_names_in_", "kernel_groups_"):  # of an earlier fit
                self.__dict__.pop(name, None)
            self.n_features_in_ = len(samples_first(X))
            self._labels = [*chain.from_iterable(namings(X))] or None
        else:
            X = joined(X)
            self._labels = labels_of(X)
        if y:
            require_one_order({"X": X, "y": y[0]}, InvalidTarget, self._sample_names)
            y = (readable(y[0], "y"),)
        if not self._is_precomputed():
            texts = self._texts(X, reset=True)
            if texts is None:
                names = named(X)
                found = validated(self, X, *y, ensure_min_samples=2, accept_sparse=self._accepts_sparse(X))
                if names is not None:
                    self.feature_names_in_ = names
                return found
            X = texts
        if not y:
            return X
        with own_errors():
            target = column_or_1d(y[0], warn=True)
            if not self._is_precomputed():
                check_consistent_length(X, target)
        if self._is_precomputed() and len(target) != self.n_features_in_:
            raise InvalidInput(
                f"y has {len(target)} entries, X of shape {np.shape(X)} holds kernels of {self.n_features_in_} "
                "samples; with kernels='precomputed' it has shape (M, n, n) or (n, n, M)."
            )
        return X, target

    def _accepts_sparse(self, X: Any) -> Any:
        """The formats of sparse samples that the kernels can read: where all are functions of products."""
        if not holds_sparse(X) or len(X.shape) != 2:
            return False
        names = getattr(X, "columns", (f"x{j}" for j in range(X.shape[1])))
        kernels = family_of(self.kernels).expand(list(map(str, names)))
        return "csr" if of_products(kernels) else False

    def _texts(self, X: Any, *, reset: bool) -> Any:
        """Texts, which scikit-learn does not check, as a matrix; None for anything else."""
        mixed = hasattr(X, "columns") and holds_times(X)  # of texts and times NumPy makes no array
        texts = None if holds_sparse(X) or mixed else as_texts(X)
        if texts is not None:
            with own_errors():
                validate_data(self, X, reset=reset, skip_check_array=True, ensure_2d=False)  # names of columns alone
            if reset:
                self.n_features_in_ = texts.shape[1]
        return texts

    def _is_precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == PRECOMPUTED

    def _kept(self, X: Any, sample_weight: Any, *keys: Any) -> Kept:
        """The samples with a positive weight, equal ones once; see `merged` for the keys."""
        n = int(self.n_features_in_) if self._is_precomputed() else X.shape[0]
        weight = checked_weights(sample_weight, n)
        kept = merged(weight, *((np.arange(n),) if self._is_precomputed() else (rows_of(X), *keys)))
        if len(kept.indices) < 2:
            raise InvalidInput("X holds one sample, or copies of it; give at least two that differ.")
        return kept

    def _members(self) -> tuple[Kernel, ...]:
        return family_of(self.kernels).expand(variables_of(self))

    def _normalizer(self, weight: Array | None) -> Normalizer:
        return Normalizer(self.normalize, self.center, weight, vanish=True)

    def _learned_kernels(self, X: Any, kept: Kept) -> KernelStack:
        """The kernels of the samples that are kept, normalised; remembers what new samples need.

        Those that need no check are evaluated as they are needed, the others before they are normalised.
        """
        of_samples = not self._is_precomputed() and self.approximation is None and not is_sparse(X)
        if of_samples and all(kernel.definite for kernel in self._members()):
            return self._raw_kernels(X, kept, self._normalizer(kept.weight))
        return self._normalized(self._raw_kernels(X, kept), kept.weight)

    def _raw_kernels(self, X: Any, kept: Kept, how: Normalizer = _AS_THEY_ARE) -> KernelStack:
        """The same as they are, or normalised where that is said; factors are in any case."""
        wanted, storage = self._normalizer(kept.weight), checked_choice("storage", self.storage, STORAGES)
        checked_approximation(self.approximation)
        if self.approximation is not None and (self._is_precomputed() or is_sparse(X)):
            given = "precomputed kernels" if self._is_precomputed() else "sparse samples"
            raise InvalidParameter(f"approximation takes no {given}; give approximation=None.")
        grams: KernelStack
        if self._is_precomputed():
            if wanted.method == "spherical":
                raise InvalidParameter(
                    "normalize = 'spherical' needs k(x, x) of new samples, which precomputed kernels do not tell: "
                    "apply mklref.kernels.normalize(K, 'spherical', K_new, diagonal_new) first; give normalize=None."
                )
            grams, self._new_kernels = raw_precomputed(X, kept.indices)
        else:
            samples, members, variables = X[kept.indices], self._members(), variables_of(self)
            if self.approximation is not None:
                names = tuple(kernel.name(variables) for kernel in members)
                grams, self._new_kernels = approximated(members, names, samples, self.approximation, wanted)
                self._factor_stack = grams
            else:
                if storage == "memory":
                    require_memory(len(kept.indices), len(members), *self._folds_at_a_time)
                columns = getattr(self, "feature_names_in_", None)
                shown = checked_verbosity(self.verbose)
                grams, self._new_kernels = raw_family(self.kernels, samples, columns, storage, how, progress=shown)
            self.kernel_groups_ = grouped(members, variables)
            warn_of_scales(members, samples, variables)
        self.storage_ = "lazy" if isinstance(grams, LazyStack) else "memory"
        self.kernel_names_ = grams.names
        return grams

    def _normalized(self, raw: KernelStack, weight: Array | None) -> KernelStack:
        """The kernels that are learned with; those of `raw` are not needed after it."""
        if isinstance(self._new_kernels, FactorFamily):
            return raw
        grams, self._new_kernels = normalized(raw, self._new_kernels, self._normalizer(weight))
        return grams

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn kernel weights and machines.

        Parameters
        ----------
        X : array or data frame (n, d); Gram matrices (M, n, n) or (n, n, M) if precomputed
        y : array (n,)
            Classes, numbers or text; real targets of a regressor.
        sample_weight : array (n,), optional
            Nonnegative factors of C.

        Raises
        ------
        InvalidInput, InvalidType, ValueError
            Whatever is wrong with data and parameters, and what to do.

        Warns
        -----
        ConvergenceWarning
            tol was not reached; says why.
        UselessModelWarning
            A regressor has learned a constant.
        """
        with self._fitting():
            deadline = self._deadline()
            given = {"X": X, "y": y, "sample_weight": sample_weight}
            X, y = self._checked_data(X, y)
            require_one_order(given, known=self._sample_names)
            kept = self._kept(X, sample_weight, y)
            y = y[kept.indices]
            self._require_targets(y)
            self._fit_parts(self._parts(self._learned_kernels(X, kept), y, kept.weight), kept, deadline)
        self._warn_if_useless()
        return self

    def _deadline(self) -> float:
        """Until when a fit that begins now may take; raises unless its limits are some."""
        *_, seconds = checked_limits(self.tol, "a relative duality gap", self.max_iter, self.max_time, False)
        return np.inf if seconds is None else time.perf_counter() + seconds

    def _require_targets(self, y: Any) -> None:
        """Raise unless something can be learned from the targets that are kept, at the weights of their classes."""

    def _warn_if_useless(self) -> None:
        """Warn if nothing has been learned from them."""

    def _fit_parts(self, parts: list[Part], kept: Kept, deadline: float, *, unfinished: bool = False) -> bool:
        """Solve the problems, and keep of the machines what predictions need; whether Ctrl-C came first.

        `Interrupted` is raised where it came and nobody wants an unfinished model, or there is none.
        """
        self._remember_parameters()
        solutions, interrupted = self._solutions(parts, deadline)
        if interrupted is not None and not (unfinished and all(solutions)):
            raise interrupted
        constant = vanished(self._new_kernels.transforms)
        self._keep(parts, solutions, kept.indices, constant)
        if isinstance(self._new_kernels, FactorFamily):
            self._new_kernels = self._new_kernels.of(self._factor_stack, self.dual_coef_, self._columns)
            del self._factor_stack
        centred = self._new_kernels.centred  # a centred kernel of a new sample takes a mean over all training samples
        self._new_kernels = self._new_kernels.reduced(slice(None) if centred else self._columns, self._active)
        if not centred:
            self._columns = np.arange(len(self._columns))
        for solution in solutions:
            if solution.status is not Status.OPTIMAL:
                warn(
                    f"{type(self).__name__} did not reach tol = {self.tol:g}: {solution.status.value} "
                    f"{solution.certificate}",
                    ConvergenceWarning,
                )
        warn_of_constant([self.kernel_names_[m] for m in constant], "the training samples")
        return interrupted is not None

    def _solutions(self, parts: list[Part], deadline: float) -> tuple[list[Any], Interrupted | None]:
        """The solution of each problem, None for what Ctrl-C has left out, and the interruption.

        Machines that are solved one after the other share the time that is left, so that the last ones have some.
        """
        rounds = math.ceil(len(parts) / workers_of(self.n_jobs, len(parts)))
        left = max(deadline - time.perf_counter(), _A_MOMENT) / rounds
        one = partial(solve, tol=self.tol, max_iter=self.max_iter, max_time=left, callback=poll)
        tasks, shown = [(part.problem,) for part in parts], checked_verbosity(self.verbose)
        if len(parts) == 1:
            try:
                return [one(*tasks[0], progress=shown)], None
            except Interrupted as stopped:
                return [stopped.solution], stopped
        found, interrupted = gathered(one, tasks, n_jobs=self.n_jobs, label="machines", shown=shown)
        return [found.get(k) for k in range(len(parts))], Interrupted() if interrupted else None

    def _keep(self, parts: list[Part], solutions: list[Any], indices: Any, constant: list[int]) -> None:
        """Fitted attributes from the solutions on the samples of these indices; constant kernels have weight 0."""
        rows = []
        for part, solution in zip(parts, solutions, strict=True):
            own = np.atleast_2d(solution.dual_coef)
            rows.append(np.zeros((len(own), len(indices))))
            rows[-1][:, part.samples] = own
        dual = np.concatenate(rows)
        columns = np.flatnonzero(np.any(dual != 0.0, axis=0))
        self._columns = columns[np.argsort(indices[columns])]
        self.support_ = indices[self._columns]
        self.dual_coef_ = dual[:, self._columns]
        self.intercept_ = np.concatenate([np.atleast_1d(solution.intercept) for solution in solutions])
        self.n_iter_ = max(len(solution.history) for solution in solutions)
        weights, certificates = zip(*((own.weights, own.certificate) for own in solutions), strict=True)
        self.weights_ = np.array(weights[0] if len(parts) == 1 else weights)
        self.weights_[..., constant] = 0.0
        self.certificate_ = certificates[0] if len(parts) == 1 else certificates

    @property
    def _active(self) -> Any:
        return np.flatnonzero(np.atleast_2d(self.weights_).any(axis=0))

    @property
    def _sample_names(self) -> tuple[Naming, ...]:
        """Each way in which data frames of Gram matrices named the training samples."""
        if not self._is_precomputed() or not self._labels:
            return ()
        n = self.n_features_in_
        return tuple(tuple(self._labels[k : k + n]) for k in range(0, len(self._labels), n))

    def _checked_new(self, X: Any) -> Any:
        """New samples with the columns of the training samples; precomputed kernels as they are."""
        require_unmasked(X=X)
        if hasattr(self._new_kernels, "checked"):  # matrices, of the user or of a fold
            require_trained("X", X, self._sample_names, given_names(self.kernel_names_))
            return self._new_kernels.checked(X)
        X = joined(X)
        names = named(X)
        require_columns(names, variables_of(self))
        require_columns(labels_of(X), self._labels)
        texts = self._texts(X, reset=False)
        if texts is not None:
            return texts
        sparse = isinstance(self._new_kernels, SparseFamily)
        formats = "csr" if sparse or holds_sparse(X) else False
        X = validated(self, X, known=names is not None, reset=False, accept_sparse=formats)
        if sparse:
            return csr_array(X)
        return X.toarray() if is_sparse(X) else X

    def __sklearn_tags__(self) -> Any:
        """Precomputed kernels have an axis of samples twice, which cross-validation slices; products may be sparse."""
        tags = super().__sklearn_tags__()
        if self.approximation is not None:
            tags.transformer_tags = TransformerTags(preserves_dtype=[])
        tags.input_tags.pairwise = tags.input_tags.three_d_array = self._is_precomputed()
        with suppress(MKLError):  # of a fit; and kernels of columns with names are of no products
            tags.input_tags.sparse = self.approximation is None and bool(self._accepts_sparse(csr_array((1, 2))))
        return tags
