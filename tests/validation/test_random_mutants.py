"""The sampler of faults: its operators, its places, and what it says of a fault that no test sees."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from validation import random_mutants
from validation.mutants import KILLED, SURVIVED
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


@pytest.mark.parametrize(
    ("ends", "survives", "tests_run"),
    [
        ({"near": KILLED}, False, ["near"]),
        ({"near": SURVIVED, "every": KILLED}, False, ["near", "every"]),
        ({"near": SURVIVED, "every": SURVIVED}, True, ["near", "every"]),
    ],
)
def test_survivors_of_the_near_tests_meet_all_of_them(ends, survives, tests_run, monkeypatch, tmp_path, capsys):
    """The fault is in the tree while they run, and gone afterwards."""
    (tmp_path / "code.py").write_text("def f():\n    return 1\n")
    mutant = Mutant("verify", "code.py", 2, "constant", "code.py:1", 20, 21, "2")
    ran = []

    def outcome(tree, tests):
        assert (tree / "code.py").read_text() == "def f():\n    return 2\n"
        ran.extend(tests)
        return ends[tests[0]]

    monkeypatch.setattr(random_mutants, "ROOT", tmp_path)
    monkeypatch.setattr(random_mutants, "PARTS", {"verify": ("code.py", ("every",))})
    monkeypatch.setattr(random_mutants, "mutants", lambda only: [mutant])
    monkeypatch.setattr(random_mutants, "copied", lambda target: tmp_path)
    monkeypatch.setattr(random_mutants, "callers", lambda tree, part: {"code.py:1": ["near"]})
    monkeypatch.setattr(random_mutants, "outcome", outcome)
    assert random_mutants.main(["--sample", "9"]) == int(survives)
    assert ran == tests_run
    assert f"verify: {int(not survives)} of 1 killed" in capsys.readouterr().out
    assert (tmp_path / "code.py").read_text() == "def f():\n    return 1\n"
