"""The pictures of the page on mixed-norm synthesis: `MKLREF_DATA=DIRECTORY python docs/figures/synthesis.py`.

It needs the Titanic set of the IDA benchmark as ida/titanic in that directory; lambda by 5-fold cross-validation.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from mklref import plotting
from mklref.datasets import load
from mklref.synthesis import SynthesisProblem, SynthesisSolution, forward_backward, solve, solve_path

STATIC = Path(__file__).parents[1] / "_static"
NORMS = {
    "l2": (2, 2, 1),
    "l1": (1, 1, 1),
    "l21;2": (2, 1, 2),
    "l12;2": (1, 2, 2),
    "l21;1": (2, 1, 1),
    "l12;1": (1, 2, 1),
}
KERNELS = ("Good", "Bad", "Ugly")
LAMBDAS = np.geomspace(1e5, 1.0, 11)


def kernels(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """K_t[j, i] = k_t(x_i, z_j): linear, Gaussian of width 0.1, Gaussian of width 100, (3, len(Z), len(X))."""
    D = ((Z[:, None] - X) ** 2).sum(axis=2)
    return np.array([Z @ X.T, np.exp(-D / (2 * 0.1**2)), np.exp(-D / (2 * 100.0**2))])


def errors(path: list[SynthesisSolution], K: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Share of wrong signs of each solution; a score of 0 is wrong."""
    return np.array([np.mean(y * solution.decision_function(K) <= 0.0) for solution in path])


def cross_validated(X: np.ndarray, y: np.ndarray, pqr: tuple[int, int, int]) -> float:
    """The smallest lambda of least error in five folds."""
    p, q, r = pqr
    folds = np.random.default_rng(0).permutation(len(y)) % 5
    total = np.zeros(len(LAMBDAS))
    for fold in range(5):
        train, held = folds != fold, folds == fold
        problem = SynthesisProblem(kernels(X[train], X[train]), y[train], lam=1.0, p=p, q=q, r=r)
        total += errors(solve_path(problem, LAMBDAS), kernels(X[train], X[held]), y[held])
    return float(LAMBDAS[np.flatnonzero(total == total.min())[-1]])


def relevance_maps() -> None:
    """Figure 2: which coefficients each norm leaves, with the error on the test samples."""
    data = load("ida/titanic")
    train, test = data.splits[0]
    X, y = np.asarray(data.X, dtype=float), np.where(np.asarray(data.y).astype(float) > 0, 1.0, -1.0)
    K, K_test = kernels(X[train], X[train]), kernels(X[train], X[test])
    figure, axes = plt.subplots(6, 1, figsize=(7.0, 6.6), sharex=True, layout="constrained")
    for ax, (name, pqr) in zip(axes, NORMS.items(), strict=True):
        p, q, r = pqr
        lam = cross_validated(X[train], y[train], pqr)
        solution = solve(SynthesisProblem(K, y[train], lam=lam, p=p, q=q, r=r))
        wrong = float(errors([solution], K_test, y[test])[0])
        active = np.count_nonzero(solution.coef)
        title = rf"{name}, $\lambda$ = {lam:.3g}: {active} of {solution.coef.size} active, error {100 * wrong:.2f} %"
        plotting.sparsity(solution, KERNELS, title=title, ax=ax)
        print(name, lam, active, wrong, solution.status.name)
        ax.set_xlabel("training sample")
        ax.label_outer()
    figure.colorbar(axes[0].images[0], ax=axes, shrink=0.4, label="|A| / max |A|")
    save(figure, "synthesis-relevance.svg")


def convergence() -> None:
    """Certified relative gap over passes for the algorithm of the paper, its accelerated form, and `solve`."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1.0, -1.0)
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    problem = SynthesisProblem(np.array([np.exp(-D / w) for w in (0.5, 1.0, 2.0, 4.0)]), y, lam=10.0, p=1, q=1, r=1)
    figure, ax = plt.subplots(figsize=(6.0, 3.2), layout="constrained")
    runs = {
        "forward-backward (Algorithm 2)": (forward_backward(problem, max_iter=5000), "#d55e00"),
        "with momentum and restart": (forward_backward(problem, max_iter=5000, accelerated=True), "#009e73"),
        "working sets, semismooth Newton": (solve(problem), "#0072b2"),
    }
    for label, (solution, color) in runs.items():
        gaps = solution.history.column("relative_gap")
        passes = np.linspace(1.0, solution.history.counters["passes"], len(gaps))
        ax.plot(passes, gaps, color=color, label=label)
    ax.axhline(1e-6, color="0.7", linewidth=0.8)
    ax.set(xscale="log", yscale="log", xlabel="passes over the kernels", ylabel="certified relative gap")
    ax.legend(loc=(0.3, 0.12))
    save(figure, "synthesis-convergence.svg")


def save(figure: plt.Figure, name: str) -> None:
    """Write one file and close the figure."""
    figure.savefig(STATIC / name, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Write both pictures."""
    STATIC.mkdir(exist_ok=True)
    with mpl.rc_context(plotting.SETTINGS):
        relevance_maps()
        convergence()


if __name__ == "__main__":
    main()
