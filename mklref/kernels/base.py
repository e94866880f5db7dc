"""What a kernel is, and how kernels compose.

    a + b       the kernels of a, then those of b: MKL learns their weights
    a * b       the product of every kernel of a with every one of b
    2.0 * a     every kernel of a, scaled
    total(a)    one kernel, the sum of all kernels of a

A kernel is a family of one. A kernel of one's own defines `cross` and nothing else.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, Unpack, overload

import numpy as np

from mklref import _display
from mklref._names import index_along, names_in
from mklref._typing import Array, FloatArray
from mklref._validate import as_float_array, check_field, checked_choice, shown
from mklref.exceptions import InvalidInput, InvalidParameter
from mklref.kernels.transforms import Normalization, Normalizer

if TYPE_CHECKING:
    from mklref.kernels.fitted import FamilyStack
    from mklref.kernels.lazy import LazyStack


class FitOptions(TypedDict, total=False):
    """What `KernelFamily.fit` takes beside the samples and where their matrices go."""

    normalize: Normalization | None
    center: bool
    cache: int | float | str | None
    precision: str


@dataclass(frozen=True)
class KernelFamily(ABC):
    """An ordered family of kernels; how many depends on the variables."""

    @abstractmethod
    def expand(self, variables: Sequence[str]) -> tuple[Kernel, ...]:
        """The kernels of the family on samples with variables of these names, in order."""

    @overload
    def fit(self, X: Any, *, storage: Literal["memory"] = ..., **options: Unpack[FitOptions]) -> FamilyStack: ...
    @overload
    def fit(self, X: Any, *, storage: Literal["lazy"], **options: Unpack[FitOptions]) -> LazyStack: ...
    @overload
    def fit(self, X: Any, *, storage: str, **options: Unpack[FitOptions]) -> FamilyStack | LazyStack: ...
    def fit(
        self,
        X: Any,
        *,
        normalize: Normalization | None = None,
        center: bool = False,
        storage: str = "memory",
        cache: int | float | str | None = None,
        precision: str = "float64",
    ) -> FamilyStack | LazyStack:
        """Gram matrices of training samples.

        Parameters
        ----------
        X : array (n, d)
            One sample a row. A data frame's column names go into the names of kernels on single variables.
        normalize : {"trace", "multiplicative", "spherical"}, optional
            See `mklref.kernels.normalize`.
        center : bool
            Whether to centre in feature space first; see `mklref.kernels.center`.
        storage : {"memory", "lazy", "auto"}
            Whether the matrices are held in memory, 8 M n^2 bytes, or evaluated when they are read; "auto" decides by
            the memory that is free, and `stack.choice` says how.
        cache : int, float, or str, optional
            Lazy only: how many bytes of rows a solver may keep, for instance "2GB". By default 2 GB, or 16 n^2 bytes if
            that is more, but at most a quarter of the free memory; 2 GB where the system does not tell it.
        precision : {"float64", "float32"}
            Lazy only: in what a solver reads its rows. Certificates are evaluated in float64 in any case.

        Returns
        -------
        FamilyStack or LazyStack
            M float64 matrices in one array, or none; with names, and with `new(X_new)` for new samples.

        Raises
        ------
        InvalidInput
            X is not a finite matrix with two rows and one column at least, or a kernel overflows on it.
        InvalidKernel
            A kernel that cannot be normalised; the message names it.
        InvalidParameter
            An unknown normalisation, storage or precision, or a cache for which there is not enough memory.
        InvalidType
            A cache that is neither a number nor a text.
        """
        return self.fit_normalized(X, Normalizer(normalize, center), storage, cache=cache, precision=precision)

    def fit_normalized(
        self,
        X: Any,
        how: Normalizer,
        storage: str,
        *,
        cache: Any = None,
        precision: Any = "float64",
        progress: bool = False,
    ) -> FamilyStack | LazyStack:
        """What `fit` does; with `progress=True` there is a line while kernels that are not kept are evaluated."""
        from mklref.kernels.fitted import FamilyStack, FittedFamily
        from mklref.kernels.lazy import LazyStack
        from mklref.kernels.storage import PRECISIONS, STORAGES, checked_cache, chosen

        kept, choice = checked_choice("storage", storage, STORAGES), ""
        lazily: Any = {"precision": checked_choice("precision", precision, PRECISIONS), "progress": progress}
        raw = FittedFamily.of(self, X)
        lazily["cache"] = checked_cache(cache, raw.n_samples)
        if kept == "auto":
            kept, choice = chosen(len(raw.kernels), raw.n_samples, shown=progress)
        made = FamilyStack(raw, how) if kept == "memory" else LazyStack(raw, **lazily).normalized(how)
        made.choice, made.sample_names = choice, names_in(index_along(X, "index"))
        return made

    def _repr_html_(self) -> str:
        return _display.family(self)

    def __add__(self, other: KernelFamily) -> KernelFamily:
        if not isinstance(other, KernelFamily):
            return NotImplemented
        return Union(tuple(part for one in (self, other) for part in (one.parts if isinstance(one, Union) else (one,))))

    def __mul__(self, other: Any) -> KernelFamily:
        if isinstance(other, KernelFamily):
            return Products(self, other)
        if isinstance(other, bool) or not isinstance(other, numbers.Real):
            return NotImplemented
        factor: Any = other
        return Multiples(self, factor)

    def __rmul__(self, factor: float) -> KernelFamily:
        return self * factor


class Kernel(KernelFamily):
    """A positive semidefinite function k(x, z) of feature vectors, or of texts; as a family, it has itself alone."""

    _label = "{0!r}"
    """How its name is made of it."""

    def __init_subclass__(cls, **given: Any) -> None:
        """What is known of one of ours says nothing of a class that is made from it with another `cross`."""
        super().__init_subclass__(**given)

        def ours(name: str) -> bool:
            return next(kind for kind in cls.__mro__ if name in vars(kind)).__module__.startswith("mklref.")

        if not ours("cross"):  # be it that of a mixin
            for name in ("_label", "definite", "shares", "rate", "of_shared", "entry_error", "diagonal", "gram"):
                if ours(name):
                    setattr(cls, name, vars(Kernel)[name])

    @property
    def takes_text(self) -> bool:
        """Whether the samples are texts."""
        return False

    @property
    def definite(self) -> bool:
        """Whether k is positive semidefinite by a theorem, so that its matrices need no check."""
        return False

    @property
    def shares(self) -> str:
        """What k is a function of that others are too: "products", "squares", "distances", or nothing, ""."""
        return ""

    @property
    def rate(self) -> float | None:
        """r if k is exp(r D) of what it shares, r <= 0."""
        return None

    def of_shared(self, values: FloatArray) -> FloatArray:
        """k from what it shares, (k, n), which is not written to."""
        raise NotImplementedError

    def entry_error(self, X: Array) -> float:
        """eta, |x_ij - K_ij| <= eta (K_ii K_jj)^{1/2} for entries x_ij evaluated in float64; inf if unknown."""
        return math.inf

    @abstractmethod
    def cross(self, X: Array, Z: Array) -> Array:
        """k(x, z) for the rows x of X (k, d) and z of Z (n, d), (k, n)."""

    def diagonal(self, X: Array) -> Array:
        """k(x, x) for the rows of X, (k,)."""
        return np.array([self.checked_cross(x[None], x[None])[0, 0] for x in X])

    def checked_cross(self, X: Array, Z: Array) -> Array:
        """What `cross` returns, if that is a matrix of real numbers, (k, n)."""
        label = f"kernel {self.name([f'x{j}' for j in range(X.shape[1])])!r}"
        values = as_float_array(self.cross(X, Z), label, InvalidInput)
        if values.shape != (len(X), len(Z)):
            raise InvalidInput(
                f"{label} returned shape {values.shape} for {len(X)} and {len(Z)} samples; it takes two matrices, one "
                f"sample a row, and returns one row for each sample of the first: {len(X), len(Z)}."
            )
        return values.astype(float, copy=False)

    def name(self, variables: Sequence[str]) -> str:
        """A short name, where possible in the syntax of `parse`; `variables` are the d names of the columns."""
        return self._label.format(self)

    def group(self, variables: Sequence[str]) -> str:
        """Which kernels belong together: those on the same variables, unless there is a finer sense of it."""
        return "all variables"

    def on_columns(self) -> tuple[Kernel, tuple[int, ...] | None]:
        """A kernel of whole samples, and the columns of which it makes this one; None for all of them."""
        return self, None

    def gram(self, X: Array) -> Array:
        """k(x, z) for all rows of X, (n, n), exactly symmetric."""
        K = self.checked_cross(X, X)
        return 0.5 * (K + K.T)

    def expand(self, variables: Sequence[str]) -> tuple[Kernel, ...]:
        """The kernel itself."""
        return (self,)


class BlockKernel(Kernel):
    """A kernel that follows from what it shares with others, or from other kernels, and is evaluated as they are."""

    def cross(self, X: Array, Z: Array) -> Array:
        """k(x, z), (k, n), around the mean of Z."""
        from mklref.kernels.evaluation import Block

        return np.asarray(Block.between(X, Z).values(self))

    def diagonal(self, X: Array) -> Array:
        """k(x, x) for the rows of X, (k,): of the product ||x||^2, or of the distance 0."""
        own = np.ones(len(X)) if self.rate is not None else self.of_shared(np.einsum("ij,ij->i", X, X))
        return np.asarray(own, dtype=np.float64)

    def gram(self, X: Array) -> Array:
        from mklref.kernels.evaluation import Block, Samples

        return np.asarray(Block(Samples(X)).values(self))


@dataclass(frozen=True)
class Composite(BlockKernel):
    """A function of the values of other kernels: positive semidefinite if they are, by Schur's theorem."""

    kernels: tuple[Kernel, ...]

    _operation: ClassVar[Any] = np.multiply
    """How the values of two kernels become one."""

    def compose(self, values: Sequence[Array]) -> Array:
        """Its values from those of the other kernels, which it may overwrite."""
        return reduce(lambda made, value: self._operation(made, value, out=made), values)

    @property
    def takes_text(self) -> bool:
        return any(kernel.takes_text for kernel in self.kernels)

    @property
    def definite(self) -> bool:
        return all(kernel.definite for kernel in self.kernels)

    def diagonal(self, X: Array) -> Array:
        return self.compose([kernel.diagonal(X) for kernel in self.kernels])

    def entry_error(self, X: Array) -> float:
        """The errors of the parts as those of a product, which is more than those of a sum, and its own roundings."""
        whole = sum(math.log1p(kernel.entry_error(X)) for kernel in self.kernels)
        return math.expm1(whole) + 2.0**-52 * (len(self.kernels) + 1) * math.exp(whole) if whole < 1.0 else math.inf

    def group(self, variables: Sequence[str]) -> str:
        """The group that the kernels share, or the names of all of theirs."""
        return " and ".join(dict.fromkeys(kernel.group(variables) for kernel in self.kernels))


