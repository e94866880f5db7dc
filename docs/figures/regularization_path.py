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

from algorithms import COLOURS, SETTINGS, STATIC  # noqa: E402

import mklref  # noqa: E402
from mklref.algorithms import hessian_mkl, regularization_path  # noqa: E402
from mklref.datasets import load  # noqa: E402

COSTS = np.geomspace(1000.0, 0.1, 50)


def main() -> None:
    """Weights on the left, counts and gaps on the right."""
    data = load("breast_cancer").standardized().subset(150, seed=0)
    kernels = mklref.kernels.simplemkl_recipe(data.X[:, :10])
    problem = mklref.Problem(kernels, np.where(data.y == "benign", 1.0, -1.0))
    path = regularization_path(problem, C=COSTS, solver=hessian_mkl)
    with mpl.rc_context(SETTINGS):
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(8.4, 2.7), layout="constrained")
        largest = np.argsort(path.weights.max(axis=0))[::-1]
        used = largest[path.weights[:, largest].max(axis=0) > 0.01]
        left.semilogx(path.C, path.weights[:, used], color="0.8", linewidth=0.8)
        for colour, m in zip(COLOURS, largest, strict=False):
            left.semilogx(path.C, path.weights[:, m], color=colour, linewidth=1.3)
        left.set(xlabel="C", ylabel="weights")
        middle.semilogx(path.C, path.selected, color=COLOURS[0], drawstyle="steps-mid")
        middle.set(xlabel="C", ylabel=f"kernels of {problem.n_kernels}", ylim=(0, path.selected.max() + 1))
        right.semilogx(path.C, path.iterations, ".", color=COLOURS[1])
        right.set(xlabel="C", ylabel="machines", ylim=(0, path.iterations.max() + 1))
        figure.savefig(STATIC / "algorithm-regularization_path.svg", metadata={"Date": None})
        print(f"largest certified relative gap {path.relative_gap.max():.1e}")


if __name__ == "__main__":
    main()
