"""Families on chosen variables: named groups of columns, given by name, number or prefix.

    on("blood", ["iron", "zinc"], family)           the family on these two variables
    on("blood", "blood_*", family)                  on all whose name begins with blood_
    per_group({"blood": [...], ...}, family)        on each group of variables
    per_group("_", family)                          the groups are what stands before the first _ in the names
    per_variable(family)                            each variable is a group

A group is also what `mklref.Groups` takes: `FamilyStack.groups` lists the kernels of each one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref._validate import NO_NUMBERS, several, shown
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.kernels.base import BlockKernel, Kernel, KernelFamily, Union, require_family, require_few

Columns = str | int | Sequence[str | int]
"""Names, numbers from 0, or prefixes such as "blood_*"."""


def on(group: str | int, columns: Columns, family: KernelFamily) -> KernelFamily:
    """The kernels of a family on some of the variables, which have a name together.

    Parameters
    ----------
    group : str or int
        Name of the group, which goes into the names of the kernels: rbf:1[group].
    columns : str, int, or a sequence of these
        Names of a data frame's columns, or x0, x1, ... of an array; numbers from 0; "blood_*" is every column whose
        name begins with blood_.
    family : KernelFamily

    Raises
    ------
    InvalidParameter, InvalidType
        Not a family, no columns, or a group without a name. Columns that do not exist are found when the family meets
        the data.
    """
    require_family("on", family)
    long = isinstance(group, int) and abs(group) >= 10**30
    if long or isinstance(group, NO_NUMBERS) or not isinstance(group, str | int | np.integer):
        raise InvalidType(f"group is {shown(group)} ({type(group).__name__}); give its name as a text, or a number.")
    chosen: tuple[Any, ...] = tuple(columns) if several(columns) else (columns,)  # type: ignore[arg-type]
    known = [isinstance(one, str | int | np.integer) and not isinstance(one, NO_NUMBERS) for one in chosen]
    if not (known and all(known)):
        raise InvalidParameter(
            f"columns = {shown(columns)}; give names such as 'age', numbers from 0, prefixes such as 'blood_*', or a "
            "list of these; of a mask np.flatnonzero(mask)."
        )
    return OnColumns(str(group), chosen, family)


def per_group(groups: Mapping[str, Columns] | str, family: KernelFamily) -> KernelFamily:
    """The kernels of a family on each group of variables.

    Parameters
    ----------
    groups : dict of name to columns, or str
        Columns as in `on`; or a separator, and the groups are the names up to its first occurrence: with "_" blood_iron
        and blood_zinc are the group blood. A name without it is a group of its own.
    family : KernelFamily

    Raises
    ------
    InvalidParameter
        Not a family, or no groups.
    """
    require_family("per_group", family)
    if isinstance(groups, str) and groups:
        return PerGroup(groups, family)
    if not isinstance(groups, Mapping) or not groups:
        raise InvalidParameter(
            f"groups = {shown(groups)}; give a dict such as {{'blood': ['iron', 'zinc']}}, or the separator that ends "
            "the prefixes of the names, such as '_'."
        )
    return Union(tuple(on(name, columns, family) for name, columns in groups.items()))


def per_variable(family: KernelFamily) -> KernelFamily:
    """The kernels of a family on each single variable: d times as many.

    Raises
    ------
    InvalidParameter
        Something that is not a family.
    """
    require_family("per_variable", family)
    return PerGroup(None, family)


@dataclass(frozen=True)
class OnColumns(KernelFamily):
    """A family on a named group of variables."""

    group: str
    columns: tuple[str | int, ...]
    family: KernelFamily

    def expand(self, variables: Sequence[str]) -> tuple[Kernel, ...]:
        chosen = tuple(dict.fromkeys(j for column in self.columns for j in _found(column, variables, self.group)))
        kernels = self.family.expand([variables[j] for j in chosen])
        return tuple(OnVariables(kernel, chosen, self.group) for kernel in kernels)


@dataclass(frozen=True)
class PerGroup(KernelFamily):
    """A family on each group of variables: all its kernels on the first, then all on the second, and so on."""

    separator: str | None
    """The variables of a group have names that agree up to it; None: each variable is a group."""
    family: KernelFamily

    def expand(self, variables: Sequence[str]) -> tuple[Kernel, ...]:
        if self.separator is None:
            require_few(len(self.family.expand(variables[:1])) * len(variables))
            groups: list[tuple[str, list[int]]] = [(name, [j]) for j, name in enumerate(variables)]
        else:
            named: dict[str, list[int]] = {}
            for j, name in enumerate(variables):
                named.setdefault(name.partition(self.separator)[0] or name, []).append(j)
            groups = list(named.items())
        parts = [OnColumns(name, tuple(columns), self.family) for name, columns in groups]
        return Union(tuple(parts)).expand(variables)


@dataclass(frozen=True)
class OnVariables(BlockKernel):
    """A kernel on some of the variables."""

    kernel: Kernel
    variables: tuple[int, ...]
    label: str

    @property
    def takes_text(self) -> bool:
        return self.kernel.takes_text

    @property
    def definite(self) -> bool:
        return self.kernel.definite

    def entry_error(self, X: Array) -> float:
        return self.kernel.entry_error(X[:, self.variables])

    def on_columns(self) -> tuple[Kernel, tuple[int, ...]]:
        """The kernel, and the chosen columns, or those among them that it chooses."""
        kernel, columns = self.kernel.on_columns()
        return kernel, self.variables if columns is None else tuple(self.variables[j] for j in columns)

    def diagonal(self, X: Array) -> Array:
        return self.kernel.diagonal(X[:, self.variables])

    def name(self, variables: Sequence[str]) -> str:
        return f"{self.kernel.name([variables[j] for j in self.variables])}[{self.label}]"

    def group(self, variables: Sequence[str]) -> str:
        return self.label


def _found(column: str | int, variables: Sequence[str], group: str) -> list[int]:
    """Positions of a column, or of all columns with a prefix."""
    if isinstance(column, str):
        made = f"{column}="  # what a column of a table has become, beside itself
        found = [j for j, name in enumerate(variables) if name == column or name.startswith(made)]
        if not found and column.endswith("*"):
            found = [j for j, name in enumerate(variables) if name.startswith(column[:-1])]
        if found:
            return found
        if column.endswith("*"):
            raise InvalidParameter(
                f"group {group!r}: no column begins with {column[:-1]!r}; there are {_few(variables)}."
            )
        near = get_close_matches(column, variables, n=1, cutoff=0.75)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {_few(variables)}."
        raise InvalidParameter(f"group {group!r}: there is no column {column!r}; {hint}")
    if not 0 <= column < len(variables):
        raise InvalidParameter(
            f"group {group!r}: there is no column {shown(column)}; there are {len(variables)}, from 0."
        )
    return [int(column)]


def _few(variables: Sequence[str]) -> str:
    shown = ", ".join(map(repr, variables[:6]))
    return shown + (f", ... ({len(variables)} in all)" if len(variables) > 6 else "")
