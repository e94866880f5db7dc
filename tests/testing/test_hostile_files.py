"""Files that are damaged or meant to harm: nothing outside them is read, and no size is believed."""

from __future__ import annotations

import contextlib
import json
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from makers import make_problem
from scipy.io import savemat

from mklref.exceptions import InvalidInput, UnsafeFile
from mklref.testing.vectors import problem_from_record, read_record, record_of_problem, write_record

# JSON and CSV


def json_with(tmp_path, **changes) -> Path:
    problem = make_problem(n=4, M=2)
    write_record(tmp_path / "p.json", record_of_problem(problem))
    facts = json.loads((tmp_path / "p.json").read_text())
    facts["kernels"] |= changes
    (tmp_path / "p.json").write_text(json.dumps(facts))
    return tmp_path / "p.json"


@pytest.mark.parametrize(
    "file",
    [
        "../secret.csv",
        "/etc/passwd",
        "..",
        "",
        "sub/p.csv",
        "..\\secret.csv",
        3,
        None,
        ["p.kernels.csv"],
        "a\0b",
        "\ud800",
    ],
)
def test_tables_come_from_beside_the_file(tmp_path, file):
    with pytest.raises(UnsafeFile, match=r"give the plain name of a file beside this one|directory|do not fit"):
        read_record(json_with(tmp_path, file=file))