class Product(Composite):
    """k(x, z) = k_1(x, z) k_2(x, z) ..."""

    def name(self, variables: Sequence[str]) -> str:
        return "*".join(kernel.name(variables) for kernel in self.kernels)


class Sum(Composite):
    """k(x, z) = k_1(x, z) + k_2(x, z) + ..."""

    _operation = np.add

    def name(self, variables: Sequence[str]) -> str:
        return f"total({', '.join(kernel.name(variables) for kernel in self.kernels)})"


@dataclass(frozen=True)
class Multiple(Composite):
    """k(x, z) = factor k_1(x, z)."""

    factor: float

    def compose(self, values: Sequence[Array]) -> Array:
        return np.multiply(values[0], self.factor, out=values[0])

    def name(self, variables: Sequence[str]) -> str:
        return f"{self.factor:g}*{self.kernels[0].name(variables)}"


@dataclass(frozen=True)
class Union(KernelFamily):
    """Families one after the other."""

    parts: tuple[KernelFamily, ...]

    def expand(self, variables: Sequence[str]) -> tuple[Kernel, ...]:
        return tuple(kernel for part in self.parts for kernel in part.expand(variables))


def require_family(function: str, family: Any) -> None:
    """Raise `InvalidParameter` unless a function of families was given one."""
    if not isinstance(family, KernelFamily):
        raise InvalidParameter(f"{function} takes a family of kernels, such as gaussian(1.0), not {shown(family)}.")


