"""Files of arrays: what is damaged, hostile or pickled is refused before it takes memory."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import re
import struct
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from makers import array_bytes

import mklref
from mklref import _untrusted
from mklref._files import read_arrays, write_arrays, write_text
from mklref._untrusted import numbers_of, parse_json
from mklref.exceptions import InvalidParameter, UnsafeFile


@pytest.mark.parametrize(
    ("call", "homes"),
    [
        (r"\bnp\.(load|fromfile|memmap)\(|\bZipFile\(", {"_files.py", "verify.py"}),
        (r"\bjson\.loads?\(", {"_untrusted.py", "verify.py"}),
        (r"\bpickle\b.*import|import.*\bpickle\b", {"_crosscheck/rows.py"}),  # an error of its writer
    ],
)
def test_files_of_strangers_are_read_in_one_place(call, homes):
    """The separate checker aside, which imports nothing of the package."""
    package = Path(mklref.__file__).parent
    found = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if re.search(call, file.read_text(encoding="utf-8"))
    }
    assert found == homes


def test_who_writes_into_no_folder_hears_of_the_file_alone(tmp_path):
    path = tmp_path / "none" / "file.npz"
    with pytest.raises(FileNotFoundError) as caught:
        write_arrays(path, {}, {})
    assert str(caught.value) == f"[Errno 2] No such file or directory: {str(path)!r}"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes there")
def test_a_pipe_is_written_if_somebody_reads_it(tmp_path):
    os.mkfifo(pipe := tmp_path / "pipe")
    with pytest.raises(OSError, match=r"a pipe that nobody reads: .*pipe"):
        write_text(pipe, "lost")
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        write_text(pipe, "said")
        assert reader.read() == b"said"


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04" + b"\0" * 30, pickle.dumps([]), array_bytes([1.0])])
def test_files_that_are_no_archives_are_refused(tmp_path, content):
    (tmp_path / "s.npz").write_bytes(content)
    with pytest.raises(UnsafeFile, match=r"s\.npz is not a readable \.npz file"):
        read_arrays(tmp_path / "s.npz")


class Bomb:
    def __reduce__(self):
        return (exec, ("raise SystemExit('a pickle was loaded')",))


def test_pickled_objects_are_never_loaded(tmp_path):
    np.savez(tmp_path / "s.npz", weights=np.array([Bomb()], dtype=object))
    with pytest.raises(UnsafeFile, match=r"member 'weights\.npy' holds pickled Python objects, which are never loaded"):
        read_arrays(tmp_path / "s.npz")


def archive(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members:
            file.writestr(name, content)


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    text = header.encode() + b"\n"
    size = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + data


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}"), "claims 8000000000000 bytes"),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"), "claims"),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4,)}", b"\0" * 31), "is damaged|claims"),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", b"\0" * 8), "damaged|not an array|claims"),
        (npy("{'descr': '|S0', 'fortran_order': False, 'shape': (1000000000000,)}"), "plain numbers or text"),
        (npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}", b"\0" * 8), "plain numbers or text"),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"cos\nsystem\n."), "pickled Python objects"),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (" + "1," * 4**8 + ")}", version=2), "is not an array"),
        (npy("(" * 60000, version=2), "is not an array"),
        (npy("{'descr': '<f8', 'fortran"), "is not an array"),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1L,)}", b"\0" * 8), "is not an array: .*Python 2"),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",)}"), "is not an array"),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 4000 + ",)}"), "claims"),
        (npy("1" + "+1" * 20000), "is not an array"),  # the parser runs out of stack
        (npy("not " * 15000 + "1"), "is not an array"),  # and out of memory, as it says
        (npy("if x:\n    y\n  z"), "is not an array"),
        (npy("{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,)}"), "is not an array"),
        (b"\x93NUMPY\x09\x00", "is not an array"),
        (b"not an array", "is not an array"),
        (b"", "is not an array"),
    ],
)
def test_hostile_members_are_refused_before_memory_is_taken(tmp_path, content, says):
    archive(tmp_path / "s.npz", ("weights.npy", content))
    with pytest.raises(UnsafeFile, match=f"member 'weights.npy'.*({says})"):
        read_arrays(tmp_path / "s.npz")


def test_while_a_file_is_read_the_warnings_of_other_threads_are_none_of_its_business(tmp_path, calls_of):
    """They were errors meanwhile, and for good where two threads read files at a time."""
    write_arrays(tmp_path / "s.npz", {"weights": np.ones(3)}, {})
    before, seen = list(warnings.filters), calls_of(np.lib.format, "read_magic", lambda _: list(warnings.filters))
    read_arrays(tmp_path / "s.npz")
    assert seen == [before, before]


def test_a_directory_that_promises_more_than_there_is(tmp_path):
    buffer = io.BytesIO()
    member = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (500,)}", b"\0" * 80)
    declared = len(member) - 80 + 4000
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("weights.npy", member)
    content = bytearray(buffer.getvalue())
    sizes = content.index(b"PK\x01\x02") + 20
    content[sizes : sizes + 8] = struct.pack("<II", 5000, declared)
    (tmp_path / "s.npz").write_bytes(content)
    with pytest.raises(UnsafeFile, match=r"s\.npz is not a readable \.npz file: (it ends too early\.$|Overlapped)"):
        read_arrays(tmp_path / "s.npz")


def test_other_compressions_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "s.npz", "w", zipfile.ZIP_LZMA) as file:
        file.writestr("weights.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", b"\0" * 8))
    with pytest.raises(UnsafeFile, match=r"member 'weights\.npy' is packed by a method that NumPy does not write"):
        read_arrays(tmp_path / "s.npz")


@pytest.mark.parametrize("facts", [b"{", b"[1]", b'"x"', b"\xff\xfe", b"[" * 100_000, [300.5]])
def test_damaged_facts_and_those_of_another_type_are_refused(tmp_path, facts):
    np.savez(tmp_path / "s.npz", facts=np.frombuffer(facts, np.uint8) if isinstance(facts, bytes) else facts)
    with pytest.raises(UnsafeFile, match="facts"):
        read_arrays(tmp_path / "s.npz")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "names",
    [
        ("y.npy", "y"),
        ("y", "y.npy"),
        ("y.npy", "y.npy"),
        ("y", "y"),
        ("y.npy", "./y.npy"),
        ("/y", "y.npy"),
        ("x.npy", "facts", "y.npy", "facts.npy"),
    ],
)
def test_two_arrays_of_one_name_are_refused(tmp_path, names):
    """np.load takes `y` before `y.npy`, other readers the first or the last: an archive must not depend on it."""
    archive(tmp_path / "s.npz", *((name, array_bytes(np.arange(k + 2.0))) for k, name in enumerate(names)))
    with pytest.raises(UnsafeFile, match=r"holds 2 arrays of the name '(y|facts)'"):
        read_arrays(tmp_path / "s.npz")


def test_bytes_after_an_array_are_refused(tmp_path):
    archive(tmp_path / "s.npz", ("y.npy", array_bytes(np.ones(3)) + bytes(8)))
    with pytest.raises(UnsafeFile, match="claims 24 bytes of data and carries 32"):
        read_arrays(tmp_path / "s.npz")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f8", ">f4", "<i2", "|b1", "<U3", ">U3", "|S2", "<f2"])
def test_arrays_come_back_as_numpy_reads_them(tmp_path, kind, order, rng):
    given = {
        "a": np.asarray(rng.integers(0, 2, size=(3, 4, 2)), order=order).astype(kind, order=order),
        "none": np.zeros((0, 3)).astype(kind),
        "one": np.array(1).astype(kind),
    }
    np.savez(tmp_path / "s.npz", **given)
    found, _ = read_arrays(tmp_path / "s.npz")
    with np.load(tmp_path / "s.npz") as expected:
        for name in given:
            assert (found[name].dtype, found[name].shape) == (expected[name].dtype, expected[name].shape)
            np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.ones(2) * 1j, "plain numbers or text"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "plain numbers or text"),
        (np.array([2], dtype=np.uint8).view(bool), "neither true nor false"),
        (np.array([0x110000], dtype=np.uint32).view("U1"), "what is no character"),
        (np.array([0xD800], dtype=np.uint32).view("U1"), "what is no character"),
    ],
)
def test_items_that_mean_nothing_are_refused(tmp_path, array, says):
    np.savez(tmp_path / "s.npz", y=array)
    with pytest.raises(UnsafeFile, match=says):
        read_arrays(tmp_path / "s.npz")


def test_the_limit_is_set_in_the_environment(tmp_path, monkeypatch):
    np.savez_compressed(
        tmp_path / "s.npz", x=np.zeros(2**19), y=np.zeros(2**19)
    )  # 8 MiB, all members together, in 8 kB
    with pytest.raises(UnsafeFile, match=r"at most 1000 are read\. If you trust the file, set MKLREF_MAX_BYTES"):
        read_arrays(tmp_path / "s.npz", max_bytes=1000)
    monkeypatch.setattr(_untrusted, "_DEFAULT", 6 * 2**20)
    with pytest.raises(UnsafeFile, match="at most 6291456 are read"):
        read_arrays(tmp_path / "s.npz")
    monkeypatch.setenv("MKLREF_MAX_BYTES", "4000")
    with pytest.raises(UnsafeFile, match="at most 4000 are read"):
        read_arrays(tmp_path / "s.npz")
    for text in ("", "much", "0", "-1", "1e9", "9" * 5000):
        monkeypatch.setenv("MKLREF_MAX_BYTES", text)
        with pytest.raises(InvalidParameter, match=r"MKLREF_MAX_BYTES = .* must be a positive number of bytes"):
            read_arrays(tmp_path / "s.npz")


def test_nothing_is_unpacked_for_which_there_is_no_memory(tmp_path, monkeypatch):
    write_arrays(tmp_path / "s.npz", {"y": np.ones(1000)}, {})
    monkeypatch.setattr(_untrusted, "free_memory", lambda: 5000.0)
    with pytest.raises(UnsafeFile, match=r"unpacks to 8\d\d\d bytes, and 5000 bytes of memory are free"):
        read_arrays(tmp_path / "s.npz")


def test_free_memory_is_known_or_boundless():
    assert _untrusted.free_memory() > 2**20


def test_what_a_container_holds_is_not_free(tmp_path, monkeypatch):
    """But for files that are cached there, which make room."""
    monkeypatch.setattr(_untrusted, "_GROUP", tmp_path)
    held = {"max": "8000000", "current": "5000000", "stat": "anon 4000000\ninactive_file 1000000"}
    for name, text in held.items():
        (tmp_path / f"memory.{name}").write_text(f"{text}\n")
    assert _untrusted.free_memory() == 4e6
    (tmp_path / "memory.current").write_text("9500000\n")  # more than the limit, for a moment
    assert _untrusted.free_memory() == 0.0
    for name in ("memory.current", "memory.stat"):
        (tmp_path / name).unlink()
    assert _untrusted.free_memory() == 8e6  # and where nothing is said of what it holds, the limit


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1, "a": 1}', "the name 'a' is there twice"),
        ('{"b": {"a": 1, "a": 2}}', "the name 'a' is there twice"),
        ("NaN", "NaN is no number of JSON"),
        ("[-Infinity]", "-Infinity is no number of JSON"),
        ("1e999", "the number 1e999 is beyond float64"),
        ("9" * 400, "is beyond float64"),
        ("9" * 5000, "is beyond float64"),
        (r'"\ud800"', "surrogates not allowed"),
        (b"\xff\xfe1\x00", "can't decode"),
        ("[" * 10**5, "brackets are nested too deeply"),
        ("[" * 600 + "]" * 600, "brackets are nested too deeply"),  # which `json` reads, and `numbers_of` does not
        ("{} {}", "Extra data"),
    ],
)
def test_json_that_means_two_things_or_nothing_is_refused(text, says):
    with pytest.raises(UnsafeFile, match=f"p.json is no JSON: .*{says}"):
        parse_json(text if isinstance(text, bytes) else text.encode(), "p.json")


def test_json_that_means_one_thing_is_read():
    assert parse_json(rb'{"a": [1, -2.5, "\ud83d\ude00"], "b": 100000000000000000000}', "p.json") == {
        "a": [1, -2.5, "\U0001f600"],
        "b": 1e20,
    }
    assert parse_json(b"[NaN, -Infinity]", "p.json", nonfinite=True)[1] == -np.inf
    assert parse_json(b"\xef\xbb\xbf{}", "p.json") == {}  # as editors on Windows begin a file


@pytest.mark.parametrize("value", [[1, "2"], [True, 0], [None], [[1, 2], [3]], {"a": 1}, "x", [[1], 2]])
def test_lists_of_anything_but_numbers_are_no_arrays(value):
    with pytest.raises(ValueError, match=r"no number|inhomogeneous"):
        numbers_of(value)
    np.testing.assert_array_equal(numbers_of([[1, "inf"], [2.5, "-inf"]]), [[1, np.inf], [2.5, -np.inf]])


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
def test_files_without_an_end_are_not_read_for_ever():
    """A device has no size to ask for."""
    with pytest.raises(UnsafeFile, match=r"/dev/zero unpacks to \d+ bytes; at most 3000000 are read"):
        _untrusted.read_bytes(Path("/dev/zero"), 3_000_000)


def test_gzip_files_are_measured_before_they_are_kept(tmp_path):
    (tmp_path / "s.gz").write_bytes(gzip.compress(bytes(10**7)) + gzip.compress(b"end"))
    assert _untrusted.unpacked(tmp_path / "s.gz", 10**7 + 3)[-3:] == b"end"
    with pytest.raises(UnsafeFile, match="at most 10000002 are read"):
        _untrusted.unpacked(tmp_path / "s.gz", 10**7 + 2)
