"""The command line: exit codes, what it prints, files it reads and writes, one line for every error."""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from unittest.mock import Mock

import cvxpy as cp
import numpy as np
import pytest
from makers import make_problem

import mklref
from mklref import datasets, equivalences, native, reference
from mklref.cli import fit, main, others
from mklref.cli.options import COSTS, NORMS, SAMPLES, parser
from mklref.cli.problem import Input, read, targets_for_loss
from mklref.cli.table import read_messy
from mklref.exceptions import InvalidType, SolverFailure
from mklref.kernels import from_specification
from mklref.losses import Hinge, as_loss
from mklref.problem import Problem
from mklref.solution import Solution

SMALL = ["--samples", "30", "--kernels", "linear,rbf:1..4:2"]
ONE_ROW = ["--formulations", "dual", "--solvers", "CLARABEL"]


@pytest.mark.thorough
def test_crosscheck_passes_on_bundled_data(run):
    out = run(["crosscheck", *SMALL]).out
    assert "breast_cancer (scikit-learn" in out
    assert "30 of 569, drawn with seed 0\n" in out
    assert "benign = -1" in out
    assert "hinge, p = 1, C = 100" in out
    assert "hinge, p = 4/3, C = 100" in out
    assert "hinge, p = 2, C = 100" in out
    for name in ("native", "qcqp", "dual", "weighted_primal", "mixed_norm", "CLARABEL", "ECOS"):
        assert name in out
    assert out.count("█") > 4
    assert out.rstrip().endswith("PASSED: all 3 problems")


def test_defaults_are_those_of_the_documentation():
    arguments = parser().parse_args(["crosscheck"])
    assert (arguments.data, arguments.p or NORMS, arguments.C or COSTS) == ("breast_cancer", (1, 4 / 3, 2), (100,))
    assert (SAMPLES, arguments.seed or 0, arguments.tol, arguments.reference_tol) == (150, 0, 1e-6, 1e-3)
    (commands,) = (action.choices for action in parser()._actions if action.dest == "command")
    for action in (action for command in commands.values() for action in command._actions):
        said = re.search(r"\(([^ ()]+)\)$", action.help or "")  # at the end of the help, as the option itself reads it
        if said and action.default not in (None, False, []):
            assert action.default == (action.type or str)(said[1]), action.dest


def test_options_of_fit_reach_the_search(tmp_path):
    """Nothing is learned for it."""
    file = tmp_path / "t.csv"
    file.write_text(
        "dose; in mg, daily, at home;ill\n" + "".join(f"{k};{k * k};{'no' if k < 8 else 'yes'}\n" for k in range(16))
    )

    def search(*options):
        arguments = parser().parse_args(["fit", str(file), "--separator", ";", *options])
        made = read_messy(arguments).pipeline(arguments)["model"].get_params()
        return {**made, "folds": made["cv"].n_splits, "seed": made["cv"].random_state, "shuffle": made["cv"].shuffle}

    usual = {
        "": dict.fromkeys(("max_time", "scoring", "class_weight")) | {"verbose": False, "n_jobs": 1, "seed": 0},
        "--rule one-standard-error --normalize none": {"rule": "one_standard_error", "normalize": None},
        "--tol 1/8 --max-time 5 --jobs 2 --verbose": {"tol": 0.125, "max_time": 5.0, "n_jobs": 2, "verbose": True},
        "--scoring roc_auc --class-weight yes=3": {"scoring": "roc_auc", "class_weight": {"no": 1.0, "yes": 3.0}},
        "--class-weight balanced": {"class_weight": "balanced"},
        "--folds 3 --seed 4 --C 1..100:2 --p inf": {"folds": 3, "seed": 4, "Cs": [1.0, 100.0], "norms": [np.inf]},
        "--loss logistic --kernels poly:2": {"loss": as_loss("logistic"), "kernels": "poly:2", "shuffle": True},
    }
    for options, expected in usual.items():
        found = search(*options.split())
        assert {name: found[name] for name in expected} == expected


