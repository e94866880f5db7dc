r"""Mixed-norm synthesis: a machine whose coefficients, not functions, are penalised, for kernels of any kind.

    minimise over A (tau, N)   C sum_j V(f_j, y_j) + (lambda/q) ||A||_{pq;r}^q,     f_j = sum_t sum_i A_ti k_t(x_i, x_j)

K_t[j, i] = k_t(x_i, x_j): rows are samples, columns the points on which the decision function is expanded, and
f = sum_t K_t A_t without a transposition (erratum K1). Nothing is asked of the kernels: they may be indefinite,
non-symmetric, or rectangular, because the penalty is not a norm of functions.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mklref._names import Naming, each_naming, kernel_names, require_named, require_one_order, require_same_samples
from mklref._typing import Array
from mklref._validate import as_float_array, checked_flag, checked_positive, read_only, require_finite
from mklref.exceptions import InvalidInput, InvalidKernel, InvalidParameter, InvalidTarget, InvalidType
from mklref.losses import Logistic, Loss, Squared, SquaredHinge, as_loss
from mklref.losses.base import require_labels
from mklref.problem import Frozen
from mklref.synthesis.proximity import MixedNorm

LOSSES = (SquaredHinge, Squared, Logistic)
"""Losses with a Lipschitz gradient and a proximity operator at hand."""

_SMALLEST, _LARGEST = 1e-40, 1e40
"""Of the largest entry of the kernels, of C, and of the largest target."""


class SynthesisProblem(Frozen):
    """A mixed-norm synthesis problem (Kowalski, Szafranski and Ralaivola (1)-(5)).

    Its dual, over beta (n,) with Z_t = K_t'beta, is

        maximise  -C sum_j V*(-beta_j/C, y_j) - lambda Omega*(Z/lambda)

    where the last term is ||Z||_{p'2;r}^2/(2 lambda) for q = 2, and confines Z to ||Z||_{p'inf;r} <= lambda for q = 1.

    Parameters
    ----------
    kernels : array (tau, n, N) or sequence of (n, N) arrays
        K_t[j, i] = k_t(x_i, x_j), rows are samples and columns expansion points; any real entries. float32 and integers
        become float64.
    y : array (n,)
        Labels -1 and +1 or real targets, as the loss requires.
    lam : float
        lambda, the weight of the penalty, in (0, inf).
    p, q, r : int
        The norm, each of them 1 or 2: p within the groups, q across; r = 1 groups the coefficients by expansion point,
        r = 2 by kernel.
    C : float
        Weight of the summed loss, in [1e-40, 1e40]. With the squared hinge, which carries 1/2 here, C = 2 is (2) of the
        paper.
    loss : str or Loss
        "squared_hinge", "squared" or "logistic".
    constant : bool
        Whether a constant kernel of ones is appended, as the paper has it for a bias. Its N coefficients are penalised
        like those of the others; the bias is their sum. The kernels are then copied.

    Raises
    ------
    InvalidType
        Data without a faithful conversion to float64; numbers of the wrong type.
    InvalidKernel
        Not three-dimensional, empty, not finite, or with a largest entry outside [1e-40, 1e40] that is not 0.
    InvalidInput
        Data frames of kernels, and y, that name their samples differently.
    InvalidTarget
        y of a length other than n, not finite, with labels other than -1 and +1, or outside the same range.
    InvalidParameter
        p, q or r outside {1, 2}, lam outside (0, inf), C outside [1e-40, 1e40], another loss.
    """

    __slots__ = ("C", "constant", "kernel_names", "kernels", "lam", "loss", "norm", "point_names", "sample_names", "y")
    _ARGUMENTS = ("y", "lam", "C", "loss", "constant")
    _NAMES = ("kernel_names", "point_names", "sample_names")
    elsewhere = "It has a certificate of its own, mklref.synthesis.certify, and is solved by mklref.synthesis.solve."

    kernels: Array
    """(tau, n, N), or (tau + 1, n, N) with the constant kernel, which is the last."""
    point_names: tuple[Naming, ...]
    """Each way in which data frames of kernels named the expansion points (N,)."""
    sample_names: tuple[Naming, ...]
    """The same for the samples (n,)."""
    kernel_names: tuple[Naming, ...]
    """The names of the kernels (tau,) of a stack that has some."""
    y: Array
    lam: float
    norm: MixedNorm
    C: float
    loss: Loss
    constant: bool

    def __init__(
        self,
        kernels: Any,
        y: Any,
        *,
        lam: float,
        p: int,
        q: int,
        r: int,
        C: float = 2.0,
        loss: str | Loss = "squared_hinge",
        constant: bool = False,
    ) -> None:
        put = self._put
        put("norm", MixedNorm(p, q, r))
        put("loss", _checked_loss(loss))
        put("lam", checked_positive("lam", lam, "it weighs the penalty."))
        put("C", checked_positive("C", C, "it weighs the summed loss."))
        _require_range(self.C, "C is", "(s C, s lam) is the same problem as (C, lam): rescale both.", InvalidParameter)
        put("constant", checked_flag("constant", constant))
        stack = _checked_kernels(kernels)
        require_same_samples({}, {"kernels": kernels})
        require_one_order({"kernels": kernels, "y": y}, known=getattr(kernels, "sample_names", ()))
        put("y", _checked_targets(y, stack.shape, self.loss))
        if self.constant:
            stack = np.concatenate([stack, np.ones((1, *stack.shape[1:]))])
        put("kernels", read_only(stack.view()))
        put("point_names", each_naming(kernels, "columns"))
        put("sample_names", each_naming(kernels, "index"))
        put("kernel_names", kernel_names(kernels))

    def replace(self, **changes: Any) -> Self:
        """A new problem that differs in the named arguments and shares the others, whose samples are the same."""
        made = super().replace(**changes)
        if "kernels" not in changes:
            require_one_order({"y": changes.get("y")}, known=self.sample_names)
            _named(made, self._names())
        elif "y" not in changes:
            require_named("y", self.sample_names, made.sample_names)
        return made

    def _names(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._NAMES}

    def __reduce__(self) -> Any:
        return _rebuilt, (type(self), self._arguments(), self._names())

    @property
    def shape(self) -> tuple[int, int]:
        """That of the coefficients, (tau, N), the constant kernel included."""
        return self.kernels.shape[0], self.kernels.shape[2]

    @property
    def n_samples(self) -> int:
        """The number n of samples."""
        return len(self.y)

    @property
    def costs(self) -> Array:
        """C for each sample, (n,)."""
        return np.full(self.n_samples, self.C)

    def _arguments(self) -> dict[str, Any]:
        kernels = self.kernels[:-1] if self.constant else self.kernels
        return {**super()._arguments(), "kernels": kernels, **vars(self.norm)}

    def __repr__(self) -> str:
        tau, n, N = self.kernels.shape
        return (
            f"SynthesisProblem(tau={tau}, n={n}, N={N}, lam={self.lam:g}, norm={self.norm}, C={self.C:g}, "
            f"loss={self.loss})"
        )


def _rebuilt(kind: type[Any], arguments: dict[str, Any], names: dict[str, Any]) -> Any:
    return _named(kind(**arguments), names)


def _named(made: Any, names: dict[str, Any]) -> Any:
    for name, own in names.items():
        made._put(name, own)
    return made


def checked_problem(problem: Any) -> SynthesisProblem:
    """`problem` if it is one, else `InvalidType`."""
    if not isinstance(problem, SynthesisProblem):
        raise InvalidType(f"problem is {type(problem).__name__}; give a SynthesisProblem(kernels, y, ...).")
    return problem


def scores(kernels: Array, coef: Array) -> Array:
    """f = sum_t K_t A_t, (n,), from kernels (tau, n, N) and coefficients (tau, N)."""
    return np.asarray(np.matmul(kernels, coef[:, :, None])[:, :, 0].sum(axis=0))


def correlations(kernels: Array, beta: Array) -> Array:
    """Z_t = K_t'beta, (tau, N): the adjoint of `scores`."""
    return np.asarray(np.matmul(beta, kernels))


