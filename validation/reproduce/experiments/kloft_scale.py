"""Kloft Figure 6 at the sizes of the paper: kernels evaluated on the fly, weights learned within chunking."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import linprog

import mklref
from mklref._typing import Array
from mklref.algorithms import lp_interleaved
from mklref.algorithms.base import Run
from mklref.algorithms.cuts import Master, mixture
from mklref.algorithms.lp_interleaved import SHARE, most_violating, moved
from mklref.algorithms.point import Point
from mklref.algorithms.sip import lp_master
from mklref.kernels import LazyStack, gaussian
from mklref.machines.smo import SMOMachine
from validation.reproduce.base import Cell, Evidence, Experiment, Result, Summary, table_of
from validation.reproduce.expected import FEWEST, bound
from validation.reproduce.experiments.kloft_times import odd_against_even

PROTOCOL = """
MNIST, odd against even digits; hinge loss, C = 1; a certified relative gap of 1e-3. 50 Gaussian kernels with
2 sigma^2 = 1.2^0, ..., 1.2^49 and n up to the paper's 20 000; and 1000 samples with M up to the paper's 10 000, whose
widths lie evenly on the same logarithmic interval (1.2^9999 is no number). No kernel is held: entries are evaluated
when they are read, with a cache of 1 GB for distances, as the paper's are on the fly.

Interleaved methods change the weights after every 40 dual variables: by the closed form (p = 4/3), by a linear program
(SILP, p = 1) and by the masters of the semi-infinite program (SIP, p = 4/3), which is given up to 1000 kernels: its
masters hold matrices of order M. The native solver beside them has the same kernels. A method ends at the gap, or when
it has evaluated as many entries as 100 readings of all kernels; seconds are those of the processor, on one thread, one
method a cell. Up to 5000 samples and 1000 kernels are run on five draws of the samples, as in the paper, and decide the
claims: one holds if it does on every draw of every such size, and fails if at one of them it does on none. Larger sizes
are run on one draw, and shown.
"""

# --- SILP and SIP within chunking (Sonnenburg et al. 2006, Algorithm 2; Kloft et al. 2011, 4.4.1) --------------------
# Weights follow by cutting planes after every few dual variables, where `silp` and `sip` solve a machine for every cut.

CHUNK = 40
_VIOLATED = 0.3
"""A cut that cuts off less than this share of the gap that is left is no cut: the chunks go on."""


def interleaved_cuts(
    problem: mklref.Problem,
    tol: float = 1e-3,
    max_iter: int = 20000,
    callback: Callable[[Any], object] | None = None,
    chunk: int = CHUNK,
) -> mklref.Solution:
    """lp-norm MKL (hinge-like losses): a linear program for p = 1, the semi-infinite program's masters for p > 1."""
    run = Run("interleaved_cuts", problem, tol, max_iter, None, callback)
    run.guaranteed = False
    return run.follow(_turns(run, chunk))


def _turns(run: Run, chunk: int) -> Iterator[Point]:
    (machine,) = run.machines
    assert isinstance(machine, SMOMachine)
    theta, cuts, master = run.start, [], None  # type: Array, list[Point], Master | None
    while True:
        # 1. beta maximises the dual of the machine over the variables that violate its conditions most.
        machine.move(theta)
        chosen, violation = most_violating(machine, chunk)
        beta = moved(run, machine, chosen, SHARE * violation)
        stuck = np.array_equal(beta, machine.beta)
        point = run.assess(theta, (beta,))
        yield point
        # 2. A cut where beta says enough that the master does not know yet.
        known = -np.inf if master is None else master.value
        left = run.best.upper - max(known, run.best.lower)
        if not (stuck or point.value > known + _VIOLATED * left):
            continue
        if stuck and point.value <= known:
            return
        cuts.append(point)
        master = _master(run, cuts, theta)
        # 3. The mixture of the cuts proves what the last chunk alone cannot.
        if run.best.upper - master.value <= run.tol * abs(run.best.upper):
            proof = mixture(run, cuts, master)
            if run.reached(proof):
                yield proof
        theta = master.weights
        cuts = [cut for cut, share in zip(cuts, master.shares, strict=True) if share > 0.0]