def test_options_of_commands_that_hand_them_on(monkeypatch, tmp_path, run):
    """`vectors` and `explore` to what does the work, which is not done here; `reproduce` hands on what is read."""
    export, explore = Mock(return_value={"problems": [{"bounds": "rigorous"}, {"bounds": "none"}]}), Mock()
    monkeypatch.setattr(others, "export_vectors", export)
    told = run(
        ["vectors", str(tmp_path), "--include", "a,b", "--exclude", "c", "--suite", "real", "--formats", "mat"]
    ).out
    assert told == f"2 problems as mat in {tmp_path}, with index.json; the bounds of 1 are proven\n"
    given = export.call_args.kwargs
    given.pop("progress")()
    assert given == {"include": ["a", "b"], "exclude": ["c"], "suite": "real", "formats": ["mat"]}
    monkeypatch.setattr("mklref.explore.serve.explore", explore)
    monkeypatch.setattr(others.os, "_exit", Mock())
    for more, browser in ([], True), (["--no-browser"], False):
        main(["explore", "--port", "7", "--data", "rings", *more])
        explore.assert_called_with(7, browser=browser, data="rings")
    plain = vars(parser().parse_args(["reproduce"]))
    for flag in ("quick", "stale", "list", "render", "docs", "force"):
        given = vars(parser().parse_args(["reproduce", f"--{flag}"]))
        assert {name for name, value in given.items() if value is not plain[name]} == {flag}


def test_a_norm_is_a_fraction_in_a_title_where_it_is_one():
    data = Input(kernels=None, y=None, loss="hinge", facts={})
    assert [data.title(p, 2.0) for p in (1.0, 4 / 3, 1.2345, np.inf)] == [
        f"hinge, p = {p}, C = 2" for p in ("1", "4/3", "1.2345", "inf")
    ]


def test_fit_and_path_print_what_the_folds_have_found(table, tmp_path, run, calls_of):
    """For each C the best p; a path at p = 1 has the errors of the search there, and the optima of its problems."""
    searches = calls_of(fit, "_show_search", lambda out, search, classes: search)
    tests = calls_of(fit, "_show_evaluation", lambda out, evaluation, arguments: evaluation)
    options = [table, "--kernels", "linear, rbf(1)", "--folds", "3", "--C", "0.1,10", "--seed", "3"]
    lines = [line.split() for line in run(["fit", *options, "--p", "1,2"]).out.splitlines()]
    (search,), (evaluation,) = searches, tests
    found = {name: np.asarray(value) for name, value in search.cv_results_.items() if name != "params"}
    for C in (0.1, 10.0):
        best = max(np.flatnonzero(found["param_C"] == C), key=lambda k: found["mean_test_score"][k])
        errors = [1.0 - found[f"split{f}_test_score"][best] for f in range(3)]
        kernels = f"{found['n_kernels'][best]:.1f}"
        numbers = [f"{np.mean(errors):.4f}", f"{np.std(errors, ddof=1) / np.sqrt(3.0):.4f}", kernels]
        chosen = ["<"] * int(best == search.best_index_)
        assert [f"{C:g}", f"{found['param_norm'][best]:g}", *numbers, *chosen] in lines
    assert ["chosen:", "C", "=", f"{search.C_:g},", "p", "=", f"{search.norm_:g}"] in [line[-7:] for line in lines]
    for name, row in zip(evaluation.classes, evaluation.confusion, strict=True):
        assert [name, *map(str, row)] in lines

    file, data = tmp_path / "path.csv", datasets.read_csv(table).standardized()
    lines = [line.split() for line in run(["path", *options, "--out", str(file)]).out.splitlines()]
    stack = from_specification("linear, rbf(1)", data.X, normalize="multiplicative")
    for row, C in zip(csv.DictReader(file.read_text().splitlines()), (0.1, 10.0), strict=True):
        at = np.flatnonzero((found["param_C"] == C) & (found["param_norm"] == 1.0))
        errors = [1.0 - found[f"split{f}_test_score"][at].item() for f in range(3)]
        assert [float(row[f"error of fold {f + 1}"]) for f in range(3)] == pytest.approx(errors, abs=1e-8)
        numbers = [f"{np.mean(errors):.4f}", f"{np.std(errors, ddof=1) / np.sqrt(3.0):.4f}"]
        assert [f"{C:g}", *numbers] in [[line[0], *line[-2:]] for line in lines if line]
        problem = Problem(stack, np.where(data.y == "ill", 1.0, -1.0), C=C)
        assert float(row["objective"]) == pytest.approx(native.solve(problem).objective, rel=2e-3)


