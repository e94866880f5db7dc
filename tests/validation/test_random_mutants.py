"""The sampler of faults: its operators, its places, and what it says of a fault that no test sees."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from validation import random_mutants
from validation.mutants import KILLED, SURVIVED, mutants as fixed
from validation.random_mutants import ROOT, Mutant, mutants, mutants_of

CHANGES = {
    "a < b": {"((a) <= (b))", "((a) > (b))"},
    "a == b": {"((a) != (b))"},
    "a not in b": {"((a) in (b))"},
    "a < b < c": set(),
    "a - b": {"((a) + (b))"},
    "(a + b) ** c": {"((a + b) * (c))", "(((a) - (b))) ** c"},
    "x += f(y)": {"x -= f(y)", "pass"},
    "-a": {"(a)"},
    "not a": {"(a)"},
    "a or b": {"((a) and (b))"},
    "x = 3": {"x = 4"},
    "x = 0.5": {"x = 1.5", "x = 0.25"},
    "x = True": {"x = False"},
    "x = 'text'": set(),
    "a if b else c": {"a if (not (b)) else c"},
    "[a for a in b if a]": {"[a for a in b if (not (a))]"},
    "f(a)": {"pass"},
    "x = f(a)": set(),
    "x[a] = b": {"pass"},
    "np.maximum(a, b)": {"np.minimum(a, b)", "pass"},
    "x = any(a)": {"x = all(a)"},
    "def f(a: int = 1) -> int: return a": {
        "def f(a: int = 2) -> int: return a",
        "def f(a: int = 1) -> int: return None",
    },
    "if TYPE_CHECKING: f(1)": set(),
    "x = f'{a + 1}'": set(),
    "ä = 'ö' + b": {"ä = (('ö') - (b))"},
}


@pytest.mark.parametrize("code", CHANGES)
def test_operators_change_what_they_say(code):
    found = {mutant.applied(code.encode()).decode() for mutant in mutants_of(code, "part", "file")}
    assert found == CHANGES[code]


def test_every_mutant_of_the_package_is_another_program():
    every = mutants()
    assert len({mutant.part for mutant in every}) == 3
    for k in np.random.default_rng(0).permutation(len(every))[:60]:
        source = (ROOT / every[k].file).read_bytes()
        assert ast.dump(ast.parse(every[k].applied(source))) != ast.dump(ast.parse(source))


def test_a_mutant_belongs_to_its_innermost_function():
    source = "a = 1\n\n@d\ndef f():\n    b = 2\n    def g():\n        return 3\n"
    found = {mutant.line: mutant.function for mutant in mutants_of(source, "part", "file.py")}
    assert found == {1: "file.py", 5: "file.py:3", 7: "file.py:6"}


@pytest.mark.parametrize("found", [KILLED, SURVIVED])
@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ({"code.py:1": ["one", "two"], "everywhere": []}, ["one", "two"]),
        ({"code.py:1": ["one"], "everywhere": ["code.py:1"]}, ["all"]),
        ({"everywhere": []}, ["all"]),
    ],
)
def test_the_tests_that_call_the_function_judge(calls, expected, found, monkeypatch, tmp_path, capsys):
    """The fault is in the tree while they run, and gone afterwards."""
    (tmp_path / "code.py").write_text("def f():\n    return 1\n")
    mutant = Mutant("verify", "code.py", 2, "constant", "code.py:1", 20, 21, "1", "2")
    ran = []

    def outcome(tree, tests):
        assert (tree / "code.py").read_text() == "def f():\n    return 2\n"
        ran.extend(tests)
        return found

    monkeypatch.setattr(random_mutants, "ROOT", tmp_path)
    monkeypatch.setattr(random_mutants, "PARTS", {"verify": ("code.py", ("all",))})
    monkeypatch.setattr(random_mutants, "mutants", lambda only: [mutant])
    monkeypatch.setattr(random_mutants, "copied", lambda target: tmp_path)
    monkeypatch.setattr(random_mutants, "callers", lambda tree, part: calls)
    monkeypatch.setattr(random_mutants, "outcome", outcome)
    assert random_mutants.main(["--sample", "9"]) == int(found == SURVIVED)
    assert ran == expected
    assert f"verify: {int(found == KILLED)} of 1 killed" in capsys.readouterr().out
    assert (tmp_path / "code.py").read_text() == "def f():\n    return 1\n"


CODE = "def one(): pass\ndef two(): pass\ndef three(): pass\n"
TESTS = """
import pytest
from mklref import code

code.three()

@pytest.fixture(scope="module")
def shared():
    code.two()

def test_first(shared): pass
def test_second(shared): code.one()
"""


def test_the_plugin_says_who_calls_what(tmp_path):
    for name, text in {"mklref/__init__.py": "", "mklref/code.py": CODE, "tests/test_it.py": TESTS}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "MKLREF_CALLS": str(tmp_path / "calls.json"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "validation.calls", "tests"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    calls = json.loads((tmp_path / "calls.json").read_text())
    assert {function: sorted(tests) for function, tests in calls.items()} == {
        "mklref/code.py:1": ["test_it.py::test_second"],
        "mklref/code.py:2": ["test_it.py::test_first", "test_it.py::test_second"],
        "everywhere": ["mklref/code.py:3"],
    }


def test_every_fault_of_the_fixed_table_has_its_place_in_the_code():
    stale = [one for one in fixed() if (ROOT / "mklref" / one.file).read_text(encoding="utf-8").count(one.old) == 0]
    assert stale == []
