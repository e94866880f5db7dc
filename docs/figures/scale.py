"""Growth of the seconds with the samples, from validation/results: `PYTHONPATH=. python docs/figures/scale.py`."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

from mklref.plotting import SETTINGS

STATIC = Path(__file__).parents[1] / "_static"
STORED = Path(__file__).parents[2] / "validation" / "results" / "scale.json"
NAMES = {
    "p=1": "twelve kernels, p = 1, certified to {tol:g}",
    "p=2": "twelve kernels, p = 2, certified to {tol:g}",
    "fixed": "their average, certified to {tol:g}",
    "average": "SVC on the average kernel",
    "one": "SVC with one kernel",
}
COLOURS = {machine: f"C{k}" for k, machine in enumerate(NAMES)}


def main() -> None:
    """MNIST: processor seconds at the left, the same in evaluations of all kernels at the right."""
    rows = [row for row in json.loads(STORED.read_text(encoding="utf-8")) if row["data"] == "mnist"]
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained")
    for machine, tol in sorted({(row["machine"], row["tol"]) for row in rows}):
        own = sorted((row["n"], row) for row in rows if (row["machine"], row["tol"]) == (machine, tol))
        style = {"color": COLOURS[machine], "ls": "-" if tol == 1e-3 else ":", "marker": "o", "ms": 3}
        for ax, key in zip(axes, ("seconds", "evaluations"), strict=True):
            ax.loglog([n for n, _ in own], [row[key] for _, row in own], label=NAMES[machine].format(tol=tol), **style)
    sizes = sorted({row["n"] for row in rows})
    for ax, label in zip(axes, ("processor seconds", "evaluations of all kernels"), strict=True):
        ax.set(xlabel="samples", ylabel=label)
        ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
        ax.minorticks_off()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=7)
    figure.savefig(STATIC / "scale.svg", metadata={"Date": None})


if __name__ == "__main__":
    with mpl.rc_context(SETTINGS):
        main()
