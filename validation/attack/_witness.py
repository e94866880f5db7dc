"""What plain readers find in a file: `np.load`, `json`, `loadmat`, `h5py`; they ask for nothing but one meaning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy.io import loadmat

_UNCHECKED = ("format", "name", "lower", "upper", "hex", "status", "solver", "certificate")
"""What a record says that is no part of a problem or of a point."""


def differences(stated: dict[str, Any], found: dict[str, Any]) -> str | None:
    """The first name of a record that was read as something else than what is stated, or None."""
    for name, value in stated.items():
        if name in _UNCHECKED or name.startswith("info_"):
            continue
        if name == "kernels" and np.ndim(value) == 3:  # asymmetry up to rounding is averaged, with a warning
            value = 0.5 * (np.asarray(value) + np.swapaxes(value, 1, 2))
        if name not in found or not same(value, found[name]):
            return f"{name} = {value!r} in the file was read as {found.get(name)!r}"
    return None


def same(one: Any, other: Any) -> bool:
    """Whether two entries are the same text, or the same real numbers in whatever shape."""
    if isinstance(other, str):
        return str(one) == other
    if isinstance(one, list):
        one = list(map(_number, one))
    one, other = np.asarray(_number(one)), np.asarray(other)
    if one.dtype.kind not in "biuf" or (one.dtype.kind == "b" and one.size > 1):
        return False
    return one.size == other.size and np.allclose(one.ravel(), other.ravel(), rtol=1e-9, atol=0.0, equal_nan=True)


def _number(value: Any) -> Any:
    """An integer of any length, or the text of an infinity, as a float."""
    finite = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if finite or (isinstance(value, str) and value in ("inf", "-inf", "nan")) else value


def witness(path: Path) -> dict[str, Any]:
    """What a plain reader of the format finds."""
    if path.suffix == ".npz":
        arrays, facts = npz(path)
        return {**facts, **{name: str(a) if a.dtype.kind == "U" and not a.ndim else a for name, a in arrays.items()}}
    if path.suffix == ".mat" and path.name != "p73.mat":
        found = {name: value for name, value in loadmat(path).items() if not name.startswith("__")}
        texts = {name: "".join(value.ravel()) for name, value in found.items() if value.dtype.kind == "U"}
        if "kernels" in found:
            found["kernels"] = np.moveaxis(np.atleast_3d(found["kernels"]), -1, 0)
        return {**found, **texts}
    if path.suffix == ".h5" or path.name == "p73.mat":
        with h5py.File(path) as file:
            return {name: _of_hdf5(data) for name, data in file.items() if name != "#refs#"}
    facts = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=once)
    for name, value in list(facts.items()):
        if value is None:
            del facts[name]
        elif isinstance(value, dict) and name != "hex":
            lines = path.with_name(value["file"]).read_text(encoding="utf-8").splitlines()
            facts[name] = [[float(cell) for cell in line.split(",")] for line in lines if line.strip()]
    return facts


def _of_hdf5(data: Any) -> Any:
    if data.attrs.get("MATLAB_class") == b"char":
        return "".join(map(chr, data[:, 0]))
    return data.asstr()[()] if h5py.check_string_dtype(data.dtype) else data[()]


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, for `object_pairs_hook`, that has every key once."""
    if len(dict(pairs)) < len(pairs):
        raise AssertionError(f"a key is there twice: {[name for name, _ in pairs]}")
    return dict(pairs)


def npz(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays and the facts of an archive in which every name is there once."""
    with np.load(path) as archive:
        names = archive.zip.namelist()
        arrays = {name: archive[name] for name in archive.files}
    if len({name.removesuffix(".npy") for name in names}) < len(names):
        raise AssertionError(f"a name is there twice: {names}")
    text = arrays.pop("facts", None)
    return arrays, {} if text is None else json.loads(text.tobytes(), object_pairs_hook=once)
