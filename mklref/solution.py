"""What a solver returns: a point, its certificate, how it ended and how it got there."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np

from mklref import _display
from mklref._files import read_arrays, require_format, well_formed, write_arrays
from mklref._names import NAMES, Naming, require_trained
from mklref._typing import Array
from mklref._validate import require_finite
from mklref.certificate import Certificate
from mklref.certificate.bounds import relative
from mklref.certificate.verdict import saved, saved_each
from mklref.exceptions import InvalidInput, UnsafeFile
from mklref.kernels.stack import KernelStack
from mklref.kernels.validation import checked_blocks
from mklref.problem import Problem, dual_norms


class Status(Enum):
    """How a solver ended; the text says what to do next."""

    OPTIMAL = "The certified relative gap is below the requested tolerance."
    INACCURATE = "The solver claims an optimum, but the certificate does not confirm it: polish, or try another solver."
    ITERATION_LIMIT = "The iteration limit came first: raise max_iter, or accept the certified gap."
    TIME_LIMIT = "The time limit came first: raise max_time, or accept the certified gap."
    STALLED = "No step leads on, mostly for rounding: normalise the kernels, lower C, or accept the certified gap."
    NO_GUARANTEE = "Not certified, by an algorithm that is not proved to converge here: more iterations may not help."
    STATIONARY = "A stationary point of a non-convex problem: it has no gap, and a restart may end at a better one."
    STOPPED = "The callback asked to stop."
    INTERRUPTED = "Ctrl-C, or kernels on disk were lost: this is the best certified point up to then."

    def confirmed(self, optimal: bool) -> Status:
        """OPTIMAL exactly if the certificate says so, whatever the solver claims."""
        return Status.OPTIMAL if optimal else Status.STALLED if self is Status.OPTIMAL else self


@dataclass(frozen=True)
class Record:
    """One outer iteration of a solver: best bounds so far and what it cost."""

    iteration: int
    seconds: float
    lower: float
    upper: float
    inner_steps: int
    """Steps of the inner solver since the last record (two-variable updates of the SMO, Newton steps, ...)."""
    weights: Array
    """Kernel weights at this iteration, (M,)."""
    unit: float = field(default=0.0, kw_only=True)
    """What the gap is compared with where the optimum is 0, as in `Certificate`."""

    @property
    def relative_gap(self) -> float:
        """(upper - lower) / |upper| of the best bounds so far, as in `Certificate`."""
        return relative(self.upper - self.lower, max(abs(self.upper), self.unit))


@dataclass(frozen=True)
class History:
    """The records of a solve, in order, and what was counted in all."""

    records: tuple[Record, ...] = ()
    counters: dict[str, float] = field(default_factory=dict)
    """Totals, for instance {"svm": 12, "passes": 7.5}: inner solves, reads of the kernel stack. What comes after the
    last record, Newton's method for the last digits or a problem that is nearly this one, is not among them."""

    def column(self, name: str) -> Array:
        """One field of all records as an array, for instance "relative_gap", "seconds" or "weights"."""
        return np.array([getattr(record, name) for record in self.records])

    def __repr__(self) -> str:
        return f"History({len(self)} records, {self.counters})"

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)


