"""Szafranski Table 1: spambase with 244 kernels in 4 groups, against MKL without groups and the mean kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import mklref
from mklref.algorithms import group_wrapper, simplemkl
from mklref.kernels import ArrayStack
from validation.reproduce.base import CAUSE, Cell, Experiment, Picture, Result, Summary, of, timed
from validation.reproduce.experiments import spambase_causes, spambase_claims
from validation.reproduce.experiments.simplemkl_data import accuracy
from validation.reproduce.experiments.spambase_causes import mean_kernel_accuracy
from validation.reproduce.experiments.spambase_parts import (
    GAP,
    GRADIENTS,
    METHODS,
    QUICK,
    SIMPLEMKL,
    SPAM,
    WRAPPER,
    Parts,
    constants,
    counts,
    drawn,
    parts as parts_of,
    pulls,
)
from validation.reproduce.pictures import COLOURS, figure

PROTOCOL = """
30 % of the samples (1381) for testing, of the other 3220 the first 322 for training: the paper divides those into ten
training sets, which all share one test set, so that their spread says nothing of its luck. Fifteen splits, each with a
test set and a training set of its own, are what is compared here, for all three methods. Four groups of variables (42
words, 6 numbers, 6 characters, 3 lengths of capitals); Gaussian kernels of width 0.01, 0.1, 1 and 10 on each group and
on each variable, 244 in all, of unit trace, on variables standardised by the training set; hinge loss, C from 1 to 10^6
by five-fold cross-validation. SVM: on the mean of the kernels; MKL: p = 1; GKL: p = q = 1/2.

C is chosen with certified solutions of the native solver, to a gap of 0.01, on each split and for each method. At that
C the native solver runs to a gap of 1e-3: its accuracies and numbers of kernels are those that are compared. The
paper's algorithms run to the same gap besides, SimpleMKL for at most 100 gradients and the group wrapper, and their
times are those that are compared: of the processor, in one thread. The paper starts SimpleMKL by steps in closed form,
ours starts from even weights. The paper stops by the change of J and of the weights, 1e-12; its kernels are counted
above 0, ours above 1e-8 of the largest weight. The weights of the group wrapper have a floor and cannot vanish. The
numbers, by name, are 000, 85, 415, 650, 857 and 1999. How the accuracy of the mean kernel grows with the training set
is measured besides.

