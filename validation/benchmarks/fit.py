"""One fit from samples to machine: `python -m validation.benchmarks.fit [--n 3000] [--kernels 10] [--d 21] [--search]`.

The lower limit of a fit is one product X X', 1.5 ns for each entry of each kernel, and what the solver itself takes on
the same problem, whose samples are in the order in which a fit sees them (`mklref.estimators.samples`).
`MKLClassifier` is compared with it, with `SVC` on the average kernel of the same widths, its matrices being made by
scikit-learn, and with `GridSearchCV` of `SVC` over the widths. Processor seconds, the least of three runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from mklref import Problem, solve
from mklref.estimators import MKLClassifier
from mklref.estimators.samples import merged
from mklref.kernels import gaussian

_NANOSECONDS = 1.5
_RUNS = 3


def data(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that an interaction and a line separate, with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=n) > 0.0, 1, -1)


def seconds(run: Callable[[], Any], runs: int = _RUNS) -> float:
    """Processor seconds, the least of some runs."""
    found = []
    for _ in range(runs):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    for name, value in {"n": 3000, "kernels": 10, "d": 21}.items():
        options.add_argument(f"--{name}", type=int, default=value)
    options.add_argument("--search", action="store_true", help="also GridSearchCV, which takes long")
    arguments = options.parse_args()
    n, M = arguments.n, arguments.kernels
    X, y = data(n, arguments.d)
    widths = np.geomspace(1.0, 20.0, M)
    family, gammas = gaussian(widths), 0.5 / widths**2
    order = merged(X, None, y).indices
    problem = Problem(family.fit(X[order], normalize="multiplicative"), y[order].astype(float))
    solver = seconds(lambda: solve(problem, tol=1e-4))
    product = seconds(lambda: X @ X.T)
    limit = product + M * n * n * _NANOSECONDS * 1e-9 + solver
    fit = seconds(lambda: MKLClassifier(family).fit(X, y))
    average = seconds(lambda: SVC(kernel="precomputed").fit(sum(rbf_kernel(X, gamma=gamma) for gamma in gammas) / M, y))
    print(f"n = {n}, M = {M}, d = {arguments.d}; processor seconds")
    print(f"solver {solver:.2f}, product {product:.3f}, lower limit {limit:.2f}")
    print(f"MKLClassifier.fit {fit:.2f} = {fit / limit:.2f} x the limit")
    print(f"SVC on the average kernel {average:.2f}")
    if arguments.search:
        search = GridSearchCV(SVC(), {"gamma": gammas}, cv=5)
        print(f"GridSearchCV of SVC over the {M} widths {seconds(lambda: search.fit(X, y), 1):.2f}")


if __name__ == "__main__":
    main()
