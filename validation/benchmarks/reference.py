"""The cvxpy side: seconds of one core to compile, solve, polish and certify, by formulation and solver.

`python -m validation.benchmarks.reference [--sizes 100,200,400] [--json FILE]` prints a Markdown table. The problem
has a hinge loss, C = 1 and 20 Gaussian kernels of widths from 0.7 to 15 on eight variables; factors are truncated at
numerical rank. A case is left out at a size once it took longer than `--patience` seconds at the size before. It is the
time of the processor, with one thread for BLAS, that is measured: other work on the machine hardly enters it.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import cvxpy
import numpy as np
from threadpoolctl import threadpool_limits

import mklref
from mklref import reference
from mklref._conic.scaling import factorize
from validation.benchmarks import write_rows
from validation.facts import results_file

FORMS = ("mixed_norm", "block_norm", "qcqp", "dual", "weighted_primal")
KERNELS = 20


def gaussians(n: int) -> mklref.Problem:
    """Labels by a noisy parabola in eight variables, twenty Gaussian kernels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    D = ((X[:, None] - X) ** 2).sum(axis=-1)
    kernels = np.array([np.exp(-D / (2.0 * width**2)) for width in np.geomspace(0.7, 15.0, KERNELS)])
    y = np.where(X[:, 0] + X[:, 1] ** 2 - 1.0 + 0.5 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    return mklref.Problem(kernels, y, C=1.0)


def measure(problem: mklref.Problem, form: str, solver: str, factors: Any) -> dict[str, Any]:
    """One row: seconds of one core, the certified gap and the status."""
    row = {"n": problem.n_samples, "p": problem.regularizer.p, "form": form, "solver": solver}
    start = time.process_time()
    try:
        with threadpool_limits(1):
            solution = reference.compile(problem, form, factors=factors).solve(solver=solver)
    except mklref.MKLError as failure:
        row |= {"status": "FAILED", "note": str(failure)[:80], "gap": float("inf")}
    else:
        row |= {"status": solution.status.name, "gap": solution.certificate.relative_gap}
    row["seconds"] = time.process_time() - start
    print(
        f"| {row['n']} | {row['p']:g} | `{form}` | {solver} | {row['seconds']:.1f} | {row['gap']:.0e} "
        f"| {row['status']} |",
        flush=True,
    )
    return row


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100,200,400", help="numbers of samples, increasing")
    parser.add_argument("--forms", default=",".join(FORMS), help="formulations, separated by commas")
    parser.add_argument("--solvers", default=",".join(reference.SOLVERS), help="solvers, separated by commas")
    parser.add_argument("--patience", type=float, default=5.0, help="seconds after which a larger size is not tried")
    parser.add_argument("--json", type=results_file, help="write the rows, with versions")
    options = parser.parse_args(arguments)
    columns = ("n", "p", "form", "solver", "seconds", "certified gap", "status")
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    rows: list[dict[str, Any]] = []
    slow: set[tuple[float, str, str]] = set()
    for n in map(int, options.sizes.split(",")):
        problem = gaussians(n)
        factors = factorize(problem.kernels)
        for p in (1.0, 2.0):
            member = problem.replace(regularizer=mklref.Lp(p))
            reasons = reference.explain(member)
            for form in options.forms.split(","):
                for solver in options.solvers.split(","):
                    if reasons[form] is None and (p, form, solver) not in slow:
                        rows.append(measure(member, form, solver, factors))
                        if rows[-1]["seconds"] > options.patience:
                            slow.add((p, form, solver))
    write_rows(options.json, rows, cvxpy=cvxpy.__version__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
