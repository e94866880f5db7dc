"""`import mklref` is light, and imports inside the package point upwards in the order of the architecture."""

from __future__ import annotations

import ast
import os
import pickle
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import mklref
from mklref.formulations import FORMULATIONS

PACKAGE = Path(mklref.__file__).parent

ORDER = (
    "_typing",
    "_display",
    "exceptions",
    "_names",
    "_validate",
    "_own",
    "_untrusted",
    "_files",
    "_progress",
    "_threads",
    "kernels",
    "losses",
    "regularizers",
    "problem",
    "certificate",
    "solution",  # holds a certificate
    "_run",
    "_ranges",
    "multiclass",
    "signed",
    "_polish",  # Newton's method on the active set, for both sides
    "_conic",  # what conic solvers need and no statement shows
    "formulations",
    "_latex",  # the formulations once more, to be read
    "reference",
    "equivalences",
    "machines",  # at fixed weights, for native and the algorithms
    "factored",  # kernels as factors
    "native",
    "_path",
    "algorithms",
    "synthesis",
    "evidence",
    "bounds",
    "_crosscheck",
    "datasets",
    "testing",
    "estimators",
    "plotting",
    "model_selection",
    "report",
    "primer",  # copied out of the library, and imports nothing of it
    "explore",
    "cli",
    "verify",  # a second opinion, which imports nothing of the package
    "__main__",
)
"""The units of the package; each one may import those above it."""

CONVENIENCES = {("_crosscheck", "report"), ("problem", "_latex")}
"""The imports that point downwards, when a method is called: `CrossCheck.to_html` asks for the page, and
`Problem.to_latex` for the statements of the formulations."""

HEAVY = ("cvxpy", "sklearn", "matplotlib", "scipy", "rich", "jinja2", "pandas", "clarabel", "ecos", "scs")


def unit_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def sources() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def runtime_imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every import of the module with its line, also inside functions, but not under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}: the package imports by full name"
            names = (
                [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "mklref" else [node.module]
            )
            yield from ((str(name), node.lineno) for name in names)
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):  # no expression has one
            yield from runtime_imports(node)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> tuple[tuple[str, int], ...]:
    """Those of a file."""
    return tuple(runtime_imports(tree(path)))


def edges(path: Path) -> list[tuple[str, str, str]]:
    """(unit, imported unit, where) for every import of the package by itself."""
    found = []
    for name, line in imports(path):
        parts = name.split(".")
        if parts[0] == "mklref" and len(parts) > 1:
            found.append((unit_of(path), parts[1], f"{path.relative_to(PACKAGE.parent)}:{line}"))
    return found


def wrong_edges(found: list[tuple[str, str, str]]) -> list[str]:
    return [
        f"{where}: {unit} imports {other}"
        for unit, other, where in found
        if other != "__version__" and (unit, other) not in CONVENIENCES and ORDER.index(other) > ORDER.index(unit)
    ]


def test_every_unit_has_a_place_in_the_order():
    assert {unit_of(path) for path in sources()} <= set(ORDER)


def test_imports_point_upwards():
    found = [edge for path in sources() for edge in edges(path)]
    assert len(found) > 50
    assert wrong_edges(found) == []


def test_the_graph_test_can_see_a_wrong_import():
    """Planted faults: at the top, in a function, and one that only the type checker sees."""
    planted = """
        from typing import TYPE_CHECKING
        from mklref.problem import Problem
        if TYPE_CHECKING:
            from mklref.cli import main
        def lazy():
            import mklref.reference
            from mklref import cli
    """
    found = [name for name, _ in runtime_imports(ast.parse(textwrap.dedent(planted)))]
    assert found == ["typing", "mklref.problem", "mklref.reference", "mklref.cli"]
    assert wrong_edges([("native", "cli", "here"), ("native", "problem", "here")]) == ["here: native imports cli"]


CONIC_SIDE = ("_conic", "formulations", "reference", "equivalences", "_crosscheck")


SOLVERS = ("machines", "native", "algorithms")


@pytest.mark.parametrize(
    ("units", "others"),
    [
        (SOLVERS, CONIC_SIDE),
        (("algorithms",), ("native",)),
        (("_conic", "formulations", "reference"), (*SOLVERS, "_crosscheck")),
    ],
)
def test_the_sides_that_check_each_other_share_no_more_than_the_problem(units, others):
    """Problem, losses, regularisers and certificate; and the papers' algorithms the machines with native."""
    found = [edge for path in sources() if unit_of(path) in units for edge in edges(path)]
    assert {"problem", "regularizers"} <= {edge[1] for edge in found}
    assert [edge for edge in found if edge[1] in others] == []


def test_formulations_hold_statements_and_nothing_else():
    """A file is a statement: what solvers need beside it is `_conic`, which no other file of the folder provides."""
    files = {path.stem for path in (PACKAGE / "formulations").glob("*.py")} - {"__init__", "base"}
    assert files == set(FORMULATIONS)


def test_the_certificate_imports_no_solver():
    """NumPy and the standard library only."""
    for path in (PACKAGE / "certificate").glob("*.py"):
        for name, line in imports(path):
            root = name.split(".")[0]
            assert root in ("numpy", "mklref") or root in sys.stdlib_module_names, f"{path.name}:{line} imports {name}"


