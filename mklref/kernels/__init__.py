"""Stacks of Gram matrices: what a solver may ask of them, families, normalisation, checks.

`__init__.pyi` lists the names. Families and what is made of them are imported when they are first asked for: solvers
need stacks alone.
"""

import sys
import types

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
sys.modules[__name__].__class__ = types.ModuleType  # lazy-loader 0.6 has made another kind, which cloudpickle refuses

from mklref.kernels.stack import ArrayStack, KernelStack, stack  # noqa: E402, F401 - `stack` is the function
