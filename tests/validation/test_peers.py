"""Certified gap against time of peers: every solver is measured by the certificate of what it returns.

The same solvers in benchopt, whose parts are read with its classes replaced by empty ones.
"""

from __future__ import annotations

import json
import re
import runpy
import shlex
import shutil
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from makers import make_problem

import mklref
from mklref.algorithms import ALGORITHMS
from mklref.exceptions import NotApplicable
from mklref.regularizers import Lp
from mklref.testing.vectors import write_record
from validation.facts import ROOT
from validation.peers import gaps, run
from validation.peers.gaps import curve
from validation.peers.solvers import LABELS, SOLVERS, Failed, command, commands

BENCHMARK = Path(gaps.__file__).parent / "benchmark_mkl"

PROGRAM = """
import sys, mklref
from mklref.testing import vectors
found = mklref.solve(vectors.read_problem(sys.argv[1]), tol=float(sys.argv[3]))
answer = {"dual_coef": found.dual_coef, "weights": found.weights, "intercept": found.intercept}
vectors.write_record(sys.argv[2], answer)
"""


@pytest.fixture(autouse=True)
def core(monkeypatch):
    """What is measured counts here, not its seconds: the twins of the compiled loops will do."""
    monkeypatch.setattr("mklref.native.AVAILABLE", True)


@pytest.fixture(scope="module")
def problem():
    return make_problem(n=14, regularizer=Lp(2), C=2.0, seed=3, degenerate="generic")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "gap"), [("native", 1e-8), ("reference-dual", 1e-8), ("sip", 1e-6), ("svc-loop", 1e-5)]
)
def test_solvers_that_learn_the_weights_get_near_the_optimum(problem, name, gap):
    assert min(point["gap"] for point in curve(SOLVERS[name], problem, most=20.0)[0]) <= gap


def test_weights_that_are_not_learned_show_in_the_gap_whatever_the_tolerance(problem):
    points, ended = curve(SOLVERS["svc-mean"], problem, most=20.0)
    assert ended is None
    assert min(point["gap"] for point in points) > 1e-3


def test_a_solver_that_refuses_has_no_curve(problem):
    points, refused = curve(SOLVERS["simplemkl"], problem, most=20.0)
    assert points == []
    assert isinstance(refused, NotApplicable)


def test_without_a_name_all_peers_run_and_an_unknown_one_is_named(monkeypatch, capsys):
    asked: list[str] = []
    monkeypatch.setattr(run, "verdicts", lambda name: asked.append(name) or {})
    monkeypatch.setattr(run, "line", lambda name, reports: name)
    monkeypatch.setattr(sys, "argv", ["run", "--markdown"])
    run.main()
    assert asked == list(run.PEERS)
    monkeypatch.setattr(sys, "argv", ["run", "shogun"])
    with pytest.raises(SystemExit):
        run.main()
    assert "no peer shogun; known: scikit_learn" in capsys.readouterr().err


def python(script: Path, text: str) -> str:
    """The template of a program of this text."""
    script.write_text(text, encoding="utf-8")
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(script))} {{problem}} {{solution}} {{tolerance}}"


def test_a_program_of_another_language_is_measured_through_files(problem, tmp_path):
    solve = partial(command, python(tmp_path / "program.py", PROGRAM))
    points, ended = curve(lambda P, tol: solve(P, 1e-9), problem, most=0.0)
    assert ended is None
    assert len(points) == 1
    assert points[0]["gap"] <= 1e-8
    assert points[0]["seconds"] > 0.1, "the seconds of the program count"


LINES = """
import sys
sys.exit("first\\nerror: Undefined one\\nerror: called from\\n    one at line 3\\n")
"""
STORED = "import shutil, sys\nshutil.copy({answer}, sys.argv[2])\n"
"""A program that knows the answer: what is run here is the measurement, not the solver."""
FAILURES = {
    "fails": (LINES, "ended with exit code 1: error: Undefined one$"),
    "silent": ("", "ended with exit code 0, but wrote no answer"),
    "junk": ("import sys\nopen(sys.argv[2], 'w').write('junk')\n", "cannot be read"),
    "short": (STORED, "is no point"),
    "late": ("import sys\nassert float(sys.argv[3]) > 1e-3\n" + STORED, "ended with exit code 1: Assert"),
}


def gaps_of(monkeypatch, *words):
    """The exit code of the command on a few digits."""
    monkeypatch.setattr(sys, "argv", ["gaps", *words, "digits", "--samples", "30", "--p", "2", "--most", "60"])
    return gaps.main()


