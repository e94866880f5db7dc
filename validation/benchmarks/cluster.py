"""What a solve on factors costs on many workers, on paper: `python -m validation.benchmarks.cluster [--results FILE]`.

The seconds of a solve with n rows and rank r on W workers, of G rows in L'DL, R reads of L, S steps and K rounds:

    (gram G r^2 + read R n r + sample R n)/W + S (solve r^3 + step) + K (call + hop log2 W) + S 8 r^2 log2 W / network

The first five constants are fitted to processor seconds of whole solves on this machine, here and in
validation/results/factors.json, by nonnegative least squares of relative errors; call and hop to empty rounds over 1, 2
and 4 workers of a local cluster. The network is a number that is given. Then predictions for n = 1e8 and 1e9 with
r = 1,000, where G/r, R and S are those of the million samples there, mean over p, and K what a solve from nothing takes
on two workers, and ten more for each eighth that is solved first. And a simulation: the seconds of each worker in each
round are lognormal, one in a thousand is ten times as long, and workers are lost at random, whose shard is read again
and goes over its past. A round is as slow as its slowest worker.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

import mklref
from mklref import kernels
from mklref._files import write_text
from mklref.factored.solver import SHARE
from validation.benchmarks import processor
from validation.benchmarks.factors import KERNELS, RANK
from validation.facts import RESULTS, ROOT, facts, results_file

FACTORS = ROOT / RESULTS / "factors.json"

SIZES = ((60000, 50), (120000, 50), (16000, 100), (30000, 100), (8000, 200), (16000, 200), (8000, 400), (16000, 400))
ALONE, MORE = (12000, 100), 10
"""A solve that begins from nothing, whose rounds are counted; and how many an eighth that is solved first adds."""
TERMS = ("gram", "read", "sample", "solve", "step")
VECTORS = 25
"""Vectors of n numbers that are held beside the rows."""
Numbers = Mapping[str, float]
Row = dict[str, Any]


def terms(n: float, r: float, grams: float, reads: float, steps: float) -> list[float]:
    """What each of TERMS is multiplied by in a solve."""
    return [grams * n * r**2, reads * n * r, reads * n, steps * r**3, steps]


def given(n: int, r: int) -> mklref.Problem:
    """Five kernels of r/5 columns each, in two shards."""
    rng = np.random.default_rng(0)
    L = rng.normal(size=(n, r)) / np.sqrt(r)
    y = np.where(L[:, 0] - L[:, 1] + 0.05 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    stack = kernels.FactorStack(np.split(L, 5, axis=1)).sharded(2)
    return mklref.Problem(stack, y, regularizer=mklref.Lp(4 / 3))


def measured(n: int, r: int) -> Row:
    """Processor seconds of a solve, and its counts."""
    problem = given(n, r)
    seconds, solution = processor(lambda: mklref.solve(problem))
    counters = solution.history.counters
    return {"n": n, "r": r, "seconds": seconds, "reads": counters["passes"]} | {
        k: counters[k] for k in ("grams", "steps")
    }


def fitted(rows: Sequence[Row]) -> dict[str, float]:
    """The constants of TERMS, and the largest relative error with which they say the seconds."""
    seconds = np.array([row["seconds"] for row in rows])
    matrix = np.array([terms(*(row[k] for k in ("n", "r", "grams", "reads", "steps"))) for row in rows])
    scaled = matrix / seconds[:, None]
    size = np.abs(scaled).max(axis=0)
    constants = nnls(scaled / size, np.ones(len(rows)))[0] / size
    worst = float(np.abs(scaled @ constants - 1.0).max())
    return dict(zip(TERMS, constants.tolist(), strict=True)) | {"worst": worst}


def latencies(workers: Sequence[int]) -> dict[int, float]:
    """Median seconds of a round that computes nothing."""
    stack, found = kernels.FactorStack([np.ones((64, 1))]), {}
    for count in workers:
        with mklref.local_client(count) as client:
            there = mklref.DistributedStack.of(stack.sharded(count), client)
            every = []
            for _ in range(60):
                began = time.perf_counter()
                there._asked.sum("traces")
                every.append(time.perf_counter() - began)
            found[count] = statistics.median(every[10:])
    return found


def in_memory(file: Path = FACTORS) -> list[Row]:
    """Solves of `validation.benchmarks.factors` as rows of `fitted`."""
    kept = [row for row in json.loads(file.read_text()) if "p" in row and not row["stream"]]
    return [{k: row[k] for k in ("n", "seconds", "reads", "grams", "steps")} | {"r": KERNELS * RANK} for row in kept]


def counts_of_most(rows: Sequence[Row]) -> dict[str, float]:
    """Reads, steps and rows of L'DL for each column of L in the solves of most samples, their mean."""
    most = [row for row in rows if row["n"] == max(row["n"] for row in rows)]
    each = np.mean([[row["reads"], row["steps"], row["grams"] * row["n"] / row["r"]] for row in most], axis=0)
    return dict(zip(("reads", "steps", "rows"), each.tolist(), strict=True))


