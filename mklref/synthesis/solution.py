"""What the solvers of mixed-norm synthesis return, and what they keep while they run: best bounds and records."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mklref._files import read_arrays, require_format, well_formed, write_arrays
from mklref._names import Naming, require_trained
from mklref._run import Recorder
from mklref._typing import Array
from mklref._validate import as_float_array, check_callback, checked_limits, require_finite
from mklref.certificate import Bounds
from mklref.certificate.verdict import saved
from mklref.exceptions import InvalidInput
from mklref.solution import History, Record, Status, require_names, saved_array, saved_names
from mklref.synthesis.certificate import certify, dual_value, primal_value
from mklref.synthesis.dictionary import Dictionary
from mklref.synthesis.problem import SynthesisProblem, checked_problem, scores

_FORMAT = "mklref-synthesis-1"
_ARRAYS = ("coef", "dual_coef")
_FACTS = ("format", "objective", "status", "constant", "solver", "certificate")
_NAMES = ("point_names", "kernel_names")


@dataclass(frozen=True)
class SynthesisSolution:
    """Coefficients of a mixed-norm synthesis problem with their bounds.

    The decision function is f(x) = sum_t sum_i A_ti k_t(x_i, x), Kowalski, Szafranski and Ralaivola (1); with a
    constant kernel, the last row of A holds its coefficients, whose sum is the bias.
    """

    coef: Array
    """A (tau, N), or (tau + 1, N) with a constant kernel."""
    dual_coef: Array
    """beta (n,): proves the lower bound."""
    objective: float
    """The primal objective at exactly this point."""
    certificate: Bounds
    status: Status
    history: History = field(default_factory=History)
    constant: bool = False
    """Whether the last row of A belongs to a constant kernel."""
    solver: str = "newton"
    """Who computed the point, for instance "newton", "forward_backward" or "synthesis/CLARABEL"."""
    point_names: tuple[Naming, ...] = ()
    """Each way in which data frames named the expansion points (N,)."""
    kernel_names: tuple[Naming, ...] = ()
    """The names of the kernels (tau,) of a stack that has some."""

    def __repr__(self) -> str:
        sizes = "tau={}, N={}".format(*self.coef.shape)
        return f"SynthesisSolution({sizes}, {self.status.name} by {self.solver}: {self.certificate})"

    @property
    def bias(self) -> float:
        """What the constant kernel adds to the decision function, 0 without one."""
        return float(self.coef[-1].sum()) if self.constant else 0.0

    @property
    def active_kernels(self) -> NDArray[np.intp]:
        """Kernels t with A_t. != 0."""
        return np.flatnonzero(self.coef.any(axis=1))

    @property
    def active_samples(self) -> NDArray[np.intp]:
        """Expansion points i with A_.i != 0: the support vectors of the norm 21;1."""
        return np.flatnonzero(self.coef.any(axis=0))

    def relevance(self) -> Array:
        """|A|/max |A|, (tau, N): the relevance map of Figure 2, with entries in [0, 1]; zeros if A = 0."""
        size = np.abs(self.coef)
        return np.asarray(size / (size.max() or 1.0))

    def decision_function(self, kernels_new: Any) -> Array:
        """Scores of new samples.

        Parameters
        ----------
        kernels_new : array (tau, k, N)
            k_t(expansion point, new sample): rows are the k new samples. A constant kernel is not to be given.

        Raises
        ------
        InvalidInput
            Another shape, data frames whose columns are not the expansion points, by their names, or entries that are
            not finite.
        InvalidType
            Data without a faithful conversion to float64.
        """
        A = self.coef[:-1] if self.constant else self.coef
        require_trained("kernels_new", kernels_new, self.point_names, self.kernel_names)
        array = as_float_array(kernels_new, "kernels_new", InvalidInput)
        if array.ndim != 3 or (array.shape[0], array.shape[2]) != A.shape:
            swapped = array.ndim == 3 and array.shape[:2] == A.shape
            hint = " Rows are new samples: are the last two axes swapped?" if swapped else ""
            raise InvalidInput(f"kernels_new has shape {array.shape}; expected ({A.shape[0]}, k, {A.shape[1]}).{hint}")
        require_finite(array, "kernels_new", InvalidInput)
        return scores(array.astype(np.float64, copy=False), A) + self.bias

    def save(self, path: str | PathLike[str]) -> None:
        """Write the point and its certificate as an .npz of plain arrays; no pickle. The history is not saved.

        Raises
        ------
        InvalidParameter
            A name that ends as those of other formats do: .mat, .h5, .hdf5, .json.
        """
        facts = {
            "format": _FORMAT,
            "objective": self.objective,
            "status": self.status.name,
            "constant": self.constant,
            "solver": self.solver,
            "certificate": self.certificate.to_dict(),
        }
        facts |= {name: names for name in _NAMES if (names := getattr(self, name))}
        write_arrays(path, {"coef": self.coef, "dual_coef": self.dual_coef}, facts)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> SynthesisSolution:
        """Read what `save` wrote.

        Raises
        ------
        UnsafeFile
            Damaged, truncated, hostile or foreign files, and solutions of another type.
        """
        arrays, facts = read_arrays(path)
        with well_formed(path, "a saved SynthesisSolution"):
            require_format(path, facts["format"], _FORMAT)
            require_names(facts, {*_FACTS, *(set(_NAMES) & set(facts))}, "facts")
            require_names(arrays, _ARRAYS, "arrays")
            coef, constant = saved_array(arrays["coef"], "coef", 2), saved(facts, "constant", bool)
            if not coef.size or len(coef) <= constant:
                raise ValueError(f"coef {coef.shape} does not go with constant = {constant!r}")
            return cls(
                point_names=saved_names(facts, "point_names", coef.shape[1]),
                kernel_names=saved_names(facts, "kernel_names", len(coef) - constant),
                coef=coef,
                dual_coef=saved_array(arrays["dual_coef"], "dual_coef"),
                objective=saved(facts, "objective", float),
                certificate=Bounds.from_dict(facts["certificate"]),
                status=Status[saved(facts, "status", str)],
                constant=constant,
                solver=saved(facts, "solver", str),
            )


_SPARE = 0.9
"""Share of the tolerance at which to stop: the certificate sums in another order."""


class Run:
    """The best coefficients and the best dual point so far; the bounds that they give."""

    def __init__(
        self,
        problem: SynthesisProblem,
        tol: float,
        max_iter: int,
        max_time: float | None,
        callback: Callable[[Record], object] | None,
        progress: bool,
    ) -> None:
        checked_problem(problem)
        check_callback(callback, "Record")
        tol, max_iter, max_time = checked_limits(tol, "a relative duality gap", max_iter, max_time, progress)
        self.problem, self.tol = problem, tol
        self.dictionary = Dictionary(problem.kernels)
        self.recorder: Recorder[Record] = Recorder(
            "solving", tol=tol, max_iter=max_iter, max_time=max_time, callback=callback, progress=progress
        )
        self.coef = np.zeros(problem.shape)
        self.beta = np.zeros(problem.n_samples)
        self.lower, self.upper = 0.0, np.inf  # D(0) = 0: losses and penalties are nonnegative
        self.counters: dict[str, float] = {}

    @property
    def gap(self) -> float:
        """upper - lower, of the best bounds."""
        return self.upper - self.lower

    @property
    def target(self) -> float:
        """The gap to go for, which is relative to the objective however small that is."""
        return _SPARE * self.tol * abs(self.upper)

    def running(self, solver: str) -> AbstractContextManager[None]:
        """Ctrl-C becomes `Interrupted` with the best point so far."""
        records = self.recorder.records
        return self.recorder.running(lambda: self.solution(Status.INTERRUPTED, solver) if records else None)

    def observe(self, A: Array, t: Array, beta: Array, Z: Array) -> float:
        """Bounds from coefficients with their scores and a dual point with its correlations; the scale of beta."""
        upper = primal_value(self.problem, A, t)
        lower, scale = dual_value(self.problem, beta, Z)
        if upper < self.upper:
            self.upper, self.coef = upper, A
        if lower > self.lower:
            self.lower, self.beta = lower, scale * beta
        return scale

    def record(self, A: Array, inner_steps: int) -> Status | None:
        """Write a record; why to stop, or None."""
        record = Record(
            iteration=len(self.recorder.records),
            seconds=self.recorder.seconds,
            lower=self.lower,
            upper=self.upper,
            inner_steps=inner_steps,
            weights=np.linalg.norm(A, axis=1),
        )
        return self.recorder.add(record, record.relative_gap, Status.OPTIMAL if self.gap <= self.target else None)

    def solution(self, status: Status, solver: str) -> SynthesisSolution:
        """The best point, certified from scratch."""
        certificate = certify(self.problem, self.coef, self.beta)
        return SynthesisSolution(
            coef=self.coef,
            dual_coef=self.beta,
            objective=certificate.objective,
            certificate=certificate,
            status=status.confirmed(certificate.is_optimal(self.tol)),
            history=History(tuple(self.recorder.records), {"passes": self.dictionary.reads + 2.0, **self.counters}),
            constant=self.problem.constant,
            point_names=self.problem.point_names,
            kernel_names=self.problem.kernel_names,
            solver=solver,
        )
