"""What a rigorous certificate costs: `python -m validation.benchmarks.certificates [--json FILE]`.

The numerical certificate, the rigorous ones by each backend, and one streaming read of the kernels (a *pass*) take
turns at the same point, and medians of processor time are reported, in one thread (`OMP_NUM_THREADS=1
OPENBLAS_NUM_THREADS=1`), so that a busy machine does little harm. The proof of definiteness is made once for a stack
and is measured by itself, beside the check that `Problem` makes of the same matrices.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np

import mklref
from mklref import verify
from mklref.certificate.definite import proven_shifts
from mklref.kernels import stack
from mklref.kernels.validation import require_psd
from validation.benchmarks import alternate, processor, write_rows
from validation.benchmarks.problems import gaussian_family
from validation.facts import results_file

CASES = (
    (1000, 20, "hinge", 2.0, 1.0),
    (1000, 20, "hinge", 2.0, 100.0),
    (1000, 20, "epsilon_insensitive", 2.0, 100.0),
    (1000, 20, "logistic", 1.0, 1.0),
    (400, 50, "hinge", 4 / 3, 1.0),
)
"""n, M, loss, p and C."""


def measure(n: int, M: int, loss: str, p: float, C: float, ridge: float, rounds: int) -> dict[str, Any]:
    """One row: seconds of each certificate, of the proof and of the checker, and what rigour adds to the interval."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    K = gaussian_family(X, M) + ridge * np.eye(n)
    score = X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n)
    y = score if loss == "epsilon_insensitive" else np.where(score > 0.0, 1.0, -1.0)
    problem = mklref.Problem(K, y, C=C, loss=loss, regularizer=mklref.Lp(p))
    solution = mklref.solve(problem, polish=True)
    proof, _ = processor(lambda: proven_shifts(problem.kernels))
    check, _ = processor(lambda: [require_psd(matrix, "K", M) for matrix in stack(K).matrices])

    def certify(**options: Any) -> Any:
        return mklref.certify(
            problem, solution.dual_coef, weights=solution.weights, intercept=solution.intercept, **options
        )

    theta = np.full(M, 1.0 / M)
    times, results = alternate(
        rounds,
        {
            "pass": lambda: np.tensordot(theta, K, 1),
            "numerical": certify,
            "fast": lambda: certify(rigorous=True, backend="fast"),
            "sliced": lambda: certify(rigorous=True, backend="sliced"),
        },
        read=time.process_time,
    )
    times["exact"], results["exact"] = processor(lambda: certify(rigorous=True, backend="exact"))
    document = results["fast"].to_dict()
    times["checker"], _ = processor(lambda: verify.verify(document, K, y))
    rigorous = ("fast", "sliced", "exact")
    row = {
        "n": n,
        "M": M,
        "loss": loss,
        "p": p,
        "C": C,
        "tier": results["fast"].tier,
        "seconds": {**times, "proof": proof, "check of Problem": check},
        "fast to numerical": times["fast"] / times["numerical"],
        "relative gap": {name: results[name].relative_gap for name in ("numerical", *rigorous)},
        "relative slack": {name: results[name].slack / results[name].size for name in rigorous},
    }
    print(
        f"n={n} M={M} {loss} p={p:.3g} C={C:g} tier {row['tier']}: "
        + ", ".join(f"{name} {1e3 * value:.0f} ms" for name, value in row["seconds"].items())
        + f"; fast/numerical {row['fast to numerical']:.2f}; slack "
        + ", ".join(f"{name} {value:.0e}" for name, value in row["relative slack"].items()),
        flush=True,
    )
    return row


def main(arguments: list[str] | None = None) -> int:
    """Run all cases; exit code 1 if `fast` costs more than 3 times the numerical certificate at n = 1000."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=results_file, help="write the rows, with versions and machine")
    options = parser.parse_args(arguments)
    rows = [measure(*case, ridge, options.rounds) for case in CASES for ridge in (1e-6, 0.0)]
    write_rows(options.json, rows)
    return 0 if all(row["fast to numerical"] <= 3.0 for row in rows if row["n"] >= 1000) else 1


if __name__ == "__main__":
    sys.exit(main())
