"""The sampler of faults: its operators, its places, and what it says of a fault that no test sees.

Every planted wrong formulation fails the cross-check, and the right ones pass it on the same problems.
The oracle calls planted faults by their names as often as the documentation says.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mklref.formulations import FORMULATIONS
from mklref.testing import select
from validation import random_mutants
from validation.confusion import NARROW, killed, packed, right, stored, summary, unpacked
from validation.forked import in_turn
from validation.mutants import FOUND_FIRST, KILLED, SURVIVED, mutants as fixed, require_imported
from validation.planted import FAULTS as PLANTS
from validation.random_mutants import ROOT, mutants, mutants_of
from validation.wrong_formulations import COUNTS, Mutant, healthy, mutants as wrong, planted, run

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
    every = mutants("certificate/bounds.py") + mutants("mklref/verify.py")
    assert {mutant.part for mutant in every} == {"certificate", "verify"}
    for k in np.random.default_rng(0).permutation(len(every))[:8]:
        source = (ROOT / every[k].file).read_bytes()
        assert ast.dump(ast.parse(every[k].applied(source))) != ast.dump(ast.parse(source))


def test_components_and_their_tests_are_there():
    for code, tests in random_mutants.PARTS.values():
        assert (ROOT / code).exists()
        assert all((ROOT / "tests" / test).exists() for test in tests)


def test_a_mutant_belongs_to_its_innermost_function():
    source = "a = 1\n\n@d\ndef f():\n    b = 2\n    def g():\n        return 3\n"
    found = {mutant.line: mutant.function for mutant in mutants_of(source, "part", "file.py")}
    assert found == {1: "file.py", 5: "file.py:3", 7: "file.py:6"}


CODE = """
SIZE = 3

def one(a=5): return a < SIZE

def two(): return 1

def three(): return one(2)

def four(b=3): return b - one(9) - one(1)
"""
TESTS = """
import subprocess, sys
import pytest
from mklref import code
from mklref.code import one, three

SIX = code.two() + 5

@pytest.fixture(scope="module")
def shared():
    return three()

def test_first(shared): assert shared
def test_second(): assert not one()
def test_third(): assert SIX == 6
def test_fifth(): assert code.two() > 1
def test_fourth(): assert not subprocess.call([sys.executable, "-c", "import mklref.code as c; assert c.four(3) == 2"])
"""
FAULTS = {
    ("SIZE = 3", "3", "1"): KILLED,  # importing executes it
    ("a < SIZE", "a < SIZE", "a > SIZE"): KILLED,  # one and three are names of the tests, not of the module
    ("a < SIZE", "a < SIZE", "a <= SIZE"): SURVIVED,
    ("return 1", "1", "2"): KILLED,  # the tests call it while they are collected
    ("one(2)", "2", "4"): KILLED,
    ("one(1)", "one(1)", "(0)"): KILLED,  # a program calls it
}


OPTIONS = """
import gc

