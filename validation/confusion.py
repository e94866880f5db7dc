"""The confusion matrix of the oracle: `python -m validation.confusion [--include WORD,...] [--jobs N]`.

Every fault of `validation.planted` on every case of the catalogue, without its grid of narrow solvers or with it
(`--grid`): what the oracle calls it. An answer that a fault has
not changed is optimal, which its certificate proves, and is counted apart. The rows go to
validation/results/confusion.json; docs/figures/results.py draws them. Exit code 0 if the first name of 95 % is right.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from mklref._files import write_text
from mklref.exceptions import MKLError
from mklref.testing import Answer, Supports, judge, select
from mklref.testing.faults import FAULTS as NAMES
from validation.planted import FAULTS, exact

RESULTS = Path(__file__).parent / "results" / "confusion.json"
TOL = 1e-6
TURN = 4
NO_EFFECT = "optimal all the same"
WANTED = 0.95

NARROW = {
    "hinge, p = 1": Supports(losses="hinge", regularizers="Lp", p=(1.0, 1.0), intercept=True, sample_weight=False),
    "hinge, p > 1": Supports(losses="hinge", regularizers="Lp", p=(1.001, 100.0), intercept=True, sample_weight=False),
    "squared loss": Supports(losses="squared", regularizers="Lp"),
    "no intercept": Supports(intercept=False, regularizers="Lp"),
    "regression": Supports(
        losses=("squared", "epsilon_insensitive", "squared_epsilon_insensitive", "huber", "pinball"), regularizers="Lp"
    ),
    "one kernel": Supports(max_kernels=1),
}
"""What common solvers are meant for."""

Row = tuple[str, str, str, tuple[str, ...]]
"""Case, what was planted, the name, and names that fit as well."""


def rows_of(name: str) -> list[Row]:
    """Every fault planted in one case; of the grid, in which neighbours differ little, every fourth in turn."""
    cases = {case.name: (number, case) for number, case in enumerate(select())}
    number, case = cases[name]
    rows: list[Row] = []
    problem = case.build()[0]
    for kind, (what, (_, fault)) in enumerate(FAULTS.items()):
        if "grid" in case.flags and (kind + number) % TURN:
            continue
        try:
            answer = fault(problem)
        except MKLError:  # the machine that the fault needs does not exist here
            continue
        if answer is not None:
            verdict = judge(problem, Answer(*answer), tol=TOL)
            named, others = (
                (NO_EFFECT, ())
                if abs(verdict.relative_gap) <= TOL
                else (verdict.findings[0].fault, verdict.findings[0].others)
            )
            rows.append((case.name, what, named, others))
    exact.cache_clear()
    return rows


def right(row: Row) -> bool:
    """Whether the planted fault is the name, or one of several that fit."""
    planted = FAULTS[row[1]][0]
    return planted in (row[2], *row[3])


def summary(rows: list[Row]) -> dict[str, float]:
    """Counts and shares."""
    told = [row for row in rows if row[2] != NO_EFFECT]
    return {
        "kinds": len({row[1] for row in told}),
        "answers": len(told),
        "optimal all the same": len(rows) - len(told),
        "named": sum(map(right, told)) / len(told),
        "named first": sum(FAULTS[row[1]][0] == row[2] for row in told) / len(told),
    }


def killed(rows: list[Row]) -> dict[str, dict[str, Any]]:
    """For each narrow solver: its cases, the faults that have room in them, and those that no case notices."""
    table, planted = {}, {row[0] for row in rows}
    built = {case.name: case.build() for case in select() if case.name in planted}
    for who, supports in NARROW.items():
        cases = {name for name, problems in built.items() if not any(map(supports, problems))}
        inside = [row for row in rows if row[0] in cases]
        possible = {row[1] for row in inside}
        dead = {row[1] for row in inside if row[2] != NO_EFFECT}
        table[who] = {
            "cases": len(cases),
            "kinds": len(possible),
            "killed": len(dead),
            "alive": sorted(possible - dead),
        }
    return table


def main() -> int:
    """Run, store, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--include", type=lambda text: text.split(","), metavar="WORD,...", help="flags or names of cases"
    )
    parser.add_argument(
        "--grid", action="store_true", help="the grid of narrow solvers as well, every fourth fault in turn"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--stored", action="store_true", help="print the stored results again")
    arguments = parser.parse_args()
    if arguments.stored:
        rows = stored()
    else:
        exclude = None if arguments.grid or arguments.include else "grid"
        names = [case.name for case in select(include=arguments.include, exclude=exclude)]
        rows = []
        with ProcessPoolExecutor(arguments.jobs) as pool:
            for number, part in enumerate(pool.map(rows_of, names), 1):
                rows += part
                print(f"\r{number} of {len(names)} cases", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    for (what, named), count in Counter(
        (row[1], row[2]) for row in rows if row[2] != NO_EFFECT and not right(row)
    ).items():
        print(f"{count:4} x {what} ({FAULTS[what][0]}) is called {named}")
    for who, facts in killed(rows).items():
        print(who, facts)
    print(summary(rows))
    outside = {case.name for case in select(exclude="grid")}
    some = [row for row in rows if row[0] in outside]
    if 0 < len(some) < len(rows):
        print("outside of the grid:", summary(some))
    if arguments.include is None and not arguments.stored:
        write_text(RESULTS, packed(rows))
    return int(summary(rows)["named first"] < WANTED)


def packed(rows: list[Row]) -> str:
    """The rows as they are stored: a line for each case, of [planted, called, others that fit ...] by number."""
    planted = list(dict.fromkeys(row[1] for row in rows))
    called = list(dict.fromkeys(name for row in rows for name in (row[2], *row[3])))
    cases: dict[str, list[list[int]]] = {}
    for case, what, named, others in rows:
        numbers = [planted.index(what), *(called.index(name) for name in (named, *others))]
        cases.setdefault(case, []).append(numbers)
    lines = ",\n".join(f"{json.dumps(case)}: {json.dumps(of, separators=(',', ':'))}" for case, of in cases.items())
    return f'{{"planted": {json.dumps(planted)},\n"called": {json.dumps(called)},\n"cases": {{\n{lines}\n}}}}\n'


def unpacked(text: str) -> list[Row]:
    """The rows that `packed` stored."""
    document = json.loads(text)
    planted, called = document["planted"], document["called"]
    return [
        (case, planted[what], called[named], tuple(called[other] for other in others))
        for case, rows in document["cases"].items()
        for what, named, *others in rows
    ]


def stored() -> list[Row]:
    """The rows of the last whole run."""
    return unpacked(RESULTS.read_text(encoding="utf-8"))


assert {name for name, _ in FAULTS.values()} <= set(NAMES)

if __name__ == "__main__":
    sys.exit(main())