def lambda_max(problem: SynthesisProblem) -> float:
    """The smallest lambda from which on A = 0 is optimal; `InvalidType` for what is no `SynthesisProblem`.

    A = 0 is optimal exactly if Z = K'beta lies in the subdifferential of the penalty at 0, with beta = -C V'(0, y):

        q = 1    lambda >= ||Z||_{p'inf;r}
        q = 2    Z = 0, for the penalty has the gradient 0 there: lambda_max is infinite, or 0 if Z = 0
    """
    checked_problem(problem)
    beta = -problem.C * problem.loss.subgradient(np.zeros(problem.n_samples), problem.y)
    largest = problem.norm.dual_norm(correlations(problem.kernels, beta))
    return largest if problem.norm.q == 1 or largest == 0.0 else np.inf


def _checked_loss(loss: Any) -> Loss:
    found = as_loss(loss)
    if not isinstance(found, LOSSES):
        names = ", ".join(kind.name for kind in LOSSES)
        raise InvalidParameter(f"loss {found} is not among those of mixed-norm synthesis: {names}.")
    return found


def _require_range(size: float, what: str, remedy: str, error: type[InvalidInput]) -> None:
    """Products and squares of kernels, costs and targets, and what they do to each other, have to stay in float64."""
    if size != 0.0 and not _SMALLEST <= size <= _LARGEST:
        raise error(f"{what} {size:g}, outside [{_SMALLEST:g}, {_LARGEST:g}], where squares leave float64. {remedy}")


def _checked_kernels(kernels: Any) -> Array:
    array = as_float_array(kernels, "kernels", InvalidKernel)
    if array.ndim != 3:
        raise InvalidKernel(
            f"kernels has shape {array.shape}; expected (tau, n, N): kernels, samples, expansion points. "
            "One kernel is kernels[None]."
        )
    if not array.size:
        raise InvalidKernel(
            f"kernels has shape {array.shape}: without kernels, samples or expansion points every group is empty."
        )
    require_finite(array, "kernels", InvalidKernel)
    largest = max(float(array.max()), -float(array.min()))
    remedy = "(kernels/s, lam/s^q) is the same problem, with coefficients times s: rescale both."
    _require_range(largest, "kernels have entries up to", remedy, InvalidKernel)
    return np.ascontiguousarray(array, dtype=np.float64)


def _checked_targets(y: Any, shape: tuple[int, ...], loss: Loss) -> Array:
    array = as_float_array(y, "y", InvalidTarget)
    if array.shape != (shape[1],):
        swapped = " The last axis has that length: are the axes of K_t[j, i] = k_t(x_i, x_j) swapped?"
        raise InvalidTarget(
            f"y has shape {array.shape}, kernels (tau, n, N) = {shape} have n = {shape[1]} samples in their rows; "
            f"expected y of shape ({shape[1]},).{swapped if array.shape == (shape[2],) else ''}"
        )
    require_finite(array, "y", InvalidTarget)
    _require_range(float(np.abs(array).max()), "y has values up to", "Scale y to values around 1.", InvalidTarget)
    if loss.targets == "labels":
        require_labels(array, loss)
    return read_only(array.astype(np.float64))
