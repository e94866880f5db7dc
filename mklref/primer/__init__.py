"""The formulations as their papers print them: one short function each, in plain cvxpy and NumPy.

Nothing here uses the rest of the library. A function that is copied into a notebook runs there below two lines,
`import cvxpy as cp` and `import numpy as np`. Its name is the paper and the number of the equation, and the symbols,
the signs and the meaning of C are those of that paper; where the print is in error (`docs/errata.md`), the function is
right and its docstring says what is printed.

Common arguments: `L` is a list of factors L_m (n, r_m) of the Gram matrices K_m = L_m L_m', so that every function of
the m-th space is f_m = L_m v_m on the samples, with the norm ||f_m|| = ||v_m||; v_m is the paper's w_m in these
coordinates. `y` (n,) holds labels -1 and +1 or real targets, `C` is the constant of the paper. `groups` is a list of
lists of indices. Every function returns the optimal value and then the variables. Where weights divide, the value is
the solver's own, `problem.solution.opt_val`: cvxpy evaluates `problem.value` at the point, where it is infinite if a
weight is -1e-10 in place of 0.
"""

import lazy_loader

EQUATIONS = {
    "simplemkl": ("2", "3", "8", "silp", "16", "17", "18", "19", "22"),
    "kloft": ("P", "D", "3", "4", "8", "10", "12", "13", "14", "15", "16", "3_5", "17", "sip", "27", "28", "30", "31"),
    "szafranski": ("6", "6_cap", "7", "8", "9", "10_11"),
    "tomioka": ("3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13"),
    "lanckriet": ("sdp",),
    "kowalski": ("2", "2_dual"),
}
"""The equations by paper; `kloft_P` lives in `mklref.primer.kloft`, which is imported when it is asked for."""

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={paper: [f"{paper}_{number}" for number in numbers] for paper, numbers in EQUATIONS.items()},
)