_MOST = 10**6


def require_few(kernels: int) -> None:
    """Raise `InvalidParameter` if a family has more kernels than any problem: a few characters can ask for 100^9."""
    if kernels > _MOST:
        raise InvalidParameter(
            f"the kernels are {kernels}, of which at most {_MOST} are made; give fewer of them, or fewer variables."
        )


@dataclass(frozen=True)
class Products(KernelFamily):
    """Every kernel of the one family times every kernel of the other."""

    left: KernelFamily
    right: KernelFamily

    def expand(self, variables: Sequence[str]) -> tuple[Kernel, ...]:
        """The products, those of the first kernel on the left first."""
        left, right = self.left.expand(variables), self.right.expand(variables)
        require_few(len(left) * len(right))
        return tuple(Product((a, b)) for a in left for b in right)


@dataclass(frozen=True)
class Multiples(KernelFamily):
    """Every kernel of a family times one factor in (0, inf)."""

    family: KernelFamily
    factor: float

    def __post_init__(self) -> None:
        check_field(self, "factor", "(0, inf)", "K is semidefinite.")

    def expand(self, variables: Sequence[str]) -> tuple[Kernel, ...]:
        return tuple(Multiple((kernel,), self.factor) for kernel in self.family.expand(variables))


@dataclass(frozen=True)
class Total(KernelFamily):
    """The sum of a family's kernels, as one kernel."""

    family: KernelFamily

    def expand(self, variables: Sequence[str]) -> tuple[Kernel, ...]:
        return (Sum(self.family.expand(variables)),)


def total(family: KernelFamily) -> KernelFamily:
    """The sum of the kernels of a family as one kernel, whose parts have no weights of their own.

    Raises
    ------
    InvalidParameter
        Something that is not a family.
    """
    require_family("total", family)
    return Total(family)
