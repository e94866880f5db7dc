"""The native solver against the streaming limit: `python -m validation.benchmarks.native [--only PART] [--json FILE]`.

One *pass* is one streaming read of the kernel stack, `np.tensordot(theta, K, 1)`, timed in the same run. For each
problem and p the solver, the pass and scikit-learn's SVC on the average kernel take turns, and medians are
reported. The parts:

digits, blobs, cancer, mnist   the hinge loss at several p, against the passes that must be reached
losses     the other losses on digits, and their seconds over those of the hinge at the same p
growth     seconds over samples and over kernels
small      breast cancer with 13 kernels: against the conic forms, and alone with n = 150
lines      a kernel of rank one for each variable
many       hundreds of kernels on hundreds of samples
memory     peak memory beyond the stack (native_profile.py)
profile    shares of the stages of a solve (native_profile.py)
pieces     the quadratic programs against their twin, a Cholesky factor against a pass (native_profile.py)

`--json` replaces the parts that were run in the file and keeps its others. `--processor` counts seconds of the
processor, which a busy machine hardly changes; give it MKLREF_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import SVC

import mklref
from mklref._files import write_text
from validation import benchmarks
from validation.benchmarks import READS, alternate, ratio
from validation.benchmarks.native_profile import factorisation, measure_memory, profile, quadratic_programs
from validation.benchmarks.problems import PROBLEMS, blobs, cancer, digits, lines, subsets, views
from validation.facts import facts, results_file

Data = tuple[np.ndarray, np.ndarray, float]
Row = dict[str, Any]

CASES: dict[str, tuple[float, ...]] = {
    "digits": (1.0, 4 / 3, 2.0, 4.0),
    "blobs": (1.0, 4 / 3, 2.0),
    "cancer": (1.0, 2.0),
    "mnist": (1.0, 2.0),
}
TARGETS = {"digits": (15, 6), "blobs": (15, 6), "cancer": (30, 10), "mnist": (12, 5)}
"""Passes that must be reached, and that are aimed at, per problem; digits aims at 8 for p = 1."""
LOSSES = ("squared_hinge", "epsilon_insensitive", "squared", "logistic")
MOST_OVER_HINGE = 2.0
"""Seconds of another loss over those of the hinge that must be reached."""
SMALL, ALONE, MOST_ALONE = (50, 100), 150, 0.02
"""Samples of breast cancer with 13 kernels: for the conic forms, for the solver alone, and seconds it must reach."""
LINES = ((100, 40), (200, 5), (400, 10), (800, 20))
"""Samples, and variables that matter."""
MANY = ((200, 100), (200, 400), (200, 1000), (500, 100), (500, 400), (1000, 100))
"""Samples and kernels."""
MANY_PASSES = 12


def measure(
    name: str, p: float, loss: str, data: Data, rounds: int, must: float | None = None, aim: float | None = None
) -> Row:
    """One row: seconds, passes, certified gap and counters of one problem."""
    K, y, C = data
    M = len(K)
    theta = np.full(M, 1.0 / M, dtype=K.dtype)
    problem = mklref.Problem(K, y, C=C, loss=loss, regularizer=mklref.Lp(p))
    average = np.tensordot(theta, K, 1)
    works = {
        "native": lambda: mklref.solve(problem),
        "pass": lambda: np.tensordot(theta, K, 1),
        "svc": lambda: SVC(C=C, kernel="precomputed", tol=1e-3).fit(average, y),
    }
    times, results = alternate(rounds, works, fastest_of={"pass": READS})
    solution = results["native"]
    row = {
        "problem": name,
        "n": K.shape[1],
        "M": M,
        "dtype": str(K.dtype),
        "loss": loss,
        "p": p,
        "seconds": times["native"],
        "pass_seconds": times["pass"],
        "passes": times["native"] / times["pass"],
        "svc_seconds": times["svc"],
        "relative_gap": solution.certificate.relative_gap,
        "status": solution.status.name,
        "machines": solution.history.counters["machines"],
        "stack_reads": solution.history.counters["passes"],
        "kernels": int(np.count_nonzero(solution.weights > 1e-6)),
    }
    row |= {"must": must, "aim": aim, "kept": must is None or row["passes"] <= must}
    print(
        f"{name:8s} n={row['n']:5d} M={M:4d} {loss:20s} p={p:5.3g} {row['seconds']:7.3f} s {row['passes']:6.1f} passes"
        f" of {row['pass_seconds']:.4f} s  (must {must}, aim {aim})  gap {row['relative_gap']:.1e}  {row['status']}"
        f"  {row['machines']:.0f} machines,"
        f" {row['stack_reads']:.1f} reads, {row['kernels']} kernels, SVC {row['svc_seconds']:.3f} s",
        flush=True,
    )
    return row


def measure_small(n: int, p: float, rounds: int) -> Row:
    """One row: seconds of the native solver and of every conic form, in turns, on a small problem."""
    from mklref import reference

    K, y, C = cancer(n)
    problem = mklref.Problem(K[:13], y, C=C, regularizer=mklref.Lp(p))
    works: dict[str, Callable[[], Any]] = {"native": lambda: mklref.solve(problem)}
    for form in sorted(
        set(reference.formulations(problem)) - {"silp", "semi_infinite"}
    ):  # these two are loops of programs
        works[form] = lambda form=form: reference.solve(problem, form, solver="CLARABEL")
    times, results = alternate(rounds, works)
    gaps = {name: results[name].certificate.relative_gap for name in works}
    row = {"problem": "small", "n": n, "M": 13, "loss": "hinge", "p": p, "seconds": times, "relative_gap": gaps}
    print(f"small    n={n:5d} p={p:5.3g} " + ", ".join(f"{name} {value * 1e3:.1f} ms" for name, value in times.items()))
    return row | {"status": results["native"].status.name}


def measure_alone(p: float, C: float, rounds: int) -> Row:
    """One row: seconds of the native solver alone on a small problem."""
    K, y, _ = cancer(ALONE)
    problem = mklref.Problem(K[:13], y, C=C, regularizer=mklref.Lp(p))
    times, results = alternate(rounds, {"native": lambda: mklref.solve(problem)})
    certificate, status = results["native"].certificate, results["native"].status.name
    print(f"small    n={ALONE:5d} p={p:5.3g} C={C:5.3g} native {times['native'] * 1e3:.1f} ms  {status}", flush=True)
    row = {"problem": "alone", "n": ALONE, "M": 13, "loss": "hinge", "p": p if math.isfinite(p) else "inf", "C": C}
    row |= {"seconds": times["native"], "must_seconds": MOST_ALONE, "kept": times["native"] <= MOST_ALONE}
    return row | {"relative_gap": certificate.relative_gap, "status": status}


def measure_lines(n: int, relevant: int, C: float, rounds: int) -> Row:
    """One row: seconds of a problem with a kernel of rank one for each variable, at p = 1."""
    K, y, _ = lines(n, relevant)
    problem = mklref.Problem(K, y, C=C, regularizer=mklref.Lp(1))
    times, results = alternate(rounds, {"native": lambda: mklref.solve(problem)})
    solution = results["native"]
    row = {"problem": "lines", "n": n, "M": len(K), "relevant": relevant, "loss": "hinge", "p": 1.0, "C": C}
    row |= {"seconds": times["native"], "relative_gap": solution.certificate.relative_gap}
    row |= {"machines": solution.history.counters["machines"], "kernels": int(np.count_nonzero(solution.weights))}
    print(
        f"lines    n={n:5d} M={len(K):4d} C={C:5.3g} {row['seconds']:7.3f} s  gap {row['relative_gap']:.1e}"
        f"  {solution.status.name}  {row['machines']:.0f} machines, {row['kernels']} kernels",
        flush=True,
    )
    return row | {"status": solution.status.name}


def growth_rate(rows: list[Row], key: str) -> Row:
    """One row: the exponent with which the seconds grow, by least squares of the logarithms."""
    sizes, times = [[row[of] for row in rows] for of in (key, "seconds")]
    exponent = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    print(f"growth   {rows[0]['problem']}: seconds like {key}^{exponent:.2f}", flush=True)
    return {"problem": f"growth of {rows[0]['problem']}", "in": key, "exponent": exponent, "status": "OPTIMAL"}


def available(name: str) -> Data | None:
    """The problem, or None and a word about it where its data are missing."""
    try:
        return PROBLEMS[name]()
    except FileNotFoundError as missing:
        print(f"{name}: left out, {missing}; set MKLREF_DATA", file=sys.stderr)
        return None


def part_of_problem(name: str, rounds: int) -> Iterator[Row]:
    """Every p of one problem."""
    if (data := available(name)) is not None:
        for p in CASES[name]:
            must, aim = TARGETS[name]
            yield measure(name, p, "hinge", data, rounds, must, 8 if (name, p) == ("digits", 1.0) else aim)


def part_quick(rounds: int) -> Iterator[Row]:
    """Digits with 300 samples."""
    for p in CASES["digits"]:
        yield measure("digits", p, "hinge", digits(300), rounds)


def part_losses(rounds: int) -> Iterator[Row]:
    """Each loss by itself, and in turns with the hinge alone."""
    K, y, C = data = digits()
    for p in (1.0, 2.0):
        hinge = mklref.Problem(K, y, C=C, regularizer=mklref.Lp(p))
        for loss in LOSSES:
            other = hinge.replace(loss=loss)
            over = ratio(rounds, partial(mklref.solve, other), partial(mklref.solve, hinge))
            row = measure("digits", p, loss, data, rounds)
            row |= {"over_hinge": over, "must_over_hinge": MOST_OVER_HINGE, "kept": over <= MOST_OVER_HINGE}
            print(f"         {over:.2f} times the seconds of the hinge (must {MOST_OVER_HINGE:g})", flush=True)
            yield row


def part_growth(rounds: int) -> Iterator[Row]:
    """At p = 2: over samples on digits, over kernels on blobs."""
    for key, rows in (
        ("n", [measure("digits", 2.0, "hinge", digits(n), rounds) for n in (250, 500, 1000, 1700)]),
        ("M", [measure("blobs", 2.0, "hinge", blobs(1500, M), rounds) for M in (5, 10, 20, 40)]),
    ):
        yield from rows
        yield growth_rate(rows, key)


def part_small(rounds: int) -> Iterator[Row]:
    """Against the conic forms, and alone."""
    for p in (1.0, 4 / 3, 2.0, math.inf):
        for C in (0.1, 1.0, 100.0):
            yield measure_alone(p, C, rounds)
    for n in SMALL:
        for p in (1.0, 2.0):
            yield measure_small(n, p, rounds)


def part_lines(rounds: int) -> Iterator[Row]:
    """Small and large C."""
    for n, relevant in LINES:
        for C in (0.01, 1.0, 100.0):
            yield measure_lines(n, relevant, C, rounds)


def part_many(rounds: int, sizes: Iterable[tuple[int, int]] = MANY) -> Iterator[Row]:
    """Two families of generated problems."""
    for n, M in sizes:
        for family in (subsets, views):
            data = family(n, M)
            for p in (1.0, 4 / 3, 2.0):
                yield measure(family.__name__, p, "hinge", data, rounds, MANY_PASSES)


def part_memory(rounds: int) -> Iterator[Row]:
    """Dense and sparse weights; one solve each."""
    for name in ("digits", "blobs"):
        for p in (1.0, 2.0):
            yield measure_memory(name, p)


def part_profile(rounds: int) -> Iterator[Row]:
    """Every problem at every p."""
    for name, exponents in CASES.items():
        if (data := available(name)) is not None:
            for p in exponents:
                yield profile(name, p, data, rounds)


def part_pieces(rounds: int) -> Iterator[Row]:
    """What a solve is made of."""
    yield quadratic_programs(rounds)
    yield factorisation(rounds)


PARTS: dict[str, Callable[[int], Iterator[Row]]] = {
    **{name: partial(part_of_problem, name) for name in CASES},
    "losses": part_losses,
    "growth": part_growth,
    "small": part_small,
    "lines": part_lines,
    "many": part_many,
    "memory": part_memory,
    "profile": part_profile,
    "pieces": part_pieces,
}


def write(file: Path, part: str, rounds: int, rows: list[Row]) -> None:
    """Replace one part in the file, with date, versions and machine; the others stay as they are."""
    parts = json.loads(file.read_text()) if file.exists() else {}
    parts[part] = facts() | {"rounds": rounds, "rows": rows}
    write_text(file, json.dumps(parts, indent=1) + "\n")


def tables(parts: dict[str, Any]) -> dict[str, list[str]]:
    """Four tables in Markdown of what the file holds, by their names."""
    against = [*CASES, "losses"]
    heads = ["problem", "loss", "p", "seconds", "one pass, s", "`SVC`, s", "passes", "must", "aim", "over the hinge"]
    heads += ["reads", "machines", "kernels", "gap"]
    passes = [
        [row["problem"], row["loss"].replace("_", " "), _exponent(row["p"])]
        + [f"{row[seconds]:.3f}" for seconds in ("seconds", "pass_seconds", "svc_seconds")]
        + [f"{row['passes']:.1f}", row["must"] or "–", row["aim"] or "–"]
        + [f"{row['over_hinge']:.1f}" if "over_hinge" in row else "–", f"{row['stack_reads']:.1f}"]
        + [f"{row['machines']:g}", row["kernels"], f"{row['relative_gap']:.0e}"]
        for name in against
        for row in parts[name]["rows"]
    ]
    stages = list(dict.fromkeys(stage for row in parts["profile"]["rows"] for stage in row["shares"]))
    shares = [
        [row["problem"], _exponent(row["p"]), f"{row['seconds']:.3f}"]
        + [f"{100.0 * row['shares'].get(stage, 0.0):.0f}" for stage in stages]
        for row in parts["profile"]["rows"]
    ]
    many = [
        [*key, *(f"{row['passes']:.1f}" for row in rows), f"{min(row['pass_seconds'] for row in rows):.4f}"]
        for key, rows in _grouped(parts["many"]["rows"], "problem", "n", "M")
    ]
    kept = [(row["n"], row["kept"]) for row in parts["many"]["rows"]]
    each = [
        f"{kept.count((n, True))} of the {kept.count((n, True)) + kept.count((n, False))} with {n} samples"
        for n in dict.fromkeys(n for n, _ in kept)
    ]
    wanted = f"At most {MANY_PASSES} passes are wanted; these rows keep them: {', '.join(each)}."
    norms = [f"p = {_exponent(p)}" for p in sorted({row["p"] for row in parts["many"]["rows"]})]
    conic = [row for row in parts["small"]["rows"] if row["problem"] == "small"]
    forms = list(dict.fromkeys(name for row in conic for name in row["seconds"]))
    small = [
        [row["n"], _exponent(row["p"])]
        + [f"{1e3 * row['seconds'][form]:.0f}" if form in row["seconds"] else "–" for form in forms]
        for row in conic
    ]
    return {
        "passes": _table(parts, against, heads, passes),
        "profile": _table(parts, ["profile"], ["problem", "p", "seconds", *stages], shares),
        "many": [*_table(parts, ["many"], ["problem", "n", "M", *norms, "one pass, s"], many), "", wanted],
        "small": _table(parts, ["small"], ["n", "p", *(f"`{form}`" for form in forms)], small),
    }


def _table(parts: dict[str, Any], measured: list[str], heads: list[str], rows: list[list[Any]]) -> list[str]:
    """When and on what these parts were measured, and the rows."""
    days = sorted({parts[name]["date"][:10] for name in measured})
    machines = sorted({parts[name]["machine"] for name in measured})
    when = f"Measured {' to '.join(dict.fromkeys([days[0], days[-1]]))} on {' and '.join(machines)}."
    lines = [heads, ["---"] * len(heads), *rows]
    return [when, "", *(f"| {' | '.join(map(str, line))} |" for line in lines)]


def _grouped(rows: list[Row], *keys: str) -> list[tuple[tuple[Any, ...], list[Row]]]:
    """Rows by the values of these keys, in the order of the first of each."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["problem"]):
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return list(found.items())


def _exponent(p: float) -> str:
    return str(Fraction(p).limit_denominator(100))


def main(arguments: list[str] | None = None) -> int:
    """Run the parts; exit code 1 if a point did not reach its certified gap, or what must be reached was not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="digits with 300 samples only")
    parser.add_argument("--rounds", type=int, default=9, help="measured rounds of each case")
    parser.add_argument("--only", choices=PARTS, help="one part only")
    parser.add_argument("--processor", action="store_true", help="seconds of the processor, not of the clock")
    parser.add_argument("--json", type=results_file, help="write the rows of each part, with versions and machine")
    options = parser.parse_args(arguments)
    benchmarks.clock = time.process_time if options.processor else time.perf_counter
    chosen = {"quick": part_quick} if options.quick else {options.only: PARTS[options.only]} if options.only else PARTS
    missed = 0
    for name, part in chosen.items():
        rows = list(part(options.rounds))
        missed += sum(row["status"] != "OPTIMAL" or not row.get("kept", True) for row in rows)
        if options.json and rows:
            write(options.json, name, options.rounds, rows)
    if missed:
        print(f"{missed} rows without a certified point, or beyond what must be reached", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
