"""Stacks of Gram matrices: what a solver may ask of them, families, normalisation, checks."""

from __future__ import annotations

from mklref.kernels.stack import ArrayStack, KernelStack, stack

__all__ = ["ArrayStack", "KernelStack", "stack"]
