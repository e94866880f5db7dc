"""The page: its controls, and the panels that follow them, each as soon as it is known.

A state is asked for, and panels come back, the interval first. What takes longer comes later, in the same answer; who
moves a control asks anew, and the answer before ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from html import escape
from pathlib import Path
from typing import Any

from mklref.explore import page, walk, work
from mklref.explore.state import BUNDLED, CHOICES, COSTS, GENERATED, RANGES, STEPS, State
from mklref.explore.work import Shown

Panel = tuple[str, str]
"""The id of an element of the page, and the HTML that it holds from now on."""
LABELS = {
    "data": "data",
    "samples": "samples",
    "noise": "noise",
    "share": "relevant kernels",
    "positive": "positive class",
    "kernels": "kernels",
    "loss": "loss",
    "regularizer": "regulariser",
    "p": "p (or q of a block norm)",
    "lam": "λ of the elastic net",
    "groups": "groups, with bars between",
    "C": "C",
}
"""The controls, in their order."""
PAGE = Path(__file__).with_name("page.html")
"""With its style and its script; @{name} is put in."""
PLACES = {"data": "data", "kernels": "kernels", "problem": "C"}
"""Where the library complains and hints, each below a control."""


def whole(start: State, nonce: str = "", own: str | None = None) -> str:
    """The page with its controls at a state, a file of one's own among the data; its script asks for the panels."""
    data = dict.fromkeys([*GENERATED, *BUNDLED, *([own] if own else []), start.data])
    controls = "".join(_control(name, getattr(start, name), tuple(data)) for name in LABELS)
    held = {"nonce": nonce, "controls": controls, "coloured": page.coloured()}
    held["address"] = _address(start).replace("<", r"\u003c")
    return re.sub(r"@\{(\w+)\}", lambda place: held[place[1]], PAGE.read_text(encoding="utf-8"))


def _control(name: str, value: Any, data: Sequence[str]) -> str:
    if name == "data":
        control = _list(name, data, value)
    elif name in CHOICES:
        control = _list(name, CHOICES[name], value)
    elif name == "C":  # a slider has equal steps: it moves over places in the list
        control = _slider(name, (0, len(COSTS) - 1), 1, COSTS.index(value), f' data-values="{json.dumps(COSTS)}"')
    elif name in RANGES:
        control = _slider(name, RANGES[name], STEPS[name], value)
    else:
        control = f'<input type="text" id="{name}" name="{name}" value="{escape(value)}">'
    places = [place for place, above in PLACES.items() if above == name]
    said = "".join(f'<div id="{kind}-{place}"></div>' for place in places for kind in ("complaint", "hint"))
    return f'<div class="control"><label for="{name}">{LABELS[name]}</label>{control}{said}</div>'


def _list(name: str, words: Sequence[str], chosen: str) -> str:
    options = "".join(f"<option{' selected' * (word == chosen)}>{escape(word)}</option>" for word in words)
    return f'<select id="{name}" name="{name}">{options}</select>'


def _slider(name: str, ends: tuple[float, float], step: float, value: float, values: str = "") -> str:
    sides = f'min="{ends[0]}" max="{ends[1]}" step="{step}" value="{value}"'
    return f'<output for="{name}"></output><input type="range" id="{name}" name="{name}" {sides}{values}>'


def panels(state: State, memory: dict[str, Any], stopped: Callable[[], bool]) -> Iterator[Panel]:
    """What the page shows of a state, each panel as soon as it is known: the id of an element, and its HTML.

    "address" holds the state, "idle" the controls without an effect. The memory is that of one page, its last good
    picture and the last problem that was solved to the end, and is written to; `stopped` says whether nobody waits any
    more.
    """
    shown, complaint = work.solved(state, memory)
    yield from _beside_controls(state, shown, complaint)
    yield from _at_once(state, shown, stopped)
    if finished := work.finish(shown, memory, stopped):
        shown = finished
        yield from _at_once(state, shown, stopped)
    for _ in work.further(shown, stopped):
        yield "paths", page.paths(shown)
    for html in page.values(shown, stopped):
        yield "values", html
    if not stopped():
        work.prepare()


def _beside_controls(state: State, shown: Shown, complaint: dict[str, str]) -> Iterator[Panel]:
    yield "again", page.again(complaint, shown)
    for place in PLACES:
        said = f'<div class="complaint">{escape(complaint[place])}</div>' if place in complaint else ""
        yield f"complaint-{place}", said
    yield "idle", " ".join(sorted(page.idle(state.data, state.regularizer)))
    yield "address", _address(state)
    yield "hint-data", page.read(state)
    yield "hint-kernels", page.HINT
    yield "hint-problem", page.groups(shown)


def _at_once(state: State, shown: Shown, stopped: Callable[[], bool]) -> Iterator[Panel]:
    """What is made of a solution, the interval first."""
    names = page.formulations(shown)
    formulation = state.formulation if state.formulation in names else names[0]
    steps = walk.Walk("", "", (), state.walk, state.before())

    def walked() -> str:
        nonlocal steps
        steps = walk.walk(shown)
        return page.walk(steps)

    def extended() -> str:
        work.extend(shown, shown.begun + work.AT_ONCE, stopped)
        return page.paths(shown)

    making: list[tuple[str, Callable[[], str]]] = [
        ("optimum", lambda: page.optimum(shown)),
        ("formulations", lambda: _list("formulation", names, formulation)),
        ("statement", lambda: page.statement(shown, formulation)),
        ("primer", lambda: page.primer(formulation)),
        ("decision", lambda: page.decision(shown)),
        ("walk", walked),
        ("address", lambda: _address(replace(state, formulation=formulation, walk=steps.taken))),
        ("code", lambda: page.code(shown, formulation, steps.taken)),
        ("paths", extended),
        ("optimum", lambda: page.optimum(shown, page.ranges(shown))),
        ("values", lambda: "<p>Conic solvers are at work …</p>"),
    ]
    for name, make in making:
        if stopped():
            return
        yield name, make()


def _address(state: State) -> str:
    """The state in full, as the page holds it: what it begins with stands in no address."""
    start = State()
    said = {field.name: [str(getattr(state, field.name)), str(getattr(start, field.name))] for field in fields(State)}
    return json.dumps(said)
