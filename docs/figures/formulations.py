"""A picture of each formulation, of problems small enough to be drawn: one function each, named as the formulation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.contour import ContourSet

import mklref
from mklref.formulations import FORMULATIONS
from mklref.plotting import COLOURS, SETTINGS
from mklref.regularizers import HalfPower, PowerRoot, RootPlusLinear, SmoothedRoot

STATIC = Path(__file__).parents[1] / "_static"
X, Y = np.array([-1.0, 0.5, 1.5]), np.array([1.0, -1.0, 1.0])
K = np.stack([np.outer(X, X), np.outer(X, X) ** 2, np.exp(-2 * (X[:, None] - X) ** 2)])
GRID = np.linspace(0.0, 1.3, 14)
RAYS = np.column_stack([np.cos(t := np.linspace(0.0, np.pi / 2, 61)), np.sin(t)])


def toy(regularizer: mklref.regularizers.Regularizer, kernels: slice = slice(0, 2), C: float = 3.0) -> mklref.Problem:
    return mklref.Problem(K[kernels], Y, C=C, regularizer=regularizer)


def machine(theta: np.ndarray) -> float:
    """The value of the machine at fixed weights."""
    return mklref.solve(toy(mklref.Fixed(theta)), tol=1e-6).objective


@cache
def over_weights() -> np.ndarray:
    """`machine` over the grid of weights, (theta_2, theta_1)."""
    return np.array([[machine(np.array([s, t]) + 1e-3) for s in GRID] for t in GRID])


def edge(gauge: Callable[[np.ndarray], float]) -> np.ndarray:
    """The curve gauge = 1 for a norm on the positive quadrant."""
    return np.array([ray / gauge(ray) for ray in RAYS])


def balls(ax: Axes, curves: dict[str, np.ndarray], what: str) -> None:
    for label, curve in curves.items():
        ax.plot(*curve.T, label=label)
    ax.set(xlabel=f"${what}_1$", ylabel=f"${what}_2$", aspect="equal", xlim=(0, None), ylim=(0, None))
    ax.legend(loc="center left", bbox_to_anchor=(1.05, 0.5))


def penalty_edge(regularizer: mklref.regularizers.Regularizer, level: float = 0.5) -> np.ndarray:
    """The curve R(rho) = level."""
    low, high = np.zeros(len(RAYS)), np.full(len(RAYS), 3.0)
    for _ in range(30):  # R grows along every ray
        middle = 0.5 * (low + high)
        inside = np.array([regularizer.value(s * ray) <= level for s, ray in zip(middle, RAYS, strict=True)])
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return low[:, None] * RAYS


def heights(ax: Axes, contours: ContourSet) -> None:
    ax.clabel(contours, contours.levels[1::3], fmt="%.2f", fontsize=6.5, colors="0.3")


def dual(ax: Axes) -> None:
    problem, a = toy(mklref.Lp(4 / 3)), np.linspace(0, 3, 31)
    g = [[np.sqrt(np.maximum(problem.kernels.quadratic(np.array([s, -s - t, t])), 0.0)) for s in a] for t in a]
    value = np.array(
        [[2 * (s + t) - problem.regularizer.conjugate(g[j][i]) for i, s in enumerate(a)] for j, t in enumerate(a)]
    )
    value[a[:, None] + a > 3.0] = np.nan
    best = mklref.solve(problem, tol=1e-8).dual_coef
    heights(ax, ax.contour(a, a, value, levels=np.linspace(-2, value[np.isfinite(value)].max(), 12), colors="0.5"))
    ax.plot(best[0], best[2], "o", color=COLOURS[1])
    ax.set(xlabel=r"$\alpha_1$", ylabel=r"$\alpha_3$", aspect="equal", xlim=(0, 3), ylim=(0, 1.6))


def mixed_norm(ax: Axes) -> None:
    norms = {f"p = {name}": mklref.Lp(p) for name, p in (("1", 1), ("4/3", 4 / 3), ("2", 2), (r"$\infty$", np.inf))}
    balls(ax, {label: penalty_edge(norm) for label, norm in norms.items()}, r"\rho")


def weighted_primal(ax: Axes) -> None:
    theta = np.linspace(0.05, 3, 300)
    for colour, rho in zip(COLOURS, (0.5, 1.0, 1.5), strict=False):
        ax.plot(theta, 0.5 * rho**2 / theta + 0.5 * theta, color=colour, label=rf"$\rho$ = {rho}")
        ax.plot(rho, rho, "o", color=colour)
    ax.plot(theta, theta, ":", color="0.5")
    ax.set(xlabel=r"$\theta$", ylabel=r"$\rho^2/(2\theta) + \theta/2$", ylim=(0, 3), xlim=(0, 3))
    ax.legend()


def qcqp(ax: Axes) -> None:
    solution, a = mklref.solve(toy(mklref.Lp(1)), tol=1e-9), np.linspace(0, 3, 121)
    squares = [np.array([[b @ K_m @ b for s in a for b in [np.array([s, -s - t, t])]] for t in a]) for K_m in K[:2]]
    level = 0.5 * max(solution.dual_coef @ K_m @ solution.dual_coef for K_m in K[:2])
    for colour, square, name in zip(COLOURS, squares, ("linear", "quadratic"), strict=False):
        ax.contour(a, a, 0.5 * square, levels=[level], colors=[colour])
        ax.plot([], [], color=colour, label=rf"$\frac{{1}}{{2}}\beta^\top K\beta = \lambda$, {name}")
    ax.plot(a, 2.0 - a, "--", color="0.5", label="equal objective")
    ax.plot(solution.dual_coef[0], solution.dual_coef[2], "o", color=COLOURS[1])
    ax.set(xlabel=r"$\alpha_1$", ylabel=r"$\alpha_3$", xlim=(0, 3), ylim=(0, 1.6), aspect="equal")
    ax.legend(loc="center left", bbox_to_anchor=(1.05, 0.5))


def cuts(ax: Axes, weights: Callable[[np.ndarray], np.ndarray], tried: tuple[float, ...], label: str) -> None:
    """The value of the machine along a curve of weights, and what three machines say of it."""
    shares = np.linspace(0, 1, 31)
    curve = weights(shares)
    ax.plot(shares, [machine(theta) for theta in curve.T], linewidth=2.5)
    for share in tried:
        theta = weights(np.array([share]))[:, 0]
        beta = mklref.solve(toy(mklref.Fixed(theta)), tol=1e-9).dual_coef
        q = np.array([beta @ K_m @ beta for K_m in K[:2]])
        ax.plot(shares, beta @ Y - 0.5 * q @ curve, color=COLOURS[1], linewidth=1)
    ax.set(xlabel=label, ylabel=r"$\tau$", ylim=(0, 5), xlim=(0, 1))


def silp(ax: Axes) -> None:
    cuts(ax, lambda s: np.stack([s, 1 - s]), (0.0, 0.85, 0.4), r"$\theta_1 = 1 - \theta_2$")


def semi_infinite(ax: Axes) -> None:
    angle = np.pi / 2
    cuts(
        ax,
        lambda s: np.stack([np.sin(angle * s), np.cos(angle * s)]),
        (0.0, 0.85, 0.4),
        "angle along the ball of p = 2",
    )


def block_norm(ax: Axes) -> None:
    share = np.linspace(0, 1, 101)
    for q in (1.0, 4 / 3, 5 / 3, 2.0):
        theta = np.array([mklref.BlockNorm(q).weights_from_norms(np.array([s, 1 - s]) + 1e-12) for s in share])
        ax.plot(share, theta[:, 0] / theta.sum(axis=1), label=f"q = {q:.3g}")
    ax.set(xlabel=r"$\rho_1/(\rho_1 + \rho_2)$", ylabel=r"$\theta_1/(\theta_1 + \theta_2)$")
    ax.legend()


def sup_block_norm(ax: Axes) -> None:
    for s in np.linspace(0.05, 0.95, 9):
        vartheta = np.array([s, 1 - s]) ** (1 / 3)  # on the ball of r = 3, that is q = 3
        ax.plot(*edge(lambda rho, v=vartheta: np.sqrt(v @ rho**2)).T, color="0.58", linewidth=0.8)
    balls(ax, {"q = 3": edge(lambda rho: np.linalg.norm(rho, 3))}, r"\rho")
    ax.set(xlim=(0, 1.5), ylim=(0, 1.5))


def generalized_block_norm(ax: Axes) -> None:
    x = np.linspace(0, 2, 300)
    functions = {r"$\sqrt{x}$": PowerRoot(1.0), "power, p = 2": PowerRoot(2.0)}
    functions |= {"elastic net, 1/2": RootPlusLinear(0.5), "smoothed root": SmoothedRoot(0.3)}
    for label, g in functions.items():
        ax.plot(x, g.value(x), label=label)
    ax.set(xlabel=r"$x = \|v_m\|^2$", ylabel="g(x)")
    ax.legend()


def weights_and(ax: Axes, level: np.ndarray, best: np.ndarray) -> None:
    levels = np.linspace(np.nanmin(level), np.nanmin(level) + 2.5, 12)
    heights(ax, ax.contour(GRID, GRID, level, levels=levels, linewidths=0.9, colors="0.5"))
    ax.plot(*best, "o", color=COLOURS[1])
    ax.set(xlabel=r"$\theta_1$", ylabel=r"$\theta_2$", aspect="equal", xlim=(0, 1.3), ylim=(0, 1.3))


def ivanov(ax: Axes) -> None:
    curve = edge(lambda theta: np.linalg.norm(theta, 4 / 3))
    ax.fill(*np.vstack([curve, [0, 0]]).T, alpha=0.15)
    ax.plot(*curve.T)
    weights_and(ax, over_weights(), mklref.solve(toy(mklref.Lp(4 / 3)), tol=1e-9).weights)


def tikhonov(ax: Axes) -> None:
    penalty = np.hypot(*np.meshgrid(GRID, GRID)) ** 2
    best = mklref.solve(toy(mklref.Tikhonov(2, 0.5)), tol=1e-9).weights
    weights_and(ax, over_weights() + 0.5 * penalty, best)
    ax.plot(*(np.linalg.norm(best) * RAYS).T, "--", color="0.5")


def elastic_net(ax: Axes) -> None:
    nets = {rf"$\lambda$ = {lam}": mklref.ElasticNet(lam, form="ivanov") for lam in (0.05, 0.3, 0.6, 0.95)}
    balls(ax, {label: penalty_edge(net) for label, net in nets.items()}, r"\rho")


GROUPED = {"p = 0, q = 1": (0.0, 1.0), "p = q = 1/2": (0.5, 0.5), "p = 1, q = 0": (1.0, 0.0)}


def groups(ax: Axes) -> None:
    def gauge(p: float, q: float) -> Callable[[np.ndarray], float]:
        return lambda theta: 2.0**p * np.linalg.norm(theta, 1 / q if q else np.inf)

    balls(ax, {label: edge(gauge(p, q)) for label, (p, q) in GROUPED.items()}, r"\theta")


def cap(ax: Axes) -> None:
    balls(ax, {label: penalty_edge(mklref.Groups([[0, 1]], p=p, q=q)) for label, (p, q) in GROUPED.items()}, r"\rho")


def hierarchical(ax: Axes) -> None:
    kinds = {"in one group": [[0, 1]], "each its own": [[0], [1]]}
    balls(ax, {label: penalty_edge(mklref.Groups(kind, p=0.5, q=0.5)) for label, kind in kinds.items()}, "|w|")
    ax.set(xlabel="$|w_1|$", ylabel="$|w_2|$")


def group_lasso(ax: Axes) -> None:
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(30, 8))
    y = Z[:, 0] + 0.5 * Z[:, 1] + 0.4 * Z[:, 2] + 0.3 * rng.normal(size=30)
    kernels = [Z[:, 2 * m : 2 * m + 2] @ Z[:, 2 * m : 2 * m + 2].T for m in range(4)]
    costs, norms = np.geomspace(0.01, 10, 16), []
    for C in costs:
        problem = mklref.Problem(kernels, y, C=C, loss="squared", regularizer=HalfPower(1), intercept=False)
        solution = mklref.solve(problem, tol=1e-5)
        norms.append(solution.weights * np.sqrt(problem.kernels.quadratic(solution.dual_coef)))
    for m, norm in enumerate(np.transpose(norms)):
        ax.plot(costs, norm, label=f"group {m + 1}")
    ax.set(xscale="log", xlabel="C", ylabel=r"$\|w_m\|$")
    ax.legend()


def multiclass(ax: Axes) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 20)
    Z = rng.normal(size=(60, 2)) + 2.2 * np.array([[0, 0], [1, 0.3], [0.4, 1]])[labels]
    kernels = (mklref.kernels.gaussian([0.3, 1.0, 3.0]) + mklref.kernels.linear()).fit(Z, normalize="trace")
    shared = mklref.solve(mklref.MulticlassProblem(kernels, labels, regularizer=mklref.Lp(4 / 3)), tol=1e-5)
    places = np.arange(4)
    for k in range(3):
        alone = mklref.solve(
            mklref.Problem(kernels, np.where(labels == k, 1, -1), regularizer=mklref.Lp(4 / 3)), tol=1e-5
        )
        ax.bar(places + 0.2 * k - 0.3, alone.weights, 0.18, color="0.58", label="a class by itself" if k == 0 else None)
    ax.bar(places + 0.3, shared.weights, 0.18, color=COLOURS[0], label="shared by all classes")
    ax.set(ylabel=r"$\theta_m$")
    ax.set_xticks(places, ["rbf 0.3", "rbf 1", "rbf 3", "linear"])
    ax.legend()


def sdp(ax: Axes) -> None:
    traces = np.trace(K, axis1=1, axis2=2)
    mu = np.linspace(-0.6, 1.2, 61)

    def least(s: float, t: float) -> float:
        """The smallest eigenvalue of K(mu) with mu_3 from the trace, in units of the kernels."""
        weights = np.array([s, t, 1.0 - s - t]) / traces
        return float(np.linalg.eigvalsh(np.einsum("m,mij", weights, K))[0])

    values = np.array([[least(s, t) for s in mu] for t in mu])
    ax.contourf(mu, mu, values, levels=[0.0, 1.0], alpha=0.25, colors=[COLOURS[0]])
    ax.contour(mu, mu, values, levels=[0.0], colors=[COLOURS[0]])
    ax.fill([0, 1, 0], [0, 0, 1], alpha=0.35, color=COLOURS[1])
    ax.set(xlabel=r"share $\mu_1$", ylabel=r"share $\mu_2$", aspect="equal")


with plt.rc_context({**SETTINGS, "figure.figsize": (5.4, 2.9), "figure.constrained_layout.use": True}):
    for name in FORMULATIONS:
        figure, ax = plt.subplots()
        globals()[name](ax)
        figure.savefig(STATIC / f"formulation-{name}.svg", metadata={"Date": None})
        plt.close(figure)