def test_the_checker_of_certificates_shares_no_code():
    names = {name.split(".")[0] for name, _ in imports(PACKAGE / "verify.py")}
    assert "numpy" in names
    assert all(name == "numpy" or name in sys.stdlib_module_names for name in names)


def test_the_primer_shares_no_code():
    for path in (PACKAGE / "primer").glob("*.py"):
        names = {name for name, _ in imports(path)}
        assert names <= {"cvxpy", "numpy", "__future__", "lazy_loader"}, path.name


def test_only_the_reference_side_imports_cvxpy():
    """On demand; losses have an atom, which only the reference side calls."""
    allowed = {
        "losses",
        "_conic",
        "formulations",
        "reference",
        "equivalences",
        "cli",
        "_crosscheck",
        "testing",
        "primer",
    }
    for path in sources():
        names = {name.split(".")[0] for name, _ in imports(path)}
        assert "cvxpy" not in names or unit_of(path) in allowed or path.name == "reference.py", path
        at_once = runtime_imports(ast.Module([node for node in tree(path).body if not defines(node)], []))
        assert unit_of(path) == "primer" or "cvxpy" not in {name.split(".")[0] for name, _ in at_once}, path


def defines(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.ClassDef)


def python(code: str) -> str:
    """The output of a fresh interpreter that treats warnings as errors."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE.parent, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "use",
    [
        "mklref.__version__",
        "mklref.Problem, mklref.Solution, mklref.certify, mklref.Certificate, mklref.Lp, mklref.kernels.gaussian(1.0)",
        "mklref.certify(mklref.Problem([[[2, 1], [1, 2]]], [1, -1]), [0.5, -0.5])",
    ],
)
def test_importing_and_certifying_loads_nothing_heavy(use):
    loaded = python(f"""
        import sys
        import mklref
        {use}
        print(*sorted({{name.split(".")[0] for name in sys.modules}}))
    """).split()
    assert ("numpy" in loaded) == ("Problem" in use)
    assert set(loaded).isdisjoint(HEAVY)


def test_reading_data_loads_no_problem():
    loaded = python("import sys, mklref.datasets\nprint(*sys.modules)").split()
    assert "mklref.datasets" in loaded
    assert {"mklref.problem", "mklref.certificate", "mklref.losses", "mklref.regularizers"}.isdisjoint(loaded)


def test_a_problem_and_its_certificate_need_numpy_alone():
    """What takes time to import is what others wrote; counted, because a clock would measure the machine."""
    loaded = [
        set(python(f"import sys\n{use}\nprint(*{{name.partition('.')[0] for name in sys.modules}})").split())
        for use in ("import numpy, lazy_loader", "import mklref\nmklref.Problem, mklref.Solution, mklref.certify")
    ]
    assert loaded[1] - loaded[0] - sys.stdlib_module_names == {"mklref"}


LAZY = ("mklref", "mklref.kernels", "mklref.testing")


@pytest.mark.parametrize("name", LAZY)
def test_public_names_are_there(name):
    package = import_module(name)
    assert set(package.__all__) <= set(dir(package))
    assert all(getattr(package, public) is not None for public in package.__all__)
    with pytest.raises(AttributeError, match="solv"):
        package.solv  # noqa: B018


@pytest.mark.parametrize("name", LAZY)
def test_functions_that_name_a_package_go_to_other_processes(name):
    """Those of a notebook are sent with the modules that they name, by cloudpickle, which takes one type of module."""
    cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    package = import_module(name)
    assert pickle.loads(cloudpickle.dumps(package)) is package


MYPY = """
[mypy]
ignore_missing_imports = true
follow_imports = skip
[mypy-mklref.*]
follow_imports = silent
"""


@pytest.mark.thorough
def test_public_names_have_their_types(tmp_path):
    """mypy sees what the interpreter loads lazily: nothing is Any. The types of other packages take longest to read."""
    names = [f"{package}.{name}" for package in LAZY for name in import_module(package).__all__]
    lines = [*(f"import {package}" for package in LAZY), *(f"reveal_type({name})" for name in names)]
    snippet = tmp_path / "snippet.py"
    snippet.write_text("\n".join(lines))
    config = tmp_path / "mypy.ini"
    config.write_text(MYPY)
    command = [sys.executable, "-m", "mypy", "--cache-dir", os.devnull, "--config-file", str(config), str(snippet)]
    path = {**os.environ, "MYPYPATH": "" if "site-packages" in PACKAGE.parts else str(PACKAGE.parent)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=path, check=False)
    types = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert len(types) == len(names), done.stdout
    assert [name for name, revealed in zip(names, types, strict=True) if revealed in ("Any", "builtins.object")] == []
    assert "-> mklref.solution.Solution" in types[names.index("mklref.solve")]
    assert types[names.index("mklref.crosscheck")].endswith("CrossCheck")


DOCUMENTED = {"sklearn.utils._safe_indexing"}
"""A name that is no promise by its spelling, and one by the documentation of its package."""


def test_nothing_private_of_another_package_is_imported():
    """It may be gone with the next release."""
    imported = {
        f"{node.module}.{alias.name}"
        for path in sources()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith(("mklref", "__"))
        for alias in node.names
    }
    assert {name for name in imported if re.search(r"\._(?!_)", name)} == DOCUMENTED
