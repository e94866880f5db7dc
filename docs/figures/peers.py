"""Certified gap against time of many solvers, from validation/results: `PYTHONPATH=. python docs/figures/peers.py`.

`python -m validation.peers.gaps --all --draw` measures first.
"""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

from mklref.plotting import SETTINGS
from validation.peers.gaps import STORED, stored

STATIC = Path(__file__).parents[1] / "_static"


def draw(path: Path, picture: Path) -> None:
    """One panel for each problem and p; the lowest gap that was reached within the time."""
    rows = stored(path)
    names = list(dict.fromkeys(row["solver"] for row in rows))
    problems = sorted({(row["problem"], row["n"], row["M"]) for row in rows})
    norms = sorted({row["p"] for row in rows})
    styles = {name: (plt.get_cmap("tab20")(k % 20), "os^vD"[k % 5]) for k, name in enumerate(names)}
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
    figure.savefig(picture, metadata={"Date": None})
    plt.close(figure)


def main(path: Path = STORED, picture: Path = STATIC / "peers.svg") -> None:
    """In the style of the docs."""
    with mpl.rc_context(SETTINGS):
        draw(path, picture)


if __name__ == "__main__":
    main()
