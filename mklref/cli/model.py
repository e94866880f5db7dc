"""A model of a table: an estimator, and how the columns of a table become its variables.

z_j = (x_j - mean_j) / scale_j     with the statistics of the samples it was fitted to; in regression the same for y
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from mklref._files import packed_arrays, read_archive, read_arrays, write_arrays
from mklref._typing import Array
from mklref.certificate.verdict import saved
from mklref.datasets import Dataset
from mklref.datasets.record import mean_and_deviation
from mklref.estimators import MKLClassifier, MKLRegressor
from mklref.estimators.persistence import variables_of
from mklref.exceptions import InvalidInput, UnsafeFile
from mklref.solution import require_names

_FORMAT = "mklref-table-model-1"
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (MKLClassifier, MKLRegressor)}


@dataclass(frozen=True)
class Scale:
    """Means and standard deviations; a constant column has scale 1."""

    mean: Array
    deviation: Array

    @classmethod
    def of(cls, values: Array) -> Scale:
        """Those of the columns of (n, d), or of one vector."""
        return cls(*mean_and_deviation(values))

    def standard(self, values: Array) -> Array:
        """In these units."""
        return np.asarray((values - self.mean) / self.deviation)

    def original(self, values: Array) -> Array:
        """Back again."""
        return np.asarray(values * self.deviation + self.mean)


def _scale(mean: Any, deviation: Any, *, shape: tuple[int, ...]) -> Scale:
    """Those of a file, if they are finite float64 numbers of this shape, and no deviation is 0."""
    for values in (mean, deviation):
        if values.dtype != np.float64 or values.shape != shape or not np.isfinite(values).all():
            raise ValueError("its scales do not fit its columns")
    if not np.all(deviation > 0.0):
        raise ValueError("a deviation is not positive")
    return Scale(mean, deviation)


@dataclass(frozen=True)
class TableModel:
    """A fitted estimator with the names of its columns and their scales."""

    estimator: Any
    """`MKLClassifier` or `MKLRegressor`."""
    features: tuple[str, ...]
    target: str
    scale: Scale
    target_scale: Scale | None
    """None for classes."""

    def predict(self, X: Array) -> dict[str, Any]:
        """Columns of predictions for samples X (k, d) in the units of the table.

        Classes come with their scores: one column for two classes, positive for the second one, else one a class.

        Raises
        ------
        InvalidInput
            A cell so far from the fitted table that its distance overflows.
        """
        with np.errstate(over="ignore"):
            standard = self.scale.standard(X)
        for row, column in np.argwhere(~np.isfinite(standard))[:1]:
            raise InvalidInput(
                f"row {row + 1}: {self.features[column]!r} is {X[row, column]:g}, too far from the table that the "
                "model was fitted to. Correct the cell, or drop the row."
            )
        table = Dataset("", standard, np.zeros(len(X)), self.features, "")
        predicted = self.estimator.predict(table)
        if self.target_scale is not None:
            return {"prediction": self.target_scale.original(predicted)}
        scores = self.estimator.decision_function(table)
        if scores.ndim == 1:
            return {"prediction": predicted, "score": scores}
        pairs = zip(self.estimator.classes_, scores.T, strict=False)
        return {"prediction": predicted} | {f"score[{name}]": column for name, column in pairs}

    def save(self, path: str) -> None:
        """Write one .npz of plain arrays: the file of the estimator, and the scales beside it; no pickle."""
        arrays = {"mean": self.scale.mean, "deviation": self.scale.deviation}
        if self.target_scale is not None:
            arrays["target_scale"] = np.array([self.target_scale.mean, self.target_scale.deviation])
        arrays["estimator"] = np.frombuffer(packed_arrays(*self.estimator.content()), dtype=np.uint8)
        facts = {
            "format": _FORMAT,
            "kind": type(self.estimator).__name__,
            "features": list(self.features),
            "target": self.target,
        }
        write_arrays(path, arrays, facts)

    @classmethod
    def load(cls, path: str) -> TableModel:
        """Read what `save` wrote.

        Raises
        ------
        UnsafeFile
            Damaged, hostile or foreign files.
        """
        arrays, facts = read_arrays(path)
        if facts.get("format") != _FORMAT:
            raise UnsafeFile(f"{path} is no model of a table; write one by: mklref fit DATA.csv --save {path}.")
        try:
            require_names(facts, ("format", "kind", "features", "target"), "facts")
            kind = _KINDS[saved(facts, "kind", str)]
            units = () if kind is MKLClassifier else ("target_scale",)
            require_names(arrays, ("mean", "deviation", "estimator", *units), "arrays")
            features = saved(facts, "features", tuple)
            where = f"{path}, member 'estimator'"
            estimator = kind._loaded(*read_archive(BytesIO(arrays["estimator"].tobytes()), where), where)
            if tuple(variables_of(estimator)) != features:
                raise ValueError("its columns are not those of its estimator")
            target_scale = _scale(*arrays["target_scale"], shape=()) if units else None
            scale = _scale(arrays["mean"], arrays["deviation"], shape=(len(features),))
            return cls(estimator, features, saved(facts, "target", str), scale, target_scale)
        except (KeyError, TypeError, ValueError) as damaged:
            raise UnsafeFile(f"{path} is not a model of a table: {damaged}") from damaged
