"""A cell run again beside the stored line: what is the same, what but for the last digits, what is not; times apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from validation.reproduce.base import Result
from validation.reproduce.store import measures_time

LAST_DIGITS = 1e-9
"""Up to this share of its scale a number is the same but for the last digits: other processors and libraries sum in
another order. The scale is the number itself, the largest of its list, or 1 for a gap, which is relative already."""
SMALLEST = 1e-3
"""No scale is smaller: differences up to 1e-12 are what rounding leaves of zero."""


@dataclass(frozen=True)
class Pair:
    """One value, stored and now."""

    name: str
    """Where it is; entries of a list have the name of the list and their place."""
    stored: Any
    found: Any
    scale: float
    """0 where one of them is no number."""

    @property
    def series(self) -> str:
        """The name without the places in lists."""
        return re.sub(r"\[\d+\]", "", self.name)

    @property
    def distance(self) -> float:
        """The difference in units of the scale."""
        return abs(self.stored - self.found) / self.scale if self.scale else 0.0

    def __str__(self) -> str:
        return f"{self.name}: stored {self.stored!r}, now {self.found!r}"


@dataclass(frozen=True)
class Comparison:
    """Every value of a cell in one of four groups."""

    same: list[Pair] = field(default_factory=list)
    digits: list[Pair] = field(default_factory=list)
    different: list[Pair] = field(default_factory=list)
    times: list[Pair] = field(default_factory=list)


def compare(stored: Mapping[str, Any], found: Mapping[str, Any]) -> Comparison:
    """Sort the values of two results of one cell into the groups."""
    groups = Comparison()
    for time, pair in _pairs(stored, found):
        if time:
            groups.times.append(pair)
        elif pair.stored == pair.found:
            groups.same.append(pair)
        elif pair.scale and pair.distance <= LAST_DIGITS:
            groups.digits.append(pair)
        else:
            groups.different.append(pair)
    return groups


def lines(stored: Result, found: Result) -> Iterator[str]:
    """The comparison in words."""
    groups = compare(stored.values, found.values)
    yield f"stored: {_origin(stored)}"
    yield f"now:    {_origin(found)}"
    yield f"the same: {_values(len(groups.same))}"
    if groups.digits:
        most = max(groups.digits, key=lambda pair: pair.distance)
        yield f"the same but for the last digits: {_values(len(groups.digits))}, at most {most}, {_apart(most)}"
    if groups.times:
        yield "times, which are no difference:"
        yield from (f"  {name}: {_ratio(pairs)}" for name, pairs in _series(groups.times))
    yield f"different: {_values(len(groups.different))}"
    for name, pairs in _series(groups.different):
        most = max(pairs, key=lambda pair: pair.distance)
        many = f"{name}: {_values(len(pairs))}, such as " if len(pairs) > 1 else ""
        yield f"  {many}{most}" + (f", {_apart(most)}" if most.scale else "")
    yield from _solutions(stored.values, found.values, [pair.name for pair in groups.different])


def _solutions(stored: Any, found: Any, different: list[str], name: str = "") -> Iterator[str]:
    """Of each solution with a difference: whether both meet their tolerance, and whether both values can be right."""
    if not (isinstance(stored, dict) and isinstance(found, dict)):
        return
    begins = f"{name}/" if name else ""
    if "status" in stored and "status" in found and any(each.startswith(begins) for each in different):
        said = [f"stored {stored['status']}, now {found['status']}"]
        if stored["status"] == found["status"]:
            said = ["both meet their tolerance" if found["status"] == "OPTIMAL" else f"both {found['status']}"]
        gaps: list[Any] = [stored.get("gap"), found.get("gap")]
        values: list[Any] = [stored.get("objective"), found.get("objective")]
        if None not in gaps:
            said.append(f"relative gaps {gaps[0]:.1e} and {gaps[1]:.1e}")
        if None not in gaps + values:
            apart = abs(values[0] - values[1]) / (max(map(abs, values)) or 1.0)
            allowed = "as these gaps allow" if apart <= max(gaps) else "MORE THAN THESE GAPS ALLOW"
            said.append(f"objectives differ by {apart:.1e}, {allowed}")
        yield f"{name or 'the solution'}: {'; '.join(said)}"
    for key in stored:
        yield from _solutions(stored[key], found.get(key), different, f"{begins}{key}")


def _pairs(
    stored: Any, found: Any, name: str = "", time: bool = False, scale: float = 0.0
) -> Iterator[tuple[bool, Pair]]:
    """Every value of either, and whether it is a time."""
    if {type(stored), type(found)} - {type(None)} == {dict}:  # what only one of them has, too, value by value
        stored, found = stored or {}, found or {}
        for key in dict.fromkeys([*stored, *found]):
            path = f"{name}/{key}" if name else key
            of_key = 1.0 if key == "gap" else 0.0
            yield from _pairs(stored.get(key), found.get(key), path, time or measures_time(key), of_key)
    elif isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        scale = scale or max(map(abs, _numbers([stored, found])), default=0.0)
        for index, pair in enumerate(zip(stored, found, strict=True)):
            yield from _pairs(*pair, f"{name}[{index}]", time, scale)
    elif isinstance(stored, list) or isinstance(found, list):
        before, now = (_values(len(v)) if isinstance(v, list) else v for v in (stored, found))
        yield time, Pair(name, before, now, 0.0)
    else:
        numbers = list(_numbers([stored, found]))
        largest = max(scale or max(map(abs, numbers), default=0.0), SMALLEST)
        yield time, Pair(name, stored, found, largest if len(numbers) == 2 else 0.0)


def _numbers(values: list[Any]) -> Iterator[float]:
    """The numbers in lists of lists; a truth value is none."""
    for value in values:
        if isinstance(value, list):
            yield from _numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield value


def _series(pairs: list[Pair]) -> Iterator[tuple[str, list[Pair]]]:
    """The entries of a list together."""
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair.series, []).append(pair)
    yield from found.items()


def _ratio(pairs: list[Pair]) -> str:
    """Seconds, of a list in all, and now over stored."""
    if any(len(list(_numbers([pair.stored, pair.found]))) < 2 for pair in pairs):
        return f"stored {pairs[0].stored!r}, now {pairs[0].found!r}"
    stored, found = sum(pair.stored for pair in pairs), sum(pair.found for pair in pairs)
    return f"stored {stored:.4g} s, now {found:.4g} s" + (f", ratio {found / stored:.2f}" if stored else "")


def _apart(pair: Pair) -> str:
    return f"relative difference {pair.distance:.1e}"


def _origin(result: Result) -> str:
    facts = {"commit": "unknown", "date": "date unknown", "machine": "processor unknown"} | result.facts
    return f"commit {facts['commit'] or 'unknown'}, {facts['date']}, {facts['machine']}"


def _values(count: int) -> str:
    return f"{count or 'no'} value{'' if count == 1 else 's'}"
