"""The oracle as a product: check one answer, a whole solver, or a file, whoever computed it.

    testing.assert_optimal(problem, dual_coef, weights=theta, intercept=b)     in a test
    testing.check_value(problem, value)                                        what a model states as its optimum
    testing.check_solver(solver)                                               the whole catalogue of cases

`__init__.pyi` lists the names; they are imported when they are first asked for, so that the pytest plugin, which lives
here, costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
