"""The picture of samples beyond memory: `python docs/figures/scale.py`, from validation/results/scale.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from mklref.plotting import SETTINGS

ROOT = Path(__file__).parents[2]
TOL = 1e-3
STYLES = {2.0: ("o-", "#0072b2", "12 kernels, p = 2"), 1.0: ("s-", "#009e73", "12 kernels, p = 1")}


def curve(ax: Any, rows: list[dict[str, Any]], what: str, style: str, colour: str, label: str) -> None:
    """One quantity over the number of samples."""
    rows = sorted(rows, key=lambda row: row["n"])
    ax.plot([row["n"] for row in rows], [row[what] for row in rows], style, color=colour, label=label)


def main() -> None:
    """Read, draw, write docs/_static/scale.svg."""
    rows = json.loads((ROOT / "validation/results/scale.json").read_text())
    mnist = [row for row in rows if row.get("data", "mnist") == "mnist"]
    with mpl.rc_context(SETTINGS):
        figure, axes = plt.subplots(1, 3, figsize=(8.0, 2.8), layout="constrained")
        for ax, what, label in zip(
            axes,
            ("seconds", "evaluations", "peak GB"),
            ("processor seconds", "evaluations", "peak memory, GB"),
            strict=True,
        ):
            for p, style in STYLES.items():
                curve(ax, [row for row in mnist if row["p"] == p and row["tol"] == TOL], what, *style)
            ax.set_xscale("log")
            ax.set_xlabel("samples")
            ax.set_ylabel(label)
            ax.set_xticks([5000, 10000, 20000, 60000], ["5,000", "10,000", "20,000", "60,000"], rotation=30)
            ax.minorticks_off()
        curve(axes[0], [row for row in mnist if row["p"] == "SVC"], "seconds", "^--", "#cc79a7", "SVC, one kernel")
        axes[0].set_yscale("log")
        axes[1].set_ylim(bottom=0.0)
        axes[2].set_ylim(bottom=0.0)
        axes[0].legend(loc="upper left")
        figure.savefig(ROOT / "docs" / "_static" / "scale.svg")


if __name__ == "__main__":
    main()
