"""Kloft Figure 6: how the time grows with the samples and with the kernels, for lp-norm MKL and its competitors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import mklref
from mklref._typing import Array
from mklref.algorithms import hessian_mkl, lp_interleaved, lp_wrapper, silp, simplemkl, sip
from mklref.datasets import load
from mklref.kernels import ArrayStack, gaussian
from validation.reproduce.base import Cell, Experiment, Picture, Result, Summary, timed
from validation.reproduce.experiments.kloft_times_claims import (
    HESSIAN,
    INTERLEAVED,
    INTERLEAVED_1,
    MACHINE,
    NATIVE,
    NATIVE_1,
    READING,
    SILP,
    SIMPLE,
    SIP,
    SVM,
    WRAPPER,
    Times,
    claims,
    measured,
)
from validation.reproduce.pictures import COLOURS, figure

PROTOCOL = """
MNIST, odd against even digits; Gaussian kernels with 2 sigma^2 = 1.2^0, ..., 1.2^(M-1), computed beforehand and not in
the times; hinge loss, C = 1; a relative duality gap of 1e-3 for everybody, here the certified one. Either 50 kernels
and growing n, or growing M. The paper goes to n = 20 000 and M = 10 000, with 1000 samples for the latter, and repeats
five times.

Here n goes to 1000 and M to 100, with 500 samples, three times; pixels lie in [0, 1]. Methods run to the gap, or to the
number of iterations that each has by default; the seconds of one that has not reached the gap are a lower bound, and
are marked. Kernels computed on the fly, and SILP and SIP within chunking, are those of kloft-scale. The paper's
implementations are C++ (SHOGUN) and Matlab; ours of its algorithms are Python around one compiled SVM, so the order of
methods can differ where bookkeeping counts. All seconds are those of the processor, on one thread, all methods of a
cell one after the other, on a machine with other work to do; one reading of all kernels is timed besides, and so is the
SVM on a sum that was made beforehand. Tests are paired t-tests on logarithms of seconds over the repetitions,
one-sided, at 5 %, with Holm's correction where several comparisons make one claim.
"""

TOL = 1e-3
METHODS: dict[str, tuple[float, Callable[..., Any]]] = {
    INTERLEAVED: (4 / 3, lp_interleaved),
    INTERLEAVED_1: (1.0, lp_interleaved),
    WRAPPER: (4 / 3, lp_wrapper),
    SIP: (4 / 3, sip),
    SILP: (1.0, silp),
    SIMPLE: (1.0, simplemkl),
    HESSIAN: (1.0, hessian_mkl),
    NATIVE: (4 / 3, mklref.solve),
    NATIVE_1: (1.0, mklref.solve),
}
NAMES = (SVM, *METHODS)
BY_SAMPLES = {125: 5.0, 250: 8.0, 500: 20.0, 1000: 40.0}
"""Seconds by n, with 50 kernels."""
BY_KERNELS = {10: 5.0, 25: 10.0, 100: 25.0}
"""Seconds by M, with 500 samples; M = 50 is in the other list."""
REPETITIONS = 3


def cells(quick: bool) -> list[Cell]:
    """One for each size and repetition."""
    if quick:
        sizes = {(60, 10): 0.5, (120, 10): 1.5, (60, 20): 1.0}
        return [_cell("digits", n, M, 0, seconds) for (n, M), seconds in sizes.items()]
    sizes = {**{(n, 50): s for n, s in BY_SAMPLES.items()}, **{(500, M): s for M, s in BY_KERNELS.items()}}
    cheap_first = sorted(sizes.items(), key=lambda item: item[1])
    return [_cell("mnist", n, M, seed, s) for seed in range(REPETITIONS) for (n, M), s in cheap_first]


def _cell(data: str, n: int, M: int, seed: int, seconds: float) -> Cell:
    return Cell(f"n{n:04d}-M{M:03d}-{seed}", {"data": data, "n": n, "M": M, "seed": seed}, seconds)


def cell(config: dict[str, Any]) -> dict[str, Any]:
    """All methods on one sample."""
    X, y = odd_against_even(config)
    widths = np.sqrt(1.2 ** np.arange(config["M"]) / 2.0)
    kernels = ArrayStack.trusted(list(gaussian(widths).fit(X).dense()))
    even = np.ones(len(kernels))
    total = kernels.combine(even)
    _machine(np.eye(2), np.array([-1.0, 1.0]))  # the import is not timed
    values: dict[str, Any] = {
        READING: min(timed(lambda: kernels.combine(even))[0] for _ in range(3)),
        MACHINE: min(timed(lambda: _machine(total, y))[0] for _ in range(3)),
    }
    seconds, _ = timed(lambda: _machine(kernels.combine(even), y))
    values[SVM] = {"seconds": round(seconds, 4), "finished": True}
    for name, (p, solver) in METHODS.items():
        problem = mklref.Problem(kernels, y, regularizer=mklref.Lp(p))
        seconds, solution = timed(partial(solver, problem, tol=TOL))
        values[name] = {
            "seconds": round(seconds, 4),
            "gap": float(f"{max(solution.certificate.relative_gap, 0.0):.2e}"),
            "finished": solution.certificate.is_optimal(TOL),
            "status": solution.status.name,
            "svm": solution.history.counters.get("svm", solution.history.counters.get("machines")),
            "kernels": int(np.count_nonzero(solution.weights > 1e-6 * solution.weights.max())),
        }
    return values


def odd_against_even(config: dict[str, Any]) -> tuple[Array, Array]:
    """Images of digits with pixels in [0, 1], and labels."""
    data = load(config["data"])
    rows = np.random.default_rng(config["seed"]).permutation(len(data.y))[: config["n"]]
    digits = np.array([float(str(label)) for label in data.y[rows]])
    return data.X[rows] / data.X[rows].max(), np.where(digits % 2 == 1, 1.0, -1.0)


def _machine(kernel: Array, y: Array) -> Any:
    """scikit-learn's."""
    from sklearn.svm import SVC

    return SVC(kernel="precomputed", C=1.0, tol=TOL).fit(kernel, y)


