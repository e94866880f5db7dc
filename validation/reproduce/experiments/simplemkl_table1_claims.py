"""What SimpleMKL says about Table 1, against our runs, and the figures that the causes cite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import levene

from mklref._typing import Array
from validation.reproduce.base import CAUSE, LEVEL, Evidence, Result, apart
from validation.reproduce.expected import bound
from validation.reproduce.experiments.simplemkl_data import (
    FEWEST,
    FIRST,
    SIZES,
    WIDTHS,
    Ratios,
    Reached,
    above_one,
    average,
    grows,
    median,
    printed,
    reached,
)

SAME = bound("simplemkl_table1", "same")
"""Points of accuracy that count as nearly identical."""
COMPARABLE, FOUR, FIVE = (
    [bound("simplemkl_table1", name) for name in names]
    for names in (("comparable_low", "comparable_high"), ("four_low", "four_high"), ("five_low", "five_high"))
)
"""Factors: comparable gradients, about four times the machines, a gain of about five."""
WITH_OTHER_WIDTHS = ("SILP", "SimpleMKL", "solve, 1e-6")


class Runs:
    """The values of every algorithm by data set and split."""

    def __init__(self, results: list[Result]) -> None:
        self.values: dict[str, dict[int, dict[str, dict[str, float]]]] = {}
        for result in results:
            if result.config["group"] != CAUSE:
                split = self.values.setdefault(result.config["data"], {}).setdefault(result.config["seed"], {})
                split.update({name: row for name, row in result.values.items() if isinstance(row, dict)})
        self.sets = [name for name in SIZES if name in self.values]

    def of(self, name: str, algorithm: str, quantity: str) -> dict[int, float]:
        """By split."""
        found = self.values[name]
        return {seed: rows[algorithm][quantity] for seed, rows in sorted(found.items()) if algorithm in rows}

    def ratio(self, quantity: str | Callable[[dict[str, float]], float], first: str, second: str) -> Ratios:
        """First / second, where both were run on the same split."""
        value = quantity if callable(quantity) else lambda row: row[quantity]
        found = {
            name: {
                seed: value(rows[first]) / value(rows[second])
                for seed, rows in sorted(self.values[name].items())
                if first in rows and second in rows
            }
            for name in self.sets
        }
        return {name: ratios for name, ratios in found.items() if ratios}

    def mean(self, name: str, algorithm: str, quantity: str, like: str | None = None) -> float:
        """Over the splits, or over those where another algorithm was run, too."""
        found = self.of(name, algorithm, quantity)
        seeds = found if like is None else self.of(name, like, quantity).keys() & found.keys()
        return float(np.mean([found[seed] for seed in seeds])) if seeds else float("nan")


def claims(runs: Runs) -> dict[str, Evidence]:
    """The sentences of 5.1.1 about the algorithms of the paper."""
    found = runs.ratio("gradients", "SILP", "SimpleMKL")
    if not found:
        return {}
    gain, plain = runs.ratio("seconds", "SILP", "SimpleMKL"), runs.ratio("seconds", "SILP", "Grad. Desc.")
    more, close = runs.ratio("SVM", "SimpleMKL", "SILP"), runs.ratio("gradients", "Grad. Desc.", "SILP")
    excess = {name: {0: runs.mean(name, "SimpleMKL", "kernels") / runs.mean(name, "SILP", "kernels")} for name in found}
    comparable = all(COMPARABLE[0] <= median(ratios) <= COMPARABLE[1] for ratios in close.values())
    close_text = ", ".join(f"{name} {median(ratios):.2g}" for name, ratios in close.items())
    accuracies = {
        name: runs.mean(name, "SimpleMKL", "accuracy") - runs.mean(name, "SILP", "accuracy") for name in found
    }
    points = ", ".join(f"{name} {points:+.2f}" for name, points in accuracies.items())
    return {
        "same-accuracy": Evidence(
            max(map(abs, accuracies.values())) <= SAME,
            f"SimpleMKL less SILP, points of mean accuracy: {points}; at most {SAME:g} allowed (the bound is ours)",
        ),
        "more-kernels": average("SimpleMKL / SILP, mean kernels", excess, 1.1, 1.2, "the paper's words"),
        "fewer-gradients": above_one("gradients, SILP / SimpleMKL", found),
        "more-svms": above_one("SVM, SimpleMKL / SILP", more),
        "four-times": average("SVM, SimpleMKL / SILP", more, *FOUR),
        "faster-than-silp": above_one("seconds, SILP / SimpleMKL", gain),
        "gain-of-5": average("seconds, SILP / SimpleMKL", gain, *FIVE),
        "gain-grows": grows("seconds, SILP / SimpleMKL", gain, {name: SIZES[name][1] for name in gain}),
        "plain-more-gradients": above_one(
            "gradients, Grad. Desc. / SimpleMKL", runs.ratio("gradients", "Grad. Desc.", "SimpleMKL")
        ),
        "plain-more-svms": above_one("SVM, Grad. Desc. / SILP", runs.ratio("SVM", "Grad. Desc.", "SILP")),
        "faster-than-plain": above_one(
            "seconds, Grad. Desc. / SimpleMKL", runs.ratio("seconds", "Grad. Desc.", "SimpleMKL")
        ),
        "plain-faster-than-silp": above_one("seconds, SILP / Grad. Desc.", plain),
        "plain-comparable-gradients": Evidence(
            comparable,
            f"gradients, Grad. Desc. / SILP: {close_text}; "
            f"{COMPARABLE[0]:g} to {COMPARABLE[1]:g} allowed (bounds are ours)",
        ),
    }


def gaps(results: list[Result]) -> dict[str, Evidence]:
    """Whether every run reached the gap that its name or the protocol states."""
    runs = [
        Reached(f"{result.id}, {name}", row["gap"], float(name.partition(", ")[2]) if name[-1].isdigit() else 0.01)
        for result in results
        for name, row in result.values.items()
        if isinstance(row, dict) and "gap" in row
    ]
    wrapped = [run for run in runs if run.stated > 1e-6]
    native = [run for run in runs if run.stated <= 1e-6]
    found = {"gaps": reached(wrapped)} if wrapped else {}
    return found | ({"native-gap": reached(native)} if native else {})


def drawing(results: list[Result]) -> dict[str, Evidence]:
    """Whether splits that keep the shares of the classes spread less in accuracy, by Levene's test."""
    pairs = [result.values for result in results if result.config.get("about") == "strata"]
    if len(pairs) < FEWEST:
        return {}
    random, kept = (np.array([row[name]["accuracy"] for row in pairs]) for name in ("random", "stratified"))
    share = np.array([row["random"]["larger class"] for row in pairs])
    p = float(levene(random, kept).pvalue)
    less = bool(kept.std() < random.std())
    text = (
        f"accuracy in %, {len(pairs)} splits: at random {shown(random)}, with the shares kept {shown(kept)} "
        f"(p = {p:.1g}); at random the larger class has {shown(share)} of the test part, and correlates by "
        f"{np.corrcoef(share, random)[0, 1]:.2f} with the accuracy"
    )
    return {"drawing": Evidence(less and p < LEVEL, text, decided=p < LEVEL)}


