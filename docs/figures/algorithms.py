"""The pictures of the pages on algorithms: `python docs/figures/algorithms.py` writes them into docs/_static.

As SimpleMKL's Figures 2 and 3: the five largest weights, and how far objective and certified gap are from the end,
over the iterations of each algorithm on 150 samples of breast cancer with 13 kernels. As its Figure 4: the number of
kernels and their weights along a path of C, with these kernels on each of the first ten variables and on all of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import mklref  # noqa: E402
from mklref import plotting  # noqa: E402
from mklref.algorithms import ALGORITHMS, hessian_mkl, regularization_path  # noqa: E402
from mklref.datasets import load  # noqa: E402
from validation.benchmarks.algorithms import problem_for  # noqa: E402

STATIC = Path(__file__).parents[1] / "_static"
SHOWN = {
    "lp_wrapper": mklref.Lp(4 / 3),
    "lp_interleaved": mklref.Lp(4 / 3),
    "iterated_reweighting": mklref.ElasticNet(0.1),
}
"""Regularisers that show more of these algorithms than the first one that they take."""
TOL = 1e-6
MOST = 400
"""Iterations that are drawn."""
PATH = "regularization_path"
COSTS = np.geomspace(1000.0, 0.1, 50)


def picture(name: str) -> None:
    """Weights on the left, objective and gap on the right."""
    problem, _ = problem_for(name)
    problem = problem.replace(regularizer=SHOWN.get(name, problem.regularizer))
    truth = mklref.solve(problem, tol=1e-9)
    found = ALGORITHMS[name](problem, tol=TOL, max_iter=MOST)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 2.9), layout="constrained")
    plotting.weight_paths(found, names=problem.kernels.names, ax=left)
    plotting.gap({"certified gap, best bounds": found}, ax=right)
    iterations, objective = (found.history.column(column) for column in ("iteration", "objective"))
    excess = np.maximum(objective / truth.certificate.lower - 1.0, 1e-10)
    right.semilogy(iterations, excess, color="0.5", linewidth=1.0, label="objective of the iterate, above P*")
    right.axhline(1e-4, color="0.5", linewidth=0.8, linestyle="--", zorder=0)
    right.set(ylabel="relative")
    right.legend(fontsize=7)
    figure.suptitle(f"{name}, {problem.regularizer}", fontsize=9)
    figure.savefig(STATIC / f"algorithm-{name}.svg", metadata={"Date": None})
    plt.close(figure)


def path_picture() -> None:
    """The path: weights on the left, counts and gaps on the right."""
    data = load("breast_cancer").standardized().subset(150, seed=0)
    kernels = mklref.kernels.simplemkl_recipe(data.X[:, :10])
    problem = mklref.Problem(kernels, np.where(data.y == "benign", 1.0, -1.0))
    path = regularization_path(problem, C=COSTS, solver=hessian_mkl)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(8.4, 2.7), layout="constrained")
    plotting.weight_paths(path.solutions, path.C, names=kernels.names, ax=left)
    left.get_legend().remove()
    plotting.path(path.C, path.solutions, ax=middle)
    right.semilogx(path.C, path.iterations, ".", color=plotting.COLOURS[1])
    right.set(xlabel="C", ylabel="machines", ylim=(0, path.iterations.max() + 1))
    figure.savefig(STATIC / f"algorithm-{PATH}.svg", metadata={"Date": None})
    plt.close(figure)
    print(f"largest certified relative gap {path.relative_gap.max():.1e}")


def main(names: list[str]) -> None:
    """All pictures, or those that are named."""
    with mpl.rc_context(plotting.SETTINGS):
        for name in names or [*ALGORITHMS, PATH]:
            path_picture() if name == PATH else picture(name)


if __name__ == "__main__":
    main(sys.argv[1:])
