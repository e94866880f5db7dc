"""What a solve on factors costs on many workers, on paper: `python -m validation.benchmarks.cluster [--results FILE]`.

The seconds of a step with n rows and rank r on W workers, where G rows are in L'DL (50 r of n >= 100 r) and k = 4
reads of L are made:

    (gram G r^2 + read k n r + sample n)/W + solve r^3 + step + 5 rounds (call + hop log2 W) + 8 r^2 log2 W / network

The first five constants are fitted to processor seconds of whole solves on this machine, by nonnegative least squares
of relative errors; call and hop to empty rounds over 1, 2 and 4 workers of a local cluster. The network is a number
that is given. Then predictions for n = 1e8 and 1e9 with r = 1,000, and a simulation: the seconds of each worker in each
round are lognormal, one in a thousand is ten times as long, and workers are lost at random, whose shard is read again
and goes over its past. A round is as slow as its slowest worker.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import mklref
from mklref import kernels
from mklref._files import write_text
from validation.benchmarks.factors import timed
from validation.facts import facts, results_file

ROUNDS, READS, STEPS, DRAWN = 5, 4, 20, 50
SIZES = ((2000, 50), (16000, 50), (60000, 20), (2000, 200), (8000, 200), (16000, 200), (2000, 400), (8000, 400))
TERMS = ("gram", "read", "sample", "solve", "step")
VECTORS = 25
"""Vectors of n numbers that are held beside the rows."""
Numbers = Mapping[str, float]
Row = dict[str, Any]


def terms(n: float, r: float, grams: float, reads: float, steps: float) -> list[float]:
    """What each of TERMS is multiplied by in a solve."""
    return [grams * n * r**2, reads * n * r, steps * n, steps * r**3, steps]


def measured(n: int, r: int) -> Row:
    """Processor seconds of a solve, and its counts."""
    rng = np.random.default_rng(0)
    L = rng.normal(size=(n, r)) / np.sqrt(r)
    y = np.where(L[:, 0] - L[:, 1] + 0.05 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    stack = kernels.FactorStack(np.split(L, 5, axis=1)).sharded(2)
    seconds, solution = timed(lambda: mklref.solve(mklref.Problem(stack, y, regularizer=mklref.Lp(4 / 3))))
    counters = solution.history.counters
    return {"n": n, "r": r, "seconds": seconds, "reads": counters["passes"]} | {
        k: counters[k] for k in ("grams", "steps")
    }


def fitted(rows: Sequence[Row]) -> dict[str, float]:
    """The constants of TERMS, and the largest relative error with which they say the seconds."""
    from scipy.optimize import nnls

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


def predicted(model: Numbers, n: float, r: float, workers: int) -> dict[str, float]:
    """Seconds of a step by parts, GB of a worker in float32, and of this process."""
    drawn = DRAWN * r if n >= 2 * DRAWN * r else n
    hops = np.ceil(np.log2(workers)) if workers > 1 else 0.0
    return {
        "L'DL": model["gram"] * drawn * r**2 / workers,
        "reads": model["read"] * READS * n * r / workers,
        "samples": model["sample"] * n / workers,
        "system": model["solve"] * r**3 + model["step"],
        "rounds": ROUNDS * (model["call"] + model["hop"] * hops),
        "sums": 8.0 * r**2 * hops / model["network"],
        "worker GB": (4.0 * n * r + 8.0 * VECTORS * n) / workers / 1e9,
        "here GB": 3 * 8.0 * n / 1e9,
    }


def step_seconds(parts: Numbers) -> float:
    """Of all parts."""
    return sum(parts[name] for name in ("L'DL", "reads", "samples", "system", "rounds", "sums"))


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
    fixed = step_seconds(parts) - own
    found, lost = [], 0
    for _ in range(solves):
        total = 0.0
        for step in range(STEPS):
            for _ in range(ROUNDS):
                each = np.exp(rng.normal(0.0, spread, workers) - 0.5 * spread**2) if spread else np.ones(workers)
                each[rng.random(workers) < pause] *= 10.0
                seconds = (own * each.max() + fixed) / ROUNDS
                gone = rng.poisson(workers * seconds / (86400.0 * days))
                if gone:
                    again = parts["worker GB"] * 1e9 / disk + step * (parts["reads"] + parts["samples"])
                    seconds, lost = 2.0 * seconds + again, lost + gone
                total += seconds
        found.append(total / (STEPS * step_seconds(parts)))
    return {"mean": float(np.mean(found)), "95 %": float(np.quantile(found, 0.95)), "lost": lost / solves}


def main() -> None:
    """Fit, predict, simulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", type=float, default=1.25e9, help="bytes a second between workers")
    parser.add_argument("--workers", nargs="*", type=int, default=(1, 2, 4), help="of the local cluster")
    parser.add_argument("--results", type=results_file)
    options = parser.parse_args()
    rows = [measured(*size) for size in SIZES]
    model = fitted(rows)
    rounds = latencies(options.workers)
    hops = np.array([[1.0, np.log2(count)] for count in rounds])
    call, hop = (
        np.linalg.lstsq(hops, np.array(list(rounds.values())))[0] if len(rounds) > 1 else (*rounds.values(), 0.0)
    )
    model |= {"call": float(call), "hop": max(float(hop), 0.0), "network": options.network}
    print(json.dumps({"model": model, "rounds": rounds}, indent=1), flush=True)
    table, rng = [], np.random.default_rng(0)
    for n in (1e8, 1e9):
        for workers in (64, 256, 1024):
            parts = predicted(model, n, 1000.0, workers)
            row = {"n": n, "workers": workers, "step": step_seconds(parts), "solve": STEPS * step_seconds(parts)}
            table.append(row | parts | simulated(parts, workers, rng))
            print({k: float(f"{v:.3g}") for k, v in table[-1].items()}, flush=True)
    if options.results:
        found = {"solves": rows, "model": model, "rounds": rounds, "predictions": table} | facts()
        write_text(options.results, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