def pytest_addoption(parser): parser.addoption("--all", action="store_true")
def pytest_collection_finish(): gc.freeze()  # as the tests of the package do
"""


@pytest.fixture
def tree(tmp_path):
    files = {"mklref/__init__.py": "", "mklref/code.py": CODE, "tests/test_it.py": TESTS, "tests/conftest.py": OPTIONS}
    files["sitecustomize.py"] = FOUND_FIRST
    for name, text in files.items():
        (tmp_path / "tree" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "tree" / name).write_text(text)
    return tmp_path / "tree"


@pytest.mark.thorough
def test_faults_are_judged_by_the_tests_that_meet_them(tree, monkeypatch, capsys):
    """The fault is in the tree while they run, and gone afterwards."""
    drawn = []
    for place, old, new in FAULTS:
        start = CODE.index(place) + place.index(old)
        near = (one for one in mutants_of(CODE, "verify", "mklref/code.py") if one.start <= start < one.end)
        drawn.append(
            replace(min(near, key=lambda one: one.end - one.start), start=start, end=start + len(old), new=new)
        )
    monkeypatch.setattr(random_mutants, "PARTS", {"verify": ("mklref/code.py", ("test_it.py",))})
    monkeypatch.setattr(random_mutants, "mutants", lambda only: drawn)
    monkeypatch.setattr(random_mutants, "copied", lambda target: tree)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist.plugin")
    found = {drawn.index(mutant): outcome for mutant, outcome, _ in random_mutants.run(drawn, tree.parent)}
    assert [found[k] for k in range(len(drawn))] == list(FAULTS.values())
    assert "judge nothing: tests/test_it.py::test_fifth" in capsys.readouterr().err
    assert (tree / "mklref/code.py").read_text() == CODE
    calls = json.loads((tree.parent / "verify.json").read_text())
    every = [f"test_it.py::test_{name}" for name in ("first", "fourth", "second", "third")]
    assert {function: sorted(tests) for function, tests in calls.items()} == {
        "mklref/code.py:4": every,
        "mklref/code.py:8": every,
        "programs": ["test_it.py::test_fourth"],
        "failed": ["tests/test_it.py::test_fifth"],
        "everywhere": ["mklref/code.py:6"],
    }
    killed = [fault for fault in drawn if FAULTS[list(FAULTS)[drawn.index(fault)]] == KILLED and fault.inside][:1]
    nobody: dict[str, list[str]] = {f"mklref/code.py:{line}": [] for line in (4, 8)}
    (tree.parent / "verify.json").write_text(json.dumps({**calls, **nobody, "programs": [], "everywhere": []}))
    assert [found for _, found, _ in random_mutants.run(killed, tree.parent)] == [SURVIVED]  # by what was kept


def test_one_case_of_every_test_comes_first():
    names = ["m.py::a[1]", "m.py::a[2]", "m.py::a[3]", "m.py::b", "m.py::c[1]", "m.py::c[2]"]
    items = in_turn([SimpleNamespace(nodeid=name) for name in names])
    assert [item.nodeid for item in items] == [names[k] for k in (0, 3, 4, 1, 5, 2)]


@pytest.mark.thorough
def test_a_copy_that_the_tests_would_not_import_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"would import .*mklref \(compiled core: .*pip install"):
        require_imported(tmp_path)


@pytest.mark.parametrize("found", [KILLED, SURVIVED])
def test_a_survivor_is_counted_and_ends_in_the_exit_code(found, monkeypatch, capsys):
    monkeypatch.setattr(random_mutants, "run", lambda chosen, *_: ((mutant, found, 0.1) for mutant in chosen))
    assert random_mutants.main(["--sample", "2", "--only", "verify"]) == int(found == SURVIVED)
    assert f"verify: {2 * (found == KILLED)} of 2 killed" in capsys.readouterr().out


def test_every_fault_of_the_fixed_table_has_its_place_in_the_code():
    stale = [one for one in fixed() if (ROOT / "mklref" / one.file).read_text(encoding="utf-8").count(one.old) == 0]
    assert stale == []


MUTANTS = wrong()


def test_every_formulation_has_at_least_five():
    counts = Counter(mutant.formulation for mutant in MUTANTS)
    assert set(counts) == set(FORMULATIONS)
    assert min(counts.values()) >= 5
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.sampled(110)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_wrong_formulation_fails_the_cross_check(mutant):
    outcome = run(mutant)
    assert outcome.killed or mutant.same, str(outcome.check)
    assert (outcome.change <= COUNTS) == bool(mutant.same)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "case", sorted({(mutant.formulation, mutant.regularizer, mutant.loss) for mutant in MUTANTS}), ids=" ".join
)
def test_the_right_formulation_passes(case):
    check = healthy(*case)
    assert check.passed, str(check)
    assert check.decided


def test_a_mutant_that_no_longer_fits_its_file_is_an_error():
    with (
        pytest.raises(ValueError, match=r"dual\.py holds no 'sum of squares'"),
        planted(Mutant("dual", "", "sum of squares", "")),
    ):
        pass


def test_every_narrow_solver_meets_sixty_cases():
    """All of which the native solver passes, see test_check_solver.py."""
    built = [case.build() for case in select()]
    for who, supports in NARROW.items():
        assert sum(not any(map(supports, problems)) for problems in built) >= 60, who


def test_the_stored_confusion_matrix_is_as_good_as_the_docs_say():
    rows = stored()
    assert unpacked(packed(rows[::50])) == rows[::50]
    facts = summary(rows)
    assert facts["kinds"] >= 40
    assert facts["named first"] >= 0.97
    assert {row[0] for row in rows} >= {case.name for case in select(exclude="grid")}
    assert {row[1] for row in rows} == set(PLANTS)
    assert not any(right(row) and row[2] == "optimal all the same" for row in rows)
    for who, numbers in killed(rows).items():
        assert not numbers["alive"], who
