"""Memory of predictions, sizes of models and of targets, weights as copies.

    python -m validation.benchmarks.estimators

Memory is what NumPy asks for, by tracemalloc. Predictions: `waveform` of 21
variables, class 0 against the others, 2000 training samples, four Gaussian kernels, p = 2. Targets: diabetes of
scikit-learn times a factor, R^2 on the fifth of the rows that is held out. Weights: 120 of its rows, for each
normalisation.
"""

from __future__ import annotations

import argparse
import json
import pickle
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np

from validation.benchmarks import in_a_process

TRAINING, KERNELS = 2000, "rbf(2..8, 4)"
NEW = (20_000, 80_000, 320_000)
FACTORS = (1e-6, 1e-2, 1.0, 1e6)


def fit(path: str) -> dict[str, float]:
    """Fit the model and save it; sizes in bytes."""
    import mklref
    from mklref.datasets import waveform

    data = waveform(np.random.default_rng(0), TRAINING)
    model = mklref.MKLClassifier(KERNELS, norm=2.0, C=1.0, tol=1e-3).fit(data.X, data.y == 0.0)
    model.save(path)
    size = {"file": Path(path).stat().st_size, "pickle": len(pickle.dumps(model))}
    return size | {"support": len(model.support_), "samples": data.X.nbytes}


def predict(path: str, rows: int) -> dict[str, float]:
    """Peak bytes that predictions of so many rows allocate, beside the rows themselves."""
    import mklref
    from mklref.datasets import waveform

    model = mklref.MKLClassifier.load(path)
    X = waveform(np.random.default_rng(1), rows).X
    model.predict(X[:100])
    tracemalloc.start()
    model.decision_function(X)
    return {"added": tracemalloc.get_traced_memory()[1], "rows": X.nbytes}


def targets() -> dict[str, dict[str, float]]:
    """R^2 of targets of each size, with and without the scale."""
    import warnings

    import mklref

    data = mklref.datasets.load("diabetes").standardized()
    train, test = np.arange(len(data.y)) % 5 != 0, np.arange(len(data.y)) % 5 == 0
    y = (data.y - data.y.mean()) / data.y.std()
    found: dict[str, dict[str, float]] = {}
    for factor in FACTORS:
        found[f"{factor:g}"] = {}
        for scale in (True, False):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = mklref.MKLRegressor("linear, rbf(2..8, 3)", scale_y=scale).fit(data.X[train], factor * y[train])
            found[f"{factor:g}"][f"scale_y={scale}"] = model.score(data.X[test], factor * y[test])
    return found


def repetition() -> dict[str, float]:
    """The largest difference of two scores: samples with integer weights, and so many copies of them instead."""
    import mklref

    data = mklref.datasets.load("diabetes").standardized()
    X, y = data.X[:120], data.y[:120]
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    copies = np.repeat(np.arange(len(y)), weight)
    found = {}
    for method in ("multiplicative", "trace", "spherical", None):
        own = {"kernels": "linear, rbf(2..8, 3)", "normalize": method}
        pairs = ((mklref.MKLClassifier, y > 140), (mklref.MKLRegressor, y), (mklref.MKLOneClass, None))
        for kind, target in pairs:
            one = kind(**own).fit(X, target, sample_weight=weight)
            other = kind(**own).fit(X[copies], None if target is None else target[copies])
            scores = [getattr(model, "decision_function", model.predict)(data.X) for model in (one, other)]
            found[f"{kind.__name__}, {method}"] = float(np.abs(scores[0] - scores[1]).max())
    return found


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", nargs=2, metavar=("PATH", "ROWS"), help="measure one prediction here, print JSON")
    one = parser.parse_args().one
    if one:
        print(json.dumps(predict(one[0], int(one[1]))))
        return
    with tempfile.TemporaryDirectory() as home:
        path = str(Path(home) / "model.npz")
        print("model:", {name: f"{size:,.0f}" for name, size in fit(path).items()})
        for rows in NEW:
            found = in_a_process("validation.benchmarks.estimators", "--one", path, rows)
            print(f"{rows} new rows of {found['rows'] / 1e6:.0f} MB: {found['added'] / 1e6:.0f} MB more")
    for factor, scores in targets().items():
        print(f"targets times {factor}:", {name: f"{score:.3g}" for name, score in scores.items()})
    print("weights and copies differ by:", repetition())


if __name__ == "__main__":
    main()
