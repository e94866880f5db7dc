"""What has to hold of a file that is read after it was changed: functions of its path that say what does not.

Before them what plain readers find in it: `np.load`, `json`, `loadmat`, `h5py`, which ask for nothing but one meaning.

All run beside a directory `valid` with the files as they were; they raise what the readers raise.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy.io import loadmat

from mklref import EpsilonInsensitive, Lp, Problem, solve, verify
from mklref.datasets import read_csv
from mklref.datasets.directory import load_from_directory, manifest
from mklref.testing.vectors import read_answer, read_problem, record_of_problem

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


_DEFAULTS = {"C": 1.0, "intercept": 1.0, "loss": "hinge"}


def problem_as_stated(path: Path) -> str | None:
    found = record_of_problem(read_problem(path))
    stated = witness(path)
    missing = {name: value for name, value in _DEFAULTS.items() if name not in stated}
    return differences({**missing, **stated}, found)


def answer_as_stated(path: Path) -> str | None:
    found = {name: value for name, value in asdict(read_answer(path)).items() if value is not None}
    return differences(witness(path), found)


def problem_beside(path: Path) -> str | None:
    return problem_as_stated(path.with_name("p.json"))


def saves_the_same(kind: Any) -> Callable[[Path], str | None]:
    """Whether what was loaded, if it was, writes the same file again."""

    def check(path: Path) -> str | None:
        loaded = kind.load(path)
        loaded.save("case/again.npz")
        (arrays, facts), (again, facts_again) = npz(path), npz(Path("case/again.npz"))
        if "estimator" in arrays:  # a file in the file, whose dates differ
            for own in (arrays, again):
                Path("case/inner.npz").write_bytes(own.pop("estimator").tobytes())
                own |= npz(Path("case/inner.npz"))[0]
        if json.dumps(facts, sort_keys=True) != json.dumps(facts_again, sort_keys=True):
            return f"the facts {facts} became {facts_again}"
        if set(arrays) != set(again) or not all(np.array_equal(arrays[name], again[name]) for name in arrays):
            return f"the arrays {arrays} became {again}"
        return None

    return check


def table_as_stated(path: Path) -> str | None:
    data = read_csv(path)
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = raw.decode("utf-8-sig")
    header, *rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    columns = [name.strip() for name in header]
    if (*data.features, data.target) != tuple(columns):
        return f"the columns {columns} were read as {data.features} and {data.target}"
    X = np.array([[float(cell) for cell in row[:-1]] for row in rows])
    y = [row[-1].strip() for row in rows]
    if not np.array_equal(data.X, X) or not all(_same_target(*pair) for pair in zip(y, data.y.tolist(), strict=True)):
        return f"the table {rows} was read as {data.X} and {data.y}"
    return None


def set_as_listed(path: Path) -> str | None:
    """A set that a manifest lists is the table, whatever else the manifest says."""
    entry = manifest(path.parent).get("mine")
    if entry is None:
        return None
    data = load_from_directory(path.parent, entry)
    return None if np.array_equal(data.X, read_csv(path.with_name("t.csv")).X) else f"read as {data}"


def _same_target(cell: str, target: Any) -> bool:
    return cell == target if isinstance(target, str) else float(cell) == target


def _confirmed(document: Path, data: Path) -> bool:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = verify.main([str(document), str(data)])
    if code not in (0, 1, 2):
        raise AssertionError(f"exit code {code}: {out.getvalue()}")
    return code == 0


def certificate_is_true(path: Path) -> str | None:
    """What is confirmed is a document of the schema, and true of the problem that it states."""
    if not _confirmed(path, path.with_suffix(".npz")):
        return None
    facts = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=once)
    valid = json.loads(Path("valid/c.json").read_text(encoding="utf-8"))
    if _skeleton(facts) != _skeleton(valid):
        return f"confirmed, with other fields: {_skeleton(facts)}"
    stated, (arrays, _) = facts["problem"], npz(path.with_suffix(".npz"))
    p, epsilon = float.fromhex(stated["regularizer"]["p"]), float.fromhex(stated["loss"]["epsilon"])
    problem = Problem(
        arrays["kernels"], arrays["y"], loss=EpsilonInsensitive(epsilon), regularizer=Lp(p),
        intercept=stated["intercept"], sample_weight=[float.fromhex(cost) for cost in stated["costs"]],
    )  # fmt: skip
    truth = solve(problem, tol=1e-9).certificate
    lower, upper = (float.fromhex(facts["claim"][side]) for side in ("lower", "upper"))
    if lower > truth.upper * (1.0 + 1e-9) or upper < truth.lower * (1.0 - 1e-9):
        return f"confirmed [{lower}, {upper}], which excludes {truth}"
    return None


def _skeleton(value: Any) -> Any:
    """The names of a document, and the types of its values."""
    if isinstance(value, dict):
        return {name: _skeleton(entry) for name, entry in sorted(value.items())}
    return [_skeleton(entry) for entry in value] if isinstance(value, list) else type(value).__name__


def data_are_certified(path: Path) -> str | None:
    """What is confirmed are the certified arrays, whoever reads them."""
    if not _confirmed(path.with_suffix(".json"), path):
        return None
    with np.load("valid/c.npz") as arrays:
        valid = {name: arrays[name] for name in arrays.files}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name in valid:
                array = np.lib.format.read_array(io.BytesIO(archive.read(info)))
                if array.dtype != valid[name].dtype or not np.array_equal(array, valid[name]):
                    return f"confirmed, with another array in {info.filename}"
    return None
