"""The picture of the page on mixed-norm synthesis: `python docs/figures/synthesis.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from mklref import plotting
from mklref.synthesis import SynthesisProblem, forward_backward, solve

STATIC = Path(__file__).parents[1] / "_static"


def convergence() -> None:
    """Certified relative gap over passes for the algorithm of the paper, its accelerated form, and `solve`."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1.0, -1.0)
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    problem = SynthesisProblem(np.array([np.exp(-D / w) for w in (0.5, 1.0, 2.0, 4.0)]), y, lam=10.0, p=1, q=1, r=1)
    figure, ax = plt.subplots(figsize=(6.0, 3.2), layout="constrained")
    runs = {
        "forward-backward (Algorithm 2)": (forward_backward(problem, max_iter=5000), "#c25300"),
        "with momentum and restart": (forward_backward(problem, max_iter=5000, accelerated=True), "#009e73"),
        "working sets, semismooth Newton": (solve(problem), "#0072b2"),
    }
    for label, (solution, color) in runs.items():
        gaps = solution.history.column("relative_gap")
        passes = np.linspace(1.0, solution.history.counters["passes"], len(gaps))
        ax.plot(passes, gaps, color=color, label=label)
    ax.axhline(1e-6, color="0.5", linewidth=0.8)
    ax.set(xscale="log", yscale="log", xlabel="passes over the kernels", ylabel="certified relative gap")
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0))
    STATIC.mkdir(exist_ok=True)
    figure.savefig(STATIC / "synthesis-convergence.svg", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    with mpl.rc_context(plotting.SETTINGS):
        convergence()
