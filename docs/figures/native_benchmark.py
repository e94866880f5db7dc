"""The picture of the native solver's benchmark: `python docs/figures/native_benchmark.py`, from validation/results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from mklref.plotting import SETTINGS

ROOT = Path(__file__).parents[2]
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
        for mark, colour in ((row["must"], "#d55e00"), (row["aim"], "#009e73")):
            if mark:
                ax.plot([mark, mark], [place - 0.4, place + 0.4], color=colour, linewidth=2)
    ax.plot([], [], color="#d55e00", linewidth=2, label="must be reached")
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


def main() -> None:
    """Read the parts, draw, write docs/_static/native-benchmark.svg."""
    parts = json.loads((ROOT / "validation/results/native.json").read_text())
    timed = {part: [row for row in parts[part]["rows"] if "passes" in row] for part in (*PROBLEMS, "losses", "growth")}
    samples, kernels = ([row for row in timed["growth"] if row["problem"] == name] for name in ("digits", "blobs"))
    with mpl.rc_context(SETTINGS):
        figure, axes = plt.subplot_mosaic("aab;aac", figsize=(8.0, 4.8), layout="constrained")
        bars(axes["a"], [row for part in (*PROBLEMS, "losses") for row in timed[part]])
        growth(axes["b"], samples, "n", "samples (digits, p = 2)")
        growth(axes["c"], kernels, "M", "kernels (blobs, p = 2)")
        axes["c"].legend(loc="center right", bbox_to_anchor=(1.0, 0.45))
        figure.savefig(ROOT / "docs/_static/native-benchmark.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
