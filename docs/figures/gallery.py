"""The pictures of the gallery: `python docs/figures/gallery.py [NAME ...]` writes them into docs/_static.

One function a picture, each a complete example; the page shows its code.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import mklref
from mklref import plotting
from mklref.datasets import encode, kloft_toy, load

STATIC = Path(__file__).parents[1] / "_static"


def weights() -> plt.Axes:
    data = load("breast_cancer")
    kernels = "rbf(1..8, 4), poly(1..2), per_variable(rbf(1), linear)"
    model = mklref.MKLClassifier(kernels, C=1.0).fit(data.standardized(), data.y)
    return plotting.weights(model, most=16)


def weights_summed() -> plt.Axes:
    data = load("breast_cancer").standardized()
    stack = mklref.kernels.parse("rbf(1..8, 4), per_variable(rbf(1), linear)").fit(data, normalize="multiplicative")
    labels, _ = encode(data.y)
    solution = mklref.solve(mklref.Problem(stack, labels, regularizer=mklref.Lp(4 / 3)))
    return plotting.weights(solution, stack.names, by="variable", total=True, most=16)


def ranges() -> plt.Axes:
    data = load("wine").standardized()
    family = mklref.kernels.parse("linear, poly(1..2), rbf(2..8, 4), per_variable(linear)")
    labels, _ = encode(data.y, positive="class_1")
    problem = mklref.Problem(family.fit(data, normalize="multiplicative"), labels, C=0.1)
    found = mklref.weight_ranges(problem, mklref.solve(problem, tol=1e-8), slack=1e-2)
    return plotting.weights(found, most=14)


def convergence() -> plt.Figure:
    data = load("breast_cancer").standardized().subset(200, seed=0)
    problem = mklref.Problem(mklref.kernels.simplemkl_recipe(data.X[:, :2]), encode(data.y)[0], C=100.0)
    solution = mklref.algorithms.simplemkl(problem, tol=1e-5)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.0), layout="constrained")
    plotting.weight_paths(solution, names=problem.kernels.names, ax=left)
    plotting.gap({"SimpleMKL": solution, "native": mklref.solve(problem, tol=1e-5)}, tol=1e-5, ax=right)
    return figure


def path() -> plt.Figure:
    rng = np.random.default_rng(0)
    train, held = kloft_toy(rng, 100, relevant=4), kloft_toy(rng, 2000, relevant=4)
    stack = mklref.kernels.parse("per_variable(linear)").fit(train.X, normalize="multiplicative")
    C = np.geomspace(1e-3, 10.0, 25)
    solutions = mklref.solve_path(mklref.Problem(stack, train.y), C=C)
    rows = stack.new(held.X)
    errors = [np.mean(np.sign(solution.decision_function(rows)) != held.y) for solution in solutions]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.0), layout="constrained")
    plotting.weight_paths(solutions, C, names=stack.names, ax=left)
    plotting.path(C, solutions, errors=errors, chosen=C[np.argmin(errors)], ax=right)
    return figure


def sparsity_over_p() -> plt.Axes:
    train = kloft_toy(np.random.default_rng(0), 100, relevant=4)
    stack = mklref.kernels.parse("per_variable(linear)").fit(train.X, normalize="multiplicative")
    problem, p = mklref.Problem(stack, train.y, C=0.1), np.geomspace(1.0, 16.0, 25)
    solutions = [mklref.solve(problem.replace(regularizer=mklref.Lp(norm))) for norm in p]
    ax = plotting.weight_paths(solutions, p, names=stack.names, most=4, label="p")
    ax.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"], minor=False)
    ax.minorticks_off()
    return ax


def validation() -> plt.Axes:
    data = load("breast_cancer").standardized().subset(200, seed=0)
    search = mklref.MKLClassifierCV("linear, rbf(1..16, 5)", norms=[1, 2, np.inf]).fit(data, data.y)
    return plotting.validation(search)


def alignment() -> plt.Axes:
    data = load("wine").standardized()
    stack = mklref.kernels.parse("linear, poly(2), rbf(0.5..8, 5), on(first, [0, 1, 2], rbf(1))").fit(data)
    return plotting.alignment(mklref.kernels.diagnose(stack))


def sparsity() -> plt.Figure:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1.0, -1.0)
    K = mklref.kernels.gaussian([0.3, 0.6, 1.2, 2.4]).fit(X).dense()
    norms = {"l1": (1, 1, 1), "l21;1": (2, 1, 1), "l21;2": (2, 1, 2), "l12;1": (1, 2, 1)}
    figure, axes = plt.subplots(len(norms), 1, figsize=(6.4, 4.6), sharex=True, layout="constrained")
    for ax, (name, (p, q, r)) in zip(axes, norms.items(), strict=True):
        solution = mklref.synthesis.solve(mklref.synthesis.SynthesisProblem(K, y, lam=3.0, p=p, q=q, r=r))
        left = np.count_nonzero(solution.coef)
        plotting.sparsity(solution, title=f"{name}: {left} of {solution.coef.size} coefficients", ax=ax)
        ax.label_outer()
    return figure


def surface() -> plt.Figure:
    rng = np.random.default_rng(1)
    angle, side = rng.uniform(0.0, np.pi, 120), rng.choice([-1.0, 1.0], 120)
    X = np.stack([np.cos(angle) * side + 0.5 * (side > 0), np.sin(angle) * side], axis=1)
    X += 0.2 * rng.normal(size=X.shape)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.6), layout="constrained")
    plotting.surface(mklref.MKLClassifier("linear, rbf(0.2..2, 4)", C=3.0).fit(X, side), X, side, ax=left)
    iris = load("iris")
    X, y = iris.X[:, 2:], iris.y
    plotting.surface(mklref.MKLClassifier("linear, rbf(0.3..2, 4)", C=3.0).fit(X, y), X, y, ax=right)
    right.set(xlabel=iris.features[2], ylabel=iris.features[3])
    return figure


def intervals() -> plt.Axes:
    data = load("breast_cancer").standardized().subset(60, seed=0)
    stack = mklref.kernels.parse("linear, rbf(2..16, 3)").fit(data, normalize="trace")
    problem = mklref.Problem(stack, encode(data.y)[0], C=100.0)
    return plotting.intervals(mklref.crosscheck(problem, solvers=("CLARABEL", "ECOS", "SCS")))


def contributions() -> plt.Axes:
    data = load("breast_cancer").standardized().subset(150, seed=0)
    model = mklref.MKLClassifier("per_variable(rbf(3))").fit(data, data.y)
    return plotting.contributions(model, data, labels=data.y, most=8)


def stability() -> plt.Axes:
    data = load("breast_cancer").standardized().subset(120, seed=0)
    found = mklref.model_selection.stability(mklref.MKLClassifier("per_variable(linear)"), data, data.y, fits=20)
    return plotting.stability(found, most=14)


PICTURES = (
    weights, weights_summed, ranges, convergence, path, sparsity_over_p, validation, alignment, sparsity, surface,
    intervals, contributions, stability,
)  # fmt: skip


def main(names: list[str]) -> None:
    """All pictures, or those that are named."""
    with mpl.rc_context(plotting.SETTINGS):
        for picture in PICTURES:
            name = picture.__name__.replace("_", "-")
            if names and name not in names:
                continue
            drawn = picture()
            figure = getattr(drawn, "figure", drawn)
            if name == "surface":
                figure.savefig(STATIC / f"gallery-{name}.png", dpi=110)
            else:
                figure.savefig(STATIC / f"gallery-{name}.svg", metadata={"Date": None})
            plt.close(figure)


if __name__ == "__main__":
    main(sys.argv[1:])
