"""Kloft Figure 2: lp-norm MKL from the sparsest to the most even mixture of 50 features, and who wins where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from mklref._typing import Array
from validation.reproduce.base import CAUSE, Cell, Evidence, Experiment, Picture, Result, Summary, apart
from validation.reproduce.experiments.kloft_toy_claims import (
    even_test,
    joint_claims,
    large_claims,
    small_claims,
    typical_agreement,
)
from validation.reproduce.experiments.kloft_toy_parts import (
    BAYES,
    COSTS,
    GAP,
    NAMES,
    RELEVANT,
    Drawn,
    Measured,
    P,
    drawn,
    error,
    noise,
    path,
)
from validation.reproduce.pictures import COLOURS, figure

PROTOCOL = """
Two Gaussian classes in 50 dimensions whose means differ in the first k variables, at a distance for which the error of
Bayes is 4.0 %. One linear kernel for each variable, multiplicatively normalised; hinge loss; p = 1, 4/3, 2, 4 and
infinity (the plain sum of kernels); C from 10^-4 to 1 in half decades, chosen on 10 000 validation samples; test error
on 10 000 others; model error: the distance of the weights from the true ones, both of length 1. The paper draws 250
data sets for each n = 50 and 800.

The paper does not print its fractions of noise 1 - k/50; k = 50, 28, 18, 9, 4, 1 includes the 64 % and 92 % that its
text names. Here it is 120 data sets for n = 50, and 40 for n = 800. Every machine is solved by the native solver along
C, to a gap of 1e-6, the paper's being 1e-3; kernels of one variable have rank one, and at n = 800 they are factors and
not matrices. Claims are decided at 5 %: by paired t-tests over the data sets, one-sided, with Holm's correction where
one of several comparisons would do, and by bootstraps over the data sets where maxima are compared. Bounds, where the
paper has only words, are ours and printed.
"""

REPETITIONS = {50: 120, 800: 40}
"""Data sets by n; the paper has 250 of both."""
SECONDS = {50: 10.0, 800: 25.0}


def cells(quick: bool) -> list[Cell]:
    """One for each n and data set, with all fractions of noise; both sizes end together."""
    if quick:
        return [_cell(50, seed, (50, 9, 1), COSTS[::2], 2.5) for seed in range(4)]
    order = sorted([(seed / count, n, seed) for n, count in REPETITIONS.items() for seed in range(count)])
    return [*cause_cells(), *(_cell(n, seed, RELEVANT, COSTS, SECONDS[n]) for _, n, seed in order)]


def _cell(n: int, seed: int, relevant: Sequence[int], costs: Sequence[float], seconds: float) -> Cell:
    config = {"n": n, "seed": seed, "relevant": list(relevant), "costs": list(costs)}
    return Cell(f"n{n}-{seed:03d}", config, seconds)


def cell(config: dict[str, Any]) -> dict[str, Any]:
    """One data set for each fraction of noise: error, model error, C, ... of each p, in the order of `NAMES`."""
    if config.get("group") == CAUSE:
        return cause_cell(config)
    return {str(k): _scenario(config["n"], k, config["seed"], config["costs"]) for k in config["relevant"]}


def _scenario(n: int, relevant: int, seed: int, costs: Sequence[float]) -> dict[str, Any]:
    data = drawn(n, relevant, seed)
    found: dict[str, Any] = {quantity: [] for quantity in ("error", "model error", "C", "kernels", "gap")}
    for p in P:
        solutions = path(data, p, costs)
        best = int(np.argmin([error(solution, data.stack, data.held_out) for solution in solutions]))
        chosen = solutions[best]
        length = np.linalg.norm(chosen.weights)
        gap = max(max(solution.certificate.relative_gap, 0.0) for solution in solutions)
        found["error"].append(error(chosen, data.stack, data.test))
        found["model error"].append(round(float(np.linalg.norm(chosen.weights / length - data.truth)), 6))
        found["C"].append(best)
        found["kernels"].append(int(np.count_nonzero(chosen.weights > 1e-6 * length)))
        found["gap"].append(float(f"{gap:.1e}"))
    return found


def summary(results: list[Result]) -> Summary:
    """Errors by scenario and p, the claims of 5.1, Figure 2."""
    runs, causes = apart(results)
    small, large = (Measured(runs, n) for n in (50, 800))
    table = {
        f"n = {measured.n}, {noise(k)}, p = {name}": {
            "error": measured.of(k)[:, j].tolist(),
            "model error": measured.of(k, "model error")[:, j].tolist(),
            "kernels": measured.of(k, "kernels")[:, j].tolist(),
        }
        for measured in (small, large)
        for k in measured.relevant
        for j, name in enumerate(NAMES)
    }
    claims = small_claims(small) | large_claims(large) | joint_claims(small, large)
    gaps = [gap for r in runs for scenario in r.values.values() for gap in scenario["gap"]]
    if gaps:
        claims["certified"] = Evidence(
            max(gaps) < 10.0 * GAP,
            f"{100.0 * np.mean(np.array(gaps) <= GAP):.2f} % of the paths of C lie below {GAP:g} everywhere, "
            f"{100.0 * np.mean(np.array(gaps) <= 1e-6):.0f} % below 1e-6; largest gap {max(gaps):.1e}",
        )
    shown = [measured for measured in (small, large) if len(measured.results) > 1]
    pictures = {"figure2": _picture(shown)} if shown else {}
    return Summary({"figure2": table}, claims, pictures, figures(causes, small, large))


def _picture(shown: list[Measured]) -> Picture:
    drawing, axes = figure(8.4, 2.7 * len(shown), rows=len(shown), columns=2)
    for line, measured in zip(axes, shown, strict=True):
        at = np.arange(len(measured.relevant))
        for ax, quantity in zip(line, ("error", "model error"), strict=True):
            for j, name in enumerate(NAMES):
                values = np.array([measured.of(k, quantity)[:, j] for k in measured.relevant])
                spread = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
                style = {"fmt": ".-", "color": COLOURS[j], "capsize": 2, "label": f"p = {name}"}
                ax.errorbar(at + 0.06 * (j - 2), values.mean(axis=1), spread, **style)
            ax.set_xticks(at, [noise(k).removesuffix(" noise") for k in measured.relevant])
            ax.set(title=f"n = {measured.n}, {len(measured.results)} data sets", xlabel="fraction of noise kernels")
        line[0].axhline(BAYES, color="black", linewidth=0.8, linestyle=":", label="Bayes")
        line[0].set(ylabel="test error (%)")
        line[1].set(ylabel="model error")
    axes[0, 0].get_figure().legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center")
    return Picture(drawing, "As Figure 2: test error and model error, mean and standard error over the data sets.")


# --- looked into: other grids of C, machines without intercept, and where C no longer matters ------------------------


SETS = 8
WIDER = tuple(float(C) for C in 10.0 ** np.arange(-4.0, 2.25, 0.5))
FINER = tuple(float(C) for C in 10.0 ** np.arange(-5.0, 1.125, 0.25))
BOUND = 1e-3
"""Relative distance within which a dual variable is at its bound."""
JUMP = 10.0
"""Points of the validation error that no change of a direction explains."""
FOUR = NAMES.index("4")


def cause_cells() -> list[Cell]:
    """One for each of the first data sets."""
    return [Cell(f"cause-{seed:02d}", {"group": CAUSE, "n": 50, "seed": seed}, 10.0) for seed in range(SETS)]


def cause_cell(config: dict[str, Any]) -> dict[str, Any]:
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


EXPERIMENT = Experiment("kloft-toy", "Kloft Figure 2", PROTOCOL, cells, cell, summary)
