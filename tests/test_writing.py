"""Whoever writes a file replaces it whole or not at all: killed, interrupted, on a full disk, through a link."""

from __future__ import annotations

import ast
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mklref
from mklref import _files
from mklref._files import read_arrays, replacing, write_arrays, write_text
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.testing.vectors import export_vectors, read_record, write_record

ROOT = Path(mklref.__file__).parent.parent
POSIX = pytest.mark.skipif(os.name != "posix", reason="processes, modes and links as POSIX has them")


@POSIX
@pytest.mark.thorough
def test_killed_at_random_times_and_on_a_full_disk_every_writer_leaves_the_old_file_or_the_new_one(tmp_path):
    script = Path(__file__).with_name("writers.py")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{script.parent}"}
    command = [sys.executable, str(script), str(tmp_path), "3"]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == 12
    assert "0, 1" in ran.stdout  # the kills were at different times
    assert "1, 0" in ran.stdout


@POSIX
def test_the_file_is_on_the_disk_before_its_name_is_and_then_the_directory(tmp_path, calls_of):
    done = []
    calls_of(os, "fsync", lambda file: done.append("directory" if stat.S_ISDIR(os.fstat(file).st_mode) else "file"))
    calls_of(Path, "replace", lambda *_: done.append("name"))
    write_text(tmp_path / "a.txt", "x")
    assert done == ["file", "name", "directory"]


def fail_half_way(path, fault):
    with replacing(path) as file:
        file.write(b"half")
        raise fault


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name, which Linux has")
def test_a_process_that_is_killed_leaves_nothing_beside_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    nameless = _files._nameless(tmp_path)
    if nameless is None:
        pytest.skip("this file system has no files without a name")
    nameless.close()
    code = f"import os; from mklref._files import replacing\nwith replacing({str(path)!r}): os.kill(os.getpid(), 9)"
    ran = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    assert ran.returncode == -9
    assert [one.read_text() for one in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("fault", [KeyboardInterrupt, MemoryError, ValueError])
@pytest.mark.parametrize("named", [False, True])
def test_an_error_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch, fault, named):
    if named:  # as on a file system that has no files without a name
        monkeypatch.setattr(_files, "_nameless", lambda directory: None)
    path = tmp_path / "a.txt"
    for before in (None, "old"):
        if before:
            write_text(path, before)
        with pytest.raises(fault):
            fail_half_way(path, fault)
        assert [one.read_text() for one in tmp_path.iterdir()] == [before] * path.exists()


def test_arrays_that_cannot_be_written_leave_the_old_file(tmp_path):
    path = tmp_path / "a.npz"
    write_arrays(path, {"x": np.ones(3)}, {})
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_arrays(path, {"x": np.zeros(3)}, {"k": object()})
    np.testing.assert_array_equal(read_arrays(path)[0]["x"], np.ones(3))


@POSIX
def test_a_new_file_has_the_mode_of_the_process_and_a_replaced_one_that_of_the_old(tmp_path):
    path = tmp_path / "a.txt"
    mask = os.umask(0o027)
    try:
        write_text(path, "new")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        write_text(path, "newer")
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(mask)


@POSIX
def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    target, link, loose = tmp_path / "there/a.txt", tmp_path / "link.txt", tmp_path / "loose.txt"
    target.write_text("old")
    link.symlink_to(Path("there") / "a.txt")
    loose.symlink_to(Path("there") / "b.txt")
    write_text(link, "new")
    write_text(loose, "new")
    assert link.is_symlink()
    assert loose.is_symlink()
    assert sorted((path.name, path.read_text()) for path in (tmp_path / "there").iterdir()) == [
        ("a.txt", "new"),
        ("b.txt", "new"),
    ]


@POSIX
def test_a_hard_link_keeps_the_old_content(tmp_path):
    write_text(tmp_path / "a.txt", "old")
    os.link(tmp_path / "a.txt", tmp_path / "b.txt")
    write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "b.txt").read_text() == "old"


@pytest.mark.parametrize("name", ["absent/a.txt", "file.txt/a.txt", "folder", "n" * 300])
def test_what_cannot_be_written_is_named_as_it_was_given(tmp_path, name):
    (tmp_path / "file.txt").write_text("a file")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match=r"absent|file\.txt|folder|nnnnn") as refused:
        write_text(tmp_path / name, "x")
    assert refused.value.filename == str(tmp_path / name)
    assert sorted(tmp_path.iterdir()) == before