@dataclass(frozen=True)
class Solution:
    """A point of an MKL problem with its certificate.

    The decision function is f(x) = sum_m weights_m sum_i dual_coef_i k_m(x_i, x) + intercept, one for each machine.
    """

    dual_coef: Array
    """beta (n,), signed as in scikit-learn: beta_i = alpha_i y_i in classification. Of P machines (P, n), 0 for samples
    that a machine does not see."""
    weights: Array
    """theta (M,), nonnegative and common to all machines."""
    intercept: Any
    """b, a float; of P machines an array (P,)."""
    objective: float
    """The primal objective at exactly this point."""
    certificate: Certificate
    status: Status
    history: History = field(default_factory=History)
    solver: str = "native"
    """Who computed the point, for instance "native" or "dual/CLARABEL"."""
    value: float = np.nan
    """Reference only: the optimal value of the model as its solver states it, with the sign of the primal; else nan."""
    claimed: str = ""
    """Reference only: what the solver says of that value, "optimal" or "optimal_inaccurate"."""
    raw: Self | None = None
    """Reference only: the solver's own point with its own certificate; None where this point is not polished."""
    sample_names: tuple[Naming, ...] = ()
    """Each way in which data frames named the training samples (n,), as `KernelStack` has them; saved with the rest."""
    kernel_names: tuple[Naming, ...] = ()
    """The names of the kernels (M,), where the stack had some; saved with the rest."""

    def decision_function(self, kernels_new: Any) -> Array:
        """Scores of new samples.

        Parameters
        ----------
        kernels_new : array (M, k, n), sequence of (k, n) arrays, or the training stack
            k_m(new sample, training sample), normalised with the statistics of the training kernels.

        Returns
        -------
        array (k,), or (k, P) of P machines (`MulticlassProblem.assign` says what class they mean)

        Raises
        ------
        InvalidInput
            Wrong number of kernels or of training samples, with both numbers; data frames whose columns are not the
            training samples, by their names, in the order of the training, or a stack with other samples or kernels;
            or entries that are not finite.
        InvalidType
            Complex, sparse, masked, object or bool data.
        """
        columns = self.dual_coef.T
        n = len(columns)
        if isinstance(kernels_new, KernelStack):
            if kernels_new.shape[1:] != (n, n) or len(kernels_new) != len(self.weights):
                raise InvalidInput(
                    f"kernels_new has shape {kernels_new.shape}; expected ({len(self.weights)}, k, {n})."
                )
            require_trained("kernels_new", kernels_new, self.sample_names, self.kernel_names)
            applied = [self.weights @ kernels_new.apply(row) for row in np.atleast_2d(self.dual_coef)]
            return np.asarray(np.transpose(applied).reshape(columns.shape) + self.intercept)
        blocks = checked_blocks(kernels_new, len(self.weights), n, self.sample_names, self.kernel_names)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            terms = [weight * (block @ columns) for weight, block in zip(self.weights, blocks, strict=True)]
            scores = np.asarray(np.sum(terms, axis=0) + self.intercept)
        if not np.isfinite(scores).all():
            raise InvalidInput("kernels_new is too large: scores leave float64. Scale it as the training kernels.")
        return scores

    def __repr__(self) -> str:
        sizes = f"M={len(self.weights)}, n={self.dual_coef.shape[-1]}"
        return f"{type(self).__name__}({sizes}, {self.status.name} by {self.solver}: {self.certificate})"

    def _repr_html_(self) -> str:
        return _display.solution(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the point and its certificate as an .npz of plain arrays; no pickle.

        Raises
        ------
        InvalidParameter
            A name that ends as those of other formats do: .mat, .h5, .hdf5, .json.
        """
        arrays, facts = self._parts("")
        if self.raw is not None:
            own, facts["raw"] = self.raw._parts("raw_")
            arrays |= own
        write_arrays(path, arrays, {"format": self._FORMATS[self.dual_coef.ndim - 1], **facts})

    def _parts(self, prefix: str) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays = {f"{prefix}{name}": getattr(self, name) for name in self._ARRAYS}
        facts = {
            "intercept": np.asarray(self.intercept).tolist(),
            "objective": self.objective,
            "status": self.status.name,
            "solver": self.solver,
            "certificate": self.certificate.to_dict(),
        }
        if not prefix:
            facts |= {name: names for name in NAMES if (names := getattr(self, name))}
        return arrays, {**facts, "value": self.value, "claimed": self.claimed} if self.claimed else facts

    @classmethod
    def _from_parts(cls, arrays: dict[str, Any], facts: dict[str, Any], ndim: int, prefix: str = "") -> Self:
        """The inverse of `_parts`, with the raw point if there is one; strict in the names of both."""
        said = {name for name in ("value", "claimed") if name in facts}
        named = {name: facts[name] for name in NAMES if name in facts}
        raw = {"raw"} if "raw" in facts and not prefix else set()
        names = [f"{part}{name}" for part in ("", "raw_")[: 1 + len(raw)] for name in cls._ARRAYS]
        require_names(facts, {*_FACTS, *said, *raw, *named} - ({"format"} if prefix else set()), "facts")
        if not prefix:
            require_names(arrays, names, "arrays")
        b = saved_each(facts, "intercept", float)
        require_finite(np.atleast_1d(b), "intercept")
        dimensions = {"dual_coef": ndim, "slack": 2}
        points: dict[str, Any] = {
            name: saved_array(arrays[f"{prefix}{name}"], f"{prefix}{name}", dimensions.get(name, 1))
            for name in cls._ARRAYS
        }
        if np.shape(b) != points["dual_coef"].shape[:-1]:
            raise ValueError(f"its intercepts {b} do not fit dual_coef of shape {points['dual_coef'].shape}")
        return cls(
            **points,
            intercept=np.array(b) if ndim == 2 else b,
            objective=saved(facts, "objective", float),
            certificate=cls._BOUNDS.from_dict(facts["certificate"]),
            status=Status[saved(facts, "status", str)],
            solver=saved(facts, "solver", str),
            value=saved(facts, "value", float) if said else np.nan,
            claimed=saved(facts, "claimed", str) if said else "",
            raw=cls._from_parts(arrays, facts["raw"] | named, ndim, "raw_") if raw else None,
            sample_names=saved_names(facts, "sample_names", points["dual_coef"].shape[-1]),
            kernel_names=saved_names(facts, "kernel_names", len(points["weights"])),
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read what `save` wrote. The history is not saved.

        Raises
        ------
        UnsafeFile
            Damaged, truncated, hostile or foreign files.
        """
        arrays, facts = read_arrays(path)
        with well_formed(path, f"a saved {cls.__name__}"):
            require_format(path, facts["format"], *cls._FORMATS)
            return cls._from_parts(arrays, facts, 1 + cls._FORMATS.index(facts["format"]))

    _FORMATS: ClassVar[tuple[str, ...]] = ("mklref-solution-1", "mklref-solution-2")
    """Of one machine, and of several."""
    _ARRAYS: ClassVar[tuple[str, ...]] = ("dual_coef", "weights")
    _BOUNDS: ClassVar[Any] = Certificate


def in_domain(problem: Problem, solution: Solution, slack: float = 0.0) -> Solution:
    """The same functions by t beta and theta/t, with the t in (0, 1] of the certificate, where t < 1 - slack."""
    t = problem.regularizer.dual_scale(dual_norms(problem, solution.dual_coef))
    if t >= 1.0 - slack:
        return solution
    return replace(solution, dual_coef=t * solution.dual_coef, weights=solution.weights / t)


def selected(weights: Any) -> Any:
    """How many kernels count: those whose weight is above 1e-4 of the largest, (..., M) -> (...)."""
    sizes = np.abs(weights)
    return np.count_nonzero(sizes > 1e-4 * sizes.max(axis=-1, keepdims=True), axis=-1)


_FACTS = ("format", "intercept", "objective", "status", "solver", "certificate")


def require_names(found: Collection[str], expected: Collection[str], what: str) -> None:
    """Raise `ValueError` unless a file holds exactly these `what`: one that is unknown may change what others mean."""
    if set(found) != set(expected):
        raise ValueError(
            f"its {what} are {', '.join(sorted(found)) or 'none'}; expected {', '.join(sorted(expected))}."
        )


def saved_names(facts: dict[str, Any], label: str, n: int | None) -> tuple[Naming, ...]:
    """Namings of n samples or kernels, None for any number, from a file; none where it has none, as earlier ones."""
    found = tuple(saved({label: names}, label, tuple) for names in facts.get(label, ()))
    if n is not None and any(len(names) != n for names in found):
        raise ValueError(f"its {label} are {len(found[0])}; expected {n}")
    return found


def saved_array(array: Any, label: str, ndim: int = 1) -> Array:
    """An array from a file, or an error if it is not float64, of another dimension or not finite."""
    if array.ndim != ndim or array.dtype != np.float64:
        kind = {1: "vector", 2: "matrix"}[ndim]
        raise UnsafeFile(f"{label}: expected a float64 {kind}, found {array.dtype} of shape {array.shape}.")
    require_finite(array, label)
    return np.asarray(array)
