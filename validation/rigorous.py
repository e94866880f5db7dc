"""Rigorous certificates against optima in 80 digits: `python -m validation.rigorous [--problems 2000]`.

Random small problems whose kernels are semidefinite exactly (integer features, scaled by powers of two): all losses,
lp balls from p = 1 over 1 + 1e-9 to infinity, fixed, Tikhonov and group weights, C from 1e-12 to 1e12, kernels scaled
by up to 2^+-450, duplicated and zero kernels. At several points of each problem every backend has to return an interval
that meets the enclosure of the optimum (`precise`), and `mklref.verify` has to confirm it; the gap that the native
solver claims has to be true.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

import mklref
from mklref import verify
from mklref._files import write_text
from mklref.regularizers import Fixed, Groups, Lp, Tikhonov
from mklref.testing.cases.ordinary import LOSSES
from validation.attack import Hang, at_most
from validation.facts import results_file
from validation.precise import CONTEXT, enclosure

_EXPONENTS = (1.0, 1.0, 1.0 + 1e-9, 1.1, 4 / 3, 1.5, 2.0, 3.0, 50.0, 1e6, float("inf"))


def random_problem(rng: np.random.Generator) -> mklref.Problem:
    """A problem of at most 9 samples and 4 kernels, sometimes of extreme scale or degenerate."""
    n, M = int(rng.integers(2, 10)), int(rng.integers(1, 5))
    loss = LOSSES[rng.integers(len(LOSSES))]
    extreme = rng.uniform() < 0.3
    scale = 2.0 ** int(rng.integers(-450, 451)) if extreme else 2.0 ** int(rng.integers(-3, 4))
    K = np.empty((M, n, n))
    for m in range(M):
        X = np.rint(16 * rng.normal(size=(n, int(rng.integers(1, n + 2)))))
        K[m] = scale * 2.0**-8 * (X @ X.T + (rng.uniform() < 0.5) * np.eye(n))
    if M > 1 and rng.uniform() < 0.1:
        K[1] = K[0] * float(rng.integers(0, 2))
    y = np.where(rng.uniform(size=n) < 0.5, 1.0, -1.0) if loss.targets == "labels" else rng.normal(size=n)
    if loss.targets == "labels":
        y[:2] = 1.0, -1.0
    C = 10.0 ** rng.uniform(-12, 12) if rng.uniform() < 0.3 else 10.0 ** rng.uniform(-2, 2)
    C = C if not extreme else C / scale if rng.uniform() < 0.7 else C
    if loss.targets == "ones":
        y = np.ones(n)
        C = 1.0 / (rng.uniform(0.1, 0.9) * n) if loss.intercept_cost else C
    intercept = {"required": True, "forbidden": False}.get(loss.intercept, bool(rng.uniform() < 0.7))
    weight = rng.uniform(0.5, 2.0, size=n) if rng.uniform() < 0.2 else None
    if loss.intercept_cost:
        weight = None
    return mklref.Problem(
        K, y, C=C, loss=loss, regularizer=random_regularizer(rng, M), intercept=intercept, sample_weight=weight
    )


def random_regularizer(rng: np.random.Generator, M: int) -> Any:
    """A ball, fixed weights, a penalty or groups."""
    kind, p = rng.uniform(), _EXPONENTS[rng.integers(len(_EXPONENTS))]
    if kind < 0.6:
        return Lp(p)
    if kind < 0.7:
        return Fixed(rng.exponential(size=M) + 0.01)
    if kind < 0.85:
        return Tikhonov(p, float(rng.uniform(0.1, 3.0)))
    split = int(rng.integers(1, M + 1))
    groups = [part for part in (list(range(split)), list(range(split, M))) if part]
    p, q = ((0.3, 0.4), (0.5, 0.5), (0.0, 0.5), (1.0, 0.0))[rng.integers(4)]
    return Groups(groups, p, q)


def points(problem: mklref.Problem, solution: mklref.Solution, rng: np.random.Generator) -> list[tuple[Any, Any, Any]]:
    """The solution, a point near it, a rough one, and one that means nothing."""
    beta, theta, b = solution.dual_coef, solution.weights, solution.intercept
    size = float(np.abs(beta).max()) or float(problem.costs.max())
    noise = rng.normal(size=len(beta))
    return [
        (beta, theta, b),
        (beta * (1.0 + 1e-9 * noise), theta, None),
        (beta + 0.1 * size * noise, theta * rng.uniform(0.5, 1.5, size=len(theta)), None),
        (size * noise, None, None),
    ]


def float64_rounding(problem: mklref.Problem, solution: mklref.Solution) -> Decimal:
    """What rounding may add to a numerical certificate, as `docs/certificate.md` states it."""
    beta, theta, found = solution.dual_coef, solution.weights, solution.certificate
    size = float(beta @ beta) * float(theta @ problem.kernels.traces()) + abs(found.lower) + abs(found.upper)
    return Decimal(8.0 * sum(problem.kernels.shape[:2]) * float(np.finfo(float).eps) * size)


def check(seed: int, max_time: float = 1.0) -> dict[str, Any]:
    """All checks of one problem, solved within some seconds; what was wrong, and what was seen."""
    rng = np.random.default_rng([7, seed])
    problem = random_problem(rng)
    try:
        with np.errstate(all="ignore"), at_most(20.0 * max_time):
            solution = mklref.solve(problem, tol=1e-9, max_time=max_time, polish=True)
    except (ArithmeticError, np.linalg.LinAlgError, Hang) as failure:
        return {
            "seed": seed,
            "wrong": [],
            "failed": f"problem {seed}, {problem!r}: the native solver fails: {failure!r}",
        }
    lower, upper = enclosure(problem, solution)
    wrong: list[str] = []
    intervals = tiers = 0
    best = np.inf
    scale = max(abs(float(upper)), float(problem.costs.sum()))
    claimed, rounding = solution.certificate, float64_rounding(problem, solution)
    with localcontext(CONTEXT):
        if Decimal(claimed.upper) < lower - rounding or Decimal(claimed.lower) > upper + rounding:
            wrong.append(f"native claims {claimed.lower!r}, {claimed.upper!r}, the optimum is in [{lower}, {upper}]")
        for k, (beta, theta, b) in enumerate(points(problem, solution, rng)):
            for backend in ("fast", "sliced", "exact"):
                found = mklref.certify(problem, beta, weights=theta, intercept=b, rigorous=True, backend=backend)
                intervals += 1
                tiers += found.tier == 1
                if not (Decimal(found.lower) <= upper and lower <= Decimal(found.upper)):
                    wrong.append(f"{backend} at point {k}: {found.lower!r}, {found.upper!r}, not {lower}, {upper}")
                if k == 0:
                    best = min(best, found.gap / scale)
                    try:
                        verify.verify(json.loads(json.dumps(found.to_dict())), problem.kernels.dense(), problem.y)
                    except verify.Refuted as doubt:
                        wrong.append(f"{backend} at point {k} is refuted: {doubt}")
        width = float((upper - lower) / Decimal(scale))
    return {
        "seed": seed,
        "wrong": [f"problem {seed}, {problem!r}: {text}" for text in wrong],
        "width": width,
        "intervals": intervals,
        "tier1": tiers,
        "gap": best,
        "loss": problem.loss.name,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzz; exit code 1 if an interval missed the optimum, a claim was false or a document was refuted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first problem")
    parser.add_argument("--json", type=results_file, help="write a summary")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    results = []
    for seed in range(options.first, options.first + options.problems):
        results.append(check(seed))
        for line in [*results[-1]["wrong"], *filter(None, [results[-1].get("failed")])]:
            print(line, flush=True)
        if len(results) % 100 == 0:
            print(f"{len(results)} problems, {time.perf_counter() - start:.0f} s", flush=True)
    failed = [result for result in results if "failed" in result]
    results = [result for result in results if "failed" not in result]
    wrong = sum(len(result["wrong"]) for result in results)
    widths = np.array([result["width"] for result in results])
    gaps = np.array([result["gap"] for result in results])
    summary = {
        "date": time.strftime("%Y-%m-%d"),
        "mklref": mklref.__version__,
        "problems": len(results) + len(failed),
        "intervals": sum(result["intervals"] for result in results),
        "tier 1": sum(result["tier1"] for result in results),
        "wrong": wrong,
        "left out, native solver failed": len(failed),
        "enclosures below 1e-40": int(np.sum(widths < 1e-40)),
        "enclosures below 1e-14": int(np.sum(widths < 1e-14)),
        "widest enclosure": float(widths.max()),
        "median width of the best interval": float(np.median(gaps)),
        "losses": dict(Counter(result["loss"] for result in results)),
        "seconds": round(time.perf_counter() - start),
    }
    print(json.dumps(summary, indent=1))
    if options.json:
        write_text(options.json, json.dumps(summary, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
