"""Kowalski section 4: a Good, a Bad and an Ugly kernel, and where six mixed norms put their coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import binomtest

from mklref._typing import Array
from mklref.datasets import Dataset, kloft_toy, load
from mklref.kernels import gaussian, linear
from mklref.synthesis import SynthesisProblem, SynthesisSolution, solve_path
from validation.reproduce.base import LEVEL, Cell, Evidence, Experiment, Picture, Result, Summary
from validation.reproduce.expected import bound
from validation.reproduce.pictures import figure

PROTOCOL = """
Titanic, 150 training and 2051 test samples; the kernels Good (linear), Bad (Gaussian of width 0.1) and Ugly (Gaussian
of width 100); squared hinge loss; the six mixed norms; lambda between 1 and 10^5, by five-fold cross-validation.
Baselines: the lowest test error over lambda of each kernel alone, with the norm 2.

The paper does not say which of the 100 realisations it takes: the first one gives all its baselines, if the constant
kernel of its footnote is there. What is said of the norms is judged on all ten that are to be had, each with a test set
of its own: a sentence holds if it does on more than half of all realisations, by a sign test at 5 %, and is undecided
if neither it nor its opposite is found.

Neither the number of lambdas, nor the folds, nor what the cross-validation counts are printed: eleven values are taken,
the folds are drawn ten times, and the squared hinge loss of the samples left out is counted; errors, shown besides,
hardly tell one lambda from another. Algorithm 2 as printed solves the problem at 2 lambda (erratum K9); here
every solution is certified to a relative gap of 1e-6 at lambda itself. The maps are those of the lambda that is chosen
most often.

The training samples have 12 different values, so many columns of the kernels are equal. Where a norm does not decide
between equal columns, as the norm 1, the relevance maps are one optimum of many.
"""

FOLDS, DRAWS, REALISATIONS = 5, 10, 10
FIRST = "titanic"
KERNELS = ("Good", "Bad", "Ugly")
NORMS = {"2": (2, 2, 1), "1": (1, 1, 1), "21;2": (2, 1, 2), "12;2": (1, 2, 2), "21;1": (2, 1, 1), "12;1": (1, 2, 1)}
"""In the order of Figure 2: no structure, structure by kernel, structure by sample."""
LAMBDAS = tuple(float(lam) for lam in 10.0 ** np.arange(5.0, -0.25, -0.5))
"""From large to small, along which the path is followed."""
BASELINES = {"Good": 21.84, "Bad": 25.89, "Ugly": 32.57}
PRINTED = {name: 22.92 if name == "21;1" else 21.84 for name in NORMS}
"""The paper's errors in %, of one kernel and of three."""
ROUNDED = 0.006
DENSE, HALF, INSIGNIFICANT, SAMPLES, SLIGHT, VISIBLE, SMOOTHED = (
    bound("kowalski_titanic", name)
    for name in ("dense", "half", "insignificant", "samples", "slight", "visible", "smoothed")
)
"""Our bounds: shares of zeros where there is no sparsity and of coefficients where there is, relevance, shares of
samples, the factor of a slight increase, what can be seen in a map, and the factor of what is smoothed towards zero."""


def cells(quick: bool) -> list[Cell]:
    """One for each realisation."""
    if quick:
        return [Cell("generated-00", {"data": "generated", "realisation": 0, "draws": 1}, 6.0)]
    return [
        Cell(f"{FIRST}-{k:02d}", {"data": FIRST, "realisation": k, "draws": DRAWS}, 40.0) for k in range(REALISATIONS)
    ]


def cell(config: dict[str, Any]) -> dict[str, Any]:
    """Baselines, cross-validated errors of the six norms, and their relevance."""
    train, test = _parts(config)
    K, K_new = _kernels(train.X, train.X), _kernels(train.X, test.X)
    y, y_new = train.y, test.y
    baselines = {}
    for t, name in enumerate(KERNELS):
        for bias in (True, False):
            path = _path(K[[t]], y, "2", bias)
            errors = [_error(s, K_new[[t]], y_new) for s in path]
            baselines[name if bias else f"{name}, no bias"] = min(errors)
    norms: dict[str, Any] = {}
    for name in NORMS:
        path = _path(K, y, name, True)
        errors = [_error(s, K_new, y_new) for s in path]
        chosen = np.array([_cross_validated(K, y, name, draw) for draw in range(config["draws"])])
        norms[name] = {
            "errors": [errors[k] for k in chosen[:, 0]],
            "errors by errors": [errors[k] for k in chosen[:, 1]],
            "shapes": [_shape(s) for s in path],
            "gap": max(s.certificate.relative_gap for s in path),
            "chosen": int(np.bincount(chosen[:, 0]).argmax()),
            "path": errors,
        }
        if config["realisation"] == 0:
            norms[name]["relevance"] = np.round(path[norms[name]["chosen"]].relevance(), 3).tolist()
    return {"baselines": baselines, "norms": norms, "order": np.lexsort(train.X.T).tolist()}


