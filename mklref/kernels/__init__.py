"""Stacks of Gram matrices: what a solver may ask of them, families, normalisation, checks."""

from __future__ import annotations

from mklref.kernels.columns import on, per_group
from mklref.kernels.diagnostics import KernelReport, alignment, diagnose
from mklref.kernels.families import KernelFamily, function, gaussian, linear, per_variable, polynomial
from mklref.kernels.fitted import FamilyStack, FittedFamily
from mklref.kernels.recipes import simplemkl_recipe
from mklref.kernels.specification import from_specification, parse
from mklref.kernels.stack import ArrayStack, KernelStack, stack
from mklref.kernels.strings import spectrum
from mklref.kernels.transforms import center, normalize
from mklref.kernels.validation import check_psd
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