def test_solvers_that_give_up_leave_nothing_checked(monkeypatch, run):
    monkeypatch.setattr(reference.Compiled, "solve", Mock(side_effect=SolverFailure("out of luck.")))
    out = run(["crosscheck", *SMALL, *ONE_ROW, "--p", "2"], 1).out
    assert "dual/CLARABEL: the solver gave up; out of luck." in out
    assert out.rstrip().endswith(
        "UNDECIDED: nothing was checked: no solver stands by the value of a formulation; no verdict of dual/CLARABEL"
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    ("fault", "word"), [("scaled", "states the value"), ("infeasible", "infeasible"), ("unbounded", "unbounded")]
)
def test_a_fault_in_every_cvxpy_program_has_exit_code_1(monkeypatch, fault, word, jobs, run):
    """From outside: an objective that is 1.001 times too large, or programs that have no solution."""
    genuine = cp.Problem.__init__

    def faulty(self, objective, constraints=()):
        expression = objective.args[0]
        if fault == "scaled":
            objective = type(objective)(1.001 * expression)
        elif fault == "infeasible":
            x = cp.Variable()
            constraints = [*constraints, x >= 1, x <= 0]
        else:
            better = cp.Variable(nonneg=True)
            objective = type(objective)(expression + (better if isinstance(objective, cp.Maximize) else -better))
        genuine(self, objective, constraints)

    monkeypatch.setattr(cp.Problem, "__init__", faulty)
    out = run(["crosscheck", *SMALL, "--p", "1", "--jobs", jobs, "--formulations", "qcqp,mixed_norm"], 1).out
    verdict = out.rstrip().splitlines()[-1]
    assert verdict.startswith("FAILED: ")
    for label in ("qcqp/CLARABEL", "qcqp/ECOS", "mixed_norm/CLARABEL", "mixed_norm/ECOS"):
        assert label in verdict
    assert word in verdict
    assert "optimal" in out  # the native row


UNGUARDED = """
import multiprocessing, sys
spawn = multiprocessing.get_context("spawn")
multiprocessing.get_context = lambda method: spawn
import mklref
from makers import make_problem
mklref.crosscheck(make_problem(n=20, M=3), formulations=["dual"], solvers=["CLARABEL"], processes=2)
"""


@pytest.mark.thorough
def test_a_script_that_a_process_would_run_anew_is_told_so():
    """Here it stands in no file: the process looks for it, and ends."""
    paths = os.pathsep.join([str(Path(mklref.__file__).parents[1]), str(Path(__file__).parents[1])])
    options = {"env": {**os.environ, "PYTHONPATH": paths}, "capture_output": True, "text": True, "check": False}
    done = subprocess.run([sys.executable, "-P"], input=UNGUARDED, **options)
    assert "SolverFailure: a process for rows ended as it began" in done.stderr
    assert "below `if __name__ == '__main__':`" in done.stderr


def test_a_problem_that_no_other_process_can_have_is_named(monkeypatch):
    class Local(Hinge):
        """Of this function alone."""

    spawn = multiprocessing.get_context("spawn")
    monkeypatch.setattr(multiprocessing, "get_context", lambda method: spawn)
    with pytest.raises(InvalidType, match=r"problem cannot be sent to another process: .*Local.* max_time\."):
        mklref.crosscheck(make_problem(n=20, M=3, loss=Local()), max_time=60.0)


def test_rows_in_processes_are_those_of_one(tmp_path):
    def answers(jobs):
        file = tmp_path / f"{jobs}.json"
        options = ["--p", "1,2", "--formulations", "dual", "--jobs", jobs, "--json", str(file)]
        assert main(["crosscheck", *SMALL, *options]) == 0
        checks = json.loads(file.read_text())["checks"]
        return [(row["formulation"], row["solver"], row["value"]) for check in checks for row in check["rows"]]

    for one, other in zip(answers("1"), answers("3"), strict=True):
        assert one[:2] == other[:2]
        assert one[0] == "native" or one[2] == pytest.approx(other[2], rel=1e-7)