def _parts(config: dict[str, Any]) -> tuple[Dataset, Dataset]:
    if config["data"] == "generated":
        rng = np.random.default_rng(config["realisation"])
        train, test = (kloft_toy(rng, n, relevant=1, d=3, separation=0.8) for n in (80, 500))
        return train, test
    data = load(config["data"])
    split = data.splits[config["realisation"]]
    return data.take(split.train), data.take(split.test)


def _kernels(X: Array, X_new: Array) -> Array:
    """(3, k, n): k_t(x_i, new sample)."""
    return (linear() + gaussian([0.1, 100.0])).fit(X).new(X_new)


def _path(K: Array, y: Array, norm: str, bias: bool) -> list[SynthesisSolution]:
    p, q, r = NORMS[norm]
    return solve_path(SynthesisProblem(K, y, lam=1.0, p=p, q=q, r=r, constant=bias), LAMBDAS, tol=1e-6)


def _error(solution: SynthesisSolution, K_new: Array, y_new: Array) -> float:
    """Test error in %."""
    return 100.0 * float(np.mean(np.where(solution.decision_function(K_new) >= 0.0, 1.0, -1.0) != y_new))


def _cross_validated(K: Array, y: Array, norm: str, draw: int) -> tuple[int, int]:
    """Which lambda has the least loss, and the least error, on what was left out in five folds."""
    folds = np.random.default_rng(draw).permutation(len(y)) % FOLDS
    losses, errors = np.zeros(len(LAMBDAS)), np.zeros(len(LAMBDAS))
    for fold in range(FOLDS):
        kept, left = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        path = _path(K[:, kept[:, None], kept], y[kept], norm, True)
        margins = np.array([y[left] * s.decision_function(K[:, left[:, None], kept]) for s in path])
        losses += np.sum(np.maximum(1.0 - margins, 0.0) ** 2, axis=1)
        errors += np.sum(margins <= 0.0, axis=1)
    return int(losses.argmin()), len(LAMBDAS) - 1 - int(errors[::-1].argmin())


def _shape(solution: SynthesisSolution) -> dict[str, Any]:
    """Where the coefficients are, constant kernel apart: how many, how large, and how they are grouped."""
    A = np.abs(solution.coef[:3]) if solution.constant else np.abs(solution.coef)
    size = A / (A.max() or 1.0)
    seen = size > VISIBLE
    used = seen.sum(axis=0)
    return {
        "largest": [round(float(v), 4) for v in size.max(axis=1)],
        "nonzero": [round(float(v), 4) for v in seen.mean(axis=1)],
        "exactly zero": round(float(np.mean(A == 0.0)), 4),
        "samples without": round(float(np.mean(used == 0)), 4),
        "samples with one kernel": round(float(np.mean(used == 1)), 4),
    }


def summary(results: list[Result]) -> Summary:
    """Both tables, what the maps show, Figure 2."""
    if not results:
        return Summary()
    first = results[0]
    prefix = "" if first.config["data"] == FIRST else "generated data, "
    tables = {
        "baselines": {prefix + name: {"error": [error]} for name, error in first.values["baselines"].items()},
        "section4": {
            prefix + name: {
                column: [float(np.mean(r.values["norms"][name][errors])) for r in results]
                for column, errors in (("error", "errors"), ("by errors", "errors by errors"))
            }
            for name in NORMS
        },
        "realisations": {name: {"error": [r.values["baselines"][name] for r in results]} for name in KERNELS},
    }
    pictures = {"figure2": _picture(first)}
    if prefix:
        return Summary(tables, {}, pictures)
    if len(results) < 2:
        return Summary(tables, {}, pictures, measured(first))
    shared = {f"section4/{name}/error": float(np.std(row["error"], ddof=1)) for name, row in tables["section4"].items()}
    judged, counts = claims(results), holding(results)
    split = [counts[name] for name, found in judged.items() if not found.decided]
    hold = {"hold": f"{min(split)} to {max(split)} of {len(results)}"} if split else {}
    return Summary(tables, judged | realisation(results), pictures, measured(first) | hold, shared)