def _master(run: Run, cuts: list[Point], theta: Array) -> Master:
    """Minimise t over weights, t >= S_k - 1/2 q_k'theta for every cut; here S_k are no values of machines."""
    p = run.regularizer.p  # type: ignore[attr-defined]
    height = max(cut.cut(theta) for cut in cuts)
    if p > 1.0:
        unit = min(max(run.best.upper - height, 0.1 * run.tol * abs(height)), abs(height)) or 1.0
        return lp_master(cuts, theta, p, height, unit)
    M, unit = len(theta), abs(height) or 1.0
    slopes = np.array([-0.5 * cut.squares / unit for cut in cuts])
    constants = np.array([cut.dual_term / unit for cut in cuts])
    program = linprog(
        np.append(np.zeros(M), 1.0),
        A_ub=np.column_stack([slopes, -np.ones(len(cuts))]),
        b_ub=-constants,
        A_eq=[np.append(np.ones(M), 0.0)],
        b_eq=[1.0],
        bounds=[(0.0, None)] * M + [(None, None)],
    )
    if program.status != 0:
        raise np.linalg.LinAlgError(f"the linear program of {len(cuts)} cuts has no solution: {program.message}")
    shares = np.maximum(-program.ineqlin.marginals, 0.0)
    weights = np.maximum(program.x[:M], 0.0)
    return Master(unit * float(program.fun), weights / weights.sum(), shares / shares.sum())


# --- the experiment --------------------------------------------------------------------------------------------------

TOL, READINGS, CHEAPER = 1e-3, 100.0, bound("kloft_scale", "slightly")
CACHE = 10**9
RANGE = 49.0
"""Powers of 1.2 that the widths span."""
METHODS: dict[str, tuple[float, Callable[..., mklref.Solution]]] = {
    "interleaved, p = 4/3": (4 / 3, lp_interleaved),
    "interleaved SIP, p = 4/3": (4 / 3, interleaved_cuts),
    "interleaved SILP, p = 1": (1.0, interleaved_cuts),
    "native, p = 4/3": (4 / 3, mklref.solve),
    "native, p = 1": (1.0, mklref.solve),
}
ANALYTIC, SIP, SILP = "interleaved, p = 4/3", "interleaved SIP, p = 4/3", "interleaved SILP, p = 1"
COMPARED = (
    ("sip-silp", (SIP,), SILP, CHEAPER, True),
    ("nonsparse-silp", (ANALYTIC, SIP), SILP, CHEAPER, False),
    ("sip-analytic", (SIP,), ANALYTIC, bound("kloft_scale", "somewhat"), False),
)
"""Claims: what is slower than what, by at most which factor, over samples or over kernels."""
MOST_MASTER = 1000
"""Kernels of the largest master of the SIP."""
SIZES = {(2000, 50): 5.0, (5000, 50): 20.0, (1000, 1000): 40.0, (20000, 50): 250.0, (1000, 10000): 300.0}
"""Seconds of a method by n and M."""
DRAWS, CHEAP = 5, 40.0
"""Draws of the samples, where a method takes at most so many seconds; elsewhere one."""


def cells(quick: bool) -> list[Cell]:
    """One for each size and method."""
    sizes, data = ({(120, 10): 1.0, (60, 20): 0.5}, "digits") if quick else (SIZES, "mnist")
    return [
        Cell(
            f"n{n:05d}-M{M:05d}-{k}" + (f"-draw{seed}" if seed else ""),
            {"data": data, "n": n, "M": M, "method": name, "seed": seed},
            seconds,
        )
        for seed in range(1 if quick else DRAWS)
        for (n, M), seconds in sizes.items()
        for k, name in enumerate(METHODS)
        if not (name == SIP and M > MOST_MASTER) and (seed == 0 or seconds <= CHEAP)
    ]


