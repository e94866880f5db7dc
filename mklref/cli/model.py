"""A model of a table: an estimator, and how the columns of a table become its variables.

p(class | x) = softmax(a t(x) + b)        for the scores t of the estimator, a and b from rows that it had not seen
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from scipy.special import softmax

from mklref._files import packed_arrays, read_archive, read_arrays, well_formed, write_arrays
from mklref._typing import Array
from mklref._untrusted import parse_json
from mklref.certificate.verdict import saved
from mklref.estimators import MKLClassifier, MKLRegressor
from mklref.estimators.persistence import variables_of
from mklref.estimators.table import TableEncoder
from mklref.exceptions import InvalidParameter, UnsafeFile
from mklref.solution import require_names

_FIRST, _FORMAT = "mklref-table-model-1", "mklref-table-model-2"
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (MKLClassifier, MKLRegressor)}


@dataclass(frozen=True)
class TableModel:
    """A fitted estimator, and how the columns of its table become numbers."""

    estimator: Any
    """`MKLClassifier` or `MKLRegressor`."""
    encoder: TableEncoder
    target: str
    identifiers: tuple[str, ...] = ()
    """Columns that predictions repeat."""
    calibration: Array | None = None
    """(P, P + 1): b and a of the P scores, one of two classes, one a class of more; None if nothing was held out."""

    @property
    def classifies(self) -> bool:
        """Whether it predicts classes."""
        return isinstance(self.estimator, MKLClassifier)

    def predict(self, frame: Any, *, probabilities: bool = False) -> dict[str, Any]:
        """Columns of predictions for the rows of a data frame.

        Classes come with their scores: one column for two classes, positive for the second one, else one a class.
        `InvalidInput` is raised by the encoder, `InvalidParameter` where there are no probabilities.
        """
        if probabilities:
            self.require_probabilities()
        numbers = self.encoder.transform(frame)
        if not self.classifies:
            return {"prediction": self.estimator.predict(numbers)}
        classes = self.estimator.classes_
        scores = self.estimator.decision_function(numbers)
        best = (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        columns: dict[str, Any] = {"prediction": classes[best]}
        if scores.ndim == 1:
            columns["score"] = scores
        else:
            columns |= {f"score[{name}]": column for name, column in zip(classes, scores.T, strict=True)}
        if probabilities:
            found = _probabilities(scores, self.calibration)
            columns |= {f"p[{name}]": column for name, column in zip(classes, found.T, strict=True)}
        return columns

    def require_probabilities(self) -> None:
        """Raise `InvalidParameter` unless scores can be turned into probabilities."""
        if not self.classifies:
            raise InvalidParameter("--proba goes with a model of classes; this one predicts numbers.")
        if self.calibration is None:
            raise InvalidParameter(
                "--proba: the model was fitted without a held-out part, which turns scores into probabilities; fit it "
                "with --test 0.25."
            )

    def save(self, path: str) -> None:
        """Write one .npz of plain arrays: the file of the estimator, and the columns beside it; no pickle."""
        arrays: dict[str, Any] = {"estimator": np.frombuffer(packed_arrays(*self.estimator.content()), dtype=np.uint8)}
        if self.calibration is not None:
            arrays["calibration"] = self.calibration
        facts = {
            "format": _FORMAT,
            "kind": type(self.estimator).__name__,
            "columns": json.dumps(self.encoder.to_plain()),
            "target": self.target,
            "identifiers": list(self.identifiers),
        }
        write_arrays(path, arrays, facts)

    @classmethod
    def load(cls, path: str) -> TableModel:
        """Read what `save` wrote, also before its format had columns of other than numbers, or raise `UnsafeFile`."""
        arrays, facts = read_arrays(path)
        if facts.get("format") not in (_FIRST, _FORMAT):
            raise UnsafeFile(f"{path} is no model of a table; write one by: mklref fit DATA.csv --save {path}.")
        with well_formed(path, "a model of a table"):
            return (_of_numbers if facts["format"] == _FIRST else _of_columns)(arrays, facts, path)


def _of_columns(arrays: dict[str, Any], facts: dict[str, Any], path: str) -> TableModel:
    require_names(facts, ("format", "kind", "columns", "target", "identifiers"), "facts")
    require_names(arrays, ("estimator", *({"calibration"} & set(arrays))), "arrays")
    encoder = TableEncoder.from_plain(parse_json(saved(facts, "columns", str).encode(), f"{path}, text 'columns',"))
    estimator = _estimator(arrays, facts, path)
    if variables_of(estimator) != list(encoder.get_feature_names_out()):
        raise ValueError("its columns are not those of its estimator")
    calibration = arrays.get("calibration")
    if calibration is not None:
        P = len(getattr(estimator, "classes_", ())) if len(getattr(estimator, "classes_", ())) != 2 else 1
        fits = calibration.dtype == np.float64 and calibration.shape == (P, P + 1) and np.isfinite(calibration).all()
        if not fits:
            raise ValueError("its calibration does not fit its classes")
    identifiers = saved(facts, "identifiers", tuple)
    return TableModel(estimator, encoder, saved(facts, "target", str), identifiers, calibration)


def _of_numbers(arrays: dict[str, Any], facts: dict[str, Any], path: str) -> TableModel:
    """The first format: columns of numbers with their means and deviations, and those of a target of numbers."""
    require_names(facts, ("format", "kind", "features", "target"), "facts")
    units = () if facts["kind"] == "MKLClassifier" else ("target_scale",)
    require_names(arrays, ("mean", "deviation", "estimator", *units), "arrays")
    features, (mean, deviation) = saved(facts, "features", tuple), (arrays["mean"], arrays["deviation"])
    estimator = _estimator(arrays, facts, path)
    if tuple(variables_of(estimator)) != features:
        raise ValueError("its columns are not those of its estimator")
    if not all(scale.dtype == np.float64 and scale.shape == (len(features),) for scale in (mean, deviation)):
        raise ValueError("its scales do not fit its columns")
    columns = [
        {"name": name, "kind": "number", "detail": ".", "levels": (), "mean": float(m), "deviation": float(s)}
        for name, m, s in zip(features, mean, deviation, strict=True)
    ]
    encoder = TableEncoder.from_plain({"missing": [], "columns": columns})
    if units:
        m, s = map(float, arrays["target_scale"])
        if not (np.isfinite([m, s]).all() and s > 0.0):
            raise ValueError("the scale of its target is none")
        estimator.dual_coef_, estimator.intercept_ = estimator.dual_coef_ * s, estimator.intercept_ * s + m
        estimator.y_mean_, estimator.y_scale_ = m, s
    return TableModel(estimator, encoder, saved(facts, "target", str))


def _estimator(arrays: dict[str, Any], facts: dict[str, Any], path: str) -> Any:
    where = f"{path}, member 'estimator'"
    kind = _KINDS[saved(facts, "kind", str)]
    return kind._loaded(*read_archive(BytesIO(arrays["estimator"].tobytes()), where), where)


def calibrated(scores: Array, truth: Any) -> Array | None:
    """The softmax of scores that is most likely on rows that the model has not seen; None if a class has none there."""
    from sklearn.linear_model import LogisticRegression

    columns = scores[:, None] if scores.ndim == 1 else scores
    if len(np.unique(truth)) < (2 if scores.ndim == 1 else columns.shape[1]):
        return None
    unit = max(float(np.abs(columns).max()), 1e-300)
    found = LogisticRegression(C=100.0, max_iter=1000).fit(columns / unit, truth)
    return np.concatenate([found.intercept_[:, None], found.coef_ / unit], axis=1)


def _probabilities(scores: Array, calibration: Any) -> Array:
    """(k, classes)."""
    columns = scores[:, None] if scores.ndim == 1 else scores
    exponents = calibration[:, 0] + columns @ calibration[:, 1:].T
    if scores.ndim == 1:
        exponents = np.concatenate([np.zeros_like(exponents), exponents], axis=1)
    return np.asarray(softmax(exponents, axis=1))