def _picture(first: Result) -> Picture:
    drawing, axes = figure(8.4, 4.4, rows=3, columns=2)
    order = first.values["order"]
    for ax, (name, found) in zip(axes.ravel(), first.values["norms"].items(), strict=True):
        relevance = np.array(found["relevance"])[:, order]
        ax.imshow(relevance, aspect="auto", cmap="Greys", vmin=0.0, vmax=1.0, interpolation="nearest")
        labels = [*KERNELS, "constant"][: len(relevance)]
        ax.set_yticks(range(len(labels)), labels)
        lam = LAMBDAS[found["chosen"]]
        ax.set_title(
            f"norm {name}, $\\lambda$ = {rounded(lam)}: {found['path'][found['chosen']]:.2f} % errors", fontsize=9
        )
        ax.set(xticks=[])
    for ax in axes[-1]:
        ax.set(xlabel="training samples, equal ones side by side")
    return Picture(
        drawing,
        "As Figure 2: relevance maps, white 0 and black 1. Top: no structure; middle: by kernel; bottom: by sample.",
    )


# --- what Kowalski says of the six norms, and the figures of the causes ----------------------------------------------


def claims(results: list[Result]) -> dict[str, Evidence]:
    """What the maps show, over the realisations: the first one, which the paper probably has, proves no norm."""
    found, n, counts = {}, len(results), holding(results)
    for name, first in maps(results[0]).items():
        holds, fails = (binomtest(counts[name], n, alternative=side).pvalue < LEVEL for side in ("greater", "less"))
        text = f"on {counts[name]} of {n} realisations; on the first: {'yes' if first.holds else 'no'}, {first.text}"
        found[name] = Evidence(bool(holds), text, decided=bool(holds or fails))
    return found


def holding(results: list[Result]) -> dict[str, int]:
    """On how many realisations each sentence holds."""
    every = [maps(result) for result in results]
    return {name: sum(one[name].holds for one in every) for name in every[0]}


def maps(result: Result) -> dict[str, Evidence]:
    """What the maps of one realisation show, at the lambda that is chosen most often."""
    norms = result.values["norms"]
    at = {name: found["shapes"][found["chosen"]] for name, found in norms.items()}

    def parts(name: str, quantity: str) -> str:
        return ", ".join(f"{kernel} {value:.3g}" for kernel, value in zip(KERNELS, at[name][quantity], strict=True))

    def others(quantity: str, name: str) -> str:
        return ", ".join(f"{other} {100 * at[other][quantity]:.0f} %" for other in NORMS if other != name)

    good, bad, ugly = range(3)
    two, one = at["2"], at["1"]
    alone = "samples with one kernel"
    found = {
        "l2-dense": Evidence(
            two["exactly zero"] < DENSE
            and two["largest"][ugly] < SMOOTHED * min(two["largest"][good], two["largest"][bad]),
            f"{100 * two['exactly zero']:.0f} % of the coefficients are 0 (less than {100 * DENSE:.0f} %); largest "
            f"relevance: {parts('2', 'largest')} (Ugly less than {SMOOTHED:g} of the others; bounds are ours)",
        ),
        "l1-sparse": Evidence(
            max(one["nonzero"]) < HALF and int(np.argmax(one["largest"])) == good,
            f"share of nonzero coefficients: {parts('1', 'nonzero')} (less than {HALF:g}, our bound); largest "
            f"relevance: {parts('1', 'largest')}",
        ),
        "l21k-good": Evidence(
            at["21;2"]["largest"][good] == 1.0 and 0.0 < at["21;2"]["largest"][ugly] < INSIGNIFICANT,
            f"largest relevance: {parts('21;2', 'largest')} (Ugly less than {INSIGNIFICANT:g}, our bound, and not 0)",
        ),
        "l12k-like-l1": Evidence(
            max(at["12;2"]["nonzero"][:ugly]) < HALF and at["12;2"]["largest"][bad] > one["largest"][bad],
            f"share of nonzero coefficients: {parts('12;2', 'nonzero')} (Good and Bad less than {HALF:g}, our bound; "
            "with the norm 1 the paper, too, has many of Ugly); largest relevance: "
            f"{parts('12;2', 'largest')}, against {parts('1', 'largest')} with the norm 1",
        ),
        "l21s-samples": Evidence(
            at["21;1"]["samples without"] > SAMPLES and at["21;1"][alone] < DENSE,
            f"{100 * at['21;1']['samples without']:.0f} % of the samples have no coefficient (more than "
            f"{100 * SAMPLES:.0f} %), {100 * at['21;1'][alone]:.0f} % have one in one kernel only (less than "
            f"{100 * DENSE:.0f} %; bounds are ours); without any, with the other norms: "
            f"{others('samples without', '21;1')}",
        ),
        "l12s-one-kernel": Evidence(
            at["12;1"][alone] > one[alone],
            f"{100 * at['12;1'][alone]:.0f} % of the samples use exactly one kernel, with the norm 1, which knows no "
            f"samples, {100 * one[alone]:.0f} %; with the other norms: {others(alone, '12;1')}",
        ),
    }
    chosen, shapes = norms["21;2"]["chosen"], norms["21;2"]["shapes"]
    factor = next((LAMBDAS[k] / LAMBDAS[chosen] for k in range(chosen, -1, -1) if not shapes[k]["largest"][ugly]), None)
    found["larger-lambda"] = Evidence(
        factor is not None and 1.0 < factor <= SLIGHT,
        f"Ugly has no coefficient from {factor:.2g} lambda on (slight: at most {SLIGHT:g}, our bound)"
        if factor
        else "Ugly keeps its coefficients",
    )
    return found