def rounds_of_a_solve(n: int, r: int) -> int:
    """Rounds of two workers, those of the certificate included."""
    with mklref.local_client(2, processes=False) as client:
        problem = given(n, r)
        there = mklref.DistributedStack.of(problem.kernels, client)
        before = there.cluster.counters["rounds"]
        mklref.solve(problem.replace(kernels=there))
        return int(there.cluster.counters["rounds"] - before)


def predicted(model: Numbers, n: float, r: float, workers: int) -> dict[str, float]:
    """Seconds of a solve by parts, its rounds, GB of a worker in float32, and of this process."""
    hops = np.ceil(np.log2(workers)) if workers > 1 else 0.0
    rounds = model["rounds"] + MORE * np.floor(np.log(n / (SHARE * r)) / np.log(SHARE))
    return {
        "L'DL": model["gram"] * model["rows"] * r * r**2 / workers,
        "reads": model["read"] * model["reads"] * n * r / workers,
        "samples": model["sample"] * model["reads"] * n / workers,
        "system": model["steps"] * (model["solve"] * r**3 + model["step"]),
        "calls": rounds * (model["call"] + model["hop"] * hops),
        "sums": model["steps"] * 8.0 * r**2 * hops / model["network"],
        "rounds": rounds,
        "worker GB": (4.0 * n * r + 8.0 * VECTORS * n) / workers / 1e9,
        "here GB": 3 * 8.0 * n / 1e9,
    }


def solve_seconds(parts: Numbers) -> float:
    """Of all parts."""
    return sum(parts[name] for name in ("L'DL", "reads", "samples", "system", "calls", "sums"))


def simulated(
    parts: Numbers,
    workers: int,
    rng: np.random.Generator,
    *,
    spread: float = 0.2,
    pause: float = 1e-3,
    days: float = 30.0,
    disk: float = 2e8,
    solves: int = 100,
) -> dict[str, float]:
    """Mean and 95 % quantile of the seconds of a solve over those of the model, and lost workers in a solve.

    `spread` is the deviation of the logarithm of a worker's seconds, `pause` the share of rounds in which it takes ten
    times as long; a worker is lost once in so many `days`, and its shard read again at `disk` bytes a second.
    """
    own = parts["L'DL"] + parts["reads"] + parts["samples"]
    fixed, rounds = solve_seconds(parts) - own, round(parts["rounds"])
    found, lost = [], 0
    for _ in range(solves):
        total = 0.0
        for done in range(rounds):
            each = np.exp(rng.normal(0.0, spread, workers) - 0.5 * spread**2) if spread else np.ones(workers)
            each[rng.random(workers) < pause] *= 10.0
            seconds = (own * each.max() + fixed) / rounds
            gone = rng.poisson(workers * seconds / (86400.0 * days))
            if gone:
                again = parts["worker GB"] * 1e9 / disk + done / rounds * own
                seconds, lost = 2.0 * seconds + again, lost + gone
            total += seconds
        found.append(total / solve_seconds(parts))
    return {"mean": float(np.mean(found)), "95 %": float(np.quantile(found, 0.95)), "lost": lost / solves}


def main() -> None:
    """Fit, predict, simulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", type=float, default=1.25e9, help="bytes a second between workers")
    parser.add_argument("--workers", nargs="*", type=int, default=(1, 2, 4), help="of the local cluster")
    parser.add_argument("--results", type=results_file)
    options = parser.parse_args()
    rows = [measured(*size) for size in SIZES] + in_memory()
    model = fitted(rows)
    rounds = latencies(options.workers)
    hops = np.array([[1.0, np.log2(count)] for count in rounds])
    call, hop = nnls(hops, np.array(list(rounds.values())))[0] if len(rounds) > 1 else (*rounds.values(), 0.0)
    model |= {"call": float(call), "hop": float(hop), "network": options.network}
    model |= counts_of_most(rows) | {"rounds": rounds_of_a_solve(*ALONE)}
    print(json.dumps({"model": model, "rounds": rounds}, indent=1), flush=True)
    table, rng = [], np.random.default_rng(0)
    for n in (1e8, 1e9):
        for workers in (64, 256, 1024):
            parts = predicted(model, n, 1000.0, workers)
            row = {"n": n, "workers": workers, "solve": solve_seconds(parts)}
            table.append(row | parts | simulated(parts, workers, rng))
            print({k: float(f"{v:.3g}") for k, v in table[-1].items()}, flush=True)
    if options.results:
        found = {"solves": rows, "model": model, "rounds": rounds, "predictions": table} | facts()
        write_text(options.results, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
