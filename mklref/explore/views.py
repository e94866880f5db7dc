"""The pictures of the explorer as SVG: bounds, paths and decision functions."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from mklref._display import BLUE, ORANGE, shortened
from mklref._typing import Array
from mklref.plotting.style import COLOURS, colour
from mklref.solution import Solution

LEFT, RIGHT, TOP, BOTTOM = 76, 14, 12, 36
GRID = 40
"""Cells along each side of a decision function."""
MOST = 30
"""Kernels that a legend names."""


class Axes:
    """A picture under construction: lines and texts in the coordinates of the data."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], label: str, size: tuple[int, int] = (394, 230)):
        self.x, self.y, self.size = x, y, size
        self.parts = [f"<title>{escape(label)}</title>"]
        self.label = label

    def to(self, x: float, y: float) -> tuple[float, float]:
        """A point in pixels."""
        (x0, x1), (y0, y1), (width, height) = self.x, self.y, self.size
        across = (x - x0) / ((x1 - x0) or 1.0) * (width - LEFT - RIGHT)
        return LEFT + across, TOP + (y1 - y) / ((y1 - y0) or 1.0) * (height - TOP - BOTTOM)

    def line(
        self,
        xs: Sequence[float] | Array,
        ys: Sequence[float] | Array,
        colour: str,
        width: float = 2.0,
        *,
        dots: bool = False,
        title: str = "",
        dash: str = "",
    ) -> None:
        """Points, joined, and dots at them."""
        places = [self.to(x, y) for x, y in zip(xs, ys, strict=True)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        named = f"<title>{escape(title)}</title>" if title else ""
        self.parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}" '
            f'stroke-dasharray="{dash}">{named}</polyline>'
        )
        if dots:
            self.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in places]

    def area(self, xs: Array, low: Array, high: Array) -> None:
        """What lies between two curves."""
        there = [self.to(x, y) for x, y in zip(xs, low, strict=True)]
        back = [self.to(x, y) for x, y in zip(xs[::-1], high[::-1], strict=True)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in there + back)
        self.parts.append(f'<polygon points="{points}" fill="{BLUE}" fill-opacity=".3"/>')

    def text(self, x: float, y: float, words: str, anchor: str = "middle", dx: float = 0.0, dy: float = 0.0) -> None:
        """Words at a point."""
        px, py = self.to(x, y)
        self.parts.append(
            f'<text x="{px + dx:.1f}" y="{py + dy:.1f}" font-size="11" text-anchor="{anchor}" fill="currentColor">'
            f"{escape(words)}</text>"
        )

    def ticks(self, xs: Sequence[tuple[float, str]], ys: Sequence[tuple[float, str]]) -> None:
        """Axes with words at places."""
        (x0, x1), (y0, y1) = self.x, self.y
        self.line([x0, x0, x1], [y1, y0, y0], "currentColor", 1.0)
        for place, words in xs:
            self.text(place, y0, words, dy=16)
        for place, words in ys:
            self.text(x0, place, words, "end", dx=-5, dy=4)

    def iterations(self, count: int) -> None:
        """The first and the last of them below the axis."""
        self.text(0.0, self.y[0], "1" if count > 1 else "1, the only one", dy=16)
        if count > 1:
            self.text(count - 1.0, self.y[0], str(count), dy=16)

    def svg(self) -> str:
        """The picture."""
        width, height = self.size
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(self.label)}" '
            f'viewBox="0 0 {width} {height}" style="max-width:{width}px;width:100%">{"".join(self.parts)}</svg>'
        )


