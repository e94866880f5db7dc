"""The compiled loops under sanitizers: `python -m validation.sanitize [address | thread] [pytest arguments]`.

Builds the loops once more, in a directory that goes away again, with GCC's or Clang's address and undefined
behaviour sanitizers (or that for data races), and runs the tests of the loops and of the native solver on them. The
first report of a sanitizer ends the run with an exit code other than 0. Needs a C++ compiler, cmake and nanobind:
`pip install cmake ninja nanobind`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from validation.mutants import FOUND_FIRST, require_imported

ROOT = Path(__file__).parents[1]
FLAGS = {
    "address": "-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all",
    "thread": "-fsanitize=thread",
}
RUNTIME = {"address": ("libasan.so", "libubsan.so"), "thread": ("libtsan.so",)}
OPTIONS = {
    # Python never frees what it interned, which is no leak of the loops. Memory that nobody has written to is NaN.
    "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:abort_on_error=0:exitcode=99"
    ":malloc_fill_byte=255:max_malloc_fill_size=1073741824",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1:exitcode=99",
    # Only what was compiled for it can be judged: not Python and not BLAS.
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=99:ignore_noninstrumented_modules=1",
    "OPENBLAS_NUM_THREADS": "1",
}
TESTS = tuple(
    f"tests/{what}.py"
    for what in (
        *(f"machines/test_{part}" for part in ("loops", "smo", "qp")),
        "kernels/test_lazy",
        *(f"native/test_{part}" for part in ("threads", "solve", "extremes", "runs")),
    )
)


def build(kind: str, folder: Path) -> None:
    """The package in `folder`, its loops with the sanitizer."""
    import nanobind

    (folder / "sitecustomize.py").write_text(FOUND_FIRST, encoding="utf-8")
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "mklref", folder / "mklref", ignore=ignored)
    flags = f"{FLAGS[kind]} -O1 -g -fno-omit-frame-pointer"
    configure = [
        "cmake",
        "-S",
        str(ROOT / "mklref/machines/_core"),
        "-B",
        str(folder / "build"),
        "-DCMAKE_BUILD_TYPE=Debug",
    ]
    configure += [f"-Dnanobind_DIR={nanobind.cmake_dir()}", f"-DPython_EXECUTABLE={sys.executable}"]
    configure += [f"-DCMAKE_CXX_FLAGS={flags}", f"-DCMAKE_MODULE_LINKER_FLAGS={FLAGS[kind]}"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(folder / "build")], check=True, stdout=subprocess.DEVNULL)
    for module, place in (("_loops", "machines"), ("_evaluation", "kernels")):
        (library,) = (folder / "build").glob(f"{module}*.so")
        shutil.copy(library, folder / "mklref" / place)


def environment(kind: str, folder: Path) -> dict[str, str]:
    """The runtime of the sanitizer has to be there before Python is."""
    compiler = os.environ.get("CXX", "c++")
    paths = [
        subprocess.check_output([compiler, f"-print-file-name={name}"], text=True).strip() for name in RUNTIME[kind]
    ]
    return {**os.environ, **OPTIONS, "LD_PRELOAD": " ".join(paths), "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}


def main(arguments: list[str] | None = None) -> int:
    """Build, run the tests, return pytest's exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    kind = given.pop(0) if given and given[0] in FLAGS else "address"
    with tempfile.TemporaryDirectory() as folder:
        build(kind, Path(folder))
        sanitized = environment(kind, Path(folder))
        require_imported(Path(folder), sanitized)
        command = [sys.executable, "-m", "pytest", "-q", "--capture=sys", "-p", "no:cacheprovider", *(given or TESTS)]
        return subprocess.run(command, cwd=ROOT, env=sanitized, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
