"""Estimators on kernels that are evaluated when they are read."""

from __future__ import annotations

import numpy as np
import pytest

from mklref.estimators import MKLClassifier, MKLOneClass, MKLRegressor
from mklref.exceptions import InvalidParameter
from mklref.kernels import gaussian, linear, per_variable

FAMILY = gaussian([1.0, 3.0]) + linear() + per_variable(gaussian(1.0))


@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (MKLClassifier(FAMILY, norm=2), 2),
        (MKLClassifier(FAMILY, center=True), 3),
        (MKLRegressor(FAMILY, norm=2), 0),
        (MKLOneClass(FAMILY, normalize="trace"), 0),
    ],
    ids=["two-classes", "three-classes-centred", "targets", "one-class"],
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.filterwarnings("ignore:constant on the training samples")
def test_lazy_kernels_give_the_model_of_those_in_memory(model, classes, weighted):
    rng = np.random.default_rng(0)
    X = np.hstack([rng.normal(size=(90, 3)), np.ones((90, 1))])  # its last variable is constant
    y = X[:, 0] + 0.1 * rng.normal(size=90)
    y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes)) if classes else y
    weight = rng.integers(0, 3, 90).astype(float) if weighted else None
    scores = []
    for storage in ("memory", "lazy"):
        fitted = model.set_params(storage=storage, tol=1e-8).fit(X, y, sample_weight=weight)
        scores.append(fitted.predict(X) if isinstance(model, MKLRegressor) else fitted.decision_function(X))
    np.testing.assert_allclose(scores[1], scores[0], atol=2e-3 * np.abs(scores[0]).max())


def test_a_storage_that_is_unknown_is_refused():
    with pytest.raises(InvalidParameter, match="storage = 'disk' is unknown"):
        MKLClassifier(FAMILY, storage="disk").fit(np.eye(4), [0, 1, 0, 1])
