"""What SimpleMKL says about its paths, against ours, and the figures that the causes cite."""

from __future__ import annotations

import numpy as np

from mklref._typing import Array
from validation.reproduce.base import Evidence, Result
from validation.reproduce.expected import bound
from validation.reproduce.experiments.paired import holm
from validation.reproduce.experiments.simplemkl_data import SIZES
from validation.reproduce.experiments.simplemkl_ratios import (
    FEWEST,
    LEVEL,
    Ratios,
    Reached,
    above_one,
    grows,
    reached,
    sign_test,
)

TOL = 0.01
FLAT, SMALL = bound("simplemkl_path", "flat"), bound("simplemkl_path", "small")
LEVEL_PART = int(bound("simplemkl_path", "level_part"))
"""Ours: counts differ by 10 % at most on a flat part, a small overshoot is one of 30 % at most, and the plateau is that
of the four largest C."""


SHOWN = 0, 3, 4, 6, 8, 12, 19
"""Numbers of the values of C that causes cite: 1000, 162, 89, 26, 7.8, 0.69 and 0.01."""


def claims_of(results: list[Result], gains: Ratios, gradients: Ratios) -> dict[str, Evidence]:
    """Those of section 5.1.2 and Figure 4."""
    claims = {"gaps": reached([Reached(result.id, max(result.values["gap"]), TOL) for result in results])}
    if gains:
        claims["faster"] = above_one("seconds, SILP / SimpleMKL", gains)
        claims["gain-grows"] = grows("seconds, SILP / SimpleMKL", gains, {name: SIZES[name][1] for name in gains})
        claims["fewer-gradients"] = above_one("gradients, SILP / SimpleMKL", gradients)
    curves = kernels_by_set(results, "SimpleMKL")
    if curves:
        claims["rise"] = rise(curves)
        claims["overshoot"] = overshoot(curves)
    return claims


def kernels_by_set(results: list[Result], solver: str) -> dict[str, Array]:
    """Numbers of kernels, one row a run and one column for each C from the largest down."""
    found: dict[str, list[list[int]]] = {}
    for result in results:
        if result.config["solver"] == solver:
            found.setdefault(result.config["data"], []).append(result.values["kernels"])
    return {name: np.array(rows, dtype=float) for name, rows in found.items()}


def rise(curves: dict[str, Array]) -> Evidence:
    """Whether the number is flat for the lowest third of the values of C, and lower there than at the largest C."""
    parts, holds, values = [], True, []
    for name, rows in curves.items():
        low = rows[:, -(rows.shape[1] // 3) :].mean(axis=0)
        values.append(sign_test((rows[:, 0] / rows[:, -1]).tolist()) if len(rows) >= FEWEST else 0.0)
        holds &= bool(np.ptp(low) <= FLAT * low.max()) and bool(rows[:, 0].mean() > rows[:, -1].mean())
        parts.append(
            f"{name} {low.min():.1f} to {low.max():.1f} for the smallest C, {rows[:, 0].mean():.1f} at C = 1000"
        )
    adjusted = holm(values)
    text = "; ".join(f"{part} (p = {p:.1g})" for part, p in zip(parts, adjusted, strict=True))
    return Evidence(holds and bool(adjusted.max() < LEVEL), f"mean kernels: {text}; sign tests, adjusted by Holm")


def overshoot(curves: dict[str, Array]) -> Evidence:
    """Whether the mean number has a plateau at the largest C, and is somewhat higher before it."""
    parts, holds = [], True
    for name, rows in curves.items():
        mean = rows.mean(axis=0)
        plateau, top = mean[:LEVEL_PART], mean.max() / mean[:LEVEL_PART].mean()
        holds &= bool(np.ptp(plateau) <= FLAT * plateau.max()) and bool(1.0 < top <= SMALL)
        parts.append(
            f"{name} {plateau.min():.1f} to {plateau.max():.1f} at the four largest C, {mean.max():.1f} at most"
        )
    bounds = f"flat: within {100 * FLAT:.0f} %; small: at most {100 * (SMALL - 1):.0f} % above it (bounds are ours)"
    return Evidence(holds, f"mean kernels: {'; '.join(parts)}; {bounds}")


def measured(results: list[Result], gains: Ratios, gradients: Ratios) -> dict[str, str]:
    """The figures of the causes."""
    plain = [result for result in results if "group" not in result.config]
    simple = {(r.config["data"], r.config["seed"]): r.values for r in plain if r.config["solver"] == "SimpleMKL"}
    native = kernels_by_set(plain, "solve")
    tight = kernels_by_set([result for result in results if result.config.get("group") == "cause"], "solve")
    if not tight or ("wpbc", 0) not in simple:
        return {}
    idle = {
        name: [_idle(values["SVM"]) for (data, _), values in simple.items() if data == name]
        for name in ("pima", "wpbc")
    }
    machines = np.median([v["SVM"][0] for (name, _), v in simple.items() if name == "wpbc"])
    total = np.median([sum(v["SVM"]) for (name, _), v in simple.items() if name == "wpbc"])
    ratios = [float(np.median(list(found.values()))) for found in gradients.values()]
    seconds = [float(np.median(list(found.values()))) for found in gains.values()]
    wpbc = simple["wpbc", 0]["gap"]
    return {
        "gradients": f"{min(ratios):.1f} to {max(ratios):.1f}",
        "seconds": f"{min(seconds):.2g} to {max(seconds):.2g}",
        "wpbc-range": "{:.1f} to {:.0f}".format(min(gains["wpbc"].values()), max(gains["wpbc"].values())),
        "wpbc-first": f"{machines:.0f} of {total:.0f}",
        "idle-pima": f"{np.median(idle['pima']):.0f}",
        "idle-wpbc": f"{np.median(idle['wpbc']):.0f}",
        "gaps-wpbc": f"{wpbc[-_idle(simple['wpbc', 0]['SVM'])]:.0e} down to {wpbc[-1]:.0e}",
        "native-liver": _curve(native["liver"]),
        "native-pima": _curve(native["pima"]),
        "native-wpbc": _curve(native["wpbc"]),
        "tight-pima": _curve(tight["pima"]),
        "tight-wpbc": _curve(tight["wpbc"]),
    }


def _idle(machines: list[float]) -> int:
    """How many of the last values of C needed one machine."""
    return next((k for k, count in enumerate(reversed(machines)) if count > 1.0), len(machines))


def _curve(rows: Array) -> str:
    """Mean numbers at some values of C, from the largest down."""
    return ", ".join(f"{value:.1f}" for value in rows.mean(axis=0)[list(SHOWN)])
