"""Changes of a file: of its bytes, of the members of an archive, of the keys and values of JSON, of arrays."""

from __future__ import annotations

import gzip
import io
import json
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy.io import loadmat, savemat

Rng = np.random.Generator
Mutation = Callable[[Path, Rng], None]

LITERALS = (
    "true", "false", "null", "NaN", "Infinity", "-1", "0", "1", "2", "0.5", "1e999", "1e-400", "-0.0", "1e308",
    "9" * 400, "1" * 5000, "1" + "0" * 31,
    '""', '"x"', '"2.9"', '"inf"', '"0x1p+0"', '"0x1.8000000000000p+1"', '"\\ud800"', '"\\u001b[2J"',
    "[]", "{}", "[[]]", "[1]", "[true]", '["1"]', "[[1,2],[3]]", '{"0": 1}', '{"class": "Path", "fields": {}}',
    '{"file": "x.csv.gz", "shape": [2, 6, 6]}', '{"file": "/etc/passwd", "shape": [1, 1]}',
)  # fmt: skip
"""What a value may be replaced by."""

CELLS = (
    "", "nan", "inf", "1e999", "1_0", "0x10", "\u0661", "1,5", '"', '"a""b"', "\0", "x" * 10**5, "9" * 5000, " 1 ",
    "#", "\u2028",
)  # fmt: skip
"""What the cell of a table may be replaced by."""


OTHERS: tuple[Any, ...] = ("hinge", "", np.array(["hinge", "huber"]), {"a": 1}, 2j, True, np.zeros((0, 0)))
"""What a variable of MATLAB may be replaced by."""


class Literal:
    """A piece of JSON that `json` would not write."""

    def __init__(self, text: str) -> None:
        self.text = text


def dump(value: Any, rng: Rng, twice: Any = None) -> str:
    """JSON, where `twice` is an object of which one key is written twice."""
    if isinstance(value, Literal):
        return value.text
    if isinstance(value, list):
        return "[" + ", ".join(dump(entry, rng, twice) for entry in value) + "]"
    if isinstance(value, dict):
        pairs = list(value.items())
        if value is twice and pairs:
            name, own = pairs[rng.integers(len(pairs))]
            other = Literal(LITERALS[rng.integers(len(LITERALS))]) if rng.random() < 0.7 else own
            pairs.insert(int(rng.integers(len(pairs) + 1)), (name, other))
        return "{" + ", ".join(f"{json.dumps(name)}: {dump(entry, rng, twice)}" for name, entry in pairs) + "}"
    return json.dumps(value)


def change_json(text: str, rng: Rng) -> str:
    """One key or value deleted, doubled, renamed, added, exchanged or replaced."""
    document = json.loads(text)
    places = list(_containers(document))
    place = places[rng.integers(len(places))] if rng.random() < 0.7 else places[0]
    keys = list(place) if isinstance(place, dict) else list(range(len(place)))
    kind = rng.integers(6)
    literal = Literal(LITERALS[rng.integers(len(LITERALS))])
    if not keys or kind == 0:
        if isinstance(place, dict):
            place[["optimal", "C", "info_x", "facts", ""][rng.integers(5)]] = literal
        else:
            place.append(literal)
        return dump(document, rng)
    key = keys[rng.integers(len(keys))]
    if kind == 1:
        del place[key]
    elif kind == 2 and isinstance(place, dict):
        return dump(document, rng, twice=place)
    elif kind == 3 and isinstance(place, dict):
        place[str(key) + "s"] = place.pop(key)
    elif kind == 4:
        other = keys[rng.integers(len(keys))]
        place[key], place[other] = place[other], place[key]
    else:
        place[key] = literal
    return dump(document, rng)


def _containers(value: Any) -> Any:
    if isinstance(value, dict | list):
        yield value
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _containers(entry)


def change_bytes(data: bytes, rng: Rng) -> bytes:
    """Bits flipped, bytes set, ranges deleted, doubled, exchanged or moved to the end."""
    content = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        if not content:
            break
        a, b = sorted(rng.integers(0, len(content) + 1, size=2))
        b = int(min(b, a + 1 + rng.integers(64)))
        a = int(min(a, len(content) - 1))
        kind = rng.integers(7)
        if kind == 0:
            content[a] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            content[a] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, ord("0"), ord("9"), ord(","), ord('"'), ord("-")]))
        elif kind == 2:
            del content[a:b]
        elif kind == 3:
            content[b:b] = content[a:b]
        elif kind == 4:
            del content[a:]
        elif kind == 5:
            content[a:b] = bytes(rng.integers(0, 256, size=b - a, dtype=np.uint8))
        else:
            content += content[a:b]
    return bytes(content)


