"""How time and memory of a fit grow with samples and kernels: `python -m validation.benchmarks.scaling`.

Each fit runs in a process of its own, so that its peak memory is its own. Data: `waveform` of 21 variables, class 0
against the others; Gaussian kernels of widths from 1 to 10; MKLClassifier at tol = 1e-3. The last size takes 9 GB.
The last line is of `MKLClassifierCV`, five folds and ten values of C, at n = 1000 and M = 20, p = 1.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np

from validation.benchmarks import in_a_process
from validation.facts import require_core

SIZES = ((500, 10), (1000, 10), (2000, 10), (3000, 10), (1000, 20), (1000, 40), (10000, 10))
C = 1.0
SEARCHED = 1000, 20


def searched(n: int, M: int) -> dict[str, float]:
    """CPU seconds and peak memory of a search over C."""
    import mklref
    from mklref.datasets import waveform

    require_core()
    data = waveform(np.random.default_rng(0), n)
    search = mklref.MKLClassifierCV(
        f"rbf(1..10, {M})", Cs=list(np.geomspace(0.01, 100.0, 10)), norms=[1.0], cv=5, tol=1e-3
    )
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    search.fit(data.X, np.where(data.y == 0.0, 1.0, -1.0))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"fit": time.process_time() - start, "peak": 1024.0 * peak}


def measure(n: int, M: int, p: float) -> dict[str, float]:
    """CPU seconds for kernels and fit together, for the solver alone, and for 1000 predictions; peak memory."""
    import mklref
    from mklref.datasets import waveform

    require_core()
    data, new = waveform(np.random.default_rng(0), n), waveform(np.random.default_rng(1), 1000)
    y = np.where(data.y == 0.0, 1.0, -1.0)
    model = mklref.MKLClassifier(f"rbf(1..10, {M})", norm=p, C=C, tol=1e-3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    model.fit(data.X, y)
    fitted = time.process_time()
    predicted = model.predict(new.X)
    end = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    stack = mklref.kernels.parse(f"rbf(1..10, {M})").fit(data.X, normalize="multiplicative")
    problem = mklref.Problem(stack, y, C=C, regularizer=mklref.Lp(p))
    solving = time.process_time()
    mklref.solve(problem, tol=1e-3)
    return {
        "fit": fitted - start,
        "predict": end - fitted,
        "solve": time.process_time() - solving,
        "peak": 1024.0 * peak,
        "stack": 8.0 * M * n * n,
        "support": len(model.support_),
        "kernels": int(np.sum(model.weights_ > 1e-4)),
        "error": float(np.mean(predicted != np.where(new.y == 0.0, 1.0, -1.0))),
    }


def main() -> None:
    """Print one row for each size and norm."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", nargs=3, metavar=("N", "M", "P"), help="measure one size here, print JSON")
    parser.add_argument("--search", nargs=2, metavar=("N", "M"), help="measure a search here, print JSON")
    given = parser.parse_args()
    if given.one or given.search:
        n, M, *p = given.one or given.search
        print(json.dumps(measure(int(n), int(M), float(p[0])) if p else searched(int(n), int(M))))
        return
    print("| n | M | p | stack, MB | peak, MB | fit, CPU s | of it the solver, s | support | kernels | error |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for n, M in SIZES:
        for p in (1.0, 2.0):
            row = in_a_process(__spec__.name, "--one", n, M, p)
            cells = [
                *(f"{row[name] / 1e6:.0f}" for name in ("stack", "peak")),
                *(f"{row[name]:.2f}" for name in ("fit", "solve")),
                *(str(int(row[name])) for name in ("support", "kernels")),
                f"{row['error']:.3f}",
            ]
            print(f"| {n} | {M} | {p:g} | {' | '.join(cells)} |", flush=True)
    row = in_a_process(__spec__.name, "--search", *SEARCHED)
    print(f"search, n = {SEARCHED[0]}, M = {SEARCHED[1]}: {row['fit']:.1f} s, peak {row['peak'] / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
