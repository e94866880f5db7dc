"""What Kloft 5.2 to 5.4 say of norms, on generated data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mklref._typing import Array
from validation.reproduce.base import LEVEL, Evidence, Result, holm, of, one_sided
from validation.reproduce.expected import bound

CLOSE = bound("kloft_emulated", "close")
"""Points of error within which a norm recovers another; our bound."""
FOCUS = bound("kloft_emulated", "focus")
"""Share of the weights from which on sparse weights focus on one kernel; our bound."""
HIGHLY, SLIGHTLY = bound("kloft_emulated", "highly"), bound("kloft_emulated", "slightly")
"""Alignments from which on kernels are highly aligned, and up to which slightly; our bounds."""
ALONE = bound("kloft_emulated", "alone")
"""How near the AUC of single kernels comes to the paper's, in points; our bound."""
PRINTED = {"signal": 89.0, "promoter": 86.0, "exon": 84.0, "angles": 55.0, "energies": 74.0}
"""AUC of single kernels in 5.3, in %, with 2000 windows."""
SINGLE = {
    "localisation": (),
    "starts": ("signal", "promoter", "exon", "angles", "energies"),
    "network": ("expression", "localisation", "phylogeny"),
}
"""Kernels that are also looked at by themselves."""


class Measured:
    """One quantity of one emulation, by norm and repetition."""

    def __init__(self, results: Sequence[Result], norms: Sequence[float], quantity: str) -> None:
        self.results, self.norms, self.quantity = results, norms, quantity

    def of(self, p: float | str) -> Array:
        """By repetition; p is a norm or the name of a single kernel."""
        return of(self.results, p if isinstance(p, str) else f"{p:g}", self.quantity)

    def table(self, kind: str) -> dict[str, dict[str, list[float]]]:
        """Rows for the report."""
        rows = {f"p = {p:g}": {self.quantity: self.of(p).tolist()} for p in self.norms}
        return rows | {name: {self.quantity: self.of(name).tolist()} for name in SINGLE[kind]}


def shown(measured: Measured, norms: Sequence[float]) -> str:
    """Means of some norms."""
    return ", ".join(f"p = {p:g}: {measured.of(p).mean():.1f}" for p in norms)


def localisation_claims(errors: Measured) -> dict[str, Evidence]:
    """5.2: sparse weights among near-duplicates."""
    sparse = errors.of(1.0)
    better = one_sided(sparse - errors.of(np.inf))
    near = {p: abs(errors.of(p).mean() - sparse.mean()) for p in errors.norms[1:3]}
    rising = [errors.of(p).mean() for p in errors.norms[3:]]
    return {
        "sparse-beats-sum": Evidence(
            bool(better < LEVEL), f"error in %: {shown(errors, (1.0, np.inf))}; p-value {better:.2g}"
        ),
        "near-one": Evidence(
            max(near.values()) <= CLOSE,
            f"error in %: {shown(errors, errors.norms[:3])}; at most {max(near.values()):.2f} apart "
            f"(at most {CLOSE:g}, our bound)",
        ),
        "rises": Evidence(bool(np.all(np.diff(rising) > 0.0)), f"error in %: {shown(errors, errors.norms[3:])}"),
    }


def starts_claims(areas: dict[int, Measured], last: Sequence[Result]) -> dict[str, Evidence]:
    """5.3: a norm in between."""
    means = {n: {p: a.of(p).mean() for p in a.norms} for n, a in areas.items()}
    best = {n: max(found, key=found.__getitem__) for n, found in means.items()}
    weights = np.mean([r.values["1"]["weights"] for r in last], axis=0)
    largest = areas[max(areas)]

    alone = {name: largest.of(name).mean() for name in PRINTED}
    return {
        "aligned": _aligned(np.mean([r.values["alignments"] for r in last], axis=0)),
        "alone": Evidence(
            all(abs(alone[name] - printed) <= ALONE for name, printed in PRINTED.items()),
            f"n = {max(areas)}: AUC in %: "
            + ", ".join(f"{name} {area:.1f} (paper {PRINTED[name]:g})" for name, area in alone.items())
            + f"; at most {ALONE:g} apart, our bound",
        ),
        "sparse-below-sum": Evidence(*_at_every_size(areas, 1.0, np.inf)),
        "two-above-sum": Evidence(*_at_every_size(areas, np.inf, 2.0)),
        "two-best": Evidence(
            all(p == 2.0 for p in best.values()),
            "; ".join(f"n = {n}: best at p = {p:g}, {shown(areas[n], areas[n].norms)}" for n, p in best.items()),
        ),
        "focus": Evidence(
            bool(weights.argmax() == 0 and weights[0] > FOCUS),
            "mean weights at p = 1: "
            + ", ".join(f"{name} {weight:.2f}" for name, weight in zip(SINGLE["starts"], weights, strict=True))
            + f" (more than {FOCUS:g} on the best one, our bound)",
        ),
    }


def _at_every_size(areas: dict[int, Measured], low: float, high: float) -> tuple[bool, str, bool]:
    """Whether one norm is significantly below another, the numbers, and whether that, or its opposite, is found."""
    tests = {n: one_sided(a.of(low) - a.of(high)) for n, a in areas.items()}
    holds = bool(holm(list(tests.values())).max() < LEVEL)
    opposite = bool(holm([one_sided(a.of(high) - a.of(low)) for a in areas.values()]).min() < LEVEL)
    norms = sorted((low, high))
    text = "; ".join(f"n = {n}: AUC in %, {shown(areas[n], norms)}, p-value {tests[n]:.2g}" for n in areas)
    return holds, text, holds or opposite


def _aligned(alignments: Array) -> Evidence:
    """Three kernels that are highly aligned, angles that are less, energies that are hardly, with any other."""
    three = alignments[:3, :3][np.triu_indices(3, 1)]
    angles, energies = alignments[3, :3], np.delete(alignments[4], 4)
    holds = three.min() >= HIGHLY > angles.max() and angles.min() > SLIGHTLY >= energies.max()
    return Evidence(
        bool(holds),
        f"alignments: the three {three.min():.2f} to {three.max():.2f} (at least {HIGHLY:g}, our bound), the angles "
        f"with them {angles.min():.2f} to {angles.max():.2f}, the energies with all others {energies.min():.2f} to "
        f"{energies.max():.2f} (at most {SLIGHTLY:g}, our bound)",
    )


def network_claims(network: Measured) -> dict[str, Evidence]:
    """5.4: the plain sum."""
    whole = network.of(np.inf)
    single = {name: one_sided(network.of(name) - whole) for name in SINGLE["network"]}
    sparse = one_sided(network.of(1.0) - whole)
    means = [network.of(p).mean() for p in network.norms]
    return {
        "sum-beats-single": Evidence(
            bool(holm(list(single.values())).max() < LEVEL),
            f"AUC in %: the sum {whole.mean():.1f}, "
            + ", ".join(f"{name} {network.of(name).mean():.1f} (p-value {test:.2g})" for name, test in single.items()),
        ),
        "sum-beats-sparse": Evidence(
            bool(sparse < LEVEL), f"AUC in %: {shown(network, (1.0, np.inf))}; p-value {sparse:.2g}"
        ),
        "grows": Evidence(bool(np.all(np.diff(means) > 0.0)), f"AUC in %: {shown(network, network.norms)}"),
    }