def test_own_csv_file(table, run):
    options = ["--p", "4/3", "--C", "1,10", "--kernels", "linear,rbf:1,per-variable", *ONE_ROW]
    out = run(["crosscheck", "--data", table, *options]).out
    assert "healthy = -1" in out
    assert "ill = +1" in out
    assert "all 40" in out
    assert "rbf:1[dose]" in out
    assert "hinge, p = 4/3, C = 1\n" in out
    assert "hinge, p = 4/3, C = 10\n" in out


def test_target_and_positive_class(refused, table, run):
    encoded = ["solve", "--data", table, "--target", "dose", "--loss", "squared", "--kernels", "rbf:1"]
    assert "columns:  4 variables from 3 of 3 columns" in run(encoded).out
    assert "columns:  2 variables from 2 of 3 columns" in run([*encoded, "--columns", "outcome=leave"]).out
    lacking = ["solve", "--data", table, "--missing", "ill", "--loss", "one_class"]
    ill = Path(table).read_text().count("ill")
    assert f"all {40 - ill}; {ill} without a target left out" in run(lacking).out
    assert "column 'outcome': 'date': its cells" in refused([*encoded, "--columns", "outcome=date"])
    assert "ill = -1" in run(["solve", "--data", table, "--positive", "healthy"]).out
    assert "not class_1 = -1" in run(["solve", "--data", "wine", "--positive", "class_1", *SMALL]).out


def test_own_kernels(npz, run):
    path, problem = npz
    out = run(["solve", "--data", path]).out
    assert "3 as given, normalisation: none" in out
    assert f"{native.solve(problem).objective:.6g}"[:6] in out
    assert "15 of 20" in run(["crosscheck", "--data", path, "--samples", "15", "--normalize", "trace", *ONE_ROW]).out


def saved_objective(tmp_path, *arguments: str) -> float:
    """The objective of `mklref solve` with these arguments."""
    file = tmp_path / "solved.npz"
    assert main(["solve", *arguments, "--tol", "1e-9", "--save", str(file)]) == 0
    return Solution.load(file).objective


def test_a_table_is_drawn_encoded_standardised_and_normalised(tmp_path, table):
    data = datasets.read_csv(table).subset(25, 3).standardized()
    kernels = from_specification("linear,rbf:1", data.X, normalize="spherical")
    y = np.where(data.y == "ill", 1.0, -1.0)
    problem = Problem(kernels, y, C=3.0, loss="squared_hinge", regularizer=mklref.Lp(2))
    options = ["--samples", "25", "--seed", "3", "--kernels", "linear,rbf:1", "--normalize", "spherical"]
    solved = saved_objective(tmp_path, "--data", table, *options, "--C", "3", "--p", "2", "--loss", "squared_hinge")
    assert solved == pytest.approx(native.solve(problem, tol=1e-9).objective, rel=1e-8)


@pytest.mark.parametrize(("options", "seed"), [(["--seed", "5"], 5), (["--normalize", "trace"], 0)])
def test_drawn_kernels_of_a_file_keep_their_labels_and_are_normalised(tmp_path, npz, options, seed):
    path, problem = npz
    rows = np.sort(np.random.default_rng(seed).permutation(20)[:12])
    kernels = problem.kernels.dense()[:, rows][:, :, rows]
    drawn = Problem(kernels if seed else mklref.kernels.normalize(kernels, "trace"), problem.y[rows], C=100.0)
    solved = saved_objective(tmp_path, "--data", path, "--samples", "12", *options)
    assert solved == pytest.approx(native.solve(drawn, tol=1e-9).objective, rel=1e-8)