def summary(results: list[Result]) -> Summary:
    """Seconds by size, the order of the methods, growth, Figure 6."""
    if not results:
        return Summary()
    times = Times(results)
    table: dict[str, Any] = {}
    for n, M in times.sizes:
        here = times.at(n, M)
        for name in NAMES:
            found = [r.values[name] for r in here]
            mark = "".join(f" ({ending})" for ending in endings(here, name))
            table[f"n = {n}, M = {M}, {name}{mark}"] = {
                "seconds": [v["seconds"] for v in found],
                "readings": [v["seconds"] / r.values[READING] for v, r in zip(found, here, strict=True)],
                "finished": [100.0 * v["finished"] for v in found],
            }
    full = results[0].config["data"] == "mnist"
    return Summary(
        {"figure6": table}, claims(times) if full else {}, {"figure6": _picture(times)}, measured(times) if full else {}
    )


WORDS = {"ITERATION_LIMIT": "iteration limit", "STALLED": "gave up"}


def endings(results: Sequence[Result], name: str) -> list[str]:
    """How runs of a method ended that did not reach the gap, and how far from it they were."""
    open_ = [r.values[name] for r in results if not r.values[name]["finished"]]
    if not open_:
        return []
    counted = Counter(WORDS.get(v["status"], v["status"].lower().replace("_", " ")) for v in open_)
    how = ", ".join(f"{word} in {count} of {len(results)}" for word, count in counted.items())
    return [f"{how}, gap up to {max(v['gap'] for v in open_):.1e}"]


def _picture(times: Times) -> Picture:
    drawing, axes = figure(8.4, 3.6, columns=2)
    fixed = 50 if times.full else min(M for _, M in times.sizes)
    same = 500 if times.full else min(n for n, _ in times.sizes)
    lists = (
        ([(n, M) for n, M in times.sizes if fixed == M], 0, f"{fixed} kernels", "n"),
        ([(n, M) for n, M in times.sizes if n == same], 1, f"{same} samples", "M"),
    )
    markers, colours = "osv^<>DPX*", [*COLOURS[:7], "#f04be1", COLOURS[7], COLOURS[7]]
    unfinished = []
    for ax, (sizes, axis, title, label) in zip(axes[0], lists, strict=True):
        at = [size[axis] for size in sizes]
        for k, name in enumerate(NAMES):
            seconds = [float(times.of(name, *size).mean()) for size in sizes]
            style = {"color": colours[k], "marker": markers[k], "markersize": 4}
            ax.loglog(at, seconds, label=name, linestyle="--" if "p = 1" in name else "-", **style)
            missed = [(endings(times.at(*size), name), i) for i, size in enumerate(sizes)]
            for ending, i in ((found[0], i) for found, i in missed if found):
                ax.loglog(at[i], seconds[i], **style, markerfacecolor="white", linestyle="")
                unfinished.append(f"{name} at n = {sizes[i][0]}, M = {sizes[i][1]} ({ending})")
        ax.set_xticks(at, [str(size) for size in at])
        ax.minorticks_off()
        ax.set(title=title, xlabel=label)
    axes[0, 0].set(ylabel="seconds of the processor")
    axes[0, 1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    every = dict.fromkeys(unfinished)
    ends = f"Open markers did not reach the gap: {'; '.join(every)}." if every else "All runs reached the gap."
    return Picture(drawing, f"As Figure 6: seconds over samples and over kernels. {ends}")


EXPERIMENT = Experiment("kloft-times", "Kloft Figure 6", PROTOCOL, cells, cell, summary, data=("mnist",))
