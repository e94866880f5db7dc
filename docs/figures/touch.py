"""The still pictures of the page `touch`, for readers without scripts: the same three samples, by the library."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mklref
import mklref.solution
from mklref.plotting import SETTINGS

OUT = Path(__file__).parents[1] / "_static"
X, Y = np.array([-1.0, 0.5, 1.5]), np.array([1.0, -1.0, 1.0])
K = np.stack([np.outer(X, X), np.outer(X, X) ** 2, np.exp(-2 * (X[:, None] - X) ** 2)])
PROBLEM = mklref.Problem(K[:2], Y, C=3.0)


def save(figure: object, name: str) -> None:
    figure.savefig(OUT / f"touch-{name}.svg")
    plt.close(figure)


def gap() -> None:
    """Bounds along a straight path of dual points and weights, from the page's start to the optimum."""
    start, end = np.array([0.8, -1.8, 1.0]), np.array([1.6, -2.0, 0.4])
    figure, axes = plt.subplots(layout="constrained", figsize=(7, 3))
    steps = np.linspace(0, 1, 41)
    bounds = [mklref.certify(PROBLEM, (1 - s) * start + s * end, weights=[0.5 - s / 6, 0.5 + s / 6]) for s in steps]
    axes.fill_between(steps, [b.lower for b in bounds], [b.upper for b in bounds], alpha=0.3, label="the gap")
    axes.plot(steps, [b.upper for b in bounds], label="upper bound: a decision function")
    axes.plot(steps, [b.lower for b in bounds], label="lower bound: a dual point")
    axes.set(xlabel="from the start of the sliders to the optimum", ylabel="objective", ylim=(0, 4))
    axes.legend()
    save(figure, "gap")


def sets() -> None:
    """The part of the plane theta_3 = 0 of each set of weights."""
    angle = np.linspace(0, np.pi / 2, 91)
    rays = np.column_stack([np.cos(angle), np.sin(angle)])
    figure, axes = plt.subplots(layout="constrained", figsize=(7, 3.4))
    for p in (1.0, 4 / 3, 2.0, 5.0, np.inf):
        edge = rays / np.linalg.norm(rays, ord=p, axis=1)[:, None]
        axes.plot(*edge.T, label=f"p = {p:.3g}")
    lam, scale = 0.5, np.linspace(0, 1.99, 4001)
    net = [ray * scale[np.flatnonzero(inside(scale, ray, lam) <= 1)[-1]] for ray in rays]
    axes.plot(*np.transpose(net), "--", label="elastic net, 1/2")
    axes.set(xlabel="$\\theta_1$", ylabel="$\\theta_2$", aspect="equal", xlim=(0, 1.1), ylim=(0, 1.1))
    axes.legend(loc="center left", bbox_to_anchor=(1.05, 0.5))
    save(figure, "set")


def inside(scale: np.ndarray, ray: np.ndarray, lam: float) -> np.ndarray:
    """sum_m (1-lam) theta_m / (1 - lam theta_m) at theta = scale * ray."""
    theta = scale[:, None] * ray
    return ((1 - lam) * theta / (1 - lam * theta)).sum(axis=1)


def cuts() -> None:
    """J over the simplex, and the lines of three machines."""
    figure, axes = plt.subplots(layout="constrained", figsize=(7, 3))
    shares = np.linspace(0, 1, 61)
    axes.plot(shares, [machine(s).objective for s in shares], linewidth=2.5, label="J, the value of the machine")
    for s in (0.9, 0.0, 0.45):
        q = PROBLEM.kernels.quadratic(machine(s).dual_coef)
        line = machine(s).dual_coef @ Y - 0.5 * (shares * q[0] + (1 - shares) * q[1])
        axes.plot(shares, line, linewidth=1, color="0.4")
    axes.set(xlabel="$\\theta_1$, and $\\theta_2 = 1 - \\theta_1$", ylim=(0, 6))
    axes.legend()
    save(figure, "cut")


def machine(share: float) -> mklref.solution.Solution:
    weights = mklref.Fixed([share, 1 - share])
    return mklref.solve(PROBLEM.replace(regularizer=weights), tol=1e-9)


with plt.rc_context(SETTINGS):
    gap()
    sets()
    cuts()
