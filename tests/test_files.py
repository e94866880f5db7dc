"""Files of arrays: what is damaged, hostile or pickled is refused before it takes memory."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile

import numpy as np
import pytest

from mklref._files import read_arrays
from mklref.exceptions import UnsafeFile


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04" + b"\0" * 30, pickle.dumps({"weights": 1})])
def test_files_that_are_no_archives_are_refused(tmp_path, content):
    (tmp_path / "s.npz").write_bytes(content)
    with pytest.raises(UnsafeFile, match=r"s\.npz is not a readable \.npz file"):
        read_arrays(tmp_path / "s.npz")


def test_a_bare_array_is_no_archive(tmp_path):
    np.save(tmp_path / "s.npy", np.ones(3))
    with pytest.raises(UnsafeFile, match=r"is not a readable \.npz file"):
        read_arrays(tmp_path / "s.npy")


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
        (
            npy("{'descr': '<f8', 'fortran_order': False, 'shape': (" + "1," * 40000 + ")}", version=2),
            "is not an array",
        ),
        (npy("(" * 60000, version=2), "is not an array"),
        (npy("{'descr': '<f8', 'fortran"), "is not an array"),
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


def test_a_directory_that_promises_more_than_there_is(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("weights.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (500,)}", b"\0" * 80))
    content = bytearray(buffer.getvalue())
    sizes = content.index(b"PK\x01\x02") + 20
    content[sizes : sizes + 8] = struct.pack("<II", 5000, 5000)
    (tmp_path / "s.npz").write_bytes(content)
    with pytest.raises(UnsafeFile, match=r"s\.npz is not a readable \.npz file"):
        read_arrays(tmp_path / "s.npz")


def test_other_compressions_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "s.npz", "w", zipfile.ZIP_LZMA) as file:
        file.writestr("weights.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", b"\0" * 8))
    with pytest.raises(UnsafeFile, match=r"member 'weights\.npy' is packed by a method that NumPy does not write"):
        read_arrays(tmp_path / "s.npz")


@pytest.mark.parametrize("facts", [b"{", b"[1]", b'"x"', b"\xff\xfe", b"[" * 100_000])
def test_damaged_facts_are_refused(tmp_path, facts):
    np.savez(tmp_path / "s.npz", facts=np.frombuffer(facts, dtype=np.uint8))
    with pytest.raises(UnsafeFile, match="facts"):
        read_arrays(tmp_path / "s.npz")


def test_facts_of_another_type_are_refused(tmp_path):
    np.savez(tmp_path / "s.npz", facts=np.array([300.5]))
    with pytest.raises(UnsafeFile, match="facts"):
        read_arrays(tmp_path / "s.npz")
