"""The table of equivalences as a picture: a box for every problem, an arrow with its number for every row.

The families of problems stand in three columns, chosen by hand so that few arrows cross. Everything else is computed:
boxes of one family share a frame, arrows that leave a box on one side are spread along it in the order of their
targets, and the number of an arrow sits where it is farthest from other arrows. Colours come from the page.
"""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from dataclasses import dataclass
from html import escape

import numpy as np

COLUMNS = (
    (("group lasso",), ("Tikhonov",), ("HalfPower",), ("BlockNorm",), ("Groups",), ("WeightedLp",), ("Mahalanobis",)),
    (("Lp",), ("Fixed", "any"), ("density level set", "nu one-class machine")),
    (("Power",), ("WeightedL1",), ("ConcaveBlock",), ("ElasticNet",)),
)
"""Families that share a frame, frames from top to bottom, columns from left to right."""

WIDTH, GUTTER, MARGIN = 242, 136, 78  # of a box, between columns, beside the outer columns
CHARACTERS, LINE = 34, 15
PAD, GAP, FRAME_GAP = 10, 8, 22  # beside text and boxes, between boxes, between frames
RADIUS = 9  # of the disc around a number

STYLE = """
div:has(> .equivalences) { overflow-x: auto; }
.equivalences { width: 100%; min-width: 800px; height: auto; font: 12px sans-serif; fill: currentColor; }
.equivalences .frame { fill: none; stroke: var(--color-foreground-border, #888); stroke-dasharray: 2 3; }
.equivalences .problem rect { fill: var(--color-background-secondary, none);
  stroke: var(--color-foreground-border, #888); }
.equivalences .edge { --tone: var(--color-foreground-muted, #777); }
.equivalences .edge.map { --tone: var(--color-brand-primary, #27d); }
.equivalences .edge path { fill: none; stroke: var(--tone); stroke-width: 1.5; }
.equivalences .edge .halo { stroke: var(--color-background-primary, transparent); stroke-width: 4; }
.equivalences .edge .head { fill: var(--tone); stroke: none; }
.equivalences .edge circle { fill: var(--color-background-primary, #fff); stroke: var(--tone); }
.equivalences .edge text { font-size: 11px; text-anchor: middle; fill: var(--tone); }
.equivalences a { text-decoration: none; }
.equivalences .edge:hover path:not(.halo) { stroke-width: 3; }
"""


@dataclass(frozen=True)
class Box:
    """A problem: its words in lines, its column, and the corner at the top left."""

    lines: tuple[str, ...]
    column: int
    x: float
    y: float

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + PAD

    @property
    def centre(self) -> float:
        return self.y + self.height / 2

    def distance(self, point: np.ndarray) -> float:
        """Euclidean distance of a point to the box."""
        low, high = np.array([self.x, self.y]), np.array([self.x + WIDTH, self.y + self.height])
        return float(np.linalg.norm(point - np.clip(point, low, high)))


def picture(table: list[dict[str, str]]) -> str:
    """The graph of a table of equivalences as SVG."""
    boxes, frames = place(dict.fromkeys(edge[side] for edge in table for side in ("left", "right")))
    curves = route(table, boxes)
    numbers = put_numbers(curves, list(boxes.values()))
    width = 2 * MARGIN + len(COLUMNS) * WIDTH + (len(COLUMNS) - 1) * GUTTER
    height = max(y + tall for _, y, tall in frames) + PAD
    return "\n".join(
        [
            f'<svg class="equivalences" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}"'
            ' role="group" aria-label="Arrows between problems, each a row of the table below">',
            f"<style>{STYLE}</style>",
            *(
                f'<rect class="frame" x="{x:.1f}" y="{y:.1f}" width="{WIDTH + 2 * PAD}" height="{tall:.1f}" rx="8"/>'
                for x, y, tall in frames
            ),
            *map(draw_edge, range(1, len(table) + 1), table, curves, numbers),
            *(draw_box(name, box) for name, box in boxes.items()),
            "</svg>",
        ]
    )


def family(name: str) -> str:
    """The words before the parameters of a problem."""
    return re.match(r".+?(?=[(,:]| with |$)", name).group()


def place(names: dict[str, None]) -> tuple[dict[str, Box], list[tuple[float, float, float]]]:
    """Boxes by name, and frames as (x, y, height). Columns are spread to equal height; new families come last."""
    known = {member for column in COLUMNS for frame in column for member in frame}
    new = tuple((other,) for other in dict.fromkeys(map(family, names)) if other not in known)
    columns = []
    for column in (*COLUMNS[:-1], COLUMNS[-1] + new):
        frames = [[name for member in frame for name in names if family(name) == member] for frame in column]
        columns.append([frame for frame in frames if frame])

    def tall(frame: list[str]) -> float:
        return sum(Box(words(name), 0, 0, 0).height + GAP for name in frame) - GAP + 2 * PAD

    total = max(sum(map(tall, column)) + FRAME_GAP * (len(column) - 1) for column in columns)
    boxes, outlines = {}, []
    for number, column in enumerate(columns):
        x = MARGIN + number * (WIDTH + GUTTER)
        between = (total - sum(map(tall, column))) / max(len(column) - 1, 1)
        top = float(PAD)
        for frame in column:
            outlines.append((x - PAD, top, tall(frame)))
            y = top + PAD
            for name in frame:
                boxes[name] = Box(words(name), number, x, y)
                y += boxes[name].height + GAP
            top += tall(frame) + between
    return boxes, outlines


