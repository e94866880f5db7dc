"""Exponentials of shared squared distances: compiled if they were built, else their NumPy twins, to the same bits.

    squares            D_ij = max(0, a_i + b_j - 2 P_ij)                          from products P = X Z', in place
    exponentials       K_mij = f_m exp(r_m D_ij)
    exponential_forms  v'E v for E = exp(r_m D), D = D', by its terms v_i (v_i E_ii + 2 sum_{j > i} v_j E_ij), whose
                       sums may differ in the last bits
    exponential_sum    Q_ij += sum_m w_m exp(r_m D_ij)
    exponential_dots   images_mj += sum_i v_i f_m exp(r_m D_ij)

for D of float64 or float32 and r <= 0. The relative error of exp itself is at most `EXP_ERROR` units of the type,
u = 2^-53 or 2^-24: k ln 2 is taken off in two parts, e^r on |r| <= 0.35 is its Taylor polynomial of degree 13 or 7, and
2^k is made of bits. Below e^-708 or e^-87 the result is 0.
"""

from __future__ import annotations

import importlib
import math
from contextlib import suppress
from typing import Any

import numpy as np

from mklref._typing import Array, FloatArray

EXP_ERROR = 4.0
"""Relative error of exp(x) for the x that it is given, in units u of the type, where it is not 0."""
_LOG2E, _SHIFT, _ONE = 1.4426950408889634, {8: 1.5 * 2.0**52, 4: 1.5 * 2.0**23}, {8: 1023 << 52, 4: 127 << 23}
_LOWEST, _DEGREE, _MANTISSA = {8: -708.0, 4: -87.0}, {8: 13, 4: 7}, {8: 52, 4: 23}
_LN2 = {8: (6.93147180369123816490e-01, 1.90821492927058770002e-10), 4: (0.693145751953125, 1.42860677e-06)}


@np.errstate(over="ignore", invalid="ignore")
def exponential(x: FloatArray) -> FloatArray:
    """exp(x) for x <= 0, with the bits of the compiled loops."""
    real: Any = x.dtype.type
    size = x.dtype.itemsize
    inside = np.where(x < real(_LOWEST[size]), real(_LOWEST[size]), x)
    shifted = inside * real(_LOG2E) + real(_SHIFT[size])
    k = shifted - real(_SHIFT[size])
    r = (inside - k * real(_LN2[size][0])) - k * real(_LN2[size][1])
    value = np.full_like(r, real(1) / real(math.factorial(_DEGREE[size])))
    for degree in range(_DEGREE[size] - 1, -1, -1):
        value = value * r + real(1) / real(math.factorial(degree))
    words: Any = np.uint64 if size == 8 else np.uint32
    power = ((shifted.view(words) << words(_MANTISSA[size])) + words(_ONE[size])).view(x.dtype)
    return np.asarray(np.where(x < real(_LOWEST[size]), real(0), value * power))


class Twin:
    """The functions of the compiled module, from their definitions."""

    @staticmethod
    @np.errstate(over="ignore", invalid="ignore")
    def squares(products: FloatArray, rows: FloatArray, columns: FloatArray, threads: int) -> None:
        """products[i, j] becomes max(0, rows[i] + columns[j] - 2 products[i, j])."""
        found = (rows[:, None] + columns) - (products + products)
        products[:] = np.where(found < 0.0, products.dtype.type(0), found)

    @staticmethod
    def exponentials(squares: FloatArray, rates: Array, factors: Array, out: FloatArray, threads: int) -> None:
        """out[m, i, j] = factors[m] exp(rates[m] squares[i, j])."""
        for rate, factor, part in zip(rates.astype(squares.dtype), factors.astype(squares.dtype), out, strict=True):
            part[:] = factor * exponential(rate * squares)

    @staticmethod
    def exponential_forms(squares: Array, rates: Array, v: Array, out: Array, threads: int) -> None:
        """out[i, m] = v_i (v_i E_ii + 2 sum_{j > i} v_j E_ij), E = exp(rates[m] squares)."""
        for rate, terms in zip(rates, out.T, strict=True):
            E = exponential(rate * squares)
            terms[:] = v * (E.diagonal() * v + 2.0 * (np.triu(E, 1) @ v))

    @staticmethod
    def exponential_sum(squares: FloatArray, rates: Array, weights: Array, out: Array, threads: int) -> None:
        """out[i, j] += sum_m weights[m] exp(rates[m] squares[i, j])."""
        for rate, weight in zip(rates.astype(squares.dtype), weights, strict=True):
            out += weight * exponential(rate * squares).astype(np.float64, copy=False)

    @staticmethod
    def exponential_dots(
        squares: FloatArray, rates: Array, factors: Array, v: Array, images: Array, threads: int
    ) -> None:
        """images[m, j] += sum_i v[i] factors[m] exp(rates[m] squares[i, j])."""
        for rate, factor, image in zip(rates.astype(squares.dtype), factors, images, strict=True):
            for weight, row in zip(factor * v, exponential(rate * squares), strict=True):
                image += weight * row.astype(np.float64, copy=False)


compiled: Any = Twin
with suppress(ImportError):  # `mklref.machines.loops` says so, and why
    compiled = importlib.import_module("mklref.kernels._evaluation")
