"""The confusion matrix of the oracle, from validation/results: `PYTHONPATH=. python docs/figures/confusion.py`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from mklref.plotting import SETTINGS
from validation.confusion import NO_EFFECT, stored
from validation.planted import FAULTS

STATIC = Path(__file__).parents[1] / "_static"


def main() -> None:
    """What was planted down, what it was called across, in percent of the answers, whose number is at the right."""
    rows = [row for row in stored() if row[2] != NO_EFFECT]
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
    figure.savefig(STATIC / "confusion.svg", metadata={"Date": None})


if __name__ == "__main__":
    with mpl.rc_context(SETTINGS):
        main()