@pytest.mark.parametrize(
    ("loss", "data", "meaning"),
    [
        ("epsilon_insensitive:10", "diabetes", "numbers, as given"),
        ("squared", "breast_cancer", "benign = -1"),
        ("one_class", "breast_cancer", "ignored: one class"),
        ("density_level_set", "breast_cancer", "ignored: one class"),
    ],
)
def test_targets_follow_the_loss(loss, data, meaning, run):
    assert meaning in run(["solve", "--data", data, "--loss", loss, "--C", "2", *SMALL]).out


@pytest.mark.parametrize(("loss", "positive"), [("squared", "1"), ("hinge", None)])
def test_numbers_are_classes_where_the_loss_or_the_option_says_so(loss, positive):
    labels, meaning = targets_for_loss(np.array([1.0, 0.0, 1.0]), Namespace(loss=as_loss(loss), positive=positive))
    assert labels.tolist() == [1.0, -1.0, 1.0]
    assert meaning == "0 = -1 (1 sample), 1 = +1 (2 samples)"


def test_a_draw_without_a_seed_is_that_of_seed_0():
    options = ["solve", "--samples", "12", "--kernels", "linear"]
    drawn = [read(parser().parse_args([*options, *seed])).kernels.dense() for seed in ([], ["--seed", "0"])]
    np.testing.assert_array_equal(*drawn)


def test_solve_saves_what_it_prints(capsys, tmp_path):
    file = tmp_path / "point.npz"
    assert main(["solve", *SMALL, "--p", "2", "--save", str(file)]) == 0
    saved = Solution.load(file)
    support = f"{np.count_nonzero(saved.dual_coef)} of 30 samples, {np.count_nonzero(saved.weights)} kernels"
    printed = capsys.readouterr().out
    assert f"{saved.objective:.12g}" in printed
    assert f"support:  {support}\n" in printed
    assert saved.certificate.is_optimal(1e-6)


def test_solve_without_the_asked_gap_has_exit_code_1(monkeypatch, npz, run):
    path, problem = npz
    loose = native.solve(problem, tol=1e-2)
    monkeypatch.setattr(native, "solve", lambda problem, **options: loose)
    assert loose.certificate.explain().splitlines()[-1] in run(["solve", "--data", path, "--tol", "1e-12"], 1).out


def test_json_and_report(tmp_path, monkeypatch):
    monkeypatch.setattr("mklref.report.figures._svg", lambda *_: "<svg/>")  # most of the time, and tested by itself
    files = tmp_path / "check.json", tmp_path / "check.html"
    options = ["--p", "1,inf", "--json", str(files[0]), "--report", str(files[1])]
    assert main(["crosscheck", *SMALL, *ONE_ROW, *options]) == 0
    content = json.loads(files[0].read_text(), parse_constant=pytest.fail)
    assert [check["title"] for check in content["checks"]] == ["hinge, p = 1, C = 100", "hinge, p = inf, C = 100"]
    assert content["checks"][0]["problem"]["names"] == ["linear", "rbf:1", "rbf:4"]
    assert content["facts"]["samples"] == "30 of 569, drawn with seed 0"
    assert "cvxpy" in content["facts"]["versions"]
    page = files[1].read_text("utf-8")
    assert page.count("<svg") == 8
    assert "30 of 569" in page


def test_all_formulations(monkeypatch, run):
    monkeypatch.setattr(reference.Compiled, "solve", Mock(side_effect=SolverFailure("none is asked here.")))
    out = run(["crosscheck", *SMALL, "--p", "1", "--formulations", "all", "--solvers", "clarabel"], 1).out
    for name in reference.formulations(make_problem(regularizer="l1")):
        assert name in out


def test_list_names_everything_that_is_there(run):
    out = run(["list"]).out
    for name in [*reference.formulations(), *mklref.losses.LOSSES, "Lp", "Fixed", *reference.SOLVERS, "native"]:
        assert name in out
    assert ("compiled" in out) == native.AVAILABLE
    import clarabel

    assert clarabel.__version__ in out


def test_list_equivalences(run):
    out = " ".join(run(["list", "--equivalences"]).out.split())
    for row in equivalences.table():
        for word in ("left", "right", "parameters", "condition", "source"):
            assert row[word] == equivalences.NONE or " ".join(row[word].split()) in out
