"""Factors on workers of a Dask cluster on this machine: `python -m validation.benchmarks.workers [N] [--workers 1 2]`.

The data of `validation.benchmarks.factors`, p = 4/3, float64. Seconds of one process with as many shards, of workers
with one thread each, and of a round of them that computes nothing (a part of the overhead that every one of the rounds
has); whether the bits are the same. On a machine that others use the seconds say little, the rounds what they say.
"""

from __future__ import annotations

import argparse
import os
import statistics

import numpy as np

import mklref
from mklref import kernels
from mklref.factored.remote import DistributedStack
from validation.benchmarks import seconds
from validation.benchmarks.factors import KERNELS, RANK, features


def main() -> None:
    """Print one row for each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", nargs="?", type=int, default=50_000)
    parser.add_argument("--workers", nargs="*", type=int, default=(1, 2))
    options = parser.parse_args()
    L = np.empty((options.n, KERNELS * RANK))
    y = features(options.n, L)
    stack = kernels.FactorStack(np.split(L, KERNELS, axis=1)).sharded(max(2, *options.workers))
    problem = mklref.Problem(stack, y, C=1.0, regularizer=mklref.Lp(4.0 / 3.0))
    alone, here = seconds(lambda: mklref.solve(problem))
    print(f"n = {options.n}, r = {L.shape[1]}, load {os.getloadavg()[0]:.1f}: one process {alone:.1f} s", flush=True)
    for workers in options.workers:
        with mklref.local_client(workers) as client:
            sending, there = seconds(lambda client=client: DistributedStack.of(stack, client))
            taken, solution = seconds(lambda there=there: mklref.solve(problem.replace(kernels=there)))
            rounds = there.cluster.counters["rounds"]
            empty = [seconds(lambda there=there: there._asked.sum("traces"))[0] for _ in range(30)]
            same = np.array_equal(solution.dual_coef, here.dual_coef)
            print(
                f"{workers} workers: {taken:.1f} s, {alone / taken:.2f} times as fast, and {sending:.1f} s of sending, "
                f"{rounds} rounds, {1e3 * statistics.median(empty):.1f} ms for an empty one; the same bits: {same}",
                flush=True,
            )


if __name__ == "__main__":
    main()