def words(name: str) -> tuple[str, ...]:
    """The lines of a name, broken between words; an equation stays on one line."""
    bound = name.replace(" = ", "\u00a0=\u00a0")
    lines = textwrap.wrap(bound, CHARACTERS, break_long_words=False, break_on_hyphens=False)
    return tuple(line.replace("\u00a0", " ") for line in lines)


def route(table: list[dict[str, str]], boxes: dict[str, Box]) -> list[np.ndarray]:
    """A cubic Bezier curve (4, 2) for every edge, from side to side; within a column, around its outer side."""
    ends = [(boxes[edge["left"]], boxes[edge["right"]]) for edge in table]
    ports = defaultdict(list)  # (box, side) -> who ends there: (rank along the side, number of the edge, end)
    for number, (left, right) in enumerate(ends):
        sides = np.sign(right.column - left.column), np.sign(left.column - right.column)
        outer = -1 if left.column == 0 else 1
        for end, (box, other) in enumerate(((left, right), (right, left))):
            offset = other.centre - box.centre
            # Arcs within a column are nested, the nearest outermost on the side; between them is room for the others.
            rank = 1e-6 * offset if sides[end] else 1 / offset
            ports[box, sides[end] or outer].append((rank, number, end))
    curves = [np.zeros((4, 2)) for _ in table]
    for (box, side), guests in ports.items():
        for position, (_, number, end) in enumerate(sorted(guests), start=1):
            at = box.x + WIDTH * (side > 0), box.y + box.height * position / (len(guests) + 1)
            curves[number][3 * end] = curves[number][1 + end] = at
            curves[number][1 + end, 0] += side  # the direction of departure; its length follows
    for curve in curves:
        across, down = np.abs(curve[3] - curve[0])
        reach = 0.5 * across if across else 100 * down / (down + 100)
        curve[1:3] += (reach - 1) * (curve[1:3] - curve[[0, 3]])
    return curves


def points(curve: np.ndarray, t: np.ndarray) -> np.ndarray:
    """B(t) = (1-t)^3 P_0 + 3 (1-t)^2 t P_1 + 3 (1-t) t^2 P_2 + t^3 P_3, one row for each t."""
    return np.stack([(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3], axis=1) @ curve


def put_numbers(curves: list[np.ndarray], boxes: list[Box]) -> list[np.ndarray]:
    """A point on each curve, clear of boxes and of other numbers, as far from other curves as a disc needs."""
    paths = [points(curve, np.linspace(0, 1, 41)) for curve in curves]
    chosen: list[np.ndarray] = []
    for number, curve in enumerate(curves):
        t = np.linspace(0.2, 0.8, 25)
        others = np.concatenate([path for other, path in enumerate(paths) if other != number] or [np.empty((0, 2))])

        def merit(candidate: np.ndarray, t: float, others: np.ndarray = others) -> float:
            lines = np.linalg.norm(others - candidate, axis=1).min(initial=np.inf)
            discs = min((np.linalg.norm(candidate - disc) for disc in chosen), default=np.inf) - RADIUS
            walls = min(box.distance(candidate) for box in boxes)
            hits = (discs < RADIUS + 2) + (walls < RADIUS + 2)
            return min(lines, RADIUS + 3) - 4 * abs(t - 0.5) - 100 * hits

        candidates = points(curve, t)
        chosen.append(candidates[np.argmax(list(map(merit, candidates, t)))])
    return chosen


def draw_edge(number: int, edge: dict[str, str], curve: np.ndarray, at: np.ndarray) -> str:
    """An arrow that names its row of the table, and leads there."""
    start, *_, tip = curve
    back = np.array([np.sign(curve[2, 0] - tip[0]) * 8, 0])
    path = "M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}".format(
        *np.r_[start, curve[1], curve[2], tip + back]
    )
    head = "M{:.1f} {:.1f}l{:.1f} -4v8z".format(*tip, back[0])
    facts = [f"{number}. {edge['left']} → {edge['right']}"]
    facts += [f"{word}: {edge[word]}" for word in ("parameters", "condition") if edge[word] != "none"]
    facts.append(f"source: {edge['source']}")
    kind = "edge" if edge["parameters"] == "none" else "edge map"
    return (
        f'<a href="#edge-{number}"><g class="{kind}"><title>{escape(chr(10).join(facts))}</title>'
        f'<path class="halo" d="{path}"/><path d="{path}"/><path class="head" d="{head}"/>'
        f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{RADIUS}"/>'
        f'<text x="{at[0]:.1f}" y="{at[1] + 4:.1f}">{number}</text></g></a>'
    )


def draw_box(name: str, box: Box) -> str:
    lines = "".join(
        f'<text x="{box.x + PAD:.1f}" y="{box.y + PAD / 2 + LINE * row - 3.5:.1f}">{escape(line)}</text>'
        for row, line in enumerate(box.lines, start=1)
    )
    return (
        f'<g class="problem"><title>{escape(name)}</title>'
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{WIDTH}" height="{box.height:.1f}" rx="4"/>{lines}</g>'
    )