def bytes_of(path: Path, rng: Rng) -> None:
    """The bytes of the file, of a gzip file in half of the cases those that it holds."""
    if path.suffix == ".gz" and rng.random() < 0.5:
        path.write_bytes(gzip.compress(change_bytes(gzip.decompress(path.read_bytes()), rng)))
    else:
        path.write_bytes(change_bytes(path.read_bytes(), rng))


def json_of(path: Path, rng: Rng) -> None:
    """A key or value of the document."""
    path.write_text(change_json(path.read_text(encoding="utf-8"), rng), encoding="utf-8")


def cells_of(path: Path, rng: Rng) -> None:
    """A cell of the table, a row or a name of the header."""
    packed = path.suffix == ".gz"
    raw = (gzip.decompress if packed else bytes)(path.read_bytes())
    rows = [line.split(",") for line in raw.decode().splitlines()]
    i, kind = int(rng.integers(len(rows))), rng.integers(5)
    j = int(rng.integers(len(rows[i])))
    if kind == 0:
        rows[i].pop(j)
    elif kind == 1:
        rows[i].insert(j, rows[i][j])
    elif kind == 2:
        rows.insert(i, rows[i])
    else:
        rows[i][j] = CELLS[rng.integers(len(CELLS))]
    text = "\n".join(",".join(row) for row in rows).encode()
    path.write_bytes(gzip.compress(text) if packed else text)


def change_array(array: Any, rng: Rng) -> Any:
    """Another type, shape or entry."""
    kinds: list[Callable[[], Any]] = [
        lambda: array.astype(complex) + 1j if array.dtype.kind in "biuf" else array[..., None],
        lambda: array.astype(bool) if array.dtype.kind in "biuf" else array[:0],
        lambda: array.astype(str),
        lambda: array.astype(np.float32) if array.dtype.kind == "f" else array,
        lambda: array.astype(">f8") if array.dtype.kind == "f" else array,
        lambda: array.ravel()[:-1],
        lambda: np.concatenate([array.ravel(), array.ravel()[:1]]),
        lambda: array[None],
        lambda: np.asfortranarray(array),
        lambda: np.atleast_1d(array)[::-1],
        lambda: np.zeros((0, *array.shape)),
        lambda: np.array(array.ravel()[0]) if array.size else array,
        lambda: -array if array.dtype.kind in "if" else array,
        lambda: np.array(["2020"], dtype="M8[Y]"),
        lambda: np.array([None, {}], dtype=object),
    ]
    if array.dtype.kind == "f" and array.size and rng.random() < 0.4:
        spoiled = array.copy()
        spoiled.flat[rng.integers(array.size)] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -1.0, 1e300, 1e-320])
        return spoiled
    return kinds[rng.integers(len(kinds))]()


def npy(array: Any) -> bytes:
    """An array as a .npy file."""
    np.lib.format.write_array(file := io.BytesIO(), array, allow_pickle=True)
    return file.getvalue()


def members_of(path: Path, rng: Rng) -> None:
    """A member of the archive deleted, doubled, shadowed, renamed, exchanged or changed inside, with true checksums."""
    with zipfile.ZipFile(path) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    k, other = (int(i) for i in rng.integers(len(members), size=2))
    name, content = members[k]
    kind = rng.integers(10)
    if kind == 0:
        members.pop(k)
    elif kind == 1:
        members.insert(int(rng.integers(len(members) + 1)), (name, members[other][1]))
    elif kind == 2:
        members.insert(int(rng.integers(len(members) + 1)), (name.removesuffix(".npy"), members[other][1]))
    elif kind == 3:
        others = [name.removesuffix(".npy"), "x.npy", name.upper(), "facts.npy", "../" + name]
        members[k] = (others[rng.integers(len(others))], content)
    elif kind == 4:
        members[k] = (name, members[other][1])
    elif kind == 5:
        members[k] = (name, change_bytes(content[:128], rng) + content[128:])
    elif kind == 6:
        members[k] = (name, change_bytes(content, rng))
    else:
        array = np.lib.format.read_array(io.BytesIO(content))
        if name == "facts.npy":
            text = change_json(array.tobytes().decode(), rng)
            members[k] = (name, npy(np.frombuffer(text.encode(), dtype=np.uint8)))
        else:
            members[k] = (name, npy(change_array(array, rng)))
    method = zipfile.ZIP_DEFLATED if rng.random() < 0.9 else zipfile.ZIP_BZIP2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile's, of a name that is there twice
        with zipfile.ZipFile(path, "w", method) as archive:
            for member in members:
                archive.writestr(*member)


