"""The pictures of the page on empirical Bayes: `python docs/figures/evidence.py` writes them into docs/_static."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from mklref.evidence import METHODS, EvidenceProblem, simulate, solve
from mklref.kernels import gaussian, per_variable
from mklref.plotting import SETTINGS

STATIC = Path(__file__).parents[1] / "_static"
STYLES = {
    "newton": {"color": "#0072b2", "marker": "o"},
    "reweighted": {"color": "#c25300", "marker": "s"},
    "mackay": {"color": "#009e73", "marker": "^"},
    "wipf_nagarajan": {"color": "#cc79a7", "marker": "v"},
}


def rank_one(u: list[float], v: list[float], y: list[float], noise: float) -> EvidenceProblem:
    """Two kernels of rank one."""
    return EvidenceProblem([np.outer(u, u), np.outer(v, v)], y, noise)


PROBLEMS = {
    "A": (rank_one([1.0, 3.0], [1.0, 2.0], [3.0, 2.0], 0.4), 1.0, (3.8, 6.6), "upper left"),
    "B": (rank_one([1.0, -1.0, 2.0], [2.0, -3.0, 2.0], [0.0, 1.0, 1.0], 0.3), 2.0, (1.5, 1.6), "upper left"),
}
"""Two problems with two local minima each, where both weights start, how far to draw, and where to put the legend."""


def paths() -> None:
    """Contours of (14) over the standard deviations, with the way of each method from equal weights."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
    for ax, (name, (problem, start, reach, corner)) in zip(axes, PROBLEMS.items(), strict=True):
        first, second = (np.linspace(0.0, end, 141) for end in reach)
        phi = likelihoods(problem, np.stack(np.meshgrid(first**2, second**2), axis=-1))
        levels = phi.min() + np.r_[np.geomspace(0.01, 1.5, 24), 2.0, 3.0]
        ax.contour(first, second, phi, levels=levels, colors="0.58", linewidths=0.7)
        for method in METHODS:
            solution = solve(problem, method, start=[start, start])
            track = np.sqrt([record.weights for record in solution.history])
            label = f"{method}: {solution.objective:.3f}"
            shown = [*range(min(6, len(track))), len(track) - 1]
            ax.plot(*track.T, markersize=4, linewidth=1.2, markevery=shown, label=label, **STYLES[method])
        low = [-0.03 * end for end in reach]
        ax.set(xlim=(low[0], reach[0]), ylim=(low[1], reach[1]), xlabel="√θ₁", title=f"problem {name}")
        ax.set_ylabel("√θ₂")
        ax.legend(loc=corner, title="(14) where it ends", frameon=True, framealpha=1)
    save(figure, "evidence-paths.svg")


def likelihoods(problem: EvidenceProblem, theta: np.ndarray) -> np.ndarray:
    """(14), 1/2 log det Kbar + 1/2 y' Kbar^{-1} y, at all weights (..., M) at once."""
    Kbar = np.tensordot(theta, problem.kernels.dense(), axes=1) + problem.noise_variance * np.eye(problem.n_samples)
    fit = np.sum(problem.y * np.linalg.solve(Kbar, problem.y[:, None])[..., 0], axis=-1)
    return 0.5 * np.linalg.slogdet(Kbar).logabsdet + 0.5 * fit


def convergence() -> None:
    """Residual and objective over iterations on a regression problem of 100 samples and 10 kernels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 10))
    kernels = per_variable(gaussian(1.0)).fit(X)
    _, y = simulate(kernels, np.array([1.0, 0.5, 0.2] + [0.0] * 7), 0.1, rng)
    problem = EvidenceProblem(kernels, y, 0.1)
    best = solve(problem, tol=1e-9).objective
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.0), layout="constrained")
    for method in METHODS:
        solution = solve(problem, method)
        style = {**STYLES[method], "markersize": 3, "label": f"{method}: {len(solution.history) - 1}"}
        style["markevery"] = 0.06
        iterations = 1 + np.arange(len(solution.history))
        axes[0].loglog(iterations, [record.residual for record in solution.history], **style)
        excess = [max(record.objective - best, 1e-12) for record in solution.history]
        axes[1].loglog(iterations, excess, **style)
    axes[0].set(xlabel="iteration + 1", ylabel="residual")
    axes[1].set(xlabel="iteration + 1", ylabel="(14) above the lowest end")
    axes[0].legend(title="iterations")
    save(figure, "evidence-convergence.svg")


def posterior() -> None:
    """Posterior mean and band of a function of one variable, with the noise learned."""
    rng = np.random.default_rng(4)
    X = np.sort(np.r_[rng.uniform(-3, 0, 25), rng.uniform(1.5, 3, 15)])[:, None]
    y = np.sin(3 * X[:, 0]) + 0.5 * X[:, 0] + 0.2 * rng.normal(size=40)
    kernels = gaussian([0.1, 0.5, 2.0, 8.0]).fit(X)
    solution = solve(EvidenceProblem(kernels, y, 0.1, learn_noise=True))
    grid = np.linspace(-4, 4, 161)[:, None]
    mean, variance = solution.posterior(kernels.new(grid), kernels.diagonals(grid), observation=True)
    figure, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
    band = 2.0 * np.sqrt(variance)
    ax.fill_between(grid[:, 0], mean - band, mean + band, color="#0072b2", alpha=0.2, linewidth=0)
    ax.plot(grid[:, 0], mean, color="#0072b2")
    ax.plot(X[:, 0], y, "k.", markersize=4)
    widths = ", ".join(f"{weight:.2f}" for weight in solution.weights)
    ax.set_title(
        f"weights of widths 0.1, 0.5, 2, 8: {widths}; noise {np.sqrt(solution.noise_variance):.2f}", fontsize=9
    )
    ax.set(xlabel="x", ylabel="y")
    save(figure, "evidence-posterior.svg")


def save(figure: plt.Figure, name: str) -> None:
    figure.savefig(STATIC / name, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    with mpl.rc_context(SETTINGS):
        paths()
        convergence()
        posterior()
