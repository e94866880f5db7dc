"""The graph of equivalences, on which the explorer walks: families of problems, and the edges between them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from mklref._display import BLUE, ORANGE
from mklref._typing import Array
from mklref.equivalences import EQUIVALENCES, Equivalence

PLACES = {
    "Tikhonov": (100, 30, "Tikhonov"),
    "Power": (100, 88, "powers of the weights"),
    "HalfPower": (100, 146, "powers of the norms"),
    "ConcaveBlock": (100, 204, "concave functions"),
    "WeightedL1": (100, 262, "weighted, l1"),
    "Fixed": (330, 162, "one machine"),
    "Lp": (330, 100, "Ivanov: lp ball"),
    "ElasticNet": (330, 222, "elastic net"),
    "Mahalanobis": (330, 280, "ellipsoid"),
    "block norms": (560, 30, "block norms"),
    "dual": (560, 88, "dual, all kernels at once"),
    "BlockNorm": (560, 146, "block norm q"),
    "Groups": (560, 204, "groups"),
    "WeightedLp": (560, 262, "weighted lp"),
}
"""Where the families of problems stand in the graph of equivalences, and what they are called."""
BOX = (172, 30)


def ends(edge: Equivalence, here: str = "Lp") -> tuple[str, str]:
    """The families on both sides of an equivalence; what holds of any problem, or stays within one, begins `here`."""

    def family(words: str, other: str) -> str:
        statement = words.partition(",")[2] + words.partition("),")[2]
        if "dual" in statement or "semi-infinite" in statement:
            return "dual"
        if "block norms" in statement or "composite absolute" in statement:
            return "block norms"
        known = re.match(r"\w*", words).group()  # type: ignore[union-attr]
        return known if known in PLACES else other

    left = family(edge.left, edge.kind.__name__ if edge.kind.__name__ in PLACES else here)
    return left, family(edge.right, "HalfPower" if edge.right.startswith("group lasso") else left)


def end(start: str, walked: Sequence[Equivalence]) -> str:
    """The family where a walk ends."""
    for edge in walked:
        start = ends(edge, start)[1]
    return start


def walk(start: str, walked: Sequence[Equivalence], ahead: Sequence[Equivalence]) -> str:
    """The graph of equivalences: the way so far, numbered; the problem where it ends; and the edges that leave it."""
    here, way = start, []
    for edge in walked:
        way.append((here, ends(edge, here)[1]))
        here = way[-1][1]
    steps = {(here, ends(edge, here)[1]) for edge in ahead} - {(here, here)}
    known = {ends(edge) for edge in EQUIVALENCES if edge.kind.__name__ in PLACES} - steps - set(way)
    faint = {(left, right) for left, right in known if (right, left) not in steps}  # there and back would be one line
    drawn = [_arrow(*pair, "#888888", 1.0, "3 3", "") for pair in sorted(faint) if pair[0] != pair[1]]
    drawn += [_arrow(*pair, BLUE, 2.0, "", "") for pair in sorted(steps)]
    drawn += [_arrow(*pair, ORANGE, 3.0, "", str(k)) for k, pair in enumerate(way, start=1) if pair[0] != pair[1]]
    reached = {name for _, name in steps}
    width, height = BOX
    for name, (x, y, words) in PLACES.items():
        colour, opacity = (ORANGE, 0.35) if name == here else (BLUE, 0.2) if name in reached else ("#888888", 0.08)
        at = f'x="{x - width / 2}" y="{y - height / 2}" width="{width}" height="{height}" rx="6"'
        drawn.append(
            f'<rect {at} fill="var(--background, #ffffff)"/>'
            f'<rect {at} fill="{colour}" fill-opacity="{opacity}" stroke="currentColor" '
            f'stroke-width="{2 if name == here else 0.7}"/>'
            f'<text x="{x}" y="{y + 4}" font-size="12" text-anchor="middle" fill="currentColor">{words}</text>'
        )
    label = f"The graph of equivalences: {len(way)} steps from {PLACES[start][2]}, now at {PLACES[here][2]}"
    return (
        f'<div style="overflow-x:auto"><svg role="img" aria-label="{label}" viewBox="0 0 660 305" '
        f'style="min-width:540px;width:100%;max-width:760px">{"".join(drawn)}</svg></div>'
    )


def _arrow(left: str, right: str, colour: str, width: float, dash: str, number: str) -> str:
    """An arrow from box to box, bent to its left, so that there and back are apart; with the number of a step."""
    (x0, y0, _), (x1, y1, _) = PLACES[left], PLACES[right]
    start, end = np.array([x0, y0], dtype=float), np.array([x1, y1], dtype=float)
    along = end - start
    length = float(np.hypot(*along))
    middle = 0.5 * (start + end) + 14.0 * np.array([along[1], -along[0]]) / length
    half = 0.5 * np.array(BOX) + 2.0

    def rim(centre: Array, towards: Array) -> Array:
        away = towards - centre
        return np.asarray(centre + away * np.min(half / np.maximum(np.abs(away), 1e-9)))

    start, end = rim(start, middle), rim(end, middle)
    along = (end - middle) / np.hypot(*(end - middle))
    across = np.array([-along[1], along[0]])
    head = " ".join("{:.1f},{:.1f}".format(*point) for point in (end, *(end - 8 * along + s * across for s in (-4, 4))))
    path = "M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}".format(*start, *middle, *end)
    at = 0.25 * start + 0.5 * middle + 0.25 * end
    mark = (
        f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="9" fill="{colour}"/><text x="{at[0]:.1f}" y="{at[1] + 4:.1f}" '
        f'font-size="11" text-anchor="middle" fill="#ffffff">{number}</text>'
    )
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dash}"/>'
        f'<polygon points="{head}" fill="{colour}"/>{mark if number else ""}'
    )
