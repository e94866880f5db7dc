"""The certified interval for exact kernels over the rank: `PYTHONPATH=. python docs/figures/factors.py [N]`.

Kernels are evaluated when they are read, so that what is asked of them is counted: in units of all their entries. Of
each rank: the problem on pivoted Cholesky factors, `exact_interval`, and `solve` on the exact kernels from there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from mklref import Lp, Problem, exact_interval, kernels, solve
from mklref.plotting import SETTINGS

STATIC = Path(__file__).parents[1] / "_static"
RANKS = (5, 10, 20, 40, 80, 160, 320)


def problem(n: int, seed: int = 0) -> tuple[Problem, kernels.KernelFamily, np.ndarray]:
    """Labels of a smooth function of three variables with noise; three Gaussian kernels, lazy."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    family = kernels.gaussian([1.0, 2.0, 4.0])
    stack = family.fit(X, storage="lazy", cache="100MB")
    return Problem(stack, np.where(score > 0.0, 1.0, -1.0), C=1.0, regularizer=Lp(2)), family, X


def study(n: int, ranks: Sequence[int]) -> Iterator[dict[str, float]]:
    """A row for each rank, after one for no factors at all."""
    exact, family, X = problem(n)
    stack = exact.kernels

    def evaluations(since: float = 0.0) -> float:
        return stack.evaluated / (len(stack) * n * n) - since

    cold = solve(exact).certificate
    yield {"rank": 0, "lower": cold.lower, "upper": cold.upper, "solve": evaluations()}
    for rank in ranks:
        approximation = exact.replace(kernels=kernels.cholesky(family, X, rank=rank, tol=0.0))
        before, solution = evaluations(), solve(approximation)
        interval = exact_interval(exact, approximation, solution)
        asked, before = evaluations(before), evaluations()
        refined = solve(exact, start=solution).certificate
        missing = approximation.kernels.residual_traces.sum() / stack.traces().sum()
        row = {"rank": rank, "lower": interval.lower, "upper": interval.upper, "interval": asked, "missing": missing}
        yield row | {"solve": evaluations(before), "refined lower": refined.lower, "refined upper": refined.upper}


def main(n: int = 1000, ranks: Sequence[int] = RANKS) -> None:
    """Interval at the left, how far it is open in the middle, what is read of the exact kernels at the right."""
    cold, *rows = study(n, ranks)
    each = [row["rank"] for row in rows]
    lower, upper, missing, asked, read = (
        np.array([row[key] for row in rows]) for key in ("lower", "upper", "missing", "interval", "solve")
    )
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9.5, 3.2), layout="constrained")
    left.fill_between(each, lower / cold["upper"], upper / cold["upper"], alpha=0.3, label="certified interval")
    left.axhline(1.0, lw=1, color="0.3", label="optimum with the exact kernels")
    left.set(ylabel="value / optimum", xscale="log", ylim=(0, None))
    middle.loglog(each, (upper - lower) / upper, marker="o", ms=3, label="width of the interval")
    middle.loglog(each, missing, marker="o", ms=3, label="trace that is left out")
    middle.set(ylabel="relative")
    right.semilogx(each, asked, marker="o", ms=3, label="interval")
    right.semilogx(each, read, marker="o", ms=3, label="solve to 1e-6, from there")
    right.axhline(cold["solve"], lw=1, color="0.3", label="solve to 1e-6, from nothing")
    right.set(ylabel="evaluations of all exact entries", ylim=(0, None))
    for ax in (left, middle, right):
        ax.set_xlabel("columns of each factor")
        ax.set_xticks(each, [str(rank) for rank in each])
        ax.minorticks_off()
        ax.legend(fontsize=6)
    figure.savefig(STATIC / "factors-rank.svg", metadata={"Date": None})
    for row in [cold, *rows]:
        print({key: float(f"{value:.5g}") for key, value in row.items()})


if __name__ == "__main__":
    with mpl.rc_context(SETTINGS):
        main(*(int(one) for one in sys.argv[1:2]))