def test_links_to_other_directories_are_refused(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.csv").write_text("1,2\n3,4\n")
    (inside / "link.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(UnsafeFile, match=r"'link\.csv' leads to another directory"):
        read_record(json_with(inside, file="link.csv"))


@pytest.mark.parametrize(
    "shape", [[2, 4, 400000], [10**9, 10**9, 4], [2, 4], [2, -4, 4], [2.0, 4, 4], "many", [32], [1, 4, 4]]
)
def test_shapes_are_compared_with_the_file(tmp_path, shape):
    with pytest.raises(UnsafeFile, match="shape"):
        read_record(json_with(tmp_path, shape=shape))


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", '{"y": {"a": 1}}', '{"y": [1, "x"]}', "[" * 100000])
def test_damaged_json(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(UnsafeFile):
        read_record(tmp_path / "p.json")


def test_damaged_csv(tmp_path):
    path = json_with(tmp_path)
    table = tmp_path / "p.kernels.csv"
    table.write_text(table.read_text().replace("0.", "z.", 1))
    with pytest.raises(UnsafeFile, match=r"p\.kernels\.csv is damaged"):
        read_record(path)


# MAT and HDF5


def test_mat_files_unpack_to_no_more_than_allowed(tmp_path):
    path = tmp_path / "bomb.mat"
    savemat(path, {"kernels": np.zeros((300, 300))}, do_compression=True)
    assert path.stat().st_size < 5000
    with pytest.raises(UnsafeFile, match="unpacks to more than 100000 bytes"):
        read_record(path, max_bytes=100_000)
    with pytest.raises(UnsafeFile, match="at most 100 are read"):
        read_record(path, max_bytes=100)


@pytest.mark.parametrize(
    "value", [{"a": 1.0}, np.array([1.0, "x"], dtype=object), np.eye(2) * 1j], ids=["struct", "cell", "complex"]
)
def test_mat_files_hold_numbers_and_texts_only(tmp_path, value):
    savemat(tmp_path / "p.mat", {"kernels": value})
    with pytest.raises((UnsafeFile, InvalidInput, TypeError)):
        problem_from_record({**read_record(tmp_path / "p.mat"), "y": [1, -1]})


def mat_header() -> bytes:
    return b"MATLAB 5.0 MAT-file".ljust(124, b" ") + b"\x00\x01IM"


def element(kind: int, content: bytes) -> bytes:
    return kind.to_bytes(4, "little") + len(content).to_bytes(4, "little") + content + b"\0" * (-len(content) % 8)


def matrix(shape, data: bytes, kind: int = 6) -> bytes:
    dims = b"".join(int(k).to_bytes(4, "little", signed=True) for k in shape)
    return element(
        14, element(6, bytes([kind, 0, 0, 0]) + bytes(4)) + element(5, dims) + element(1, b"y") + element(9, data)
    )


def test_the_handmade_mat_file_is_sound(tmp_path):
    """The baseline of the hostile ones below."""
    (tmp_path / "p.mat").write_bytes(mat_header() + matrix((2, 1), np.array([1.0, -1.0]).tobytes()))
    assert read_record(tmp_path / "p.mat")["y"].tolist() == [1.0, -1.0]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        matrix((2**30, 2**30), bytes(16)),
        matrix((-1, 2), bytes(16)),
        matrix((2, 1), bytes(16), kind=1),
        matrix((2, 1), bytes(16), kind=3),
        element(14, b""),
        element(14, element(6, bytes(8))),
        element(9, bytes(8)),
        (14).to_bytes(4, "little") + (2**31).to_bytes(4, "little") + bytes(8),
        element(15, zlib.compress(matrix((2**20, 2**10), bytes(16)))),
        element(15, zlib.compress(matrix((2, 1), bytes(16)))[:-6]),
        element(15, b"nonsense"),
        bytes(5),
    ],
    ids=["empty-is-fine", "huge", "negative", "cell", "object", "no-parts", "flags-only", "bare", "long", "packed-huge",
         "packed-truncated", "packed-nonsense", "short"],
)  # fmt: skip
def test_hostile_mat_files(tmp_path, content):
    (tmp_path / "p.mat").write_bytes(mat_header() + content)
    if not content:
        assert read_record(tmp_path / "p.mat") == {}
        return
    with pytest.raises(UnsafeFile):
        read_record(tmp_path / "p.mat")


def test_no_mat_file_at_all(tmp_path):
    (tmp_path / "p.mat").write_bytes(b"kernels = eye(3)")
    with pytest.raises(UnsafeFile, match="is not a MAT file of version 5 to 7"):
        read_record(tmp_path / "p.mat")


def test_every_truncation_of_a_mat_file_is_noticed(tmp_path):
    """Or the file ends between two variables."""
    write_record(tmp_path / "p.mat", record_of_problem(make_problem(n=4, M=2)))
    whole = (tmp_path / "p.mat").read_bytes()
    names = set(read_record(tmp_path / "p.mat"))
    for length in range(0, len(whole), 41):
        (tmp_path / "cut.mat").write_bytes(whole[:length])
        with contextlib.suppress(UnsafeFile):
            assert set(read_record(tmp_path / "cut.mat")) < names


def test_hdf5_reads_nothing_outside_the_file(tmp_path):
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["y"] = np.ones(3)
    secret = tmp_path / "secret.bin"
    secret.write_bytes(np.ones(3).tobytes())

    def link(file):
        file["y"] = h5py.ExternalLink(str(other), "/y")

    def soft(file):
        file["z"], file["y"] = np.ones(3), h5py.SoftLink("/z")

    def external(file):
        file.create_dataset("y", shape=(3,), dtype="f8", external=[(str(secret), 0, 24)])

    def virtual(file):
        layout = h5py.VirtualLayout(shape=(3,), dtype="f8")
        layout[:] = h5py.VirtualSource(str(other), "y", shape=(3,))
        file.create_virtual_dataset("y", layout)

    for make, said in ((link, "is a link"), (soft, "is a link"), (external, "another file"), (virtual, "another file")):
        path = tmp_path / f"{make.__name__}.h5"
        with h5py.File(path, "w") as file:
            make(file)
        with pytest.raises(UnsafeFile, match=said):
            read_record(path)


def test_hdf5_of_hostile_size_and_type(tmp_path):
    path = tmp_path / "p.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("kernels", shape=(10**5, 10**5), dtype="f8", chunks=(100, 100), compression="gzip")
    assert path.stat().st_size < 10**5
    with pytest.raises(UnsafeFile, match="holds more than"):
        read_record(path)
    with h5py.File(path, "w") as file:
        file.create_dataset("kernels", data=[[b"a", b"b"]], dtype=h5py.special_dtype(vlen=bytes))
    with pytest.raises(UnsafeFile, match="expected numbers or a text"):
        read_record(path)
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50))
    with pytest.raises(UnsafeFile, match="is not a readable HDF5 file"):
        read_record(path)
