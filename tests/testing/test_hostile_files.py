"""Files that are damaged or meant to harm: nothing outside them is read, and no size is believed."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import struct
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from makers import make_problem
from scipy.io import savemat
from scipy.sparse import csc_array

from mklref._files import write_arrays
from mklref.exceptions import InvalidInput, UnsafeFile
from mklref.testing.vectors import read_problem, read_record, record_of_problem, write_record

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
    ["../secret.csv", "/etc/passwd", "..", "", "sub/p.csv", "..\\secret.csv", 3, None, ["p.kernels.csv"], "a\0b"],
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
    "shape",
    [
        [True, 4, 4],
        [2, 4, 10**30],
        [2, 4, 400000],
        [10**9, 10**9, 4],
        [2, 4],
        [2, -4, 4],
        [2.0, 4, 4],
        "many",
        [32],
        [1, 4, 4],
    ],
)
def test_shapes_are_compared_with_the_file(tmp_path, shape):
    with pytest.raises(UnsafeFile, match="shape"):
        read_record(json_with(tmp_path, shape=shape))


@pytest.mark.parametrize(
    "text", ["", "[1, 2]", '{"y": [["1"]]}', '{"y": [true]}', '{"y": {"a": 1}}', '{"y": [1, "x"]}']
)
def test_damaged_json(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(UnsafeFile):
        read_record(tmp_path / "p.json")


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda text: text.replace("0.", "z.", 1),
        lambda text: f"#{text}",
        lambda text: text.replace(",", ";"),
        lambda text: text.replace(",", ";").replace(".", ","),
    ],
)
def test_what_is_no_number_in_a_table_is_damage_and_no_comment(tmp_path, spoilt):
    path = json_with(tmp_path)
    table = tmp_path / "p.kernels.csv"
    table.write_text(spoilt(table.read_text()))
    with pytest.raises(UnsafeFile, match=r"p\.kernels\.csv is damaged, or no plain table, .* commas between them"):
        read_record(path)


def test_tables_are_never_unpacked(tmp_path):
    """A name that ends in .gz would have let a reader unpack what was measured packed."""
    path = json_with(tmp_path, file="p.kernels.csv.gz")
    numbers = ("0," * 10**6).encode()
    (tmp_path / "p.kernels.csv.gz").write_bytes(gzip.compress(numbers)[:300])
    with pytest.raises(UnsafeFile, match=r"p\.kernels\.csv\.gz is damaged, .*'utf-8' codec"):
        read_record(path)


def test_tables_have_no_further_fields(tmp_path):
    with pytest.raises(UnsafeFile, match="has the fields file, shape, order; expected file and shape"):
        read_record(json_with(tmp_path, order="F"))


def test_a_typed_array_of_javascript_is_recognised_by_its_indices(tmp_path):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"dual_coef": {str(k): 0.5 for k in range(1797)}}))
    with pytest.raises(UnsafeFile, match=r"the fields 0, 1, 2, 3, 4, 5, \.\.\.; .*stringify\(Array\.from\(x\)\)\.$"):
        read_record(path)


def test_facts_and_arrays_of_an_archive_have_different_names(tmp_path):
    write_arrays(tmp_path / "p.npz", {"kernels": np.eye(2)[None], "y": np.ones(2), "C": np.array(1.0)}, {"C": 2.0})
    with pytest.raises(UnsafeFile, match="has 'C' as an array and among its facts"):
        read_record(tmp_path / "p.npz")


def test_facts_that_are_no_scalars_are_not_passed_over(tmp_path):
    arrays = {"kernels": np.eye(2)[None], "y": np.array([1.0, -1.0])}
    write_arrays(tmp_path / "p.npz", arrays, {"sample_weights": [1.0, 2.0]})
    with pytest.raises(InvalidInput, match=r"sample_weights \(is sample_weight meant\?\)"):
        read_problem(tmp_path / "p.npz")


# MAT and HDF5


def test_mat_files_unpack_to_no_more_than_allowed(tmp_path):
    path = tmp_path / "bomb.mat"
    savemat(path, {"kernels": np.zeros((300, 300))}, do_compression=True)
    assert path.stat().st_size < 5000
    with pytest.raises(UnsafeFile, match="unpacks to more than the 100000 bytes"):
        read_record(path, max_bytes=100_000)
    with pytest.raises(UnsafeFile, match="at most 100 are read"):
        read_record(path, max_bytes=100)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": 1.0}, "structure (save -struct"),
        (np.array([1.0, "x"], dtype=object), "cell array (one of matrices is cat(3, c{:})"),
        (csc_array(np.eye(2)), "sparse matrix (write full(A))"),
        (np.eye(2) * 1j, "complex numbers"),
    ],
    ids=["struct", "cell", "sparse", "complex"],
)
def test_mat_files_hold_numbers_and_texts_only(tmp_path, value, said):
    savemat(tmp_path / "p.mat", {"kernels": value})
    with pytest.raises(UnsafeFile, match=re.escape(said)):
        read_record(tmp_path / "p.mat")


def mat_header() -> bytes:
    return b"MATLAB 5.0 MAT-file".ljust(124, b" ") + b"\x00\x01IM"


def element(kind: int, content: bytes) -> bytes:
    padding = 0 if kind == 15 else -len(content) % 8
    return kind.to_bytes(4, "little") + len(content).to_bytes(4, "little") + content + bytes(padding)


def matrix(shape, data: bytes, kind: int = 6) -> bytes:
    dims = b"".join(int(k).to_bytes(4, "little", signed=True) for k in shape)
    return element(
        14, element(6, bytes([kind, 0, 0, 0]) + bytes(4)) + element(5, dims) + element(1, b"y") + element(9, data)
    )


def test_the_handmade_mat_file_is_sound(tmp_path):
    """The baseline of the hostile ones below."""
    (tmp_path / "p.mat").write_bytes(mat_header() + matrix((2, 1), np.array([1.0, -1.0]).tobytes()))
    assert read_record(tmp_path / "p.mat")["y"].tolist() == [1.0, -1.0]


def test_texts_of_a_mat_file_are_one_row(tmp_path):
    savemat(tmp_path / "p.mat", {"loss": np.array(["hinge", "huber"])})
    with pytest.raises(UnsafeFile, match="'loss' is a matrix of characters with 2 rows; expected one text"):
        read_record(tmp_path / "p.mat")
    savemat(tmp_path / "p.mat", {"loss": "hinge", "name": "", "info_unit": "µ", "info_none": np.zeros((0, 2))})
    found = read_record(tmp_path / "p.mat")
    assert (found["loss"], found["name"], found["info_unit"], found["info_none"].size) == ("hinge", "", "µ", 0)


def packed(content: bytes) -> bytes:
    return element(15, zlib.compress(content))


ONE, TWO = (matrix((1, 1), np.float64(value).tobytes()) for value in (1.0, 2.0))
HOSTILE = {
    "more than it says": (matrix((2, 1), np.ones(2).tobytes() + bytes(8)), "claims the shape"),
    "one axis": (matrix((2,), np.ones(2).tobytes()), "claims the shape"),
    "huge": (matrix((2**30, 2**30), bytes(16)), "claims the shape"),
    "negative": (matrix((-1, 2), bytes(16)), "claims the shape"),
    "cell": (matrix((2, 1), bytes(16), kind=1), "'y' is a cell array"),
    "object": (matrix((2, 1), bytes(16), kind=3), "'y' is an object"),
    "characters as floats": (matrix((2, 1), bytes(16), kind=4), "'y', of MATLAB class 4, is stored as items of type 9"),
    "no parts": (element(14, b""), "a matrix of 0 parts"),
    "flags only": (element(14, element(6, bytes(8))), "a matrix of 1 parts"),
    "bare": (element(9, bytes(8)), "an element of type 9"),
    "long": (struct.pack("<II", 14, 2**31) + bytes(8), "an element claims 2147483648 bytes and has 8"),
    "packed huge": (packed(matrix((2**20, 2**10), bytes(16))), "claims the shape"),
    "packed truncated": (packed(matrix((2, 1), bytes(16)))[:-6], "an element claims|truncated|damaged"),
    "packed nonsense": (element(15, b"nonsense"), "is damaged"),
    "short": (bytes(5), "is truncated"),
    "twice": (ONE + TWO, "holds 2 variables of the name 'y'"),
    "packed twice": (packed(ONE) + packed(TWO), "holds 2 variables of the name 'y'"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_mat_files(tmp_path, what):
    content, said = HOSTILE[what]
    (tmp_path / "p.mat").write_bytes(mat_header() + content)
    with pytest.raises(UnsafeFile, match=said):
        read_record(tmp_path / "p.mat")


def test_no_mat_file_at_all_and_one_without_variables(tmp_path):
    (tmp_path / "p.mat").write_bytes(b"kernels = eye(3)")
    with pytest.raises(UnsafeFile, match="is not a MAT file of version 5 to 7"):
        read_record(tmp_path / "p.mat")
    (tmp_path / "p.mat").write_bytes(mat_header())
    assert read_record(tmp_path / "p.mat") == {}


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


HUGE = {"shape": (10**5, 10**5), "dtype": "f8", "chunks": (100, 100), "compression": "gzip"}
BYTES = {"data": [[b"a", b"b"]], "dtype": h5py.special_dtype(vlen=bytes)}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda file: file.create_dataset("C", **HUGE), "unpacks to 80000000000 bytes; at most 4294967296 are read"),
        (lambda file: file.create_dataset("C", **BYTES), "expected numbers or a text"),
        (lambda file: file.create_group("C"), "'C' is a group; expected numbers or a text"),
        (lambda file: file.create_dataset("C", data=h5py.Empty("f8")), "'C' is empty, without a shape"),
        (lambda file: file.create_dataset("C", data=2.0 + 1.0j), "'C' holds items of type complex128"),
    ],
)
def test_hdf5_of_hostile_size_and_type(tmp_path, make, says):
    with h5py.File(tmp_path / "p.h5", "w") as file:
        make(file)
    assert (tmp_path / "p.h5").stat().st_size < 10**5
    with pytest.raises(UnsafeFile, match=says):
        read_record(tmp_path / "p.h5")


def test_what_begins_like_hdf5_and_is_none(tmp_path):
    (tmp_path / "p.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50))
    with pytest.raises(UnsafeFile, match="is not a readable HDF5 file"):
        read_record(tmp_path / "p.h5")


def matlab_7_3(path, content) -> None:
    """A file of version 7.3 with these data sets: (values, class, whether it is empty)."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, (values, kind, empty) in content.items():
            file[name] = values
            file[name].attrs["MATLAB_class"] = np.bytes_(kind)
            if empty:
                file[name].attrs["MATLAB_empty"] = np.uint8(1)
        file.create_group("#refs#")


def test_texts_and_empty_arrays_of_matlab_7_3(tmp_path):
    letters = np.array([[ord(letter)] for letter in "hinge"], dtype=np.uint16)
    shape = np.array([0, 0], dtype=np.uint64)
    matlab_7_3(
        tmp_path / "p.mat", {"loss": (letters, b"char", 0), "name": (shape, b"char", 1), "w": (shape, b"double", 1)}
    )
    found = read_record(tmp_path / "p.mat")
    assert (found["loss"], found["name"], found["w"].size) == ("hinge", "", 0)
    for bad in (letters.astype(float), np.hstack([letters, letters]), letters.ravel()):
        matlab_7_3(tmp_path / "p.mat", {"loss": (bad, b"char", 0)})
        with pytest.raises(UnsafeFile, match="is not one row of characters"):
            read_record(tmp_path / "p.mat")
