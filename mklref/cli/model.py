"""A model of a table: an estimator, and how the columns of a table become its variables.

z_j = (x_j - mean_j) / scale_j     with the statistics of the samples it was fitted to; in regression the same for y
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mklref._files import packed_arrays, read_arrays, write_arrays
from mklref._typing import Array
from mklref.datasets import Dataset
from mklref.datasets.record import mean_and_deviation
from mklref.estimators import MKLClassifier, MKLRegressor
from mklref.exceptions import InvalidInput, UnsafeFile

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
            features: Sequence[str] = [str(name) for name in facts["features"]]
            mean, deviation = arrays["mean"], arrays["deviation"]
            if not mean.shape == deviation.shape == (len(features),) or not (deviation > 0.0).all():
                raise ValueError("its scales do not fit its columns")
            with TemporaryDirectory() as folder:
                inner = Path(folder) / "estimator.npz"
                inner.write_bytes(arrays["estimator"].tobytes())
                estimator = _KINDS[facts["kind"]].load(inner)
            units = arrays.get("target_scale")
            target_scale = None if units is None else Scale(units[0], units[1])
            return cls(estimator, tuple(features), str(facts["target"]), Scale(mean, deviation), target_scale)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as damaged:
            raise UnsafeFile(f"{path} is not a model of a table: {damaged}") from damaged