def cell(config: dict[str, Any]) -> dict[str, Any]:
    """One method on one size."""
    kernels, y = problem_of(config)
    p, solver = METHODS[config["method"]]
    problem = mklref.Problem(kernels, y, regularizer=mklref.Lp(p))
    most = READINGS * config["M"] * config["n"] ** 2
    began = time.process_time()
    solution = partial(solver, problem, tol=TOL, callback=lambda _: kernels.evaluated > most)()
    seconds, read = time.process_time() - began, kernels.evaluated
    return {
        "seconds": round(seconds, 2),
        "readings": round(read / (config["M"] * config["n"] ** 2), 3),
        "gap": float(f"{max(solution.certificate.relative_gap, 0.0):.2e}"),
        "finished": solution.certificate.is_optimal(TOL),
        "status": solution.status.name,
        "iterations": len(solution.history),
        "kernels": int(np.count_nonzero(solution.weights > 1e-6 * solution.weights.max())),
    }


def problem_of(config: dict[str, Any]) -> tuple[LazyStack, Array]:
    """Kernels that are evaluated when they are read, and labels."""
    X, y = odd_against_even(config)
    widths = np.sqrt(1.2 ** np.linspace(0.0, RANGE, config["M"]) / 2.0)
    kernels = gaussian(widths).fit(X, storage="lazy", cache=CACHE)
    assert isinstance(kernels, LazyStack)
    return kernels, y


def summary(results: list[Result]) -> Summary:
    """Seconds and readings by size and method; who needs less."""
    table = table_of(
        (f"n = {r.config['n']}, M = {r.config['M']}, {r.config['method']}", column, scale * r.values[column])
        for r in results
        for column, scale in (("seconds", 1.0), ("readings", 1.0), ("gap", 100.0), ("kernels", 1.0))
    )
    claims: dict[str, Evidence] = {}
    if results:
        finished = [r for r in results if r.values["finished"]]
        late = ", ".join(
            f"{r.config['method']} at n = {r.config['n']}, M = {r.config['M']} ({r.values['gap']:.1e})"
            for r in results
            if not r.values["finished"]
        )
        claims["finished"] = Evidence(
            len(finished) == len(results), f"{len(finished)} of {len(results)}" + (f"; not {late}" if late else "")
        )
    few = min((r.config["M"] for r in results), default=0)
    for name, slow, fast, most, of_samples in COMPARED:
        ratios = {
            (method, *size): found
            for method in slow
            for size, found in _ratios(results, method, fast).items()
            if (size[1] == few) == of_samples
        }
        if ratios:
            claims[name] = _judged(ratios, fast, most)
    over = _ratios(results, SIP, SILP)
    measured = {"sip-many": f"{np.median(over[1000, 1000]):.1f}"} if (1000, 1000) in over else {}
    return Summary({"figure6": table}, claims, measured=measured)


def _judged(ratios: dict[tuple[str, int, int], list[float]], fast: str, most: float) -> Evidence:
    """Whether every ratio lies between 1 and `most`, where there are as many draws as decide anything."""
    said = ", ".join(
        f"{np.median(found):.3g} ({method}, n = {n}, M = {M}, {len(found)} draws)"
        for (method, n, M), found in ratios.items()
    )
    inside = [[1.0 < ratio <= most for ratio in found] for found in ratios.values() if len(found) >= FEWEST]
    holds = bool(inside) and all(map(all, inside))
    fails = any(not any(found) for found in inside)
    text = f"median of seconds over those of {fast}: {said}; at most {most:g}, our bound"
    return Evidence(holds, text, decided=holds or fails)


def _ratios(results: list[Result], slow: str, fast: str) -> dict[tuple[int, int], list[float]]:
    """Seconds of one method over those of another, by n and M, for each draw where both are there and finished."""
    found: dict[str, dict[tuple[int, int, int], float]] = {slow: {}, fast: {}}
    for r in results:
        if r.values["finished"] and r.config["method"] in found:
            of_draw = found[r.config["method"]]
            of_draw[r.config["n"], r.config["M"], r.config["seed"]] = r.values["seconds"]
    ratios: dict[tuple[int, int], list[float]] = {}
    for n, M, seed in sorted(found[slow].keys() & found[fast].keys()):
        ratios.setdefault((n, M), []).append(found[slow][n, M, seed] / found[fast][n, M, seed])
    return ratios


EXPERIMENT = Experiment("kloft-scale", "Kloft Figure 6 at its sizes", PROTOCOL, cells, cell, summary, data=("mnist",))
