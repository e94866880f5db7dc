"""mklref: multiple kernel learning as convex programs, with certificates and a fast native solver.

    minimise   C sum_i V(sum_m f_m(x_i) + b, y_i) + R(||f_1||, ..., ||f_M||)

`reference.solve` states a problem declaratively in cvxpy, `solve` is the fast native solver, and `certify` bounds
the distance to the optimum of anybody's answer. `__init__.pyi` lists the public names, for type checkers as for the
interpreter; each is imported when it is first asked for, so that importing mklref alone loads nothing heavy.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
