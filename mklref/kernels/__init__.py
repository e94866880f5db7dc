"""Stacks of Gram matrices: what a solver may ask of them, families, normalisation, checks.

`__init__.pyi` lists the names. Families and what is made of them are imported when they are first asked for: solvers
need stacks alone.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

from mklref.kernels.stack import ArrayStack, KernelStack, stack  # noqa: E402, F401 - `stack` is the function
