"""The pictures of the pages on algorithms: `python docs/figures/algorithms.py` writes them into docs/_static.

As SimpleMKL's Figures 2 and 3: the five largest weights, and how far objective and certified gap are from the end,
over the iterations of each algorithm on 150 samples of breast cancer with 13 kernels.
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
from mklref.algorithms import ALGORITHMS  # noqa: E402
from validation.benchmarks.algorithms import problem_for  # noqa: E402

STATIC = Path(__file__).parents[1] / "_static"
SETTINGS = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "mklref",
}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#999999")
SHOWN = {
    "lp_wrapper": mklref.Lp(4 / 3),
    "lp_interleaved": mklref.Lp(4 / 3),
    "iterated_reweighting": mklref.ElasticNet(0.1),
}
"""Regularisers that show more of these algorithms than the first one that they take."""
TOL = 1e-6
MOST = 400
"""Iterations that are drawn."""


def picture(name: str) -> None:
    """Weights on the left, objective and gap on the right."""
    problem, _ = problem_for(name)
    problem = problem.replace(regularizer=SHOWN.get(name, problem.regularizer))
    truth = mklref.solve(problem, tol=1e-9)
    history = ALGORITHMS[name](problem, tol=TOL, max_iter=MOST).history
    iterations, weights = history.column("iteration"), history.column("weights")
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 2.9), layout="constrained")
    for colour, m in zip(COLOURS, np.argsort(truth.weights)[::-1], strict=False):
        left.plot(iterations, weights[:, m], color=colour, linewidth=1.2, label=problem.kernels.names[m])
    left.set(xlabel="iteration", ylabel="weight", ylim=(-0.02, 1.02 * weights.max()))
    left.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    excess = np.maximum(history.column("objective") / truth.certificate.lower - 1.0, 1e-10)
    right.semilogy(iterations, excess, color=COLOURS[4], linewidth=1.0, label="objective of the iterate, above P*")
    right.semilogy(
        iterations, history.column("relative_gap"), color=COLOURS[0], linewidth=1.4, label="certified gap, best bounds"
    )
    right.axhline(1e-4, color="0.8", linewidth=0.8, zorder=0)
    right.set(xlabel="iteration", ylabel="relative")
    right.legend(fontsize=7)
    for ax in (left, right):
        ax.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    figure.suptitle(f"{name}, {problem.regularizer}", fontsize=9)
    figure.savefig(STATIC / f"algorithm-{name}.svg", metadata={"Date": None})
    plt.close(figure)


def main(names: list[str]) -> None:
    """All pictures, or those that are named."""
    with mpl.rc_context(SETTINGS):
        for name in names or ALGORITHMS:
            picture(name)


if __name__ == "__main__":
    main(sys.argv[1:])