def test_programs_that_fail_are_reported_and_the_others_go_on(monkeypatch, capsys, tmp_path):
    problem, programs = gaps.problem_of("digits", 2.0, 30), {name: text for name, (text, _) in FAILURES.items()}
    for name, tol in (("fine", 1e-9), ("late", 1e-3), ("short", 1e-3)):
        found = mklref.solve(problem, tol=tol)
        beta = found.dual_coef[int(name == "short") :]
        answer = {"dual_coef": beta, "weights": found.weights, "intercept": found.intercept}
        write_record(tmp_path / f"{name}.mat", answer)
    words = ["--json", str(tmp_path / "rows.json")]
    for name, text in {**programs, "fine": STORED}.items():
        text = text.replace("{answer}", repr(str(tmp_path / f"{name}.mat")))
        words += ["--only", name, "--command", f"{name}={python(tmp_path / f'{name}.py', text)}"]
    assert gaps_of(monkeypatch, *words) == 1
    out, err = capsys.readouterr()
    for name, (_, said) in FAILURES.items():
        assert re.search(rf"^digits +p = 2  {name} +failed: .*{said}", err, flags=re.MULTILINE), name
    assert "first" not in err
    assert re.search(r"^digits +p = 2  fine .* gap", out, flags=re.MULTILINE)
    measured = {row["solver"]: len(row["points"]) for row in json.loads((tmp_path / "rows.json").read_text())["rows"]}
    assert measured == {"late": 2, "fine": 1}


def test_a_program_that_is_not_there_is_reported(problem):
    with pytest.raises(Failed, match="nowhere/octave cannot be started: No such file"):
        command("nowhere/octave {problem}", problem, 0.1)


def test_who_refuses_is_left_out_with_the_reason_and_is_no_failure(monkeypatch, capsys):
    assert gaps_of(monkeypatch, "--only", "silp") == 0
    assert re.search(r"silp, the paper's +left out: silp is made for .* the simplex", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "nosuch"], "no solver nosuch; known: native, reference-dual,"),
        (["nosuch"], "no problem nosuch; known: digits, cancer, blobs, mnist"),
        (["--all"], "--all, or digits"),
        (["--draw"], "--draw draws a file: --json FILE, or --all"),
        (["--command", "octave"], "a command is NAME=TEMPLATE, not 'octave'"),
        (["--command", "one=octave {problme}"], "may have {problem}, {solution} and {tolerance}"),
        (["--command", "one=octave 'a"], "No closing quotation"),
    ],
)
def test_an_unknown_name_is_an_error_that_says_which_are_known(words, said, monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        gaps_of(monkeypatch, *words)
    assert stop.value.code == 2
    assert said in capsys.readouterr().err


def test_every_row_says_its_own_run_and_older_rows_what_their_file_says(monkeypatch, tmp_path):
    def row(solver, seconds):
        return {"problem": "digits", "n": 30, "M": 50, "p": 1.0, "solver": solver, "points": [{"seconds": seconds}]}

    path = tmp_path / "rows.json"
    rows = [{**row("native", 1.0), "commit": "a"}, row("sip", 1.0)]
    path.write_text(json.dumps({"facts": {"commit": "b", "machine": "old"}, "rows": rows}))
    monkeypatch.setattr(gaps, "facts", lambda: {"commit": "c", "machine": "new"})
    gaps.store(path, row("silp", 2.0))
    gaps.store(path, {**row("silp", 3.0), "p": 2.0})
    monkeypatch.setattr(gaps, "facts", lambda: {"commit": "d", "machine": "new"})
    gaps.store(path, row("silp", 4.0))
    found = [(row["solver"], row["p"], row["facts"], row["points"][0]["seconds"]) for row in gaps.stored(path)]
    assert found == [
        ("native", 1.0, {"commit": "a", "machine": "old"}, 1.0),
        ("sip", 1.0, {"commit": "b", "machine": "old"}, 1.0),
        ("silp", 2.0, {"commit": "c", "machine": "new"}, 3.0),
        ("silp", 1.0, {"commit": "d", "machine": "new"}, 4.0),
    ]
    provenance = runpy.run_path(str(ROOT / "docs" / "provenance.py"))
    assert list(provenance["commits"](json.loads(path.read_text()))) == ["a", "b", "c", "d"]
    for solver in ("native", "sip"):
        gaps.store(path, row(solver, 5.0))
    assert "old" not in path.read_text(), "what no row needs any more goes"


@pytest.mark.thorough
def test_one_command_measures_every_problem_of_the_page_and_draws(monkeypatch, tmp_path):
    rows = json.loads((ROOT / "validation" / "results" / "peers.json").read_text())["rows"]
    page = {(row["problem"], row["n"]) for row in rows}
    assert {(name, samples or gaps.SIZES[name]) for name, samples in gaps.PAGE} == page
    asked = []

    def small(name, p, samples):
        asked.append((name, p, samples))
        return make_problem(n=10 + len(asked), regularizer=Lp(p), C=2.0, seed=3, degenerate="generic")

    monkeypatch.setattr(gaps, "problem_of", small)
    monkeypatch.setenv("MKLREF_DATA", str(tmp_path))
    path = tmp_path / "rows.json"
    words = ["gaps", "--all", "--only", "native", "--most", "0", "--draw"]
    monkeypatch.setattr(gaps, "STORED", path)
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit, match="2"):  # before anything is measured: there is no mnist
        gaps.main()
    assert asked == []
    (tmp_path / "mnist").mkdir()
    monkeypatch.setattr(gaps, "PAGE", gaps.PAGE[-1:])  # each is a panel that takes its time to draw
    monkeypatch.setattr(sys, "argv", [*words, "--json", str(tmp_path / "scratch.json")])
    assert gaps.main() == 0
    assert asked == [(name, p, samples) for name, samples in gaps.PAGE for p in gaps.NORMS]
    assert len(gaps.stored(tmp_path / "scratch.json")) == len(asked)
    assert (tmp_path / "scratch.svg").read_text().count("<svg") == 1
    drawn = []
    monkeypatch.setattr(gaps.runpy, "run_path", lambda script: {"peers": lambda *words: drawn.append((script, *words))})
    monkeypatch.setattr(sys, "argv", words)
    assert gaps.main() == 0
    assert drawn == [(str(ROOT / "docs" / "figures" / "results.py"), path)]