def shown(values: Array) -> str:
    """Mean and deviation."""
    return f"{values.mean():.1f} ± {values.std(ddof=1):.1f}"


def measured(results: list[Result], runs: Runs) -> dict[str, str]:
    """The figures of the causes."""
    if not set(SIZES) - {"iris"} <= set(runs.sets):
        return {}
    silp, simple, plain = "SILP", "SimpleMKL", "Grad. Desc."
    last, half, best = "SILP, last machine", "SimpleMKL, 0.005", "solve, 1e-6"
    sets, varied = ([name for name in runs.sets if runs.of(name, who, "kernels")] for who in (silp, last))
    both = runs.ratio("gradients", silp, simple)["liver"]
    waiting = runs.ratio("gradients", last, simple)["liver"]
    counts = runs.of("liver", simple, "gradients").values()
    more = {name: runs.mean(name, simple, "SVM") / runs.mean(name, silp, "SVM") for name in sets}
    price = {name: median(found) for name, found in runs.ratio(_price, silp, simple).items()}

    paper = printed("simplemkl_table1", "table1")

    def against(algorithm: str) -> str:
        return _range(runs.mean(name, algorithm, "SVM") / paper[f"{name}, {algorithm}"]["SVM"][0] for name in sets)

    def pairs(first: str, second: str, quantity: str, names: list[str]) -> str:
        parts = [
            f"{name} {runs.mean(name, first, quantity):.1f} for {runs.mean(name, second, quantity, like=first):.1f}"
            for name in names
        ]
        return ", ".join(parts)

    return {
        "last": pairs(last, silp, "kernels", varied),
        "last-gradients": pairs(last, silp, "gradients", ["liver", "pima"]),
        "optimum": ", ".join(f"{runs.mean(name, best, 'kernels'):.1f} ({name})" for name in ("ionosphere", "sonar")),
        "excess-last": f"{100 * np.mean([_excess(runs, name, simple, last) for name in varied]):.0f} %",
        "optimum-pima": f"{runs.mean('pima', best, 'kernels'):.1f}",
        "half": pairs(half, simple, "kernels", varied),
        "half-gradients": ", ".join(f"{runs.mean(name, half, 'gradients'):.0f} ({name})" for name in varied),
        "full-gradients": ", ".join(
            f"{runs.mean(name, simple, 'gradients', like=half):.0f} ({name})" for name in varied
        ),
        "liver-fewer": f"{sum(value > 1.0 for value in both.values())} of {len(both)}",
        "liver-waiting": f"{sum(value > 1.0 for value in waiting.values())} of {len(waiting)}",
        "liver-last": f"{runs.mean('liver', last, 'gradients'):.0f}",
        "liver-silp": f"{runs.mean('liver', silp, 'gradients', like=last):.0f}",
        "liver-simple": f"{runs.mean('liver', simple, 'gradients', like=last):.0f}",
        "liver-spread": f"{min(counts):.0f} to {max(counts):.0f}",
        "liver-mean": f"{np.mean(list(counts)):.0f} ± {np.std(list(counts), ddof=1):.0f}",
        "price": _range(price.values()),
        "silp-share": against(silp),
        "simple-share": against(simple),
        "svm-ratio": _range(more.values()),
        "plain-last": ", ".join(
            f"{name} {median(found):.1f}" for name, found in runs.ratio("gradients", plain, last).items()
        ),
    } | _beside(results, runs)


