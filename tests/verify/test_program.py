"""The separate checker as a program: what it prints, and which data it reads."""

from __future__ import annotations

import copy
import io
import json
import os
import re
import subprocess
import sys
import zipfile
import zlib
from decimal import DivisionByZero
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from certificate.points import changed
from makers import array_bytes

import mklref
from mklref import certify, verify
from mklref.testing.vectors.export import fingerprint


def test_the_program_confirms(files, capsys):
    certificate, data = files
    assert verify.main([str(certificate), str(data)]) == 0
    assert verify.main([str(certificate)]) == 0
    output = capsys.readouterr().out
    assert output.splitlines()[0] == "data: SHA-256 of kernels and targets as certified"
    assert output.endswith("CONFIRMED\n")
    assert "not read" not in output


def test_save_writes_both_files(case, tmp_path):
    problem, _ = case
    certificate = certify(problem, 0.1 * problem.y, rigorous=True)
    certificate.save(tmp_path / "a.json", data=tmp_path / "a.npz")
    assert verify.main([str(tmp_path / "a.json")]) == 0
    facts = json.loads((tmp_path / "a.json").read_text())
    assert facts["format"] == verify.FORMATS[0]
    assert facts["mklref"] == mklref.__version__
    assert float.fromhex(facts["claim"]["lower"]) == certificate.lower


def test_the_program_runs_by_itself(files, tmp_path):
    """In a fresh interpreter that loads this one file, without the package."""
    script = tmp_path / "verify.py"
    script.write_text(Path(verify.__file__).read_text(encoding="utf-8"))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), *map(str, files)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("CONFIRMED\n")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_says_what_is_checked_and_what_the_exit_codes_mean(flag, capsys):
    assert verify.main([flag]) == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: python -m mklref.verify CERTIFICATE.json [DATA.npz]")
    assert "Exit codes: 0 confirmed" in out
    bare = subprocess.run([sys.executable, "-OO", verify.__file__, flag], capture_output=True, text=True, check=True)
    assert bare.stdout.strip() == out.splitlines()[0]  # without docstrings


def test_other_data_are_not_confirmed(case, files, capsys):
    problem, _ = case
    certificate, data = files
    y = problem.y.copy()
    y[0] *= -1.0
    np.savez(data, kernels=problem.kernels.dense(), y=y)
    assert verify.main([str(certificate), str(data)]) == 1
    assert "NOT CONFIRMED: y in" in capsys.readouterr().out