STANDIN = """
function [d, w, b, pos] = mklsvm(K, y, C, options, verbose)
    M = size(K, 3); d = ones(1, M) / M; q = zeros(1, M);
    for step = 1:2000
        G = zeros(numel(y));
        for m = 1:M, G = G + d(m) * K(:, :, m); end
        a = qp(zeros(size(y)), (y * y') .* G, -ones(size(y)), y', 0, zeros(size(y)), C * ones(size(y)));
        for m = 1:M, q(m) = (a .* y)' * K(:, :, m) * (a .* y); end
        if (max(q) - d * q') / 2 <= options.seuildualitygap * sum(a) / 2, break; end
        d = d .* sqrt(q) / (d * sqrt(q)');
    end
    pos = flipud(find(a > 1e-9 * C)); w = a(pos) .* y(pos);
    free = find(a > 1e-6 * C & a < (1 - 1e-6) * C);
    b = mean(y(free) - G(free, pos) * w);
end
"""
"""A solver with the arguments and answers of the toolbox, which is not ours to distribute."""

SIMPLEMKL = ROOT / "docs" / "adapters" / "simplemkl.m"
octave = pytest.mark.skipif(shutil.which("octave-cli") is None, reason="Octave is not on this machine")


WORDS = gaps.__doc__.partition("--p 1 --command ")[2].partition("\n\n")[0]
"""The command of the help."""


def test_the_page_has_the_command_of_the_help():
    page = (ROOT / "docs" / "native-benchmark.md").read_text(encoding="utf-8")
    assert len(shlex.split(WORDS)) == 1
    assert " ".join(WORDS.split()) in page


def by_octave(tmp_path, problem, old="", new=""):
    """The gap of the stand-in by the command of the help, with one piece of the text of the wrapper replaced."""
    text = SIMPLEMKL.read_text(encoding="utf-8")
    assert not old or text.count(old) == 1
    (tmp_path / "simplemkl.m").write_text(text.replace(old, new) if old else text, encoding="utf-8")
    (tmp_path / "mklsvm.m").write_text(STANDIN, encoding="utf-8")
    template = shlex.split(WORDS)[0].replace("docs/adapters", str(tmp_path)).replace("TOOLBOX", str(tmp_path))
    beta, theta, b = commands([template])["SimpleMKL"](problem, 1e-3)
    return mklref.certify(problem, beta, weights=theta, intercept=b).relative_gap


TOOLBOX_PROBLEM = {"n": 24, "M": 3, "regularizer": Lp(1), "C": 0.5, "seed": 3, "degenerate": "generic"}