def _beside(results: list[Result], runs: Runs) -> dict[str, str]:
    """Figures of the cells that belong to causes."""
    _, cells = apart(results)
    found: dict[str, list[dict[str, dict[str, float]]]] = {}
    for result in cells:
        about = result.config["about"]
        between = result.config.get("between")
        name = f"{between[0]:g} to {between[1]:g}" if between else about
        found.setdefault(name, []).append(result.values)
    parts = {
        name: ", ".join(f"{np.mean([row[a]['kernels'] for row in found[name]]):.1f}" for a in WITH_OTHER_WIDTHS)
        for name in WIDTHS
        if name in found
    }
    figures = {}
    if parts:
        figures["widths"] = "; ".join(f"{name}, {text}" for name, text in parts.items())
        figures["widths-here"] = ", ".join(
            f"{np.mean([runs.of('pima', a, 'kernels')[k] for k in range(FIRST)]):.1f}" for a in WITH_OTHER_WIDTHS
        )
    if "half" in found:
        figures["half-plain"] = f"{np.mean([row['Grad. Desc., 0.005']['kernels'] for row in found['half']]):.1f}"
        figures["full-plain"] = f"{np.mean([runs.of('pima', 'Grad. Desc.', 'kernels')[k] for k in range(FIRST)]):.1f}"
    return figures


def _price(row: dict[str, float]) -> float:
    """Seconds of an SVM evaluation with all that belongs to it."""
    return row["seconds"] / row["SVM"]


def _excess(runs: Runs, name: str, first: str, second: str) -> float:
    return runs.mean(name, first, "kernels", like=second) / runs.mean(name, second, "kernels") - 1.0


def _range(values: object) -> str:
    numbers = sorted(values)  # type: ignore[call-overload]
    return f"{numbers[0]:.2g} to {numbers[-1]:.2g}"
