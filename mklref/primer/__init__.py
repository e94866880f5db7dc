"""The formulations as their papers print them: one short function each, in plain cvxpy and NumPy.

Nothing here uses the rest of the library. A function that is copied into a notebook runs there below two lines,
`import cvxpy as cp` and `import numpy as np`. Its name is the paper and the number of the equation, and the symbols,
the signs and the meaning of C are those of that paper; where the print is in error (`docs/errata.md`), the function is
right and its docstring says what is printed.

Common arguments: `L` is a list of factors L_m (n, r_m) of the Gram matrices K_m = L_m L_m', so that every function of
the m-th space is f_m = L_m v_m on the samples, with the norm ||f_m|| = ||v_m||; v_m is the paper's w_m in these
coordinates. `y` (n,) holds labels -1 and +1 or real targets, `C` is the constant of the paper. `groups` is a list of
lists of indices. What solves returns the optimal value and then the variables. Where weights divide, the value is
the solver's own, `problem.solution.opt_val`: cvxpy evaluates `problem.value` at the point, where it is infinite if a
weight is -1e-10 in place of 0.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