def test_the_program_says_what_it_did_not_read_and_prints_the_hash_of_the_vectors(case, files, capsys):
    problem, _ = case
    certificate, data = files
    np.savez(data, kernels=problem.kernels.dense(), y=problem.y, C=1e9)
    assert verify.main([str(certificate), str(data)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith(fingerprint(problem))
    assert lines[2] == "data: not read, and not confirmed: C; the problem is that of the certificate"


def test_the_program_says_what_it_could_not_confirm(case, files, capsys):
    certificate, _ = files
    certificate.write_text(json.dumps(changed(case[1], "claim", "upper", to=(0.0).hex())))
    assert verify.main([str(certificate)]) == 1
    assert "NOT CONFIRMED: upper = 0.0 is below the primal objective" in capsys.readouterr().out


def test_one_bound_alone_is_confirmed_without_a_gap(case, files, capsys):
    """An infinite bound claims nothing."""
    for side, infinite in (("lower", "-inf"), ("upper", "inf")):
        facts = copy.deepcopy(case[1])
        facts["claim"][side] = infinite
        files[0].write_text(json.dumps(facts))
        assert verify.main([*map(str, files)]) == 0
        printed = capsys.readouterr().out
        assert "CONFIRMED" in printed
        assert "relative gap" not in printed


def test_missing_damaged_and_pickled_data_cannot_be_read(case, files, capsys):
    problem, _ = case
    certificate, data = files
    whole = data.read_bytes()
    data.write_bytes(whole[:1000])
    assert verify.main([str(certificate)]) == 2
    np.savez(data, kernels=problem.kernels.dense())
    assert verify.main([str(certificate)]) == 2
    np.savez(data, kernels=problem.kernels.dense(), y=np.array([{}], dtype=object), allow_pickle=True)
    assert verify.main([str(certificate)]) == 2
    np.savez(data, kernels=np.zeros((4, 100, 100)), y=problem.y)
    assert verify.main([str(certificate)]) == 2
    data.unlink()
    assert verify.main([str(certificate)]) == 2
    assert verify.main([]) == 2
    assert capsys.readouterr().err.count("cannot be read") == 5


def forged(case, data, *names):
    """An archive with members of these names: the certified arrays, and for a capital letter others in their place."""
    problem, _ = case
    K, y = problem.kernels.dense(), problem.y
    with zipfile.ZipFile(data, "w") as archive:
        for name in names:
            array = {"k": K, "K": 1e-9 * K, "y": y, "Y": -y}[name.lstrip("./")[0]]
            archive.writestr(name.lower(), array_bytes(array))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "names",
    [
        ("kernels.npy", "Kernels", "y.npy"),
        ("Kernels", "kernels.npy", "y.npy"),
        ("kernels.npy", "Kernels.npy", "y.npy"),
        ("Kernels.npy", "kernels.npy", "y.npy"),
        ("kernels.npy", "y.npy", "Y"),
        ("kernels.npy", "Y.npy", "y.npy"),
        ("kernels", "y.npy"),
        ("kernels.npy", "y.npy", "./Kernels.npy"),
        ("kernels.npy", "y.npy", "/Y.npy"),
    ],
)
def test_data_are_what_was_hashed(case, files, names, capsys):
    """np.load takes a member `kernels` before `kernels.npy`, and of two `kernels.npy` the last one."""
    forged(case, files[1], "kernels.npy", "y.npy")
    assert verify.main([*map(str, files)]) == 0
    forged(case, files[1], *names)
    assert verify.main([*map(str, files)]) == 2
    assert re.search("holds (2|no) arrays? '(kernels|y)'", capsys.readouterr().err)


@pytest.mark.parametrize("kind", [">f8", "<f4", "<i8"])
def test_arrays_of_another_type_are_not_the_certified_ones(case, files, kind, capsys):
    problem, _ = case
    np.savez(files[1], kernels=problem.kernels.dense(), y=problem.y.astype(kind))
    assert verify.main([*map(str, files)]) == 2
    assert re.search("too short or too long|has shape", capsys.readouterr().err)


def test_the_order_of_the_axes_in_the_file_does_not_matter(case, files):
    problem, _ = case
    np.savez(files[1], kernels=np.asfortranarray(problem.kernels.dense()), y=problem.y, x=np.ones(3))
    assert verify.main([*map(str, files)]) == 0


def test_bytes_after_an_array_are_not_its_own(case, files, capsys):
    problem, _ = case
    with zipfile.ZipFile(files[1], "w") as archive:
        archive.writestr("kernels.npy", array_bytes(problem.kernels.dense()) + bytes(8))
        archive.writestr("y.npy", array_bytes(problem.y))
    assert verify.main([*map(str, files)]) == 2
    assert "too short or too long" in capsys.readouterr().err


def test_arrays_with_a_header_of_version_2_are_read(case, files):
    problem, _ = case
    with zipfile.ZipFile(files[1], "w") as archive:
        for name, array in (("kernels.npy", problem.kernels.dense()), ("y.npy", problem.y)):
            file = io.BytesIO()
            np.lib.format.write_array(file, array, version=(2, 0))
            archive.writestr(name, file.getvalue())
    assert verify.main([*map(str, files)]) == 0


def test_data_beyond_the_limit_are_not_read(files, monkeypatch, capsys):
    monkeypatch.setenv("MKLREF_MAX_BYTES", "9000")
    assert verify.main([*map(str, files)]) == 0
    monkeypatch.setenv("MKLREF_MAX_BYTES", "7000")
    assert verify.main([*map(str, files)]) == 2
    monkeypatch.setenv("MKLREF_MAX_BYTES", "1e9")
    assert verify.main([*map(str, files)]) == 2
    said = capsys.readouterr().err
    assert "kernels in" in said
    assert "has 7200 bytes; at most 7000 are read (MKLREF_MAX_BYTES" in said
    assert "MKLREF_MAX_BYTES = '1e9' is no number of bytes" in said


def test_data_for_which_there_is_no_memory_are_not_read(files, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(verify, "_MEMORY", tmp_path / "meminfo")
    for free, code in ((7, 2), (8, 0)):  # kernels of 7200 bytes
        (tmp_path / "meminfo").write_text(f"MemTotal: 9999 kB\nMemAvailable:      {free} kB\n")
        assert verify.main([*map(str, files)]) == code
    assert "has 7200 bytes, and 7168 bytes of memory are free" in capsys.readouterr().err


@pytest.mark.parametrize("certified", [[4, 15, 15], [10**6, 10**3, 10**3]])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_header_that_claims_terabytes_is_refused_before_memory_is_taken(case, files, certified, method, capsys):
    certificate, data = files
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, shape in (("kernels", (10**6, 10**3, 10**3)), ("y", (15,))):
            file = io.BytesIO()
            np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
            archive.writestr(f"{name}.npy", file.getvalue() + bytes(4 * 15 * 15 * 8))
    certificate.write_text(json.dumps(changed(case[1], "data", "kernels", "shape", to=certified)))
    assert verify.main([str(certificate)]) == 2
    assert re.search("has shape|too short", capsys.readouterr().err)


def test_what_is_quoted_is_no_line_of_its_own(case, files, capsys):
    """The name of a file, and a text within one."""
    problem, facts = case
    named = files[1].with_name("a\nCONFIRMED\n\x1b[2J.npz")
    np.savez(named, kernels=problem.kernels.dense(), y=-problem.y)
    assert verify.main([str(files[0]), str(named)]) == 1
    assert r"a\nCONFIRMED\n\x1b[2J.npz is not the array" in capsys.readouterr().out.splitlines()[-1]
    files[0].write_text(json.dumps(changed(facts, "claim", "delta", to="\nCONFIRMED\n")))
    assert verify.main([str(files[0])]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_output_that_knows_ascii_alone_gets_numbers_for_other_characters(case, files, monkeypatch):
    problem, _ = case
    np.savez(files[1].with_name("é.npz"), kernels=problem.kernels.dense(), y=-problem.y)
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert verify.main([str(files[0]), str(files[1].with_name("é.npz"))]) == 1
    out.seek(0)
    assert r"\xe9.npz is not the array that was certified" in out.read()


@pytest.mark.parametrize("make", [os.mkdir, getattr(os, "mkfifo", os.mkdir)])
def test_nobody_waits_for_the_writer_of_a_named_pipe(files, capsys, make):
    files[1].unlink()
    make(files[1])
    assert verify.main([str(file) for file in files]) == 2
    assert f"{files[1]} is no file." in capsys.readouterr().err


@pytest.mark.parametrize(("stream", "code"), [("stdout", 0), ("stderr", 2)])
def test_without_a_stream_the_exit_code_is_the_verdict(files, monkeypatch, capsys, stream, code):
    monkeypatch.setattr(sys, stream, None)
    assert verify.main([str(file) for file in files] if code == 0 else []) == code
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(not (full := Path("/dev/full")).exists(), reason="no disk that is always full")
def test_a_verdict_that_cannot_be_written_is_no_certificate_that_cannot_be_read(files):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with full.open("wb") as out:
        done = subprocess.run(
            [sys.executable, verify.__file__, *map(str, files)],
            stdout=out, stderr=subprocess.PIPE, text=True, env=environment, check=False,
        )  # fmt: skip
    said = "the verdict cannot be written to standard output: [Errno 28] No space left on device\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_the_file_that_cannot_be_read_is_named(files, capsys):
    """The two in the wrong order, and a problem in another format."""
    certificate, data = files
    for given, said in (([data, certificate], f"certificate {data}"), ([certificate] * 2, f"NPZ file {certificate}")):
        assert verify.main([str(path) for path in given]) == 2
        assert capsys.readouterr().err.startswith(f"{said} cannot be read: ")


@pytest.mark.parametrize("error", [MemoryError, ZeroDivisionError, DivisionByZero, zlib.error, IndexError])
def test_errors_of_hostile_numbers_are_no_tracebacks(files, monkeypatch, error, capsys):
    monkeypatch.setattr(verify, "semidefinite", Mock(side_effect=error))
    assert verify.main([str(files[0])]) == 2
    assert f"cannot be read: {error.__name__}" in capsys.readouterr().err
