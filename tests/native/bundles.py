"""Bundles of cuts, for the tests of the step and of its quadratic programs."""

from __future__ import annotations

from regularizers.instances import M

from mklref.native.step import Cut


def random_bundle(rng, regularizer, cuts, rows=M, kernels=M):
    """Cuts in no order, a curvature, and a centre in the domain of psi."""
    bundle = [
        Cut(rng.normal(size=5), rng.uniform(0.05, 1.0, size=kernels), 1.0 + 0.1 * rng.normal()) for _ in range(cuts)
    ]
    W = 0.3 * rng.normal(size=(rows, kernels))
    psi = regularizer.polyhedral(kernels)
    if psi is None:
        return bundle, W, regularizer.weights_from_norms(rng.exponential(size=kernels))
    centre = rng.exponential(size=kernels) * (rng.uniform(size=kernels) < 0.6)
    centre[0] = 0.5
    return bundle, W, centre / (1.0 if psi.normal is None else psi.normal @ centre)
