"""Errors and warnings of mklref: one tree, and every message names argument, value, bound and remedy.

MKLError
├── InvalidInput (ValueError)          an argument has a forbidden value
│   ├── InvalidKernel                  a Gram matrix: shape, finiteness, symmetry, definiteness
│   ├── KernelsLost                    kernels on disk that changed or vanished; carries the best point, as `.solution`
│   ├── InvalidTarget                  y: shape, labels, one class only
│   └── InvalidParameter               C, p, tol, weights, options
├── InvalidType (TypeError)            complex, sparse, masked, object or bool data
├── NotApplicable (ValueError)         a formulation or solver that does not fit the problem; says what does
├── SolverFailure (RuntimeError)       every solver that was tried failed; says which and how
├── UnsafeFile (ValueError)            a file that cannot be read safely
├── DataUnavailable (OSError)          a data set that is neither here nor to be fetched
└── MissingExtra (ImportError)         an optional dependency is not installed

Interrupted (KeyboardInterrupt)        carries the best certified point so far in `.solution`
MKLWarning (UserWarning)               AsymmetryWarning, InterruptedWarning, SlowWarning and others
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mklref.algorithms.regularization_path import RegularizationPath
    from mklref.algorithms.stationary import StationaryPoint
    from mklref.evidence import EvidenceSolution
    from mklref.multiclass import MulticlassSolution
    from mklref.solution import Solution
    from mklref.synthesis import SynthesisSolution


class MKLError(Exception):
    """Base class of every error that mklref raises on purpose."""


class InvalidInput(MKLError, ValueError):
    """An argument has a value that the mathematics does not allow."""


class InvalidKernel(InvalidInput):
    """A Gram matrix is not square, not finite, not symmetric or not positive semidefinite."""


class KernelsLost(InvalidInput):
    """Kernels on disk, or in arrays of the user's, changed or vanished while they were in use.

    `solution` is the best point up to then, certified by what had been read of them, or None. `path` has the finished
    points of a path, and is None elsewhere.
    """

    def __init__(
        self,
        message: str,
        solution: Solution | MulticlassSolution | None = None,
        path: RegularizationPath | list[Solution] | None = None,
    ) -> None:
        found = "" if solution is None else f" Best point so far: {solution.certificate}"
        kept = "" if path is None else f" {len(path)} points of the path are finished."
        super().__init__(message + found + kept)
        self.message, self.solution, self.path = message, solution, path


class InvalidTarget(InvalidInput):
    """The targets do not fit the kernels or the loss."""


class InvalidParameter(InvalidInput):
    """A scalar or vector parameter lies outside its interval."""


class InvalidType(MKLError, TypeError):
    """Data of a kind that has no faithful conversion to float64."""


class NotApplicable(MKLError, ValueError):
    """The formulation or solver does not fit the problem; the message says why and what fits instead."""


class SolverFailure(MKLError, RuntimeError):
    """No solver returned a point; the message lists what was tried and how each one failed."""


class FalseClaim(SolverFailure):
    """A solver calls a formulation infeasible or unbounded, which none is: either the solver or the program is wrong.

    `claim` is its word: "infeasible" or "unbounded".
    """

    def __init__(self, message: str, claim: str = "infeasible") -> None:
        super().__init__(message)
        self.claim = claim


class UnsafeFile(MKLError, ValueError):
    """A file that is damaged, too large for its claims, or would need pickle to be read."""


class MissingExtra(MKLError, ImportError):
    """An optional dependency is not installed; the message says how to get it."""


class DataUnavailable(MKLError, OSError):
    """A data set is not on this machine and cannot be fetched; the message says how to get it."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a solve, or a cluster that is lost. `solution` is the best certified point so far, or None.

    `path` has the finished points of a path, and is None elsewhere. `because` says what happened if it was not Ctrl-C.
    """

    def __init__(
        self,
        solution: Solution | MulticlassSolution | EvidenceSolution | StationaryPoint | SynthesisSolution | None = None,
        path: RegularizationPath | list[Solution] | list[SynthesisSolution] | None = None,
        because: str | None = None,
    ) -> None:
        judged = getattr(solution, "certificate", solution)
        found = "no point yet" if solution is None else f"best point so far: {judged}"
        kept = "" if path is None else f"; {len(path)} points of the path are finished"
        super().__init__(f"{'interrupted' if because is None else because}; {found}{kept}")
        self.solution = solution
        self.path = path
        self.because = because

    def __reduce__(self) -> Any:
        """From what it was made of: Python would make a copy of the message, and take that for the solution."""
        return type(self), (self.solution, self.path, self.because), self.__dict__


class MKLWarning(UserWarning):
    """Base class of every warning that mklref issues."""


class AsymmetryWarning(MKLWarning):
    """A Gram matrix was symmetric only up to many rounding errors and has been symmetrised."""


class SlowWarning(MKLWarning):
    """The compiled core is missing, which the first solve says once, or conic solvers have many samples and no end."""


class ConstantKernelWarning(MKLWarning):
    """Kernels that are constant on the training samples, or on those of a fold: they have weight 0 there."""


class ScaleWarning(MKLWarning):
    """Variables of very different scales in one kernel: the largest ones alone decide how similar samples are."""


class PlainTextWarning(MKLWarning):
    """A cluster on addresses that are not loopback, without TLS: whoever reaches it reads the data and runs code."""


class InterruptedWarning(MKLWarning):
    """Ctrl-C came before a search, an evaluation or resampling was done; what it returns is from what was finished."""


class UselessModelWarning(MKLWarning):
    """A model that predicts the same for every sample, or that is no better than that."""


_BETWEEN = {"mklref", "sklearn", "joblib", "numpy", "contextlib", "concurrent", "threading"}
"""Who may stand between a user and a warning: this package, what calls estimators, and decorators."""


_noted: ContextVar[list[str] | None] = ContextVar("noted", default=None)


@contextmanager
def noting_warnings() -> Iterator[list[str]]:
    """Within it what this thread would warn of is added to the list; filters are those of all threads."""
    notes: list[str] = []
    token = _noted.set(notes)
    try:
        yield notes
    finally:
        _noted.reset(token)


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line that called this package, itself or by scikit-learn, however many functions are between."""
    if (notes := _noted.get()) is not None:
        notes.append(message)
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