The deviation of a method's accuracy over our splits bounds the luck of the paper's test set: it leaves undecided what
it could explain. Tests are paired t-tests, at 5 %, adjusted by Holm where a sentence makes two comparisons.
"""

WIDTHS = (0.01, 0.1, 1.0, 10.0)
COSTS = tuple(float(C) for C in 10.0 ** np.arange(7))
FOLDS, SETS, TRAINED = 5, 10, 322
SPLITS = 15
CURVE = (322, 644, 1288)
FEWEST = 3
"""Splits of which anything is said."""


def cells(quick: bool) -> list[Cell]:
    """One for each split, the mean kernel on larger training sets, and looks at the causes."""
    if quick:
        config = {"data": QUICK, "train": 60, "sets": 2, "widths": [1.0, 10.0], "costs": [1.0, 100.0, 1e4], "part": 0}
        return [Cell(f"{QUICK}-{k:02d}", {**config, "seed": k}, 4.0) for k in range(2)]
    config = {"data": SPAM, "train": TRAINED, "sets": SETS, "widths": list(WIDTHS), "costs": list(COSTS), "seed": 0}
    splits = [Cell(f"split-{k:02d}", {**config, "seed": k, "part": 0}, 120.0) for k in range(1, SPLITS + 1)]
    curve = Cell("curve", {**config, "curve": list(CURVE)}, 20.0)
    return [splits[0], curve, *spambase_causes.cells(config), *splits[1:]]


def cell(config: dict[str, Any]) -> dict[str, Any]:
    """One split, all methods; or the mean kernel on growing sets."""
    if config.get("group") == CAUSE:
        return spambase_causes.cell(config)
    data, tested, rest = drawn(config)
    if "curve" in config:
        curve = {n: mean_kernel_accuracy(data, rest[:n], tested, config) for n in config["curve"]}
        return {"curve": [{"n": n, "accuracy": found} for n, found in curve.items()]}
    rows = rest[config["part"] * config["train"] :][: config["train"]]
    parts = parts_of(data, rows, tested, config["widths"])
    regularizers = {
        "SVM": mklref.Fixed(np.full(len(parts.train), 1.0 / len(parts.train))),
        "MKL": mklref.Lp(1),
        "GKL": mklref.Groups(parts.groups, 0.5, 0.5),
    }
    papers: dict[str, tuple[str, Callable[[mklref.Problem], mklref.Solution]]] = {
        "MKL": (SIMPLEMKL, partial(simplemkl, tol=GAP, max_iter=GRADIENTS)),
        "GKL": (WRAPPER, partial(group_wrapper, tol=GAP)),
    }
    values: dict[str, Any] = {"n": len(parts.y), "M": len(parts.train), "constants": constants(data, rows)}
    for name, regularizer in regularizers.items():
        problem = mklref.Problem(ArrayStack.trusted(list(parts.train)), parts.y, regularizer=regularizer)
        seconds, (C, held_out) = timed(partial(_cross_validated, parts, problem, config))
        shared = {"C": C, "cross-validated": held_out, "selection seconds": round(seconds, 2)}
        values[name] = {**shared, **_trained(partial(mklref.solve, tol=GAP), problem.replace(C=C), parts)}
        if name in papers:
            named, algorithm = papers[name]
            values[named] = {**shared, **_trained(algorithm, problem.replace(C=C), parts)}
    return values


def _cross_validated(parts: Parts, problem: mklref.Problem, config: dict[str, Any]) -> tuple[float, list[float]]:
    """The smallest C with the best accuracy, and the accuracies in %."""
    n, costs = len(parts.y), config["costs"]
    folds = np.random.default_rng(config["seed"] + 1).permutation(n) % FOLDS
    right = np.zeros(len(costs))
    for fold in range(FOLDS):
        kept, left = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        inner = [np.ascontiguousarray(K[np.ix_(kept, kept)]) for K in parts.train]
        part = problem.replace(kernels=ArrayStack.trusted(inner), y=parts.y[kept])
        crossed = [K[np.ix_(left, kept)] for K in parts.train]
        path = mklref.solve_path(part, C=costs, tol=1e-2)
        right += [np.sum(np.sign(s.decision_function(crossed)) == parts.y[left]) for s in path]
    return costs[int(right.argmax())], [round(100.0 * float(r) / n, 2) for r in right]


def _trained(
    algorithm: Callable[[mklref.Problem], mklref.Solution], problem: mklref.Problem, parts: Parts
) -> dict[str, Any]:
    """Accuracy, kernels and time of one algorithm, and how near each group is to a weight."""
    seconds, solution = timed(lambda: algorithm(problem))
    by_group = counts(solution.weights, parts.groups)
    total = solution.weights.sum()
    grouped = isinstance(problem.regularizer, mklref.Groups)
    return {
        "accuracy": accuracy(solution, parts.new, parts.y_new),
        "kernels": sum(by_group),
        "by group": by_group,
        "shares": [float(f"{solution.weights[group].sum() / total:.4g}") for group in parts.groups],
        **({"pulls": pulls(solution.dual_coef, parts.train, parts.groups)} if grouped else {}),
        "seconds": round(seconds, 3),
        "gap": solution.certificate.relative_gap,
        "status": solution.status.name,
        "gradients": solution.history.counters.get("gradient"),
    }


def summary(results: list[Result]) -> Summary:
    """Table 1, what it says, and accuracy over the size of the training set."""
    splits = [r for r in results if "part" in r.config]
    curve = next((r.values["curve"] for r in results if "curve" in r.values), None)
    if not splits:
        return Summary()
    prefix = "" if splits[0].config["data"] == SPAM else f"{splits[0].config['data']}, "
    table = {
        prefix + name: {
            quantity: (scale * of(splits, name, quantity)).tolist()
            for quantity, scale in (("accuracy", 1.0), ("kernels", 1.0), ("gap", 100.0), ("seconds", 1.0))
        }
        for name in (*METHODS, SIMPLEMKL, WRAPPER)
    }
    luck = {f"table1/{name}/accuracy": table[prefix + name]["accuracy"] for name in METHODS if len(splits) > 1}
    shared = {key: float(np.std(accuracy, ddof=1)) for key, accuracy in luck.items()}
    for point in curve or ():
        table[f"SVM, n = {point['n']}, best C"] = {"accuracy": [point["accuracy"]]}
    claims = spambase_claims.claims(splits) if len(splits) >= FEWEST else {}
    figures = spambase_claims.measured(results) if len(splits) >= FEWEST else {}
    cited = {"kernels": "mkl-mean", "svm": "svm-accuracy", "groups": "out"}
    front = {name: figures[key] for name, key in cited.items() if key in figures}
    return Summary({"table1": table}, claims, {"accuracy": _picture(splits, curve)}, figures, shared, front)


def _picture(splits: list[Result], curve: Any) -> Picture:
    drawing, axes = figure(8.4, 2.8, columns=2)
    for colour, name in zip(COLOURS, METHODS, strict=False):
        accuracy = [r.values[name]["accuracy"] for r in splits]
        axes[0, 0].plot(range(1, len(splits) + 1), accuracy, ".-", color=colour, label=name)
    axes[0, 0].set(xlabel="split", ylabel="accuracy (%)", title="each split with its own test set")
    axes[0, 0].legend()
    if curve:
        sizes = [point["n"] for point in curve]
        axes[0, 1].semilogx(sizes, [point["accuracy"] for point in curve], ".-", color=COLOURS[0], label="SVM, best C")
        axes[0, 1].axhline(93.33, color="black", linestyle=":", linewidth=0.8, label="paper, n = 322")
        axes[0, 1].set_xticks(sizes, [str(n) for n in sizes])
        axes[0, 1].minorticks_off()
        axes[0, 1].set(xlabel="training samples", ylabel="accuracy (%)", title="mean kernel on larger training sets")
        axes[0, 1].legend()
    else:
        axes[0, 1].set_axis_off()
    return Picture(drawing, "Accuracy on splits, and of the mean kernel as the training set grows.")


EXPERIMENT = Experiment("szafranski-spambase", "Szafranski Table 1", PROTOCOL, cells, cell, summary, data=(SPAM,))
