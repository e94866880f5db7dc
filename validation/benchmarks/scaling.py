"""How time and memory of a fit grow with samples and kernels: `python -m validation.benchmarks.scaling`.

Each fit runs in a process of its own, so that its peak memory is its own. Data: `waveform` of 21 variables, class 0
against the others; Gaussian kernels of widths from 1 to 10; MKLClassifier at tol = 1e-3.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np

from validation.facts import require_core

SIZES = ((500, 10), (1000, 10), (2000, 10), (3000, 10), (1000, 20), (1000, 40))
C = 1.0


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
    one = parser.parse_args().one
    if one:
        print(json.dumps(measure(int(one[0]), int(one[1]), float(one[2]))))
        return
    print("| n | M | p | stack, MB | peak, MB | fit, CPU s | of it the solver, s | support | kernels | error |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for n, M in SIZES:
        for p in (1.0, 2.0):
            command = [sys.executable, "-m", __spec__.name, "--one", str(n), str(M), str(p)]
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            cells = [
                *(f"{row[name] / 1e6:.0f}" for name in ("stack", "peak")),
                *(f"{row[name]:.2f}" for name in ("fit", "solve")),
                *(str(int(row[name])) for name in ("support", "kernels")),
                f"{row['error']:.3f}",
            ]
            print(f"| {n} | {M} | {p:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