def test_the_longest_name_of_a_file_is_no_problem(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text("n" * 255, "x")
    assert [path.name for path in tmp_path.iterdir()] == ["n" * 255]


@POSIX
@pytest.mark.parametrize("what", ["file", "directory"])
def test_a_protected_file_or_directory_stays_as_it_is(tmp_path, monkeypatch, what):
    path = tmp_path / "a.txt"
    path.write_text("old")
    protected = path if what == "file" else tmp_path
    protected.chmod(0o444 if what == "file" else 0o555)
    if os.geteuid() == 0:  # whom no mode stops
        if what == "directory":
            pytest.skip("root writes everywhere")
        monkeypatch.setattr(os, "access", lambda file, mode: Path(file).stat().st_mode & 0o222 != 0)
    try:
        with pytest.raises(PermissionError) as refused:
            write_text(path, "new")
        assert refused.value.filename == str(path)
        assert path.read_text() == "old"
    finally:
        tmp_path.chmod(0o755)


@POSIX
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
@pytest.mark.parametrize("regular", [False, True])
def test_a_descriptor_is_written_as_it_stands(tmp_path, name, regular):
    """What the shell has opened is still what other lines go to."""
    code = f"import os; from mklref._files import write_text; write_text({name!r}, 'x'); os.write(1, b'y')"
    with (tmp_path / "out.txt").open("wb") as out:
        ran = subprocess.run(
            [sys.executable, "-c", code],
            stdout=out if regular else subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
        )
    assert regular or ran.stdout == b"xy"
    assert not regular or (tmp_path / "out.txt").read_bytes() in (b"xy", b"y")  # one offset or two
    assert len(list(tmp_path.iterdir())) == 1


@POSIX
def test_devices_are_written_and_a_full_one_is_named():
    write_text("/dev/null", "x")
    if Path("/dev/full").exists():
        with pytest.raises(OSError, match="/dev/full"):
            write_text("/dev/full", "x")


@pytest.mark.parametrize("path", [3, None, b"a.txt", 1.5])
def test_only_paths_are_paths(path):
    """`open` would take 3 for a file descriptor."""
    for use in (read_arrays, lambda path: write_arrays(path, {}, {}), lambda path: write_text(path, "x")):
        with pytest.raises(InvalidType, match="give the name of a file"):
            use(path)


@pytest.mark.parametrize("path", ["a\0b.json", "\ud800.json"])
def test_names_that_no_file_can_have_are_named(path):
    uses = (mklref.Solution.load, read_record, lambda path: write_record(path, {}), lambda path: write_text(path, "x"))
    for use in (*uses, lambda path: export_vectors(path, include=["two-samples"])):
        with pytest.raises(InvalidParameter, match=re.escape(f"path is {path!r}, a name that no file can have")):
            use(path)


WRITERS = {"savez", "savez_compressed", "savetxt", "tofile", "savefig", "savemat"}
NAMES = {"open", "File", "write_text", "write_bytes", "save", *WRITERS}
MAY_WRITE = re.compile(rf"\b({'|'.join(NAMES)})\s*\(")  # most files need no tree to see that they do not


def writes_directly(tree: ast.AST) -> list[int]:
    """Lines that write to a name without `replacing`: its files are called file, written or content."""
    lines = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name not in NAMES:
            continue
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        modes = [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
        owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        if name in ("open", "File") and any(set(mode) & set("wax+") and len(mode) < 4 for mode in modes):
            nobody_keeps = (values and ast.unparse(values[0]) == "content") or ".lock" in owner or "devnull" in owner
            lines += [] if nobody_keeps else [node.lineno]
        elif name in ("write_text", "write_bytes") and owner:
            lines.append(node.lineno)
        elif name in WRITERS or (name == "save" and owner == "np"):
            lines += [] if ast.unparse(values[0]) in ("file", "drawn", "written", "content") else [node.lineno]
    return lines


def test_nothing_in_the_package_or_its_validation_writes_past_the_one_helper():
    """But for files that nobody keeps: copies of the package with a planted fault and what their tests call, damaged
    ones, the kernel's."""
    kept = {"mklref/_files.py", "mklref/cli/model.py", "validation/benchmarks/native_profile.py"}
    kept |= {"validation/benchmarks/factors.py", "validation/sanitize.py"}  # in folders that end with the run
    kept |= {"validation/mutants.py", "validation/random_mutants.py", "validation/calls.py", "validation/forked.py"}
    found = []
    for root in (Path(mklref.__file__).parent, Path(__file__).parent.parent / "validation"):
        for path in sorted(root.rglob("*.py")):
            where = path.relative_to(root.parent).as_posix()
            text = path.read_text(encoding="utf-8")
            if where not in kept and not where.startswith("validation/attack/") and MAY_WRITE.search(text):
                found += [f"{where}:{line}" for line in writes_directly(ast.parse(text))]
    assert not found


@pytest.mark.parametrize(
    "line",
    ["Path(p).write_text(t)", "open(p, 'w')", "p.open(mode='ab')", "np.savez(p, x)", "f.savefig(p)", "h.File(p, 'w')"],
)
def test_a_writer_that_goes_past_it_is_found(line):
    assert writes_directly(ast.parse(line)) == [1]
