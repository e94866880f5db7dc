"""The picture of the page on paths: `python docs/figures/regularization_path.py` writes it into docs/_static.

As SimpleMKL's Figure 4: the number of kernels and their weights along a path of C, on 150 samples of breast cancer with
the 13 kernels of the paper's recipe on each of the first ten variables and on all of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from algorithms import STATIC  # noqa: E402

import mklref  # noqa: E402
from mklref import plotting  # noqa: E402
from mklref.algorithms import hessian_mkl, regularization_path  # noqa: E402
from mklref.datasets import load  # noqa: E402

COSTS = np.geomspace(1000.0, 0.1, 50)


def main() -> None:
    """Weights on the left, counts and gaps on the right."""
    data = load("breast_cancer").standardized().subset(150, seed=0)
    kernels = mklref.kernels.simplemkl_recipe(data.X[:, :10])
    problem = mklref.Problem(kernels, np.where(data.y == "benign", 1.0, -1.0))
    path = regularization_path(problem, C=COSTS, solver=hessian_mkl)
    with mpl.rc_context(plotting.SETTINGS):
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(8.4, 2.7), layout="constrained")
        plotting.weight_paths(path.solutions, path.C, names=kernels.names, ax=left)
        left.get_legend().remove()
        plotting.path(path.C, path.solutions, ax=middle)
        right.semilogx(path.C, path.iterations, ".", color=plotting.COLOURS[1])
        right.set(xlabel="C", ylabel="machines", ylim=(0, path.iterations.max() + 1))
        figure.savefig(STATIC / "algorithm-regularization_path.svg", metadata={"Date": None})
        print(f"largest certified relative gap {path.relative_gap.max():.1e}")


if __name__ == "__main__":
    main()