def realisation(results: list[Result]) -> dict[str, Evidence]:
    """Whether the baselines tell the realisations apart."""
    fits = [
        all(abs(r.values["baselines"][name] - error) <= ROUNDED for name, error in BASELINES.items()) for r in results
    ]
    return {
        "first-only": Evidence(
            fits[0] and sum(fits) == 1,
            f"{sum(fits)} of {len(fits)} realisations"
            + (f", number {', '.join(str(k + 1) for k in np.flatnonzero(fits))}" if any(fits) else ""),
        )
    }


def measured(first: Result) -> dict[str, str]:
    """What the causes cite."""
    norms = first.values["norms"]
    reached = {
        name: [k for k, error in enumerate(found["path"]) if abs(error - PRINTED[name]) <= ROUNDED]
        for name, found in norms.items()
    }

    def largest(name: str, k: int) -> str:
        sizes = norms[name]["shapes"][k]["largest"]
        return f"lambda = {rounded(LAMBDAS[k])}: " + ", ".join(
            f"{kernel} {size:.2g}" for kernel, size in zip(KERNELS, sizes, strict=True)
        )

    drawn = [k for error in norms["1"]["errors"] for k in _only(norms["1"]["path"], error)]
    led = [k for k in reached["12;2"] if norms["12;2"]["shapes"][k]["largest"][0] == 1.0]
    errors = {round(error, 2) for found in norms.values() for error in found["path"] if error < 50.0}
    return {
        "reached": "; ".join(
            f"{PRINTED[name]:.2f} % for {name} at " + ", ".join(rounded(LAMBDAS[k]) for k in reversed(reached[name]))
            for name in NORMS
        ),
        "errors": ", ".join(f"{error:.2f}" for error in sorted(errors)),
        "moved": f"{rounded(LAMBDAS[max(drawn)])} to {rounded(LAMBDAS[min(drawn)])}" if drawn else "unknown",
        "maps-1": "; ".join(largest("1", k) for k in reversed(reached["1"])),
        "maps-12;2": largest("12;2", max(led, default=norms["12;2"]["chosen"])),
        "chosen-1": largest("1", norms["1"]["chosen"]),
    }


def _only(path: list[float], error: float) -> list[int]:
    """The place of an error that occurs once on a path."""
    places = [k for k, value in enumerate(path) if value == error]
    return places if len(places) == 1 else []


def rounded(lam: float) -> str:
    """A lambda of the grid."""
    return f"{lam:.0f}" if lam >= 10.0 else f"{lam:.2g}"


EXPERIMENT = Experiment(
    "kowalski-titanic", "Kowalski section 4, Figure 2", PROTOCOL, cells, cell, summary, data=(FIRST,)
)
