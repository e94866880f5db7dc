"""Stacks of Gram matrices: what a solver may ask of them, families, normalisation, checks.

Families and what is made of them are imported when they are first asked for: solvers need stacks alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mklref.kernels.stack import ArrayStack, KernelStack, stack
from mklref.kernels.validation import check_psd

if TYPE_CHECKING:
    from mklref.kernels.columns import on, per_group
    from mklref.kernels.diagnostics import KernelReport, alignment, diagnose
    from mklref.kernels.families import KernelFamily, function, gaussian, linear, per_variable, polynomial
    from mklref.kernels.fitted import FamilyStack, FittedFamily
    from mklref.kernels.recipes import simplemkl_recipe
    from mklref.kernels.specification import from_specification, parse
    from mklref.kernels.strings import spectrum
    from mklref.kernels.transforms import center, normalize
    from mklref.kernels.wavelets import wavelet

__all__ = [
    "ArrayStack",
    "FamilyStack",
    "FittedFamily",
    "KernelFamily",
    "KernelReport",
    "KernelStack",
    "alignment",
    "center",
    "check_psd",
    "diagnose",
    "from_specification",
    "function",
    "gaussian",
    "linear",
    "normalize",
    "on",
    "parse",
    "per_group",
    "per_variable",
    "polynomial",
    "simplemkl_recipe",
    "spectrum",
    "stack",
    "wavelet",
]

_HOMES = {
    "columns": ("on", "per_group"),
    "diagnostics": ("KernelReport", "alignment", "diagnose"),
    "families": ("KernelFamily", "function", "gaussian", "linear", "per_variable", "polynomial"),
    "fitted": ("FamilyStack", "FittedFamily"),
    "recipes": ("simplemkl_recipe",),
    "specification": ("from_specification", "parse"),
    "strings": ("spectrum",),
    "transforms": ("center", "normalize"),
    "wavelets": ("wavelet",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f"mklref.kernels.{home}"), name)
            return value
    raise AttributeError(f"module 'mklref.kernels' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
