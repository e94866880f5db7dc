"""SimpleMKL Tables 5 and 6: several classes, one against all, with common kernel weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import ttest_ind, ttest_ind_from_stats

import mklref
from mklref._typing import Array
from mklref.algorithms import regularization_path
from mklref.datasets import Dataset
from mklref.kernels import simplemkl_recipe
from validation.reproduce.base import LEVEL, Cell, Evidence, Experiment, Result, Summary, apart, holm, table_of
from validation.reproduce.experiments.simplemkl_data import Reached, data_set, printed, reached, standardized

PROTOCOL = """
abe (the letters A, B and E), dna, image segmentation and waveform; a training set of medium and of large size (Table
5), the rest is the test set; 13 kernels on all variables; C out of 10 values from 0.01 to 10000 by five-fold cross-
validation; one against all with common weights; test error in percent, mean of 20 random splits.

The paper uses the splits of Duan and Keerthi (2005), which are no longer to be had; ours are random ones of the same
sizes, variables standardised. The column CV is theirs, quoted by the paper: a single Gaussian kernel chosen by cross-
validation. The paper prints a number in brackets beside each error of MKL (16 and 11 for abe, 11 and 10 for dna, 10 and
13 for segment, 15 and 8 for waveform) and does not say of what; above 13, it is not one of kernels, and nothing is
compared with it. Solved by the native solver to a gap of 0.01, the ten C of a fold as one path. The cell `cause-table5`
describes the sets.
"""

SIZES = {"waveform": (300, 600), "abe": (560, 1120), "dna": (500, 1000), "segment": (500, 1000)}
"""Medium and large training sets."""
SPLITS = 20
QUICK = "iris"
SECONDS = {"waveform": (3.0, 10.0), "abe": (5.0, 25.0), "dna": (6.0, 30.0), "segment": (7.0, 35.0), QUICK: (5.0,)}

COSTS = np.geomspace(1e4, 1e-2, 10)
FOLDS = 5
TOL = 0.01


def cells(quick: bool) -> list[Cell]:
    """One for each split, size and data set; the medium sizes first."""
    if quick:
        return [Cell(f"{QUICK}-60-00", {"data": QUICK, "train": 60, "seed": 0}, 5.0)]
    described = Cell("cause-table5", {"group": "cause", "sets": list(SIZES)}, 1.0)
    return [
        Cell(f"{name}-{sizes[k]}-{seed:02d}", {"data": name, "train": sizes[k], "seed": seed}, SECONDS[name][k])
        for k in range(2)
        for seed in range(SPLITS)
        for name, sizes in SIZES.items()
    ] + [described]


def dataset(name: str) -> Dataset:
    """A set of Table 5."""
    if name == "abe":
        letters = data_set("letter")
        return letters.take(np.flatnonzero(np.isin(letters.y, ["A", "B", "E"])))
    return data_set(name)


def cell(config: dict[str, Any]) -> dict[str, Any]:
    """One split: C by cross-validation, then the test error."""
    if "sets" in config:
        return {name: _sizes(name) for name in config["sets"]}
    data = dataset(config["data"])
    rng = np.random.default_rng(config["seed"])
    order = rng.permutation(len(data.y))
    first, last = order[: config["train"]], order[config["train"] :]
    X, X_new = standardized(data.X[first], data.X[last])
    y, y_new = data.y[first], data.y[last]
    folds = np.array_split(rng.permutation(len(y)), FOLDS)
    errors = np.mean([_fold(X, y, fold) for fold in folds], axis=0)
    C = float(COSTS[np.argmin(errors)])
    train, new = simplemkl_recipe(X, X_new, single_variables=False)
    problem = mklref.MulticlassProblem(train, y, C=C)
    solution = mklref.solve(problem, tol=TOL)
    return {
        "error": _error(problem, solution, new, y_new),
        "C": C,
        "kernels": int(np.count_nonzero(solution.weights > 1e-8)),
        "cross-validation": errors.tolist(),
        "gap": solution.certificate.relative_gap,
        "status": solution.status.name,
    }


def _sizes(name: str) -> dict[str, int]:
    """What Table 5 says of a set."""
    labels = dataset(name).y
    return {"classes": len(np.unique(labels)), "examples": len(labels)}


def _fold(X: Array, y: Any, fold: Any) -> list[float]:
    """Errors on one fold for each C."""
    rest = np.setdiff1d(np.arange(len(y)), fold)
    train, new = simplemkl_recipe(X[rest], X[fold], single_variables=False)
    problem = mklref.MulticlassProblem(train, y[rest])
    path = regularization_path(problem, C=COSTS.tolist(), solver=mklref.solve, tol=TOL)
    return [_error(problem, solution, new, y[fold]) for solution in path.solutions]


def _error(problem: mklref.MulticlassProblem, solution: Any, new: Array, y: Any) -> float:
    return 100.0 * float(np.mean(problem.assign(solution.decision_function(new)) != y))


def summary(results: list[Result]) -> Summary:
    """Tables 5 and 6."""
    plain, _ = apart(results)
    rows = table_of(
        (f"{r.config['data']}, {r.config['train']}", column, r.values[quantity])
        for r in plain
        for column, quantity in (("MKL", "error"), ("kernels", "kernels"))
    )
    both = {name: [f"{name}, {size}" for size in sizes] for name, sizes in SIZES.items()}
    both = {name: pair for name, pair in both.items() if rows.keys() >= set(pair)}
    claims: dict[str, Evidence] = {}
    if plain:
        claims["gaps"] = reached([Reached(result.id, result.values["gap"], TOL) for result in plain])
    if both:
        claims["larger-is-better"] = larger_is_better(
            {
                name: (np.array(rows[small]["MKL"]), np.array(rows[large]["MKL"]))
                for name, (small, large) in both.items()
            }
        )
    paper = {name: row["CV"] for name, row in printed("simplemkl_multiclass", "table6").items()}
    if rows.keys() >= paper.keys():
        claims["no-worse-than-cv"] = no_worse({name: np.array(rows[name]["MKL"]) for name in paper}, paper)
    described: dict[str, dict[str, int]] = next((r.values for r in results if "sets" in r.config), {})
    table5 = {
        name: {"medium": [SIZES[name][0]], "large": [SIZES[name][1]], **{key: [value] for key, value in found.items()}}
        for name, found in described.items()
    }
    return Summary({"table5": table5, "table6": rows}, claims)


def larger_is_better(errors: Mapping[str, tuple[Array, Array]]) -> Evidence:
    """Whether the second sample of every set is lower, by one-sided tests of Welch, adjusted by Holm."""
    values = holm(
        [float(ttest_ind(large, small, equal_var=False, alternative="less").pvalue) for small, large in errors.values()]
    )
    text = ", ".join(
        f"{name} {small.mean():.2f} and {large.mean():.2f} (p = {p:.1g})"
        for (name, (small, large)), p in zip(errors.items(), values, strict=True)
    )
    return Evidence(bool(values.max() < LEVEL), f"{text}; one-sided tests, adjusted by Holm")


def no_worse(errors: Mapping[str, Array], quoted: Mapping[str, Sequence[float]]) -> Evidence:
    """Whether no error is above that of the quoted cross-validation beyond chance: tests adjusted by Holm."""
    values, parts = [], []
    for name, found in errors.items():
        mean, deviation = quoted[name]
        theirs = {"mean2": mean, "std2": deviation, "nobs2": 20}
        test = ttest_ind_from_stats(
            found.mean(), found.std(ddof=1), len(found), **theirs, equal_var=False, alternative="greater"
        )
        values.append(float(test.pvalue))
        parts.append(f"{name} {found.mean() - mean:+.2f}")
    adjusted = holm(values)
    worst = int(np.argmin(adjusted))
    text = f"points of error above the CV of the table: {', '.join(parts)}; smallest p = {adjusted[worst]:.2g}"
    return Evidence(bool(adjusted.min() >= LEVEL), f"{text} ({list(errors)[worst]}), one-sided tests, adjusted by Holm")


EXPERIMENT = Experiment(
    "simplemkl-multiclass",
    "SimpleMKL Tables 5 and 6",
    PROTOCOL,
    cells,
    cell,
    summary,
    data=("letter", "dna", "segment", "waveform"),
)