def bounds(solution: Solution) -> str:
    """The certified interval over the iterations."""
    lower, upper = solution.history.column("lower"), solution.history.column("upper")
    finite = np.isfinite(lower) & np.isfinite(upper)
    count, steps = len(lower), np.arange(float(len(lower)))[finite]
    lower, upper = lower[finite], upper[finite]
    if not len(lower):
        return ""
    best = 0.5 * (lower[-1] + upper[-1])
    away = max(upper.max() - best, min(best - lower.min(), 3.0 * (upper.max() - best) + abs(best)), 1e-12 * abs(best))
    away = away or best - lower.min() or 1.0  # where the optimum is 0, and f = 0 was known from the first
    axes = Axes((0, max(1, count - 1)), (best - away, best + away), "The certified interval over the iterations")
    axes.area(steps, np.maximum(lower, best - away), np.minimum(upper, best + away))
    axes.line(steps, np.minimum(upper, best + away), ORANGE, dots=True)
    axes.line(steps, np.maximum(lower, best - away), BLUE, dots=True)
    axes.iterations(count)
    near = away < 1e-3 * abs(best)  # all three would be one number
    low, high = (f"{sign}{away:.1g}" if near else f"{end:.4g}" for sign, end in zip("−+", axes.y, strict=True))
    axes.ticks([], [(axes.y[0], low), (best, f"{best:.4g}"), (axes.y[1], high)])
    axes.text(axes.x[1] / 2, axes.y[0], "the interval over the iterations", dy=31)
    return axes.svg()


def gaps(solution: Solution) -> str:
    """The certified relative gap over the iterations, in powers of ten; what is below rounding is at rounding."""
    bounds, history = solution.certificate, solution.history
    gap = np.asarray(history.column("upper") - history.column("lower")) / (bounds.size or 1.0)
    shown = np.isfinite(gap)
    if not shown.any():
        return ""
    steps, powers = np.arange(float(len(gap)))[shown], np.log10(np.maximum(gap[shown], 1e-16))
    low, high = float(np.floor(powers.min())), float(np.ceil(powers.max()))
    sides = (0, max(1, len(gap) - 1)), (low, max(high, low + 1.0))
    axes = Axes(*sides, "The relative gap over the iterations", (394, 160))
    axes.line(steps, powers, BLUE, dots=True)
    axes.iterations(len(gap))
    places = np.unique(np.linspace(low, axes.y[1], 4).round())
    axes.ticks([], [(k, f"{10.0**k:.0e}" if k else "1") for k in places])
    axes.text(axes.x[1] / 2, low, "the relative gap over the iterations", dy=31)
    return axes.svg()


def paths(values: Sequence[float], thetas: Array, names: Sequence[str], now: float | None, what: str) -> str:
    """Kernel weights along a parameter, at equal distances, where they are known; a line at its value now, if any."""
    known = np.isfinite(thetas).all(axis=1)
    most = float(thetas[known].max(initial=0.0)) or 1.0
    axes = Axes((0, len(values) - 1), (0.0, most), f"Kernel weights over {what}")
    places = np.arange(float(len(values)))
    for m, theta in enumerate(thetas.T):
        axes.line(places[known], theta[known], colour(m), dots=True, title=names[m], dash=_dash(m)[0])
    if now is not None:
        here = float(np.interp(np.log(now), np.log(values), places)) if np.isfinite(now) else len(values) - 1
        axes.line([here, here], [0, axes.y[1]], "currentColor", 1.0)
    shown = [(k, "∞" if np.isinf(values[k]) else f"{values[k]:.4g}") for k in range(0, len(values), 2)]
    axes.ticks(shown, [(0.0, "0"), (axes.y[1], f"{axes.y[1]:.3g}")])
    axes.text(axes.x[1] / 2, 0.0, f"weights of the kernels over {what}", dy=31)
    return axes.svg()


