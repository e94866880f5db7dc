"""The kernels of SimpleMKL's experiments."""

from __future__ import annotations

from typing import Any, overload

from mklref._typing import Array
from mklref.kernels.base import KernelFamily
from mklref.kernels.families import gaussian, per_variable, polynomial
from mklref.kernels.fitted import FamilyStack

SIMPLEMKL_WIDTHS = (0.5, 1.0, 2.0, 5.0, 7.0, 10.0, 12.0, 15.0, 17.0, 20.0)
"""Ten Gaussian widths, SimpleMKL 5.3; 5.1 says ten without printing them."""

SIMPLEMKL_DEGREES = (1, 2, 3)


def simplemkl_family(*, single_variables: bool = False) -> KernelFamily:
    """Gaussians of ten widths and polynomials of degree 1 to 3, on all variables, and on each one if asked for."""
    family = gaussian(SIMPLEMKL_WIDTHS) + polynomial(SIMPLEMKL_DEGREES)
    return family + per_variable(family) if single_variables else family


@overload
def simplemkl_recipe(X: Any, X_new: None = None, *, single_variables: bool = True) -> FamilyStack: ...
@overload
def simplemkl_recipe(X: Any, X_new: Any, *, single_variables: bool = True) -> tuple[FamilyStack, Array]: ...
def simplemkl_recipe(
    X: Any, X_new: Any = None, *, single_variables: bool = True
) -> FamilyStack | tuple[FamilyStack, Array]:
    """The 13 (d + 1) kernels of SimpleMKL 5.1, each of unit trace.

        exp(-||x - z||^2 / (2 sigma^2)),  sigma = 0.5, 1, 2, 5, 7, 10, 12, 15, 17, 20
        (x'z + 1)^degree,                 degree = 1, 2, 3

    on all d variables, then on the first, the second, ... variable alone.

    Parameters
    ----------
    X : array (n, d)
        Training samples. The paper standardises each variable to mean 0 and variance 1; this function does not.
    X_new : array (k, d), optional
        New samples, standardised with the mean and variance of the training samples.
    single_variables : bool
        False leaves the 13 kernels on all variables.

    Returns
    -------
    FamilyStack
        The training kernels (M, n, n), with names and `new(X_new)`. With X_new the pair of them and the array
        (M, k, n) of new samples, scaled with the traces of the training kernels.

    Raises
    ------
    InvalidInput
        X or X_new is not a finite matrix, or they differ in their number of columns.
    """
    train = simplemkl_family(single_variables=single_variables).fit(X, normalize="trace")
    return train if X_new is None else (train, train.new(X_new))
