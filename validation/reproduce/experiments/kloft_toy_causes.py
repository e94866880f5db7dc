"""Kloft's toy problem, looked into: other grids of C, machines without intercept, and where C no longer matters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from mklref._typing import Array
from validation.reproduce.base import Cell, Result
from validation.reproduce.experiments.kloft_toy_claims import even_test, typical_agreement
from validation.reproduce.experiments.kloft_toy_parts import (
    COSTS,
    NAMES,
    RELEVANT,
    Drawn,
    Measured,
    drawn,
    error,
    noise,
    path,
)

CAUSE = "cause"
SETS = 8
WIDER = tuple(float(C) for C in 10.0 ** np.arange(-4.0, 2.25, 0.5))
FINER = tuple(float(C) for C in 10.0 ** np.arange(-5.0, 1.125, 0.25))
BOUND = 1e-3
"""Relative distance within which a dual variable is at its bound."""
JUMP = 10.0
"""Points of the validation error that no change of a direction explains."""
FOUR = NAMES.index("4")


def cells() -> list[Cell]:
    """One for each of the first data sets."""
    return [Cell(f"cause-{seed:02d}", {"group": CAUSE, "n": 50, "seed": seed}, 10.0) for seed in range(SETS)]


def cell(config: dict[str, Any]) -> dict[str, Any]:
    """C and test errors on wider and finer grids, without intercept, and the first step of the printed grid."""
    n, seed = config["n"], config["seed"]
    found: dict[str, Any] = {}
    for relevant in (50, 28):
        found[f"wider {relevant}"] = _tuned(n, relevant, seed, 1.0, WIDER, len(COSTS))
    found["finer"] = _tuned(n, 1, seed, 4.0, FINER)
    found["no intercept"] = _tuned(n, 1, seed, 4.0, COSTS, intercept=False)
    found["first step"] = {"4": [], "inf": []}
    for relevant in RELEVANT:
        data = drawn(n, relevant, seed)
        for name, p in (("4", 4.0), ("inf", np.inf)):
            found["first step"][name].append(_first_step(data, p))
    return found


def _first_step(data: Drawn, p: float) -> dict[str, float]:
    """Of the printed grid: what changes between its two smallest C, and how many dual variables are at their bound."""
    first, second = path(data, p, COSTS[:2])
    slopes = [s.weights * (s.dual_coef @ data.stack.Z) for s in (first, second)]
    cosine = float(slopes[0] @ slopes[1] / np.prod([np.linalg.norm(slope) for slope in slopes]))
    errors = [error(s, data.stack, data.held_out) for s in (first, second)]
    return {
        "difference": errors[1] - errors[0],
        "angle": float(np.degrees(np.arccos(min(cosine, 1.0)))),
        "at bound": float(np.mean(np.abs(first.dual_coef) > (1.0 - BOUND) * COSTS[0])),
    }


def _tuned(
    n: int, relevant: int, seed: int, p: float, costs: Sequence[float], printed: int = 0, intercept: bool = True
) -> dict[str, float]:
    """The best C and its test error; and those of the first `printed` C alone."""
    data = drawn(n, relevant, seed)
    solutions = path(data, p, costs, intercept)
    errors = [error(solution, data.stack, data.held_out) for solution in solutions]

    def tuned(among: int) -> dict[str, float]:
        best = int(np.argmin(errors[:among]))
        return {"C": costs[best], "error": error(solutions[best], data.stack, data.test)}

    found = tuned(len(costs))
    return {**found, **{f"printed {key}": value for key, value in tuned(printed).items()}} if printed else found


def figures(results: Sequence[Result], small: Measured, large: Measured) -> dict[str, str]:
    """What the causes cite."""
    found: dict[str, str] = {}
    if len(small.relevant) == len(RELEVANT):
        found["small-sets"] = str(len(small.results))
        found |= _ends(small) | _agreement(small)
        errors = small.means()[:, FOUR]
        found["four-sparsest"] = f"{errors[-1]:.1f}"
        found["four-elsewhere"] = f"{errors[:-1].max():.1f}"
    if len(large.results) > 1:
        values = even_test(large)
        found["large-sets"] = str(len(large.results))
        found["large-even-p"] = " and ".join(f"{p:.2g} with {noise(k)}" for k, p in values.items())
        means = large.of(28).mean(axis=0)
        found["large-even-near"] = f"{means[FOUR]:.2f} % against {means[-1]:.2f} %"
    return found | (_cells(results, small) if results else {})


def _ends(small: Measured) -> dict[str, str]:
    lower, upper = 100.0 * small.at_an_end()
    return {
        "upper-1": f"{upper[:, 0].max():.0f}",
        "lower-4": f"{lower[:, FOUR].max():.0f}",
        "lower-inf": f"{lower[:, -1].max():.0f}",
    }


def _agreement(small: Measured) -> dict[str, str]:
    """Rank correlations of errors and model errors over p, with and without p = inf, whose weights are not learned."""
    k = small.relevant.index(18)
    errors, models = small.means(), small.means("model error")
    finite = [float(spearmanr(e[:-1], m[:-1]).statistic) for e, m in zip(errors, models, strict=True)]
    return {
        "agreement-64": f"{typical_agreement(small, 18).mean():.2f}",
        "finite-64": f"{finite[k]:.1f}",
        "inf-error-64": f"{errors[k, -1]:.1f}",
        "inf-model-64": f"{models[k, -1]:.2f}",
        "four-thirds-error-64": f"{errors[k, 1]:.1f}",
        "four-thirds-model-64": f"{models[k, 1]:.2f}",
    }


def _cells(results: Sequence[Result], small: Measured) -> dict[str, str]:
    def of(part: str, key: str) -> Array:
        return np.array([r.values[part][key] for r in results])

    found = {"cause-sets": str(len(results))}
    for relevant in (50, 28):
        part = f"wider {relevant}"
        found[f"wider-C-{relevant}"] = f"{np.median(of(part, 'C')):.2g}"
        found[f"wider-{relevant}"] = f"{of(part, 'error').mean():.1f}"
        found[f"printed-{relevant}"] = f"{of(part, 'printed error').mean():.1f}"
    found["finer"] = f"{of('finer', 'error').mean():.2f}"
    seeds = {r.config["seed"] for r in results}
    printed = [r.values["1"]["error"][FOUR] for r in small.results if r.config["seed"] in seeds and "1" in r.values]
    found["printed-grid"] = f"{np.mean(printed):.2f}" if printed else ""
    found["no-intercept"] = f"{of('no intercept', 'error').mean():.2f}"
    steps = [step for r in results for name in ("4", "inf") for step in r.values["first step"][name]]
    found["all-bound"] = f"{100.0 * np.mean([step['at bound'] == 1.0 for step in steps]):.0f}"
    found["angle"] = f"{max(step['angle'] for step in steps):.2g}"
    found["jump"] = f"{100.0 * np.mean([abs(step['difference']) > JUMP for step in steps]):.0f}"
    return found
