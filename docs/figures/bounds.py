"""The pictures of the page on bounds: `python docs/figures/bounds.py` writes them into docs/_static."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from mklref.bounds import class_radius, complexity_bound, cortes_bound, rademacher_complexity, risk_bound
from mklref.kernels import gaussian
from mklref.plotting import SETTINGS

STATIC = Path(__file__).parents[1] / "_static"
SHARES = np.linspace(0.0, 1.0, 41)
"""1/p* = 1 - 1/p: 0 is p = 1, 1 is p = inf."""
TICKS = {0.0: "1", 0.25: "4/3", 0.5: "2", 0.75: "4", 1.0: r"$\infty$"}


def exponent(share: float) -> float:
    """p with 1 - 1/p = share."""
    return np.inf if share == 1.0 else 1.0 / (1.0 - share)


def complexities() -> None:
    """Measured complexity of 20 Gaussian kernels on 100 samples, and the bounds above it."""
    n, M = 100, 20
    kernels = gaussian(np.geomspace(0.1, 10.0, M)).fit(np.random.default_rng(0).normal(size=(n, 5)))
    measured = [
        rademacher_complexity(kernels, exponent(share), draws=200, rng=np.random.default_rng(1)).value
        for share in SHARES[::4]
    ]
    converted = measured[0] * float(M) ** (SHARES / 2)
    dual = np.arange(1, 13)
    figure, ax = plt.subplots(figsize=(6.0, 3.4), layout="constrained")
    ax.plot(SHARES, [complexity_bound(n, M, exponent(s)) for s in SHARES], color="#c25300", label="corollary")
    for e_factor, fill in ((True, "full"), (False, "none")):
        values = [cortes_bound(n, M, exponent(1.0 / d), e_factor=e_factor) for d in dual]
        label = "Cortes et al., as quoted" if e_factor else "the same without e"
        ax.plot(1.0 / dual, values, "s", color="#cc79a7", fillstyle=fill, markersize=5, label=label)
    ax.plot(SHARES, converted, "--", color="#009e73", label=r"Theorem 6 from the measured $p = 1$")
    ax.plot(SHARES[::4], measured, color="#0072b2", label="measured")
    ax.set(yscale="log", ylim=(0.1, 4.0), ylabel="Rademacher complexity")
    exponents_on(ax)
    ax.legend(loc="upper left", ncols=2)
    save(figure, "bounds-complexity.svg")


def examples() -> None:
    """(35) over p for the two truths of the appendix, in balls just large enough to hold them."""
    M, n = 6, 10_000
    truths = {
        "Example 1: w = (1, ..., 1)": (np.ones(M), "#0072b2"),
        "Example 2: w = (1, 0, ..., 0)": (np.eye(M)[0], "#c25300"),
    }
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.1), layout="constrained")
    for label, (truth, colour) in truths.items():
        radii = [class_radius(truth, exponent(share)) for share in SHARES]
        values = [
            risk_bound(0.0, n, M, exponent(share), lipschitz=1.0, radius=radius)
            for share, radius in zip(SHARES, radii, strict=True)
        ]
        axes[0].plot(SHARES, radii, color=colour, label=label)
        axes[1].plot(SHARES, values, color=colour, label=label)
    axes[0].set(ylabel="radius C that holds w", ylim=(0.0, None))
    axes[1].set(ylabel=f"(35) above the empirical risk, n = {n}", ylim=(0.0, None))
    for ax in axes:
        exponents_on(ax)
    axes[0].legend()
    save(figure, "bounds-examples.svg")


def exponents_on(ax: plt.Axes) -> None:
    ax.set_xticks(list(TICKS), list(TICKS.values()))
    ax.set_xlabel("p")


def save(figure: plt.Figure, name: str) -> None:
    figure.savefig(STATIC / name, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    with mpl.rc_context(SETTINGS):
        complexities()
        examples()