@pytest.mark.thorough
@octave
def test_a_solver_of_the_toolbox_is_certified_through_its_wrapper(tmp_path):
    assert by_octave(tmp_path, make_problem(**TOOLBOX_PROBLEM)) <= 2e-3


@octave
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("P.C, options", "1 / P.C, options"),
        ("dual_coef(pos) = w", "dual_coef(pos) = w .* P.y(pos)(:)"),
        ("dual_coef(pos) = w", "dual_coef(1:numel(w)) = w"),
        ("weights = d(:)", "weights = sqrt(d(:))"),
        ("intercept = b", "intercept = -b"),
        ("'seuildualitygap', tolerance", "'seuildualitygap', 1e3"),
    ],
)
def test_and_not_through_a_wrong_twin_of_the_wrapper(old, new, tmp_path):
    assert by_octave(tmp_path, make_problem(**TOOLBOX_PROBLEM), old, new) > 2e-3


@octave
def test_the_wrapper_refuses_what_the_toolbox_does_not_solve(problem, tmp_path):
    with pytest.raises(Failed, match=r"exit code 1: error: simplemkl is for the hinge loss .* p = 1"):
        by_octave(tmp_path, problem)


def test_names_need_no_quotes_and_pictures_have_their_labels():
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in SOLVERS)
    assert set(LABELS) == set(SOLVERS) - {"native"}
    assert [LABELS[name.replace("_", "-")] for name in ALGORITHMS] == [f"{name}, the paper's" for name in ALGORITHMS]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("octave", "NAME=TEMPLATE, not 'octave'"),
        ("=octave", "NAME=TEMPLATE, not '=octave'"),
        ("octave=", "NAME=TEMPLATE, not 'octave='"),
        ("native=octave", "a solver 'native' already"),
        ("MKLpy's EasyMKL=octave", 'EasyMKL" already'),
    ],
)
def test_a_command_has_a_name_of_its_own_and_a_template(text, said):
    with pytest.raises(ValueError, match=said):
        commands([text])
    assert list(commands(["one=octave --eval a=1", "two=octave"])) == ["one", "two"]


@pytest.fixture
def part(monkeypatch):
    """The class that a file of the benchmark defines."""
    monkeypatch.setitem(
        sys.modules, "benchopt", SimpleNamespace(BaseSolver=object, BaseObjective=object, BaseDataset=object)
    )
    return lambda file, name: runpy.run_path(str(BENCHMARK / file))[name]


@pytest.mark.thorough
def test_in_benchopt_every_solver_and_every_command_of_the_environment_takes_part(part, problem, monkeypatch, tmp_path):
    monkeypatch.setenv("MKLREF_PEERS", f"\nmine = {python(tmp_path / 'program.py', PROGRAM)}\n")
    kind = part("solvers/all.py", "Solver")
    assert kind.parameters["which"] == [*SOLVERS, "mine"]
    for name in ("native", "svc-loop", "mine"):
        solver = kind()
        solver.which = name
        assert solver.skip(problem) == (False, None)
        solver.set_objective(problem)
        solver.run(1e-6)
        found = solver.get_result()
        gap = mklref.certify(problem, found.pop("dual_coef"), **found).relative_gap
        assert gap <= (1e-3 if name == "svc-loop" else 1e-6)
    solver.which = "silp"
    assert solver.skip(problem)[0]
    assert "simplex" in solver.skip(problem)[1]


def test_in_benchopt_the_problems_are_those_of_the_page_or_smaller(part):
    data = part("datasets/problems.py", "Dataset")()
    assert data.parameters == {"problem": list(gaps.SIZES), "samples": [None]}
    data.problem, data.samples = "digits", 30
    assert data.get_data()["kernels"].shape == (50, 30, 30)


def test_in_benchopt_nothing_is_timed_without_the_compiled_core(part, problem, monkeypatch):
    objective = part("objective.py", "Objective")()
    objective.p = 2.0
    objective.set_data(problem.kernels.dense(), problem.y, 1.0)
    assert objective.get_objective()["problem"].regularizer.p == 2.0
    monkeypatch.setattr("mklref.native.AVAILABLE", False)
    monkeypatch.setattr("mklref.native.WHY", "No compiler.")
    with pytest.raises(SystemExit, match=r"Nothing is timed without the compiled core\. No compiler\."):
        objective.set_data(problem.kernels.dense(), problem.y, 1.0)
