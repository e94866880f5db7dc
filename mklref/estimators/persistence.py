"""Models in one .npz file of numbers and text, without pickle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import fields, is_dataclass
from os import PathLike
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mklref import losses, regularizers
from mklref._files import read_arrays, require_format, well_formed, write_arrays
from mklref._typing import Array
from mklref._untrusted import numbers_of
from mklref.certificate import Bounds, Certificate
from mklref.estimators import saved
from mklref.estimators.blocks import SparseFamily
from mklref.estimators.factors import FactorFamily
from mklref.estimators.gram import PRECOMPUTED, NewKernels, Precomputed, family_of
from mklref.estimators.saved import require_model
from mklref.exceptions import InvalidParameter, UnsafeFile
from mklref.kernels import FittedFamily
from mklref.kernels.fitted import grouped
from mklref.kernels.transforms import Centering, Transform
from mklref.solution import require_names

_FORMAT = "mklref-estimator-2"
_KNOWN = {name: kind for home in (losses, regularizers) for name, kind in vars(home).items() if isinstance(kind, type)}
"""Losses and regularisers by name; nothing else is ever made from a file."""
_FITTED = ("weights_", "dual_coef_", "intercept_", "support_", "_columns")
_UNITS = ("y_mean_", "y_scale_")
"""Of a regressor, whose machine may have other units."""


class Persistent(BaseEstimator):  # type: ignore[misc]
    """`save` and `load` for the estimators."""

    _fitted_with: dict[str, Any]
    """The parameters of the fit. Those that are set later are for the next one: scores and files know these."""

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """A fit is whole or has not been: where it fails or is interrupted, the estimator is what it was."""
        before = dict(self.__dict__)
        try:
            yield
        except ConvergenceWarning:  # which comes after the fit, if it is made an error
            raise
        except BaseException:
            self.__dict__ = before  # at once: no second Ctrl-C comes between
            raise

    def _remember_parameters(self) -> None:
        self._fitted_with = {
            name: deepcopy(value) if isinstance(value, list | dict) else value
            for name, value in self.get_params(deep=False).items()
        }

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as it was fitted, as an .npz of plain arrays; no pickle.

        Parameters that were set after the fit are not written.

        Raises
        ------
        InvalidParameter
            Kernels that are not a specification or precomputed, parameters that are no plain values, or a name that
            ends as those of other formats do: .mat, .h5, .hdf5, .json.
        NotFittedError
            Nothing to save.
        OSError
            As `open` does. What was at the path before is there still.
        """
        write_arrays(path, *self.content())

    def content(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arrays and facts that `save` writes; raises what it raises."""
        check_is_fitted(self)
        kernels = self._fitted_with["kernels"]
        if not all(isinstance(text, str) for text in (kernels if isinstance(kernels, list | tuple) else [kernels])):
            raise InvalidParameter(
                "kernels are functions or families, which a file of numbers cannot hold: write them as a specification "
                "such as 'linear,rbf:0.5..20:8', or save with joblib.dump."
            )
        if isinstance(self._new_kernels, FactorFamily):
            raise InvalidParameter("a model of approximated kernels is saved with joblib.dump.")
        if isinstance(self._new_kernels, SparseFamily):
            raise InvalidParameter("a model of sparse samples is saved with joblib.dump; or fit it to X.toarray().")
        arrays = {name.strip("_"): getattr(self, name) for name in _FITTED}
        arrays |= _transforms_to_arrays(self._new_kernels, self._fitted_with)
        facts: dict[str, Any] = {
            "format": _FORMAT,
            "estimator": type(self).__name__,
            "parameters": {name: to_plain(value, name) for name, value in self._fitted_with.items()},
            "n_features_in": int(self.n_features_in_),
            "n_iter": int(self.n_iter_),
            "kernel_names": list(self.kernel_names_),
            "certificates": [vars(bounds) for bounds in np.atleast_1d(np.array(self.certificate_, dtype=object))],
        }
        if isinstance(self._new_kernels, Precomputed):
            arrays["kept"] = self._new_kernels.samples
            facts |= {"n_training": self._new_kernels.n_training, "last": bool(self._new_kernels.last)}
        else:
            arrays["samples"] = self._new_kernels.samples
        if hasattr(self, "y_scale_"):
            facts |= {name.strip("_"): getattr(self, name) for name in _UNITS}
        if hasattr(self, "classes_"):
            arrays["classes"] = _plain_classes(self.classes_)
        if hasattr(self, "feature_names_in_"):
            facts["feature_names_in"] = list(self.feature_names_in_)
        if self._labels is not None:
            facts["labels"] = self._labels
        return arrays, facts

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read what `save` wrote.

        Raises
        ------
        UnsafeFile
            Damaged, truncated, hostile or foreign files, and models of another class.
        """
        return cls._loaded(*read_arrays(path), path)

    @classmethod
    def _loaded(cls, arrays: dict[str, Any], facts: dict[str, Any], path: str | PathLike[str]) -> Self:
        facts = {name: fact for name, fact in facts.items() if name != "search"}  # which its own class reads
        require_format(path, facts.get("format"), _FORMAT, saved.FIRST)
        if facts.get("estimator") != cls.__name__:
            raise UnsafeFile(f"{path} holds a {facts.get('estimator')}; load it with {facts.get('estimator')}.load.")
        with well_formed(path, f"a saved {cls.__name__}"):
            names = cls._get_param_names()
            facts = saved.completed(facts, names)
            if facts["format"] == saved.FIRST:
                arrays, facts = saved.upgraded(arrays, facts, _FORMAT)
            require_model(names, issubclass(cls, ClassifierMixin), arrays, facts)
            return cls._restored(arrays, facts)

    @classmethod
    def _restored(cls, arrays: dict[str, Any], facts: dict[str, Any]) -> Self:
        model = cls(**{name: from_plain(value) for name, value in facts["parameters"].items()})
        model._remember_parameters()
        for name in _FITTED:
            setattr(model, name, arrays[name.strip("_")])
        model.n_features_in_, model.n_iter_ = facts["n_features_in"], facts["n_iter"]
        model.kernel_names_ = tuple(facts["kernel_names"])
        kinds = [Certificate if "better_upper" in bounds else Bounds for bounds in facts["certificates"]]
        certificates = tuple(kind.from_dict(own) for kind, own in zip(kinds, facts["certificates"], strict=True))
        model.certificate_ = certificates if model.weights_.ndim == 2 else certificates[0]
        if "classes" in arrays:
            model.classes_ = arrays["classes"]
        for name in _UNITS:
            if name.strip("_") in facts:
                setattr(model, name, float(facts[name.strip("_")]))
        if "feature_names_in" in facts:
            model.feature_names_in_ = np.array(facts["feature_names_in"], dtype=object)
        model._labels = facts.get("labels")
        model._new_kernels = _new_kernels(model, arrays, facts)
        return model


def _new_kernels(model: Any, arrays: dict[str, Any], facts: dict[str, Any]) -> NewKernels:
    """The kernels of positive weight; with all of them the groups."""
    active = model._active
    transforms = _transforms_from_arrays(arrays, len(active))
    M = len(model.kernel_names_)
    if model.kernels == PRECOMPUTED:
        own, names = tuple(map(int, active)), tuple(model.kernel_names_[m] for m in active)
        return Precomputed(arrays["kept"], own, transforms, names, facts["n_training"], facts["last"], M)
    variables = variables_of(model)
    kernels = family_of(model.kernels).expand(variables)
    if list(model.kernel_names_) != (own_names := [kernel.name(variables) for kernel in kernels]):
        raise ValueError(f"its kernels are {', '.join(own_names[:8])}, not {', '.join(model.kernel_names_[:8])}")
    if any(kernel.takes_text != (arrays["samples"].dtype.kind == "U") for kernel in kernels):
        raise ValueError("its kernels do not take its samples")
    model.kernel_groups_ = grouped(kernels, variables)
    own, names = (tuple(several[m] for m in active) for several in (kernels, model.kernel_names_))
    return FittedFamily(arrays["samples"], own, transforms, names, tuple(getattr(model, "feature_names_in_", ())))


def variables_of(model: Any) -> list[str]:
    """The names of the variables, x0, x1, ... where there are none."""
    return [str(name) for name in getattr(model, "feature_names_in_", (f"x{j}" for j in range(model.n_features_in_)))]


def _transforms_to_arrays(new: Any, parameters: dict[str, Any]) -> dict[str, Array]:
    """All kernels are transformed in the same way, so that each statistic is one array over the kernels."""
    arrays: dict[str, Array] = {}
    centerings = [transform.centering for transform in new.transforms]
    if parameters["center"]:
        arrays["means"] = np.reshape([own.means for own in centerings], (-1, new.n_samples))
        arrays["totals"] = np.array([own.total for own in centerings], dtype=np.float64)
        if centerings and centerings[0].shares is not None:
            arrays["shares"] = centerings[0].shares
    if parameters["normalize"] == "spherical":
        arrays["norms"] = np.reshape([own.norms for own in new.transforms], (-1, new.n_samples))
    elif parameters["normalize"] is not None:
        arrays["factors"] = np.array([own.scale for own in new.transforms], dtype=np.float64)
    return arrays


def _transforms_from_arrays(arrays: dict[str, Any], M: int) -> tuple[Transform, ...]:
    none: list[Any] = [None] * M
    centerings, shares = none, arrays.get("shares")
    if "means" in arrays:
        pairs = zip(arrays["means"], arrays["totals"].tolist(), strict=True)
        centerings = [Centering(means, total, shares) for means, total in pairs]
    scales = arrays["factors"].tolist() if "factors" in arrays else none
    return tuple(map(Transform, centerings, scales, arrays.get("norms", none)))


def _plain_classes(classes: Any) -> Any:
    if classes.dtype.kind in "biufU":
        return classes
    if not all(isinstance(name, str) for name in classes):
        raise InvalidParameter(
            f"the classes are {classes.dtype}, other than text; give numbers or text as y, or use joblib.dump."
        )
    return classes.astype(str)


def to_plain(value: Any, name: str) -> Any:
    """A parameter as JSON can hold it."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return {"array": value.tolist()}
    if isinstance(value, list | tuple):
        return [to_plain(entry, name) for entry in value]
    if isinstance(value, dict):
        return {"pairs": [[to_plain(key, name), to_plain(entry, name)] for key, entry in value.items()]}
    if is_dataclass(value) and _KNOWN.get(type(value).__name__) is type(value):
        given = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        return {"class": type(value).__name__, "fields": {key: to_plain(entry, name) for key, entry in given.items()}}
    raise InvalidParameter(f"{name} = {value!r} cannot be saved without pickle; save with joblib.dump.")


def from_plain(value: Any) -> Any:
    """The inverse of `to_plain`."""
    if isinstance(value, list):
        return tuple(from_plain(entry) for entry in value)
    if isinstance(value, dict) and set(value) == {"array"}:
        return numbers_of(value["array"])
    if isinstance(value, dict) and set(value) == {"pairs"}:
        found = {from_plain(key): from_plain(entry) for key, entry in value["pairs"]}
        if len(found) < len(value["pairs"]):
            raise ValueError(f"a key is there twice in {value['pairs']}")
        return found
    if isinstance(value, dict):
        require_names(value, ("class", "fields"), "entries")
        kind = _KNOWN[value["class"]]
        require_names(
            value["fields"], [field.name for field in fields(kind) if field.init], f"fields of {kind.__name__}"
        )
        return kind(**{key: from_plain(entry) for key, entry in value["fields"].items()})
    return value