def _dash(m: int) -> tuple[str, str]:
    """Lines of one colour are told apart by their dashes, and the words for them in a legend."""
    return (("", "▬"), ("6 3", "▬ ▬"), ("2 2", "▪▪▪"), ("8 3 2 3", "▬▪"))[m // len(COLOURS) % 4]


def legend(names: Sequence[str]) -> str:
    """Which colour of the paths is which kernel."""
    marks = "".join(
        f'<span style="white-space:nowrap;margin-right:1em">'
        f'<span aria-hidden="true" style="color:{colour(m)}">{_dash(m)[1]}</span> '
        f"{escape(name)}</span> "
        for m, name in enumerate(names[:MOST])
    )
    more = f"and {len(names) - MOST} more, which the pointer names" if len(names) > MOST else ""
    return f"<p><small>{marks}{more}</small></p>"


def grid_of(X: Array) -> tuple[Array, tuple[float, float], tuple[float, float]]:
    """The middles of GRID^2 cells around samples of two variables, row by row from the top, and the sides of all."""
    low, high = X.min(axis=0) - 0.5, X.max(axis=0) + 0.5
    xs, ys = (low + (high - low) * ((np.arange(GRID)[:, None] + 0.5) / GRID)).T
    return np.column_stack([a.ravel() for a in np.meshgrid(xs, ys[::-1])]), (low[0], high[0]), (low[1], high[1])


def parts(solution: Solution, blocks: Array) -> Array:
    """f_m at new samples, (M, k), from the blocks (M, k, n) of the kernels."""
    return np.asarray(solution.weights[:, None] * (blocks @ solution.dual_coef))


def field(X: Array, values: Array, title: str, dots: str) -> str:
    """A function of two variables as colours, with the dots of its samples."""
    axes = _plane(X, f"{title}, within ±{float(np.abs(values).max()):.3g}")
    largest = float(np.abs(values).max()) or 1.0
    (left, top), (right, bottom) = axes.to(axes.x[0], axes.y[1]), axes.to(axes.x[1], axes.y[0])
    axes.parts.append(
        f'<image href="{png(colours(values.reshape(GRID, GRID) / largest))}" x="{left}" y="{top}" '
        f'width="{right - left}" height="{bottom - top}" preserveAspectRatio="none"/>{dots}'
    )
    axes.text(0.5 * sum(axes.x), axes.y[0], axes.label, dy=20)
    return axes.svg()


def _plane(X: Array, title: str) -> Axes:
    _, x_side, y_side = grid_of(X)
    return Axes(x_side, y_side, title, (300, 260))


def samples(X: Array, y: Array, solution: Solution) -> str:
    """Samples as dots; those with a dual variable have a ring of its size."""
    axes, beta = _plane(X, ""), solution.dual_coef
    most, dots = max(float(np.abs(beta).max()), 1e-300), []
    for sample, target, dual in zip(X, y, beta, strict=True):
        px, py = axes.to(*sample)
        fill = "#ffffff" if target > 0 else "#000000"
        ring = 0.5 + 2.0 * abs(dual) / most if abs(dual) > 1e-6 * most else 0.0
        stroke = f'stroke="#ffd21f" stroke-width="{ring:.1f}"' if ring else 'stroke="#555555" stroke-width=".6"'
        dots.append(
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="{2.2 + ring / 2:.1f}" fill="{fill}" {stroke}>'
            f"<title>beta = {dual:.4g}</title></circle>"
        )
    return "".join(dots)


def colours(values: Array) -> Array:
    """Blue from -1 on, orange up to 1, white at 0, (rows, columns, 3) of bytes."""
    strength = np.clip(np.abs(values), 0.0, 1.0) ** 0.7
    ends = np.where(values[..., None] > 0.0, [217.0, 95.0, 2.0], [31.0, 95.0, 180.0])
    return np.asarray(255.0 + strength[..., None] * (ends - 255.0), dtype=np.uint8)


def png(pixels: Array) -> str:
    """An image of (rows, columns, 3) bytes as an address of its own."""
    rows, columns, _ = pixels.shape
    raw = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0))
    image = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    return f"data:image/png;base64,{b64encode(image).decode()}"


def decision(X: Array, y: Array, blocks: Array, names: Sequence[str], solution: Solution) -> str:
    """The decision function and each kernel's part of it, side by side, from the kernels on the grid."""
    each, dots = parts(solution, blocks), samples(X, y, solution)
    shown = [("f, all together", each.sum(axis=0) + solution.intercept)]
    order = np.argsort(-np.abs(each).max(axis=1), kind="stable")
    shown += [(f"f[{shortened(names[m])}]", each[m]) for m in order[:5] if np.abs(each[m]).max() > 0.0]
    pictures = "".join(f"<div>{field(X, v, t, dots)}</div>" for t, v in shown)
    return f'<div style="display:grid;grid-template-columns:repeat(auto-fill,minmax(240px,1fr))">{pictures}</div>'


def flex(*columns: Any) -> str:
    """Blocks of HTML beside one another where there is room."""
    inner = "".join(f'<div style="flex:1 1 320px;min-width:0">{column}</div>' for column in columns if column)
    return f'<div style="display:flex;flex-wrap:wrap;gap:1rem">{inner}</div>'
