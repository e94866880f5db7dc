"""One fit from samples to machine: `python -m validation.benchmarks.fit [--n 3000] [--kernels 10] [--d 21] [--search]`.

The lower limit of a fit is one product X X', 1.5 ns for each entry of each kernel, and what the solver itself takes on
these kernels. `MKLClassifier` is compared with it, with `SVC` on the average kernel of the same widths, its matrices
being made by scikit-learn, and with `GridSearchCV` of `SVC` over the widths.

Several data sets are drawn, and sums over them compared: a fit puts its samples in an order of its own
(`mklref.estimators.samples`), and what the solver takes differs by a third from one order of the same samples to
another. Processor seconds, the least of some runs each.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from mklref import Problem, solve
from mklref.estimators import MKLClassifier
from mklref.kernels import gaussian
from validation.benchmarks import processor
from validation.facts import require_core

_NANOSECONDS = 1.5
_RUNS = 3


def data(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that an interaction and a line separate, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=n) > 0.0, 1, -1)


def seconds(run: Callable[[], Any], runs: int = _RUNS) -> float:
    """Processor seconds, the least of some runs."""
    return min(processor(run)[0] for _ in range(runs))


def solver_seconds(X: np.ndarray, y: np.ndarray, widths: np.ndarray) -> float:
    """Those of the solver alone, on the kernels of a fit; their memory is free again when it returns."""
    problem = Problem(gaussian(widths).fit(X, normalize="multiplicative"), y.astype(float))
    return seconds(lambda: solve(problem, tol=1e-4))


def measure(X: np.ndarray, y: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Seconds of the solver, the product, the limit, the fit, and `SVC` on the average kernel."""
    entries, gammas = len(widths) * len(X) ** 2, 0.5 / widths**2
    product, solver = seconds(lambda: X @ X.T), solver_seconds(X, y, widths)
    fit = seconds(lambda: MKLClassifier(gaussian(widths)).fit(X, y))
    average = seconds(
        lambda: SVC(kernel="precomputed").fit(sum(rbf_kernel(X, gamma=gamma) for gamma in gammas) / len(gammas), y)
    )
    return np.array([solver, product, product + entries * _NANOSECONDS * 1e-9 + solver, fit, average])


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"n": 3000, "kernels": 10, "d": 21, "sets": 6}.items():
        options.add_argument(f"--{name}", type=int, default=value)
    options.add_argument("--search", action="store_true", help="also GridSearchCV on the first set, which takes long")
    arguments = options.parse_args()
    require_core()
    widths, total = np.geomspace(1.0, 20.0, arguments.kernels), np.zeros(5)
    print("| data | solver | product | lower limit | MKLClassifier.fit | of the limit | SVC, average kernel |")
    print("|---|---|---|---|---|---|---|")
    for seed in range(arguments.sets):
        found = measure(*data(arguments.n, arguments.d, seed), widths)
        total += found
        print(shown(str(seed), found), flush=True)
    print(shown("all", total))
    if arguments.search:
        search = GridSearchCV(SVC(), {"gamma": 0.5 / widths**2}, cv=5)
        taken = seconds(lambda: search.fit(*data(arguments.n, arguments.d)), 1)
        print(f"GridSearchCV of SVC over the {len(widths)} widths, data 0: {taken:.2f}")


def shown(name: str, found: np.ndarray) -> str:
    """A row of the table."""
    solver, product, limit, fit, average = found
    return f"| {name} | {solver:.2f} | {product:.3f} | {limit:.2f} | {fit:.2f} | {fit / limit:.2f} | {average:.2f} |"


if __name__ == "__main__":
    main()
