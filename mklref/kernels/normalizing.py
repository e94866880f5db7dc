"""`normalize` and `center`: stacks of training kernels, and test kernels with their statistics (transforms.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._names import require_same_samples
from mklref._validate import checked_array, checked_choice, checked_members
from mklref.exceptions import InvalidInput
from mklref.kernels.stack import ArrayStack, KernelStack, stack
from mklref.kernels.transforms import METHODS, Normalization, Normalizer
from mklref.kernels.validation import checked_block


def normalize(K: Any, method: Normalization, K_new: Any = None, diagonal_new: Any = None) -> Any:
    """Normalise training kernels, and test kernels with the statistics of the training samples.

        "trace"           k / sum_i k(x_i, x_i)                                 SimpleMKL 5.1
        "multiplicative"  k / (mean_i k(x_i, x_i) - mean_ij k(x_i, x_j))        Kloft (25)
        "spherical"       k(x, z) / sqrt(k(x, x) k(z, z))                       Kloft (26)

    Parameters
    ----------
    K : array (n, n) or (M, n, n), sequence of (n, n) arrays, or KernelStack
        Training kernels; never written to.
    method : {"trace", "multiplicative", "spherical"}
    K_new : array (k, n) or (M, k, n), or sequence of (k, n) arrays, optional
        Test kernels k_m(new sample, training sample).
    diagonal_new : array (k,) or (M, k), optional
        k_m(x, x) of the new samples; "spherical" needs it.

    Returns
    -------
    array (n, n), or ArrayStack unless K is one matrix
        The normalised training kernels, in the dtype of K. With K_new the pair of them and an array of the
        shape of K_new.

    Raises
    ------
    InvalidKernel
        K is no Gram matrix, or "multiplicative" meets a kernel that is constant on the samples. What cannot be
        normalised because it is zero stays zero: a zero kernel, and in "spherical" a sample of norm zero.
    InvalidParameter
        An unknown method.
    InvalidInput
        K_new or diagonal_new does not fit K, or data frames name their samples differently.
    """
    if checked_choice("method", method, METHODS) == "spherical" and K_new is not None and diagonal_new is None:
        raise InvalidInput("diagonal_new is missing: 'spherical' divides by k(x, x) of the new samples, (M, k).")
    return _transformed(K, K_new, diagonal_new, Normalizer(method))


def center(K: Any, K_new: Any = None) -> Any:
    """Centre kernels in feature space around the mean of the training samples: H K H with H = I - 11'/n.

    With an intercept this leaves the problem as it is; it matters for normalisation and alignment.

    Parameters
    ----------
    K, K_new
        As in `normalize`; test kernels are centred around the mean of the training samples.

    Returns
    -------
    array (n, n), or ArrayStack unless K is one matrix
        As of `normalize`, and with K_new a pair.

    Raises
    ------
    InvalidType, InvalidKernel
        K is no Gram matrix.
    InvalidInput
        K_new does not fit K, or data frames name their samples differently.
    """
    return _transformed(K, K_new, None, Normalizer(center=True))


def _transformed(K: Any, K_new: Any, diagonal_new: Any, how: Normalizer) -> Any:
    single = not isinstance(K, KernelStack | list | tuple) and np.ndim(K) == 2
    if single:
        K, K_new, diagonal_new = (None if part is None else [part] for part in (K, K_new, diagonal_new))
    elif K_new is not None:
        K_new = checked_members("K_new", K_new, "give one array (k, n) for each kernel.")
        if diagonal_new is not None:
            diagonal_new = checked_members("diagonal_new", diagonal_new, "give one array (k,) for each kernel.")
    given = stack(K)
    require_same_samples({"K": K}, {"K_new": K_new, "diagonal_new": diagonal_new}, getattr(K, "sample_names", ()))
    grams = given.matrices if isinstance(given, ArrayStack) else tuple(given.dense())
    fitted = [how.fit(gram, f"kernels[{m}]") for m, gram in enumerate(grams)]
    train = ArrayStack([own.train(gram) for own, gram in zip(fitted, grams, strict=True)], given.names or None)
    train.sample_names = given.sample_names
    answer = train.matrices[0] if single else train
    if K_new is None:
        return answer
    if len(K_new) != len(grams):
        raise InvalidInput(f"K_new holds {len(K_new)} kernels, K holds {len(grams)}.")
    if diagonal_new is None:
        diagonal_new = [None] * len(grams)
    elif len(diagonal_new) != len(grams):
        raise InvalidInput(f"diagonal_new holds {len(diagonal_new)} kernels, K holds {len(grams)}.")
    new: list[Any] = []
    for m, (own, rows, diagonal) in enumerate(zip(fitted, K_new, diagonal_new, strict=True)):
        block = checked_block(rows, f"K_new[{m}]", given.shape[1])
        if new and len(block) != len(new[0]):
            raise InvalidInput(
                f"K_new[{m}] has {len(block)} rows, K_new[0] has {len(new[0])}; give the same new samples."
            )
        squares = np.zeros(len(block))  # unread: only 'spherical' asks for it
        if diagonal is not None:
            squares = checked_array(diagonal, f"diagonal_new[{m}]", squares.shape, error=InvalidInput)
        with np.errstate(over="ignore", invalid="ignore"):
            new.append(own.new(block, squares))
        if not np.isfinite(new[-1]).all():
            raise InvalidInput(f"K_new[{m}] is beyond float64 with the statistics of K; give entries of the size of K.")
    return answer, new[0] if single else np.stack(new)
