"""Mutation run over certificate/, machines/ and native/: `python -m validation.mutants [--only WORD]`.

Each mutant of mutants.toml is one wrong character or so: a sign, a factor, a bound, a direction of rounding. It is
planted in a copy of the tree, and the tests of its component run until the first failure. A mutant that no test
notices survives: either a test is missing, or the table says why the change does not matter.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIMIT = 300
"""Seconds of a processor for the tests of one mutant, in which a busy machine does not count."""
KILLED, SURVIVED = "killed", "survived"


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    harmless: str = ""
    """Why it changes nothing that matters, if it does not."""

    @property
    def expected(self) -> str:
        """What the run has to find."""
        return SURVIVED if self.harmless else KILLED

    def row(self, outcome: str) -> str:
        """A row of the table in the docs."""
        cells = (
            f"`{self.file}`",
            _short(self.old),
            _short(self.new),
            outcome + f": {self.harmless}" * bool(self.harmless),
        )
        return " | ".join(cell.replace("|", "\\|") for cell in cells)


def mutants() -> tuple[Mutant, ...]:
    """All mutants, with the paths of their tests."""
    table = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text(encoding="utf-8"))
    return tuple(
        Mutant(group["name"], old, new, tuple(test for name in group["tests"] for test in table["tests"][name]), *why)
        for group in table["file"]
        for old, new, *why in group["mutants"]
    )


def copied(target: Path) -> Path:
    """The package with its compiled core, its tests and what these read."""
    folders = (".ci", "docs", "mklref", "tests", "validation")
    for name in (*folders, "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "pyproject.toml"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", "_build"))
        else:
            shutil.copy(source, target / name)
    for folder in map(Path, sys.path):  # of an installation, whose compiled core the copy is to have as well
        for core in (*folder.glob("mklref/*/_*.so"), *folder.glob("mklref/*/_*.pyd")):
            shutil.copy(core, target / core.relative_to(folder))
    (target / "sitecustomize.py").write_text(FOUND_FIRST, encoding="utf-8")
    require_imported(target)
    return target


FOUND_FIRST = """import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_editable")]
"""
"""What Python executes at its start in a copy: an editable installation would find its own files before those."""


def require_imported(tree: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse a run whose tests would import another package than the copy, and would find nothing there.

    Raises
    ------
    SystemExit
        With the place of that package, or that the copy has no compiled core; and what to do.
    """
    code = "import mklref, mklref.native as native; print(mklref.__path__[0], native.AVAILABLE)"
    seen = {**environment, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    said = subprocess.run(command, cwd=tree, env=seen, capture_output=True, text=True, check=True).stdout
    place, _, compiled = said.strip().rpartition(" ")
    if Path(place).resolve() != (tree / "mklref").resolve() or compiled != "True":
        raise SystemExit(
            f"The tests of the copy {tree} would import {place} (compiled core: {compiled}), and would find "
            "nothing there, or they would run on the twin. Run this from an environment with `pip install '.[test]'`."
        )


def outcome(tree: Path, tests: tuple[str, ...]) -> str:
    """`KILLED`, `SURVIVED`, or how pytest ended instead."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "--all", "-p", "no:cacheprovider"]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKLREF_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    paths = [f"tests/{test}" for test in tests]
    limited = ["prlimit", f"--cpu={LIMIT}", *command] if shutil.which("prlimit") else command
    done = subprocess.run([*limited, *paths], cwd=tree, env=environment, capture_output=True, check=False)
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"no verdict within {LIMIT} s"
    return {0: SURVIVED, 1: KILLED}.get(done.returncode, f"exit code {done.returncode}")


def run(chosen: tuple[Mutant, ...]) -> Iterator[tuple[Mutant, str, float]]:
    """Each mutant with its outcome and the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder))
        for mutant in chosen:
            path = tree / "mklref" / mutant.file
            healthy = path.read_text(encoding="utf-8")
            if mutant.old not in healthy:
                yield mutant, "the code has changed", 0.0
                continue
            started = time.perf_counter()
            path.write_text(healthy.replace(mutant.old, mutant.new, 1), encoding="utf-8")
            try:
                yield mutant, outcome(tree, mutant.tests), time.perf_counter() - started
            finally:
                path.write_text(healthy, encoding="utf-8")


def main() -> int:
    """Print one line for each mutant; exit code 1 if one did not end as expected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="WORD", help="files whose path contains this word")
    arguments = parser.parse_args()
    chosen = tuple(mutant for mutant in mutants() if arguments.only in mutant.file)
    strange = 0
    for mutant, found, seconds in run(chosen):
        strange += found != mutant.expected
        print(f"{seconds:5.1f} s  {mutant.row(found)}", flush=True)
    print(f"{len(chosen)} mutants, {strange} not as expected")
    return int(strange > 0)


def _short(code: str) -> str:
    line = " ".join(code.split())
    return f"`{line[:60]}{'...' if len(line) > 60 else ''}`" if line else "nothing"


if __name__ == "__main__":
    sys.exit(main())