def inner_of(path: Path, rng: Rng) -> None:
    """A member of the archive that is the array `estimator` of this one."""
    with np.load(path) as archive:
        arrays = dict(archive)
    inner = path.with_name("inner.npz")
    inner.write_bytes(arrays["estimator"].tobytes())
    members_of(inner, rng)
    np.savez(path, **{**arrays, "estimator": np.frombuffer(inner.read_bytes(), dtype=np.uint8)})


def datasets_of(path: Path, rng: Rng) -> None:
    """A data set of an HDF5 file deleted, or replaced by another array, an empty one, a text, a group or a link."""
    with h5py.File(path, "r+") as file:
        names = [name for name in file if name[0] != "#"]
        name = names[rng.integers(len(names))]
        old, facts = file[name][()], dict(file[name].attrs)
        if facts and rng.random() < 0.3:
            file[name].attrs["MATLAB_class"] = np.bytes_([b"char", b"double", b"cell"][rng.integers(3)])
            return
        del file[name]
        kind = rng.integers(10)
        if kind == 0:
            return
        if kind == 1:
            file[name] = h5py.Empty("f8")
        elif kind == 2:
            file.create_group(name)
        elif kind == 3:
            file[name] = h5py.SoftLink("/" + names[rng.integers(len(names))])
        elif kind == 4:
            file[name + "s"] = old
        elif kind == 5:
            file[name] = [b"hinge", "hinge", "", b"\xff", np.float64("nan"), True, 2.0 + 1.0j][rng.integers(7)]
        elif kind == 6:
            file.create_dataset(name, shape=(10**6, 10**6), dtype="f8", chunks=(10, 10))
        else:
            array = np.asarray(old)
            new = change_array(array if array.dtype.kind in "biuf" else np.zeros(3), rng)
            file[name] = new if new.dtype.kind in "biufc" else "x"
        if facts and isinstance(file.get(name, getlink=True), h5py.HardLink):
            file[name].attrs.update(facts)


def variables_of(path: Path, rng: Rng) -> None:
    """A variable of a MAT file deleted, renamed, or replaced by another array, a text, a cell or a structure."""
    found = {name: value for name, value in loadmat(path).items() if not name.startswith("__")}
    name = list(found)[rng.integers(len(found))]
    old = found.pop(name)
    kind = rng.integers(5)
    if kind == 1:
        found[name + "s"] = old
    elif kind == 2:
        found[name] = OTHERS[rng.integers(len(OTHERS))]
    elif kind >= 3:
        new = change_array(old if old.dtype.kind in "biuf" else np.zeros(3), rng)
        found[name] = new if new.dtype.kind in "biufcU" else "x"
    savemat(path, found, do_compression=bool(rng.integers(2)), oned_as="column")


def packed_of(path: Path, rng: Rng) -> None:
    """The bytes of one compressed element of a MAT file, packed again."""
    data = path.read_bytes()
    parts, at = [], 128
    while at + 8 <= len(data):
        kind, size = (int(number) for number in np.frombuffer(data, "<u4", 2, at))
        parts.append((kind, data[at + 8 : at + 8 + size]))
        at += 8 + size
    k = int(rng.integers(len(parts)))
    if parts[k][0] == 15:
        parts[k] = (15, zlib.compress(change_bytes(zlib.decompress(parts[k][1]), rng)))
    parts += [parts[k]] * (rng.random() < 0.2)
    path.write_bytes(data[:128] + b"".join(np.array([kind, len(own)], "<u4").tobytes() + own for kind, own in parts))
