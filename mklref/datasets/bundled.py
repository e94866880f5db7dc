"""The sets that come with scikit-learn."""

from __future__ import annotations

import numpy as np

from mklref.datasets.record import Dataset

BUNDLED = ("breast_cancer", "diabetes", "digits", "iris", "wine")
"""Sets that come with scikit-learn, by the name of its loader."""


def load_bundled(name: str) -> Dataset:
    """One of `BUNDLED`, with class names as targets where it has classes."""
    import sklearn
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    classes = getattr(bunch, "target_names", None)
    y = bunch.target.astype(float) if classes is None else np.asarray(classes).astype(str)[bunch.target]
    features = tuple(str(feature) for feature in bunch.feature_names)
    return Dataset(name, np.asarray(bunch.data, dtype=float), y, features, f"scikit-learn {sklearn.__version__}")
