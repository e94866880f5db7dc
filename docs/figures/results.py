"""The pictures of what was measured, from validation/results: `PYTHONPATH=. python docs/figures/results.py [NAME ...]`.

One function a picture; `python -m validation.peers.gaps --all --draw` measures before it draws.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import accumulate
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullFormatter

from mklref.plotting import COLOURS, SETTINGS
from validation.confusion import NO_EFFECT, stored as stored_answers
from validation.peers.gaps import STORED, stored as stored_curves
from validation.planted import FAULTS

STATIC = Path(__file__).parents[1] / "_static"
RESULTS = Path(__file__).parents[2] / "validation" / "results"


@mpl.rc_context(SETTINGS)
def confusion() -> None:
    """The confusion matrix of the oracle, in percent of the answers, whose number is at the right.

    What was planted down, what it was called across.
    """
    rows = [row for row in stored_answers() if row[2] != NO_EFFECT]
    planted = list(dict.fromkeys(name for name, _ in FAULTS.values()))
    called = [*planted, *sorted({row[2] for row in rows} - set(planted))]
    counts = Counter((FAULTS[row[1]][0], row[2]) for row in rows)
    table = np.array([[counts[down, across] for across in called] for down in planted], dtype=float)
    total = table.sum(axis=1)
    shares = 100.0 * table / np.maximum(total, 1.0)[:, None]
    figure, ax = plt.subplots(figsize=(9.5, 8.6), layout="constrained")
    ax.imshow(np.sqrt(shares), cmap="Blues", vmin=0.0, vmax=13.0)
    for i, j in zip(*np.nonzero(table), strict=True):
        text = f"{shares[i, j]:.0f}" if shares[i, j] >= 0.5 else "·"
        ax.text(j, i, text, ha="center", va="center", fontsize=6, color="white" if shares[i, j] > 50.0 else "black")
    ax.set_xticks(range(len(called)), called, rotation=90, fontsize=7)
    ax.set_yticks(range(len(planted)), planted, fontsize=7)
    right_axis = ax.secondary_yaxis("right")
    right_axis.set_yticks(range(len(planted)), [f"{count:.0f}" for count in total], fontsize=7)
    ax.set_xlabel("called")
    ax.set_ylabel("planted")
    ax.grid(visible=False)
    save(figure, STATIC / "confusion.svg")


@mpl.rc_context(SETTINGS)
def peers(path: Path = STORED, picture: Path = STATIC / "peers.svg") -> None:
    """Certified gap against time of many solvers: the lowest gap that was reached within the time.

    One panel for each problem and p.
    """
    rows = stored_curves(path)
    names = list(dict.fromkeys(row["solver"] for row in rows))
    problems = sorted({(row["problem"], row["n"], row["M"]) for row in rows})
    norms = sorted({row["p"] for row in rows})
    styles = {name: (COLOURS[k % len(COLOURS)], "os^vD"[k % 5]) for k, name in enumerate(names)}
    figure, axes = plt.subplots(
        len(norms), len(problems), figsize=(3.3 * len(problems), 2.9 * len(norms)), squeeze=False, layout="constrained"
    )
    for row in rows:
        ax = axes[norms.index(row["p"])][problems.index((row["problem"], row["n"], row["M"]))]
        points = sorted((point["seconds"], max(point["gap"], 1e-12)) for point in row["points"])
        seconds, gaps = zip(*points, strict=True)
        colour, marker = styles[row["solver"]]
        wide = 2.0 if row["solver"] == "native" else 1.0
        ax.loglog(seconds, list(accumulate(gaps, min)), marker=marker, ms=3, lw=wide, color=colour, label=row["solver"])
    for i, p in enumerate(norms):
        for j, (name, n, M) in enumerate(problems):
            axes[i][j].xaxis.set_minor_formatter(NullFormatter())
            axes[i][j].set(title=f"{name}, n = {n}, M = {M}, p = {p:g}", xlabel="seconds of the processor")
        axes[i][0].set_ylabel("certified relative gap")
    found = {label: line for ax in axes.flat for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=3, fontsize=7)
    save(figure, picture)


MACHINES = {
    "p=1": "twelve kernels, p = 1, certified to {tol:g}",
    "p=2": "twelve kernels, p = 2, certified to {tol:g}",
    "fixed": "their average, certified to {tol:g}",
    "average": "SVC on the average kernel",
    "one": "SVC with one kernel",
}
MACHINE_COLOURS = {machine: f"C{k}" for k, machine in enumerate(MACHINES)}


@mpl.rc_context(SETTINGS)
def scale() -> None:
    """Growth with the samples of MNIST: processor seconds at the left, evaluations of all kernels at the right."""
    rows = [row for row in json.loads((RESULTS / "scale.json").read_text(encoding="utf-8")) if row["data"] == "mnist"]
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained")
    for machine, tol in sorted({(row["machine"], row["tol"]) for row in rows}):
        own = sorted((row["n"], row) for row in rows if (row["machine"], row["tol"]) == (machine, tol))
        style = {"color": MACHINE_COLOURS[machine], "ls": "-" if tol == 1e-3 else ":", "marker": "o", "ms": 3}
        for ax, key in zip(axes, ("seconds", "evaluations"), strict=True):
            ax.loglog(
                [n for n, _ in own], [row[key] for _, row in own], label=MACHINES[machine].format(tol=tol), **style
            )
    sizes = sorted({row["n"] for row in rows})
    for ax, label in zip(axes, ("processor seconds", "evaluations of all kernels"), strict=True):
        ax.set(xlabel="samples", ylabel=label)
        ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
        ax.minorticks_off()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=7)
    save(figure, STATIC / "scale.svg")


PROBLEMS = ("digits", "blobs", "cancer", "mnist")
LOSSES = {"squared_hinge": "squared hinge", "epsilon_insensitive": r"$\epsilon$-insensitive"}
EXPONENTS = {4 / 3: "4/3"}


def name(row: dict[str, Any]) -> str:
    """What the bar shows."""
    what = row["problem"] if row["loss"] == "hinge" else LOSSES.get(row["loss"], row["loss"])
    return f"{what}, p = {EXPONENTS.get(row['p'], format(row['p'], 'g'))}"


def bars(ax: Any, rows: list[dict[str, Any]]) -> None:
    """Passes of every problem, with what must be reached and what is aimed at."""
    places = range(len(rows), 0, -1)
    ax.barh(places, [row["passes"] for row in rows], color="#0072b2", height=0.7)
    for place, row in zip(places, rows, strict=True):
        for mark, colour in ((row["must"], "#c25300"), (row["aim"], "#009e73")):
            if mark:
                ax.plot([mark, mark], [place - 0.4, place + 0.4], color=colour, linewidth=2)
    ax.plot([], [], color="#c25300", linewidth=2, label="must be reached")
    ax.plot([], [], color="#009e73", linewidth=2, label="aimed at")
    ax.set_yticks(list(places), [name(row) for row in rows])
    ax.set_xlabel("passes over the kernels")
    ax.legend(loc="lower right")


def growth(ax: Any, rows: list[dict[str, Any]], key: str, label: str) -> None:
    """Seconds of the solver and of one pass."""
    rows = sorted(rows, key=lambda row: row[key])
    sizes = [row[key] for row in rows]
    ax.loglog(sizes, [row["seconds"] for row in rows], "o-", color="#0072b2", label="solved")
    ax.loglog(sizes, [row["svc_seconds"] for row in rows], "^-", color="#cc79a7", label="SVC, average kernel")
    ax.loglog(sizes, [row["pass_seconds"] for row in rows], "s--", color="#666666", label="one pass")
    ax.set_xticks(sizes, [str(size) for size in sizes], minor=False)
    ax.minorticks_off()
    ax.set_xlabel(label)
    ax.set_ylabel("seconds")


@mpl.rc_context(SETTINGS)
def native_benchmark() -> None:
    """The native solver's passes, and its seconds over samples and kernels."""
    parts = json.loads((RESULTS / "native.json").read_text(encoding="utf-8"))
    timed = {part: [row for row in parts[part]["rows"] if "passes" in row] for part in (*PROBLEMS, "losses", "growth")}
    samples, kernels = ([row for row in timed["growth"] if row["problem"] == name] for name in ("digits", "blobs"))
    figure, axes = plt.subplot_mosaic("aab;aac", figsize=(8.0, 4.8), layout="constrained")
    bars(axes["a"], [row for part in (*PROBLEMS, "losses") for row in timed[part]])
    growth(axes["b"], samples, "n", "samples (digits, p = 2)")
    growth(axes["c"], kernels, "M", "kernels (blobs, p = 2)")
    axes["c"].legend(loc="center right", bbox_to_anchor=(1.0, 0.45))
    save(figure, STATIC / "native-benchmark.svg")


def save(figure: plt.Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main(names: list[str]) -> None:
    """All pictures, or those that are named."""
    for picture in (confusion, native_benchmark, peers, scale):
        if not names or picture.__name__ in names:
            picture()


if __name__ == "__main__":
    main(sys.argv[1:])
